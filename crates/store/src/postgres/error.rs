//! Errors of PostgreSQL, and their consequences for a transaction.

use journeyman_core::ports::{StoreError, UpdateError};
use tokio_postgres::error::SqlState;

/// An error from a statement or a transaction.
#[derive(Debug)]
pub(crate) enum PgError {
    /// The connection was lost, or none could be established. Running statements may or may not have taken effect.
    Lost(String),
    /// The connection was lost during a commit, so the transaction may have been committed.
    Unsure(String),
    /// The server returned an error.
    Refused(SqlState, String),
    /// A row cannot be decoded.
    Corrupt(StoreError),
}

impl PgError {
    /// Returns whether the transaction failed because of a conflict with another one, so that a retry may succeed.
    pub(super) fn is_conflict(&self) -> bool {
        let conflicts = [&SqlState::T_R_SERIALIZATION_FAILURE, &SqlState::T_R_DEADLOCK_DETECTED];
        matches!(self, Self::Refused(state, _) if conflicts.contains(&state))
    }

    /// Returns whether other transactions hold locks that the statement needs, so that a later attempt may succeed.
    pub(super) fn is_locked(&self) -> bool {
        self.is_conflict() || matches!(self, Self::Refused(SqlState::LOCK_NOT_AVAILABLE, _))
    }

    /// Returns whether a prepared statement no longer fits its table, because a newer version of the program has added a
    /// column. The connection cannot be used any more; another one prepares the statement again.
    pub(super) fn is_stale_plan(&self) -> bool {
        let is_plan = |text: &str| text.contains("cached plan must not change result type");
        matches!(self, Self::Refused(SqlState::FEATURE_NOT_SUPPORTED, text) if is_plan(text))
    }

    /// Converts an error of statements that include a commit: after a lost connection, the outcome is unknown.
    pub(super) fn of_commit(self) -> Self {
        match self {
            Self::Lost(text) => Self::Unsure(text),
            Self::Refused(..) if self.is_lost() => Self::Unsure("the server ended the connection".to_owned()),
            other => other,
        }
    }

    /// Returns whether the connection was lost or refused, or the server ended it: because of a restart,
    /// `pg_terminate_backend`, or an idle transaction.
    pub(super) fn is_lost(&self) -> bool {
        match self {
            Self::Lost(_) => true,
            Self::Refused(state, _) => {
                let ends = [
                    &SqlState::ADMIN_SHUTDOWN,
                    &SqlState::CRASH_SHUTDOWN,
                    &SqlState::CANNOT_CONNECT_NOW,
                    &SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
                ];
                ends.contains(&state)
            }
            Self::Unsure(_) | Self::Corrupt(_) => false,
        }
    }
}

impl From<tokio_postgres::Error> for PgError {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(error) => Self::Refused(error.code().clone(), error.message().to_owned()),
            None => Self::Lost(with_causes(&error)),
        }
    }
}

impl From<deadpool_postgres::PoolError> for PgError {
    fn from(error: deadpool_postgres::PoolError) -> Self {
        match error {
            deadpool_postgres::PoolError::Backend(error) => error.into(),
            deadpool_postgres::PoolError::Timeout(_) => {
                Self::Lost("timed out while waiting for a connection".to_owned())
            }
            other => Self::Lost(other.to_string()),
        }
    }
}

impl From<StoreError> for PgError {
    fn from(error: StoreError) -> Self {
        Self::Corrupt(error)
    }
}

impl From<PgError> for StoreError {
    fn from(error: PgError) -> Self {
        match error {
            PgError::Lost(text) => Self::Unavailable(format!("PostgreSQL: {text}")),
            PgError::Unsure(text) => Self::Unknown(format!("PostgreSQL: {text}")),
            PgError::Refused(SqlState::LOCK_NOT_AVAILABLE | SqlState::QUERY_CANCELED, _) => Self::Busy,
            PgError::Refused(SqlState::DISK_FULL, text) => Self::Full(format!("PostgreSQL: {text}")),
            PgError::Refused(state, text) => Self::Unavailable(format!("PostgreSQL: {text} ({})", state.code())),
            PgError::Corrupt(error) => error,
        }
    }
}

impl From<PgError> for UpdateError {
    fn from(error: PgError) -> Self {
        Self::Store(error.into())
    }
}

/// Returns the text of an error with its causes, which the driver's own text omits.
pub(super) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
