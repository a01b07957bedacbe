//! Calls the model for one streamed answer, and retries failures that may pass.
//!
//! Invariants: a cancellation ends the call at once, even between two attempts; the texts of failures are redacted.

use std::time::Duration;

use futures::StreamExt;
use genai::chat::{ChatOptions, ChatRequest, ChatStreamEvent};
use genai::{Client, ServiceTarget};
use journeyman_core::model::{Dialect, Effort};
use tokio_util::sync::CancellationToken;

use super::address;
use super::answer::Answer;
use super::failure::Failure;
use super::retry;
use crate::model::{ModelError, Target};
use crate::report::Reporter;

/// The time limit for connecting to the server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest silence of the server before and during an answer. Local models may take minutes to load and to read
/// the prompt.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(600);

/// The outcome of a call.
pub(crate) enum Reply {
    /// The model answered.
    Answer(Answer),
    /// The call was cancelled.
    Cancelled {
        /// The text of the last attempt, which the client has already seen.
        partial: String,
    },
}

/// A client for one model.
pub(crate) struct Caller {
    client: Client,
    target: Target,
    service: ServiceTarget,
    options: ChatOptions,
}

impl Caller {
    /// Builds the HTTP client and the options of the calls. Without an effort, the model uses its default.
    pub(crate) fn new(target: Target, effort: Option<Effort>) -> Result<Self, ModelError> {
        let mut web = reqwest::Client::builder().connect_timeout(CONNECT_TIMEOUT);
        if !target.has_tls() {
            // A connection without TLS needs no certificates, and the machine may have none.
            web = web.tls_certs_only([]);
        }
        let web = web.build().map_err(|error| ModelError::Client(format!("{error:?}")))?;
        let client = Client::builder().with_reqwest(web).build();
        let client = client.map_err(|error| ModelError::Client(error.to_string()))?;
        let (service, options) = address::address(&target, options(&target), effort);
        Ok(Self { client, target, service, options })
    }

    /// Returns the wire format that the model's server speaks.
    pub(crate) fn dialect(&self) -> Dialect {
        self.target.dialect
    }

    /// Returns a message for the user if the model needs a key and has none.
    pub(crate) fn missing_key(&self) -> Option<String> {
        self.target.missing_key()
    }

    /// Calls the model. With a reporter, the client sees the answer as it arrives.
    pub(crate) async fn call(
        &self,
        request: ChatRequest,
        reporter: Option<&Reporter>,
        cancel: &CancellationToken,
    ) -> Result<Reply, Failure> {
        let mut attempt = 1;
        loop {
            let mut partial = String::new();
            let trying = self.attempt(request.clone(), reporter, &mut partial);
            let failure = match cancel.run_until_cancelled(trying).await {
                None => return Ok(Reply::Cancelled { partial }),
                Some(Ok(answer)) => return Ok(Reply::Answer(answer)),
                Some(Err(failure)) => self.redacted(failure),
            };
            if !failure.transient {
                return Err(failure);
            }
            if attempt >= retry::MAX_ATTEMPTS {
                let text = format!("{} (after {attempt} attempts)", failure.text);
                return Err(Failure { text, ..failure });
            }
            let wait = retry::wait(attempt, failure.retry_after);
            tracing::warn!(attempt, wait_s = wait.as_secs(), reason = %failure.text, "the model call failed; retrying");
            report_retry(reporter, &failure, wait, !partial.is_empty());
            if cancel.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
                return Ok(Reply::Cancelled { partial });
            }
            attempt += 1;
        }
    }

    /// Makes one attempt; appends the text to `partial` as it arrives.
    async fn attempt(
        &self,
        request: ChatRequest,
        reporter: Option<&Reporter>,
        partial: &mut String,
    ) -> Result<Answer, Failure> {
        let response = self
            .client
            .exec_chat_stream(self.service.clone(), request, Some(&self.options))
            .await
            .map_err(|error| Failure::of(&error))?;
        let mut events = response.stream;
        while let Some(event) = events.next().await {
            match event.map_err(|error| Failure::of(&error))? {
                ChatStreamEvent::Chunk(chunk) => {
                    partial.push_str(&chunk.content);
                    if let Some(reporter) = reporter {
                        reporter.message(&chunk.content);
                    }
                }
                ChatStreamEvent::ReasoningChunk(chunk) => {
                    if let Some(reporter) = reporter {
                        reporter.thought(&chunk.content);
                    }
                }
                // Tool calls are taken from the end event, where their arguments are complete.
                ChatStreamEvent::Start
                | ChatStreamEvent::ThoughtSignatureChunk(_)
                | ChatStreamEvent::ToolCallChunk(_)
                | ChatStreamEvent::Heartbeat => {}
                ChatStreamEvent::End(end) => {
                    return Answer::from_stream_end(end, self.target.dialect).ok_or_else(Failure::ended_early);
                }
            }
        }
        Err(Failure::ended_early())
    }

    fn redacted(&self, failure: Failure) -> Failure {
        let text = address::with_real_name(&self.target, &failure.text);
        Failure { text: self.target.redact(&text), ..failure }
    }
}

fn report_retry(reporter: Option<&Reporter>, failure: &Failure, wait: Duration, answer_had_begun: bool) {
    let Some(reporter) = reporter else {
        return;
    };
    if answer_had_begun {
        reporter.message("\n\n[The connection was lost here; the answer begins again.]\n\n");
    }
    let seconds = wait.as_secs();
    reporter.thought(&format!("Retrying in {seconds} s: {}.\n", failure.text));
}

fn options(target: &Target) -> ChatOptions {
    let options = ChatOptions::default()
        .with_capture_usage(true)
        .with_capture_content(true)
        .with_capture_tool_calls(true)
        .with_capture_reasoning_content(may_ask_for_reasoning(target.dialect, &target.name))
        .with_stream_header_timeout(SILENCE_TIMEOUT)
        .with_stream_read_timeout(SILENCE_TIMEOUT);
    match target.dialect {
        // The adapter sends no key, because self-hosted servers usually need none; one behind a proxy may need it.
        Dialect::Ollama => match target.key() {
            Some(key) => options.with_extra_headers(("authorization", format!("Bearer {key}"))),
            None => options,
        },
        Dialect::Anthropic | Dialect::OpenAi | Dialect::OpenAiResponses | Dialect::Gemini | Dialect::Compatible => {
            options
        }
    }
}

/// Returns whether to capture the reasoning. In the responses dialect, capturing also requests a summary, which models
/// without reasoning refuse.
fn may_ask_for_reasoning(dialect: Dialect, name: &str) -> bool {
    match dialect {
        Dialect::OpenAiResponses => ["gpt-5", "gpt-6", "o1", "o3", "o4"].iter().any(|family| name.starts_with(family)),
        Dialect::Anthropic | Dialect::OpenAi | Dialect::Gemini | Dialect::Ollama | Dialect::Compatible => true,
    }
}
