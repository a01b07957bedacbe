//! Polls: what happens on a code host is read from time to time, so that no webhook is needed.
//!
//! A poll reads what has changed in the repository of a project, and stores it in the inbox as webhooks are stored. The
//! inbox recognizes what it already knows, so polls may overlap with each other and with webhooks. The schedule is in
//! the table `polls`; [`schedule`] decides when a repository is polled, and [`budget`] how many requests a code host
//! gets.

pub mod budget;
pub mod schedule;

use std::time::Duration;

use crate::code_host::{HostName, PullState};
use crate::hook::{CommentAction, HookContent, HookEvent};
use crate::ids::{ProjectId, Sha};
use crate::inbox::InboxEvent;
use crate::inbox::route::addressed;
use crate::inbox::version::{compare, has_same_text, is_newer};
use crate::time::Timestamp;

/// The name of polled events in the inbox.
pub const POLLED: &str = "poll";

/// The longest time before its first poll from which a repository's changes are read. A job may have opened a pull
/// request, and people may have commented on it, before the repository is polled.
pub const LOOKBACK: Duration = Duration::from_secs(3600);

/// The longest delay until a poll. A poll that is due later was stored before a clock was set back, and is due now.
pub const LONGEST_DELAY: Duration = Duration::from_secs(2 * 3600);

/// The position up to which the changes of a repository were read, in the form of the client of its code host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cursor(pub String);

/// The row of a project in the table of polls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Poll {
    /// The project.
    pub project: ProjectId,
    /// The code host of its repository.
    pub host: HostName,
    /// The position of the last poll; `None` before the first one.
    pub cursor: Option<Cursor>,
    /// The time of the next poll.
    pub next_at: Timestamp,
    /// The number of open pull requests at the last poll.
    pub pulls: u32,
    /// The number of polls in a row that found nothing.
    pub quiet: u32,
    /// The number of polls in a row that failed.
    pub failures: u32,
    /// Why the repository cannot be read; `None` if the last poll succeeded.
    pub problem: Option<PollProblem>,
    /// The number of the current version of the row, starting at 1. Every change increases it.
    pub version: u64,
}

/// The reason why a repository cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PollProblem {
    /// The cause of the last failure, for people.
    pub text: String,
    /// The time of the first of the failures.
    pub since: Timestamp,
}

/// A pull request of a job, as far as a poll needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedPull {
    /// The ID of the repository. Pull requests of an earlier address of the project are not read.
    pub repository: String,
    /// The number.
    pub number: u64,
    /// The branch with the commits.
    pub head: String,
    /// The newest commit that the index knows.
    pub head_sha: Option<Sha>,
    /// The state in the index.
    pub state: PullState,
}

/// The input of a poll.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PollQuery {
    /// The position of the last poll.
    pub cursor: Option<Cursor>,
    /// The time from which changes are read if there is no position yet.
    pub from: Timestamp,
    /// The pull requests whose reviews, comments and states are read.
    pub pulls: Vec<WatchedPull>,
    /// The label that makes an issue a job; `None` if issues are not read.
    pub issue_label: Option<String>,
    /// `true` if the repository is confirmed to be at its address, also if nothing has changed. After a rename, another
    /// repository may be there, in which nothing happens.
    pub confirms: bool,
}

impl PollQuery {
    /// Returns the watched pull request with a number.
    #[must_use]
    pub fn pull(&self, number: u64) -> Option<&WatchedPull> {
        self.pulls.iter().find(|pull| pull.number == number)
    }
}

/// The requests of a poll.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// The number of requests.
    pub requests: u32,
    /// The number of those that count against the rate limit. On GitHub, an unchanged answer (status 304) does not.
    pub charged: u32,
}

/// The rate limit of a credential, as a code host describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// The number of requests in an hour.
    pub limit: u64,
    /// The number of requests that are left.
    pub remaining: u64,
    /// The time at which the number is reset.
    pub resets_at: Timestamp,
}

/// The result of a poll.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Polled {
    /// The changes, oldest first. Some of them may be known.
    pub events: Vec<HookEvent>,
    /// The new position, to be stored after the events.
    pub cursor: Cursor,
    /// The requests that were sent.
    pub cost: Cost,
    /// The rate limit, if the code host describes it.
    pub quota: Option<Quota>,
}

/// Returns the ID of the delivery of an event that a poll has found; `None` for an event that polls do not report. It is
/// the same whenever the event is polled.
#[must_use]
pub fn delivery(event: &HookEvent) -> Option<String> {
    let repository = &event.repository.as_ref()?.id;
    let subject = match &event.content {
        HookContent::Comment { .. } | HookContent::Review { .. } => addressed(event)?.0.subject,
        HookContent::Pull { number, state, head_sha, .. } => {
            let sha = head_sha.as_ref().map_or("", |sha| sha.as_str());
            format!("pull/{number}/{}/{sha}", state.name())
        }
        HookContent::Issue { action, issue } => {
            let action = serde_json::to_string(action).ok()?;
            // The label of another person counts, after someone who may not push has added it.
            let sender = event.sender.as_ref().map_or("", |sender| sender.id.as_str());
            format!("issue/{}/{action}/{sender}", issue.number)
        }
        _ => return None,
    };
    Some(format!("{POLLED}/{repository}/{subject}"))
}

/// Returns whether an event says that a pull request has another state than in the index. The same state can be
/// reported again later, because a closed pull request can be opened and closed again.
#[must_use]
pub fn changes_state(event: &HookEvent, query: &PollQuery) -> bool {
    match &event.content {
        HookContent::Pull { number, state, .. } => query.pull(*number).is_some_and(|known| known.state != *state),
        _ => false,
    }
}

/// Returns whether the text of a polled comment or review is known. A poll does not know whether it was edited since it
/// was last read, and may report as edited what a webhook has reported as new, or a comment of which only the time has
/// changed: GitLab changes it when a thread is resolved, Gitea when a push outdates a line. `known` are the events about
/// it that were decided, oldest first.
#[must_use]
pub fn is_known(polled: &HookEvent, known: &[InboxEvent]) -> bool {
    let contents = known.iter().filter_map(InboxEvent::read).map(|other| &other.content);
    let of_kind = contents.filter(|content| compare(content, &polled.content).is_some());
    let newest = of_kind.reduce(|newest, other| if is_newer(newest, other) { newest } else { other });
    let is_deletion = matches!(polled.content, HookContent::Comment { action: CommentAction::Deleted, .. });
    !is_deletion && newest.is_some_and(|newest| has_same_text(newest, &polled.content))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hook::{CommentKind, EventRepository, HostComment, HostIssue, HostUser, IssueAction};
    use crate::inbox::{Content, InboxState};

    fn user() -> HostUser {
        HostUser { id: "5".to_owned(), name: "ada".to_owned(), is_bot: false }
    }

    fn event(content: HookContent) -> HookEvent {
        let repository = EventRepository { id: "17".to_owned(), path: "acme/shop".to_owned() };
        HookEvent { repository: Some(repository), sender: None, content }
    }

    fn comment(version: &str, action: CommentAction) -> HookEvent {
        written(version, action, "x")
    }

    fn written(version: &str, action: CommentAction, body: &str) -> HookEvent {
        let comment = HostComment {
            kind: CommentKind::Pull,
            id: "3".to_owned(),
            version: version.to_owned(),
            url: String::new(),
            author: user(),
            body: body.to_owned(),
            position: None,
            hunk: None,
            thread: None,
            review: None,
        };
        event(HookContent::Comment { number: 1, action, comment })
    }

    fn stored(number: u64, name: &str, read: HookEvent) -> InboxEvent {
        InboxEvent {
            number,
            host: HostName("h.example".to_owned()),
            code_host: None,
            project: None,
            delivery: number.to_string(),
            event: name.to_owned(),
            received_at: Timestamp::default(),
            state: InboxState::Done,
            outcome: None,
            detail: None,
            content: Some(Content::Read(Box::new(read))),
            job: None,
            message: None,
            attempts: 1,
        }
    }

    #[test]
    fn the_delivery_of_a_polled_event_names_it_and_its_version() {
        let issue = HostIssue {
            number: 4,
            title: "T".to_owned(),
            body: String::new(),
            url: String::new(),
            author: user(),
            labels: Vec::new(),
            assignees: Vec::new(),
        };
        let (state, head) = (PullState::Merged, "b".to_owned());
        for (content, expected) in [
            (comment("v1", CommentAction::Deleted).content, "poll/17/pull/3/v1/Deleted/".to_owned()),
            (HookContent::Pull { number: 2, state, head, head_sha: None }, "poll/17/pull/2/merged/".to_owned()),
            (
                HookContent::Issue { action: IssueAction::Opened, issue },
                "poll/17/issue/4/{\"is\":\"opened\"}/".to_owned(),
            ),
        ] {
            assert_eq!(delivery(&event(content)), Some(expected));
        }
        assert_eq!(delivery(&event(HookContent::Ping)), None);
    }

    #[test]
    fn a_state_that_the_index_has_is_no_change() {
        let watched = WatchedPull {
            repository: "17".to_owned(),
            number: 2,
            head: "b".to_owned(),
            head_sha: None,
            state: PullState::Open,
        };
        let query = PollQuery { pulls: vec![watched], ..PollQuery::default() };
        for (number, state, expected) in
            [(2, PullState::Open, false), (2, PullState::Closed, true), (3, PullState::Closed, false)]
        {
            let content = HookContent::Pull { number, state, head: "b".to_owned(), head_sha: None };
            assert_eq!(changes_state(&event(content), &query), expected, "{number} {state:?}");
        }
        assert!(!changes_state(&comment("1", CommentAction::Created), &query));
    }

    #[test]
    fn the_deliveries_of_two_texts_with_the_same_version_differ() {
        let delivery = |body: &str| delivery(&written("v1", CommentAction::Edited, body)).unwrap();
        assert!(delivery("a").starts_with("poll/17/pull/3/v1/Edited/"), "{}", delivery("a"));
        assert_eq!(delivery("a"), delivery("a\r\n"));
        assert_ne!(delivery("a"), delivery("b"));
    }

    #[test]
    fn a_polled_comment_is_known_with_the_text_of_a_webhook() {
        let (created, edited) = (CommentAction::Created, CommentAction::Edited);
        let known = [stored(1, "issue_comment", comment("1", created))];
        for (version, action, body, expected) in [
            ("1", edited, "x", true),
            // Some hosts count in seconds.
            ("1", edited, "y", false),
            // Only the time has changed.
            ("2", edited, "x", true),
            ("2", created, "x", true),
            ("2", edited, "y", false),
            ("1", CommentAction::Deleted, "x", false),
        ] {
            let read = written(version, action, body);
            assert_eq!(is_known(&read, &known), expected, "{version} {action:?} {body}");
            assert!(!is_known(&read, &[]), "{version} {action:?} {body}");
        }
        // The comment has its first text again.
        let known = [stored(1, "issue_comment", comment("1", created)), stored(2, POLLED, written("2", edited, "y"))];
        let read = written("3", edited, "x");
        assert!(!is_known(&read, &known));
    }
}
