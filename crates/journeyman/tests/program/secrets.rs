//! Tests of a project's secrets: which programs get them, and that their values are never shown.

use serde_json::json;

use super::fixtures::{Service, Site, site};

const VALUE: &str = "s3cret-9f8e-s3cret";

#[test]
fn a_secret_reaches_only_its_uses_and_its_value_is_never_shown() {
    let site = site();
    let service = site.start();
    let set = |body| {
        let (status, answer) = service.call("PATCH", "/v2/projects/shop", Some(body));
        assert_eq!(status, 200, "{answer}");
        assert!(!answer.to_string().contains(VALUE), "{answer}");
    };
    let home = |job: &str| site.path(&format!("data/workspaces/{}/home", job.rsplit('/').next().unwrap()));
    let got = |job: &str, name: &str| std::fs::read_to_string(home(job).join(name)).unwrap();

    // Without a named use, the setup command gets the secret and the agent does not.
    set(json!({ "secrets": { "TOKEN": VALUE }, "setup": "echo ${#TOKEN} > ~/setup; echo $TOKEN" }));
    let prompt = "[[run echo ${#TOKEN} > ~/agent]]";
    let job = service.create(prompt);
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    assert_eq!((got(&job, "setup").as_str(), got(&job, "agent").as_str()), ("18\n", "0\n"));

    // Only the agent gets the secret. Whatever it prints, no stored, streamed or logged text has the value.
    set(json!({ "secretUses": { "TOKEN": ["agent"] } }));
    let leaking = "[[run echo ${#TOKEN} > ~/agent; echo before $TOKEN after; env; false]] [[say it is $TOKEN]]";
    let job = service.create(leaking);
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    assert_eq!((got(&job, "setup").as_str(), got(&job, "agent").as_str()), ("0\n", "18\n"));
    let events = service.events(&job).to_string();
    assert!(events.contains("before [secret TOKEN] after"), "{events}");

    // The reason of a failure has the last output.
    set(json!({ "secretUses": { "TOKEN": ["setup", "agent"] }, "setup": "echo it was $TOKEN; exit 3" }));
    let failed = service.create("x");
    assert_eq!(service.settled(&failed)["status"], "failed");
    let runs = service.get(&format!("{failed}/runs")).to_string();
    assert!(runs.contains("it was [secret TOKEN]"), "{runs}");

    for job in [&job, &failed] {
        let kind = if *job == failed { "job.failed" } else { "job.completed" };
        for text in [service.events(job).to_string(), service.stream_until(job, kind), service.get(job).to_string()] {
            assert!(!text.contains(VALUE), "{text}");
        }
    }
    assert!(!service.log().contains(VALUE) && !runs.contains(VALUE));
    let database = std::fs::read(site.path("data/journeyman.db")).unwrap();
    let log = std::fs::read(site.path("data/journeyman.db-wal")).unwrap_or_default();
    for bytes in [database, log] {
        assert!(!bytes.windows(VALUE.len()).any(|window| window == VALUE.as_bytes()), "the stored value is encrypted");
    }
}

#[test]
fn an_unknown_use_of_a_secret_is_refused() {
    let site = site();
    let service = site.start();
    for (uses, named) in [(json!({ "TOKEN": ["everybody"] }), "secretUses.TOKEN"), (json!({ "A B": [] }), "A B")] {
        let (status, answer) = service.call("PATCH", "/v2/projects/shop", Some(json!({ "secretUses": uses })));
        assert_eq!((status, answer["error"].as_str().unwrap_or_default().contains(named)), (400, true), "{answer}");
    }
}

#[test]
fn a_fetch_that_fails_reveals_no_secret() {
    let site = site();
    let service = site.start();
    // git names the address that it cannot reach, but only the log has its text.
    let repository = format!("http://127.0.0.1:9/{VALUE}.git");
    let body = json!({ "repository": repository, "secrets": { "PLACE": VALUE } });
    let (status, answer) = service.call("PATCH", "/v2/projects/shop", Some(body));
    assert_eq!(status, 200, "{answer}");
    let job = service.create("x");
    service.until(&job, "message.waiting", 1);
    let waiting = service.get(&format!("{job}/details"))["waiting"].clone();
    let text = waiting["reason"]["text"].as_str().unwrap();
    assert!(text.contains("127.0.0.1") && !text.contains(VALUE), "{waiting}");
    let events = service.events(&job);
    let others: Vec<_> = events.as_array().unwrap().iter().filter(|event| event["type"] != "job.created").collect();
    assert!(!json!(others).to_string().contains(VALUE), "{others:#?}");
}

/// Sets a secret of the project that the setup command and the agent get, or removes it.
fn set_token(service: &Service, value: Option<&str>) {
    service.configure(json!({ "secrets": { "TOKEN": value }, "secretUses": { "TOKEN": ["setup", "agent"] } }));
}

/// Waits for the end of a job, and returns everything that is shown of it.
fn texts_of(service: &Service, job: &str) -> String {
    assert_eq!(service.settled(job)["status"], "completed", "{:#}", service.events(job));
    let texts = [service.events(job), service.get(job), service.get(&format!("{job}/messages"))];
    texts.map(|text| text.to_string()).concat()
}

#[test]
fn a_value_that_was_changed_or_removed_stays_hidden_in_later_runs_of_the_job() {
    let site = site();
    let service = site.start();
    let next = "n3xt-7c6b-n3xt";
    set_token(&service, Some(VALUE));
    // The agent keeps the value in its home and in its workspace.
    let job = service.create("[[run echo $TOKEN > ~/kept; echo $TOKEN > kept.tmp]]");
    texts_of(&service, &job);
    let printing = "[[run cat ~/kept kept.tmp; echo now $TOKEN]]";

    set_token(&service, Some(next));
    service.send(&job, printing);
    let texts = texts_of(&service, &job);
    assert!(!texts.contains(VALUE) && !texts.contains(next), "{texts}");
    assert!(texts.contains("now [secret TOKEN]"), "the run got the new value: {texts}");

    set_token(&service, None);
    service.send(&job, "[[run cat ~/kept kept.tmp]][[say it was]]");
    let texts = texts_of(&service, &job);
    assert!(!texts.contains(VALUE) && texts.contains("[secret TOKEN]"), "{texts}");

    // Another process has the earlier values too, and the database has none of them as it is.
    drop(service);
    let service = site.start();
    service.send(&job, printing);
    let texts = texts_of(&service, &job);
    assert!(!texts.contains(VALUE), "{texts}");
    for file in ["data/journeyman.db", "data/journeyman.db-wal"] {
        let bytes = std::fs::read(site.path(file)).unwrap_or_default();
        assert!(!bytes.windows(VALUE.len()).any(|window| window == VALUE.as_bytes()), "{file}");
    }
    // The control: without the row of the earlier value, the run would have shown what the file has.
    assert_eq!(std::fs::read_to_string(kept(&site, &job)).unwrap().trim(), VALUE);
}

fn kept(site: &Site, job: &str) -> std::path::PathBuf {
    site.path(&format!("data/workspaces/{}/home/kept", job.rsplit('/').next().unwrap()))
}

#[test]
fn a_value_that_is_changed_or_removed_during_a_run_stays_hidden_in_it() {
    for change in [Some("n3xt-7c6b-n3xt"), None] {
        let site = site();
        let service = site.start();
        set_token(&service, Some(VALUE));
        let job = service.create("[[run echo before $TOKEN]][[hold]][[run echo after $TOKEN; cat ~/kept]]");
        site.held(&job);
        set_token(&service, change);
        std::fs::write(kept(&site, &job), VALUE).unwrap();
        site.release(&service, &job);
        let texts = texts_of(&service, &job);
        assert!(texts.contains("after [secret TOKEN]") && !texts.contains(VALUE), "{texts}");
    }
}
