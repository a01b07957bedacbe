//! What can go wrong with PostgreSQL, and what follows from it.

use journeyman_core::ports::{ProjectWriteError, StoreError, UpdateError};
use tokio_postgres::error::SqlState;

/// Why a statement, or all of a transaction, did nothing.
#[derive(Debug)]
pub(crate) enum PgError {
    /// The connection is gone, or none could be had: what was under way may or may not have happened.
    Lost(String),
    /// The connection was lost during a transaction that wrote: it may have been committed.
    Unsure(String),
    /// The server said no.
    Refused(SqlState, String),
    /// A row holds what this version does not know.
    Corrupt(StoreError),
}

impl PgError {
    /// The same once more may succeed: another transaction was in the way.
    pub(super) fn is_conflict(&self) -> bool {
        let conflicts = [&SqlState::T_R_SERIALIZATION_FAILURE, &SqlState::T_R_DEADLOCK_DETECTED];
        matches!(self, Self::Refused(state, _) if conflicts.contains(&state))
    }

    /// A unique index refused a row: what is to be unique is taken.
    pub(super) fn is_taken(&self) -> bool {
        matches!(self, Self::Refused(state, _) if *state == SqlState::UNIQUE_VIOLATION)
    }

    /// As the error of statements that included a commit.
    pub(super) fn of_commit(self) -> Self {
        match self {
            Self::Lost(text) => Self::Unsure(text),
            Self::Refused(..) if self.is_lost() => Self::Unsure("the server ended the connection".to_owned()),
            other => other,
        }
    }

    /// The server ends connections, because it stops or somebody asked it to.
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
            Some(said) => Self::Refused(said.code().clone(), said.message().to_owned()),
            None => Self::Lost(with_causes(&error)),
        }
    }
}

impl From<deadpool_postgres::PoolError> for PgError {
    fn from(error: deadpool_postgres::PoolError) -> Self {
        match error {
            deadpool_postgres::PoolError::Backend(error) => error.into(),
            deadpool_postgres::PoolError::Timeout(_) => Self::Lost("no connection could be had in time".to_owned()),
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

impl From<PgError> for ProjectWriteError {
    fn from(error: PgError) -> Self {
        Self::Store(error.into())
    }
}

/// An error with what caused it; the driver's own text leaves that out.
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
