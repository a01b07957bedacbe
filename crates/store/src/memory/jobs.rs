//! Jobs, messages, runs and logs.

use std::collections::BTreeMap;
use std::ops::Range;

use async_trait::async_trait;
use journeyman_core::code_host::PullState;
use journeyman_core::ids::{JobId, MessageId, ProjectId, RunId, WorkerId};
use journeyman_core::job::change::{Change, MESSAGE_ACCEPTED};
use journeyman_core::job::event::{LogEntry, TranscriptKind};
use journeyman_core::job::summary::{JobSummary, STEP_WINDOW, ToolEntry};
use journeyman_core::job::{Job, JobStatus};
use journeyman_core::message::{Message, PlanProgress};
use journeyman_core::model::budget::Scope;
use journeyman_core::ports::{
    Accepted, ClaimFn, ClaimQuery, Decide, GONE, Guard, JobCounts, JobExtras, JobFilter, JobStore, JobWatch,
    MessageFilter, PATIENCE, Picked, ProjectJobs, StatusCounts, StoreError, UpdateError,
};
use journeyman_core::retry::LONGEST_BACKOFF;
use journeyman_core::run::{Run, RunStatus};
use journeyman_core::time::Timestamp;

use super::{MemoryStore, Tables};
use crate::accept;
use crate::lists::{self, PlanRow, SummaryRow};
use crate::rows::name_of;
use crate::watch::Watch;

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
        let has = |job: &Job, attribute| tables.attributes.get(&job.id).is_some_and(|own| own.contains(attribute));
        let matches = |job: &&Job| {
            filter.projects.as_ref().is_none_or(|projects| projects.contains(&job.project))
                && filter.attributes.iter().all(|attribute| has(job, attribute))
                && (filter.any_of.is_empty() || filter.any_of.iter().any(|attribute| has(job, attribute)))
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

    async fn count_jobs(&self, project: Option<ProjectId>, limit: usize) -> Result<StatusCounts, StoreError> {
        let tables = self.tables();
        let mut counts = StatusCounts::default();
        for status in JobStatus::ALL {
            let is_counted =
                |job: &&Job| job.status() == status && project.as_ref().is_none_or(|project| job.project == *project);
            counts.set(status, tables.jobs.values().filter(is_counted).take(limit).count() as u64);
        }
        Ok(counts)
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

    async fn plan_before(&self, job: JobId, before: u64) -> Result<Option<LogEntry>, StoreError> {
        let tables = self.tables();
        let mut earlier = tables.log_of(job).filter(|entry| entry.seq < before);
        Ok(earlier.rfind(|entry| entry.kind == TranscriptKind::Plan.event_type()).cloned())
    }

    async fn count_steps(&self, job: JobId, entries: Range<u64>) -> Result<u64, StoreError> {
        let tables = self.tables();
        let is_new_call = |entry: &&LogEntry| {
            let is_call = entry.kind == TranscriptKind::ToolCall.event_type();
            is_call && entries.contains(&entry.seq) && entry.data["update"] != true
        };
        Ok(tables.log_of(job).filter(is_new_call).count() as u64)
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

impl Tables {
    /// Returns the job that [`ClaimQuery`] describes.
    fn pick(&self, ClaimQuery { now, worker, avoidance }: ClaimQuery) -> Option<&Job> {
        let live = |project: &ProjectId| {
            let live = |job: &&Job| job.project == *project && job.lease().is_some_and(|lease| lease.until > now);
            self.jobs.values().filter(live).count()
        };
        let eligible = |job: &&Job| {
            let preferred = job.prefers().filter(|preferred| *preferred != worker);
            let has_work = |preferred: &WorkerId| {
                let seen = self.workers.get(preferred).map(|(_, report)| report.seen_at);
                job.has_unrecorded_work() && seen.is_some_and(|at| at > now - GONE && at < now + GONE)
            };
            if preferred.as_ref().is_some_and(has_work) && job.due_at().is_some_and(|due| due <= now) {
                return false;
            }
            let others = [(preferred.is_some(), PATIENCE), (job.avoids() == Some(worker), avoidance)];
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
}
