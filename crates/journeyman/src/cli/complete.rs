//! Completions of names that are known only when a shell asks: contexts, and projects, jobs, pull requests, agents,
//! models, labels, templates, webhooks, keys and users of the server.
//!
//! They use the environment and the current context, not the options on the line. A failure completes nothing: a shell
//! cannot show errors.

pub(super) mod contexts;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clap_complete::engine::CompletionCandidate;
use journeyman_client::models::{JobDetails, JobFilter, PullRequestState};

use self::contexts::described;
use super::connect::connect;
use super::connection::{Connection, ConnectionArgs};
use super::look::plain;
use crate::config::client_environment;

/// The time that a person waits for completions.
const PATIENCE: Duration = Duration::from_secs(2);

/// The number of entries of a list that are offered: the newest ones.
const NEWEST: u32 = 50;

/// Returns the IDs of the projects, with their repositories.
pub(super) fn projects() -> Vec<CompletionCandidate> {
    asked(async |Connection { url, key, .. }| {
        let projects = connect(&url, &key).ok()?.projects().list().page().await.ok()??.items;
        Some(projects.iter().map(|project| described(&project.id, &project.repository)).collect())
    })
}

/// Returns the IDs of the newest jobs, with their statuses and titles.
pub(super) fn jobs() -> Vec<CompletionCandidate> {
    asked(async |connection| {
        let jobs = newest_jobs(&connection).await?;
        Some(jobs.iter().map(|job| described(&job.id, &format!("{}: {}", job.status, job.title))).collect())
    })
}

/// Returns the names of the templates of the project, with their descriptions.
pub(super) fn templates() -> Vec<CompletionCandidate> {
    asked(async |Connection { url, key, project }| {
        let templates = connect(&url, &key).ok()?.templates().list(&project?).page().await.ok()??.items;
        Some(templates.iter().map(|template| described(&template.name, &template.description)).collect())
    })
}

/// Returns the numbers of the newest pull requests, with their states and titles.
pub(super) fn pulls() -> Vec<CompletionCandidate> {
    pulls_in(None)
}

/// Returns the numbers of the newest open pull requests, with their titles.
pub(super) fn open_pulls() -> Vec<CompletionCandidate> {
    pulls_in(Some(PullRequestState::Open))
}

fn pulls_in(state: Option<PullRequestState>) -> Vec<CompletionCandidate> {
    asked(async |Connection { url, key, project }| {
        let client = connect(&url, &key).ok()?;
        let pulls = client.pulls().list(&project?, state).page_size(NEWEST).page().await.ok()??.items;
        let all = pulls.iter().map(|pull| {
            let title = pull.title.as_deref().unwrap_or_default();
            described(&pull.number.to_string(), &format!("{}: {title}", pull.state))
        });
        Some(all.collect())
    })
}

/// Returns the IDs of the agents, with their names.
pub(super) fn agents() -> Vec<CompletionCandidate> {
    asked(async |Connection { url, key, .. }| {
        let agents = connect(&url, &key).ok()?.agents().await.ok()?;
        Some(agents.iter().map(|agent| described(&agent.id, &agent.name)).collect())
    })
}

/// Returns the models that have prices, and those of the projects and of the newest jobs.
pub(super) fn models() -> Vec<CompletionCandidate> {
    asked(async |connection| {
        let client = connect(&connection.url, &connection.key).ok()?;
        let mut models: BTreeMap<String, String> = BTreeMap::new();
        for provider in client.models().await.unwrap_or_default() {
            let priced = provider.prices.into_iter().map(|price| price.model).filter(|model| !model.ends_with('*'));
            models.extend(priced.map(|model| (model, "has a price".to_owned())));
        }
        for job in newest_jobs(&connection).await.unwrap_or_default() {
            models.insert(job.model, "used by a job".to_owned());
        }
        let projects = client.projects().list().page().await.ok().flatten().map(|page| page.items);
        for project in projects.unwrap_or_default() {
            models.insert(project.model, format!("of the project {}", project.id));
        }
        Some(models.iter().map(|(model, text)| described(model, text)).collect())
    })
}

/// Returns the labels of the newest jobs.
pub(super) fn labels() -> Vec<CompletionCandidate> {
    asked(async |connection| {
        let jobs = newest_jobs(&connection).await?;
        let labels: BTreeSet<String> = jobs.into_iter().flat_map(|job| job.labels).collect();
        Some(labels.iter().map(|label| CompletionCandidate::new(plain(label))).collect())
    })
}

/// Returns the IDs of the webhooks, with their URLs.
pub(super) fn webhooks() -> Vec<CompletionCandidate> {
    asked(async |Connection { url, key, project }| {
        let client = connect(&url, &key).ok()?;
        let webhooks = client.webhooks().list(&project?).page().await.ok()??.items;
        Some(webhooks.iter().map(|webhook| described(&webhook.id, &webhook.url)).collect())
    })
}

/// Returns the IDs of the keys that are not revoked, with their names.
pub(super) fn keys() -> Vec<CompletionCandidate> {
    asked(async |Connection { url, key, .. }| {
        let keys = connect(&url, &key).ok()?.keys().list().page().await.ok()??.items;
        let valid = keys.iter().filter(|key| key.revoked_at.is_none());
        Some(valid.map(|key| described(&key.id, &key.name)).collect())
    })
}

/// Returns the names of the users, with their roles.
pub(super) fn users() -> Vec<CompletionCandidate> {
    asked(async |Connection { url, key, .. }| {
        let users = connect(&url, &key).ok()?.users().list().page().await.ok()??.items;
        Some(users.iter().map(|user| described(&user.name, user.role.as_str())).collect())
    })
}

async fn newest_jobs(connection: &Connection) -> Option<Vec<JobDetails>> {
    let client = connect(&connection.url, &connection.key).ok()?;
    let project = connection.project.as_ref()?;
    let page = client.jobs().list(project, &JobFilter::new()).page_size(NEWEST).page().await.ok()??;
    Some(page.items)
}

fn asked(ask: impl AsyncFnOnce(Connection) -> Option<Vec<CompletionCandidate>>) -> Vec<CompletionCandidate> {
    let Ok(connection) = ConnectionArgs::default().resolve(client_environment()) else { return Vec::new() };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return Vec::new() };
    runtime.block_on(async {
        let answer = tokio::time::timeout(PATIENCE, ask(connection)).await;
        answer.ok().flatten().unwrap_or_default()
    })
}
