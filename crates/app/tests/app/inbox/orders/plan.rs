//! Random plans: what people write on a code host, and the order in which its events arrive.

use std::collections::BTreeMap;

use journeyman_core::code_host::PullState;
use journeyman_core::conversation::Permission;
use journeyman_core::hook::{HookContent, HostUser};
use journeyman_testkit::MemoryHost;
use proptest::prelude::*;

use crate::app::inbox::fixtures::{
    PULL, comment, created, deleted, edited, issue, labeled, pull_event, review, submitted,
};

/// The maximum number of versions of a comment, and of comments of a review with its text.
pub(crate) const VERSIONS: usize = 4;

/// Something that people do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A comment, its edits, and perhaps its deletion. `mentions` says for each version whether it has a mention.
    Comment { mentions: Vec<bool>, is_deleted: bool, may_push: bool },
    /// A review with comments on lines.
    Review { lines: usize },
    /// An issue that is labeled.
    Issue,
    /// The pull request is merged.
    Merge,
}

/// The actions of people.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) subjects: Vec<Subject>,
}

/// An event: a number of a subject, and the number of the event among those of the subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event(usize, usize);

/// A step of the test.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    /// The host delivers an event with a new delivery ID.
    Deliver(Event),
    /// The host delivers an event twice with the same ID.
    Redeliver(Event),
    /// Time passes, and everything that is due is carried out.
    Wait(u64),
    /// A process dies after it has claimed events.
    Die,
    /// A process dies while it carries out events: after it was polled so often.
    Crash(usize),
    /// The agent carries out the next message.
    Work,
}

/// Returns the word of a version of a comment, or of a comment of a review.
pub(crate) fn token(subject: usize, version: usize) -> String {
    format!("{}{version}.", stem(subject))
}

pub(crate) fn stem(subject: usize) -> String {
    format!("word-{subject}-")
}

impl Plan {
    /// Returns the events in order.
    pub(crate) fn events(&self) -> impl Iterator<Item = Event> + '_ {
        let count = |subject: &Subject| match subject {
            Subject::Comment { mentions, is_deleted, .. } => mentions.len() + usize::from(*is_deleted),
            Subject::Review { lines } => lines + 1,
            Subject::Issue => 1,
            Subject::Merge => 2,
        };
        let of = move |(index, subject)| (0..count(subject)).map(move |event| Event(index, event));
        self.subjects.iter().enumerate().flat_map(of)
    }

    /// Sets what can be read on the host.
    pub(crate) fn prepare(&self, host: &MemoryHost) {
        for (index, subject) in self.subjects.iter().enumerate() {
            if let Subject::Review { lines } = subject {
                let (review, lines) = written_review(index, *lines, host);
                host.put_review(PULL, review, lines);
            }
        }
    }

    pub(crate) fn content(&self, Event(index, event): Event, host: &MemoryHost) -> HookContent {
        let id = format!("{index}");
        match &self.subjects[index] {
            Subject::Comment { mentions, may_push, .. } => {
                let permission = if *may_push { Permission::Write } else { Permission::Read };
                let author = host.user(&format!("author-{may_push}"), permission);
                let body = |version: usize| {
                    let mention = if mentions[version] { "@journeyman " } else { "" };
                    format!("{mention}do {}", token(index, version))
                };
                let first = comment(&id, &author, &body(0));
                match event {
                    0 => created(&first),
                    edit if edit < mentions.len() => edited(&first, edit as u64, &body(edit)),
                    _ => deleted(&first),
                }
            }
            Subject::Review { lines } => {
                let (review, lines) = written_review(index, *lines, host);
                match lines.get(event) {
                    Some(line) => {
                        let mut one = comment(&line.id, &review.author, &line.body);
                        (one.kind, one.review) = (journeyman_core::hook::CommentKind::Line, Some(review.id));
                        created(&one)
                    }
                    None => submitted(&review),
                }
            }
            Subject::Issue => labeled(&issue(100 + index as u64, &maria(host), "It crashes.")),
            // People push to the branch before the merge.
            Subject::Merge => pull_event(if event == 0 { PullState::Open } else { PullState::Merged }),
        }
    }

    /// Returns all words.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = String> + '_ {
        (0..self.subjects.len()).flat_map(|index| (0..VERSIONS).map(move |version| token(index, version)))
    }

    /// Returns the number of times that each word must be in the messages: those of the newest version of a comment, if it
    /// mentions the service, unless it is deleted.
    pub(crate) fn newest(&self) -> BTreeMap<String, usize> {
        let mut all: BTreeMap<String, usize> = self.tokens().map(|token| (token, 0)).collect();
        for (index, subject) in self.subjects.iter().enumerate() {
            match subject {
                Subject::Comment { mentions, is_deleted: false, may_push: true } if mentions.last() == Some(&true) => {
                    all.insert(token(index, mentions.len() - 1), 1);
                }
                Subject::Review { lines } => all.extend((0..=*lines).map(|line| (token(index, line), 1))),
                _ => {}
            }
        }
        all
    }
}

fn maria(host: &MemoryHost) -> HostUser {
    host.user("maria", Permission::Write)
}

fn written_review(
    index: usize,
    lines: usize,
    host: &MemoryHost,
) -> (journeyman_core::hook::HostReview, Vec<journeyman_core::conversation::LineComment>) {
    let texts: Vec<String> = (1..=lines).map(|line| token(index, line)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    review(&format!("9{index}"), &maria(host), &token(index, 0), &texts)
}

fn subject() -> impl Strategy<Value = Subject> {
    let mentions = proptest::collection::vec(proptest::bool::weighted(0.8), 1..VERSIONS);
    let comment = (mentions, proptest::bool::weighted(0.3), proptest::bool::weighted(0.85));
    prop_oneof![
        5 => comment.prop_map(|(mentions, is_deleted, may_push)| Subject::Comment { mentions, is_deleted, may_push }),
        2 => (0..VERSIONS).prop_map(|lines| Subject::Review { lines }),
        1 => Just(Subject::Issue),
        1 => Just(Subject::Merge),
    ]
}

/// Returns random plans, each with steps that deliver every event once to three times in any order.
pub(crate) fn plans() -> impl Strategy<Value = (Plan, Vec<Step>)> {
    let subjects = proptest::collection::vec(subject(), 1..6);
    subjects.prop_flat_map(|subjects| {
        let plan = Plan { subjects };
        let events: Vec<Event> = plan.events().collect();
        let others = prop_oneof![
            3 => (1u64..40).prop_map(Step::Wait),
            1 => Just(Step::Die),
            3 => (0usize..80).prop_map(Step::Crash),
            2 => Just(Step::Work),
        ];
        let copies = proptest::collection::vec(1usize..4, events.len());
        let more = (copies, proptest::collection::vec(others, 0..20));
        more.prop_flat_map(move |(copies, others)| {
            let deliver = |(event, copies): (&Event, usize)| {
                let again = if copies == 3 { Step::Redeliver(*event) } else { Step::Deliver(*event) };
                std::iter::once(Step::Deliver(*event)).chain(std::iter::repeat_n(again, copies - 1))
            };
            let steps: Vec<Step> = events.iter().zip(copies).flat_map(deliver).chain(others).collect();
            (Just(plan.clone()), Just(steps).prop_shuffle())
        })
    })
}
