//! `journeyman pr`: the pull requests of a project.

use std::num::NonZeroUsize;
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use clap_complete::engine::ArgValueCandidates;
use journeyman_client::models::{OpenPullRequest, PullRequestMergeMethod, PullRequestState};
use serde_json::Value;

use super::exit::{Exit, Failure, HELP};
use super::look::{Look, cell, plain};
use super::paint::ColorWhen;
use super::session::{ServerArgs, Session, with_session};
use super::store::print;
use super::table::Column::{Extra, Text, Whole};
use super::table::{headed, listed};
use super::{browser, complete, number};
use crate::config::client_environment;

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct PrArgs {
    #[command(flatten)]
    server: ServerArgs,
    #[command(subcommand)]
    command: PrCommand,
}

#[derive(Debug, Subcommand)]
enum PrCommand {
    /// List pull requests, newest first; on other code hosts than the built-in one, those of jobs
    List {
        /// State of the pull requests
        #[arg(long, value_enum, default_value_t = StateArg::Open)]
        state: StateArg,
        /// Maximum number of pull requests to list
        #[arg(long, default_value = "20", value_parser = number::limit)]
        limit: NonZeroUsize,
        /// Open the page of the list in the browser instead
        #[arg(short, long)]
        web: bool,
    },
    /// Show a pull request
    View {
        /// Number of the pull request
        #[arg(value_parser = number::pull_request, add = ArgValueCandidates::new(complete::pulls))]
        number: u64,
        /// Open the page of the pull request in the browser instead
        #[arg(short, long)]
        web: bool,
    },
    /// Open a pull request on the built-in code host
    Open {
        /// Branch with the commits, which must have been pushed
        #[arg(long)]
        head: String,
        /// Branch to merge into [default: the default branch]
        #[arg(long)]
        base: Option<String>,
        /// Title
        #[arg(long)]
        title: String,
        /// Description, in Markdown
        #[arg(long, default_value = "")]
        body: String,
        /// Open it as a draft
        #[arg(long)]
        draft: bool,
    },
    /// Merge a pull request on the built-in code host
    Merge {
        /// Number of the pull request
        #[arg(value_parser = number::pull_request, add = ArgValueCandidates::new(complete::open_pulls))]
        number: u64,
        /// Method of the merge
        #[arg(long, value_enum, default_value_t)]
        method: MethodArg,
    },
}

/// The method of a merge.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(crate) enum MethodArg {
    /// A merge commit joins the branches
    #[default]
    Merge,
    /// One commit has all changes
    Squash,
    /// The commits are repeated on top of the base branch
    Rebase,
}

impl From<MethodArg> for PullRequestMergeMethod {
    fn from(method: MethodArg) -> Self {
        match method {
            MethodArg::Merge => Self::Merge,
            MethodArg::Squash => Self::Squash,
            MethodArg::Rebase => Self::Rebase,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum StateArg {
    Open,
    Merged,
    Closed,
}

impl From<StateArg> for PullRequestState {
    fn from(state: StateArg) -> Self {
        match state {
            StateArg::Open => Self::Open,
            StateArg::Merged => Self::Merged,
            StateArg::Closed => Self::Closed,
        }
    }
}

/// Runs a command.
pub(crate) fn run(arguments: PrArgs, color: ColorWhen) -> anyhow::Result<ExitCode> {
    with_session(arguments.server, color, async |session| carry_out(&session, arguments.command).await)
}

async fn carry_out(session: &Session, command: PrCommand) -> Result<Exit, Failure> {
    let (pulls, project, look) = (session.client.pulls(), session.project.as_str(), session.look);
    match command {
        PrCommand::List { web: true, .. } => browser::open(&session.page("/pulls"), &client_environment())?,
        PrCommand::List { state, limit, .. } => {
            let state = PullRequestState::from(state);
            let none = format!("No {state} pull requests in {project}.");
            let mut list = pulls.list(project, Some(state)).raw();
            let mut found = Vec::new();
            while found.len() < limit.get()
                && let Some(pull) = list.next().await?
            {
                found.push(pull);
            }
            session.print_rows(&found, |pulls| listed(rows(look, pulls), &none))?;
        }
        PrCommand::View { number, web } => {
            let pull = pulls.get(project, number).raw().await?;
            if web {
                browser::open(&cell(&pull["url"]), &client_environment())?;
            } else {
                session.show(&pull, |pull| view(look, pull))?;
            }
        }
        PrCommand::Open { head, base, title, body, draft } => {
            let mut new = OpenPullRequest::new(head, title).body(body).draft(draft);
            new.base = base;
            let pull = pulls.open(project, &new).raw().await?;
            session.show(&pull, |pull| {
                vec![
                    look.paint.good(&format!("#{} {}", cell(&pull["number"]), cell(&pull["title"]))),
                    look.link(&pull["url"]),
                ]
            })?;
        }
        PrCommand::Merge { number, method } => return merge(session, number, method).await,
    }
    Ok(Exit::Done)
}

/// Merges a pull request, and prints it.
pub(super) async fn merge(session: &Session, number: u64, method: MethodArg) -> Result<Exit, Failure> {
    let method = PullRequestMergeMethod::from(method);
    let pull = session.client.pulls().merge_with(&session.project, number, &method).raw().await?;
    if session.json {
        print(&pull.to_string())?;
    } else {
        let text = format!("Merged #{number} into {}: {}", cell(&pull["base"]), cell(&pull["title"]));
        print(&session.look.paint.good(&text))?;
    }
    Ok(Exit::Done)
}

fn state(look: Look, pull: &Value) -> String {
    if pull["state"] == "open" && pull["draft"] == true { look.paint.dim("draft") } else { look.status(&pull["state"]) }
}

fn rows(look: Look, pulls: &[Value]) -> Vec<String> {
    let row = |pull: &Value| {
        let [title, head, job] = ["title", "head", "job"].map(|field| cell(&pull[field]));
        let number = format!("#{}", cell(&pull["number"]));
        [number, state(look, pull), title, head, with_base(pull), job, look.ago(&pull["createdAt"])]
    };
    let head =
        [Whole("NUMBER"), Whole("STATE"), Text("TITLE"), Text("BRANCH"), Extra("BASE"), Extra("JOB"), Extra("CREATED")];
    headed(look, head, pulls.iter().map(row).collect())
}

/// Returns what is known about a pull request and its base, in few words.
fn with_base(pull: &Value) -> String {
    let behind = pull["behind"].as_u64().unwrap_or_default();
    let named = pull["conflicts"]["files"].as_array().map_or(0, |files| files.len() as u64);
    let count = named.saturating_add(pull["conflicts"]["more"].as_u64().unwrap_or_default());
    match (pull["notCompared"].as_str(), count, behind) {
        (Some("not_yet"), ..) => "not compared yet".to_owned(),
        (Some(_), ..) => "not compared".to_owned(),
        (None, 0, _) if pull["behind"].is_null() => "-".to_owned(),
        (None, 0, 0) => "up to date".to_owned(),
        (None, 0, behind) => format!("{behind} behind"),
        (None, count, _) => format!("conflicts: {count}"),
    }
}

/// Returns the names of the conflicting files; empty if there are none, or if they are not known.
fn conflicts(pull: &Value) -> String {
    let mut names: Vec<String> = pull["conflicts"]["files"].as_array().into_iter().flatten().map(cell).collect();
    names.extend(pull["conflicts"]["more"].as_u64().filter(|more| *more > 0).map(|more| format!("{more} more")));
    names.join(", ")
}

fn view(look: Look, pull: &Value) -> Vec<String> {
    let labels: Vec<String> = pull["labels"].as_array().into_iter().flatten().map(cell).collect();
    let mergeable = match pull["mergeable"].as_bool() {
        Some(true) => look.paint.good("yes"),
        Some(false) if !conflicts(pull).is_empty() => look.paint.bad(&format!("no, conflicts in {}", conflicts(pull))),
        Some(false) if pull["state"] == "open" => look.paint.bad("no, the branches conflict or do not exist"),
        _ => "-".to_owned(),
    };
    let mut ended = look.ago(&pull["endedAt"]);
    if pull["endedBy"].is_string() {
        ended = format!("{ended} by {}", cell(&pull["endedBy"]));
    }
    if pull["mergeCommit"].is_string() {
        ended = format!("{ended}, merge commit {}", cell(&pull["mergeCommit"]));
    }
    let mut lines = vec![look.paint.heading(&format!("#{} {}", cell(&pull["number"]), cell(&pull["title"])))];
    lines.extend(look.fields([
        ("state", state(look, pull)),
        ("branches", format!("{} into {}", cell(&pull["head"]), cell(&pull["base"]))),
        ("mergeable", mergeable),
        ("job", cell(&pull["job"])),
        ("labels", if labels.is_empty() { "-".to_owned() } else { labels.join(", ") }),
        ("created", look.ago(&pull["createdAt"])),
        ("ended", ended),
        ("page", look.link(&pull["url"])),
    ]));
    let body = plain(&without_comments(pull["body"].as_str().unwrap_or_default()));
    if !body.trim().is_empty() {
        lines.push(String::new());
        lines.extend(body.trim().lines().map(str::to_owned));
    }
    lines
}

/// Leaves out HTML comments, which the pages of code hosts do not show, with the rest of their lines if nothing else is
/// there. A comment without an end stays.
fn without_comments(text: &str) -> String {
    let (mut kept, mut rest) = (String::new(), text);
    while let Some((before, comment)) = rest.split_once("<!--")
        && let Some((_, after)) = comment.split_once("-->")
    {
        kept.push_str(before);
        let is_line = kept.is_empty() || kept.ends_with('\n');
        rest = after.strip_prefix('\n').filter(|_| is_line).unwrap_or(after);
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use journeyman_core::time::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::cli::paint::Paint;

    const LOOK: Look = Look { paint: Paint::OFF, now: Timestamp::from_micros(60_000_000), columns: None };

    fn pull() -> Value {
        json!({
            "number": 7, "url": "http://h/7", "state": "open", "draft": false, "title": "Add\u{1b}[2J a page",
            "body": "What\nand why\n", "head": "jm/add", "base": "main", "labels": ["ui", "small"], "job": "job_1",
            "mergeable": true, "createdAt": "1970-01-01T00:00:00.000Z", "endedAt": null,
        })
    }

    #[test]
    fn a_list_has_a_row_for_each_pull_request() {
        let lines = rows(LOOK, &[pull(), json!({"number": 12, "state": "open", "draft": true})]);
        assert_eq!(lines[0], "NUMBER  STATE  TITLE           BRANCH  BASE  JOB    CREATED");
        assert_eq!(lines[1], "#7      open   Add\u{fffd}[2J a page  jm/add  -     job_1  1 minute ago");
        assert!(lines[2].starts_with("#12     draft  -"), "{lines:?}");
    }

    #[test]
    fn a_list_says_how_pull_requests_compare_with_their_bases() {
        for (pull, expected) in [
            (json!({"notCompared": "not_yet", "behind": null, "conflicts": null}), "not compared yet"),
            (json!({"notCompared": "in_fork", "behind": null, "conflicts": null}), "not compared"),
            (json!({"notCompared": null, "behind": 0, "conflicts": {"files": [], "more": 0}}), "up to date"),
            (json!({"notCompared": null, "behind": 3, "conflicts": {"files": [], "more": 0}}), "3 behind"),
            (json!({"notCompared": null, "behind": 3, "conflicts": {"files": ["a", "b"], "more": 5}}), "conflicts: 7"),
            (json!({"notCompared": null, "behind": null, "conflicts": null}), "-"),
        ] {
            assert_eq!(with_base(&pull), expected, "{pull}");
        }
    }

    #[test]
    fn comments_are_left_out() {
        for (text, shown) in [
            ("<!-- a -->\nb\n<!-- c\nd -->\ne", "b\ne"),
            ("a <!-- b -->c\n", "a c\n"),
            ("a <!-- b", "a <!-- b"),
            ("a -->", "a -->"),
        ] {
            assert_eq!(without_comments(text), shown, "{text}");
        }
    }

    #[test]
    fn a_pull_request_is_shown_with_its_text() {
        let lines = view(LOOK, &pull());
        assert_eq!(lines[0], "#7 Add\u{fffd}[2J a page");
        assert!(lines.contains(&"branches  jm/add into main".to_owned()), "{lines:?}");
        assert!(lines.contains(&"labels    ui, small".to_owned()), "{lines:?}");
        assert_eq!(lines[lines.len() - 2..], ["What", "and why"]);
        let marked = json!({"body": "<!-- journeyman:begin -->\nWhat\n<!-- journeyman:end -->\n"});
        assert_eq!(view(LOOK, &marked).last().map(String::as_str), Some("What"));
        assert!(view(LOOK, &json!({"state": "open", "mergeable": false})).iter().any(|line| line.contains("conflict")));
        let named = json!({"state": "open", "mergeable": false, "conflicts": {"files": ["a", "b"], "more": 3}});
        assert!(view(LOOK, &named).iter().any(|line| line.contains("no, conflicts in a, b, 3 more")));
        let ended = json!({"endedAt": "1970-01-01T00:00:00.000Z", "endedBy": "a\u{1b}da", "mergeCommit": "1a2b"});
        let line = "ended     1 minute ago by a\u{fffd}da, merge commit 1a2b".to_owned();
        assert!(view(LOOK, &ended).contains(&line), "{:?}", view(LOOK, &ended));
    }
}
