//! The settings with defaults applied.

use std::fmt;
use std::net::SocketAddr;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use ipnet::IpNet;
use journeyman_app::Limits;
use journeyman_core::agent::Agents;
use journeyman_core::code_host::{CodeHost, HostSecrets};
use journeyman_core::ports::Retention;
use journeyman_core::retry::LONGEST_LEASE;
use journeyman_core::user::second_factor::RequiredOf;
use journeyman_gateway::ModelSettings;
use journeyman_identity::oidc::OidcSettings;
use journeyman_repository::signing::DEFAULT_EMAIL;
use journeyman_sandbox::{GUARANTEES, UserRange};
use journeyman_worker::{IdleAgentLimits, Patience};
use url::Url;

use super::connections::{self, ConnectionSettings};
use super::environment::{MachineEnvironment, ProviderOptions, Proxies};
use super::layer::{Layer, LogFormat, Role, SandboxKind};
use super::models::{ModelTables, price_table};
use super::otlp::OtlpSettings;
use super::{agents, limits, oidc, otlp};

/// The settings of a process, with defaults applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) data_dir: PathBuf,
    /// The roles of this process.
    pub(crate) roles: Vec<Role>,
    pub(crate) database: Database,
    /// The maximum number of connections to PostgreSQL.
    pub(crate) database_connections: usize,
    pub(crate) auto_migrate: bool,
    /// The folder of the built-in code host.
    pub(crate) repositories: PathBuf,
    pub(crate) master_key_file: PathBuf,
    /// True if this program was restarted in a scope of the user's systemd.
    pub(crate) is_in_scope: bool,
    /// True if the operator named that file; a named file is never created.
    pub(crate) master_key_file_given: bool,
    /// The master key from the environment, which takes precedence over the file.
    pub(crate) master_key: Option<String>,
    /// The files with further keys that only decrypt.
    pub(crate) other_master_key_files: Vec<PathBuf>,
    /// Further keys from the environment, separated by commas.
    pub(crate) other_master_keys: Option<String>,
    pub(crate) blobs: BlobLocation,
    pub(crate) session_keep: Duration,
    pub(crate) retention: Retention,
    pub(crate) listen: SocketAddr,
    /// The configured public URL without a slash at its end; see [`Settings::public_url`].
    pub(super) public_url: Option<String>,
    pub(crate) trusted_proxies: Vec<IpNet>,
    pub(crate) connections: ConnectionSettings,
    /// The limits of what callers use at the same time.
    pub(crate) limits: Limits,
    pub(crate) workers: usize,
    pub(crate) lease: Duration,
    pub(crate) patience: Patience,
    pub(crate) grace: Duration,
    pub(crate) workspace_idle: Duration,
    /// The free space to keep on the disk, in bytes; `None` for a fraction of the disk.
    pub(crate) disk_reserve: Option<u64>,
    pub(crate) idle_agents: IdleAgentLimits,
    pub(crate) create_per_hour: u32,
    pub(crate) message_per_hour: u32,
    pub(crate) sandbox: SandboxSettings,
    pub(crate) models: ModelSettings,
    /// The code hosts of the configuration file.
    pub(crate) code_hosts: Vec<(CodeHost, HostSecrets)>,
    /// The private networks of servers that projects, repositories and code hosts name.
    pub(crate) code_host_networks: Vec<IpNet>,
    /// The private networks that webhooks may be sent to.
    pub(crate) webhook_networks: Vec<IpNet>,
    /// Private networks with OpenID issuers whose tokens are accepted.
    pub(crate) oidc_networks: Vec<IpNet>,
    /// The URL of Slack's interface, which ends with a slash.
    pub(crate) slack_api_url: String,
    /// The users who must have a second factor to sign in with a password.
    pub(crate) second_factor: RequiredOf,
    /// The OpenID provider for signing in.
    pub(crate) oidc: Option<OidcSettings>,
    pub(crate) git: PathBuf,
    /// The key that signs commits.
    pub(crate) signing: Option<SigningSettings>,
    pub(crate) log: String,
    pub(crate) log_format: LogFormat,
    /// The collector of traces.
    pub(crate) otlp: Option<OtlpSettings>,
    /// The known agents by ID, including the built-in one.
    pub(crate) agents: Agents,
    /// The search path for git, agents and setup commands.
    pub(crate) path: String,
    /// The proxies for git.
    pub(crate) proxies: Proxies,
    /// The folder for the files that git needs.
    pub(crate) git_dir: PathBuf,
    /// The options with which other commands find this installation.
    pub(crate) options: Vec<String>,
}

/// The settings of the sandbox for agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SandboxSettings {
    pub(crate) kind: SandboxKind,
    /// The names of the guarantees that may be missing.
    pub(crate) allow_degraded: Vec<String>,
    /// The additional folders that sandboxed programs may read.
    pub(crate) readable: Vec<PathBuf>,
    pub(crate) users: UserRange,
    /// The private networks that projects may allow sandboxed programs to reach.
    pub(crate) egress_private: Vec<IpNet>,
    pub(crate) bwrap: PathBuf,
    /// The configured socket of the container engine.
    pub(crate) engine: Option<PathBuf>,
    pub(crate) image: Option<String>,
    /// `true` if containers have SELinux labels of their own.
    pub(crate) has_selinux: bool,
    /// The path of this program, which is also the first program in a sandbox.
    pub(crate) program: PathBuf,
}

/// The signatures of commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SigningSettings {
    /// The file with the private key.
    pub(crate) key_file: PathBuf,
    /// The email address of the committer.
    pub(crate) email: String,
}

/// The location of the database. `Debug` and `Display` show no password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Database {
    /// The SQLite file.
    Sqlite(PathBuf),
    /// The URL of a PostgreSQL database.
    Postgres(String),
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "{}", path.display()),
            Self::Postgres(url) => {
                // The host and the name of the database, without credentials and parameters.
                let address = url.rsplit('@').next().unwrap_or_default().split('?').next().unwrap_or_default();
                let address = address.split_once("://").map_or(address, |(_, address)| address);
                write!(f, "postgres://{address}")
            }
        }
    }
}

/// The location of the blob store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BlobLocation {
    /// A folder; `shared` is true if other machines use it too.
    Folder { path: PathBuf, shared: bool },
    /// The URL of a bucket, with the environment variables of its provider.
    Bucket { url: String, options: ProviderOptions },
}

/// The maximum number of connections to PostgreSQL, because more make it slower.
const MAX_DATABASE_CONNECTIONS: usize = 500;

const DAY: Duration = Duration::from_secs(24 * 3600);

const SHORTEST_LEASE: Duration = Duration::from_secs(3);

/// The search path if the environment has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

impl Settings {
    /// Validates the settings and applies defaults. `program` is the path of this program.
    ///
    /// # Errors
    /// A setting is missing or invalid; the error names it.
    pub(super) fn resolve(
        layer: Layer,
        agents: Agents,
        models: &ModelTables,
        machine: MachineEnvironment,
        program: &Path,
    ) -> anyhow::Result<Self> {
        let (oidc, connections) = (oidc::provider(&layer)?, connections::resolve(&layer)?);
        let limits = limits::resolve(&layer)?;
        let otlp = otlp::collector(&layer)?;
        let data_dir = data_dir(layer.data_dir, &machine)?;
        let listen = layer.listen.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 8080)));
        let lease = layer.lease.map_or(Duration::from_secs(30), |span| span.0);
        if lease < SHORTEST_LEASE {
            bail!("lease must be at least 3s: a busy machine needs some time for a heartbeat");
        }
        if lease > LONGEST_LEASE / 2 {
            bail!("lease must be at most 15m: the runs of a machine that has failed wait that long");
        }
        let usual = Patience::default();
        let patience = Patience {
            outage: layer.outage_patience.map_or(usual.outage, |span| span.0),
            refusal: layer.refusal_patience.map_or(usual.refusal, |span| span.0),
        };
        let workers = layer.workers.unwrap_or_else(processors);
        if workers == 0 {
            bail!("workers must be at least 1");
        }
        let roles = layer.role.unwrap_or_else(|| vec![Role::Api, Role::Worker]);
        if roles.is_empty() {
            bail!("role is an empty list; name api, worker, or both, or remove role to have both");
        }
        let database = database(layer.database_url.as_deref(), &data_dir)?;
        let database_connections = layer.database_connections.unwrap_or(10);
        if !(2..=MAX_DATABASE_CONNECTIONS).contains(&database_connections) {
            bail!("database-connections must be from 2 to {MAX_DATABASE_CONNECTIONS}");
        }
        if matches!(database, Database::Sqlite(_)) && !(roles.contains(&Role::Api) && roles.contains(&Role::Worker)) {
            bail!(
                "role: with SQLite, one process must have both roles, because several processes cannot share the file \
                 safely; remove role, or set database-url to a PostgreSQL database"
            );
        }
        if matches!(database, Database::Postgres(_)) && layer.master_key_file.is_none() && machine.master_key.is_none()
        {
            bail!(
                "with PostgreSQL, all machines share the master key, and the service does not create it: create one \
                 with `openssl rand -hex 32`, and set it on each machine as JOURNEYMAN_MASTER_KEY or in the file that \
                 master-key-file names"
            );
        }
        let mut all = agents::bundled()?;
        all.extend(agents);
        let path = machine.path.clone().unwrap_or_else(|| DEFAULT_PATH.to_owned());
        let agents = agents::fill_placeholders(all, &data_dir, program, &path)?;
        Ok(Self {
            roles,
            database,
            database_connections,
            auto_migrate: layer.auto_migrate.unwrap_or(true),
            repositories: layer.repositories.map_or_else(|| Ok(data_dir.join("repositories")), std::path::absolute)?,
            master_key_file_given: layer.master_key_file.is_some(),
            master_key_file: layer.master_key_file.unwrap_or_else(|| data_dir.join("master.key")),
            master_key: machine.master_key,
            other_master_key_files: layer.other_master_key_files.unwrap_or_default(),
            other_master_keys: machine.other_master_keys,
            is_in_scope: machine.is_in_scope,
            second_factor: layer.second_factor.unwrap_or_default().into(),
            blobs: blobs(layer.blob_url, &data_dir, machine.provider)?,
            proxies: machine.proxies,
            git_dir: data_dir.join("git"),
            options: Vec::new(),
            data_dir,
            session_keep: layer.session_keep.map_or(90 * DAY, |span| span.0),
            retention: Retention {
                transcripts: Some(layer.transcript_keep.map_or(180 * DAY, |span| span.0)),
                jobs: layer.job_keep.map(|span| span.0),
                audit: Some(layer.audit_keep.map_or(730 * DAY, |span| span.0)),
            },
            listen,
            public_url: layer.public_url.map(|url| public_url(&url)).transpose()?,
            trusted_proxies: layer.trusted_proxies.unwrap_or_default(),
            connections,
            limits,
            workers,
            lease,
            patience,
            grace: layer.grace.map_or(Duration::from_secs(30), |span| span.0),
            workspace_idle: layer.workspace_idle.map_or(DAY, |span| span.0),
            disk_reserve: layer.disk_reserve.map(|size| size.0),
            idle_agents: IdleAgentLimits {
                agents: layer.warm_agents.unwrap_or(workers),
                time: layer.warm_time.map_or(Duration::from_secs(300), |span| span.0),
            },
            create_per_hour: layer.create_per_hour.unwrap_or(100),
            message_per_hour: layer.message_per_hour.unwrap_or(100),
            sandbox: SandboxSettings {
                kind: layer.sandbox.unwrap_or_default(),
                allow_degraded: guarantees(layer.sandbox_allow_degraded.unwrap_or_default())?,
                readable: readable(layer.sandbox_readable.unwrap_or_default())?,
                users: users(layer.sandbox_users, machine.user)?,
                egress_private: layer.egress_private.unwrap_or_default(),
                engine: layer.container_engine,
                image: layer.container_image,
                has_selinux: layer.container_selinux.unwrap_or(true),
                bwrap: layer.bwrap.unwrap_or_else(|| PathBuf::from("bwrap")),
                program: program.to_owned(),
            },
            models: ModelSettings {
                providers: models.providers(&machine.model_keys.0)?,
                prices: models.prices()?,
                table: price_table(layer.prices_file.as_deref())?,
                silence: layer.model_timeout.map(|span| span.0),
            },
            code_hosts: Vec::new(),
            code_host_networks: layer.code_host_networks.unwrap_or_default(),
            webhook_networks: layer.webhook_networks.unwrap_or_default(),
            oidc_networks: layer.oidc_networks.unwrap_or_default(),
            slack_api_url: slack_api_url(layer.slack_api_url)?,
            oidc,
            git: layer.git.unwrap_or_else(|| PathBuf::from("git")),
            signing: signing(layer.commits_sign_key_file, layer.commits_email)?,
            log: layer.log.unwrap_or_else(|| "info".to_owned()),
            log_format: layer.log_format.unwrap_or_default(),
            otlp,
            agents,
            path,
        })
    }
}

impl Settings {
    /// Replaces the locations and addresses by those of a separate installation in `data_dir`. It uses no data of the
    /// configured one, and listens on a free port of the loopback interface.
    pub(crate) fn move_to(&mut self, data_dir: &Path) {
        self.data_dir = data_dir.to_owned();
        self.roles = vec![Role::Api, Role::Worker];
        self.database = Database::Sqlite(data_dir.join("journeyman.db"));
        self.repositories = data_dir.join("repositories");
        self.git_dir = data_dir.join("git");
        (self.master_key, self.master_key_file) = (None, data_dir.join("master.key"));
        self.master_key_file_given = false;
        (self.other_master_keys, self.other_master_key_files) = (None, Vec::new());
        self.blobs = BlobLocation::Folder { path: data_dir.join("blobs"), shared: false };
        self.listen = SocketAddr::from(([127, 0, 0, 1], 0));
        self.public_url = None;
        self.log = "warn".to_owned();
        self.otlp = None;
    }

    /// Returns whether an option or the configuration file says at which URL clients reach the service.
    pub(crate) const fn has_public_url(&self) -> bool {
        self.public_url.is_some()
    }

    /// Returns whether the configured public URL is https.
    pub(crate) fn is_https(&self) -> bool {
        let scheme = self.public_url.as_deref().and_then(|url| url.split_once(':')).map(|(scheme, _)| scheme);
        scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"))
    }

    /// Returns the URL at which clients reach a service that listens on `address`, without a slash at the end.
    pub(crate) fn public_url(&self, address: SocketAddr) -> String {
        match &self.public_url {
            Some(url) => url.clone(),
            // Browsers cannot connect to the unspecified address.
            None if address.ip().is_unspecified() => format!("http://localhost:{}", address.port()),
            None => format!("http://{address}"),
        }
    }
}

fn guarantees(names: Vec<String>) -> anyhow::Result<Vec<String>> {
    match names.iter().find(|name| !GUARANTEES.contains(&name.as_str())) {
        Some(name) => bail!("sandbox-allow-degraded: {name:?} is not one of {}", GUARANTEES.join(", ")),
        None => Ok(names),
    }
}

fn readable(folders: Vec<PathBuf>) -> anyhow::Result<Vec<PathBuf>> {
    // The sandbox shows these folders at the same paths, and has its own files and folders at these paths.
    let own = ["/proc", "/dev", "/tmp", "/workspace", "/home/agent", "/run/journeyman", "/run/journeyman-shim"];
    for folder in &folders {
        // Nothing can be mounted in a folder that is read-only.
        let overlaps = own.iter().any(|path| folder.starts_with(path) || Path::new(path).starts_with(folder));
        if !folder.is_absolute() || overlaps {
            bail!(
                "sandbox-readable: {} must be an absolute path, and neither in nor above a path that the sandbox uses \
                 itself: {}",
                folder.display(),
                own.join(", ")
            );
        }
    }
    Ok(folders)
}

fn users(first: Option<u32>, own: u32) -> anyhow::Result<UserRange> {
    let Some(first) = first else { return Ok(UserRange::default()) };
    let Some(range) = UserRange::beginning_with(first) else {
        bail!(
            "sandbox-users: {first} cannot be the first of {} user IDs: choose one from {} to {}, so that none of them \
             belongs to the system or the user nobody (65534), or is above 2147483647",
            UserRange::COUNT,
            UserRange::LOWEST,
            UserRange::HIGHEST
        );
    };
    if range.has(own) {
        bail!(
            "sandbox-users: the service itself runs as user {own}, which is in the range {} to {}; choose other IDs",
            range.first,
            range.last()
        );
    }
    Ok(range)
}

fn signing(key_file: Option<PathBuf>, email: Option<String>) -> anyhow::Result<Option<SigningSettings>> {
    let Some(key_file) = key_file else {
        if email.is_some() {
            bail!("commits-sign-key-file is missing; commits-email has no effect without it");
        }
        return Ok(None);
    };
    // ssh-keygen may run in another folder.
    let key_file = std::path::absolute(&key_file).context("commits-sign-key-file")?;
    Ok(Some(SigningSettings { key_file, email: email.unwrap_or_else(|| DEFAULT_EMAIL.to_owned()) }))
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(2, NonZero::get)
}

fn data_dir(given: Option<PathBuf>, machine: &MachineEnvironment) -> anyhow::Result<PathBuf> {
    let usual = || {
        // The users of sandboxes cannot access root's home folder.
        if machine.is_root && machine.data_home.is_none() {
            return Some(PathBuf::from("/var/lib/journeyman"));
        }
        let users = machine.data_home.clone().or_else(|| Some(machine.home.as_ref()?.join(".local/share")))?;
        Some(users.join("journeyman"))
    };
    let dir = given
        .or_else(usual)
        .context("there is no default data directory, because HOME is not set; specify one with --data-dir")?;
    // Agents and git run in other folders, so the path must not depend on the current one.
    std::path::absolute(&dir).with_context(|| format!("the data directory {} has no absolute path", dir.display()))
}

fn database(url: Option<&str>, data_dir: &Path) -> anyhow::Result<Database> {
    let Some(url) = url else { return Ok(Database::Sqlite(data_dir.join("journeyman.db"))) };
    match url.split_once(':') {
        Some(("sqlite", path)) if !path.trim_start_matches('/').is_empty() => {
            // sqlite:///a/b and sqlite:/a/b are the same file.
            let path = path.strip_prefix("//").unwrap_or(path);
            Ok(Database::Sqlite(std::path::absolute(path)?))
        }
        Some(("postgres" | "postgresql", rest)) if rest.starts_with("//") => Ok(Database::Postgres(url.to_owned())),
        // The error does not show the URL, which may contain a password.
        _ => bail!("database-url is not valid; write it as sqlite:<path> or postgres://<user>@<host>/<database>"),
    }
}

fn blobs(url: Option<String>, data_dir: &Path, options: ProviderOptions) -> anyhow::Result<BlobLocation> {
    let Some(url) = url else { return Ok(BlobLocation::Folder { path: data_dir.join("blobs"), shared: false }) };
    let parsed = Url::parse(&url).with_context(|| format!("blob-url {url:?} is not a URL"))?;
    match parsed.scheme() {
        "file" => {
            let path = parsed.to_file_path().map_err(|()| {
                anyhow::anyhow!("blob-url {url:?} is not a path on this machine; write file:///<folder>")
            })?;
            Ok(BlobLocation::Folder { path, shared: true })
        }
        "s3" | "s3a" | "gs" | "az" | "azure" | "abfs" | "abfss" => Ok(BlobLocation::Bucket { url, options }),
        _ => bail!("blob-url must begin with s3://, gs://, az:// or file://"),
    }
}

fn public_url(given: &str) -> anyhow::Result<String> {
    let url = Url::parse(given).with_context(|| format!("public-url {given:?} is not a URL"))?;
    let plain = url.query().is_none() && url.fragment().is_none() && url.username().is_empty() && url.has_host();
    if !matches!(url.scheme(), "http" | "https") || !plain {
        bail!("public-url must be an http or https URL without user and query, like https://journeyman.example.com");
    }
    Ok(given.trim_end_matches('/').to_owned())
}

/// Returns the URL of Slack's interface, with a slash at its end.
fn slack_api_url(given: Option<String>) -> anyhow::Result<String> {
    let Some(text) = given else { return Ok(journeyman_slack::DEFAULT_URL.to_owned()) };
    let is_url = url::Url::parse(&text).is_ok_and(|url| match url.scheme() {
        "https" => url.has_host(),
        "http" => journeyman_net::is_loopback(&url),
        _ => false,
    });
    if !is_url {
        bail!(
            "slack-api-url must be an https URL such as {}; http is permitted only on this machine",
            journeyman_slack::DEFAULT_URL
        );
    }
    Ok(format!("{}/", text.trim_end_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(layer: Layer) -> anyhow::Result<Settings> {
        let machine = MachineEnvironment { home: Some("/home/me".into()), ..MachineEnvironment::default() };
        Settings::resolve(layer, Agents::new(), &ModelTables::default(), machine, Path::new("/usr/bin/journeyman"))
    }

    #[test]
    fn every_setting_has_a_default() {
        let settings = resolve(Layer::default()).expect("settings");
        assert_eq!(settings.data_dir, Path::new("/home/me/.local/share/journeyman"));
        let database = Database::Sqlite("/home/me/.local/share/journeyman/journeyman.db".into());
        assert_eq!(settings.database, database);
        assert_eq!(settings.roles, [Role::Api, Role::Worker]);
        assert_eq!(settings.public_url(settings.listen), "http://127.0.0.1:8080");
        assert!(!settings.is_https());
        assert_eq!(settings.public_url("0.0.0.0:80".parse().expect("an address")), "http://localhost:80");
        assert_eq!(settings.agents["journeyman"].command[0], "/usr/bin/journeyman");
    }

    #[test]
    fn an_error_names_the_invalid_setting() {
        let role = Some(vec![Role::Worker]);
        let span = |text: &str| Some(text.parse().expect("a span"));
        let cases: [(Layer, &str); 28] = [
            (Layer { slack_api_url: Some("slack.com".into()), ..Layer::default() }, "slack-api-url"),
            (Layer { slack_api_url: Some("http://slack.com/api".into()), ..Layer::default() }, "slack-api-url"),
            (Layer { commits_email: Some("bot@a.example".into()), ..Layer::default() }, "commits-sign-key-file"),
            (Layer { max_connections: Some(3), ..Layer::default() }, "max-connections"),
            (Layer { max_connections_per_address: Some(0), ..Layer::default() }, "max-connections-per-address"),
            (Layer { header_timeout: span("0s"), ..Layer::default() }, "header-timeout"),
            (Layer { idle_timeout: span("0s"), ..Layer::default() }, "idle-timeout"),
            (Layer { request_timeout: span("0s"), ..Layer::default() }, "request-timeout"),
            (Layer { write_timeout: span("0s"), ..Layer::default() }, "write-timeout"),
            (Layer { max_git_requests: Some(0), ..Layer::default() }, "max-git-requests"),
            (Layer { max_calls_per_key: Some(0), ..Layer::default() }, "max-calls-per-key"),
            (
                Layer { max_response_memory: Some(crate::config::bytes::Bytes(9)), ..Layer::default() },
                "max-response-memory",
            ),
            (Layer { sandbox_allow_degraded: Some(vec!["memroy".into()]), ..Layer::default() }, "memroy"),
            (Layer { sandbox_users: Some(0), ..Layer::default() }, "sandbox-users"),
            (Layer { workers: Some(0), ..Layer::default() }, "workers"),
            (Layer { lease: Some("1s".parse().expect("a span")), ..Layer::default() }, "lease"),
            (Layer { lease: Some("16m".parse().expect("a span")), ..Layer::default() }, "lease"),
            (
                Layer { database_url: Some("postgres://u:s3cret@h/d".into()), ..Layer::default() },
                "JOURNEYMAN_MASTER_KEY",
            ),
            (Layer { database_url: Some("postgres:u:s3cret@h/d".into()), ..Layer::default() }, "database-url"),
            (Layer { database_connections: Some(1), ..Layer::default() }, "database-connections"),
            (Layer { role, ..Layer::default() }, "role"),
            (Layer { blob_url: Some("ftp://x/y".into()), ..Layer::default() }, "blob-url"),
            (Layer { blob_url: Some("x".into()), ..Layer::default() }, "blob-url"),
            (Layer { database_url: Some("mysql://u:s3cret@h/d".into()), ..Layer::default() }, "database-url"),
            (Layer { database_url: Some("sqlite:".into()), ..Layer::default() }, "database-url"),
            (Layer { public_url: Some("ftp://x".into()), ..Layer::default() }, "public-url"),
            (Layer { public_url: Some("https://me@x".into()), ..Layer::default() }, "public-url"),
            (Layer { public_url: Some("x".into()), ..Layer::default() }, "public-url"),
        ];
        for (layer, named) in cases {
            let error = format!("{:#}", resolve(layer).expect_err(named));
            assert!(error.contains(named) && !error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn an_empty_list_of_roles_is_refused_with_each_database() {
        for database_url in [None, Some("postgres://u:s3cret@h/d".to_owned())] {
            let master_key_file = Some("/k".into());
            let layer = Layer { role: Some(Vec::new()), database_url, master_key_file, ..Layer::default() };
            let text = resolve(layer).expect_err("refused").to_string();
            assert!(text.contains("role is an empty list"), "{text}");
        }
    }

    #[test]
    fn a_readable_folder_must_not_hide_a_path_of_the_sandbox() {
        let resolve = |folder: &str| resolve(Layer { sandbox_readable: Some(vec![folder.into()]), ..Layer::default() });
        for folder in ["/", "/tmp/x", "/home", "/home/", "/home/agent/x", "/run", "/run/journeyman-shim", "opt", ""] {
            let text = resolve(folder).expect_err(folder).to_string();
            assert!(text.contains("sandbox-readable"), "{text}");
        }
        for folder in ["/opt", "/home/agents", "/home/me/.cargo", "/run/current-system", "/nix/store"] {
            assert!(resolve(folder).is_ok(), "{folder}");
        }
    }

    #[test]
    fn user_ids_of_the_system_and_of_the_service_are_refused() {
        for first in [0, 1000, 65_534, 2_147_418_113, 2_147_483_648, u32::MAX] {
            let error = resolve(Layer { sandbox_users: Some(first), ..Layer::default() }).expect_err("refused");
            let text = format!("{error:#}");
            assert!(text.contains(&first.to_string()) && text.contains("from 65536 to 2147418112"), "{text}");
        }
        let range = users(Some(2_147_418_112), 0).expect("the highest");
        assert_eq!((range.first, range.last()), (2_147_418_112, 2_147_483_647));
        let text = users(Some(100_000), 165_535).expect_err("the service's own").to_string();
        assert!(text.contains("165535") && text.contains("sandbox-users"), "{text}");
        assert!(users(Some(100_000), 165_536).is_ok());
    }

    #[test]
    fn a_database_is_shown_without_its_password() {
        for url in ["postgres://u:h@sh@db.example:5432/jobs?password=s3cret", "postgres://db.example:5432/jobs"] {
            assert_eq!(format!("{:?}", Database::Postgres(url.to_owned())), "postgres://db.example:5432/jobs");
        }
    }

    #[test]
    fn settings_take_precedence_over_those_of_a_weaker_layer() {
        let stronger = Layer { workers: Some(1), ..Layer::default() };
        let weaker = Layer { workers: Some(2), create_per_hour: Some(3), ..Layer::default() };
        let both = stronger.over(weaker);
        assert_eq!((both.workers, both.create_per_hour), (Some(1), Some(3)));
    }
}
