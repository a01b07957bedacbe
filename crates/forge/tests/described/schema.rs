//! Converts schemas of OpenAPI 3.0 into JSON Schema.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The values that a schema is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// A part of a request, which must be complete.
    Request,
    /// An answer of the stand-in, which has only the properties that the client reads.
    Answer,
}

/// Returns a schema of a document as JSON Schema, with all schemas that it refers to. Properties that the document does
/// not declare are invalid, although OpenAPI permits them.
pub(crate) fn json_schema(document: &Value, schema: &Value, part: Part) -> Value {
    let mut conversion = Conversion { document, part, definitions: BTreeMap::new() };
    let converted = conversion.converted(schema, true);
    json!({"allOf": [converted], "$defs": conversion.definitions})
}

struct Conversion<'a> {
    document: &'a Value,
    part: Part,
    definitions: BTreeMap<String, Value>,
}

impl Conversion<'_> {
    /// Converts a schema. `is_closed` is false for the parts of a combined schema: each of them declares only some
    /// properties of the object.
    fn converted(&mut self, schema: &Value, is_closed: bool) -> Value {
        let Value::Object(fields) = schema else { return schema.clone() };
        if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
            return json!({"$ref": self.defined(reference, is_closed)});
        }
        let mut converted = Map::new();
        for (name, value) in fields {
            let (name, value) = match name.as_str() {
                "required" if self.part == Part::Answer => continue,
                // Without their required properties, the alternatives are not exclusive.
                "oneOf" if self.part == Part::Answer => ("anyOf", self.alternatives(value)),
                "allOf" | "anyOf" | "oneOf" => (name.as_str(), self.alternatives(value)),
                "properties" => (name.as_str(), self.properties(value)),
                "items" | "additionalProperties" => (name.as_str(), self.converted(value, true)),
                "type" | "required" | "enum" | "format" | "pattern" | "minimum" | "maximum" | "minLength"
                | "maxLength" | "minItems" | "maxItems" | "uniqueItems" => (name.as_str(), value.clone()),
                _ => continue,
            };
            converted.insert(name.to_owned(), value);
        }
        let declares = |name: &str| fields.get(name).is_some_and(|value| *value != json!({}));
        let is_combined = ["allOf", "anyOf", "oneOf"].into_iter().any(declares);
        if !fields.contains_key("additionalProperties") {
            if !declares("properties") && !is_combined {
                converted.insert("additionalProperties".to_owned(), json!(true));
            } else if is_closed {
                converted.insert("unevaluatedProperties".to_owned(), json!(false));
            }
        }
        if fields.get("nullable") == Some(&json!(true)) { nullable(converted) } else { converted.into() }
    }

    fn alternatives(&mut self, schemas: &Value) -> Value {
        schemas.as_array().unwrap().iter().map(|schema| self.converted(schema, false)).collect()
    }

    fn properties(&mut self, schemas: &Value) -> Value {
        let converted = schemas.as_object().unwrap().iter();
        Value::Object(converted.map(|(name, schema)| (name.clone(), self.converted(schema, true))).collect())
    }

    /// Converts a schema that others refer to, unless this was done before. Returns the new reference.
    fn defined(&mut self, reference: &str, is_closed: bool) -> String {
        let name = reference.rsplit('/').next().unwrap();
        let key = if is_closed { name.to_owned() } else { format!("{name}.open") };
        if !self.definitions.contains_key(&key) {
            // The schema may refer to itself.
            self.definitions.insert(key.clone(), Value::Null);
            let schema = self.document.pointer(&reference[1..]).unwrap();
            let converted = self.converted(schema, is_closed);
            self.definitions.insert(key.clone(), converted);
        }
        format!("#/$defs/{key}")
    }
}

/// Permits `null` in addition.
fn nullable(mut schema: Map<String, Value>) -> Value {
    if let Some(values) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        values.push(Value::Null);
    }
    match schema.get_mut("type") {
        Some(name) => {
            *name = json!([name, "null"]);
            schema.into()
        }
        None => json!({"anyOf": [{"type": "null"}, schema]}),
    }
}

#[test]
fn what_openapi_adds_to_json_schema_is_converted() {
    let document = json!({"components": {"schemas": {
        "user": {"type": "object", "properties": {"login": {"type": "string"}}, "required": ["login"]},
        "owner": {"allOf": [
            {"$ref": "#/components/schemas/user"},
            {"type": "object", "properties": {"plan": {"type": "string", "nullable": true, "enum": ["free"]}}},
        ]},
        "any": {"oneOf": [{"$ref": "#/components/schemas/user"}, {"type": "string"}], "nullable": true},
        "free": {"type": "object"},
    }}});
    for (name, part, value, is_valid) in [
        ("user", Part::Request, json!({"login": "ada"}), true),
        ("user", Part::Request, json!({}), false),
        ("user", Part::Answer, json!({}), true),
        ("user", Part::Answer, json!({"login": 1}), false),
        ("user", Part::Answer, json!({"name": "ada"}), false),
        ("owner", Part::Request, json!({"login": "ada", "plan": null}), true),
        ("owner", Part::Request, json!({"login": "ada", "plan": "free"}), true),
        ("owner", Part::Request, json!({"login": "ada", "plan": "team"}), false),
        ("owner", Part::Request, json!({"login": "ada", "name": "ada"}), false),
        ("any", Part::Request, json!(null), true),
        ("any", Part::Request, json!("ada"), true),
        ("any", Part::Request, json!({"login": "ada"}), true),
        ("any", Part::Request, json!({"login": "ada", "name": "ada"}), false),
        ("any", Part::Answer, json!(1), false),
        ("free", Part::Request, json!({"name": "ada"}), true),
    ] {
        let schema = json!({"$ref": format!("#/components/schemas/{name}")});
        let schema = json_schema(&document, &schema, part);
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        assert_eq!(validator.is_valid(&value), is_valid, "{name} {part:?} {value} {schema}");
    }
}
