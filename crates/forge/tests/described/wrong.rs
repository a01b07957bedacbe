//! What the comparison with the descriptions of code hosts reports.

use http::{HeaderMap, Method};
use journeyman_testkit::code_host::{ApiRequest, Exchange, Product, Reply};
use serde_json::{Value, json};

use super::description::descriptions;
use super::exceptions::is_excepted;

fn call(product: Product, method: Method, target: &str, body: Value) -> ApiRequest {
    let prefix = match product {
        Product::Github => "/api/v3",
        Product::Gitlab => "/api/v4",
        Product::Gitea | Product::Forgejo => "/api/v1",
        Product::Bitbucket => "/2.0",
        Product::BitbucketDataCenter => "/rest",
    };
    let url = url::Url::parse(&format!("http://localhost{prefix}{target}")).unwrap();
    ApiRequest {
        method,
        target: target.to_owned(),
        segments: url.path_segments().unwrap().map(str::to_owned).collect(),
        query: url.query_pairs().into_owned().collect(),
        headers: HeaderMap::new(),
        body,
    }
}

/// Fails unless each description of the product reports the expected problem with the request; none if it is empty.
fn reports(product: Product, method: &Method, target: &str, body: &Value, expected: &str) {
    let call = call(product, method.clone(), target, body.clone());
    let exchange = Exchange { call, reply: None };
    for described in descriptions(product) {
        let mut problems = described.problems(&exchange);
        problems.retain(|problem| !is_excepted(product, &exchange.call, problem));
        let problems = problems.join("\n");
        assert_eq!(problems.is_empty(), expected.is_empty(), "{product:?} {method} {target} {body}: {problems}");
        assert!(problems.contains(expected), "{product:?} {method} {target} {body}: {problems}");
    }
}

#[test]
fn a_wrong_request_to_github_is_reported() {
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
        reports(Product::Github, &method, target, &body, expected);
    }
}

#[test]
fn a_wrong_request_to_gitlab_is_reported() {
    let pull = json!({"title": "T", "source_branch": "work", "target_branch": "main"});
    for (method, target, body, expected) in [
        (Method::POST, "/projects/7/merge_requests", pull.clone(), ""),
        (Method::GET, "/projects/acme%2Fshop/merge_requests?state=all&per_page=100", Value::Null, ""),
        (Method::PUT, "/projects/7/merge_requests/1", json!({"add_labels": "bot,ui"}), ""),
        (Method::PUT, "/projects/7/merge_requests", pull.clone(), "no such operation"),
        (Method::GET, "/projects/7/pulls", Value::Null, "no such operation"),
        (Method::GET, "/projects/7/merge_requests/one", Value::Null, "path parameter merge_request_iid"),
        (Method::GET, "/projects/7/merge_requests?state=everything", Value::Null, "query parameter state"),
        (Method::GET, "/projects/7/merge_requests?per_page=many", Value::Null, "query parameter per_page"),
        (Method::GET, "/projects/7/merge_requests?author=ada", Value::Null, "author is not described"),
        (Method::GET, "/projects/7/merge_requests", pull, "has no body"),
        (Method::POST, "/projects/7/merge_requests", Value::Null, "the body is missing"),
        (Method::POST, "/projects/7/merge_requests", json!({"title": "T"}), "is a required property"),
        (Method::POST, "/projects/7/merge_requests/1/notes", json!({"body": 1}), "at \"/body\""),
        (Method::POST, "/projects/7/statuses/abc", json!({"state": "done"}), "at \"/state\""),
        (Method::POST, "/projects/7/statuses/abc", json!({"state": "success", "text": "x"}), "'text' was unexpected"),
    ] {
        reports(Product::Gitlab, &method, target, &body, expected);
    }
}

#[test]
fn a_wrong_request_to_gitea_and_forgejo_is_reported() {
    let pull = json!({"title": "T", "head": "work", "base": "main"});
    let status = json!({"context": "journeyman", "state": "success"});
    for (method, target, body, expected) in [
        (Method::POST, "/repos/a/b/pulls", pull.clone(), ""),
        (Method::GET, "/repos/a/b/pulls?state=all&limit=50&page=1", Value::Null, ""),
        (Method::GET, "/repos/a/b/branches/work/one", Value::Null, ""),
        (Method::POST, "/repos/a/b/statuses/abc", status, ""),
        (Method::PUT, "/repos/a/b/pulls", pull.clone(), "no such operation"),
        (Method::GET, "/repos/a/b/merge-requests", Value::Null, "no such operation"),
        (Method::GET, "/repos/a/b/pulls/one", Value::Null, "path parameter index"),
        (Method::GET, "/repos/a/b/pulls?state=everything", Value::Null, "query parameter state"),
        (Method::GET, "/repos/a/b/pulls?limit=many", Value::Null, "query parameter limit"),
        (Method::GET, "/repos/a/b/pulls?author=ada", Value::Null, "author is not described"),
        (Method::GET, "/repos/a/b/pulls", pull, "has no body"),
        (Method::POST, "/repos/a/b/issues/1/comments", json!({}), "\"body\" is a required property"),
        (Method::POST, "/repos/a/b/issues/1/comments", json!({"body": 1}), "at \"/body\""),
        (Method::POST, "/repos/a/b/pulls", json!({"draft": true}), "'draft' was unexpected"),
    ] {
        for product in [Product::Gitea, Product::Forgejo] {
            reports(product, &method, target, &body, expected);
        }
    }
}

#[test]
fn a_wrong_request_to_bitbucket_is_reported() {
    let comment = json!({"content": {"raw": "Done."}});
    for (method, target, body, expected) in [
        (Method::POST, "/repositories/a/b/pullrequests/1/comments", comment.clone(), ""),
        (Method::GET, "/repositories/a/b/pullrequests?state=OPEN&state=MERGED&pagelen=50", Value::Null, ""),
        (Method::PATCH, "/repositories/a/b/pullrequests/1", comment.clone(), "no such operation"),
        (Method::GET, "/repositories/a/b/pulls", Value::Null, "no such operation"),
        (Method::GET, "/repositories/a/b/pullrequests/one", Value::Null, "path parameter pull_request_id"),
        (Method::GET, "/repositories/a/b/pullrequests?state=CLOSED", Value::Null, "query parameter state"),
        (Method::GET, "/repositories/a/b/pullrequests?author=ada", Value::Null, "author is not described"),
        (Method::GET, "/repositories/a/b/pullrequests", comment, "has no body"),
        (Method::POST, "/repositories/a/b/pullrequests/1/comments", Value::Null, "the body is missing"),
        (
            Method::POST,
            "/repositories/a/b/pullrequests/1/comments",
            json!({"content": {"raw": 1}}),
            "at \"/content/raw\"",
        ),
        (Method::POST, "/repositories/a/b/pullrequests/1/comments", json!({"text": "Done."}), "'text' was unexpected"),
        (Method::POST, "/repositories/a/b/commit/c/statuses/build", json!({"state": "DONE"}), "at \"/state\""),
    ] {
        reports(Product::Bitbucket, &method, target, &body, expected);
    }
}

#[test]
fn a_wrong_request_to_bitbucket_data_center_is_reported() {
    let pulls = "/api/latest/projects/A/repos/b/pull-requests";
    let comments = format!("{pulls}/1/comments");
    let text = json!({"text": "Done."});
    for (method, target, body, expected) in [
        (Method::POST, comments.clone(), text.clone(), ""),
        (Method::GET, format!("{pulls}?state=ALL&limit=100"), Value::Null, ""),
        (Method::PATCH, format!("{pulls}/1"), text.clone(), "no such operation"),
        (Method::GET, "/api/1.0/projects/A/repos/b".to_owned(), Value::Null, "no such operation"),
        (Method::GET, format!("{pulls}?limit=many"), Value::Null, "query parameter limit"),
        (Method::GET, format!("{pulls}?author=ada"), Value::Null, "author is not described"),
        (Method::GET, pulls.to_owned(), text, "has no body"),
        (Method::POST, comments.clone(), json!({"text": 1}), "at \"/text\""),
        (Method::POST, comments, json!({"raw": "Done."}), "'raw' was unexpected"),
    ] {
        reports(Product::BitbucketDataCenter, &method, &target, &body, expected);
    }
}

#[test]
fn a_wrong_answer_of_the_stand_in_for_github_is_reported() {
    for (status, body, expected) in [
        (200, json!({"number": 1, "merged_at": null, "user": {"login": "ada"}}), ""),
        (200, json!({"number": "1"}), "at \"/number\""),
        (200, json!({"merged_at": "today"}), "at \"/merged_at\""),
        (200, json!({"user": {"username": "ada"}}), "'username' was unexpected"),
        (201, json!({}), "status 201 is not described"),
        (401, json!({"message": "Bad credentials"}), ""),
        (404, json!({"error": "Not Found"}), "'error' was unexpected"),
    ] {
        let call = call(Product::Github, Method::GET, "/repos/a/b/pulls/1", Value::Null);
        let exchange = Exchange { call, reply: Some(Reply::json(status, &body)) };
        for described in descriptions(Product::Github) {
            let problems = described.problems(&exchange).join("\n");
            assert_eq!(problems.is_empty(), expected.is_empty(), "{status} {body}: {problems}");
            assert!(problems.contains(expected), "{status} {body}: {problems}");
        }
    }
}
