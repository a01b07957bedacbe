//! The pages. Each has one file and one template.

mod account;
mod audit;
mod code_hosts;
mod home;
mod inbox;
mod job;
mod jobs;
mod keys;
mod problem;
mod projects;
mod provider;
mod pulls;
mod refresh;
mod settings;
mod setup;
mod sign_in;
mod slack;
mod system;
mod trusts;
mod users;
mod webhooks;

use axum::Router;

use crate::Shared;

/// Returns the routes that require a session.
pub(crate) fn routes() -> Router<Shared> {
    Router::new()
        .merge(account::routes())
        .merge(audit::routes())
        .merge(code_hosts::routes())
        .merge(home::routes())
        .merge(inbox::routes())
        .merge(job::routes())
        .merge(jobs::routes())
        .merge(keys::routes())
        .merge(projects::routes())
        .merge(pulls::routes())
        .merge(settings::routes())
        .merge(slack::routes())
        .merge(system::routes())
        .merge(trusts::routes())
        .merge(users::routes())
        .merge(webhooks::routes())
}

/// Returns the routes that need no session.
pub(crate) fn open_routes() -> Router<Shared> {
    Router::new().merge(provider::routes()).merge(setup::routes()).merge(sign_in::routes())
}
