//! New events of the feed ([`crate::sql::feed`]).

use journeyman_core::feed::FeedEvent;

use super::pipeline::{Query, call};

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
