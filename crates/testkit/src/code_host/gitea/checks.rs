//! Checks of commits.

use http::Method;
use serde_json::{Value, json};

use super::{At, error};
use crate::code_host::Reply;
use crate::code_host::state::{Check, Status};

/// Statuses, and jobs of Actions. All checks of a commit are jobs of one run.
impl At<'_> {
    pub(super) fn checks(&self, sha: &str) -> Vec<&Check> {
        self.found.checks.iter().filter(|check| check.sha == sha).collect()
    }

    /// Returns the end of the address of a run, for the ID of its first job. On Forgejo, it has the number of the run in
    /// the repository.
    pub(super) fn run_page(&self, first: u64) -> String {
        let run = if self.request.is_forgejo { first } else { run_id(first) };
        format!("/{}/actions/runs/{run}", self.found.path)
    }

    pub(super) fn combined_status(&self, sha: &str) -> Reply {
        let mut latest: Vec<&Status> = Vec::new();
        for status in self.found.statuses.iter().rev().filter(|status| status.sha == *sha) {
            if !latest.iter().any(|known| known.context == status.context) {
                latest.push(status);
            }
        }
        let show = |context: &str, status: &str, url: &str, description: &str| json!({"id": 1, "context": context, "status": status, "target_url": url, "description": description});
        let mut listed: Vec<Value> = latest
            .iter()
            .map(|status| show(&status.context, &status.state, &status.url, &status.description))
            .collect();
        let checks = self.checks(sha);
        for (index, check) in checks.iter().enumerate() {
            let state = check.passed.map_or("pending", |passed| if passed { "success" } else { "failure" });
            let job = if self.request.is_forgejo { index.to_string() } else { check.id.to_string() };
            let url = format!("{}/jobs/{job}", self.run_page(checks[0].id));
            listed.push(show(&check.name, state, &url, "Has been done"));
        }
        let page = self.page(&listed);
        let statuses: Vec<Value> = serde_json::from_slice(&page.body).unwrap();
        let (count, is_empty) = (statuses.len(), statuses.is_empty());
        let statuses = if is_empty { Value::Null } else { Value::Array(statuses) };
        let sha = if is_empty && self.request.is_forgejo { "" } else { sha };
        let state = if is_empty { "" } else { "pending" };
        let body = json!({"state": state, "sha": sha, "total_count": count, "statuses": statuses});
        let reply = Reply { headers: page.headers, ..Reply::json(200, &body) };
        if listed.is_empty() && self.request.is_forgejo { Reply::json(200, &body) } else { reply }
    }

    pub(super) fn set_status(&mut self, sha: &str) -> Reply {
        if self.method() != Method::POST {
            return self.missing();
        }
        if !self.is_writer() {
            return error(403, "user should have a permission to write to a repo");
        }
        // The hash of a commit that does not exist too.
        if sha.len() != 40 || !sha.chars().all(|digit| digit.is_ascii_hexdigit()) {
            return error(500, "");
        }
        let state = self.text("state");
        if !["pending", "success", "error", "failure", "warning"].contains(&state.as_str()) {
            return error(500, "");
        }
        let context = Some(self.text("context")).filter(|context| !context.is_empty());
        let status = Status {
            sha: sha.to_owned(),
            context: context.unwrap_or_else(|| "default".to_owned()),
            state: state.clone(),
            url: self.text("target_url"),
            description: self.text("description"),
            pipeline: 0,
        };
        let context = status.context.clone();
        self.stored().statuses.push(status);
        Reply::json(201, &json!({"id": 1, "status": state, "context": context}))
    }

    pub(super) fn actions(&self, below: &[&str]) -> Reply {
        if self.method() != Method::GET {
            return self.missing();
        }
        match below {
            ["runs"] => self.runs(),
            ["runs", run, "jobs"] => self.jobs(run),
            ["jobs", job, "logs"] => {
                let job = self.found.checks.iter().find(|check| check.id.to_string() == *job && check.passed.is_some());
                job.map_or_else(|| self.missing(), |check| Reply::text(200, check.log.clone()))
            }
            _ => self.missing(),
        }
    }

    /// Lists the runs, of which each has all checks of a commit.
    fn runs(&self) -> Reply {
        let wanted = self.request.call.parameter("head_sha");
        let mut firsts: Vec<&Check> = Vec::new();
        for check in self.found.checks.iter().filter(|check| wanted.is_none_or(|sha| check.sha == sha)) {
            if firsts.iter().all(|first| first.sha != check.sha) {
                firsts.push(check);
            }
        }
        // The names of the commit differ (`ActionRun` and `ActionWorkflowRun` in the descriptions).
        let sha = if self.request.is_forgejo { "commit_sha" } else { "head_sha" };
        let show = |first: &&Check| {
            let page = format!("{}{}", self.request.state.url, self.run_page(first.id));
            json!({"id": run_id(first.id), sha: first.sha, "html_url": page})
        };
        let listed: Vec<Value> = firsts.iter().map(show).collect();
        let page = self.page(&listed);
        let shown: Value = serde_json::from_slice(&page.body).unwrap();
        Reply::json(200, &json!({"workflow_runs": shown, "total_count": listed.len()}))
    }

    pub(super) fn jobs(&self, run: &str) -> Reply {
        let first = self.found.checks.iter().find(|check| run_id(check.id).to_string() == run);
        let Some(first) = first else { return self.missing() };
        let page = format!("{}{}", self.request.state.url, self.run_page(first.id));
        let checks = self.checks(&first.sha);
        if self.request.is_forgejo {
            let jobs = checks.iter().map(|check| json!({"id": check.id, "name": check.name, "attempt": 1}));
            return Reply::json(200, &Value::Array(jobs.collect()));
        }
        let show = |check: &&Check| {
            let url = format!("{page}/jobs/{}", check.id);
            json!({"id": check.id, "name": check.name, "head_sha": check.sha, "html_url": url})
        };
        let page = self.page(&checks.iter().map(show).collect::<Vec<_>>());
        let shown: Value = serde_json::from_slice(&page.body).unwrap();
        Reply::json(200, &json!({"jobs": shown, "total_count": checks.len()}))
    }
}

/// Returns the ID of the run whose first job has an ID.
pub(super) fn run_id(first: u64) -> u64 {
    90_000 + first
}
