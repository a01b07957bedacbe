//! What a command works on: the database of an installation on this machine, or a server.

use clap::Args;

use super::connection::ConnectionArgs;
use super::contexts::ContextFile;
use super::exit::usage;
use super::store::StoreArgs;
use crate::config::{ClientEnvironment, client_environment};

/// The options that choose an installation or a server.
#[derive(Debug, Default, Args)]
pub(super) struct BackendArgs {
    #[command(flatten)]
    store: StoreArgs,

    #[command(flatten)]
    connection: ConnectionArgs,

    /// Work on the database of the installation on this machine, although JOURNEYMAN_URL is set or there is a current
    /// context
    #[arg(long, global = true, help_heading = "Installation")]
    local: bool,
}

/// What a command works on.
#[derive(Debug)]
pub(super) enum Backend {
    /// The database of an installation.
    Store(StoreArgs),
    /// A server.
    Server(ConnectionArgs),
}

impl BackendArgs {
    /// Returns the backend: what the options name, or else the server of `JOURNEYMAN_URL` or of the current context, or
    /// else the installation.
    ///
    /// # Errors
    /// The options name both, or the contexts cannot be read.
    pub(super) fn choose(self) -> anyhow::Result<Backend> {
        self.choose_in(&client_environment())
    }

    fn choose_in(self, environment: &ClientEnvironment) -> anyhow::Result<Backend> {
        let is_store = self.local || self.store.is_given();
        match (is_store, self.connection.is_given()) {
            (true, true) => Err(usage(
                "the options name both a database and a server: use either --local, --config, --data-dir and \
                 --database-url, or --url, --key and --context",
            )),
            (true, false) => Ok(Backend::Store(self.store)),
            (false, true) => Ok(Backend::Server(self.connection)),
            (false, false) => {
                let is_server = environment.url.is_some() || ContextFile::read_of(environment)?.current().is_some();
                Ok(if is_server { Backend::Server(self.connection) } else { Backend::Store(self.store) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::contexts::Context;
    use crate::cli::exit::{Exit, of_local};

    fn is_server(options: BackendArgs, environment: &ClientEnvironment) -> bool {
        matches!(options.choose_in(environment).unwrap(), Backend::Server(_))
    }

    fn connection() -> ConnectionArgs {
        ConnectionArgs { url: Some("http://h".to_owned()), ..ConnectionArgs::default() }
    }

    #[test]
    fn a_command_works_on_a_server_only_if_something_names_one() {
        let dir = tempfile::tempdir().unwrap();
        let environment = |url: Option<&str>| ClientEnvironment {
            url: url.map(str::to_owned),
            config_home: Some(dir.path().to_owned()),
            ..ClientEnvironment::default()
        };
        let options = BackendArgs::default;
        assert!(!is_server(options(), &environment(None)));
        assert!(is_server(options(), &environment(Some("http://h"))));
        assert!(is_server(BackendArgs { connection: connection(), ..options() }, &environment(None)));
        assert!(!is_server(BackendArgs { local: true, ..options() }, &environment(Some("http://h"))));
        let key = ClientEnvironment { key: Some("k".to_owned()), ..environment(None) };
        assert!(!is_server(options(), &key), "a key alone names no server");

        let file = ContextFile::of(&environment(None)).unwrap();
        let context = Context { url: "http://h".into(), key: "k".into(), key_name: "me".into(), project: None };
        file.change(|contexts| {
            contexts.put("home", context);
            Ok(())
        })
        .unwrap();
        assert!(is_server(options(), &environment(None)));
        assert!(!is_server(BackendArgs { local: true, ..options() }, &environment(None)));
    }

    #[test]
    fn options_that_name_both_are_refused() {
        let both = BackendArgs { local: true, connection: connection(), ..BackendArgs::default() };
        assert_eq!(of_local(&both.choose_in(&ClientEnvironment::default()).unwrap_err()), Exit::Usage);
    }
}
