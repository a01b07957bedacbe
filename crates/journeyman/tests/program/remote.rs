//! Tests of commands that manage projects, keys and users on a server, and of the output of the command line: colors,
//! completions, and manual pages.

use journeyman_testkit::until;
use serde_json::{Value, json};

use super::fixtures::site;
use super::person::{RemoteUser, err, out};

#[test]
fn projects_are_managed_on_a_server() {
    let site = site();
    let service = site.start();
    let person = RemoteUser::at(&site, &service);
    let made = person.succeed(&["project", "create", "web", "--repository", "local:web", "--env", "CI=1"]);
    assert!(made.contains("repository  local:web") && made.contains("environment CI"), "{made}");
    assert_eq!(service.get("/v2/projects/web")["environment"]["CI"], "1");
    let changed = person.succeed(&["project", "update", "web", "--model", "other/model", "--json"]);
    let changed: Value = serde_json::from_str(&changed).unwrap();
    assert_eq!((&changed["model"], &changed["environment"]["CI"]), (&"other/model".into(), &"1".into()));
    assert!(person.succeed(&["project", "list"]).contains("web   local:web"));
    let listed: Value = serde_json::from_str(&person.succeed(&["project", "list", "--json"])).unwrap();
    assert_eq!(listed["projects"].as_array().unwrap().len(), 2);
    let taken = person.run(&["project", "create", "web", "--repository", "local:web"]);
    assert_eq!(taken.status.code(), Some(7), "{}", err(&taken));
    assert!(
        person.succeed(&["project", "delete", "web", "--yes"]).starts_with("Deleted the project web with its jobs")
    );
    assert_eq!(person.run(&["project", "show", "web"]).status.code(), Some(5));
    let both = person.run(&["project", "list", "--url", &service.url, "--data-dir", "/nowhere"]);
    assert!(err(&both).contains("name both a database and a server"), "{}", err(&both));
    let empty = person.path("data");
    let local = person.succeed(&["project", "list", "--data-dir", empty.to_str().unwrap()]);
    assert_eq!(local.lines().count(), 1, "the new installation has no projects: {local}");
}

#[test]
fn keys_are_managed_on_a_server() {
    let site = site();
    let service = site.start();
    let person = RemoteUser::new();
    let run = |arguments: &[&str]| {
        let mut command = person.command(arguments);
        command.env("JOURNEYMAN_URL", &service.url).env("JOURNEYMAN_KEY", &site.key).output().unwrap()
    };
    let made = run(&["key", "create", "--name", "ci", "--scope", "jobs", "--project", "shop", "--expires", "1h"]);
    assert_eq!(out(&made).lines().count(), 1, "only the secret is printed: {}", err(&made));
    assert!(err(&made).contains("(ci), expires in "), "{}", err(&made));
    let listed: Value = serde_json::from_str(&out(&run(&["key", "list", "--json"]))).unwrap();
    let key = listed["keys"].as_array().unwrap().iter().find(|key| key["name"] == "ci").unwrap();
    assert_eq!((&key["scopes"][0], &key["projects"][0]), (&"jobs".into(), &"shop".into()));
    let id = key["id"].as_str().unwrap();
    let table = out(&run(&["key", "list"]));
    assert!(table.lines().any(|line| line.starts_with(id) && line.contains(" in ")), "{table}");
    let rotated = run(&["key", "rotate", id, "--keep-old", "1h"]);
    assert!(err(&rotated).contains("the old secret works until"), "{}", err(&rotated));
    assert_ne!(out(&rotated), out(&made));
    assert_eq!(run(&["key", "revoke", id]).status.code(), Some(2), "it is not confirmed");
    assert!(run(&["key", "revoke", id, "--yes"]).status.success());
    assert!(out(&run(&["key", "list"])).lines().any(|line| line.starts_with(id) && line.ends_with("just now")));
    assert_eq!(run(&["key", "rotate", id]).status.code(), Some(7));
    let unknown = format!("key_{}", "0".repeat(32));
    assert_eq!(run(&["key", "revoke", &unknown, "--yes"]).status.code(), Some(5));
}

#[test]
fn users_are_managed_on_a_server() {
    let site = site();
    let service = site.start();
    let person = RemoteUser::at(&site, &service);
    site.succeed(&["user", "add", "root", "--role", "administrator"]);
    let link = person.succeed(&["user", "add", "Ada@example.com"]);
    assert!(link.starts_with(&format!("{}/setup?link=", service.url)) && link.lines().count() == 1, "{link}");
    let newer = person.succeed(&["user", "link", "ada@example.com"]);
    service.use_link(&newer);
    let listed = person.succeed(&["user", "list"]);
    let line =
        |text: &str| text.lines().find(|line| line.starts_with("ada@example.com")).unwrap_or_default().to_owned();
    assert!(line(&listed).contains("member") && line(&listed).contains("password"), "{listed}");
    assert_eq!(line(&listed), line(&site.succeed(&["user", "list"])), "the installation has the same list");

    let changed = person.succeed(&["user", "role", "ada@example.com", "viewer"]);
    assert_eq!(changed, "The user ada@example.com has the role viewer, and can sign in.\n");
    let disabled: Value =
        serde_json::from_str(&person.succeed(&["user", "disable", "ada@example.com", "--json", "--yes"])).unwrap();
    assert_eq!((&disabled["role"], disabled["disabledAt"].is_string()), (&"viewer".into(), true), "{disabled}");
    let id = disabled["id"].as_str().unwrap();
    assert_eq!(service.get(&format!("/v2/users/{id}")), disabled);
    let refused = person.run(&["user", "link", id]);
    assert_eq!(refused.status.code(), Some(7), "{}", err(&refused));
    assert!(err(&refused).contains("the user is disabled; enable the user first"), "{}", err(&refused));
    person.succeed(&["user", "enable", "ada@example.com"]);
    let created: Value = serde_json::from_str(&person.succeed(&["user", "add", "bob", "--json"])).unwrap();
    assert!(created["link"]["url"].is_string() && created["name"] == "bob", "{created}");

    for (arguments, code, text) in [
        (&["user", "add", "bob"][..], 7, "a user with this name already exists"),
        (&["user", "disable", "root", "--yes"], 7, "this is the last administrator"),
        (&["user", "disable", "root"], 2, "confirm with --yes"),
        (&["user", "link", "nobody"], 2, "there is no user nobody; `journeyman user list` lists the users"),
        (&["user", "link"], 2, "journeyman user link --local"),
        (&["user", "remove-second-factor", "bob", "--yes"], 2, "on the machine of the service"),
        (&["user", "list", "--url", &service.url, "--data-dir", "/nowhere"], 2, "name both a database and a server"),
    ] {
        let output = person.run(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", err(&output));
        assert!(err(&output).contains(text), "{arguments:?}: {}", err(&output));
    }
    assert!(!service.log().contains("setup?link="), "a link is in the log: {}", service.log());
    assert!(site.succeed(&["user", "disable", "bob", "--local", "--yes"]).ends_with("and is disabled.\n"));
    assert!(
        person.succeed(&["user", "list"]).lines().any(|line| line.starts_with("bob") && line.ends_with("disabled"))
    );
}

#[test]
fn colors_follow_the_option_and_the_environment() {
    let site = site();
    let service = site.start();
    let person = RemoteUser::at(&site, &service);
    service.settled(&service.create("Say something [[say x]]"));
    for (arguments, variable, expected) in [
        (&["job", "list"][..], None, false),
        (&["job", "list", "--color", "always"], None, true),
        (&["job", "list"], Some(("CLICOLOR_FORCE", "1")), true),
        (&["job", "list", "--color", "never"], Some(("CLICOLOR_FORCE", "1")), false),
        (&["job", "list"], Some(("NO_COLOR", "1")), false),
        (&["--color", "always", "job", "list"], Some(("NO_COLOR", "1")), true),
    ] {
        let listed = person.command(arguments).envs(variable).output().unwrap();
        assert!(out(&listed).contains("Say something"), "{arguments:?}: {}", err(&listed));
        assert_eq!(out(&listed).contains('\u{1b}'), expected, "{arguments:?} {variable:?}");
    }
    let json = person.succeed(&["job", "list", "--json", "--color", "always"]);
    assert!(
        !json.contains('\u{1b}') && json.contains("\"prLink\""),
        "JSON has no colors, and the same fields as before"
    );
}

#[test]
fn a_shell_completes_names_of_the_server() {
    let site = site();
    let service = site.start();
    let person = RemoteUser::at(&site, &service);
    let path = service.create("Say something [[say x]]");
    let complete = |words: &[&str]| {
        let mut command = person.command(&[&["--", "journeyman"], words].concat());
        let output = command.env("JOURNEYMAN_COMPLETE", "fish").output().unwrap();
        assert!(output.status.success(), "{}", err(&output));
        out(&output)
    };
    // A completion waits only two seconds for the server, so it is repeated.
    let begins = |words: &[&str], begin: &str| {
        let is_offered = || complete(words).lines().any(|line| line.starts_with(begin));
        until(&format!("{begin:?} completes {words:?}"), || is_offered().then_some(()));
    };
    begins(&["job", "get", ""], path.rsplit('/').next().unwrap());
    begins(&["project", "show", ""], "shop");
    assert!(complete(&["logout", ""]).contains("tests"));
    assert!(complete(&["job", "che"]).contains("checkout"));
    service.settled(&path);
    service.settled(&service.create("Add a page [[write page.txt|x]]"));
    begins(&["pr", "view", ""], "1\topen: ");
    begins(&["pr", "merge", ""], "1\topen: ");
    begins(&["job", "create", "--agent", ""], "journeyman\t");
    begins(&["project", "update", "shop", "--model", ""], "test/scripted\t");
    begins(&["job", "list", "--status", ""], "active");
    begins(&["job", "list", "--context", ""], "tests\t");
    begins(&["key", "revoke", ""], "key_");
    let labeled = json!({"prompt": "[[say x]]", "labels": ["bug"]});
    assert_eq!(service.call("POST", "/v2/agent/shop/job", Some(labeled)).0, 201);
    begins(&["job", "list", "--label", ""], "bug");
    person.succeed(&["webhook", "create", "http://192.0.2.1/hook"]);
    begins(&["webhook", "test", ""], "wh");
    site.succeed(&["user", "add", "ada"]);
    begins(&["user", "role", ""], "ada\t");
    service.kill();
    assert!(!complete(&["job", "get", ""]).contains("job_"), "without the server, there are none");
}

#[test]
fn manual_pages_are_written() {
    let person = RemoteUser::new();
    person.succeed(&["man", "--dir", "man"]);
    for (name, part) in
        [("journeyman.1", "code\\-host"), ("journeyman-job-create.1", "PROMPT"), ("journeyman-login.1", "key")]
    {
        let page = std::fs::read_to_string(person.path("man").join(name)).unwrap();
        assert!(page.contains(part), "{name}: {page}");
    }
    let help = person.succeed(&["--help"]);
    assert!(help.contains("Work with a server:") && help.contains("Store the key of a server"), "{help}");
    let wrong = person.run(&["job", "nonsense"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", err(&wrong));
}
