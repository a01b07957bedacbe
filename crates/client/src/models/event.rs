//! Events of jobs.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::event_agent::*;
use super::event_job::*;
use crate::error::Error;

/// An event of a job.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Event {
    /// The sequence number: 1 for the first event of the job, without gaps.
    pub seq: u64,
    /// The type, such as `run.started`.
    pub kind: String,
    /// The time of the event (ISO 8601, UTC).
    pub at: String,
    /// The ID of the run, if the event belongs to one.
    pub run_id: Option<String>,
    /// The data, by the type of the event.
    pub data: EventData,
    /// The event as the server sent it, with fields that this version does not know.
    pub document: Value,
}

impl Event {
    /// Reads an event.
    ///
    /// # Errors
    /// Returns [`Error::InvalidResponse`] if the document is not an event.
    pub fn from_document(document: Value) -> Result<Self, Error> {
        let text = |field: &str| document[field].as_str().map(str::to_owned);
        let (Some(seq), Some(kind), Some(at)) = (document["seq"].as_u64(), text("type"), text("at")) else {
            return Err(Error::InvalidResponse("the server sent an invalid event".to_owned()));
        };
        let (data, run_id) = (EventData::of(&kind, &document["data"]), text("runId"));
        Ok(Self { seq, kind, at, run_id, data, document })
    }

    /// Returns `true` if the job is not active after this event until the next message.
    pub fn is_end(&self) -> bool {
        matches!(self.kind.as_str(), "job.completed" | "job.failed" | "job.archived")
    }
}

impl<'de> serde::Deserialize<'de> for Event {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let document = <Value as serde::Deserialize>::deserialize(deserializer)?;
        Self::from_document(document).map_err(serde::de::Error::custom)
    }
}

/// The data of an event.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum EventData {
    /// The job was created. (`job.created`)
    JobCreated(JobCreated),
    /// No messages are left, and the last run succeeded. (`job.completed`)
    JobCompleted,
    /// No messages are left, and the last run failed. (`job.failed`)
    JobFailed(JobFailed),
    /// The job was archived. (`job.archived`)
    JobArchived,
    /// The job is no longer archived. (`job.unarchived`)
    JobUnarchived,
    /// A message was stored. (`message.accepted`)
    MessageAccepted(MessageAccepted),
    /// A queued message was withdrawn. (`message.withdrawn`)
    MessageWithdrawn(MessageWithdrawn),
    /// The comments of a queued message were edited on the code host. (`message.changed`)
    MessageChanged(MessageChanged),
    /// A message waits for something outside the job, such as its code host. (`message.waiting`)
    MessageWaiting(MessageWaiting),
    /// Commits of earlier messages were published with those of this message. (`message.published_with`)
    MessagePublishedWith(MessagePublishedWith),
    /// A delivered message finished, failed, or was cancelled. (`message.finished`)
    MessageFinished(MessageFinished),
    /// A worker started a run for a message. (`run.started`)
    RunStarted(RunStarted),
    /// A run ended. (`run.finished`)
    RunFinished(RunFinished),
    /// The branch was pushed. (`commit.pushed`)
    CommitPushed(CommitPushed),
    /// A pull request was opened. (`pull_request.opened`)
    PullRequestOpened(PullRequestOpened),
    /// The pull request has new commits. (`pull_request.updated`)
    PullRequestUpdated(PullRequestUpdated),
    /// A pull request was merged. (`pull_request.merged`)
    PullRequestMerged(PullRequestMerged),
    /// A pull request was closed. (`pull_request.closed`)
    PullRequestClosed(PullRequestClosed),
    /// A pull request was reopened. (`pull_request.reopened`)
    PullRequestReopened(PullRequestReopened),
    /// The pull request conflicts with its base branch, or is behind it, and the project wants it to be updated.
    /// (`pull_request.outdated`)
    PullRequestOutdated(PullRequestOutdated),
    /// All checks of the newest commit of the pull request have finished. (`checks.settled`)
    ChecksSettled(ChecksSettled),
    /// The agent sent a message. (`agent.message`)
    AgentMessage(AgentMessage),
    /// The agent sent a thought. (`agent.thought`)
    AgentThought(AgentThought),
    /// The agent's complete plan. (`agent.plan`)
    AgentPlan(AgentPlan),
    /// A tool call, or an update of one, with the fields that the agent sent. (`agent.tool_call`)
    AgentToolCall(Box<AgentToolCall>),
    /// The usage of the context window, as reported by the agent. (`agent.usage`)
    AgentUsage(AgentUsage),
    /// The agent's session was opened. (`agent.session`)
    AgentSession(AgentSession),
    /// The agent's turn was cut short, and the agent is asked to continue. (`agent.continued`)
    AgentContinued(AgentContinued),
    /// The turn changed files that its commits do not have. (`changes.left_out`)
    ChangesLeftOut(ChangesLeftOut),
    /// The working tree of the turn lacks something that the repository or an earlier turn has.
    /// (`checkout.incomplete`)
    CheckoutIncomplete(CheckoutIncomplete),
    /// The agent's home was not stored after the turn. (`home.not_stored`)
    HomeNotStored(HomeNotStored),
    /// A line of the agent's output was not a message of the protocol. (`agent.line_dropped`)
    AgentLineDropped(AgentLineDropped),
    /// The agent called a model through the service. (`agent.model_call`)
    AgentModelCall(AgentModelCall),
    /// A model call, or a part of it, was denied. (`model.denied`)
    ModelDenied(ModelDenied),
    /// The agent asked for permission, and the project's policy answered. (`permission.answered`)
    PermissionAnswered(PermissionAnswered),
    /// A program reached a destination outside the sandbox. (`egress.allowed`)
    EgressAllowed(EgressAllowed),
    /// A program was denied access to a destination outside the sandbox. (`egress.denied`)
    EgressDenied(EgressDenied),
    /// Data of a type that this version does not know, or in another form. Ignore it.
    Unknown(Value),
}

impl EventData {
    /// Reads the data of an event of the type `kind`.
    fn of(kind: &str, data: &Value) -> Self {
        let known = match kind {
            "job.created" => typed(data, Self::JobCreated),
            "job.completed" => Some(Self::JobCompleted),
            "job.failed" => typed(data, Self::JobFailed),
            "job.archived" => Some(Self::JobArchived),
            "job.unarchived" => Some(Self::JobUnarchived),
            "message.accepted" => typed(data, Self::MessageAccepted),
            "message.withdrawn" => typed(data, Self::MessageWithdrawn),
            "message.changed" => typed(data, Self::MessageChanged),
            "message.waiting" => typed(data, Self::MessageWaiting),
            "message.published_with" => typed(data, Self::MessagePublishedWith),
            "message.finished" => typed(data, Self::MessageFinished),
            "run.started" => typed(data, Self::RunStarted),
            "run.finished" => typed(data, Self::RunFinished),
            "commit.pushed" => typed(data, Self::CommitPushed),
            "pull_request.opened" => typed(data, Self::PullRequestOpened),
            "pull_request.updated" => typed(data, Self::PullRequestUpdated),
            "pull_request.merged" => typed(data, Self::PullRequestMerged),
            "pull_request.closed" => typed(data, Self::PullRequestClosed),
            "pull_request.reopened" => typed(data, Self::PullRequestReopened),
            "pull_request.outdated" => typed(data, Self::PullRequestOutdated),
            "checks.settled" => typed(data, Self::ChecksSettled),
            "agent.message" => typed(data, Self::AgentMessage),
            "agent.thought" => typed(data, Self::AgentThought),
            "agent.plan" => typed(data, Self::AgentPlan),
            "agent.tool_call" => typed(data, Self::AgentToolCall),
            "agent.usage" => typed(data, Self::AgentUsage),
            "agent.session" => typed(data, Self::AgentSession),
            "agent.continued" => typed(data, Self::AgentContinued),
            "changes.left_out" => typed(data, Self::ChangesLeftOut),
            "checkout.incomplete" => typed(data, Self::CheckoutIncomplete),
            "home.not_stored" => typed(data, Self::HomeNotStored),
            "agent.line_dropped" => typed(data, Self::AgentLineDropped),
            "agent.model_call" => typed(data, Self::AgentModelCall),
            "model.denied" => typed(data, Self::ModelDenied),
            "permission.answered" => typed(data, Self::PermissionAnswered),
            "egress.allowed" => typed(data, Self::EgressAllowed),
            "egress.denied" => typed(data, Self::EgressDenied),
            _ => None,
        };
        known.unwrap_or_else(|| Self::Unknown(data.clone()))
    }
}

fn typed<T: DeserializeOwned>(data: &Value, variant: fn(T) -> EventData) -> Option<EventData> {
    serde_json::from_value(data.clone()).ok().map(variant)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_of_an_unknown_type_is_kept_as_it_was_sent() {
        let document =
            json!({"seq": 3, "type": "job.painted", "at": "t", "runId": null, "data": {"color": "red"}, "x": 1});
        let event = Event::from_document(document.clone()).expect("an event");
        assert_eq!(event.data, EventData::Unknown(json!({"color": "red"})));
        assert_eq!(event.document, document);
        assert!(Event::from_document(json!({"seq": 3})).is_err());
    }

    #[test]
    fn known_data_with_other_fields_is_typed() {
        let data = json!({"text": "hi", "later": true});
        let document = json!({"seq": 1, "type": "agent.message", "at": "t", "runId": "run_1", "data": data});
        let event = Event::from_document(document).expect("an event");
        let EventData::AgentMessage(message) = &event.data else { panic!("{event:?}") };
        assert_eq!(message.text.as_deref(), Some("hi"));
        assert!(!event.is_end());
    }
}
