//! Merge requests: what is shown of them, and how they are created and changed. Merges are in `merge`.

use http::Method;
use serde_json::{Map, Value, json};

use super::{DEVELOPER, Request, TIME, forbidden, invalid, message, page, params};
use crate::code_host::Reply;
use crate::code_host::state::{CommentedOn, Pull, PullState, State};

/// The prefixes that mark the title of a draft (Draft merge requests, "Mark merge requests as drafts").
const DRAFTS: [&str; 3] = ["draft:", "[draft]", "(draft)"];

/// The most characters of titles and descriptions (Merge requests API, "Create MR").
const LIMITS: [(&str, usize); 2] = [("title", 255), ("description", 1_048_576)];

/// Splits a title into whether it is that of a draft, and the rest.
fn split_title(title: &str) -> (bool, &str) {
    let (mut draft, mut rest) = (false, title);
    while let Some(prefix) = DRAFTS.iter().find(|prefix| rest.to_ascii_lowercase().starts_with(**prefix)) {
        (draft, rest) = (true, rest[prefix.len()..].trim_start());
    }
    (draft, rest)
}

/// Returns the properties of merge requests that the stand-in never changes.
fn unused() -> Map<String, Value> {
    let unused = json!({
        "merged_by": null,
        "merge_user": null,
        "merge_after": null,
        "closed_by": null,
        "imported": false,
        "imported_from": "none",
        "milestone": null,
        "merge_commit_sha": null,
        "squash_commit_sha": null,
        "discussion_locked": null,
        "should_remove_source_branch": null,
        "force_remove_source_branch": null,
        "squash": false,
        "squash_on_merge": false,
        "task_completion_status": {"count": 0, "completed_count": 0},
        "time_stats": {
            "time_estimate": 0,
            "total_time_spent": 0,
            "human_time_estimate": null,
            "human_total_time_spent": null,
        },
    });
    unused.as_object().cloned().unwrap_or_default()
}

impl Request<'_> {
    pub(super) fn pull(&self, state: &mut State, pull: &Pull, rest: &[&str]) -> Reply {
        match (&self.call.method, rest) {
            (&Method::GET, []) => Reply::json(200, &self.show_pull(pull)),
            (&Method::PUT, []) => self.update_pull(state, pull),
            (&Method::PUT, ["merge"]) => self.merge(state, pull),
            (&Method::GET, ["pipelines"]) => {
                let shown = self.pipelines_of(pull).into_iter().map(|pipeline| self.show_pipeline(&pipeline));
                page(self.call, &self.url, shown.collect())
            }
            (&Method::GET, ["reviewers"]) => self.reviewers(pull),
            _ => self.conversation(state, CommentedOn::Pull(pull.number), rest),
        }
    }

    /// Shows a merge request as lists do (`API::Entities::MergeRequestBasic`).
    pub(super) fn show_basic_pull(&self, pull: &Pull) -> Value {
        let sha = self.found.sha_of(pull);
        let (created, updated) = self.times_of(CommentedOn::Pull(pull.number));
        let status = self.detailed_merge_status(pull);
        let reference = format!("!{}", pull.number);
        let is_auto = self.found.auto_merges.contains(&pull.number);
        let (up, down) = self.votes(CommentedOn::Pull(pull.number));
        let mut labels = pull.labels.clone();
        labels.sort();
        let assignees = self.show_people(&pull.assignees);
        let notes = self.notes_of(CommentedOn::Pull(pull.number));
        let mut shown = json!({
            "id": self.found.id * 1_000 + pull.number,
            "iid": pull.number,
            "project_id": self.found.id,
            "title": if pull.draft { format!("Draft: {}", pull.title) } else { pull.title.clone() },
            "description": pull.body,
            "state": match pull.state {
                PullState::Open => "opened",
                PullState::Merged => "merged",
                PullState::Closed => "closed",
            },
            "created_at": created,
            "updated_at": updated,
            "merged_at": (pull.state == PullState::Merged).then_some(&updated),
            "closed_at": (pull.state == PullState::Closed).then_some(&updated),
            "target_branch": pull.base,
            "source_branch": pull.head,
            "user_notes_count": notes.iter().filter(|note| !note.is_system).count(),
            "upvotes": up,
            "downvotes": down,
            "author": self.show_person(pull.author),
            "assignee": assignees.first(),
            "assignees": assignees,
            "reviewers": self.show_people(&pull.reviewers),
            "source_project_id": pull.fork.unwrap_or(self.found.id),
            "target_project_id": self.found.id,
            "labels": labels,
            "draft": pull.draft,
            "work_in_progress": pull.draft,
            "merge_when_pipeline_succeeds": is_auto,
            "merge_status": match status {
                "checking" | "unchecked" => status,
                "preparing" => "checking",
                "conflict" | "commits_status" => "cannot_be_merged",
                _ => "can_be_merged",
            },
            "detailed_merge_status": status,
            "sha": Some(sha).filter(|sha| !sha.is_empty()),
            "prepared_at": created,
            "reference": reference,
            "references": {
                "short": reference,
                "relative": reference,
                "full": format!("{}{reference}", self.found.path),
            },
            "web_url": format!("{}/-/merge_requests/{}", self.web_url(), pull.number),
            "has_conflicts": matches!(status, "conflict" | "commits_status"),
            "blocking_discussions_resolved": status != "discussions_not_resolved",
        });
        shown.as_object_mut().into_iter().for_each(|shown| shown.extend(unused()));
        shown
    }

    /// Shows a merge request as the operations about one do (Merge requests API, "Get single MR").
    pub(super) fn show_pull(&self, pull: &Pull) -> Value {
        let mut shown = self.show_basic_pull(pull);
        let base = self.found.branches.get(&pull.base);
        let pipeline = self.pipelines_of(pull).first().map(|pipeline| self.show_pipeline(pipeline));
        shown["subscribed"] = (pull.author == self.user.id).into();
        shown["changes_count"] = if self.has_commits(pull) { json!("1") } else { Value::Null };
        shown["latest_build_started_at"] = pipeline.is_some().then_some(TIME).into();
        shown["latest_build_finished_at"] = Value::Null;
        shown["first_deployed_to_production_at"] = Value::Null;
        shown["pipeline"] = pipeline.clone().into();
        shown["head_pipeline"] = pipeline.into();
        shown["diff_refs"] = json!({"base_sha": base, "head_sha": shown["sha"], "start_sha": base});
        shown["merge_error"] = Value::Null;
        shown["first_contribution"] = false.into();
        shown["user"] = json!({"can_merge": self.level() >= DEVELOPER});
        shown
    }

    /// Merge requests API, "List project merge requests": merge requests of all states, the newest first.
    pub(super) fn pulls(&self) -> Reply {
        let wanted = |name: &str| params::text(self.call, name);
        let (head, base, wip) = (wanted("source_branch"), wanted("target_branch"), wanted("wip"));
        let source = params::integer(self.call, "source_project_id");
        let shown = self.found.pulls.iter().filter(|pull| {
            head.as_ref().is_none_or(|head| pull.head == *head)
                && base.as_ref().is_none_or(|base| pull.base == *base)
                && wip.as_ref().is_none_or(|wip| pull.draft == (wip == "yes"))
                && source.is_none_or(|source| pull.fork.unwrap_or(self.found.id) == source)
        });
        let mut listed = self.listed(shown.map(|pull| self.show_basic_pull(pull)).collect());
        if wanted("view").is_some() {
            let simple =
                ["id", "iid", "project_id", "title", "description", "state", "created_at", "updated_at", "web_url"];
            for item in &mut listed {
                *item = simple.iter().map(|name| ((*name).to_owned(), item[name].clone())).collect();
            }
        }
        page(self.call, &self.url, listed)
    }

    /// Merge requests API, "Create MR".
    pub(super) fn create_pull(&self, state: &mut State) -> Reply {
        if self.level() < DEVELOPER {
            return forbidden();
        }
        let text = |name: &str| params::text(self.call, name).unwrap_or_default();
        let title = text("title");
        let (draft, title) = split_title(&title);
        let mut pull = Pull {
            number: self.found.pulls.iter().map(|pull| pull.number).max().unwrap_or_default() + 1,
            draft,
            title: title.to_owned(),
            body: text("description"),
            head: text("source_branch"),
            base: text("target_branch"),
            author: self.user.id,
            ..Pull::default()
        };
        if let Some(refusal) = self.refused_pull(&pull, true) {
            return refusal;
        }
        self.decorate(&mut pull);
        self.stored(state, pull, 201)
    }

    /// Merge requests API, "Update MR".
    fn update_pull(&self, state: &mut State, pull: &Pull) -> Reply {
        // `MergeRequestPolicy`: developers and the author.
        if self.level() < DEVELOPER && pull.author != self.user.id {
            return forbidden();
        }
        let mut changed = pull.clone();
        if let Some(title) = params::text(self.call, "title") {
            let (draft, title) = split_title(&title);
            (changed.draft, changed.title) = (draft, title.to_owned());
        }
        if params::value(self.call, "description").is_some() {
            changed.body = params::text(self.call, "description").unwrap_or_default();
        }
        if let Some(base) = params::text(self.call, "target_branch") {
            changed.base = base;
        }
        // `MergeRequests::CloseService` and `ReopenService`: other states stay as they are, without an error.
        match (params::text(self.call, "state_event").as_deref(), pull.state) {
            (Some("close"), PullState::Open) => {
                changed.ended_sha = self.found.branches.get(&pull.head).cloned();
                changed.state = PullState::Closed;
            }
            (Some("reopen"), PullState::Closed) => {
                changed.ended_sha = None;
                changed.state = PullState::Open;
            }
            _ => {}
        }
        if let Some(refusal) = self.refused_pull(&changed, changed.base != pull.base) {
            return refusal;
        }
        self.decorate(&mut changed);
        changed.version += 1;
        self.stored(state, changed, 200)
    }

    /// Refuses a merge request that is not valid (`MergeRequest#validate_branches`, and `handle_merge_request_errors!` in
    /// `lib/api/helpers/merge_requests_helpers.rb`). That branches which do not exist are refused is not documented.
    fn refused_pull(&self, pull: &Pull, has_new_branches: bool) -> Option<Reply> {
        if pull.head == pull.base && pull.fork.is_none() {
            return Some(message(422, json!(["You can't use same project/branch for source and target"])));
        }
        let mut open = self.found.pulls.iter().filter(|other| other.state == PullState::Open);
        let same = open.find(|other| {
            other.number != pull.number && (&other.head, &other.base, other.fork) == (&pull.head, &pull.base, pull.fork)
        });
        if let Some(other) = same.filter(|_| pull.state == PullState::Open) {
            let text = "Another open merge request already exists for this source branch";
            return Some(message(409, json!([format!("{text}: !{}", other.number)])));
        }
        let is_missing = |branch: &String| has_new_branches && !self.found.branches.contains_key(branch);
        if pull.fork.is_none() && is_missing(&pull.head) {
            return Some(invalid("source_branch", "does not exist"));
        }
        if is_missing(&pull.base) {
            return Some(invalid("target_branch", "does not exist"));
        }
        if pull.title.trim().is_empty() {
            return Some(invalid("title", "can't be blank"));
        }
        let is_long = |(name, most): &(&str, usize)| {
            params::text(self.call, name).is_some_and(|text| text.chars().count() > *most)
        };
        let (name, most) = LIMITS.into_iter().find(is_long)?;
        Some(invalid(name, &format!("is too long (maximum is {most} characters)")))
    }

    /// Sets the labels, reviewers and assignees of a merge request.
    fn decorate(&self, pull: &mut Pull) {
        let list = |name: &str| params::list(self.call, name);
        if let Some(labels) = list("labels") {
            pull.labels = labels;
        }
        for label in list("add_labels").unwrap_or_default() {
            if !pull.labels.contains(&label) {
                pull.labels.push(label);
            }
        }
        let removed = list("remove_labels").unwrap_or_default();
        pull.labels.retain(|label| !removed.contains(label));
        let assignees = list("assignee_ids").or_else(|| list("assignee_id"));
        for (ids, people) in [(list("reviewer_ids"), &mut pull.reviewers), (assignees, &mut pull.assignees)] {
            let Some(ids) = ids else { continue };
            if ids.is_empty() || ids == ["0"] {
                people.clear();
                continue;
            }
            // Several people are a feature of Premium, so the first one counts. Users who may not read the project are
            // left out (`IssuableBaseService#filter_assignees`).
            let mut readers = self.users.iter().filter(|user| self.found.permissions.contains_key(&user.id));
            if let Some(chosen) = readers.find(|user| user.id.to_string() == ids[0]) {
                *people = vec![chosen.name.clone()];
            }
        }
    }

    /// Stores a new or a changed merge request. Labels that do not exist are created.
    fn stored(&self, state: &mut State, pull: Pull, status: u16) -> Reply {
        let repository = state.by_id(self.found.id).unwrap();
        repository.labels.extend(pull.labels.iter().filter(|label| !self.found.labels.contains(label)).cloned());
        match repository.pulls.iter_mut().find(|known| known.number == pull.number) {
            Some(known) => *known = pull.clone(),
            None => repository.pulls.push(pull.clone()),
        }
        Reply::json(status, &self.renewed(state).show_pull(&pull))
    }
}
