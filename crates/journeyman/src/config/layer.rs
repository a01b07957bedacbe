//! The settings as flags, a file or the environment set them; each is optional.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use ipnet::IpNet;
use journeyman_core::user::second_factor::RequiredOf;
use serde::Deserialize;

use super::bytes::Bytes;
use super::number::{share, whole};
use super::span::Span;

/// The settings from one source. `journeyman serve --help` shows the doc comments of the fields.
#[derive(Debug, Clone, Default, PartialEq, Args, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Layer {
    /// Read settings from a TOML file: these settings by name, and the tables [agents.<id>], [models.<prefix>] and
    /// [prices."<model>"] [default: none]
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub(crate) config: Option<PathBuf>,

    /// Roles of this process: serve clients (api), run jobs (worker), or both. With PostgreSQL, any number of processes
    /// can have each role [default: api,worker]
    #[arg(long, value_name = "ROLE", value_delimiter = ',')]
    pub(crate) role: Option<Vec<Role>>,

    /// Folder for the database, repositories, workspaces and the master key [default: /var/lib/journeyman for root,
    /// else $XDG_DATA_HOME/journeyman or ~/.local/share/journeyman]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,

    /// Database: sqlite:<path>, or postgres://<user>@<host>/<database>. Set a URL with a password in the file or the
    /// environment, because other users can see command lines [default: sqlite:<data-dir>/journeyman.db]
    #[arg(long, value_name = "URL")]
    pub(crate) database_url: Option<String>,

    /// Maximum number of connections to PostgreSQL, in addition to one that listens for notifications [default: 10]
    #[arg(long, value_name = "NUMBER", value_parser = whole::<usize>)]
    pub(crate) database_connections: Option<usize>,

    /// Update the schema of a PostgreSQL database at startup; if false, run journeyman migrate instead [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub(crate) auto_migrate: Option<bool>,

    /// Folder of the built-in code host; with several machines, a folder that all of them share [default:
    /// <data-dir>/repositories]
    #[arg(long, value_name = "DIR")]
    pub(crate) repositories: Option<PathBuf>,

    /// File with the key that encrypts secrets in the database: 64 hexadecimal digits, mode 0600. The default file is
    /// created at the first start. The variable JOURNEYMAN_MASTER_KEY, if set, contains the key itself and takes
    /// precedence [default: <data-dir>/master.key]
    #[arg(long, value_name = "FILE")]
    pub(crate) master_key_file: Option<PathBuf>,

    /// Files with further keys in the same form, which decrypt secrets and do not encrypt them: the next key before a
    /// rotation, and the previous one until journeyman key-encryption rotate has finished. The variable
    /// JOURNEYMAN_OTHER_MASTER_KEYS may contain further keys themselves, separated by commas [default: none]
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    pub(crate) other_master_key_files: Option<Vec<PathBuf>>,

    /// Store for agents' sessions and for commits that are not yet pushed, so that another machine can run a follow-up:
    /// s3://<bucket>/<folder>, gs://… or az://… with the variables of the provider's own tools, or file://<folder> for
    /// a folder that all machines share [default: <data-dir>/blobs, for this machine only]
    #[arg(long, value_name = "URL")]
    pub(crate) blob_url: Option<String>,

    /// Time to keep the session of an inactive job; a later follow-up starts a new session, and its prompt quotes the
    /// earlier messages [default: 90days]
    #[arg(long, value_name = "TIME")]
    pub(crate) session_keep: Option<Span>,

    /// Time to keep the transcript of a job after it becomes inactive; its messages, runs and commits stay [default:
    /// 180days]
    #[arg(long, value_name = "TIME")]
    pub(crate) transcript_keep: Option<Span>,

    /// Time to keep a job with all its data after it becomes inactive; its branch and pull request stay [default:
    /// forever]
    #[arg(long, value_name = "TIME")]
    pub(crate) job_keep: Option<Span>,

    /// Time to keep entries of the audit log [default: 2years]
    #[arg(long, value_name = "TIME")]
    pub(crate) audit_keep: Option<Span>,

    /// Address to serve HTTP on [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<SocketAddr>,

    /// URL at which clients and browsers reach the service, used in links [default: http://<listen>]
    #[arg(long, value_name = "URL")]
    pub(crate) public_url: Option<String>,

    /// Networks of proxies whose X-Forwarded-For header is trusted, for the IP allowlists of keys [default: none]
    #[arg(long, value_name = "NETWORK", value_delimiter = ',')]
    pub(crate) trusted_proxies: Option<Vec<IpNet>>,

    /// Maximum number of open client connections; at the limit, the oldest one without an authenticated request is
    /// closed for a new one [default: 16384, or less if the limit of open files is low]
    #[arg(long, value_name = "NUMBER", value_parser = whole::<usize>)]
    pub(crate) max_connections: Option<usize>,

    /// Maximum number of open connections from one address, with the same rule at the limit; trusted proxies have no
    /// limit per address [default: a quarter of max-connections]
    #[arg(long, value_name = "NUMBER", value_parser = whole::<usize>)]
    pub(crate) max_connections_per_address: Option<usize>,

    /// Timeout for the headers of a request to arrive [default: 15s]
    #[arg(long, value_name = "TIME")]
    pub(crate) header_timeout: Option<Span>,

    /// Timeout for the next request on an open connection [default: 75s]
    #[arg(long, value_name = "TIME")]
    pub(crate) idle_timeout: Option<Span>,

    /// Timeout for a request without a valid key or session, including its body and the response [default: 1m]
    #[arg(long, value_name = "TIME")]
    pub(crate) request_timeout: Option<Span>,

    /// Time in which a client must take 64 KiB of a response while more bytes wait for it [default: 30s]
    #[arg(long, value_name = "TIME")]
    pub(crate) write_timeout: Option<Span>,

    /// Maximum number of requests for which git runs at the same time, such as clones and diffs; more wait up to 40
    /// seconds [default: 32]
    #[arg(long, value_name = "NUMBER", value_parser = whole::<u32>)]
    pub(crate) max_git_requests: Option<u32>,

    /// Maximum number of such requests of one key or user [default: 6]
    #[arg(long, value_name = "NUMBER", value_parser = whole::<u32>)]
    pub(crate) max_git_requests_per_key: Option<u32>,

    /// Maximum number of open event streams of clients with a key [default: 1024]
    #[arg(long, value_name = "NUMBER", value_parser = whole::<u32>)]
    pub(crate) max_streams: Option<u32>,

    /// Maximum number of open event streams of one key [default: 128]
    #[arg(long, value_name = "NUMBER", value_parser = whole::<u32>)]
    pub(crate) max_streams_per_key: Option<u32>,

    /// Maximum number of concurrent calls of the Model Context Protocol and of A2A [default: 256]
    #[arg(long, value_name = "NUMBER", value_parser = whole::<u32>)]
    pub(crate) max_calls: Option<u32>,

    /// Maximum number of such calls of one key [default: 64]
    #[arg(long, value_name = "NUMBER", value_parser = whole::<u32>)]
    pub(crate) max_calls_per_key: Option<u32>,

    /// Maximum memory of responses that clients have not read yet [default: 256MiB]
    #[arg(long, value_name = "SIZE")]
    pub(crate) max_response_memory: Option<Bytes>,

    /// Maximum memory of such responses to one key, or to one address for pages [default: 64MiB]
    #[arg(long, value_name = "SIZE")]
    pub(crate) max_response_memory_per_key: Option<Bytes>,

    /// Maximum number of concurrent runs [default: the number of processors]
    #[arg(long, value_name = "NUMBER", value_parser = whole::<usize>)]
    pub(crate) workers: Option<usize>,

    /// Time without a heartbeat after which another worker takes over a run [default: 30s]
    #[arg(long, value_name = "TIME")]
    pub(crate) lease: Option<Span>,

    /// Maximum time that a message waits during an outage, such as a code host that does not answer [default: 24h]
    #[arg(long, value_name = "TIME")]
    pub(crate) outage_patience: Option<Span>,

    /// Maximum time that a message waits while a credential or repository is refused [default: 30m]
    #[arg(long, value_name = "TIME")]
    pub(crate) refusal_patience: Option<Span>,

    /// Time that running turns may continue after SIGTERM before they return to the queue [default: 30s]
    #[arg(long, value_name = "TIME")]
    pub(crate) grace: Option<Span>,

    /// Time to keep the workspace of an idle job on disk; the next message rebuilds it [default: 1day]
    #[arg(long, value_name = "TIME")]
    pub(crate) workspace_idle: Option<Span>,

    /// Free space to keep on the disk of the data directory, such as 5GiB; with less, the worker claims no runs and
    /// stops running ones; 0: none [default: a twentieth of the disk, at most 4GiB]
    #[arg(long, value_name = "SIZE")]
    pub(crate) disk_reserve: Option<Bytes>,

    /// Maximum number of idle agents, which stay paused after their turn to wait for a follow-up; 0: none [default: as
    /// workers]
    #[arg(long, value_name = "NUMBER", value_parser = whole::<usize>)]
    pub(crate) warm_agents: Option<usize>,

    /// Time that an idle agent waits for a follow-up [default: 5m]
    #[arg(long, value_name = "TIME")]
    pub(crate) warm_time: Option<Span>,

    /// Maximum number of jobs per hour in a project without a limit in its settings; 0: no limit [default: 100]
    #[arg(long, value_name = "NUMBER", value_parser = whole::<u32>)]
    pub(crate) create_per_hour: Option<u32>,

    /// Maximum number of messages per hour in a project without a limit in its settings; 0: no limit [default: 100]
    #[arg(long, value_name = "NUMBER", value_parser = whole::<u32>)]
    pub(crate) message_per_hour: Option<u32>,

    /// Sandbox for agents and setup commands; none gives them all rights of the service, only for trying things out
    /// [default: bubblewrap]
    #[arg(long, value_name = "KIND")]
    pub(crate) sandbox: Option<SandboxKind>,

    /// Guarantees of the sandbox that may be missing on this machine, as journeyman doctor names them [default: none]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) sandbox_allow_degraded: Option<Vec<String>>,

    /// Folders that sandboxed programs may read in addition to /usr, such as toolchains [default: none]
    #[arg(long, value_name = "DIR", value_delimiter = ',')]
    pub(crate) sandbox_readable: Option<Vec<PathBuf>>,

    /// First of the 65536 user IDs of sandboxes, and their group ID, if the service runs as root [default: 2000000000]
    #[arg(long, value_name = "NUMBER", value_parser = whole::<u32>)]
    pub(crate) sandbox_users: Option<u32>,

    /// Private networks that sandboxed programs may reach if the project's sandbox.egress allows a name in them: an
    /// internal registry [default: none]
    #[arg(long, value_name = "NETWORK", value_delimiter = ',')]
    pub(crate) egress_private: Option<Vec<IpNet>>,

    /// Private networks with code hosts and their stores, besides configured code hosts and all public addresses [default: none]
    #[arg(long, value_name = "NETWORK", value_delimiter = ',')]
    pub(crate) code_host_networks: Option<Vec<IpNet>>,

    /// Private networks that webhooks may be sent to, besides all public addresses [default: none]
    #[arg(long, value_name = "NETWORK", value_delimiter = ',')]
    pub(crate) webhook_networks: Option<Vec<IpNet>>,

    /// Private networks with OpenID issuers whose tokens trusts accept, besides all public addresses [default: none]
    #[arg(long, value_name = "NETWORK", value_delimiter = ',')]
    pub(crate) oidc_networks: Option<Vec<IpNet>>,

    /// URL of the Slack API, for example of GovSlack; http only for a test server on this machine [default: https://slack.com/api/]
    #[arg(long, value_name = "URL")]
    pub(crate) slack_api_url: Option<String>,

    /// Socket of Docker or Podman, for sandbox = container [default: the first that exists of /run/docker.sock,
    /// /run/podman/podman.sock and the user's own sockets]
    #[arg(long, value_name = "PATH")]
    pub(crate) container_engine: Option<PathBuf>,

    /// Image for containers of projects that name no image; it must contain git and a shell [default: none]
    #[arg(long, value_name = "IMAGE")]
    pub(crate) container_image: Option<String>,

    /// Give containers SELinux labels of their own, where the engine uses SELinux [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub(crate) container_selinux: Option<bool>,

    /// Time without data from a model's provider after which a call fails [default: 10m]
    #[arg(long, value_name = "TIME")]
    pub(crate) model_timeout: Option<Span>,

    /// File with the prices and context windows of models, in the shape of LiteLLM's model_prices_and_context_window.json;
    /// it replaces the table in the program [default: none]
    #[arg(long, value_name = "FILE")]
    pub(crate) prices_file: Option<PathBuf>,

    /// Issuer URL of an OpenID provider for signing in to the dashboard, as in its discovery document; register
    /// <public-url>/login/returned as the redirect URI there [default: none]
    #[arg(long, value_name = "URL")]
    pub(crate) oidc_issuer: Option<String>,

    /// Client ID of this server at the OpenID provider
    #[arg(long, value_name = "ID")]
    pub(crate) oidc_client_id: Option<String>,

    /// File with the client secret of this server at the OpenID provider [default: none, for a public client]
    #[arg(long, value_name = "FILE")]
    pub(crate) oidc_secret_file: Option<PathBuf>,

    /// Domains of email addresses that may sign in, such as example.com; * admits everyone whom the provider admits
    #[arg(long, value_name = "DOMAIN", value_delimiter = ',')]
    pub(crate) oidc_domains: Option<Vec<String>>,

    /// Role of users who sign in through the OpenID provider for the first time [default: viewer]
    #[arg(long, value_name = "ROLE")]
    pub(crate) oidc_role: Option<OidcRole>,

    /// Label of the button that leads to the OpenID provider [default: Sign in with the provider's host name]
    #[arg(long, value_name = "TEXT")]
    pub(crate) oidc_label: Option<String>,

    /// Users who must have a second factor to sign in with a password: none, administrators or everyone [default: none]
    #[arg(long, value_name = "WHO")]
    pub(crate) second_factor: Option<SecondFactor>,

    /// Path or name of the bwrap program [default: bwrap]
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) bwrap: Option<PathBuf>,

    /// Path or name of the git program [default: git]
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) git: Option<PathBuf>,

    /// File with the SSH private key that signs the commits of jobs, without a passphrase, as ssh-keygen creates it
    /// [default: none]
    #[arg(long, value_name = "FILE")]
    pub(crate) commits_sign_key_file: Option<PathBuf>,

    /// Email address of the committer of signed commits; the code host must know it as an address of the account that
    /// has the public key [default: journeyman@localhost]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) commits_email: Option<String>,

    /// Filter of the log on stderr: a level (error, warn, info, debug, trace), or levels by module [default: info]
    #[arg(long, value_name = "FILTER")]
    pub(crate) log: Option<String>,

    /// Format of the log [default: text]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,

    /// OpenTelemetry collector that gets traces by OTLP over HTTP, such as http://localhost:4318 [default: none]
    #[arg(long, value_name = "URL")]
    pub(crate) otlp_endpoint: Option<String>,

    /// File with header fields for the collector, one "name: value" in each line, such as a token [default: none]
    #[arg(long, value_name = "FILE")]
    pub(crate) otlp_headers_file: Option<PathBuf>,

    /// Share of the traces to export, from 0 to 1 [default: 1]
    #[arg(long, value_name = "NUMBER", value_parser = share)]
    pub(crate) otlp_sample: Option<f64>,
}

/// A role of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Role {
    /// Serve clients over HTTP
    Api,
    /// Run jobs
    Worker,
}

/// A kind of sandbox for agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SandboxKind {
    /// Use Linux namespaces
    #[default]
    Bubblewrap,
    /// Use containers of Docker or Podman
    Container,
    /// Do not isolate agents from the service
    None,
}

/// A role of new users from the OpenID provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum OidcRole {
    /// Use jobs and pull requests
    Member,
    /// Only view projects, jobs and pull requests
    #[default]
    Viewer,
}

/// The users who must have a second factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SecondFactor {
    /// No user must have one
    #[default]
    None,
    /// Administrators
    Administrators,
    /// All users
    Everyone,
}

impl From<SecondFactor> for RequiredOf {
    fn from(rule: SecondFactor) -> Self {
        match rule {
            SecondFactor::None => Self::Nobody,
            SecondFactor::Administrators => Self::Administrators,
            SecondFactor::Everyone => Self::Everyone,
        }
    }
}

/// A format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LogFormat {
    /// Print text for people
    #[default]
    Text,
    /// Print a JSON object on each line
    Json,
}

impl Layer {
    /// Returns these settings, completed with those of `weaker`.
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
            other_master_key_files: self.other_master_key_files.or(weaker.other_master_key_files),
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
            write_timeout: self.write_timeout.or(weaker.write_timeout),
            max_git_requests: self.max_git_requests.or(weaker.max_git_requests),
            max_git_requests_per_key: self.max_git_requests_per_key.or(weaker.max_git_requests_per_key),
            max_streams: self.max_streams.or(weaker.max_streams),
            max_streams_per_key: self.max_streams_per_key.or(weaker.max_streams_per_key),
            max_calls: self.max_calls.or(weaker.max_calls),
            max_calls_per_key: self.max_calls_per_key.or(weaker.max_calls_per_key),
            max_response_memory: self.max_response_memory.or(weaker.max_response_memory),
            max_response_memory_per_key: self.max_response_memory_per_key.or(weaker.max_response_memory_per_key),
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
            code_host_networks: self.code_host_networks.or(weaker.code_host_networks),
            webhook_networks: self.webhook_networks.or(weaker.webhook_networks),
            oidc_networks: self.oidc_networks.or(weaker.oidc_networks),
            slack_api_url: self.slack_api_url.or(weaker.slack_api_url),
            container_engine: self.container_engine.or(weaker.container_engine),
            container_image: self.container_image.or(weaker.container_image),
            container_selinux: self.container_selinux.or(weaker.container_selinux),
            model_timeout: self.model_timeout.or(weaker.model_timeout),
            prices_file: self.prices_file.or(weaker.prices_file),
            oidc_issuer: self.oidc_issuer.or(weaker.oidc_issuer),
            oidc_client_id: self.oidc_client_id.or(weaker.oidc_client_id),
            oidc_secret_file: self.oidc_secret_file.or(weaker.oidc_secret_file),
            oidc_domains: self.oidc_domains.or(weaker.oidc_domains),
            oidc_role: self.oidc_role.or(weaker.oidc_role),
            oidc_label: self.oidc_label.or(weaker.oidc_label),
            second_factor: self.second_factor.or(weaker.second_factor),
            bwrap: self.bwrap.or(weaker.bwrap),
            git: self.git.or(weaker.git),
            commits_sign_key_file: self.commits_sign_key_file.or(weaker.commits_sign_key_file),
            commits_email: self.commits_email.or(weaker.commits_email),
            log: self.log.or(weaker.log),
            log_format: self.log_format.or(weaker.log_format),
            otlp_endpoint: self.otlp_endpoint.or(weaker.otlp_endpoint),
            otlp_headers_file: self.otlp_headers_file.or(weaker.otlp_headers_file),
            otlp_sample: self.otlp_sample.or(weaker.otlp_sample),
        }
    }
}
