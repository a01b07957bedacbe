//! The project, its members, branches and commits.

use serde_json::{Value, json};

use super::{DEVELOPER, MAINTAINER, Request, TIME, level, message, no_record, params, show_user};
use crate::code_host::Reply;

/// The branch to which only maintainers may push, and into which developers may merge (Protected branches, "Default
/// branch protection").
const PROTECTED: &str = "main";

impl Request<'_> {
    /// Projects API, "Get a single project".
    pub(super) fn show_project(&self) -> Value {
        let path = &self.found.path;
        let name = path.rsplit('/').next().unwrap_or(path);
        json!({
            "id": self.found.id,
            "description": null,
            "name": name,
            "name_with_namespace": path.replace('/', " / "),
            "path": name,
            "path_with_namespace": path,
            "created_at": TIME,
            "default_branch": self.found.branches.contains_key(PROTECTED).then_some(PROTECTED),
            "empty_repo": self.found.branches.is_empty(),
            "archived": self.found.is_archived,
            "visibility": "private",
            "ci_config_path": Some(&self.found.ci_config_path).filter(|path| !path.is_empty()),
            "web_url": self.web_url(),
            "http_url_to_repo": format!("{}.git", self.web_url()),
            "issues_enabled": true,
            "merge_requests_enabled": true,
            "jobs_enabled": true,
            "merge_method": "merge",
            "only_allow_merge_if_pipeline_succeeds": false,
            "only_allow_merge_if_all_discussions_are_resolved": false,
            "permissions": {
                "project_access": {"access_level": self.level(), "notification_level": 3},
                "group_access": null,
            },
        })
    }

    /// Project members API, "Get a member of a project, including inherited members".
    pub(super) fn member(&self, id: &str) -> Reply {
        let user = self.users.iter().find(|user| user.id.to_string() == id);
        let Some((user, permission)) = user.and_then(|user| Some((user, self.found.permissions.get(&user.id)?))) else {
            return no_record();
        };
        let mut shown = show_user(&self.url, user);
        shown["access_level"] = level(permission).into();
        shown["membership_state"] = "active".into();
        shown["created_at"] = TIME.into();
        shown["expires_at"] = Value::Null;
        Reply::json(200, &shown)
    }

    /// Branches API, "Get single repository branch".
    pub(super) fn branch(&self, name: &str) -> Reply {
        let Some(sha) = self.found.branches.get(name) else { return message(404, "404 Branch Not Found") };
        let is_protected = name == PROTECTED;
        let shown = json!({
            "name": name,
            "commit": self.show_commit(sha),
            "merged": false,
            "protected": is_protected,
            "developers_can_push": false,
            "developers_can_merge": is_protected,
            "default": is_protected,
            "can_push": self.level() >= if is_protected { MAINTAINER } else { DEVELOPER },
            "web_url": format!("{}/-/tree/{name}", self.web_url()),
        });
        Reply::json(200, &shown)
    }

    /// Repositories API, "Compare branches, tags, or commits".
    pub(super) fn compare(&self) -> Reply {
        let end = |name: &str| self.resolved(&params::text(self.call, name)?);
        let (Some(from), Some(to)) = (end("from"), end("to")) else { return message(404, "404 Ref Not Found") };
        let is_same = from == to;
        // The stand-in knows only the newest commits.
        let commits = if is_same { json!([]) } else { json!([self.show_commit(&to)]) };
        let shown = json!({
            "commit": commits.get(0),
            "commits": commits,
            "diffs": [],
            "compare_timeout": false,
            "compare_same_ref": is_same,
            "web_url": format!("{}/-/compare/{from}...{to}", self.web_url()),
        });
        Reply::json(200, &shown)
    }

    /// Commits API, "Get a single commit". A commit can be named by a branch.
    pub(super) fn commit(&self, name: &str) -> Reply {
        match self.resolved(name) {
            Some(sha) => Reply::json(200, &self.show_commit(&sha)),
            None => message(404, "404 Commit Not Found"),
        }
    }

    /// Returns the commit with this name, among the newest of branches and the merged results.
    fn resolved(&self, name: &str) -> Option<String> {
        let of_branch = self.found.branches.get(name);
        let newest = || self.found.branches.values().find(|sha| *sha == name);
        let results = &self.found.merged_results;
        let merged = || results.iter().map(|result| &result.merge).find(|sha| *sha == name);
        of_branch.or_else(newest).or_else(merged).cloned()
    }

    pub(super) fn show_commit(&self, sha: &str) -> Value {
        let result = self.found.merged_results.iter().find(|result| result.merge == sha);
        let parents = match result {
            Some(result) => self.found.branches.get(PROTECTED).into_iter().chain([&result.head]).cloned().collect(),
            None => self.found.parents.get(sha).cloned().unwrap_or_default(),
        };
        json!({
            "id": sha,
            "short_id": sha.get(..8).unwrap_or(sha),
            "parent_ids": parents,
            "created_at": TIME,
            "authored_date": TIME,
            "committed_date": TIME,
            "web_url": format!("{}/-/commit/{sha}", self.web_url()),
        })
    }
}
