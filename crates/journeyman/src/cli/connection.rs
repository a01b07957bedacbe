//! The server that a command uses, and the key: from options, the environment, or a stored context.
//!
//! Invariant: a stored key is sent only to the server for which it was stored.

use anyhow::Context as _;
use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use super::complete::contexts::contexts;
use super::contexts::{Context, ContextFile, Contexts};
use super::exit::Failure;
use crate::config::ClientEnvironment;

/// The server if nothing names another one.
pub(super) const DEFAULT_URL: &str = "http://127.0.0.1:8080";

/// The options that choose a server and a key.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Connection")]
pub(super) struct ConnectionArgs {
    /// URL of the server [env: JOURNEYMAN_URL] [default: that of the current context, or http://127.0.0.1:8080]
    #[arg(long, visible_alias = "server", value_name = "URL", global = true)]
    pub(super) url: Option<String>,

    /// API key [env: JOURNEYMAN_KEY] [default: that of the context]; prefer `journeyman login` or the variable, because
    /// other users of this machine can read command lines
    #[arg(long, value_name = "KEY", global = true)]
    pub(super) key: Option<String>,

    /// Context that `journeyman login` has stored [default: the current one]; takes precedence over the environment
    #[arg(
        long,
        value_name = "NAME",
        global = true,
        conflicts_with_all = ["url", "key"],
        add = ArgValueCandidates::new(contexts)
    )]
    pub(super) context: Option<String>,
}

/// A server, and the key to use there.
pub(super) struct Connection {
    /// The URL of the server.
    pub(super) url: String,
    /// The API key.
    pub(super) key: String,
    /// The project of the environment or of the context.
    pub(super) project: Option<String>,
}

impl ConnectionArgs {
    /// Returns whether an option names a server, a key or a context.
    pub(super) fn is_given(&self) -> bool {
        self.url.is_some() || self.key.is_some() || self.context.is_some()
    }

    /// Returns the server and the key.
    ///
    /// # Errors
    /// There is no key, the context does not exist, or the contexts cannot be read.
    pub(super) fn resolve(self, environment: ClientEnvironment) -> Result<Connection, Failure> {
        let read = || ContextFile::read_of(&environment);
        let mut connection = choose(self, environment.url.clone(), environment.key.clone(), read)?;
        connection.project = environment.project.or(connection.project);
        Ok(connection)
    }
}

fn choose(
    options: ConnectionArgs,
    url: Option<String>,
    key: Option<String>,
    read: impl FnOnce() -> anyhow::Result<Contexts>,
) -> Result<Connection, Failure> {
    if let Some(name) = options.context {
        let contexts = read()?;
        let found = contexts.contexts.get(&name).cloned();
        return found.map(Connection::from).ok_or_else(|| Failure::Usage(contexts.unknown(&name)));
    }
    let (url, key) = (options.url.or(url), options.key.or(key));
    match (url, key) {
        (Some(url), Some(key)) => Ok(Connection { url, key, project: None }),
        (None, Some(key)) => Ok(Connection { url: DEFAULT_URL.to_owned(), key, project: None }),
        (Some(url), None) => {
            let contexts = read()?;
            let stored = contexts.by_preference().find(|(_, context)| context.is_at(&url));
            let stored = stored.map(|(_, context)| Connection::from(context.clone()));
            stored.ok_or_else(|| missing(&format!("the API key for {url} is missing")))
        }
        (None, None) => {
            let contexts = read()?;
            let current = contexts.current().map(|(_, context)| Connection::from(context.clone()));
            current.ok_or_else(|| missing("the API key is missing"))
        }
    }
}

fn missing(what: &str) -> Failure {
    Failure::Usage(format!(
        "{what}: run `journeyman login`, or set JOURNEYMAN_KEY; `journeyman key create` creates a key on the machine of \
         the service"
    ))
}

impl From<Context> for Connection {
    fn from(context: Context) -> Self {
        Self { url: context.url, key: context.key, project: context.project }
    }
}

/// Returns the connections for which git may ask for a key: that of the environment, and all contexts, the current one
/// first.
///
/// # Errors
/// The contexts cannot be read.
pub(super) fn all(environment: &ClientEnvironment) -> anyhow::Result<Vec<Connection>> {
    let own = environment.key.clone().map(|key| {
        let url = environment.url.clone().unwrap_or_else(|| DEFAULT_URL.to_owned());
        Connection { url, key, project: None }
    });
    let contexts = ContextFile::read_of(environment).context("the contexts cannot be used")?;
    let stored = contexts.by_preference().map(|(_, context)| Connection::from(context.clone()));
    Ok(own.into_iter().chain(stored).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::exit::Exit;

    fn stored() -> anyhow::Result<Contexts> {
        let context = |url: &str, key: &str| Context {
            url: url.to_owned(),
            key: key.to_owned(),
            key_name: "me".to_owned(),
            project: Some("shop".to_owned()),
        };
        let mut contexts = Contexts::default();
        contexts.put("work", context("https://work.example.com", "work-key"));
        contexts.put("home", context("http://home.example.com", "home-key"));
        Ok(contexts)
    }

    fn chosen(flags: [Option<&str>; 3], environment: [Option<&str>; 2]) -> Result<(String, String), String> {
        let [url, key, context] = flags.map(|flag| flag.map(str::to_owned));
        let [env_url, env_key] = environment.map(|value| value.map(str::to_owned));
        let found = choose(ConnectionArgs { url, key, context }, env_url, env_key, stored);
        found.map(|one| (one.url, one.key)).map_err(|failure| failure.message(false))
    }

    #[test]
    fn options_come_before_the_environment_and_both_before_the_current_context() {
        let (work, home) = ("https://work.example.com", "http://home.example.com");
        let pair = |url: &str, key: &str| -> Result<(String, String), String> { Ok((url.to_owned(), key.to_owned())) };
        for (flags, environment, expected) in [
            ([None, None, None], [None, None], pair(home, "home-key")),
            ([None, None, Some("work")], [None, None], pair(work, "work-key")),
            ([None, None, Some("work")], [Some("http://env"), Some("env-key")], pair(work, "work-key")),
            ([None, None, None], [Some("http://env"), Some("env-key")], pair("http://env", "env-key")),
            ([Some("http://flag"), None, None], [Some("http://env"), Some("env-key")], pair("http://flag", "env-key")),
            ([None, Some("flag-key"), None], [Some("http://env"), Some("env-key")], pair("http://env", "flag-key")),
            ([Some("https://work.example.com/"), None, None], [None, None], pair(work, "work-key")),
            ([None, None, None], [None, Some("env-key")], pair(DEFAULT_URL, "env-key")),
        ] {
            assert_eq!(chosen(flags, environment), expected, "{flags:?} {environment:?}");
        }
    }

    #[test]
    fn a_stored_key_is_never_used_for_another_server() {
        let error = chosen([Some("http://evil.example.com"), None, None], [None, None]).unwrap_err();
        assert!(error.contains("the API key for http://evil.example.com is missing"), "{error}");
        assert!(!error.contains("home-key"), "{error}");
    }

    #[test]
    fn a_context_that_does_not_exist_is_a_usage_error() {
        let options = ConnectionArgs { context: Some("x".to_owned()), ..ConnectionArgs::default() };
        let failure = choose(options, None, None, stored).err().unwrap();
        assert_eq!(failure.exit(), Exit::Usage);
        assert!(failure.message(false).contains("home, work"));
        let none = choose(ConnectionArgs::default(), None, None, || Ok(Contexts::default())).err().unwrap();
        assert!(none.message(false).contains("journeyman login"));
    }
}
