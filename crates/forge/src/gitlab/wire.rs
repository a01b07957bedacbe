//! The answers of GitLab, as far as the service needs them.

use journeyman_core::checks::{Check, CheckState};
use journeyman_core::code_host::PullState;
use journeyman_core::code_host::expiry::Expiry;
use journeyman_core::conversation::Permission;
use journeyman_core::pull::HostPull;
use serde::Deserialize;
use serde::de::IgnoredAny;

pub(super) use crate::json::User;
use crate::json::{Id, or_default, sha};

/// The access level from which a user may push: Developer.
const DEVELOPER: u64 = 30;

/// The access level from which a user may change the settings: Maintainer.
const MAINTAINER: u64 = 40;

/// The access level from which a user may read: Guest.
const GUEST: u64 = 10;

/// The maximum length of a title, in characters.
const TITLE_CHARS: usize = 255;

/// The prefixes that mark the title of a draft. GitLab ignores their case.
const DRAFTS: [&str; 3] = ["draft:", "[draft]", "(draft)"];

/// Returns a title without the prefixes of a draft.
fn without_prefix(title: &str) -> &str {
    let mut rest = title;
    loop {
        let begins = |prefix: &&&str| rest.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
        match DRAFTS.iter().find(begins) {
            Some(prefix) => rest = rest[prefix.len()..].trim_start(),
            None => return rest,
        }
    }
}

/// Returns a title that makes GitLab treat the merge request as a draft, or not. GitLab has no other way to say so.
pub(super) fn titled(title: &str, draft: bool) -> String {
    let plain = Some(without_prefix(title)).filter(|plain| !plain.is_empty()).unwrap_or(title);
    let prefix = if draft { "Draft: " } else { "" };
    prefix.chars().chain(plain.chars()).take(TITLE_CHARS).collect()
}

#[derive(Debug, Deserialize)]
pub(super) struct Project {
    pub(super) id: Id,
    pub(super) path_with_namespace: String,
    #[serde(default)]
    pub(super) default_branch: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) archived: bool,
    #[serde(default, deserialize_with = "or_default")]
    permissions: Permissions,
    /// The file with the pipelines, if it is not `.gitlab-ci.yml`; or a URL, or `<file>@<project>[:<ref>]`.
    #[serde(default)]
    ci_config_path: Option<String>,
}

/// The access of the token's user, as a member of the project and of its group.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Permissions {
    project_access: Option<Access>,
    group_access: Option<Access>,
}

#[derive(Debug, Deserialize)]
struct Access {
    #[serde(default)]
    access_level: u64,
}

impl Project {
    /// Returns whether the token's user may push; `None` if the user is no member. An administrator may push without
    /// being one.
    pub(super) fn can_push(&self) -> Option<bool> {
        let known = [&self.permissions.project_access, &self.permissions.group_access];
        known.into_iter().flatten().map(|access| access.access_level >= DEVELOPER).max()
    }

    /// Returns the path of the file with the pipelines, if a setting of the project names one ("Specify a custom CI/CD
    /// configuration file" in GitLab's documentation). A file of another project counts too: the setting may name this
    /// project.
    pub(super) fn ci_paths(&self) -> Vec<String> {
        let path = self.ci_config_path.as_deref().filter(|path| !path.contains("://")).unwrap_or_default();
        let path = path.split('@').next().unwrap_or_default().trim_start_matches('/');
        Some(path.to_owned()).filter(|path| !path.is_empty()).into_iter().collect()
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct MergeRequest {
    pub(super) iid: u64,
    web_url: String,
    pub(super) state: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) draft: bool,
    pub(super) title: String,
    #[serde(default)]
    description: Option<String>,
    source_branch: String,
    pub(super) target_branch: String,
    #[serde(default)]
    pub(super) sha: Option<String>,
    /// `null` if the fork was deleted.
    #[serde(default)]
    source_project_id: Id,
    #[serde(default)]
    target_project_id: Id,
    #[serde(default)]
    pub(super) reviewers: Option<Vec<User>>,
    #[serde(default)]
    pub(super) assignees: Option<Vec<User>>,
    /// Why the merge request can or cannot be merged; missing before version 15.6.
    #[serde(default, deserialize_with = "or_default")]
    pub(super) detailed_merge_status: String,
    /// `true` if GitLab merges it when all requirements are met, also in a merge train.
    #[serde(default, deserialize_with = "or_default")]
    pub(super) merge_when_pipeline_succeeds: bool,
    /// The newest pipeline. Only the answer about one merge request has it.
    #[serde(default)]
    head_pipeline: Option<HeadPipeline>,
}

/// The newest pipeline of a merge request.
#[derive(Debug, Deserialize)]
struct HeadPipeline {
    #[serde(default, deserialize_with = "or_default")]
    status: String,
}

impl MergeRequest {
    /// Returns whether its merge waits for something that can pass: a pipeline, or an approval.
    pub(super) fn waits(&self) -> bool {
        let has_pipeline = self.head_pipeline.as_ref().is_some_and(|pipeline| {
            let open = ["created", "waiting_for_resource", "preparing", "pending", "running", "scheduled"];
            open.contains(&pipeline.status.as_str())
        });
        let waiting = ["ci_still_running", "not_approved", "requested_changes", "discussions_not_resolved"];
        let status = self.detailed_merge_status.as_str();
        waiting.contains(&status) || (has_pipeline && !self.is_unchecked())
    }

    /// Returns whether GitLab has not found out yet whether it can be merged.
    pub(super) fn is_unchecked(&self) -> bool {
        matches!(self.detailed_merge_status.as_str(), "checking" | "unchecked" | "preparing" | "approvals_syncing")
    }

    pub(super) fn into_pull(self) -> HostPull {
        let state = match self.state.as_str() {
            "merged" => PullState::Merged,
            "closed" => PullState::Closed,
            // `locked` means that GitLab is merging it.
            _ => PullState::Open,
        };
        HostPull {
            number: self.iid,
            url: self.web_url,
            state,
            draft: self.draft,
            title: without_prefix(&self.title).to_owned(),
            body: self.description.unwrap_or_default(),
            head_sha: self.sha.as_deref().and_then(sha),
            is_from_fork: self.source_project_id != self.target_project_id,
            head: self.source_branch,
            base: self.target_branch,
        }
    }
}

/// A comparison of two branches.
#[derive(Debug, Deserialize)]
pub(super) struct OpenedRepository {
    /// The commits that only the second branch has.
    pub(super) commits: Vec<IgnoredAny>,
}

/// A merge request or an issue.
#[derive(Debug, Deserialize)]
pub(super) struct Noteable {
    web_url: String,
}

impl Noteable {
    /// Returns the URL of a note.
    pub(super) fn url_of(&self, note: &Note) -> String {
        format!("{}#note_{}", self.web_url, note.id.0)
    }
}

/// A thread of notes.
#[derive(Debug, Deserialize)]
pub(super) struct Discussion {
    pub(super) id: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) notes: Vec<Note>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Note {
    pub(super) id: Id,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) body: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) author: User,
    /// `true` if GitLab wrote it about a change.
    #[serde(default, deserialize_with = "or_default")]
    pub(super) system: bool,
    /// `true` if only members of the project see it.
    #[serde(default, deserialize_with = "or_default")]
    internal: bool,
    /// The same in older versions.
    #[serde(default, deserialize_with = "or_default")]
    confidential: bool,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) resolvable: bool,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) resolved: bool,
}

impl Note {
    /// Returns whether a person wrote the note for all who see what it is on.
    pub(super) const fn is_public(&self) -> bool {
        !self.system && !self.internal && !self.confidential
    }

    /// Returns whether GitLab wrote the note because the title or the text of an issue was changed. A change of the text
    /// that also marks a task has only the note about the task. GitLab writes these notes in English.
    pub(super) fn is_edit(&self) -> bool {
        let beginnings = ["changed title", "changed the description", "marked the task", "marked the checklist item"];
        self.system && beginnings.iter().any(|text| self.body.starts_with(text))
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Member {
    pub(super) id: Id,
    #[serde(default)]
    access_level: u64,
    #[serde(default)]
    state: Option<String>,
    #[serde(default)]
    membership_state: Option<String>,
}

impl Member {
    /// Returns the permission; none for a blocked user, and for a membership that no one has approved yet.
    pub(super) fn permission(&self) -> Permission {
        let is_active = |state: &Option<String>| state.as_deref().is_none_or(|state| state == "active");
        match self.access_level {
            _ if !is_active(&self.state) || !is_active(&self.membership_state) => Permission::None,
            MAINTAINER.. => Permission::Admin,
            DEVELOPER.. => Permission::Write,
            GUEST.. => Permission::Read,
            _ => Permission::None,
        }
    }
}

/// A pipeline.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Pipeline {
    pub(super) id: u64,
    #[serde(default)]
    pub(super) project_id: Id,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) sha: String,
    #[serde(default, deserialize_with = "or_default", rename = "ref")]
    pub(super) reference: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) status: String,
    /// `push`, `merge_request_event`, `parent_pipeline`, `external` and others.
    #[serde(default, deserialize_with = "or_default")]
    pub(super) source: String,
    #[serde(default)]
    pub(super) web_url: Option<String>,
}

impl Pipeline {
    /// Returns whether the pipeline has only statuses that other services set, and no CI jobs.
    pub(super) fn is_external(&self) -> bool {
        self.source == "external"
    }

    /// Returns the pipeline as a check, for one whose jobs are not read.
    pub(super) fn into_check(self, name: String, allow_failure: bool) -> Check {
        Check { url: self.web_url, ..Check::new(name, state_of(&self.status, allow_failure)) }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Commit {
    pub(super) parent_ids: Vec<String>,
}

/// Returns the state of a job, a pipeline or a commit status. A manual job waits for a person; one whose failure is
/// allowed does not stop its pipeline, so no one may ever start it.
fn state_of(status: &str, allow_failure: bool) -> CheckState {
    match status {
        "success" => CheckState::Passed,
        "failed" if !allow_failure => CheckState::Failed,
        "manual" if !allow_failure => CheckState::Waiting,
        "failed" | "canceled" | "skipped" | "manual" => CheckState::Skipped,
        _ => CheckState::Pending,
    }
}

/// A CI job of a pipeline, or a job that starts another pipeline (a bridge).
#[derive(Debug, Deserialize)]
pub(super) struct Job {
    pub(super) id: u64,
    pub(super) name: String,
    status: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) allow_failure: bool,
    #[serde(default)]
    web_url: Option<String>,
    /// Such as `script_failure` or `runner_system_failure`.
    #[serde(default)]
    failure_reason: Option<String>,
    /// The pipeline that a bridge has started; `None` if it has started none.
    #[serde(default)]
    pub(super) downstream_pipeline: Option<Pipeline>,
}

impl Job {
    /// `jobs` is the address below which the project's CI jobs have their pages.
    pub(super) fn into_check(self, jobs: &str) -> Check {
        let state = state_of(&self.status, self.allow_failure);
        let reason = self.failure_reason.filter(|reason| !reason.is_empty());
        Check {
            url: self.web_url.or_else(|| Some(format!("{jobs}/{}", self.id))),
            summary: reason.map(|reason| reason.replace('_', " ")),
            log: Some(self.id.to_string()),
            ..Check::new(self.name, state)
        }
    }
}

/// A CI job, or a commit status of another service. They share their IDs.
#[derive(Debug, Deserialize)]
pub(super) struct Status {
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) status: String,
    #[serde(default, deserialize_with = "or_default")]
    allow_failure: bool,
    #[serde(default)]
    target_url: Option<String>,
    #[serde(default)]
    description: Option<String>,
    /// 0 before version 16.3, which does not say it.
    #[serde(default, deserialize_with = "or_default")]
    pub(super) pipeline_id: u64,
}

impl Status {
    /// Returns the age; of two with the same name, the greater one counts.
    pub(super) const fn age(&self) -> (u64, u64) {
        (self.pipeline_id, self.id)
    }

    /// Returns whether another service has set the status, which has an address elsewhere. A job has its page as address,
    /// or none.
    pub(super) fn is_of_service(&self) -> bool {
        let is_page =
            |target: &str| ["jobs", "builds"].iter().any(|kind| target.ends_with(&format!("/{kind}/{}", self.id)));
        self.target_url.as_deref().is_some_and(|target| !target.is_empty() && !is_page(target))
    }

    /// `jobs` is the address below which the project's CI jobs have their pages.
    pub(super) fn into_check(self, jobs: &str) -> Check {
        let state = state_of(&self.status, self.allow_failure);
        let is_job = !self.is_of_service();
        Check {
            url: self.target_url.filter(|target| !target.is_empty()).or_else(|| Some(format!("{jobs}/{}", self.id))),
            summary: self.description.filter(|text| !text.is_empty()),
            log: is_job.then(|| self.id.to_string()),
            ..Check::new(self.name, state)
        }
    }
}

/// A reviewer of a merge request (`GET /projects/:id/merge_requests/:iid/reviewers`).
#[derive(Debug, Deserialize)]
pub(super) struct Reviewer {
    #[serde(default, deserialize_with = "or_default")]
    pub(super) user: User,
    /// `unreviewed`, `reviewed`, `requested_changes`, `approved` and others.
    #[serde(default, deserialize_with = "or_default")]
    pub(super) state: String,
}

/// A token of the service, whatever it belongs to: a user, a project or a group.
#[derive(Deserialize)]
pub(super) struct TokenEnd {
    /// The day at whose beginning, in UTC, the token ends; `null` if it has no end.
    #[serde(default)]
    expires_at: Option<String>,
}

impl TokenEnd {
    pub(super) fn into_expiry(self) -> Expiry {
        let Some(day) = self.expires_at else { return Expiry::Never };
        format!("{day}T00:00:00Z").parse().map_or(Expiry::Unknown, Expiry::At)
    }
}

/// Returns in words why a merge request cannot be merged, from `detailed_merge_status` ("Merge status" in GitLab's REST
/// description); `None` if it can be, if only its pipelines prevent it, or if GitLab does not know it yet.
pub(super) fn merge_status(status: &str) -> Option<String> {
    Some(match status {
        "" | "mergeable" | "checking" | "preparing" | "unchecked" | "approvals_syncing" | "ci_must_pass"
        | "ci_still_running" | "not_open" => return None,
        "broken_status" | "conflict" => "it conflicts with its target branch".to_owned(),
        "commits_status" => "its branch has no commits, or does not exist".to_owned(),
        "discussions_not_resolved" => "discussions are not resolved".to_owned(),
        "draft_status" => "it is a draft".to_owned(),
        "jira_association_missing" => "its title or description names no Jira issue".to_owned(),
        "locked_paths" => "paths that it changes are locked".to_owned(),
        "locked_lfs_files" => "files of Git LFS that it changes are locked".to_owned(),
        "merge_request_blocked" => "another merge request blocks it".to_owned(),
        "merge_time" => "it may be merged only after a certain time".to_owned(),
        "need_rebase" => "it must be rebased".to_owned(),
        "not_approved" => "approvals are missing".to_owned(),
        "requested_changes" => "a reviewer has requested changes".to_owned(),
        "security_policy_violations" | "policies_denied" => "a security policy prevents it".to_owned(),
        "security_policy_pipeline_check" => "the pipelines of security policies have not passed".to_owned(),
        "status_checks_must_pass" | "external_status_checks" => "external status checks have not passed".to_owned(),
        "title_regex" | "title_not_matching" => "its title does not match the required form".to_owned(),
        other => other.replace('_', " "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notes_about_edits_are_recognized() {
        for (system, body, expected) in [
            (true, "changed the description", true),
            (true, "changed title from **{-A-}** to **{+B+}**", true),
            (true, "marked the task **x** as completed", true),
            (true, "marked the checklist item **x** as incomplete", true),
            (true, "added ~1 label", false),
            (true, "assigned to @ada", false),
            (false, "changed the description", false),
        ] {
            let note = serde_json::json!({"id": 1, "body": body, "system": system});
            assert_eq!(serde_json::from_value::<Note>(note).unwrap().is_edit(), expected, "{system} {body}");
        }
    }

    #[test]
    fn the_title_says_whether_it_is_a_draft() {
        for (title, draft, expected) in [
            ("Add a page", true, "Draft: Add a page"),
            ("draft:Add a page", true, "Draft: Add a page"),
            ("[Draft] (draft) Add a page", false, "Add a page"),
            ("Drafts: add", false, "Drafts: add"),
            ("Ä", false, "Ä"),
            ("Draft:", false, "Draft:"),
        ] {
            assert_eq!(titled(title, draft), expected, "{title}");
        }
        assert_eq!(titled(&"ä".repeat(300), true).chars().count(), TITLE_CHARS);
    }

    #[test]
    fn states_of_jobs_are_mapped() {
        for (status, expected) in [
            ("success", CheckState::Passed),
            ("failed", CheckState::Failed),
            ("canceled", CheckState::Skipped),
            ("skipped", CheckState::Skipped),
            ("manual", CheckState::Waiting),
            ("created", CheckState::Pending),
            ("waiting_for_resource", CheckState::Pending),
            ("preparing", CheckState::Pending),
            ("running", CheckState::Pending),
            ("canceling", CheckState::Pending),
            ("scheduled", CheckState::Pending),
        ] {
            assert_eq!(state_of(status, false), expected, "{status}");
        }
        assert_eq!((state_of("failed", true), state_of("manual", true)), (CheckState::Skipped, CheckState::Skipped));
        let job = serde_json::json!({"id": 7, "name": "x", "status": "failed", "failure_reason": "script_failure"});
        let job = serde_json::from_value::<Job>(job).unwrap().into_check("https://lab.example/a/b/-/jobs");
        assert_eq!((job.url.as_deref(), job.log.as_deref()), (Some("https://lab.example/a/b/-/jobs/7"), Some("7")));
        assert_eq!(job.summary.as_deref(), Some("script failure"));
    }

    #[test]
    fn statuses_of_services_have_an_address_elsewhere() {
        for (target, expected) in [
            (None, false),
            (Some(""), false),
            (Some("https://lab.example/a/b/-/jobs/7"), false),
            (Some("https://lab.example/a/b/builds/7"), false),
            (Some("https://lab.example/a/b/-/jobs/8"), true),
            (Some("https://ci.example/7"), true),
        ] {
            let fields = serde_json::json!({"id": 7, "name": "x", "status": "success", "target_url": target});
            assert_eq!(serde_json::from_value::<Status>(fields).unwrap().is_of_service(), expected, "{target:?}");
        }
    }

    #[test]
    fn only_what_prevents_a_merge_is_told() {
        for quiet in ["", "mergeable", "checking", "ci_must_pass", "ci_still_running"] {
            assert_eq!(merge_status(quiet), None, "{quiet}");
        }
        assert_eq!(merge_status("not_approved").as_deref(), Some("approvals are missing"));
        assert_eq!(merge_status("new_rule").as_deref(), Some("new rule"));
    }

    #[test]
    fn only_active_members_have_a_permission() {
        let permission = |fields: serde_json::Value| serde_json::from_value::<Member>(fields).unwrap().permission();
        for (level, expected) in [
            (5, Permission::None),
            (20, Permission::Read),
            (30, Permission::Write),
            (40, Permission::Admin),
            (50, Permission::Admin),
        ] {
            assert_eq!(permission(serde_json::json!({"id": 1, "access_level": level, "state": "active"})), expected);
        }
        for (state, membership) in [("blocked", "active"), ("active", "awaiting")] {
            let fields =
                serde_json::json!({"id": 1, "access_level": 40, "state": state, "membership_state": membership});
            assert_eq!(permission(fields), Permission::None);
        }
    }

    #[test]
    fn fields_that_are_not_needed_may_be_missing() {
        let fields = serde_json::json!({"id": 1, "path_with_namespace": "a/b", "permissions": null, "archived": null});
        let project: Project = serde_json::from_value(fields).unwrap();
        assert_eq!((project.can_push(), project.archived), (None, false));
        assert_eq!(project.ci_paths(), [] as [String; 0]);
        for (setting, expected) in [
            ("ci/main.yml", vec!["ci/main.yml"]),
            ("/ci/main.yml", vec!["ci/main.yml"]),
            ("ci/main.yml@a/b:main", vec!["ci/main.yml"]),
            ("https://lab.example/ci.yml", vec![]),
            ("", vec![]),
        ] {
            let fields = serde_json::json!({"id": 1, "path_with_namespace": "a/b", "ci_config_path": setting});
            assert_eq!(serde_json::from_value::<Project>(fields).unwrap().ci_paths(), expected, "{setting}");
        }
        let fields = serde_json::json!({
            "iid": 1, "web_url": "u", "state": "locked", "title": "Draft: T", "description": null, "sha": null,
            "source_branch": "a", "target_branch": "b", "source_project_id": null, "target_project_id": 5,
        });
        let pull = serde_json::from_value::<MergeRequest>(fields).unwrap().into_pull();
        assert_eq!((pull.state, pull.title.as_str(), pull.is_from_fork), (PullState::Open, "T", true));
    }
}
