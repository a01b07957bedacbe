//! Copies a project of the service and its repository, for a check that changes neither.

use std::sync::Arc;

use anyhow::Context;
use journeyman_app::{Caller, UseCases};
use journeyman_core::ids::ProjectId;
use journeyman_core::job::DEFAULT_BRANCH;
use journeyman_core::ports::{Credential, Forges, Reach, Remote, Store};
use journeyman_core::project::{
    CODE_HOST_TOKEN, CodeHostSettings, Project, PullRequestSettings, SecretChanges, Settings as ProjectSettings,
};
use journeyman_core::version::Precondition;
use journeyman_git::Git;
use tempfile::TempDir;

use crate::app;
use crate::config::Settings;

/// The branch of the copy that the check starts from.
const BRANCH: &str = "main";

/// A project of the service, with a copy of its repository.
pub(super) struct Like {
    pub(super) project: Project,
    secrets: SecretChanges,
    /// The folder with the bare copy `repository.git`.
    repository: TempDir,
    /// The reference that jobs of the project start from.
    start: String,
}

/// Reads a project and copies its repository.
pub(super) async fn read(settings: &Settings, id: &ProjectId) -> anyhow::Result<Like> {
    let store = app::open_store(settings).await?;
    let found = store.project(id.clone()).await?;
    let project =
        found.with_context(|| format!("there is no project {id}; `journeyman project list` lists the projects"))?;
    let mut secrets = store.secrets(id.clone()).await?;
    secrets.remove(CODE_HOST_TOKEN);
    let secrets = secrets.into_iter().map(|(name, value)| (name, Some(value))).collect();
    let git = app::git(settings)?;
    let repository =
        copy(settings, &git, &store, &project).await.context("the repository of the project could not be copied")?;
    let start = project.reference.clone().unwrap_or_else(|| DEFAULT_BRANCH.to_owned());
    Ok(Like { project, secrets, repository, start })
}

async fn copy(settings: &Settings, git: &Git, store: &Arc<dyn Store>, project: &Project) -> anyhow::Result<TempDir> {
    let objects = app::keeper(settings, &app::blobs(&settings.blobs)?)?;
    let hosts = app::code_hosts(settings, store, &settings.public_url(settings.listen), Arc::new(objects))?;
    let remote = hosts.of(project).await?.remote().await?;
    let route = git.route(&remote).await?;
    let dir = tempfile::Builder::new().prefix("journeyman-check-").tempdir()?;
    let words = ["clone", "--quiet", "--bare"].map(str::to_owned).into_iter().chain(route.reading());
    let clone = git.command(words.chain(["--", route.address(), "repository.git"].map(str::to_owned)));
    clone.directory(dir.path()).through(&route).run().await?;
    Ok(dir)
}

impl Like {
    /// Copies the settings and secrets to the check's project, and the commits to its empty repository.
    pub(super) async fn copy(&self, cases: &UseCases, git: &Git, (url, key): (&str, &str)) -> anyhow::Result<()> {
        let credential = Some(Credential { username: "check".to_owned(), password: key.to_owned() });
        let remote = Remote { url: url.to_owned(), credential, is_ours: false, reach: Reach::Private };
        let push = ["push", "--quiet", url, &format!("{}^{{commit}}:refs/heads/{BRANCH}", self.start)];
        let here = self.repository.path().join("repository.git");
        let route = git.route(&remote).await?;
        git.command(push).directory(&here).through(&route).run().await?;
        let (settings, secrets) = (self.project.settings.clone(), self.secrets.clone());
        let edit = move |project: Project| {
            let settings = ProjectSettings {
                code_host: CodeHostSettings::default(),
                pull_request: PullRequestSettings::default(),
                ..settings.clone()
            };
            Ok((Project { settings, ..project }, secrets.clone()))
        };
        let (caller, id) = (Caller::command_line(), "check".parse()?);
        cases.change_project(&caller, &id, Precondition::None, Box::new(edit)).await?;
        Ok(())
    }
}
