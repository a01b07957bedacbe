//! Schemas as nested lists of fields.

use askama::Template;
use serde_json::{Map, Value, json};

use super::spec::{Spec, text};
use super::writer::Writer;
use crate::fragment::Fragment;
use crate::markdown::Markup;

/// The maximum depth of nested lists.
const MAX_DEPTH: usize = 5;

/// A field, a parameter or a header.
pub(super) struct Field {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) required: bool,
    pub(super) text: Markup,
    /// The constraints, such as `at least 1`.
    pub(super) facts: Vec<String>,
    /// The fields within it.
    pub(super) inner: Option<Fragment>,
}

#[derive(Template)]
#[template(path = "docs_fields.html")]
struct FieldList<'a> {
    fields: &'a [Field],
}

/// Renders fields; returns `None` if there are none.
pub(super) fn list(fields: &[Field]) -> askama::Result<Option<Fragment>> {
    if fields.is_empty() { Ok(None) } else { Fragment::of(&FieldList { fields }).map(Some) }
}

/// Renders the fields of a schema. `seen` are the names of the schemas around it.
pub(super) fn fields(writer: &mut Writer<'_>, schema: &Value, seen: &[String]) -> askama::Result<Option<Fragment>> {
    if seen.len() >= MAX_DEPTH {
        return Ok(None);
    }
    let spec = writer.spec();
    let mut seen = seen.to_vec();
    if let Some(name) = name(schema) {
        if seen.iter().any(|known| known == name) {
            return Ok(None);
        }
        seen.push(name.to_owned());
    } else {
        seen.push(String::new());
    }
    let schema = spec.resolve(schema);
    let mut found = Vec::new();
    let required = |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        found.push(field(writer, name, property, required(name), &seen)?);
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        if let Some(inner) = fields(writer, part, &seen)? {
            found.push(variant(writer, part, Some(inner)));
        }
    }
    for part in choices(schema) {
        let inner = fields(writer, part, &seen)?;
        found.push(variant(writer, part, inner));
    }
    if found.is_empty() {
        // A list and a map have the fields of their entries.
        for entries in [&schema["items"], &schema["additionalProperties"]] {
            if entries.is_object() {
                return fields(writer, entries, &seen);
            }
        }
    }
    // An alternative to null needs no level of its own.
    match found.as_mut_slice() {
        [only] if !choices(schema).is_empty() => Ok(only.inner.take()),
        all => list(all),
    }
}

/// Returns a field with its type, its constraints and the fields within it.
pub(super) fn field(
    writer: &mut Writer<'_>,
    name: &str,
    schema: &Value,
    required: bool,
    seen: &[String],
) -> askama::Result<Field> {
    let spec = writer.spec();
    let own = text(schema, "description");
    let description = if own.is_empty() { text(spec.resolve(schema), "description") } else { own };
    Ok(Field {
        name: name.to_owned(),
        kind: kind(writer, schema, 0),
        required,
        text: writer.markdown(description),
        facts: facts(spec.resolve(schema)),
        inner: fields(writer, schema, seen)?,
    })
}

fn variant(writer: &mut Writer<'_>, schema: &Value, inner: Option<Fragment>) -> Field {
    let resolved = writer.spec().resolve(schema);
    Field {
        name: name(schema).unwrap_or("one of").to_owned(),
        kind: kind(writer, resolved, 0),
        required: false,
        text: writer.markdown(text(resolved, "description")),
        facts: facts(resolved),
        inner,
    }
}

/// Returns the alternatives of a schema other than null.
fn choices(schema: &Value) -> Vec<&Value> {
    let all = [&schema["oneOf"], &schema["anyOf"]].into_iter().filter_map(Value::as_array).flatten();
    all.filter(|one| one["type"] != "null").collect()
}

/// Returns the name of the schema that a reference leads to.
fn name(schema: &Value) -> Option<&str> {
    schema.get("$ref")?.as_str()?.rsplit('/').next()
}

/// Returns the type in words, such as `array of string, or null`.
pub(super) fn kind(writer: &Writer<'_>, schema: &Value, depth: usize) -> String {
    let schema = writer.spec().resolve(schema);
    if depth > MAX_DEPTH {
        return "object".to_owned();
    }
    let one = |kind: &str| match kind {
        "array" => format!("array of {}", kind_of(writer, &schema["items"], depth)),
        "object" if schema["additionalProperties"].is_object() => {
            format!("map of {}", kind_of(writer, &schema["additionalProperties"], depth))
        }
        kind => match text(schema, "format") {
            "" => kind.to_owned(),
            format => format!("{kind} ({format})"),
        },
    };
    match &schema["type"] {
        Value::String(kind) => one(kind),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).map(one).collect::<Vec<_>>().join(" or "),
        _ => {
            let all = [&schema["oneOf"], &schema["anyOf"]].into_iter().filter_map(Value::as_array).flatten();
            let mut kinds: Vec<String> = all.map(|one| kind_of(writer, one, depth)).collect();
            kinds.dedup();
            if kinds.is_empty() { "object".to_owned() } else { kinds.join(" or ") }
        }
    }
}

fn kind_of(writer: &Writer<'_>, schema: &Value, depth: usize) -> String {
    kind(writer, schema, depth + 1)
}

/// Returns the constraints of a schema in words.
pub(super) fn facts(schema: &Value) -> Vec<String> {
    let mut facts = Vec::new();
    let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if let Some(values) = schema["enum"].as_array() {
        facts.push(format!("one of {}", values.iter().map(shown).collect::<Vec<_>>().join(", ")));
    }
    for (name, words) in [
        ("const", "always"),
        ("default", "default"),
        ("minimum", "at least"),
        ("maximum", "at most"),
        ("minLength", "minimum length"),
        ("maxLength", "maximum length"),
        ("minItems", "minimum number of entries"),
        ("maxItems", "maximum number of entries"),
        ("pattern", "pattern"),
    ] {
        if let Some(value) = schema.get(name).filter(|value| !value.is_null()) {
            facts.push(format!("{words} {}", shown(value)));
        }
    }
    facts
}

/// Returns an example of a schema: its own one, or one that is made of its type.
pub(super) fn example(spec: &Spec, schema: &Value, depth: usize) -> Value {
    if let Some(own) = schema.get("example").or_else(|| schema["examples"].get(0)) {
        return own.clone();
    }
    let schema = spec.resolve(schema);
    if let Some(value) = ["example", "const", "default"].into_iter().find_map(|field| schema.get(field)) {
        return value.clone();
    }
    if let Some(value) = schema["enum"].get(0) {
        return value.clone();
    }
    if let Some(choice) = choices(schema).first().filter(|_| depth < MAX_DEPTH) {
        return example(spec, choice, depth + 1);
    }
    let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str()).unwrap_or("object");
    match (kind, text(schema, "format")) {
        ("string", "date-time") => json!("2026-11-22T09:00:00.000Z"),
        ("string", _) => json!("text"),
        ("integer" | "number", _) => schema.get("minimum").cloned().unwrap_or(json!(1)),
        ("boolean", _) => json!(true),
        ("array", _) if depth < MAX_DEPTH => json!([example(spec, &schema["items"], depth + 1)]),
        ("object", _) if depth < MAX_DEPTH => {
            let properties = schema["properties"].as_object().into_iter().flatten();
            let object: Map<String, Value> =
                properties.map(|(name, property)| (name.clone(), example(spec, property, depth + 1))).collect();
            Value::Object(object)
        }
        _ => Value::Null,
    }
}
