//! Builds the workspace of a turn and runs the setup command in it.
//!
//! A setup command with secrets that the agent does not get runs in a workspace that no agent has touched: on the
//! newest commit that people have accepted, with a separate home. Then the tree is moved to the branch, and the agent's
//! home is restored without replacing files of the setup command. Without such secrets, the setup command runs like the
//! agent: at the head of the branch, in the agent's home.

use std::collections::BTreeMap;

use journeyman_core::ids::Sha;
use journeyman_core::job::command::TurnBegun;
use journeyman_core::ports::Gateway;
use journeyman_core::project::Project;
use journeyman_core::run::ReasonCode;

use super::accepted::accepted_commit;
use super::set_up;
use super::switch::switch;
use crate::failure::Stopped;
use crate::lease::{Reporter, Signals};
use crate::mirror::Mirror;
use crate::room::Room;
use crate::spare::Spares;
use crate::workspace::Session;

/// Environment variables by name.
type Environment = BTreeMap<String, String>;

/// The inputs for building a workspace.
pub(crate) struct Preparation<'a> {
    pub(crate) project: &'a Project,
    pub(crate) room: &'a Room,
    pub(crate) mirror: &'a Mirror,
    pub(crate) spares: &'a Spares,
    pub(crate) gateway: &'a dyn Gateway,
    pub(crate) reporter: &'a Reporter,
    pub(crate) signals: &'a Signals,
    /// The variables of every program; no secrets.
    pub(crate) base: Environment,
    /// The variables of the setup command.
    pub(crate) setup: &'a Environment,
    /// The variables of the agent.
    pub(crate) agent: &'a Environment,
}

impl Preparation<'_> {
    /// Builds a fresh workspace and runs the setup command in it.
    pub(crate) async fn prepare(&self, turn: &TurnBegun, session: &Session<'_>) -> Result<(), Stopped> {
        if !self.has_withheld_secrets() {
            self.build(turn, session).await?;
            return self.set_up().await;
        }
        let accepted = accepted_commit(self.project, self.mirror, turn).await?;
        let start = TurnBegun { head: accepted, ..turn.clone() };
        self.build(&start, &Session { archive: None, ..*session }).await?;
        self.set_up().await.map_err(|stopped| on_commit(&start.head, stopped))?;
        if start.head != turn.head {
            let limits = &self.project.settings.limits;
            switch(self.room, &self.base, self.signals, limits, turn).await?;
        }
        if session.archive.is_some() {
            self.room.workspace.restore_session(session).await?;
            self.room.furnish().await?;
        }
        Ok(())
    }

    /// Returns whether the setup command gets a variable that the agent does not get.
    fn has_withheld_secrets(&self) -> bool {
        let is_withheld = |(name, value): (&String, &String)| self.agent.get(name) != Some(value);
        self.project.settings.setup.is_some() && self.setup.iter().any(is_withheld)
    }

    async fn build(&self, turn: &TurnBegun, session: &Session<'_>) -> Result<(), Stopped> {
        let disk_bytes = self.project.settings.limits.disk_bytes();
        self.room.workspace.build(self.mirror, self.spares, turn, session, disk_bytes).await?;
        self.room.furnish().await
    }

    async fn set_up(&self) -> Result<(), Stopped> {
        let settings = &self.project.settings;
        set_up(self.room, self.gateway, self.setup, self.reporter, self.signals, settings).await
    }
}

/// Adds the commit that the setup command ran on to its failure, because the job may be at another commit.
fn on_commit(commit: &Sha, stopped: Stopped) -> Stopped {
    match stopped {
        Stopped::Failed { reason, retry: false } if reason.code == ReasonCode::SetupFailed => {
            let text =
                format!("on {}, the newest commit that people have accepted: {}", &commit.as_str()[..8], reason.text);
            Stopped::failed(ReasonCode::SetupFailed, text)
        }
        other => other,
    }
}
