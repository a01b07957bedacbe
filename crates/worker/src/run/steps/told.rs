//! What is told about changes that were left out.

use journeyman_core::job::event::{TranscriptEntry, TranscriptKind};
use journeyman_core::left_out::{LeftOut, MAX_LEFT_OUT};
use journeyman_core::run::{Reason, ReasonCode};
use journeyman_core::time::Timestamp;
use serde_json::{Value, json};

/// Returns the reason why nothing was published, if something was left out.
pub(super) fn nothing_published<'a>(mut left_out: impl Iterator<Item = &'a LeftOut>) -> Option<Reason> {
    let first = left_out.next()?;
    let LeftOut { path, reason, .. } = first;
    let more = match left_out.count() {
        0 => String::new(),
        1 => " One further change was left out, too.".to_owned(),
        number => format!(" {number} further changes were left out, too."),
    };
    let text = format!(
        "nothing was published: {path} {}. {}{more} The files stay in the workspace for the next message",
        reason.text(),
        first.advice()
    );
    Some(Reason::new(ReasonCode::WorkspaceRefused, text))
}

/// Returns the reason why a turn is not done whose answer names a path that was left out.
pub(super) fn not_done(left_out: &LeftOut) -> Reason {
    let LeftOut { path, reason, .. } = left_out;
    let text = format!(
        "the answer names {path}, which was not published: it {}. {} The rest of the work is published",
        reason.text(),
        left_out.advice()
    );
    Reason::new(ReasonCode::WorkspaceRefused, text)
}

/// Returns the event that tells what was left out, if there is something.
pub(super) fn left_out_event(left_out: &[LeftOut], at: Timestamp) -> Option<TranscriptEntry> {
    let path = |one: &LeftOut| {
        let detail = format!("It {}. {}", one.reason.text(), one.advice());
        json!({ "path": one.path, "reason": one.reason.code(), "detail": detail, "kept": one.is_kept })
    };
    let paths: Vec<Value> = left_out.iter().take(MAX_LEFT_OUT).map(path).collect();
    let data = json!({ "paths": paths, "more": left_out.len().saturating_sub(MAX_LEFT_OUT) });
    (!paths.is_empty()).then(|| TranscriptEntry { kind: TranscriptKind::LeftOut, data, at })
}
