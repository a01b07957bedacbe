//! Carries out posts to Slack: each is posted once, and a status is updated until its message is final.

use std::time::Duration;

use journeyman_core::ids::{JobId, MessageId};
use journeyman_core::ports::{SlackError, SlackMessage, StoreError};
use journeyman_core::retry::backoff;
use journeyman_core::secret::SecretValue;
use journeyman_core::slack::status::status;
use journeyman_core::slack::{
    CHANNEL_PAUSE, LONGEST_WAIT, MAX_ATTEMPTS, SLACK_LIMIT, STATUS_PERIOD, SlackPost, SlackPostContent, SlackPostState,
    SlackPosted, SlackSecret,
};
use journeyman_core::time::Timestamp;

use crate::UseCases;

/// The maximum interval between status checks of a message. Old messages change less often.
const LONGEST_PERIOD: Duration = Duration::from_secs(10);

/// The largest difference between this machine's clock and Slack's that the search for a post allows.
const CLOCK_DIFFERENCE: Duration = Duration::from_mins(10);

/// The divisor of the age of a post that gives the time until the next status check.
const AGE_SHARE: u32 = 20;

/// The progress of an attempt, which is stored also if the attempt fails: a message that was posted must not be posted
/// again.
#[derive(Debug, Default)]
struct Progress {
    ts: Option<String>,
    shown: Option<String>,
    /// `true` if a request was sent, so that the channel accepts no other one for a moment.
    has_asked: bool,
    /// `true` if the text may still change.
    is_open: bool,
}

/// The reason why an attempt failed.
enum Failed {
    Slack(SlackError),
    Store(StoreError),
    /// No attempt can succeed.
    Never(String),
}

impl From<SlackError> for Failed {
    fn from(error: SlackError) -> Self {
        match error {
            SlackError::Refused(text) => Self::Never(text),
            error => Self::Slack(error),
        }
    }
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl UseCases {
    /// Carries out a claimed post, and stores the result.
    pub(super) async fn carry_out_slack_post(&self, post: &SlackPost) -> Result<(), StoreError> {
        let mut progress = Progress::default();
        let attempt = tokio::time::timeout(SLACK_LIMIT, self.attempt_post(post, &mut progress)).await;
        let late = || Err(Failed::Slack(SlackError::Unavailable(format!("timed out ({} s)", SLACK_LIMIT.as_secs()))));
        let result = attempt.unwrap_or_else(|_| late());
        let posted = self.posted(post, progress, result);
        self.parts().store.finish_slack_post(posted).await?;
        Ok(())
    }

    fn posted(&self, post: &SlackPost, progress: Progress, result: Result<(), Failed>) -> SlackPosted {
        let now = self.parts().engine.now();
        let Progress { ts, shown, has_asked, is_open } = progress;
        let free_at = if has_asked { now + CHANNEL_PAUSE } else { now };
        let posted = SlackPosted {
            number: post.number,
            claim: post.claims,
            ts,
            shown,
            state: SlackPostState::Open,
            detail: None,
            failures: 0,
            due_at: None,
            free_at,
        };
        let again = |error: String| {
            let failures = post.failures + 1;
            tracing::warn!(post = post.number, failures, error, "a post to Slack failed");
            let is_last = failures >= MAX_ATTEMPTS;
            let state = if is_last { SlackPostState::Failed } else { SlackPostState::Open };
            let due_at = (!is_last).then(|| now + backoff(failures, self.permille()));
            (state, due_at, failures, Some(error))
        };
        let (state, due_at, failures, detail) = match result {
            Ok(()) if is_open => (SlackPostState::Open, Some(now + period(post.created_at, now)), 0, None),
            Ok(()) => (SlackPostState::Done, None, 0, None),
            Err(Failed::Slack(SlackError::RateLimited(wait))) => {
                let free_at = now + wait.clamp(CHANNEL_PAUSE, LONGEST_WAIT);
                return SlackPosted { due_at: Some(free_at), free_at, failures: post.failures, ..posted };
            }
            Err(Failed::Never(error)) => {
                tracing::warn!(post = post.number, error, "Slack refuses a post");
                (SlackPostState::Failed, None, post.failures, Some(error))
            }
            Err(Failed::Slack(error)) => again(error.to_string()),
            Err(Failed::Store(error)) => again(error.to_string()),
        };
        SlackPosted { state, due_at, failures, detail, ..posted }
    }

    async fn attempt_post(&self, post: &SlackPost, progress: &mut Progress) -> Result<(), Failed> {
        let secrets = self.parts().store.slack_secrets(post.thread.workspace).await?;
        let missing = || SlackError::Repairable("the workspace has no bot token; set botToken".to_owned());
        let token = secrets.get(&SlackSecret::BotToken).ok_or_else(missing)?;
        match &post.content {
            SlackPostContent::Text(text) => self.show(post, token, text, progress).await,
            SlackPostContent::Reaction { ts, name } => {
                progress.has_asked = true;
                Ok(self.parts().slack.react(token, &post.thread.channel, ts, name).await?)
            }
            SlackPostContent::Status { project, job, message } => {
                let workspace = self.stored_workspace(post.thread.workspace).await?;
                let connected = workspace.and_then(|known| known.settings.channels.get(&post.thread.channel).cloned());
                if connected.as_ref() != Some(project) {
                    return Err(Failed::Never(format!(
                        "the channel is no longer connected with the project {project}"
                    )));
                }
                let Some((text, is_final)) = self.status_text(*job, *message).await? else {
                    return Err(Failed::Never("the job was deleted".to_owned()));
                };
                self.show(post, token, &text, progress).await?;
                progress.is_open = !is_final;
                Ok(())
            }
        }
    }

    /// Makes Slack show a text: posts the message, or replaces its text if that is another one.
    async fn show(
        &self,
        post: &SlackPost,
        token: &SecretValue,
        text: &str,
        progress: &mut Progress,
    ) -> Result<(), Failed> {
        let (slack, marker) = (&self.parts().slack, post.marker());
        let (channel, thread) = (post.thread.channel.as_str(), post.thread.thread.as_str());
        let message = SlackMessage { channel, thread, text, marker: &marker };
        if post.ts.is_some() && post.shown.as_deref() == Some(text) {
            return Ok(());
        }
        progress.has_asked = true;
        let known = match &post.ts {
            Some(ts) => Some(ts.clone()),
            // An attempt before this one may have posted it.
            None if post.may_be_posted() => {
                slack.find(token, channel, thread, &marker, post.created_at - CLOCK_DIFFERENCE).await?
            }
            None => None,
        };
        match known {
            Some(ts) => {
                progress.ts = Some(ts.clone());
                slack.update(token, &ts, message).await?;
            }
            None => progress.ts = Some(slack.post(token, message).await?),
        }
        progress.shown = Some(text.to_owned());
        Ok(())
    }

    /// Returns the status of a message, and whether it is final; `None` if the job was deleted.
    async fn status_text(&self, job: JobId, message: MessageId) -> Result<Option<(String, bool)>, StoreError> {
        let store = &self.parts().store;
        let (Some(job), Some(message)) = (store.job(job).await?, store.message(message).await?) else {
            return Ok(None);
        };
        let reason = self.reason_of(&message).await?;
        let text = status(&message, reason.as_ref(), &job, &self.job_page(&job));
        Ok(Some((text, message.status.is_final())))
    }
}

/// Returns the time until the next status check of a message.
fn period(created_at: Timestamp, now: Timestamp) -> Duration {
    (now.since(created_at) / AGE_SHARE).clamp(STATUS_PERIOD, LONGEST_PERIOD)
}
