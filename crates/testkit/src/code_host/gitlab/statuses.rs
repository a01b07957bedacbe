//! Commit statuses (Commits API, "Commit status"). The rules that the page leaves open are those of
//! `Ci::CreateCommitStatusService`, `GenericCommitStatus` and the states of `CommitStatus`.

use serde_json::{Value, json};

use super::pipelines::status_of;
use super::{DEVELOPER, Request, TIME, forbidden, invalid, is_hash, message, page, params, sort};
use crate::code_host::Reply;
use crate::code_host::state::{Pipeline, State, Status};

/// The first ID of commit statuses, which the state does not number.
const FIRST_STATUS: u64 = 1_000_000;

/// The first ID of pipelines that statuses have made.
const FIRST_EXTERNAL: u64 = 600_000;

/// The most characters of the parameters of a status.
const LONGEST: usize = 255;

/// Returns the event that does not lead from one state to another, if there is one.
fn refused_event(from: &str, to: &str) -> Option<&'static str> {
    match (from, to) {
        ("pending" | "running", "pending") => Some("enqueue"),
        ("running", "running") => Some("run"),
        ("running", "skipped") => Some("skip"),
        _ => None,
    }
}

impl Request<'_> {
    fn author_of(&self, number: usize) -> u64 {
        self.found.gitlab.status_authors.get(&number).copied().unwrap_or(State::BOT)
    }

    /// Returns whether a later status of the pipeline has the same name.
    fn is_replaced(&self, number: usize) -> bool {
        let status = &self.found.statuses[number];
        let later = self.found.statuses.iter().skip(number + 1);
        later.into_iter().any(|other| (other.pipeline, &other.context) == (status.pipeline, &status.context))
    }

    /// Shows a status, a job or a bridge (`API::Entities::CommitStatus`).
    fn show_entry(&self, pipeline: &Pipeline, (id, name, status): (u64, &str, &str)) -> Value {
        let has_ended = !["pending", "running", "created"].contains(&status);
        json!({
            "id": id,
            "sha": pipeline.sha,
            "ref": pipeline.reference,
            "status": status,
            "name": name,
            "target_url": null,
            "description": null,
            "created_at": TIME,
            "started_at": (status != "pending").then_some(TIME),
            "finished_at": has_ended.then_some(TIME),
            "allow_failure": false,
            "coverage": null,
            "pipeline_id": pipeline.id,
            "author": null,
        })
    }

    fn show_status(&self, pipeline: &Pipeline, number: usize) -> Value {
        let status = &self.found.statuses[number];
        let mut shown = self.show_entry(pipeline, (FIRST_STATUS + number as u64, &status.context, &status.state));
        shown["target_url"] = Some(&status.url).filter(|url| !url.is_empty()).cloned().into();
        shown["description"] = Some(&status.description).filter(|text| !text.is_empty()).cloned().into();
        shown["author"] = self.show_person(self.author_of(number));
        shown
    }

    /// Returns what a pipeline consists of: jobs, bridges, and statuses that services have set. Without `all`, what was
    /// retried is left out.
    fn entries(&self, pipeline: &Pipeline, all: bool) -> Vec<Value> {
        let checks = self.found.checks.iter().filter(|check| pipeline.jobs.contains(&check.id));
        let checks = checks.filter(|check| all || !self.is_retried(pipeline, check));
        let shown = checks.map(|check| self.show_entry(pipeline, (check.id, &check.name, status_of(check))));
        let bridges = pipeline.bridges.iter().map(|bridge| {
            let mut shown = self.show_entry(pipeline, (bridge.id, &bridge.name, &bridge.status));
            shown["allow_failure"] = bridge.allow_failure.into();
            shown
        });
        let statuses = (0..self.found.statuses.len()).filter(|number| {
            self.found.statuses[*number].pipeline == pipeline.id && (all || !self.is_replaced(*number))
        });
        shown.chain(bridges).chain(statuses.map(|number| self.show_status(pipeline, number))).collect()
    }

    /// "List the statuses of a commit": by their IDs. Child pipelines are left out, because they are not among the
    /// `ci_pipelines` of a project.
    pub(super) fn statuses(&self, sha: &str) -> Reply {
        if !is_hash(sha) {
            return message(404, "404 Commit Not Found");
        }
        let pipeline_id = params::integer(self.call, "pipeline_id");
        let is_wanted = |pipeline: &&Pipeline| {
            pipeline.sha == sha
                && pipeline.source != "parent_pipeline"
                && pipeline_id.is_none_or(|id| pipeline.id == id)
        };
        let all = params::flag(self.call, "all");
        let pipelines = self.pipelines();
        let mut listed: Vec<Value> =
            pipelines.iter().filter(is_wanted).flat_map(|pipeline| self.entries(pipeline, all)).collect();
        for name in ["ref", "name"] {
            if let Some(wanted) = params::filled(self.call, name) {
                listed.retain(|entry| entry[name] == *wanted);
            }
        }
        let is_ascending = params::text(self.call, "sort").as_deref() != Some("desc");
        sort(&mut listed, "id", is_ascending);
        if params::text(self.call, "order_by").as_deref() == Some("pipeline_id") {
            listed.sort_by_key(|entry| entry["pipeline_id"].as_u64());
            if !is_ascending {
                listed.reverse();
            }
        }
        page(self.call, &self.url, listed)
    }

    /// "Set commit pipeline status".
    pub(super) fn set_status(&self, state: &mut State, sha: &str) -> Reply {
        if self.level() < DEVELOPER {
            return forbidden();
        }
        let sha = self.found.branches.get(sha).map_or(sha, String::as_str);
        if !is_hash(sha) {
            return message(404, "404 Commit Not Found");
        }
        let Some(pipeline) = self.pipeline_of_status(state, sha) else {
            return message(404, "404 Pipeline for pipeline_id, sha and ref Not Found");
        };
        let name = params::filled(self.call, "name").or_else(|| params::filled(self.call, "context"));
        let context = name.unwrap_or_else(|| "default".to_owned());
        // A service changes only its own statuses that have not ended.
        let known = (0..self.found.statuses.len()).rev().find(|number| {
            let known = &self.found.statuses[*number];
            let is_active = known.state == "pending" || known.state == "running";
            let is_own = self.author_of(*number) == self.user.id;
            (known.pipeline, &known.context) == (pipeline.id, &context) && is_active && is_own
        });
        let of_known = |field: fn(&Status) -> &String| {
            known.map_or_else(String::new, |number| field(&self.found.statuses[number]).clone())
        };
        // Parameters that are left out or blank change nothing.
        let status = Status {
            sha: sha.to_owned(),
            context,
            state: params::text(self.call, "state").unwrap_or_default(),
            url: params::filled(self.call, "target_url").unwrap_or_else(|| of_known(|status| &status.url)),
            description: params::filled(self.call, "description")
                .unwrap_or_else(|| of_known(|status| &status.description)),
            pipeline: pipeline.id,
        };
        if let Some(refusal) = self.refused_status(&pipeline, &status) {
            return refusal;
        }
        if let Some(number) = known {
            let from = &self.found.statuses[number].state;
            if let Some(event) = refused_event(from, &status.state) {
                let reason = format!("Reason(s): Status cannot transition via \"{event}\"");
                return message(400, format!("Cannot transition status via :{event} from :{from} ({reason})"));
            }
        }
        let repository = state.by_id(self.found.id).unwrap();
        let number = match known {
            Some(number) => {
                repository.statuses[number] = status;
                number
            }
            None => {
                repository.statuses.push(status);
                repository.statuses.len() - 1
            }
        };
        repository.gitlab.status_authors.insert(number, self.user.id);
        let renewed = self.renewed(state);
        let settled = renewed.settled(&pipeline);
        if let Some(stored) = state.by_id(self.found.id).unwrap().pipelines.iter_mut().find(|one| one.id == pipeline.id)
        {
            stored.status = settled;
        }
        Reply::json(201, &renewed.show_status(&pipeline, number))
    }

    /// Refuses a status that is not valid.
    fn refused_status(&self, pipeline: &Pipeline, status: &Status) -> Option<Reply> {
        for (name, text) in [("target_url", &status.url), ("description", &status.description)] {
            if text.chars().count() > LONGEST {
                return Some(invalid(name, &format!("is too long (maximum is {LONGEST} characters)")));
            }
        }
        let has_scheme = status.url.starts_with("http://") || status.url.starts_with("https://");
        if !status.url.is_empty() && !has_scheme {
            return Some(invalid("target_url", "is blocked: Only allowed schemes are http, https"));
        }
        // Jobs and statuses of a pipeline have different names.
        let jobs = self.found.checks.iter().filter(|check| pipeline.jobs.contains(&check.id));
        let mut names = jobs.map(|check| &check.name).chain(pipeline.bridges.iter().map(|bridge| &bridge.name));
        names.any(|name| *name == status.context).then(|| invalid("name", "has already been taken"))
    }

    /// Finds the newest pipeline with the commit, the ref and the ID of the request, as far as it names them. Makes one if
    /// there is none and the request names no ID.
    fn pipeline_of_status(&self, state: &mut State, sha: &str) -> Option<Pipeline> {
        let reference = params::filled(self.call, "ref");
        let id = params::integer(self.call, "pipeline_id");
        let matches = |pipeline: &Pipeline| {
            pipeline.sha == sha
                && pipeline.source != "parent_pipeline"
                && reference.as_ref().is_none_or(|reference| pipeline.reference == *reference)
                && id.is_none_or(|id| pipeline.id == id)
        };
        if let Some(found) = self.pipelines().into_iter().rev().find(matches) {
            return Some(found);
        }
        if id.is_some() {
            return None;
        }
        let pipelines = &mut state.by_id(self.found.id).unwrap().pipelines;
        let implicit = self.implicit(FIRST_EXTERNAL + pipelines.len() as u64, sha);
        let reference = reference.unwrap_or_else(|| implicit.reference.clone());
        let made = Pipeline { source: "external".to_owned(), reference, ..implicit };
        pipelines.push(made.clone());
        Some(made)
    }

    /// Returns the status of a pipeline that follows from what it consists of (`Gitlab::Ci::Status::Composite`). Failures
    /// that are allowed count as successes.
    fn settled(&self, pipeline: &Pipeline) -> String {
        let entries = self.entries(pipeline, false);
        let statuses: Vec<&str> = entries
            .iter()
            .map(|entry| {
                let status = entry["status"].as_str().unwrap_or_default();
                if entry["allow_failure"] == true && status == "failed" { "success" } else { status }
            })
            .collect();
        let has = |wanted: &str| statuses.contains(&wanted);
        let are_all = |wanted: &str| statuses.iter().all(|status| *status == wanted);
        let settled = match () {
            () if are_all("skipped") => "skipped",
            () if are_all("pending") => "pending",
            () if has("pending") || has("running") => "running",
            () if has("failed") => "failed",
            () if has("canceled") => "canceled",
            () => "success",
        };
        settled.to_owned()
    }
}
