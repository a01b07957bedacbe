//! Decisions about pull requests of the built-in code host.

use super::{Change, Row};
use crate::audit::AuditEntry;
use crate::code_host::{HostName, PullState};
use crate::hook::{
    CommentAction, CommentKind, EventRepository, HookContent, HookEvent, HostComment, HostReview, HostUser,
};
use crate::ids::ProjectId;
use crate::inbox::{Content, NewEvent};
use crate::pull::{Comment, LinePosition, LocalPull, NewComment, PullEnding, Resolution, Verdict, comment};
use crate::refusal::{Refusal, RefusalKind, ResourceKind};
use crate::time::Timestamp;

/// A pull request of a repository of the built-in code host, by its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullToChange(pub String, pub u64);

/// The locked rows of [`PullToChange`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockedPull {
    /// The pull request.
    pub pull: Option<LocalPull>,
    /// The number of the last comment on it; 0 if there is none.
    pub last_comment: u64,
    /// The comments on it that were not submitted yet, of all authors.
    pub drafts: Vec<Comment>,
}

/// A new pull request of a repository of the built-in code host, by its branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullOfBranch(pub String, pub String);

/// The locked rows of [`PullOfBranch`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockedBranch {
    /// The open pull request of the branch.
    pub pull: Option<LocalPull>,
    /// The number after which the next pull request of the repository comes: that of the newest one, or a greater one
    /// ([`crate::epoch::Epoch::pulls_after`]).
    pub last_pull: u64,
}

/// A pull request of the built-in code host, by its repository and number, with its comments on lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullLines(pub String, pub u64);

/// The locked rows of [`PullLines`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockedLines {
    /// The pull request.
    pub pull: Option<LocalPull>,
    /// The comments on lines of it that were submitted.
    pub lines: Vec<Comment>,
}

/// Opens a pull request, with the next number of its repository.
///
/// # Errors
/// The branch has an open pull request.
pub fn open(state: &LockedBranch, new: LocalPull, project: &ProjectId, audit: AuditEntry) -> Result<Change, Refusal> {
    if let Some(pull) = &state.pull {
        let number = pull.number;
        let detail = format!("the branch already has the open pull request #{number}; push to the branch to change it");
        return Err(Refusal::new(RefusalKind::Exists, ResourceKind::PullRequest, detail));
    }
    let opened = LocalPull { number: state.last_pull + 1, ..new };
    let audit = AuditEntry { subject: format!("{project}#{}", opened.number), ..audit };
    Ok(Change::new([Row::PullOpened(Box::new(opened))], audit))
}

/// Ends an open pull request.
///
/// # Errors
/// The pull request does not exist, or has ended already.
pub fn end(state: &LockedPull, ending: PullEnding, audit: AuditEntry) -> Result<Change, Refusal> {
    let pull = found(&state.pull)?;
    if pull.state != PullState::Open {
        return Err(Refusal::new(RefusalKind::Ended, ResourceKind::PullRequest, "the pull request is no longer open"));
    }
    let PullEnding { state, by, at, between, commit } = ending;
    let ended = LocalPull {
        state,
        ended_at: Some(at),
        ended_by: by,
        ended_between: between,
        merge_commit: commit,
        ..pull.clone()
    };
    let event = Row::Inbox(Box::new(event(&ended, at)));
    Ok(Change::new([Row::Pull(Box::new(ended)), event], audit))
}

/// Returns the event that tells the job of a pull request that it has ended.
fn event(ended: &LocalPull, at: Timestamp) -> NewEvent {
    let LocalPull { repository, number, state, head, .. } = ended;
    let content = HookContent::Pull { number: *number, state: *state, head: head.clone(), head_sha: None };
    let repository = EventRepository { id: repository.clone(), path: repository.clone() };
    NewEvent {
        host: HostName::local(),
        code_host: None,
        project: None,
        delivery: format!("{}/{number}/{}", repository.id, at.as_micros()),
        event: format!("pull_request.{}", state.name()),
        content: Content::Read(Box::new(HookEvent { repository: Some(repository), sender: None, content })),
        at,
    }
}

/// The maximum number of comments that an author can collect for a review.
pub const MOST_DRAFTS: usize = 100;

/// The page of a pull request in the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullPage {
    /// The project on whose page people comment.
    pub project: ProjectId,
    /// The URL of the page of the pull request.
    pub url: String,
}

/// Adds a comment after the existing ones, and reports it in the inbox like those of other code hosts. A draft is not
/// reported, and has no audit entry. Pull requests that have ended can have comments too.
///
/// # Errors
/// The pull request does not exist, or the author has too many drafts.
pub fn comment(state: &LockedPull, comment: NewComment, page: &PullPage, audit: AuditEntry) -> Result<Change, Refusal> {
    let pull = found(&state.pull)?;
    let comment = Comment { number: state.last_comment + 1, comment };
    if comment.comment.is_draft {
        let own = state.drafts.iter().filter(|draft| draft.comment.author_id == comment.comment.author_id).count();
        if own >= MOST_DRAFTS {
            return Err(Refusal::invalid(
                ResourceKind::Review,
                "a review can have at most 100 comments; submit it before you add another one",
            ));
        }
        return Ok(Change { rows: vec![row(pull, comment)], audit: Vec::new() });
    }
    let event = report(pull, page, "comment", &comment, |comment, id| {
        let NewComment { body, at, line, .. } = &comment.comment;
        HookContent::Comment {
            number: pull.number,
            action: CommentAction::Created,
            comment: HostComment {
                kind: if line.is_some() { CommentKind::Line } else { CommentKind::Pull },
                id,
                version: at.as_micros().to_string(),
                url: comment_url(&page.url, comment.number),
                author: author(&comment.comment),
                body: body.clone(),
                position: line.as_ref().map(LinePosition::position),
                hunk: line.as_ref().map(|line| line.hunk.clone()),
                thread: None,
                review: None,
            },
        }
    });
    Ok(Change::new([row(pull, comment), event], audit))
}

/// Removes a draft. Removing it again changes nothing.
///
/// # Errors
/// The pull request does not exist.
pub fn remove_draft(state: &LockedPull, author: &str, number: u64) -> Result<Change, Refusal> {
    let pull = found(&state.pull)?;
    let is_own = |draft: &&Comment| draft.number == number && draft.comment.author_id.as_deref() == Some(author);
    let rows = state.drafts.iter().find(is_own).map(|draft| Row::DraftRemoved {
        repository: pull.repository.clone(),
        number: pull.number,
        comment: draft.number,
    });
    Ok(Change { rows: rows.into_iter().collect(), audit: Vec::new() })
}

/// Resolves the thread of a comment on a line, or reopens it without a resolution. The thread consists of the submitted
/// comments on the same line with the same text. Repeating the change has no effect.
///
/// # Errors
/// The pull request does not exist, or has no such comment on a line.
pub fn resolve(
    state: &LockedLines,
    number: u64,
    resolution: Option<&Resolution>,
    audit: AuditEntry,
) -> Result<Change, Refusal> {
    let pull = found(&state.pull)?;
    let chosen = state.lines.iter().find(|one| one.number == number);
    let line = chosen.and_then(|one| one.comment.line.as_ref()).ok_or_else(|| {
        Refusal::new(RefusalKind::NotFound, ResourceKind::Comment, "there is no such comment on a line")
    })?;
    let is_of_thread = |one: &&Comment| one.comment.line.as_ref().is_some_and(|other| other.is_same_line(line));
    let changes = |one: &&Comment| one.comment.resolved.is_some() != resolution.is_some();
    let changed = state.lines.iter().filter(is_of_thread).filter(changes).map(|one| {
        let comment = NewComment { resolved: resolution.cloned(), ..one.comment.clone() };
        row(pull, Comment { number: one.number, comment })
    });
    let rows: Vec<Row> = changed.collect();
    if rows.is_empty() { Ok(Change::nothing()) } else { Ok(Change::new(rows, audit)) }
}

/// Submits a review: its text with the verdict, and the drafts of its author. The inbox makes one message of all.
///
/// # Errors
/// The pull request does not exist, or the review has neither a text nor drafts, and is no approval.
pub fn review(state: &LockedPull, text: NewComment, page: &PullPage, audit: AuditEntry) -> Result<Change, Refusal> {
    let pull = found(&state.pull)?;
    let number = state.last_comment + 1;
    let own = state.drafts.iter().filter(|draft| draft.comment.author_id == text.author_id);
    let submitted = |draft: &Comment| {
        let comment = NewComment { at: text.at, review: Some(number), is_draft: false, ..draft.comment.clone() };
        row(pull, Comment { number: draft.number, comment })
    };
    let mut rows: Vec<Row> = own.map(submitted).collect();
    if rows.is_empty() && text.body.trim().is_empty() && text.verdict != Verdict::Approve {
        return Err(Refusal::invalid(
            ResourceKind::Review,
            "the review is empty; write a summary, or add a comment to a line first",
        ));
    }
    let text = Comment { number, comment: NewComment { review: Some(number), ..text } };
    rows.push(report(pull, page, "review", &text, |text, id| HookContent::Review {
        number: pull.number,
        action: CommentAction::Created,
        review: review_of(text, id, &page.url),
    }));
    rows.push(row(pull, text));
    Ok(Change::new(rows, audit))
}

/// Returns the text of a review as the review.
#[must_use]
pub fn review_of(text: &Comment, id: String, url: &str) -> HostReview {
    HostReview {
        id,
        version: text.comment.at.as_micros().to_string(),
        url: comment_url(url, text.number),
        author: author(&text.comment),
        body: text.comment.body.clone(),
        approves: text.comment.verdict == Verdict::Approve,
    }
}

/// Returns the URL of a comment on the page of its pull request.
#[must_use]
pub fn comment_url(page: &str, number: u64) -> String {
    format!("{page}#c-{number}")
}

fn row(pull: &LocalPull, comment: Comment) -> Row {
    Row::Comment { repository: pull.repository.clone(), number: pull.number, comment: Box::new(comment) }
}

/// Returns the author of a comment.
#[must_use]
pub fn author(comment: &NewComment) -> HostUser {
    HostUser { id: comment.author_id.clone().unwrap_or_default(), name: comment.author.clone(), is_bot: false }
}

/// Returns the event that reports a comment or review; `content` gets its ID.
fn report(
    pull: &LocalPull,
    page: &PullPage,
    kind: &str,
    comment: &Comment,
    content: impl FnOnce(&Comment, String) -> HookContent,
) -> Row {
    let id = comment::id(&pull.repository, pull.number, comment.number);
    let repository = EventRepository { id: pull.repository.clone(), path: pull.repository.clone() };
    let read = HookEvent {
        repository: Some(repository),
        sender: Some(author(&comment.comment)),
        content: content(comment, id.clone()),
    };
    Row::Inbox(Box::new(NewEvent {
        host: HostName::local(),
        code_host: None,
        project: Some(page.project.clone()),
        delivery: format!("{kind}/{id}"),
        event: format!("{kind}.created"),
        content: Content::Read(Box::new(read)),
        at: comment.comment.at,
    }))
}

fn found(pull: &Option<LocalPull>) -> Result<&LocalPull, Refusal> {
    pull.as_ref().ok_or_else(|| Refusal::not_found(ResourceKind::PullRequest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Sha;
    use crate::position::{DiffSide, Position};
    use crate::pull::LinePosition;

    fn audit() -> AuditEntry {
        let at = Timestamp::from_micros(7);
        AuditEntry { at, actor: "cli".into(), action: "pull.merged".into(), subject: "shop#1".into(), address: None }
    }

    fn open() -> LocalPull {
        LocalPull {
            repository: "shop".into(),
            number: 1,
            title: "T".into(),
            body: String::new(),
            state: PullState::Open,
            draft: false,
            head: "topic".into(),
            base: "main".into(),
            labels: vec![],
            created_at: Timestamp::default(),
            ended_at: None,
            ended_by: None,
            ended_between: None,
            merge_commit: None,
        }
    }

    fn state(pull: Option<LocalPull>) -> LockedPull {
        LockedPull { pull, ..LockedPull::default() }
    }

    #[test]
    fn an_open_pull_request_ends_once() {
        let at = Timestamp::from_micros(9);
        let sha = |digit: &str| digit.repeat(40).parse::<Sha>().unwrap();
        let between = Some((sha("a"), sha("b")));
        for (to, commit) in [(PullState::Merged, Some(sha("c"))), (PullState::Closed, None)] {
            let by = Some("ada".to_owned());
            let ending = PullEnding { state: to, by, at, between: between.clone(), commit: commit.clone() };
            let change = end(&state(Some(open())), ending.clone(), audit()).expect("it is open");
            let ended = LocalPull {
                state: to,
                ended_at: Some(at),
                ended_by: Some("ada".to_owned()),
                ended_between: between.clone(),
                merge_commit: commit,
                ..open()
            };
            assert_eq!(change.rows[0], Row::Pull(Box::new(ended.clone())));
            let [_, Row::Inbox(event)] = &change.rows[..] else { panic!("{:?}", change.rows) };
            let Content::Read(read) = &event.content else { panic!("{event:?}") };
            assert!(matches!(&read.content, HookContent::Pull { number: 1, state, .. } if *state == to), "{read:?}");
            assert_eq!((&event.host, event.at), (&HostName::local(), at));
            assert_eq!(change.audit, [audit()]);
            assert_eq!(
                end(&state(Some(ended)), ending.clone(), audit()),
                Err(Refusal::new(RefusalKind::Ended, ResourceKind::PullRequest, "the pull request is no longer open"))
            );
            assert_eq!(end(&state(None), ending, audit()), Err(Refusal::not_found(ResourceKind::PullRequest)));
        }
    }

    fn page() -> PullPage {
        PullPage { project: "shop".parse().unwrap(), url: "https://j.example/projects/shop/pulls/1".to_owned() }
    }

    fn new(author: &str, body: &str) -> NewComment {
        let line = LinePosition { path: "a.rs".into(), side: DiffSide::New, line: 7, hunk: "@@ -1 +7 @@\n+b".into() };
        let (id, at) = (format!("usr_{author}"), Timestamp::from_micros(5));
        let author = author.to_owned();
        NewComment { author, author_id: Some(id), body: body.into(), at, line: Some(line), ..NewComment::default() }
    }

    fn draft(number: u64, author: &str) -> Comment {
        Comment { number, comment: NewComment { is_draft: true, ..new(author, "x") } }
    }

    fn stored(number: u64, comment: NewComment) -> Row {
        Row::Comment { repository: "shop".into(), number: 1, comment: Box::new(Comment { number, comment }) }
    }

    fn reported(row: &Row) -> (&NewEvent, &HookEvent) {
        let Row::Inbox(event) = row else { panic!("{row:?}") };
        let Content::Read(read) = &event.content else { panic!("{event:?}") };
        (event, read)
    }

    #[test]
    fn a_comment_needs_a_pull_request_which_may_have_ended_and_is_reported() {
        let closed = LocalPull { state: PullState::Closed, ..open() };
        for pull in [open(), closed] {
            let state = LockedPull { last_comment: 4, ..state(Some(pull)) };
            let change = comment(&state, new("ada", "hi"), &page(), audit()).expect("it exists");
            assert_eq!((&change.rows[0], &change.audit), (&stored(5, new("ada", "hi")), &vec![audit()]));
            let (event, read) = reported(&change.rows[1]);
            assert_eq!((event.delivery.as_str(), &event.project), ("comment/shop/1/5", &Some(page().project)));
            let HookContent::Comment { number: 1, action: CommentAction::Created, comment } = &read.content else {
                panic!("{read:?}")
            };
            let line = comment.position.as_ref().and_then(Position::line);
            assert_eq!((comment.kind, comment.id.as_str(), line), (CommentKind::Line, "shop/1/5", Some(7)));
            assert_eq!(comment.url, "https://j.example/projects/shop/pulls/1#c-5");
            assert_eq!((comment.author.id.as_str(), comment.author.name.as_str()), ("usr_ada", "ada"));
        }
        assert_eq!(
            comment(&state(None), new("ada", "hi"), &page(), audit()),
            Err(Refusal::not_found(ResourceKind::PullRequest))
        );
    }

    #[test]
    fn a_draft_is_stored_and_nothing_else_until_its_author_removes_it() {
        let one = NewComment { is_draft: true, ..new("ada", "hi") };
        let change = comment(&state(Some(open())), one.clone(), &page(), audit()).expect("it exists");
        assert_eq!(change, Change { rows: vec![stored(1, one.clone())], audit: vec![] });
        let drafts = vec![draft(1, "ada"), draft(2, "bob")];
        let both = LockedPull { drafts, last_comment: 2, ..state(Some(open())) };
        let removed = Row::DraftRemoved { repository: "shop".into(), number: 1, comment: 1 };
        assert_eq!(remove_draft(&both, "usr_ada", 1).map(|change| change.rows), Ok(vec![removed]));
        for number in [2, 3] {
            assert_eq!(remove_draft(&both, "usr_ada", number).map(|change| change.rows), Ok(vec![]), "{number}");
        }
        let full = LockedPull { drafts: (1..=100).map(|number| draft(number, "ada")).collect(), ..both };
        assert_eq!(
            comment(&full, one, &page(), audit()),
            Err(Refusal::invalid(
                ResourceKind::Review,
                "a review can have at most 100 comments; submit it before you add another one"
            ))
        );
    }

    #[test]
    fn a_thread_on_a_line_is_resolved_and_opened_again_as_a_whole() {
        let stored_line = |number: u64, line: u64, resolved: Option<Resolution>| {
            let mut comment = NewComment { resolved, ..new("ada", "x") };
            comment.line.as_mut().unwrap().line = line;
            Comment { number, comment }
        };
        let resolution = || Resolution { by: "bob".into(), at: Timestamp::from_micros(9) };
        let state = |lines: Vec<Comment>| LockedLines { lines, pull: Some(open()) };
        let mixed = state(vec![
            stored_line(1, 7, None),
            stored_line(2, 8, None),
            stored_line(3, 7, Some(resolution())),
            stored_line(4, 7, None),
        ]);
        let numbers = |change: &Change| {
            let number = |row: &Row| match row {
                Row::Comment { comment, .. } => (comment.number, comment.comment.resolved.clone()),
                other => panic!("{other:?}"),
            };
            change.rows.iter().map(number).collect::<Vec<_>>()
        };
        let change = resolve(&mixed, 4, Some(&resolution()), audit()).expect("it exists");
        assert_eq!(numbers(&change), [(1, Some(resolution())), (4, Some(resolution()))]);
        assert_eq!(change.audit, [audit()]);
        let change = resolve(&mixed, 1, None, audit()).expect("it exists");
        assert_eq!(numbers(&change), [(3, None)]);
        assert_eq!(resolve(&mixed, 2, None, audit()), Ok(Change::nothing()), "it is open");

        let mut changed = stored_line(5, 7, None);
        changed.comment.line.as_mut().unwrap().hunk = "@@ -1 +7 @@\n+other".into();
        let after = state(vec![stored_line(1, 7, None), changed]);
        let change = resolve(&after, 1, Some(&resolution()), audit()).expect("it exists");
        assert_eq!(numbers(&change), [(1, Some(resolution()))], "the line of the other comment had another text");
        assert_eq!(
            resolve(&after, 9, None, audit()),
            Err(Refusal::new(RefusalKind::NotFound, ResourceKind::Comment, "there is no such comment on a line"))
        );
        assert_eq!(
            resolve(&LockedLines::default(), 1, None, audit()),
            Err(Refusal::not_found(ResourceKind::PullRequest))
        );
    }

    #[test]
    fn a_review_submits_the_drafts_of_its_author() {
        let drafts = vec![draft(1, "ada"), draft(2, "bob"), draft(3, "ada")];
        let state = LockedPull { drafts, last_comment: 3, ..state(Some(open())) };
        let at = Timestamp::from_micros(9);
        let text = NewComment { at, line: None, ..new("ada", "Please.") };
        let change = review(&state, text.clone(), &page(), audit()).expect("it has a text");
        let submitted = NewComment { at, review: Some(4), ..new("ada", "x") };
        assert_eq!(change.rows[..2], [stored(1, submitted.clone()), stored(3, submitted)]);
        let (event, read) = reported(&change.rows[2]);
        assert_eq!((event.delivery.as_str(), event.event.as_str()), ("review/shop/1/4", "review.created"));
        let HookContent::Review { review: written, .. } = &read.content else { panic!("{read:?}") };
        assert_eq!((written.id.as_str(), written.body.as_str()), ("shop/1/4", "Please."));
        assert_eq!(change.rows[3], stored(4, NewComment { review: Some(4), ..text.clone() }));
        assert_eq!(change.audit, [audit()]);

        let blank = NewComment { body: " ".into(), ..text };
        assert!(review(&state, blank.clone(), &page(), audit()).is_ok(), "its drafts are enough");
        let other = NewComment { author_id: Some("usr_eve".into()), ..blank };
        for verdict in [Verdict::Comment, Verdict::RequestChanges] {
            let change = review(&state, NewComment { verdict, ..other.clone() }, &page(), audit());
            assert_eq!(
                change,
                Err(Refusal::invalid(
                    ResourceKind::Review,
                    "the review is empty; write a summary, or add a comment to a line first"
                )),
                "{verdict:?}"
            );
        }
        let approval = NewComment { verdict: Verdict::Approve, ..other };
        let change = review(&state, approval, &page(), audit()).expect("an approval needs no text");
        let (_, read) = reported(&change.rows[0]);
        assert!(matches!(&read.content, HookContent::Review { review, .. } if review.approves), "{read:?}");
    }
}
