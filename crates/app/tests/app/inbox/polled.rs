//! Tests of events that a poll has found, alone or together with a webhook.

use std::time::Duration;

use journeyman_app::Poller;
use journeyman_core::code_host::PullState;
use journeyman_core::hook::{HookContent, HookEvent, HostReview};
use journeyman_core::inbox::{Content, NewEvent};
use journeyman_core::poll::{POLLED, PollProblem, delivery};
use journeyman_core::ports::ForgeError;
use journeyman_core::version::Precondition;
use journeyman_testkit::{HostCall, MemoryHost, Moment};

use super::fixtures::{InboxFixture, PULL, comment, created, edited, pull, pull_event, review, submitted};
use crate::app::fixtures::{operator, shop};

impl InboxFixture {
    /// Stores an event as a poll does.
    pub(crate) async fn poll(&self, content: HookContent) {
        self.poll_as(1, content).await;
    }

    /// Stores an event as the poll with this version of its row does.
    async fn poll_as(&self, version: u64, content: HookContent) {
        let event = HookEvent { repository: Some(MemoryHost::repository()), sender: None, content };
        let host = self.host.code_host();
        let new = NewEvent {
            host: host.name(),
            code_host: Some(host.id),
            project: Some(shop().id),
            delivery: format!("{}/{version}", delivery(&event).unwrap()),
            event: POLLED.to_owned(),
            content: Content::Read(Box::new(event)),
            at: self.now(),
        };
        assert!(self.fixture.store.receive(new).await.unwrap(), "{}", self.name());
    }
}

#[tokio::test]
async fn a_comment_and_a_review_that_a_poll_and_a_webhook_report_become_one_message() {
    for is_settled in [false, true] {
        for inbox in InboxFixture::all().await {
            let (name, maria) = (inbox.name(), inbox.maria());
            let comment = created(&comment("1", &maria, "@journeyman rename it"));
            let (review, lines) = review("90", &maria, "Please change this.", &[]);
            inbox.host.put_review(PULL, review.clone(), lines);
            let review = submitted(&review);
            inbox.poll(comment.clone()).await;
            inbox.carry_out().await;
            inbox.deliver(review.clone()).await;
            if is_settled {
                inbox.settle().await;
            }
            inbox.deliver(comment).await;
            inbox.poll(review).await;
            inbox.settle().await;
            let prompt = inbox.message().await.prompt;
            for text in ["rename it", "Please change this."] {
                assert_eq!(prompt.matches(text).count(), 1, "{name}: {prompt}");
            }
            let mut outcomes = inbox.outcomes().await;
            outcomes.sort_unstable();
            assert_eq!(outcomes, ["duplicate", "duplicate", "message", "message"], "{name}");
        }
    }
}

#[tokio::test]
async fn each_review_whose_webhook_does_not_say_which_one_it_is_reaches_the_job_once() {
    for inbox in InboxFixture::all().await {
        let (name, maria) = (inbox.name(), inbox.maria());
        let reviews = ["First.", "Second."].map(|text| review(&format!("id-{text}"), &maria, text, &[]).0);
        for review in &reviews {
            inbox.host.put_review(PULL, review.clone(), Vec::new());
        }
        // Both were submitted before the first webhook was carried out.
        for review in &reviews {
            inbox.deliver(submitted(&HostReview { id: String::new(), ..review.clone() })).await;
        }
        inbox.settle().await;
        // The other one has the delivery of a poll already.
        inbox.poll(submitted(&reviews[1])).await;
        inbox.settle().await;
        let prompts = inbox.prompts().await.join("\n");
        for text in ["First.", "Second."] {
            assert_eq!(prompts.matches(text).count(), 1, "{name}: {prompts}");
        }
        let mut outcomes = inbox.outcomes().await;
        outcomes.sort_unstable();
        assert_eq!(outcomes, ["duplicate", "duplicate", "message", "message"], "{name}");
    }
}

#[tokio::test]
async fn a_poll_that_takes_a_new_comment_for_an_edited_one_does_not_repeat_it() {
    for inbox in InboxFixture::all().await {
        let (name, first) = (inbox.name(), comment("1", &inbox.maria(), "@journeyman help"));
        let HookContent::Comment { comment: later, .. } = edited(&first, 5, "@journeyman help") else {
            panic!("no comment")
        };
        // The host has changed the time of the comment before it sent the webhook.
        inbox.deliver(created(&later)).await;
        inbox.settle().await;
        inbox.poll(edited(&first, 5, "@journeyman help")).await;
        inbox.settle().await;
        assert_eq!(inbox.outcomes().await, ["helped", "duplicate"], "{name}");
        assert_eq!(inbox.host.written().len(), 1, "{name}");
    }
}

#[tokio::test]
async fn a_comment_of_which_only_the_time_has_changed_is_not_carried_out_again() {
    for inbox in InboxFixture::all().await {
        let (name, first) = (inbox.name(), comment("1", &inbox.maria(), "@journeyman help"));
        inbox.deliver(created(&first)).await;
        inbox.settle().await;
        // GitLab changes the time when someone resolves the thread.
        inbox.poll(edited(&first, 9, "@journeyman help")).await;
        inbox.settle().await;
        assert_eq!(
            (inbox.outcomes().await, inbox.host.written().len()),
            (vec!["helped".into(), "duplicate".into()], 1)
        );
        // The edit has the same second as the poll before it.
        inbox.poll(edited(&first, 9, "@journeyman rename it")).await;
        inbox.settle().await;
        assert_eq!(inbox.prompts().await, ["@journeyman rename it"], "{name}");
    }
}

#[tokio::test]
async fn a_comment_that_was_edited_before_it_was_polled_has_its_newest_text_once() {
    for inbox in InboxFixture::all().await {
        let (name, first) = (inbox.name(), comment("1", &inbox.maria(), "@journeyman rename it"));
        inbox.poll(edited(&first, 5, "@journeyman remove it")).await;
        inbox.settle().await;
        inbox.deliver(created(&first)).await;
        inbox.deliver(edited(&first, 5, "@journeyman remove it")).await;
        inbox.settle().await;
        assert_eq!(inbox.prompts().await, ["@journeyman remove it"], "{name}");
        assert_eq!(inbox.outcomes().await, ["message", "duplicate", "duplicate"], "{name}");
    }
}

#[tokio::test]
async fn a_pull_request_that_is_closed_again_is_recorded_again() {
    for inbox in InboxFixture::all().await {
        let name = inbox.name();
        for (version, state) in (1..).zip([PullState::Closed, PullState::Open, PullState::Closed]) {
            inbox.host.put_pull(pull(state));
            inbox.poll_as(version, pull_event(state)).await;
            inbox.carry_out().await;
            assert_eq!(inbox.job().await.pull.unwrap().state, state, "{name}: {version}");
        }
    }
}

#[tokio::test]
async fn a_failed_poll_says_why_and_since_when_until_one_succeeds() {
    for inbox in InboxFixture::all().await {
        let poller = Poller::new(inbox.fixture.cases.clone());
        let gone = ForgeError::NotFound("acme/shop".to_owned());
        inbox.host.fail(HostCall::Poll, Moment::Before, gone.clone(), 2);
        // The first call plans the polls; the requests that they may send grow with time.
        poller.poll_due().await.unwrap();
        inbox.fixture.world.advance(Duration::from_secs(600));
        let since = inbox.now();
        for failures in [1, 2, 0] {
            if failures == 0 {
                // The next poll would be later, but someone has changed the project.
                inbox.fixture.world.set_back(Duration::from_secs(595));
                let edit = Box::new(|project| Ok((project, [].into())));
                inbox.fixture.cases.change_project(&operator(), &shop().id, Precondition::None, edit).await.unwrap();
            }
            poller.poll_due().await.unwrap();
            let row = inbox.fixture.store.poll_of(shop().id).await.unwrap().unwrap();
            let expected = (failures > 0).then(|| PollProblem { text: gone.to_string(), since });
            assert_eq!((row.failures, row.problem), (failures, expected), "{}", inbox.name());
            inbox.fixture.world.advance(Duration::from_secs(600));
        }
    }
}
