//! Slack workspaces, events, threads and posts.

mod admin;
mod claims;
mod removal;
#[cfg(test)]
mod tests;

use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::ids::{SlackWorkspaceId, UserId};
use journeyman_core::inbox::InboxState;
use journeyman_core::ports::{SlackEventFilter, SlackStore, StoreError};
use journeyman_core::slack::{
    NewSlackEvent, NewSlackPost, SlackDecision, SlackInboxEvent, SlackNext, SlackPost, SlackPostState, SlackPosted,
    SlackSecrets, SlackThread, SlackThreadId,
};
use journeyman_core::time::Timestamp;
use journeyman_core::user::TokenHash;

pub(crate) use self::admin::{put_code, remove_code};
pub(crate) use self::removal::{remove_of_jobs, remove_of_project};
use super::{Database, SqlStore, Statement, decoded, sql};
use crate::rows::{self, name_of, to_json};
use crate::vault;

#[async_trait]
impl<B: Database> SlackStore for SqlStore<B> {
    async fn slack_secrets(&self, id: SlackWorkspaceId) -> Result<SlackSecrets, StoreError> {
        let query = sql!("SELECT name, value FROM slack_secrets WHERE workspace = $1", id.to_string());
        vault::open_slack(&self.master_keys, id, decoded(&self.look_up(query).await?, rows::secret)?)
    }

    async fn slack_code(&self, hash: TokenHash, now: Timestamp) -> Result<Option<UserId>, StoreError> {
        let query = sql!("SELECT owner FROM slack_codes WHERE hash = $1 AND expires_at > $2", hash.0, now);
        self.find(query, rows::slack_code).await
    }

    async fn receive_slack(&self, new: NewSlackEvent) -> Result<bool, StoreError> {
        let NewSlackEvent { workspace, event, at } = new;
        let insert = sql!(
            "INSERT INTO slack_events (workspace, event_id, channel, thread, ts, content, received_at, state, due_at)
             SELECT id, $2::text, $3::text, $4::text, $5::text, $6::text, $7::bigint, 'received', $7::bigint
             FROM slack_workspaces WHERE id = $1
             ON CONFLICT DO NOTHING RETURNING 1",
            workspace.to_string(),
            event.event_id,
            event.channel,
            event.thread,
            event.ts,
            to_json(&event.content)?,
            at,
        );
        self.changes(insert).await
    }

    async fn claim_slack_events(
        &self,
        now: Timestamp,
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<SlackInboxEvent>, StoreError> {
        let claimed = self.claim(claims::any_event(now), claims::events(now, lease, limit)).await?;
        let mut claimed = decoded(&claimed, rows::slack_event)?;
        claimed.sort_unstable_by_key(|event: &SlackInboxEvent| event.number);
        Ok(claimed)
    }

    async fn decide_slack_event(&self, number: u64, attempt: u32, decision: SlackDecision) -> Result<bool, StoreError> {
        Ok(!self.run(decide(number, attempt, decision)?).await?.is_empty())
    }

    async fn slack_events(&self, filter: SlackEventFilter) -> Result<Vec<SlackInboxEvent>, StoreError> {
        let SlackEventFilter { workspace, thread, before, limit } = filter;
        let query = match thread {
            Some(thread) => events_of_thread(&thread, before, limit),
            None => events(workspace, before, limit),
        };
        self.all(query, rows::slack_event).await
    }

    async fn slack_thread(&self, id: SlackThreadId) -> Result<Option<SlackThread>, StoreError> {
        self.find(thread(&id), rows::slack_thread).await
    }

    async fn claim_slack_posts(
        &self,
        now: Timestamp,
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<SlackPost>, StoreError> {
        let claimed = self.claim(claims::any_post(now), claims::posts(now, lease, limit)).await?;
        let mut claimed = decoded(&claimed, rows::slack_post)?;
        claimed.sort_unstable_by_key(|post: &SlackPost| post.number);
        Ok(claimed)
    }

    async fn finish_slack_post(&self, posted: SlackPosted) -> Result<bool, StoreError> {
        let SlackPosted { number, claim, ts, shown, state, detail, failures, due_at, free_at } = posted;
        let finish = sql!(
            "UPDATE slack_posts
             SET ts = coalesce($3::text, ts), shown = coalesce($4::text, shown), state = $5, detail = $6, failures = $7,
                 due_at = $8, busy_until = $9
             WHERE number = $1 AND claims = $2 AND state = 'open' RETURNING 1",
            number,
            claim,
            ts,
            shown,
            state.name(),
            detail,
            failures,
            due_at,
            free_at,
        );
        self.changes(finish).await
    }

    async fn slack_posts(
        &self,
        workspace: SlackWorkspaceId,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<SlackPost>, StoreError> {
        self.all(posts(workspace, before, limit), rows::slack_post).await
    }

    async fn sweep_slack(&self, before: Timestamp, codes_before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        let sweep = vec![
            sql!(
                "DELETE FROM slack_events WHERE number IN
                 (SELECT number FROM slack_events WHERE received_at <= $1 AND due_at IS NULL LIMIT $2
                  FOR UPDATE SKIP LOCKED)
                 RETURNING 1",
                before,
                limit,
            ),
            sql!(
                "DELETE FROM slack_posts WHERE number IN
                 (SELECT number FROM slack_posts WHERE created_at <= $1 AND due_at IS NULL LIMIT $2
                  FOR UPDATE SKIP LOCKED)
                 RETURNING 1",
                before,
                limit,
            ),
            sql!("DELETE FROM slack_codes WHERE expires_at <= $1 RETURNING 1", codes_before),
        ];
        Ok(self.run_all(sweep).await?.iter().map(Vec::len).sum())
    }
}

/// Returns the statement that selects the newest events of a workspace before one.
fn events(workspace: SlackWorkspaceId, before: Option<u64>, limit: usize) -> Statement {
    sql!(
        "SELECT * FROM slack_events WHERE workspace = $1 AND number < $2 ORDER BY number DESC LIMIT $3",
        workspace.to_string(),
        before.unwrap_or(u64::MAX),
        limit,
    )
}

/// Returns the statement that selects the newest events of a thread before one.
fn events_of_thread(thread: &SlackThreadId, before: Option<u64>, limit: usize) -> Statement {
    sql!(
        "SELECT * FROM slack_events
         WHERE workspace = $1 AND channel = $2 AND thread = $3 AND number < $4 ORDER BY number DESC LIMIT $5",
        thread.workspace.to_string(),
        &thread.channel,
        &thread.thread,
        before.unwrap_or(u64::MAX),
        limit,
    )
}

/// Returns the statement that selects the newest posts of a workspace before one.
fn posts(workspace: SlackWorkspaceId, before: Option<u64>, limit: usize) -> Statement {
    sql!(
        "SELECT * FROM slack_posts WHERE workspace = $1 AND number < $2 ORDER BY number DESC LIMIT $3",
        workspace.to_string(),
        before.unwrap_or(u64::MAX),
        limit,
    )
}

/// Returns the statement that selects a thread.
fn thread(id: &SlackThreadId) -> Statement {
    sql!(
        "SELECT * FROM slack_threads WHERE workspace = $1 AND channel = $2 AND thread = $3",
        id.workspace.to_string(),
        &id.channel,
        &id.thread,
    )
}

/// Returns the statements that store a decision. The first takes the lock of the event; those after it have an effect only
/// if the event is still claimed, and the last one returns a row if it is.
fn decide(event: u64, attempt: u32, decision: SlackDecision) -> Result<Vec<Statement>, StoreError> {
    let SlackDecision { next, job, thread, posts, at } = decision;
    let (state, outcome, detail, due_at) = match next {
        SlackNext::Ends(state, outcome, detail) => (state, Some(outcome), detail, None),
        SlackNext::Retries(at) => (InboxState::Received, None, None, Some(at)),
    };
    let mut statements = vec![sql!(
        "SELECT 1 FROM slack_events WHERE number = $1 AND attempts = $2 AND state = 'received' FOR UPDATE",
        event,
        attempt,
    )];
    if let Some(SlackThread { id, project, job }) = thread {
        statements.push(sql!(
            "INSERT INTO slack_threads (workspace, channel, thread, project, job)
             SELECT $3::text, $4::text, $5::text, $6::text, $7::text
             WHERE EXISTS (SELECT 1 FROM slack_events WHERE number = $1 AND attempts = $2 AND state = 'received')
             ON CONFLICT DO NOTHING",
            event,
            attempt,
            id.workspace.to_string(),
            id.channel,
            id.thread,
            project.as_str(),
            job.to_string(),
        ));
    }
    for NewSlackPost { thread, purpose, content } in posts {
        statements.push(sql!(
            "INSERT INTO slack_posts (workspace, channel, thread, purpose, content, state, created_at, due_at)
             SELECT $3::text, $4::text, $5::text, $6::text, $7::text, $8::text, $9::bigint, $9::bigint
             WHERE EXISTS (SELECT 1 FROM slack_events WHERE number = $1 AND attempts = $2 AND state = 'received')
             ON CONFLICT DO NOTHING",
            event,
            attempt,
            thread.workspace.to_string(),
            thread.channel,
            thread.thread,
            purpose,
            to_json(&content)?,
            SlackPostState::Open.name(),
            at,
        ));
    }
    let (job, message) = job.unzip();
    statements.push(sql!(
        "UPDATE slack_events
         SET state = $3, outcome = $4, detail = $5, due_at = $6, job = $7, message = $8
         WHERE number = $1 AND attempts = $2 AND state = 'received' RETURNING 1",
        event,
        attempt,
        state.name(),
        outcome.map(|outcome| name_of(&outcome)).transpose()?,
        detail,
        due_at,
        job.map(|job| job.to_string()),
        message.flatten().map(|message| message.to_string()),
    ));
    Ok(statements)
}
