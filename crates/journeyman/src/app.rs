//! Assembles the service: opens the adapters, and connects them to the use cases and the engine.

mod agents;
mod ballast;
pub(crate) mod leftovers;
mod sandbox;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use axum::Router;
use journeyman_app::{HostEffects, Limiter, Parts, UseCases};
use journeyman_blobs::{Bucket, Folder};
use journeyman_core::engine::Engine;
use journeyman_core::ids::WorkerId;
use journeyman_core::ports::{
    Blobs, CodeHostStore, ComparisonStore, Containing, Forges, Gateway, HostedObjects, InstalledAgents, ModelMeter,
    ProjectStore, PullStore, Seal, SignInProvider, Store, TokenVerifier, UserStore, WebhookSender,
};
use journeyman_core::time::{Clock, IdGen};
use journeyman_forge::{CodeHosts, write_hooks};
use journeyman_gateway::{Models, SandboxGateway};
use journeyman_git::{Git, Runner};
use journeyman_http::Services;
use journeyman_identity::oidc::Oidc;
use journeyman_identity::password::Passwords;
use journeyman_identity::token::Tokens;
use journeyman_lfs::{Keeper, Lfs, LfsHost};
use journeyman_net::{Outbound, Policy, Proxies, SystemResolver};
use journeyman_repository::Mirrors;
use journeyman_repository::base_comparison::MirrorComparisons;
use journeyman_repository::diff::MirrorDiffs;
use journeyman_repository::signing::{Signer, SignerError};
use journeyman_store::{MasterKey, MasterKeys, PostgresStore, Schema, Sealer, SqliteStore};
use journeyman_worker::{ContainmentCheck, Host, Resources};
use tokio_util::sync::CancellationToken;

use crate::config::{BlobLocation, Database, Role, Settings};
use crate::connections::Registry;
use crate::duties::{Duties, Repositories};
use crate::folders::make_private_dir;
use crate::system::Machine;

use self::agents::AgentFolders;
pub(crate) use self::sandbox::{SandboxUser, given_up, open_to_sandboxes, sandbox};

/// The number of attempts to lock a data directory, which take five seconds.
const LOCK_ATTEMPTS: u32 = 100;

/// The pause between two attempts to lock a data directory.
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// The parts of a machine that runs jobs.
struct WorkerParts {
    host: Arc<Host>,
    gateway: Arc<SandboxGateway>,
}

/// The assembled service.
pub(crate) struct App {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) engine: Engine,
    pub(crate) hosts: CodeHosts,
    pub(crate) cases: UseCases,
    pub(crate) duties: Duties,
    diffs: Arc<MirrorDiffs>,
    lfs: Arc<LfsHost>,
    blobs: Arc<dyn Blobs>,
    /// The parts for running jobs; `None` on a machine without the worker role.
    worker: Option<WorkerParts>,
    provider: Option<Arc<dyn SignInProvider>>,
    seal: Arc<dyn Seal>,
    settings: Settings,
    public_url: String,
}

/// Opens the store, and creates a missing SQLite database. A running service may have the store open at the same time.
///
/// # Errors
/// Returns an error if the data directory, the master key or the database cannot be used.
pub(crate) async fn open_store(settings: &Settings) -> anyhow::Result<Arc<dyn Store>> {
    make_private_dir(&settings.data_dir)?;
    let (keys, ids) = (master_keys(settings)?, Arc::new(Machine));
    match &settings.database {
        Database::Sqlite(path) => {
            // SQLite creates its other files with the mode of this one.
            let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path);
            file.with_context(|| format!("the database {} cannot be opened", path.display()))?;
            Ok(Arc::new(SqliteStore::open(path, keys, ids)?))
        }
        Database::Postgres(url) => {
            let schema = if settings.auto_migrate { Schema::Migrate } else { Schema::Check };
            let opened = PostgresStore::open(url, settings.database_connections, schema, keys, ids).await;
            Ok(Arc::new(opened.with_context(|| settings.database.to_string())?))
        }
    }
}

/// Ensures that everything that the previous process wrote to the database's log is on disk, and that the database can be
/// opened if the disk is full.
///
/// # Errors
/// Returns an error if the log cannot be read or written.
pub(crate) fn recover_store(settings: &Settings) -> anyhow::Result<()> {
    match &settings.database {
        Database::Sqlite(path) => {
            ballast::release(path);
            SqliteStore::recover(path)?;
            ballast::keep(path);
            Ok(())
        }
        // A PostgreSQL server recovers its log without help.
        Database::Postgres(_) => Ok(()),
    }
}

/// Opens the blob store, for files that outlive this machine.
pub(crate) fn blobs(location: &BlobLocation) -> anyhow::Result<Arc<dyn Blobs>> {
    Ok(match location {
        BlobLocation::Folder { path, shared } => {
            make_private_dir(path)?;
            Arc::new(Folder::new(path.clone(), *shared))
        }
        BlobLocation::Bucket { url, options } => Arc::new(Bucket::open(url, options.0.clone()).context("blob-url")?),
    })
}

/// Returns the git command runner of the service, and writes the files that it needs.
pub(crate) fn git(settings: &Settings) -> anyhow::Result<Git> {
    let dir = &settings.git_dir;
    make_private_dir(dir)?;
    let written = || format!("{} cannot be written", dir.display());
    let askpass = Git::write_askpass(dir).with_context(written)?;
    let git = Git::new(Runner {
        program: settings.git.clone().into(),
        path: settings.path.clone().into(),
        environment: Vec::new(),
        askpass: Some(askpass),
    });
    let git = git.with_outbound(outbound(settings));
    Ok(git.with_own_folders([settings.data_dir.clone(), settings.repositories.clone()]))
}

/// Returns the settings for connections to the servers of repositories.
pub(crate) fn outbound(settings: &Settings) -> Outbound {
    let proxies = settings.proxies.0.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    Outbound {
        resolver: Arc::new(SystemResolver),
        networks: settings.code_host_networks.clone().into(),
        proxies: Arc::new(Proxies::new(proxies)),
    }
}

/// Returns the signer of commits, if the settings name a key.
///
/// # Errors
/// Returns an error if the key cannot sign, or if `ssh-keygen` is missing.
pub(crate) async fn signer(settings: &Settings) -> anyhow::Result<Option<Arc<Signer>>> {
    let Some(signing) = &settings.signing else { return Ok(None) };
    let signer = Signer::open(&git(settings)?, &signing.key_file, &signing.email).await;
    let setting = |error: &SignerError| match error {
        SignerError::Email(_) => "commits-email",
        _ => "commits-sign-key-file",
    };
    signer.map(|signer| Some(Arc::new(signer))).map_err(|error| anyhow!("{}: {error}", setting(&error)))
}

/// Returns the use cases for a command that accesses the database directly.
pub(crate) fn use_cases(settings: &Settings, store: &Arc<dyn Store>) -> anyhow::Result<UseCases> {
    let public_url = settings.public_url(settings.listen);
    let objects = keeper(settings, &blobs(&settings.blobs)?)?;
    let hosts = code_hosts(settings, store, &public_url, Arc::new(objects))?;
    let engine = Engine::new(store.clone(), Arc::new(Machine), Arc::new(Machine));
    let mirrors = Mirrors::new(git(settings)?, settings.data_dir.join("mirrors"));
    cases(settings, store, engine, hosts, Arc::new(mirrors), public_url)
}

/// Returns the sender of webhooks.
fn webhook_sender(settings: &Settings, public_url: &str) -> Arc<dyn WebhookSender> {
    let networks = &settings.webhook_networks;
    Arc::new(journeyman_webhooks::Sender::new(networks, Arc::new(SystemResolver), public_url))
}

/// Returns the verifier of the tokens of OpenID issuers.
fn token_verifier(settings: &Settings) -> Arc<dyn TokenVerifier> {
    Arc::new(Tokens::new(&settings.oidc_networks, Arc::new(SystemResolver)))
}

fn cases(
    settings: &Settings,
    store: &Arc<dyn Store>,
    engine: Engine,
    hosts: CodeHosts,
    mirrors: Arc<Mirrors>,
    public_url: String,
) -> anyhow::Result<UseCases> {
    let webhooks = webhook_sender(settings, &public_url);
    let slack = journeyman_slack::Client::new(&settings.slack_api_url).context("slack-api-url")?;
    Ok(UseCases::new(Parts {
        store: Arc::clone(store),
        engine,
        pulls: Arc::new(hosts.local().clone()),
        code_hosts: Arc::new(hosts.clone()),
        hooks: Arc::new(hosts.finder().clone()),
        comparisons: Arc::new(MirrorComparisons::new(Arc::new(hosts.clone()), mirrors)),
        forges: Arc::new(hosts),
        webhooks,
        tokens: token_verifier(settings),
        slack: Arc::new(slack),
        public_url,
        ids: Arc::new(Machine),
        agents: Arc::new(settings.agents.clone()),
        create_per_hour: settings.create_per_hour,
        message_per_hour: settings.message_per_hour,
    }))
}

/// Returns the keeper of the objects of Git LFS of the built-in code host.
pub(crate) fn keeper(settings: &Settings, blobs: &Arc<dyn Blobs>) -> anyhow::Result<Keeper> {
    let lfs = Lfs::new(git(settings)?, Arc::clone(blobs), Arc::new(Machine)).with_outbound(outbound(settings));
    Ok(Keeper::new(lfs, settings.data_dir.join("scratch")))
}

/// Returns the code hosts of projects.
pub(crate) fn code_hosts(
    settings: &Settings,
    store: &Arc<dyn Store>,
    public_url: &str,
    objects: Arc<dyn HostedObjects>,
) -> anyhow::Result<CodeHosts> {
    let repositories = settings.repositories.clone();
    make_private_dir(&repositories)?;
    let git = git(settings)?;
    let dir = &settings.git_dir;
    let hooks = write_hooks(dir).with_context(|| format!("{} cannot be written", dir.display()))?;
    Ok(CodeHosts::new(journeyman_forge::Parts {
        git,
        repositories,
        hooks,
        public_url: public_url.to_owned(),
        pulls: Arc::clone(store) as Arc<dyn PullStore>,
        comparisons: Arc::clone(store) as Arc<dyn ComparisonStore>,
        users: Arc::clone(store) as Arc<dyn UserStore>,
        secrets: Arc::clone(store) as Arc<dyn ProjectStore>,
        hosts: Arc::clone(store) as Arc<dyn CodeHostStore>,
        configured: settings.code_hosts.clone(),
        outbound: outbound(settings),
        objects,
        clock: Arc::new(Machine),
    }))
}

/// Assembles the service. `public_url` is the URL at which clients reach it.
///
/// # Errors
/// Returns the errors of [`open_store`], and an error if a folder or a setting cannot be used.
pub(crate) async fn build(settings: Settings, public_url: String) -> anyhow::Result<App> {
    let store = open_store(&settings).await?;
    let engine = Engine::new(store.clone(), Arc::new(Machine), Arc::new(Machine));
    let engine = match settings.database {
        Database::Sqlite(_) => engine.for_one_machine(),
        Database::Postgres(_) => engine,
    };
    let blobs = blobs(&settings.blobs)?;
    let objects = keeper(&settings, &blobs)?;
    let hosts = code_hosts(&settings, &store, &public_url, Arc::new(objects.clone()))?;
    let forges = Arc::new(hosts.clone());
    let is_worker = settings.roles.contains(&Role::Worker);
    let signer = if is_worker { signer(&settings).await? } else { None };
    let mirrors = Mirrors::new(git(&settings)?, settings.data_dir.join("mirrors")).signing(signer);
    let mirrors = Arc::new(mirrors);
    let cases = cases(&settings, &store, engine.clone(), hosts.clone(), Arc::clone(&mirrors), public_url.clone())?;
    let scratch = settings.data_dir.join("scratch");
    let repositories = Repositories { mirrors: Arc::clone(&mirrors), host: hosts.local().clone(), objects };
    let diffs = MirrorDiffs::new(forges.clone(), Arc::clone(&blobs), Arc::clone(&mirrors), &settings.data_dir);
    let machine = (Arc::new(Machine) as Arc<dyn Clock>, Arc::new(Machine) as Arc<dyn IdGen>);
    let folders = journeyman_lfs::Folders { scratch, repositories: settings.repositories.clone() };
    let lfs = LfsHost::new(Arc::clone(&blobs), folders, public_url.clone(), machine);
    let worker = if is_worker {
        Some(worker_parts(&settings, &engine, &store, forges, Arc::clone(&blobs), mirrors, &public_url)?)
    } else {
        None
    };
    let provider = settings.oidc.clone().map(|settings| Oidc::new(settings, Arc::new(Machine))).transpose()?;
    let provider = provider.map(|provider| Arc::new(provider) as Arc<dyn SignInProvider>);
    let seal = Arc::new(Sealer::new(master_keys(&settings)?, Arc::new(Machine)));
    let host = worker.as_ref().map(|worker: &WorkerParts| Arc::clone(&worker.host));
    let diffs = Arc::new(diffs);
    let effects = HostEffects::new(cases.clone(), diffs.clone());
    let duties = Duties::new(Arc::clone(&store), cases.clone(), effects, repositories, host, &settings);
    Ok(App {
        store,
        engine,
        hosts,
        cases,
        duties,
        diffs,
        lfs: Arc::new(lfs),
        blobs,
        worker,
        provider,
        seal,
        settings,
        public_url,
    })
}

/// Returns the variables of every program in a sandbox. Agents do not inherit the environment of the service. They get
/// its search path, and a locale that prints UTF-8.
pub(crate) fn environment_of_sandboxes(settings: &Settings) -> BTreeMap<String, String> {
    [("PATH".to_owned(), settings.path.clone()), ("LANG".to_owned(), "C.UTF-8".to_owned())].into()
}

fn worker_parts(
    settings: &Settings,
    engine: &Engine,
    store: &Arc<dyn Store>,
    forges: Arc<dyn Forges>,
    blobs: Arc<dyn Blobs>,
    mirrors: Arc<Mirrors>,
    public_url: &str,
) -> anyhow::Result<WorkerParts> {
    let models = Models::new(settings.models.clone(), store.clone(), Arc::new(Machine));
    let egress = Policy::Public(settings.sandbox.egress_private.clone().into());
    let gateway = Arc::new(SandboxGateway::new(Arc::new(SystemResolver), egress, models));
    let lfs = Lfs::new(git(settings)?, Arc::clone(&blobs), Arc::new(Machine)).with_outbound(outbound(settings));
    let host = Host::new(Resources {
        engine: engine.clone(),
        store: Arc::clone(store),
        forges,
        containment: ContainmentCheck::new(sandbox(settings, SandboxUser::Service)?, given_up(settings)),
        gateway: Arc::clone(&gateway) as Arc<dyn Gateway>,
        blobs,
        lfs: Arc::new(lfs),
        agents: settings.agents.clone(),
        ids: Arc::new(Machine),
        mirrors,
        public_url: public_url.to_owned(),
        data: settings.data_dir.clone(),
        environment: environment_of_sandboxes(settings),
        idle_agent_limits: settings.idle_agents,
        disk_reserve: settings.disk_reserve,
    });
    Ok(WorkerParts { host: Arc::new(host), gateway })
}

impl App {
    /// Returns the resources for running jobs; `None` on a machine without the worker role.
    pub(crate) fn host(&self) -> Option<Arc<Host>> {
        self.worker.as_ref().map(|worker| Arc::clone(&worker.host))
    }

    /// Returns the agents that are installed on this machine.
    pub(crate) fn installed(&self) -> Arc<dyn InstalledAgents> {
        Arc::new(AgentFolders::of(&self.settings))
    }

    /// Returns the HTTP router: the whole interface on a machine with the API role, otherwise only the health checks.
    pub(crate) fn router(&self, shutdown: CancellationToken, connections: Arc<Registry>) -> Router {
        let local = Arc::new(self.hosts.local().clone());
        let services = Services {
            cases: self.cases.clone(),
            engine: self.engine.clone(),
            store: self.store.clone(),
            ids: Arc::new(Machine),
            blobs: Arc::clone(&self.blobs),
            diffs: self.diffs.clone(),
            git: local.clone(),
            lfs: self.lfs.clone(),
            pulls: local,
            passwords: Arc::new(Passwords::new(Arc::new(Machine))),
            provider: self.provider.clone(),
            seal: Arc::clone(&self.seal),
            clock: Arc::new(Machine),
            installed: self.worker.as_ref().map(|_| self.installed()),
            machine: self.host().map(|host| host as Arc<dyn Containing>),
            models: self.worker.as_ref().map(|worker| worker.gateway.clone() as Arc<dyn ModelMeter>),
            connections: Some(connections),
            duties: Some(Arc::new(self.duties.clone())),
            limiter: Limiter::new(self.settings.limits),
        };
        let settings = journeyman_http::Settings {
            public_url: self.public_url.clone(),
            trusted_proxies: self.settings.trusted_proxies.clone(),
            create_per_hour: self.settings.create_per_hour,
            message_per_hour: self.settings.message_per_hour,
            agents: Arc::new(self.settings.agents.clone()),
            providers: self.settings.models.infos(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            second_factor: self.settings.second_factor,
            facts: facts(&self.settings),
        };
        if self.settings.roles.contains(&Role::Api) {
            journeyman_http::router(services, settings, shutdown)
        } else {
            journeyman_http::health_router(services, settings, shutdown)
        }
    }

    /// Returns whether there is an API key that was not revoked.
    pub(crate) async fn has_keys(&self) -> anyhow::Result<bool> {
        Ok(self.store.keys().await?.iter().any(|key| key.revoked_at.is_none()))
    }
}

/// Returns the storage locations and limits that the dashboard shows.
fn facts(settings: &Settings) -> Vec<(String, String)> {
    let blobs = match &settings.blobs {
        BlobLocation::Folder { path, .. } => path.display().to_string(),
        BlobLocation::Bucket { url, .. } => url.clone(),
    };
    let kept = |time: Option<std::time::Duration>| {
        time.map_or_else(|| "forever".to_owned(), |time| format!("{} days", time.as_secs().div_ceil(86_400)))
    };
    let facts = [
        ("Database", settings.database.to_string()),
        ("Repositories", settings.repositories.display().to_string()),
        ("Sessions and commits", blobs),
        ("Workspaces", settings.data_dir.display().to_string()),
        ("Concurrent runs on a worker", settings.workers.to_string()),
        ("Transcripts are kept", kept(settings.retention.transcripts)),
        ("Jobs are kept", kept(settings.retention.jobs)),
        ("The audit log is kept", kept(settings.retention.audit)),
    ];
    facts.map(|(name, value)| (name.to_owned(), value)).into()
}

/// Reads the worker's ID from the data directory, or generates it. The ID is stored next to the workspaces, because jobs
/// prefer the worker that has their workspace.
pub(crate) fn worker_id(settings: &Settings) -> anyhow::Result<WorkerId> {
    let path = settings.data_dir.join("worker.id");
    match std::fs::read_to_string(&path) {
        // An earlier version did not sync the file, so a power failure could leave it empty.
        Ok(text) if !text.trim().is_empty() => {
            text.trim().parse().with_context(|| format!("{} does not contain a worker ID", path.display()))
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("{} cannot be read", path.display()))
        }
        _ => {
            let id = WorkerId::from_uuid(Machine.uuid(Machine.now()));
            write_worker_id(&path, &id).with_context(|| format!("{} cannot be written", path.display()))?;
            Ok(id)
        }
    }
}

/// Writes the file atomically: if the service is killed meanwhile, it can still start again.
fn write_worker_id(path: &Path, id: &WorkerId) -> io::Result<()> {
    let draft = path.with_extension(format!("{}.draft", std::process::id()));
    let mut file = File::create(&draft)?;
    writeln!(file, "{id}")?;
    file.sync_all()?;
    std::fs::rename(&draft, path)?;
    sync_folder_of(path)
}

/// Syncs the folder that contains a file, so that the file's name survives a power failure.
fn sync_folder_of(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// Locks a data directory until the returned file is closed. Two services in one data directory would remove each
/// other's workspaces. If a service was killed, a process that it was just starting can hold the lock for a moment.
///
/// # Errors
/// Returns an error if another service has locked the directory, or if the lock file cannot be opened.
pub(crate) fn lock(data_dir: &Path) -> anyhow::Result<File> {
    let path = data_dir.join("serve.lock");
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
    let file = file.with_context(|| format!("{} cannot be opened", path.display()))?;
    for attempt in 0..LOCK_ATTEMPTS {
        match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                if attempt == 0 {
                    tracing::info!(path = %path.display(), "another process has the lock; waiting for it up to 5 s");
                }
                std::thread::sleep(LOCK_PAUSE);
            }
            Err(error) => return Err(error).with_context(|| format!("{} cannot be locked", path.display())),
        }
    }
    bail!("another service runs on {}; use a different --data-dir for each service", data_dir.display())
}

/// Returns the text of the key that encrypts secrets, for a backup that includes the key.
pub(crate) fn master_key_text(settings: &Settings) -> anyhow::Result<String> {
    let path = &settings.master_key_file;
    let read = || std::fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()));
    let text = settings.master_key.clone().map_or_else(read, Ok)?;
    Ok(text.trim().to_owned())
}

/// Returns the key that encrypts secrets. Generates it if the default key file does not exist.
pub(crate) fn master_key(settings: &Settings) -> anyhow::Result<MasterKey> {
    if let Some(key) = existing_master_key(settings)? {
        return Ok(key);
    }
    let path = &settings.master_key_file;
    make_master_key(path)?;
    existing_master_key(settings)?.with_context(|| format!("the master key {} was removed", path.display()))
}

/// Returns the key that encrypts secrets, and all keys that decrypt them. Generates the first one if the default key file
/// does not exist.
pub(crate) fn master_keys(settings: &Settings) -> anyhow::Result<MasterKeys> {
    Ok(MasterKeys::new(master_key(settings)?, other_master_keys(settings)?))
}

/// Returns the keys that only decrypt.
pub(crate) fn other_master_keys(settings: &Settings) -> anyhow::Result<Vec<MasterKey>> {
    let variable = "JOURNEYMAN_OTHER_MASTER_KEYS";
    let texts = settings.other_master_keys.iter().flat_map(|texts| texts.split(','));
    let texts = texts.filter(|text| !text.trim().is_empty());
    let given = texts.map(|text| MasterKey::parse(text).context(variable));
    let read = |path: &std::path::PathBuf| {
        let text = std::fs::read_to_string(path);
        let text = text.with_context(|| format!("other-master-key-files: {} cannot be read", path.display()))?;
        private_key(path, &text)
    };
    settings.other_master_key_files.iter().map(read).chain(given).collect()
}

/// Returns the key that encrypts secrets; `None` if the default key file does not exist yet.
pub(crate) fn existing_master_key(settings: &Settings) -> anyhow::Result<Option<MasterKey>> {
    if let Some(key) = &settings.master_key {
        return MasterKey::parse(key).map(Some).context("JOURNEYMAN_MASTER_KEY");
    }
    let path = &settings.master_key_file;
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !settings.master_key_file_given => return Ok(None),
        read => read.with_context(|| format!("the master key {} cannot be read", path.display()))?,
    };
    private_key(path, &text).map(Some)
}

/// Parses the text of a key file, which other users must not be able to read.
fn private_key(path: &Path, text: &str) -> anyhow::Result<MasterKey> {
    let mode = std::fs::metadata(path)?.permissions().mode();
    if mode & 0o077 != 0 {
        bail!("other users can read the master key {0}; run: chmod 600 {0}", path.display());
    }
    MasterKey::parse(text).with_context(|| format!("the master key {} is not valid", path.display()))
}

/// Creates a key file atomically. If another process creates the file at the same time, that file is kept.
fn make_master_key(path: &Path) -> anyhow::Result<()> {
    let mut key = [0; 32];
    Machine.fill(&mut key);
    let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    let draft = path.with_extension(format!("{}.draft", std::process::id()));
    let made = || format!("the master key {} cannot be created", path.display());
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft).with_context(made)?;
    writeln!(file, "{hex}").and_then(|()| file.sync_all()).with_context(made)?;
    // A link fails if the name exists; a rename would replace another process's key.
    let linked = std::fs::hard_link(&draft, path);
    std::fs::remove_file(&draft).with_context(made)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error).with_context(made),
        _ => sync_folder_of(path).with_context(made),
    }
}
