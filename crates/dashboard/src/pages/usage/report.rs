//! The numbers of the page.

use std::collections::BTreeMap;
use std::time::Duration;

use journeyman_core::code_host::PullState;
use journeyman_core::ids::ProjectId;
use journeyman_core::ports::{JobFilter, StoreError};
use journeyman_core::project::Project;
use journeyman_core::time::Timestamp;
use journeyman_core::usage::{UsageLine, UsageSum};

use super::period::Period;
use crate::chart::{self, Area, Bar, GridLine, MAX_KEYS};
use crate::frame::Frame;
use crate::{Shared, visible, words};

/// The maximum number of merged jobs whose cost is read. With more, the page shows no price of a merged pull request.
const MAX_MERGED: usize = 500;

/// The number of labels below a chart.
const MAX_LABELS: usize = 6;

/// The length of a day in microseconds.
const DAY_MICROS: i64 = 24 * 3600 * 1_000_000;

/// Returns the sum of all lines.
pub(super) fn total(lines: &[UsageLine]) -> UsageSum {
    lines.iter().fold(UsageSum::default(), |sum, line| sum.plus(&line.sum))
}

/// Returns `part` of `whole` in percent; `None` if there is nothing.
pub(super) fn percent(part: u64, whole: u64) -> Option<String> {
    let percent = (u128::from(part) * 100 + u128::from(whole) / 2).checked_div(u128::from(whole))?;
    (part > 0).then(|| format!("{percent} %"))
}

/// What was spent, of which budget, and compared with the period before.
pub(super) struct Spent {
    pub(super) amount: String,
    /// The sum of the daily budgets of the selected projects, if each has one.
    pub(super) budget: Option<Budget>,
    pub(super) trend: Option<String>,
}

/// The budget of a period.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Budget {
    pub(super) text: String,
    /// The numbers of the meter, in whole cents: what was spent, and the budget.
    pub(super) spent: u64,
    pub(super) limit: u64,
}

impl Spent {
    pub(super) fn new(period: &Period, total: &UsageSum, before: &UsageSum, projects: &[&Project]) -> Self {
        let days = u64::try_from(period.length()).unwrap_or_default();
        let daily: Option<Vec<u64>> = projects.iter().map(|project| project.settings.limits.budget.day).collect();
        let limit = daily
            .filter(|budgets| !budgets.is_empty())
            .map(|budgets| budgets.into_iter().fold(0, u64::saturating_add).saturating_mul(days));
        let spent = total.cost_micros;
        let budget = |limit: u64| {
            let cents = (limit / 10_000).max(1);
            Budget { text: chart::axis(limit), spent: (spent / 10_000).min(cents), limit: cents }
        };
        Self { amount: words::money(spent), budget: limit.map(budget), trend: trend(spent, before.cost_micros, days) }
    }
}

/// Compares an amount with that of the period before.
fn trend(now: u64, before: u64, days: u64) -> Option<String> {
    let change = percent(now.abs_diff(before), before);
    let period = if days == 1 { "the day before".to_owned() } else { format!("the {days} days before") };
    match (before, change) {
        (0, _) => None,
        (_, None) => Some(format!("as much as {period}")),
        (_, Some(change)) => Some(format!("{change} {} than {period}", if now > before { "more" } else { "less" })),
    }
}

/// The runs and tokens.
pub(super) struct Sums {
    pub(super) runs: u64,
    pub(super) input: String,
    pub(super) output: String,
}

impl Sums {
    pub(super) fn new(total: &UsageSum) -> Self {
        let UsageSum { runs, input_tokens, output_tokens, .. } = *total;
        Self { runs, input: words::tokens(input_tokens), output: words::tokens(output_tokens) }
    }
}

/// The merged pull requests of jobs that were created in the period.
pub(super) struct Merged {
    pub(super) count: usize,
    /// The spent amount, divided by their number.
    pub(super) price: Option<String>,
    /// The median cost of their jobs.
    pub(super) median: Option<String>,
}

impl Merged {
    /// Reads the jobs with a merged pull request; `None` if there are too many.
    pub(super) async fn read(
        shared: &Shared,
        frame: &Frame,
        period: &Period,
        projects: Option<Vec<ProjectId>>,
        spent: u64,
    ) -> Result<Option<Self>, StoreError> {
        let midnight = |day: i64| Timestamp::from_micros(day.saturating_mul(DAY_MICROS));
        let filter = JobFilter {
            projects: frame.caller().visible(projects),
            pull_state: Some(PullState::Merged),
            // Both limits are exclusive.
            created_after: Some(midnight(period.first) - Duration::from_micros(1)),
            created_before: Some(midnight(period.last + 1)),
            limit: MAX_MERGED + 1,
            ..JobFilter::default()
        };
        let jobs = shared.services.store.jobs(filter).await?;
        if jobs.len() > MAX_MERGED {
            return Ok(None);
        }
        let ids: Vec<_> = jobs.iter().map(|job| job.id).collect();
        let extras = shared.services.store.extras_of_jobs(ids).await?;
        let costs = extras.values().filter_map(|extras| extras.usage.cost_micros).collect();
        Ok(Some(Self::of(jobs.len(), spent, costs)))
    }

    fn of(count: usize, spent: u64, mut costs: Vec<u64>) -> Self {
        costs.sort_unstable();
        let price = spent.checked_div(count as u64).filter(|_| spent > 0);
        Self { count, price: price.map(words::money), median: costs.get(costs.len() / 2).copied().map(words::money) }
    }
}

/// Returns the projects in the order of their colors: those that cost most come first.
pub(super) fn order(by_day: &[UsageLine]) -> Vec<ProjectId> {
    let mut sums: BTreeMap<&ProjectId, (u64, u64)> = BTreeMap::new();
    for line in by_day {
        if let Some(project) = &line.project {
            let sum = sums.entry(project).or_default();
            *sum = (sum.0.saturating_add(line.sum.cost_micros), sum.1.saturating_add(line.sum.runs));
        }
    }
    let mut order: Vec<(&ProjectId, (u64, u64))> = sums.into_iter().collect();
    order.sort_by_key(|(_, sum)| std::cmp::Reverse(*sum));
    order.into_iter().map(|(project, _)| project.clone()).collect()
}

/// A line of a table.
pub(super) struct Row {
    pub(super) name: String,
    /// The class of the color; empty if the lines have none.
    pub(super) key: &'static str,
    pub(super) runs: u64,
    pub(super) input: String,
    pub(super) output: String,
    pub(super) spent: String,
    pub(super) percent: Option<String>,
    /// The numbers of the meter: the cost, and that of the most expensive line.
    pub(super) micros: u64,
    pub(super) most: u64,
}

/// Returns the lines of a table, the most expensive ones first. Lines without a name get the name `none`.
pub(super) fn rows(lines: &[UsageLine], name: impl Fn(&UsageLine) -> Option<String>, none: &str) -> Vec<Row> {
    let named = |line: &UsageLine| (name(line).unwrap_or_else(|| none.to_owned()), line.sum);
    let mut sums: Vec<(String, UsageSum)> = lines.iter().map(named).collect();
    sums.sort_by_key(|(_, sum)| std::cmp::Reverse((sum.cost_micros, sum.runs)));
    finished(sums, |_| "")
}

/// Returns the lines of the table of projects, in the order of their colors.
pub(super) fn by_project(by_day: &[UsageLine], order: &[ProjectId]) -> Vec<Row> {
    let sum = |project: &ProjectId| {
        let own = by_day.iter().filter(|line| line.project.as_ref() == Some(project));
        own.fold(UsageSum::default(), |sum, line| sum.plus(&line.sum))
    };
    finished(order.iter().map(|project| (project.to_string(), sum(project))).collect(), chart::key)
}

fn finished(sums: Vec<(String, UsageSum)>, key: impl Fn(usize) -> &'static str) -> Vec<Row> {
    let whole = sums.iter().map(|(_, sum)| sum.cost_micros).fold(0, u64::saturating_add);
    let most = sums.iter().map(|(_, sum)| sum.cost_micros).max().unwrap_or_default().max(1);
    let row = |(index, (name, sum)): (usize, (String, UsageSum))| Row {
        name: visible::line(&name).into_owned(),
        key: key(index),
        runs: sum.runs,
        input: words::tokens(sum.input_tokens),
        output: words::tokens(sum.output_tokens),
        spent: words::money(sum.cost_micros),
        percent: percent(sum.cost_micros, whole),
        micros: sum.cost_micros,
        most,
    };
    sums.into_iter().enumerate().map(row).collect()
}

/// The chart of the amounts by day, stacked by project, and the table with the same numbers.
pub(super) struct DayChart {
    pub(super) lines: Vec<GridLine>,
    /// The width of a bar.
    pub(super) width: String,
    /// The columns of the table: the class of the color, and the name.
    pub(super) columns: Vec<(&'static str, String)>,
    pub(super) days: Vec<DayBars>,
    pub(super) is_empty: bool,
}

/// A day of the chart.
pub(super) struct DayBars {
    pub(super) name: String,
    /// The label below the chart, if the day has one.
    pub(super) label: Option<String>,
    pub(super) total: String,
    /// The amounts in the columns of the table.
    pub(super) cells: Vec<String>,
    pub(super) bars: Vec<Bar>,
    /// The middle of the bars.
    pub(super) x: String,
}

impl DayChart {
    pub(super) fn new(period: &Period, by_day: &[UsageLine], order: &[ProjectId]) -> Self {
        let days = i32::try_from(period.length()).unwrap_or(i32::MAX);
        let width = (728.0 / f64::from(days.max(1)) * 0.62).clamp(1.0, 40.0);
        let area = Area { left: 32.0, width: 728.0, top: 8.0, bottom: 196.0, bar: width, days };
        let mut amounts: BTreeMap<(i64, usize), u64> = BTreeMap::new();
        for line in by_day {
            let column = order.iter().position(|project| Some(project) == line.project.as_ref());
            let column = column.unwrap_or(MAX_KEYS).min(MAX_KEYS);
            let amount = amounts.entry((line.day.unwrap_or(period.first), column)).or_default();
            *amount = amount.saturating_add(line.sum.cost_micros);
        }
        let mut columns: Vec<(usize, String)> =
            order.iter().take(MAX_KEYS).enumerate().map(|(column, project)| (column, project.to_string())).collect();
        if amounts.keys().any(|(_, column)| *column == MAX_KEYS) {
            columns.push((MAX_KEYS, "Others".to_owned()));
        }
        let at = |day: i64, column: usize| amounts.get(&(day, column)).copied().unwrap_or_default();
        let of_day = |day: i64| columns.iter().map(|(column, _)| at(day, *column)).fold(0, u64::saturating_add);
        let end = chart::nice((period.first..=period.last).map(of_day).max().unwrap_or_default());
        let step = usize::try_from(period.length()).unwrap_or(1).div_ceil(MAX_LABELS).max(1);
        let bars = |(number, day): (i32, i64)| {
            let stacked: Vec<(usize, u64)> = columns.iter().map(|(column, _)| (*column, at(day, *column))).collect();
            let has_label = usize::try_from(number).is_ok_and(|number| number.is_multiple_of(step));
            DayBars {
                name: words::date(day),
                label: has_label.then(|| words::short_date(day)),
                total: words::money(of_day(day)),
                cells: stacked.iter().map(|(_, micros)| words::money(*micros)).collect(),
                bars: area.stack(number, &stacked, end),
                x: chart::decimal(area.middle(number)),
            }
        };
        Self {
            lines: area.grid(end),
            width: chart::decimal(width),
            days: (0..days).zip(period.first..).map(bars).collect(),
            columns: columns.iter().map(|(column, name)| (chart::key(*column), name.clone())).collect(),
            is_empty: amounts.values().all(|micros| *micros == 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(day: i64, project: &str, cost_micros: u64) -> UsageLine {
        let sum = UsageSum { runs: 1, input_tokens: 1000, cost_micros, ..UsageSum::default() };
        UsageLine { day: Some(day), project: Some(project.parse().unwrap()), sum, ..UsageLine::default() }
    }

    #[test]
    fn a_day_has_a_bar_for_each_project_and_cells_with_the_same_amounts() {
        let lines = [line(10, "heron", 2_000_000), line(10, "infra", 6_000_000), line(12, "heron", 500_000)];
        let order = order(&lines);
        assert_eq!(order.iter().map(ProjectId::as_str).collect::<Vec<_>>(), ["infra", "heron"]);
        let period = Period { first: 10, last: 12, days: None };
        let chart = DayChart::new(&period, &lines, &order);
        assert_eq!(chart.columns, [("k1", "infra".to_owned()), ("k2", "heron".to_owned())]);
        assert_eq!(chart.days.len(), 3);
        assert_eq!(
            (chart.days[0].total.as_str(), &*chart.days[0].cells),
            ("$8.00", &["$6.00".into(), "$2.00".into()][..])
        );
        assert_eq!(chart.days[0].bars.iter().map(|bar| bar.class).collect::<Vec<_>>(), ["v1", "v2"]);
        assert!(chart.days[1].bars.is_empty() && !chart.is_empty);
        assert_eq!(chart.days[2].label.as_deref(), Some("Jan 13"));
        let table = by_project(&lines, &order);
        assert_eq!((table[0].spent.as_str(), table[0].percent.as_deref(), table[0].key), ("$6.00", Some("71 %"), "k1"));
        assert_eq!((table[1].runs, table[1].micros, table[1].most), (2, 2_500_000, 6_000_000));
    }

    #[test]
    fn projects_without_a_color_are_one_column() {
        let lines: Vec<UsageLine> = (0..6).map(|number| line(10, &format!("p{number}"), 100 - number)).collect();
        let chart = DayChart::new(&Period { first: 10, last: 10, days: None }, &lines, &order(&lines));
        assert_eq!(chart.columns.len(), 5);
        assert_eq!(chart.columns[4], ("k5", "Others".to_owned()));
        assert_eq!(chart.days[0].cells[4], words::money(95 + 96));
    }

    #[test]
    fn a_long_period_has_few_labels() {
        let period = Period { first: 0, last: 89, days: None };
        let chart = DayChart::new(&period, &[], &[]);
        assert_eq!(chart.days.iter().filter(|day| day.label.is_some()).count(), 6);
        assert!(chart.is_empty);
    }

    #[test]
    fn the_spent_amount_is_compared_with_the_budget_and_the_period_before() {
        assert_eq!(trend(118, 100, 30).as_deref(), Some("18 % more than the 30 days before"));
        assert_eq!(trend(50, 100, 1).as_deref(), Some("50 % less than the day before"));
        assert_eq!(trend(100, 100, 7).as_deref(), Some("as much as the 7 days before"));
        assert_eq!(trend(100, 0, 7), None);
        let mut project = Project::new("shop".parse().unwrap(), "local:shop", Timestamp::default());
        let sum = UsageSum { cost_micros: 5_000_000, ..UsageSum::default() };
        let period = Period { first: 1, last: 10, days: Some(10) };
        let spent = |projects: &[&Project]| Spent::new(&period, &sum, &UsageSum::default(), projects).budget;
        assert_eq!(spent(&[&project]), None);
        project.settings.limits.budget.day = Some(1_000_000);
        assert_eq!(spent(&[&project]), Some(Budget { text: "$10".to_owned(), spent: 500, limit: 1000 }));
        assert_eq!(spent(&[]), None);
    }

    #[test]
    fn a_merged_pull_request_has_a_price_and_a_median() {
        let merged = Merged::of(4, 8_000_000, vec![3_000_000, 1_000_000, 2_000_000]);
        assert_eq!((merged.price.as_deref(), merged.median.as_deref()), (Some("$2.00"), Some("$2.00")));
        let none = Merged::of(0, 8_000_000, Vec::new());
        assert_eq!((none.price, none.median), (None, None));
        assert_eq!([percent(0, 0), percent(0, 5), percent(1, 3)], [None, None, Some("33 %".to_owned())]);
    }
}
