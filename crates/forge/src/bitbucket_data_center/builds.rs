//! Reads the builds of commits.
//!
//! Bitbucket lists the builds of a commit only for the whole instance (`/build-status/latest/commits/{commitId}`), where
//! every user with a license may write them, also users who cannot see the repository. So only the keys are taken from
//! that list. Each build is read from the repository (`GET …/repos/{repositorySlug}/commits/{commitId}/builds?key=…`, "Get
//! a specific build status" in Atlassian's REST description, since version 7.14), whose builds only people with access to
//! it can write.

use std::collections::HashSet;

use futures::future::join_all;
use http::{Method, StatusCode};
use journeyman_core::checks::{Check, CheckState};
use journeyman_core::ids::Sha;
use journeyman_core::ports::ForgeError;

use super::wire::{Build, exception};
use super::{API, BitbucketDataCenter, Location};
use crate::hosted::STATUS;
use crate::http::encoded;

/// The number of builds to which Bitbucket shortens the list of a commit ("limited to the most recent 100 build statuses",
/// Atlassian's REST description of version 9.2). Anyone can add to the list, so older builds may be missing then.
const MOST_BUILDS: usize = 100;

/// The reason why a build does not count.
const NOT_OF_REPOSITORY: &str = "It was reported to the whole instance and not to this repository, where everyone with a \
                                 license may report builds. Let the CI system use the builds resource of the \
                                 repository, which version 7.14 and later can read.";

impl BitbucketDataCenter {
    /// Returns the builds of a commit without that of the service. Those that the repository does not confirm are ignored.
    ///
    /// # Errors
    /// A request failed, or the instance lists [`MOST_BUILDS`] builds.
    pub(super) async fn builds(&self, location: &Location, sha: &Sha) -> Result<Vec<Check>, ForgeError> {
        let path = format!("/build-status/latest/commits/{sha}?orderBy=NEWEST&limit=100");
        let mut listed: Vec<Build> = self.list(&path, |_| false).await?;
        if listed.len() >= MOST_BUILDS {
            return Err(ForgeError::Refused(format!(
                "the commit {sha} has {MOST_BUILDS} builds or more, of which Bitbucket lists only the newest \
                 {MOST_BUILDS}, so the result of the others is not known"
            )));
        }
        let mut known = HashSet::new();
        listed.retain(|build| build.key != STATUS && known.insert(build.key.clone()));
        let checks = join_all(listed.into_iter().map(|build| self.confirmed(location, sha, build))).await;
        checks.into_iter().collect()
    }

    /// Returns a listed build as the repository has it.
    async fn confirmed(&self, location: &Location, sha: &Sha, listed: Build) -> Result<Check, ForgeError> {
        match self.build(location, sha, &listed.key).await? {
            Some(build) => Ok(build.into_check()),
            None => {
                let check = listed.into_check();
                let summary = Some(NOT_OF_REPOSITORY.to_owned());
                Ok(Check { url: None, summary, ..Check::new(check.name, CheckState::Ignored) })
            }
        }
    }

    /// Returns a build of the repository; `None` if it has no such build, or if this version cannot say.
    async fn build(&self, location: &Location, sha: &Sha, key: &str) -> Result<Option<Build>, ForgeError> {
        let path = format!("{}/commits/{sha}/builds?key={}", location.below(API), encoded(key));
        let answer = self.call(Method::GET, &path, None).await?;
        let is_missing_repository =
            matches!(exception(&answer).as_str(), "NoSuchRepositoryException" | "NoSuchProjectException");
        match answer.status {
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED if !is_missing_repository => Ok(None),
            _ => Ok(Some(self.accepted(answer).await?.json::<Build>()?).filter(|build| build.key == key)),
        }
    }
}
