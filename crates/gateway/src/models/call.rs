//! One call of a model: money set aside, the provider asked, its answer passed on as it comes, the cost settled.
//!
//! It is a task of its own: a caller that goes away in the middle ends it, and does not keep it from being counted.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::stream::unfold;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use journeyman_core::model::price::Tokens;
use journeyman_core::ports::{ModelCall, ModelFailure};
use journeyman_core::project::SecretValue;
use journeyman_core::run::ReasonCode;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::timeout;

use super::account::{Account, Reserved};
use super::path::{Path, Purpose};
use super::request::Prepared;
use super::usage::{Reader, Told};
use super::{Models, failure, refusal};

/// Bytes of a provider's error that are passed on.
const ERROR_BYTES: usize = 64 << 10;

/// How long those may take.
const ERROR_TIME: Duration = Duration::from_secs(10);

/// Tokens that a call may write which says nothing about it; where there is a budget it is told so.
pub(crate) const USUAL_OUTPUT: u64 = 32_000;

/// Bytes of a body that are at least one token, when money is set aside. Texts have about four.
const BYTES_OF_TOKEN: u64 = 2;

/// Bytes of an answer that are at most one token, where it was cut: each comes in an event of its own.
const BYTES_OF_TOKEN_SENT: u64 = 4;

/// Fields of an answer that callers see.
const PASSED: [HeaderName; 5] = [
    CONTENT_TYPE,
    http::header::RETRY_AFTER,
    HeaderName::from_static("request-id"),
    HeaderName::from_static("x-request-id"),
    HeaderName::from_static("x-should-retry"),
];

/// What a caller is answered with.
pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// A call that may be made.
pub(crate) struct Call {
    pub(crate) models: Arc<Models>,
    pub(crate) account: Arc<Account>,
    pub(crate) path: Path,
    /// `None` for one without a body.
    pub(crate) prepared: Option<Prepared>,
    /// As the provider is to see them, with the key.
    pub(crate) headers: HeaderMap,
    pub(crate) parameters: Vec<(String, String)>,
    pub(crate) key: Option<SecretValue>,
    /// Its place among the sandbox's calls, and its body's room, which are free again when it is over.
    pub(crate) _held: (Option<OwnedSemaphorePermit>, Option<OwnedSemaphorePermit>),
}

/// How a call ended.
struct End {
    told: Told,
    failure: Option<ModelFailure>,
    /// What the provider will ask for it.
    bill: Bill,
    /// Bytes of the answer.
    bytes: u64,
}

/// What a provider will ask for a call.
enum Bill {
    /// Nothing: it was not answered.
    Nothing,
    /// What it has told.
    Told,
    /// It has begun to answer, and nobody knows how far it came.
    Begun,
    /// Anything.
    Unknown,
}

impl End {
    fn failed(failure: ModelFailure) -> Self {
        Self { told: Told::default(), failure: Some(failure), bill: Bill::Nothing, bytes: 0 }
    }

    fn unknown(failure: Option<ModelFailure>) -> Self {
        Self { failure, bill: Bill::Unknown, told: Told::default(), bytes: 0 }
    }
}

impl Call {
    /// Makes it, and answers the caller as soon as there is something to say.
    pub(crate) async fn make(self, caller: oneshot::Sender<Response<Body>>) {
        if self.path.purpose != Purpose::Generate {
            self.ask(caller).await;
            return;
        }
        if self.account.over.is_cancelled() {
            return;
        }
        let begun = Instant::now();
        let (models, account) = (Arc::clone(&self.models), Arc::clone(&self.account));
        let Some(prepared) = &self.prepared else { return };
        let (model, size) = (prepared.model.clone(), prepared.body.len() as u64);
        let price = models.price(&account.whole_name(&model)).copied();
        let most_output = prepared.most_output.unwrap_or(USUAL_OUTPUT).saturating_mul(prepared.answers);
        let at_most = (size.div_ceil(BYTES_OF_TOKEN).saturating_add(prepared.attached), most_output);
        let reserved = account.reserve(&*models.spending, models.clock.now(), &model, price.as_ref(), at_most).await;
        let reserved = match reserved {
            Ok(reserved) => reserved,
            Err(failure) => {
                account.tell(ModelCall::Denied { reason: failure.reason.text.clone() });
                let status = match failure.reason.code {
                    ReasonCode::OverBudget => StatusCode::PAYMENT_REQUIRED,
                    _ => StatusCode::SERVICE_UNAVAILABLE,
                };
                let answer = self.refusal(status, &failure.reason.text);
                account.fail(failure);
                // It may be gone.
                drop(caller.send(answer));
                return;
            }
        };
        let End { told, failure, bill, bytes } = self.ask(caller).await;
        let cost = price.map(|price| {
            let most = reserved.most().unwrap_or(u64::MAX);
            let tokens = told.tokens.unwrap_or_default();
            match bill {
                Bill::Nothing => 0,
                Bill::Told => price.of(&tokens),
                Bill::Begun if told.tokens.is_some() => {
                    let output = tokens.output.max(bytes / BYTES_OF_TOKEN_SENT);
                    price.of(&Tokens { output, ..tokens }).min(most)
                }
                Bill::Begun | Bill::Unknown => most,
            }
        });
        if matches!(bill, Bill::Nothing) && failure.is_none() {
            // The provider was never asked.
            account.settle(&*models.spending, reserved, cost).await;
            return;
        }
        let is_whole = matches!(bill, Bill::Told);
        self.count(reserved, &model, &told, cost, (failure.as_ref(), is_whole), begun.elapsed()).await;
    }

    async fn count(
        &self,
        reserved: Reserved,
        model: &str,
        told: &Told,
        cost: Option<u64>,
        (failure, is_whole): (Option<&ModelFailure>, bool),
        took: Duration,
    ) {
        let Self { account, models, .. } = self;
        let tokens = told.tokens.unwrap_or_default();
        let has_tools = self.prepared.as_ref().is_some_and(|prepared| prepared.has_tools);
        account.count(&tokens, cost, failure, (is_whole, has_tools));
        let outcome = failure.map_or_else(|| "ok".to_owned(), |failure| code_name(failure.reason.code));
        models.totals.add(&account.prefix, outcome, &tokens, cost);
        account.tell(ModelCall::Made {
            model: account.whole_name(model),
            tokens,
            cost_micros: cost,
            millis: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            failure: failure.map(|failure| failure.reason.text.clone()),
        });
        account.settle(&*models.spending, reserved, cost).await;
    }

    /// Asks the provider, and passes its answer on.
    async fn ask(&self, mut caller: oneshot::Sender<Response<Body>>) -> End {
        let Self { models, account, .. } = self;
        if account.over.is_cancelled() || caller.is_closed() {
            return End { bill: Bill::Nothing, ..End::unknown(None) };
        }
        let name = account.given.model.as_str();
        let url = account.provider.url(&self.path.rest, &self.parameters);
        if let Some(why) = models.no_tls.as_ref().filter(|_| url.scheme() == "https") {
            let failure = failure::no_tls(name, why);
            drop(caller.send(self.refusal(StatusCode::BAD_GATEWAY, &failure.reason.text)));
            return End::failed(failure);
        }
        let request = match &self.prepared {
            Some(prepared) => {
                let json = HeaderValue::from_static("application/json");
                models
                    .client
                    .post(url)
                    .headers(self.headers.clone())
                    .header(CONTENT_TYPE, json)
                    .body(prepared.body.clone())
            }
            None => models.client.get(url).headers(self.headers.clone()),
        };
        let silence = models.silence();
        let answered = tokio::select! {
            biased;
            () = account.over.cancelled() => return End::unknown(None),
            () = caller.closed() => return End::unknown(None),
            answered = timeout(silence, request.send()) => answered,
        };
        let response = match answered {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                let failure = failure::unreachable(name, &error.without_url());
                drop(caller.send(self.refusal(StatusCode::BAD_GATEWAY, &failure.reason.text)));
                return End::failed(failure);
            }
            Err(_) => {
                let failure = failure::silent(name, silence);
                drop(caller.send(self.refusal(StatusCode::GATEWAY_TIMEOUT, &failure.reason.text)));
                return End::unknown(Some(failure));
            }
        };
        if !response.status().is_success() {
            return self.pass_error(response, caller).await;
        }
        let content_type =
            response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let reader = Reader::new(self.path.shape, content_type);
        let (pieces, body) = mpsc::channel(1);
        let body =
            unfold(body, async |mut body: mpsc::Receiver<io::Result<Frame<Bytes>>>| Some((body.recv().await?, body)));
        let mut answer = Response::new(BodyExt::boxed_unsync(StreamBody::new(Box::pin(body))));
        *answer.status_mut() = response.status();
        *answer.headers_mut() = passed(response.headers());
        if caller.send(answer).is_err() {
            return End { bill: Bill::Begun, ..End::unknown(None) };
        }
        self.pass_on(response, reader, &pieces).await
    }

    /// Each piece goes on as it has come; the next is read when the caller has taken it.
    async fn pass_on(
        &self,
        mut response: reqwest::Response,
        mut reader: Reader,
        pieces: &mpsc::Sender<io::Result<Frame<Bytes>>>,
    ) -> End {
        let (name, silence) = (self.account.given.model.as_str(), self.models.silence());
        let mut bytes = 0;
        let failure = loop {
            let piece = tokio::select! {
                biased;
                () = self.account.over.cancelled() => break None,
                () = pieces.closed() => break None,
                piece = timeout(silence, response.chunk()) => piece,
            };
            let piece = match piece {
                Ok(Ok(Some(piece))) => piece,
                Ok(Ok(None)) => {
                    let told = reader.end();
                    return self.ended(told, bytes, pieces).await;
                }
                Ok(Err(error)) => break Some(failure::cut(name, &failure::unreachable(name, &error).reason.text)),
                Err(_) => break Some(failure::silent(name, silence)),
            };
            bytes += piece.len() as u64;
            reader.read(&piece);
            let sent = tokio::select! {
                () = self.account.over.cancelled() => break None,
                sent = pieces.send(Ok(Frame::data(piece))) => sent,
            };
            if sent.is_err() {
                break None;
            }
        };
        self.break_off(pieces).await;
        let told = reader.end();
        // Of one that was complete all is known, whoever hung up after that.
        let bill = if told.complete && told.tokens.is_some() { Bill::Told } else { Bill::Begun };
        let failure = failure.filter(|_| !told.complete);
        End { told, failure, bill, bytes }
    }

    /// The provider has ended its answer; whether the model has too is another thing.
    async fn ended(&self, told: Told, bytes: u64, pieces: &mpsc::Sender<io::Result<Frame<Bytes>>>) -> End {
        let name = self.account.given.model.as_str();
        let failure = match &told.error {
            Some(error) => Some(failure::told(name, error)),
            None if told.complete || self.path.purpose != Purpose::Generate => None,
            None => {
                self.break_off(pieces).await;
                Some(failure::cut(name, "it ended before the model had"))
            }
        };
        let bill = if told.tokens.is_some() && failure.is_none() { Bill::Told } else { Bill::Begun };
        End { told, failure, bill, bytes }
    }

    /// The caller is to see that this is not the end, if it looks.
    async fn break_off(&self, pieces: &mpsc::Sender<io::Result<Frame<Bytes>>>) {
        let gone = || io::Error::new(io::ErrorKind::ConnectionAborted, "the answer broke off");
        tokio::select! {
            biased;
            sent = pieces.send(Err(gone())) => drop(sent),
            () = self.account.over.cancelled() => {}
        }
    }

    /// Passes on what a provider says that does not answer, without the key.
    async fn pass_error(&self, mut response: reqwest::Response, caller: oneshot::Sender<Response<Body>>) -> End {
        let (status, headers) = (response.status(), passed(response.headers()));
        let mut said = Vec::new();
        let reading = async {
            while said.len() < ERROR_BYTES
                && let Ok(Some(piece)) = response.chunk().await
            {
                said.extend_from_slice(&piece);
            }
        };
        tokio::select! {
            () = self.account.over.cancelled() => {}
            // What has come by then is enough.
            _ = timeout(ERROR_TIME, reading) => {}
        }
        said.truncate(ERROR_BYTES);
        let said = String::from_utf8_lossy(&said).into_owned();
        let said = match &self.key {
            Some(SecretValue(key)) if !key.trim().is_empty() => said.replace(key.trim(), "[key]"),
            _ => said,
        };
        let failure = failure::answered(self.account.given.model.as_str(), status, &said);
        let answer = match status.as_u16() {
            // Providers show parts of the key there.
            401 | 403 => self.refusal(status, &failure.reason.text),
            300..=399 => self.refusal(StatusCode::BAD_GATEWAY, &failure.reason.text),
            _ => {
                let mut answer = Response::new(whole(said));
                *answer.status_mut() = status;
                *answer.headers_mut() = headers;
                answer
            }
        };
        drop(caller.send(answer));
        End::failed(failure)
    }

    fn refusal(&self, status: StatusCode, text: &str) -> Response<Body> {
        refused(self.account.provider.dialect, status, text)
    }
}

/// An error of ours, in the form of the dialect.
pub(crate) fn refused(dialect: journeyman_core::model::Dialect, status: StatusCode, text: &str) -> Response<Body> {
    let mut answer = Response::new(whole(refusal::body(dialect, status, text).to_string()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

fn whole(text: String) -> Body {
    Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync()
}

fn passed(given: &HeaderMap) -> HeaderMap {
    PASSED.into_iter().filter_map(|name| Some((name.clone(), given.get(name)?.clone()))).collect()
}

fn code_name(code: ReasonCode) -> String {
    // The codes are unit variants: their JSON is a string.
    serde_json::to_value(code).ok().and_then(|code| code.as_str().map(str::to_owned)).unwrap_or_default()
}
