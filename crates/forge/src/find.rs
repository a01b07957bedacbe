//! Finds the code host of a project, and keeps one client for each credential.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use journeyman_core::code_host::{Access, CodeHost, CodeHostId, DefinedIn, HostKind, HostSecrets};
use journeyman_core::ids::ProjectId;
use journeyman_core::ports::{CodeHostStore, Forge, ForgeError, ProjectStore, Reach, StoreError};
use journeyman_core::project::{CODE_HOST_TOKEN, CodeHostKind, Host, Project, repository_host};
use journeyman_core::secret::SecretValue;
use journeyman_core::time::Clock;
use journeyman_net::{Outbound, reach_of_entered};
use sha2::{Digest, Sha256};

use crate::bitbucket::Bitbucket;
use crate::bitbucket_data_center::BitbucketDataCenter;
use crate::gitea::Gitea;
use crate::github::{self, Github};
use crate::gitlab::Gitlab;
use crate::hosted::{Api, HostedRepository, Known};
use crate::http::{Http, Throttle};
use crate::identity::Identity;
use crate::plain::PlainRemote;

/// Finds the code hosts of projects. Cheap to clone.
#[derive(Clone)]
pub struct Finder(Arc<Inner>);

struct Inner {
    secrets: Arc<dyn ProjectStore>,
    hosts: Arc<dyn CodeHostStore>,
    configured: Vec<(CodeHost, HostSecrets)>,
    outbound: Outbound,
    clock: Arc<dyn Clock>,
    clients: Mutex<HashMap<(CodeHostId, Option<ProjectId>), HostClient>>,
}

/// A client of a code host with one credential.
#[derive(Clone)]
struct HostClient {
    /// The hash of the settings and the credential. If it changes, the client is made again.
    fingerprint: [u8; 32],
    api: Arc<dyn Api>,
    known: Arc<Known>,
}

/// A code host with its secrets.
#[derive(Debug, Clone)]
pub struct HostWithSecrets {
    /// The code host.
    pub host: CodeHost,
    /// The secrets of the code host.
    pub secrets: HostSecrets,
}

impl Finder {
    pub(crate) fn new(
        secrets: Arc<dyn ProjectStore>,
        hosts: Arc<dyn CodeHostStore>,
        configured: Vec<(CodeHost, HostSecrets)>,
        outbound: Outbound,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self(Arc::new(Inner { secrets, hosts, configured, outbound, clock, clients: Mutex::default() }))
    }

    /// Returns the settings for connections to code hosts.
    pub(crate) fn outbound(&self) -> &Outbound {
        &self.0.outbound
    }

    /// Returns the addresses that the host of a URL may have if an administrator has entered the URL. Public services have
    /// public addresses, also if they are configured.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) async fn reach(&self, url: &str) -> Result<Reach, StoreError> {
        let Some(host) = repository_host(url) else { return Ok(Reach::Public) };
        let is_configured = match &host {
            Host::Name(name) if HostKind::of_public_host(name).is_none() => {
                self.hosts().await?.iter().any(|known| repository_host(&known.url).as_ref() == Some(&host))
            }
            Host::Name(_) | Host::Address(_) => false,
        };
        Ok(reach_of_entered(&host, is_configured))
    }

    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.0.clock)
    }

    pub(crate) fn projects(&self) -> Arc<dyn ProjectStore> {
        Arc::clone(&self.0.secrets)
    }

    /// Returns the code hosts of the configuration and the store, by ID. A host of the configuration hides one of the
    /// store with the same ID or address.
    ///
    /// # Errors
    /// The store failed.
    pub async fn hosts(&self) -> Result<Vec<CodeHost>, StoreError> {
        let mut hosts: Vec<CodeHost> = self.0.configured.iter().map(|(host, _)| host.clone()).collect();
        let stored = self.0.hosts.resources(None).await?;
        let is_hidden =
            |host: &CodeHost| self.0.configured.iter().any(|(own, _)| own.id == host.id || own.name() == host.name());
        hosts.extend(stored.into_iter().filter(|host| !is_hidden(host)));
        hosts.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(hosts)
    }

    /// Returns a code host of the configuration or the store with its secrets.
    ///
    /// # Errors
    /// The store failed, or a secret cannot be decrypted.
    pub async fn host(&self, id: &CodeHostId) -> Result<Option<HostWithSecrets>, StoreError> {
        if let Some((host, secrets)) = self.0.configured.iter().find(|(host, _)| host.id == *id) {
            return Ok(Some(HostWithSecrets { host: host.clone(), secrets: secrets.clone() }));
        }
        let Some(host) = self.hosts().await?.into_iter().find(|host| host.id == *id) else { return Ok(None) };
        let secrets = self.0.hosts.code_host_secrets(id.clone()).await?;
        Ok(Some(HostWithSecrets { host, secrets }))
    }

    /// Returns the code host of a project's repository; `None` if the repository is on no known one.
    ///
    /// # Errors
    /// The project names a code host that does not exist or does not have the repository, or the store failed.
    pub async fn host_of(&self, project: &Project) -> Result<Option<CodeHost>, ForgeError> {
        let settings = &project.settings.code_host;
        if settings.kind == Some(CodeHostKind::Plain) {
            return Ok(None);
        }
        let hosts = self.hosts().await.map_err(|error| ForgeError::Unclear(error.to_string()))?;
        if let Some(id) = &settings.host {
            let named = hosts.into_iter().find(|host| host.id == *id);
            let named = named.ok_or_else(|| ForgeError::Refused(format!("there is no code host {id}")))?;
            if named.path_of(&project.repository).is_none() {
                let text = format!("the repository {} is not on the code host {id}, {}", project.repository, named.url);
                return Err(ForgeError::Refused(text));
            }
            return Ok(Some(named));
        }
        let kind = settings.kind.and_then(CodeHostKind::host_kind);
        let is_of_kind = |host: &CodeHost| kind.is_none_or(|kind| host.kind == kind);
        let known = hosts.into_iter().find(|host| host.path_of(&project.repository).is_some() && is_of_kind(host));
        Ok(known.or_else(|| CodeHost::of_repository(&project.repository, kind)))
    }

    /// Returns the repository of a project. `token` is a change of the project's token that is not stored yet.
    pub(crate) async fn of(
        &self,
        project: &Project,
        url: String,
        token: Option<Option<SecretValue>>,
    ) -> Result<Arc<dyn Forge>, ForgeError> {
        let own = match token {
            Some(changed) => changed,
            None => {
                let secrets = self.0.secrets.secrets(project.id.clone()).await;
                secrets.map_err(|error| ForgeError::Unclear(error.to_string()))?.remove(CODE_HOST_TOKEN)
            }
        };
        let username = project.settings.code_host.username.clone();
        let host = self.host_of(project).await?;
        let reach = self.reach(&url).await.map_err(|error| ForgeError::Unclear(error.to_string()))?;
        let Some((host, path)) = host.and_then(|host| host.path_of(&url).map(|path| (host, path))) else {
            return Ok(Arc::new(PlainRemote::new(url, reach, username, own)));
        };
        let (key, access, secrets) = match own {
            Some(token) => {
                let secrets = HostSecrets { token: Some(token), ..HostSecrets::default() };
                ((host.id.clone(), Some(project.id.clone())), Some(Access::Token { username }), secrets)
            }
            None => {
                let found = self.host(&host.id).await.map_err(|error| ForgeError::Unclear(error.to_string()))?;
                let secrets = found.map(|found| found.secrets).unwrap_or_default();
                ((host.id.clone(), None), host.access.clone(), secrets)
            }
        };
        let Some(access) = access else {
            // A public repository can be read without a credential, or over ssh.
            return Ok(Arc::new(PlainRemote::without_credential(url, reach, &host)));
        };
        let HostClient { api, known, .. } = self.client(key, &host, &access, &secrets)?;
        // The credential is for HTTP.
        let clone_url = if url.starts_with("http") { url } else { host.clone_url(&path) };
        let identity = Identity::new(project, Arc::clone(&self.0.secrets));
        Ok(Arc::new(HostedRepository { host, path, clone_url, reach, api, known, identity }))
    }

    fn client(
        &self,
        key: (CodeHostId, Option<ProjectId>),
        host: &CodeHost,
        access: &Access,
        secrets: &HostSecrets,
    ) -> Result<HostClient, ForgeError> {
        let mut hash = Sha256::new();
        for text in [format!("{:?}", host), format!("{access:?}")] {
            hash.update(text.as_bytes());
        }
        for secret in [&secrets.token, &secrets.private_key] {
            hash.update(secret.as_ref().map_or(b"".as_slice(), |secret| secret.0.as_bytes()));
            hash.update([0]);
        }
        let fingerprint: [u8; 32] = hash.finalize().into();
        let mut clients = self.0.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&key).filter(|client| client.fingerprint == fingerprint) {
            return Ok(client.clone());
        }
        let api = connect(host, access, secrets, &self.0.outbound, Arc::clone(&self.0.clock))?;
        let client = HostClient { fingerprint, api, known: Arc::default() };
        clients.insert(key, client.clone());
        Ok(client)
    }
}

/// Creates the client of a code host's HTTP interface, without a credential.
pub(crate) fn client_of(host: &CodeHost, outbound: &Outbound, clock: Arc<dyn Clock>) -> Http {
    let api = host.api();
    let policy = match repository_host(&api) {
        Some(entered) => {
            let is_configured = host.defined_in != DefinedIn::Project;
            outbound.policy(reach_of_entered(&entered, is_configured), &entered)
        }
        None => outbound.public(),
    };
    // The rule for the code host extends to no other server: the operator has not chosen the target of a redirect.
    let (client, others) = (outbound.client(policy), outbound.client(outbound.public()));
    let headers = match host.kind {
        HostKind::Github => github::HEADERS.to_vec(),
        _ => Vec::new(),
    };
    Http { client, others, clock, throttle: Arc::new(Throttle::new(host.kind)), base: api, headers }
}

/// Creates the client of a code host.
pub(crate) fn connect(
    host: &CodeHost,
    access: &Access,
    secrets: &HostSecrets,
    outbound: &Outbound,
    clock: Arc<dyn Clock>,
) -> Result<Arc<dyn Api>, ForgeError> {
    let http = client_of(host, outbound, clock);
    let token = || {
        let missing = || ForgeError::Credential(format!("the code host {} has no token", host.id));
        secrets.token.clone().map(|token| SecretValue(token.0.trim().to_owned())).ok_or_else(missing)
    };
    Ok(match host.kind {
        HostKind::Github => {
            let access = match access {
                Access::App { app_id, slug } => {
                    let missing = || ForgeError::Credential(format!("the code host {} has no private key", host.id));
                    let key = secrets.private_key.as_ref().ok_or_else(missing)?;
                    github::Access::App { app: github::App::new(*app_id, key)?, slug: slug.clone() }
                }
                Access::Token { .. } => github::Access::Token(token()?),
            };
            Arc::new(Github { http, access })
        }
        HostKind::Gitlab => Arc::new(Gitlab { http, token: token()? }),
        HostKind::Gitea | HostKind::Forgejo => {
            Arc::new(Gitea { http, token: token()?, is_forgejo: host.kind == HostKind::Forgejo })
        }
        HostKind::Bitbucket => Arc::new(Bitbucket { http, token: token()?, email: username(access) }),
        HostKind::BitbucketDataCenter => {
            Arc::new(BitbucketDataCenter { http, token: token()?, username: username(access) })
        }
    })
}

fn username(access: &Access) -> Option<String> {
    match access {
        Access::Token { username } => username.clone(),
        Access::App { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use journeyman_core::time::Timestamp;
    use journeyman_store::SqliteStore;
    use journeyman_testkit::World;
    use journeyman_testkit::code_host::{CodeHostServer, Product, State, Token};

    use super::*;

    #[tokio::test]
    async fn a_changed_token_makes_the_service_another_user() {
        for (product, kind) in [(Product::Gitea, HostKind::Gitea), (Product::Gitlab, HostKind::Gitlab)] {
            let server = CodeHostServer::start(product).await;
            let url = server.repository("acme/shop").await;
            let other = server.state().add_user("other-bot", "write");
            let token = Token { user: other, can_write: true, ..Token::default() };
            server.state().tokens.insert("tok_other".to_owned(), token);
            let host = CodeHost::of_address("host".parse().unwrap(), kind, server.url.clone());
            let store = Arc::new(SqliteStore::temporary(World::new()).unwrap());
            let configured = vec![(host, HostSecrets::default())];
            let finder = Finder::new(store.clone(), store.clone(), configured, Outbound::default(), World::new());
            let project = Project::new("shop".parse().unwrap(), url.clone(), Timestamp::default());
            for (token, expected) in [
                (State::TOKEN, State::BOT),
                (State::TOKEN, State::BOT),
                ("tok_other", other),
                (State::TOKEN, State::BOT),
            ] {
                let token = Some(Some(SecretValue(token.to_owned())));
                let forge = finder.of(&project, url.clone(), token).await.unwrap();
                let me = forge.discussion().unwrap().me().await.unwrap();
                assert_eq!(me.id, expected.to_string(), "{product:?}");
            }
            // The user is read again only after a change.
            let is_it = |call: &&journeyman_testkit::code_host::ApiRequest| call.target.ends_with("/user");
            assert_eq!(server.requests().iter().filter(is_it).count(), 3, "{product:?}");
        }
    }
}
