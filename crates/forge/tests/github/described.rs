//! GitHub's descriptions of its interface (OpenAPI 3.0), and the comparison of requests and answers with them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};

use journeyman_testkit::code_host::{Call, Exchange, Reply};
use jsonschema::Validator;
use serde_json::Value;

use super::schema::{Part, json_schema};

/// The folder of the test's packages.
pub(crate) const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/github");

/// The interfaces: github.com, and the oldest version of GitHub Enterprise Server in the package.
const DOCUMENTS: [&str; 2] = ["api.github.com", "ghes-3.17"];

/// Returns the path of a file in a package.
pub(crate) fn packaged(file: &str) -> PathBuf {
    PathBuf::from(FOLDER).join("node_modules/@octokit").join(file)
}

/// Reads a JSON file of a package.
pub(crate) fn read(file: &str) -> Value {
    let path = packaged(file);
    let text = std::fs::read(&path);
    let text = text.unwrap_or_else(|error| panic!("{} is missing ({error}); run: make setup-test", path.display()));
    serde_json::from_slice(&text).unwrap()
}

/// Returns the descriptions.
pub(crate) fn descriptions() -> &'static [Description] {
    static READ: OnceLock<Vec<Description>> = OnceLock::new();
    READ.get_or_init(|| {
        let describe = |name| Description {
            name,
            document: read(&format!("openapi/generated/{name}.json")),
            validators: Mutex::default(),
        };
        DOCUMENTS.map(describe).into()
    })
}

/// Returns whether the descriptions are installed.
pub(crate) fn are_installed() -> bool {
    packaged("openapi").exists()
}

/// A description of GitHub's interface.
pub(crate) struct Description {
    name: &'static str,
    document: Value,
    /// The compiled schemas, by operation and part.
    validators: Mutex<HashMap<String, Validator>>,
}

/// The operation of a request.
pub(crate) struct Operation<'a> {
    /// The name that GitHub gives it, such as `pulls/create`.
    pub(crate) id: &'a str,
    described: &'a Value,
    /// The parameters in the path, with their values.
    path: Vec<(&'a str, &'a str)>,
}

/// Returns the described path of a request. GitHub redirects requests about a renamed repository to an address with its
/// ID, which the client also uses to recognize a repository. GitHub does not describe this address.
fn described_path(segments: &[String]) -> Vec<&str> {
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    match segments.as_slice() {
        ["api", "v3", "repositories", _, below @ ..] => [&["repos", "owner", "name"], below].concat(),
        ["api", "v3", below @ ..] => below.to_vec(),
        other => other.to_vec(),
    }
}

/// Returns the parameters of a path that fits a template, such as `/repos/{owner}/{repo}`.
fn parameters<'a>(template: &'a str, segments: &[&'a str]) -> Option<Vec<(&'a str, &'a str)>> {
    let parts: Vec<&str> = template.trim_start_matches('/').split('/').collect();
    if parts.len() != segments.len() {
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
    /// Returns the operation of a request; `None` if GitHub describes none.
    pub(crate) fn operation<'a>(&'a self, call: &'a Call) -> Option<Operation<'a>> {
        let segments = described_path(&call.segments);
        let method = call.method.as_str().to_lowercase();
        let fitting = self.document["paths"].as_object()?.iter().filter_map(|(template, methods)| {
            let described = methods.get(&method)?;
            let path = parameters(template, &segments)?;
            Some(Operation { id: described["operationId"].as_str()?, described, path })
        });
        // `/issues/comments` also fits the template `/issues/{issue_number}`.
        fitting.min_by_key(|operation| operation.path.len())
    }

    /// Returns what is wrong with a request and its answer.
    pub(crate) fn problems(&self, exchange: &Exchange) -> Vec<String> {
        let call = &exchange.call;
        let request = format!("{}: {} {}", self.name, call.method, call.target);
        let Some(operation) = self.operation(call) else {
            return vec![format!("{request}: GitHub describes no such operation")];
        };
        let mut problems = self.parameter_problems(&operation, call);
        problems.extend(self.body_problems(&operation, call));
        if let Some(reply) = &exchange.reply {
            problems.extend(self.reply_problems(&operation, reply));
        }
        problems.into_iter().map(|problem| format!("{request} ({}): {problem}", operation.id)).collect()
    }

    fn parameter_problems(&self, operation: &Operation<'_>, call: &Call) -> Vec<String> {
        let described = operation.described["parameters"].as_array().into_iter().flatten();
        let described: Vec<&Value> = described.map(|parameter| self.resolved(parameter)).collect();
        let path = operation.path.iter().map(|(name, text)| ("path", *name, *text));
        let query = call.query.iter().map(|(name, text)| ("query", name.as_str(), text.as_str()));
        let mut problems = Vec::new();
        for (place, name, text) in path.chain(query) {
            let Some(found) = described.iter().find(|one| one["in"] == place && one["name"] == name) else {
                problems.push(format!("the {place} parameter {name} is not described"));
                continue;
            };
            let value = typed(text, self.resolved(&found["schema"]));
            let part = format!("the {place} parameter {name}");
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

    fn body_problems(&self, operation: &Operation<'_>, call: &Call) -> Vec<String> {
        let described = self.resolved(&operation.described["requestBody"]);
        let schema = &described["content"]["application/json"]["schema"];
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
            // GitHub describes few of the refusals and redirects.
            let is_success = (200..300).contains(&reply.status);
            return is_success.then(|| format!("status {} is not described", reply.status)).into_iter().collect();
        };
        let schema = &self.resolved(described)["content"]["application/json"]["schema"];
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
        let validator = validators.entry(format!("{}: {name}", operation.id)).or_insert_with(|| {
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

/// Parses the text of a parameter according to the type in its schema.
fn typed(text: &str, schema: &Value) -> Value {
    let parsed = match schema["type"].as_str() {
        Some("integer" | "number" | "boolean") => serde_json::from_str(text).ok(),
        _ => None,
    };
    parsed.unwrap_or_else(|| text.into())
}
