//! The project of an event, and the service's identity on its code host.

use std::sync::Arc;
use std::time::Duration;

use journeyman_core::code_host::{CodeHost, HostKind, HostName, HostRepository, PullRepository, RepositoryPath};
use journeyman_core::hook::EventRepository;
use journeyman_core::inbox::InboxEvent;
use journeyman_core::inbox::route::Identity;
use journeyman_core::inbox::text::Dialect;
use journeyman_core::ports::{Discussion, Forge, ForgeError};
use journeyman_core::project::{DEFAULT_SETTLE_SECONDS, Project};
use journeyman_core::suggestion::Replaces;

use super::Problem;
use crate::UseCases;

/// A project with its repository on the code host.
pub(super) struct Context {
    pub(super) project: Project,
    pub(super) forge: Arc<dyn Forge>,
    /// The code host; `None` for the built-in one, and for other git remotes.
    pub(super) host: Option<CodeHost>,
    pub(super) identity: Identity,
    /// The lines that a suggestion replaces on the code host if it does not say which.
    pub(super) replaces: Replaces,
}

impl Context {
    /// Returns the product of the code host; `None` for the built-in one.
    pub(super) fn kind(&self) -> Option<HostKind> {
        self.host.as_ref().map(|host| host.kind)
    }

    pub(super) fn discussion(&self) -> Option<&dyn Discussion> {
        self.forge.discussion()
    }

    /// Returns the time that a comment waits for others. On the built-in code host, it does not wait by default, because
    /// people there collect comments in a review.
    pub(super) fn settle(&self) -> Duration {
        let usual = if self.forge.host() == HostName::local() { 0 } else { DEFAULT_SETTLE_SECONDS };
        let seconds = self.project.settings.comments.settle_seconds.unwrap_or(usual);
        Duration::from_secs(seconds.into())
    }
}

impl Context {
    /// Returns whether an event is about the repository that the project has now.
    pub(super) async fn is_about(&self, repository: &EventRepository) -> Result<bool, Problem> {
        Ok(self.forge.repository().await?.id == repository.id)
    }

    /// Returns the repository that the project has now, as events name it.
    pub(super) async fn repository(&self) -> Result<EventRepository, Problem> {
        let HostRepository { id, path, .. } = self.forge.repository().await?;
        Ok(EventRepository { id, path })
    }
}

impl UseCases {
    pub(super) async fn context(&self, project: Project) -> Result<Context, Problem> {
        let forges = &self.parts().forges;
        let forge = forges.of(&project).await?;
        let (me, aliases) = match forge.discussion() {
            Some(discussion) => (Some(discussion.me().await?), discussion.aliases().await?),
            None => (None, Vec::new()),
        };
        let host = forges.code_host(&project).await?;
        let kind = host.as_ref().map(|host| host.kind);
        let replaces = match kind {
            Some(HostKind::Gitlab) => Replaces::LastLine,
            _ => Replaces::Range,
        };
        let dialect = Dialect::of(kind);
        let trusted_bots = host.as_ref().map(|host| host.trusted_bots.clone()).unwrap_or_default();
        // The built-in code host has submitted reviews.
        let has_reviews = kind.is_none_or(HostKind::reports_reviews);
        let identity = Identity { me, aliases, trusted_bots, dialect, has_reviews };
        Ok(Context { project, forge, host, identity, replaces })
    }

    /// Finds the project of a repository: the one that the webhook's URL names, unless it has another repository;
    /// otherwise the first whose repository has the ID, or, if its repository was not seen yet, the path or the ID that
    /// the code host tells.
    pub(super) async fn project_of(
        &self,
        event: &InboxEvent,
        repository: &EventRepository,
    ) -> Result<Option<Project>, Problem> {
        let (store, forges) = (&self.parts().store, &self.parts().forges);
        if let Some(id) = &event.project {
            let is_other = |project: &Project| project.repository_id().is_some_and(|id| id != repository.id);
            return Ok(store.project(id.clone()).await?.filter(|project| !is_other(project)));
        }
        let mut not_seen = Vec::new();
        for project in store.projects().await? {
            let host = forges.code_host(&project).await.ok().flatten();
            let Some(host) = host.filter(|host| host.name() == event.host) else { continue };
            let is_it = project.repository_id().map(|id| id == repository.id);
            if is_it == Some(true) {
                return Ok(Some(project));
            }
            if is_it.is_none() {
                not_seen.push((host.path_of(&project.repository), project));
            }
        }
        let has_path = |path: &Option<RepositoryPath>| {
            path.as_ref().is_some_and(|path| path.as_str().eq_ignore_ascii_case(&repository.path))
        };
        if let Some(found) = not_seen.iter().position(|(path, _)| has_path(path)) {
            return Ok(Some(not_seen.swap_remove(found).1));
        }
        for (_, project) in not_seen {
            let described = match forges.of(&project).await {
                Ok(forge) => forge.repository().await,
                Err(error) => Err(error),
            };
            match described {
                Ok(described) if described.id == repository.id => return Ok(Some(project)),
                Err(error @ (ForgeError::Unclear(_) | ForgeError::RateLimited(_))) => return Err(error.into()),
                _ => {}
            }
        }
        Ok(None)
    }
}

/// Returns the repository of an event in the index of pull requests.
pub(super) fn indexed(host: &HostName, repository: &EventRepository) -> PullRepository {
    PullRepository { host: host.clone(), id: repository.id.clone() }
}
