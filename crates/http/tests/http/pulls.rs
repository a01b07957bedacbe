//! Tests of the operations on the pull requests of a project.

use std::time::Duration;

use journeyman_core::code_host::{HostName, PullRepository};
use journeyman_core::ids::{Sha, WorkerId};
use journeyman_core::job::command::{Outcome, Published, Report};
use journeyman_core::job::turn::{Ending, TurnArtifacts, TurnBegun};
use journeyman_core::ports::PullStore as _;
use journeyman_core::pull::base_comparison::{BaseComparison, Conflicts};
use journeyman_core::pull::compared::COMPARISON_PAUSE;
use journeyman_core::pull::{NewPull, Pull};
use journeyman_core::run::Usage;
use journeyman_core::time::Clock as _;
use serde_json::{Value, json};
use uuid::Uuid;

use super::fixtures::{Service, service};

impl Service {
    /// Opens pull requests from these branches of the repository of `shop`.
    async fn open_pulls(&self, heads: &[&str]) {
        for head in heads {
            let new = NewPull { title: format!("Title of {head}"), head: (*head).to_owned(), ..NewPull::default() };
            let opened = self.store.open_pull("shop".into(), "main".into(), new, self.world.now()).await.unwrap();
            assert!(opened.is_some(), "{head}");
        }
    }

    /// Compares the pull requests that are due after a pause.
    async fn compare(&self) {
        self.world.advance(COMPARISON_PAUSE);
        self.cases.plan_comparisons().await.unwrap();
        self.cases.carry_out_due_comparisons().await.unwrap();
    }

    /// Carries out the message of the job that waits, which opens a pull request.
    async fn publish(&self, number: u64) {
        let claimed = self.engine.claim(WorkerId::from_uuid(Uuid::nil()), Duration::from_secs(60)).await;
        let claimed = claimed.unwrap().unwrap();
        let (sha, id, token): (Sha, _, _) = ("a".repeat(40).parse().unwrap(), claimed.job.id, claimed.lease.token);
        let begun = TurnBegun {
            branch: format!("journeyman/{number}"),
            generation: 1,
            base: sha.clone(),
            head: sha.clone(),
            pushed: None,
            default_branch: None,
            repository: None,
        };
        let (artifacts, ending) = (TurnArtifacts::default(), Ending::Done);
        let ended = Report::TurnEnded { head: sha.clone(), commits: vec![sha.clone()], artifacts, ending };
        let repository = Some(PullRepository { host: HostName("github.com".to_owned()), id: "17".to_owned() });
        let url = format!("https://github.com/acme/web/pull/{number}");
        let pull = Published::Opened(Pull { repository, ..Pull::new(number, url) }, None);
        let outcome = Outcome::Published { pushed: Some(sha), pull };
        let finished = Report::Finished { outcome, usage: Usage::default() };
        for report in [Report::TurnBegun(begun), ended, finished] {
            self.engine.report(id, token, report).await.unwrap();
        }
    }

    async fn numbers(&self, query: &str) -> (Vec<u64>, Value) {
        let page = self.get(&format!("/v2/projects/shop/pulls{query}")).await.json();
        let numbers = page["pulls"].as_array().unwrap().iter().map(|pull| pull["number"].as_u64().unwrap()).collect();
        (numbers, page["nextCursor"].clone())
    }
}

#[tokio::test]
async fn a_pull_request_is_opened_for_a_branch() {
    let service = service().await;
    let path = "/v2/projects/shop/pulls";
    let body = r#"{"head":"topic","title":"Mine","body":"Why"}"#;
    let opened = service.post(path, body).await;
    let pull = opened.json();
    assert_eq!((opened.status.as_u16(), &pull["number"], &pull["base"]), (201, &json!(1), &json!("main")), "{pull}");
    assert_eq!((&pull["title"], &pull["body"], &pull["job"]), (&json!("Mine"), &json!("Why"), &json!(null)), "{pull}");
    assert_eq!(service.post(path, body).await.status.as_u16(), 200, "a repeated request");
    for (body, status, code) in [
        (r#"{"head":"topic","title":"Other"}"#, 409, "pull_request_exists"),
        (r#"{"head":"missing","title":"x"}"#, 422, "branch_not_found"),
        (r#"{"head":"even","title":"x"}"#, 400, "invalid_body"),
        (r#"{"head":"topic"}"#, 400, "invalid_body"),
    ] {
        let refused = service.post(path, body).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (status, code.to_owned()), "{body}: {}", refused.text);
    }
}

#[tokio::test]
async fn pull_requests_are_listed_by_state_in_pages() {
    let service = service().await;
    service.open_pulls(&["a", "b", "c"]).await;
    assert_eq!(service.numbers("").await, (vec![3, 2, 1], Value::Null));
    let (first, next) = service.numbers("?limit=2").await;
    assert_eq!(first, [3, 2]);
    let next = next.as_str().unwrap().to_owned();
    assert_eq!(service.numbers(&format!("?limit=2&cursor={next}")).await, (vec![1], Value::Null));
    assert_eq!(service.numbers("?state=merged").await.0, Vec::<u64>::new());
    for query in ["?state=done", "?limit=0", "?cursor=x", "?cursor=1-99999999999999999999"] {
        assert_eq!(service.get(&format!("/v2/projects/shop/pulls{query}")).await.code(), "invalid_query", "{query}");
    }
    let pull = service.get("/v2/projects/shop/pulls").await.json()["pulls"][0].clone();
    assert_eq!((&pull["title"], &pull["base"], &pull["job"]), (&json!("Title of c"), &json!("main"), &Value::Null));
    assert_eq!(pull["url"], "http://localhost:8080/projects/shop/pulls/3");
}

#[tokio::test]
async fn a_pull_request_is_merged_once() {
    let service = service().await;
    service.open_pulls(&["a", "b"]).await;
    let merge = "/v2/projects/shop/pulls/1/merge";
    let merged = service.post(merge, "").await;
    assert_eq!((merged.status.as_u16(), merged.json()["state"].clone()), (200, json!("merged")), "{merged:?}");
    assert!(merged.json()["endedAt"].is_string());
    let pull = merged.json();
    assert_eq!((&pull["endedBy"], &pull["mergeCommit"]), (&json!("ci"), &json!("c".repeat(40))), "{pull}");
    let open = service.get("/v2/projects/shop/pulls").await.json()["pulls"][0].clone();
    assert_eq!((&open["endedBy"], &open["mergeCommit"]), (&Value::Null, &Value::Null), "{open}");
    let again = service.post(merge, "").await;
    assert_eq!((again.status.as_u16(), again.json()), (200, merged.json()), "a repetition changes nothing");
    assert_eq!(service.numbers("?state=merged").await.0, [1]);
    assert_eq!(service.numbers("").await.0, [2]);
    let audit = service.get("/v2/audit").await.json();
    let lines = audit["entries"].as_array().unwrap().iter().filter(|line| line["action"] == "pull.merged").count();
    assert_eq!(lines, 1, "{audit}");
}

#[tokio::test]
async fn the_method_of_a_merge_is_checked() {
    let service = service().await;
    service.open_pulls(&["a"]).await;
    let merge = "/v2/projects/shop/pulls/1/merge";
    for body in [r#"{"method":"octopus"}"#, r#"{"mode":"squash"}"#, "[]"] {
        assert_eq!(service.post(merge, body).await.code(), "invalid_body", "{body}");
    }
    let merged = service.post(merge, r#"{"method":"squash"}"#).await;
    assert_eq!((merged.status.as_u16(), merged.json()["state"].clone()), (200, json!("merged")), "{merged:?}");
}

#[tokio::test]
async fn a_pull_request_that_does_not_exist_is_not_found() {
    let service = service().await;
    for number in ["3", "0", "01", "+1", "x", "18446744073709551615"] {
        let path = format!("/v2/projects/shop/pulls/{number}");
        assert_eq!(service.get(&path).await.code(), "pull_request_not_found", "{number}");
        let merged = service.post(format!("{path}/merge"), "").await;
        assert_eq!(merged.code(), "pull_request_not_found", "{number}: {merged:?}");
    }
    let shown = service.get("/v2/projects/shop/pulls/1").await.json();
    assert_eq!((shown["mergeable"].clone(), shown["body"].clone()), (json!(true), json!("What and why")));
    assert_eq!(service.get("/v2/projects/zoo/pulls/1").await.code(), "project_not_found");
    assert_eq!(service.get("/v2/projects/zoo/pulls").await.code(), "project_not_found");
}

#[tokio::test]
async fn pull_requests_of_other_code_hosts_can_only_be_listed() {
    let service = service().await;
    let project = json!({ "id": "web", "repository": "https://github.com/acme/web.git" });
    assert_eq!(service.post("/v2/projects", &project.to_string()).await.status.as_u16(), 201);
    assert_eq!(service.get("/v2/projects/web/pulls").await.json(), json!({ "pulls": [], "nextCursor": null }));
    let path = "/v2/projects/web/pulls/1";
    assert_eq!(service.get(path).await.code(), "pull_requests_unsupported");
    assert_eq!(service.post(format!("{path}/merge"), "").await.code(), "pull_requests_unsupported");
}

#[tokio::test]
async fn open_pull_requests_name_their_conflicting_files() {
    let service = service().await;
    service.open_pulls(&["a", "b", "c"]).await;
    let conflicts = Conflicts { files: vec!["src/a.rs".to_owned(), "caf\\xe9".to_owned()], more: 3 };
    service.comparisons.put(1, comparison(4, conflicts));
    service.comparisons.put(2, comparison(1, Conflicts::default()));
    let before = service.get("/v2/projects/shop/pulls").await.json()["pulls"][0].clone();
    assert_eq!((&before["notCompared"], &before["comparedAt"]), (&json!("not_yet"), &Value::Null), "{before}");
    service.compare().await;
    let pulls = service.get("/v2/projects/shop/pulls").await.json()["pulls"].clone();
    let shown = |index: usize| (pulls[index]["conflicts"].clone(), pulls[index]["behind"].clone());
    assert_eq!(shown(0), (Value::Null, Value::Null), "it cannot be compared");
    assert_eq!(pulls[0]["notCompared"], "branch_missing");
    assert_eq!(shown(1), (json!({ "files": [], "more": 0 }), json!(1)));
    assert_eq!(shown(2), (json!({ "files": ["src/a.rs", "caf\\xe9"], "more": 3 }), json!(4)));
    assert_eq!(
        (&pulls[2]["notCompared"], &pulls[2]["comparedAt"]),
        (&Value::Null, &json!(service.world.now().to_string()))
    );
    let one = service.get("/v2/projects/shop/pulls/1").await.json();
    assert_eq!((&one["conflicts"], &one["behind"]), (&pulls[2]["conflicts"], &json!(4)));
    let merged = service.post("/v2/projects/shop/pulls/1/merge", "").await.json();
    assert_eq!((&merged["conflicts"], &merged["behind"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn all_pull_requests_of_a_page_on_another_code_host_have_the_stored_comparison() {
    let service = service().await;
    let project = json!({ "id": "web", "repository": "https://github.com/acme/web.git" });
    assert_eq!(service.post("/v2/projects", &project.to_string()).await.status.as_u16(), 201);
    let message = json!({ "prompt": "Fix it" }).to_string();
    for number in 1..=30 {
        let made = service.post("/v2/agent/web/job", &message).await;
        assert_eq!(made.status.as_u16(), 201, "{made:?}");
        service.publish(number).await;
        service.comparisons.put(number, comparison(number, Conflicts::default()));
    }
    // The last one is not compared in this round.
    service.compare().await;
    service.post("/v2/agent/web/job", &message).await;
    service.publish(31).await;
    service.comparisons.refuse(true);
    service.compare().await;
    let pulls = service.get("/v2/projects/web/pulls").await.json()["pulls"].clone();
    let pulls = pulls.as_array().unwrap();
    let mut behind: Vec<Option<u64>> = pulls.iter().map(|pull| pull["behind"].as_u64()).collect();
    behind.sort_unstable();
    let expected: Vec<Option<u64>> = std::iter::once(None).chain((1..=30).map(Some)).collect();
    assert_eq!(behind, expected, "an unavailable repository takes no result away");
    let unknown: Vec<_> = pulls.iter().filter(|pull| pull["notCompared"] == "not_yet").collect();
    assert_eq!(unknown.len(), 1, "{unknown:?}");
    assert_eq!(unknown[0]["number"], 31);
}

fn comparison(behind: u64, conflicts: Conflicts) -> BaseComparison {
    let [base_sha, head_sha] = ["a", "b"].map(|digit| digit.repeat(40).parse().unwrap());
    BaseComparison { base: "main".to_owned(), base_sha, head_sha, behind, conflicts }
}
