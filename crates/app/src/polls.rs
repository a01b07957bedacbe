//! Polls code hosts, so that comments, reviews and ended pull requests reach jobs without a webhook.
//!
//! One process polls at a time. Each project with a repository on a code host has a row with the time of its next poll
//! and the position of the last one. The position moves only after what was found is stored in the inbox, so a restart
//! loses nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use journeyman_core::code_host::{CodeHost, HostKind, HostName, PullRepository, PullState};
use journeyman_core::hook::{CommentKind, HookContent, HookEvent};
use journeyman_core::ids::ProjectId;
use journeyman_core::inbox::route::{Identity, Request, addressed};
use journeyman_core::inbox::text::Dialect;
use journeyman_core::inbox::{Content, NewEvent};
use journeyman_core::poll::budget::Budget;
use journeyman_core::poll::schedule::{Activity, interval};
use journeyman_core::poll::{
    Cost, LONGEST_DELAY, LOOKBACK, POLLED, Poll, PollProblem, PollQuery, Polled, WatchedPull, changes_state, delivery,
    is_known,
};
use journeyman_core::ports::{ForgeError, PollTotals, StoreError};
use journeyman_core::project::Project;
use journeyman_core::time::Timestamp;

use crate::UseCases;

/// The maximum number of repositories of a code host that are polled at the same time.
const CONCURRENT: usize = 8;

/// The interval at which the schedule is compared with the projects.
const PLAN: Duration = Duration::from_secs(60);

/// The time after which a repository that cannot be polled is tried again.
const IMPOSSIBLE: Duration = Duration::from_secs(600);

/// The number of polls of a repository of which one confirms that it is still at its address.
const CONFIRMED: u64 = 10;

/// The time limit of a poll. It is shorter than that of the duty, so that the failure is recorded.
const LONGEST_POLL: Duration = Duration::from_secs(45);

/// The requests that reading the service's own user counts for.
const ME: Cost = Cost { requests: 2, charged: 2 };

/// The requests that a failed poll counts for.
const FAILED: Cost = Cost { requests: 1, charged: 1 };

/// Polls code hosts.
pub struct Poller {
    cases: UseCases,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    budgets: BTreeMap<HostName, Budget>,
    totals: BTreeMap<HostName, PollTotals>,
    planned_at: Option<Timestamp>,
}

/// The result of the poll of a repository.
enum Outcome {
    /// The project was removed.
    Removed,
    /// The repository cannot be polled, for example because there is no credential.
    Impossible,
    /// The poll has ended; the number of new events.
    Polled(Box<Polled>, usize),
    /// The poll failed.
    Failed(ForgeError),
}

impl Poller {
    /// Returns a poller that has not polled yet.
    #[must_use]
    pub fn new(cases: UseCases) -> Self {
        Self { cases, state: Mutex::default() }
    }

    /// Returns the counters of the polls of each code host.
    #[must_use]
    pub fn totals(&self) -> Vec<PollTotals> {
        self.state().totals.values().cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn plans(&self, now: Timestamp) -> bool {
        self.state().planned_at.is_none_or(|at| now.since(at) >= PLAN || at > now)
    }

    /// Returns whether there is something to do for [`Poller::poll_due`].
    ///
    /// # Errors
    /// The store failed.
    pub async fn is_due(&self) -> Result<bool, StoreError> {
        let (store, now) = (&self.cases.parts().store, self.cases.parts().engine.now());
        if self.plans(now) {
            return Ok(true);
        }
        for host in store.polled_hosts().await? {
            if self.available(&host, now) > 0 && !store.due_polls(host, now, 1).await?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Polls the repositories that are due, as far as the rate limits permit. Only one process may do so at a time.
    ///
    /// # Errors
    /// The store failed. Repositories that were not polled remain due.
    pub async fn poll_due(&self) -> Result<(), StoreError> {
        let parts = self.cases.parts();
        let now = parts.engine.now();
        if self.plans(now) {
            self.plan(now).await?;
            self.state().planned_at = Some(now);
        }
        // A code host that does not answer must not delay the polls of others.
        let hosts = parts.store.polled_hosts().await?;
        let ends = join_all(hosts.into_iter().map(|host| self.poll_host(host, now))).await;
        ends.into_iter().collect()
    }

    async fn poll_host(&self, host: HostName, now: Timestamp) -> Result<(), StoreError> {
        let available = self.available(&host, now).min(CONCURRENT);
        if available > 0 {
            let due = self.cases.parts().store.due_polls(host, now, available).await?;
            let ends = join_all(due.into_iter().map(|poll| self.poll(poll, now))).await;
            ends.into_iter().collect::<Result<(), StoreError>>()?;
        }
        Ok(())
    }

    /// Returns the number of repositories of a code host that may be polled now.
    fn available(&self, host: &HostName, now: Timestamp) -> usize {
        self.state().budgets.get_mut(host).map_or(0, |budget| budget.available(now))
    }

    /// Compares the schedule with the projects: adds new ones, removes others, and polls those soon whose jobs have
    /// opened pull requests.
    async fn plan(&self, now: Timestamp) -> Result<(), StoreError> {
        let (store, forges) = (&self.cases.parts().store, &self.cases.parts().forges);
        let open: BTreeMap<ProjectId, u32> = store.open_pulls().await?.into_iter().collect();
        let mut rows: BTreeMap<ProjectId, Poll> =
            store.polls().await?.into_iter().map(|poll| (poll.project.clone(), poll)).collect();
        let mut kinds = BTreeMap::new();
        for project in store.projects().await? {
            let Ok(Some(host)) = forges.code_host(&project).await else { continue };
            let pulls = open.get(&project.id).copied().unwrap_or(0);
            if !is_polled(&host, &project, pulls) {
                continue;
            }
            kinds.insert(host.name(), host.kind);
            let row = rows.remove(&project.id);
            let is_of_host = row.as_ref().is_some_and(|row| row.host == host.name());
            let version = row.as_ref().map_or(1, |row| row.version + 1);
            let first = Poll {
                project: project.id.clone(),
                host: host.name(),
                cursor: None,
                next_at: now,
                pulls: 0,
                quiet: 0,
                failures: 0,
                problem: None,
                version,
            };
            match row.filter(|_| is_of_host) {
                None => drop(store.put_poll(first).await?),
                Some(row) if pulls > row.pulls && row.failures == 0 && row.next_at > now => {
                    store.put_poll(Poll { next_at: now, pulls, quiet: 0, version, ..row }).await?;
                }
                Some(_) => {}
            }
        }
        for project in rows.into_keys() {
            store.remove_poll(project).await?;
        }
        let mut state = self.state();
        for (host, kind) in kinds {
            state.budgets.entry(host).or_insert_with(|| Budget::new(kind, now));
        }
        Ok(())
    }

    /// Polls the repository of a project, and stores what was found, and then the next position.
    async fn poll(&self, poll: Poll, now: Timestamp) -> Result<(), StoreError> {
        let store = &self.cases.parts().store;
        let outcome = match tokio::time::timeout(LONGEST_POLL, self.read(&poll, now)).await {
            Ok(outcome) => outcome?,
            Err(_) => {
                let text = format!("the code host did not answer in {} s", LONGEST_POLL.as_secs());
                Outcome::Failed(ForgeError::Unclear(text))
            }
        };
        let mut activity = Activity { quiet: poll.quiet, failures: 0, ..Activity::default() };
        let (mut cursor, mut wait, mut problem) = (poll.cursor.clone(), None, None);
        match outcome {
            Outcome::Removed => return store.remove_poll(poll.project).await,
            Outcome::Impossible => wait = Some(IMPOSSIBLE),
            Outcome::Polled(polled, found) => {
                self.count(&poll.host, polled.cost, found, true);
                if let (Some(quota), Some(budget)) = (polled.quota, self.state().budgets.get_mut(&poll.host)) {
                    budget.observe(quota, now);
                }
                activity.quiet = if found > 0 { 0 } else { poll.quiet.saturating_add(1) };
                cursor = Some(polled.cursor);
            }
            Outcome::Failed(error) => {
                self.count(&poll.host, FAILED, 0, false);
                tracing::warn!(project = %poll.project, host = %poll.host, %error, "a code host could not be polled");
                if let ForgeError::RateLimited(time) = error {
                    wait = Some(time);
                    if let Some(budget) = self.state().budgets.get_mut(&poll.host) {
                        budget.block(now + time);
                    }
                }
                activity.failures = poll.failures.saturating_add(1);
                let since = poll.problem.as_ref().map_or(now, |known| known.since);
                problem = Some(PollProblem { text: error.to_string(), since });
            }
        }
        let pulls = store.indexed_pulls_in(poll.project.clone()).await?;
        let open = pulls.iter().filter(|pull| pull.state == PullState::Open).count();
        activity.has_pulls = open > 0;
        activity.hooked_at = store.last_hook_at(poll.project.clone()).await?;
        let next = Poll {
            cursor,
            next_at: now + wait.unwrap_or_else(|| interval(activity, now)).min(LONGEST_DELAY),
            pulls: u32::try_from(open).unwrap_or(u32::MAX),
            quiet: activity.quiet,
            failures: activity.failures,
            problem,
            version: poll.version + 1,
            ..poll
        };
        store.put_poll(next).await?;
        Ok(())
    }

    async fn read(&self, poll: &Poll, now: Timestamp) -> Result<Outcome, StoreError> {
        let parts = self.cases.parts();
        let Some(project) = parts.store.project(poll.project.clone()).await? else { return Ok(Outcome::Removed) };
        let found = async {
            let forge = parts.forges.of(&project).await?;
            let host = parts.forges.code_host(&project).await?;
            Ok::<_, ForgeError>((forge, host))
        };
        let (forge, host) = match found.await {
            Ok((forge, Some(host))) => (forge, host),
            Ok(_) => return Ok(Outcome::Impossible),
            Err(error) => return Ok(Outcome::Failed(error)),
        };
        let query = self.query(poll, &project, &host, now).await?;
        let Some(changes) = forge.changes() else { return Ok(Outcome::Impossible) };
        let mut polled = match changes.poll(&query).await {
            Ok(polled) => polled,
            Err(error) => return Ok(Outcome::Failed(error)),
        };
        polled.events = polled.events.into_iter().map(HookEvent::bounded).collect();
        let me = match forge.discussion() {
            Some(discussion) if !polled.events.is_empty() => {
                polled.cost.requests += ME.requests;
                polled.cost.charged += ME.charged;
                discussion.me().await.ok()
            }
            _ => None,
        };
        let aliases = match forge.discussion() {
            Some(discussion) if me.is_some() => discussion.aliases().await.unwrap_or_default(),
            _ => Vec::new(),
        };
        let dialect = Dialect::of(Some(host.kind));
        let identity =
            Identity { me, aliases, trusted_bots: BTreeSet::new(), dialect, has_reviews: host.kind.reports_reviews() };
        let mut stored = 0;
        for event in &polled.events {
            if author(event).is_some() && author(event) == identity.me.as_ref().map(|me| me.id.as_str()) {
                continue;
            }
            let Some(delivery) = delivery(event) else { continue };
            let delivery = if changes_state(event, &query) { format!("{delivery}/{}", poll.version) } else { delivery };
            let is_request = |text: &str| identity.request(&project.settings.comments, text) != Request::None;
            let is_new =
                self.matters(event, is_request, &query, &host).await? && !self.is_known(event, &project, &host).await?;
            if is_new && self.store(event, delivery, &project, &host, now).await? {
                stored += 1;
            }
        }
        if stored > 0 {
            self.cases.wake_inbox();
        }
        Ok(Outcome::Polled(Box::new(polled), stored))
    }

    async fn query(
        &self,
        poll: &Poll,
        project: &Project,
        host: &CodeHost,
        now: Timestamp,
    ) -> Result<PollQuery, StoreError> {
        let mut pulls = self.cases.parts().store.indexed_pulls_in(project.id.clone()).await?;
        pulls.retain(|pull| pull.repository.host == host.name());
        let watched = pulls.into_iter().map(|pull| WatchedPull {
            repository: pull.repository.id,
            number: pull.number,
            head: pull.head,
            head_sha: pull.head_sha,
            state: pull.state,
        });
        Ok(PollQuery {
            cursor: poll.cursor.clone(),
            from: now - LOOKBACK,
            pulls: watched.collect(),
            issue_label: issue_label(host, project),
            confirms: poll.version.is_multiple_of(CONFIRMED),
        })
    }

    /// Returns whether an event can be about a job, or can make a job. Lists of comments have those of all
    /// pull requests and issues.
    async fn matters(
        &self,
        event: &HookEvent,
        is_request: impl Fn(&str) -> bool,
        query: &PollQuery,
        host: &CodeHost,
    ) -> Result<bool, StoreError> {
        match (&event.content, &event.repository) {
            (HookContent::Comment { number, comment, .. }, Some(found)) if comment.kind == CommentKind::Issue => {
                if query.issue_label.is_some() && is_request(&comment.body) {
                    return Ok(true);
                }
                let repository = PullRepository { host: host.name(), id: found.id.clone() };
                Ok(self.cases.parts().store.job_of_issue(repository, *number).await?.is_some())
            }
            // A mention makes a job of a pull request that has none.
            (HookContent::Comment { number, comment, .. }, _) => {
                Ok(query.pull(*number).is_some() || is_request(&comment.body))
            }
            _ => Ok(true),
        }
    }

    /// Returns whether the inbox has decided about the text of a comment or review before. Otherwise each comment whose
    /// webhook has arrived would be shown in the inbox twice.
    async fn is_known(&self, event: &HookEvent, project: &Project, host: &CodeHost) -> Result<bool, StoreError> {
        let Some((_, key)) = addressed(event) else { return Ok(false) };
        let known = self.cases.known_about(&host.name(), &project.id, key).await?;
        Ok(is_known(event, &known))
    }

    /// Stores an event in the inbox. Returns false if it is known.
    async fn store(
        &self,
        event: &HookEvent,
        delivery: String,
        project: &Project,
        host: &CodeHost,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let new = NewEvent {
            host: host.name(),
            code_host: Some(host.id.clone()),
            project: Some(project.id.clone()),
            delivery,
            event: POLLED.to_owned(),
            content: Content::Read(Box::new(event.clone())),
            at: now,
        };
        self.cases.parts().store.receive(new).await
    }

    fn count(&self, host: &HostName, cost: Cost, events: usize, succeeded: bool) {
        let mut state = self.state();
        if let Some(budget) = state.budgets.get_mut(host) {
            budget.spend(cost);
        }
        let none = PollTotals { host: host.0.clone(), polls: 0, failures: 0, requests: 0, events: 0 };
        let totals = state.totals.entry(host.clone()).or_insert(none);
        totals.polls += 1;
        totals.failures += u64::from(!succeeded);
        totals.requests += u64::from(cost.requests);
        totals.events += events as u64;
    }
}

impl UseCases {
    /// Polls the repository of a project soon if the last polls have failed, because it may be readable now.
    pub(crate) async fn poll_soon(&self, project: &ProjectId) -> Result<(), StoreError> {
        let store = &self.parts().store;
        let Some(poll) = store.poll_of(project.clone()).await?.filter(|poll| poll.failures > 0) else {
            return Ok(());
        };
        let (next_at, version) = (self.parts().engine.now(), poll.version + 1);
        // If the repository was polled meanwhile, its row has another version and stays.
        store.put_poll(Poll { next_at, version, ..poll }).await.map(drop)
    }
}

/// Returns whether the repository of a project is polled: the code host has a credential, and there is something to
/// wait for.
fn is_polled(host: &CodeHost, project: &Project, open: u32) -> bool {
    host.polls && (open > 0 || issue_label(host, project).is_some())
}

/// Returns the label that makes an issue a job. Bitbucket has no issues.
fn issue_label(host: &CodeHost, project: &Project) -> Option<String> {
    let has_issues = !matches!(host.kind, HostKind::Bitbucket | HostKind::BitbucketDataCenter);
    project.settings.comments.issue_label().filter(|_| has_issues).map(str::to_owned)
}

/// Returns the ID of the author of a comment or review.
fn author(event: &HookEvent) -> Option<&str> {
    match &event.content {
        HookContent::Comment { comment, .. } => Some(&comment.author.id),
        HookContent::Review { review, .. } => Some(&review.author.id),
        _ => None,
    }
}
