//! Fixtures: a project on a code host in memory, with a job that has opened a pull request.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use journeyman_app::{HostEffects, JobRequest, Outbox, Received};
use journeyman_core::code_host::PullState;
use journeyman_core::conversation::{LineComment, Permission};
use journeyman_core::diff_stat::{CommitDiff, DiffStat, MessageDiff, TurnDiff};
use journeyman_core::hook::{
    CommentAction, CommentKind, HookContent, HookEvent, HostComment, HostIssue, HostReview, HostUser, IssueAction,
};
use journeyman_core::ids::{JobId, Sha, WorkerId};
use journeyman_core::inbox::{INBOX_LEASE, InboxEvent};
use journeyman_core::job::Job;
use journeyman_core::job::command::{Outcome, Published, Report};
use journeyman_core::job::turn::{Ending, TurnArtifacts, TurnBegun};
use journeyman_core::message::{Message, MessageStatus};
use journeyman_core::ports::{InboxFilter, JobFilter, StoreError};
use journeyman_core::position::{DiffSide, LineRange, Position};
use journeyman_core::project::{DEFAULT_SETTLE_SECONDS, Project};
use journeyman_core::pull::{HostPull, Pull};
use journeyman_core::run::{Reason, ReasonCode, Usage};
use journeyman_testkit::{MemoryHost, OneDiff, Seeds as _, StoreCall, Tap};
use uuid::Uuid;

use crate::app::fixtures::{Fixture, Stored, fixture, operator, shop};

/// The number of the pull request of the job.
pub(crate) const PULL: u64 = 1;

/// The changes of each job: line 2 of `list.txt`.
const DIFF: &str = "diff --git a/list.txt b/list.txt\n--- a/list.txt\n+++ b/list.txt\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n";

/// The time after which comments become a message.
pub(crate) const SETTLE: Duration = Duration::from_secs(DEFAULT_SETTLE_SECONDS as u64);

/// A project on a code host in memory. Its job has finished its first message and opened a pull request.
pub(crate) struct InboxFixture {
    pub(crate) fixture: Fixture,
    pub(crate) host: MemoryHost,
    pub(crate) outbox: Outbox,
    pub(crate) job: JobId,
    deliveries: AtomicU64,
}

impl InboxFixture {
    /// Returns a fixture for each kind of store.
    pub(crate) async fn all() -> Vec<Self> {
        Self::all_with(|_| {}).await
    }

    /// Returns a fixture for each kind of store, whose project was changed by `change`.
    pub(crate) async fn all_with(change: impl Fn(&mut Project)) -> Vec<Self> {
        let mut inboxes = Vec::new();
        for stored in Stored::all().await {
            inboxes.push(Self::of(stored, &change).await);
        }
        inboxes
    }

    /// Returns a fixture over one store.
    pub(crate) async fn new() -> Self {
        Self::of(Stored::sqlite(), &|_| {}).await
    }

    /// Returns a fixture over a store whose calls are points at which [`InboxFixture::crash`] can end a process.
    pub(crate) async fn crashing() -> Self {
        Self::of(Stored::sqlite().tapped(Arc::new(Yields)), &|_| {}).await
    }

    async fn of(stored: Stored, change: &impl Fn(&mut Project)) -> Self {
        let host = MemoryHost::default();
        let fixture = fixture(stored, &host);
        let mut project = Project { repository: MemoryHost::REPOSITORY.to_owned(), ..shop() };
        change(&mut project);
        fixture.store.create_project(project, [].into()).await.unwrap();
        let outbox = Outbox {
            store: fixture.store.clone(),
            clock: fixture.world.clone(),
            ids: fixture.world.clone(),
            handler: Arc::new(HostEffects::new(fixture.cases.clone(), Arc::new(OneDiff(DIFF.to_owned())))),
        };
        let request = JobRequest { prompt: "Add a greeting".to_owned(), ..JobRequest::default() };
        let accepted = fixture.cases.create_job(&operator(), &shop().id, request, None).await.unwrap();
        let inbox = Self { fixture, host, outbox, job: accepted.record.id, deliveries: AtomicU64::new(0) };
        inbox.host.put_pull(pull(PullState::Open));
        inbox.finish().await;
        inbox.carry_out().await;
        inbox
    }

    pub(crate) fn name(&self) -> &'static str {
        self.fixture.name
    }

    /// Delivers an event with a new delivery ID.
    pub(crate) async fn deliver(&self, content: HookContent) {
        let delivery = format!("delivery-{}", self.deliveries.fetch_add(1, Ordering::SeqCst));
        assert_eq!(self.deliver_as(&delivery, content).await, Received::Stored, "{}", self.name());
    }

    pub(crate) async fn deliver_as(&self, delivery: &str, content: HookContent) -> Received {
        let hook = MemoryHost::hook(delivery, content);
        self.fixture.cases.receive_hook(&MemoryHost::ID.parse().unwrap(), None, hook).await.unwrap()
    }

    /// Delivers an event that another user than its author has caused.
    pub(crate) async fn deliver_by(&self, sender: &HostUser, content: HookContent) {
        let delivery = format!("delivery-{}", self.deliveries.fetch_add(1, Ordering::SeqCst));
        let (repository, sender) = (Some(MemoryHost::repository()), Some(sender.clone()));
        let hook = MemoryHost::hook_of(&delivery, &HookEvent { repository, sender, content });
        self.fixture.cases.receive_hook(&MemoryHost::ID.parse().unwrap(), None, hook).await.unwrap();
    }

    /// Carries out what is due now: events and effects.
    pub(crate) async fn carry_out(&self) {
        while self.fixture.cases.carry_out_due_events().await.unwrap() > 0 {}
        while self.outbox.carry_out_due().await.unwrap() > 0 {}
    }

    /// Carries out what is due now and after the comments have settled.
    pub(crate) async fn settle(&self) {
        self.carry_out().await;
        self.wait(SETTLE).await;
    }

    /// Carries out what is due after some time.
    pub(crate) async fn wait(&self, time: Duration) {
        self.fixture.world.advance(time);
        self.carry_out().await;
    }

    /// Claims the events that are due, and dies.
    pub(crate) async fn die_after_a_claim(&self) {
        let claimed = self.fixture.store.claim_events(self.now(), INBOX_LEASE, 3).await.unwrap();
        drop(claimed);
    }

    /// Lets a process begin to carry out what is due, and die after it was polled so often. It is polled once for each
    /// point at which it waits, however long the store takes.
    pub(crate) async fn crash(&self, polls: usize) {
        let work = async {
            while self.fixture.cases.carry_out_due_events().await.unwrap() > 0 {}
            while self.outbox.carry_out_due().await.unwrap() > 0 {}
        };
        let (mut work, mut left) = (pin!(work), polls);
        let died = poll_fn(|context| {
            if left == 0 || work.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            left -= 1;
            Poll::Pending
        });
        died.await;
    }

    /// Lets a worker carry out the next message, if there is one.
    pub(crate) async fn work(&self) -> bool {
        let worker = WorkerId::from_uuid(Uuid::from_u128(1));
        let Some(claimed) = self.fixture.engine.claim(worker, Duration::from_secs(600)).await.unwrap() else {
            return false;
        };
        if claimed.job.id == self.job {
            self.publish(claimed.lease.token).await;
        } else if claimed.job.options.review.is_some() {
            self.review(&claimed.job, claimed.lease.token).await;
        } else {
            let outcome = Outcome::Failed { reason: Reason::new(ReasonCode::Internal, "x"), retry: None };
            let report = Report::Finished { outcome, usage: Usage::default() };
            self.fixture.engine.report(claimed.job.id, claimed.lease.token, report).await.unwrap();
        }
        true
    }

    pub(crate) fn now(&self) -> journeyman_core::time::Timestamp {
        self.fixture.engine.now()
    }

    /// Returns the outcomes of all events, oldest first, or their states.
    pub(crate) async fn outcomes(&self) -> Vec<String> {
        let name = |event: &InboxEvent| match event.outcome {
            Some(outcome) => serde_json::to_value(outcome).unwrap().as_str().unwrap().to_owned(),
            None => event.state.name().to_owned(),
        };
        self.events().await.iter().map(name).collect()
    }

    /// Returns all events, oldest first.
    pub(crate) async fn events(&self) -> Vec<InboxEvent> {
        let filter = InboxFilter { project: None, state: None, outcome: None, before: None, limit: 1000 };
        let mut events = self.fixture.cases.inbox(&operator(), filter).await.unwrap();
        events.reverse();
        events
    }

    pub(crate) async fn job(&self) -> Job {
        self.fixture.store.job(self.job).await.unwrap().unwrap()
    }

    /// Returns all jobs, oldest first.
    pub(crate) async fn jobs(&self) -> Vec<Job> {
        let mut jobs = self.fixture.store.jobs(JobFilter::newest(shop().id, 100)).await.unwrap();
        jobs.reverse();
        jobs
    }

    /// Returns the messages that came from the code host, oldest first, without those that were withdrawn.
    pub(crate) async fn messages(&self) -> Vec<Message> {
        let messages = self.fixture.store.messages(self.job).await.unwrap();
        let from_host = |message: &Message| message.source.is_some() && message.status != MessageStatus::Withdrawn;
        messages.into_iter().filter(from_host).collect()
    }

    pub(crate) async fn prompts(&self) -> Vec<String> {
        self.messages().await.into_iter().map(|message| message.prompt).collect()
    }

    /// Returns the only message from the code host.
    pub(crate) async fn message(&self) -> Message {
        let mut messages = self.messages().await;
        assert_eq!(messages.len(), 1, "{}: {messages:#?}", self.name());
        messages.remove(0)
    }

    /// Lets a worker take the next message, and returns the token of its lease.
    pub(crate) async fn take(&self) -> journeyman_core::job::Token {
        let worker = WorkerId::from_uuid(Uuid::from_u128(1));
        let claimed = self.fixture.engine.claim(worker, Duration::from_secs(600)).await.unwrap();
        claimed.unwrap().lease.token
    }

    /// Lets a worker carry out the next message, with a commit.
    pub(crate) async fn finish(&self) -> Sha {
        let token = self.take().await;
        self.publish(token).await
    }

    /// Ends the turn that a worker has begun, with a commit.
    pub(crate) async fn publish(&self, token: journeyman_core::job::Token) -> Sha {
        self.publish_with(token, "I did it.", &[]).await
    }

    /// Ends the turn that a worker has begun, with an answer and a commit that has changed files. Without files, it is not
    /// known which ones it has changed.
    pub(crate) async fn publish_with(&self, token: journeyman_core::job::Token, answer: &str, paths: &[&str]) -> Sha {
        let job = self.job().await;
        let pushed = job.branch.and_then(|branch| branch.pushed);
        let base = sha(0);
        let begun = TurnBegun {
            branch: "journeyman/greeting".into(),
            generation: 1,
            base: base.clone(),
            head: pushed.clone().unwrap_or(base),
            pushed,
            default_branch: None,
            repository: None,
        };
        let sha = sha(token.0);
        let commit = CommitDiff {
            sha: sha.clone(),
            subject: "Rename it".to_owned(),
            stat: DiffStat::default(),
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
        };
        let message = MessageDiff { commits: vec![commit], ..MessageDiff::default() };
        let diff = (!paths.is_empty()).then(|| Box::new(TurnDiff { branch: DiffStat::default(), message }));
        let ended = Report::TurnEnded {
            head: sha.clone(),
            commits: vec![sha.clone()],
            artifacts: TurnArtifacts { answer: Some(answer.to_owned()), diff, ..TurnArtifacts::default() },
            ending: Ending::Done,
        };
        let pull = Pull { repository: Some(self.host.indexed()), ..Pull::new(PULL, &pull(PullState::Open).url) };
        let published = if job.pull.is_some() { Published::Updated(pull) } else { Published::Opened(pull, None) };
        let outcome = Outcome::Published { pushed: Some(sha.clone()), pull: published };
        for report in [Report::TurnBegun(begun), ended, Report::Finished { outcome, usage: Usage::default() }] {
            self.fixture.engine.report(self.job, token, report).await.unwrap();
        }
        sha
    }

    /// Ends the turn of a review, with a finding on line 2 and one elsewhere.
    async fn review(&self, job: &Job, token: journeyman_core::job::Token) {
        let begun = TurnBegun {
            branch: job.branch_name(),
            generation: 1,
            base: sha(1),
            head: sha(2),
            pushed: None,
            default_branch: None,
            repository: None,
        };
        let answer = "One mistake.\n\n### list.txt:2\n\nNot sorted.\n\n### other.txt:1\n\nMissing.".to_owned();
        let ended = Report::TurnEnded {
            head: sha(2),
            commits: Vec::new(),
            artifacts: TurnArtifacts { answer: Some(answer), ..TurnArtifacts::default() },
            ending: Ending::Done,
        };
        let outcome = Outcome::Published { pushed: None, pull: Published::Nothing };
        for report in [Report::TurnBegun(begun), ended, Report::Finished { outcome, usage: Usage::default() }] {
            self.fixture.engine.report(job.id, token, report).await.unwrap();
        }
    }

    pub(crate) fn maria(&self) -> HostUser {
        self.host.user("maria", Permission::Write)
    }
}

/// Lets the caller of a store be dropped before, during and after each call.
struct Yields;

#[async_trait]
impl Tap for Yields {
    async fn before(&self, _: StoreCall<'_>) -> Result<(), StoreError> {
        tokio::task::yield_now().await;
        Ok(())
    }

    async fn after(&self, _: StoreCall<'_>) -> Result<(), StoreError> {
        tokio::task::yield_now().await;
        Ok(())
    }

    async fn woken(&self) {}
}

fn sha(number: u64) -> Sha {
    format!("{number:040x}").parse().unwrap()
}

/// Returns the pull request of the job.
pub(crate) fn pull(state: PullState) -> HostPull {
    HostPull {
        number: PULL,
        url: format!("https://host.example/acme/shop/pull/{PULL}"),
        state,
        draft: false,
        title: "Add a greeting".to_owned(),
        body: String::new(),
        head: "journeyman/greeting".to_owned(),
        head_sha: None,
        base: "main".to_owned(),
        is_from_fork: false,
    }
}

/// Returns a comment in the conversation of the pull request.
pub(crate) fn comment(id: &str, author: &HostUser, body: &str) -> HostComment {
    HostComment {
        kind: CommentKind::Pull,
        id: id.to_owned(),
        version: "2027-01-15T08:00:00Z".to_owned(),
        url: format!("https://host.example/comment/{id}"),
        author: author.clone(),
        body: body.to_owned(),
        position: None,
        hunk: None,
        thread: None,
        review: None,
    }
}

pub(crate) fn created(comment: &HostComment) -> HookContent {
    HookContent::Comment { number: PULL, action: CommentAction::Created, comment: comment.clone() }
}

/// Returns the event of an edit, `seconds` after the comment was written.
pub(crate) fn edited(comment: &HostComment, seconds: u64, body: &str) -> HookContent {
    let (version, body) = (format!("2027-01-15T08:00:{seconds:02}Z"), body.to_owned());
    let comment = HostComment { version, body, ..comment.clone() };
    HookContent::Comment { number: PULL, action: CommentAction::Edited, comment }
}

pub(crate) fn deleted(comment: &HostComment) -> HookContent {
    HookContent::Comment { number: PULL, action: CommentAction::Deleted, comment: comment.clone() }
}

/// Returns a review, and its comments on lines.
pub(crate) fn review(id: &str, author: &HostUser, body: &str, lines: &[&str]) -> (HostReview, Vec<LineComment>) {
    let version = "2027-01-15T08:00:00Z".to_owned();
    let url = format!("https://host.example/review/{id}");
    let (author, body) = (author.clone(), body.to_owned());
    let review = HostReview { id: id.to_owned(), version: version.clone(), url, author, body, approves: false };
    let line = |(line, text): (u64, &&str)| LineComment {
        id: format!("{id}-{line}"),
        version: version.clone(),
        body: (*text).to_owned(),
        url: format!("https://host.example/line/{id}-{line}"),
        position: Position::lines(format!("src/file{line}.rs"), LineRange::line(line), DiffSide::New),
        thread: None,
        hunk: Some(format!("@@ -{line} +{line} @@\n-old {line}\n+new {line}")),
        is_edited: false,
    };
    (review, (1..).zip(lines).map(line).collect())
}

pub(crate) fn submitted(review: &HostReview) -> HookContent {
    HookContent::Review { number: PULL, action: CommentAction::Created, review: review.clone() }
}

/// Returns an issue.
pub(crate) fn issue(number: u64, author: &HostUser, body: &str) -> HostIssue {
    HostIssue {
        number,
        title: format!("Crash {number}"),
        body: body.to_owned(),
        url: format!("https://host.example/acme/shop/issues/{number}"),
        author: author.clone(),
        labels: Vec::new(),
        assignees: Vec::new(),
    }
}

pub(crate) fn labeled(issue: &HostIssue) -> HookContent {
    let action = IssueAction::Labeled("journeyman".to_owned());
    HookContent::Issue { action, issue: HostIssue { labels: vec!["journeyman".to_owned()], ..issue.clone() } }
}

/// Returns the event of the pull request in a state.
pub(crate) fn pull_event(state: PullState) -> HookContent {
    HookContent::Pull { number: PULL, state, head: "journeyman/greeting".to_owned(), head_sha: None }
}
