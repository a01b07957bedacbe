//! Tests of third-party agents: their configuration, sessions, installation, files and permissions.

use std::process::Command;

use journeyman_testkit::until;
use serde_json::json;

use super::fixtures::{Service, Site, git, site, site_with};
use crate::inside::{PRINT_PARENT, SandboxProcess};

/// A third-party agent: a shell script that speaks the Agent Client Protocol.
const SHELL_AGENT: &str = r#"#!/bin/sh
cwd=""
while IFS= read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\("[^"]*"\|[0-9][0-9]*\).*/\1/p')
    case "$line" in
    *'"method":"initialize"'*)
        printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":1,"agentCapabilities":{},"authMethods":[]}}\n' "$id" ;;
    *'"method":"session/new"'*)
        printf '{"jsonrpc":"2.0","id":%s,"result":{"sessionId":"s1"}}\n' "$id" ;;
    *'"method":"session/prompt"'*)
        echo "made with $GREETING by $1" > from-the-shell.txt
        printf '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Done by a shell."}}}}\n'
        printf '{"jsonrpc":"2.0","id":%s,"result":{"stopReason":"end_turn"}}\n' "$id" ;;
    esac
done
"#;

#[test]
fn another_agent_is_added_by_configuration_alone() {
    let site = site_with(
        "[agents.shell]\ncommand = [\"sh\", \"DIR/agent.sh\", \"{model}\"]\nreadable = [\"DIR/agent.sh\"]\nenvironment = { GREETING = \"love\" }\n",
    );
    let config = std::fs::read_to_string(site.path("config.toml")).unwrap();
    std::fs::write(site.path("config.toml"), config.replace("DIR", site.dir.path().to_str().unwrap())).unwrap();
    std::fs::write(site.path("agent.sh"), SHELL_AGENT).unwrap();
    let service = site.start();
    let body = json!({"prompt": "x", "agent": "shell", "model": "some/model"});
    let (status, record) = service.call("POST", "/v2/agent/shop/job", Some(body));
    assert_eq!((status, record["model"].clone()), (201, json!("some/model")), "{record}");
    let job = format!("/v2/agent/shop/job/{}", record["id"].as_str().unwrap());
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    assert_eq!(site.file(&site.branch(), "from-the-shell.txt").unwrap(), "made with love by some/model\n");
    let is_there =
        service.events(&job).as_array().unwrap().iter().any(|event| event["data"]["text"] == "Done by a shell.");
    assert!(is_there, "{:#}", service.events(&job));
}

/// Returns a site with the agent `shell`, which runs a script.
fn site_with_script(script: &str) -> Site {
    let site = site_with("[agents.shell]\ncommand = [\"sh\", \"DIR/agent.sh\"]\nreadable = [\"DIR/agent.sh\"]\n");
    let config = std::fs::read_to_string(site.path("config.toml")).unwrap();
    std::fs::write(site.path("config.toml"), config.replace("DIR", site.dir.path().to_str().unwrap())).unwrap();
    std::fs::write(site.path("agent.sh"), script).unwrap();
    site
}

fn create(service: &Service, agent: &str, prompt: &str) -> String {
    let (status, record) = service.call("POST", "/v2/agent/shop/job", Some(json!({"prompt": prompt, "agent": agent})));
    assert_eq!(status, 201, "{record}");
    format!("/v2/agent/shop/job/{}", record["id"].as_str().unwrap())
}

fn follow_up(service: &Service, job: &str, prompt: &str) {
    let (status, record) = service.call("POST", &format!("{job}/message"), Some(json!({"prompt": prompt})));
    assert_eq!(status, 200, "{record}");
    assert_eq!(service.settled(job)["status"], "completed", "{:#}", service.events(job));
}

#[test]
fn an_agent_has_time_after_its_answer_to_write_its_session() {
    let answer = r#"printf '{"jsonrpc":"2.0","id":%s,"result":{"stopReason":"end_turn"}}\n' "$id" ;;"#;
    let late = answer.replace(";;", "; sleep 0.05; echo saved >> \"$HOME/session\" ;;");
    let site = site_with_script(
        &SHELL_AGENT.replace(answer, &late).replace("echo \"made", "cp \"$HOME/session\" saved.txt; echo \"made"),
    );
    // The last table of the file is that of the agent. The time is long enough for a busy machine.
    let config = std::fs::read_to_string(site.path("config.toml")).unwrap();
    std::fs::write(site.path("config.toml"), format!("{config}flush-millis = 5000\n")).unwrap();
    let service = site.start();
    let job = create(&service, "shell", "x");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    std::fs::remove_dir_all(site.path("data/workspaces")).unwrap();
    follow_up(&service, &job, "y");
    assert_eq!(site.file(&site.branch(), "saved.txt").as_deref(), Some("saved\n"));
}

#[test]
fn an_idle_agent_that_has_lost_its_session_is_replaced() {
    let once = "[ -z \"$served\" ] || { printf '{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":-32000,\"message\":\
                \"no such session\"}}\\n' \"$id\"; continue; }; served=1; echo \"made";
    let site = site_with_script(&SHELL_AGENT.replace("echo \"made", once).replace("> from", ">> from"));
    let service = site.start();
    let job = create(&service, "shell", "x");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    follow_up(&service, &job, "y");
    assert_eq!(site.file(&site.branch(), "from-the-shell.txt").unwrap().lines().count(), 2);
    let runs = service.get(&format!("{job}/runs"));
    let statuses: Vec<_> = runs["runs"].as_array().unwrap().iter().map(|run| run["status"].clone()).collect();
    assert_eq!(statuses, ["succeeded", "failed", "succeeded"], "{runs:#}");
}

/// Runs a job; returns its idle agent.
fn idle_agent(site: &Site, service: &Service) -> SandboxProcess {
    let job = service.create(&format!("[[run {PRINT_PARENT} > ~/agent]]"));
    assert_eq!(service.settled(&job)["status"], "completed");
    let id = job.rsplit('/').next().unwrap();
    SandboxProcess::parse(&std::fs::read_to_string(site.path(&format!("data/workspaces/{id}/home/agent"))).unwrap())
}

#[test]
fn a_service_that_stops_ends_its_idle_agents() {
    let site = site();
    let mut service = site.start();
    let agent = idle_agent(&site, &service);
    assert!(agent.runs(), "the agent is not idle");
    service.terminate();
    assert_eq!(service.ended(), Some(0));
    assert!(!agent.runs(), "the agent outlives the service");
}

#[test]
fn a_paused_agent_does_not_outlive_a_service_that_is_killed() {
    let site = site();
    let service = site.start();
    let agent = idle_agent(&site, &service);
    until("the agent is paused", || agent.is_held().then_some(()));
    service.kill();
    until("the agent has ended", || (!agent.runs()).then_some(()));
}

/// A replacement for npm that records its arguments, and installs the shell agent unless the package is `nothing`.
const NPM: &str = r#"#!/bin/sh
echo "$@" >> "$(dirname "$0")/asked"
for word; do
    case "$word" in
    nothing@*) exit 1 ;;
    esac
done
mkdir -p "$3/node_modules/.bin"
cp "$(dirname "$0")/agent.sh" "$3/node_modules/.bin/shell"
"#;

#[test]
fn an_agent_is_installed_listed_and_checked() {
    let site = site_with(
        "[agents.shell]\ncommand = [\"sh\", \"{install}/node_modules/.bin/shell\", \"{arch}\"]\n\
         environment = { GREETING = \"love\" }\ninstall = { npm = [\"shell-agent@1.0.0\"], before = \"2026-11-21\" }\n\
         [agents.broken]\ncommand = [\"{install}/node_modules/.bin/other\"]\ninstall = { npm = [\"nothing@1\"] }\n\
         [agents.partial]\ncommand = [\"{install}/node_modules/.bin/other\"]\ninstall = { npm = [\"shell-agent@1\"] }\n\
         [agents.absent]\ncommand = [\"no-such-agent\"]\n[agents.lost]\ncommand = [\"/nowhere/agent\"]\n",
    );
    std::fs::write(site.path("agent.sh"), SHELL_AGENT).unwrap();
    std::fs::write(site.path("npm"), NPM).unwrap();
    std::fs::set_permissions(site.path("npm"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", site.dir.path().display());
    let run = |arguments: &[&str]| {
        let output = site.command(arguments).env("PATH", &path).output().unwrap();
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        (output.status.code(), text)
    };
    let state = |id: &str| {
        let all = site.succeed(&["agent", "list", "--json"]);
        let all: serde_json::Value = serde_json::from_str(&all).unwrap();
        let one = all.as_array().unwrap().iter().find(|one| one["id"] == id).unwrap().clone();
        one["state"].as_str().unwrap().to_owned()
    };
    assert_eq!((state("shell").as_str(), state("journeyman").as_str()), ("not installed", "ready"));
    assert_eq!([state("absent"), state("lost")], ["program not found", "program not found"]);

    // The reason of a run says how to install the agent.
    let service = site.start();
    let job = create(&service, "shell", "x");
    assert_eq!(service.settled(&job)["status"], "failed");
    let runs = service.get(&format!("{job}/runs"));
    assert!(runs.to_string().contains("journeyman agent install shell"), "{runs}");
    assert_eq!(runs["runs"][0]["reason"]["code"], "agent_not_started", "{runs}");

    let (code, text) = run(&["agent", "install", "shell"]);
    assert_eq!(code, Some(0), "{text}");
    let asked = std::fs::read_to_string(site.path("asked")).unwrap();
    assert!(asked.contains("--ignore-scripts") && asked.contains("--before=2026-11-21"), "{asked}");
    assert!(asked.trim_end().ends_with("-- shell-agent@1.0.0"), "{asked}");
    assert!(text.contains("no lock file has the hashes of the packages of shell"), "{text}");
    assert_eq!(state("shell"), "installed");
    service.send(&job, "again");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    assert!(site.file(&site.branch(), "from-the-shell.txt").is_some());

    // The agent ignores the prompt of the check, so the check fails.
    let (code, text) = run(&["agent", "check", "shell"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("session new") && text.contains("hello.txt is not in a commit"), "{text}");
    let (code, text) = run(&["agent", "check", "journeyman"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("session resumed") && text.matches("ok  ").count() == 3, "{text}");

    // A failed installation leaves the earlier one unchanged.
    for (id, word) in [
        ("broken", "failed"),
        ("partial", "do not contain"),
        ("none", "there is no agent"),
        ("journeyman", "has no packages to install"),
    ] {
        let (code, text) = run(&["agent", "install", id]);
        assert!(code == Some(1) && text.contains(word), "{id}: {text}");
    }
    let config = std::fs::read_to_string(site.path("config.toml")).unwrap();
    std::fs::write(site.path("config.toml"), config.replace("shell-agent@1.0.0", "nothing@2.0.0")).unwrap();
    assert_eq!(state("shell"), "other version");
    let (code, text) = run(&["agent", "install", "shell"]);
    assert!(code == Some(1) && text.contains("an earlier version is unchanged"), "{text}");
    assert!(site.path("data/agents/shell/node_modules/.bin/shell").exists());
}

/// Packs an npm package; returns its file and npm's hash of it, or `None` if there is no npm.
fn packed(site: &Site) -> Option<(String, String)> {
    let folder = site.path("package");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("package.json"), r#"{"name": "one", "version": "1.0.0"}"#).unwrap();
    std::fs::write(folder.join("agent.sh"), SHELL_AGENT).unwrap();
    let pack = |folder: &std::path::Path| {
        Command::new("npm").args(["pack", "--json", "--offline"]).current_dir(folder).output()
    };
    let output = pack(&folder).ok().filter(|output| output.status.success())?;
    let packages: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let file = folder.join(packages[0]["filename"].as_str().unwrap());
    Some((format!("file:{}", file.display()), packages[0]["integrity"].as_str().unwrap().to_owned()))
}

#[test]
fn a_package_with_another_hash_is_not_installed() {
    let site = site_with(
        "[agents.one]\ncommand = [\"sh\", \"{install}/node_modules/one/agent.sh\"]\n\
         install = { npm = [\"one@1.0.0\"], npm-lock = \"DIR/package-lock.json\" }\n",
    );
    let config = std::fs::read_to_string(site.path("config.toml")).unwrap();
    std::fs::write(site.path("config.toml"), config.replace("DIR", site.dir.path().to_str().unwrap())).unwrap();
    // `make test` installs npm.
    let Some((file, hash)) = packed(&site) else { return };
    let lock = |hash: &str, kind: &str| {
        let lock = json!({"lockfileVersion": 3, "packages": {
            "": {kind: {"one": file}},
            "node_modules/one": {"version": "1.0.0", "resolved": file, "integrity": hash,
                                 "optional": kind == "optionalDependencies"},
        }});
        std::fs::write(site.path("package-lock.json"), lock.to_string()).unwrap();
    };
    let install = || {
        let output = site.run(&["agent", "install", "one"]);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let script = site.path("data/agents/one/node_modules/one/agent.sh");
    let wrong = format!("sha512-{}==", "A".repeat(86));
    // npm silently skips an optional package, but the installation reports it as missing.
    for kind in ["dependencies", "optionalDependencies"] {
        lock(&wrong, kind);
        let (code, text) = install();
        assert!(code == Some(1) && text.contains("hash") && text.contains("lock file"), "{kind}: {text}");
        let left: Vec<_> =
            std::fs::read_dir(site.path("data/agents")).unwrap().map(|one| one.unwrap().file_name()).collect();
        assert_eq!(left, [".lock"], "no file of the package is left");
    }
    // The same package is installed with its own hash, so the hash was the reason.
    lock(&hash, "dependencies");
    let (code, text) = install();
    assert!(code == Some(0) && script.exists() && !text.contains("warning"), "{text}");
    lock(&wrong, "dependencies");
    let (code, text) = install();
    assert!(code == Some(1) && text.contains("an earlier version is unchanged"), "{text}");
    assert!(script.exists(), "the earlier installation is there");
    // A configured lock file that does not exist is an error.
    std::fs::remove_file(site.path("package-lock.json")).unwrap();
    let (code, text) = install();
    assert!(code == Some(1) && text.contains("cannot be read"), "{text}");
}

#[test]
fn an_agent_gets_its_files_in_its_home_and_nowhere_else() {
    // In the second turn, the home has links to other folders: writing through them must not leave the sandbox.
    let site = site_with(
        "warm-agents = 0\n[agents.shell]\ncommand = [\"sh\", \"DIR/agent.sh\"]\nreadable = [\"DIR/agent.sh\"]\n\
         environment = { GREETING = \"love\" }\n\
         files = { \".config/deep/a.toml\" = \"model = \\\"{model}\\\"\\n\", \"b\" = \"$(id) `id` 'quoted' {home}\" }\n",
    );
    let config = std::fs::read_to_string(site.path("config.toml")).unwrap();
    std::fs::write(site.path("config.toml"), config.replace("DIR", site.dir.path().to_str().unwrap())).unwrap();
    let look = "cat ~/.config/deep/a.toml ~/b > seen.txt; env | grep JOURNEYMAN_FILE >> seen.txt; rm -rf ~/.config ~/b; \
                ln -s /outside ~/.config; ln -s /etc/hostname ~/b; echo \"made with";
    std::fs::write(site.path("agent.sh"), SHELL_AGENT.replace("echo \"made with", look)).unwrap();
    let service = site.start();
    let job = create(&service, "shell", "x");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    let seen = site.file(&site.branch(), "seen.txt").unwrap();
    assert_eq!(
        seen, "model = \"test/scripted\"\n$(id) `id` 'quoted' /home/agent",
        "placeholders are replaced, and nothing else"
    );
    service.send(&job, "again");
    assert_eq!(service.settled(&job)["status"], "failed", "{:#}", service.events(&job));
    assert!(!std::path::Path::new("/outside").exists());
}

#[test]
fn permissions_are_refused_by_kind_and_the_event_says_so() {
    let site = site();
    let service = site.start();
    let decision = |sandbox: serde_json::Value| {
        let (status, answer) = service.call("PATCH", "/v2/projects/shop", Some(json!({ "sandbox": sandbox })));
        assert_eq!(status, 200, "{answer}");
        let job = service.create("[[ask may I?]]");
        assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
        let events = service.events(&job);
        let answered = events.as_array().unwrap().iter().find(|event| event["type"] == "permission.answered");
        let data = answered.unwrap_or_else(|| panic!("{events:#}"))["data"].clone();
        (data["granted"].clone(), data["kind"].clone())
    };
    assert_eq!(decision(json!({})), (json!(true), json!("allow_once")));
    // The request has no kind, so it is of the kind `other`.
    assert_eq!(decision(json!({ "permissionKinds": { "execute": "refuse" } })), (json!(true), json!("allow_once")));
    assert_eq!(decision(json!({ "permissionKinds": { "other": "refuse" } })), (json!(false), json!("reject_once")));
    let inverse = json!({ "permissions": "refuse", "permissionKinds": { "other": "allow" } });
    assert_eq!(decision(inverse), (json!(true), json!("allow_once")));
    let wrong = json!({ "sandbox": { "permissionKinds": { "teleport": "refuse" } } });
    let (status, answer) = service.call("PATCH", "/v2/projects/shop", Some(wrong));
    assert_eq!(status, 400, "{answer}");
    assert!(answer["error"].as_str().unwrap().contains("sandbox.permissionKinds"), "{answer}");
}

#[test]
fn the_built_in_agent_does_not_do_what_the_project_refuses() {
    let site = site();
    let service = site.start();
    let kinds = |kinds: serde_json::Value| {
        let settings = json!({ "sandbox": { "permissionKinds": kinds } });
        assert_eq!(service.call("PATCH", "/v2/projects/shop", Some(settings)).0, 200);
    };
    kinds(json!({ "execute": "refuse" }));
    let job = service.create("[[run echo 1 > ran]] [[write written|1]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    assert_eq!(site.file(&site.branch(), "written").as_deref(), Some("1\n"));
    assert_eq!(site.file(&site.branch(), "ran"), None);
    kinds(json!({ "edit": "refuse", "execute": null }));
    service.send(&job, "[[run echo 1 > ran]] [[write written|2]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    assert_eq!(site.file(&site.branch(), "written").as_deref(), Some("1\n"));
    assert_eq!(site.file(&site.branch(), "ran").as_deref(), Some("1\n"));
}

#[test]
fn a_check_with_a_project_uses_its_settings_and_changes_neither_it_nor_its_repository() {
    let site = site();
    let check = |project: &str| {
        let arguments = ["agent", "check", "journeyman", "--project", project, "--verbose"];
        let output = site.command(&arguments).output().unwrap();
        let [out, error] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        (output.status.code(), out, error)
    };
    let heads = || git(&site.repository(), &["for-each-ref"]);
    let before = heads();
    let (code, out, error) = check("shop");
    assert_eq!(code, Some(0), "{out}{error}");
    assert_eq!(out.matches("ok  ").count(), 3, "{out}");
    for line in ["-> {", "\"method\":\"initialize\"", "<- {", "\"stopReason\":\"end_turn\""] {
        assert!(error.contains(line), "{line}: {error}");
    }
    assert_eq!(heads(), before);
    let show = site.succeed(&["project", "show", "shop", "--json"]);
    site.succeed(&["project", "update", "shop", "--setup", "test -f README.md && exit 7"]);
    let (code, out, error) = check("shop");
    assert!(code == Some(1) && out.contains("exit code 7"), "{out}{error}");
    assert!(show.contains("\"setup\": null") && site.succeed(&["project", "show", "shop"]).contains("exit 7"));
    let (code, _, error) = check("nothing");
    assert!(code == Some(1) && error.contains("there is no project nothing"), "{error}");
}
