//! Pipelines, their jobs and bridges, and their test reports (Pipelines API and Jobs API).

use serde_json::{Value, json};

use super::{Request, TIME, error, no_record, page, params, sort};
use crate::code_host::Reply;
use crate::code_host::state::{Bridge, Check, Pipeline};

/// The first ID of pipelines for checks that no pipeline names.
const FIRST_IMPLICIT: u64 = 500_000;

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
    pub(super) fn implicit(&self, id: u64, sha: &str) -> Pipeline {
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

    /// Shows a pipeline as in other records (`API::Entities::Ci::PipelineBasic`).
    pub(super) fn show_pipeline(&self, pipeline: &Pipeline) -> Value {
        json!({
            "id": pipeline.id,
            "iid": self.pipelines().iter().filter(|other| other.id <= pipeline.id).count(),
            "project_id": self.found.id,
            "sha": pipeline.sha,
            "ref": pipeline.reference,
            "status": pipeline.status,
            "source": pipeline.source,
            "created_at": TIME,
            "updated_at": TIME,
            "web_url": format!("{}/-/pipelines/{}", self.web_url(), pipeline.id),
        })
    }

    /// "List project pipelines": the newest first. Child pipelines are left out unless the query asks for their source.
    pub(super) fn list_pipelines(&self) -> Reply {
        let wanted = |name: &str| params::text(self.call, name);
        let mut listed = self.pipelines();
        let source = wanted("source");
        listed.retain(|pipeline| match &source {
            Some(source) => pipeline.source == *source,
            None => pipeline.source != "parent_pipeline",
        });
        let (sha, reference, status) = (wanted("sha"), wanted("ref"), wanted("status"));
        listed.retain(|pipeline| {
            sha.as_ref().is_none_or(|sha| pipeline.sha == *sha)
                && reference.as_ref().is_none_or(|reference| pipeline.reference == *reference)
                && status.as_ref().is_none_or(|status| pipeline.status == *status)
        });
        match wanted("scope").as_deref() {
            Some("tags") => listed.clear(),
            // The newest pipeline of each branch.
            Some("branches") => {
                let all = listed.clone();
                listed.retain(|one| {
                    let is_newer = |other: &Pipeline| other.reference == one.reference && other.id > one.id;
                    self.found.branches.contains_key(&one.reference) && !all.iter().any(is_newer)
                });
            }
            Some("finished") => {
                listed.retain(|one| ["success", "failed", "canceled"].contains(&one.status.as_str()));
            }
            Some(scope) => listed.retain(|one| one.status == *scope),
            None => {}
        }
        let show = |pipeline: &Pipeline| {
            let mut shown = self.show_pipeline(pipeline);
            shown["name"] = Value::Null;
            shown
        };
        let mut shown: Vec<Value> = listed.iter().map(show).collect();
        let order = wanted("order_by").filter(|order| order == "ref" || order == "status");
        sort(&mut shown, order.as_deref().unwrap_or("id"), wanted("sort").as_deref() == Some("asc"));
        page(self.call, &self.url, shown)
    }

    /// "Get a single pipeline".
    pub(super) fn pipeline(&self, id: &str) -> Reply {
        let Some(pipeline) = self.pipelines().into_iter().find(|pipeline| pipeline.id.to_string() == id) else {
            return no_record();
        };
        let mut shown = self.show_pipeline(&pipeline);
        for name in ["name", "yaml_errors", "finished_at", "committed_at", "coverage"] {
            shown[name] = Value::Null;
        }
        shown["tag"] = false.into();
        shown["started_at"] = TIME.into();
        Reply::json(200, &shown)
    }

    /// Answers a request about the jobs, the bridges or the test report of a pipeline. Lists show the newest first.
    pub(super) fn in_pipeline(&self, id: &str, below: &str) -> Reply {
        let Some(pipeline) = self.pipelines().into_iter().find(|pipeline| pipeline.id.to_string() == id) else {
            return no_record();
        };
        let mut listed: Vec<Value> = match below {
            "test_report" => return self.test_report(&pipeline),
            "jobs" => {
                let has_retried = params::flag(self.call, "include_retried");
                let checks = self.found.checks.iter();
                let jobs = checks.filter(|check| has_retried || !self.is_retried(&pipeline, check));
                jobs.filter(|check| pipeline.jobs.contains(&check.id))
                    .map(|check| self.show_job(&pipeline, check))
                    .collect()
            }
            "bridges" | "trigger_jobs" => {
                pipeline.bridges.iter().map(|bridge| self.show_bridge(&pipeline, bridge)).collect()
            }
            _ => return error(404, "404 Not Found"),
        };
        if let Some(scope) = params::list(self.call, "scope") {
            listed.retain(|job| scope.iter().any(|status| job["status"] == **status));
        }
        sort(&mut listed, "id", false);
        page(self.call, &self.url, listed)
    }

    /// Returns whether a later job of the pipeline has the same name (Jobs API, "List pipeline jobs": retried jobs are
    /// left out).
    pub(super) fn is_retried(&self, pipeline: &Pipeline, check: &Check) -> bool {
        let mut others = self.found.checks.iter().filter(|other| pipeline.jobs.contains(&other.id));
        others.any(|other| other.name == check.name && other.id > check.id)
    }

    /// "Get a test report for a pipeline". The counts are sums of those of the suites.
    fn test_report(&self, pipeline: &Pipeline) -> Reply {
        let suites = self.found.test_suites.get(&pipeline.id).cloned().unwrap_or_else(|| json!([]));
        let mut shown = json!({"total_time": 0, "test_suites": suites});
        for name in ["total_count", "success_count", "failed_count", "skipped_count", "error_count"] {
            let counts = shown["test_suites"].as_array().into_iter().flatten();
            shown[name] = counts.filter_map(|suite| suite[name].as_u64()).sum::<u64>().into();
        }
        Reply::json(200, &shown)
    }

    /// Shows what jobs and bridges have in common (`API::Entities::Ci::JobBasic`). The reason of a failure is left out
    /// for other statuses.
    fn show_basic_job(&self, pipeline: &Pipeline, (id, name, status): (u64, &str, &str)) -> Value {
        let has_ended = ["success", "failed", "canceled", "skipped"].contains(&status);
        let mut shown = json!({
            "id": id,
            "status": status,
            "stage": "test",
            "name": name,
            "ref": pipeline.reference,
            "tag": false,
            "coverage": null,
            "allow_failure": false,
            "created_at": TIME,
            "started_at": TIME,
            "finished_at": has_ended.then_some(TIME),
            "erased_at": null,
            "duration": 1.0,
            "queued_duration": 1.0,
            "user": null,
            "commit": self.show_commit(&pipeline.sha),
            "pipeline": self.show_pipeline(pipeline),
            "web_url": format!("{}/-/jobs/{id}", self.web_url()),
            "project": {"ci_job_token_scope_enabled": false},
        });
        if status == "failed" {
            shown["failure_reason"] = "script_failure".into();
        }
        shown
    }

    fn show_job(&self, pipeline: &Pipeline, check: &Check) -> Value {
        let mut shown = self.show_basic_job(pipeline, (check.id, &check.name, status_of(check)));
        shown["artifacts"] = json!([]);
        shown["artifacts_expire_at"] = Value::Null;
        shown["archived"] = false.into();
        shown["tag_list"] = json!([]);
        shown["runner"] = Value::Null;
        shown
    }

    /// "List pipeline trigger jobs". The downstream pipeline may be of another project.
    fn show_bridge(&self, pipeline: &Pipeline, bridge: &Bridge) -> Value {
        let mut shown = self.show_basic_job(pipeline, (bridge.id, &bridge.name, &bridge.status));
        shown["allow_failure"] = bridge.allow_failure.into();
        let downstream = bridge.downstream.as_ref().map(|(project, id, status)| {
            let own = self.pipelines().into_iter().find(|own| *project == self.found.id && own.id == *id);
            let started = own.unwrap_or_else(|| Pipeline {
                id: *id,
                sha: "0".repeat(40),
                reference: "main".to_owned(),
                source: "pipeline".to_owned(),
                ..Pipeline::default()
            });
            let mut shown = self.show_pipeline(&Pipeline { status: status.clone(), ..started });
            shown["project_id"] = (*project).into();
            if *project != self.found.id {
                shown["web_url"] = format!("{}/projects/{project}/-/pipelines/{id}", self.url).into();
            }
            shown
        });
        shown["downstream_pipeline"] = downstream.into();
        shown
    }
}

pub(super) fn status_of(check: &Check) -> &'static str {
    match check.passed {
        None => "running",
        Some(true) => "success",
        Some(false) => "failed",
    }
}
