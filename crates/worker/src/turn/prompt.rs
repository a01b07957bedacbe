//! A message to an agent's session, until the agent has answered it, or it is cancelled or timed out.

use std::time::{Duration, Instant};

use journeyman_core::agent::AgentSpec;
use journeyman_core::job::turn::Ending;
use journeyman_core::message::Message;
use journeyman_core::run::{Reason, ReasonCode, Usage};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::acp::{AcpError, AgentInfo, Connection, Image, OpenSession, Opened, SessionRequest, Stop, TurnEnd};
use crate::error::RunError;
use crate::sandbox::outbound::{OutboundEvent, OutboundLog};
use crate::turn::context::TurnContext;
use crate::turn::launch::Launch;
use crate::turn::result::Turn;
use crate::turn::{failure, models};

/// Opens the session if it is not open, and prompts the agent. Returns the turn, and the usage that the agent reports.
pub(super) async fn prompt(
    context: &TurnContext<'_>,
    (spec, launch): (&AgentSpec, &Launch),
    (connection, log): (&Connection, &OutboundLog),
    open: &mut Option<String>,
) -> Result<(Turn, Usage), RunError> {
    let (session, opened) = match open.clone() {
        Some(session) => (session, Opened::Resumed),
        None => {
            let request = SessionRequest {
                cwd: context.sandbox.layout().workspace,
                previous: if spec.resume { previous(context).await } else { None },
                // If the project refuses something, the agent must ask.
                mode: if launch.policy.refuses() { spec.ask_mode.clone() } else { spec.mode.clone() },
                mode_is_required: launch.policy.refuses(),
                auth_method: spec.auth_method.clone(),
                model: spec.select_model.then(|| models::name(context.job(), launch.route.as_ref())),
                effort: models::effort(context.job(), spec).filter(|_| !spec.takes_effort()),
            };
            let begun = Instant::now();
            let session =
                connection.open(&request).await.map_err(|error| failure::not_started(error, "its session was open"))?;
            log.add(OutboundEvent::Session(about(connection, &session, begun.elapsed())));
            context.sandbox.workspace.note_session(&session.id).await?;
            *open = Some(session.id.clone());
            (session.id, session.opened)
        }
    };
    let message = &with_note(&context.assignment.claimed.message.prompt, context.note);
    // A prompt that continues the turn does not repeat the message.
    let has_message = context.more.is_none() || opened == Opened::New;
    let images = if has_message { context.images } else { &[] };
    let text = match (opened, context.more) {
        (Opened::New, None) => with_history(&context.earlier().await?, message),
        (Opened::New, Some(more)) => format!("{}\n\n{more}", with_history(&context.earlier().await?, message)),
        (Opened::Resumed | Opened::Loaded, more) => more.unwrap_or(message.as_str()).to_owned(),
    };
    let cancel = CancellationToken::new();
    let limits = &context.assignment.project.settings.limits;
    let seconds = limits.run_seconds.unwrap_or(journeyman_core::project::DEFAULT_RUN_SECONDS);
    let watch = async {
        tokio::select! {
            () = context.signals().stop.cancelled() => Ended::Interrupted,
            () = context.signals().shutdown.cancelled() => Ended::Shutdown,
            () = tokio::time::sleep(Duration::from_secs(u64::from(seconds))) => Ended::TimedOut,
        }
    };
    let mut used = Usage::default();
    let (answer, ended) = {
        let turns = Turns { connection, log, session: &session, cancel: &cancel };
        let asked = turns.until_done((text, images), limits.continuations(), &mut used);
        tokio::pin!(asked);
        tokio::select! {
            answer = &mut asked => (answer, None),
            ended = watch => {
                cancel.cancel();
                (asked.await, Some(ended))
            }
        }
    };
    match ended {
        Some(Ended::Interrupted) => Ok((Turn { session, ending: Ending::Stopped, answer: None }, used)),
        Some(Ended::Shutdown) => Err(RunError::HandedBack),
        Some(Ended::TimedOut) => {
            let text = format!("the run took longer than {seconds} seconds; raise limits.runSeconds of the project");
            Err(RunError::failed(ReasonCode::TimedOut, text))
        }
        None => {
            let ending = match answer.map_err(failure::of_turn)? {
                TurnEnd { refused: Some(what), .. } => Ending::CutShort(permission_refused(&what)),
                TurnEnd { stop: Stop::Refusal, .. } => {
                    let text = "the model refused to continue with this message";
                    return Err(RunError::failed(ReasonCode::AgentRefused, text));
                }
                TurnEnd { stop: Stop::EndTurn, .. } => Ending::Done,
                TurnEnd { stop, .. } => Ending::CutShort(cut_short(&stop, limits.continuations())),
            };
            Ok((Turn { session, ending, answer: None }, used))
        }
    }
}

/// The maximum length of each earlier answer in the history for a new session, in characters.
const EARLIER_ANSWER_CHARS: usize = 4_000;

/// The prompt for an agent whose turn was cut short.
const CONTINUE: &str = "Your last turn ended before you were done. Continue where you stopped, and finish the task. If \
                        everything is done already, say so.";

/// The turns that carry out one message.
struct Turns<'a> {
    connection: &'a Connection,
    log: &'a OutboundLog,
    session: &'a str,
    cancel: &'a CancellationToken,
}

impl Turns<'_> {
    /// Prompts the agent, and again while a turn is cut short, at most `continuations` times. Returns how the last turn
    /// ended, and adds the usage that the agent reports to `used`. A turn that ended because a permission was refused
    /// is not continued: it would be refused again.
    async fn until_done(
        &self,
        (text, images): (String, &[Image]),
        continuations: u32,
        used: &mut Usage,
    ) -> Result<TurnEnd, AcpError> {
        let (mut text, mut images) = (text, images);
        let mut number = 0;
        loop {
            let end = self.connection.prompt(self.session, (&text, images), self.cancel).await?;
            *used = used.and(&usage(&end));
            let is_over = matches!(end.stop, Stop::EndTurn | Stop::Refusal) || end.refused.is_some();
            if is_over || number == continuations || self.cancel.is_cancelled() {
                return Ok(end);
            }
            number += 1;
            let data = json!({ "cause": end.stop.name(), "continuation": number, "most": continuations });
            self.log.add(OutboundEvent::Continued(data));
            CONTINUE.clone_into(&mut text);
            images = &[];
        }
    }
}

/// Returns the reason for a turn that was cut short, and what to do about it.
fn cut_short(stop: &Stop, continuations: u32) -> Reason {
    let cause = match stop {
        Stop::MaxTokens => "the model reached its limit of output tokens (max_tokens)".to_owned(),
        Stop::MaxTurnRequests => {
            "the agent reached its limit of model calls in one turn (max_turn_requests)".to_owned()
        }
        Stop::Cancelled => "the agent cancelled its turn by itself (cancelled)".to_owned(),
        Stop::Unknown(name) if name.is_empty() => "the agent gave no stop reason".to_owned(),
        Stop::Unknown(name) => format!("the agent stopped for an unknown reason ({name})"),
        Stop::EndTurn | Stop::Refusal => "the turn ended early".to_owned(),
    };
    let text = format!(
        "the turn was cut short: {cause}. It was continued {continuations} times (limits.continuations). The work so far is \
         kept; send a message to continue it"
    );
    Reason::new(ReasonCode::TurnCutShort, text)
}

/// Returns the reason for a turn that ended because the project's policy refused a permission.
fn permission_refused(what: &str) -> Reason {
    let text = format!(
        "the agent stopped because the project refused permission for this call: {what}. The work so far is kept. \
         Change sandbox.permissions or sandbox.permissionKinds of the project, or send a message that does not need \
         this call"
    );
    Reason::new(ReasonCode::PermissionRefused, text)
}

/// Returns the log entry of an opened session: the agent, whether the session was resumed, and which wanted settings the
/// agent does not have.
fn about(connection: &Connection, session: &OpenSession, took: Duration) -> Value {
    let AgentInfo { who, resumes, loads } = connection.about();
    let how = match session.opened {
        Opened::Resumed => "resumed",
        Opened::Loaded => "loaded",
        Opened::New => "new",
    };
    let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    let mut about = json!({ "agent": who, "opened": how, "resumes": resumes, "loads": loads, "millis": millis });
    if !session.not_set.is_empty() {
        about["notSet"] = json!(session.not_set);
    }
    about
}

async fn previous(context: &TurnContext<'_>) -> Option<String> {
    context.sandbox.workspace.session().await.or_else(|| context.job().session.clone())
}

enum Ended {
    Interrupted,
    Shutdown,
    TimedOut,
}

fn usage(end: &TurnEnd) -> Usage {
    end.usage.as_ref().map_or_else(Usage::default, |usage| Usage {
        input_tokens: usage.input,
        output_tokens: usage.output,
        cached_tokens: usage.cached.unwrap_or(0),
        cost_micros: None,
        estimated_micros: 0,
    })
}

/// Appends a text as a quotation, so that neither a model nor the test model takes it for the current request.
fn quote(text: &mut String, quoted: &str) {
    for line in quoted.lines() {
        text.push_str("> ");
        text.push_str(line);
        text.push('\n');
    }
}

/// Returns the text of a message, with the note of the service below it.
fn with_note(prompt: &str, note: Option<&str>) -> String {
    note.map_or_else(|| prompt.to_owned(), |note| format!("{prompt}\n\n{note}"))
}

/// Returns the prompt for a session that could not be resumed: the earlier messages and answers, then the prompt.
fn with_history(earlier: &[Message], prompt: &str) -> String {
    if earlier.is_empty() {
        return prompt.to_owned();
    }
    let mut text =
        "You continue earlier work on this repository. These messages came before, oldest first:\n".to_owned();
    for message in earlier {
        text.push('\n');
        quote(&mut text, &message.prompt);
        if let Some(answer) = &message.answer {
            text.push_str("\nYour answer was:\n\n");
            let beginning: String = answer.chars().take(EARLIER_ANSWER_CHARS).collect();
            quote(&mut text, &beginning);
        }
    }
    text.push_str("\nTheir results are in the working tree. The message to carry out now:\n\n");
    text.push_str(prompt);
    text
}
