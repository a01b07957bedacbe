//! Tests of a sandbox that is missing or lacks guarantees.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use journeyman_testkit::until;
use serde_json::{Value, json};

use super::fixtures::{Service, Site, site_with};

/// The configuration of an agent that is not the test model; it exits at once with code 7.
const OTHER: &str = "[agents.other]\ncommand = [\"sh\", \"-c\", \"exit 7\"]\n";

/// Runs a job that fails, or waits for a sandbox and is cancelled; returns the reason of its last run.
fn failed(service: &Service, agent: &str) -> Value {
    let (status, record) = service.call("POST", "/v2/agent/shop/job", Some(json!({ "prompt": "x", "agent": agent })));
    assert_eq!(status, 201, "{record}");
    let job = format!("/v2/agent/shop/job/{}", record["id"].as_str().unwrap());
    let details = until("the job fails or waits", || {
        let details = service.get(&format!("{job}/details"));
        (details["status"] != "active" || !details["waiting"].is_null()).then_some(details)
    });
    if details["waiting"].is_null() {
        assert_eq!(details["status"], "failed", "{:#}", service.events(&job));
    } else {
        assert_eq!(details["waiting"]["reason"]["code"], "sandbox_unsafe", "{details:#}");
        service.call("POST", &format!("{job}/cancel"), None);
    }
    service.get(&format!("{job}/runs"))["runs"].as_array().unwrap().last().unwrap()["reason"].clone()
}

#[test]
fn without_a_sandbox_no_agent_runs_and_all_reports_say_so() {
    let site = site_with(&format!("bwrap = \"/nowhere/bwrap\"\n{OTHER}"));
    let doctor = site.run(&["doctor", "--json"]);
    assert_eq!(doctor.status.code(), Some(1));
    let findings: Vec<Value> = serde_json::from_slice(&doctor.stdout).unwrap();
    let lost: Vec<&Value> = findings.iter().filter(|one| one["health"] == "failure").collect();
    assert_eq!(lost.len(), 10, "{lost:#?}");
    assert!(lost.iter().all(|one| one["text"].as_str().unwrap().contains("apt-get install bubblewrap")), "{lost:#?}");
    let service = site.start();
    for agent in ["journeyman", "other"] {
        let reason = failed(&service, agent);
        assert_eq!(reason["code"], "sandbox_unsafe", "{agent}: {reason}");
        assert!(reason["text"].as_str().unwrap().contains("bubblewrap"), "{agent}: {reason}");
    }
    let system = service.get("/v2/system");
    assert_eq!((&system["sandbox"]["kind"], &system["sandbox"]["enough"]), (&json!("bubblewrap"), &json!(false)));
    assert_eq!(service.get("/readyz")["sandbox"]["enough"], false);
    service.until_log("agents other than the test model do not run");
}

#[test]
fn a_disabled_sandbox_is_reported_as_unsafe() {
    let site = site_with(&format!("sandbox = \"none\"\n{OTHER}"));
    let service = site.start();
    // The agent ran, and exited as it always does.
    assert_eq!(failed(&service, "other")["code"], "agent_exited");
    let lost = service.get("/v2/system")["sandbox"]["guarantees"].as_array().unwrap().clone();
    let network = lost.iter().find(|one| one["name"] == "network").unwrap();
    assert_eq!((&network["holds"], &network["givenUp"]), (&json!(false), &json!(true)));
    service.until_log("UNSAFE sandbox \\\"none\\\", network");
}

/// Installs a bwrap that fails the first `times` times, as it does for lack of memory or descriptors.
fn failing_bwrap(site: &Site, times: usize) {
    let counter = site.path("bwrap-calls");
    std::fs::create_dir(&counter).unwrap();
    let script = format!(
        "#!/bin/sh\nPATH=/usr/local/bin:/usr/bin:/bin\ncalls=$(ls {0} | wc -l)\nif [ \"$calls\" -lt {times} ]; then : > {0}/$$; \
         echo 'bwrap: Cannot allocate memory' >&2; exit 1; fi\nexec bwrap \"$@\"\n",
        counter.display()
    );
    std::fs::write(site.path("bwrap"), script).unwrap();
    // The users of sandboxes execute it.
    for (name, mode) in [("bwrap", 0o755), ("bwrap-calls", 0o777)] {
        std::fs::set_permissions(site.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let config = std::fs::read_to_string(site.path("config.toml")).unwrap();
    let program = site.path("bwrap");
    std::fs::write(site.path("config.toml"), format!("bwrap = {:?}\n{config}", program.display().to_string())).unwrap();
}

#[test]
fn a_sandbox_that_failed_its_first_check_is_checked_again_without_a_job() {
    let site = site_with(OTHER);
    failing_bwrap(&site, 1);
    let service = site.start();
    // Only read the readiness: no job, and not /v2/system, which would start a check of the sandbox.
    until("the sandbox is ready", || (service.get("/readyz")["sandbox"]["enough"] == true).then_some(()));
    // The log follows the readiness. It shows that the first check failed.
    service.until_log("Cannot allocate memory");
    service.until_log("agents can run");
    assert_eq!(failed(&service, "other")["code"], "agent_exited", "the agent ran");
}

#[test]
fn user_ids_that_sandboxes_must_not_use_are_refused() {
    let site = site_with("");
    for (numbers, expected) in [
        ("2147483648", "2147483647"),
        ("4294967295", "2147483647"),
        ("1000", "from 65536"),
        ("4294967296", "JOURNEYMAN_SANDBOX_USERS"),
    ] {
        for command in ["serve", "doctor"] {
            let output = site.command(&[command]).env("JOURNEYMAN_SANDBOX_USERS", numbers).output().unwrap();
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success() && text.contains(expected), "{command} {numbers}: {text}");
        }
    }
}

/// Starts a service of an unprivileged user; returns `None` if the tests do not run as root.
fn start_unprivileged(config: &str) -> Option<(Site, Service)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let site = site_with(config);
    // The user must own the site, so that the service can create its workspaces.
    let changed = Command::new("chown").args(["-R", "65534:65534"]).arg(site.dir.path()).status().unwrap();
    assert!(changed.success());
    let mut wrapper = Command::new("setpriv");
    wrapper.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]);
    let service = site.start_wrapped(wrapper);
    Some((site, service))
}

#[test]
fn the_service_of_an_unprivileged_user_has_a_sandbox_and_reports_missing_guarantees() {
    let Some((_site, service)) = start_unprivileged(OTHER) else { return };
    let job = service.create("[[run id -u > who; touch /usr/x; cat /etc/shadow; true]]");
    assert_eq!(service.settled(&job)["status"], "completed", "the test model runs: {:#}", service.events(&job));
    assert!(service.text(&format!("{job}/diff")).contains("+1000"));
    let reason = failed(&service, "other");
    assert_eq!(reason["code"], "sandbox_unsafe", "{reason}");
    let text = reason["text"].as_str().unwrap();
    // The text names all missing guarantees, one remedy, and one setting to run without them.
    assert!(text.contains("does not guarantee \"memory\", \"process-count\", \"cpu\""), "{text}");
    assert_eq!(text.matches("Delegate=yes").count(), 2, "{text}");
    assert!(text.contains("sandbox-allow-degraded = [\"memory\", \"process-count\", \"cpu\"]"), "{text}");
    let guarantees = service.get("/v2/system")["sandbox"]["guarantees"].clone();
    let holds =
        |name: &str| guarantees.as_array().unwrap().iter().find(|one| one["name"] == name).unwrap()["holds"].clone();
    for name in ["files", "network", "environment", "lifetime", "privileges", "system-calls"] {
        assert_eq!(holds(name), true, "{name}: {guarantees:#}");
    }
    assert_eq!(holds("memory"), false);
}

#[test]
fn missing_guarantees_may_be_given_up_by_name() {
    let lost = "sandbox-allow-degraded = [\"memory\", \"process-count\", \"cpu\"]\n";
    let Some((_site, service)) = start_unprivileged(&format!("{lost}{OTHER}")) else { return };
    assert_eq!(failed(&service, "other")["code"], "agent_exited", "the agent ran");
    let system = service.get("/v2/system");
    assert_eq!(system["sandbox"]["enough"], true, "{system:#}");
}

/// A replacement for systemd-run that records its arguments and executes the program in the same process.
const SYSTEMD_RUN: &str = "#!/bin/sh\necho \"$@\" >> \"$(dirname \"$0\")/../scopes\"\n\
                           while [ \"$1\" != -- ]; do shift; done\nshift\nexec \"$@\"\n";

#[test]
fn the_service_of_an_unprivileged_user_starts_in_a_scope_of_that_users_systemd() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let site = site_with("");
    std::fs::create_dir(site.path("bin")).unwrap();
    std::fs::write(site.path("bin/systemd-run"), SYSTEMD_RUN).unwrap();
    std::fs::set_permissions(site.path("bin/systemd-run"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let changed = Command::new("chown").args(["-R", "65534:65534"]).arg(site.dir.path()).status().unwrap();
    assert!(changed.success());
    let mut wrapper = Command::new("sh");
    wrapper.args(["-c", "PATH=\"$1:$PATH\"; shift; exec \"$@\"", "sh"]).arg(site.path("bin"));
    wrapper.args(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]);
    let service = site.start_wrapped(wrapper);
    let job = service.create("[[say hello]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    let scopes = std::fs::read_to_string(site.path("scopes")).unwrap();
    let scopes: Vec<&str> = scopes.lines().collect();
    let options = "--user --scope --quiet --collect --property=Delegate=yes -- ";
    assert_eq!(scopes[0], format!("{options}true"));
    assert!(scopes.len() == 2 && scopes[1].starts_with(options) && scopes[1].contains(" serve"), "{scopes:#?}");
}
