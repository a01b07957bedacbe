//! Merge requests.

use http::Method;
use serde_json::{Value, json};

use super::{Request, check_texts, error, invalid, is_hash, list_of, message, page, show_user, split_title};
use crate::code_host::Reply;
use crate::code_host::state::{Place, Pull, PullState, State};

impl Request<'_> {
    pub(super) fn show_pull(&self, pull: &Pull) -> Value {
        let sha = self.found.sha_of(pull);
        let merged_at = (pull.state == PullState::Merged).then_some("2026-01-01T00:00:00.000Z");
        json!({
            "id": self.found.id * 1_000 + pull.number,
            "iid": pull.number,
            "project_id": self.found.id,
            "source_project_id": pull.fork.unwrap_or(self.found.id),
            "target_project_id": self.found.id,
            "title": if pull.draft { format!("Draft: {}", pull.title) } else { pull.title.clone() },
            "description": pull.body,
            "state": match pull.state {
                PullState::Open => "opened",
                PullState::Merged => "merged",
                PullState::Closed => "closed",
            },
            "draft": pull.draft,
            "work_in_progress": pull.draft,
            "source_branch": pull.head,
            "target_branch": pull.base,
            "diff_refs": {
                "base_sha": self.found.branches.get(&pull.base),
                "start_sha": self.found.branches.get(&pull.base),
                "head_sha": sha,
            },
            "sha": Some(sha).filter(|sha| !sha.is_empty()),
            "web_url": format!("{}/-/merge_requests/{}", self.web_url(), pull.number),
            "author": self.users.iter().find(|user| user.id == pull.author).map(|user| show_user(&self.url, user)),
            "labels": pull.labels,
            "reviewers": self.show_people(&pull.reviewers),
            "assignees": self.show_people(&pull.assignees),
            "merged_at": merged_at,
            "merge_when_pipeline_succeeds": self.found.auto_merges.contains(&pull.number),
            "detailed_merge_status": if self.found.merge_status.is_empty() { "checking" } else { &self.found.merge_status },
        })
    }

    pub(super) fn pulls(&self) -> Reply {
        let wanted = |name: &str| self.call.parameter(name).map(str::to_owned);
        let (head, base) = (wanted("source_branch"), wanted("target_branch"));
        let state = wanted("state").filter(|state| state != "all");
        let shown = self.found.pulls.iter().rev().filter(|pull| {
            head.as_ref().is_none_or(|head| pull.head == *head) && base.as_ref().is_none_or(|base| pull.base == *base)
        });
        let listed = shown.map(|pull| self.show_pull(pull));
        let listed = listed.filter(|pull| state.as_ref().is_none_or(|state| pull["state"] == **state));
        page(self.call, &self.url, listed.collect())
    }

    pub(super) fn create_pull(&self, state: &mut State) -> Reply {
        let body = &self.call.body;
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        let required = ["title", "source_branch", "target_branch"].into_iter().filter(|name| !body[*name].is_string());
        let missing: Vec<String> = required.map(|name| format!("{name} is missing")).collect();
        if !missing.is_empty() {
            return error(400, &missing.join(", "));
        }
        let (head, base) = (text("source_branch"), text("target_branch"));
        if head == base {
            return message(422, json!(["You can't use same project/branch for source and target"]));
        }
        for (field, branch) in [("source_branch", &head), ("target_branch", &base)] {
            if !self.found.branches.contains_key(branch) {
                return invalid(field, "does not exist");
            }
        }
        let mut open = self.found.pulls.iter().filter(|pull| pull.state == PullState::Open && pull.fork.is_none());
        if let Some(other) = open.find(|pull| pull.head == head && pull.base == base) {
            let text = "Another open merge request already exists for this source branch";
            return message(409, json!([format!("{text}: !{}", other.number)]));
        }
        if let Some(reply) = check_texts(body) {
            return reply;
        }
        // Without commits, GitLab opens a draft.
        let is_empty = self.found.branches[&head] == self.found.branches[&base];
        let title = text("title");
        let (draft, title) = split_title(&title);
        let mut pull = Pull {
            number: self.found.pulls.iter().map(|pull| pull.number).max().unwrap_or_default() + 1,
            draft: draft || is_empty,
            title: title.to_owned(),
            body: text("description"),
            head,
            base,
            author: self.user.id,
            ..Pull::default()
        };
        if let Some(reply) = self.decorate(&mut pull) {
            return reply;
        }
        state.by_id(self.found.id).unwrap().pulls.push(pull.clone());
        Reply::json(201, &self.show_pull(&pull))
    }

    pub(super) fn pull(&self, state: &mut State, pull: &Pull, rest: &[&str]) -> Reply {
        match (&self.call.method, rest) {
            (&Method::GET, []) => Reply::json(200, &self.show_pull(pull)),
            (&Method::PUT, []) => self.update_pull(state, pull),
            (&Method::PUT, ["merge"]) => self.merge(state, pull),
            (&Method::GET, ["pipelines"]) => self.pipelines_of(pull),
            (&Method::GET, ["reviewers"]) => self.reviewers(pull),
            (_, ["notes" | "discussions" | "award_emoji", ..]) => {
                self.conversation(state, Place::Pull(pull.number), rest)
            }
            _ => error(404, "404 Not Found"),
        }
    }

    /// Merges a merge request, at once if nothing is left to wait for.
    fn merge(&self, state: &mut State, pull: &Pull) -> Reply {
        let body = &self.call.body;
        if pull.draft || body["sha"].as_str() != Some(self.found.sha_of(pull).as_str()) {
            return message(405, "405 Method Not Allowed");
        }
        let is_later = body["auto_merge"] == true && body["merge_when_pipeline_succeeds"] == true;
        let found = state.by_path(&self.found.path).unwrap();
        match found.has_requirements && is_later {
            true => found.auto_merges.push(pull.number),
            false => found.pulls.iter_mut().find(|one| one.number == pull.number).unwrap().state = PullState::Merged,
        }
        Reply::json(200, &self.show_pull(pull))
    }

    /// Lists the pipelines of a merge request, newest first.
    fn pipelines_of(&self, pull: &Pull) -> Reply {
        let head = self.found.sha_of(pull);
        let mut listed = self.pipelines();
        listed.retain(|pipeline| {
            let is_result = pipeline.reference == format!("refs/merge-requests/{}/merge", pull.number);
            is_result || (pipeline.sha == head && pipeline.source != "parent_pipeline")
        });
        page(self.call, &self.url, listed.iter().rev().map(|pipeline| self.show_pipeline(pipeline)).collect())
    }

    /// Lists the reviewers of a merge request, with what they have done.
    fn reviewers(&self, pull: &Pull) -> Reply {
        let shown = pull.reviewers.iter().map(|name| {
            let asks = self.found.changes_requested.contains(name);
            let user = self.users.iter().find(|user| user.name == *name).map(|user| show_user(&self.url, user));
            json!({"user": user, "state": if asks { "requested_changes" } else { "unreviewed" }})
        });
        page(self.call, &self.url, shown.collect())
    }

    /// Lists the merge requests that have a commit.
    pub(super) fn pulls_of(&self, sha: &str) -> Reply {
        if !is_hash(sha) {
            return message(404, "404 Commit Not Found");
        }
        let pulls = self.found.pulls.iter().filter(|pull| self.found.sha_of(pull) == sha);
        page(self.call, &self.url, pulls.map(|pull| self.show_pull(pull)).collect())
    }

    pub(super) fn update_pull(&self, state: &mut State, pull: &Pull) -> Reply {
        let body = &self.call.body;
        let known = [
            "title",
            "description",
            "target_branch",
            "labels",
            "add_labels",
            "remove_labels",
            "assignee_ids",
            "reviewer_ids",
            "state_event",
        ];
        if known.iter().all(|name| body.get(name).is_none()) {
            return error(400, &format!("{} are missing, at least one parameter must be provided", known.join(", ")));
        }
        if let Some(reply) = check_texts(body) {
            return reply;
        }
        let mut changed = pull.clone();
        if let Some(title) = body["title"].as_str() {
            let (draft, title) = split_title(title);
            (changed.draft, changed.title) = (draft, title.to_owned());
        }
        if let Some(description) = body["description"].as_str() {
            description.clone_into(&mut changed.body);
        }
        match body["state_event"].as_str() {
            Some("close") => changed.state = PullState::Closed,
            Some("reopen") if changed.state == PullState::Closed => changed.state = PullState::Open,
            None => {}
            Some(_) => return error(400, "state_event does not have a valid value"),
        }
        if let Some(reply) = self.decorate(&mut changed) {
            return reply;
        }
        changed.version += 1;
        let repository = state.by_id(self.found.id).unwrap();
        repository.labels.extend(changed.labels.iter().filter(|label| !self.found.labels.contains(label)).cloned());
        *repository.pulls.iter_mut().find(|known| known.number == pull.number).unwrap() = changed.clone();
        Reply::json(200, &self.show_pull(&changed))
    }

    /// Sets the labels, reviewers and assignees of a request.
    pub(super) fn decorate(&self, pull: &mut Pull) -> Option<Reply> {
        let body = &self.call.body;
        if let Some(labels) = list_of(&body["labels"]) {
            pull.labels = labels;
        }
        for label in list_of(&body["add_labels"]).unwrap_or_default() {
            if !pull.labels.contains(&label) {
                pull.labels.push(label);
            }
        }
        let removed = list_of(&body["remove_labels"]).unwrap_or_default();
        pull.labels.retain(|label| !removed.contains(label));
        for (field, people) in [("reviewer_ids", &mut pull.reviewers), ("assignee_ids", &mut pull.assignees)] {
            let Some(texts) = list_of(&body[field]) else { continue };
            let ids: Option<Vec<u64>> = texts.iter().map(|text| text.parse().ok()).collect();
            let Some(ids) = ids else { return Some(error(400, &format!("{field} is invalid"))) };
            if ids.is_empty() || ids == [0] {
                people.clear();
                continue;
            }
            // GitLab Free takes the first one, and leaves out users who may not read the project.
            let readers = self.users.iter().filter(|user| self.found.permissions.contains_key(&user.id));
            let chosen = readers.filter(|user| user.id == ids[0]).map(|user| user.name.clone()).collect::<Vec<_>>();
            if !chosen.is_empty() {
                *people = chosen;
            }
        }
        None
    }
}
