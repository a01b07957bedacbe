//! The OpenAPI document, as the reference reads it.

use serde_json::Value;

/// The document and its operations.
pub(super) struct Spec {
    pub(super) document: Value,
    pub(super) operations: Vec<Operation>,
    /// The names and the descriptions of the tags.
    pub(super) tags: Vec<(String, String)>,
}

/// An operation.
pub(super) struct Operation {
    pub(super) id: String,
    /// The method in capitals.
    pub(super) method: String,
    pub(super) path: String,
    pub(super) tag: String,
    pub(super) summary: String,
    pub(super) description: String,
    pub(super) value: Value,
}

impl Operation {
    /// Returns the path of the page.
    pub(super) fn page(&self) -> String {
        format!("/docs/reference/{}", self.id)
    }

    /// Returns `true` unless the operation needs no key.
    pub(super) fn needs_key(&self) -> bool {
        self.value.get("security").is_none()
    }

    /// Returns the scope that a key needs at least.
    pub(super) fn scope(&self) -> &str {
        text(&self.value["x-required-key"], "scope")
    }

    /// Returns `true` if a key that is limited to projects is refused.
    pub(super) fn needs_all_projects(&self) -> bool {
        self.value["x-required-key"]["allProjects"] == true
    }

    /// Returns the parameters, which can be references.
    pub(super) fn parameters(&self) -> &[Value] {
        self.value["parameters"].as_array().map(Vec::as_slice).unwrap_or_default()
    }
}

/// Returns the text in a field, or an empty one.
pub(super) fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

impl Spec {
    pub(super) fn new(document: Value) -> Self {
        let mut operations = Vec::new();
        for (path, item) in document["paths"].as_object().into_iter().flatten() {
            for (method, value) in item.as_object().into_iter().flatten() {
                let own = |field: &str| text(value, field).to_owned();
                operations.push(Operation {
                    id: own("operationId"),
                    method: method.to_ascii_uppercase(),
                    path: path.clone(),
                    tag: value["tags"][0].as_str().unwrap_or_default().to_owned(),
                    summary: own("summary"),
                    description: own("description"),
                    value: value.clone(),
                });
            }
        }
        let tag = |tag: &Value| (text(tag, "name").to_owned(), text(tag, "description").to_owned());
        let mut tags: Vec<(String, String)> = document["tags"].as_array().into_iter().flatten().map(tag).collect();
        // The reference begins with what clients need first.
        let order = ["Jobs", "Messages", "Events", "Webhooks", "Projects", "Keys"];
        tags.sort_by_key(|(name, _)| order.iter().position(|known| known == name).unwrap_or(order.len()));
        Self { document, operations, tags }
    }

    /// Follows the reference of a schema, a header or a parameter.
    pub(super) fn resolve<'v>(&'v self, value: &'v Value) -> &'v Value {
        let pointer = value.get("$ref").and_then(Value::as_str).and_then(|reference| reference.strip_prefix('#'));
        pointer.and_then(|pointer| self.document.pointer(pointer)).unwrap_or(value)
    }

    /// Returns a schema by its name.
    pub(super) fn schema(&self, name: &str) -> &Value {
        &self.document["components"]["schemas"][name]
    }

    /// Returns the statuses of the responses that have an error code, such as `404, 422`.
    pub(super) fn statuses(&self, code: &str) -> String {
        let statuses = self.schema("ErrorCode")["x-statuses"][code].as_array();
        statuses.into_iter().flatten().map(Value::to_string).collect::<Vec<_>>().join(", ")
    }

    /// Returns the values of an enumeration with their meanings, which are a list in its description.
    pub(super) fn values(&self, schema: &str) -> Vec<(&str, &str)> {
        let lines = text(self.schema(schema), "description").lines();
        lines.filter_map(|line| line.strip_prefix("- `")?.split_once("`: ")).collect()
    }
}
