//! Discussions: threads of notes, and notes outside of threads (Discussions API).

use http::Method;
use serde_json::{Value, json};

use super::notes::{Note, refused_text};
use super::{DEVELOPER, Request, error, forbidden, message, no_record, page, params};
use crate::code_host::Reply;
use crate::code_host::state::{CommentedOn, LAST_LINE, State};

/// Returns the ID of the discussion that a note begins: 40 hexadecimal digits.
fn discussion_id(root: u64) -> String {
    format!("d{root:039x}")
}

impl Request<'_> {
    pub(super) fn discussions(&self, state: &mut State, target: CommentedOn, rest: &[&str]) -> Reply {
        let call = self.call;
        let missing = || message(404, "404 Discussion Not Found");
        match (&call.method, rest) {
            (&Method::GET, ["discussions"]) => {
                let shown = self.discussion_ids(target).into_iter().map(|root| self.show_discussion(target, root));
                page(call, &self.url, shown.collect())
            }
            (&Method::GET, ["discussions", id]) => match self.root_of(target, id) {
                Some(note) => Reply::json(200, &self.show_discussion(target, note.id)),
                None => missing(),
            },
            (&Method::POST, ["discussions"]) => self.create_thread(state, target),
            (&Method::POST, ["discussions", id, "notes"]) => match self.root_of(target, id) {
                Some(root) => self.reply(state, target, &root),
                None => missing(),
            },
            // The ID of the discussion is not compared (`lib/api/discussions.rb`).
            (&Method::PUT, ["discussions", _, "notes", note]) => {
                match (params::value(call, "body"), params::value(call, "resolved")) {
                    (None, None) => error(400, "body, resolved are missing, exactly one parameter must be provided"),
                    (Some(_), Some(_)) => error(400, "body, resolved are mutually exclusive"),
                    (Some(_), None) => self.edit_note(state, target, note),
                    (None, Some(_)) => match self.note_of(target, note) {
                        Some(note) if self.may_resolve(target, &note) => {
                            self.resolve(state, note.root);
                            self.renewed(state).shown(target, note.id, 200)
                        }
                        Some(_) => forbidden(),
                        None => no_record(),
                    },
                }
            }
            (&Method::PUT, ["discussions", id]) if matches!(target, CommentedOn::Pull(_)) => {
                match self.root_of(target, id) {
                    Some(root) if self.may_resolve(target, &root) => {
                        self.resolve(state, root.id);
                        Reply::json(200, &self.renewed(state).show_discussion(target, root.id))
                    }
                    Some(_) => forbidden(),
                    None => missing(),
                }
            }
            _ => error(404, "404 Not Found"),
        }
    }

    /// Returns the notes that begin discussions, the oldest first (`Noteable#discussion_ids_relation`).
    fn discussion_ids(&self, target: CommentedOn) -> Vec<u64> {
        let mut roots: Vec<Note> = self.notes_of(target).into_iter().filter(|note| note.id == note.root).collect();
        roots.sort_by_key(|note| (!note.is_system, note.id));
        roots.iter().map(|note| note.id).collect()
    }

    /// Returns the note that begins a discussion.
    fn root_of(&self, target: CommentedOn, discussion: &str) -> Option<Note> {
        let is_it = |note: &Note| note.id == note.root && discussion_id(note.id) == discussion;
        self.notes_of(target).into_iter().find(is_it)
    }

    /// Shows a discussion, with its notes from the oldest on.
    fn show_discussion(&self, target: CommentedOn, root: u64) -> Value {
        let mut notes = self.notes_of(target);
        notes.retain(|note| note.root == root);
        notes.sort_by_key(|note| (note.id != root, note.id));
        let is_individual = notes.first().is_some_and(|note| note.kind.is_none());
        let shown: Vec<Value> = notes.iter().map(|note| self.show_note(target, note)).collect();
        json!({"id": discussion_id(root), "individual_note": is_individual, "notes": shown})
    }

    /// "Create new merge request thread" and "Create new issue thread". With a position, the thread is on a line of a
    /// merge request.
    fn create_thread(&self, state: &mut State, target: CommentedOn) -> Reply {
        let text = params::text(self.call, "body").unwrap_or_default();
        if let Some(refusal) = refused_text(&text) {
            return refusal;
        }
        let position = params::value(self.call, "position").filter(Value::is_object);
        let (Some(position), CommentedOn::Pull(number)) = (position, target) else {
            let id = state.add_comment(&self.found.path, target, self.user.id, &text);
            state.by_id(self.found.id).unwrap().gitlab.threads.insert(id);
            return Reply::json(201, &self.renewed(state).show_discussion(target, id));
        };
        let line = |name: &str| params::integer(self.call, &format!("position[{name}]"));
        let lines = [line("new_line"), line("old_line")];
        let is_file = position["position_type"] == "file";
        let is_in_diff = lines.iter().flatten().all(|line| (1..=LAST_LINE).contains(line));
        let has_paths = ["old_path", "new_path"].iter().all(|name| position[*name].is_string());
        if !has_paths || !is_in_diff || (!is_file && lines == [None, None]) {
            let problems = "[\"can't be blank\", \"must be a valid line code\"]";
            return message(400, format!("400 Bad request - Note {{:line_code=>{problems}}}"));
        }
        let path = position["new_path"].as_str().unwrap_or_default().to_owned();
        let line = lines.into_iter().flatten().next().unwrap_or_default();
        state.add_review(&self.found.path, number, self.user.id, "", vec![(path, line, text)]);
        let repository = state.by_id(self.found.id).unwrap();
        let id = repository.reviews.last().and_then(|review| review.comments.first()).map(|line| line.id);
        let id = id.unwrap_or_default();
        repository.gitlab.positions.insert(id, position);
        Reply::json(201, &self.renewed(state).show_discussion(target, id))
    }

    /// Shows the position of a comment on a line: as it was sent, with `null` for what was left out.
    pub(super) fn position(&self, number: u64, root: u64, path: &str, line: u64) -> Value {
        let pull = self.found.pulls.iter().find(|pull| pull.number == number);
        let head = pull.map(|pull| self.found.sha_of(pull));
        let base = pull.and_then(|pull| self.found.branches.get(&pull.base));
        let sent = self.found.gitlab.positions.get(&root);
        let mut shown = json!({
            "base_sha": base,
            "start_sha": base,
            "head_sha": head,
            "old_path": path,
            "new_path": path,
            "position_type": "text",
            "old_line": null,
            "new_line": if sent.is_some() { Value::Null } else { line.into() },
            "line_range": null,
        });
        for (name, value) in sent.and_then(Value::as_object).into_iter().flatten() {
            shown[name] = value.clone();
        }
        shown
    }

    /// "Add note to existing merge request thread". An individual note becomes a thread. Members may reply in locked
    /// discussions (Merge requests API, `discussion_locked`), and only members read private projects.
    fn reply(&self, state: &mut State, target: CommentedOn, root: &Note) -> Reply {
        let text = params::text(self.call, "body").unwrap_or_default();
        if let Some(refusal) = refused_text(&text) {
            return refusal;
        }
        let id = state.id();
        let repository = state.by_id(self.found.id).unwrap();
        repository.add_reply(id, root.id, self.user.id, &text);
        if root.kind.is_none() {
            repository.gitlab.threads.insert(root.id);
        }
        self.renewed(state).shown(target, id, 201)
    }

    /// "Resolve a merge request thread": developers and the author of the merge request may do it. The author of a note
    /// may resolve the note (`NotePolicy`).
    fn may_resolve(&self, target: CommentedOn, note: &Note) -> bool {
        let CommentedOn::Pull(number) = target else { return false };
        let is_author = self.found.pulls.iter().any(|pull| (pull.number, pull.author) == (number, self.user.id));
        note.kind.is_some() && (self.level() >= DEVELOPER || is_author || note.author == self.user.id)
    }

    fn resolve(&self, state: &mut State, root: u64) {
        let repository = state.by_id(self.found.id).unwrap();
        if params::flag(self.call, "resolved") {
            repository.resolved.insert(root);
            repository.gitlab.resolved_by.insert(root, self.user.id);
        } else {
            repository.resolved.remove(&root);
        }
    }
}
