//! The positions of events in the feed.

use super::Postgres;
use super::error::PgError;
use super::pipeline::call;
use crate::sql::feed::{ASSIGN, LOCK};

/// The number of events that get positions in one statement ([`ASSIGN`]).
const AT_ONCE: i64 = 10_000;

const UNREAD: &str = "SELECT 1 FROM feed WHERE position IS NULL LIMIT 1";

impl Postgres {
    pub(super) async fn assign_all_positions(&self) -> Result<(), PgError> {
        if self.read(call!(UNREAD)).await?.is_empty() {
            return Ok(());
        }
        loop {
            let answers = self.write(vec![call!(LOCK), call!(ASSIGN)]).await?;
            let row = answers.last().and_then(|rows| rows.first());
            let assigned: i64 = row.map(|row| row.try_get("assigned")).transpose()?.unwrap_or(0);
            if assigned < AT_ONCE {
                return Ok(());
            }
        }
    }
}
