//! Filters and sorting of lists (developer.atlassian.com/cloud/bitbucket/rest/intro, #filtering and #sorting).

use std::cmp::Ordering;

use journeyman_core::time::Timestamp;
use serde_json::Value;

use super::answers::error;
use crate::code_host::{ApiRequest, Reply};

/// A comparison of a field with a value.
struct Condition {
    field: String,
    operator: String,
    value: String,
}

impl Condition {
    /// Parses a condition; `None` if it is malformed. Only texts have quotation marks.
    fn parsed(text: &str) -> Option<Self> {
        let (field, rest) = text.split_at(text.find(['=', '!', '~', '<', '>'])?);
        let operator: String = rest.chars().take_while(|c| "=!~<>".contains(*c)).collect();
        let value = rest[operator.len()..].trim();
        let value = match value.strip_prefix('"') {
            Some(text) => text.strip_suffix('"')?.replace("\\\"", "\"").replace("\\\\", "\\"),
            None => Some(value).filter(|value| is_bare(value))?.to_owned(),
        };
        let is_known = ["=", "!=", "~", "!~", ">", ">=", "<", "<="].contains(&operator.as_str());
        is_known.then(|| Self { field: field.trim().to_owned(), operator, value })
    }

    fn fits(&self, item: &Value) -> bool {
        let found = field(item, &self.field);
        let order = compared(&found, &self.value);
        let is_in = found.to_lowercase().contains(&self.value.to_lowercase());
        match self.operator.as_str() {
            "=" => order == Ordering::Equal,
            "!=" => order != Ordering::Equal,
            ">" => order == Ordering::Greater,
            ">=" => order != Ordering::Less,
            "<" => order == Ordering::Less,
            "<=" => order != Ordering::Greater,
            "~" => is_in,
            _ => !is_in,
        }
    }
}

fn is_bare(value: &str) -> bool {
    ["null", "true", "false"].contains(&value) || value.parse::<f64>().is_ok() || value.parse::<Timestamp>().is_ok()
}

/// Returns the value of a field as text.
fn field(item: &Value, name: &str) -> String {
    let found = item.pointer(&format!("/{}", name.replace('.', "/"))).unwrap_or(&Value::Null);
    found.as_str().map_or_else(|| found.to_string(), str::to_owned)
}

fn compared(one: &str, other: &str) -> Ordering {
    if let (Ok(one), Ok(other)) = (one.parse::<Timestamp>(), other.parse::<Timestamp>()) {
        return one.cmp(&other);
    }
    match (one.parse::<f64>(), other.parse::<f64>()) {
        (Ok(one), Ok(other)) => one.total_cmp(&other),
        _ => one.cmp(other),
    }
}

/// Returns the items that fit the filter of a request, in the order that it names. The fields are those that support it.
pub(super) fn filtered(call: &ApiRequest, mut items: Vec<Value>, fields: &[&str]) -> Result<Vec<Value>, Reply> {
    let filter = call.parameter("q").into_iter().flat_map(|filter| filter.split(" AND "));
    for text in filter {
        let Some(condition) = Condition::parsed(text) else { return Err(error(400, "Invalid filter query")) };
        if !fields.contains(&condition.field.as_str()) {
            // jira.atlassian.com/browse/BCLOUD-22709
            return Err(error(400, &format!("Field \"{}\" does not support filtering", condition.field)));
        }
        items.retain(|item| condition.fits(item));
    }
    if let Some(sort) = call.parameter("sort") {
        let name = sort.strip_prefix('-').unwrap_or(sort);
        if !fields.contains(&name) {
            return Err(error(400, "Invalid sort field"));
        }
        items.sort_by(|one, other| compared(&field(one, name), &field(other, name)));
        if sort.starts_with('-') {
            items.reverse();
        }
    }
    Ok(items)
}
