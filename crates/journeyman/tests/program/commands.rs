//! Tests of commands that need no service, and of their errors.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use journeyman_testkit::until;
use serde_json::Value;

use super::fixtures::{client, site};
use crate::binary::program;

fn stderr(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn keys_are_created_listed_rotated_and_revoked_while_a_service_runs() {
    let site = site();
    let service = site.start();
    let made = site.succeed(&["key", "create", "--name", "second"]);
    assert_eq!(made.lines().count(), 1, "only the secret is printed");
    let listed: Value = serde_json::from_str(&site.succeed(&["key", "list", "--json"])).unwrap();
    let id = listed["keys"][0]["id"].as_str().unwrap();
    assert_eq!(listed["keys"][0]["name"], "second");
    assert!(!site.succeed(&["key", "list"]).contains(made.trim()));

    let client = client();
    let with = |secret: &str| {
        client.get(format!("{}/v2/projects", service.url)).bearer_auth(secret.trim()).send().unwrap().status()
    };
    let refused = |secret: &str, what: &str| {
        until(&format!("the service notices that the key was {what}"), || (with(secret) == 401).then_some(()));
    };
    assert_eq!(with(&made), 200);
    let kept = site.run(&["key", "rotate", id, "--keep-old", "1h"]);
    assert!(stderr(&kept).contains("the old secret works until"), "{kept:?}");
    let second = String::from_utf8(kept.stdout).unwrap();
    assert_eq!((with(&made), with(&second)), (reqwest::StatusCode::OK, reqwest::StatusCode::OK));
    let third = site.succeed(&["key", "rotate", id]);
    assert_eq!(third.lines().count(), 1, "only the secret is printed");
    refused(&made, "rotated");
    refused(&second, "rotated");
    assert_eq!(with(&third), 200);
    let unconfirmed = site.run(&["key", "revoke", id]);
    assert_eq!((unconfirmed.status.code(), with(&third).as_u16()), (Some(2), 200), "{}", stderr(&unconfirmed));
    assert!(stderr(&unconfirmed).contains("confirm with --yes"), "{}", stderr(&unconfirmed));
    assert!(site.succeed(&["key", "revoke", id, "--yes"]).starts_with("Revoked the key"));
    refused(&third, "revoked");
    let unknown = format!("key_{}", "0".repeat(32));
    for (arguments, text) in [
        (&["key", "revoke", &*unknown, "--yes"][..], "there is no key"),
        (&["key", "rotate", &unknown], "there is no key"),
        (&["key", "rotate", id], "was revoked or has expired"),
        (&["key", "rotate", id, "--keep-old", "8days"], "at most 7days"),
    ] {
        let answer = site.run(arguments);
        assert!(!answer.status.success() && stderr(&answer).contains(text), "{arguments:?}: {answer:?}");
    }
}

#[test]
fn projects_are_managed_while_a_service_runs() {
    let site = site();
    let service = site.start();
    std::fs::write(site.path("token"), "ghp_s3cret\n").unwrap();
    let token = site.path("token");
    let made = site.succeed(&[
        "project",
        "create",
        "web",
        "--repository",
        "https://example.com/web.git",
        "--ref",
        "main",
        "--token-file",
        token.to_str().unwrap(),
        "--env",
        "CI=1",
        "--secret-file",
        &format!("NPM={}", token.display()),
        "--secret-use",
        "NPM=setup,agent",
    ]);
    assert!(!made.contains("s3cret") && made.contains("repository  https://example.com/web.git"), "{made}");
    let project = service.get("/v2/projects/web");
    assert_eq!((project["codeHost"]["hasToken"].clone(), project["secrets"][0].clone()), (true.into(), "NPM".into()));
    assert_eq!(project["secretUses"]["NPM"], serde_json::json!(["setup", "agent"]));
    site.succeed(&["project", "update", "web", "--model", "other/model"]);
    assert_eq!(service.get("/v2/projects/web")["model"], "other/model");
    assert_eq!(service.get("/v2/projects/web")["ref"], "main", "settings that are not named stay the same");
    assert!(site.succeed(&["project", "list"]).contains("https://example.com/web.git"));
    assert!(site.succeed(&["project", "delete", "web", "--yes"]).starts_with("Deleted the project web with its jobs"));
    assert_eq!(service.call("GET", "/v2/projects/web", None).0, 404);
    for (arguments, named) in [
        (vec!["project", "create", "shop", "--repository", "local:x"], "already"),
        (vec!["project", "create", "y", "--repository", "nonsense"], "repository must be"),
        (vec!["project", "create", "y"], "repository is missing"),
        (vec!["project", "create", "y", "--repository", "local:y", "--agent", "nobody"], "nobody"),
        (vec!["project", "create", "y", "--repository", "local:y", "--env", "X"], "NAME=VALUE"),
        (vec!["project", "create", "y", "--repository", "local:y", "--secret-use", "X"], "NAME=setup,agent"),
        (vec!["project", "create", "y", "--repository", "local:y", "--secret-use", "X=all"], "secretUses.X"),
        (vec!["project", "create", "y", "--repository", "local:y", "--token-file", "/nowhere"], "/nowhere"),
        (vec!["project", "show", "y"], "there is no project y"),
        (vec!["project", "delete", "y", "--yes"], "no such project"),
    ] {
        let output = site.run(&arguments);
        assert!(!output.status.success() && stderr(&output).contains(named), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn doctor_reports_each_check_that_fails() {
    let site = site();
    let healthy = site.run(&["doctor"]);
    assert!(healthy.status.success(), "{}", String::from_utf8_lossy(&healthy.stdout));
    let config = "git = \"/nowhere/git\"\n[agents.lost]\ncommand = [\"no-such-agent\"]\n";
    std::fs::write(site.path("config.toml"), config).unwrap();
    std::fs::write(site.path("data/master.key"), "short").unwrap();
    let failing = site.run(&["doctor", "--json"]);
    assert_eq!(failing.status.code(), Some(1));
    let findings: Vec<Value> = serde_json::from_slice(&failing.stdout).unwrap();
    let failed: Vec<&str> = findings
        .iter()
        .filter(|finding| finding["health"] == "failure")
        .map(|finding| finding["check"].as_str().unwrap())
        .collect();
    assert_eq!(failed, ["master key", "database", "git", "agent lost"]);
}

#[test]
fn a_start_that_cannot_succeed_says_why() {
    let site = site();
    let service = site.start();
    let second = site.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(stderr(&second).contains("another service runs on"), "{}", stderr(&second));
    let address = service.url.trim_start_matches("http://").to_owned();
    let elsewhere = tempfile::tempdir().unwrap();
    let serve = |arguments: &[&str]| {
        let mut command = Command::new(program());
        command.arg("serve").args(arguments).env("JOURNEYMAN_DATA_DIR", elsewhere.path());
        command
    };
    let taken = serve(&["--listen", &address]).output().unwrap();
    assert!(stderr(&taken).contains("cannot listen on"), "{}", stderr(&taken));
    let variable = serve(&[]).env("JOURNEYMAN_WORKERS", "many").output().unwrap();
    assert!(stderr(&variable).contains("JOURNEYMAN_WORKERS"), "{}", stderr(&variable));
    let misspelled = serve(&["--workers", "0"]).env("JOURNEYMAN_LISTNE", "x").output().unwrap();
    let expected =
        "warning: the environment variable JOURNEYMAN_LISTNE is not a setting; did you mean JOURNEYMAN_LISTEN?";
    assert!(stderr(&misspelled).contains(expected), "{}", stderr(&misspelled));
    let file = serve(&["--config", "/nowhere.toml"]).output().unwrap();
    assert!(stderr(&file).contains("/nowhere.toml"), "{}", stderr(&file));
    let filter = serve(&["--log", "a=b=c"]).output().unwrap();
    assert!(stderr(&filter).contains("is not a valid filter"), "{}", stderr(&filter));
    for output in [&second, &taken, &variable, &file, &filter] {
        assert_eq!(output.status.code(), Some(1), "{output:?}");
    }
}

#[test]
fn a_master_key_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let site = site();
    let key = site.path("data/master.key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let refused = site.run(&["key", "list"]);
    assert!(!refused.status.success() && stderr(&refused).contains("chmod 600"), "{}", stderr(&refused));
}

#[test]
fn the_configuration_file_overrides_the_environment() {
    let site = site();
    let names = |arguments: &[&str], variable: &str| {
        let output = site.command(arguments).env("JOURNEYMAN_PUBLIC_URL", variable).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let project: Value = serde_json::from_slice(&output.stdout).unwrap();
        project["cloneUrl"].as_str().unwrap().to_owned()
    };
    let show = ["project", "show", "shop", "--json"];
    assert_eq!(names(&show, "http://from-environment"), "http://from-environment/git/shop.git");
    std::fs::write(site.path("config.toml"), "public-url = \"http://from-file/\"\n").unwrap();
    assert_eq!(names(&show, "http://from-environment"), "http://from-file/git/shop.git");
}

#[test]
fn flags_override_the_configuration_file_and_the_environment() {
    let (site, elsewhere) = (site(), tempfile::tempdir().unwrap());
    let folder = |name: &str| elsewhere.path().join(name);
    std::fs::write(site.path("config.toml"), format!("data-dir = {:?}\n", folder("file"))).unwrap();
    // The command has the flag --data-dir; only that folder has the project.
    let mut show = site.command(&["project", "show", "shop"]);
    let output = show.env("JOURNEYMAN_DATA_DIR", folder("environment")).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(elsewhere.path().read_dir().unwrap().count(), 0, "the other folders are not used");
}

#[test]
fn completions_and_the_openapi_document_are_printed() {
    for shell in ["bash", "zsh", "fish"] {
        let output = Command::new(program()).args(["completions", shell]).output().unwrap();
        let script = String::from_utf8(output.stdout.clone()).unwrap();
        assert!(output.status.success() && script.contains("JOURNEYMAN_COMPLETE"), "{shell}: {output:?}");
    }
    let output = Command::new(program()).arg("openapi").output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["info"]["title"], "Journeyman");
}

#[test]
fn a_first_start_that_is_killed_at_any_moment_can_be_repeated() {
    for delay in (0..40).map(std::time::Duration::from_millis) {
        let dir = tempfile::tempdir().unwrap();
        let list = || {
            let mut command = Command::new(program());
            command.args(["key", "list", "--data-dir"]).arg(dir.path()).stdout(std::process::Stdio::null());
            command
        };
        let mut killed = list().spawn().unwrap();
        std::thread::sleep(delay);
        killed.kill().unwrap();
        killed.wait().unwrap();
        let again = list().output().unwrap();
        assert!(again.status.success(), "killed after {delay:?}: {}", stderr(&again));
    }
}

#[test]
fn the_demo_shows_a_job_and_its_follow_up_and_prints_the_record() {
    // Variables that are set for other services must not affect a demo.
    let foreign = [("JOURNEYMAN_DATA_DIR", "/nowhere"), ("JOURNEYMAN_MASTER_KEY", "x"), ("JOURNEYMAN_WORKERS", "x")];
    let output = Command::new(program()).args(["demo", "--exit"]).envs(foreign).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let stdout = String::from_utf8(output.stdout.clone()).unwrap();
    let record: Value = serde_json::from_str(stdout.lines().last().unwrap()).unwrap();
    assert_eq!((record["status"].clone(), record.as_object().unwrap().len()), ("completed".into(), 7));
    let log = stderr(&output);
    for part in [
        "$ curl -s -X POST \\\n",
        "pull request opened",
        "pull request updated",
        "+echo Hello, $1!",
        "/projects/demo/pulls/1",
    ] {
        assert!(log.contains(part), "{part} is missing in {log}");
    }
    assert!(!log.contains('\u{1b}'), "there are no colors in a pipe");
    assert!(!log.contains("\"createdAt\""), "responses are trimmed: {log}");
    // Only links and the paths of this machine, which cannot be broken, may be longer than a line.
    let has_path = |line: &str| line.contains(program()) || line.contains("keeps its data in ");
    let is_long = |line: &&str| line.chars().count() > 110 && !has_path(line);
    let long: Vec<&str> = log.lines().filter(is_long).collect();
    assert!(long.is_empty(), "{long:#?}");
    let folder = log.split("keeps its data in ").nth(1).unwrap().split(',').next().unwrap();
    assert!(!std::path::Path::new(folder).exists(), "{folder} is left behind");
}

#[test]
fn a_demo_with_a_data_directory_can_be_repeated() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let output = Command::new(program()).args(["demo", "--exit", "--data-dir"]).arg(dir.path()).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    }
}

#[test]
fn the_commands_that_a_demo_prints_work_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let mut demo = Command::new(program());
    demo.args(["demo", "--listen", "127.0.0.1:0", "--data-dir"]).arg(dir.path());
    let mut demo = demo.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut printed = Vec::new();
    for line in BufReader::new(demo.stderr.take().unwrap()).lines() {
        let line = line.unwrap();
        let is_last = line.contains("/projects/demo/jobs/job_");
        printed.push(line);
        if is_last {
            break;
        }
    }
    let typed = typed(&printed);
    let find =
        |word: &str| typed.iter().find(|line| line.contains(word)).unwrap_or_else(|| panic!("{word}: {printed:#?}"));
    let exports = format!("{}\n{}", find("export JOURNEYMAN_URL="), find("export JOURNEYMAN_KEY=jmn_"));
    let run = |command: &str| {
        let script = format!("{exports}\n{command}");
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        assert!(output.status.success(), "{script}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(run(find("/diff'")).contains("+echo Hello, $1!"), "the requests work as printed");
    let create = typed.iter().find(|line| line.contains("/v2/agent/demo/job'") && line.contains("POST")).unwrap();
    let created: Value = serde_json::from_str(&run(create)).unwrap();
    assert_eq!(created["status"], "active", "{created}");
    run(find("job send"));
    run(find("job merge"));
    rustix::process::kill_process(rustix::process::Pid::from_child(&demo), rustix::process::Signal::TERM).unwrap();
    let output = demo.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "only --exit prints the record");
}

/// Returns the commands that people can type: a backslash at the end of a line continues a command.
fn typed(printed: &[String]) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let mut is_continued = false;
    for line in printed {
        if let Some(last) = commands.last_mut()
            && is_continued
        {
            last.push('\n');
            last.push_str(line);
        } else if let Some(command) = line.trim_start().strip_prefix("$ ") {
            commands.push(command.to_owned());
        } else {
            continue;
        }
        is_continued = line.ends_with('\\');
    }
    commands
}

#[test]
fn the_command_that_a_first_start_suggests_works_as_typed() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("my config.toml"), "lease = \"3s\"\n").unwrap();
    let mut serve = Command::new(program());
    serve.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "data", "--config", "my config.toml"]);
    let mut serve = serve.current_dir(dir.path()).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(serve.stderr.take().unwrap()).lines().map(Result::unwrap);
    let suggested = lines.find_map(|line| Some(line.split_once("create one with: ")?.1.to_owned())).unwrap();
    let output = Command::new("sh").args(["-c", &suggested]).current_dir(dir.path()).output().unwrap();
    serve.kill().unwrap();
    serve.wait().unwrap();
    assert!(suggested.ends_with("--config 'my config.toml' --data-dir data"), "{suggested}");
    assert!(output.status.success(), "{suggested}: {}", stderr(&output));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("jmn_"), "{output:?}");
    assert!(dir.path().join("data/journeyman.db").exists(), "the key is in the installation of the service");
}

#[test]
fn doctor_changes_nothing_and_says_what_a_start_creates() {
    let dir = tempfile::tempdir().unwrap();
    let doctor = |data: &std::path::Path| {
        let output = Command::new(program()).args(["doctor", "--json", "--data-dir"]).arg(data).output().unwrap();
        serde_json::from_slice::<Value>(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    };
    let text = |findings: &Value, check: &str| {
        let found = findings.as_array().unwrap().iter().find(|one| one["check"] == check).unwrap().clone();
        assert_eq!(found["health"], "ok", "{found}");
        found["text"].as_str().unwrap().to_owned()
    };
    let missing = dir.path().join("below/data");
    let findings = doctor(&missing);
    for check in ["data directory", "master key", "database"] {
        let text = text(&findings, check);
        assert!(text.ends_with("does not exist; `journeyman serve` creates it"), "{check}: {text}");
    }
    assert!(!dir.path().join("below").exists(), "the directory is not created");
    let empty = dir.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    assert!(text(&doctor(&empty), "data directory").ends_with("can be written"));
    assert_eq!(empty.read_dir().unwrap().count(), 0, "the directory stays empty");
}

#[test]
fn doctor_reports_a_missing_key_of_an_existing_database() {
    let site = site();
    let names = || {
        let all = site.path("data").read_dir().unwrap().map(|entry| entry.unwrap().file_name());
        // The last process that closes the database moves the content of SQLite's log into the database.
        let is_log = |name: &OsString| ["-wal", "-shm"].iter().any(|end| name.to_string_lossy().ends_with(end));
        all.filter(|name| !is_log(name)).collect::<BTreeSet<_>>()
    };
    std::fs::remove_file(site.path("data/master.key")).unwrap();
    let before = names();
    let output = site.run(&["doctor"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("FAIL  master key: ") && text.contains("restore the file"), "{text}");
    assert_eq!(names(), before, "doctor has changed nothing");
}

#[test]
fn a_database_is_compacted_only_while_no_service_runs() {
    let site = site();
    let service = site.start();
    let job = service.create("[[append a|1]]");
    service.settled(&job);
    let refused = site.run(&["migrate", "--compact"]);
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && error.contains("needs the service to be stopped"), "{error}");
    service.terminate();
    let mut service = service;
    assert_eq!(service.ended(), Some(0));
    let output = site.succeed(&["migrate", "--compact"]);
    assert!(output.contains("was rewritten") && output.contains("MiB now"), "{output}");
    let service = site.start();
    assert_eq!(service.get(&job)["status"], "completed");
}

#[test]
fn a_reader_that_closes_the_pipe_is_not_an_error() {
    let script = r#"("$1" openapi; echo "exit code $?" >&2) | head -n 1"#;
    let output = Command::new("sh").args(["-c", script, "sh", program()]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr).trim(), "exit code 0");
}

#[test]
fn a_command_reads_the_master_key_from_a_file() {
    let arguments = ["key", "list", "--database-url", "postgres://127.0.0.1:9/x", "--master-key-file", "/nowhere/key"];
    let output = Command::new(program()).args(arguments).output().unwrap();
    assert!(!output.status.success() && stderr(&output).contains("/nowhere/key"), "{}", stderr(&output));
}

#[test]
fn the_version_names_the_commit() {
    let output = Command::new(program()).arg("--version").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let version = String::from_utf8(output.stdout).unwrap();
    let plain = concat!("journeyman ", env!("CARGO_PKG_VERSION"));
    let format = ["log", "--max-count=1", "--no-show-signature", "--abbrev=10", "--format=%h %cs"];
    let git = Command::new("git").args(format).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    // Sources without a repository have no commit, and a packager may name another one.
    match git.ok().filter(|git| git.status.success() && option_env!("JOURNEYMAN_COMMIT").is_none()) {
        Some(git) => {
            let commit = String::from_utf8(git.stdout).unwrap();
            assert_eq!(version.trim(), format!("{plain} ({})", commit.trim()));
        }
        None => assert!(version.starts_with(plain), "{version}"),
    }
}

#[test]
fn the_example_of_a_configuration_file_is_a_valid_one() {
    let site = site();
    let output = Command::new(program()).args(["config", "example"]).output().unwrap();
    let example = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && example.contains("\n#listen = \"127.0.0.1:8080\"\n"), "{example}");
    std::fs::write(site.path("config.toml"), &example).unwrap();
    assert!(site.succeed(&["config", "check"]).contains("the settings are valid"));
    for (setting, named) in [
        ("lissten = 1", "config.toml is not valid: line 1, column 1: lissten is not a known setting"),
        ("lease = \"1s\"", "config.toml is not valid: line 1, column 1: lease must be at least 3s"),
    ] {
        std::fs::write(site.path("config.toml"), format!("{setting}\n{example}")).unwrap();
        let answer = site.run(&["config", "check"]);
        assert!(!answer.status.success() && stderr(&answer).contains(named), "{setting}: {answer:?}");
    }
}
