//! Completions of names that are known only when a shell asks: contexts, and projects, jobs and templates of the server.
//!
//! They use the environment and the current context, not the options on the line. A failure completes nothing: a shell
//! has no place for errors.

use std::time::Duration;

use clap_complete::engine::CompletionCandidate;
use journeyman_client::models::JobFilter;

use super::connect::connect;
use super::connection::{Connection, ConnectionArgs};
use super::contexts::ContextFile;
use super::look::plain;
use super::words::short;
use crate::config::client_environment;

/// The time that a person waits for completions.
const PATIENCE: Duration = Duration::from_secs(2);

/// The number of jobs that are offered: the newest ones.
const JOBS: u32 = 50;

/// Returns the names of the contexts, with their URLs.
pub(super) fn contexts() -> Vec<CompletionCandidate> {
    let contexts = ContextFile::read_of(&client_environment()).unwrap_or_default().contexts;
    contexts.into_iter().map(|(name, context)| described(&name, &context.url)).collect()
}

/// Returns the IDs of the projects, with their repositories.
pub(super) fn projects() -> Vec<CompletionCandidate> {
    asked(async |Connection { url, key, .. }| {
        let projects = connect(&url, &key).ok()?.projects().list().page().await.ok()??.items;
        Some(projects.iter().map(|project| described(&project.id, &project.repository)).collect())
    })
}

/// Returns the IDs of the newest jobs, with their statuses and titles.
pub(super) fn jobs() -> Vec<CompletionCandidate> {
    asked(async |Connection { url, key, project }| {
        let client = connect(&url, &key).ok()?;
        let jobs = client.jobs().list(&project?, &JobFilter::new()).page_size(JOBS).page().await.ok()??.items;
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

fn asked(ask: impl AsyncFnOnce(Connection) -> Option<Vec<CompletionCandidate>>) -> Vec<CompletionCandidate> {
    let Ok(connection) = ConnectionArgs::default().resolve(client_environment()) else { return Vec::new() };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return Vec::new() };
    runtime.block_on(async {
        let answer = tokio::time::timeout(PATIENCE, ask(connection)).await;
        answer.ok().flatten().unwrap_or_default()
    })
}

/// Returns a name with a description, which some shells show beside it.
fn described(name: &str, text: &str) -> CompletionCandidate {
    let text = short(&plain(text).replace(['\n', '\t'], " "), 60);
    CompletionCandidate::new(plain(name)).help(Some(text.into()))
}
