//! The report on the usage of models.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use axum::response::{IntoResponse, Response};
use journeyman_app::usage_table;
use journeyman_core::ids::ProjectId;
use journeyman_core::model::price::day;
use journeyman_core::usage::{UsageQuery, UsageSum, format_day, parse_day};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::error::{ApiError, ErrorCode};
use crate::extract::{Authenticated, Parameters};
use crate::openapi::errors;
use crate::table;
use crate::wire::usage::{Format, Group, UsageLine, UsageReport};

errors!(Errors: 400, 401, 403, 503);

/// The number of days of a report that names no first day.
const DAYS: i64 = 30;

/// The maximum number of lines of a report.
const MOST_LINES: usize = 10_000;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct ReportQuery {
    /// The first day, in UTC; by default, 29 days before the last one.
    #[param(format = Date, example = "2026-11-01")]
    from: Option<String>,
    /// The last day, in UTC; by default, today.
    #[param(format = Date, example = "2026-11-30")]
    to: Option<String>,
    /// A property to group by. Can be repeated; without any, the report has one line.
    #[serde(default)]
    #[param(inline, example = json!(["day", "project"]))]
    group_by: Vec<Group>,
    /// Counts only runs of this project. Can be repeated.
    #[serde(default)]
    project: Vec<String>,
    /// Counts only runs of jobs with this model.
    model: Option<String>,
    /// Counts only runs of messages of this author.
    author: Option<String>,
    /// Counts only runs of messages that were sent with the API key with this ID.
    key: Option<String>,
    /// The format of the response; by default, `json`, or `csv` with `Accept: text/csv`.
    #[param(inline)]
    format: Option<Format>,
}

/// Get usage
///
/// Returns the tokens and the cost of runs that ended in a period, in the projects that the key may see: the sum, or one
/// line for each group. The numbers stay when jobs and projects are deleted.
#[utoipa::path(get, path = "/v2/usage", tag = "System", operation_id = "getUsage", params(ReportQuery),
    responses((status = 200, description = "The report", content((UsageReport = "application/json"),
        (String = "text/csv"))), Errors))]
pub(crate) async fn report(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Parameters(query): Parameters<ReportQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let invalid = |text: String| ApiError::bad_request(ErrorCode::InvalidQuery, text);
    let date = |name: &str, text: Option<&String>| -> Result<Option<i64>, ApiError> {
        let wrong = |text| invalid(format!("{name}: {text:?} is not a date such as 2026-11-23"));
        text.map(|text| parse_day(text).ok_or_else(|| wrong(text))).transpose()
    };
    let last_day = date("to", query.to.as_ref())?.unwrap_or_else(|| day(app.services.engine.now()));
    let first_day = date("from", query.from.as_ref())?.unwrap_or(last_day - (DAYS - 1));
    if first_day > last_day {
        return Err(invalid("from: must not be after to".to_owned()));
    }
    // A project that cannot exist has no usage, like one that the key may not see.
    let project = |text: &String| text.parse::<ProjectId>().ok();
    let projects = (!query.project.is_empty()).then(|| query.project.iter().filter_map(project).collect());
    let key = query.key.as_deref().map(str::parse).transpose();
    let selection = UsageQuery {
        first_day,
        last_day,
        projects,
        model: query.model,
        author: query.author,
        key: key.map_err(|_| invalid("key: must be the ID of an API key".to_owned()))?,
        groups: query.group_by.iter().copied().map(Into::into).collect(),
        limit: MOST_LINES + 1,
    };
    let lines = app.cases.usage(&caller, selection).await?;
    if lines.len() > MOST_LINES {
        let text = format!("the report has more than {MOST_LINES} lines; choose fewer groups or a shorter period");
        return Err(invalid(text));
    }
    let names = if query.group_by.contains(&Group::Key) { app.cases.names().await? } else { Default::default() };
    if is_table(query.format, &headers) {
        return Ok((table::headers("usage.csv"), usage_table(lines, &names)?).into_response());
    }
    let total = lines.iter().fold(UsageSum::default(), |sum, line| sum.plus(&line.sum));
    let report = UsageReport {
        from: format_day(first_day),
        to: format_day(last_day),
        total: total.into(),
        lines: lines.into_iter().map(|line| UsageLine::of(line, &names)).collect(),
    };
    Ok(Json(report).into_response())
}

fn is_table(format: Option<Format>, headers: &HeaderMap) -> bool {
    let accepts = || headers.get(ACCEPT).is_some_and(|accept| accept.as_bytes().starts_with(b"text/csv"));
    format.map_or_else(accepts, |format| format == Format::Csv)
}
