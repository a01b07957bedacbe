//! The column at the side of a job's page: the plan, the pull request, and the details.

use askama::Template;
use journeyman_core::checks::CheckWatch;
use journeyman_core::job::{Job, JobState, JobStatus, Work};
use journeyman_core::model::Effort;
use journeyman_core::model::budget::Used;
use journeyman_core::pull::IndexedPull;
use journeyman_core::run::ReasonCode;

use super::checks::ChecksLine;
use super::messages_and_runs::MessagesAndRuns;
use super::{InJob, status};
use crate::conversation::{Plan, Step};
use crate::fragment::Fragment;
use crate::frame::Frame;
use crate::pages::pulls::badge::Pill;
use crate::{choices, visible, words};

#[derive(Template)]
#[template(path = "_job_side.html")]
struct Side<'a> {
    frame: &'a Frame,
    job: &'a Job,
    plan: Option<PlanView>,
    /// True if the plan comes first, because the job is not completed.
    plan_first: bool,
    agent: String,
    model: String,
    effort: Option<&'static str>,
    /// The name of the ref, in parts between which a line may break.
    reference: Vec<String>,
    /// The name of the branch, in such parts.
    branch: Option<Vec<String>>,
    /// All pull requests, oldest first: a follow-up after a merge opens another one.
    pulls: Vec<Pill>,
    checks: Option<ChecksLine>,
    runs: String,
    time: Option<String>,
    tokens: Option<String>,
    cost: Option<Cost>,
}

/// The line that takes the place of the column on narrow screens, and opens it.
#[derive(Template)]
#[template(path = "_job_brief.html")]
struct Brief<'a> {
    frame: &'a Frame,
    mark: &'static str,
    text: String,
    remark: String,
}

/// The cost of the job, and its budget.
struct Cost {
    spent: String,
    /// The money that is set aside for calls in progress.
    set_aside: Option<String>,
    budget: Option<Budget>,
}

/// The budget of a job, with its values for a meter.
struct Budget {
    limit: String,
    spent_micros: u64,
    limit_micros: u64,
    /// The value from which on the meter warns.
    high: u64,
}

/// The agent's plan.
struct PlanView {
    progress: String,
    steps: Vec<StepView>,
}

struct StepView {
    class: &'static str,
    mark: &'static str,
    word: &'static str,
    text: String,
}

/// The rows of other tables that the column shows.
pub(super) struct SideData {
    pub(super) pulls: Vec<IndexedPull>,
    pub(super) watch: Option<CheckWatch>,
    /// The money spent, and the money set aside for calls in progress.
    pub(super) used: Used,
}

/// Renders the column.
pub(super) fn render(
    at: &InJob,
    history: &MessagesAndRuns,
    plan: Option<&Plan>,
    data: SideData,
) -> askama::Result<Fragment> {
    let job = &at.job;
    let usage = history.usage();
    Fragment::of(&Side {
        frame: at,
        job,
        plan: plan.filter(|plan| !plan.steps.is_empty()).map(PlanView::of),
        plan_first: job.status() != JobStatus::Completed,
        agent: choices::name_of(&at.shared, &job.agent),
        model: visible::line(&job.model).into_owned(),
        effort: job.effort.map(Effort::name),
        reference: breakable(&job.source.reference),
        branch: job.branch.as_ref().map(|branch| breakable(&branch.name)),
        pulls: data.pulls.iter().filter_map(|pull| Pill::of_indexed(at, pull)).collect(),
        checks: ChecksLine::of(job, data.watch),
        runs: words::counted(history.runs.len(), "run"),
        time: Some(history.worked()).filter(|time| !time.is_zero()).map(words::duration),
        tokens: (usage.tokens() > 0)
            .then(|| format!("{} in, {} out", words::tokens(usage.input_tokens), words::tokens(usage.output_tokens))),
        cost: Cost::of(data.used, at.project.settings.limits.budget.job),
    })
}

/// Renders the line that opens the column on narrow screens.
pub(super) fn brief(
    at: &InJob,
    history: &MessagesAndRuns,
    plan: Option<&Plan>,
    spent: u64,
) -> askama::Result<Fragment> {
    let mark = match &at.job.state {
        JobState::Active(Work::Running { .. }) => "in_progress",
        JobState::Active(_) => "queued",
        JobState::Completed => "completed",
        JobState::Failed(reason) if reason.code != ReasonCode::Cancelled => "failed",
        JobState::Failed(_) | JobState::Archived { .. } => "stopped",
    };
    let current =
        plan.filter(|_| status::is_active(&at.job)).and_then(|plan| Some((plan.current()?, plan.steps.len())));
    let (text, remark) = match current {
        Some(((number, step), count)) => (visible::line(&step.text).into_owned(), format!("{number} of {count}")),
        None => {
            let time = Some(history.worked()).filter(|time| !time.is_zero()).map(words::duration);
            let cost = (spent > 0).then(|| words::money(spent));
            let parts = [Some(choices::name_of(&at.shared, &at.job.agent)), time, cost];
            (parts.into_iter().flatten().collect::<Vec<_>>().join(" · "), "Details".to_owned())
        }
    };
    Fragment::of(&Brief { frame: at, mark, text, remark })
}

/// Splits a name after each slash and hyphen, so that a line breaks there and not within a word.
fn breakable(name: &str) -> Vec<String> {
    visible::line(name).split_inclusive(['/', '-']).map(str::to_owned).collect()
}

impl Cost {
    fn of(used: Used, budget: Option<u64>) -> Option<Self> {
        let Used { spent, set_aside } = used;
        let budget = budget.filter(|limit| *limit > 0).map(|limit_micros| Budget {
            limit: words::money(limit_micros),
            spent_micros: spent.min(limit_micros),
            limit_micros,
            high: limit_micros / 5 * 4,
        });
        (spent > 0 || set_aside > 0).then(|| Self {
            spent: words::money(spent),
            set_aside: (set_aside > 0).then(|| words::money(set_aside)),
            budget,
        })
    }
}

impl PlanView {
    fn of(plan: &Plan) -> Self {
        let (done, count) = (plan.done(), plan.steps.len());
        let progress = match plan.current() {
            Some((number, step)) if step.status == "stopped" => format!("stopped at {number} of {count}"),
            Some((number, _)) => format!("step {number} of {count}"),
            None => format!("{done} of {count}"),
        };
        let step = |step: &Step| {
            let (class, word) = match step.status {
                "completed" => ("done", "done"),
                "in_progress" => ("doing", "running"),
                "stopped" => ("doing", "stopped"),
                _ => ("todo", "waits"),
            };
            StepView { class, mark: step.status, word, text: visible::line(&step.text).into_owned() }
        };
        Self { progress, steps: plan.steps.iter().map(step).collect() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_plan_says_how_far_it_is() {
        let mut plan = Plan::new(
            "run".to_owned(),
            &json!({"entries": [
                {"content": "a", "status": "completed"}, {"content": "b", "status": "in_progress"}, {"content": "c"},
            ]}),
        );
        assert_eq!(PlanView::of(&plan).progress, "step 2 of 3");
        plan.stop("run");
        let view = PlanView::of(&plan);
        assert_eq!(view.progress, "stopped at 2 of 3");
        assert_eq!(view.steps.iter().map(|step| step.word).collect::<Vec<_>>(), ["done", "stopped", "waits"]);
        let done = Plan::new(String::new(), &json!({"entries": [{"content": "a", "status": "completed"}]}));
        assert_eq!(PlanView::of(&done).progress, "1 of 1");
    }

    #[test]
    fn names_break_after_slashes_and_hyphens() {
        assert_eq!(breakable("journeyman/fix-typo"), ["journeyman/", "fix-", "typo"]);
        assert_eq!(breakable("main"), ["main"]);
    }

    #[test]
    fn the_cost_is_shown_with_the_budget_of_the_job() {
        let used = |spent, set_aside| Used { spent, set_aside };
        assert!(Cost::of(used(0, 0), Some(5_000_000)).is_none());
        let cost = Cost::of(used(610_000, 480_000), Some(5_000_000)).unwrap();
        assert_eq!(cost.set_aside.as_deref(), Some("$0.48"));
        let budget = cost.budget.unwrap();
        assert_eq!((cost.spent.as_str(), budget.limit.as_str(), budget.high), ("$0.61", "$5.00", 4_000_000));
        assert!(Cost::of(used(610_000, 0), None).unwrap().budget.is_none());
    }
}
