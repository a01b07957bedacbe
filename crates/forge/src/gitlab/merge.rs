//! The merge of merge requests of GitLab: what it waits for, and the request to merge when all requirements are met.

use http::Method;
use journeyman_core::checks::Check;
use journeyman_core::code_host::HostRepository;
use journeyman_core::ports::ForgeError;
use serde::Deserialize;
use serde_json::json;

use super::wire::{MergeRequest, Reviewer, merge_status};
use super::{BRANCH_DELAYS, Gitlab};
use crate::http::encoded;
use crate::json::or_default;
use crate::merge::{MergeNote, NOTHING_TO_WAIT_FOR, if_read};

/// The approvals of a merge request.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Approvals {
    approvals_left: u64,
}

/// The entry of a merge request in a merge train.
#[derive(Deserialize)]
struct Car {
    /// `idle`, `fresh`, `stale`, `merging` and others.
    #[serde(default, deserialize_with = "or_default")]
    status: String,
}

/// A merge request whose branch is the target branch of another one.
#[derive(Deserialize)]
struct Below {
    iid: u64,
}

impl Gitlab {
    /// Returns in words what the merge of a merge request waits for, and what else GitLab tells about it.
    pub(super) async fn merge_note(
        &self,
        repository: &HostRepository,
        request: &MergeRequest,
    ) -> Result<Option<Check>, ForgeError> {
        let mut note = MergeNote::default();
        let status = request.detailed_merge_status.as_str();
        match (status, if_read(&repository.path, self.approvals_left(repository, request).await)) {
            ("not_approved", left) if left > 0 => note.wait(match left {
                1 => "1 approval is missing".to_owned(),
                left => format!("{left} approvals are missing"),
            }),
            _ => note.waits.extend(merge_status(status)),
        }
        if request.reviewers.as_ref().is_some_and(|reviewers| !reviewers.is_empty()) {
            let path = format!("/merge_requests/{}/reviewers?per_page=100", request.iid);
            let reviewers: Vec<Reviewer> = self.list_if_found(repository, &path).await?;
            let in_state = |state: &str| {
                let found = reviewers.iter().filter(|reviewer| reviewer.state == state);
                found.map(|reviewer| reviewer.user.name().to_owned()).collect::<Vec<_>>()
            };
            note.changes_by(&in_state("requested_changes"));
            note.reviews_of(&in_state("unreviewed"));
        }
        if request.merge_when_pipeline_succeeds {
            let train = if_read(&repository.path, self.train(repository, request).await);
            note.facts.push(match train {
                Some(car) if car.status == "merging" => "It is being merged by a merge train.".to_owned(),
                Some(_) => "It is in a merge train.".to_owned(),
                None => "GitLab merges it when all requirements are met.".to_owned(),
            });
        }
        if repository.default_branch.as_deref() != Some(request.target_branch.as_str())
            && let Some(below) = if_read(&repository.path, self.below(repository, request).await)
        {
            note.stacked_on('!', below);
        }
        Ok(note.into_check("Merge request", &format!("!{}", request.iid)))
    }

    async fn approvals_left(&self, repository: &HostRepository, request: &MergeRequest) -> Result<u64, ForgeError> {
        if request.detailed_merge_status != "not_approved" {
            return Ok(0);
        }
        let path = format!("/merge_requests/{}/approvals", request.iid);
        Ok(self.get::<Approvals>(repository, &path).await?.approvals_left)
    }

    /// Returns the entry in a merge train, which Premium has.
    async fn train(&self, repository: &HostRepository, request: &MergeRequest) -> Result<Option<Car>, ForgeError> {
        match self.get(repository, &format!("/merge_trains/merge_requests/{}", request.iid)).await {
            Err(ForgeError::NotFound(_) | ForgeError::Denied(_)) => Ok(None),
            found => found.map(Some),
        }
    }

    /// Returns the number of the open merge request whose branch is the target branch.
    async fn below(&self, repository: &HostRepository, request: &MergeRequest) -> Result<Option<u64>, ForgeError> {
        let branch = encoded(&request.target_branch);
        let path = format!("/merge_requests?state=opened&per_page=1&source_branch={branch}");
        let found: Vec<Below> = self.get(repository, &path).await?;
        Ok(found.first().map(|below| below.iid))
    }

    /// Asks GitLab to merge a merge request when all requirements are met. If nothing is left to wait for, GitLab would
    /// merge at once, so it is not asked then.
    pub(super) async fn request_merge(&self, repository: &HostRepository, number: u64) -> Result<(), ForgeError> {
        let path = format!("/merge_requests/{number}");
        let mut delays = BRANCH_DELAYS.into_iter();
        // A new merge request gets its status and its pipeline a moment later.
        let request: MergeRequest = loop {
            let request: MergeRequest = self.get(repository, &path).await?;
            if request.waits() {
                break request;
            }
            match delays.next() {
                Some(delay) => tokio::time::sleep(delay).await,
                None if request.is_unchecked() => {
                    let text = "GitLab had not found out in time what the merge request waits for";
                    return Err(ForgeError::Refused(text.to_owned()));
                }
                None => return Err(ForgeError::Refused(NOTHING_TO_WAIT_FOR.to_owned())),
            }
        };
        // The second field has replaced the first one in version 17.11.
        let body = json!({"merge_when_pipeline_succeeds": true, "auto_merge": true, "sha": request.sha});
        let answer = self.send(repository, Method::PUT, &format!("{path}/merge"), Some(&body)).await?;
        match answer.status.as_u16() {
            // The token was accepted a moment ago.
            401 => {
                let text =
                    "the service's user may not merge into the target branch; permit it in the protected branches";
                Err(ForgeError::Refused(text.to_owned()))
            }
            405 | 406 | 409 | 422 => Err(ForgeError::Refused(format!(
                "GitLab does not merge it later; a requirement may be one that it does not wait for: {}",
                answer.described()
            ))),
            _ => answer.ok().map(drop),
        }
    }
}
