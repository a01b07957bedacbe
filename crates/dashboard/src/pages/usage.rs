//! `/usage`: what models cost in a period, by day, project, model and person, and the same as CSV.

mod period;
mod report;

use std::collections::HashMap;

use askama::Template;
use axum::Router;
use axum::extract::{Query, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use journeyman_app::usage_table;
use journeyman_core::ids::ProjectId;
use journeyman_core::model::price::day;
use journeyman_core::usage::{UsageGroup, UsageLine, UsageQuery};
use serde::Deserialize;

use self::period::Period;
use self::report::{DayChart, Merged, Row, Spent, Sums};
use crate::Shared;
use crate::failure::{Failure, Page, rendered};
use crate::frame::Frame;
use crate::parameter::Parameter;
use crate::words::{self, in_query};

pub(super) fn routes() -> Router<Shared> {
    Router::new().route("/usage", get(show)).route("/usage.csv", get(csv))
}

/// The choices of the period in days.
const CHOICES: [u32; 3] = [7, 30, 90];

/// The maximum number of lines of a report, as in the HTTP interface.
const MAX_LINES: usize = 10_000;

/// The query of the page and of the table.
#[derive(Debug, Clone, Default, Deserialize)]
struct UsageParameters {
    days: Option<String>,
    from: Option<String>,
    to: Option<String>,
    project: Option<String>,
}

impl UsageParameters {
    /// Returns the chosen project.
    ///
    /// # Errors
    /// The value is not the ID of a project.
    fn projects(&self) -> Result<Option<Vec<ProjectId>>, Failure> {
        let project = Parameter::new("project", self.project.as_ref(), "/usage");
        let project = project.read("the ID of a project", |id| id.parse::<ProjectId>().ok())?;
        Ok(project.map(|project| vec![project]))
    }

    /// Returns the period.
    ///
    /// # Errors
    /// A value is not allowed.
    fn period(&self, today: i64) -> Result<Period, Failure> {
        let period = Period::of(self.days.as_deref(), self.from.as_deref(), self.to.as_deref(), today);
        period.map_err(|text| Failure::Parameter { text, clear: "/usage".to_owned() })
    }

    /// Returns the path of the page, or of the table, with a period and the chosen project.
    fn path(&self, page: &str, period: &str) -> String {
        match self.project.as_deref().filter(|project| !project.is_empty()) {
            Some(project) => format!("{page}?{period}&project={}", in_query(project)),
            None => format!("{page}?{period}"),
        }
    }
}

/// Returns the query for the usage of a period.
fn selection(period: &Period, projects: Option<&Vec<ProjectId>>, groups: &[UsageGroup]) -> UsageQuery {
    UsageQuery {
        first_day: period.first,
        last_day: period.last,
        projects: projects.cloned(),
        groups: groups.to_vec(),
        limit: MAX_LINES + 1,
        ..UsageQuery::default()
    }
}

#[derive(Template)]
#[template(path = "usage.html")]
struct UsagePage<'a> {
    frame: &'a Frame,
    /// The period and the projects in words.
    summary: String,
    choices: Vec<(String, String, bool)>,
    from: String,
    to: String,
    project: String,
    projects: Vec<String>,
    table: String,
    spent: Spent,
    merged: Option<Merged>,
    sums: Sums,
    chart: DayChart,
    by_project: Vec<Row>,
    by_model: Vec<Row>,
    by_person: Vec<Row>,
    /// The part of the input that came from caches of the providers.
    cached: Option<String>,
    /// The part of the cost that is an estimate.
    estimated: Option<String>,
    /// The runs whose cost is not known, in words.
    unpriced: Option<String>,
}

async fn show(State(shared): State<Shared>, frame: Frame, Query(query): Query<UsageParameters>) -> Response {
    frame.answer(page(&shared, &frame, &query).await)
}

async fn page(shared: &Shared, frame: &Frame, query: &UsageParameters) -> Page {
    let today = day(frame.now);
    let (period, chosen) = (query.period(today)?, query.projects()?);
    let select = |period: &Period, groups: &[UsageGroup]| selection(period, chosen.as_ref(), groups);
    let by_day = lines(frame, select(&period, &[UsageGroup::Day, UsageGroup::Project])).await?;
    let by_model = lines(frame, select(&period, &[UsageGroup::Model])).await?;
    let by_person = lines(frame, select(&period, &[UsageGroup::Author])).await?;
    let before = lines(frame, select(&period.before(), &[])).await?;
    let all = shared.services.store.projects().await?;
    let selected: Vec<_> =
        all.iter().filter(|project| chosen.as_ref().is_none_or(|chosen| chosen.contains(&project.id))).collect();
    let total = report::total(&by_day);
    let order = report::order(&by_day);
    let project = query.project.clone().unwrap_or_default();
    let choice = |days: &u32| {
        let is_chosen = period.last == today && period.length() == i64::from(*days);
        (query.path("/usage", &format!("days={days}")), format!("{days} days"), is_chosen)
    };
    rendered(&UsagePage {
        frame,
        summary: format!("{}, {}", period.text(), if project.is_empty() { "all projects" } else { &project }),
        choices: CHOICES.iter().map(choice).collect(),
        from: journeyman_core::usage::format_day(period.first),
        to: journeyman_core::usage::format_day(period.last),
        projects: all.iter().map(|project| project.id.to_string()).collect(),
        table: query.path("/usage.csv", &period.query()),
        spent: Spent::new(&period, &total, &report::total(&before), &selected),
        merged: Merged::read(shared, frame, &period, chosen, total.cost_micros).await?,
        sums: Sums::new(&total),
        chart: DayChart::new(&period, &by_day, &order),
        by_project: report::by_project(&by_day, &order),
        by_model: report::rows(&by_model, |line| line.model.clone(), "no model"),
        by_person: report::rows(&by_person, |line| line.author.clone(), "without a name"),
        cached: report::percent(total.cached_tokens, total.input_tokens),
        estimated: (total.estimated_micros > 0).then(|| words::money(total.estimated_micros)),
        unpriced: (total.unpriced > 0)
            .then(|| words::counted(usize::try_from(total.unpriced).unwrap_or(usize::MAX), "run")),
        project,
    })
}

/// Reads the lines of a report.
///
/// # Errors
/// The store failed, or the report has too many lines.
async fn lines(frame: &Frame, query: UsageQuery) -> Result<Vec<UsageLine>, Failure> {
    let lines = frame.cases().usage(&frame.caller(), query).await?;
    if lines.len() > MAX_LINES {
        let text = format!("the report has more than {MAX_LINES} lines; choose a shorter period or a project");
        return Err(Failure::Form(text));
    }
    Ok(lines)
}

async fn csv(frame: Frame, Query(query): Query<UsageParameters>) -> Response {
    frame.answer(csv_file(&frame, &query).await)
}

/// Returns the numbers of the page as a table, with a line for each day, project, model and person.
async fn csv_file(frame: &Frame, query: &UsageParameters) -> Page {
    let (period, projects) = (query.period(day(frame.now))?, query.projects()?);
    let groups = [UsageGroup::Day, UsageGroup::Project, UsageGroup::Model, UsageGroup::Author];
    let lines = lines(frame, selection(&period, projects.as_ref(), &groups)).await?;
    let name = format!("attachment; filename=\"usage-{}.csv\"", period.file_name());
    let headers = [
        (CONTENT_TYPE, "text/csv; charset=utf-8; header=present".to_owned()),
        (CONTENT_DISPOSITION, name),
        (CACHE_CONTROL, "no-store".to_owned()),
    ];
    Ok((headers, usage_table(lines, &HashMap::new())?).into_response())
}
