//! Decisions on the codes that connect accounts of Slack with users.

use super::{Change, Row};
use crate::audit::AuditEntry;
use crate::ids::{SlackWorkspaceId, UserId};
use crate::refusal::{Refusal, RefusalKind, ResourceKind};
use crate::resource::{Locked, Put};
use crate::slack::SlackWorkspace;
use crate::user::TokenHash;
use crate::version::Precondition;

/// A workspace, which need not exist, and a code that connects an account of it with a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlackCode(pub SlackWorkspaceId, pub TokenHash);

/// The locked rows of a [`SlackCode`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LockedSlackCode {
    /// The workspace.
    pub workspace: Option<SlackWorkspace>,
    /// The user of the code; `None` if the code was used, or was removed.
    pub user: Option<UserId>,
}

/// Connects an account of Slack with the user who has shown a code, and removes the code.
///
/// # Errors
/// Returns an error if the workspace does not exist or has too many people, or if the code was used meanwhile.
pub fn link(
    locked: &LockedSlackCode,
    account: &str,
    user: UserId,
    code: TokenHash,
    audit: AuditEntry,
) -> Result<Change, Refusal> {
    let workspace = Locked { current: locked.workspace.clone(), ..Locked::default() };
    workspace.current(&Precondition::None)?;
    if locked.user != Some(user) {
        let detail = "this code was used, or has expired; get another one";
        return Err(Refusal::new(RefusalKind::NotFound, ResourceKind::SlackCode, detail));
    }
    let connect = |known: &SlackWorkspace| {
        let mut resource = known.clone();
        resource.settings.users.insert(account.to_owned(), user);
        Ok(Put { resource, secrets: [].into() })
    };
    // An account that is connected with the user already stays as it is.
    let connected = workspace.change(&Precondition::None, connect)?.map(|put| Row::Put(put.into()));
    Ok(Change::new(connected.into_iter().chain([Row::SlackCodeRemoved(code)]), audit))
}

/// Revokes a code that was sent where others can read it. A code that is not valid any more needs no change.
#[must_use]
pub fn revoke_code(locked: &LockedSlackCode, code: TokenHash, audit: AuditEntry) -> Change {
    match locked.user {
        Some(_) => Change::new([Row::SlackCodeRemoved(code)], audit),
        None => Change::nothing(),
    }
}
