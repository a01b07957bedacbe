//! A call of a model: sets money aside, asks the provider, passes the answer on as it arrives, and settles the cost.
//!
//! Each call is a separate task: a caller that disconnects cancels the call, but the call is still counted.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::stream::unfold;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use journeyman_core::model::price::{Maximum, ModelPrices, Tokens};
use journeyman_core::ports::{ModelCall, ModelFailure};
use journeyman_core::run::ReasonCode;
use journeyman_core::secret::SecretValue;
use journeyman_net::{Error as NetError, root_cause};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::timeout;
use tracing::Span;
use tracing::field::Empty;
use url::Url;

use super::account::{Account, Asked, Counting, RENEWAL};
use super::cost::Pricing;
use super::fields::FieldGroup;
use super::path::{Path, Purpose, Shape};
use super::request::Prepared;
use super::usage::{Reader, Reported};
use super::{Models, failure, refusal};

/// The maximum size of a provider's error that is passed on, in bytes.
const ERROR_BYTES: usize = 64 << 10;

/// The time limit for reading a provider's error.
const ERROR_TIME: Duration = Duration::from_secs(10);

/// The output limit in tokens that is assumed for a call without one. If there is a budget and the provider has no
/// `max_output`, the call is sent with this limit.
pub(crate) const USUAL_OUTPUT: u64 = 32_000;

/// The minimum size of a token of a body in bytes, by which money is set aside. Texts have about four bytes for each
/// token.
const BYTES_OF_TOKEN: u64 = 2;

/// The beginnings of the header fields by which providers say how many more calls they accept, for agents that pace
/// themselves.
const RATE_LIMITS: [&str; 3] = ["anthropic-ratelimit-", "x-ratelimit-", "ratelimit"];

/// The header fields of an answer that callers see, in addition to the rate limits.
const PASSED: [HeaderName; 6] = [
    CONTENT_TYPE,
    http::header::RETRY_AFTER,
    HeaderName::from_static("retry-after-ms"),
    HeaderName::from_static("request-id"),
    HeaderName::from_static("x-request-id"),
    HeaderName::from_static("x-should-retry"),
];

/// The body of an answer to a caller.
pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// A call that was admitted.
pub(crate) struct AdmittedCall {
    pub(crate) models: Arc<Models>,
    pub(crate) account: Arc<Account>,
    pub(crate) path: Path,
    /// The checked body; `None` for a call without one.
    pub(crate) prepared: Option<Prepared>,
    /// The header fields for the provider, including the key.
    pub(crate) headers: HeaderMap,
    pub(crate) parameters: Vec<(String, String)>,
    pub(crate) key: Option<SecretValue>,
    /// The permits for the call and for the memory of its body, which are released when the call ends.
    pub(crate) _held: (Option<OwnedSemaphorePermit>, Option<OwnedSemaphorePermit>),
}

/// The result of a call.
struct End {
    reported: Reported,
    failure: Option<ModelFailure>,
    /// The amount that the provider will charge for the call.
    bill: Bill,
}

/// The amount that a provider will charge for a call.
enum Bill {
    /// Nothing, because the provider did not answer the call.
    Nothing,
    /// The cost of the tokens that the provider reported.
    Reported,
    /// The cost of what the provider reported and of what arrived, because the answer was interrupted. Tokens that were not
    /// reported are estimated.
    Interrupted,
}

/// What a call has used.
struct Counted {
    tokens: Tokens,
    /// The cost, if the prices are known.
    cost: Option<u64>,
    is_estimated: bool,
}

impl End {
    fn failed(failure: ModelFailure) -> Self {
        Self { reported: Reported::default(), failure: Some(failure), bill: Bill::Nothing }
    }

    /// The end of a call of which nothing arrived, although the provider may have begun to answer.
    fn interrupted(failure: Option<ModelFailure>) -> Self {
        Self { failure, bill: Bill::Interrupted, reported: Reported::default() }
    }
}

impl AdmittedCall {
    /// Returns the span of the call, with the attributes of OpenTelemetry's conventions for generative AI
    /// (<https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/>). It belongs to the turn, although the proxy
    /// may live longer than one turn.
    pub(crate) fn span(&self) -> Span {
        let model = self.prepared.as_ref().map_or(self.account.name.as_str(), |prepared| &prepared.model);
        tracing::debug_span!(
            parent: &self.account.turn,
            "model_call",
            otel.name = format_args!("chat {model}"),
            otel.kind = "client",
            gen_ai.operation.name = "chat",
            gen_ai.provider.name = self.account.prefix,
            gen_ai.request.model = model,
            gen_ai.usage.input_tokens = Empty,
            gen_ai.usage.output_tokens = Empty,
            error.type = Empty
        )
    }

    /// Makes the call, and answers the caller as soon as the provider begins to answer.
    pub(crate) async fn make(self, mut caller: oneshot::Sender<Response<Body>>) {
        let (models, account) = (Arc::clone(&self.models), Arc::clone(&self.account));
        let Some(prepared) = self.prepared.as_ref().filter(|_| self.path.purpose == Purpose::Generate) else {
            self.ask(caller).await;
            return;
        };
        if account.closed.is_cancelled() {
            return;
        }
        let begun = Instant::now();
        let asked = self.asked(prepared);
        let reserved = match account.reserve(&models, &prepared.model, asked, caller.closed()).await {
            Ok(Some(reserved)) => reserved,
            Ok(None) => return,
            Err(failure) => {
                account.log(ModelCall::Denied { reason: failure.reason.text.clone() });
                let status = match failure.reason.code {
                    ReasonCode::OverBudget => StatusCode::PAYMENT_REQUIRED,
                    _ => StatusCode::SERVICE_UNAVAILABLE,
                };
                let answer = self.refusal(status, &failure.reason.text);
                account.fail(failure);
                // The caller may have disconnected.
                drop(caller.send(answer));
                return;
            }
        };
        let waited = begun.elapsed();
        let end = {
            let mut asking = std::pin::pin!(self.ask(caller));
            loop {
                tokio::select! {
                    end = &mut asking => break end,
                    () = tokio::time::sleep(RENEWAL) => account.renew(&models, &reserved).await,
                }
            }
        };
        if matches!(end.bill, Bill::Nothing) && end.failure.is_none() {
            // The provider was never asked.
            account.settle(&models, reserved, None).await;
            return;
        }
        let counted = self.counted(prepared, &end, asked.most);
        let cost = counted.cost;
        self.count(prepared, &end, counted, (waited, begun.elapsed().saturating_sub(waited)));
        account.settle(&models, reserved, cost).await;
    }

    /// Returns the most that a call can cost, and an estimate.
    fn asked(&self, prepared: &Prepared) -> Asked {
        let input = (prepared.body.len() as u64).div_ceil(BYTES_OF_TOKEN).saturating_add(prepared.attached);
        let output = prepared.most_output.unwrap_or(USUAL_OUTPUT).saturating_mul(prepared.answers);
        let long_caches = self.account.provider.groups.contains(&FieldGroup::LongCaches);
        let tier = prepared.tier.name();
        let maximum = Maximum { input, output, tier: tier.as_deref(), long_caches };
        // Each of the models may be paid for.
        let all = prepared.fallbacks.iter().chain([&prepared.model]);
        let most = all.map(|model| self.prices(model)?.at_most(maximum));
        let most = most.reduce(|sum, more| Some(sum?.saturating_add(more?))).flatten();
        let input = self.account.corrected(&prepared.model, prepared.estimate);
        let tokens = Tokens { input, ..Tokens::default() };
        let estimate = self.prices(&prepared.model).and_then(|prices| prices.of(&tokens, tier.as_deref()));
        Asked { most, estimate }
    }

    fn prices(&self, model: &str) -> Option<ModelPrices> {
        self.models.prices(&self.account.prefix, model)
    }

    /// Returns the tokens and the cost of a call that has ended.
    fn counted(&self, prepared: &Prepared, end: &End, most: Option<u64>) -> Counted {
        let Reported { tokens: reported, parts, arrived, .. } = &end.reported;
        let pricing = Pricing {
            reported: &end.reported,
            model: &prepared.model,
            fallbacks: &prepared.fallbacks,
            tier: end.reported.tier.clone().or(&prepared.tier).name(),
            prices: |model: &str| self.prices(model),
        };
        let whole = |tokens: &Tokens| pricing.of(tokens);
        match (&end.bill, reported) {
            (Bill::Nothing, _) => {
                Counted { tokens: Tokens::default(), cost: whole(&Tokens::default()), is_estimated: false }
            }
            (Bill::Reported, Some(tokens)) => {
                if parts.is_empty() {
                    self.account.measure(&prepared.model, tokens.input, prepared.estimate);
                }
                Counted { tokens: *tokens, cost: pricing.of_reported(tokens), is_estimated: false }
            }
            (_, reported) => {
                let arrived = arrived.tokens();
                let tokens = match reported {
                    // Gemini reports the output with each piece.
                    Some(tokens) if self.path.shape == Shape::Contents && tokens.output > 0 => *tokens,
                    Some(tokens) => Tokens { output: tokens.output.max(arrived), ..*tokens },
                    None => {
                        let input = self.account.corrected(&prepared.model, prepared.estimate);
                        Tokens { input, output: arrived, ..Tokens::default() }
                    }
                };
                let cost = whole(&tokens).map(|cost| most.map_or(cost, |most| cost.min(most)));
                Counted { tokens, cost, is_estimated: true }
            }
        }
    }

    fn count(&self, prepared: &Prepared, end: &End, counted: Counted, (waited, took): (Duration, Duration)) {
        let Self { account, models, .. } = self;
        let Counted { tokens, cost, is_estimated } = counted;
        let failure = end.failure.as_ref();
        let is_whole = matches!(end.bill, Bill::Reported);
        let counting = Counting { is_estimated, is_whole, has_tools: prepared.has_tools };
        account.count(&tokens, cost, failure, counting);
        let outcome = failure.map_or_else(|| "ok".to_owned(), |failure| code_name(failure.reason.code));
        let span = Span::current();
        if failure.is_some() {
            span.record("error.type", outcome.as_str());
        }
        span.record("gen_ai.usage.input_tokens", tokens.input).record("gen_ai.usage.output_tokens", tokens.output);
        models.totals.add(&account.prefix, outcome, &tokens, cost);
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        account.log(ModelCall::Made {
            model: account.whole_name(&prepared.model),
            tokens,
            cost_micros: cost,
            is_estimated,
            waited_millis: millis(waited),
            millis: millis(took),
            failure: failure.map(|failure| failure.reason.text.clone()),
        });
    }

    /// Sends the call to the provider, and passes the answer on.
    async fn ask(&self, mut caller: oneshot::Sender<Response<Body>>) -> End {
        let Self { models, account, .. } = self;
        if account.closed.is_cancelled() || caller.is_closed() {
            return End { bill: Bill::Nothing, ..End::interrupted(None) };
        }
        let name = account.given.model.as_str();
        let url = account.provider.url(&self.path.rest, &self.parameters);
        let request = match self.request(&url) {
            Ok(request) => request,
            Err(error) => return self.unreachable(caller, &NetError::Malformed(error.to_string())),
        };
        let silence = models.silence();
        let answered = tokio::select! {
            biased;
            () = account.closed.cancelled() => return End::interrupted(None),
            () = caller.closed() => return End::interrupted(None),
            answered = timeout(silence, models.client.start(request)) => answered,
        };
        let response = match answered {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return self.unreachable(caller, &error),
            Err(_) => {
                let failure = failure::silent(name, silence);
                drop(caller.send(self.refusal(StatusCode::GATEWAY_TIMEOUT, &failure.reason.text)));
                return End::interrupted(Some(failure));
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
            return End::interrupted(None);
        }
        self.pass_on(response, reader, &pieces).await
    }

    /// Returns the request to the provider.
    fn request(&self, url: &Url) -> Result<http::Request<Bytes>, http::Error> {
        let (method, body) = match &self.prepared {
            Some(prepared) => (Method::POST, prepared.body.clone()),
            None => (Method::GET, Bytes::new()),
        };
        let mut request = http::Request::builder().method(method).uri(url.as_str()).body(body)?;
        request.headers_mut().extend(self.headers.clone());
        if self.prepared.is_some() {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        Ok(request)
    }

    /// Answers the caller of a call that did not reach the provider.
    fn unreachable(&self, caller: oneshot::Sender<Response<Body>>, error: &NetError) -> End {
        let failure = failure::unreachable(&self.account.given.model, error);
        drop(caller.send(self.refusal(StatusCode::BAD_GATEWAY, &failure.reason.text)));
        End::failed(failure)
    }

    /// Passes on each piece of an answer as it arrives. The next piece is read when the channel to the caller has
    /// capacity.
    async fn pass_on(
        &self,
        mut response: reqwest::Response,
        mut reader: Reader,
        pieces: &mpsc::Sender<io::Result<Frame<Bytes>>>,
    ) -> End {
        let (name, silence) = (self.account.given.model.as_str(), self.models.silence());
        let failure = loop {
            let piece = tokio::select! {
                biased;
                () = self.account.closed.cancelled() => break None,
                () = pieces.closed() => break None,
                piece = timeout(silence, response.chunk()) => piece,
            };
            let piece = match piece {
                Ok(Ok(Some(piece))) => piece,
                Ok(Ok(None)) => {
                    let reported = reader.end();
                    return self.ended(reported, pieces).await;
                }
                Ok(Err(error)) => break Some(failure::cut(name, &root_cause(&error))),
                Err(_) => break Some(failure::silent(name, silence)),
            };
            reader.read(&piece);
            let sent = tokio::select! {
                () = self.account.closed.cancelled() => break None,
                sent = pieces.send(Ok(Frame::data(piece))) => sent,
            };
            if sent.is_err() {
                break None;
            }
        };
        self.break_off(pieces).await;
        let reported = reader.end();
        // The usage of a complete answer is known, even if the connection was lost after its end.
        let bill = if reported.complete && reported.tokens.is_some() { Bill::Reported } else { Bill::Interrupted };
        let failure = failure.filter(|_| !reported.complete);
        End { reported, failure, bill }
    }

    /// Returns the result of an answer that the provider has ended. The model may not have finished it.
    async fn ended(&self, reported: Reported, pieces: &mpsc::Sender<io::Result<Frame<Bytes>>>) -> End {
        let name = self.account.given.model.as_str();
        let failure = match &reported.error {
            Some(error) => Some(failure::in_answer(name, error)),
            None if reported.complete || self.path.purpose != Purpose::Generate => None,
            None => {
                self.break_off(pieces).await;
                Some(failure::cut(name, "it ended before the model had finished"))
            }
        };
        let bill = if reported.tokens.is_some() && failure.is_none() { Bill::Reported } else { Bill::Interrupted };
        End { reported, failure, bill }
    }

    /// Aborts the answer, so that the caller can see that it is incomplete.
    async fn break_off(&self, pieces: &mpsc::Sender<io::Result<Frame<Bytes>>>) {
        let aborted = || io::Error::new(io::ErrorKind::ConnectionAborted, "the answer broke off");
        tokio::select! {
            biased;
            sent = pieces.send(Err(aborted())) => drop(sent),
            () = self.account.closed.cancelled() => {}
        }
    }

    /// Passes a provider's error on to the caller, without the key.
    async fn pass_error(&self, mut response: reqwest::Response, caller: oneshot::Sender<Response<Body>>) -> End {
        let (status, headers) = (response.status(), passed(response.headers()));
        let (mut text, mut is_whole) = (Vec::new(), false);
        let reading = async {
            while text.len() < ERROR_BYTES {
                match response.chunk().await {
                    Ok(Some(piece)) => text.extend_from_slice(&piece),
                    Ok(None) => {
                        is_whole = true;
                        break;
                    }
                    Err(_) => break,
                }
            }
        };
        tokio::select! {
            () = self.account.closed.cancelled() => {}
            // The part that arrived in time is enough.
            _ = timeout(ERROR_TIME, reading) => {}
        }
        let text = without_key(&text, self.key.as_ref().map(|SecretValue(key)| key.as_str()), is_whole);
        let failure = failure::answered(self.account.given.model.as_str(), status, &text);
        let answer = match status.as_u16() {
            // Providers include parts of the key in these responses.
            401 | 403 => self.refusal(status, &failure.reason.text),
            300..=399 => self.refusal(StatusCode::BAD_GATEWAY, &failure.reason.text),
            _ => {
                let mut answer = Response::new(whole(text));
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

/// Returns an error of this proxy, in the form of the dialect.
pub(crate) fn refused(dialect: journeyman_core::model::Dialect, status: StatusCode, text: &str) -> Response<Body> {
    let mut answer = Response::new(whole(refusal::body(dialect, status, text).to_string()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

/// Returns a provider's error without the key, cut to [`ERROR_BYTES`]. If the rest of the error is missing, its end may
/// be the beginning of the key, which is removed too.
fn without_key(error: &[u8], key: Option<&str>, is_whole: bool) -> String {
    let mut text = String::from_utf8_lossy(error).into_owned();
    if let Some(key) = key.map(str::trim).filter(|key| !key.is_empty()) {
        text = text.replace(key, "[key]");
        let mut beginnings = (1..key.len()).rev().filter_map(|bytes| key.get(..bytes));
        if !is_whole && let Some(part) = beginnings.find(|part| text.ends_with(*part)) {
            text.truncate(text.len() - part.len());
        }
    }
    text.truncate(text.floor_char_boundary(ERROR_BYTES));
    text
}

fn whole(text: String) -> Body {
    Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync()
}

fn passed(given: &HeaderMap) -> HeaderMap {
    let is_passed =
        |name: &HeaderName| PASSED.contains(name) || RATE_LIMITS.iter().any(|start| name.as_str().starts_with(start));
    let passed = given.iter().filter(|(name, _)| is_passed(name));
    passed.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn code_name(code: ReasonCode) -> String {
    // The codes are unit variants: their JSON is a string.
    serde_json::to_value(code).ok().and_then(|code| code.as_str().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_contains_no_part_of_the_key_where_it_is_cut() {
        let key = "sk-0123456789";
        assert_eq!(without_key(b"wrong key sk-0123456789!", Some(key), true), "wrong key [key]!");
        for (end, is_whole, expected) in [
            ("sk-01234", false, "wrong key "),
            ("sk-01234", true, "wrong key sk-01234"),
            (key, false, "wrong key [key]"),
        ] {
            assert_eq!(without_key(format!("wrong key {end}").as_bytes(), Some(key), is_whole), expected);
        }
        // The key starts before the limit and ends after it.
        let before = "x".repeat(ERROR_BYTES - 5);
        let cut = without_key(format!("{before}{key} and more").as_bytes(), Some(key), false);
        assert_eq!(cut, before + "[key]");
        let long = without_key("ä".repeat(ERROR_BYTES).as_bytes(), None, false);
        assert_eq!(long.len(), ERROR_BYTES);
    }
}
