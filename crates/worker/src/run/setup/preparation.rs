//! Builds the workspace of a turn and runs the setup command in it.
//!
//! A setup command with secrets that the agent does not get runs in a workspace that no agent has touched: on the
//! newest commit that people have accepted, with a separate home. Then the tree is moved to the branch, and the agent's
//! home is restored without replacing files of the setup command. Without such secrets, the setup command runs like the
//! agent: at the head of the branch, in the agent's home.

use std::collections::BTreeMap;

use journeyman_core::ids::Sha;
use journeyman_core::job::turn::TurnBegun;
use journeyman_core::ports::Gateway;
use journeyman_core::project::Project;
use journeyman_core::run::ReasonCode;
use journeyman_repository::Mirror;
use journeyman_repository::accepted::accepted_commit;

use super::set_up;
use super::switch::switch;
use crate::claim::lease::{Reporter, Signals};
use crate::error::RunError;
use crate::lfs::fill::{Filled, Filling as LfsFilling, NotFetched, record};
use crate::sandbox::job_sandbox::JobSandbox;
use crate::submodules::SubmoduleState;
use crate::submodules::fill::{Filler, Filling};
use crate::submodules::sources::Sources;
use crate::workspace::checkout::Checkout;
use crate::workspace::prebuilt::PrebuiltTrees;
use crate::workspace::session::{NotKept, Session};

/// Environment variables by name.
type Environment = BTreeMap<String, String>;

/// The inputs for building a workspace.
pub(crate) struct Preparation<'a> {
    pub(crate) project: &'a Project,
    pub(crate) sandbox: &'a JobSandbox,
    pub(crate) mirror: &'a Mirror,
    pub(crate) prebuilt: &'a PrebuiltTrees,
    pub(crate) gateway: &'a dyn Gateway,
    pub(crate) reporter: &'a Reporter,
    pub(crate) signals: &'a Signals,
    pub(crate) sources: Sources<'a>,
    /// The variables of every program; no secrets.
    pub(crate) base: Environment,
    /// The variables of the setup command.
    pub(crate) setup: &'a Environment,
    /// The variables of the agent.
    pub(crate) agent: &'a Environment,
    /// Fills files in Git LFS, if the project wants that.
    pub(crate) lfs: Option<LfsFilling<'a>>,
}

/// What a checkout has beside the commit's own files.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    pub(crate) submodules: Filling,
    /// The files in Git LFS that are pointers, because their content was not fetched.
    pub(crate) not_fetched: Vec<NotFetched>,
    /// What is told if the agent's home of earlier turns is lost.
    pub(crate) lost_home: Option<NotKept>,
}

impl Preparation<'_> {
    /// Builds a fresh workspace and runs the setup command in it.
    pub(crate) async fn prepare(&self, turn: &TurnBegun, session: &Session<'_>) -> Result<Prepared, RunError> {
        if !self.has_withheld_secrets() {
            let prepared = self.build(turn, session).await?;
            self.set_up().await?;
            return Ok(prepared);
        }
        let accepted = accepted_commit(self.project, self.mirror, turn).await?;
        let start = TurnBegun { head: accepted, ..turn.clone() };
        let mut prepared = self.build(&start, &Session { archive: None, prepared: None, ..*session }).await?;
        self.set_up().await.map_err(|error| on_commit(&start.head, error))?;
        if start.head != turn.head {
            let limits = &self.project.settings.limits;
            switch(self.sandbox, &self.base, self.signals, limits, turn).await?;
            if let Some(lfs) = &self.lfs {
                let tree = &self.sandbox.workspace.tree;
                let filled = lfs.fill(tree, &turn.head).await?;
                record(tree, &filled.files).await?;
                prepared.not_fetched = filled.not_fetched;
            }
            let before = &prepared.submodules.state;
            let moved = self.filler().fill(self.mirror, &turn.head, before).await?;
            if moved.state.pointers == before.pointers {
                let told = &prepared.submodules.skipped;
                let new: Vec<_> = moved.skipped.into_iter().filter(|one| !told.contains(one)).collect();
                prepared.submodules.skipped.extend(new);
                prepared.submodules.state = moved.state;
            } else {
                prepared.submodules = moved;
            }
        }
        if session.has_home() {
            prepared.lost_home = self.sandbox.workspace.restore_session(session).await?;
        }
        Ok(prepared)
    }

    /// Returns the part that fills submodules.
    pub(crate) fn filler(&self) -> Filler<'_> {
        let Self { sources, sandbox, signals, project, base, .. } = self;
        let (limits, lfs) = (&project.settings.limits, self.lfs.as_ref());
        Filler { sources, sandbox, signals, limits, is_new: true, environment: base, lfs }
    }

    /// Returns whether the setup command gets a variable that the agent does not get.
    fn has_withheld_secrets(&self) -> bool {
        let is_withheld = |(name, value): (&String, &String)| self.agent.get(name) != Some(value);
        self.project.settings.setup.is_some() && self.setup.iter().any(is_withheld)
    }

    async fn build(&self, turn: &TurnBegun, session: &Session<'_>) -> Result<Prepared, RunError> {
        let (disk_bytes, workspace) = (self.project.settings.limits.disk_bytes(), &self.sandbox.workspace);
        workspace.build(self.mirror, self.prebuilt, turn, disk_bytes).await?;
        self.sandbox.adopt_folders().await?;
        let Self { sandbox, base: environment, signals, mirror, .. } = self;
        let limits = &self.project.settings.limits;
        Checkout { sandbox, environment, signals, limits, mirror, commit: &turn.head }.write().await?;
        let Filled { files, not_fetched } = match &self.lfs {
            Some(lfs) => lfs.fill(&workspace.tree, &turn.head).await?,
            None => Filled::default(),
        };
        let lost_home = workspace.restore_home(session).await?;
        if !files.is_empty() || !not_fetched.is_empty() {
            LfsFilling::complete(workspace, &files).await?;
        }
        let submodules = self.filler().fill(self.mirror, &turn.head, &SubmoduleState::default()).await?;
        Ok(Prepared { submodules, not_fetched, lost_home })
    }

    async fn set_up(&self) -> Result<(), RunError> {
        let settings = &self.project.settings;
        set_up(self.sandbox, self.gateway, self.setup, self.reporter, self.signals, settings).await
    }
}

/// Adds the commit that the setup command ran on to its failure, because the job may be at another commit.
fn on_commit(commit: &Sha, error: RunError) -> RunError {
    match error {
        RunError::Failed { reason, retry: false } if reason.code == ReasonCode::SetupFailed => {
            let text =
                format!("on {}, the newest commit that people have accepted: {}", &commit.as_str()[..8], reason.text);
            RunError::failed(ReasonCode::SetupFailed, text)
        }
        other => other,
    }
}
