//! The parts of tests that concern webhooks. The adapter of code hosts makes the other parts.

use std::time::Duration;

use journeyman_core::code_host::manifest::is_reachable;
use journeyman_core::code_host::{CodeHost, DefinedIn};
use journeyman_core::finding::Finding;
use journeyman_core::hook::EventRepository;
use journeyman_core::ports::{DescribedHost, ReachedServers};
use journeyman_core::project::{Project, SecretChanges, WEBHOOK_SECRET};
use journeyman_core::run::Reason;
use journeyman_core::time::Timestamp;

use super::unclaimed::{SEARCHED, repositories_of};
use crate::{Caller, Error, UseCases};

/// The name of the test.
const CHECK: &str = "webhooks";

/// The time after which a webhook no longer shows that webhooks arrive.
const RECENT: Duration = Duration::from_secs(30 * 24 * 3600);

impl UseCases {
    /// Tests whether jobs can work on the repository of a project, and whether its webhooks arrive. Stores nothing.
    ///
    /// # Errors
    /// The caller is not an administrator, the project does not exist, or the store failed.
    pub async fn check_project(
        &self,
        caller: &Caller,
        id: &journeyman_core::ids::ProjectId,
    ) -> Result<Vec<Finding>, Error> {
        caller.needs_administrator()?;
        let project = self.project(caller, id).await?;
        Ok(match self.project_findings(&project, &SecretChanges::new(), &ReachedServers::default()).await? {
            Ok(findings) => findings,
            Err(reason) => vec![Finding::failure("repository", reason.text)],
        })
    }

    /// Tests the repository of a project, which may be new, and records the servers that git reaches. The inner error is the reason why jobs cannot work on it.
    pub(crate) async fn project_findings(
        &self,
        project: &Project,
        secrets: &SecretChanges,
        reached: &ReachedServers,
    ) -> Result<Result<Vec<Finding>, Reason>, Error> {
        let mut findings = match self.parts().forges.check_and_record(project, secrets, reached).await {
            Ok(findings) => findings,
            Err(reason) => return Ok(Err(reason)),
        };
        findings.extend(self.project_webhooks(project, secrets).await?);
        Ok(Ok(findings))
    }

    /// Tests whether webhooks of a code host arrive.
    pub(super) async fn host_webhooks(&self, described: &DescribedHost) -> Result<Finding, Error> {
        let id = &described.host.id;
        let last = self.parts().store.last_event_of(id.clone()).await?;
        Ok(self.webhooks(last, described.has_webhook_secret, described.host.polls, &self.webhook_url(id)))
    }

    /// Tests whether webhooks for the repository of a project arrive; `None` if its code host sends none.
    async fn project_webhooks(&self, project: &Project, secrets: &SecretChanges) -> Result<Option<Finding>, Error> {
        let Ok(Some(host)) = self.parts().forges.code_host(project).await else { return Ok(None) };
        let newest = self.parts().store.last_hook_at(project.id.clone()).await?;
        let last = newest.max(self.last_unclaimed(&host, project).await?);
        let hosts = self.parts().code_hosts.code_hosts().await?;
        let of_host = hosts.iter().any(|one| one.host.id == host.id && one.has_webhook_secret);
        let own = match secrets.get(WEBHOOK_SECRET) {
            Some(change) => change.is_some(),
            None => project.secret_names.iter().any(|name| name == WEBHOOK_SECRET),
        };
        let url = match own || host.defined_in == DefinedIn::Project {
            true => format!("{}/{}", self.webhook_url(&host.id), project.id),
            false => self.webhook_url(&host.id),
        };
        Ok(Some(self.webhooks(last, of_host || own, host.polls, &url)))
    }

    /// Returns the time of the newest webhook for a repository while no project had it.
    async fn last_unclaimed(&self, host: &CodeHost, project: &Project) -> Result<Option<Timestamp>, Error> {
        let Some(path) = host.path_of(&project.repository) else { return Ok(None) };
        let is_it = |repository: &EventRepository| repository.path.eq_ignore_ascii_case(path.as_str());
        let events = self.parts().store.unclaimed_events(SEARCHED).await?;
        let mut of_host = events.iter().filter(|event| event.host == host.name());
        Ok(of_host.find(|event| repositories_of(event).any(is_it)).map(|event| event.received_at))
    }

    fn webhooks(&self, last: Option<Timestamp>, has_secret: bool, polls: bool, url: &str) -> Finding {
        let (now, public_url) = (self.parts().engine.now(), &self.parts().public_url);
        match last {
            Some(at) if now.since(at) < RECENT => Finding::ok_at(CHECK, "the newest webhook arrived", at),
            _ => Finding::warning(CHECK, no_webhooks(has_secret, polls, public_url, url)),
        }
    }
}

/// Returns why no webhooks arrive, what that means, and what to do. `polls` is whether the code host is polled, and
/// `url` the URL of the webhook.
fn no_webhooks(has_secret: bool, polls: bool, public_url: &str, url: &str) -> String {
    let effect = match polls {
        true => "only polls find comments",
        false => "no comments are found, because polling is off for this code host",
    };
    if !has_secret {
        return format!(
            "no secret is set, so webhooks are refused and {effect}; set a secret here, and create a webhook with the \
             same secret and the URL {url} at the code host"
        );
    }
    if is_reachable(public_url) {
        return format!(
            "no webhook has arrived in the last 30 days, so {effect}; create a webhook with the URL {url} at the code \
             host"
        );
    }
    format!(
        "no webhook has arrived in the last 30 days, so {effect}; the URL of this service, {public_url}, cannot be \
         reached from the internet. Set public-url in the configuration file to one that the code host can reach, and \
         create a webhook with the URL {url} there"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_code_host_that_is_polled_is_said_to_be_polled() {
        for (has_secret, public_url) in
            [(false, "https://j.example"), (true, "https://j.example"), (true, "http://localhost:8080")]
        {
            let text = |polls| no_webhooks(has_secret, polls, public_url, "https://j.example/hooks/github");
            let (polled, not_polled) = (text(true), text(false));
            assert!(polled.contains("only polls find comments"), "{polled}");
            assert!(not_polled.contains("no comments are found, because polling is off"), "{not_polled}");
            assert!(!not_polled.contains("only polls"), "{not_polled}");
        }
    }
}
