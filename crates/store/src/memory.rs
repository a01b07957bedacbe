//! A store in memory, under one lock: the reference that tests compare the other stores with.

mod admin;
mod checks;
mod code_hosts;
mod comparisons;
mod feed;
mod holds;
mod imports;
mod inbox;
mod jobs;
mod keys;
mod outbox;
mod polls;
mod projects;
mod pulls;
mod sealed;
mod slack;
mod spending;
mod templates;
mod trusts;
mod usage;
mod users;
mod webhooks;
mod workers;

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use journeyman_core::audit::{AuditEntry, AuditLine};
use journeyman_core::checks::CheckWatch;
use journeyman_core::code_host::{CodeHost, CodeHostId, HostSecret};
use journeyman_core::feed::FeedEntry;
use journeyman_core::idempotency::{Claim, Remembered};
use journeyman_core::ids::{JobId, KeyId, ProjectId, TemplateId, TrustId, UserId, WebhookId, WorkerId};
use journeyman_core::import::Import;
use journeyman_core::job::change::{Change, Row};
use journeyman_core::job::effect::Effect;
use journeyman_core::job::event::{LogEntry, TRANSCRIPT};
use journeyman_core::job::label::Attribute;
use journeyman_core::job::{Job, JobStatus};
use journeyman_core::key::ApiKey;
use journeyman_core::message::Message;
use journeyman_core::model::budget::Scope;
use journeyman_core::poll::Poll;
use journeyman_core::ports::{Answer, RateCharge, Retention, Store, StoreError, Swept, UpdateError};
use journeyman_core::project::Project;
use journeyman_core::project::hold::Hold;
use journeyman_core::pull::compared::ComparedPull;
use journeyman_core::pull::{Comment, IndexedPull, LocalPull};
use journeyman_core::rate::Window;
use journeyman_core::run::Run;
use journeyman_core::secret::SecretValue;
use journeyman_core::template::Template;
use journeyman_core::time::Timestamp;
use journeyman_core::trust::Trust;
use journeyman_core::usage::UsageSum;
use journeyman_core::user::{Session, SignInLink, TokenHash, User};
use journeyman_core::worker::WorkerReport;
use uuid::Uuid;

use crate::accept::Ledger;
use crate::retention::Ends;
use crate::wakeups::Wakeups;

/// A store that keeps its data only as long as its process runs.
#[derive(Debug)]
pub struct MemoryStore {
    tables: Mutex<Tables>,
    wakeups: Wakeups,
}

/// A value of a project's secret that was changed or removed.
#[derive(Debug)]
struct RetiredSecret {
    project: ProjectId,
    name: String,
    value: SecretValue,
    at: Timestamp,
}

#[derive(Debug, Default)]
struct Tables {
    /// The time of the administrative change that is made.
    now: Timestamp,
    jobs: BTreeMap<JobId, Job>,
    attributes: BTreeMap<JobId, Vec<Attribute>>,
    messages: Vec<Message>,
    runs: Vec<Run>,
    log: BTreeMap<(JobId, u64), LogEntry>,
    idempotency: BTreeMap<(String, String), Remembered<Answer>>,
    /// The answers to administrative requests.
    answers: BTreeMap<(String, String), Remembered<String>>,
    rates: BTreeMap<(ProjectId, &'static str), Window>,
    projects: BTreeMap<ProjectId, Project>,
    secrets: BTreeMap<(ProjectId, String), SecretValue>,
    retired: Vec<RetiredSecret>,
    keys: BTreeMap<KeyId, ApiKey>,
    /// The audit log, in the order of the numbers.
    audit: Vec<AuditLine>,
    users: BTreeMap<UserId, User>,
    sessions: BTreeMap<TokenHash, Session>,
    links: BTreeMap<TokenHash, SignInLink>,
    comments: Vec<((String, u64), Comment)>,
    /// The numbers of the service's comments, by pull request and marker.
    comment_markers: BTreeMap<((String, u64), String), u64>,
    pulls: BTreeMap<(String, u64), LocalPull>,
    /// The sums of money in micros, by project, kind and subject.
    spending: BTreeMap<(ProjectId, &'static str, String), i64>,
    reservations: Vec<spending::Held>,
    last_reservation: i64,
    holds: BTreeMap<ProjectId, Hold>,
    /// In the order of their numbers.
    tasks: Vec<outbox::TaskRow>,
    last_task: u64,
    duties: BTreeMap<&'static str, outbox::DutyRow>,
    code_hosts: BTreeMap<CodeHostId, CodeHost>,
    code_host_secrets: BTreeMap<(CodeHostId, HostSecret), SecretValue>,
    /// The holders and ends of locks.
    locks: BTreeMap<String, (Uuid, Timestamp)>,
    job_pulls: Vec<IndexedPull>,
    /// In the order of their numbers.
    inbox: Vec<inbox::InboxRow>,
    /// The number of the newest event.
    last_event: u64,
    /// The jobs of issues, by host, repository and number.
    job_issues: BTreeMap<(String, String, u64), JobId>,
    watches: BTreeMap<JobId, CheckWatch>,
    polls: BTreeMap<ProjectId, Poll>,
    /// The comparisons of pull requests with their bases, with their projects.
    comparisons: Vec<(ProjectId, ComparedPull)>,
    comparison_schedule: BTreeMap<ProjectId, comparisons::ScheduleRow>,
    imports: BTreeMap<ProjectId, Import>,
    /// The jobs whose transcript was removed since they became inactive.
    trimmed: HashSet<JobId>,
    /// The times at which projects and jobs were deleted.
    deleted: BTreeMap<String, Timestamp>,
    usage: BTreeMap<usage::Place, UsageSum>,
    /// In the order of their positions.
    feed: Vec<FeedEntry>,
    last_position: u64,
    webhooks: BTreeMap<WebhookId, webhooks::WebhookRow>,
    /// In the order of their numbers.
    deliveries: Vec<webhooks::DeliveryRow>,
    last_delivery: u64,
    trusts: BTreeMap<TrustId, Trust>,
    templates: BTreeMap<TemplateId, Template>,
    /// The position in the feed up to which there are deliveries.
    made: u64,
    slack: slack::SlackTables,
    /// The reports of workers, with the times at which they were stored.
    workers: BTreeMap<WorkerId, (Instant, WorkerReport)>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self { tables: Mutex::default(), wakeups: Wakeups::new() }
    }
}

impl MemoryStore {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tables {
    fn note(&mut self, entry: AuditEntry) {
        let number = self.audit.last().map_or(0, |line| line.number) + 1;
        self.audit.push(AuditLine { number, entry });
    }

    fn write(&mut self, change: &Change) {
        let job = change.job.id;
        self.jobs.insert(job, change.job.clone());
        self.trimmed.remove(&job);
        for row in &change.rows {
            self.write_row(&change.job, row);
        }
        for entry in &change.log {
            self.log.insert((job, entry.seq), entry.clone());
        }
    }

    fn write_row(&mut self, job: &Job, row: &Row) {
        match row {
            Row::Feed(event) => self.insert_feed(event),
            Row::Attributes(attributes) => drop(self.attributes.insert(job.id, attributes.clone())),
            Row::InsertMessage(message) => self.messages.push((**message).clone()),
            Row::InsertRun(run) => self.runs.push(run.clone()),
            Row::MessageDelivered { id, run, at } => {
                for message in self.messages.iter_mut().filter(|message| message.id == *id) {
                    message.status = journeyman_core::message::MessageStatus::Delivered;
                    message.run = Some(*run);
                    message.delivered_at = message.delivered_at.or(Some(*at));
                }
            }
            Row::MessageEnded { id, status, at, commits, pr_link, answer } => {
                for message in self.messages.iter_mut().filter(|message| message.id == *id) {
                    message.status = *status;
                    message.finished_at = Some(*at);
                    message.commits.clone_from(commits);
                    message.pr_link.clone_from(pr_link);
                    message.answer.clone_from(answer);
                }
            }
            Row::MessagePublishedWith { id, with, commits, pr_link } => {
                for message in self.messages.iter_mut().filter(|message| message.id == *id) {
                    message.published_with = Some(*with);
                    message.commits.clone_from(commits);
                    message.pr_link.clone_from(pr_link);
                }
            }
            Row::MessageDiff { id, diff } => {
                for message in self.messages.iter_mut().filter(|message| message.id == *id) {
                    message.diff = Some(diff.clone());
                }
            }
            Row::MessageChanged { id, text } => {
                for message in self.messages.iter_mut().filter(|message| message.id == *id) {
                    message.prompt.clone_from(&text.prompt);
                    message.author.clone_from(&text.author);
                    message.source = text.source.as_deref().cloned();
                    message.origin = message.source.as_ref().map_or(message.origin, |source| source.origin);
                }
            }
            Row::InboxDone { numbers, outcome, job, message } => self.events_done(numbers, *outcome, *job, *message),
            Row::IssueJob { repository, number, job, .. } => {
                let key = (repository.host.0.clone(), repository.id.clone(), *number);
                self.job_issues.entry(key).or_insert(*job);
            }
            Row::Pull(pull) => self.put_pull(pull),
            Row::PullState(pull, state, at) => self.set_pull_state(pull, *state, *at),
            Row::WatchChecks { job, project, sha, since, due_at } => {
                self.watches.insert(*job, checks::watch(*job, project, sha, *since, *due_at));
            }
            Row::InsertTask { effect, at } => self.insert_task(effect.clone(), *at),
            Row::RunUsed { id, usage } => {
                for run in self.runs.iter_mut().filter(|run| run.id == *id) {
                    run.usage = run.usage.plus(usage);
                }
                self.add_sum(job, *id, &UsageSum::of_late_calls(usage));
            }
            Row::RunEnded { id, status, reason, at, usage, commits } => {
                for run in self.runs.iter_mut().filter(|run| run.id == *id) {
                    run.status = *status;
                    run.reason.clone_from(reason);
                    run.finished_at = Some(*at);
                    run.usage = *usage;
                    run.commits.clone_from(commits);
                }
                self.add_sum(job, *id, &UsageSum::of_run(usage));
            }
        }
    }
}

impl Ledger for Tables {
    type Error = UpdateError;

    fn epoch(&self) -> u64 {
        0
    }

    fn remembered(&mut self, scope: &str, key: &str) -> Result<Option<Remembered<Answer>>, UpdateError> {
        Ok(self.idempotency.get(&(scope.to_owned(), key.to_owned())).cloned())
    }

    fn window(&mut self, charge: &RateCharge) -> Result<Option<Window>, UpdateError> {
        Ok(self.rates.get(&(charge.project.clone(), charge.kind.name())).copied())
    }

    fn has_project(&mut self, project: &ProjectId) -> Result<bool, UpdateError> {
        Ok(self.projects.contains_key(project))
    }

    fn job(&mut self, id: JobId) -> Result<Option<Job>, UpdateError> {
        Ok(self.jobs.get(&id).cloned())
    }

    fn branch_holder(&mut self, job: &Job) -> Result<Option<JobId>, UpdateError> {
        let name = job.branch_name();
        let holds = |other: &&Job| {
            other.id != job.id
                && other.project == job.project
                && other.status() != JobStatus::Archived
                && other.branch_name() == name
        };
        Ok(self.jobs.values().find(holds).map(|other| other.id))
    }

    fn remember(&mut self, claim: &Claim, known: Remembered<Answer>) -> Result<(), UpdateError> {
        self.idempotency.insert((claim.scope().to_owned(), claim.stored_key()), known);
        Ok(())
    }

    fn count(&mut self, charge: &RateCharge, window: Window) -> Result<(), UpdateError> {
        self.rates.insert((charge.project.clone(), charge.kind.name()), window);
        Ok(())
    }

    fn insert(&mut self, change: &Change) -> Result<(), UpdateError> {
        self.write(change);
        Ok(())
    }

    fn update(&mut self, change: &Change) -> Result<(), UpdateError> {
        self.write(change);
        Ok(())
    }
}

impl Tables {
    /// Returns jobs that have been inactive since `end` or earlier, the longest inactive ones first.
    fn at_rest(&self, end: i64, untrimmed: bool, limit: usize) -> Vec<JobId> {
        let since = |job: &Job| job.rests_since().map(Timestamp::as_micros).filter(|since| *since <= end);
        let selected = |id: &JobId| !(untrimmed && self.trimmed.contains(id));
        let mut resting: Vec<_> = self.jobs.values().filter_map(|job| Some((since(job)?, job.id))).collect();
        resting.sort_unstable();
        resting.into_iter().map(|(_, id)| id).filter(selected).take(limit).collect()
    }

    fn remove(&mut self, deleted: &[JobId], at: Timestamp) {
        for job in deleted {
            self.insert_task(Effect::RemoveBlobs { job: *job, up_to: None }, at);
        }
        self.jobs.retain(|job, _| !deleted.contains(job));
        self.attributes.retain(|job, _| !deleted.contains(job));
        self.messages.retain(|message| !deleted.contains(&message.job));
        self.runs.retain(|run| !deleted.contains(&run.job));
        self.job_pulls.retain(|pull| !deleted.contains(&pull.job));
        self.job_issues.retain(|_, job| !deleted.contains(job));
        self.watches.retain(|job, _| !deleted.contains(job));
        self.log.retain(|(job, _), _| !deleted.contains(job));
        self.slack.remove_jobs(deleted);
        let deleted: HashSet<String> = deleted.iter().map(ToString::to_string).collect();
        self.spending.retain(|(_, kind, subject), _| *kind != Scope::Job.name() || !deleted.contains(subject));
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn ready(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn sweep(&self, now: Timestamp, retention: Retention, limit: usize) -> Result<Swept, StoreError> {
        let (mut tables, ends) = (self.tables(), Ends::new(now, retention));
        let expired = |at: Timestamp, end: i64| at.as_micros() <= end;
        let keys = tables.idempotency.iter().filter(|(_, known)| expired(known.at, ends.idempotency_keys));
        let keys: Vec<_> = keys.map(|(key, _)| key.clone()).take(limit).collect();
        let windows = tables.rates.iter().filter(|(_, window)| expired(window.started_at, ends.rate_windows));
        let windows: Vec<_> = windows.map(|(key, _)| key.clone()).take(limit).collect();
        let audit = tables.audit.iter().filter(|line| expired(line.entry.at, ends.audit)).take(limit).count();
        tables.idempotency.retain(|key, _| !keys.contains(key));
        tables.rates.retain(|key, _| !windows.contains(key));
        tables.audit.drain(..audit);
        tables.sessions.retain(|_, session| session.expires_at() > now);
        tables.links.retain(|_, link| link.expires_at > now);
        let inbox = tables.remove_events(ends.inbox, limit);
        let transcripts = tables.at_rest(ends.transcripts, true, limit);
        tables.log.retain(|(job, _), line| !(transcripts.contains(job) && line.kind.starts_with(TRANSCRIPT)));
        tables.trimmed.extend(&transcripts);
        let feed = tables.feed.iter().filter(|entry| expired(entry.at, ends.feed)).take(limit).count();
        tables.feed.drain(..feed);
        let old = |row: &&webhooks::DeliveryRow| expired(row.delivery.created_at, ends.feed);
        let deliveries = tables.deliveries.iter().filter(old).take(limit).count();
        tables.deliveries.drain(..deliveries);
        let keys_of_trusts = tables.remove_expired_keys(ends.keys, limit);
        tables.deleted.retain(|_, at| !expired(*at, ends.deleted));
        let jobs = tables.at_rest(ends.jobs, false, limit);
        tables.remove(&jobs, now);
        tables.remove_retired(now);
        Ok(Swept {
            idempotency_keys: keys.len(),
            rate_windows: windows.len(),
            transcripts: transcripts.len(),
            jobs: jobs.len(),
            audit,
            inbox,
            feed,
            deliveries,
            keys: keys_of_trusts,
        })
    }
}
