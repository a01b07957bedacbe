//! Use cases about imports into empty repositories of the built-in code host.

use std::sync::Arc;

use journeyman_core::audit::AuditEntry;
use journeyman_core::ids::ProjectId;
use journeyman_core::import::{IMPORT_LEASE, Import, ImportIsRunning, ImportProgress, ImportStage, RENEW_PERIOD};
use journeyman_core::ports::{Credential, Reach, ReachedServers, Remote, StoreError};
use journeyman_core::project::{Address, InvalidProject, Project, parse_address};
use journeyman_core::secret::SecretValue;

use crate::{Caller, Error, RefusalKind, UseCases};

/// The user name for a token without one; code hosts accept any.
const USERNAME: &str = "x-access-token";

/// The maximum number of attempts to store the end of an import.
const ATTEMPTS: u32 = 60;

/// The source of an import.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportRequest {
    /// The URL of the repository, without a credential.
    pub url: String,
    /// The user name for the token.
    pub username: Option<String>,
    /// The token or password. It is used for this import, and not stored.
    pub token: Option<SecretValue>,
}

impl UseCases {
    /// Begins to import a repository into the empty repository of a project on the built-in code host. This process
    /// carries the import out in the background; its row says how it ends ([`journeyman_core::import`]).
    ///
    /// # Errors
    /// The caller is not an administrator, the project does not exist or has branches, the URL is not valid, another
    /// import is running, or the store failed.
    pub async fn import_repository(
        &self,
        caller: &Caller,
        id: &ProjectId,
        request: ImportRequest,
    ) -> Result<Import, Error> {
        caller.needs_project(id)?;
        caller.needs_administrator()?;
        self.confirm(caller).await?;
        let project = self.project(caller, id).await?;
        let mut remote = remote(&project, request)?;
        remote.reach = self.parts().forges.reach(&remote.url).await?;
        if let Some(host) = self.parts().forges.restricted_host(&remote.url).await {
            let text = format!(
                "the repository is at {host}; requests to such a host may expose credentials of the server, so nothing \
                 is imported from it. Use the repository's public address"
            );
            return Err(Error::refused(RefusalKind::RepositoryAddressRefused, text));
        }
        let (store, now) = (&self.parts().store, self.parts().engine.now());
        let before = store.import_of(id.clone()).await?;
        // An import that ended early may have created its branches. The code host refuses any other ones.
        let is_retry = before.as_ref().is_some_and(|import| {
            matches!(import.progress(now), ImportProgress::Interrupted | ImportProgress::Failed(_))
        });
        if !is_retry && !self.parts().pulls.branches(&project).await?.is_empty() {
            return Err(Error::invalid(
                "the repository of the project has branches already; only an empty one can import another repository. \
                 Push the rest with git",
            ));
        }
        let running = |_: ImportIsRunning| Error::invalid(ImportIsRunning.to_string());
        let import = Import::begin(before.as_ref(), id.clone(), remote.url.clone(), now).map_err(running)?;
        let audit = self.audit(caller, "project.import_started", format!("{id} (from {})", remote.url));
        if !store.put_import(import.clone(), Some(audit)).await? {
            return Err(running(ImportIsRunning));
        }
        let (cases, begun, caller) = (self.clone(), import.clone(), caller.clone());
        tokio::spawn(async move { cases.carry_out_import(&caller, project, remote, begun).await });
        Ok(import)
    }

    /// Carries out an import, and stores its end. Gives up if another import has begun, because this process could not
    /// renew its lease.
    async fn carry_out_import(&self, caller: &Caller, project: Project, remote: Remote, import: Import) {
        let (id, number) = (&project.id, import.state.number);
        let (forges, reached) = (Arc::clone(&self.parts().forges), ReachedServers::default());
        let mut work = forges.import(&project, &remote, &reached);
        let done = loop {
            tokio::select! {
                done = &mut work => break done,
                () = tokio::time::sleep(RENEW_PERIOD) => {
                    let until = self.parts().engine.now() + IMPORT_LEASE;
                    match self.continue_import(id, number, ImportStage::Running { until }, None).await {
                        Ok(true) => {}
                        Ok(false) => return tracing::warn!(project = %id, number, "another import has begun"),
                        // The next renewal may succeed. The repository changes only if it has no refs.
                        Err(error) => tracing::warn!(project = %id, %error, "the lease of an import was not renewed"),
                    }
                }
            }
        };
        let stage = match done {
            Ok(not_copied) => ImportStage::Finished { not_copied },
            Err(failed) => ImportStage::Failed { cause: failed.to_string() },
        };
        tracing::info!(project = %id, number, ?stage, "an import has ended");
        let reached = reached.list().unwrap_or_else(|| "no server".to_owned());
        let audit = self.audit(caller, "project.import_ended", format!("{id} (from {reached})"));
        for _ in 0..ATTEMPTS {
            match self.continue_import(id, number, stage.clone(), Some(audit.clone())).await {
                Ok(true) => return,
                Ok(false) => return tracing::warn!(project = %id, number, "another import has begun"),
                Err(error) => tracing::warn!(project = %id, %error, "the end of an import was not stored"),
            }
            tokio::time::sleep(RENEW_PERIOD).await;
        }
    }

    /// Stores the next stage of an import. Returns false if it is no longer the last import of the project.
    async fn continue_import(
        &self,
        id: &ProjectId,
        number: u64,
        stage: ImportStage,
        audit: Option<AuditEntry>,
    ) -> Result<bool, StoreError> {
        // The row is read again, because a write whose outcome was unknown may have been stored.
        match self.parts().store.import_of(id.clone()).await? {
            Some(current) if current.state.number == number => {
                self.parts().store.put_import(current.with(stage), audit).await
            }
            _ => Ok(false),
        }
    }
}

/// Checks a request, and returns the remote to import.
fn remote(project: &Project, request: ImportRequest) -> Result<Remote, Error> {
    if !matches!(parse_address(&project.repository), Ok(Address::Local(_))) {
        return Err(Error::invalid("the repository of the project is not on the built-in code host"));
    }
    let ImportRequest { url, username, token } = request;
    let is_url = match parse_address(&url) {
        Ok(Address::Url(_)) => !["git://", "file://"].iter().any(|scheme| url.starts_with(scheme)),
        Err(InvalidProject::CredentialInUrl) => {
            return Err(Error::invalid("the URL must not contain a credential; enter the user name and the token"));
        }
        Ok(Address::Local(_) | Address::Path(_)) | Err(_) => false,
    };
    if !is_url {
        return Err(Error::invalid("the URL must be https://…, http://…, ssh://… or git@host:path"));
    }
    let credential = match (username, token) {
        (username, Some(SecretValue(password))) if url.starts_with("http") => {
            let username = username.unwrap_or_else(|| USERNAME.to_owned());
            if username.chars().chain(password.chars()).any(char::is_control) {
                return Err(Error::invalid("the user name and the token must not contain control characters"));
            }
            Some(Credential { username, password })
        }
        (_, Some(_)) => {
            return Err(Error::invalid("a token is only for https:// URLs; with ssh, git uses the key of the server"));
        }
        (Some(_), None) => return Err(Error::invalid("a user name needs a token")),
        (None, None) => None,
    };
    Ok(Remote { url, credential, is_ours: false, reach: Reach::Public })
}

#[cfg(test)]
mod tests {
    use journeyman_core::time::Timestamp;

    use super::*;

    fn checked(url: &str, username: Option<&str>, token: Option<&str>) -> Result<Remote, String> {
        let project = Project::new("shop".parse().unwrap(), "local:shop", Timestamp::default());
        let token = token.map(|token| SecretValue(token.to_owned()));
        let request = ImportRequest { url: url.to_owned(), username: username.map(str::to_owned), token };
        remote(&project, request).map_err(|error| error.to_string())
    }

    #[test]
    fn urls_of_servers_are_imported_and_nothing_else() {
        for url in ["https://example.com/a.git", "http://10.0.0.1/a", "ssh://git@example.com/a", "git@example.com:a"] {
            assert_eq!(checked(url, None, None).unwrap().url, url);
        }
        for url in ["", "/srv/a.git", "file:///srv/a.git", "local:other", "git://example.com/a", "ext::sh -c id", "a"] {
            assert!(checked(url, None, None).unwrap_err().starts_with("the URL must be https://"), "{url}");
        }
    }

    #[test]
    fn a_credential_is_for_https_and_is_not_in_the_url() {
        let given = |username, token| checked("https://example.com/a", username, token).unwrap().credential.unwrap();
        assert_eq!(given(None, Some("t")).username, USERNAME);
        let Credential { username, password } = given(Some("ada"), Some("t"));
        assert_eq!((username.as_str(), password.as_str()), ("ada", "t"));
        let error = checked("https://ada:s3cr3t@example.com/a", None, None).unwrap_err();
        assert!(error.contains("must not contain a credential") && !error.contains("s3cr3t"), "{error}");
        assert!(checked("ssh://git@example.com/a", None, Some("t")).unwrap_err().contains("only for https"));
        assert!(checked("https://example.com/a", Some("ada"), None).unwrap_err().contains("needs a token"));
        assert!(checked("https://example.com/a", None, Some("a\nb")).unwrap_err().contains("control characters"));
    }
}
