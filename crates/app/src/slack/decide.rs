//! Carries out the events of Slack, in the order of each thread.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use journeyman_core::decision;
use journeyman_core::decision::slack::SlackCode;
use journeyman_core::engine::Control;
use journeyman_core::idempotency::Fingerprint;
use journeyman_core::inbox::InboxState;
use journeyman_core::job::decide::Rejected;
use journeyman_core::markdown::slack_line;
use journeyman_core::message::{DeliveryMode, Origin};
use journeyman_core::model::Effort;
use journeyman_core::ports::{AdminError, SlackEventFilter, StoreError, UpdateError};
use journeyman_core::refusal::ResourceKind;
use journeyman_core::retry::backoff;
use journeyman_core::slack::route::{self, Ask};
use journeyman_core::slack::status::{
    self, edited, files, help, only_people, published_code, refused, unknown_channel, unknown_stranger, unknown_user,
};
use journeyman_core::slack::text::mentions;
use journeyman_core::slack::{
    MAX_ATTEMPTS, NewSlackPost, SLACK_LEASE, SLACK_LIMIT, SlackAuthor, SlackContent, SlackDecision, SlackInboxEvent,
    SlackNext, SlackOutcome, SlackText, SlackThread, SlackWorkspace,
};
use journeyman_core::user::{TokenHash, User};

use super::outcome::{Delay, Outcome, done, failed, not_done};
use crate::inbox::Problem;
use crate::{Actor, Caller, Error, Idempotency, JobRequest, MessageRequest, UseCases};

/// The maximum number of events that a process carries out at the same time.
const BATCH: usize = 16;

/// The number of events of a thread among which another event of the same message is searched.
const SEARCHED: usize = 100;

/// The time for which a reply in an unknown thread waits for the event of the first message, which may arrive later.
const EARLY: Duration = Duration::from_secs(5);

/// The maximum interval between polls for events and posts that are due.
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// The polling interval while no workspace is connected.
const IDLE_WAIT: Duration = Duration::from_secs(2);

/// A message, with what is known about its thread.
struct Asked<'a> {
    workspace: &'a SlackWorkspace,
    event: &'a SlackInboxEvent,
    message: &'a SlackText,
    thread: Option<SlackThread>,
}

impl UseCases {
    /// Carries out events and posts of Slack until the future is dropped. Any number of processes may do so.
    pub async fn carry_out_slack(&self) {
        loop {
            let wait = match self.carry_out_due_slack().await {
                Ok(0) => self.slack_wait().await,
                Ok(_) => continue,
                Err(error) => {
                    tracing::warn!(%error, "the events of Slack could not be read");
                    IDLE_WAIT
                }
            };
            let _ = tokio::time::timeout(wait, self.0.slack_wake.notified()).await;
        }
    }

    async fn slack_wait(&self) -> Duration {
        match self.stored_workspaces().await {
            Ok(all) if all.is_empty() => IDLE_WAIT,
            _ => LONGEST_WAIT,
        }
    }

    /// Carries out the events and posts that are due, and returns their number. If it is positive, more may be due.
    ///
    /// # Errors
    /// The store failed. What was claimed is due again when the lease expires.
    pub async fn carry_out_due_slack(&self) -> Result<usize, StoreError> {
        let (store, now) = (&self.parts().store, self.parts().engine.now());
        let events = store.claim_slack_events(now, SLACK_LEASE, BATCH).await?;
        let ends = join_all(events.iter().map(|event| self.carry_out_slack_event(event))).await;
        ends.into_iter().collect::<Result<(), StoreError>>()?;
        let posts = store.claim_slack_posts(self.parts().engine.now(), SLACK_LEASE, BATCH).await?;
        let ends = join_all(posts.iter().map(|post| self.carry_out_slack_post(post))).await;
        ends.into_iter().collect::<Result<(), StoreError>>()?;
        Ok(events.len() + posts.len())
    }

    async fn carry_out_slack_event(&self, event: &SlackInboxEvent) -> Result<(), StoreError> {
        let decided = tokio::time::timeout(SLACK_LIMIT, self.outcome_of(event)).await;
        let timeout = || Err(Delay::Failed(Problem(format!("it did not finish within {} s", SLACK_LIMIT.as_secs()))));
        let now = self.parts().engine.now();
        let decision = match decided.unwrap_or_else(|_| timeout()) {
            Ok(Outcome { state, outcome, detail, job, thread, posts }) => {
                let to_post = |(purpose, content)| NewSlackPost { thread: event.thread.clone(), purpose, content };
                let posts = posts.into_iter().map(to_post).collect();
                SlackDecision { next: SlackNext::Ends(state, outcome, detail), job, thread, posts, at: now }
            }
            Err(delay) => {
                let next = self.delayed(event, delay);
                SlackDecision { next, job: None, thread: None, posts: Vec::new(), at: now }
            }
        };
        self.parts().store.decide_slack_event(event.number, event.attempts, decision).await?;
        Ok(())
    }

    fn delayed(&self, event: &SlackInboxEvent, delay: Delay) -> SlackNext {
        let now = self.parts().engine.now();
        match delay {
            Delay::Early => SlackNext::Retries(now + EARLY),
            Delay::Failed(problem) if event.attempts >= MAX_ATTEMPTS => {
                SlackNext::Ends(InboxState::Failed, SlackOutcome::GivenUp, Some(problem.0))
            }
            Delay::Failed(problem) => {
                tracing::warn!(event = event.number, attempt = event.attempts, error = %problem.0, "an event of Slack failed");
                SlackNext::Retries(now + backoff(event.attempts, self.permille()))
            }
        }
    }

    async fn outcome_of(&self, event: &SlackInboxEvent) -> Result<Outcome, Delay> {
        let Some(workspace) = self.stored_workspace(event.thread.workspace).await? else {
            return Ok(Outcome::ignored(SlackOutcome::NotAddressed).because("the workspace was disconnected"));
        };
        let message = match &event.content {
            SlackContent::Sent(message) => message,
            SlackContent::Edited(message) => return self.outcome_of_edit(&workspace, event, message).await,
            SlackContent::Deleted => return self.withdraw_deleted(&workspace, event).await,
        };
        if self.events_of_message(event).await?.iter().any(|other| other.state != InboxState::Received) {
            return Ok(
                Outcome::ignored(SlackOutcome::Duplicate).because("Slack sent the same message in another event")
            );
        }
        // Once the channel is no longer connected with the project of the thread, its people do not reach the job.
        let project = workspace.settings.channels.get(&event.thread.channel);
        let thread = self.parts().store.slack_thread(event.thread.clone()).await?;
        let thread = thread.filter(|thread| project == Some(&thread.project));
        let asked = Asked { workspace: &workspace, event, message, thread };
        self.outcome_of_message(&asked).await
    }

    /// Returns the outcome of an edit, which has no effect. It is told where the message has addressed the service.
    async fn outcome_of_edit(
        &self,
        workspace: &SlackWorkspace,
        event: &SlackInboxEvent,
        message: &SlackText,
    ) -> Result<Outcome, Delay> {
        let outcome = Outcome::ignored(SlackOutcome::TooLate);
        let outcome = outcome.because("edits of messages are not used; send another message");
        let was_used = self.events_of_message(event).await?.iter().any(|other| other.job.is_some());
        if !was_used && !mentions(&message.text, &workspace.settings.bot_user) {
            return Ok(outcome);
        }
        Ok(outcome.replying(format!("edited/{}", event.ts), edited()))
    }

    /// Returns the other events that carry the same message, without its edits.
    async fn events_of_message(&self, event: &SlackInboxEvent) -> Result<Vec<SlackInboxEvent>, StoreError> {
        let (workspace, thread) = (event.thread.workspace, Some(event.thread.clone()));
        let filter = SlackEventFilter { workspace, thread, before: None, limit: SEARCHED };
        let mut found = self.parts().store.slack_events(filter).await?;
        found.retain(|other| {
            let is_sent = matches!(other.content, SlackContent::Sent(_));
            other.number != event.number && other.ts == event.ts && is_sent
        });
        Ok(found)
    }

    async fn outcome_of_message(&self, asked: &Asked<'_>) -> Result<Outcome, Delay> {
        let Asked { workspace, event, message, thread } = asked;
        match message.author {
            SlackAuthor::Member | SlackAuthor::OtherWorkspace => {}
            SlackAuthor::Bot | SlackAuthor::Unknown => {
                let outcome = Outcome::ignored(SlackOutcome::NotPermitted);
                return Ok(outcome.because("a bot or a workflow has sent it").replying("bot", only_people()));
            }
            // The token of this workspace cannot write there.
            SlackAuthor::OtherInstallation => {
                let detail = "the app is also installed in another workspace, which is not connected; connect it at \
                              System → Slack, or set the bot token again if the app is installed for an organization";
                return Ok(Outcome::ignored(SlackOutcome::Refused).because(detail));
            }
        }
        let purpose = || format!("reply/{}", event.ts);
        match route::ask(message, &workspace.settings.bot_user, thread.is_some()) {
            Ask::Nothing if thread.is_none() && event.attempts <= 1 => Err(Delay::Early),
            Ask::Nothing => Ok(Outcome::ignored(SlackOutcome::NotAddressed)),
            Ask::Help if message.files > 0 => {
                let outcome = Outcome::ignored(SlackOutcome::Refused).because("files are not read");
                Ok(outcome.replying(format!("files/{}", event.ts), files(message.files)))
            }
            Ask::Help => Ok(Outcome::new(InboxState::Done, SlackOutcome::Answered).replying(purpose(), help())),
            Ask::Link(code) => self.link(asked, code).await,
            // The code was revoked when the event arrived.
            Ask::PublishedCode => {
                let text = published_code(&message.user, &self.parts().public_url);
                let outcome = Outcome::ignored(SlackOutcome::CodeRefused);
                let outcome = outcome.because("the code was sent in a channel, so it was revoked");
                Ok(outcome.replying(format!("link/{}", event.ts), text))
            }
            ask => {
                let Some(user) = self.slack_user(workspace, &message.user).await? else {
                    let text = match message.author {
                        SlackAuthor::OtherWorkspace => unknown_stranger(&message.user, &self.parts().public_url),
                        _ => unknown_user(&message.user, &self.parts().public_url),
                    };
                    let purpose = format!("unknown_user/{}", message.user);
                    return Ok(Outcome::ignored(SlackOutcome::UnknownUser).replying(purpose, text));
                };
                let caller = Caller {
                    actor: Actor::User(Arc::new(user)),
                    address: None,
                    origin: Origin::Slack,
                    traceparent: None,
                };
                let outcome = match (ask, thread) {
                    (Ask::Prompt(text), None) => self.create_from_slack(asked, &caller, &text).await,
                    (Ask::Prompt(text), Some(thread)) => self.send_from_slack(asked, &caller, thread, text).await,
                    (_, None) => {
                        let text = "There is no job in this thread.".to_owned();
                        Ok(Outcome::new(InboxState::Done, SlackOutcome::Answered).replying(purpose(), text))
                    }
                    (Ask::Stop, Some(thread)) => self.stop_from_slack(asked, &caller, thread).await,
                    (_, Some(thread)) => self.status_for_slack(asked, thread).await,
                };
                let is_sent = |outcome: &Outcome| outcome.state == InboxState::Done && outcome.job.is_some();
                Ok(match outcome? {
                    outcome if message.files > 0 && is_sent(&outcome) => {
                        outcome.replying(format!("files/{}", event.ts), files(message.files))
                    }
                    outcome => outcome,
                })
            }
        }
    }

    /// Returns the user of an account, unless the user was disabled.
    async fn slack_user(&self, workspace: &SlackWorkspace, account: &str) -> Result<Option<User>, StoreError> {
        let Some(id) = workspace.settings.users.get(account) else { return Ok(None) };
        Ok(self.parts().store.user(*id).await?.filter(|user| user.disabled_at.is_none()))
    }

    async fn link(&self, asked: &Asked<'_>, hash: TokenHash) -> Result<Outcome, Delay> {
        let (store, now, purpose) =
            (&self.parts().store, self.parts().engine.now(), format!("link/{}", asked.event.ts));
        let user = match store.slack_code(hash, now).await? {
            Some(id) => store.user(id).await?.filter(|user| user.disabled_at.is_none()),
            None => None,
        };
        let connected = |name: &str| {
            let text = format!("✅ Your account is connected with the user {}.", slack_line(name));
            Outcome::new(InboxState::Done, SlackOutcome::Linked).replying(purpose.clone(), text)
        };
        let code_refused = || {
            let text = "❌ This code is wrong, was used, or has expired. Get another one.".to_owned();
            Outcome::ignored(SlackOutcome::CodeRefused).replying(purpose.clone(), text)
        };
        let Some(user) = user else {
            // An attempt before this one may have used the code, and died before it was recorded.
            if asked.event.attempts > 1
                && let Some(user) = self.slack_user(asked.workspace, &asked.message.user).await?
            {
                return Ok(connected(&user.name));
            }
            return Ok(code_refused());
        };
        let id = &asked.workspace.id;
        let (account, owner, name) = (asked.message.user.clone(), user.id, user.name.clone());
        let caller = Caller { origin: Origin::Slack, ..Caller::user(Arc::new(user), None) };
        let audit = caller.audit(now, "slack_account.connected", format!("{id}/{account}"));
        let decide = move |state: &_| decision::slack::link(state, &account, owner, hash, audit.clone());
        match self.administer(SlackCode(*id, hash), None, decide).await {
            // Another account used the code meanwhile.
            Err(AdminError::Refused(refusal)) if refusal.resource == ResourceKind::SlackCode => Ok(code_refused()),
            done => done.map(|_| connected(&name)).map_err(Delay::from),
        }
    }

    async fn create_from_slack(&self, asked: &Asked<'_>, caller: &Caller, text: &str) -> Result<Outcome, Delay> {
        let id = &asked.event.thread;
        let Some(project) = asked.workspace.settings.channels.get(&id.channel) else {
            let text = unknown_channel(&id.channel);
            return Ok(Outcome::ignored(SlackOutcome::UnknownChannel).replying("unknown_channel", text));
        };
        let (options, prompt) = route::options(text);
        if options.project.as_ref().is_some_and(|other| other != project.as_str()) {
            let reason =
                format!("this channel is connected with the project {project}; use the channel of the other project");
            return Ok(not_done(asked.event, SlackOutcome::Refused, reason));
        }
        let effort = options.effort.as_deref().map(|name| Effort::from_name(name).ok_or(name)).transpose();
        let effort = match effort {
            Ok(effort) => effort,
            Err(name) => {
                let reason = format!("there is no effort {name:?}; it must be one of {}", Effort::names());
                return Ok(not_done(asked.event, SlackOutcome::Refused, reason));
            }
        };
        let request = JobRequest {
            prompt: prompt.to_owned(),
            reference: options.reference,
            branch: options.branch,
            model: options.model,
            effort,
            agent: options.agent,
            ..JobRequest::default()
        };
        match self.create_job(caller, project, request, once(asked, text)).await {
            Ok(accepted) => {
                let thread = SlackThread { id: id.clone(), project: project.clone(), job: accepted.record.id };
                let outcome = done(asked.event, SlackOutcome::JobCreated, project, &accepted);
                Ok(Outcome { thread: Some(thread), ..outcome })
            }
            Err(error) => failed(asked.event, error),
        }
    }

    async fn send_from_slack(
        &self,
        asked: &Asked<'_>,
        caller: &Caller,
        thread: &SlackThread,
        text: String,
    ) -> Result<Outcome, Delay> {
        let once = once(asked, &text);
        let request = MessageRequest { prompt: text, delivery: DeliveryMode::Queue };
        match self.send_message(caller, &thread.project, thread.job, request, once).await {
            Ok(accepted) => Ok(done(asked.event, SlackOutcome::Message, &thread.project, &accepted)),
            Err(error) => failed(asked.event, error),
        }
    }

    async fn stop_from_slack(
        &self,
        asked: &Asked<'_>,
        caller: &Caller,
        thread: &SlackThread,
    ) -> Result<Outcome, Delay> {
        let once = once(asked, "stop");
        match self.control_job(caller, &thread.project, thread.job, Control::Cancel, once).await {
            Ok(_) => {
                let outcome = Outcome::new(InboxState::Done, SlackOutcome::Cancelled);
                let outcome =
                    outcome.replying(format!("reply/{}", asked.event.ts), "⏹️ The job was stopped.".to_owned());
                Ok(Outcome { job: Some((thread.job, None)), ..outcome })
            }
            Err(error) => failed(asked.event, error),
        }
    }

    async fn status_for_slack(&self, asked: &Asked<'_>, thread: &SlackThread) -> Result<Outcome, Delay> {
        let store = &self.parts().store;
        let found = (store.job(thread.job).await?, store.newest_message(thread.job).await?);
        let text = match found {
            (Some(job), Some(message)) => {
                let reason = self.reason_of(&message).await?;
                status::status(&message, reason.as_ref(), &job, &self.job_page(&job))
            }
            _ => refused("the job of this thread was deleted"),
        };
        let outcome = Outcome::new(InboxState::Done, SlackOutcome::Answered);
        Ok(outcome.replying(format!("reply/{}", asked.event.ts), text))
    }

    /// Withdraws the message of a deleted message, on behalf of its author.
    async fn withdraw_deleted(&self, workspace: &SlackWorkspace, event: &SlackInboxEvent) -> Result<Outcome, Delay> {
        let others = self.events_of_message(event).await?;
        let thread = self.parts().store.slack_thread(event.thread.clone()).await?;
        let sent = others.iter().find_map(|other| match (&other.content, other.job, other.message) {
            (SlackContent::Sent(text), Some(job), Some(message)) => Some((text, job, message)),
            _ => None,
        });
        let (Some((text, job, message)), Some(thread)) = (sent, thread) else {
            return Ok(Outcome::ignored(SlackOutcome::NotAddressed).because("the message was not for a job"));
        };
        let Some(user) = self.slack_user(workspace, &text.user).await? else {
            return Ok(Outcome::ignored(SlackOutcome::UnknownUser));
        };
        let caller = Caller { origin: Origin::Slack, ..Caller::user(Arc::new(user), None) };
        let outcome = match self.withdraw(&caller, &thread.project, job, message).await {
            Ok(_) => Outcome::new(InboxState::Done, SlackOutcome::MessageWithdrawn),
            Err(Error::Update(UpdateError::Rejected(Rejected::AlreadyDelivered))) => {
                Outcome::ignored(SlackOutcome::TooLate).because("the agent has the message")
            }
            Err(error) => return failed(event, error).map(|outcome| Outcome { posts: Vec::new(), ..outcome }),
        };
        Ok(Outcome { job: Some((job, Some(message))), ..outcome })
    }
}

/// Returns the idempotency key of a message: an event that is carried out again, and another event about the same message,
/// have no further effect.
fn once(asked: &Asked<'_>, text: &str) -> Option<Idempotency> {
    let (thread, ts) = (&asked.event.thread, &asked.event.ts);
    let key = format!("slack/{}/{}/{ts}", thread.workspace, thread.channel);
    Some(Idempotency { key, fingerprint: Fingerprint::of("slack", text.as_bytes()) })
}
