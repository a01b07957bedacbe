//! Tests of the branch that people merge into, as the agent sees it, and of conflicts with it.

use journeyman_testkit::until;
use serde_json::{Value, json};

use super::fixtures::{Service, Site, acp_script, site, site_with};

/// A job that has written `hello.txt`, to which people have written something else in `main` since.
fn two_sides() -> (Site, Service, String) {
    let site = site();
    let service = site.start();
    let job = service.create("Add a greeting\n[[write hello.txt|Hello]]");
    assert_eq!(service.settled(&job)["status"], "completed");
    site.people_commit("hello.txt", "Good day\n");
    (site, service, job)
}

/// Returns whether the host can merge the only pull request.
fn is_mergeable(service: &Service) -> bool {
    service.get("/v2/projects/shop/pulls/1")["mergeable"] == json!(true)
}

/// Waits until the first pull request of a list is as expected, and returns it.
fn until_pull(service: &Service, list: &str, is_expected: impl Fn(&Value) -> bool) -> Value {
    until("the expected pull request", || Some(service.get(list)["pulls"][0].clone()).filter(&is_expected))
}

/// Returns the reason of the newest run of a job.
fn reason(service: &Service, job: &str) -> serde_json::Value {
    let runs = service.get(&format!("{job}/runs"))["runs"].clone();
    runs.as_array().unwrap().iter().max_by_key(|run| run["createdAt"].to_string()).unwrap()["reason"].clone()
}

#[test]
fn an_agent_merges_the_newest_base_and_resolves_its_conflicts() {
    let (site, service, job) = two_sides();
    assert!(!is_mergeable(&service));
    let named = json!({ "files": ["hello.txt"], "more": 0 });
    // The repository was changed without the service, which compares the pull request when the project is changed.
    service.configure(json!({ "pullRequest": { "keepUpToDate": "off" } }));
    let listed = until_pull(&service, "/v2/projects/shop/pulls", |pull| pull["behind"] == 1);
    assert_eq!(listed["conflicts"], named, "{listed}");
    assert_eq!(service.get(&format!("{job}/pulls"))["pulls"][0]["conflicts"], named);
    let resolve =
        "git merge -q origin/main || printf 'Good day and hello\\n' > hello.txt; git commit -qam 'Merge main'";
    service.send(&job, &format!("Resolve the conflicts\n[[run {resolve}]]"));
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    assert_eq!(site.file(&site.branch(), "hello.txt").as_deref(), Some("Good day and hello\n"));
    assert!(is_mergeable(&service));
    let pull = until_pull(&service, &format!("{job}/pulls"), |pull| pull["behind"] == 0);
    assert_eq!(pull["conflicts"], json!({ "files": [], "more": 0 }), "{pull}");
    let message = service.get(&format!("{job}/messages"))["messages"][1].clone();
    assert_eq!(
        message["commits"].as_array().unwrap().len(),
        1,
        "the commits of people are not its commits: {message:#}"
    );
    let diff = service.text(&format!("{job}/diff"));
    assert!(diff.contains("-Good day\n") && diff.contains("+Good day and hello\n"), "{diff}");
}

#[test]
fn conflicts_that_an_agent_leaves_are_asked_about_once_and_not_published() {
    let (site, service, job) = two_sides();
    let before = site.file(&site.branch(), "hello.txt");
    service.send(&job, "Merge main\n[[run git merge -q origin/main || echo conflict]]");
    assert_eq!(service.settled(&job)["status"], "failed", "{:#}", service.events(&job));
    let reason = reason(&service, &job);
    assert_eq!(reason["code"], "unresolved_conflicts", "{reason}");
    let text = reason["text"].as_str().unwrap();
    assert!(text.contains("a merge is not concluded, and there are conflicts in hello.txt"), "{text}");
    let continued = service.events(&job);
    let continued = continued.as_array().unwrap().iter().filter(|event| event["type"] == "agent.continued");
    assert_eq!(continued.count(), 1);
    assert_eq!(site.file(&site.branch(), "hello.txt"), before);

    // The work is still there.
    service.send(&job, "Take both\n[[run grep -q '<<<<<<<' hello.txt; echo both > hello.txt; git commit -qam merged]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    assert_eq!(site.file(&site.branch(), "hello.txt").as_deref(), Some("both\n"));
    assert!(is_mergeable(&service));
}

#[test]
fn every_turn_sees_the_base_as_it_is() {
    let (site, service, job) = two_sides();
    for number in 1..=2 {
        site.people_commit("later.txt", &format!("{number}\n"));
        let looks = "git diff origin/main... > /dev/null && git show origin/main:later.txt > seen.txt";
        service.send(&job, &format!("Look\n[[run {looks}]]"));
        assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
        assert_eq!(site.file(&site.branch(), "seen.txt"), Some(format!("{number}\n")));
    }
}

/// Returns a site with an agent that runs the script `on_prompt` when it is prompted.
fn site_of(agent: &str, on_prompt: &str) -> Site {
    let site = site_with("workers = 4\n");
    let config = format!(
        "workers = 4\nwarm-agents = 0\n[agents.{agent}]\ncommand = [\"sh\", \"DIR/agent.sh\"]\n\
         readable = [\"DIR/agent.sh\"]\n"
    );
    std::fs::write(site.path("config.toml"), config.replace("DIR", site.dir.path().to_str().unwrap())).unwrap();
    std::fs::write(site.path("agent.sh"), acp_script(on_prompt)).unwrap();
    site
}

/// What an agent does that writes down its prompt, and in its first turn a greeting.
const NOTING: &str = "[ -e hello.txt ] || echo Hello > hello.txt; printf '%s' \"$line\" > prompt.txt; answer";

#[test]
fn a_follow_up_says_what_conflicts_with_the_base() {
    let site = site_of("noting", NOTING);
    let service = site.start();
    let job = service.create_with(json!({ "prompt": "Add a greeting", "agent": "noting" }));
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    let prompt = || site.file(&site.branch(), "prompt.txt").unwrap();
    service.send(&job, "Resolve the conflicts");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    assert!(!prompt().contains("origin/main"), "there are none: {}", prompt());

    site.people_commit("hello.txt", "Good day\n");
    service.send(&job, "Resolve the conflicts");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    let told = prompt();
    assert!(told.contains("Resolve the conflicts") && told.contains("merge `origin/main`"), "{told}");
    assert!(told.contains("- `hello.txt`"), "{told}");
    let message = service.get(&format!("{job}/messages"))["messages"][2].clone();
    assert_eq!(message["prompt"], "Resolve the conflicts", "the message is what the person wrote");
}

/// What an agent does that writes a greeting, and merges the base if it is asked to.
const MERGING: &str = "[ -e hello.txt ] || echo Hello > hello.txt; case \"$line\" in *origin/main*) \
                       git merge -q origin/main || echo both > hello.txt; git commit -qam Merge;; esac; answer";

#[test]
fn the_service_has_a_conflict_resolved_by_itself() {
    let site = site_of("merging", MERGING);
    let service = site.start();
    let job = service.create_with(json!({ "prompt": "Add a greeting", "agent": "merging" }));
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    site.people_commit("hello.txt", "Good day\n");
    service.configure(json!({ "pullRequest": { "keepUpToDate": "conflicts" } }));
    service.until(&job, "pull_request.outdated", 1);
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    assert!(is_mergeable(&service));
    assert_eq!(site.file(&site.branch(), "hello.txt").as_deref(), Some("both\n"));
    let message = service.get(&format!("{job}/messages"))["messages"][1].clone();
    assert_eq!((&message["origin"], &message["author"]), (&json!("update"), &json!(null)), "{message:#}");
    assert_eq!(message["commits"].as_array().unwrap().len(), 1, "{message:#}");
    let events = service.events(&job);
    let event = events.as_array().unwrap().iter().find(|event| event["type"] == "pull_request.outdated").unwrap();
    assert_eq!(event["data"]["conflicts"], json!({ "files": ["hello.txt"], "more": 0 }), "{event}");
    let pull = until_pull(&service, &format!("{job}/pulls"), |pull| pull["behind"] == 0);
    assert_eq!(pull["state"], "open", "{pull}");
}

/// What an agent does that writes down its prompt, and lets nobody write its refs of the code host.
const CLOSED: &str = "printf '%s' \"$line\" > prompt.txt; rm -rf .git/refs/remotes; : > .git/refs/remotes; answer";

#[test]
fn a_base_that_cannot_be_shown_is_told_and_fails_no_turn() {
    let site = site_of("closed", CLOSED);
    let service = site.start();
    let job = service.create_with(json!({ "prompt": "Look", "agent": "closed" }));
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    let told = || {
        let events = service.events(&job);
        let events = events.as_array().unwrap().iter().filter(|event| event["type"] == "checkout.incomplete");
        events.map(|event| event["data"]["entries"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(told(), [] as [serde_json::Value; 0]);
    service.send(&job, "Look again");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    let entries = told();
    assert_eq!(entries.len(), 1, "{entries:?}");
    let [path, kind, reason] = ["path", "kind", "reason"].map(|field| entries[0][0][field].as_str().unwrap());
    assert_eq!((path, kind, reason), ("origin/main", "base", "not_written"));
    let prompt = site.file(&site.branch(), "prompt.txt").unwrap();
    assert!(
        prompt.contains("Look again") && prompt.contains("- origin/main: The ref could not be written"),
        "{prompt}"
    );

    // The branch is gone from the code host.
    service.configure(json!({ "pullRequest": { "base": "gone" } }));
    service.send(&job, "And again");
    service.settled(&job);
    let entries = told();
    let [path, kind, reason] = ["path", "kind", "reason"].map(|field| entries[1][0][field].as_str().unwrap());
    assert_eq!((path, kind, reason), ("origin/gone", "base", "not_found"), "{entries:?}");
}
