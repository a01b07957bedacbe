//! Where the programs of a job run: its folders, in a sandbox, with its limits.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use journeyman_core::egress::Allowlist;
use journeyman_core::ports::{Image, Layout, Resources, Sandbox, Spawn, Spawned};

use crate::failure::Stopped;
use crate::space::Space;
use crate::ways;
use crate::workspace::Workspace;

/// A job's room.
pub(crate) struct Room {
    pub(crate) sandbox: Arc<dyn Sandbox>,
    pub(crate) workspace: Workspace,
    /// What programs may read beside their own folders: the objects of the mirror.
    pub(crate) readable: Vec<PathBuf>,
    pub(crate) resources: Resources,
    /// What they may reach.
    pub(crate) egress: Allowlist,
    /// What they find as their system, where sandboxes have images.
    pub(crate) image: Option<Image>,
    /// The disk that they write to.
    pub(crate) space: Arc<Space>,
}

impl Room {
    /// How a program is started here, with the agent's home.
    pub(crate) fn spawn(&self, argv: Vec<String>, environment: BTreeMap<String, String>) -> Spawn {
        Spawn {
            argv,
            environment,
            workspace: self.workspace.tree.clone(),
            home: self.workspace.home.clone(),
            readable: self.readable.clone(),
            writable: Vec::new(),
            listen: Vec::new(),
            resources: self.resources,
            image: self.image.clone(),
        }
    }

    pub(crate) async fn start(&self, spawn: Spawn) -> Result<Spawned, Stopped> {
        Ok(self.sandbox.spawn(spawn).await?)
    }

    /// The same for a program that may reach out; where it finds the way is among its variables.
    pub(crate) fn spawn_with_egress(&self, argv: Vec<String>, mut environment: BTreeMap<String, String>) -> Spawn {
        if !self.sandbox.has_own_network() {
            return self.spawn(argv, environment);
        }
        for (name, value) in ways::variables() {
            environment.entry(name).or_insert(value);
        }
        Spawn { listen: vec![ways::EGRESS_PORT], ..self.spawn(argv, environment) }
    }

    /// Whether programs have a loopback of their own.
    pub(crate) fn has_own_network(&self) -> bool {
        self.sandbox.has_own_network()
    }

    /// The folders as the agent sees them.
    pub(crate) fn layout(&self) -> Layout {
        self.sandbox.layout(&self.workspace.tree, &self.workspace.home)
    }

    /// Gives the job's folders, as the host has made them, to those who run here.
    pub(crate) async fn furnish(&self) -> Result<(), Stopped> {
        let Workspace { tree, home, desk, .. } = &self.workspace;
        Ok(self.sandbox.adopt(&[tree.clone(), home.clone(), desk.clone()]).await?)
    }
}
