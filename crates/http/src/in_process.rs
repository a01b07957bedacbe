//! The interface for the pages: the same routes, without a socket, for somebody who has signed in.

use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt;
use journeyman_core::ids::JobId;
use journeyman_core::key::Scope;
use journeyman_core::message::Origin;
use journeyman_dashboard::{Answer, Call, Interface, LogTail, Viewer};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::app::App;
use crate::auth::needs;
use crate::caller::{Caller, Who};
use crate::error::Problem;
use crate::tail::Reader;

/// The routes of the interface, before the layer that asks for a key.
pub(crate) struct InProcess {
    app: App,
    routes: Router,
}

impl InProcess {
    pub(crate) fn new(app: App, routes: Router<App>) -> Arc<Self> {
        Arc::new(Self { routes: routes.with_state(app.clone()), app })
    }
}

#[async_trait]
impl Interface for InProcess {
    async fn call(&self, viewer: &Viewer, call: Call) -> Answer {
        if needs(&call.method) == Scope::Write && viewer.user.role.scope() != Scope::Write {
            let text = "you may look at everything here; to change something you need the role member";
            return Answer { status: StatusCode::FORBIDDEN, body: json!({ "error": text }) };
        }
        match self.answer(viewer, call).await {
            Ok(answer) => answer,
            Err(error) => {
                tracing::error!(%error, "a page could not call the interface");
                Answer { status: StatusCode::INTERNAL_SERVER_ERROR, body: Value::Null }
            }
        }
    }

    fn forget(&self) {
        self.app.known.forget();
    }

    async fn stopped(&self) {
        self.app.shutdown.cancelled().await;
    }

    fn tail(&self, job: JobId, after: u64) -> Box<dyn LogTail> {
        Box::new(Reader::new(self.app.clone(), job, after))
    }
}

impl InProcess {
    async fn answer(&self, viewer: &Viewer, call: Call) -> Result<Answer, axum::Error> {
        let origin = if call.from_pull_request { Origin::PullRequest } else { Origin::Dashboard };
        let caller = Caller { who: Who::User(Arc::clone(&viewer.user)), address: viewer.address, origin };
        let mut request = Request::builder().method(call.method).uri(call.path);
        if let Some(key) = call.key {
            request = request.header("idempotency-key", key);
        }
        let body = match call.body {
            Some(body) => {
                request = request.header(CONTENT_TYPE, "application/json");
                Body::from(body.to_string())
            }
            None => Body::empty(),
        };
        let mut request = request.body(body).map_err(axum::Error::new)?;
        request.extensions_mut().insert(caller);
        let mut response = self.routes.clone().oneshot(request).await.map_err(axum::Error::new)?;
        let status = response.status();
        // Errors become bodies in an outer layer, with the id of a request.
        if let Some(problem) = response.extensions_mut().remove::<Problem>() {
            return Ok(Answer { status, body: json!({ "error": problem.text, "code": problem.code }) });
        }
        let bytes = response.into_body().collect().await?.to_bytes();
        // An answer without a body has none to read.
        let body = serde_json::from_slice(&bytes).unwrap_or_default();
        Ok(Answer { status, body })
    }
}
