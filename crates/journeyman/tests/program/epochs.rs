//! Tests of the whole program after a restore: identities of the lost history are given to nothing else.

use std::path::Path;

use serde_json::{Value, json};

use super::fixtures::{Service, Site, client, site};

/// Makes a backup of the running service; returns its folder.
fn back_up(site: &Site) -> std::path::PathBuf {
    let backup = site.path("backup");
    site.succeed(&["backup", backup.to_str().unwrap()]);
    backup
}

/// Restores a backup into a new installation.
fn restored(site: &Site, backup: &Path) -> Site {
    let other = site.new_installation(&[]);
    std::fs::create_dir_all(other.path("data")).unwrap();
    std::fs::copy(site.path("data/master.key"), other.path("data/master.key")).unwrap();
    other.succeed(&["restore", backup.to_str().unwrap()]);
    other
}

/// Does work of a job; returns the URL of its pull request without the address of the service.
fn pull_of(service: &Service, prompt: &str) -> String {
    let record = service.settled(&service.create(prompt));
    assert_eq!(record["status"], "completed", "{record}");
    let url = record["prLink"].as_str().unwrap();
    url[url.find("/projects/").unwrap()..].to_owned()
}

/// Sends a request with a condition, or with none; returns the status, the entity tag and the body.
fn conditional(service: &Service, method: &str, path: &str, tag: &str, body: Option<&Value>) -> (u16, String, Value) {
    let request = client().request(method.parse().unwrap(), format!("{}{path}", service.url)).bearer_auth(&service.key);
    let request = if tag.is_empty() { request } else { request.header("if-match", tag) };
    let request = body.into_iter().fold(request, |request, body| request.json(body));
    let answer = request.send().unwrap();
    let tag = answer.headers().get("etag").map(|tag| tag.to_str().unwrap().to_owned()).unwrap_or_default();
    (answer.status().as_u16(), tag, serde_json::from_str(&answer.text().unwrap()).unwrap_or_default())
}

#[test]
fn a_pull_request_never_gets_the_number_of_one_that_a_restore_has_lost() {
    let site = site();
    let service = site.start();
    assert_eq!(pull_of(&service, "[[write a.txt|a]]"), "/projects/shop/pulls/1");
    let backup = back_up(&site);
    assert_eq!(pull_of(&service, "[[write b.txt|b]]"), "/projects/shop/pulls/2");
    service.kill();

    let other = restored(&site, &backup);
    let service = other.start();
    let kept = service.get("/v2/projects/shop/pulls")["pulls"].take();
    assert!(kept.as_array().unwrap().len() == 1 && kept[0]["number"] == 1, "{kept:#}");
    let next = pull_of(&service, "[[write c.txt|c]]");
    let number: u64 = next.rsplit('/').next().unwrap().parse().unwrap();
    assert!(number > 1_000_000, "{next}");
    let shown = service.get(&format!("/v2/projects/shop/pulls/{number}"));
    assert_eq!(shown["number"], number, "{shown:#}");
    let page = |path: &str| service.page(&other, &format!("{}{path}", service.url)).0;
    assert_eq!(page(&next), 200);
    assert_eq!(page("/projects/shop/pulls/2"), 404, "the link to the lost one leads to no other");
}

#[test]
fn an_entity_tag_from_before_a_restore_fits_no_state_after_it() {
    let site = site();
    let service = site.start();
    let (path, change) = ("/v2/projects/shop", json!({ "model": "test/scripted" }));
    let (_, kept, _) = conditional(&service, "GET", path, "", None);
    let backup = back_up(&site);
    // The lost history and the restored one each change the project twice, so both would have the same versions.
    let (_, lost, _) = conditional(&service, "PATCH", path, &kept, Some(&change));
    let (status, newest, _) = conditional(&service, "PATCH", path, &lost, Some(&change));
    assert!(status == 200 && kept != lost && lost != newest, "{kept} {lost} {newest}");
    let named = json!({ "id": "lost", "repository": "local:lost" });
    let (status, of_lost, _) = conditional(&service, "POST", "/v2/projects", "", Some(&named));
    assert_eq!(status, 201);
    service.kill();

    let other = restored(&site, &backup);
    let service = other.start();
    let refused = |step: &str| {
        for tag in [&kept, &lost, &newest] {
            let (status, _, body) = conditional(&service, "PATCH", path, tag, Some(&change));
            assert_eq!((status, body["code"].as_str()), (412, Some("precondition_failed")), "{step} {tag}: {body}");
        }
    };
    refused("unchanged");
    let (_, mut tag, _) = conditional(&service, "GET", path, "", None);
    for step in ["one change", "two changes"] {
        let (status, next, body) = conditional(&service, "PATCH", path, &tag, Some(&change));
        assert_eq!(status, 200, "{step}: {body}");
        tag = next;
        refused(step);
    }
    // Another project with the ID of the lost one.
    let (status, first, body) = conditional(&service, "POST", "/v2/projects", "", Some(&named));
    assert!(status == 201 && first != of_lost, "{of_lost} {first}: {body}");
    let (status, _, body) = conditional(&service, "DELETE", "/v2/projects/lost", &of_lost, None);
    assert_eq!(status, 412, "{body}");
    let (status, _, body) = conditional(&service, "PATCH", "/v2/projects/lost", &first, Some(&change));
    assert_eq!(status, 200, "the tag of the answer to its creation: {body}");
}

#[test]
fn a_reader_of_the_feed_gets_each_event_once_across_a_restore() {
    let site = site();
    let service = site.start();
    for name in ["a", "b"] {
        service.settled(&service.create(&format!("[[write {name}.txt|x]]")));
    }
    let page = |service: &Service, cursor: &Value| {
        let cursor = cursor.as_str().map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
        service.call("GET", &format!("/v2/projects/shop/events?limit=3{cursor}"), None)
    };
    let ids = |page: &Value| {
        let all = page["events"].as_array().unwrap().iter();
        all.map(|event| event["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    // One reader stops before the backup, and one goes on to events that are lost.
    let before = page(&service, &Value::Null).1;
    let mut seen = ids(&before);
    let backup = back_up(&site);
    service.settled(&service.create("[[write lost.txt|x]]"));
    let everything = service.get("/v2/projects/shop/events");
    let after = everything["nextCursor"].clone();
    service.kill();

    let other = restored(&site, &backup);
    let service = other.start();
    let stored = ids(&service.get("/v2/projects/shop/events"));
    service.settled(&service.create("[[write new.txt|x]]"));
    let all = ids(&service.get("/v2/projects/shop/events"));
    assert!(all.starts_with(&stored) && all.len() > stored.len(), "{stored:?} {all:?}");
    let mut cursor = before["nextCursor"].clone();
    for cursor in [&cursor, &after] {
        for _ in 0..2 {
            let (status, gone) = page(&service, cursor);
            assert_eq!((status, gone["code"].as_str()), (410, Some("cursor_expired")), "{cursor}: {gone}");
            assert!(gone["error"].as_str().unwrap().contains("continue with the cursor"), "{gone}");
        }
    }
    let of_lost = page(&service, &after).1["nextCursor"].take();
    assert_eq!(ids(&page(&service, &of_lost).1)[0], all[stored.len()], "after the events that it has seen");
    cursor = page(&service, &cursor).1["nextCursor"].take();
    loop {
        let (status, next) = page(&service, &cursor);
        assert_eq!(status, 200, "{cursor}: {next}");
        seen.extend(ids(&next));
        cursor = next["nextCursor"].clone();
        if next["hasMore"] == false {
            break;
        }
    }
    assert_eq!(seen, all, "each event once");
    // The IDs that the stream sends are cursors of this epoch, also those of earlier events.
    let stream = client().get(format!("{}/v2/projects/shop/events/stream?cursor=0", service.url));
    let stream = stream.bearer_auth(&service.key).send().unwrap();
    let sent = super::fixtures::read_until(stream, "job.completed");
    let resumed = sent.lines().filter_map(|line| line.strip_prefix("id: ")).next_back().unwrap();
    let (status, rest) = page(&service, &resumed.into());
    assert_eq!(status, 200, "{resumed}: {rest}");
    let position = resumed.split('-').next().unwrap();
    let index = all.iter().position(|id| id == position).unwrap();
    assert_eq!(ids(&rest)[0], all[index + 1], "{resumed}");
}
