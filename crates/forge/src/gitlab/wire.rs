//! The answers of GitLab, as far as the service needs them.

use journeyman_core::ports::{Check, CheckState, Permission};
use journeyman_core::pull::{HostPull, PullState};
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
    target_branch: String,
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
}

impl MergeRequest {
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

/// A pipeline of a merge request.
#[derive(Debug, Deserialize)]
pub(super) struct Pipeline {
    pub(super) sha: String,
    #[serde(default, deserialize_with = "or_default", rename = "ref")]
    pub(super) reference: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Commit {
    pub(super) parent_ids: Vec<String>,
}

/// A CI job, or a commit status of another service. They share their IDs.
#[derive(Debug, Deserialize)]
pub(super) struct Status {
    id: u64,
    pub(super) name: String,
    status: String,
    #[serde(default, deserialize_with = "or_default")]
    allow_failure: bool,
    #[serde(default)]
    target_url: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pipeline_id: u64,
}

impl Status {
    /// Returns the age; of two with the same name, the greater one counts.
    pub(super) const fn age(&self) -> (u64, u64) {
        (self.pipeline_id, self.id)
    }

    /// `jobs` is the address below which the project's CI jobs have their pages.
    pub(super) fn into_check(self, jobs: &str) -> Check {
        let state = match self.status.as_str() {
            "success" => CheckState::Passed,
            "failed" if !self.allow_failure => CheckState::Failed,
            // A manual job waits for a person, who may never start it.
            "failed" | "canceled" | "skipped" | "manual" => CheckState::Skipped,
            _ => CheckState::Pending,
        };
        let target = self.target_url.filter(|target| !target.is_empty());
        // Only commit statuses of other services have an address elsewhere.
        let is_page =
            |target: &String| ["jobs", "builds"].iter().any(|kind| target.ends_with(&format!("/{kind}/{}", self.id)));
        let is_job = target.as_ref().is_none_or(is_page);
        Check {
            name: self.name,
            state,
            url: target.or_else(|| Some(format!("{jobs}/{}", self.id))),
            summary: self.description.filter(|text| !text.is_empty()),
            log: is_job.then(|| self.id.to_string()),
        }
    }
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
        let check = |status: &str, allow_failure: bool, target: Option<&str>| {
            let fields = serde_json::json!({
                "id": 7, "name": "x", "status": status, "allow_failure": allow_failure, "target_url": target,
            });
            serde_json::from_value::<Status>(fields).unwrap().into_check("https://lab.example/a/b/-/jobs")
        };
        for (status, expected) in [
            ("success", CheckState::Passed),
            ("failed", CheckState::Failed),
            ("canceled", CheckState::Skipped),
            ("skipped", CheckState::Skipped),
            ("manual", CheckState::Skipped),
            ("created", CheckState::Pending),
            ("waiting_for_resource", CheckState::Pending),
            ("preparing", CheckState::Pending),
            ("running", CheckState::Pending),
            ("canceling", CheckState::Pending),
            ("scheduled", CheckState::Pending),
        ] {
            assert_eq!(check(status, false, None).state, expected, "{status}");
        }
        assert_eq!(check("failed", true, None).state, CheckState::Skipped);
        let job = check("success", false, None);
        assert_eq!((job.url.as_deref(), job.log.as_deref()), (Some("https://lab.example/a/b/-/jobs/7"), Some("7")));
        assert_eq!(check("success", false, Some("https://lab.example/a/b/-/jobs/7")).log.as_deref(), Some("7"));
        assert_eq!(check("success", false, Some("https://ci.example/7")).log, None);
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
        let fields = serde_json::json!({
            "iid": 1, "web_url": "u", "state": "locked", "title": "Draft: T", "description": null, "sha": null,
            "source_branch": "a", "target_branch": "b", "source_project_id": null, "target_project_id": 5,
        });
        let pull = serde_json::from_value::<MergeRequest>(fields).unwrap().into_pull();
        assert_eq!((pull.state, pull.title.as_str(), pull.is_from_fork), (PullState::Open, "T", true));
    }
}
