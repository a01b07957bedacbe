//! Records the times of what has changed on a stand-in.

use super::state::{CommentedOn, Repository, State};

/// Records the times of what has changed.
pub(super) fn stamp(state: &mut State) {
    let contents = contents(&state.repositories);
    state.times.record(contents);
}

/// Returns the contents of everything that has times, each with its name in the times.
fn contents(repositories: &[Repository]) -> Vec<(String, String)> {
    let mut contents = Vec::new();
    for repository in repositories {
        for comment in &repository.comments {
            contents.push((format!("comment/{}", comment.id), comment.body.clone()));
        }
        for comment in repository.reviews.iter().flat_map(|review| &review.comments) {
            contents.push((format!("comment/{}", comment.id), comment.body.clone()));
        }
        for reply in &repository.replies {
            contents.push((format!("comment/{}", reply.id), reply.body.clone()));
        }
        for review in &repository.reviews {
            contents.push((format!("review/{}", review.id), review.body.clone()));
        }
        for pull in &repository.pulls {
            let reviews = repository.reviews.iter().filter(|review| review.pull == pull.number);
            let reviews: Vec<String> = reviews.map(|review| format!("{}{}", review.id, review.body)).collect();
            let comments = comments_of(repository, CommentedOn::Pull(pull.number));
            let lines = repository.reviews.iter().filter(|review| review.pull == pull.number);
            let lines = lines.flat_map(|review| &review.comments);
            let replies: Vec<_> = lines.flat_map(|line| repository.thread(line.id)).collect();
            let content = format!("{pull:?}{}{reviews:?}{replies:?}{comments:?}", repository.sha_of(pull));
            contents.push((format!("{}/{}", repository.id, pull.number), content));
        }
        for issue in &repository.issues {
            let comments = comments_of(repository, CommentedOn::Issue(issue.number));
            contents.push((issue_key(repository, issue.number), format!("{issue:?}{comments:?}")));
        }
    }
    contents
}

/// Returns the comments of a conversation as text.
fn comments_of(repository: &Repository, target: CommentedOn) -> Vec<String> {
    let of_target = repository.comments.iter().filter(|comment| comment.target == target);
    of_target.map(|one| format!("{}{}{:?}", one.id, one.body, repository.thread(one.id))).collect()
}

/// Returns the name of an issue in the times. On GitLab, a merge request can have the same number.
pub(super) fn issue_key(repository: &Repository, number: u64) -> String {
    format!("{}/issues/{number}", repository.id)
}
