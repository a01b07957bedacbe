//! Issues and comments.

use http::Method;
use serde_json::{Value, json};

use super::{EMOJI, FIRST_SYSTEM_NOTE, Request, error, invalid, message, no_record, page, show_user};
use crate::code_host::Reply;
use crate::code_host::state::{Issue, LAST_LINE, Place, State};

impl Request<'_> {
    pub(super) fn issue(&self, state: &mut State, issue: &Issue, rest: &[&str]) -> Reply {
        match (&self.call.method, rest) {
            (&Method::GET, []) => Reply::json(
                200,
                &json!({
                    "id": self.found.id * 1_000 + issue.number,
                    "iid": issue.number,
                    "project_id": self.found.id,
                    "title": issue.title,
                    "description": issue.body,
                    "state": "opened",
                    "labels": issue.labels,
                    "author": self.users.iter().find(|user| user.id == issue.author).map(|user| show_user(&self.url, user)),
                    "web_url": format!("{}/-/issues/{}", self.web_url(), issue.number),
                }),
            ),
            (_, ["notes" | "discussions" | "award_emoji", ..]) => {
                self.conversation(state, Place::Issue(issue.number), rest)
            }
            _ => error(404, "404 Not Found"),
        }
    }

    /// Answers a request about the notes and reactions of a merge request or an issue.
    pub(super) fn conversation(&self, state: &mut State, place: Place, rest: &[&str]) -> Reply {
        match (&self.call.method, rest) {
            (&Method::GET, ["notes"]) => {
                let mut notes = self.notes(place);
                notes.sort_by_key(|note| note["id"].as_u64());
                if self.call.parameter("sort") != Some("asc") {
                    notes.reverse();
                }
                page(self.call, &self.url, notes)
            }
            (&Method::GET, ["discussions"]) => page(self.call, &self.url, self.discussions(place)),
            (&Method::GET, ["discussions", id]) => {
                let found = self.discussions(place).into_iter().find(|discussion| discussion["id"] == *id);
                found.map_or_else(|| error(404, "404 Discussion Not Found"), |found| Reply::json(200, &found))
            }
            (&Method::POST, ["discussions"]) => {
                let Place::Pull(number) = place else { return error(404, "404 Not Found") };
                let (body, position) = (&self.call.body["body"], &self.call.body["position"]);
                let refs = ["base_sha", "start_sha", "head_sha", "old_path", "new_path"];
                let is_complete =
                    refs.iter().all(|name| position[*name].is_string()) && position["position_type"] == "text";
                let line = position["new_line"].as_u64().or_else(|| position["old_line"].as_u64()).unwrap_or_default();
                if !is_complete || !(1..=LAST_LINE).contains(&line) {
                    return message(
                        400,
                        "400 Bad request - Note {:line_code=>[\"can't be blank\", \"must be a valid line code\"]}",
                    );
                }
                let path = position["new_path"].as_str().unwrap_or_default().to_owned();
                let text = body.as_str().unwrap_or_default().to_owned();
                let id = state.add_review(&self.found.path, number, self.user.id, "", vec![(path, line, text)]);
                Reply::json(201, &json!({"id": format!("discussion-{id}"), "individual_note": false, "notes": []}))
            }
            (&Method::POST, ["notes"]) => {
                let Some(text) = self.call.body["body"].as_str() else { return error(400, "body is missing") };
                if text.trim().is_empty() {
                    return message(400, "400 Bad request - Note {:note=>[\"can't be blank\"]}");
                }
                if text.chars().count() > 1_000_000 {
                    return invalid("note", "is too long (maximum is 1000000 characters)");
                }
                let id = state.add_comment(&self.found.path, place, self.user.id, text);
                Reply::json(201, &self.show_note(place, id, self.user.id, text))
            }
            (&Method::PUT, ["notes", note]) => {
                let (note, text) = (note.parse().unwrap_or_default(), self.call.body["body"].as_str());
                let Some(text) = text.filter(|text| !text.trim().is_empty()) else {
                    return error(400, "body is missing");
                };
                if !state.by_id(self.found.id).unwrap().edit(note, self.user.id, text) {
                    return error(404, "404 Note Not Found");
                }
                Reply::json(200, &self.show_note(place, note, self.user.id, text))
            }
            (&Method::POST, ["discussions", id, "notes"]) => {
                let Some(text) = self.call.body["body"].as_str() else { return error(400, "body is missing") };
                let Some(root) = self.root_of(place, id) else { return error(404, "404 Discussion Not Found") };
                if self.found.locked_threads.contains(&root) {
                    return error(403, "403 Forbidden");
                }
                let note = state.id();
                state.by_id(self.found.id).unwrap().add_reply(note, root, self.user.id, text);
                Reply::json(201, &self.show_note(place, note, self.user.id, text))
            }
            (&Method::PUT, ["discussions", id]) if matches!(place, Place::Pull(_)) => {
                let Some(is_resolved) = self.call.body["resolved"].as_bool() else {
                    return error(400, "resolved is missing");
                };
                let Some(root) = self.root_of(place, id) else { return error(404, "404 Discussion Not Found") };
                let resolved = &mut state.by_id(self.found.id).unwrap().resolved;
                let _ = if is_resolved { resolved.insert(root) } else { resolved.remove(&root) };
                Reply::json(200, &json!({"id": id, "individual_note": false, "notes": []}))
            }
            (&Method::POST, ["award_emoji"]) => self.award(Some(&mut Vec::new())),
            (&Method::POST, ["notes", note, "award_emoji"]) => {
                let note: u64 = note.parse().unwrap_or_default();
                let repository = state.by_id(self.found.id).unwrap();
                let comments = repository.comments.iter_mut().filter(|comment| comment.place == place);
                let comments = comments.map(|comment| (comment.id, &mut comment.reactions));
                let reviews = repository.reviews.iter_mut().filter(|review| place == Place::Pull(review.pull));
                let lines = reviews.flat_map(|review| &mut review.comments);
                let mut all = comments.chain(lines.map(|comment| (comment.id, &mut comment.reactions)));
                self.award(all.find(|(id, _)| *id == note).map(|(_, reactions)| reactions))
            }
            _ => error(404, "404 Not Found"),
        }
    }

    /// Returns the comment on a line that begins a discussion.
    fn root_of(&self, place: Place, discussion: &str) -> Option<u64> {
        let Place::Pull(number) = place else { return None };
        let root = u64::from_str_radix(discussion.strip_prefix('d')?, 16).ok()?;
        self.found.has_line(number, root).then_some(root)
    }

    pub(super) fn notes(&self, place: Place) -> Vec<Value> {
        let comments = self.found.comments.iter().filter(|comment| comment.place == place);
        let mut notes: Vec<Value> =
            comments.map(|comment| self.show_note(place, comment.id, comment.author, &comment.body)).collect();
        if let Place::Issue(number) = place {
            let issues = self.found.issues.iter().filter(|issue| issue.number == number);
            for (id, editor) in (FIRST_SYSTEM_NOTE..).zip(issues.flat_map(|issue| &issue.editors)) {
                let mut note = self.show_note(place, id, *editor, "changed the description");
                note["system"] = true.into();
                notes.push(note);
            }
        }
        let Place::Pull(number) = place else { return notes };
        for review in self.found.reviews.iter().filter(|review| review.pull == number) {
            for comment in &review.comments {
                let mut note = self.show_note(place, comment.id, review.author, &comment.body);
                let is_resolved = self.found.resolved.contains(&comment.id);
                let on_line = |mut note: Value| {
                    note["type"] = "DiffNote".into();
                    note["position"] = json!({"new_path": comment.path, "new_line": comment.line});
                    (note["resolvable"], note["resolved"]) = (true.into(), is_resolved.into());
                    note
                };
                note = on_line(note);
                notes.push(note);
                for reply in self.found.thread(comment.id) {
                    notes.push(on_line(self.show_note(place, reply.id, reply.author, &reply.body)));
                }
            }
        }
        if let Some(pull) = self.found.pulls.iter().find(|pull| pull.number == number) {
            let text = format!("created branch `{}`", pull.head);
            let mut note = self.show_note(place, FIRST_SYSTEM_NOTE + number, pull.author, &text);
            note["system"] = true.into();
            notes.push(note);
        }
        notes
    }

    /// Returns the discussions: each comment on a line with its replies, and each other note.
    fn discussions(&self, place: Place) -> Vec<Value> {
        let notes = self.notes(place);
        let id_of = |note: &Value| note["id"].as_u64().unwrap();
        let is_reply = |note: &&Value| self.found.replies.iter().any(|reply| reply.id == id_of(note));
        let show = |note: &Value| {
            let replies = self.found.thread(id_of(note));
            let is_it = |other: &&Value| replies.iter().any(|reply| reply.id == id_of(other));
            let notes: Vec<&Value> = std::iter::once(note).chain(notes.iter().filter(is_it)).collect();
            json!({"id": format!("d{:039x}", id_of(note)), "individual_note": note["type"].is_null(), "notes": notes})
        };
        notes.iter().filter(|note| !is_reply(note)).map(show).collect()
    }

    pub(super) fn show_note(&self, place: Place, id: u64, author: u64, body: &str) -> Value {
        let (kind, number) = match place {
            Place::Pull(number) => ("MergeRequest", number),
            Place::Issue(number) => ("Issue", number),
        };
        json!({
            "id": id,
            "type": null,
            "body": body,
            "author": self.users.iter().find(|user| user.id == author).map(|user| show_user(&self.url, user)),
            "created_at": "2026-01-01T00:00:00.000Z",
            "updated_at": "2026-01-01T00:00:00.000Z",
            "system": false,
            "noteable_id": self.found.id * 1_000 + number,
            "noteable_iid": number,
            "noteable_type": kind,
            "project_id": self.found.id,
            "resolvable": false,
            "confidential": false,
            "internal": false,
        })
    }

    pub(super) fn award(&self, reactions: Option<&mut Vec<String>>) -> Reply {
        let Some(reactions) = reactions else { return no_record() };
        let Some(name) = self.call.body["name"].as_str() else { return error(400, "name is missing") };
        if !EMOJI.contains(&name) {
            return message(404, "404 Award Emoji Name is not a valid emoji name Not Found");
        }
        if reactions.iter().any(|known| known == name) {
            return message(404, "404 Award Emoji Name has already been taken Not Found");
        }
        reactions.push(name.to_owned());
        Reply::json(201, &json!({"id": 1, "name": name, "user": show_user(&self.url, &self.user)}))
    }
}
