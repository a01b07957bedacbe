//! The parts that answers have in common: errors, pages of lists, users, repositories.

use serde_json::{Value, json};

use crate::code_host::state::{Repository, User};
use crate::code_host::{ApiRequest, Reply};

/// The package of the exceptions.
pub(super) const PACKAGE: &str = "com.atlassian.bitbucket";

/// Returns an error with the name of its exception.
pub(super) fn error(status: u16, exception: &str, message: &str) -> Reply {
    let exception = format!("{PACKAGE}.{exception}");
    Reply::json(status, &json!({"errors": [{"context": null, "message": message, "exceptionName": exception}]}))
}

/// Returns the error for a field of the body.
pub(super) fn invalid(field: &str, message: &str) -> Reply {
    Reply::json(400, &json!({"errors": [{"context": field, "message": message, "exceptionName": null}]}))
}

/// Refuses a request of a user who lacks the permission.
pub(super) fn not_permitted() -> Reply {
    error(401, "AuthorisationException", "You are not permitted to access this resource")
}

/// Returns the answer for an address that does not exist, which is no error of the application.
pub(super) fn unknown() -> Reply {
    let text = "<status><status-code>404</status-code><message>HTTP 404 Not Found</message></status>";
    Reply::text(404, format!("<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>{text}"))
}

/// Returns the page of a list that the query names.
pub(super) fn page(call: &ApiRequest, items: &[Value]) -> Reply {
    let number = |name: &str| call.parameter(name).and_then(|text| text.parse::<usize>().ok());
    let (start, limit) = (number("start").unwrap_or_default(), number("limit").unwrap_or(25).clamp(1, 100));
    let values: Vec<&Value> = items.iter().skip(start).take(limit).collect();
    let next = (start + limit < items.len()).then_some(start + limit);
    let body = json!({
        "size": values.len(),
        "limit": limit,
        "isLastPage": next.is_none(),
        "values": values,
        "start": start,
        "nextPageStart": next,
    });
    Reply::json(200, &body)
}

/// Returns the project and the slug of a repository.
pub(super) fn parts_of(repository: &Repository) -> (&str, &str) {
    repository.path.split_once('/').unwrap()
}

/// Returns the slug of a user.
pub(super) fn slug_of(user: &User) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    user.name.to_lowercase().chars().map(plain).collect()
}

/// Returns the email address of a user.
pub(super) fn email_of(user: &User) -> String {
    format!("{}@mail.example", slug_of(user))
}

/// Returns a user as JSON.
pub(super) fn show_user(user: &User) -> Value {
    let kind = if user.is_bot { "SERVICE" } else { "NORMAL" };
    json!({
        "id": user.id,
        "name": user.name,
        "slug": slug_of(user),
        "displayName": user.name,
        "emailAddress": email_of(user),
        "active": true,
        "type": kind,
    })
}

/// Returns a repository as JSON.
pub(super) fn show_repository(repository: &Repository) -> Value {
    let (project, slug) = parts_of(repository);
    json!({
        "id": repository.id,
        "slug": slug,
        "name": slug,
        "scmId": "git",
        "state": "AVAILABLE",
        "archived": repository.is_archived,
        "public": false,
        "project": {"id": 1, "key": project, "name": project, "type": "NORMAL"},
    })
}
