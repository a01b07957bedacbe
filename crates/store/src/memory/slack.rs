//! Slack workspaces, events, threads and posts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::ids::{JobId, SlackWorkspaceId, UserId};
use journeyman_core::inbox::InboxState;
use journeyman_core::outbox::LONGEST_DELAY;
use journeyman_core::ports::{SlackEventFilter, SlackStore, StoreError};
use journeyman_core::slack::{
    NewSlackEvent, NewSlackPost, SlackDecision, SlackInboxEvent, SlackNext, SlackPlace, SlackPost, SlackPostContent,
    SlackPostState, SlackPosted, SlackSecretChanges, SlackSecrets, SlackThread, SlackWorkspace,
};
use journeyman_core::time::Timestamp;
use journeyman_core::user::TokenHash;

use super::MemoryStore;

/// The tables of Slack.
#[derive(Debug, Default)]
pub(super) struct SlackTables {
    pub(super) workspaces: BTreeMap<SlackWorkspaceId, SlackWorkspace>,
    secrets: BTreeMap<SlackWorkspaceId, SlackSecrets>,
    /// The users of codes, and the times at which the codes expire.
    codes: BTreeMap<TokenHash, (UserId, Timestamp)>,
    /// The events in the order of their numbers, each with the time at which it is due.
    events: Vec<(SlackInboxEvent, Option<Timestamp>)>,
    last_event: u64,
    threads: BTreeMap<SlackPlace, SlackThread>,
    /// The posts in the order of their numbers.
    posts: Vec<PostRow>,
    last_post: u64,
}

#[derive(Debug)]
struct PostRow {
    post: SlackPost,
    due_at: Option<Timestamp>,
    busy_until: Option<Timestamp>,
}

fn is_due(due_at: Option<Timestamp>, now: Timestamp) -> bool {
    due_at.is_some_and(|at| at <= now || at > now + LONGEST_DELAY)
}

impl SlackTables {
    pub(super) fn put(&mut self, workspace: SlackWorkspace, changes: SlackSecretChanges) {
        let secrets = self.secrets.entry(workspace.id).or_default();
        for (name, value) in changes {
            match value {
                Some(value) => secrets.insert(name, value),
                None => secrets.remove(&name),
            };
        }
        self.workspaces.insert(workspace.id, workspace);
    }

    pub(super) fn remove(&mut self, id: SlackWorkspaceId) {
        self.workspaces.remove(&id);
        self.secrets.remove(&id);
        self.events.retain(|(event, _)| event.place.workspace != id);
        self.threads.retain(|place, _| place.workspace != id);
        self.posts.retain(|row| row.post.place.workspace != id);
    }

    /// Removes the threads and events of jobs, and the posts in their threads except statuses of other jobs.
    pub(super) fn remove_jobs(&mut self, jobs: &[JobId]) {
        let threads = self.threads.values().filter(|thread| jobs.contains(&thread.job)).map(|thread| &thread.place);
        let is_of_job = |event: &SlackInboxEvent| event.job.is_some_and(|job| jobs.contains(&job));
        let events = self.events.iter().map(|(event, _)| event).filter(|event| is_of_job(event));
        let places: BTreeSet<SlackPlace> = threads.chain(events.map(|event| &event.place)).cloned().collect();
        self.posts.retain(|row| {
            let is_of_other = match &row.post.content {
                SlackPostContent::Status { job, .. } => !jobs.contains(job),
                SlackPostContent::Text(_) | SlackPostContent::Reaction { .. } => false,
            };
            is_of_other || !places.contains(&row.post.place)
        });
        self.events.retain(|(event, _)| !is_of_job(event));
        self.threads.retain(|_, thread| !jobs.contains(&thread.job));
    }

    pub(super) fn put_code(&mut self, hash: TokenHash, user: UserId, expires_at: Timestamp) {
        self.codes.retain(|_, (owner, _)| *owner != user);
        self.codes.insert(hash, (user, expires_at));
    }

    pub(super) fn remove_code(&mut self, hash: TokenHash) {
        self.codes.remove(&hash);
    }

    /// Returns the user of a code.
    pub(super) fn code(&self, hash: TokenHash) -> Option<UserId> {
        self.codes.get(&hash).map(|(user, _)| *user)
    }

    fn insert_post(&mut self, new: NewSlackPost, at: Timestamp) {
        let NewSlackPost { place, purpose, content } = new;
        if self.posts.iter().any(|row| row.post.place == place && row.post.purpose == purpose) {
            return;
        }
        self.last_post += 1;
        let post = SlackPost {
            number: self.last_post,
            place,
            purpose,
            content,
            ts: None,
            shown: None,
            state: SlackPostState::Open,
            detail: None,
            created_at: at,
            claims: 0,
            failures: 0,
        };
        self.posts.push(PostRow { post, due_at: Some(at), busy_until: None });
    }

    /// Returns the numbers of the posts that may be claimed: one post per channel, which has been due the longest.
    fn due_posts(&self, now: Timestamp, limit: usize) -> Vec<u64> {
        let channel = |row: &PostRow| (row.post.place.workspace, row.post.place.channel.clone());
        let busy = |row: &&PostRow| row.busy_until.is_some_and(|until| until > now && until <= now + LONGEST_DELAY);
        let mut taken: BTreeSet<_> = self.posts.iter().filter(busy).map(channel).collect();
        let mut due: Vec<&PostRow> = self.posts.iter().filter(|row| is_due(row.due_at, now)).collect();
        due.sort_by_key(|row| (row.due_at, row.post.number));
        let free = due.into_iter().filter(|row| taken.insert(channel(row)));
        let mut numbers: Vec<u64> = free.map(|row| row.post.number).collect();
        numbers.sort_unstable();
        numbers.truncate(limit);
        numbers
    }
}

#[async_trait]
impl SlackStore for MemoryStore {
    async fn slack_workspaces(&self) -> Result<Vec<SlackWorkspace>, StoreError> {
        let mut found: Vec<_> = self.tables().slack.workspaces.values().cloned().collect();
        found.sort_by_key(|workspace| (workspace.created_at, workspace.id));
        Ok(found)
    }

    async fn slack_workspace(&self, id: SlackWorkspaceId) -> Result<Option<SlackWorkspace>, StoreError> {
        Ok(self.tables().slack.workspaces.get(&id).cloned())
    }

    async fn slack_secrets(&self, id: SlackWorkspaceId) -> Result<SlackSecrets, StoreError> {
        Ok(self.tables().slack.secrets.get(&id).cloned().unwrap_or_default())
    }

    async fn slack_code(&self, hash: TokenHash, now: Timestamp) -> Result<Option<UserId>, StoreError> {
        let tables = self.tables();
        Ok(tables.slack.codes.get(&hash).filter(|(_, expires_at)| *expires_at > now).map(|(user, _)| *user))
    }

    async fn receive_slack(&self, new: NewSlackEvent) -> Result<bool, StoreError> {
        let NewSlackEvent { workspace, event, at } = new;
        let tables = &mut self.tables().slack;
        let is_known = |(known, _): &(SlackInboxEvent, Option<Timestamp>)| {
            known.place.workspace == workspace && known.event_id == event.event_id
        };
        if !tables.workspaces.contains_key(&workspace) || tables.events.iter().any(is_known) {
            return Ok(false);
        }
        tables.last_event += 1;
        let event = SlackInboxEvent {
            number: tables.last_event,
            place: SlackPlace { workspace, channel: event.channel, thread: event.thread },
            event_id: event.event_id,
            ts: event.ts,
            content: event.content,
            received_at: at,
            state: InboxState::Received,
            outcome: None,
            detail: None,
            job: None,
            message: None,
            attempts: 0,
        };
        tables.events.push((event, Some(at)));
        Ok(true)
    }

    async fn claim_slack_events(
        &self,
        now: Timestamp,
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<SlackInboxEvent>, StoreError> {
        let tables = &mut self.tables().slack;
        let mut first: BTreeMap<SlackPlace, (String, u64)> = BTreeMap::new();
        for (event, _) in tables.events.iter().filter(|(_, due_at)| due_at.is_some()) {
            let key = (event.ts.clone(), event.number);
            let known = first.entry(event.place.clone()).or_insert_with(|| key.clone());
            if key < *known {
                *known = key;
            }
        }
        let mut claimed = Vec::new();
        for (event, due_at) in &mut tables.events {
            let is_first = first.get(&event.place).is_some_and(|(_, number)| *number == event.number);
            if is_first && is_due(*due_at, now) && claimed.len() < limit {
                *due_at = Some(now + lease);
                event.attempts += 1;
                claimed.push(event.clone());
            }
        }
        Ok(claimed)
    }

    async fn decide_slack_event(&self, number: u64, attempt: u32, decision: SlackDecision) -> Result<bool, StoreError> {
        let SlackDecision { next, job, thread, posts, at } = decision;
        let tables = &mut self.tables().slack;
        let is_it = |(event, _): &&mut (SlackInboxEvent, Option<Timestamp>)| {
            event.number == number && event.attempts == attempt && event.state == InboxState::Received
        };
        let Some((event, due_at)) = tables.events.iter_mut().find(is_it) else { return Ok(false) };
        match next {
            SlackNext::Ends(state, outcome, detail) => {
                (event.state, event.outcome, event.detail, *due_at) = (state, Some(outcome), detail, None);
            }
            SlackNext::Retries(at) => *due_at = Some(at),
        }
        let (job, message) = job.unzip();
        (event.job, event.message) = (job, message.flatten());
        if let Some(thread) = thread {
            tables.threads.entry(thread.place.clone()).or_insert(thread);
        }
        posts.into_iter().for_each(|post| tables.insert_post(post, at));
        Ok(true)
    }

    async fn slack_events(&self, filter: SlackEventFilter) -> Result<Vec<SlackInboxEvent>, StoreError> {
        let selects = |event: &&SlackInboxEvent| {
            event.place.workspace == filter.workspace
                && filter.place.as_ref().is_none_or(|place| event.place == *place)
                && filter.before.is_none_or(|before| event.number < before)
        };
        let tables = self.tables();
        let events = tables.slack.events.iter().rev().map(|(event, _)| event);
        Ok(events.filter(selects).take(filter.limit).cloned().collect())
    }

    async fn slack_thread(&self, place: SlackPlace) -> Result<Option<SlackThread>, StoreError> {
        Ok(self.tables().slack.threads.get(&place).cloned())
    }

    async fn claim_slack_posts(
        &self,
        now: Timestamp,
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<SlackPost>, StoreError> {
        let tables = &mut self.tables().slack;
        let due = tables.due_posts(now, limit);
        let mut claimed = Vec::new();
        for row in tables.posts.iter_mut().filter(|row| due.contains(&row.post.number)) {
            (row.due_at, row.busy_until) = (Some(now + lease), Some(now + lease));
            row.post.claims += 1;
            claimed.push(row.post.clone());
        }
        Ok(claimed)
    }

    async fn finish_slack_post(&self, posted: SlackPosted) -> Result<bool, StoreError> {
        let tables = &mut self.tables().slack;
        let is_it = |row: &&mut PostRow| {
            let known = &row.post;
            known.number == posted.number && known.claims == posted.claim && known.state == SlackPostState::Open
        };
        let Some(row) = tables.posts.iter_mut().find(is_it) else { return Ok(false) };
        let post = &mut row.post;
        post.ts = posted.ts.or_else(|| post.ts.take());
        post.shown = posted.shown.or_else(|| post.shown.take());
        (post.state, post.detail, post.failures) = (posted.state, posted.detail, posted.failures);
        (row.due_at, row.busy_until) = (posted.due_at, Some(posted.free_at));
        Ok(true)
    }

    async fn slack_posts(
        &self,
        workspace: SlackWorkspaceId,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<SlackPost>, StoreError> {
        let tables = self.tables();
        let own = tables.slack.posts.iter().rev().map(|row| &row.post);
        let own = own.filter(|post| post.place.workspace == workspace);
        let own = own.filter(|post| before.is_none_or(|before| post.number < before));
        Ok(own.take(limit).cloned().collect())
    }

    async fn sweep_slack(&self, before: Timestamp, codes_before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        let tables = &mut self.tables().slack;
        let rows = tables.events.len() + tables.posts.len() + tables.codes.len();
        let (mut events, mut posts) = (limit, limit);
        let keeps = |left: &mut usize, is_old: bool| {
            let removes = is_old && *left > 0;
            *left -= usize::from(removes);
            !removes
        };
        tables.events.retain(|(event, due_at)| keeps(&mut events, event.received_at <= before && due_at.is_none()));
        tables.posts.retain(|row| keeps(&mut posts, row.post.created_at <= before && row.due_at.is_none()));
        tables.codes.retain(|_, (_, expires_at)| *expires_at > codes_before);
        Ok(rows - tables.events.len() - tables.posts.len() - tables.codes.len())
    }
}
