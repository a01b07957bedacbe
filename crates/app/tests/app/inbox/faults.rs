//! Tests of a code host that fails, of limits, and of processes that die.

use std::time::Duration;

use journeyman_app::Received;
use journeyman_core::code_host::CodeHostId;
use journeyman_core::conversation::Reaction;
use journeyman_core::inbox::{INBOX_LEASE, MAX_ATTEMPTS};
use journeyman_core::ports::{ForgeError, HookRefusal};
use journeyman_testkit::{HostCall, MemoryHost, Moment};

use super::fixtures::{InboxFixture, SETTLE, comment, created, review, submitted};

/// The longest time between two attempts.
const LONGEST: Duration = Duration::from_secs(300);

#[tokio::test]
async fn a_host_that_fails_for_a_while_loses_nothing() {
    for inbox in InboxFixture::all().await {
        let name = inbox.name();
        let unclear = ForgeError::Unclear("502 Bad Gateway".to_owned());
        let limited = ForgeError::RateLimited(Duration::from_secs(60));
        let credential = ForgeError::Credential("the token has expired".to_owned());
        for (call, error) in [
            (HostCall::Me, unclear.clone()),
            (HostCall::Me, credential.clone()),
            (HostCall::Permission, limited.clone()),
            (HostCall::Permission, unclear.clone()),
            (HostCall::Permission, credential),
            (HostCall::Reviews, unclear.clone()),
            (HostCall::React, limited.clone()),
            (HostCall::Comment, limited),
        ] {
            inbox.host.fail(call, Moment::Before, error, 2);
        }
        inbox.host.fail(HostCall::React, Moment::After, unclear.clone(), 2);
        inbox.host.fail(HostCall::Comment, Moment::After, unclear, 2);
        let (review, lines) = review("90", &inbox.maria(), "Please.", &["Rename it."]);
        inbox.host.put_review(1, review.clone(), lines);
        inbox.deliver(submitted(&review)).await;
        inbox.deliver(created(&comment("1", &inbox.maria(), "@journeyman and this"))).await;
        for _ in 0..30 {
            inbox.wait(LONGEST).await;
        }
        let all = inbox.prompts().await.join("\n");
        let counts = ["Please.", "Rename it.", "and this"].map(|part| all.matches(part).count());
        assert_eq!(counts, [1, 1, 1], "{name}: {all}");
        assert_eq!(inbox.outcomes().await, ["message"; 2], "{name}");
        while !inbox.job().await.queue.is_empty() {
            inbox.finish().await;
        }
        for _ in 0..30 {
            inbox.wait(LONGEST).await;
        }
        assert_eq!(inbox.host.written().len(), inbox.prompts().await.len(), "{name}: an answer for each message");
        assert_eq!(inbox.host.reactions("1"), [Reaction::Seen, Reaction::Done], "{name}");
    }
}

#[tokio::test]
async fn an_event_that_always_fails_is_given_up_with_the_reason() {
    let inbox = InboxFixture::new().await;
    inbox.host.fail(HostCall::Permission, Moment::Before, ForgeError::Unclear("503".to_owned()), u32::MAX);
    inbox.deliver(created(&comment("1", &inbox.maria(), "@journeyman rename it"))).await;
    for _ in 0..MAX_ATTEMPTS {
        inbox.wait(LONGEST).await;
    }
    assert_eq!(inbox.outcomes().await, ["given_up"]);
    assert!(inbox.events().await.remove(0).detail.unwrap().contains("503"));
}

#[tokio::test]
async fn messages_beyond_the_hourly_limit_wait_for_it() {
    for inbox in InboxFixture::all_with(|project| project.settings.limits.message_per_hour = Some(2)).await {
        let (name, maria) = (inbox.name(), inbox.maria());
        for id in ["1", "2", "3", "4"] {
            inbox.deliver(created(&comment(id, &maria, &format!("@journeyman do {id}.")))).await;
            inbox.settle().await;
        }
        assert_eq!(inbox.outcomes().await, ["message", "message", "waiting", "waiting"], "{name}");
        inbox.wait(Duration::from_secs(3600)).await;
        assert_eq!(inbox.outcomes().await, ["message"; 4], "{name}");
        let prompts = inbox.prompts().await;
        assert!(
            prompts.len() == 3 && prompts[2].contains("do 3.") && prompts[2].contains("do 4."),
            "{name}: {prompts:?}"
        );
    }
}

#[tokio::test]
async fn the_event_of_a_process_that_died_is_carried_out_by_another() {
    for inbox in InboxFixture::all().await {
        let name = inbox.name();
        inbox.deliver(created(&comment("1", &inbox.maria(), "@journeyman rename it"))).await;
        inbox.die_after_a_claim().await;
        inbox.settle().await;
        assert_eq!(inbox.outcomes().await, ["received"], "{name}: the lease has not expired");
        inbox.wait(INBOX_LEASE - SETTLE).await;
        inbox.settle().await;
        assert_eq!(inbox.outcomes().await, ["message"], "{name}");
        inbox.message().await;
    }
}

#[tokio::test]
async fn webhooks_that_are_not_signed_or_not_readable_reach_nothing() {
    for inbox in InboxFixture::all().await {
        let (name, cases) = (inbox.name(), &inbox.fixture.cases);
        let id: CodeHostId = MemoryHost::ID.parse().unwrap();
        let good = MemoryHost::hook("1", created(&comment("1", &inbox.maria(), "@journeyman rename it")));
        let mut forged = good.clone();
        forged.headers.retain(|(header, _)| header != "signature");
        assert_eq!(cases.receive_hook(&id, None, forged).await, Err(HookRefusal::Signature), "{name}");
        let other = cases.receive_hook(&"other".parse().unwrap(), None, good.clone()).await;
        assert_eq!(other, Err(HookRefusal::NotFound), "{name}");
        assert_eq!(inbox.events().await, [], "{name}");
        let broken = journeyman_core::ports::RawHook { body: b"{".to_vec(), ..good };
        assert_eq!(cases.receive_hook(&id, None, broken).await, Ok(Received::Stored), "{name}");
        inbox.settle().await;
        assert_eq!(inbox.outcomes().await, ["unreadable"], "{name}");
        assert!(inbox.events().await.remove(0).content.is_none(), "{name}: the body is removed");
    }
}
