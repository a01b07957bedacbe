//! The audit log: who has done what, and how it is searched.

use crate::time::Timestamp;

/// An entry of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// The time of the action.
    pub at: Timestamp,
    /// The ID of a key, user or trust, or `cli`; for a failed sign-in, the name that was entered.
    pub actor: String,
    /// The action, such as `key.created`.
    pub action: String,
    /// The object of the action, such as the ID of a key.
    pub subject: String,
    /// The IP address of the client, if the request came over the network.
    pub address: Option<String>,
}

/// A stored entry of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditLine {
    /// The number, which increases from entry to entry.
    pub number: u64,
    /// The entry.
    pub entry: AuditEntry,
}

/// A selection of the audit log, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Only entries of these actors; `None` means all.
    pub actors: Option<Vec<String>>,
    /// Only entries whose action begins with this text, such as `key.`.
    pub action: Option<String>,
    /// Only entries about one of these objects: the subject is equal, or begins with it and one of ` `, `#` and `/`.
    /// `None` means all objects.
    pub about: Option<Vec<String>>,
    /// Only entries at this time or later.
    pub from: Option<Timestamp>,
    /// Only entries before this time.
    pub until: Option<Timestamp>,
    /// Only entries with a lower number.
    pub before: Option<u64>,
    /// The maximum number of entries.
    pub limit: usize,
}

impl AuditFilter {
    /// Returns a filter for the newest entries.
    #[must_use]
    pub fn newest(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Returns whether the filter selects a line, apart from the maximum number.
    #[must_use]
    pub fn selects(&self, line: &AuditLine) -> bool {
        let AuditEntry { at, actor, action, subject, .. } = &line.entry;
        let is_about = |object: &String| {
            let rest = subject.strip_prefix(object.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '#', '/']))
        };
        self.actors.as_ref().is_none_or(|actors| actors.contains(actor))
            && self.action.as_ref().is_none_or(|start| action.starts_with(start.as_str()))
            && self.about.as_ref().is_none_or(|objects| objects.iter().any(is_about))
            && self.from.is_none_or(|from| *at >= from)
            && self.until.is_none_or(|until| *at < until)
            && self.before.is_none_or(|before| line.number < before)
    }
}
