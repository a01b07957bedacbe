//! Tests of the pages of templates, and of the form for a new job that a template fills in.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use journeyman_core::ports::{JobFilter, JobLists as _, KeyStore as _};
use journeyman_core::template::Template;
use journeyman_core::user::Role;
use journeyman_testkit::{FakeForges, all_stored};

use super::{Fixture, Reply, fixture, project};

const ADMIN: Option<Role> = Some(Role::Administrator);
const PATH: &str = "/projects/shop/settings/templates";
const VALUES: &str = "name=Fix+a+%3Cbug%3E&description=For+bug+reports&prompt=Fix+this+%3Cbug%3E:%0D%0A%0D%0A\
                      &agent=journeyman&model=other&model-other=anthropic/claude-x&labels=ui,+bug";

impl Fixture {
    async fn page_for(&self, role: Role, path: &str) -> String {
        let page = self.send(Some(role), Method::GET, path, "").await;
        assert_eq!(page.status, StatusCode::OK, "{path}: {}", page.body);
        page.body
    }

    async fn enter(&self, path: &str, form: &str) -> Reply {
        self.send(ADMIN, Method::POST, path, form).await
    }

    async fn templates(&self) -> Vec<Template> {
        all_stored::<Template>(&*self.store, Some(project().id)).await
    }

    /// Creates a template, and returns it with the path of its form.
    async fn template(&self) -> (Template, String) {
        let created = self.enter(PATH, VALUES).await;
        let expected = (StatusCode::SEE_OTHER, &*format!("{PATH}?done=created"));
        assert_eq!((created.status, created.header("location")), expected, "{}", created.body);
        let template = self.templates().await.remove(0);
        let form = format!("{PATH}/{}/edit", template.id);
        (template, form)
    }
}

#[tokio::test]
async fn a_template_is_created_edited_and_removed() {
    let fixture = fixture(Arc::new(FakeForges)).await;
    assert!(fixture.page_for(Role::Administrator, PATH).await.contains("No templates yet"));
    let new = fixture.page_for(Role::Administrator, &format!("{PATH}/new")).await;
    assert!(new.contains("<option value=\"\">journeyman (the project's)</option>"), "{new}");
    let (template, path) = fixture.template().await;
    let settings = &template.settings;
    assert_eq!((settings.name.as_str(), settings.prompt.as_str()), ("Fix a <bug>", "Fix this <bug>:\n\n"));
    assert_eq!(settings.model.as_deref(), Some("anthropic/claude-x"));
    assert_eq!(settings.labels.iter().collect::<Vec<_>>(), ["bug", "ui"]);
    let list = fixture.page_for(Role::Administrator, PATH).await;
    for part in ["Fix a &#60;bug&#62;", "For bug reports", "anthropic/claude-x", &format!("href=\"{path}\"")] {
        assert!(list.contains(part), "{part}: {list}");
    }

    let form = fixture.page_for(Role::Administrator, &path).await;
    for part in [
        "name=\"version\" value=\"1\"",
        "value=\"Fix a &#60;bug&#62;\"",
        "Fix this &#60;bug&#62;:\n\n</textarea>",
        "value=\"journeyman\" selected",
        "value=\"other\" selected",
        "value=\"anthropic/claude-x\"",
        "value=\"bug, ui\"",
    ] {
        assert!(form.contains(part), "{part}: {form}");
    }
    let unchanged = fixture.enter(&path, &format!("version=1&{VALUES}")).await;
    assert_eq!(unchanged.header("location"), format!("{PATH}?done=saved"));
    assert_eq!(fixture.templates().await, std::slice::from_ref(&template), "an unchanged form changes nothing");
    fixture.enter(&path, "version=1&name=Repair&prompt=x").await;
    let changed = fixture.templates().await.remove(0);
    assert_eq!((changed.version, &changed.settings.agent, changed.settings.labels.len()), (2, &None, 0));
    let late = fixture.enter(&path, &format!("version=1&{VALUES}")).await;
    assert_eq!(late.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", late.body);
    assert!(late.body.contains("Someone has changed the template") && late.body.contains("bug, ui"), "{}", late.body);

    let remove = path.replace("/edit", "/remove");
    assert_eq!(fixture.enter(&remove, "version=1").await.status, StatusCode::CONFLICT);
    let removed = fixture.enter(&remove, "version=2").await;
    assert_eq!(removed.header("location"), format!("{PATH}?done=removed"));
    assert_eq!(fixture.templates().await, []);
    assert_eq!(fixture.send(ADMIN, Method::GET, &path, "").await.status, StatusCode::NOT_FOUND);
    let entries = fixture.store.audit(None, 9).await.unwrap();
    let line = entries.iter().find(|line| line.entry.action == "template.removed").unwrap();
    assert_eq!(line.entry.subject, format!("shop/{} (Repair)", template.id));
    let audit = fixture.page_for(Role::Administrator, "/audit?what=template.&project=shop").await;
    assert!(audit.contains("removed the template") && audit.contains("created the template"), "{audit}");
}

#[tokio::test]
async fn a_form_that_is_sent_twice_creates_one_template() {
    let fixture = fixture(Arc::new(FakeForges)).await;
    for _ in 0..2 {
        let created = fixture.enter(PATH, &format!("once=a&{VALUES}")).await;
        assert_eq!(created.status, StatusCode::SEE_OTHER, "{}", created.body);
    }
    assert_eq!(fixture.templates().await.len(), 1);
}

#[tokio::test]
async fn a_refused_form_keeps_its_input_and_says_what_is_wrong() {
    let fixture = fixture(Arc::new(FakeForges)).await;
    let (template, _) = fixture.template().await;
    for (form, error) in [
        ("name=&prompt=what+I+typed", "name: must have 1 to 80 characters"),
        ("name=FIX+A+%3CBUG%3E&prompt=what+I+typed", "A template with this name already exists"),
        ("name=a&prompt=what+I+typed&agent=nobody", "no agent"),
        ("name=a&prompt=what+I+typed&description=%00", "description: can have"),
    ] {
        let refused = fixture.enter(PATH, form).await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{form}: {}", refused.body);
        assert!(refused.body.contains(error) && refused.body.contains("what I typed"), "{error}: {}", refused.body);
    }
    assert_eq!(fixture.templates().await, [template]);
}

#[tokio::test]
async fn members_use_templates_and_only_administrators_change_them() {
    let fixture = fixture(Arc::new(FakeForges)).await;
    let empty = fixture.page_for(Role::Member, PATH).await;
    assert!(empty.contains("An administrator can create one.") && !empty.contains("/templates/new"), "{empty}");
    let (template, path) = fixture.template().await;
    let used = format!("/projects/shop/jobs/new?template={}", template.id);
    for role in [Role::Member, Role::Viewer] {
        let list = fixture.page_for(role, PATH).await;
        assert!(!list.contains(&path) && !list.contains("/remove"), "{}: {list}", role.name());
        assert_eq!(list.contains(&used), role == Role::Member, "{}: {list}", role.name());
        for (method, path) in [(Method::GET, path.clone()), (Method::POST, path.replace("edit", "remove"))] {
            let refused = fixture.send(Some(role), method, &path, "").await;
            assert_eq!(refused.status, StatusCode::FORBIDDEN, "{} {path}", role.name());
        }
    }
    assert_eq!(fixture.templates().await, [template]);
}

#[tokio::test]
async fn a_template_fills_in_the_form_for_a_new_job() {
    let fixture = fixture(Arc::new(FakeForges)).await;
    let plain = fixture.page_for(Role::Member, "/projects/shop/jobs/new").await;
    assert!(plain.contains("an administrator can create") && !plain.contains("Start from a template"), "{plain}");
    let admin = fixture.page_for(Role::Administrator, "/projects/shop/jobs/new").await;
    assert!(admin.contains(&format!("<a href=\"{PATH}/new\">create a template</a>")), "{admin}");

    let (template, _) = fixture.template().await;
    let filling = format!("/projects/shop/jobs/new?template={}", template.id);
    let offered = fixture.page_for(Role::Member, "/projects/shop/jobs/new").await;
    assert!(offered.contains("Start from a template") && offered.contains(&filling), "{offered}");
    assert!(!offered.contains("Filled in from the template") && !offered.contains("Fix this"), "{offered}");
    let filled = fixture.page_for(Role::Member, &filling).await;
    for part in [
        "Filled in from the template <bdi>Fix a &#60;bug&#62;</bdi>",
        "Fix this &#60;bug&#62;:\n\n</textarea>",
        "value=\"journeyman\" selected",
        "value=\"anthropic/claude-x\"",
        "value=\"bug, ui\"",
        "<details open><summary>More options",
    ] {
        assert!(filled.contains(part), "{part}: {filled}");
    }
    let own = fixture.page_for(Role::Member, &format!("{filling}&prompt=My+own+text&labels=")).await;
    assert!(own.contains("My own text</textarea>") && own.contains("value=\"bug, ui\""), "what is given stays: {own}");
    for missing in ["tpl_0193456789ab7def8123456789abcdef", "none"] {
        let path = format!("/projects/shop/jobs/new?template={missing}");
        let page = fixture.send(ADMIN, Method::GET, &path, "").await;
        assert_eq!(page.status, StatusCode::NOT_FOUND, "{missing}");
        assert!(page.body.contains("There is no such template"), "{}", page.body);
    }
    let form = "prompt=Fix+this:+the+total&model=other&model-other=anthropic/claude-x&labels=bug,+ui";
    let sent = fixture.send(Some(Role::Member), Method::POST, "/projects/shop/jobs", form).await;
    assert_eq!(sent.status, StatusCode::SEE_OTHER, "{}", sent.body);
    assert_eq!(fixture.store.jobs(JobFilter::newest(project().id, 9)).await.unwrap().len(), 1);
    let refused = fixture.send(Some(Role::Member), Method::POST, "/projects/shop/jobs", "prompt=x&branch=a..b").await;
    assert!(refused.body.contains("data-typed") && refused.body.contains("Start from a template"), "{}", refused.body);
}
