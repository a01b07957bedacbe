//! The wire format of the audit log.

use std::collections::HashMap;

use journeyman_core::audit::AuditLine;
use serde::Serialize;
use utoipa::ToSchema;

/// A page of the audit log.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuditPage {
    /// The entries, newest first.
    pub(crate) entries: Vec<AuditEntry>,
    /// The `cursor` of the next page; `null` on the last page.
    #[schema(required)]
    pub(crate) next_cursor: Option<String>,
}

/// An entry of the audit log. Its fields are the columns of the export.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuditEntry {
    /// The ID, which is larger than those of earlier entries.
    id: String,
    /// The time of the action.
    #[schema(format = DateTime)]
    at: String,
    /// The ID of the key or user who acted, or `cli` for the command line; for a failed sign-in, the name that was
    /// entered.
    actor: String,
    /// The name of that key or user; `null` if it is not known.
    #[schema(required)]
    actor_name: Option<String>,
    /// The action, such as `key.created`. New actions may be added.
    action: String,
    /// The object of the action, such as the ID of a key.
    subject: String,
    /// The IP address of the client; `null` if the request did not come over the network.
    #[schema(required)]
    address: Option<String>,
}

impl AuditEntry {
    /// Returns the entry; `names` are the names of users and keys by their IDs.
    pub(crate) fn of(line: AuditLine, names: &HashMap<String, String>) -> Self {
        Self {
            id: line.number.to_string(),
            at: line.entry.at.to_string(),
            actor_name: names.get(&line.entry.actor).cloned(),
            actor: line.entry.actor,
            action: line.entry.action,
            subject: line.entry.subject,
            address: line.entry.address,
        }
    }
}
