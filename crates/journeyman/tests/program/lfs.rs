//! Files in Git LFS, with the requests that git-lfs sends to the built-in code host.

use journeyman_core::lfs::{Hasher, Pointer};
use journeyman_testkit::until;
use serde_json::{Value, json};

use super::fixtures::{Service, client, site};

const TYPE: &str = "application/vnd.git-lfs+json";

fn pointer(content: &[u8]) -> Pointer {
    let mut hasher = Hasher::default();
    hasher.update(content);
    hasher.pointer()
}

/// Sends a request of git-lfs, with the key as the password of `me`.
fn send(service: &Service, method: &str, url: &str, content_type: &str, body: Vec<u8>) -> (u16, Vec<u8>) {
    let request = client().request(method.parse().unwrap(), url).basic_auth("me", Some(&service.key));
    let request = request.header("Accept", TYPE).header("Content-Type", content_type).body(body);
    let answer = request.send().unwrap();
    (answer.status().as_u16(), answer.bytes().unwrap().to_vec())
}

/// Asks for the next requests of an object.
fn batch(service: &Service, operation: &str, pointer: &Pointer) -> Value {
    let url = format!("{}/git/shop.git/info/lfs/objects/batch", service.url);
    let body = json!({
        "operation": operation, "transfers": ["lfs-standalone-file", "basic", "ssh"], "hash_algo": "sha256",
        "ref": { "name": "refs/heads/main" }, "objects": [{ "oid": pointer.oid, "size": pointer.bytes }],
    });
    let (status, body) = send(service, "POST", &url, TYPE, body.to_string().into_bytes());
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
    serde_json::from_slice::<Value>(&body).unwrap()["objects"][0].clone()
}

fn upload(service: &Service, content: &[u8]) -> Pointer {
    let pointer = pointer(content);
    let actions = batch(service, "upload", &pointer)["actions"].clone();
    let [put, verify] = ["upload", "verify"].map(|name| actions[name]["href"].as_str().unwrap().to_owned());
    let (status, _) = send(service, "PUT", &put, "application/octet-stream", content.to_vec());
    assert_eq!(status, 200);
    let body = json!({ "oid": pointer.oid, "size": pointer.bytes }).to_string().into_bytes();
    assert_eq!(send(service, "POST", &verify, TYPE, body).0, 200);
    assert_eq!(batch(service, "upload", &pointer)["actions"], Value::Null, "the host has it now");
    pointer
}

fn download(service: &Service, pointer: &Pointer) -> Vec<u8> {
    let href = batch(service, "download", pointer)["actions"]["download"]["href"].as_str().unwrap().to_owned();
    let (status, content) = send(service, "GET", &href, TYPE, Vec::new());
    assert_eq!(status, 200);
    content
}

#[test]
fn a_job_gets_the_content_of_a_file_and_publishes_a_pointer_with_its_object() {
    let site = site();
    let service = site.start();
    let old = upload(&service, b"old content");
    site.people_commit(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n");
    site.people_commit("m.bin", &old.text());
    let check = "test \"$(cat m.bin)\" = 'old content'; test -z \"$(git status --porcelain)\"";
    let job = service.create(&format!("Regenerate\n[[run {check}; printf 'new content' > m.bin]]"));
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    let new = pointer(b"new content");
    assert_eq!(site.file(&site.branch(), "m.bin"), Some(new.text()));
    assert_eq!(download(&service, &new), b"new content");
    assert_eq!(service.left_out(&job), [] as [String; 0]);
    // The object is no longer kept for the push.
    let name = job.rsplit('/').next().unwrap();
    let kept = site.path("data/blobs/bundles").join(name);
    until("the object is removed after the push", || {
        let names = std::fs::read_dir(&kept)
            .map_or_else(|_| Vec::new(), |files| files.map(|file| file.unwrap().path()).collect());
        names.iter().all(|name| name.extension().is_none_or(|end| end != "lfs")).then_some(())
    });
    // A follow-up finds its own content.
    service
        .send(&job, "Again\n[[run test \"$(cat m.bin)\" = 'new content'; printf more >> m.bin; git commit -qam own]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    let more = pointer(b"new contentmore");
    assert_eq!(site.file(&site.branch(), "m.bin"), Some(more.text()));
    assert_eq!(download(&service, &more), b"new contentmore");
}

#[test]
fn a_deleted_project_takes_its_repository_with_it() {
    let site = site();
    let service = site.start();
    upload(&service, b"content");
    let job = service.create("Look\n[[run echo 1 > b]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    let objects = site.path("data/blobs/lfs/shop");
    let mirrors = || std::fs::read_dir(site.path("data/mirrors")).unwrap().count();
    assert!(site.repository().join("HEAD").exists() && objects.exists() && mirrors() == 1);
    let object = pointer(b"content");
    let batch_url = format!("{}/git/shop.git/info/lfs/objects/batch", service.url);
    assert_eq!(service.call("DELETE", "/v2/projects/shop", None).0, 204);
    until("the repository is removed", || (!site.repository().exists() && !objects.exists()).then_some(()));
    let body = json!({ "operation": "upload", "objects": [{ "oid": object.oid, "size": object.bytes }] });
    assert_eq!(send(&service, "POST", &batch_url, TYPE, body.to_string().into_bytes()).0, 404);
    drop(service);
    let service = site.start();
    until("the duty removes the mirror", || (mirrors() == 0).then_some(()));
    drop(service);
}

#[test]
fn content_that_does_not_exist_is_told() {
    let site = site();
    let service = site.start();
    let nowhere = pointer(b"nowhere");
    site.people_commit(".gitattributes", "*.bin filter=lfs -text\n");
    site.people_commit("m.bin", &nowhere.text());
    let job = service.create("Look\n[[run grep -q oid m.bin; echo 1 > b]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    assert_eq!(service.count(&job, "checkout.incomplete"), 1);
    let events = service.events(&job);
    let told = events.as_array().unwrap().iter().find(|event| event["type"] == "checkout.incomplete").unwrap();
    assert_eq!(told["data"]["entries"][0]["path"], "m.bin", "{told}");
    let detail = told["data"]["entries"][0]["detail"].as_str().unwrap();
    assert!(detail.contains("does not have its content"), "{detail}");
}

#[test]
fn requests_that_are_wrong_are_refused_in_the_form_of_git_lfs() {
    let site = site();
    let service = site.start();
    let content = b"content";
    let object = pointer(content);
    let base = format!("{}/git/shop.git/info/lfs", service.url);
    let put = format!("{base}/objects/{}?size={}", object.oid, object.bytes);
    let many: Vec<Value> = (0..1001).map(|_| json!({ "oid": object.oid, "size": 1 })).collect();
    let json = |value: Value| value.to_string().into_bytes();
    let request = |changes: Value| {
        let mut request = json!({ "operation": "download", "objects": [] });
        request.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        json(request)
    };
    let batch_url = format!("{base}/objects/batch");
    for (method, url, body, expected) in [
        ("PUT", put.clone(), b"CONTENT".to_vec(), 422),
        ("PUT", put.clone(), b"content and more".to_vec(), 422),
        ("PUT", put.clone(), b"con".to_vec(), 422),
        ("PUT", format!("{base}/objects/{}", object.oid), content.to_vec(), 422),
        ("PUT", format!("{base}/objects/{}?size=20000000000", object.oid), content.to_vec(), 413),
        ("PUT", format!("{base}/objects/nonsense?size=7"), content.to_vec(), 404),
        ("GET", format!("{base}/objects/{}", object.oid), Vec::new(), 404),
        ("POST", format!("{base}/verify"), json(json!({ "oid": object.oid, "size": 7 })), 404),
        ("POST", format!("{base}/verify"), json(json!({ "oid": "x", "size": 7 })), 422),
        ("POST", batch_url.clone(), b"nonsense".to_vec(), 422),
        ("POST", batch_url.clone(), request(json!({ "operation": "remove" })), 422),
        ("POST", batch_url.clone(), request(json!({ "transfers": ["tus"] })), 422),
        ("POST", batch_url.clone(), request(json!({ "hash_algo": "sha512" })), 409),
        ("POST", batch_url.clone(), request(json!({ "objects": many })), 413),
        ("POST", batch_url, vec![b' '; 5 << 20], 413),
        ("POST", format!("{base}/locks/verify"), b"{}".to_vec(), 501),
        ("GET", format!("{base}/locks"), Vec::new(), 501),
        ("GET", format!("{base}/else"), Vec::new(), 404),
    ] {
        let (status, body) = send(&service, method, &url, TYPE, body);
        assert_eq!(status, expected, "{method} {url}");
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert!(body["message"].as_str().is_some_and(|text| !text.is_empty()), "{method} {url}: {body}");
    }
    let invalid = batch(&service, "upload", &Pointer { oid: "x".to_owned(), bytes: 1 });
    assert_eq!(invalid["error"]["code"], 422);
    let large = batch(&service, "upload", &Pointer { bytes: 20_000_000_000, ..object.clone() });
    assert_eq!(large["error"]["code"], 422);
    assert_eq!(batch(&service, "download", &object)["error"]["code"], 404);
    let scratch = std::fs::read_dir(site.path("data/scratch")).unwrap();
    let uploads = scratch.filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|end| end == "upload"));
    assert_eq!(uploads.count(), 0, "nothing is left of a refused upload");

    // A key that may only read downloads, and uploads nothing.
    let reader = site.succeed(&["key", "create", "--name", "reader", "--scope", "read"]).trim().to_owned();
    let reads = |method: &str, url: &str, body: Vec<u8>| {
        let request = client().request(method.parse().unwrap(), url).basic_auth("me", Some(&reader)).body(body);
        request.send().unwrap().status().as_u16()
    };
    let url = format!("{base}/objects/batch");
    assert_eq!(reads("POST", &url, request(json!({}))), 200);
    assert_eq!(reads("POST", &url, request(json!({ "operation": "upload" }))), 403);
    assert_eq!(reads("PUT", &put, content.to_vec()), 403);
    assert_eq!(client().post(&url).body(request(json!({}))).send().unwrap().status().as_u16(), 401);
}
