//! Whether a server accepts connections, for a service that starts together with its database.

use std::error::Error;
use std::io;

use tokio_postgres::error::SqlState;
use tokio_util::task::AbortOnDropHandle;

use super::connect::Connector;
use super::error::{PgError, with_causes};
use super::{OpenError, PostgresStore};

impl PostgresStore {
    /// Connects to the database at `url` once. Returns `None` if that works, and the reason if the server is not there
    /// yet: it is starting, it refuses connections, it does not answer, it is a standby, or its name is not known.
    ///
    /// # Errors
    /// Waiting does not help: the URL is not valid, or the server refuses the user, the password, or the database.
    pub async fn unreachable(url: &str) -> Result<Option<String>, OpenError> {
        let connector = Connector::new(url)?;
        match connector.config.connect(connector.tls.clone()).await {
            Ok((_, connection)) => {
                drop(AbortOnDropHandle::new(tokio::spawn(connection)));
                Ok(None)
            }
            Err(error) if may_pass(&error) => Ok(Some(with_causes(&error))),
            Err(error) => Err(PgError::from(error).into()),
        }
    }
}

/// Returns whether the cause of an error may pass without a change of settings.
fn may_pass(error: &tokio_postgres::Error) -> bool {
    if let Some(code) = error.code() {
        let passing = [
            &SqlState::CANNOT_CONNECT_NOW,
            &SqlState::ADMIN_SHUTDOWN,
            &SqlState::CRASH_SHUTDOWN,
            &SqlState::TOO_MANY_CONNECTIONS,
        ];
        return passing.contains(&code);
    }
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            // The driver reports a standby, which does not accept writes yet, as PermissionDenied. Errors of TLS, whose
            // settings do not change by waiting, are InvalidData or InvalidInput.
            return !matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput);
        }
        cause = error.source();
    }
    // The connection was closed.
    error.is_closed()
}

#[cfg(test)]
mod tests {
    use journeyman_testkit::Postgres;

    use super::*;

    #[tokio::test]
    async fn a_server_that_is_not_there_is_awaited_and_a_refusal_is_not() {
        let server = Postgres::shared();
        let url = server.database();
        assert_eq!(PostgresStore::unreachable(&url).await.unwrap(), None);
        for away in ["postgres://127.0.0.1:9/x", "postgres://name.invalid/x", "postgres://u@%2Fnowhere/x"] {
            let reason = PostgresStore::unreachable(away).await.unwrap();
            assert!(reason.is_some(), "{away}");
        }
        let unknown = PostgresStore::unreachable(&server.url("nothing")).await.unwrap_err().to_string();
        assert!(unknown.contains("\"nothing\" does not exist"), "{unknown}");
        assert!(PostgresStore::unreachable("nonsense").await.is_err());
    }
}
