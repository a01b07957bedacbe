//! Every setting, each of which may be left out.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use ipnet::IpNet;
use serde::Deserialize;

use super::bytes::Bytes;
use super::span::Span;

/// The settings as one source gives them. The doc comments are what `journeyman serve --help` shows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Layer {
    /// A configuration file in TOML: these settings by name, and the tables [agents.<id>], [models.<prefix>] and
    /// [prices."<model>"] [default: none]
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub(crate) config: Option<PathBuf>,

    /// What this process does: serve clients (api), carry out jobs (worker), or both. With PostgreSQL there may be any
    /// number of each [default: api,worker]
    #[arg(long, value_name = "ROLE", value_delimiter = ',')]
    pub(crate) role: Option<Vec<Role>>,

    /// The folder for the database, repositories, workspaces and the master key [default: /var/lib/journeyman for root,
    /// else $XDG_DATA_HOME/journeyman or ~/.local/share/journeyman]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,

    /// The database: sqlite:<path>, or postgres://<user>@<host>/<database>; one with a password is better given by file
    /// or environment than here, where others see it [default: sqlite:<data-dir>/journeyman.db]
    #[arg(long, value_name = "URL")]
    pub(crate) database_url: Option<String>,

    /// Connections to PostgreSQL at most, beside one to listen with [default: 10]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) database_connections: Option<usize>,

    /// Whether the schema of a PostgreSQL database is brought up to date at the start; without, run journeyman migrate
    /// [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub(crate) auto_migrate: Option<bool>,

    /// The folder of the built-in code host; on several machines one that all of them share [default:
    /// <data-dir>/repositories]
    #[arg(long, value_name = "DIR")]
    pub(crate) repositories: Option<PathBuf>,

    /// The file with the key that secrets in the database are sealed with: 64 hexadecimal digits, mode 0600; made at the
    /// first start. The variable JOURNEYMAN_MASTER_KEY with the key itself is used instead where it is set [default:
    /// <data-dir>/master.key]
    #[arg(long, value_name = "FILE")]
    pub(crate) master_key_file: Option<PathBuf>,

    /// Where sessions of agents and commits that are not pushed yet are kept, for a follow-up on another machine:
    /// s3://<bucket>/<folder>, gs://…, az://… with the variables of the provider's own programs, or file://<folder> for
    /// one that all machines share [default: <data-dir>/blobs, of this machine alone]
    #[arg(long, value_name = "URL")]
    pub(crate) blob_url: Option<String>,

    /// How long the session of a job that rests is kept; after that the agent is told what was said before, and begins
    /// anew [default: 90days]
    #[arg(long, value_name = "TIME")]
    pub(crate) session_keep: Option<Span>,

    /// How long what agents said and did is kept after their job came to rest; messages, runs and commits stay
    /// [default: 180days]
    #[arg(long, value_name = "TIME")]
    pub(crate) transcript_keep: Option<Span>,

    /// How long jobs are kept after they came to rest, with everything about them; their branches and pull requests stay
    /// [default: for ever]
    #[arg(long, value_name = "TIME")]
    pub(crate) job_keep: Option<Span>,

    /// How long lines of the audit log are kept [default: 2years]
    #[arg(long, value_name = "TIME")]
    pub(crate) audit_keep: Option<Span>,

    /// The address to serve HTTP on [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<SocketAddr>,

    /// Where clients and browsers reach the service; links begin with it [default: http://<listen>]
    #[arg(long, value_name = "URL")]
    pub(crate) public_url: Option<String>,

    /// Networks of proxies whose X-Forwarded-For is believed, for the IP allowlists of keys [default: none]
    #[arg(long, value_name = "NETWORK", value_delimiter = ',')]
    pub(crate) trusted_proxies: Option<Vec<IpNet>>,

    /// Maximum number of open client connections; at the limit, the oldest one without an authenticated request is
    /// closed for a new one [default: 16384, or less if the limit of open files is low]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) max_connections: Option<usize>,

    /// Maximum number of open connections from one address, with the same rule at the limit; trusted proxies have no
    /// limit per address [default: a quarter of max-connections]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) max_connections_per_address: Option<usize>,

    /// How long the headers of a request may take to arrive [default: 15s]
    #[arg(long, value_name = "TIME")]
    pub(crate) header_timeout: Option<Span>,

    /// How long a connection may wait for its next request [default: 75s]
    #[arg(long, value_name = "TIME")]
    pub(crate) idle_timeout: Option<Span>,

    /// How long a request without a valid key or session may take, including its body and the response [default: 1m]
    #[arg(long, value_name = "TIME")]
    pub(crate) request_timeout: Option<Span>,

    /// Runs at a time [default: the number of processors]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) workers: Option<usize>,

    /// How long a worker may be silent before another takes its run over [default: 30s]
    #[arg(long, value_name = "TIME")]
    pub(crate) lease: Option<Span>,

    /// How long a message waits for an outage to pass, such as a code host that does not answer [default: 24h]
    #[arg(long, value_name = "TIME")]
    pub(crate) outage_patience: Option<Span>,

    /// How long a message waits while a credential or repository is refused [default: 30m]
    #[arg(long, value_name = "TIME")]
    pub(crate) refusal_patience: Option<Span>,

    /// How long running turns may go on after TERM before they are handed back [default: 30s]
    #[arg(long, value_name = "TIME")]
    pub(crate) grace: Option<Span>,

    /// How long the workspace of an idle job is kept on disk; it is built anew when a message comes [default: 1day]
    #[arg(long, value_name = "TIME")]
    pub(crate) workspace_idle: Option<Span>,

    /// Free space to keep on the disk of the data directory, such as 5GiB; below it, no run is claimed, and runs are
    /// stopped; 0: none [default: a twentieth of the disk, at most 4GiB]
    #[arg(long, value_name = "SIZE")]
    pub(crate) disk_reserve: Option<Bytes>,

    /// Agents that are kept, paused, after their turn, so that a follow-up finds them ready; 0: none [default: as workers]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) warm_agents: Option<usize>,

    /// How long such an agent waits for a follow-up [default: 5m]
    #[arg(long, value_name = "TIME")]
    pub(crate) warm_time: Option<Span>,

    /// Jobs that a project may create in an hour, unless its own limits say otherwise; 0: no limit [default: 100]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) create_per_hour: Option<u32>,

    /// Messages that a project may send in an hour, likewise [default: 100]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) message_per_hour: Option<u32>,

    /// Where agents and setup commands run. With none they have all that the service has: for trying things out
    /// [default: bubblewrap]
    #[arg(long, value_name = "KIND")]
    pub(crate) sandbox: Option<SandboxKind>,

    /// Guarantees of the sandbox that this machine may do without, as journeyman doctor names them [default: none]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) sandbox_allow_degraded: Option<Vec<String>>,

    /// Folders of the machine that programs in sandboxes may read beside /usr: toolchains [default: none]
    #[arg(long, value_name = "DIR", value_delimiter = ',')]
    pub(crate) sandbox_readable: Option<Vec<PathBuf>>,

    /// The first of 65536 user IDs, and the group ID, that sandboxes have on a machine where the service runs as root
    /// [default: 2000000000]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) sandbox_users: Option<u32>,

    /// Networks that programs in sandboxes may reach though they are not public, where a project's sandbox.egress allows a
    /// name in them: a registry of one's own [default: none]
    #[arg(long, value_name = "NETWORK", value_delimiter = ',')]
    pub(crate) egress_private: Option<Vec<IpNet>>,

    /// The socket of Docker or Podman, with sandbox = container [default: the first that is there of /run/docker.sock,
    /// /run/podman/podman.sock and those of the user]
    #[arg(long, value_name = "PATH")]
    pub(crate) container_engine: Option<PathBuf>,

    /// The image that programs find as their system there, unless their project names another; it has git and a shell
    /// [default: none]
    #[arg(long, value_name = "IMAGE")]
    pub(crate) container_image: Option<String>,

    /// How long a model's provider may be silent before a call fails [default: 10m]
    #[arg(long, value_name = "TIME")]
    pub(crate) model_timeout: Option<Span>,

    /// The address of an OpenID provider by which people may sign in to the pages, as its discovery document has it;
    /// it is told to send them back to <public-url>/login/returned [default: none]
    #[arg(long, value_name = "URL")]
    pub(crate) oidc_issuer: Option<String>,

    /// What the provider calls this server
    #[arg(long, value_name = "ID")]
    pub(crate) oidc_client_id: Option<String>,

    /// The file with the secret that the provider gave this server [default: none, as for a public client]
    #[arg(long, value_name = "FILE")]
    pub(crate) oidc_secret_file: Option<PathBuf>,

    /// The domains of email addresses that are let in, such as example.com; * for everybody whom the provider lets in
    #[arg(long, value_name = "DOMAIN", value_delimiter = ',')]
    pub(crate) oidc_domains: Option<Vec<String>>,

    /// What people may do who come by the provider for the first time [default: viewer]
    #[arg(long, value_name = "ROLE")]
    pub(crate) oidc_role: Option<OidcRole>,

    /// What the button says that leads to the provider [default: Sign in with the provider's name]
    #[arg(long, value_name = "TEXT")]
    pub(crate) oidc_label: Option<String>,

    /// The bwrap program [default: bwrap]
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) bwrap: Option<PathBuf>,

    /// The git program [default: git]
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) git: Option<PathBuf>,

    /// What is logged to stderr: a level (error, warn, info, debug, trace), or levels by module [default: info]
    #[arg(long, value_name = "FILTER")]
    pub(crate) log: Option<String>,

    /// The form of the log [default: text]
    #[arg(long, value_name = "FORM")]
    pub(crate) log_format: Option<LogFormat>,
}

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Role {
    /// Serves clients over HTTP.
    Api,
    /// Carries out jobs.
    Worker,
}

/// Where agents run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SandboxKind {
    /// In namespaces of their own.
    #[default]
    Bubblewrap,
    /// In containers of Docker or Podman.
    Container,
    /// With all that the service has.
    None,
}

/// What somebody may do who comes by the OpenID provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum OidcRole {
    /// Jobs and pull requests.
    Member,
    /// Looks.
    #[default]
    Viewer,
}

/// The form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object on each line.
    Json,
}

impl Layer {
    /// These settings, and where one is left out that of `weaker`.
    pub(crate) fn over(self, weaker: Self) -> Self {
        Self {
            config: self.config.or(weaker.config),
            role: self.role.or(weaker.role),
            data_dir: self.data_dir.or(weaker.data_dir),
            database_url: self.database_url.or(weaker.database_url),
            database_connections: self.database_connections.or(weaker.database_connections),
            auto_migrate: self.auto_migrate.or(weaker.auto_migrate),
            repositories: self.repositories.or(weaker.repositories),
            master_key_file: self.master_key_file.or(weaker.master_key_file),
            blob_url: self.blob_url.or(weaker.blob_url),
            session_keep: self.session_keep.or(weaker.session_keep),
            transcript_keep: self.transcript_keep.or(weaker.transcript_keep),
            job_keep: self.job_keep.or(weaker.job_keep),
            audit_keep: self.audit_keep.or(weaker.audit_keep),
            listen: self.listen.or(weaker.listen),
            public_url: self.public_url.or(weaker.public_url),
            trusted_proxies: self.trusted_proxies.or(weaker.trusted_proxies),
            max_connections: self.max_connections.or(weaker.max_connections),
            max_connections_per_address: self.max_connections_per_address.or(weaker.max_connections_per_address),
            header_timeout: self.header_timeout.or(weaker.header_timeout),
            idle_timeout: self.idle_timeout.or(weaker.idle_timeout),
            request_timeout: self.request_timeout.or(weaker.request_timeout),
            workers: self.workers.or(weaker.workers),
            lease: self.lease.or(weaker.lease),
            outage_patience: self.outage_patience.or(weaker.outage_patience),
            refusal_patience: self.refusal_patience.or(weaker.refusal_patience),
            grace: self.grace.or(weaker.grace),
            workspace_idle: self.workspace_idle.or(weaker.workspace_idle),
            disk_reserve: self.disk_reserve.or(weaker.disk_reserve),
            warm_agents: self.warm_agents.or(weaker.warm_agents),
            warm_time: self.warm_time.or(weaker.warm_time),
            create_per_hour: self.create_per_hour.or(weaker.create_per_hour),
            message_per_hour: self.message_per_hour.or(weaker.message_per_hour),
            sandbox: self.sandbox.or(weaker.sandbox),
            sandbox_allow_degraded: self.sandbox_allow_degraded.or(weaker.sandbox_allow_degraded),
            sandbox_readable: self.sandbox_readable.or(weaker.sandbox_readable),
            sandbox_users: self.sandbox_users.or(weaker.sandbox_users),
            egress_private: self.egress_private.or(weaker.egress_private),
            container_engine: self.container_engine.or(weaker.container_engine),
            container_image: self.container_image.or(weaker.container_image),
            model_timeout: self.model_timeout.or(weaker.model_timeout),
            oidc_issuer: self.oidc_issuer.or(weaker.oidc_issuer),
            oidc_client_id: self.oidc_client_id.or(weaker.oidc_client_id),
            oidc_secret_file: self.oidc_secret_file.or(weaker.oidc_secret_file),
            oidc_domains: self.oidc_domains.or(weaker.oidc_domains),
            oidc_role: self.oidc_role.or(weaker.oidc_role),
            oidc_label: self.oidc_label.or(weaker.oidc_label),
            bwrap: self.bwrap.or(weaker.bwrap),
            git: self.git.or(weaker.git),
            log: self.log.or(weaker.log),
            log_format: self.log_format.or(weaker.log_format),
        }
    }
}
