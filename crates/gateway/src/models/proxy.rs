//! The server of one sandbox: takes requests, lets those through that an open account and its provider's paths allow.

use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use journeyman_core::model::Dialect;
use journeyman_core::ports::{ModelAccount, ModelCall, ModelDoor, ModelFailure, ModelUse};
use journeyman_core::run::Reason;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::account::Account;
use super::call::{Body, Call, USUAL_OUTPUT, refused};
use super::path::{Path, Purpose, find};
use super::{Models, key, no_key, request};

/// Connections of one sandbox at a time; more wait.
const CONNECTIONS: usize = 64;

/// Calls of one sandbox at a time; more wait.
const CALLS: usize = 16;

/// The largest body, in KiB: as much as Anthropic takes.
const BODY_KIB: u32 = 32 << 10;

/// Bodies of one sandbox at a time, in KiB together.
const BODIES_KIB: usize = 64 << 10;

/// A body of more bytes is read on a thread of its own.
const LARGE_BYTES: usize = 256 << 10;

/// How long the head of a request may take, and how long a connection may rest.
const HEAD_TIME: Duration = Duration::from_secs(60);

/// How long a body may take.
const BODY_TIME: Duration = Duration::from_secs(60);

/// Bytes that the head of a request may have.
const HEAD_BYTES: usize = 64 << 10;

/// A door that is served until it is dropped.
pub(crate) struct ServedDoor {
    door: Arc<Door>,
    _serving: AbortOnDropHandle<()>,
}

struct Door {
    models: Arc<Models>,
    token: String,
    account: Mutex<Option<Arc<Account>>>,
    calls: Arc<Semaphore>,
    bodies: Arc<Semaphore>,
}

impl ServedDoor {
    pub(crate) fn new(models: Arc<Models>, listener: OwnedFd, token: String) -> io::Result<Self> {
        let listener = std::net::TcpListener::from(listener);
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let (calls, bodies) = (Arc::new(Semaphore::new(CALLS)), Arc::new(Semaphore::new(BODIES_KIB)));
        let door = Arc::new(Door { models, token, account: Mutex::default(), calls, bodies });
        let serving = AbortOnDropHandle::new(tokio::spawn(serve(Arc::clone(&door), listener)));
        Ok(Self { door, _serving: serving })
    }
}

impl Drop for ServedDoor {
    fn drop(&mut self) {
        if let Some(account) = self.door.account().take() {
            account.over.cancel();
        }
    }
}

#[async_trait]
impl ModelDoor for ServedDoor {
    fn open(&self, account: ModelAccount) -> Result<(), Reason> {
        let (model, models) = (account.model.clone(), &self.door.models);
        let (prefix, name, provider) = models.provider(&model)?;
        provider.key(&account.keys).map_err(|variable| no_key(&model, &variable))?;
        let account = Account::new(account, provider.clone(), prefix, name);
        if let Some(before) = self.door.account().replace(Arc::new(account)) {
            before.over.cancel();
        }
        Ok(())
    }

    async fn refused(&self) -> ModelFailure {
        let account = self.door.account().clone();
        match account {
            Some(account) => account.refused().await,
            None => std::future::pending().await,
        }
    }

    async fn close(&self) -> ModelUse {
        let account = self.door.account().take();
        match account {
            Some(account) => account.close().await,
            None => ModelUse::default(),
        }
    }
}

/// Takes connections until it is dropped, and all of them with it.
async fn serve(door: Arc<Door>, listener: TcpListener) {
    let (room, mut connections) = (Arc::new(Semaphore::new(CONNECTIONS)), JoinSet::new());
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((client, _)) => {
                let door = Arc::clone(&door);
                connections.spawn(async move {
                    let _place = place;
                    door.talk(client).await;
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection out of a sandbox could not be taken");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
}

/// Why a request goes no further.
struct Refused(StatusCode, String);

impl Door {
    fn account(&self) -> MutexGuard<'_, Option<Arc<Account>>> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn talk(self: Arc<Self>, client: TcpStream) {
        // Small pieces of an answer are not held back.
        let _ = client.set_nodelay(true);
        let service = service_fn(move |request| {
            let door = Arc::clone(&self);
            async move { Ok::<_, Infallible>(door.answer(request).await) }
        });
        let mut server = http1::Builder::new();
        server.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(HEAD_BYTES);
        // A client that goes away or speaks no HTTP is of no interest.
        let _ = server.serve_connection(TokioIo::new(client), service).await;
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let account = self.account().clone();
        let dialect = account.as_ref().map_or(Dialect::Compatible, |account| account.provider.dialect);
        match self.admit(account.clone(), request).await {
            Ok(answer) => answer,
            Err(Refused(status, text)) => {
                if let Some(account) = account.filter(|_| status != StatusCode::UNAUTHORIZED) {
                    account.tell(ModelCall::Denied { reason: text.clone() });
                }
                refused(dialect, status, &text)
            }
        }
    }

    async fn admit(
        &self,
        account: Option<Arc<Account>>,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Refused> {
        let (head, body) = request.into_parts();
        let query = head.uri.query().unwrap_or_default();
        if !key::is_shown(&self.token, &head.headers, query) {
            let text = "the token of this run was not shown; an agent gets it as {model_token}";
            return Err(Refused(StatusCode::UNAUTHORIZED, text.to_owned()));
        }
        let Some(account) = account else {
            return Err(Refused(StatusCode::FORBIDDEN, "no run is under way: models are called in a turn".to_owned()));
        };
        let dialect = account.provider.dialect;
        let Some(path) = find(dialect, &head.method, head.uri.path()) else {
            let text = format!(
                "{} {} is no call of a model that {} serves",
                head.method,
                head.uri.path().chars().take(200).collect::<String>(),
                dialect.name()
            );
            return Err(Refused(StatusCode::NOT_FOUND, text));
        };
        let place = Arc::clone(&self.calls).acquire_owned().await.ok();
        let (prepared, room) = match head.method {
            Method::POST => {
                if head.headers.contains_key(header::CONTENT_ENCODING) {
                    let text = "a compressed body is not taken: send it as it is".to_owned();
                    return Err(Refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
                }
                let mut room = self.room(&head.headers).await;
                let body = read(body).await?;
                // No more than it has in the end.
                let kib = body.len().div_ceil(1024).max(1);
                let rest = room.as_mut().and_then(|room| room.split(room.num_permits().saturating_sub(kib)));
                drop(rest);
                (Some(self.prepare(&account, &path, body).await?), room)
            }
            _ => (None, None),
        };
        let keys = account.provider.key(&account.given.keys);
        let key =
            keys.map_err(|variable| Refused(StatusCode::FORBIDDEN, no_key(&account.given.model, &variable).text))?;
        let headers = key::headers(dialect, &head.headers, key.as_ref()).map_err(|_| {
            Refused(StatusCode::BAD_GATEWAY, "the key of the model holds what no key can; set it anew".to_owned())
        })?;
        let parameters = key::passed_parameters(query);
        let (models, held) = (Arc::clone(&self.models), (place, room));
        let call = Call { models, account, path, prepared, headers, parameters, key, _held: held };
        let (caller, answer) = oneshot::channel();
        let calls = call.account.calls.clone();
        calls.spawn(call.make(caller));
        let over = || Refused(StatusCode::FORBIDDEN, "the run is over".to_owned());
        answer.await.map_err(|_| over())
    }

    /// Reads a body; a large one where it keeps nobody from working.
    async fn prepare(&self, account: &Account, path: &Path, body: Bytes) -> Result<request::Prepared, Refused> {
        let provider = &account.provider;
        let rules = request::Rules {
            hosted_tools: provider.hosted_tools,
            // Where there is a budget, what is set aside for a call must be the most that it can cost.
            max_output: provider
                .max_output
                .or_else(|| (!account.given.budgets.are_open()).then_some(USUAL_OUTPUT))
                .filter(|_| path.purpose == Purpose::Generate),
            context_tokens: provider.context_tokens.filter(|_| path.purpose == Purpose::Generate),
            is_openai: provider.dialect != Dialect::Compatible && provider.dialect != Dialect::Ollama,
        };
        let prepared = if body.len() <= LARGE_BYTES {
            request::prepare(path, &body, rules)
        } else {
            let _place = self.models.reading.acquire().await;
            let path = path.clone();
            let reading = tokio::task::spawn_blocking(move || request::prepare(&path, &body, rules));
            reading.await.unwrap_or_else(|_| Err("the body could not be read".to_owned()))
        };
        let prepared = prepared.map_err(|text| Refused(StatusCode::BAD_REQUEST, text))?;
        may_be_sent(account, path, &prepared)?;
        Ok(prepared)
    }

    /// Room for a body.
    async fn room(&self, headers: &http::HeaderMap) -> Option<OwnedSemaphorePermit> {
        let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        let kib = length.map_or(BODY_KIB, |length| u32::try_from(length.div_ceil(1024)).unwrap_or(BODY_KIB));
        Arc::clone(&self.bodies).acquire_many_owned(kib.clamp(1, BODY_KIB)).await.ok()
    }
}

async fn read(body: Incoming) -> Result<Bytes, Refused> {
    let most = (BODY_KIB as usize) << 10;
    match timeout(BODY_TIME, Limited::new(body, most).collect()).await {
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            Err(Refused(StatusCode::PAYLOAD_TOO_LARGE, format!("the body has more than {most} bytes")))
        }
        Ok(Err(_)) => Err(Refused(StatusCode::BAD_REQUEST, "the body did not come to its end".to_owned())),
        Err(_) => Err(Refused(StatusCode::REQUEST_TIMEOUT, "the body took too long".to_owned())),
    }
}

fn may_be_sent(account: &Account, path: &Path, prepared: &request::Prepared) -> Result<(), Refused> {
    if !account.may_call(&prepared.model) {
        let text = format!(
            "this run may call the model {} and not {}; the operator can allow others with also = [...] for this provider",
            account.name, prepared.model
        );
        return Err(Refused(StatusCode::FORBIDDEN, text));
    }
    if path.purpose == Purpose::Generate && !prepared.removed.is_empty() {
        let names = prepared.removed.join(", ");
        let reason = format!("{names} was taken out of a call: it may reach beyond the sandbox or change the price");
        account.tell(ModelCall::Denied { reason });
    }
    Ok(())
}
