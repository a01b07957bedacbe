//! Tests of all pages of the documentation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde_json::Value;

use super::Portal;
use crate::highlight::Highlighter;

/// The documentation of the stored OpenAPI document. The tests share it, so that each page is rendered once.
static PORTAL: LazyLock<Portal> = LazyLock::new(|| {
    let document: Value = serde_json::from_str(include_str!("../../../../docs/openapi.json")).unwrap();
    Portal::new(document, "http://localhost:8080")
});

static HIGHLIGHTER: LazyLock<Highlighter> = LazyLock::new(Highlighter::new);

/// Returns the content of all pages by path.
fn contents() -> BTreeMap<&'static str, String> {
    let render = |page: &super::Page| PORTAL.content(page, &HIGHLIGHTER).unwrap().body.to_string();
    PORTAL.pages.iter().map(|page| (page.path.as_str(), render(page))).collect()
}

/// Returns the values of an attribute in markup.
fn values<'h>(html: &'h str, attribute: &str) -> Vec<&'h str> {
    html.split(&format!(" {attribute}=\"")).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn each_operation_has_a_page_with_its_parameters_responses_and_three_examples() {
    let portal = &*PORTAL;
    let pages = contents();
    for operation in &portal.sources.spec.operations {
        let html = &pages[operation.page().as_str()];
        for name in operation.parameters().iter().map(|parameter| portal.sources.spec.resolve(parameter)) {
            let name = name["name"].as_str().unwrap();
            assert!(html.contains(&format!("<code>{name}</code>")), "{}: {name}", operation.id);
        }
        for status in operation.value["responses"].as_object().unwrap().keys() {
            assert!(html.contains(&format!(">{status}<")), "{}: {status}", operation.id);
        }
        for language in ["curl", "python", "typescript"] {
            let (_, code) = html.split_once(&format!("<code id=\"example-{language}\">")).unwrap();
            assert!(!code.starts_with("</code>"), "{}: {language}", operation.id);
        }
    }
    assert!(portal.sources.spec.operations.len() > 60);
}

#[test]
fn each_operation_has_one_example_in_each_language() {
    let portal = &*PORTAL;
    let mut operations: Vec<&str> =
        portal.sources.spec.operations.iter().map(|operation| operation.id.as_str()).collect();
    operations.sort_unstable();
    for regions in [&portal.sources.python, &portal.sources.typescript] {
        let mut names = regions.names();
        names.sort_unstable();
        assert_eq!(names, operations);
    }
}

#[test]
fn an_operation_says_which_key_it_needs_and_an_error_code_its_status() {
    let pages = contents();
    for (operation, text) in [
        ("listJobs", "the scope <code>read</code> or a wider one (<a"),
        ("archiveJob", "the scope <code>write</code> or a wider one (<a"),
        ("createKey", "the scope <code>write</code> or a wider one, that is not limited to projects (<a"),
        ("exchangeToken", "<p>Needs no key.</p>"),
    ] {
        assert!(pages[format!("/docs/reference/{operation}").as_str()].contains(text), "{operation}");
    }
    let portal = &*PORTAL;
    for (code, _) in portal.sources.spec.values("ErrorCode") {
        assert!(!portal.sources.spec.statuses(code).is_empty(), "{code}");
    }
    assert_eq!(portal.sources.spec.statuses("repository_not_found"), "404, 422");
    let keyless = portal.sources.spec.operations.iter().find(|one| !one.needs_key()).unwrap();
    let keyless = super::curl::request(&portal.sources.spec, keyless);
    assert!(!keyless.contains("Authorization"), "{keyless}");
}

#[test]
fn each_reference_in_the_document_leads_to_something() {
    fn check(document: &Value, value: &Value) {
        match value {
            Value::Object(fields) => {
                if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
                    assert!(document.pointer(reference.strip_prefix('#').unwrap()).is_some(), "{reference}");
                }
                fields.values().for_each(|value| check(document, value));
            }
            Value::Array(values) => values.iter().for_each(|value| check(document, value)),
            _ => {}
        }
    }
    let portal = &*PORTAL;
    check(&portal.sources.spec.document, &portal.sources.spec.document);
}

#[test]
fn each_link_leads_to_a_page_and_a_section() {
    let pages = contents();
    let outside = ["/docs/openapi.json", "/keys", "/projects"];
    let mut wrong = Vec::new();
    for (path, html) in &pages {
        for link in values(html, "href") {
            let (page, section) = link.split_once('#').unwrap_or((link, ""));
            let page = if page.is_empty() { *path } else { page };
            if page.starts_with("https://") || page.starts_with("http://") || outside.contains(&page) {
                continue;
            }
            let found = pages.get(page).is_some_and(|html| section.is_empty() || values(html, "id").contains(&section));
            if !found {
                wrong.push(format!("{path}: {link}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn ids_are_unique_and_the_table_of_contents_names_them() {
    let portal = &*PORTAL;
    let pages = contents();
    for page in &portal.pages {
        let ids = values(&pages[page.path.as_str()], "id");
        let unique: BTreeSet<&&str> = ids.iter().collect();
        assert_eq!(unique.len(), ids.len(), "{}: {ids:?}", page.path);
        for section in portal.content(page, &HIGHLIGHTER).unwrap().sections {
            assert!(ids.contains(&section.id.as_str()), "{}: {}", page.path, section.id);
        }
    }
}

#[test]
fn no_page_loads_anything_from_another_host() {
    for (path, html) in contents() {
        for attribute in ["src", "srcset", "style", "onclick", "data"] {
            assert!(values(&html, attribute).is_empty(), "{path}: {attribute}");
        }
    }
}
