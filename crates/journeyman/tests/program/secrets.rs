//! Tests of a project's secrets: which programs get them, and that their values are never shown.

use serde_json::json;

use super::given::site;

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
