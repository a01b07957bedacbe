//! Tests of what integrations ask: details, lists with filters, pages, deletion, usage, and models.

use journeyman_core::ports::KeyStore;
use serde_json::{Value, json};

use super::fixtures::{Answer, Service, service};

/// Creates a job in `shop`, and returns its ID.
async fn create(service: &Service, body: Value) -> String {
    let made = service.post("/v2/agent/shop/job", &body.to_string()).await;
    assert_eq!(made.status.as_u16(), 201, "{made:?}");
    made.json()["id"].as_str().unwrap().to_owned()
}

async fn delete(service: &Service, path: &str) -> Answer {
    service.call("DELETE", path, "", |_| {}).await
}

fn ids(page: &Answer) -> Vec<String> {
    let page = page.json();
    page["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn the_details_have_the_labels_and_the_metadata_of_the_creation() {
    let service = service().await;
    let body = json!({"prompt": "a", "labels": ["ui", "bug", "bug"], "metadata": {"ticket": "S-1", "empty": ""}});
    let id = create(&service, body).await;
    let details = service.get(&format!("/v2/agent/shop/job/{id}/details")).await.json();
    assert_eq!(details["labels"], json!(["bug", "ui"]));
    assert_eq!(details["metadata"], json!({"empty": "", "ticket": "S-1"}));
    assert_eq!((details["author"].clone(), details["project"].clone()), (json!("ci"), json!("shop")));
    assert_eq!(details["source"], json!({"repository": "local:shop", "ref": "HEAD"}));
    assert_eq!((details["revision"].clone(), details["pullRequests"].clone()), (json!(1), json!([])));
    let none = json!({"inputTokens": 0, "outputTokens": 0, "cachedTokens": 0, "costMicros": null,
        "estimatedMicros": 0});
    assert_eq!((details["usage"].clone(), details["checks"].clone()), (none, Value::Null));
    service.post(&format!("/v2/agent/shop/job/{id}/message"), r#"{"prompt":"b"}"#).await;
    let details = service.get(&format!("/v2/agent/shop/job/{id}/details")).await.json();
    assert_eq!(details["revision"], 2, "a message changes the revision");
    let plain = create(&service, json!({"prompt": "b"})).await;
    let details = service.get(&format!("/v2/agent/shop/job/{plain}/details")).await.json();
    assert_eq!((details["labels"].clone(), details["metadata"].clone()), (json!([]), json!({})));
}

#[tokio::test]
async fn labels_and_metadata_that_are_not_valid_are_refused() {
    let service = service().await;
    for (fields, part) in [
        (json!({"labels": [""]}), "labels: "),
        (json!({"labels": ["a".repeat(51)]}), "1 to 50 characters"),
        (json!({"labels": (0..21).map(|number| number.to_string()).collect::<Vec<_>>()}), "at most 20, not 21"),
        (json!({"labels": "bug"}), "labels: "),
        (json!({"metadata": {"a b": "c"}}), "the key \"a b\" is not valid"),
        (json!({"metadata": {"key": "v".repeat(501)}}), "metadata.key: "),
        (json!({"metadata": {"key": 7}}), "metadata.key: "),
    ] {
        let mut body = fields.clone();
        body["prompt"] = json!("a");
        let refused = service.post("/v2/agent/shop/job", &body.to_string()).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (400, "invalid_body".to_owned()), "{fields}");
        assert!(refused.text.contains(&part.replace('"', "\\\"")), "{fields}: {}", refused.text);
    }
    assert_eq!(ids(&service.get("/v2/jobs").await), Vec::<String>::new(), "nothing was stored");
}

#[tokio::test]
async fn jobs_are_listed_by_their_properties() {
    let service = service().await;
    service.post("/v2/projects", r#"{"id":"zoo","repository":"local:zoo"}"#).await;
    let first = create(&service, json!({"prompt": "a", "labels": ["bug"], "metadata": {"ticket": "S:1"}})).await;
    let second = create(&service, json!({"prompt": "b", "labels": ["bug", "ui"], "branch": "topic"})).await;
    let made = service.post("/v2/agent/zoo/job", r#"{"prompt":"c","labels":["bug"],"agent":"other"}"#).await.json();
    let third = made["id"].as_str().unwrap().to_owned();
    let all = [&third, &second, &first];
    for (query, expected) in [
        ("", vec![all[0], all[1], all[2]]),
        ("?label=bug", vec![all[0], all[1], all[2]]),
        ("?label=bug&label=ui", vec![all[1]]),
        ("?metadata=ticket:S:1", vec![all[2]]),
        ("?metadata=ticket:S", vec![]),
        ("?agent=other", vec![all[0]]),
        ("?author=ci&label=ui", vec![all[1]]),
        ("?author=unknown", vec![]),
        ("?branch=topic", vec![all[1]]),
        ("?pullRequest=7", vec![]),
        ("?status=completed", vec![]),
        ("?q=B", vec![all[1]]),
        ("?limit=2", vec![all[0], all[1]]),
    ] {
        let found = ids(&service.get(&format!("/v2/jobs{query}")).await);
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{query}");
    }
    let page = service.get("/v2/jobs?limit=2").await.json();
    let next = page["nextCursor"].as_str().unwrap();
    let rest = service.get(&format!("/v2/jobs?limit=2&cursor={next}")).await;
    assert_eq!((ids(&rest), rest.json()["nextCursor"].clone()), (vec![first.clone()], Value::Null));
    assert_eq!(ids(&service.get("/v2/projects/zoo/jobs?label=bug").await), std::slice::from_ref(&third));
    assert_eq!(ids(&service.get("/v2/agent/shop/jobs?label=ui").await), [second], "records are selected too");
    for (query, part) in [
        ("label=a%00b", "label"),
        ("metadata=x", "key:value"),
        ("pullRequest=x", "pullRequest"),
        ("pullRequest=9007199254740992", "pullRequest"),
        ("status=none", "status"),
        ("limit=0", "limit"),
        ("cursor=x", "cursor"),
    ] {
        let refused = service.get(&format!("/v2/jobs?{query}")).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (400, "invalid_query".to_owned()), "{query}");
        assert!(refused.text.contains(part), "{query}: {}", refused.text);
    }
    let limited = service.make_key(|new| new.projects = Some(vec!["zoo".parse().unwrap()])).await;
    let as_limited = async |path: &str| {
        let bearer = format!("Bearer {limited}").parse().unwrap();
        service.call("GET", path, "", |request| drop(request.headers_mut().insert("authorization", bearer))).await
    };
    assert_eq!(ids(&as_limited("/v2/jobs").await), [third], "only jobs of projects that the key may see");
    assert_eq!(as_limited("/v2/projects/shop/jobs").await.status.as_u16(), 404);
}

#[tokio::test]
async fn a_job_at_rest_is_deleted_once_and_again() {
    let service = service().await;
    let id = create(&service, json!({"prompt": "a"})).await;
    let path = format!("/v2/agent/shop/job/{id}");
    let active = delete(&service, &path).await;
    assert_eq!((active.status.as_u16(), active.code()), (409, "job_busy".to_owned()));
    assert!(active.text.contains("cancel or archive it"), "{}", active.text);
    service.post(format!("{path}/cancel"), "").await;
    let tag = service.get(&path).await.header("etag").to_owned();
    let with = async |tag: &str| {
        let tag = tag.parse().unwrap();
        service.call("DELETE", &path, "", |request| drop(request.headers_mut().insert("if-match", tag))).await
    };
    let stale = with("\"other\"").await;
    assert_eq!((stale.status.as_u16(), stale.code()), (412, "precondition_failed".to_owned()));
    let reader = service.make_key(|new| new.scopes = vec![journeyman_core::key::Scope::Jobs]).await;
    let bearer = format!("Bearer {reader}").parse().unwrap();
    let forbidden =
        service.call("DELETE", &path, "", |request| drop(request.headers_mut().insert("authorization", bearer))).await;
    assert_eq!((forbidden.status.as_u16(), forbidden.code()), (403, "scope_missing".to_owned()));
    let gone = with(&tag).await;
    assert_eq!((gone.status.as_u16(), gone.text.as_str()), (204, ""));
    assert_eq!(service.get(&path).await.code(), "job_not_found");
    assert_eq!(delete(&service, &path).await.status.as_u16(), 204, "a repetition has the same answer");
    let actions: Vec<String> =
        service.store.audit(None, 9).await.unwrap().into_iter().map(|line| line.entry.action).collect();
    assert_eq!(actions.iter().filter(|action| *action == "job.deleted").count(), 1, "{actions:?}");
    let unknown = delete(&service, &format!("/v2/agent/shop/job/job_{}", "0".repeat(32))).await;
    assert_eq!((unknown.status.as_u16(), unknown.code()), (404, "job_not_found".to_owned()));
    service.post("/v2/projects", r#"{"id":"zoo","repository":"local:zoo"}"#).await;
    let twice = [delete(&service, "/v2/projects/zoo").await, delete(&service, "/v2/projects/zoo").await];
    assert_eq!(twice.map(|answer| answer.status.as_u16()), [204, 204]);
    assert_eq!(delete(&service, "/v2/projects/none").await.code(), "project_not_found");
}

#[tokio::test]
async fn every_list_comes_in_pages() {
    let service = service().await;
    let id = create(&service, json!({"prompt": "first"})).await;
    let job = format!("/v2/agent/shop/job/{id}");
    for number in 0..4 {
        service.post(format!("{job}/message"), &json!({ "prompt": format!("{number}") }).to_string()).await;
        service.post("/v2/projects", &json!({"id": format!("p{number}"), "repository": "local:p"}).to_string()).await;
        service.make_key(|_| {}).await;
        service.world.advance(std::time::Duration::from_secs(1));
    }
    service.work().await;
    for (path, field, count) in [
        (format!("{job}/messages"), "messages", 5),
        (format!("{job}/runs"), "runs", 5),
        ("/v2/projects".to_owned(), "projects", 5),
        ("/v2/keys".to_owned(), "keys", 5),
    ] {
        let all = service.get(&path).await.json();
        assert_eq!((all[field].as_array().unwrap().len(), all["nextCursor"].clone()), (count, Value::Null), "{path}");
        let mut seen = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = service.get(&format!("{path}?limit=2{cursor}")).await.json();
            seen.extend(page[field].as_array().unwrap().clone());
            let Some(next) = page["nextCursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(json!(seen), all[field], "{path}");
        for wrong in ["limit=101", "limit=x"] {
            assert_eq!(service.get(&format!("{path}?{wrong}")).await.code(), "invalid_query", "{path}: {wrong}");
        }
    }
    for path in [format!("{job}/messages"), format!("{job}/runs"), "/v2/keys".to_owned(), format!("{job}/pulls")] {
        assert_eq!(service.get(&format!("{path}?cursor=x")).await.code(), "invalid_query", "{path}");
    }
}

#[tokio::test]
async fn a_page_of_large_messages_ends_early() {
    let service = service().await;
    let large = "ä".repeat(90_000);
    let id = create(&service, json!({ "prompt": large })).await;
    for _ in 0..7 {
        service.post(format!("/v2/agent/shop/job/{id}/message"), &json!({ "prompt": large }).to_string()).await;
    }
    let path = format!("/v2/agent/shop/job/{id}/messages");
    let page = service.get(&path).await;
    let first = page.json();
    assert_eq!(first["messages"].as_array().unwrap().len(), 6, "the messages of 1 MiB");
    let next = first["nextCursor"].as_str().unwrap();
    let rest = service.get(&format!("{path}?cursor={next}")).await.json();
    assert_eq!((rest["messages"].as_array().unwrap().len(), rest["nextCursor"].clone()), (2, Value::Null));
}

#[tokio::test]
async fn usage_is_reported_as_json_and_as_a_table() {
    let service = service().await;
    let empty = service.get("/v2/usage").await.json();
    assert_eq!((empty["lines"].as_array().unwrap().len(), empty["total"]["runs"].clone()), (1, json!(0)));
    create(&service, json!({"prompt": "a"})).await;
    create(&service, json!({"prompt": "b"})).await;
    service.work().await;
    let report = service.get("/v2/usage?groupBy=day&groupBy=project&groupBy=key").await.json();
    let line = &report["lines"][0];
    assert_eq!((line["day"].clone(), line["project"].clone()), (report["to"].clone(), json!("shop")));
    assert_eq!(
        (line["keyName"].clone(), line["model"].clone(), line["runs"].clone()),
        (json!("ci"), json!(null), json!(2))
    );
    assert_eq!((report["total"]["runs"].clone(), report["total"]["costMicros"].clone()), (json!(2), json!(0)));
    let key = line["key"].as_str().unwrap();
    let of_key = service.get(&format!("/v2/usage?key={key}&project=shop")).await.json();
    assert_eq!(of_key["total"]["runs"], 2);
    assert_eq!(service.get("/v2/usage?project=zoo&project=%00").await.json()["total"]["runs"], 0);
    assert_eq!(service.get("/v2/usage?model=test%2Fscripted&author=ci").await.json()["total"]["runs"], 2);
    let table = service.get("/v2/usage?groupBy=project&format=csv").await;
    assert_eq!(table.header("content-type"), "text/csv; charset=utf-8; header=present");
    let head = "day,project,model,author,key,keyName,runs,inputTokens,outputTokens,cachedTokens,costMicros,unpriced,\
                estimatedMicros";
    assert_eq!(table.text, format!("{head}\r\n,shop,,,,,2,0,0,0,0,0,0\r\n"));
    let accepts = |request: &mut axum::http::Request<axum::body::Body>| {
        request.headers_mut().insert("accept", "text/csv".parse().unwrap());
    };
    let accepted = service.call("GET", "/v2/usage?groupBy=project", "", accepts).await;
    assert_eq!(accepted.text, table.text);
    for (query, part) in [
        ("from=2026-13-01", "from"),
        ("to=yesterday", "to: \\\"yesterday\\\""),
        ("from=2026-11-02&to=2026-11-01", "from: must not be after to"),
        ("groupBy=color", "groupBy"),
        ("key=x", "key"),
        ("format=xml", "format"),
    ] {
        let refused = service.get(&format!("/v2/usage?{query}")).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (400, "invalid_query".to_owned()), "{query}");
        assert!(refused.text.contains(part), "{query}: {}", refused.text);
    }
    let limited = service.make_key(|new| new.projects = Some(vec!["zoo".parse().unwrap()])).await;
    let bearer = format!("Bearer {limited}").parse().unwrap();
    let own = service
        .call("GET", "/v2/usage?project=shop", "", |request| {
            drop(request.headers_mut().insert("authorization", bearer))
        })
        .await;
    assert_eq!(own.json()["total"]["runs"], 0, "a key does not see the usage of other projects");
}

#[tokio::test]
async fn the_models_are_those_of_the_configured_providers() {
    let service = service().await;
    let listed = service.get("/v2/models").await.json();
    let price = json!({
        "model": "anthropic/claude-*",
        "inputMicros": 3_000_000,
        "outputMicros": 15_000_000,
        "cachedMicros": 300_000,
        "cacheWrittenMicros": 3_750_000,
        "cacheWrittenLongMicros": 6_000_000,
    });
    let provider = json!({
        "id": "anthropic",
        "dialect": "anthropic",
        "ready": true,
        "keyVariable": "ANTHROPIC_API_KEY",
        "contextTokens": 200_000,
        "prices": [price],
        "pricesDate": "2026-11-20",
    });
    assert_eq!(listed, json!({ "providers": [provider] }));
}
