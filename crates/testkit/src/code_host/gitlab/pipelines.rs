//! Pipelines, their jobs and bridges, and commit statuses. The rules of statuses are those of
//! `Ci::CreateCommitStatusService` in GitLab's source.

use serde_json::{Value, json};

use super::{Request, error, invalid, is_hash, message, no_record, page};
use crate::code_host::Reply;
use crate::code_host::state::{Bridge, Check, Pipeline, State, Status};

/// The first ID of commit statuses, which the state does not number.
const FIRST_STATUS: u64 = 1_000_000;

/// The first ID of pipelines for checks that no pipeline names.
const FIRST_IMPLICIT: u64 = 500_000;

/// The first ID of pipelines that statuses have made.
const FIRST_EXTERNAL: u64 = 600_000;

impl Request<'_> {
    /// Returns all pipelines, with those of checks and merged results that none names.
    pub(super) fn pipelines(&self) -> Vec<Pipeline> {
        let found = &self.found;
        let mut all = found.pipelines.clone();
        for check in &found.checks {
            if all.iter().any(|pipeline| pipeline.jobs.contains(&check.id)) {
                continue;
            }
            let implicit = |pipeline: &&mut Pipeline| pipeline.sha == check.sha && pipeline.id > FIRST_IMPLICIT;
            match all.iter_mut().find(implicit) {
                Some(pipeline) => pipeline.jobs.push(check.id),
                None => {
                    all.push(Pipeline { jobs: vec![check.id], ..self.implicit(FIRST_IMPLICIT + check.id, &check.sha) })
                }
            }
        }
        for (result, number) in found.merged_results.iter().zip(1..) {
            if !all.iter().any(|pipeline| pipeline.sha == result.merge) {
                all.push(self.implicit(FIRST_IMPLICIT - number, &result.merge));
            }
        }
        all.sort_by_key(|pipeline| pipeline.id);
        all
    }

    /// Returns the pipeline of a commit without a description.
    fn implicit(&self, id: u64, sha: &str) -> Pipeline {
        let result = self.found.merged_results.iter().find(|result| result.merge == sha);
        let branch = self.found.branches.iter().find(|(_, head)| *head == sha).map(|(name, _)| name.clone());
        Pipeline {
            id,
            sha: sha.to_owned(),
            reference: match result {
                Some(result) => format!("refs/merge-requests/{}/merge", result.pull),
                None => branch.unwrap_or_else(|| "main".to_owned()),
            },
            source: if result.is_some() { "merge_request_event".to_owned() } else { "push".to_owned() },
            status: "running".to_owned(),
            ..Pipeline::default()
        }
    }

    pub(super) fn show_pipeline(&self, pipeline: &Pipeline) -> Value {
        json!({
            "id": pipeline.id,
            "project_id": self.found.id,
            "sha": pipeline.sha,
            "ref": pipeline.reference,
            "status": pipeline.status,
            "source": pipeline.source,
            "web_url": format!("{}/-/pipelines/{}", self.web_url(), pipeline.id),
        })
    }

    /// Lists pipelines, newest first. Child pipelines are left out unless the query asks for their source.
    pub(super) fn list_pipelines(&self) -> Reply {
        let (sha, source) = (self.call.parameter("sha"), self.call.parameter("source"));
        let mut listed = self.pipelines();
        listed.retain(|pipeline| sha.is_none_or(|sha| pipeline.sha == sha));
        listed.retain(|pipeline| match source {
            Some(source) => pipeline.source == source,
            None => pipeline.source != "parent_pipeline",
        });
        page(self.call, &self.url, listed.iter().rev().map(|pipeline| self.show_pipeline(pipeline)).collect())
    }

    /// Lists the jobs or the bridges of a pipeline, newest first.
    pub(super) fn in_pipeline(&self, id: &str, below: &str) -> Reply {
        let Some(pipeline) = self.pipelines().into_iter().find(|pipeline| pipeline.id.to_string() == id) else {
            return no_record();
        };
        if below == "test_report" {
            let suites = self.found.test_suites.get(&pipeline.id).cloned().unwrap_or_else(|| json!([]));
            return Reply::json(200, &json!({"total_count": 1, "test_suites": suites}));
        }
        let listed = match below {
            "jobs" => {
                let of_pipeline = self.found.checks.iter().filter(|check| pipeline.jobs.contains(&check.id));
                of_pipeline.rev().map(|check| self.show_job(check)).collect()
            }
            "bridges" | "trigger_jobs" => {
                pipeline.bridges.iter().rev().map(|bridge| self.show_bridge(bridge)).collect()
            }
            _ => return error(404, "404 Not Found"),
        };
        page(self.call, &self.url, listed)
    }

    fn show_job(&self, check: &Check) -> Value {
        json!({
            "id": check.id,
            "name": check.name,
            "status": status_of(check),
            "allow_failure": false,
            "failure_reason": (check.passed == Some(false)).then_some("script_failure"),
            "web_url": format!("{}/-/jobs/{}", self.web_url(), check.id),
        })
    }

    fn show_bridge(&self, bridge: &Bridge) -> Value {
        let downstream = bridge.downstream.as_ref().map(|(project, id, status)| {
            json!({
                "id": id,
                "project_id": project,
                "status": status,
                "web_url": format!("{}/projects/{project}/-/pipelines/{id}", self.url),
            })
        });
        json!({
            "id": bridge.id,
            "name": bridge.name,
            "status": bridge.status,
            "allow_failure": bridge.allow_failure,
            "web_url": format!("{}/-/jobs/{}", self.web_url(), bridge.id),
            "downstream_pipeline": downstream,
        })
    }

    fn show_status(&self, number: usize, status: &Status) -> Value {
        json!({
            "id": FIRST_STATUS + number as u64,
            "sha": status.sha,
            "status": status.state,
            "name": status.context,
            "target_url": Some(&status.url).filter(|url| !url.is_empty()),
            "description": status.description,
            "allow_failure": false,
            "pipeline_id": status.pipeline,
        })
    }

    /// Lists the statuses of a commit: jobs, bridges, and statuses that services have set. Those of child pipelines are
    /// left out.
    pub(super) fn statuses(&self, sha: &str) -> Reply {
        if !is_hash(sha) {
            return message(404, "404 Commit Not Found");
        }
        let mut listed = Vec::new();
        for pipeline in self.pipelines() {
            if pipeline.sha != sha || pipeline.source == "parent_pipeline" {
                continue;
            }
            let entry = |id: u64, name: &str, status: &str| {
                json!({
                    "id": id,
                    "sha": sha,
                    "status": status,
                    "name": name,
                    "target_url": null,
                    "description": null,
                    "allow_failure": false,
                    "pipeline_id": pipeline.id,
                })
            };
            let checks = self.found.checks.iter().filter(|check| pipeline.jobs.contains(&check.id));
            listed.extend(checks.map(|check| entry(check.id, &check.name, status_of(check))));
            listed.extend(pipeline.bridges.iter().map(|bridge| entry(bridge.id, &bridge.name, &bridge.status)));
        }
        let statuses = self.found.statuses.iter().enumerate().filter(|(_, status)| status.sha == sha);
        listed.extend(statuses.map(|(number, status)| self.show_status(number, status)));
        page(self.call, &self.url, listed)
    }

    pub(super) fn set_status(&self, state: &mut State, sha: &str) -> Reply {
        let text = |name: &str| self.call.body[name].as_str().unwrap_or_default().to_owned();
        if !is_hash(sha) {
            return message(404, "404 Commit Not Found");
        }
        let wanted = text("state");
        if !["pending", "running", "success", "failed", "canceled", "skipped"].contains(&wanted.as_str()) {
            return error(400, "state does not have a valid value");
        }
        for name in ["description", "target_url"] {
            if text(name).chars().count() > 255 {
                return invalid(name, "is too long (maximum is 255 characters)");
            }
        }
        let url = text("target_url");
        if !url.is_empty() && !url.starts_with("http://") && !url.starts_with("https://") {
            return invalid("target_url", "is blocked: Only allowed schemes are http, https");
        }
        let Some(pipeline) = self.pipeline_of_status(state, sha) else {
            return message(404, "404 Pipeline for pipeline_id, sha and ref Not Found");
        };
        let name = Some(text("name")).filter(|name| !name.is_empty()).unwrap_or_else(|| text("context"));
        let context = if name.is_empty() { "default".to_owned() } else { name };
        let status =
            Status { sha: sha.to_owned(), context, state: wanted, url, description: text("description"), pipeline };
        let known = self.found.statuses.iter().rposition(|known| {
            let is_active = known.state == "pending" || known.state == "running";
            known.pipeline == pipeline && known.context == status.context && is_active
        });
        let statuses = &mut state.by_id(self.found.id).unwrap().statuses;
        let Some(number) = known else {
            statuses.push(status);
            return Reply::json(201, &self.show_status(statuses.len() - 1, &statuses[statuses.len() - 1]));
        };
        let event = match (statuses[number].state.as_str(), status.state.as_str()) {
            ("pending" | "running", "pending") => Some("enqueue"),
            ("running", "running") => Some("run"),
            _ => None,
        };
        if let Some(event) = event {
            let reason = format!("Reason(s): Status cannot transition via \"{event}\"");
            let from = &statuses[number].state;
            return message(400, format!("Cannot transition status via :{event} from :{from} ({reason})"));
        }
        statuses[number] = status;
        Reply::json(201, &self.show_status(number, &statuses[number]))
    }

    /// Finds the newest pipeline with the commit, the ref and the ID of the request, as far as it names them. Makes one if
    /// there is none and the request names no ID.
    fn pipeline_of_status(&self, state: &mut State, sha: &str) -> Option<u64> {
        let (reference, id) = (self.call.body["ref"].as_str(), self.call.body["pipeline_id"].as_u64());
        let matches = |pipeline: &&Pipeline| {
            pipeline.sha == sha
                && pipeline.source != "parent_pipeline"
                && reference.is_none_or(|reference| pipeline.reference == reference)
                && id.is_none_or(|id| pipeline.id == id)
        };
        if let Some(found) = self.pipelines().iter().rev().find(matches) {
            return Some(found.id);
        }
        if id.is_some() {
            return None;
        }
        let pipelines = &mut state.by_id(self.found.id).unwrap().pipelines;
        let id = FIRST_EXTERNAL + pipelines.len() as u64;
        let made = Pipeline { source: "external".to_owned(), ..self.implicit(id, sha) };
        pipelines.push(Pipeline { reference: reference.map_or(made.reference.clone(), str::to_owned), ..made });
        Some(id)
    }
}

fn status_of(check: &Check) -> &'static str {
    match check.passed {
        None => "running",
        Some(true) => "success",
        Some(false) => "failed",
    }
}
