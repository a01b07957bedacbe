//! Reads the checks of commits: the jobs of their pipelines, and the statuses that other services set.

use std::collections::BTreeMap;

use http::Method;
use journeyman_core::ids::Sha;
use journeyman_core::ports::{Check, ForgeError, HostRepository};

use super::Gitlab;
use super::wire::{Commit, MergeRequest, Pipeline, Status};
use crate::hosted::STATUS;
use crate::json::sha;

impl Gitlab {
    pub(super) async fn checks_of(&self, repository: &HostRepository, sha: &Sha) -> Result<Vec<Check>, ForgeError> {
        let mut found = self.statuses(repository, sha).await?;
        if let Some(merge) = self.merged_result(repository, sha).await? {
            found.extend(self.statuses(repository, &merge).await?);
        }
        // A commit can have several pipelines with the same jobs.
        let mut newest = BTreeMap::<String, Status>::new();
        for status in found.into_iter().filter(|status| status.name != STATUS) {
            if newest.get(&status.name).is_none_or(|known| known.age() < status.age()) {
                newest.insert(status.name.clone(), status);
            }
        }
        let jobs = self.jobs_page(repository);
        Ok(newest.into_values().map(|status| status.into_check(&jobs)).collect())
    }

    async fn statuses(&self, repository: &HostRepository, sha: &Sha) -> Result<Vec<Status>, ForgeError> {
        self.list(repository, &format!("/repository/commits/{sha}/statuses?per_page=100")).await
    }

    /// Returns the commit on which GitLab runs the merged results pipeline of a commit: the merge of the commit into the
    /// target branch.
    async fn merged_result(&self, repository: &HostRepository, of: &Sha) -> Result<Option<Sha>, ForgeError> {
        let path = format!("/repository/commits/{of}/merge_requests?per_page=100");
        let requests: Vec<MergeRequest> = self.list(repository, &path).await?;
        let is_newest =
            |request: &&MergeRequest| request.state == "opened" && request.sha.as_deref() == Some(of.as_str());
        for request in requests.iter().filter(is_newest) {
            // The newest pipeline is the first.
            let path = format!("/merge_requests/{}/pipelines?per_page=20", request.iid);
            let pipelines: Vec<Pipeline> = self.get(repository, &path).await?;
            let is_merge = |pipeline: &Pipeline| {
                pipeline.reference == format!("refs/merge-requests/{}/merge", request.iid)
                    && pipeline.sha != of.as_str()
            };
            let Some(merge) = pipelines.into_iter().find(is_merge).and_then(|found| sha(&found.sha)) else { continue };
            // The pipeline may be that of an earlier commit of the merge request.
            let answer = self.send(repository, Method::GET, &format!("/repository/commits/{merge}"), None).await?.ok();
            let commit: Commit = match answer {
                Err(ForgeError::NotFound(_)) => continue,
                answer => answer?.json()?,
            };
            if commit.parent_ids.iter().any(|parent| parent == of.as_str()) {
                return Ok(Some(merge));
            }
        }
        Ok(None)
    }
}
