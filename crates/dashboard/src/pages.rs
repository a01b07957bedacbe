//! The pages. Each has one file and one template.

pub(crate) mod account;
mod audit;
mod code;
mod code_hosts;
pub(crate) mod confirm;
pub(crate) mod connect;
mod credentials;
mod findings;
mod follow;
mod home;
mod inbox;
mod job;
mod jobs;
mod keyboard;
mod keys;
mod line_form;
mod more_lines;
mod part;
mod passkey_sign_in;
mod passkeys;
mod preferences;
mod problem;
mod projects;
mod provider;
mod provider_visit;
mod pulls;
mod refresh;
mod search;
mod second_factor;
mod secret;
mod settings;
mod setup;
mod sign_in;
mod sign_in_form;
mod slack;
mod system;
mod templates;
mod trusts;
mod usage;
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
        .merge(confirm::routes())
        .merge(connect::routes())
        .merge(inbox::routes())
        .merge(job::routes())
        .merge(jobs::routes())
        .merge(keyboard::routes())
        .merge(keys::routes())
        .merge(passkeys::routes())
        .merge(preferences::routes())
        .merge(projects::routes())
        .merge(pulls::routes())
        .merge(search::routes())
        .merge(second_factor::routes())
        .merge(secret::routes())
        .merge(settings::routes())
        .merge(slack::routes())
        .merge(system::routes())
        .merge(templates::routes())
        .merge(trusts::routes())
        .merge(usage::routes())
        .merge(users::routes())
        .merge(webhooks::routes())
}

/// Returns the routes that need no session.
pub(crate) fn open_routes() -> Router<Shared> {
    Router::new()
        .merge(code::routes())
        .merge(passkey_sign_in::routes())
        .merge(provider::routes())
        .merge(setup::routes())
        .merge(sign_in::routes())
}
