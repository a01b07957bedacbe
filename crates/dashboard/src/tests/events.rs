//! Tests of the tab with the events of a job.

use std::sync::Arc;

use axum::http::Method;
use journeyman_core::code_host::PullState;
use journeyman_core::job::event::TranscriptKind;
use journeyman_core::user::Role;
use serde_json::json;

use super::job::running_job;
use super::pulls::{Fake, detail};
use super::{Fixture, fixture};

async fn shop() -> Fixture {
    fixture(Arc::new(Fake::with(detail(PullState::Open)))).await
}

async fn see(fixture: &Fixture, path: &str) -> String {
    fixture.send(Some(Role::Viewer), Method::GET, path, "").await.body
}

#[tokio::test]
async fn each_event_is_a_line_that_opens_to_its_json() {
    let fixture = shop().await;
    let say = |text: &str| (TranscriptKind::Message, json!({"text": text}));
    let id = running_job(&fixture, "Fix it", vec![say("Looking at\nthe code"), say("<b>Done")]).await;
    let page = see(&fixture, &format!("/projects/shop/jobs/{id}/events")).await;
    for part in [
        "<code class=\"cut\">job.created</code><span class=\"summary cut\"><bdi>The job was created: Fix it</bdi></span>",
        "<code class=\"cut\">run.started</code><span class=\"summary cut\"><bdi>A run started</bdi></span>",
        "<code class=\"cut\">message.accepted</code><span class=\"summary cut\"><bdi>Fix it</bdi></span>",
        "<code class=\"cut\">agent.message</code><span class=\"summary cut\"><bdi>Looking at</bdi></span>",
        "<bdi>&#60;b&#62;Done</bdi>",
        "&#34;type&#34;: &#34;agent.message&#34;",
        "&#34;runId&#34;: &#34;run_",
        "data-copy=\"event-1\"",
        "<option value=\"agent.message\">",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert!(!page.contains(">Later<") && !page.contains(">Earlier<"), "{page}");
}

#[tokio::test]
async fn events_are_filtered_by_their_type_and_divided_into_pages() {
    let fixture = shop().await;
    let mut entries: Vec<_> =
        (0..250).map(|number| (TranscriptKind::Message, json!({"text": format!("said {number}.")}))).collect();
    entries.insert(240, (TranscriptKind::Thought, json!({"text": "a thought"})));
    let id = running_job(&fixture, "Fix it", entries).await;
    let path = format!("/projects/shop/jobs/{id}/events");
    let all = see(&fixture, &path).await;
    assert!(all.contains("said 1.") && !all.contains("said 150.") && !all.contains(">First<"), "{all}");
    assert!(all.contains(&format!("href=\"{path}?after=100\">Later")), "{all}");
    let second = see(&fixture, &format!("{path}?after=100")).await;
    assert!(second.contains("said 150.") && second.contains(&format!("href=\"{path}?after=0\">Earlier")), "{second}");

    let thoughts = see(&fixture, &format!("{path}?kind=agent.thought")).await;
    assert!(thoughts.contains("a thought") && !thoughts.contains("said 1."), "{thoughts}");
    assert!(thoughts.contains("<option value=\"agent.thought\" selected>") && !thoughts.contains(">Later<"));
    let messages = see(&fixture, &format!("{path}?kind=agent.message")).await;
    assert!(messages.contains("said 99.") && !messages.contains("said 100."), "{messages}");
    let later = messages.split("href=\"").find(|part| part.contains("\">Later")).unwrap().split('"').next().unwrap();
    assert!(later.contains("&#38;kind=agent.message"), "{later}");
    let next = see(&fixture, &later.replace("&#38;", "&")).await;
    assert!(next.contains("said 100.") && !next.contains("said 99.") && next.contains(">First<"), "{next}");
    let none = see(&fixture, &format!("{path}?kind=checks.settled")).await;
    assert!(
        none.contains("No matching events") && none.contains("<option value=\"checks.settled\" selected>"),
        "{none}"
    );
}
