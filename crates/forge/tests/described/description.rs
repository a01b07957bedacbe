//! The descriptions that code hosts publish of their interfaces (OpenAPI 3.0), and the comparison of requests and
//! answers with them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use journeyman_testkit::code_host::{ApiRequest, Exchange, Product, Reply};
use jsonschema::Validator;
use serde_json::Value;

use super::schema::{Part, json_schema};
use crate::github::packages::packaged;

/// The folder of the descriptions of Gitea, Forgejo and Bitbucket.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/descriptions/node_modules/descriptions");

/// The folder of the description that is stored with the tests.
const STORED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/described");

/// Reads a JSON file that `make setup-test` installs.
pub(crate) fn read_json(path: &Path) -> Value {
    let text = std::fs::read(path);
    let text = text.unwrap_or_else(|error| panic!("{} is missing ({error}); run: make setup-test", path.display()));
    serde_json::from_slice(&text).unwrap()
}

/// Returns the documents of a product: of github.com, and of the oldest version of GitHub Enterprise Server in the
/// package. No package has the document of GitLab, so the names and types of the operations that the client uses are
/// stored here (docs/decisions/0077-descriptions-of-code-hosts.md).
fn documents(product: Product) -> Vec<PathBuf> {
    let github = |name: &str| packaged(&format!("openapi/generated/{name}.json"));
    let converted = |name: &str| PathBuf::from(FOLDER).join(name);
    match product {
        Product::Github => vec![github("api.github.com"), github("ghes-3.17")],
        Product::Gitlab => vec![PathBuf::from(STORED).join("gitlab.json")],
        Product::Gitea => vec![converted("gitea.json")],
        Product::Forgejo => vec![converted("forgejo.json")],
        Product::Bitbucket => vec![converted("bitbucket.json")],
        Product::BitbucketDataCenter => vec![converted("bitbucket-data-center.json")],
    }
}

/// Returns the descriptions of a product.
pub(crate) fn descriptions(product: Product) -> &'static [Description] {
    static READ: [OnceLock<Vec<Description>>; 6] = [const { OnceLock::new() }; 6];
    let describe = |path: PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        Description { product, name, document: read_json(&path), validators: Mutex::default() }
    };
    READ[product as usize].get_or_init(|| documents(product).into_iter().map(describe).collect())
}

/// Returns whether the descriptions of a product are installed.
pub(crate) fn are_installed(product: Product) -> bool {
    documents(product).iter().all(|path| path.exists())
}

/// A description of the interface of a product.
pub(crate) struct Description {
    product: Product,
    /// The name of its file, for failures.
    name: String,
    document: Value,
    /// The compiled schemas, by operation and part.
    validators: Mutex<HashMap<String, Validator>>,
}

/// The operation of a request.
pub(crate) struct Operation<'a> {
    /// The name that the host gives it, such as `pulls/create`; otherwise its path.
    pub(crate) id: &'a str,
    /// The path with parameters.
    pub(crate) template: &'a str,
    described: &'a Value,
    /// The parameters in the path, with their values.
    path: Vec<(&'a str, &'a str)>,
}

/// Returns the described path of a request.
pub(super) fn described_path(product: Product, call: &ApiRequest) -> Vec<&str> {
    let segments: Vec<&str> = call.segments.iter().map(String::as_str).collect();
    match (product, segments.as_slice()) {
        // GitHub redirects requests about a renamed repository to an address with its ID, which the client also uses to
        // recognize a repository. GitHub does not describe this address.
        (Product::Github, ["api", "v3", "repositories", _, below @ ..]) => {
            [&["repos", "owner", "name"], below].concat()
        }
        (Product::Github, ["api", "v3", below @ ..])
        | (Product::Gitlab, ["api", "v4", below @ ..])
        | (Product::Gitea | Product::Forgejo, ["api", "v1", below @ ..])
        | (Product::Bitbucket, ["2.0", below @ ..])
        | (Product::BitbucketDataCenter, ["rest", below @ ..]) => below.to_vec(),
        (_, other) => other.to_vec(),
    }
}

/// The last parameters of paths that take several segments in Gitea and Forgejo: their routes end in `/*`
/// (`routers/api/v1/api.go`), which Swagger cannot express.
const REST: [&str; 2] = ["{branch}", "{ref}"];

/// Returns the parameters of a path that fits a template, such as `/repos/{owner}/{repo}`.
fn parameters<'a>(product: Product, template: &'a str, segments: &[&'a str]) -> Option<Vec<(&'a str, &'a str)>> {
    let parts: Vec<&str> = template.trim_start_matches('/').split('/').collect();
    let takes_rest = matches!(product, Product::Gitea | Product::Forgejo) && REST.contains(parts.last()?);
    if parts.len() != segments.len() && !(takes_rest && parts.len() < segments.len()) {
        return None;
    }
    let mut found = Vec::new();
    for (part, segment) in parts.into_iter().zip(segments) {
        match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
            Some(name) => found.push((name, *segment)),
            None if part == *segment => {}
            None => return None,
        }
    }
    Some(found)
}

impl Description {
    /// Returns the operation of a request; `None` if the host describes none.
    pub(crate) fn operation<'a>(&'a self, call: &'a ApiRequest) -> Option<Operation<'a>> {
        let segments = described_path(self.product, call);
        let method = call.method.as_str().to_lowercase();
        let fitting = self.document["paths"].as_object()?.iter().filter_map(|(template, methods)| {
            let described = methods.get(&method)?;
            let path = parameters(self.product, template, &segments)?;
            let id = described["operationId"].as_str().unwrap_or(template);
            Some(Operation { id, template, described, path })
        });
        // `/issues/comments` also fits the template `/issues/{issue_number}`.
        fitting.min_by_key(|operation| operation.path.len())
    }

    /// Returns what is wrong with a request and its answer.
    pub(crate) fn problems(&self, exchange: &Exchange) -> Vec<String> {
        let call = &exchange.call;
        let request = format!("{}: {} {}", self.name, call.method, call.target);
        let Some(operation) = self.operation(call) else {
            return vec![format!("{request}: no such operation is described")];
        };
        let mut problems = self.parameter_problems(&operation, call);
        problems.extend(self.body_problems(&operation, call));
        // Other hosts than GitHub describe their answers too loosely to compare the stand-ins with them: Gitea and Forgejo
        // send `null` for lists and the property `username` of users, and Data Center `null` for each absent value.
        if let Some(reply) = exchange.reply.as_ref().filter(|_| self.product == Product::Github) {
            problems.extend(self.reply_problems(&operation, reply));
        }
        problems.into_iter().map(|problem| format!("{request} ({}): {problem}", operation.id)).collect()
    }

    fn parameter_problems(&self, operation: &Operation<'_>, call: &ApiRequest) -> Vec<String> {
        let described = operation.described["parameters"].as_array().into_iter().flatten();
        let described: Vec<&Value> = described.map(|parameter| self.resolved(parameter)).collect();
        let path = operation.path.iter().map(|(name, text)| ("path", *name, *text));
        let query = call.query.iter().map(|(name, text)| ("query", name.as_str(), text.as_str()));
        let mut problems = Vec::new();
        for (location, name, text) in path.chain(query) {
            let Some(found) = described.iter().find(|one| one["in"] == location && one["name"] == name) else {
                problems.push(format!("the {location} parameter {name} is not described"));
                continue;
            };
            let value = typed(text, self.resolved(&found["schema"]));
            let part = format!("the {location} parameter {name}");
            problems.extend(self.mismatches(operation, &part, &found["schema"], Part::Request, &value));
        }
        for missing in described.iter().filter(|one| one["in"] == "query" && one["required"] == true) {
            let name = missing["name"].as_str().unwrap();
            if call.parameter(name).is_none() {
                problems.push(format!("the query parameter {name} is missing"));
            }
        }
        problems
    }

    fn body_problems(&self, operation: &Operation<'_>, call: &ApiRequest) -> Vec<String> {
        let described = self.resolved(&operation.described["requestBody"]);
        let schema = &json_of(described)["schema"];
        if call.body.is_null() {
            let is_missing = described["required"] == true;
            return is_missing.then(|| "the body is missing".to_owned()).into_iter().collect();
        }
        if schema.is_null() {
            return vec!["the operation has no body".to_owned()];
        }
        self.mismatches(operation, "the body", schema, Part::Request, &call.body)
    }

    fn reply_problems(&self, operation: &Operation<'_>, reply: &Reply) -> Vec<String> {
        let Some(described) = operation.described["responses"].get(reply.status.to_string()) else {
            // Hosts describe few of the refusals and redirects.
            let is_success = (200..300).contains(&reply.status);
            return is_success.then(|| format!("status {} is not described", reply.status)).into_iter().collect();
        };
        let schema = &json_of(self.resolved(described))["schema"];
        if schema.is_null() {
            return Vec::new();
        }
        match serde_json::from_slice(&reply.body) {
            Ok(body) => {
                let part = format!("the answer with status {}", reply.status);
                self.mismatches(operation, &part, schema, Part::Answer, &body)
            }
            Err(error) => vec![format!("the answer is not JSON: {error}")],
        }
    }

    /// Returns where a value does not match the schema of a part of an operation, such as `the body`.
    fn mismatches(
        &self,
        operation: &Operation<'_>,
        name: &str,
        schema: &Value,
        part: Part,
        value: &Value,
    ) -> Vec<String> {
        let mut validators = self.validators.lock().unwrap();
        let validator =
            validators.entry(format!("{} {}: {name}", operation.template, operation.id)).or_insert_with(|| {
                let schema = json_schema(&self.document, schema, part);
                let options = jsonschema::options().with_draft(jsonschema::Draft::Draft202012);
                options.should_validate_formats(true).build(&schema).unwrap()
            });
        let shown = |error: jsonschema::ValidationError<'_>| {
            let text = error.to_string();
            // Some messages contain the whole value.
            let text = if text.len() > 300 { error.masked().to_string() } else { text };
            format!("{name}, at \"{}\": {text}", error.instance_path())
        };
        validator.iter_errors(value).map(shown).collect()
    }

    /// Follows a reference.
    fn resolved<'a>(&'a self, value: &'a Value) -> &'a Value {
        let target = |reference: &str| self.document.pointer(&reference[1..]).unwrap();
        value["$ref"].as_str().map_or(value, target)
    }
}

/// Returns what a body or an answer contains as JSON. Data Center describes some bodies as of any type.
fn json_of(described: &Value) -> &Value {
    let content = &described["content"];
    content.get("application/json").unwrap_or(&content["*/*"])
}

/// Parses the text of a parameter according to the type in its schema. A parameter that is a list is repeated for each
/// of its values.
fn typed(text: &str, schema: &Value) -> Value {
    let parsed = match schema["type"].as_str() {
        Some("array") => Some(Value::Array(vec![typed(text, &schema["items"])])),
        Some("integer" | "number" | "boolean") => serde_json::from_str(text).ok(),
        _ => None,
    };
    parsed.unwrap_or_else(|| text.into())
}
