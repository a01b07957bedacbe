//! The parts that answers have in common: errors, pages of lists, times, IDs, users.

use journeyman_core::time::Timestamp;
use serde_json::{Value, json};

use crate::code_host::state::{State, User};
use crate::code_host::{ApiRequest, Reply};

/// The time of everything without a time of its own.
pub(super) const TIME: &str = "2026-01-01T00:00:00.000000+00:00";

/// Writes a time in seconds since 1970.
pub(super) fn time(seconds: i64) -> String {
    Timestamp::from_micros(seconds * 1_000_000).to_string().replace('Z', "000+00:00")
}

/// Returns an error with a message.
pub(super) fn error(status: u16, message: &str) -> Reply {
    Reply::json(status, &json!({"type": "error", "error": {"message": message}}))
}

/// Refuses the values of fields.
pub(super) fn invalid(field: &str, faults: &[String]) -> Reply {
    let message = format!("{field}: {}", faults.join(" "));
    Reply::json(400, &json!({"type": "error", "error": {"message": message, "fields": {field: faults}}}))
}

/// Refuses a request that lacks a field.
pub(super) fn required(field: &str) -> Reply {
    invalid(field, &["This field is required.".to_owned()])
}

/// Returns the UUID that stands for an ID.
pub(super) fn uuid(id: u64) -> String {
    format!("{{{id}}}")
}

/// Returns the ID that a UUID stands for.
pub(super) fn id_of(uuid: &str) -> Option<u64> {
    uuid.strip_prefix('{')?.strip_suffix('}')?.parse().ok()
}

/// Answers with a page of a list.
pub(super) fn page(state: &State, call: &ApiRequest, most: usize, items: &[Value]) -> Reply {
    let number = |name: &str, default: usize| match call.parameter(name) {
        Some(text) => text.parse().unwrap_or(0),
        None => default,
    };
    let (length, at) = (number("pagelen", 10), number("page", 1));
    if length == 0 || length > most {
        return error(400, "Invalid pagelen");
    }
    if at == 0 {
        return error(400, "Invalid page");
    }
    let values: Vec<&Value> = items.iter().skip((at - 1) * length).take(length).collect();
    let mut body = json!({"pagelen": length, "page": at, "size": items.len(), "values": values});
    if items.len() > at * length {
        let (path, query) = call.target.split_once('?').unwrap_or((&call.target, ""));
        let kept: Vec<&str> = query.split('&').filter(|one| !one.is_empty() && !one.starts_with("page=")).collect();
        let query = if kept.is_empty() { String::new() } else { format!("{}&", kept.join("&")) };
        body["next"] = json!(format!("{}{path}?{query}page={}", state.url, at + 1));
    }
    Reply::json(200, &body)
}

/// Returns a user as JSON.
pub(super) fn show_user(user: &User) -> Value {
    json!({
        "type": if user.is_bot { "app_user" } else { "user" },
        "uuid": uuid(user.id),
        "display_name": user.name,
        "nickname": user.name,
        "account_id": format!("557058:{}", user.id),
        "links": {},
    })
}

/// Returns the user with an ID as JSON; null if there is none.
pub(super) fn show_user_of(state: &State, id: u64) -> Value {
    state.users.iter().find(|user| user.id == id).map_or(Value::Null, show_user)
}
