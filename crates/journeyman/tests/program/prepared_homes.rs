//! Tests of agents that unpack themselves into a new home: they are prepared once, and new jobs begin with their home.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use journeyman_testkit::until;
use serde_json::json;

use super::fixtures::{Service, Site, acp_script, git, site_with};

/// Unpacks itself into a new home, and notes each time with a unique ID. `DELAY` runs while it unpacks.
fn unpacking_agent(delay: &str) -> String {
    let script = acp_script("cp \"$HOME/unpacked\" unpacked.txt; answer");
    let unpack = format!(
        "#!/bin/sh\nif [ ! -e \"$HOME/.local/runtime/whole\" ]; then\n    {delay}\n    mkdir -p \"$HOME/.local/runtime\"\n    \
         head -c 300000 /dev/zero > \"$HOME/.local/runtime/library\"\n    \
         cat /proc/sys/kernel/random/uuid >> \"$HOME/unpacked\"\n    : > \"$HOME/.local/runtime/whole\"\nfi\n"
    );
    script.replacen("#!/bin/sh\n", &unpack, 1)
}

/// A replacement for npm that installs the agent of the site.
const NPM: &str =
    "#!/bin/sh\nmkdir -p \"$3/node_modules/.bin\"\ncp \"$(dirname \"$0\")/agent.sh\" \"$3/node_modules/.bin/slow\"\n";

const INSTALLED: &str = "workers = 4\n[agents.slow]\ncommand = [\"sh\", \"{install}/node_modules/.bin/slow\"]\n\
                         install = { npm = [\"slow-agent@1.0.0\"] }\n";

/// Returns a site with an agent that can be installed.
fn site_with_package(script: &str) -> Site {
    let site = site_with(INSTALLED);
    std::fs::write(site.path("agent.sh"), script).unwrap();
    std::fs::write(site.path("npm"), NPM).unwrap();
    std::fs::set_permissions(site.path("npm"), PermissionsExt::from_mode(0o755)).unwrap();
    site
}

/// Runs a command with the replacement for npm; returns whether it succeeded, and its output.
fn run(site: &Site, arguments: &[&str]) -> (bool, String) {
    let path = format!("{}:/usr/bin:/bin", site.dir.path().display());
    let output = site.command(arguments).env("PATH", path).output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    (output.status.success(), text)
}

fn archives(site: &Site) -> Vec<PathBuf> {
    let Ok(all) = std::fs::read_dir(site.path("data/agent-homes")) else { return Vec::new() };
    all.map(|entry| entry.unwrap().path()).collect()
}

fn job(service: &Service) -> String {
    let (status, record) = service.call("POST", "/v2/agent/shop/job", Some(json!({"prompt": "x", "agent": "slow"})));
    assert_eq!(status, 201, "{record}");
    format!("/v2/agent/shop/job/{}", record["id"].as_str().unwrap())
}

/// Returns the notes of the unpackings, as each branch of a job has them.
fn unpackings(site: &Site) -> Vec<String> {
    let branches = git(&site.repository(), &["for-each-ref", "--format=%(refname:short)", "refs/heads/journeyman"]);
    branches.lines().map(|branch| site.file(branch, "unpacked.txt").unwrap()).collect()
}

#[test]
fn an_installed_agent_is_prepared_once_and_new_jobs_begin_with_its_home() {
    let site = site_with_package(&unpacking_agent(":"));
    let (is_done, text) = run(&site, &["agent", "install", "slow"]);
    assert!(is_done && text.contains("slow is prepared: its home has 3 files (1 MiB)"), "{text}");
    let [archive] = archives(&site).try_into().unwrap();
    let folder = archive.parent().unwrap().metadata().unwrap();
    assert_eq!(folder.permissions().mode() & 0o777, 0o700, "only the service reads it");
    let service = site.start();
    let jobs = [job(&service), job(&service)];
    for job in &jobs {
        assert_eq!(service.settled(job)["status"], "completed", "{:#}", service.events(job));
    }
    service.send(&jobs[0], "again");
    assert_eq!(service.settled(&jobs[0])["status"], "completed");
    let noted = unpackings(&site);
    assert_eq!((noted.len(), noted.iter().collect::<BTreeSet<_>>().len()), (2, 1), "{noted:?}");
    assert_eq!(noted[0].lines().count(), 1, "it was unpacked once: {noted:?}");

    // Another version is prepared again, and the home of the earlier one is removed.
    let next = unpacking_agent(": another version");
    std::fs::write(site.path("agent.sh"), next).unwrap();
    assert!(run(&site, &["agent", "install", "slow"]).0);
    let [other] = archives(&site).try_into().unwrap();
    assert_ne!(archive, other);
    let third = job(&service);
    assert_eq!(service.settled(&third)["status"], "completed");
    let noted: BTreeSet<String> = unpackings(&site).into_iter().collect();
    assert!(noted.len() == 2 && noted.iter().all(|note| note.lines().count() == 1), "{noted:?}");

    // A damaged home is not an error: the agent unpacks itself again.
    std::fs::write(&other, "damaged").unwrap();
    let last = job(&service);
    assert_eq!(service.settled(&last)["status"], "completed");
    assert_eq!(unpackings(&site).into_iter().collect::<BTreeSet<_>>().len(), 3);
    assert!(service.log().contains("could not be restored"), "{}", service.log());
}

#[test]
fn an_agent_that_cannot_be_prepared_is_installed_with_a_warning() {
    let site = site_with_package("#!/bin/sh\necho 'no license' >&2\nexit 3\n");
    let (is_done, text) = run(&site, &["agent", "install", "slow"]);
    assert!(is_done && text.contains("slow is installed in"), "{text}");
    for words in ["warning: ", "exit code 3", "no license", "try again: journeyman agent prepare slow"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let (is_done, text) = run(&site, &["agent", "prepare", "slow"]);
    assert!(!is_done && text.contains("the agent slow is not prepared") && text.contains("no license"), "{text}");
    assert!(archives(&site).is_empty());
    for (id, words) in [("nothing", "there is no agent"), ("journeyman", "unpacks nothing")] {
        let (is_done, text) = run(&site, &["agent", "prepare", id]);
        assert!(!is_done && text.contains(words), "{text}");
    }
    // An agent without files in its home is not prepared again.
    std::fs::write(site.path("agent.sh"), acp_script("answer")).unwrap();
    let (is_done, text) = run(&site, &["agent", "install", "slow"]);
    assert!(is_done && text.contains("there is nothing to prepare"), "{text}");
    assert_eq!(archives(&site).len(), 1);
}

#[test]
fn a_configured_agent_that_starts_too_slowly_in_a_new_home_is_prepared_by_the_service() {
    let site = site_with(
        "workers = 4\n[agents.slow]\ncommand = [\"sh\", \"DIR/agent.sh\"]\nreadable = [\"DIR/agent.sh\"]\n\
         initialize-seconds = 1\n",
    );
    let config = std::fs::read_to_string(site.path("config.toml")).unwrap();
    std::fs::write(site.path("config.toml"), config.replace("DIR", site.dir.path().to_str().unwrap())).unwrap();
    std::fs::write(site.path("agent.sh"), unpacking_agent("sleep 4")).unwrap();
    let service = site.start();
    let first = job(&service);
    until("the agent is prepared", || (archives(&site).len() == 1).then_some(()));
    service.until(&first, "run.finished", 1);
    let second = job(&service);
    for job in [&first, &second] {
        assert_eq!(service.settled(job)["status"], "completed", "{:#}\n{}", service.events(job), service.log());
    }
    let noted = unpackings(&site);
    assert_eq!((noted.len(), noted.iter().collect::<BTreeSet<_>>().len()), (2, 1), "{noted:?}");
    assert_eq!(noted[0].lines().count(), 1, "{noted:?}");
    assert!(service.log().contains("an agent that starts slowly in a new home is prepared"), "{}", service.log());
}
