//! Moves a tree from the commit that its setup command ran on to the head of the job's branch.
//!
//! Programs have run in the tree, so git must not run on it on the host.

use std::collections::BTreeMap;
use std::time::Duration;

use journeyman_core::job::turn::TurnBegun;
use journeyman_core::ports::{Exit, Spawn};
use journeyman_core::project::LimitSettings;
use journeyman_core::run::ReasonCode;

use crate::claim::lease::Signals;
use crate::commit::committer::with_plain_git;
use crate::error::RunError;
use crate::sandbox::job_sandbox::JobSandbox;
use crate::sandbox::script::{self, Ran};

const SCRIPT: &str = include_str!("switch.sh");

/// The time limit for the move.
const TIME: Duration = Duration::from_secs(600);

/// Moves the tree to the turn's head. `environment` contains no secrets.
pub(super) async fn switch(
    sandbox: &JobSandbox,
    environment: &BTreeMap<String, String>,
    signals: &Signals,
    limits: &LimitSettings,
    turn: &TurnBegun,
) -> Result<(), RunError> {
    let workspace = &sandbox.workspace;
    let inside = sandbox.sandbox.layout(&workspace.tree, &workspace.commit_dir);
    let (tree, dir) = (inside.workspace.to_string_lossy(), inside.home.to_string_lossy());
    let argv = ["/bin/sh", "-c", SCRIPT, "switch", &tree, &dir].map(str::to_owned).to_vec();
    let mut environment = with_plain_git(environment, &dir);
    environment.insert("HEAD_COMMIT".to_owned(), turn.head.to_string());
    environment.insert("BRANCH".to_owned(), turn.branch.clone());
    let spawn = Spawn { home: workspace.commit_dir.clone(), ..sandbox.spawn(argv, environment) };
    let Ran { exit, stderr, .. } = script::run(sandbox, spawn, signals, limits, TIME).await?;
    match exit {
        Some(Exit::Code(0)) => Ok(()),
        Some(exit) => Err(failed(&format!("git ended with {exit}: {stderr}"))),
        None => Err(failed(&format!("git took longer than {} seconds", TIME.as_secs()))),
    }
}

fn failed(why: &str) -> RunError {
    let text = format!(
        "the setup command ran on the newest commit that people have accepted, but the files could not be switched \
         from it to the job's branch: {why}. Check whether the setup command changes the repository's .git"
    );
    RunError::failed(ReasonCode::SetupFailed, text)
}
