//! Pull requests that the code host merges when all requirements are met.

use journeyman_testkit::code_host::PullState;
use serde_json::json;

use super::{PATH, World};

#[test]
fn a_merge_is_requested_once_and_a_refusal_is_told() {
    let world = World::new();
    let service = world.start();
    service.configure_web(json!({ "pullRequest": { "autoMerge": true } }));
    let shown = service.get("/v2/projects/web");
    assert_eq!(shown["pullRequest"]["autoMerge"], true, "{shown}");
    world.host.state().by_path(PATH).unwrap().has_requirements = true;
    let (job, number) = world.job(&service, "Add a greeting\n[[write hello.txt|Hello]]");
    assert_eq!(world.host.state().by_path(PATH).unwrap().auto_merges, [number]);
    service.send(&job, "Say goodbye too\n[[append hello.txt|Goodbye]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    assert_eq!(world.host.state().by_path(PATH).unwrap().auto_merges, [number], "once");

    // The branch requires nothing any more.
    world.host.state().by_path(PATH).unwrap().has_requirements = false;
    let (job, number) = world.job(&service, "Add a page\n[[write page.txt|Hello]]");
    let events = service.events(&job).to_string();
    assert!(events.contains("nothing is left to wait for"), "{events}");
    let mut state = world.host.state();
    let pulls = &state.by_path(PATH).unwrap().pulls;
    assert!(pulls.iter().any(|pull| pull.number == number && pull.state == PullState::Open), "{pulls:?}");
}
