//! `journeyman agent prepare`: starts an agent once, and keeps what it unpacks into its home for new jobs.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, bail};
use journeyman_core::project::DEFAULT_AGENT;
use journeyman_worker::{AgentPreparation, ContainmentCheck, HomeSize, PREPARED_BYTES};

use super::super::doctor::scratch;
use super::super::store::{block_on, print};
use super::known::find;
use crate::config::Settings;
use crate::folders::make_private_dir;
use crate::{app, scope};

/// Prepares an agent.
pub(super) fn run(settings: &Settings, id: &str) -> anyhow::Result<ExitCode> {
    find(settings, id)?;
    if id == DEFAULT_AGENT {
        bail!("the agent {id} is part of this program and unpacks nothing");
    }
    scope::enter(settings)?;
    let size = prepare(settings, id).with_context(|| format!("the agent {id} is not prepared"))?;
    print(&told(id, size))?;
    Ok(ExitCode::SUCCESS)
}

/// Prepares an agent that was just installed. A failure is only a warning: an agent may need its model to start, so it may
/// work in jobs, which then begin with an empty home.
pub(super) fn after_installation(settings: &Settings, id: &str) -> anyhow::Result<()> {
    match prepare(settings, id) {
        Ok(size) => Ok(print(&told(id, size))?),
        Err(error) => {
            let text = "new jobs begin with an empty home, so the agent may start slowly in each of them. To try again";
            writeln!(std::io::stderr(), "warning: {error:#}; {text}: journeyman agent prepare {id}")?;
            Ok(())
        }
    }
}

fn told(id: &str, HomeSize { files, bytes }: HomeSize) -> String {
    if files == 0 {
        return format!("{id} unpacks nothing into its home when it starts; there is nothing to prepare");
    }
    let mib = bytes.div_ceil(1 << 20);
    format!("{id} is prepared: its home has {files} files ({mib} MiB) after its start, with which new jobs begin")
}

/// Starts the agent in the sandbox of the installation, with files in a folder that is removed.
fn prepare(settings: &Settings, id: &str) -> anyhow::Result<HomeSize> {
    let spec = find(settings, id)?;
    make_private_dir(&settings.data_dir)?;
    app::open_to_sandboxes(settings)?;
    let folder = scratch(settings, "prepare")?;
    block_on(async {
        let sandbox = app::sandbox(settings, app::SandboxUser::Check(folder.path()))?;
        let found = ContainmentCheck::new(std::sync::Arc::clone(&sandbox), app::given_up(settings)).containment().await;
        let missing: Vec<&str> = found.missing().map(|guarantee| guarantee.name).collect();
        if !missing.is_empty() {
            bail!(
                "the sandbox lacks required guarantees ({}), so agents do not run on this machine; journeyman doctor \
                 says how to get them",
                missing.join(", ")
            );
        }
        let environment = app::environment_of_sandboxes(settings);
        let preparation = AgentPreparation {
            id,
            spec,
            sandbox: &*sandbox,
            environment: &environment,
            root: &folder.path().join("spares"),
            data: &settings.data_dir,
            limit: PREPARED_BYTES,
        };
        Ok(preparation.prepare().await?)
    })
}
