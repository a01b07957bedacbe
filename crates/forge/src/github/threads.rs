//! The threads of comments on lines of GitHub.

use std::collections::{BTreeMap, BTreeSet};

use journeyman_core::code_host::HostRepository;
use journeyman_core::conversation::{CommentRef, HostThread, InThread, Reaction, ThreadComment};
use journeyman_core::ports::ForgeError;
use serde::Deserialize;
use serde_json::json;

use super::wire::{Identified, ReviewComment, ReviewThread, ThreadPage};
use super::{Github, repository_path};
use crate::http::encoded;

/// The query for the threads of a pull request. Only this interface tells which ones are resolved.
const THREADS: &str = "query($owner: String!, $name: String!, $number: Int!, $after: String) { repository(owner: $owner, \
                       name: $name) { pullRequest(number: $number) { reviewThreads(first: 100, after: $after) { nodes { \
                       id isResolved comments(first: 1) { nodes { fullDatabaseId } } } pageInfo { hasNextPage endCursor \
                       } } } } }";

/// The mutation that marks a thread as resolved. Only this interface can do so.
const RESOLVE: &str = "mutation($id: ID!) { resolveReviewThread(input: {threadId: $id}) { clientMutationId } }";

/// The mutation that reacts to a review. Only this interface can do so.
const REACT: &str = "mutation($id: ID!, $content: ReactionContent!) { addReaction(input: {subjectId: $id, content: \
                     $content}) { clientMutationId } }";

/// The maximum number of pages of threads that are read.
const PAGES: usize = 10;

/// Returns the threads that contain these comments.
pub(super) async fn read(
    github: &Github,
    repository: &HostRepository,
    pull: u64,
    of: &[InThread],
) -> Result<Vec<HostThread>, ForgeError> {
    let listed: Vec<ReviewComment> = github.list(repository, &format!("/pulls/{pull}/comments?per_page=100")).await?;
    let mut threads: BTreeMap<String, Vec<ThreadComment>> = BTreeMap::new();
    for (thread, comment) in listed.into_iter().map(ReviewComment::into_threaded) {
        threads.entry(thread).or_default().push(comment);
    }
    let asked: BTreeSet<&str> = of.iter().map(|one| one.id.as_str()).collect();
    threads.retain(|_, comments| comments.iter().any(|comment| asked.contains(comment.id.as_str())));
    if threads.is_empty() {
        return Ok(Vec::new());
    }
    let resolved = match described(github, repository, pull).await {
        Ok(described) => described,
        Err(error) if error.may_pass() => return Err(error),
        // Old versions of GitHub Enterprise Server lack a field.
        Err(error) => {
            tracing::debug!(repository = %repository.path, pull, %error, "the states of threads could not be read");
            Vec::new()
        }
    };
    let is_resolved = |id: &str| resolved.iter().find(|one| one.first() == Some(id)).map(|one| one.is_resolved);
    Ok(threads
        .into_iter()
        .map(|(id, mut comments)| {
            comments.sort_by_key(|comment| comment.id.parse::<u64>().unwrap_or_default());
            HostThread { is_resolved: is_resolved(&id), id, comments }
        })
        .collect())
}

/// Returns the threads of a pull request, with their states.
async fn described(github: &Github, repository: &HostRepository, pull: u64) -> Result<Vec<ReviewThread>, ForgeError> {
    let path = repository_path(repository)?;
    let (owner, name) = path.parts();
    let (mut found, mut after) = (Vec::new(), None::<String>);
    for _ in 0..PAGES {
        let variables = json!({"owner": owner, "name": name, "number": pull, "after": after});
        let data = github.graph(repository, THREADS, variables).await?;
        let page = data.pointer("/repository/pullRequest/reviewThreads").cloned().unwrap_or_default();
        let page = ThreadPage::deserialize(page).unwrap_or_default();
        found.extend(page.nodes);
        if !page.page_info.has_next_page {
            break;
        }
        after = Some(page.page_info.end_cursor);
    }
    Ok(found)
}

/// Marks threads as resolved.
pub(super) async fn resolve(
    github: &Github,
    repository: &HostRepository,
    pull: u64,
    threads: &[HostThread],
) -> Result<(), ForgeError> {
    let described = described(github, repository, pull).await?;
    let is_it = |one: &&ReviewThread| threads.iter().any(|thread| one.first() == Some(thread.id.as_str()));
    for thread in described.iter().filter(is_it).filter(|thread| !thread.is_resolved) {
        github.graph(repository, RESOLVE, json!({"id": thread.id})).await?;
    }
    Ok(())
}

/// Reacts to the text of a review.
pub(super) async fn react_to_review(
    github: &Github,
    repository: &HostRepository,
    comment: &CommentRef,
    reaction: Reaction,
) -> Result<(), ForgeError> {
    let CommentRef { number, id, .. } = comment;
    let review: Identified = github.get(repository, &format!("/pulls/{number}/reviews/{}", encoded(id))).await?;
    let content = match reaction {
        Reaction::Seen => "EYES",
        Reaction::Done => "ROCKET",
        Reaction::Failed => "CONFUSED",
    };
    github.graph(repository, REACT, json!({"id": review.node_id, "content": content})).await?;
    Ok(())
}
