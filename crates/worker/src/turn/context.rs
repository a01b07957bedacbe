//! The inputs of a turn.

use std::collections::BTreeMap;

use journeyman_core::agent::Agents;
use journeyman_core::job::Job;
use journeyman_core::message::Message;
use journeyman_core::ports::{Gateway, WorkStore};
use journeyman_core::secret::SecretValue;
use journeyman_core::time::IdGen;

use tokio::sync::Semaphore;

use crate::acp::{Image, Tap};
use crate::claim::assignment::Assignment;
use crate::claim::lease::Signals;
use crate::error::RunError;
use crate::sandbox::job_sandbox::JobSandbox;
use crate::turn::prepare::PreparedHomes;

/// The inputs of a turn.
pub(crate) struct TurnContext<'a> {
    pub(crate) store: &'a dyn WorkStore,
    pub(crate) gateway: &'a dyn Gateway,
    /// The configured agents.
    pub(crate) agents: &'a Agents,
    /// The source of tokens.
    pub(crate) ids: &'a dyn IdGen,
    /// The callback that gets the lines of the protocol.
    pub(crate) tap: Option<&'a Tap>,
    /// Permits for agents that start, one for each processor of the machine.
    pub(crate) starting: &'a Semaphore,
    /// Prepares agents that start slowly in a new home.
    pub(crate) prepared: &'a PreparedHomes,
    pub(crate) assignment: &'a Assignment,
    pub(crate) sandbox: &'a JobSandbox,
    /// The agent's environment variables.
    pub(crate) environment: &'a BTreeMap<String, String>,
    /// The project's keys for models, by the names of their variables.
    pub(crate) keys: &'a BTreeMap<String, SecretValue>,
    /// What the service adds to the message.
    pub(crate) note: Option<&'a str>,
    /// The images of the message, for an agent that accepts them in a prompt.
    pub(crate) images: &'a [Image],
    /// The prompt that continues the turn, if the agent has had the message already.
    pub(crate) more: Option<&'a str>,
}

impl TurnContext<'_> {
    pub(crate) const fn job(&self) -> &Job {
        &self.assignment.claimed.job
    }

    pub(crate) const fn signals(&self) -> &Signals {
        &self.assignment.signals
    }

    /// Returns the messages that were delivered before this one.
    pub(crate) async fn earlier(&self) -> Result<Vec<Message>, RunError> {
        let mut messages = self.store.messages(self.job().id).await?;
        messages.retain(|message| message.delivered_at.is_some() && message.id != self.assignment.claimed.message.id);
        Ok(messages)
    }
}
