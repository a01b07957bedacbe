//! Tests of trusts: the exchange of a token of an issuer for a key, and `journeyman trust`.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use journeyman_core::time::Timestamp;
use journeyman_testkit::oidc::Provider;
use serde_json::{Value, json};

use super::fixtures::{Service, client, site, site_with};
use super::users::Now;
use crate::storm::faketime;

/// Sends a token to the exchange, without a key.
fn exchange(service: &Service, token: &str) -> (u16, Value) {
    let client = client();
    let answer = client.post(format!("{}/v2/oidc/exchange", service.url)).json(&json!({ "token": token })).send();
    let answer = answer.unwrap();
    (answer.status().as_u16(), answer.json().unwrap())
}

#[test]
fn a_token_of_an_issuer_becomes_a_key_that_works_with_jobs_for_fifteen_minutes() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let provider = runtime.block_on(Provider::start(Arc::new(Now)));
    let issuer = provider.issuer.as_str().trim_end_matches('/').to_owned();
    let site = site_with("workers = 4\noidc-networks = [\"127.0.0.0/8\"]\n");
    let rules = ["--issuer", &issuer, "--audience", "shop-ci", "--claim", "repository=acme/*", "--project", "shop"];
    site.succeed(&[&["trust", "create", "--name", "ci"], &rules[..]].concat());
    let mut service = site.start();
    let token = provider.ci_token(&json!({"aud": "shop-ci", "repository": "acme/shop"}));

    let (status, exchanged) = exchange(&service, &token);
    assert_eq!(status, 201, "{exchanged}");
    let time = |value: &Value| value.as_str().unwrap().parse::<Timestamp>().unwrap();
    let life = time(&exchanged["expiresAt"]).since(time(&exchanged["key"]["createdAt"]));
    assert_eq!(life, Duration::from_secs(15 * 60));
    let secret = exchanged["secret"].as_str().unwrap().to_owned();
    service.key.clone_from(&secret);
    let job = service.create("Say hello [[write hello.txt|Hello]]");
    assert_eq!(service.settled(&job)["status"], "completed");
    assert_eq!(service.call("GET", "/v2/keys", None).0, 403, "the key is only for jobs of its project");
    let stranger = provider.ci_token(&json!({"aud": "shop-ci", "repository": "mallory/shop"}));
    let (status, refused) = exchange(&service, &stranger);
    assert_eq!((status, &refused["code"]), (403, &json!("token_not_trusted")), "{refused}");
    assert!(!service.log().contains(&secret) && !service.log().contains(&token), "a secret is in the log");

    // The clock of the next process is 16 minutes later.
    service.kill();
    let mut wrapper = Command::new("env");
    wrapper.arg(format!("LD_PRELOAD={}", faketime().display())).arg("FAKETIME=+960s");
    wrapper.arg("FAKETIME_DONT_FAKE_MONOTONIC=1");
    let mut later = site.start_wrapped(wrapper);
    let key = std::mem::replace(&mut later.key, secret);
    let (status, refused) = later.call("GET", &job, None);
    assert_eq!((status, &refused["code"]), (401, &json!("expired_key")), "{refused}");
    later.key = key;
    let keys = later.get("/v2/keys?origin=exchanged");
    assert_eq!(keys["keys"][0]["name"], "oidc:ci:repo:acme/shop:ref:refs/heads/main", "{keys}");
    let listed = site.succeed(&["key", "list", "--exchanged"]);
    assert!(listed.contains("oidc:ci:repo:acme/shop:ref:refs/heads/main"), "{listed}");
    assert!(!site.succeed(&["key", "list"]).contains("oidc:"), "they have a list of their own");
    let (status, refused) = exchange(&later, &token);
    assert_eq!((status, &refused["code"]), (401, &json!("token_refused")), "the token has expired too: {refused}");
}

#[test]
fn a_token_that_is_exchanged_at_the_same_time_and_again_and_again_has_one_key() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let provider = runtime.block_on(Provider::start(Arc::new(Now)));
    let issuer = provider.issuer.as_str().trim_end_matches('/').to_owned();
    let site = site_with("workers = 1\noidc-networks = [\"127.0.0.0/8\"]\n");
    let rules = ["--issuer", &issuer, "--audience", "shop-ci", "--claim", "repository=acme/*", "--project", "shop"];
    site.succeed(&[&["trust", "create", "--name", "ci"], &rules[..]].concat());
    let service = site.start();
    let token = provider.ci_token(&json!({"aud": "shop-ci", "repository": "acme/shop"}));
    let answers = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..8).map(|_| scope.spawn(|| (0..10).map(|_| exchange(&service, &token)).collect::<Vec<_>>())).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    let made: Vec<&Value> = answers.iter().filter(|(status, _)| *status == 201).map(|(_, body)| body).collect();
    assert!(made.len() >= 20, "{} of {} were exchanged", made.len(), answers.len());
    assert!(answers.iter().all(|(status, body)| *status == 201 || body["code"] == "too_many_exchanges"), "{answers:?}");
    assert!(made.iter().all(|body| body["key"]["id"] == made[0]["key"]["id"]), "a token has one key");
    let keys = service.get("/v2/keys?origin=exchanged");
    assert_eq!(keys["keys"].as_array().unwrap().len(), 1, "{keys}");
}

#[test]
fn trusts_are_created_listed_changed_and_deleted_with_and_without_a_service() {
    let site = site();
    let github = ["--issuer", "https://token.actions.githubusercontent.com", "--project", "shop"];
    let claims = ["--claim", "repository=acme/shop", "--claim", "ref=refs/heads/main"];
    let created = site.succeed(&[&["trust", "create", "--name", "ci"], &github[..], &claims].concat());
    let id = created.trim();
    assert!(id.starts_with("trust_") && created.lines().count() == 1, "{created}");
    let table = site.succeed(&["trust", "list"]);
    for part in [id, "ci", "repository=acme/shop", "shop", "jobs", "LAST USED"] {
        assert!(table.contains(part), "{part}: {table}");
    }
    let shown = site.succeed(&["trust", "show", id]);
    assert!(shown.contains("ref=refs/heads/main") && shown.contains("audience"), "{shown}");

    let service = site.start();
    let path = format!("/v2/oidc/trusts/{id}");
    let listed: Value = serde_json::from_str(&site.succeed(&["trust", "list", "--json"])).unwrap();
    assert_eq!(listed, json!({"trusts": [service.get(&path)], "nextCursor": null}));
    let update = ["trust", "update", id, "--scope", "read", "--claim", "repository_owner=acme", "--json"];
    let changed: Value = serde_json::from_str(&site.succeed(&update)).unwrap();
    assert_eq!((&changed["scope"], &changed["claims"]), (&json!("read"), &json!({"repository_owner": "acme"})));
    assert_eq!(service.get(&path), changed);
    let renaming = site.succeed(&["trust", "update", id, "--name", "renamed"]);
    assert_eq!(renaming, format!("Changed the trust {id}.\n"));
    let renamed = service.get(&path);
    assert_eq!((&renamed["name"], &renamed["scope"]), (&json!("renamed"), &json!("read")), "{renamed}");

    let unknown = format!("trust_{}", "0".repeat(32));
    let create = |name: &str, more: &[&str]| {
        let all = [&["trust", "create", "--name", name], &github[..], more].concat();
        all.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    for (arguments, named) in [
        (create("renamed", &claims), "already exists"),
        (create("a b", &claims), "name: must have"),
        (create("x", &["--claim", "ref=refs/heads/main"]), "repository_owner"),
        (create("x", &["--claim", "repository"]), "CLAIM=PATTERN"),
        (create("x", &["--claim", "repository=a/b", "--claim", "repository=a/c"]), "given twice"),
        (create("x", &["--claim", "repository=a/b", "--project", "nowhere"]), "`journeyman project list`"),
        (create("x", &["--claim", "repository=a/b", "--scope", "write"]), "--scope"),
        (words(&["trust", "show", &unknown]), "`journeyman trust list`"),
        (words(&["trust", "update", &unknown, "--name", "x"]), "`journeyman trust list`"),
        (words(&["trust", "update", id, "--project", "nowhere"]), "there is no project nowhere"),
        (words(&["trust", "delete", &unknown, "--yes"]), "`journeyman trust list`"),
    ] {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = site.run(&arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(named), "{arguments:?}: {error}");
    }
    assert_eq!(service.get(&path), renamed, "a refused command changes nothing");

    assert_eq!(site.run(&["trust", "delete", id]).status.code(), Some(2), "it is not confirmed");
    site.succeed(&["trust", "delete", id, "--yes"]);
    let (status, gone) = service.call("GET", &path, None);
    assert_eq!((status, &gone["code"]), (404, &json!("trust_not_found")));
    drop(service);
    site.succeed(&["trust", "delete", id, "--yes"]);
    assert!(!site.succeed(&["trust", "list"]).contains(id), "it is deleted once");
}
