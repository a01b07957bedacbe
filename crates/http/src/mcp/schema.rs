//! JSON schemas of tools, from the wire types.

use std::sync::Arc;

use rmcp::model::JsonObject;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::document::schemas::without_null;

const COMPONENTS: &str = "#/components/schemas/";

/// Returns the schema of a result, with the schemas that it refers to in `$defs`.
pub(super) fn output<T: ToSchema>() -> Arc<JsonObject> {
    Arc::new(built::<T>())
}

/// Returns the schema of arguments. An optional argument is left out, and never null.
pub(super) fn input<T: ToSchema>() -> Arc<JsonObject> {
    input_with::<T>(Value::Null, &[])
}

/// Returns the schema of arguments with other properties, of which some are required.
pub(super) fn input_with<T: ToSchema>(more: Value, required: &[&str]) -> Arc<JsonObject> {
    let mut schema = built::<T>();
    for property in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut) {
        without_null(property);
    }
    if let (Some(Value::Object(properties)), Value::Object(more)) = (schema.get_mut("properties"), more) {
        properties.extend(more);
    }
    let names = schema.entry("required").or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(names) = names {
        names.extend(required.iter().map(|name| Value::from(*name)));
    }
    Arc::new(schema)
}

fn built<T: ToSchema>() -> Map<String, Value> {
    let mut referred = Vec::new();
    T::schemas(&mut referred);
    let mut definitions: Map<String, Value> = Map::new();
    for (name, schema) in referred {
        definitions.insert(name, local(json_of(&schema)));
    }
    let mut schema = match local(json_of(&T::schema())) {
        Value::Object(schema) => schema,
        _ => Map::new(),
    };
    if !definitions.is_empty() {
        schema.insert("$defs".to_owned(), Value::Object(definitions));
    }
    schema
}

fn json_of(schema: &impl serde::Serialize) -> Value {
    serde_json::to_value(schema).unwrap_or_default()
}

/// Makes references point to `$defs`.
fn local(schema: Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, value)| match (name.as_str(), &value) {
                ("$ref", Value::String(path)) => {
                    let own = path.strip_prefix(COMPONENTS).map(|rest| format!("#/$defs/{rest}"));
                    (name, own.map_or(value.clone(), Value::String))
                }
                _ => (name, local(value)),
            });
            Value::Object(fields.collect())
        }
        Value::Array(values) => Value::Array(values.into_iter().map(local).collect()),
        other => other,
    }
}
