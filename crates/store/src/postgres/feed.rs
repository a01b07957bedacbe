//! New events of the feed, and their positions ([`crate::sql::feed`]).

use journeyman_core::feed::FeedEvent;

use super::Postgres;
use super::error::PgError;
use super::pipeline::{Query, call};
use crate::sql::feed::{ASSIGN, LOCK};

/// Returns the statement that adds events, in order.
pub(super) fn insert(events: &[FeedEvent]) -> Query {
    let texts = |value: fn(&FeedEvent) -> String| events.iter().map(value).collect::<Vec<String>>();
    call!(
        "INSERT INTO feed (project, job, type, at, data)
         SELECT project, job, type, at, data
         FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[])
             WITH ORDINALITY AS new (project, job, type, at, data, place)
         ORDER BY place",
        texts(|event| event.project.to_string()),
        texts(|event| event.job.to_string()),
        texts(|event| event.kind.name().to_owned()),
        events.iter().map(|event| event.at.as_micros()).collect::<Vec<i64>>(),
        texts(|event| event.data.to_string()),
    )
}

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
