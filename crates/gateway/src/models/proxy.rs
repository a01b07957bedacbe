//! The HTTP server of a sandbox's model proxy, which admits the requests that the open account and the provider's paths
//! allow.

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
use journeyman_core::ports::{ModelAccount, ModelCall, ModelFailure, ModelProxy, ModelUse};
use journeyman_core::run::Reason;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use super::account::Account;
use super::call::{AdmittedCall, Body, USUAL_OUTPUT, refused};
use super::path::{Path, Purpose, find};
use super::{Models, key, no_key, request};

/// The maximum number of concurrent connections of one sandbox; more connections wait.
const CONNECTIONS: usize = 64;

/// The maximum number of concurrent calls of one sandbox; more calls wait.
const CALLS: usize = 16;

/// The maximum size of a body in KiB, the same as that of Anthropic.
const BODY_KIB: u32 = 32 << 10;

/// The maximum total size of the bodies of one sandbox at a time, in KiB.
const BODIES_KIB: usize = 64 << 10;

/// The size in bytes above which a body is parsed on a separate thread.
const LARGE_BYTES: usize = 256 << 10;

/// The time limit for the head of a request, and for an idle connection.
const HEAD_TIME: Duration = Duration::from_secs(60);

/// The time limit for receiving a body.
const BODY_TIME: Duration = Duration::from_secs(60);

/// The maximum size of the head of a request in bytes.
const HEAD_BYTES: usize = 64 << 10;

/// A proxy that is served until it is dropped.
pub(crate) struct ServedProxy {
    proxy: Arc<Proxy>,
    _serving: AbortOnDropHandle<()>,
}

struct Proxy {
    models: Arc<Models>,
    token: String,
    account: Mutex<Option<Arc<Account>>>,
    calls: Arc<Semaphore>,
    bodies: Arc<Semaphore>,
}

impl ServedProxy {
    pub(crate) fn new(models: Arc<Models>, listener: OwnedFd, token: String) -> io::Result<Self> {
        let listener = std::net::TcpListener::from(listener);
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let (calls, bodies) = (Arc::new(Semaphore::new(CALLS)), Arc::new(Semaphore::new(BODIES_KIB)));
        let proxy = Arc::new(Proxy { models, token, account: Mutex::default(), calls, bodies });
        let serving = AbortOnDropHandle::new(tokio::spawn(serve(Arc::clone(&proxy), listener)));
        Ok(Self { proxy, _serving: serving })
    }
}

impl Drop for ServedProxy {
    fn drop(&mut self) {
        if let Some(account) = self.proxy.account().take() {
            account.closed.cancel();
        }
    }
}

#[async_trait]
impl ModelProxy for ServedProxy {
    fn open(&self, account: ModelAccount) -> Result<(), Reason> {
        let (model, models) = (account.model.clone(), &self.proxy.models);
        let (prefix, name, provider) = models.provider(&model)?;
        provider.key(&account.keys).map_err(|variable| no_key(&model, &variable))?;
        let account = Account::new(account, provider.clone(), prefix, name);
        if let Some(before) = self.proxy.account().replace(Arc::new(account)) {
            before.closed.cancel();
        }
        Ok(())
    }

    async fn refused(&self) -> ModelFailure {
        let account = self.proxy.account().clone();
        match account {
            Some(account) => account.refused().await,
            None => std::future::pending().await,
        }
    }

    async fn close(&self) -> ModelUse {
        let account = self.proxy.account().take();
        match account {
            Some(account) => account.close().await,
            None => ModelUse::default(),
        }
    }
}

/// Serves connections until this future is dropped, which closes all of them.
async fn serve(proxy: Arc<Proxy>, listener: TcpListener) {
    let (limit, mut connections) = (Arc::new(Semaphore::new(CONNECTIONS)), JoinSet::new());
    loop {
        let Ok(permit) = Arc::clone(&limit).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((client, _)) => {
                let proxy = Arc::clone(&proxy);
                connections.spawn(async move {
                    let _permit = permit;
                    proxy.serve_client(client).await;
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection from a sandbox could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
}

/// A refusal: the HTTP status and the reason.
struct Refused(StatusCode, String);

impl Proxy {
    fn account(&self) -> MutexGuard<'_, Option<Arc<Account>>> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn serve_client(self: Arc<Self>, client: TcpStream) {
        // Send small pieces of an answer without delay.
        let _ = client.set_nodelay(true);
        let service = service_fn(move |request| {
            let proxy = Arc::clone(&self);
            async move { Ok::<_, Infallible>(proxy.answer(request).await) }
        });
        let mut server = http1::Builder::new();
        server.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(HEAD_BYTES);
        // Ignore clients that disconnect or do not speak HTTP.
        let _ = server.serve_connection(TokioIo::new(client), service).await;
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let account = self.account().clone();
        let dialect = account.as_ref().map_or(Dialect::Compatible, |account| account.provider.dialect);
        match self.admit(account.clone(), request).await {
            Ok(answer) => answer,
            Err(Refused(status, text)) => {
                if let Some(account) = account.filter(|_| status != StatusCode::UNAUTHORIZED) {
                    account.log(ModelCall::Denied { reason: text.clone() });
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
            let text = "the request has no valid token of this run; an agent gets it as {model_token}";
            return Err(Refused(StatusCode::UNAUTHORIZED, text.to_owned()));
        }
        let Some(account) = account else {
            return Err(Refused(StatusCode::FORBIDDEN, "no turn is running, so models cannot be called".to_owned()));
        };
        let dialect = account.provider.dialect;
        let Some(path) = find(dialect, &head.method, head.uri.path()) else {
            let text = format!(
                "{} {} is not a path for models in the dialect {}",
                head.method,
                head.uri.path().chars().take(200).collect::<String>(),
                dialect.name()
            );
            return Err(Refused(StatusCode::NOT_FOUND, text));
        };
        let permit = Arc::clone(&self.calls).acquire_owned().await.ok();
        let (prepared, memory) = match head.method {
            Method::POST => {
                if head.headers.contains_key(header::CONTENT_ENCODING) {
                    let text = "compressed bodies are not supported; send the body uncompressed".to_owned();
                    return Err(Refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
                }
                let mut memory = self.reserve_memory(&head.headers).await;
                let body = read(body).await?;
                // Release the permits that the body does not need.
                let kib = body.len().div_ceil(1024).max(1);
                let rest = memory.as_mut().and_then(|memory| memory.split(memory.num_permits().saturating_sub(kib)));
                drop(rest);
                (Some(self.prepare(&account, &path, body).await?), memory)
            }
            _ => (None, None),
        };
        let keys = account.provider.key(&account.given.keys);
        let key =
            keys.map_err(|variable| Refused(StatusCode::FORBIDDEN, no_key(&account.given.model, &variable).text))?;
        let headers = key::headers(dialect, &head.headers, key.as_ref()).map_err(|_| {
            Refused(StatusCode::BAD_GATEWAY, "the key of the model has invalid characters; replace it".to_owned())
        })?;
        let parameters = key::passed_parameters(query);
        let (models, held) = (Arc::clone(&self.models), (permit, memory));
        let call = AdmittedCall { models, account, path, prepared, headers, parameters, key, _held: held };
        let (caller, answer) = oneshot::channel();
        let calls = call.account.calls.clone();
        let span = call.span();
        calls.spawn(call.make(caller).instrument(span));
        let ended = || Refused(StatusCode::FORBIDDEN, "the turn has ended".to_owned());
        answer.await.map_err(|_| ended())
    }

    /// Parses and checks a body. A large body is parsed on a blocking thread, where it does not delay other calls.
    async fn prepare(&self, account: &Account, path: &Path, body: Bytes) -> Result<request::Prepared, Refused> {
        let provider = &account.provider;
        let rules = request::Rules {
            hosted_tools: provider.hosted_tools,
            groups: provider.groups.clone(),
            fields: provider.fields.clone(),
            // If there is a budget, the money that is set aside for a call must be the most that it can cost.
            max_output: provider
                .max_output
                .or_else(|| (!account.given.budgets.are_open()).then_some(USUAL_OUTPUT))
                .filter(|_| path.purpose == Purpose::Generate),
            context_tokens: provider.context_tokens.filter(|_| path.purpose == Purpose::Generate),
            is_openai: provider.dialect != Dialect::Compatible && provider.dialect != Dialect::Ollama,
        };
        let prepared = if body.len() <= LARGE_BYTES {
            request::prepare(path, &body, &rules)
        } else {
            let _permit = self.models.reading.acquire().await;
            let path = path.clone();
            let reading = tokio::task::spawn_blocking(move || request::prepare(&path, &body, &rules));
            reading.await.unwrap_or_else(|_| Err("the body could not be read".to_owned()))
        };
        let prepared = prepared.map_err(|text| Refused(StatusCode::BAD_REQUEST, text))?;
        check_call(account, path, &prepared)?;
        Ok(prepared)
    }

    /// Waits until there is memory for a body, by its `Content-Length` or else the maximum size.
    async fn reserve_memory(&self, headers: &http::HeaderMap) -> Option<OwnedSemaphorePermit> {
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
        Ok(Err(_)) => Err(Refused(StatusCode::BAD_REQUEST, "the body is incomplete".to_owned())),
        Err(_) => Err(Refused(StatusCode::REQUEST_TIMEOUT, "the body was not received in time".to_owned())),
    }
}

fn check_call(account: &Account, path: &Path, prepared: &request::Prepared) -> Result<(), Refused> {
    let mut called = prepared.fallbacks.iter().chain([&prepared.model]);
    if let Some(other) = called.find(|model| !account.may_call(model)) {
        let text = format!(
            "this run may call the model {}, not {other}; the operator can allow others with also = [...] for this provider",
            account.name
        );
        return Err(Refused(StatusCode::FORBIDDEN, text));
    }
    if path.purpose == Purpose::Generate && !prepared.removed.is_empty() {
        let names = prepared.removed.join(", ");
        let reason = format!(
            "{names} was removed from a call: it may reach beyond the sandbox or change the price; the operator can allow \
             the groups of fields in brackets, and other fields, in [models.{}]",
            account.prefix
        );
        account.log(ModelCall::Denied { reason });
    }
    Ok(())
}
