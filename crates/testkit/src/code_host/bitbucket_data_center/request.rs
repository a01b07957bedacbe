//! Requests of users about repositories, and the permissions of the users.

use crate::code_host::ApiRequest;
use crate::code_host::state::{Repository, Token, User};

/// The maximum length of a description or a comment, in characters; unconfirmed.
pub(super) const TEXT_CHARS: usize = 32_768;

/// A request of a user about a repository.
pub(super) struct Request<'a> {
    pub(super) call: &'a ApiRequest,
    pub(super) user: &'a User,
    pub(super) token: &'a Token,
    pub(super) repository: Repository,
}

/// Returns the level of a permission, from 1 for reading.
pub(super) fn level_of(permission: &str) -> u8 {
    match permission {
        "admin" | "REPO_ADMIN" => 3,
        "write" | "REPO_WRITE" => 2,
        "read" | "REPO_READ" => 1,
        _ => 0,
    }
}

/// Returns the level of a user in a repository; 0 without a permission.
pub(super) fn level_in(repository: &Repository, user: u64) -> u8 {
    repository.permissions.get(&user).copied().map_or(0, level_of)
}

/// Returns the level of a token, which is at most that of its user.
pub(super) fn level(repository: &Repository, user: &User, token: &Token) -> u8 {
    if token.repository.is_some_and(|id| id != repository.id) {
        return 0;
    }
    level_in(repository, user.id).min(if token.can_write { 3 } else { 1 })
}

/// Returns a text of the body; empty if it is missing.
pub(super) fn text(call: &ApiRequest, name: &str) -> String {
    call.body[name].as_str().unwrap_or_default().to_owned()
}
