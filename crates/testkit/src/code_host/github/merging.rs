//! Whether pull requests can be merged.

use super::super::state::{Pull, PullState, Repository, State};
use super::checks::conclusion;

/// Returns the value of `mergeStateStatus` (GraphQL, enum `MergeStateStatus`) without the time that GitHub takes to
/// find it. Requirements of a protected branch block the merge, and checks that nothing requires make it unstable.
pub(super) fn settled(found: &Repository, pull: &Pull) -> String {
    if let Some(known) = found.merge_state["mergeStateStatus"].as_str() {
        return known.to_owned();
    }
    let sha = found.sha_of(pull);
    let is_bad = |check| !matches!(conclusion(found, check).as_deref(), Some("success" | "neutral" | "skipped"));
    let has_bad_check = found.checks.iter().filter(|check| check.sha == sha).any(is_bad);
    let has_bad_status = super::statuses::latest(found, &sha).iter().any(|(_, status)| status.state != "success");
    let status = match () {
        () if found.has_requirements => "BLOCKED",
        () if pull.draft => "DRAFT",
        () if has_bad_check || has_bad_status => "UNSTABLE",
        () => "CLEAN",
    };
    status.to_owned()
}

fn ends(found: &Repository, pull: &Pull) -> (String, String) {
    (found.sha_of(pull), found.branches.get(&pull.base).cloned().unwrap_or_default())
}

/// Returns whether GitHub has found out whether a pull request can be merged. It begins when somebody asks (operation
/// `pulls/get`), and again when one of the branches changes.
pub(super) fn is_tested(found: &Repository, pull: &Pull) -> bool {
    found.github.tested.get(&pull.number) == Some(&ends(found, pull))
}

/// Finds out whether a pull request can be merged, as after a request for it.
pub(super) fn test(state: &mut State, repository: u64, number: u64) {
    let Some(found) = state.by_id(repository) else { return };
    if let Some(pull) = found.pulls.iter().find(|pull| pull.number == number) {
        let ends = ends(found, pull);
        found.github.tested.insert(number, ends);
    }
}

/// Returns the values of `mergeable` (enum `MergeableState`) and `mergeStateStatus`. A test may have set them.
pub(super) fn shown(found: &Repository, pull: &Pull) -> (String, String) {
    let set = |name: &str| found.merge_state[name].as_str().map(str::to_owned);
    let is_known = pull.state == PullState::Open && is_tested(found, pull);
    let status = if is_known { settled(found, pull) } else { "UNKNOWN".to_owned() };
    let status = set("mergeStateStatus").unwrap_or(status);
    let mergeable = match status.as_str() {
        "UNKNOWN" => "UNKNOWN",
        "DIRTY" => "CONFLICTING",
        _ => "MERGEABLE",
    };
    (set("mergeable").unwrap_or_else(|| mergeable.to_owned()), status)
}
