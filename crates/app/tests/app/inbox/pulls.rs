//! Tests of the end of pull requests on a code host.

use journeyman_core::code_host::PullState;
use journeyman_core::job::JobStatus;
use journeyman_core::ports::ForgeError;
use journeyman_core::pull::HostPull;
use journeyman_core::time::Clock as _;
use journeyman_testkit::{HostCall, Moment};

use super::fixtures::{InboxFixture, comment, created, pull, pull_event};

#[tokio::test]
async fn a_merge_is_recorded_and_the_job_stays() {
    for inbox in InboxFixture::all().await {
        let name = inbox.name();
        inbox.deliver(pull_event(PullState::Merged)).await;
        inbox.deliver(pull_event(PullState::Merged)).await;
        inbox.carry_out().await;
        assert_eq!(inbox.outcomes().await, ["pull_recorded"; 2], "{name}");
        let job = inbox.job().await;
        assert_eq!(
            (job.pull.as_ref().unwrap().state, job.status()),
            (PullState::Merged, JobStatus::Completed),
            "{name}"
        );
        let log = inbox.fixture.store.log(inbox.job, 0, 1000).await.unwrap();
        assert_eq!(log.iter().filter(|line| line.kind == "pull_request.merged").count(), 1, "{name}: {log:#?}");
        let index = inbox.fixture.store.indexed_pulls_of(vec![inbox.job]).await.unwrap();
        assert_eq!(index[0].state, PullState::Merged, "{name}");
        assert_eq!(index[0].ended_at, Some(inbox.fixture.world.now()), "{name}");
        assert_eq!(inbox.host.count(HostCall::Pulls), 0, "{name}: a merge is final, so the host is not asked");
    }
}

#[tokio::test]
async fn a_merge_archives_the_job_if_the_project_says_so() {
    for inbox in InboxFixture::all_with(|project| project.settings.pull_request.archive_on_merge = true).await {
        let name = inbox.name();
        inbox.host.put_pull(pull(PullState::Closed));
        inbox.deliver(pull_event(PullState::Closed)).await;
        inbox.carry_out().await;
        assert_eq!(inbox.job().await.status(), JobStatus::Completed, "{name}: it was only closed");
        inbox.deliver(pull_event(PullState::Merged)).await;
        inbox.carry_out().await;
        assert_eq!(inbox.job().await.status(), JobStatus::Archived, "{name}");
    }
}

#[tokio::test]
async fn what_happened_before_a_merge_does_not_undo_it() {
    for inbox in InboxFixture::all().await {
        let name = inbox.name();
        for state in [PullState::Merged, PullState::Open, PullState::Closed] {
            inbox.deliver(pull_event(state)).await;
            inbox.carry_out().await;
        }
        assert_eq!(inbox.outcomes().await, ["pull_recorded", "duplicate", "duplicate"], "{name}");
        assert_eq!(inbox.job().await.pull.unwrap().state, PullState::Merged, "{name}");
    }
}

#[tokio::test]
async fn a_pull_request_that_was_closed_and_opened_again_has_the_state_of_the_host() {
    for inbox in InboxFixture::all().await {
        let name = inbox.name();
        // The event of the close arrives when the pull request is open again.
        inbox.deliver(pull_event(PullState::Closed)).await;
        inbox.carry_out().await;
        assert_eq!(inbox.job().await.pull.unwrap().state, PullState::Open, "{name}");
        inbox.host.put_pull(pull(PullState::Closed));
        inbox.deliver(pull_event(PullState::Closed)).await;
        inbox.carry_out().await;
        assert_eq!(inbox.job().await.pull.unwrap().state, PullState::Closed, "{name}");
    }
}

#[tokio::test]
async fn an_event_of_an_open_pull_request_updates_its_title() {
    for inbox in InboxFixture::all().await {
        let name = inbox.name();
        let index = async || inbox.fixture.store.indexed_pulls_of(vec![inbox.job]).await.unwrap().remove(0);
        inbox.host.put_pull(HostPull { title: "New title".to_owned(), draft: true, ..pull(PullState::Open) });
        inbox.deliver(pull_event(PullState::Open)).await;
        inbox.carry_out().await;
        let found = index().await;
        assert_eq!((found.title.as_deref(), found.draft), (Some("New title"), true), "{name}");
        // Without the host, the event is carried out, and the title stays.
        inbox.host.fail(HostCall::Pulls, Moment::Before, ForgeError::Unclear("no answer".to_owned()), 1);
        inbox.deliver(pull_event(PullState::Open)).await;
        inbox.carry_out().await;
        assert_eq!(inbox.outcomes().await, ["pull_recorded"; 2], "{name}");
        assert_eq!(index().await.title.as_deref(), Some("New title"), "{name}");
    }
}

#[tokio::test]
async fn a_comment_on_a_merged_pull_request_is_a_message_to_its_job() {
    for inbox in InboxFixture::all().await {
        let name = inbox.name();
        inbox.deliver(pull_event(PullState::Merged)).await;
        inbox.deliver(created(&comment("1", &inbox.maria(), "@journeyman and a test"))).await;
        inbox.settle().await;
        assert_eq!(inbox.outcomes().await, ["pull_recorded", "message"], "{name}");
        assert_eq!(inbox.prompts().await, ["@journeyman and a test"], "{name}");
    }
}
