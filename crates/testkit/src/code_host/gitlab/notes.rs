//! Notes, which are the comments of merge requests and issues, and emoji reactions.

use http::Method;
use serde_json::{Value, json};

use super::records::Award;
use super::{MAINTAINER, Request, TIME, error, forbidden, message, no_record, page, params, sort};
use crate::code_host::Reply;
use crate::code_host::state::{CommentedOn, Repository, State};

/// The emoji that the stand-in knows.
const EMOJI: [&str; 10] =
    ["thumbsup", "thumbsdown", "eyes", "rocket", "confused", "tada", "heart", "smile", "white_check_mark", "x"];

/// The first ID of the notes that GitLab writes itself.
const FIRST_SYSTEM_NOTE: u64 = 2_000_000;

/// The most characters of a note (GitLab application limits, "Size of comments and descriptions").
const LONGEST: usize = 1_000_000;

/// A note of a merge request or an issue.
#[derive(Debug, Clone)]
pub(super) struct Note {
    pub(super) id: u64,
    /// The note that begins the discussion.
    pub(super) root: u64,
    pub(super) author: u64,
    pub(super) body: String,
    /// `None` for a comment outside of threads (`Note#type`).
    pub(super) kind: Option<&'static str>,
    /// The path and the line of a comment on a line.
    pub(super) line: Option<(String, u64)>,
    pub(super) is_system: bool,
}

/// Refuses the text of a note (`process_note_creation_result` in `lib/api/helpers/notes_helpers.rb`).
pub(super) fn refused_text(text: &str) -> Option<Reply> {
    let problem = if text.trim().is_empty() {
        "can't be blank".to_owned()
    } else if text.chars().count() > LONGEST {
        format!("is too long (maximum is {LONGEST} characters)")
    } else {
        return None;
    };
    Some(message(400, format!("400 Bad request - Note {{:note=>[\"{problem}\"]}}")))
}

impl Request<'_> {
    /// Returns the notes of a merge request or an issue.
    pub(super) fn notes_of(&self, target: CommentedOn) -> Vec<Note> {
        let found = &self.found;
        let mut notes = Vec::new();
        for comment in found.comments.iter().filter(|comment| comment.target == target) {
            let (id, body) = (comment.id, comment.body.clone());
            let is_thread = found.gitlab.threads.contains(&id) || !found.thread(id).is_empty();
            let kind = is_thread.then_some("DiscussionNote");
            notes.push(Note { id, root: id, author: comment.author, body, kind, line: None, is_system: false });
        }
        let number = if let CommentedOn::Pull(number) = target { number } else { 0 };
        let reviews = found.reviews.iter().filter(|review| review.pull == number);
        for (line, author) in reviews.flat_map(|review| review.comments.iter().map(|line| (line, review.author))) {
            let (id, body, kind) = (line.id, line.body.clone(), Some("DiffNote"));
            let line = Some((line.path.clone(), line.line));
            notes.push(Note { id, root: id, author, body, kind, line, is_system: false });
        }
        for root in notes.clone() {
            let replies = found.thread(root.id).into_iter();
            notes.extend(replies.map(|reply| Note {
                id: reply.id,
                author: reply.author,
                body: reply.body.clone(),
                ..root.clone()
            }));
        }
        notes.extend(self.system_notes(target));
        notes
    }

    fn system_notes(&self, target: CommentedOn) -> Vec<Note> {
        let note = |id: u64, author: u64, body: String| Note {
            id,
            root: id,
            author,
            body,
            kind: None,
            line: None,
            is_system: true,
        };
        match target {
            CommentedOn::Issue(number) => {
                let issues = self.found.issues.iter().filter(|issue| issue.number == number);
                let editors = issues.flat_map(|issue| &issue.editors).zip(FIRST_SYSTEM_NOTE..);
                editors.map(|(editor, id)| note(id, *editor, "changed the description".to_owned())).collect()
            }
            CommentedOn::Pull(number) => {
                let pulls = self.found.pulls.iter().filter(|pull| pull.number == number);
                let show = |pull: &crate::code_host::state::Pull| {
                    note(FIRST_SYSTEM_NOTE + number, pull.author, format!("created branch `{}`", pull.head))
                };
                pulls.map(show).collect()
            }
        }
    }

    /// Notes API: the operations on notes outside of discussions.
    pub(super) fn notes(&self, state: &mut State, target: CommentedOn, rest: &[&str]) -> Reply {
        let call = self.call;
        match (&call.method, rest) {
            // The newest come first, by their IDs unless they are ordered by their last change.
            (&Method::GET, ["notes"]) => {
                let mut notes = self.notes_of(target);
                match params::text(call, "activity_filter").as_deref() {
                    Some("only_comments") => notes.retain(|note| !note.is_system),
                    Some("only_activity") => notes.retain(|note| note.is_system),
                    _ => {}
                }
                let mut shown: Vec<Value> = notes.iter().map(|note| self.show_note(target, note)).collect();
                let order = params::text(call, "order_by").filter(|order| order == "updated_at");
                let is_ascending = params::text(call, "sort").as_deref() == Some("asc");
                sort(&mut shown, order.as_deref().unwrap_or("id"), is_ascending);
                page(call, &self.url, shown)
            }
            (&Method::GET, ["notes", id]) => match self.note_of(target, id) {
                Some(note) => Reply::json(200, &self.show_note(target, &note)),
                None => no_record(),
            },
            (&Method::POST, ["notes"]) => {
                let text = params::text(call, "body").unwrap_or_default();
                if let Some(refusal) = refused_text(&text) {
                    return refusal;
                }
                let id = state.add_comment(&self.found.path, target, self.user.id, &text);
                self.renewed(state).shown(target, id, 201)
            }
            (&Method::PUT, ["notes", id]) => self.edit_note(state, target, id),
            _ => error(404, "404 Not Found"),
        }
    }

    pub(super) fn note_of(&self, target: CommentedOn, id: &str) -> Option<Note> {
        self.notes_of(target).into_iter().find(|note| note.id.to_string() == id)
    }

    /// Returns the answer with a note.
    pub(super) fn shown(&self, target: CommentedOn, id: u64, status: u16) -> Reply {
        match self.notes_of(target).iter().find(|note| note.id == id) {
            Some(note) => Reply::json(status, &self.show_note(target, note)),
            None => no_record(),
        }
    }

    /// Notes API, "Modify existing merge request note". The author and maintainers may do it (`NotePolicy`).
    pub(super) fn edit_note(&self, state: &mut State, target: CommentedOn, id: &str) -> Reply {
        let Some(note) = self.note_of(target, id) else { return no_record() };
        if note.is_system || (note.author != self.user.id && self.level() < MAINTAINER) {
            return forbidden();
        }
        if let Some(text) = params::text(self.call, "body") {
            if let Some(refusal) = refused_text(&text) {
                return refusal;
            }
            if let Some(body) = body_of(state.by_id(self.found.id).unwrap(), note.id) {
                *body = text;
            }
        }
        self.renewed(state).shown(target, note.id, 200)
    }

    /// Shows a note (`API::Entities::Note`).
    pub(super) fn show_note(&self, target: CommentedOn, note: &Note) -> Value {
        let (kind, number) = match target {
            CommentedOn::Pull(number) => ("MergeRequest", number),
            CommentedOn::Issue(number) => ("Issue", number),
        };
        let (created, updated) = if note.is_system {
            let (created, _) = self.times_of(target);
            (created.clone(), created)
        } else {
            self.times.exact(&format!("comment/{}", note.id))
        };
        // Only threads of merge requests can be resolved here; those of issues depend on a setting of the instance.
        let is_resolvable = note.kind.is_some() && kind == "MergeRequest";
        let mut shown = json!({
            "id": note.id,
            "type": note.kind,
            "body": note.body,
            "author": self.show_person(note.author),
            "created_at": created,
            "updated_at": updated,
            "system": note.is_system,
            "noteable_id": self.found.id * 1_000 + number,
            "noteable_type": kind,
            "project_id": self.found.id,
            "resolvable": is_resolvable,
            "confidential": false,
            "internal": false,
            "imported": false,
            "imported_from": "none",
            "noteable_iid": number,
            "commands_changes": {},
        });
        if let Some((path, line)) = &note.line {
            shown["commit_id"] = Value::Null;
            shown["position"] = self.position(number, note.root, path, *line);
        }
        if is_resolvable {
            let is_resolved = self.found.resolved.contains(&note.root);
            let by = self.found.gitlab.resolved_by.get(&note.root).copied().unwrap_or(note.author);
            shown["resolved"] = is_resolved.into();
            shown["resolved_by"] = if is_resolved { self.show_person(by) } else { Value::Null };
            shown["resolved_at"] = is_resolved.then_some(TIME).into();
        }
        shown
    }

    /// Emoji reactions API, "Add a new emoji reaction", on a note or on the merge request or the issue itself. The
    /// messages are those of `lib/api/award_emoji.rb`.
    pub(super) fn award(&self, state: &mut State, target: CommentedOn, note: Option<u64>) -> Reply {
        let found = note.and_then(|id| self.note_of(target, &id.to_string()));
        if note.is_some() && found.is_none() {
            return no_record();
        }
        let refused = |problem: &str| message(404, format!("404 Award Emoji {problem} Not Found"));
        let name = params::text(self.call, "name").unwrap_or_default();
        if found.is_some_and(|note| note.is_system) {
            return refused("Awardable cannot be awarded emoji");
        }
        if !EMOJI.contains(&name.as_str()) {
            return refused("Name is not a valid emoji name");
        }
        let repository = state.by_id(self.found.id).unwrap();
        let is_same = |award: &&Award| (award.target, award.note, &award.name) == (target, note, &name);
        let mut same = repository.gitlab.awards.iter().filter(is_same).peekable();
        // A reaction that a test has given to a comment is that of the user.
        let is_given = note.and_then(|id| reactions_of(repository, id)).is_some_and(|given| given.contains(&name));
        let is_taken = if same.peek().is_some() { same.any(|one| one.user == self.user.id) } else { is_given };
        if is_taken {
            return refused("Name has already been taken");
        }
        repository.gitlab.awards.push(Award { target, note, user: self.user.id, name: name.clone() });
        let id = repository.gitlab.awards.len();
        if let Some(given) = note.and_then(|id| reactions_mut(repository, id)) {
            given.push(name.clone());
        }
        let (kind, number) = match target {
            CommentedOn::Pull(number) => ("MergeRequest", number),
            CommentedOn::Issue(number) => ("Issue", number),
        };
        let shown = json!({
            "id": id,
            "name": name,
            "user": self.show_person(self.user.id),
            "created_at": TIME,
            "updated_at": TIME,
            "awardable_id": note.unwrap_or(self.found.id * 1_000 + number),
            "awardable_type": if note.is_some() { "Note" } else { kind },
            "url": null,
        });
        Reply::json(201, &shown)
    }

    /// Returns the numbers of thumbs up and thumbs down of a merge request or an issue.
    pub(super) fn votes(&self, target: CommentedOn) -> (usize, usize) {
        let awards = self.found.gitlab.awards.iter().filter(|award| award.target == target && award.note.is_none());
        let names: Vec<&str> = awards.map(|award| award.name.as_str()).collect();
        let count = |wanted: &str| names.iter().filter(|name| **name == wanted).count();
        (count("thumbsup"), count("thumbsdown"))
    }
}

/// Returns the text of a note.
fn body_of(repository: &mut Repository, id: u64) -> Option<&mut String> {
    let comments = repository.comments.iter_mut().map(|one| (one.id, &mut one.body));
    let replies = repository.replies.iter_mut().map(|one| (one.id, &mut one.body));
    let lines = repository.reviews.iter_mut().flat_map(|review| &mut review.comments);
    let mut all = comments.chain(replies).chain(lines.map(|one| (one.id, &mut one.body)));
    all.find(|(known, _)| *known == id).map(|(_, body)| body)
}

/// Returns the reactions to a comment, as tests read them.
fn reactions_mut(repository: &mut Repository, id: u64) -> Option<&mut Vec<String>> {
    let comments = repository.comments.iter_mut().map(|one| (one.id, &mut one.reactions));
    let lines = repository.reviews.iter_mut().flat_map(|review| &mut review.comments);
    let mut all = comments.chain(lines.map(|one| (one.id, &mut one.reactions)));
    all.find(|(known, _)| *known == id).map(|(_, reactions)| reactions)
}

fn reactions_of(repository: &Repository, id: u64) -> Option<&Vec<String>> {
    let comments = repository.comments.iter().map(|one| (one.id, &one.reactions));
    let lines = repository.reviews.iter().flat_map(|review| &review.comments);
    let mut all = comments.chain(lines.map(|one| (one.id, &one.reactions)));
    all.find(|(known, _)| *known == id).map(|(_, reactions)| reactions)
}
