//! A store in memory, under one lock: the reference that tests compare the other stores with.

mod admin;
mod checks;
mod code_hosts;
mod feed;
mod holds;
mod imports;
mod inbox;
mod outbox;
mod polls;
mod slack;
mod spending;
mod trusts;
mod usage;
mod users;
mod webhooks;
mod workers;

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use journeyman_core::checks::CheckWatch;
use journeyman_core::code_host::{CodeHost, CodeHostId, HostSecret};
use journeyman_core::feed::FeedEntry;
use journeyman_core::idempotency::{Claim, Remembered};
use journeyman_core::ids::{JobId, KeyId, MessageId, ProjectId, RunId, TrustId, UserId, WebhookId, WorkerId};
use journeyman_core::import::Import;
use journeyman_core::job::change::{Change, MESSAGE_ACCEPTED, Row};
use journeyman_core::job::effect::Effect;
use journeyman_core::job::event::{LogEntry, TRANSCRIPT, TranscriptKind};
use journeyman_core::job::label::Attribute;
use journeyman_core::job::summary::{JobSummary, PlanProgress, STEP_WINDOW, ToolEntry};
use journeyman_core::job::{Job, JobStatus};
use journeyman_core::key::{ApiKey, KeyHash};
use journeyman_core::message::Message;
use journeyman_core::model::price::Scope;
use journeyman_core::poll::Poll;
use journeyman_core::ports::{
    Accepted, Answer, AuditEntry, AuditFilter, AuditLine, ClaimFn, ClaimQuery, Decide, Guard, JobCounts, JobExtras,
    JobFilter, JobStore, JobWatch, KeyStore, MessageFilter, PATIENCE, Picked, ProjectJobs, ProjectStore, PullStore,
    RateCharge, Retention, Store, StoreError, Swept, UpdateError,
};
use journeyman_core::project::hold::Hold;
use journeyman_core::project::{Project, RepositoryIdentity, SecretValue};
use journeyman_core::pull::{Comment, IndexedPull, LocalPull, NewComment, NewPull, PullState, PullText};
use journeyman_core::rate::Window;
use journeyman_core::retry::LONGEST_BACKOFF;
use journeyman_core::run::{Run, RunStatus};
use journeyman_core::time::Timestamp;
use journeyman_core::trust::Trust;
use journeyman_core::usage::UsageSum;
use journeyman_core::user::{Session, SignInLink, TokenHash, User};
use journeyman_core::worker::WorkerReport;
use uuid::Uuid;

use crate::accept::{self, Ledger};
use crate::lists::{self, PlanRow, SummaryRow};
use crate::retention::Ends;
use crate::rows::name_of;
use crate::wakeups::Wakeups;
use crate::watch::Watch;

/// A store that keeps its data only as long as its process runs.
#[derive(Debug)]
pub struct MemoryStore {
    tables: Mutex<Tables>,
    wakeups: Wakeups,
}

#[derive(Debug, Default)]
struct Tables {
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

    /// Returns the job that [`ClaimQuery`] describes.
    fn pick(&self, ClaimQuery { now, worker, avoidance }: ClaimQuery) -> Option<&Job> {
        let live = |project: &ProjectId| {
            let live = |job: &&Job| job.project == *project && job.lease().is_some_and(|lease| lease.until > now);
            self.jobs.values().filter(live).count()
        };
        let eligible = |job: &&Job| {
            let others = [
                (job.prefers().is_some_and(|preferred| preferred != worker), PATIENCE),
                (job.avoids() == Some(worker), avoidance),
            ];
            let waited =
                |due: Timestamp| others.iter().all(|(waits, time)| !waits || due + *time <= now || due > now + *time);
            let later = now..=now + LONGEST_BACKOFF;
            let on_hold = self
                .holds
                .get(&job.project)
                .is_some_and(|hold| hold.next_probe_at > now && later.contains(&hold.next_probe_at));
            let limit = self.projects.get(&job.project).and_then(|project| project.settings.limits.concurrent_runs);
            job.is_due(now)
                && job.due_at().is_some_and(waited)
                && !on_hold
                && limit.is_none_or(|limit| live(&job.project) < limit as usize)
        };
        self.jobs.values().filter(eligible).min_by_key(|job| (live(&job.project), job.due_at(), job.id))
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

#[async_trait]
impl JobStore for MemoryStore {
    async fn create_job(&self, guard: Guard, change: Change, now: Timestamp) -> Result<Accepted, UpdateError> {
        let accepted = accept::create(&mut *self.tables(), &guard, &change, now)?;
        self.wakeups.accepted(&accepted);
        Ok(accepted)
    }

    async fn update_job(
        &self,
        id: JobId,
        project: Option<ProjectId>,
        guard: Guard,
        mut decide: Decide,
        now: Timestamp,
    ) -> Result<Accepted, UpdateError> {
        let accepted = accept::update(&mut *self.tables(), id, project.as_ref(), &guard, &mut decide, now)?;
        self.wakeups.accepted(&accepted);
        Ok(accepted)
    }

    async fn claim_job(&self, query: ClaimQuery, mut claim: ClaimFn) -> Result<Option<Picked>, StoreError> {
        let picked = {
            let mut tables = self.tables();
            let Some(Ok(change)) = tables.pick(query).map(&mut claim) else { return Ok(None) };
            tables.write(&change);
            let hold = tables.begin_probe(&change.job.project, query.now);
            let delivered = change.delivered();
            let message = tables.messages.iter().find(|message| Some(message.id) == delivered).cloned();
            Picked { job: change.job, message, hold }
        };
        self.wakeups.committed(&picked.job);
        Ok(Some(picked))
    }

    async fn job(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        Ok(self.tables().jobs.get(&id).cloned())
    }

    async fn jobs(&self, filter: JobFilter) -> Result<Vec<Job>, StoreError> {
        let text = filter.title_contains.as_deref().map(str::to_ascii_lowercase);
        let tables = self.tables();
        let with_pull = |number: u64| {
            let pulls = tables.job_pulls.iter().filter(|pull| pull.number == number);
            pulls.map(|pull| pull.job).collect::<Vec<JobId>>()
        };
        let with_state = |state: PullState| {
            let pulls = tables.job_pulls.iter().filter(|pull| pull.state == state);
            pulls.map(|pull| pull.job).collect::<Vec<JobId>>()
        };
        let matches = |job: &&Job| {
            filter.projects.as_ref().is_none_or(|projects| projects.contains(&job.project))
                && filter
                    .attributes
                    .iter()
                    .all(|attribute| tables.attributes.get(&job.id).is_some_and(|own| own.contains(attribute)))
                && filter.branch.as_ref().is_none_or(|branch| job.branch_name() == *branch)
                && filter.pull.is_none_or(|number| with_pull(number).contains(&job.id))
                && filter.pull_state.is_none_or(|state| with_state(state).contains(&job.id))
                && filter.status.is_none_or(|status| status == job.status())
                && filter.created_after.is_none_or(|after| job.created_at > after)
                && filter.created_before.is_none_or(|before| job.created_at < before)
                && filter.after.is_none_or(|cursor| (job.created_at, job.id) < (cursor.created_at, cursor.id))
                && text.as_ref().is_none_or(|text| job.title.to_ascii_lowercase().contains(text))
        };
        let mut found: Vec<Job> = tables.jobs.values().filter(matches).cloned().collect();
        found.sort_by_key(|job| std::cmp::Reverse((job.created_at, job.id)));
        found.truncate(filter.limit);
        Ok(found)
    }

    async fn job_counts(&self, now: Timestamp) -> Result<JobCounts, StoreError> {
        let tables = self.tables();
        let active = || tables.jobs.values().filter_map(|job| Some((job, job.due_at()?)));
        let due = || active().map(|(_, due)| due).filter(|due| *due <= now);
        Ok(JobCounts {
            active: active().count() as u64,
            running: active().filter(|(job, due)| *due > now && job.lease().is_some()).count() as u64,
            due: due().count() as u64,
            oldest_due: due().min(),
        })
    }

    async fn waiting_jobs(&self) -> Result<BTreeMap<String, u64>, StoreError> {
        let mut counts = BTreeMap::new();
        for job in self.tables().jobs.values() {
            if let Some((waiting, _)) = job.waiting() {
                *counts.entry(name_of(&waiting.reason.code)?).or_default() += 1;
            }
        }
        Ok(counts)
    }

    async fn leased_jobs(&self, worker: WorkerId) -> Result<Vec<JobId>, StoreError> {
        let leased = |job: &&Job| job.lease().is_some_and(|lease| lease.worker == worker);
        Ok(self.tables().jobs.values().filter(leased).map(|job| job.id).collect())
    }

    async fn messages(&self, job: JobId) -> Result<Vec<Message>, StoreError> {
        Ok(self.tables().messages.iter().filter(|message| message.job == job).cloned().collect())
    }

    async fn messages_after(
        &self,
        job: JobId,
        after: Option<MessageId>,
        limit: usize,
    ) -> Result<Vec<Message>, StoreError> {
        let all = self.messages(job).await?;
        Ok(lists::after(all, after, |message| message.id, limit))
    }

    async fn newest_message(&self, job: JobId) -> Result<Option<Message>, StoreError> {
        Ok(self.messages(job).await?.pop())
    }

    async fn find_messages(&self, filter: MessageFilter) -> Result<Vec<Message>, StoreError> {
        let tables = self.tables();
        let matches = |message: &&Message| {
            let project = tables.jobs.get(&message.job).map(|job| &job.project);
            project.is_some_and(|project| filter.projects.as_ref().is_none_or(|projects| projects.contains(project)))
                && (filter.statuses.is_empty() || filter.statuses.contains(&message.status))
                && filter.updated_since.is_none_or(|since| message.updated_at() >= since)
                && filter.after.is_none_or(|after| (message.updated_at(), message.id) < after)
        };
        let mut found: Vec<Message> = tables.messages.iter().filter(matches).cloned().collect();
        found.sort_by_key(|message| std::cmp::Reverse((message.updated_at(), message.id)));
        found.truncate(filter.limit);
        Ok(found)
    }

    async fn count_messages(&self, filter: MessageFilter) -> Result<u64, StoreError> {
        let found = self.find_messages(MessageFilter { after: None, ..filter }).await?;
        Ok(u64::try_from(found.len()).unwrap_or(u64::MAX))
    }

    async fn message(&self, id: MessageId) -> Result<Option<Message>, StoreError> {
        Ok(self.tables().messages.iter().find(|message| message.id == id).cloned())
    }

    async fn run(&self, id: RunId) -> Result<Option<Run>, StoreError> {
        Ok(self.tables().runs.iter().find(|run| run.id == id).cloned())
    }

    async fn runs(&self, job: JobId) -> Result<Vec<Run>, StoreError> {
        Ok(self.tables().runs.iter().filter(|run| run.job == job).cloned().collect())
    }

    async fn runs_after(&self, job: JobId, after: Option<RunId>, limit: usize) -> Result<Vec<Run>, StoreError> {
        let all = self.runs(job).await?;
        Ok(lists::after(all, after, |run| run.id, limit))
    }

    async fn extras_of_jobs(&self, jobs: Vec<JobId>) -> Result<BTreeMap<JobId, JobExtras>, StoreError> {
        let tables = self.tables();
        let of = |id| tables.attributes.get(id).into_iter().flatten();
        let attributes = jobs.iter().flat_map(|id| of(id).map(|attribute| (*id, attribute.to_string())));
        let runs = tables.runs.iter().filter(|run| jobs.contains(&run.job)).map(|run| (run.job, run.usage));
        let project = |id| tables.jobs.get(id).map(|job| &job.project);
        let holds = jobs.iter().filter_map(|id| Some((*id, tables.holds.get(project(id)?)?.clone())));
        Ok(lists::extras(attributes.collect(), runs.collect(), tables.pulls_of(&jobs), holds.collect()))
    }

    async fn summaries_of_jobs(&self, jobs: Vec<JobId>) -> Result<BTreeMap<JobId, JobSummary>, StoreError> {
        let tables = self.tables();
        let known: Vec<&Job> = jobs.iter().filter_map(|id| tables.jobs.get(id)).collect();
        let of = |id: JobId| tables.attributes.get(&id).into_iter().flatten().map(move |own| (id, own.to_string()));
        let attributes = known.iter().flat_map(|job| of(job.id)).collect();
        let leased = || known.iter().filter(|job| job.lease().is_some());
        let plans = leased().filter_map(|job| tables.newest_plan(job.id)).collect();
        let steps = leased().flat_map(|job| tables.newest_calls(job.id)).collect();
        Ok(lists::summaries(known.iter().map(|job| tables.summary(job)).collect(), attributes, plans, steps))
    }

    async fn jobs_of_projects(&self) -> Result<BTreeMap<ProjectId, ProjectJobs>, StoreError> {
        let tables = self.tables();
        let count = |projects: Vec<&ProjectId>| {
            let mut counts: BTreeMap<ProjectId, u32> = BTreeMap::new();
            projects.into_iter().for_each(|project| *counts.entry(project.clone()).or_default() += 1);
            counts.into_iter().collect::<Vec<_>>()
        };
        let running = tables.jobs.values().filter(|job| job.lease().is_some()).map(|job| &job.project);
        let open = tables.job_pulls.iter().filter(|pull| pull.state == PullState::Open).map(|pull| &pull.project);
        Ok(lists::project_jobs(count(running.collect()), count(open.collect())))
    }

    async fn log(&self, job: JobId, after: u64, limit: usize) -> Result<Vec<LogEntry>, StoreError> {
        let range = (job, after.saturating_add(1))..=(job, u64::MAX);
        Ok(self.tables().log.range(range).take(limit).map(|(_, entry)| entry.clone()).collect())
    }

    fn watch(&self, job: JobId) -> Box<dyn JobWatch + '_> {
        Box::new(Watch::new(self, &self.wakeups, job, None))
    }

    fn work_version(&self) -> u64 {
        self.wakeups.work_version()
    }

    async fn work_changed(&self, seen: u64) {
        self.wakeups.work_changed(seen).await;
    }
}

#[async_trait]
impl ProjectStore for MemoryStore {
    async fn project(&self, id: ProjectId) -> Result<Option<Project>, StoreError> {
        Ok(self.tables().projects.get(&id).cloned())
    }

    async fn projects(&self) -> Result<Vec<Project>, StoreError> {
        Ok(self.tables().projects.values().cloned().collect())
    }

    async fn projects_after(&self, after: Option<ProjectId>, limit: usize) -> Result<Vec<Project>, StoreError> {
        let tables = self.tables();
        let rest = tables.projects.values().filter(|project| after.as_ref().is_none_or(|after| project.id > *after));
        Ok(rest.take(limit).cloned().collect())
    }

    async fn secrets(&self, id: ProjectId) -> Result<BTreeMap<String, SecretValue>, StoreError> {
        let tables = self.tables();
        let own = tables.secrets.iter().filter(|((project, _), _)| *project == id);
        Ok(own.map(|((_, name), value)| (name.clone(), value.clone())).collect())
    }

    async fn identify_repository(&self, id: ProjectId, seen: RepositoryIdentity) -> Result<(), StoreError> {
        let mut tables = self.tables();
        let is_new = |project: &&mut Project| project.repository == seen.address && project.repository_id().is_none();
        if let Some(project) = tables.projects.get_mut(&id).filter(is_new) {
            project.identity = Some(seen);
        }
        Ok(())
    }
}

impl Tables {
    /// Returns the sums over the rows of a job.
    fn summary(&self, job: &Job) -> SummaryRow {
        let own = || self.runs.iter().filter(|run| run.job == job.id);
        let current = own().rfind(|run| run.status == RunStatus::Running);
        let times = own().filter_map(|run| Some(run.finished_at?.since(run.started_at)));
        let spent = self.spending.get(&(job.project.clone(), Scope::Job.name(), job.id.to_string()));
        let messages = self.messages.iter().filter(|message| message.job == job.id).count();
        let summary = JobSummary {
            messages: u64::try_from(messages).unwrap_or(u64::MAX),
            run_time: times.sum(),
            running_since: current.map(|run| run.started_at),
            cost_micros: spent.and_then(|micros| u64::try_from(*micros).ok()).unwrap_or_default(),
            ..JobSummary::default()
        };
        SummaryRow { job: job.id, run: current.map(|run| run.id), summary }
    }

    /// Returns the log of a job.
    fn log_of(&self, job: JobId) -> impl DoubleEndedIterator<Item = &LogEntry> {
        self.log.range((job, 0)..=(job, u64::MAX)).map(|(_, entry)| entry)
    }

    fn newest_plan(&self, job: JobId) -> Option<PlanRow> {
        let entry = self.log_of(job).rfind(|entry| entry.kind == TranscriptKind::Plan.event_type())?;
        Some(PlanRow { job, run: entry.run_id, plan: PlanProgress::of(&entry.data) })
    }

    fn newest_calls(&self, job: JobId) -> Vec<(JobId, ToolEntry)> {
        // The databases keep no rows for the entries of accepted messages.
        let last = self.log_of(job).rfind(|entry| entry.kind != MESSAGE_ACCEPTED).map_or(0, |entry| entry.seq);
        let recent = self.log_of(job).filter(|entry| entry.seq.saturating_add(STEP_WINDOW) > last);
        recent.filter_map(|entry| ToolEntry::of(job, entry)).collect()
    }

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
impl KeyStore for MemoryStore {
    async fn key_by_hash(&self, hash: KeyHash) -> Result<Option<ApiKey>, StoreError> {
        let is_it = |key: &&ApiKey| key.hash == hash || key.old_secret.is_some_and(|old| old.hash == hash);
        Ok(self.tables().keys.values().find(is_it).cloned())
    }

    async fn keys(&self) -> Result<Vec<ApiKey>, StoreError> {
        let mut keys: Vec<ApiKey> = self.tables().keys.values().cloned().collect();
        keys.sort_by_key(|key| std::cmp::Reverse((key.created_at, key.id)));
        Ok(keys)
    }

    async fn keys_after(&self, after: Option<KeyId>, limit: usize) -> Result<Vec<ApiKey>, StoreError> {
        let all = self.keys().await?;
        Ok(lists::after(all, after, |key| key.id, limit))
    }

    async fn key(&self, id: KeyId) -> Result<Option<ApiKey>, StoreError> {
        Ok(self.tables().keys.get(&id).cloned())
    }

    async fn key_used(&self, id: KeyId, at: Timestamp) -> Result<(), StoreError> {
        if let Some(key) = self.tables().keys.get_mut(&id) {
            key.last_used_at = key.last_used_at.max(Some(at));
        }
        Ok(())
    }

    async fn note(&self, entry: AuditEntry) -> Result<(), StoreError> {
        self.tables().note(entry);
        Ok(())
    }

    async fn find_audit(&self, filter: AuditFilter) -> Result<Vec<AuditLine>, StoreError> {
        let tables = self.tables();
        let lines = tables.audit.iter().rev().filter(|line| filter.selects(line));
        Ok(lines.take(filter.limit).cloned().collect())
    }
}

#[async_trait]
impl PullStore for MemoryStore {
    async fn open_pull(
        &self,
        repository: String,
        base: String,
        new: NewPull,
        now: Timestamp,
    ) -> Result<Option<LocalPull>, StoreError> {
        let mut tables = self.tables();
        let own = || tables.pulls.values().filter(|pull| pull.repository == repository);
        if own().any(|pull| pull.head == new.head && pull.state == PullState::Open) {
            return Ok(None);
        }
        let number = own().map(|pull| pull.number).max().unwrap_or(0) + 1;
        let pull = LocalPull {
            repository: repository.clone(),
            number,
            title: new.title,
            body: new.body,
            state: PullState::Open,
            draft: new.draft,
            head: new.head,
            base,
            labels: new.labels,
            created_at: now,
            ended_at: None,
            ended_between: None,
        };
        tables.pulls.insert((repository, number), pull.clone());
        Ok(Some(pull))
    }

    async fn pull(&self, repository: String, number: u64) -> Result<Option<LocalPull>, StoreError> {
        Ok(self.tables().pulls.get(&(repository, number)).cloned())
    }

    async fn pulls_of_branch(&self, repository: String, head: String) -> Result<Vec<LocalPull>, StoreError> {
        let is_it = |pull: &&LocalPull| pull.repository == repository && pull.head == head;
        Ok(self.tables().pulls.values().rev().filter(is_it).cloned().collect())
    }

    async fn edit_pull(&self, repository: String, number: u64, text: PullText) -> Result<(), StoreError> {
        if let Some(pull) = self.tables().pulls.get_mut(&(repository, number)) {
            let PullText { title, body, draft } = text;
            pull.title = title.unwrap_or_else(|| pull.title.clone());
            pull.body = body.unwrap_or_else(|| pull.body.clone());
            pull.draft = draft.unwrap_or(pull.draft);
        }
        Ok(())
    }

    async fn pulls(&self, repository: String) -> Result<Vec<LocalPull>, StoreError> {
        let tables = self.tables();
        Ok(tables.pulls.values().rev().filter(|pull| pull.repository == repository).cloned().collect())
    }

    async fn comments(&self, repository: String, number: u64) -> Result<Vec<Comment>, StoreError> {
        let (tables, key) = (self.tables(), (repository, number));
        let found = tables.comments.iter().filter(|(of, _)| *of == key).map(|(_, comment)| comment.clone());
        let mut found: Vec<Comment> = found.collect();
        found.sort_unstable_by_key(|comment| comment.place);
        Ok(found)
    }

    async fn comment_once(
        &self,
        repository: String,
        number: u64,
        marker: String,
        comment: NewComment,
    ) -> Result<Option<u64>, StoreError> {
        let (mut tables, key) = (self.tables(), (repository, number));
        if !tables.pulls.contains_key(&key) {
            return Ok(None);
        }
        if let Some(place) = tables.comment_markers.get(&(key.clone(), marker.clone())) {
            return Ok(Some(*place));
        }
        let place = tables.last_comment(&key) + 1;
        tables.comment_markers.insert((key.clone(), marker), place);
        tables.comments.push((key, Comment { place, comment }));
        Ok(Some(place))
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
