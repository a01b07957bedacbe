//! Reactions.

use serde_json::{Value, json};

use super::super::state::{Repository, State, User};
use super::super::{ApiRequest, Reply};
use super::answers::{AT, Kind, error, refused_body, text};
use super::records::{Reaction, Subject};
use super::users::show_user;

/// The names in the REST interface and in GraphQL (enum `ReactionContent`).
const NAMES: [(&str, &str); 8] = [
    ("+1", "THUMBS_UP"),
    ("-1", "THUMBS_DOWN"),
    ("laugh", "LAUGH"),
    ("confused", "CONFUSED"),
    ("heart", "HEART"),
    ("hooray", "HOORAY"),
    ("rocket", "ROCKET"),
    ("eyes", "EYES"),
];

/// Returns the name in the REST interface for a name in GraphQL.
pub(super) fn from_graphql(content: &str) -> Option<&'static str> {
    NAMES.iter().find(|(_, graphql)| *graphql == content).map(|(name, _)| *name)
}

/// Answers the operations `reactions/create-for-issue`, `reactions/create-for-issue-comment` and
/// `reactions/create-for-pull-request-review-comment`. The status is 200 if the user has added the reaction before.
pub(super) fn answer(state: &mut State, call: &ApiRequest, user: &User, found: &Repository, subject: Subject) -> Reply {
    const CONTENTS: &[&str] = &["+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes"];
    if let Some(reply) = refused_body(call, &["content"], &[("content", Kind::Choice(CONTENTS))]) {
        return reply;
    }
    if !exists(found, subject) {
        return error(404, "Not Found");
    }
    let (is_new, reaction) = add(state, user, found.id, subject, text(&call.body, "content"));
    Reply::json(if is_new { 201 } else { 200 }, &show(state, &reaction))
}

fn show(state: &State, reaction: &Reaction) -> Value {
    json!({
        "id": reaction.id, "node_id": format!("REA_{}", reaction.id), "user": show_user(state, reaction.user),
        "content": reaction.content, "created_at": AT,
    })
}

/// Returns whether a repository has what a reaction is for.
pub(super) fn exists(found: &Repository, subject: Subject) -> bool {
    match subject {
        Subject::Issue(number) => {
            let mut numbers = found.pulls.iter().map(|pull| pull.number);
            numbers.any(|known| known == number) || found.issues.iter().any(|issue| issue.number == number)
        }
        Subject::Comment(id) => found.comments.iter().any(|comment| comment.id == id),
        Subject::Line(id) => {
            let mut lines = found.reviews.iter().flat_map(|review| &review.comments);
            lines.any(|line| line.id == id) || found.replies.iter().any(|reply| reply.id == id)
        }
        Subject::Review(id) => found.reviews.iter().any(|review| review.id == id),
    }
}

/// Adds a reaction of a user, unless the user has added it before. Returns whether it is new.
pub(super) fn add(
    state: &mut State,
    user: &User,
    repository: u64,
    subject: Subject,
    content: &str,
) -> (bool, Reaction) {
    let id = state.id();
    let found = state.by_id(repository).unwrap();
    let is_it = |known: &&Reaction| (known.subject, known.user) == (subject, user.id) && known.content == content;
    if let Some(known) = found.github.reactions.iter().find(is_it) {
        return (false, known.clone());
    }
    let reaction = Reaction { id, subject, user: user.id, content: content.to_owned() };
    found.github.reactions.push(reaction.clone());
    let lists = match subject {
        Subject::Issue(_) => None,
        Subject::Comment(id) => {
            found.comments.iter_mut().find(|known| known.id == id).map(|comment| (&mut comment.reactions, content))
        }
        Subject::Line(id) => {
            let mut lines = found.reviews.iter_mut().flat_map(|review| &mut review.comments);
            lines.find(|known| known.id == id).map(|line| (&mut line.reactions, content))
        }
        Subject::Review(id) => {
            let name = NAMES.iter().find(|(name, _)| *name == content).map_or(content, |(_, graphql)| graphql);
            Some((found.review_reactions.entry(id).or_default(), name))
        }
    };
    if let Some((list, name)) = lists
        && !list.iter().any(|known| known == name)
    {
        list.push(name.to_owned());
    }
    (true, reaction)
}
