//! The merge of merge requests, and what prevents it.

use serde_json::{Value, json};

use super::{DEVELOPER, Request, TIME, is_hash, message, page, params, unauthorized};
use crate::code_host::Reply;
use crate::code_host::state::{Pipeline, Pull, PullState, State};

/// The statuses of pipelines that have not ended (`Ci::HasStatus::ACTIVE_STATUSES` and `created`).
const ACTIVE: [&str; 6] =
    ["created", "waiting_for_resource", "preparing", "waiting_for_callback", "pending", "running"];

/// What prevents an auto-merge too (`MergeRequest#skipped_mergeable_checks`).
const FINAL: [&str; 4] = ["not_open", "commits_status", "conflict", "need_rebase"];

impl Request<'_> {
    /// Returns whether the source branch exists, and has commits that the target branch lacks.
    pub(super) fn has_commits(&self, pull: &Pull) -> bool {
        let head = self.found.sha_of(pull);
        !head.is_empty() && self.found.branches.get(&pull.base) != Some(&head)
    }

    /// Merge requests API, "Merge status", with the order of `MergeRequests::Mergeability::DetailedMergeStatusService`:
    /// while Git has not tested the merge, nothing else is told.
    pub(super) fn detailed_merge_status(&self, pull: &Pull) -> &str {
        match self.found.merge_status.as_str() {
            _ if pull.state != PullState::Open => "not_open",
            "" => "checking",
            status @ ("checking" | "unchecked" | "preparing") => status,
            _ if pull.draft => "draft_status",
            _ if pull.fork.is_none() && !self.has_commits(pull) => "commits_status",
            status => status,
        }
    }

    /// Merge requests API, "Merge a merge request", with the order of the checks in `lib/api/merge_requests.rb`.
    pub(super) fn merge(&self, state: &mut State, pull: &Pull) -> Reply {
        // Developers may merge into the protected branch, and not push to it.
        if self.level() < DEVELOPER {
            return unauthorized();
        }
        let head = self.found.sha_of(pull);
        if params::text(self.call, "sha").is_some_and(|sha| sha != head) {
            return message(409, format!("SHA does not match HEAD of source branch: {head}"));
        }
        // `merge_when_pipeline_succeeds` is the deprecated name.
        let is_auto = params::flag(self.call, "auto_merge") || params::flag(self.call, "merge_when_pipeline_succeeds");
        let status = self.detailed_merge_status(pull);
        let is_mergeable = status == "mergeable";
        let pipeline = self.pipelines_of(pull).into_iter().next().map(|pipeline| pipeline.status);
        let is_running = pipeline.as_ref().is_some_and(|status| ACTIVE.contains(&status.as_str()));
        // Auto-merge: there is nothing to wait for if the merge request can be merged (`MergeWhenChecksPassService`).
        if is_auto && !FINAL.contains(&status) && (!is_mergeable || is_running) {
            let repository = state.by_id(self.found.id).unwrap();
            if !repository.auto_merges.contains(&pull.number) {
                repository.auto_merges.push(pull.number);
            }
            return Reply::json(200, &self.renewed(state).show_pull(pull));
        }
        let may_merge = if is_auto { pipeline.is_none_or(|status| status == "success") } else { is_mergeable };
        if !may_merge {
            return message(405, "405 Method Not Allowed");
        }
        if !is_mergeable {
            return message(422, "Branch cannot be merged");
        }
        state.end(&self.found.path, pull.number, PullState::Merged);
        let renewed = self.renewed(state);
        let merged = renewed.found.pulls.iter().find(|known| known.number == pull.number);
        let mut shown = renewed.show_pull(merged.unwrap_or(pull));
        shown["merged_by"] = self.show_person(self.user.id);
        shown["merge_user"] = shown["merged_by"].clone();
        Reply::json(200, &shown)
    }

    /// Returns the pipelines of a merge request: those for it, then those of its branch, the newest first
    /// (`Ci::PipelinesForMergeRequestFinder`).
    pub(super) fn pipelines_of(&self, pull: &Pull) -> Vec<Pipeline> {
        let head = self.found.sha_of(pull);
        let own = format!("refs/merge-requests/{}/", pull.number);
        let is_own = |pipeline: &Pipeline| pipeline.reference.starts_with(&own) && pipeline.source != "parent_pipeline";
        let is_of_branch = |pipeline: &Pipeline| {
            let is_branch_source = !["parent_pipeline", "merge_request_event"].contains(&pipeline.source.as_str());
            pipeline.sha == head && pipeline.reference == pull.head && is_branch_source
        };
        let mut listed = self.pipelines();
        listed.retain(|pipeline| is_own(pipeline) || is_of_branch(pipeline));
        listed.sort_by_key(|pipeline| (!is_own(pipeline), std::cmp::Reverse(pipeline.id)));
        listed
    }

    /// Merge requests API, "Get single merge request reviewers".
    pub(super) fn reviewers(&self, pull: &Pull) -> Reply {
        let shown = pull.reviewers.iter().zip(self.show_people(&pull.reviewers)).map(|(name, user)| {
            let asks = self.found.changes_requested.contains(name);
            let state = if asks { "requested_changes" } else { "unreviewed" };
            json!({"user": user, "state": state, "created_at": TIME})
        });
        page(self.call, &self.url, shown.collect())
    }

    /// Commits API, "List merge requests associated with a commit": the newest first.
    pub(super) fn pulls_of(&self, sha: &str) -> Reply {
        if !is_hash(sha) {
            return message(404, "404 Commit Not Found");
        }
        let pulls = self.found.pulls.iter().filter(|pull| self.found.sha_of(pull) == sha);
        let shown: Vec<Value> = pulls.map(|pull| self.show_basic_pull(pull)).collect();
        page(self.call, &self.url, self.listed(shown))
    }
}
