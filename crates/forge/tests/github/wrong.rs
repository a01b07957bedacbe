//! What the comparison with GitHub's descriptions reports.

use http::{HeaderMap, Method};
use journeyman_testkit::code_host::{Call, Exchange, Reply};
use serde_json::{Value, json};

use super::described::descriptions;

fn call(method: Method, target: &str, body: Value) -> Call {
    let url = url::Url::parse("http://localhost/api/v3").unwrap();
    let url = url.join(&format!("/api/v3{target}")).unwrap();
    Call {
        method,
        target: target.to_owned(),
        segments: url.path_segments().unwrap().map(str::to_owned).collect(),
        query: url.query_pairs().into_owned().collect(),
        headers: HeaderMap::new(),
        body,
    }
}

#[test]
fn a_wrong_request_is_reported() {
    let pull = json!({"title": "T", "head": "work", "base": "main"});
    let with = |name: &str, value: Value| {
        let mut changed = pull.clone();
        changed[name] = value;
        changed
    };
    for (method, target, body, expected) in [
        (Method::POST, "/repos/a/b/pulls", pull.clone(), ""),
        (Method::POST, "/repositories/1/pulls", pull.clone(), ""),
        (Method::GET, "/repos/a/b/pulls?state=all&per_page=100", Value::Null, ""),
        (Method::GET, "/repos/a/b/issues?since=2026-01-01T00:00:00Z", Value::Null, ""),
        (Method::PUT, "/repos/a/b/pulls", pull.clone(), "no such operation"),
        (Method::GET, "/repos/a/b/merge-requests", Value::Null, "no such operation"),
        (Method::GET, "/repos/a/b/pulls/one", Value::Null, "path parameter pull_number"),
        (Method::GET, "/repos/a/b/pulls?state=everything", Value::Null, "query parameter state"),
        (Method::GET, "/repos/a/b/pulls?per_page=many", Value::Null, "query parameter per_page"),
        (Method::GET, "/repos/a/b/pulls?author=ada", Value::Null, "author is not described"),
        (Method::GET, "/repos/a/b/issues?since=today", Value::Null, "query parameter since"),
        (Method::GET, "/repos/a/b/pulls", pull.clone(), "has no body"),
        (Method::POST, "/repos/a/b/pulls", Value::Null, "the body is missing"),
        (Method::POST, "/repos/a/b/pulls", json!({"title": "T", "head": "work"}), "\"base\" is a required property"),
        (Method::POST, "/repos/a/b/pulls", with("draft", json!("yes")), "at \"/draft\""),
        (Method::POST, "/repos/a/b/pulls", with("labels", json!(["x"])), "'labels' was unexpected"),
    ] {
        let exchange = Exchange { call: call(method.clone(), target, body.clone()), reply: None };
        for described in descriptions() {
            let problems = described.problems(&exchange).join("\n");
            assert_eq!(problems.is_empty(), expected.is_empty(), "{method} {target} {body}: {problems}");
            assert!(problems.contains(expected), "{method} {target} {body}: {problems}");
        }
    }
}

#[test]
fn a_wrong_answer_of_the_stand_in_is_reported() {
    for (status, body, expected) in [
        (200, json!({"number": 1, "merged_at": null, "user": {"login": "ada"}}), ""),
        (200, json!({"number": "1"}), "at \"/number\""),
        (200, json!({"merged_at": "today"}), "at \"/merged_at\""),
        (200, json!({"user": {"username": "ada"}}), "'username' was unexpected"),
        (201, json!({}), "status 201 is not described"),
        (401, json!({"message": "Bad credentials"}), ""),
        (404, json!({"error": "Not Found"}), "'error' was unexpected"),
    ] {
        let call = call(Method::GET, "/repos/a/b/pulls/1", Value::Null);
        let exchange = Exchange { call, reply: Some(Reply::json(status, &body)) };
        for described in descriptions() {
            let problems = described.problems(&exchange).join("\n");
            assert_eq!(problems.is_empty(), expected.is_empty(), "{status} {body}: {problems}");
            assert!(problems.contains(expected), "{status} {body}: {problems}");
        }
    }
}
