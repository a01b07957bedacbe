//! The key of a request, and what jobs can ask for.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use crate::app::App;
use crate::caller::Actor;
use crate::conditional::conditional;
use crate::error::ApiError;
use crate::extract::Authenticated;
use crate::openapi::errors;
use crate::routes::keys::tag_of_key;
use crate::wire::agent::{Agent, AgentList};
use crate::wire::key::{Key, Me};
use crate::wire::model::{ModelList, Provider};

errors!(Errors: 401, 403, 503);

/// Get your key
///
/// Returns the API key of this request, and what it may do.
#[utoipa::path(get, path = "/v2/me", tag = "Keys", operation_id = "getMe",
    responses((status = 200, description = "The key of the request", body = Me), Errors))]
pub(crate) async fn me(Authenticated(caller): Authenticated, headers: HeaderMap) -> Result<Response, ApiError> {
    let Actor::Key(key) = &caller.actor else {
        return Err(ApiError::internal(&"the caller of the interface has no key"));
    };
    let manages_projects = caller.needs_administrator().is_ok();
    Ok(conditional(&tag_of_key(key), Me { key: Key::from((**key).clone()), manages_projects }, &headers))
}

/// List agents
///
/// Returns the agents that a project or a job can name, by ID.
#[utoipa::path(get, path = "/v2/agents", tag = "System", operation_id = "listAgents",
    responses((status = 200, description = "The agents", body = AgentList), Errors))]
pub(crate) async fn agents(State(app): State<App>, _: Authenticated) -> Json<AgentList> {
    Json(AgentList { agents: app.settings.agents.iter().map(|(id, agent)| Agent::of(id, agent)).collect() })
}

/// List models
///
/// Returns the providers of models that this server is configured with. A project or a job names a model as
/// `<provider>/<name>`; which names exist, the provider decides.
#[utoipa::path(get, path = "/v2/models", tag = "System", operation_id = "listModels",
    responses((status = 200, description = "The providers and the prices of their models", body = ModelList), Errors))]
pub(crate) async fn models(State(app): State<App>, _: Authenticated) -> Json<ModelList> {
    Json(ModelList { providers: app.settings.providers.iter().map(Provider::from).collect() })
}
