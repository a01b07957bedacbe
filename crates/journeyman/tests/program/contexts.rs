//! Tests of stored keys: `journeyman login`, `logout`, `context`, and git with the credential helper.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Stdio;

use serde_json::Value;

use super::fixtures::site;
use super::person::{RemoteUser, err, out};

const FILE: &str = ".config/journeyman/contexts.json";

#[test]
fn a_key_is_stored_for_its_owner_only_and_used_by_commands() {
    let site = site();
    let service = site.start();
    let person = RemoteUser::new();
    let missing = person.run(&["job", "list", "--project", "shop"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(err(&missing).contains("journeyman login"), "{}", err(&missing));

    let wrong = person.log_in(&service.url, "jmn_wrong", &[]);
    assert_eq!(wrong.status.code(), Some(4), "{}", err(&wrong));
    assert!(!person.path(FILE).exists(), "a key that the server refuses is not stored");
    let unknown = person.log_in(&service.url, &site.key, &["--project", "nowhere"]);
    assert_eq!(unknown.status.code(), Some(5), "{}", err(&unknown));

    let done = person.log_in(&service.url, &site.key, &["--name", "tests", "--no-git"]);
    assert!(done.status.success(), "{}", err(&done));
    assert!(out(&done).contains("with the key tests") && !out(&done).contains(&site.key), "{}", out(&done));
    let mode = |name: &str| std::fs::metadata(person.path(name)).unwrap().mode() & 0o777;
    assert_eq!((mode(FILE), mode(".config/journeyman")), (0o600, 0o700));
    assert!(!person.path(".gitconfig").exists(), "--no-git leaves git as it is");

    assert_eq!(person.run(&["job", "list"]).status.code(), Some(2), "the project is missing");
    person.succeed(&["context", "use", "tests", "--project", "shop"]);
    assert!(person.succeed(&["job", "list"]).starts_with("No jobs found in shop."));
    let listed: Value = serde_json::from_str(&person.succeed(&["context", "list", "--json"])).unwrap();
    assert_eq!(
        (&listed["name"], &listed["project"], &listed["current"]),
        (&"tests".into(), &"shop".into(), &true.into())
    );
    assert!(!person.succeed(&["context", "list"]).contains(&site.key));
}

#[test]
fn options_and_the_environment_come_before_the_current_context() {
    let site = site();
    let service = site.start();
    let person = RemoteUser::at(&site, &service);
    let with = |variables: &[(&str, &str)], arguments: &[&str]| {
        person.command(arguments).envs(variables.iter().copied()).output().unwrap()
    };
    let elsewhere = ("JOURNEYMAN_URL", "http://127.0.0.1:1");
    let refused = with(&[elsewhere], &["job", "list"]);
    assert_eq!(refused.status.code(), Some(2), "a stored key is not sent to another server: {}", err(&refused));
    let other = [elsewhere, ("JOURNEYMAN_KEY", "jmn_x"), ("JOURNEYMAN_PROJECT", "shop")];
    assert_eq!(with(&other, &["job", "list"]).status.code(), Some(6), "nothing listens there");
    let project = [("JOURNEYMAN_PROJECT", "nowhere")];
    assert_eq!(with(&project, &["job", "list"]).status.code(), Some(5));
    assert_eq!(with(&project, &["job", "list", "--project", "shop"]).status.code(), Some(0));
    assert_eq!(with(&[elsewhere], &["job", "list", "--context", "tests"]).status.code(), Some(0));
    assert_eq!(person.run(&["job", "list", "--context", "tests", "--url", "http://h"]).status.code(), Some(2));
    let unknown = person.run(&["job", "list", "--context", "other"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(err(&unknown).contains("the contexts are tests"), "{}", err(&unknown));
}

#[test]
fn a_file_that_others_can_read_is_refused() {
    let site = site();
    let service = site.start();
    let person = RemoteUser::at(&site, &service);
    let change = |mode| std::fs::set_permissions(person.path(FILE), std::fs::Permissions::from_mode(mode)).unwrap();
    change(0o640);
    let refused = person.run(&["job", "list"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(err(&refused).contains("chmod 600") && !err(&refused).contains(&site.key), "{}", err(&refused));
    assert!(!person.log_in(&service.url, &site.key, &[]).status.success());
    change(0o600);
    std::fs::rename(person.path(FILE), person.path("moved")).unwrap();
    std::os::unix::fs::symlink(person.path("moved"), person.path(FILE)).unwrap();
    let refused = person.run(&["job", "list"]);
    assert!(err(&refused).contains("is a symbolic link"), "{}", err(&refused));
}

#[test]
fn git_asks_for_nothing_after_a_login() {
    let site = site();
    let service = site.start();
    let person = RemoteUser::at(&site, &service);
    let config = std::fs::read_to_string(person.path(".gitconfig")).unwrap();
    assert!(config.contains("credential") && !config.contains(&site.key), "{config}");
    person.git("", &["clone", "--quiet", &format!("{}/git/shop.git", service.url), "shop"]);
    std::fs::write(person.path("shop/new.txt"), "new\n").unwrap();
    person.git("shop", &["add", "--all"]);
    person.git("shop", &["commit", "--quiet", "--message", "Add a file"]);
    person.git("shop", &["push", "--quiet", "origin", "HEAD:main"]);
    assert_eq!(site.file("main", "new.txt").as_deref(), Some("new\n"));

    // A second login does not add settings again.
    assert!(person.log_in(&service.url, &site.key, &["--name", "other"]).status.success());
    assert_eq!(std::fs::read_to_string(person.path(".gitconfig")).unwrap(), config);
    assert!(person.succeed(&["logout", "other"]).contains("still works"));
    assert!(std::fs::read_to_string(person.path(".gitconfig")).unwrap().contains("helper"), "one context is left");
    person.succeed(&["context", "remove", "tests"]);
    let config = std::fs::read_to_string(person.path(".gitconfig")).unwrap();
    assert!(!config.contains("helper") && !config.contains("useHttpPath"), "{config}");
    assert_eq!(person.run(&["logout"]).status.code(), Some(2), "no context is left");
    assert_eq!(person.run(&["job", "list"]).status.code(), Some(2));
}

#[test]
fn the_credential_helper_answers_only_for_repositories_of_known_servers() {
    let site = site();
    let service = site.start();
    let person = RemoteUser::at(&site, &service);
    let host = service.url.trim_start_matches("http://");
    let ask = |action: &str, request: &str| {
        let mut command = person.command(&["credential", action]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let _ = std::io::Write::write_all(&mut child.stdin.take().unwrap(), request.as_bytes());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{action}");
        out(&output)
    };
    let own = format!("protocol=http\nhost={host}\npath=git/shop.git\n\n");
    assert_eq!(ask("get", &own), format!("username=journeyman\npassword={}\n", site.key));
    for (action, request) in [
        ("get", "protocol=https\nhost=github.com\npath=git/shop.git\n\n".to_owned()),
        ("get", format!("protocol=http\nhost={host}\npath=v2/keys\n\n")),
        ("get", String::new()),
        ("store", own.clone()),
        ("erase", own.clone()),
        ("of-a-later-version", own.clone()),
    ] {
        assert_eq!(ask(action, &request), "", "{action} {request}");
    }
    assert_eq!(ask("get", &own).lines().count(), 2, "erase has not removed the key");
}
