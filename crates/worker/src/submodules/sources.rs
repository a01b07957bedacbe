//! The repositories of submodules: which of them a project may read, and how they are fetched.
//!
//! | repository | rule |
//! |---|---|
//! | on the server of the project's repository | the project's credential decides |
//! | on another server | read without a credential, at public addresses and in networks that the operator has allowed |
//! | on the built-in code host | everyone who may use the project may use the other project |
//! | at a path | below the folder of the project's repository, and readable by all users of the machine |

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use journeyman_core::egress::{Allowlist, Destination, is_public};
use journeyman_core::ids::{ProjectId, Sha};
use journeyman_core::ports::{Credential, Forges, Reach, Remote, Store};
use journeyman_core::project::{Address, Host, Project, parse_address, repository_host};
use journeyman_core::run::ReasonCode;
use journeyman_core::submodule::{Located, Main, SkipReason, SubmoduleLocation};
use journeyman_core::time::Timestamp;
use journeyman_core::trust::Trust;
use journeyman_repository::{Mirror, ProjectMirrors, RepositoryError};

use crate::error::RunError;

/// Fetches the repositories of a project's submodules.
pub(crate) struct Sources<'a> {
    pub(crate) mirrors: ProjectMirrors,
    pub(crate) forges: &'a dyn Forges,
    pub(crate) store: &'a dyn Store,
    pub(crate) project: &'a Project,
    /// The credential for the server of the project's repository.
    pub(crate) credential: Option<Credential>,
    /// The URL of the service, without a slash at its end.
    pub(crate) public_url: &'a str,
    /// The destinations that programs of the project may reach.
    pub(crate) egress: &'a Allowlist,
    pub(crate) now: Timestamp,
}

/// The one who has named the address of a submodule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NamedBy {
    /// A commit that people have pushed, or that was checked when it was published.
    People,
    /// A repository on another server. The credential is not used for it: its people may not know what the project may
    /// read.
    Others,
    /// The agent, in this turn. Nothing is fetched for it that it could not fetch itself: no credential is used, and only
    /// the server of the project's repository and the destinations of the project's sandbox are asked.
    Agent,
}

impl Sources<'_> {
    /// Returns the address of the project's repository; `None` if it is not valid.
    pub(crate) fn main(&self) -> Option<Main> {
        Main::new(&self.project.id, &self.project.repository, self.public_url).ok()
    }

    /// Fetches the repository of a submodule, and returns its mirror if it has the commit.
    ///
    /// # Errors
    /// The machine failed. That the repository cannot be used is no error.
    pub(crate) async fn fetch(
        &self,
        located: &Located,
        commit: &Sha,
        named_by: NamedBy,
    ) -> Result<Result<Mirror, SkipReason>, RunError> {
        let remote = match self.remote(located, named_by).await? {
            Ok(remote) => remote,
            Err(reason) => return Ok(Err(reason)),
        };
        let mut fetched = self.mirrors.fetch_submodule(remote.clone(), commit).await;
        if let Err(RepositoryError::MirrorDamaged(detail)) = &fetched {
            tracing::warn!(address = %located.address, %detail, "the mirror of a submodule is damaged and is being rebuilt");
            fetched = match self.mirrors.repair_submodule(&remote).await {
                Ok(()) => self.mirrors.fetch_submodule(remote, commit).await,
                Err(error) => Err(error),
            };
        }
        match fetched {
            Ok(mirror) => Ok(mirror.ok_or(SkipReason::CommitMissing)),
            Err(RepositoryError::Failed { reason, .. }) if reason.code == ReasonCode::DiskFull => {
                Err(RunError::Failed { reason, retry: true })
            }
            Err(error) => {
                tracing::warn!(address = %located.address, %error, "a submodule cannot be fetched");
                Ok(Err(reason_of(&error)))
            }
        }
    }

    /// Returns the remote of a submodule, if the project may read it.
    async fn remote(&self, located: &Located, named_by: NamedBy) -> Result<Result<Remote, SkipReason>, RunError> {
        match &located.location {
            SubmoduleLocation::Project(other) => self.built_in(other).await,
            SubmoduleLocation::Path(path) => {
                let (path, main) = (PathBuf::from(path), PathBuf::from(&self.project.repository));
                let main = main.strip_prefix("file://").map_or(main.clone(), |path| Path::new("/").join(path));
                let open =
                    tokio::task::spawn_blocking(move || is_open(&path, &main)).await.map_err(io::Error::other)?;
                let url = located.address.clone();
                Ok(match open {
                    Some(true) => Ok(Remote { url, credential: None, is_ours: false, reach: Reach::Public }),
                    Some(false) => Err(SkipReason::NotPermitted),
                    None => Err(SkipReason::NotReadable),
                })
            }
            SubmoduleLocation::Url { url, is_same_server } => {
                let may_ask = match named_by {
                    NamedBy::People | NamedBy::Others => true,
                    NamedBy::Agent => *is_same_server || self.agent_reaches(url).await,
                };
                if !may_ask || self.forges.restricted_host(url).await.is_some() {
                    return Ok(Err(SkipReason::AddressRefused));
                }
                // The key for ssh is a credential that git cannot leave out.
                if named_by == NamedBy::Agent && repository_uses_ssh(url) {
                    return Ok(Err(SkipReason::AddressRefused));
                }
                // Administrators have chosen the server of the project's repository, and no other one.
                let reach =
                    if *is_same_server { self.forges.reach(&self.project.repository).await? } else { Reach::Public };
                let credential = self.credential.clone().filter(|_| *is_same_server && named_by == NamedBy::People);
                Ok(Ok(Remote { url: url.clone(), credential, is_ours: false, reach }))
            }
        }
    }

    /// Returns the remote of another project on the built-in code host, if everyone who may use this project may use it.
    /// Users see all projects; API keys and CI trusts may be limited to some.
    async fn built_in(&self, other: &ProjectId) -> Result<Result<Remote, SkipReason>, RunError> {
        let found = match *other == self.project.id {
            true => Some(self.project.clone()),
            false => self.store.project(other.clone()).await?,
        };
        let is_local = |project: &Project| matches!(parse_address(&project.repository), Ok(Address::Local(_)));
        let Some(found) = found.filter(is_local) else { return Ok(Err(SkipReason::NotReadable)) };
        let keys = self.store.keys().await?;
        let keys = keys.iter().filter(|key| !key.has_ended(self.now)).filter_map(|key| key.projects.as_deref());
        let trusts: Vec<Trust> = self.store.resources(None).await?;
        let limited = keys.chain(trusts.iter().map(|trust| trust.settings.projects.as_slice()));
        if !all_see(limited, &self.project.id, other) {
            return Ok(Err(SkipReason::NotPermitted));
        }
        let remote = async { self.forges.of(&found).await?.remote().await };
        Ok(remote.await.map_err(|error| {
            tracing::warn!(project = %other, %error, "the repository of a submodule cannot be used");
            SkipReason::NotReadable
        }))
    }

    /// Returns whether programs of the project may reach the server of a URL: it is a destination of its sandbox, and all
    /// of its addresses are public.
    async fn agent_reaches(&self, url: &str) -> bool {
        let Some(destination) = destination(url) else { return false };
        let addresses =
            if self.egress.has(&destination) { self.forges.addresses(destination.host()).await } else { Vec::new() };
        !addresses.is_empty() && addresses.into_iter().all(is_public)
    }
}

/// Returns whether everyone who may use only some projects, and among them the one, may use the other too.
fn all_see<'a>(mut limited: impl Iterator<Item = &'a [ProjectId]>, one: &ProjectId, other: &ProjectId) -> bool {
    limited.all(|projects| !projects.contains(one) || projects.contains(other))
}

/// Returns the server of an http or https URL as a destination; `None` if it has no name.
fn destination(url: &str) -> Option<Destination> {
    let Host::Name(name) = repository_host(url)? else { return None };
    let (scheme, rest) = url.split_once("://")?;
    let usual = match scheme {
        "https" => "443",
        "http" => "80",
        _ => return None,
    };
    let authority = rest.split('/').next().unwrap_or_default();
    let port = authority.rsplit_once(':').map_or(usual, |(_, port)| port);
    format!("{name}:{port}").parse().ok()
}

/// Returns whether git reaches an address by ssh.
fn repository_uses_ssh(url: &str) -> bool {
    url.starts_with("ssh://") || !url.contains("://")
}

/// Returns whether a repository at a path is readable by all users of the machine, and really in the folder of the
/// project's repository; `None` if there is none.
fn is_open(path: &Path, main: &Path) -> Option<bool> {
    let folder = |main: &Path| main.parent().and_then(|folder| folder.canonicalize().ok());
    let above = folder(main)?;
    let allows = |path: &Path, mode: u32| path.metadata().is_ok_and(|found| found.permissions().mode() & mode == mode);
    // The endings that git tries, in its order.
    let found = ["/.git", "", ".git/.git", ".git"].into_iter().find_map(|ending| {
        let mut candidate = path.as_os_str().to_owned();
        candidate.push(ending);
        PathBuf::from(candidate).canonicalize().ok().filter(|found| found.join("HEAD").is_file())
    });
    found.map(|found| {
        found.starts_with(&above)
            && [&found, &found.join("objects")].into_iter().all(|folder| allows(folder, 0o005))
            && allows(&found.join("HEAD"), 0o004)
    })
}

/// Returns the reason for which a repository cannot be used.
fn reason_of(error: &RepositoryError) -> SkipReason {
    let RepositoryError::Failed { reason, retry } = error else { return SkipReason::Failed };
    match reason.code {
        // Another attempt would not help: the address is refused.
        ReasonCode::RepositoryUnreachable if !retry => SkipReason::AddressRefused,
        ReasonCode::RepositoryNotFound | ReasonCode::CredentialRefused | ReasonCode::PermissionMissing => {
            SkipReason::NotReadable
        }
        ReasonCode::RepositoryUnreachable => SkipReason::Unreachable,
        _ => SkipReason::Failed,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::net::IpAddr;
    use std::sync::Arc;

    use async_trait::async_trait;
    use journeyman_core::code_host::CodeHost;
    use journeyman_core::finding::Finding;
    use journeyman_core::ports::{Forge, ForgeError, StoreError};
    use journeyman_core::project::SecretChanges;
    use journeyman_core::run::Reason;

    use super::*;
    use crate::fixtures::fixture;

    /// Code hosts of which only the addresses are known.
    struct Named;

    #[async_trait]
    impl Forges for Named {
        async fn of(&self, _: &Project) -> Result<Arc<dyn Forge>, ForgeError> {
            Err(ForgeError::NotFound("there is none".to_owned()))
        }

        async fn prepare(&self, _: &Project) -> Result<(), ForgeError> {
            Ok(())
        }

        async fn check(&self, _: &Project, _: &SecretChanges) -> Result<Vec<Finding>, Reason> {
            Ok(Vec::new())
        }

        async fn code_host(&self, _: &Project) -> Result<Option<CodeHost>, ForgeError> {
            Ok(None)
        }

        async fn reach(&self, _: &str) -> Result<Reach, StoreError> {
            Ok(Reach::Private)
        }

        async fn addresses(&self, name: &str) -> Vec<IpAddr> {
            match name {
                "public.example" | "host.example" | "other.example" => vec![[93, 184, 216, 34].into()],
                "inside.example" => vec![[10, 0, 0, 1].into()],
                "links.example" => vec![[169, 254, 7, 7].into()],
                _ => Vec::new(),
            }
        }
    }

    #[tokio::test]
    async fn an_agent_gets_no_credential_and_reaches_only_what_its_sandbox_does() {
        let mut fixture = fixture("true").await;
        fixture.project.repository = "https://host.example/acme/shop.git".to_owned();
        let entries = ["public.example:443", "inside.example:443", "links.example:443"].map(str::to_owned);
        let egress = Allowlist::read(&entries).unwrap();
        let credential = Credential { username: "bot".to_owned(), password: "s3cret".to_owned() };
        let sources = Sources { forges: &Named, egress: &egress, credential: Some(credential), ..fixture.sources() };
        let main = sources.main().unwrap();
        for (url, people, others, agent) in [
            ("../lib.git", "with a credential", "without", "without"),
            ("git@host.example:acme/lib.git", "with a credential", "without", "without"),
            ("https://public.example/lib.git", "without", "without", "without"),
            ("https://public.example:8443/lib.git", "without", "without", "refused"),
            ("http://public.example/lib.git", "without", "without", "refused"),
            ("git://public.example/lib.git", "without", "without", "refused"),
            ("https://inside.example/lib.git", "without", "without", "refused"),
            ("https://other.example/secret", "without", "without", "refused"),
            ("https://93.184.216.34/lib.git", "without", "without", "refused"),
            ("https://links.example/lib.git", "refused", "refused", "refused"),
            ("https://169.254.169.254/lib.git", "refused", "refused", "refused"),
        ] {
            let located = main.locate(main.url(), url).unwrap();
            for (named_by, expected) in [(NamedBy::People, people), (NamedBy::Others, others), (NamedBy::Agent, agent)]
            {
                let found = sources.remote(&located, named_by).await.unwrap();
                // The rule for the host of the project's repository extends to no other host.
                let is_same_server = url.starts_with("../") || url.contains("@host.example");
                let reach = if is_same_server { Reach::Private } else { Reach::Public };
                assert!(found.as_ref().is_err() || found.as_ref().unwrap().reach == reach, "{url}: {found:?}");
                let found = match found {
                    Ok(Remote { credential: Some(_), .. }) => "with a credential",
                    Ok(_) => "without",
                    Err(SkipReason::AddressRefused) => "refused",
                    Err(reason) => panic!("{url}: {reason:?}"),
                };
                assert_eq!(found, expected, "{url}, named by {named_by:?}");
            }
        }
    }

    #[tokio::test]
    async fn the_key_for_ssh_is_not_used_for_an_agent() {
        let mut fixture = fixture("true").await;
        fixture.project.repository = "git@host.example:acme/shop.git".to_owned();
        let sources = Sources { forges: &Named, ..fixture.sources() };
        let main = sources.main().unwrap();
        let located = main.locate(main.url(), "../lib.git").unwrap();
        assert!(sources.remote(&located, NamedBy::People).await.unwrap().is_ok());
        assert_eq!(sources.remote(&located, NamedBy::Agent).await.unwrap(), Err(SkipReason::AddressRefused));
    }

    #[test]
    fn another_project_is_read_only_if_everyone_may_read_it() {
        let ids = |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect::<Vec<ProjectId>>();
        let (shop, lib) = ("shop".parse().unwrap(), "lib".parse().unwrap());
        for (limited, expected) in [
            (vec![], true),
            (vec![ids(&["shop", "lib"]), ids(&["lib"]), ids(&["other"])], true),
            (vec![ids(&["shop", "lib"]), ids(&["shop", "other"])], false),
        ] {
            assert_eq!(all_see(limited.iter().map(Vec::as_slice), &shop, &lib), expected, "{limited:?}");
        }
    }

    #[test]
    fn a_path_must_be_readable_by_everyone_and_below_the_folder_of_the_repository() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let set = |name: &str, mode| fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
        for name in ["git/main.git", "git/lib.git", "git/tree/.git", "other/lib.git"] {
            fs::create_dir_all(path(name).join("objects")).unwrap();
            fs::write(path(name).join("HEAD"), "x").unwrap();
            for folder in ["", "objects"] {
                set(&format!("{name}/{folder}"), 0o755);
            }
            set(&format!("{name}/HEAD"), 0o644);
        }
        std::os::unix::fs::symlink(path("other/lib.git"), path("git/link.git")).unwrap();
        let main = path("git/main.git");
        for (name, expected) in [
            ("git/lib.git", Some(true)),
            ("git/lib", Some(true)),
            ("git/tree", Some(true)),
            ("git/none", None),
            ("other/lib.git", Some(false)),
            ("git/link.git", Some(false)),
        ] {
            assert_eq!(is_open(&path(name), &main), expected, "{name}");
        }
        for (name, mode) in [("git/lib.git", 0o750), ("git/lib.git/objects", 0o700), ("git/lib.git/HEAD", 0o640)] {
            let before = path(name).metadata().unwrap().permissions();
            set(name, mode);
            assert_eq!(is_open(&path("git/lib.git"), &main), Some(false), "{name}");
            fs::set_permissions(path(name), before).unwrap();
        }
    }
}
