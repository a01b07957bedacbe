//! The import of a repository into an empty project: the form, and what became of the last import.

use journeyman_core::import::ImportProgress;
use journeyman_core::ports::StoreError;
use journeyman_core::project::{Host, InvalidProject, Project, parse_address, repository_host};
use journeyman_core::time::Timestamp;

use crate::fields::Fields;
use crate::{Shared, visible, words};

/// What became of the last import into a project, as far as the page shows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Importing {
    /// There was no import, or it has finished.
    None,
    /// The import has finished, without a part of the repository.
    Partly { host: String, not_copied: String },
    /// The import runs.
    Running { host: String, start: Timestamp },
    /// The import has failed.
    Failed { host: String, url: String, cause: String },
    /// The import ended early because its server stopped. Its branches may be there in part.
    Interrupted { host: String, url: String },
}

impl Importing {
    pub(super) async fn read(shared: &Shared, project: &Project) -> Result<Self, StoreError> {
        let Some(import) = shared.services.store.import_of(project.id.clone()).await? else { return Ok(Self::None) };
        let (url, start) = (import.state.url.clone(), import.state.started_at);
        let host = host(&url);
        Ok(match import.progress(shared.services.clock.now()) {
            ImportProgress::Running => Self::Running { host, start },
            ImportProgress::Finished(None) => Self::None,
            ImportProgress::Finished(Some(text)) => {
                Self::Partly { host, not_copied: words::sentence(&visible::line(text)) }
            }
            ImportProgress::Failed(cause) => Self::Failed { host, url, cause: words::sentence(&visible::line(cause)) },
            ImportProgress::Interrupted => Self::Interrupted { host, url },
        })
    }
}

/// Returns the host of a URL, for people.
fn host(url: &str) -> String {
    match repository_host(url) {
        Some(Host::Name(name)) => visible::line(&name).into_owned(),
        Some(Host::Address(address)) => address.to_string(),
        None => "another server".to_owned(),
    }
}

/// The form of an import.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ImportForm {
    pub(super) url: String,
    pub(super) username: String,
    /// The reason why an import was refused or has failed.
    pub(super) error: Option<(String, String)>,
}

impl ImportForm {
    /// Returns the form after the last import.
    pub(super) fn after(importing: &Importing) -> Self {
        match importing {
            Importing::None | Importing::Partly { .. } | Importing::Running { .. } => Self::default(),
            Importing::Failed { host, url, cause } => {
                let error = Some((format!("The import from {host} failed."), cause.clone()));
                Self { url: url.clone(), username: String::new(), error }
            }
            Importing::Interrupted { host, url } => {
                let text = "The server stopped during the import. Start it again; a token must be entered again.";
                let error = Some((format!("The import from {host} failed."), text.to_owned()));
                Self { url: url.clone(), username: String::new(), error }
            }
        }
    }

    /// Returns the form of a request that was refused. A credential in the URL is not shown again.
    pub(super) fn refused(fields: &Fields, text: String) -> Self {
        let url = fields.given("url").unwrap_or_default();
        let has_credential = parse_address(&url) == Err(InvalidProject::CredentialInUrl);
        let url = if has_credential { String::new() } else { url };
        Self { url, username: fields.text("username"), error: Some(("The import was not started.".to_owned(), text)) }
    }
}
