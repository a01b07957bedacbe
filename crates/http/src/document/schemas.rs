//! Adjusts the schemas for code generators.

use serde_json::{Map, Value, json};

use crate::error::ErrorCode;

/// The fields of requests for which null and absence have different meanings.
const MEANT: [(&str, &str); 1] = [("CreateKey", "expiresAt")];

/// The requests that create a resource. A field that is left out has its default value, so null is not needed.
const CREATING: [&str; 6] =
    ["CreateCodeHost", "CreateJob", "CreateKey", "CreateProject", "CreateTemplate", "SendMessage"];

/// Returns the schema of the error codes, with their meanings.
pub(super) fn error_codes() -> Value {
    let codes = ErrorCode::all();
    let names: Vec<&str> = codes.iter().map(|code| code.name).collect();
    let lines: Vec<String> = codes.iter().map(|code| format!("- `{}`: {}", code.name, code.meaning)).collect();
    let statuses: Map<String, Value> = codes.iter().map(|code| (code.name.to_owned(), json!(code.statuses))).collect();
    let text = format!(
        "The error code, for programs. New codes may be added; the status gives the class of the error.\n\n{}",
        lines.join("\n")
    );
    json!({ "type": "string", "description": text, "enum": names, "x-statuses": statuses })
}

/// Removes null from the optional fields of requests that create a resource, and gives each nullable object a named
/// schema: code generators would otherwise give it a numbered name.
pub(super) fn adjust(schemas: &mut Map<String, Value>) {
    for name in CREATING {
        let Some(properties) = schemas.get_mut(name).and_then(|schema| schema["properties"].as_object_mut()) else {
            continue;
        };
        properties.iter_mut().filter(|(field, _)| !MEANT.contains(&(name, field.as_str()))).for_each(|(_, schema)| {
            without_null(schema);
        });
    }
    let mut named = Vec::new();
    for (name, schema) in schemas.iter_mut() {
        let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else { continue };
        for (field, schema) in properties {
            if let Some(object) = nullable_object(schema) {
                let own = format!("{name}{}", capitalized(field));
                let description = object.get("description").cloned();
                *schema = json!({ "oneOf": [{ "$ref": format!("#/components/schemas/{own}") }, { "type": "null" }] });
                if let Some(description) = description {
                    schema["description"] = description;
                }
                named.push((own, object));
            }
        }
    }
    schemas.extend(named);
    schemas.sort_keys();
}

/// Returns the schema of the object if a schema allows an object or null.
fn nullable_object(schema: &Value) -> Option<Value> {
    let types = schema["type"].as_array()?;
    if types.len() != 2 || !types.iter().any(|one| one == "object") {
        return None;
    }
    let mut object = schema.clone();
    object["type"] = json!("object");
    Some(object)
}

fn capitalized(field: &str) -> String {
    let (first, rest) = field.split_at(1);
    first.to_ascii_uppercase() + rest
}

/// Removes null from a schema.
pub(crate) fn without_null(schema: &mut Value) {
    if let Some(types) = schema.get_mut("type").and_then(Value::as_array_mut) {
        types.retain(|one| one != "null");
        if let [only] = types.as_slice() {
            schema["type"] = only.clone();
        }
    }
    let Some(choices) = schema.get("oneOf").and_then(Value::as_array) else { return };
    let rest: Vec<&Value> = choices.iter().filter(|one| one["type"] != "null").collect();
    if let [only] = rest.as_slice()
        && choices.len() == 2
    {
        *schema = (*only).clone();
    }
}
