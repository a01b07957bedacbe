//! The objects of the GraphQL interface, with all fields that the stand-in knows.

use serde_json::{Map, Value, json};

use super::super::super::state::{Pull, PullState, Repository, Review, ReviewComment, State};
use super::super::answers::times;
use super::super::records::Subject;
use super::super::repository::{commit as resolved, is_commit};
use super::super::users::{association, may_push};
use super::super::{merging, pulls};
use super::query::Selected;

/// Returns whether an object has a type, or implements an interface. Objects that a test has set have every type.
pub(super) fn is_kind(object: &Value, kind: &str) -> bool {
    let of_kind: &[&str] = match kind {
        "Actor" => &["User", "Bot", "Organization"],
        "GitObject" => &["Commit"],
        "Node" => return true,
        "Comment" | "Reactable" => {
            &["PullRequest", "Issue", "IssueComment", "PullRequestReview", "PullRequestReviewComment"]
        }
        _ => &[],
    };
    object["__typename"].as_str().is_none_or(|name| name == kind || of_kind.contains(&name))
}

/// Returns the fields of a fragment that an object has. Objects that a test has set have no type that would choose
/// between fragments.
pub(super) fn known(object: &Value, fields: &[Selected]) -> Vec<Selected> {
    let is_known = |selected: &&Selected| match selected {
        Selected::Field(field) => !object["__typename"].is_null() || object.get(&field.name).is_some(),
        _ => true,
    };
    fields.iter().filter(is_known).cloned().collect()
}

/// Marks a list of which queries ask for parts.
fn list(kind: &str, all: Vec<Value>) -> Value {
    json!({"__typename": format!("{kind}Connection"), "__all": all})
}

/// Returns a user or an app; `null` for a deleted account. The login of an app lacks the suffix that it has in the REST
/// interface.
pub(super) fn actor(state: &State, id: u64) -> Value {
    let Some(user) = state.users.iter().find(|user| user.id == id && !state.closed.contains(&id)) else {
        return Value::Null;
    };
    let (kind, node) = if user.is_bot { ("Bot", "BOT") } else { ("User", "U") };
    let login = user.name.strip_suffix("[bot]").filter(|_| user.is_bot).unwrap_or(&user.name);
    json!({
        "__typename": kind, "login": login, "id": format!("{node}_{id}"), "databaseId": id,
        "url": format!("{}/{login}", state.url), "resourcePath": format!("/{login}"),
    })
}

/// Returns a repository. Its pull requests and commits are found by their arguments.
pub(super) fn repository(state: &State, found: &Repository) -> Value {
    json!({
        "__typename": "Repository", "id": format!("R_{}", found.id), "databaseId": found.id, "name": found.name(),
        "nameWithOwner": found.path, "url": format!("{}/{}", state.url, found.path), "isArchived": found.is_archived,
        "isPrivate": true, "hasIssuesEnabled": !found.has_no_issues, "autoMergeAllowed": !found.forbids_auto_merge,
        "squashMergeAllowed": true, "mergeCommitAllowed": false, "rebaseMergeAllowed": false,
        "viewerDefaultMergeMethod": "SQUASH", "defaultBranchRef": {"__typename": "Ref", "name": "main"},
    })
}

/// Returns a commit with its pull requests (`Commit.associatedPullRequests`): the merged one that brought the commit to
/// the default branch, otherwise the open ones that have the commit.
pub(super) fn commit(state: &mut State, repository: &Value, arguments: &Map<String, Value>) -> Value {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str);
    let id = repository["databaseId"].as_u64().unwrap_or_default();
    let Some(found) = state.by_id(id).map(|found| found.clone()) else { return Value::Null };
    let oid = text("oid").filter(|oid| is_commit(&found, oid)).map(str::to_owned);
    let by_name = || text("expression").and_then(|name| resolved(&found, name.strip_prefix("refs/").unwrap_or(name)));
    let Some(sha) = oid.or_else(by_name) else { return Value::Null };
    let has = |pull: &&Pull| match pull.state {
        PullState::Open => {
            let base = found.branches.get(&pull.base).map_or("", String::as_str);
            let head = found.sha_of(pull);
            head == sha || found.github.ahead(&head, base).contains(&sha)
        }
        PullState::Merged => found.sha_of(pull) == sha,
        PullState::Closed => false,
    };
    let numbers: Vec<u64> = found.pulls.iter().filter(has).map(|pull| pull.number).collect();
    let pulls = numbers.into_iter().filter_map(|number| pull(state, id, number)).collect();
    json!({
        "__typename": "Commit", "id": format!("C_{sha}"), "oid": sha, "abbreviatedOid": sha.get(..7),
        "associatedPullRequests": list("PullRequest", pulls),
    })
}

/// Returns a pull request. A question for it makes GitHub find out whether it can be merged.
pub(super) fn pull(state: &mut State, repository: u64, number: u64) -> Option<Value> {
    let found = state.by_id(repository)?.clone();
    let pull = found.pulls.iter().find(|pull| pull.number == number)?;
    let shown = show_pull(state, &found, pull);
    merging::test(state, repository, number);
    Some(shown)
}

fn state_of(pull: &Pull) -> &'static str {
    match pull.state {
        PullState::Open => "OPEN",
        PullState::Closed => "CLOSED",
        PullState::Merged => "MERGED",
    }
}

fn show_pull(state: &State, found: &Repository, pull: &Pull) -> Value {
    let number = pull.number;
    let (mergeable, status) = merging::shown(found, pull);
    let (created, updated) = times(state, &format!("{}/{number}", found.id));
    let simple = pulls::show_simple(state, found, pull);
    let auto_merge = found.auto_merges.contains(&number).then(|| {
        json!({
            "__typename": "AutoMergeRequest", "enabledAt": updated, "mergeMethod": "SQUASH",
            "enabledBy": actor(state, pull.author), "authorEmail": null, "commitBody": null, "commitHeadline": null,
        })
    });
    let reviews = found.reviews.iter().filter(|review| review.pull == number);
    let threads: Vec<Value> =
        reviews.flat_map(|review| review.comments.iter().map(|line| thread(state, found, review, line))).collect();
    let requests = pull.reviewers.iter().map(|name| {
        let known = state.users.iter().find(|user| user.name == *name).map(|user| actor(state, user.id));
        let team = || json!({"__typename": "Team", "slug": name, "combinedSlug": format!("{}/{name}", found.owner())});
        json!({
            "__typename": "ReviewRequest", "asCodeOwner": false, "requestedReviewer": known.unwrap_or_else(team),
        })
    });
    // The pull requests of the base branch, on which this one is stacked.
    let below = found.pulls.iter().filter(|one| one.head == pull.base && one.fork.is_none());
    let below = below.map(|one| json!({"__typename": "PullRequest", "number": one.number, "state": state_of(one)}));
    let base = json!({
        "__typename": "Ref", "name": pull.base, "prefix": "refs/heads/",
        "associatedPullRequests": list("PullRequest", below.collect()),
    });
    let labels = pull.labels.iter().map(|name| json!({"__typename": "Label", "name": name})).collect();
    let mut shown = json!({
        "__typename": "PullRequest", "id": format!("PR_{}_{number}", found.id), "fullDatabaseId": simple["id"].to_string(),
        "number": number, "title": pull.title, "body": pull.body, "url": simple["html_url"],
        "state": state_of(pull), "baseRef": base, "reviewRequests": list("ReviewRequest", requests.collect()),
        "closed": pull.state != PullState::Open, "merged": pull.state == PullState::Merged, "isDraft": pull.draft,
        "createdAt": created, "updatedAt": updated, "mergedAt": simple["merged_at"], "closedAt": simple["closed_at"],
        "headRefName": pull.head, "headRefOid": simple["head"]["sha"], "baseRefName": pull.base,
        "baseRefOid": simple["base"]["sha"], "isCrossRepository": pull.fork.is_some(), "mergeable": mergeable,
        "mergeStateStatus": status, "reviewDecision": null, "isInMergeQueue": false, "isMergeQueueEnabled": false,
        "mergeQueueEntry": null, "autoMergeRequest": auto_merge, "author": actor(state, pull.author),
        "authorAssociation": association(found, pull.author), "labels": list("Label", labels),
        "reviewThreads": list("PullRequestReviewThread", threads), "locked": false,
    });
    if let (Some(shown), Some(more)) = (shown.as_object_mut(), found.merge_state.as_object()) {
        shown.extend(more.clone());
    }
    shown
}

/// Returns the thread that a comment on a line begins.
pub(super) fn thread(state: &State, found: &Repository, review: &Review, line: &ReviewComment) -> Value {
    let anchor = found.anchors.get(&line.id).cloned().unwrap_or_default();
    let is_outdated = found.github.outdated.contains(&line.id);
    let is_resolved = found.resolved.contains(&line.id);
    let comment = |id: u64, author: u64, body: &str| {
        let (created, updated) = times(state, &format!("comment/{id}"));
        let page = format!("{}/{}/pull/{}#discussion_r{id}", state.url, found.path, review.pull);
        json!({
            "__typename": "PullRequestReviewComment", "id": format!("PRRC_{id}"), "databaseId": id,
            "fullDatabaseId": id.to_string(), "body": body, "author": actor(state, author), "createdAt": created,
            "updatedAt": updated, "url": page, "path": line.path, "authorAssociation": association(found, author),
        })
    };
    let mut comments = vec![comment(line.id, review.author, &line.body)];
    comments.extend(found.thread(line.id).into_iter().map(|reply| comment(reply.id, reply.author, &reply.body)));
    let resolver = found.github.resolved_by.get(&line.id).map_or(Value::Null, |id| actor(state, *id));
    json!({
        "__typename": "PullRequestReviewThread", "id": format!("PRRT_{}", line.id), "isResolved": is_resolved,
        "isCollapsed": is_resolved, "isOutdated": is_outdated, "resolvedBy": resolver, "path": line.path,
        "line": (!is_outdated).then_some(line.line), "originalLine": line.line,
        "startLine": if is_outdated { &Value::Null } else { &anchor["start_line"] },
        "originalStartLine": anchor["start_line"], "diffSide": anchor["side"].as_str().unwrap_or("RIGHT"),
        "startDiffSide": anchor["start_side"], "subjectType": "LINE",
        "comments": list("PullRequestReviewComment", comments), "viewerCanReply": !found.locked_threads.contains(&line.id),
        "viewerCanResolve": !is_resolved, "viewerCanUnresolve": is_resolved,
    })
}

/// Reads the ID of a node: its kind and its numbers.
fn numbers<'a>(id: &'a str, kind: &str) -> Option<Vec<&'a str>> {
    let rest = id.strip_prefix(kind)?.strip_prefix('_')?;
    Some(rest.split('_').collect())
}

/// Returns the repository and the number of a pull request by the ID of its node.
pub(super) fn pull_of(id: &str) -> Option<(u64, u64)> {
    let numbers = numbers(id, "PR")?;
    let [repository, number] = numbers.as_slice() else { return None };
    Some((repository.parse().ok()?, number.parse().ok()?))
}

/// Returns the repository and the first comment of a thread by the ID of its node.
pub(super) fn thread_of(state: &State, id: &str) -> Option<(Repository, Review, ReviewComment)> {
    let line: u64 = numbers(id, "PRRT")?.first()?.parse().ok()?;
    state.repositories.iter().find_map(|found| {
        let has = |review: &&Review| review.comments.iter().any(|one| one.id == line);
        let review = found.reviews.iter().find(has)?;
        let line = review.comments.iter().find(|one| one.id == line)?;
        Some((found.clone(), review.clone(), line.clone()))
    })
}

/// Returns the repository and what a reaction can be for by the ID of its node.
pub(super) fn subject_of(state: &State, id: &str) -> Option<(Repository, Subject)> {
    let number = |kind: &str| numbers(id, kind)?.last()?.parse::<u64>().ok();
    let of_repository = |kind: &str| {
        let repository: u64 = numbers(id, kind)?.first()?.parse().ok()?;
        Some((Some(repository), Subject::Issue(number(kind)?)))
    };
    let (repository, subject) = of_repository("PR")
        .or_else(|| of_repository("I"))
        .or_else(|| Some((None, Subject::Comment(number("IC")?))))
        .or_else(|| Some((None, Subject::Line(number("PRRC")?))))
        .or_else(|| Some((None, Subject::Review(number("PRR")?))))?;
    let mut all = state.repositories.iter().filter(|one| repository.is_none_or(|id| id == one.id));
    let found = all.find(|one| super::super::reactions::exists(one, subject))?;
    Some((found.clone(), subject))
}

/// Returns the object of an ID; `None` if there is none.
pub(super) fn node(state: &mut State, id: &str) -> Option<Value> {
    if let Some((repository, number)) = pull_of(id) {
        return pull(state, repository, number);
    }
    if let Some((found, review, line)) = thread_of(state, id) {
        return Some(thread(state, &found, &review, &line));
    }
    let repository: u64 = numbers(id, "R")?.first()?.parse().ok()?;
    let found = state.by_id(repository)?.clone();
    Some(self::repository(state, &found))
}

/// Returns whether a user may resolve the threads of a pull request: the author, and people who may push.
pub(super) fn may_resolve(found: &Repository, number: u64, user: u64) -> bool {
    may_push(found, user) || found.pulls.iter().any(|pull| pull.number == number && pull.author == user)
}
