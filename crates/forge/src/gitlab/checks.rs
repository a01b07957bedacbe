//! Reads the checks of commits: the jobs of their pipelines and of the pipelines that these start, and the statuses that
//! other services set.
//!
//! Pipelines are a graph. A job can start a child pipeline in the same project, or a pipeline of another project; GitLab's
//! REST description calls such jobs bridges (`GET /projects/:id/pipelines/:pipeline_id/bridges`) or trigger jobs. Without
//! `strategy: depend`, a bridge passes as soon as its pipeline exists, so that a failed child leaves its parent green.
//! Here, the jobs of child pipelines count as those of their parents do.

use std::collections::{BTreeMap, BTreeSet};

use http::{Method, StatusCode};
use journeyman_core::checks::{Check, CheckState};
use journeyman_core::code_host::HostRepository;
use journeyman_core::ids::Sha;
use journeyman_core::ports::ForgeError;
use serde::de::DeserializeOwned;

use super::Gitlab;
use super::reports::with_report;
use super::wire::{Commit, Job, MergeRequest, Pipeline, Status};
use crate::hosted::STATUS;
use crate::json::sha;

/// The maximum depth of child pipelines. GitLab permits two levels below a pipeline.
const DEEPEST: usize = 3;

/// The maximum number of pipelines whose jobs are read.
const MOST_PIPELINES: usize = 30;

/// A pipeline whose jobs are to be read.
struct Open {
    pipeline: Pipeline,
    /// The names of the bridges that lead to it, each with ` / `.
    prefix: String,
    /// `true` if a bridge that leads to it may fail.
    allow_failure: bool,
    depth: usize,
}

impl Gitlab {
    /// Returns the checks of a commit. Entries in the state [`CheckState::Ignored`] say in words what GitLab tells about the
    /// merge request.
    ///
    /// # Errors
    /// A request failed.
    pub(super) async fn checks_of(&self, repository: &HostRepository, sha: &Sha) -> Result<Vec<Check>, ForgeError> {
        let mut statuses = self.statuses(repository, sha).await?;
        let Some(mut pipelines) = self.pipelines(repository, sha).await? else {
            // The token may not read pipelines. Their jobs are among the statuses.
            return Ok(of_services(statuses, &Read::default(), &self.jobs_page(repository)));
        };
        let has_jobs = pipelines.iter().any(|pipeline| !pipeline.is_external());
        let mut why_no_status = NO_STATUS;
        let requests = self.requests_of(repository, sha).await?;
        if let Some(merged) = self.merged_result(repository, sha, &requests).await? {
            if let Some(merge) = crate::json::sha(&merged.sha) {
                statuses.extend(self.statuses(repository, &merge).await?);
            }
            why_no_status = ONLY_MERGED;
            pipelines.push(merged);
        }
        let external = pipelines.iter().filter(|pipeline| pipeline.is_external()).map(|pipeline| pipeline.id).collect();
        let (mut checks, jobs) = self.jobs_of(repository, newest(pipelines)).await?;
        let read = Read { external, ..jobs };
        checks.extend(of_services(statuses, &read, &self.jobs_page(repository)));
        if !has_jobs {
            checks.push(Check { summary: Some(why_no_status.to_owned()), ..Check::new(STATUS, CheckState::Ignored) });
        }
        for request in &requests {
            checks.extend(self.merge_note(repository, request).await?);
        }
        Ok(checks)
    }

    /// Returns the pipelines of a commit, newest first, without child pipelines; `None` if the project has no CI, or if the
    /// token may not read it.
    async fn pipelines(&self, repository: &HostRepository, sha: &Sha) -> Result<Option<Vec<Pipeline>>, ForgeError> {
        let path = format!("/pipelines?sha={sha}&order_by=id&sort=desc&per_page=100");
        match self.list(repository, &path).await {
            Err(ForgeError::Denied(_) | ForgeError::NotFound(_)) => Ok(None),
            found => found.map(Some),
        }
    }

    async fn statuses(&self, repository: &HostRepository, sha: &Sha) -> Result<Vec<Status>, ForgeError> {
        self.list(repository, &format!("/repository/commits/{sha}/statuses?per_page=100")).await
    }

    /// Returns the open merge requests whose newest commit this is.
    async fn requests_of(&self, repository: &HostRepository, sha: &Sha) -> Result<Vec<MergeRequest>, ForgeError> {
        let path = format!("/repository/commits/{sha}/merge_requests?per_page=100");
        let mut found: Vec<MergeRequest> = self.list(repository, &path).await?;
        found.retain(|request| request.state == "opened" && request.sha.as_deref() == Some(sha.as_str()));
        Ok(found)
    }

    /// Returns the merged results pipeline of a commit, which runs on the merge of the commit into the target branch.
    async fn merged_result(
        &self,
        repository: &HostRepository,
        of: &Sha,
        requests: &[MergeRequest],
    ) -> Result<Option<Pipeline>, ForgeError> {
        for request in requests {
            // The newest pipeline is the first.
            let path = format!("/merge_requests/{}/pipelines?per_page=20", request.iid);
            let pipelines: Vec<Pipeline> = self.get(repository, &path).await?;
            let is_merge = |pipeline: &Pipeline| {
                pipeline.reference == format!("refs/merge-requests/{}/merge", request.iid)
                    && pipeline.sha != of.as_str()
            };
            let Some(found) = pipelines.into_iter().find(is_merge) else { continue };
            let Some(merge) = sha(&found.sha) else { continue };
            // The pipeline may be that of an earlier commit of the merge request.
            let answer = self.send(repository, Method::GET, &format!("/repository/commits/{merge}"), None).await?.ok();
            let commit: Commit = match answer {
                Err(ForgeError::NotFound(_)) => continue,
                answer => answer?.json()?,
            };
            if commit.parent_ids.iter().any(|parent| parent == of.as_str()) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Returns the jobs of pipelines and of their child pipelines. Of jobs with the same name, that of the newest pipeline
    /// counts.
    async fn jobs_of(
        &self,
        repository: &HostRepository,
        pipelines: Vec<Pipeline>,
    ) -> Result<(Vec<Check>, Read), ForgeError> {
        let begin = |pipeline| Open { pipeline, prefix: String::new(), allow_failure: false, depth: 0 };
        let mut open: Vec<Open> = pipelines.into_iter().map(begin).collect();
        let (mut found, mut read) = (BTreeMap::<String, (u64, Check)>::new(), Read::default());
        let mut add = |age: u64, check: Check| match found.get(&check.name) {
            Some((known, _)) if *known >= age => {}
            _ => drop(found.insert(check.name.clone(), (age, check))),
        };
        while let Some(next) = open.pop() {
            if read.pipelines.len() == MOST_PIPELINES {
                let text = format!("the commit has more than {MOST_PIPELINES} pipelines");
                return Err(ForgeError::Refused(text));
            }
            let Open { pipeline, prefix, allow_failure, depth } = next;
            let age = pipeline.id;
            read.pipelines.insert(age);
            let jobs: Vec<Job> = self.list(repository, &format!("/pipelines/{age}/jobs?per_page=100")).await?;
            let bridges = self.bridges(repository, age).await?;
            read.jobs.extend(jobs.iter().chain(&bridges).map(|job| job.id));
            if jobs.is_empty() && bridges.is_empty() {
                // It could not be created, for example because of an error in its configuration, or it is being created.
                let name = prefix.strip_suffix(SEPARATOR).map_or_else(|| format!("Pipeline {age}"), str::to_owned);
                add(age, pipeline.into_check(name, allow_failure));
                continue;
            }
            for mut job in jobs {
                let name = std::mem::take(&mut job.name);
                job.name = format!("{prefix}{name}");
                job.allow_failure |= allow_failure;
                add(age, with_report(job.into_check(&self.jobs_page(repository)), age, &name));
            }
            for mut bridge in bridges {
                bridge.name = format!("{prefix}{}", bridge.name);
                bridge.allow_failure |= allow_failure;
                match bridge.downstream_pipeline.take() {
                    // A bridge has no log.
                    None => add(age, Check { log: None, ..bridge.into_check(&self.jobs_page(repository)) }),
                    Some(child) if child.project_id.0 == repository.id && depth < DEEPEST => open.push(Open {
                        prefix: format!("{}{SEPARATOR}", bridge.name),
                        pipeline: child,
                        allow_failure: bridge.allow_failure,
                        depth: depth + 1,
                    }),
                    // The people of this project may not see the jobs of another one.
                    Some(other) => add(age, other.into_check(bridge.name, bridge.allow_failure)),
                }
            }
        }
        Ok((found.into_values().map(|(_, check)| check).collect(), read))
    }

    /// Returns the jobs of a pipeline that start other pipelines. Version 19.2 has renamed the operation, and keeps the
    /// earlier name for a time.
    async fn bridges(&self, repository: &HostRepository, pipeline: u64) -> Result<Vec<Job>, ForgeError> {
        match self.list(repository, &format!("/pipelines/{pipeline}/bridges?per_page=100")).await {
            Err(ForgeError::NotFound(_)) => {
                self.list_if_found(repository, &format!("/pipelines/{pipeline}/trigger_jobs?per_page=100")).await
            }
            found => found,
        }
    }

    pub(super) async fn list_if_found<T: DeserializeOwned>(
        &self,
        repository: &HostRepository,
        path: &str,
    ) -> Result<Vec<T>, ForgeError> {
        match self.list(repository, path).await {
            Err(ForgeError::NotFound(_)) => Ok(Vec::new()),
            found => found,
        }
    }

    /// Returns the pipeline that the status of the service belongs to: the one that has an unfinished status of it, which
    /// an older version may have left, otherwise the newest with CI jobs. `None` if there is none: GitLab would make one
    /// of source `external` for the status, and the status alone could then satisfy "Pipelines must succeed".
    pub(super) async fn pipeline_for_status(
        &self,
        repository: &HostRepository,
        sha: &Sha,
    ) -> Result<Option<Pipeline>, ForgeError> {
        let pipelines = self.pipelines(repository, sha).await?.unwrap_or_default();
        let statuses = self.statuses(repository, sha).await?;
        let unfinished = statuses.iter().filter(|status| is_unfinished(status)).map(|status| status.pipeline_id);
        let unfinished: BTreeSet<u64> = unfinished.collect();
        let with_own = pipelines.iter().find(|pipeline| unfinished.contains(&pipeline.id));
        Ok(with_own.or_else(|| pipelines.iter().find(|pipeline| !pipeline.is_external())).cloned())
    }

    /// Returns whether any commit of the project has a pipeline.
    pub(super) async fn has_pipelines(&self, repository: &HostRepository) -> Result<bool, ForgeError> {
        let answer = self.send(repository, Method::GET, "/pipelines?per_page=1", None).await?;
        match answer.status {
            StatusCode::FORBIDDEN | StatusCode::NOT_FOUND => Ok(false),
            _ => Ok(!answer.ok()?.json::<Vec<Pipeline>>()?.is_empty()),
        }
    }
}

/// The text between the name of a bridge and the name of a job of its pipeline.
const SEPARATOR: &str = " / ";

/// The reason why a commit gets no status.
const NO_STATUS: &str = "GitLab has no pipeline with CI jobs for this commit, so the service sets no status: the status \
                         would become a pipeline of its own.";

/// The reason why a commit gets no status that has a merged results pipeline and no other one.
const ONLY_MERGED: &str = "GitLab runs only a merged results pipeline for this commit, which belongs to another commit, so \
                           the service sets no status: the status would become a pipeline of its own.";

fn is_unfinished(status: &Status) -> bool {
    status.name == STATUS && matches!(status.status.as_str(), "pending" | "running")
}

/// Returns the newest pipeline for each ref. A repeated pipeline replaces the earlier one. Pipelines of other services
/// have no jobs.
fn newest(pipelines: Vec<Pipeline>) -> Vec<Pipeline> {
    let mut by_ref = BTreeMap::<String, Pipeline>::new();
    for pipeline in pipelines.into_iter().filter(|pipeline| !pipeline.is_external()) {
        match by_ref.get(&pipeline.reference) {
            Some(known) if known.id >= pipeline.id => {}
            _ => drop(by_ref.insert(pipeline.reference.clone(), pipeline)),
        }
    }
    by_ref.into_values().collect()
}

/// Returns the statuses that other services have set, of each name the newest.
fn of_services(statuses: Vec<Status>, read: &Read, jobs: &str) -> Vec<Check> {
    let mut newest = BTreeMap::<String, Status>::new();
    for status in statuses.into_iter().filter(|status| status.name != STATUS && read.is_of_service(status)) {
        if newest.get(&status.name).is_none_or(|known| known.age() < status.age()) {
            newest.insert(status.name.clone(), status);
        }
    }
    newest.into_values().map(|status| status.into_check(jobs)).collect()
}

/// The pipelines and jobs that were read.
#[derive(Default)]
struct Read {
    pipelines: BTreeSet<u64>,
    /// The IDs of their jobs and bridges.
    jobs: BTreeSet<u64>,
    /// The pipelines that have only statuses of services.
    external: BTreeSet<u64>,
}

impl Read {
    /// Returns whether another service has set a status, and not a CI job. Jobs of pipelines that newer ones replace are
    /// among the statuses of a commit too.
    fn is_of_service(&self, status: &Status) -> bool {
        if self.pipelines.is_empty() && self.external.is_empty() {
            return true;
        }
        let is_known = status.pipeline_id == 0 || self.pipelines.contains(&status.pipeline_id);
        status.is_of_service()
            || self.external.contains(&status.pipeline_id)
            || (is_known && !self.jobs.contains(&status.id))
    }
}
