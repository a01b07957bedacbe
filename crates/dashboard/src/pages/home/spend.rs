//! The money spent this week, as a chart and as a table.

use std::collections::BTreeMap;

use journeyman_core::ids::ProjectId;
use journeyman_core::model::price::day;
use journeyman_core::ports::StoreError;
use journeyman_core::project::Project;
use journeyman_core::time::Timestamp;
use journeyman_core::usage::{UsageGroup, UsageQuery};

use crate::chart::{self, Area, Bar, GridLine, MAX_KEYS, key};
use crate::{Shared, words};

/// The maximum number of lines of the report: seven days of a thousand projects.
const MAX_LINES: usize = 7000;

/// The area of the chart's bars.
const AREA: Area = Area { left: 36.0, width: 252.0, top: 8.0, bottom: 112.0, bar: 22.0, days: 7 };

/// Returns the name of a day.
pub(super) fn weekday(day: i64) -> &'static str {
    // The day 0 was a Thursday.
    let names = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
    usize::try_from((day + 3).rem_euclid(7)).ok().and_then(|index| names.get(index).copied()).unwrap_or_default()
}

/// The week of the chart, from Monday to Sunday in UTC.
pub(super) struct Week {
    pub(super) total: String,
    /// The sum of the daily budgets of all projects, if each has one: the text, and the part that is spent.
    pub(super) budget: Option<Budget>,
    pub(super) days: Vec<Day>,
    pub(super) lines: Vec<GridLine>,
    /// The columns of the table: the class of the color, and the name.
    pub(super) columns: Vec<(&'static str, String)>,
    /// True if nothing was spent.
    pub(super) is_empty: bool,
}

/// A budget for the week.
pub(super) struct Budget {
    pub(super) text: String,
    /// The numbers of the meter, in whole cents: what was spent, and the budget.
    pub(super) spent: u64,
    pub(super) limit: u64,
    /// The parts of the budget above which the meter is amber, and red.
    pub(super) low: u64,
    pub(super) high: u64,
}

/// A day of the week.
pub(super) struct Day {
    pub(super) name: &'static str,
    /// The first three letters of the name.
    pub(super) short: &'static str,
    pub(super) total: String,
    /// The amounts in the columns of the table.
    pub(super) cells: Vec<String>,
    pub(super) bars: Vec<Bar>,
    /// The middle of the bars.
    pub(super) x: String,
}

impl Week {
    /// Reads the sums of the week. `order` has the projects in the order of their colors.
    pub(super) async fn read(
        shared: &Shared,
        now: Timestamp,
        projects: &[Project],
        order: &[ProjectId],
    ) -> Result<Self, StoreError> {
        let today = day(now);
        let first = today - (today + 3).rem_euclid(7);
        let query = UsageQuery {
            first_day: first,
            last_day: first + 6,
            groups: vec![UsageGroup::Day, UsageGroup::Project],
            limit: MAX_LINES,
            ..UsageQuery::default()
        };
        let mut sums: BTreeMap<(i64, usize), u64> = BTreeMap::new();
        for line in shared.services.store.usage(query).await? {
            let column = order.iter().position(|id| Some(id) == line.project.as_ref()).unwrap_or(MAX_KEYS);
            let sum = sums.entry((line.day.unwrap_or(first), column.min(MAX_KEYS))).or_default();
            *sum = sum.saturating_add(line.sum.cost_micros);
        }
        let names: Vec<String> = order.iter().take(MAX_KEYS).map(ToString::to_string).collect();
        Ok(Self::of(first, &sums, names, weekly_budget(projects)))
    }

    /// Lays out the chart. `sums` has the amounts by day and column; `names` are the projects with a color.
    fn of(first: i64, sums: &BTreeMap<(i64, usize), u64>, names: Vec<String>, budget: Option<u64>) -> Self {
        let at = |day: i64, column: usize| sums.get(&(day, column)).copied().unwrap_or_default();
        let of_day = |day: i64| (0..=MAX_KEYS).map(|column| at(day, column)).fold(0, u64::saturating_add);
        let total = (first..first + 7).map(of_day).fold(0, u64::saturating_add);
        let top = chart::nice((first..first + 7).map(of_day).max().unwrap_or_default());
        let has_others = (first..first + 7).any(|day| at(day, MAX_KEYS) > 0);
        let mut columns: Vec<(&'static str, String)> =
            names.into_iter().enumerate().map(|(column, name)| (key(column), name)).collect();
        let mut indexes: Vec<usize> = (0..columns.len()).collect();
        if has_others {
            columns.push((key(MAX_KEYS), "Others".to_owned()));
            indexes.push(MAX_KEYS);
        }
        let day = |(number, day): (i32, i64)| Day {
            name: weekday(day),
            short: weekday(day).get(..3).unwrap_or_default(),
            total: words::money(of_day(day)),
            cells: indexes.iter().map(|column| words::money(at(day, *column))).collect(),
            bars: AREA.stack(
                number,
                &indexes.iter().map(|column| (*column, at(day, *column))).collect::<Vec<_>>(),
                top,
            ),
            x: chart::decimal(AREA.middle(number)),
        };
        Self {
            total: words::money(total),
            budget: budget.map(|limit| Budget {
                text: chart::axis(limit),
                spent: (total / 10_000).min(limit / 10_000),
                limit: (limit / 10_000).max(1),
                low: limit / 10_000 / 10 * 7,
                high: limit / 10_000 / 10 * 9,
            }),
            days: (0..7).zip(first..).map(day).collect(),
            lines: AREA.grid(top),
            columns,
            is_empty: total == 0,
        }
    }
}

/// Returns seven times the sum of the daily budgets, in micros; `None` if a project has none.
fn weekly_budget(projects: &[Project]) -> Option<u64> {
    let budgets: Option<Vec<u64>> = projects.iter().map(|project| project.settings.limits.budget.day).collect();
    budgets
        .filter(|budgets| !budgets.is_empty())
        .map(|budgets| budgets.into_iter().fold(0, u64::saturating_add))
        .map(|sum| sum.saturating_mul(7))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_week_has_a_bar_for_each_project_and_a_table_with_the_same_amounts() {
        let sums = [((4, 0), 6_000_000), ((4, 1), 2_000_000), ((5, 1), 500_000)].into();
        let week = Week::of(4, &sums, vec!["heron".to_owned(), "infra".to_owned()], Some(120_000_000));
        assert_eq!((week.total.as_str(), week.is_empty), ("$8.50", false));
        let budget = week.budget.unwrap();
        assert_eq!((budget.text.as_str(), budget.spent, budget.limit), ("$120", 850, 12_000));
        assert_eq!((budget.low, budget.high), (8_400, 10_800));
        assert_eq!(week.days.iter().map(|day| day.short).collect::<String>(), "MonTueWedThuFriSatSun");
        assert_eq!(week.days[0].cells, ["$6.00", "$2.00"]);
        let bars: Vec<_> =
            week.days[0].bars.iter().map(|bar| (bar.class, bar.y.as_str(), bar.height.as_str())).collect();
        assert_eq!(bars, [("v1", "49.6", "61.4"), ("v2", "28.8", "19.8")]);
        assert_eq!(week.columns, [("k1", "heron".to_owned()), ("k2", "infra".to_owned())]);
        assert_eq!(week.lines.iter().map(|line| line.label.as_str()).collect::<Vec<_>>(), ["$0", "$5", "$10"]);
    }

    #[test]
    fn projects_without_a_color_are_one_column() {
        let week = Week::of(4, &[((4, MAX_KEYS), 10)].into(), vec!["a".to_owned()], None);
        assert_eq!(week.columns[1], ("k5", "Others".to_owned()));
        assert_eq!(week.days[0].bars[0].class, "v5");
        assert!(Week::of(4, &BTreeMap::new(), Vec::new(), None).is_empty);
    }
}
