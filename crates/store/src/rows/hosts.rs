//! The rows of code hosts, of polls, and of pull requests with their comments.

use std::collections::BTreeSet;

use journeyman_core::code_host::{Access, CodeHost, DefinedIn, HostKind, HostName, PullRef, PullRepository, PullState};
use journeyman_core::ids::ProjectId;
use journeyman_core::poll::{Cursor, Poll, PollProblem};
use journeyman_core::position::DiffSide;
use journeyman_core::pull::compared::{ComparedDocument, ComparedPull, DueComparison};
use journeyman_core::pull::{
    Comment, CommentState, IndexedPull, LinePosition, LocalPull, NewComment, Resolution, Verdict,
};
use serde::{Deserialize, Serialize};

use super::columns::{At, Columns, Read};

/// The fields of a code host that are stored as one document.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct HostDocument {
    kind: HostKind,
    url: String,
    #[serde(default)]
    api_url: Option<String>,
    #[serde(default)]
    access: Option<Access>,
    #[serde(default)]
    trusted_bots: BTreeSet<String>,
    #[serde(default = "yes")]
    polls: bool,
}

const fn yes() -> bool {
    true
}

impl HostDocument {
    pub(crate) fn of(host: &CodeHost) -> Self {
        let CodeHost { kind, url, api_url, access, trusted_bots, polls, .. } = host.clone();
        Self { kind, url, api_url, access, trusted_bots, polls }
    }
}

pub(crate) fn code_host<R: Columns>(row: &R) -> Read<CodeHost, R> {
    let at = At::new("code_hosts", row, &["id"])?;
    let HostDocument { kind, url, api_url, access, trusted_bots, polls } = at.json("settings")?;
    let (created_at, version) = (at.time("created_at")?, at.number("version")?);
    let (id, defined_in) = (at.parsed("id")?, DefinedIn::Store);
    Ok(CodeHost { id, kind, url, api_url, access, trusted_bots, polls, defined_in, created_at, version })
}

pub(crate) fn indexed_pull<R: Columns>(row: &R) -> Read<IndexedPull, R> {
    let at = At::new("job_pulls", row, &["host", "repository"])?;
    let state = at.named("state")?;
    Ok(IndexedPull {
        repository: PullRepository { host: HostName(at.text("host")?), id: at.text("repository")? },
        number: at.number("number")?,
        job: at.parsed("job")?,
        project: at.parsed("project")?,
        url: at.text("url")?,
        head: at.text("head")?,
        head_sha: at.parsed_or_null("head_sha")?,
        title: row.text("title")?,
        draft: at.number::<u8>("draft")? != 0,
        state,
        created_at: at.time("created_at")?,
        // An older version that opens a pull request again leaves the time of its end.
        ended_at: at.time_or_null("ended_at")?.filter(|_| state != PullState::Open),
    })
}

pub(crate) fn poll<R: Columns>(row: &R) -> Read<Poll, R> {
    let at = At::new("polls", row, &["project"])?;
    let since = at.time_or_null("failing_since")?;
    let problem = row.text("problem")?.zip(since).map(|(text, since)| PollProblem { text, since });
    Ok(Poll {
        project: at.parsed("project")?,
        host: HostName(at.text("host")?),
        cursor: row.text("cursor")?.map(Cursor),
        next_at: at.time("next_at")?,
        pulls: at.number("pulls")?,
        quiet: at.number("quiet")?,
        failures: at.number("failures")?,
        problem,
        version: at.number("version")?,
    })
}

/// Reads the number of pull requests with a state.
pub(crate) fn pull_count<R: Columns>(row: &R) -> Read<(PullState, u64), R> {
    let at = At::new("job_pulls", row, &["state"])?;
    Ok((at.named("state")?, at.number("pulls")?))
}

/// Reads the number of open pull requests of a project.
pub(crate) fn project_pulls<R: Columns>(row: &R) -> Read<(ProjectId, u32), R> {
    let at = At::new("job_pulls", row, &["project"])?;
    Ok((at.parsed("project")?, at.number("pulls")?))
}

pub(crate) fn comment<R: Columns>(row: &R) -> Read<Comment, R> {
    let at = At::new("comments", row, &["repository"])?;
    let comment = NewComment {
        author: at.text("author")?,
        author_id: at.row.text("author_id")?,
        body: at.text("body")?,
        at: at.time("at")?,
        message: at.parsed_or_null("message")?,
        line: line(&at)?,
        review: at.number_or_null("review")?,
        is_draft: at.number::<i64>("draft")? != 0,
        verdict: verdict(&at)?,
        resolved: resolution(&at)?,
    };
    Ok(Comment { number: at.number("place")?, comment })
}

pub(crate) fn comment_state<R: Columns>(row: &R) -> Read<CommentState, R> {
    let at = At::new("comments", row, &["repository"])?;
    Ok(CommentState { number: at.number("place")?, resolved: resolution(&at)? })
}

/// Returns the number of a pull request, the number of an author's comments on it, and the numbers of the author's
/// latest reviews that approve the changes, and that request changes.
pub(crate) fn reviews_of_author<R: Columns>(row: &R) -> Read<(u64, u64, Option<u64>, Option<u64>), R> {
    let at = At::new("comments", row, &["repository"])?;
    let (approval, request) = (at.number_or_null("approval")?, at.number_or_null("request")?);
    Ok((at.number("number")?, at.number("comments")?, approval, request))
}

fn resolution<R: Columns>(at: &At<'_, R>) -> Read<Option<Resolution>, R> {
    let by = at.row.text("resolved_by")?;
    let time = at.time_or_null("resolved_at")?;
    Ok(by.zip(time).map(|(by, at)| Resolution { by, at }))
}

fn verdict<R: Columns>(at: &At<'_, R>) -> Read<Verdict, R> {
    // Older versions store none.
    let Some(name) = at.row.text("verdict")? else { return Ok(Verdict::default()) };
    Verdict::parse(&name).ok_or_else(|| at.corrupt("verdict is unknown"))
}

fn line<R: Columns>(at: &At<'_, R>) -> Read<Option<LinePosition>, R> {
    let Some(path) = at.row.text("path")? else { return Ok(None) };
    let side = DiffSide::parse(&at.text("side")?).ok_or_else(|| at.corrupt("side is unknown"))?;
    Ok(Some(LinePosition { path, side, line: at.number("line")?, hunk: at.text("hunk")? }))
}

pub(crate) fn pull<R: Columns>(row: &R) -> Read<LocalPull, R> {
    let mut at = At::new("pulls", row, &["repository"])?;
    let number: u64 = at.number("number")?;
    at.key = format!("{}#{number}", at.key);
    let state = at.text("state")?;
    let known = [PullState::Open, PullState::Merged, PullState::Closed];
    let state = known.into_iter().find(|known| known.name() == state);
    let (base, head) = (at.parsed_or_null("ended_base")?, at.parsed_or_null("ended_head")?);
    Ok(LocalPull {
        repository: at.text("repository")?,
        number,
        title: at.text("title")?,
        body: at.text("body")?,
        state: state.ok_or_else(|| at.corrupt("state is unknown"))?,
        draft: at.number::<i64>("draft")? != 0,
        head: at.text("head")?,
        base: at.text("base")?,
        labels: at.json("labels")?,
        created_at: at.time("created_at")?,
        ended_at: at.time_or_null("ended_at")?,
        ended_by: at.row.text("ended_by")?,
        ended_between: base.zip(head),
        merge_commit: at.parsed_or_null("merge_commit")?,
    })
}

/// Reads a comparison of a pull request with its base.
pub(crate) fn compared_pull<R: Columns>(row: &R) -> Read<ComparedPull, R> {
    let at = At::new("base_comparisons", row, &["host", "repository"])?;
    let document: ComparedDocument = at.json("result")?;
    let repository = PullRepository { host: HostName(at.text("host")?), id: at.text("repository")? };
    Ok(ComparedPull {
        pull: PullRef { repository, number: at.number("number")? },
        result: document.result(row.text("base")?),
        at: at.time("compared_at")?,
    })
}

/// Reads a claimed project of the schedule of comparisons.
pub(crate) fn due_comparison<R: Columns>(row: &R) -> Read<DueComparison, R> {
    let at = At::new("comparison_schedule", row, &["project"])?;
    let (project, held_until) = (at.parsed("project")?, at.time("held_until")?);
    Ok(DueComparison { project, held_until, claims: at.number("claims")? })
}

/// Reads the project of a row of the schedule of comparisons.
pub(crate) fn project_of_schedule<R: Columns>(row: &R) -> Read<ProjectId, R> {
    At::new("comparison_schedule", row, &["project"])?.parsed("project")
}
