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
    for desk in InboxFixture::all().await {
        let name = desk.name();
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
            desk.host.fail(call, Moment::Before, error, 2);
        }
        desk.host.fail(HostCall::React, Moment::After, unclear.clone(), 2);
        desk.host.fail(HostCall::Comment, Moment::After, unclear, 2);
        let (review, lines) = review("90", &desk.maria(), "Please.", &["Rename it."]);
        desk.host.put_review(1, review.clone(), lines);
        desk.deliver(submitted(&review)).await;
        desk.deliver(created(&comment("1", &desk.maria(), "@journeyman and this"))).await;
        for _ in 0..30 {
            desk.wait(LONGEST).await;
        }
        let all = desk.prompts().await.join("\n");
        let counts = ["Please.", "Rename it.", "and this"].map(|part| all.matches(part).count());
        assert_eq!(counts, [1, 1, 1], "{name}: {all}");
        assert_eq!(desk.outcomes().await, ["message"; 2], "{name}");
        while !desk.job().await.queue.is_empty() {
            desk.finish().await;
        }
        for _ in 0..30 {
            desk.wait(LONGEST).await;
        }
        assert_eq!(desk.host.written().len(), desk.prompts().await.len(), "{name}: an answer for each message");
        assert_eq!(desk.host.reactions("1"), [Reaction::Seen, Reaction::Done], "{name}");
    }
}

#[tokio::test]
async fn an_event_that_always_fails_is_given_up_with_the_reason() {
    let desk = InboxFixture::new().await;
    desk.host.fail(HostCall::Permission, Moment::Before, ForgeError::Unclear("503".to_owned()), u32::MAX);
    desk.deliver(created(&comment("1", &desk.maria(), "@journeyman rename it"))).await;
    for _ in 0..MAX_ATTEMPTS {
        desk.wait(LONGEST).await;
    }
    assert_eq!(desk.outcomes().await, ["given_up"]);
    assert!(desk.events().await.remove(0).detail.unwrap().contains("503"));
}

#[tokio::test]
async fn messages_beyond_the_hourly_limit_wait_for_it() {
    for desk in InboxFixture::all_with(|project| project.settings.limits.message_per_hour = Some(2)).await {
        let (name, maria) = (desk.name(), desk.maria());
        for id in ["1", "2", "3", "4"] {
            desk.deliver(created(&comment(id, &maria, &format!("@journeyman do {id}.")))).await;
            desk.settle().await;
        }
        assert_eq!(desk.outcomes().await, ["message", "message", "waiting", "waiting"], "{name}");
        desk.wait(Duration::from_secs(3600)).await;
        assert_eq!(desk.outcomes().await, ["message"; 4], "{name}");
        let prompts = desk.prompts().await;
        assert!(
            prompts.len() == 3 && prompts[2].contains("do 3.") && prompts[2].contains("do 4."),
            "{name}: {prompts:?}"
        );
    }
}

#[tokio::test]
async fn the_event_of_a_process_that_died_is_carried_out_by_another() {
    for desk in InboxFixture::all().await {
        let name = desk.name();
        desk.deliver(created(&comment("1", &desk.maria(), "@journeyman rename it"))).await;
        desk.die_after_a_claim().await;
        desk.settle().await;
        assert_eq!(desk.outcomes().await, ["received"], "{name}: the lease has not expired");
        desk.wait(INBOX_LEASE - SETTLE).await;
        desk.settle().await;
        assert_eq!(desk.outcomes().await, ["message"], "{name}");
        desk.message().await;
    }
}

#[tokio::test]
async fn webhooks_that_are_not_signed_or_not_readable_reach_nothing() {
    for desk in InboxFixture::all().await {
        let (name, cases) = (desk.name(), &desk.fixture.cases);
        let id: CodeHostId = MemoryHost::ID.parse().unwrap();
        let good = MemoryHost::hook("1", created(&comment("1", &desk.maria(), "@journeyman rename it")));
        let mut forged = good.clone();
        forged.headers.retain(|(header, _)| header != "signature");
        assert_eq!(cases.receive_hook(&id, None, forged).await, Err(HookRefusal::Signature), "{name}");
        let other = cases.receive_hook(&"other".parse().unwrap(), None, good.clone()).await;
        assert_eq!(other, Err(HookRefusal::NotFound), "{name}");
        assert_eq!(desk.events().await, [], "{name}");
        let broken = journeyman_core::ports::RawHook { body: b"{".to_vec(), ..good };
        assert_eq!(cases.receive_hook(&id, None, broken).await, Ok(Received::Stored), "{name}");
        desk.settle().await;
        assert_eq!(desk.outcomes().await, ["unreadable"], "{name}");
        assert!(desk.events().await.remove(0).content.is_none(), "{name}: the body is removed");
    }
}
