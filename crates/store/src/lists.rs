//! Lists of jobs and pull requests, the same for both databases: the index to read a list from, and its start.
//!
//! A list without a search is read in order from an index. A search reads titles until it has found enough jobs. If
//! nothing matches, it reads all titles, so it reads them from the index (docs/decisions/0026-lists.md).

use std::cmp::Reverse;
use std::collections::BTreeMap;

use journeyman_core::audit::AuditEntry;
use journeyman_core::code_host::PullState;
use journeyman_core::ids::{JobId, ProjectId, RunId};
use journeyman_core::job::label::Attribute;
use journeyman_core::job::summary::{JobSummary, ToolEntry, current_step};
use journeyman_core::job::{Job, JobStatus};
use journeyman_core::message::PlanProgress;
use journeyman_core::ports::{JobExtras, JobFilter, MessageFilter, ProjectJobs, PullCounts, PullFilter};
use journeyman_core::project::hold::Hold;
use journeyman_core::pull::{IndexedPull, PullReviews};
use journeyman_core::run::Usage;
use journeyman_core::time::Timestamp;
use journeyman_core::webhook::{Finished, Replayed};

/// The statement that reads a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listing {
    /// Reads the index by project.
    All,
    /// Reads the index by project and status. A search for such a status reads the jobs themselves, because there are
    /// few of them.
    OfStatus,
    /// Searches the titles in the index.
    Search,
    /// Reads the index by project and status, and keeps the jobs with the attributes of the filter.
    OfStatusWithAttributes,
    /// Reads the index by project and attribute, for the first attribute of the filter.
    OfAttribute,
    /// Reads the jobs of the pull requests with a number.
    OfPull,
    /// Reads the index by project and branch.
    OfBranch,
    /// Reads the jobs of the open pull requests.
    OfOpenPull,
    /// Reads the index by project, and keeps the jobs with the other properties of the filter.
    WithProperties,
}

impl Listing {
    /// Returns whether the statement selects by branch, pull request and attributes.
    pub(crate) const fn has_properties(self) -> bool {
        !matches!(self, Self::All | Self::OfStatus | Self::Search)
    }

    /// Returns the statement for a filter.
    pub(crate) fn of(filter: &JobFilter) -> Self {
        // Few jobs have the same pull request or branch, and most attributes are rarer than a status.
        if filter.pull.is_some() {
            return Self::OfPull;
        }
        if filter.branch.is_some() {
            return Self::OfBranch;
        }
        // Few pull requests are open.
        if filter.pull_state == Some(PullState::Open) {
            return Self::OfOpenPull;
        }
        // Over time, active and failed jobs become a small fraction of all jobs.
        let is_rare = matches!(filter.status, Some(JobStatus::Active | JobStatus::Failed));
        if !filter.attributes.is_empty() {
            return if is_rare { Self::OfStatusWithAttributes } else { Self::OfAttribute };
        }
        if filter.pull_state.is_some() || !filter.any_of.is_empty() {
            return if is_rare { Self::OfStatusWithAttributes } else { Self::WithProperties };
        }
        match (filter.status, &filter.title_contains) {
            (Some(_), None) => Self::OfStatus,
            (Some(_), Some(_)) if is_rare => Self::OfStatus,
            (_, Some(_)) => Self::Search,
            (None, None) => Self::All,
        }
    }
}

/// Returns the exclusive start of a list: the creation time in microseconds and the id of a job that need not exist.
pub(crate) fn beginning(filter: &JobFilter) -> (i64, String) {
    let after = filter.after.map(|cursor| (cursor.created_at.as_micros(), cursor.id.to_string()));
    // No id sorts before the empty string, so jobs created exactly at this time are excluded.
    let before = filter.created_before.map(|before| (before.as_micros(), String::new()));
    after.into_iter().chain(before).min().unwrap_or((i64::MAX, String::new()))
}

/// Returns the exclusive start of a list of messages: the time of the last change in microseconds, and an ID.
pub(crate) fn message_beginning(filter: &MessageFilter) -> (i64, String) {
    filter.after.map_or((i64::MAX, String::new()), |(updated, id)| (updated.as_micros(), id.to_string()))
}

/// The newest jobs of several projects, which are read one project after the other.
#[derive(Debug)]
pub(crate) struct Merge {
    limit: usize,
    found: Vec<Job>,
}

impl Merge {
    pub(crate) const fn new(limit: usize) -> Self {
        Self { limit, found: Vec::new() }
    }

    /// Returns the filter for another project. Jobs that are older than those found before need not be read.
    pub(crate) fn filter(&self, filter: &JobFilter, project: ProjectId) -> JobFilter {
        let oldest = self.found.last().filter(|_| self.found.len() >= self.limit);
        // Jobs that were created at the same moment are in the order of their IDs.
        let oldest = oldest.map(|job| Timestamp::from_micros(job.created_at.as_micros() - 1));
        JobFilter { projects: Some(vec![project]), created_after: filter.created_after.max(oldest), ..filter.clone() }
    }

    pub(crate) fn add(&mut self, jobs: Vec<Job>) {
        self.found.extend(jobs);
        self.found.sort_by_key(|job| Reverse((job.created_at, job.id)));
        self.found.truncate(self.limit);
    }

    pub(crate) fn jobs(self) -> Vec<Job> {
        self.found
    }
}

/// Groups the data about jobs by job. Attributes of an unknown kind, which a newer version has stored, are left out. The
/// pull requests must be sorted.
pub(crate) fn extras(
    mut attributes: Vec<(JobId, String)>,
    runs: Vec<(JobId, Usage)>,
    pulls: Vec<IndexedPull>,
    holds: Vec<(JobId, Hold)>,
) -> BTreeMap<JobId, JobExtras> {
    let mut by_job: BTreeMap<JobId, JobExtras> = BTreeMap::new();
    attributes.sort();
    for (job, text) in attributes {
        by_job.entry(job).or_default().attributes.extend(Attribute::parse(&text));
    }
    for (job, usage) in runs {
        let sum = &mut by_job.entry(job).or_default().usage;
        // A run that used nothing has no cost either, and must not make the sum unknown.
        if usage != Usage::default() {
            *sum = if *sum == Usage::default() { usage } else { sum.plus(&usage) };
        }
    }
    for pull in pulls {
        by_job.entry(pull.job).or_default().pulls.push(pull);
    }
    for (job, hold) in holds {
        by_job.entry(job).or_default().hold = Some(hold);
    }
    by_job
}

/// Combines the rows of [`crate::rows::reviews_of_author`] by pull request.
pub(crate) fn reviews(rows: Vec<(u64, u64, Option<u64>, Option<u64>)>) -> BTreeMap<u64, PullReviews> {
    let mut by_pull: BTreeMap<u64, PullReviews> = BTreeMap::new();
    for (number, comments, approval, request) in rows {
        by_pull.entry(number).or_default().add(comments, approval, request);
    }
    by_pull
}

/// A job in a list, with the sums over its rows in other tables.
pub(crate) struct SummaryRow {
    pub(crate) job: JobId,
    /// The run in progress.
    pub(crate) run: Option<RunId>,
    /// The sums.
    pub(crate) summary: JobSummary,
}

/// The newest plan of a job.
pub(crate) struct PlanRow {
    pub(crate) job: JobId,
    pub(crate) run: Option<RunId>,
    pub(crate) plan: Option<PlanProgress>,
}

/// Combines the data about jobs into their summaries. Plans and steps of earlier runs are left out.
pub(crate) fn summaries(
    rows: Vec<SummaryRow>,
    mut attributes: Vec<(JobId, String)>,
    plans: Vec<PlanRow>,
    steps: Vec<(JobId, ToolEntry)>,
) -> BTreeMap<JobId, JobSummary> {
    let runs: BTreeMap<JobId, RunId> = rows.iter().filter_map(|row| Some((row.job, row.run?))).collect();
    let mut by_job: BTreeMap<JobId, JobSummary> = rows.into_iter().map(|row| (row.job, row.summary)).collect();
    attributes.sort();
    for (job, text) in attributes {
        if let Some(summary) = by_job.get_mut(&job) {
            summary.attributes.extend(Attribute::parse(&text));
        }
    }
    for PlanRow { job, run, plan } in plans {
        let is_current = run.is_some() && run == runs.get(&job).copied();
        if let Some(summary) = by_job.get_mut(&job).filter(|_| is_current) {
            summary.plan = plan;
        }
    }
    let mut entries: BTreeMap<JobId, Vec<ToolEntry>> = BTreeMap::new();
    for (job, entry) in steps {
        entries.entry(job).or_default().push(entry);
    }
    for (job, mut entries) in entries {
        entries.sort_by_key(|entry| entry.seq);
        if let Some((summary, run)) = by_job.get_mut(&job).zip(runs.get(&job)) {
            summary.step = current_step(&entries, *run);
        }
    }
    by_job
}

/// Combines the numbers of running jobs and of open pull requests by project.
pub(crate) fn project_jobs(
    running: Vec<(ProjectId, u32)>,
    open_pulls: Vec<(ProjectId, u32)>,
) -> BTreeMap<ProjectId, ProjectJobs> {
    let mut by_project: BTreeMap<ProjectId, ProjectJobs> = BTreeMap::new();
    for (project, count) in running {
        by_project.entry(project).or_default().running = u64::from(count);
    }
    for (project, count) in open_pulls {
        by_project.entry(project).or_default().open_pulls = u64::from(count);
    }
    by_project
}

/// The largest sum of usage: a broken agent may report any number of tokens, and reports add up such sums.
pub(crate) const LARGEST_SUM: i64 = 1 << 53;

/// Returns the result of a request to deliver events again, of which the last one has the position `reached`.
pub(crate) fn replayed(deliveries: u64, reached: Option<i64>, may_have_more: bool) -> Replayed {
    let next = reached.filter(|_| may_have_more).and_then(|reached| u64::try_from(reached).ok());
    Replayed { deliveries, next }
}

/// Returns the entry of the audit log about a webhook that was disabled because of its answers.
pub(crate) fn disabled_entry(one: &Finished) -> AuditEntry {
    AuditEntry {
        at: one.result.at,
        actor: "service".to_owned(),
        action: "webhook.disabled".to_owned(),
        subject: one.webhook.to_string(),
        address: None,
    }
}

/// Returns the exclusive start of a list of pull requests: a creation time in microseconds, and a number.
pub(crate) fn beginning_of_pulls(filter: &PullFilter) -> (i64, i64) {
    let start = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    filter.after.map_or((i64::MAX, i64::MAX), |after| (after.created_at.as_micros(), start(after.number)))
}

/// Adds up the numbers of pull requests by state.
pub(crate) fn pull_counts(counts: Vec<(PullState, u64)>) -> PullCounts {
    let mut sums = PullCounts::default();
    counts.into_iter().for_each(|(state, count)| sums.add(state, count));
    sums
}

#[cfg(test)]
mod tests {
    use journeyman_core::ports::Cursor;
    use uuid::Uuid;

    use super::*;

    fn filter(status: Option<JobStatus>, text: Option<&str>) -> JobFilter {
        let title_contains = text.map(str::to_owned);
        JobFilter { status, title_contains, ..JobFilter::newest("shop".parse().unwrap(), 1) }
    }

    #[test]
    fn each_filter_uses_the_index_that_serves_it() {
        for (status, text, expected) in [
            (None, None, Listing::All),
            (None, Some("x"), Listing::Search),
            (Some(JobStatus::Completed), None, Listing::OfStatus),
            (Some(JobStatus::Completed), Some("x"), Listing::Search),
            (Some(JobStatus::Failed), Some("x"), Listing::OfStatus),
        ] {
            assert_eq!(Listing::of(&filter(status, text)), expected, "{status:?} {text:?}");
        }
        let bug = || vec![Attribute::Label("bug".to_owned())];
        let with_attribute = JobFilter { attributes: bug(), ..filter(Some(JobStatus::Completed), None) };
        assert_eq!(Listing::of(&with_attribute), Listing::OfAttribute);
        let rare = JobFilter { attributes: bug(), ..filter(Some(JobStatus::Failed), Some("x")) };
        assert_eq!(Listing::of(&rare), Listing::OfStatusWithAttributes);
        let of_branch = JobFilter { branch: Some("b".to_owned()), ..with_attribute };
        assert_eq!(Listing::of(&of_branch), Listing::OfBranch);
        assert_eq!(Listing::of(&JobFilter { pull: Some(7), ..of_branch }), Listing::OfPull);
        for (state, status, expected) in [
            (PullState::Open, None, Listing::OfOpenPull),
            (PullState::Open, Some(JobStatus::Failed), Listing::OfOpenPull),
            (PullState::Merged, Some(JobStatus::Completed), Listing::WithProperties),
            (PullState::Closed, Some(JobStatus::Failed), Listing::OfStatusWithAttributes),
        ] {
            let with_pull = JobFilter { pull_state: Some(state), ..filter(status, Some("x")) };
            assert_eq!(Listing::of(&with_pull), expected, "{with_pull:?}");
        }
        for (status, expected) in
            [(None, Listing::WithProperties), (Some(JobStatus::Failed), Listing::OfStatusWithAttributes)]
        {
            let with_any = JobFilter { any_of: bug(), ..filter(status, Some("x")) };
            assert_eq!(Listing::of(&with_any), expected, "{with_any:?}");
        }
    }

    #[test]
    fn a_list_starts_at_the_earlier_of_its_two_bounds() {
        let all = filter(None, None);
        assert_eq!(beginning(&all), (i64::MAX, String::new()));
        let at = Timestamp::from_micros;
        let id = JobId::from_uuid(Uuid::from_u128(7));
        let after = Some(Cursor { created_at: at(5), id });
        assert_eq!(beginning(&JobFilter { after, ..all.clone() }), (5, id.to_string()));
        let both = |before| JobFilter { after, created_before: Some(at(before)), ..all.clone() };
        assert_eq!(beginning(&both(5)), (5, String::new()));
        assert_eq!(beginning(&both(6)), (5, id.to_string()));
    }
}
