//! The parameters of requests. GitLab validates them before it looks up the project and checks permissions; the rules
//! are the `params` blocks in `lib/api`, which the pages of the REST API repeat as tables of attributes.

use http::Method;
use journeyman_core::time::Timestamp;
use serde_json::Value;

use super::error;
use crate::code_host::{ApiRequest, Reply};

/// What the value of a parameter must be.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    /// Text that is not blank.
    Filled,
    Integer,
    Boolean,
    Time,
    Object,
    Choice(&'static [&'static str]),
    /// A list of integers, or one text with commas.
    Integers,
}

struct Rule {
    name: &'static str,
    kind: Kind,
    is_required: bool,
}

const fn required(name: &'static str, kind: Kind) -> Rule {
    Rule { name, kind, is_required: true }
}

const fn optional(name: &'static str, kind: Kind) -> Rule {
    Rule { name, kind, is_required: false }
}

/// The parameters of an update of a merge request, of which at least one is required (`lib/api/merge_requests.rb`).
const UPDATES: [&str; 18] = [
    "assignee_id",
    "assignee_ids",
    "reviewer_ids",
    "description",
    "labels",
    "add_labels",
    "remove_labels",
    "milestone_id",
    "milestone",
    "remove_source_branch",
    "allow_collaboration",
    "allow_maintainer_to_push",
    "squash",
    "target_branch",
    "title",
    "state_event",
    "discussion_locked",
    "merge_after",
];

/// The statuses of pipelines (Pipelines API, "List project pipelines", and `Ci::HasStatus`).
const STATUSES: &[&str] = &[
    "created",
    "waiting_for_resource",
    "preparing",
    "waiting_for_callback",
    "pending",
    "running",
    "success",
    "failed",
    "canceling",
    "canceled",
    "skipped",
    "manual",
    "scheduled",
];

/// The sources of pipelines (`CI_PIPELINE_SOURCE` in the documentation of job rules).
const SOURCES: &[&str] = &[
    "api",
    "chat",
    "container_registry_push",
    "duo_workflow",
    "external",
    "external_pull_request_event",
    "merge_request_event",
    "ondemand_dast_scan",
    "ondemand_dast_validation",
    "parent_pipeline",
    "pipeline",
    "pipeline_execution_policy_schedule",
    "push",
    "schedule",
    "security_orchestration_policy",
    "trigger",
    "unknown",
    "web",
    "webide",
];

/// The parameters of a new and of a changed merge request.
const PULL: [Rule; 11] = [
    optional("assignee_id", Kind::Integer),
    optional("assignee_ids", Kind::Integers),
    optional("reviewer_ids", Kind::Integers),
    optional("description", Kind::Text),
    optional("milestone_id", Kind::Integer),
    optional("remove_source_branch", Kind::Boolean),
    optional("allow_collaboration", Kind::Boolean),
    optional("allow_maintainer_to_push", Kind::Boolean),
    optional("squash", Kind::Boolean),
    optional("merge_after", Kind::Text),
    optional("milestone", Kind::Text),
];

const TIMES: [Rule; 5] = [
    optional("created_after", Kind::Time),
    optional("created_before", Kind::Time),
    optional("updated_after", Kind::Time),
    optional("updated_before", Kind::Time),
    optional("sort", Kind::Choice(&["asc", "desc"])),
];

/// Returns the rules of an operation of a project.
fn rules(method: &Method, below: &[&str]) -> Vec<Rule> {
    match (method.as_str(), below) {
        ("GET", ["merge_requests"]) => [
            optional("state", Kind::Choice(&["opened", "closed", "locked", "merged", "all"])),
            optional(
                "order_by",
                Kind::Choice(&[
                    "created_at",
                    "label_priority",
                    "milestone_due",
                    "popularity",
                    "priority",
                    "title",
                    "updated_at",
                    "merged_at",
                ]),
            ),
            optional("author_id", Kind::Integer),
            optional("iids", Kind::Integers),
            optional("source_project_id", Kind::Integer),
            optional("view", Kind::Choice(&["simple"])),
            optional("wip", Kind::Choice(&["yes", "no"])),
            optional(
                "scope",
                Kind::Choice(&[
                    "created-by-me",
                    "assigned-to-me",
                    "created_by_me",
                    "assigned_to_me",
                    "reviews_for_me",
                    "all",
                ]),
            ),
        ]
        .into_iter()
        .chain(TIMES)
        .collect(),
        ("POST", ["merge_requests"]) => [
            required("title", Kind::Text),
            required("source_branch", Kind::Text),
            required("target_branch", Kind::Text),
            optional("target_project_id", Kind::Integer),
        ]
        .into_iter()
        .chain(PULL)
        .collect(),
        ("PUT", ["merge_requests", _]) => [
            optional("title", Kind::Filled),
            optional("target_branch", Kind::Filled),
            optional("state_event", Kind::Choice(&["close", "reopen"])),
            optional("discussion_locked", Kind::Boolean),
        ]
        .into_iter()
        .chain(PULL)
        .collect(),
        ("PUT", ["merge_requests", _, "merge"]) => vec![
            optional("merge_when_pipeline_succeeds", Kind::Boolean),
            optional("auto_merge", Kind::Boolean),
            optional("sha", Kind::Text),
            optional("squash", Kind::Boolean),
            optional("should_remove_source_branch", Kind::Boolean),
        ],
        ("GET", ["issues"]) => [
            optional("state", Kind::Choice(&["opened", "closed", "all"])),
            optional(
                "order_by",
                Kind::Choice(&[
                    "created_at",
                    "due_date",
                    "label_priority",
                    "milestone_due",
                    "popularity",
                    "priority",
                    "relative_position",
                    "title",
                    "updated_at",
                ]),
            ),
            optional("author_id", Kind::Integer),
            optional("iids", Kind::Integers),
        ]
        .into_iter()
        .chain(TIMES)
        .collect(),
        ("GET", [_, _, "notes"]) => vec![
            optional("order_by", Kind::Choice(&["created_at", "updated_at"])),
            optional("sort", Kind::Choice(&["asc", "desc"])),
            optional("activity_filter", Kind::Choice(&["all_notes", "only_comments", "only_activity"])),
        ],
        ("POST", [_, _, "notes"]) => vec![required("body", Kind::Text), optional("internal", Kind::Boolean)],
        ("PUT", [_, _, "notes", _]) => vec![optional("body", Kind::Filled)],
        ("POST", [_, _, "discussions", _, "notes"]) => vec![required("body", Kind::Text)],
        ("PUT", [_, _, "discussions", _]) => vec![required("resolved", Kind::Boolean)],
        ("POST", [_, _, "award_emoji"] | [_, _, "notes", _, "award_emoji"]) => vec![required("name", Kind::Text)],
        ("POST", [_, _, "discussions"]) => vec![required("body", Kind::Text), optional("position", Kind::Object)],
        ("GET", ["repository", "compare"]) => vec![required("from", Kind::Text), required("to", Kind::Text)],
        ("GET", ["repository", "commits", _, "merge_requests"]) => {
            vec![optional("state", Kind::Choice(&["opened", "closed", "locked", "merged", "all"]))]
        }
        ("GET", ["repository", "commits", _, "statuses"]) => vec![
            optional("pipeline_id", Kind::Integer),
            optional("all", Kind::Boolean),
            optional("order_by", Kind::Choice(&["id", "pipeline_id"])),
            optional("sort", Kind::Choice(&["asc", "desc"])),
        ],
        ("POST", ["statuses", _]) => vec![
            required("state", Kind::Choice(&["pending", "running", "success", "failed", "canceled", "skipped"])),
            optional("ref", Kind::Text),
            optional("target_url", Kind::Text),
            optional("description", Kind::Text),
            optional("name", Kind::Text),
            optional("context", Kind::Text),
            optional("pipeline_id", Kind::Integer),
        ],
        ("GET", ["pipelines"]) => [
            optional("scope", Kind::Choice(&["running", "pending", "finished", "branches", "tags"])),
            optional("status", Kind::Choice(STATUSES)),
            optional("source", Kind::Choice(SOURCES)),
            optional("order_by", Kind::Choice(&["id", "status", "ref", "updated_at", "user_id"])),
            optional("yaml_errors", Kind::Boolean),
        ]
        .into_iter()
        .chain(TIMES)
        .collect(),
        ("GET", ["pipelines", _, "jobs"]) => {
            vec![optional("include_retried", Kind::Boolean), optional("scope", Kind::Choice(STATUSES))]
        }
        ("GET", ["pipelines", _, "bridges" | "trigger_jobs"]) => vec![optional("scope", Kind::Choice(STATUSES))],
        _ => Vec::new(),
    }
}

/// The rules of the position of a comment on a line, if there is one (Discussions API, "Create new merge request
/// thread").
const POSITION: [Rule; 8] = [
    required("position[base_sha]", Kind::Text),
    required("position[start_sha]", Kind::Text),
    required("position[head_sha]", Kind::Text),
    required("position[position_type]", Kind::Choice(&["text", "image", "file"])),
    optional("position[new_path]", Kind::Text),
    optional("position[new_line]", Kind::Integer),
    optional("position[old_path]", Kind::Text),
    optional("position[old_line]", Kind::Integer),
];

/// Returns the parameters in the path that must be integers, with their names.
fn in_path<'a>(method: &Method, below: &[&'a str]) -> Vec<(&'static str, &'a str)> {
    let is_get = method == Method::GET;
    match below {
        [kind, of, "notes", note, "award_emoji"] => {
            vec![(if *kind == "issues" { "issue_iid" } else { "merge_request_iid" }, of), ("note_id", note)]
        }
        [kind, of, "award_emoji"] => {
            vec![(if *kind == "issues" { "issue_iid" } else { "merge_request_iid" }, of)]
        }
        [_, of, "notes", note] => vec![("noteable_id", of), ("note_id", note)],
        [_, of, "notes" | "discussions", ..] => vec![("noteable_id", of)],
        ["merge_requests", of] | ["merge_requests", of, "pipelines"] if is_get => vec![("merge_request_iid", of)],
        ["issues", of] if is_get => vec![("issue_iid", of)],
        ["pipelines", id, ..] => vec![("pipeline_id", id)],
        ["jobs", id, "trace"] => vec![("job_id", id)],
        ["members", "all", id] => vec![("user_id", id)],
        _ => Vec::new(),
    }
}

/// Refuses a request about a project whose parameters are missing or invalid.
pub(super) fn check(call: &ApiRequest, below: &[&str]) -> Option<Reply> {
    let mut problems: Vec<String> = in_path(&call.method, below)
        .into_iter()
        .filter(|(_, text)| text.parse::<u64>().is_err())
        .map(|(name, _)| format!("{name} is invalid"))
        .collect();
    let found = rules(&call.method, below);
    problems.extend(found.iter().flat_map(|rule| rule.problems(call)));
    let creates_thread = call.method == Method::POST && matches!(below, [_, _, "discussions"]);
    if creates_thread && value(call, "position").is_some_and(|position| position.is_object()) {
        problems.extend(POSITION.iter().flat_map(|rule| rule.problems(call)));
    }
    if call.method == Method::PUT
        && matches!(below, ["merge_requests", _])
        && UPDATES.iter().all(|name| value(call, name).is_none())
    {
        problems.push(format!("{} are missing, at least one parameter must be provided", UPDATES.join(", ")));
    }
    if call.method == Method::GET {
        problems.extend(page_problems(call));
    }
    (!problems.is_empty()).then(|| error(400, &problems.join(", ")))
}

/// `lib/api/pagination_params.rb`: only positive numbers are accepted.
fn page_problems(call: &ApiRequest) -> Vec<String> {
    let problem = |name: &str| match text(call, name).filter(|text| !text.is_empty())?.parse::<i64>() {
        Err(_) => Some(format!("{name} is invalid")),
        Ok(0) if name == "per_page" => Some(format!("{name} has a value not allowed")),
        Ok(number) if number < 1 => Some(format!("{name} does not have a valid value")),
        Ok(_) => None,
    };
    ["page", "per_page"].into_iter().filter_map(problem).collect()
}

impl Rule {
    fn problems(&self, call: &ApiRequest) -> Vec<String> {
        let Self { name, kind, is_required } = *self;
        let invalid = || vec![format!("{name} is invalid")];
        let wrong = || format!("{name} does not have a valid value");
        let Some(value) = value(call, name) else {
            let missing = is_required.then(|| format!("{name} is missing"));
            let choice = (is_required && matches!(kind, Kind::Choice(_))).then(wrong);
            return missing.into_iter().chain(choice).collect();
        };
        let text = as_text(&value);
        let is_valid = match kind {
            Kind::Filled if value.is_null() => return vec![format!("{name} is empty")],
            _ if value.is_null() => return Vec::new(),
            Kind::Text => text.is_some(),
            Kind::Filled => match &text {
                Some(text) if text.trim().is_empty() => return vec![format!("{name} is empty")],
                other => other.is_some(),
            },
            Kind::Integer => text.is_some_and(|text| text.is_empty() || text.parse::<i64>().is_ok()),
            Kind::Boolean => text.is_some_and(|text| text.is_empty() || as_flag(&text).is_some()),
            Kind::Time => text.is_some_and(|text| as_time(&text).is_some()),
            Kind::Object => value.is_object(),
            Kind::Integers => list(call, name).unwrap_or_default().iter().all(|text| text.parse::<i64>().is_ok()),
            Kind::Choice(choices) => {
                let texts = value.as_array().map_or_else(|| vec![text], |all| all.iter().map(as_text).collect());
                let is_one = |text: &Option<String>| text.as_deref().is_some_and(|text| choices.contains(&text));
                return if texts.iter().all(is_one) { Vec::new() } else { vec![wrong()] };
            }
        };
        if is_valid { Vec::new() } else { invalid() }
    }
}

/// Returns a parameter, which may stand in the query or in the body (REST API, "Request payload"). A name such as
/// `position[new_line]` is that of a property of an object.
pub(super) fn value(call: &ApiRequest, name: &str) -> Option<Value> {
    let in_body = match name.split_once('[') {
        Some((outer, inner)) => call.body.get(outer).and_then(|outer| outer.get(inner.trim_end_matches(']'))),
        None => call.body.get(name),
    };
    if let Some(value) = in_body {
        return Some(value.clone());
    }
    // Lists are repeated parameters (REST API, "Array").
    let listed = format!("{name}[]");
    let all: Vec<Value> =
        call.query.iter().filter(|(known, _)| *known == listed).map(|(_, text)| text.clone().into()).collect();
    if !all.is_empty() {
        return Some(Value::Array(all));
    }
    call.parameter(name).map(Value::from)
}

fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

fn as_flag(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "t" | "1" | "yes" | "y" | "on" => Some(true),
        "false" | "f" | "0" | "no" | "n" | "off" => Some(false),
        _ => None,
    }
}

fn as_time(text: &str) -> Option<Timestamp> {
    text.parse().or_else(|_| format!("{text}T00:00:00Z").parse()).ok()
}

pub(super) fn text(call: &ApiRequest, name: &str) -> Option<String> {
    as_text(&value(call, name)?)
}

/// Returns a text that is not blank.
pub(super) fn filled(call: &ApiRequest, name: &str) -> Option<String> {
    text(call, name).filter(|text| !text.trim().is_empty())
}

pub(super) fn integer(call: &ApiRequest, name: &str) -> Option<u64> {
    text(call, name)?.parse().ok()
}

pub(super) fn flag(call: &ApiRequest, name: &str) -> bool {
    text(call, name).and_then(|text| as_flag(&text)).unwrap_or_default()
}

pub(super) fn time(call: &ApiRequest, name: &str) -> Option<Timestamp> {
    as_time(&text(call, name)?)
}

/// Returns the texts of a list, which may also be one text with commas.
pub(super) fn list(call: &ApiRequest, name: &str) -> Option<Vec<String>> {
    let texts: Vec<String> = match value(call, name)? {
        Value::Array(values) => values.iter().filter_map(as_text).collect(),
        Value::Null => Vec::new(),
        value => as_text(&value).into_iter().collect(),
    };
    let parts = texts.iter().flat_map(|text| text.split(',')).map(str::trim);
    Some(parts.filter(|part| !part.is_empty()).map(str::to_owned).collect())
}
