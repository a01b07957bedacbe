//! The mutations of the GraphQL interface.

use serde_json::{Value, json};

use super::super::super::state::{Pull, PullState, Repository};
use super::super::{merging, reactions};
use super::{Refusal, Run, objects};

/// Runs a mutation with its input.
pub(super) fn run(run: &mut Run<'_>, name: &str, input: &Value) -> Result<Value, Refusal> {
    run.may("pull_requests", "write")?;
    match name {
        "resolveReviewThread" => resolve(run, input),
        "addReaction" => react(run, input),
        "enablePullRequestAutoMerge" => merge_later(run, input),
        "convertPullRequestToDraft" => change_draft(run, input, name, true),
        "markPullRequestReadyForReview" => change_draft(run, input, name, false),
        _ => Err(("", format!("Field '{name}' doesn't exist on type 'Mutation'"))),
    }
}

fn missing(id: &str) -> Refusal {
    ("NOT_FOUND", format!("Could not resolve to a node with the global id of '{id}'."))
}

/// Refuses changes of a repository that the token does not reach, or that is archived.
fn may_change(run: &Run<'_>, found: &Repository, id: &str) -> Result<(), Refusal> {
    if !super::super::access::may_read(found, &run.user, &run.token) {
        return Err(missing(id));
    }
    if found.is_archived {
        return Err(("UNPROCESSABLE", "Repository was archived so is read-only.".to_owned()));
    }
    Ok(())
}

/// Finds the pull request of an input.
fn pull(run: &mut Run<'_>, input: &Value) -> Result<(Repository, Pull), Refusal> {
    let id = input["pullRequestId"].as_str().unwrap_or_default();
    let (repository, number) = objects::pull_of(id).ok_or_else(|| missing(id))?;
    let found = run.state.by_id(repository).map(|found| found.clone()).ok_or_else(|| missing(id))?;
    let pull = found.pulls.iter().find(|pull| pull.number == number).cloned().ok_or_else(|| missing(id))?;
    may_change(run, &found, id)?;
    Ok((found, pull))
}

/// Runs `resolveReviewThread`.
fn resolve(run: &mut Run<'_>, input: &Value) -> Result<Value, Refusal> {
    let id = input["threadId"].as_str().unwrap_or_default();
    let (found, review, line) = objects::thread_of(run.state, id).ok_or_else(|| missing(id))?;
    may_change(run, &found, id)?;
    if !run.user.is_bot && !objects::may_resolve(&found, review.pull, run.user.id) {
        let text = format!("{} does not have the correct permissions to execute `ResolveReviewThread`", run.user.name);
        return Err(("FORBIDDEN", text));
    }
    let user = run.user.id;
    if let Some(found) = run.state.by_id(found.id) {
        found.resolved.insert(line.id);
        found.github.resolved_by.insert(line.id, user);
    }
    let (found, review, line) = objects::thread_of(run.state, id).ok_or_else(|| missing(id))?;
    let thread = objects::thread(run.state, &found, &review, &line);
    Ok(json!({
        "__typename": "ResolveReviewThreadPayload", "clientMutationId": input["clientMutationId"], "thread": thread,
    }))
}

/// Runs `addReaction`. To add a reaction again changes nothing.
fn react(run: &mut Run<'_>, input: &Value) -> Result<Value, Refusal> {
    let id = input["subjectId"].as_str().unwrap_or_default();
    let content = input["content"].as_str().unwrap_or_default();
    let Some(name) = reactions::from_graphql(content) else {
        return Err((
            "",
            format!("Argument 'content' on InputObject 'AddReactionInput' has an invalid value ({content})."),
        ));
    };
    let (found, subject) = objects::subject_of(run.state, id).ok_or_else(|| missing(id))?;
    may_change(run, &found, id)?;
    let user = run.user.clone();
    let (_, reaction) = reactions::add(run.state, &user, found.id, subject, name);
    let shown = json!({
        "__typename": "Reaction", "id": format!("REA_{}", reaction.id), "databaseId": reaction.id, "content": content,
        "user": objects::actor(run.state, user.id),
    });
    Ok(json!({
        "__typename": "AddReactionPayload", "clientMutationId": input["clientMutationId"], "reaction": shown,
        "subject": {"id": id},
    }))
}

/// Runs `enablePullRequestAutoMerge`. Page "Automatically merging a pull request": the repository must allow it, and
/// something must be required that the pull request lacks; otherwise it could be merged at once. The stand-in allows
/// only squash merges, and `MERGE` is the default.
fn merge_later(run: &mut Run<'_>, input: &Value) -> Result<Value, Refusal> {
    let (found, pull) = pull(run, input)?;
    run.may("contents", "write")?;
    let refused = |text: &str| Err(("UNPROCESSABLE", text.to_owned()));
    let method = input["mergeMethod"].as_str().unwrap_or("MERGE");
    if found.forbids_auto_merge {
        return refused("Auto merge is not allowed for this repository");
    }
    if pull.state != PullState::Open {
        return refused("Can't enable auto-merge for this pull request.");
    }
    if input["expectedHeadOid"].as_str().is_some_and(|expected| expected != found.sha_of(&pull)) {
        return refused("Head branch was modified. Review and try the merge again.");
    }
    match method {
        "MERGE" => return refused("Merge method merge commits are not allowed on this repository"),
        "REBASE" => return refused("Merge method rebase merging is not allowed on this repository"),
        _ => {}
    }
    if !found.has_requirements {
        let status = merging::settled(&found, &pull).to_lowercase();
        return refused(&format!("Pull request Pull request is in {status} status"));
    }
    if let Some(found) = run.state.by_id(found.id)
        && !found.auto_merges.contains(&pull.number)
    {
        found.auto_merges.push(pull.number);
    }
    payload(run, input, "EnablePullRequestAutoMerge", &found, &pull)
}

/// Runs `convertPullRequestToDraft` or `markPullRequestReadyForReview`.
fn change_draft(run: &mut Run<'_>, input: &Value, name: &str, draft: bool) -> Result<Value, Refusal> {
    let (found, pull) = pull(run, input)?;
    if pull.state != PullState::Open {
        return Err(("UNPROCESSABLE", "Pull request is closed".to_owned()));
    }
    super::super::pulls::change(run.state, &found, pull.number).draft = draft;
    payload(run, input, name, &found, &pull)
}

fn payload(run: &mut Run<'_>, input: &Value, name: &str, found: &Repository, pull: &Pull) -> Result<Value, Refusal> {
    let shown = objects::pull(run.state, found.id, pull.number);
    Ok(json!({
        "__typename": format!("{name}Payload"), "clientMutationId": input["clientMutationId"], "pullRequest": shown,
        "actor": objects::actor(run.state, run.user.id),
    }))
}
