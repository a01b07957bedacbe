//! The batch API, and the transfer `basic`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::Response;
use journeyman_core::lfs::Pointer;
use journeyman_core::ports::{LfsError, LfsObjects};
use journeyman_net::Outbound;
use journeyman_testkit::{HttpCall, HttpServer};
use serde_json::{Value, json};

use crate::fixtures::{Given, pointer, remote};

type Answer = Response<Bytes>;

/// `bot:secret`.
const CREDENTIAL: &str = "Basic Ym90OnNlY3JldA==";

fn answer(status: u16, body: impl Into<Bytes>) -> Answer {
    Response::builder().status(status).body(body.into()).unwrap()
}

fn object(pointer: &Pointer, rest: &Value) -> Answer {
    let mut object = json!({ "oid": pointer.oid, "size": pointer.bytes });
    object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    answer(200, json!({ "transfer": "basic", "objects": [object] }).to_string())
}

/// An LFS server with objects.
async fn server(stored: &Arc<Mutex<BTreeMap<String, Bytes>>>) -> HttpServer {
    let stored = Arc::clone(stored);
    HttpServer::start(move |url, call, _| {
        let mut stored = stored.lock().unwrap();
        let oid = call.target.rsplit('/').next().unwrap().to_owned();
        match (call.method.as_str(), call.target.as_str()) {
            ("POST", "/a/b.git/info/lfs/objects/batch") => {
                let body = call.json();
                let objects = body["objects"].as_array().unwrap().iter().map(|asked| {
                    let (oid, href) =
                        (asked["oid"].as_str().unwrap(), format!("{url}/o/{}", asked["oid"].as_str().unwrap()));
                    let action = json!({ "href": href, "header": { "X-Key": "k", "Host": "evil" } });
                    let verify = json!({ "href": format!("{url}/verify") });
                    let mut answered = json!({ "oid": oid, "size": asked["size"] });
                    match (body["operation"].as_str().unwrap(), stored.contains_key(oid)) {
                        ("download", true) => answered["actions"] = json!({ "download": action }),
                        ("download", false) => answered["error"] = json!({ "code": 404, "message": "gone" }),
                        ("upload", false) => answered["actions"] = json!({ "upload": action, "verify": verify }),
                        _ => {}
                    }
                    answered
                });
                let objects: Vec<Value> = objects.collect();
                answer(200, json!({ "objects": objects, "hash_algo": "sha256" }).to_string())
            }
            ("GET", _) => stored.get(&oid).map_or_else(|| answer(404, ""), |content| answer(200, content.clone())),
            ("PUT", _) => {
                stored.insert(oid, call.body.clone());
                answer(200, "")
            }
            ("POST", "/verify") => {
                let is_there = stored.contains_key(call.json()["oid"].as_str().unwrap());
                answer(if is_there { 200 } else { 404 }, "")
            }
            _ => answer(405, ""),
        }
    })
    .await
}

#[tokio::test]
async fn objects_are_uploaded_verified_and_downloaded() {
    let (given, stored) = (Given::new(), Arc::default());
    let server = server(&stored).await;
    let remote = remote(&format!("{}/a/b", server.url));
    let uploads: Vec<_> = (0..150_u8).map(|byte| given.upload(&vec![byte; 1000 + usize::from(byte)])).collect();
    let objects: Vec<Pointer> = uploads.iter().map(|upload| upload.pointer.clone()).collect();
    assert_eq!(given.lfs.missing(&remote, "work", &objects).await.unwrap().len(), 150);
    given.lfs.upload(&remote, "work", &uploads).await.unwrap();
    assert_eq!(stored.lock().unwrap().len(), 150);
    assert_eq!(given.lfs.missing(&remote, "work", &objects).await, Ok(Vec::new()));
    let puts = |calls: &[HttpCall]| calls.iter().filter(|call| call.method == "PUT").count();
    given.lfs.upload(&remote, "work", &uploads).await.unwrap();
    assert_eq!(puts(&server.calls()), 150, "what the server has is not sent again");
    let unknown = pointer(b"unknown");
    let wanted = [objects.as_slice(), &[unknown.clone()]].concat();
    let failures = given.lfs.download(&remote, &wanted, &given.folder()).await.unwrap();
    assert_eq!(failures.len(), 1);
    assert_eq!((&failures[0].pointer, &failures[0].error), (&unknown, &LfsError::Missing));
    for upload in &uploads {
        assert_eq!(given.downloaded(&upload.pointer), std::fs::read(&upload.file).ok());
    }
    let batches: Vec<HttpCall> = server.calls().into_iter().filter(|call| call.target.ends_with("/batch")).collect();
    for call in &batches {
        let body = call.json();
        assert!(body["objects"].as_array().unwrap().len() <= 100);
        assert_eq!((&body["transfers"], &body["hash_algo"]), (&json!(["basic"]), &json!("sha256")));
        assert_eq!((call.header("accept"), call.header("content-type")), (TYPE, TYPE));
        assert_eq!(call.header("authorization"), CREDENTIAL);
        let branch = if body["operation"] == "upload" { json!({ "name": "refs/heads/work" }) } else { Value::Null };
        assert_eq!(body["ref"], branch);
    }
    for call in server.calls().iter().filter(|call| call.method == "PUT") {
        assert_eq!(call.header("content-length"), call.body.len().to_string());
        assert_eq!(call.header("x-key"), "k");
        assert_ne!(call.header("host"), "evil");
        assert_eq!(call.header("authorization"), CREDENTIAL, "the origin is that of the repository");
    }
}

const TYPE: &str = "application/vnd.git-lfs+json";

#[tokio::test]
async fn another_server_gets_the_headers_of_the_action_and_never_the_credential() {
    let given = Given::new();
    let content = b"content";
    let object_of = pointer(content);
    let store = HttpServer::start(move |_, call, _| match call.method.as_str() {
        "GET" => answer(200, content.as_slice()),
        _ => answer(200, ""),
    })
    .await;
    let (href, wanted) = (format!("{}/bucket/1?signature=s", store.url), object_of.clone());
    let front = HttpServer::start(move |url, call, _| match (call.method.as_str(), call.target.as_str()) {
        ("POST", _) => {
            let header = json!({ "X-Amz-Key": "given" });
            let (there, here) = (json!({ "href": href, "header": header }), json!({ "href": format!("{url}/moved") }));
            match call.json()["operation"].as_str().unwrap() {
                // A redirect of the repository's own server leads there, too.
                "download" => object(&wanted, &json!({ "actions": { "download": here } })),
                _ => object(&wanted, &json!({ "actions": { "upload": there } })),
            }
        }
        _ => Response::builder().status(302).header("location", &href).body(Bytes::new()).unwrap(),
    })
    .await;
    let remote = remote(&format!("{}/a/b", front.url));
    given.lfs.upload(&remote, "work", &[given.upload(content)]).await.unwrap();
    assert_eq!(given.lfs.download(&remote, &[object_of.clone()], &given.folder()).await, Ok(Vec::new()));
    assert_eq!(given.downloaded(&object_of).unwrap(), content);
    let calls = store.calls();
    assert_eq!(calls.iter().map(|call| call.method.as_str()).collect::<Vec<_>>(), ["PUT", "GET"]);
    assert!(calls.iter().all(|call| call.header("authorization").is_empty()), "{calls:?}");
    assert_eq!(calls[0].header("x-amz-key"), "given");
    assert_eq!(calls[0].body, content.as_slice());
    let own = front.calls();
    assert_eq!(own.iter().filter(|call| call.header("authorization") == CREDENTIAL).count(), 3, "{own:?}");
}

#[tokio::test]
async fn content_that_does_not_match_is_refused() {
    for (sent, expected) in [
        ("wrong!!", "hash"),
        ("content and more", "it has 16 bytes instead of 7"),
        ("cont", "it has 4 bytes instead of 7"),
        ("", "it has 0 bytes instead of 7"),
    ] {
        let (given, wanted) = (Given::new(), pointer(b"content"));
        let known = wanted.clone();
        let server = HttpServer::start(move |url, call, _| match call.method.as_str() {
            "GET" => answer(200, sent),
            _ => object(&known, &json!({ "actions": { "download": { "href": format!("{url}/o") } } })),
        })
        .await;
        let remote = remote(&format!("{}/a/b", server.url));
        let failures = given.lfs.download(&remote, &[wanted.clone()], &given.folder()).await.unwrap();
        assert!(failures[0].error.to_string().contains(expected), "{failures:?}");
        assert_eq!(given.downloaded(&wanted), None);
        let gets = server.calls().iter().filter(|call| call.method == "GET").count();
        assert_eq!(gets, 1, "{sent}: it is not repeated");
    }
}

#[tokio::test]
async fn what_may_pass_is_repeated() {
    let (given, wanted) = (Given::new(), pointer(b"content"));
    let known = wanted.clone();
    let server = HttpServer::start(move |url, call, number| match (number, call.method.as_str()) {
        (0, _) => answer(503, ""),
        (2, "GET") => answer(500, json!({ "message": "try again" }).to_string()),
        (_, "GET") => answer(200, b"content".as_slice()),
        _ => object(&known, &json!({ "actions": { "download": { "href": format!("{url}/o") } } })),
    })
    .await;
    let remote = remote(&format!("{}/a/b", server.url));
    assert_eq!(given.lfs.download(&remote, &[wanted.clone()], &given.folder()).await, Ok(Vec::new()));
    assert_eq!(given.downloaded(&wanted).unwrap(), b"content");
    assert_eq!(server.calls().len(), 5);
}

#[tokio::test]
async fn a_refused_batch_says_why() {
    type Check = fn(&LfsError) -> bool;
    let cases: [(u16, Check, usize); 8] = [
        (401, |error| matches!(error, LfsError::Credential(_)), 1),
        (403, |error| matches!(error, LfsError::Denied(text) if text == "HTTP 403"), 1),
        (404, |error| matches!(error, LfsError::Unsupported(_)), 1),
        (501, |error| matches!(error, LfsError::Unsupported(_)), 1),
        (422, |error| matches!(error, LfsError::Refused(_)), 1),
        (507, |error| matches!(error, LfsError::Refused(_)), 1),
        (429, LfsError::may_pass, 3),
        (502, LfsError::may_pass, 3),
    ];
    for (status, is_expected, calls) in cases {
        let given = Given::new();
        let body = json!({ "message": "over\nquota" }).to_string();
        let server = HttpServer::start(move |_, _, _| answer(status, body.clone())).await;
        let remote = remote(&format!("{}/a/b", server.url));
        let upload = given.upload(b"content");
        let error = given.lfs.upload(&remote, "work", &[upload.clone()]).await.unwrap_err();
        assert!(is_expected(&error), "{status}: {error:?}");
        assert_eq!(server.calls().len(), calls, "{status}");
        let error = given.lfs.missing(&remote, "work", &[upload.pointer.clone()]).await.unwrap_err();
        assert!(is_expected(&error), "{status}: {error:?}");
        let error = given.lfs.download(&remote, &[upload.pointer], &given.folder()).await.unwrap_err();
        assert!(is_expected(&error), "{status}: {error:?}");
    }
}

#[tokio::test]
async fn an_answer_that_is_not_understood_is_no_server() {
    for body in ["<html>", "{\"objects\":[],\"transfer\":\"tus\"}", "{\"objects\":[],\"hash_algo\":\"md5\"}"] {
        let given = Given::new();
        let server = HttpServer::start(move |_, _, _| answer(200, body)).await;
        let remote = remote(&format!("{}/a/b", server.url));
        let error = given.lfs.missing(&remote, "work", &[pointer(b"x")]).await.unwrap_err();
        assert!(matches!(error, LfsError::Unsupported(_)), "{body}: {error:?}");
    }
    let given = Given::new();
    let server = HttpServer::start(|_, _, _| answer(200, "{\"objects\":[]}")).await;
    let remote = remote(&format!("{}/a/b", server.url));
    let error = given.lfs.missing(&remote, "work", &[pointer(b"x")]).await.unwrap_err();
    assert!(matches!(&error, LfsError::Refused(text) if text.contains("did not answer")), "{error:?}");
}

#[tokio::test]
async fn the_error_of_an_object_is_told() {
    for (code, expected) in [(404, "refused the request: code 404"), (403, "denied"), (422, "refused"), (500, "failed")]
    {
        let (given, upload) = (Given::new(), Given::new().upload(b"content"));
        let known = upload.pointer.clone();
        let error = json!({ "error": { "code": code, "message": "no" } });
        let server = HttpServer::start(move |_, _, _| object(&known, &error)).await;
        let remote = remote(&format!("{}/a/b", server.url));
        let error = given.lfs.upload(&remote, "work", &[upload.clone()]).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{code}: {error}");
        let failures = given.lfs.missing(&remote, "work", &[upload.pointer]).await.unwrap();
        assert!(failures[0].error.to_string().contains(expected), "{code}: {failures:?}");
    }
}

#[tokio::test]
async fn a_failed_upload_and_a_failed_verification_are_errors() {
    for (put, verify, expected) in [(403, 200, "denied"), (413, 200, "refused"), (200, 422, "refused")] {
        let given = Given::new();
        let upload = given.upload(b"content");
        let known = upload.pointer.clone();
        let server = HttpServer::start(move |url, call, _| match (call.method.as_str(), call.target.as_str()) {
            ("PUT", _) => answer(put, ""),
            ("POST", "/verify") => answer(verify, ""),
            _ => {
                let [up, check] = ["o", "verify"].map(|path| json!({ "href": format!("{url}/{path}") }));
                object(&known, &json!({ "actions": { "upload": up, "verify": check } }))
            }
        })
        .await;
        let remote = remote(&format!("{}/a/b", server.url));
        let error = given.lfs.upload(&remote, "work", &[upload]).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{put} {verify}: {error}");
    }
}

#[tokio::test]
async fn a_redirected_batch_keeps_the_credential_on_its_server() {
    let (given, wanted) = (Given::new(), pointer(b"content"));
    let other = HttpServer::start(|_, _, _| answer(200, "{\"objects\":[]}")).await;
    let away = format!("{}/x", other.url);
    let server = HttpServer::start(move |_, call, _| {
        let location = if call.target.starts_with("/a/") { "/new/b.git/info/lfs/objects/batch" } else { away.as_str() };
        Response::builder().status(307).header("location", location).body(Bytes::new()).unwrap()
    })
    .await;
    let remote = remote(&format!("{}/a/b", server.url));
    let error = given.lfs.missing(&remote, "work", &[wanted]).await.unwrap_err();
    assert!(matches!(&error, LfsError::Unsupported(text) if text.contains("redirects")), "{error:?}");
    assert_eq!((server.calls().len(), other.calls().len()), (2, 0));
}

#[tokio::test]
async fn a_server_can_lead_neither_to_a_metadata_service_nor_in_circles() {
    for (href, expected) in [
        ("http://169.254.169.254/latest", "only private or link-local addresses"),
        ("ftp://example.com/x", "does not use https"),
        ("nonsense", "malformed URL"),
        ("self", "redirected more than"),
    ] {
        let (given, wanted) = (Given::new(), pointer(b"content"));
        let known = wanted.clone();
        let server = HttpServer::start(move |url, call, _| match call.method.as_str() {
            "GET" => Response::builder().status(302).header("location", "/again").body(Bytes::new()).unwrap(),
            _ => {
                let href = if href == "self" { format!("{url}/o") } else { href.to_owned() };
                object(&known, &json!({ "actions": { "download": { "href": href } } }))
            }
        })
        .await;
        let remote = remote(&format!("{}/a/b", server.url));
        let failures = given.lfs.download(&remote, &[wanted], &given.folder()).await.unwrap();
        let text = failures[0].error.to_string();
        assert!(text.contains(expected) && !text.contains("secret"), "{href}: {text}");
    }
}

#[tokio::test]
async fn the_rule_for_the_repository_extends_to_no_other_server() {
    for is_redirect in [false, true] {
        let inside = HttpServer::start(|_, _, _| answer(200, "content")).await;
        let (given, wanted) = (Given::new(), pointer(b"content"));
        let (known, away) = (wanted.clone(), format!("{}/secret", inside.url));
        let server = HttpServer::start(move |url, call, _| match call.method.as_str() {
            "GET" => Response::builder().status(302).header("location", &away).body(Bytes::new()).unwrap(),
            _ => {
                let href = if is_redirect { format!("{url}/o") } else { away.clone() };
                object(&known, &json!({ "actions": { "download": { "href": href } } }))
            }
        })
        .await;
        let remote = remote(&format!("{}/a/b", server.url));
        let strict = given.lfs.clone().with_outbound(Outbound::default());
        let failures = strict.download(&remote, &[wanted.clone()], &given.folder()).await.unwrap();
        assert!(failures[0].error.to_string().contains("code-host-networks"), "{:?}", failures[0].error);
        assert_eq!((inside.calls().len(), given.downloaded(&wanted)), (0, None));
        // The control: the operator has allowed the network.
        assert_eq!(given.lfs.download(&remote, &[wanted.clone()], &given.folder()).await, Ok(Vec::new()));
        assert_eq!(given.downloaded(&wanted).unwrap(), b"content");
    }
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_may_pass() {
    let given = Given::new();
    let error = given.lfs.missing(&remote("http://127.0.0.1:9/a"), "work", &[pointer(b"x")]).await.unwrap_err();
    assert!(error.may_pass(), "{error:?}");
}
