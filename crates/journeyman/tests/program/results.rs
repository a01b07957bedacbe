//! Tests of the commands that use the results of jobs: pages, working trees, branches, and pull requests.

use serde_json::Value;

use super::fixtures::{Service, site};
use super::person::{RemoteUser, err, out};

/// Creates a job that adds `hello.txt`, and returns its ID.
fn job(service: &Service) -> String {
    let path = service.create("Add a greeting\n[[write hello.txt|Hello]]");
    assert_eq!(service.settled(&path)["status"], "completed");
    path.rsplit('/').next().unwrap().to_owned()
}

fn clone(person: &RemoteUser, service: &Service, folder: &str) {
    person.git("", &["clone", "--quiet", &format!("{}/git/shop.git", service.url), folder]);
}

#[test]
fn pages_are_opened_in_the_browser() {
    let site = site();
    let service = site.start();
    let (person, id) = (RemoteUser::at(&site, &service), job(&service));
    let script = person.path("browser.sh");
    std::fs::write(&script, "printf '%s' \"$1\" > \"$HOME/opened\"\n").unwrap();
    let (browser, id) = (format!("sh {}", script.display()), id.as_str());
    for (arguments, page) in [
        (vec!["job", "open", id], format!("jobs/{id}")),
        (vec!["job", "get", id, "--web"], format!("jobs/{id}")),
        (vec!["pr", "list", "--web"], "pulls".to_owned()),
        (vec!["pr", "view", "1", "--web"], "pulls/1".to_owned()),
    ] {
        let output = person.command(&arguments).env("BROWSER", &browser).output().unwrap();
        let url = format!("{}/projects/shop/{page}", service.url);
        assert_eq!(out(&output).trim(), url, "{arguments:?}: {}", err(&output));
        assert_eq!(std::fs::read_to_string(person.path("opened")).unwrap(), url, "{arguments:?}");
    }
    let shown = person.command(&["project", "show", "shop", "--web"]).env("BROWSER", &browser).output().unwrap();
    assert_eq!(out(&shown).trim(), format!("{}/projects/shop", service.url), "{}", err(&shown));
    std::fs::remove_file(person.path("opened")).unwrap();
    person.succeed(&["job", "open", id]);
    assert!(!person.path("opened").exists(), "without a browser, the URL is only printed");
    let failing = person.command(&["job", "open", id]).env("BROWSER", "/nowhere/browser").output().unwrap();
    assert_eq!(failing.status.code(), Some(1));
    assert!(err(&failing).contains("set BROWSER"), "{}", err(&failing));
    assert_eq!(person.run(&["job", "open", "job_0"]).status.code(), Some(5));
}

#[test]
fn the_changes_of_a_job_reach_a_working_tree() {
    let site = site();
    let service = site.start();
    let (person, id) = (RemoteUser::at(&site, &service), job(&service));
    let outside = person.run(&["job", "apply", &id]);
    assert_eq!(outside.status.code(), Some(1));
    assert!(err(&outside).contains("works in a clone"), "{}", err(&outside));

    clone(&person, &service, "applied");
    std::fs::create_dir(person.path("applied/below")).unwrap();
    let apply =
        |folder: &str| person.command(&["job", "apply", &id]).current_dir(person.path(folder)).output().unwrap();
    let applied = apply("applied/below");
    assert!(applied.status.success(), "{}", err(&applied));
    assert_eq!(std::fs::read_to_string(person.path("applied/hello.txt")).unwrap(), "Hello\n");
    assert_eq!(person.git("applied", &["diff", "--cached", "--name-only"]), "hello.txt\n");

    clone(&person, &service, "conflict");
    std::fs::write(person.path("conflict/hello.txt"), "Other\n").unwrap();
    person.git("conflict", &["add", "--all"]);
    person.git("conflict", &["commit", "--quiet", "--message", "Other"]);
    let conflict = apply("conflict");
    assert_eq!(conflict.status.code(), Some(1));
    assert!(err(&conflict).contains("resolve the conflicts"), "{}", err(&conflict));

    let nothing = service.create("[[say nothing]]");
    service.settled(&nothing);
    let nothing = nothing.rsplit('/').next().unwrap();
    let empty = person.command(&["job", "apply", nothing]).current_dir(person.path("applied")).output().unwrap();
    assert_eq!(empty.status.code(), Some(7), "{}", err(&empty));
}

#[test]
fn the_branch_of_a_job_is_checked_out_and_updated() {
    let site = site();
    let service = site.start();
    let (person, id) = (RemoteUser::at(&site, &service), job(&service));
    clone(&person, &service, "shop");
    let checkout = |folder: &str| {
        let output = person.command(&["job", "checkout", &id]).current_dir(person.path(folder)).output().unwrap();
        assert!(output.status.success(), "{}", err(&output));
    };
    checkout("shop");
    let branch = person.git("shop", &["branch", "--show-current"]);
    assert!(branch.starts_with("journeyman/"), "{branch}");
    assert_eq!(std::fs::read_to_string(person.path("shop/hello.txt")).unwrap(), "Hello\n");

    person.git("shop", &["switch", "--quiet", "main"]);
    let path = format!("/v2/agent/shop/job/{id}");
    service.send(&path, "[[append hello.txt|Goodbye]]");
    service.settled(&path);
    checkout("shop");
    assert_eq!(std::fs::read_to_string(person.path("shop/hello.txt")).unwrap(), "Hello\nGoodbye\n");
    std::fs::write(person.path("shop/own.txt"), "own\n").unwrap();
    person.git("shop", &["add", "--all"]);
    person.git("shop", &["commit", "--quiet", "--message", "Own"]);
    person.git("shop", &["push", "--quiet", "origin", "HEAD"]);
    assert_eq!(site.file(branch.trim(), "own.txt").as_deref(), Some("own\n"));

    // A repository without a remote gets the branch too.
    person.git("", &["init", "--quiet", "empty"]);
    checkout("empty");
    assert_eq!(person.git("empty", &["branch", "--show-current"]), branch);
}

#[test]
fn pull_requests_are_listed_shown_and_merged() {
    let site = site();
    let service = site.start();
    let (person, id) = (RemoteUser::at(&site, &service), job(&service));
    let listed = person.succeed(&["pr", "list"]);
    assert!(listed.contains("#1      open   Add a greeting") && listed.contains(&id), "{listed}");
    let shown = person.succeed(&["pr", "view", "1"]);
    assert!(shown.starts_with("#1 Add a greeting") && shown.contains("mergeable yes"), "{shown}");
    assert!(!shown.contains("<!--"), "the marks in the text are for the service: {shown}");

    let merged = person.succeed(&["job", "merge", &id]);
    assert!(merged.starts_with("Merged #1 into main"), "{merged}");
    assert_eq!(site.file("main", "hello.txt").as_deref(), Some("Hello\n"));
    let again = person.run(&["job", "merge", &id]);
    assert_eq!(again.status.code(), Some(7));
    assert!(err(&again).contains("#1 is merged"), "{}", err(&again));
    assert!(person.succeed(&["pr", "merge", "1"]).starts_with("Merged #1"), "merging again changes nothing");
    assert_eq!(person.succeed(&["pr", "list"]), "No open pull requests in shop.\n");
    assert_eq!(person.succeed(&["pr", "list", "--json"]), "", "scripts read one document per line");
    assert!(person.succeed(&["pr", "list", "--state", "merged"]).contains("#1"));
    let document: Value = serde_json::from_str(&person.succeed(&["pr", "view", "1", "--json"])).unwrap();
    assert_eq!((&document["state"], &document["job"]), (&"merged".into(), &id.as_str().into()));
    assert_eq!(person.run(&["pr", "view", "9"]).status.code(), Some(5));
    assert_eq!(person.run(&["pr", "merge", "9"]).status.code(), Some(5));
}

#[test]
fn a_pull_request_whose_branches_conflict_is_not_merged() {
    let site = site();
    let service = site.start();
    let (person, id) = (RemoteUser::at(&site, &service), job(&service));
    site.people_commit("hello.txt", "Another\n");
    let refused = person.run(&["job", "merge", &id, "--json"]);
    assert_eq!(refused.status.code(), Some(7));
    let error: Value = serde_json::from_str(&err(&refused)).unwrap();
    assert_eq!(error["code"], "pull_request_conflict", "{error}");
    let none = service.create("[[say nothing]]");
    service.settled(&none);
    let none = person.run(&["job", "merge", none.rsplit('/').next().unwrap()]);
    assert_eq!(none.status.code(), Some(7));
    assert!(err(&none).contains("has no pull request"), "{}", err(&none));
}
