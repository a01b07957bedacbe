//! The routes of the interface, in one file per resource.

pub(crate) mod audit;
pub(crate) mod checks;
pub(crate) mod code_hosts;
pub(crate) mod diff;
pub(crate) mod events;
pub(crate) mod feed;
pub(crate) mod git;
pub(crate) mod hooks;
pub(crate) mod inbox;
pub(crate) mod jobs;
pub(crate) mod keys;
pub(crate) mod me;
pub(crate) mod messages;
pub(crate) mod project_pulls;
pub(crate) mod projects;
pub(crate) mod pulls;
pub(crate) mod runs;
pub(crate) mod slack;
pub(crate) mod system;
pub(crate) mod templates;
pub(crate) mod trusts;
pub(crate) mod usage;
pub(crate) mod users;
pub(crate) mod webhooks;

use axum::middleware::from_fn;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::conditional;

/// Returns the router of the operations under `/v2` that need a key, with its OpenAPI description.
pub(crate) fn api() -> OpenApiRouter<App> {
    // Clients call these most, and the record of a job has an entity tag of its own.
    let frequent =
        OpenApiRouter::new().routes(routes!(jobs::create)).routes(routes!(jobs::get)).routes(routes!(messages::send));
    frequent.merge(others().route_layer(from_fn(conditional::tag_bodies)))
}

/// Returns the router of the operations under `/v2` that need no key.
pub(crate) fn open() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(trusts::exchange))
}

fn others() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(jobs::list))
        .routes(routes!(jobs::list_of_project))
        .routes(routes!(jobs::list_of_all))
        .routes(routes!(jobs::details))
        .routes(routes!(jobs::delete))
        .routes(routes!(jobs::retry))
        .routes(routes!(jobs::cancel))
        .routes(routes!(jobs::archive))
        .routes(routes!(jobs::unarchive))
        .routes(routes!(messages::list))
        .routes(routes!(messages::get, messages::withdraw))
        .routes(routes!(runs::list))
        .routes(routes!(pulls::list))
        .routes(routes!(checks::get))
        .routes(routes!(events::read))
        .routes(routes!(events::stream))
        .routes(routes!(feed::of_project))
        .routes(routes!(feed::of_all))
        .routes(routes!(feed::stream_of_project))
        .routes(routes!(feed::stream_of_all))
        .routes(routes!(diff::read))
        .routes(routes!(projects::list, projects::create))
        .routes(routes!(projects::get, projects::change, projects::delete))
        .routes(routes!(projects::test_new))
        .routes(routes!(projects::test))
        .routes(routes!(project_pulls::list))
        .routes(routes!(project_pulls::open))
        .routes(routes!(project_pulls::get))
        .routes(routes!(project_pulls::merge))
        .routes(routes!(code_hosts::list, code_hosts::create))
        .routes(routes!(code_hosts::get, code_hosts::replace, code_hosts::remove))
        .routes(routes!(code_hosts::check))
        .routes(routes!(inbox::of_project))
        .routes(routes!(inbox::of_all))
        .routes(routes!(keys::list, keys::create))
        .routes(routes!(keys::get, keys::revoke))
        .routes(routes!(keys::rotate))
        .routes(routes!(templates::list, templates::create))
        .routes(routes!(templates::get, templates::change, templates::delete))
        .routes(routes!(trusts::list, trusts::create))
        .routes(routes!(trusts::get, trusts::change, trusts::delete))
        .routes(routes!(users::list, users::create))
        .routes(routes!(users::get, users::change))
        .routes(routes!(users::link))
        .routes(routes!(me::me))
        .routes(routes!(me::agents))
        .routes(routes!(audit::list))
        .routes(routes!(audit::export))
        .routes(routes!(webhooks::list, webhooks::create))
        .routes(routes!(webhooks::get, webhooks::change, webhooks::delete))
        .routes(routes!(webhooks::rotate))
        .routes(routes!(webhooks::test))
        .routes(routes!(webhooks::deliveries))
        .routes(routes!(webhooks::redeliver))
        .routes(routes!(webhooks::replay))
        .routes(routes!(slack::list, slack::create))
        .routes(routes!(slack::get, slack::change, slack::remove))
        .routes(routes!(slack::check))
        .routes(routes!(slack::events))
        .routes(routes!(slack::posts))
        .routes(routes!(slack::code))
        .routes(routes!(usage::report))
        .routes(routes!(me::models))
        .routes(routes!(system::system))
}
