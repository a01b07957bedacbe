//! Tests of the back end `container`, with each engine that this machine can run ([`engines`]).

mod engines;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use journeyman_testkit::PATIENCE;
use serde_json::{Value, json};

use self::engines::{Engine, IMAGE, Kind, engine, image};
use super::fixtures::{Service, Site, is_running, site_with, wrapped};
use super::models::{Models, create, last_run};

fn site(engine: &Engine, more: &str) -> Site {
    site_with(&format!(
        "workers = 2\nsandbox = \"container\"\ncontainer-engine = {:?}\ncontainer-image = {IMAGE:?}\n{more}",
        engine.socket
    ))
}

fn patch(service: &Service, body: Value) {
    let (status, answer) = service.call("PATCH", "/v2/projects/shop", Some(body));
    assert_eq!(status, 200, "{answer}");
}

/// Returns the number of containers of the site.
fn containers(engine: &Engine, site: &Site) -> usize {
    engine.states(site.dir.path()).len()
}

/// Waits until a condition holds.
fn until(service: &Service, job: &str, what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what}: {:#}\n{}", service.events(job), service.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the number of attempts at a job's messages.
fn runs(service: &Service, job: &str) -> usize {
    service.get(&format!("{job}/runs"))["runs"].as_array().unwrap().len()
}

fn home(site: &Site, job: &str) -> PathBuf {
    site.path(&format!("data/workspaces/{}/home", job.rsplit('/').next().unwrap()))
}

#[test]
#[ignore = "needs a container engine: make test-containers"]
fn agents_run_in_containers_of_podman() {
    agents_run(Kind::Podman, "6173");
}

#[test]
#[ignore = "needs a container engine: make test-containers"]
fn agents_run_in_containers_of_docker() {
    agents_run(Kind::Docker, "6174");
}

/// Runs jobs in containers of an engine that runs as root; `seconds` distinguishes the processes of the two tests.
fn agents_run(kind: Kind, seconds: &str) {
    let Some(engine) = engine(kind) else { return };
    let models = Models::that_runs("echo $FLAVOUR > flavour.txt; ls /run/journeyman > ~/shown");
    let tables = format!("[models.anthropic]\nbase-url = \"{}\"\nkey-file = \"KEY\"\n", models.server.url);
    let key = engine.dir.path().join("key");
    std::fs::write(&key, "sk-x").unwrap();
    let site = site(&engine, &tables.replace("KEY", key.to_str().unwrap()));

    // All guarantees hold.
    let output = site.run(&["doctor", "--json"]);
    let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
    let of_sandbox =
        findings.as_array().unwrap().iter().filter(|one| one["check"].as_str().unwrap().starts_with("sandbox"));
    let bad: Vec<&Value> = of_sandbox.clone().filter(|one| one["health"] != "ok").collect();
    assert!(bad.is_empty() && of_sandbox.count() == 10, "{bad:#?}");
    assert_eq!(containers(&engine, &site), 0, "no container is left");

    // A program sees its own files, but no files, networks or environments of the host.
    let service = site.start();
    patch(&service, json!({ "setup": "id > ~/setup; echo $PPID >> ~/setup", "limits": { "cpuMillis": 1_000_000 } }));
    let look = "id -un; cat /proc/net/dev; ls HIDDEN /var/lib/journeyman /run/docker.sock 2>&1 | cat; touch /usr/x /root/x /etc/x 2>&1; \
                cat /proc/1/environ 2>&1; grep -E 'Cap(Prm|Bnd)|NoNewPrivs|Seccomp:' /proc/self/status; mount | head -0; echo end";
    let look = look.replace("HIDDEN", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
    // In a separate process group, so that it outlives the command.
    let tick = "perl -e 'setpgrp(0, 0); exit if fork; while (1) { open(F, qq(>>$ENV{HOME}/ticks)); print F qq(x); close F; \
                select(undef, undef, undef, 0.001) }' > /dev/null 2>&1;";
    let job = service.create(&format!("[[run {tick} ({look}) > seen.txt]]"));
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    let seen = site.file(&site.branch(), "seen.txt").unwrap();
    assert!(seen.starts_with("agent\n") && seen.ends_with("end\n"), "{seen}");
    assert!(seen.contains("lo:") && !seen.contains("eth0"), "{seen}");
    assert_eq!(seen.matches("No such file").count(), 3, "{seen}");
    assert!(!seen.contains("PATH=") && seen.contains("NoNewPrivs:\t1") && seen.contains("Seccomp:\t2"), "{seen}");
    assert_eq!(seen.matches("0000000000000000").count(), 2, "no capabilities: {seen}");
    assert!(!Path::new("/usr/x").exists());
    assert!(std::fs::read_to_string(home(&site, &job).join("setup")).unwrap().contains("uid=20000"));

    // The idle agent is paused with all processes that it has started. A follow-up reuses it and finds its work
    // committed.
    let ticks = || std::fs::metadata(home(&site, &job).join("ticks")).unwrap().len();
    // A write that the kernel has begun may still complete; a running process writes a thousand times per second.
    let is_paused = || {
        let (before, end) = (ticks(), Instant::now() + Duration::from_secs(1));
        while Instant::now() < end && ticks() == before {
            std::thread::yield_now();
        }
        ticks() == before
    };
    until(&service, &job, "a process is not paused", is_paused);
    let before = ticks();
    // The command waits until the agent's other process, which continues with it, has written something.
    let wait = "n=$(wc -c < ~/ticks); while [ $(wc -c < ~/ticks) -le $n ]; do sleep 0.02; done";
    service.send(&job, &format!("[[run echo more >> seen.txt; {wait}]]"));
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    assert!(site.file(&site.branch(), "seen.txt").unwrap().ends_with("end\nmore\n"));
    assert_eq!(service.count(&job, "agent.session"), 1);
    assert!(ticks() > before, "the agent's processes continue with it");

    // The built-in agent calls a model through the model proxy, from a container with another system.
    let called = create(&service, "anthropic/m", "hello");
    assert_eq!(service.settled(&called)["status"], "completed", "{:#}", service.events(&called));
    assert_eq!(last_run(&service, &called)["commits"].as_array().unwrap().len(), 1);

    // A run that exceeds its memory limit fails.
    patch(&service, json!({ "setup": null, "limits": { "memoryBytes": 134_217_728 } }));
    let hungry = service.create("[[run perl -e 'my $x = \"x\" x 400000000; sleep 3600']]");
    assert_eq!(service.settled(&hungry)["status"], "failed");
    assert_eq!(last_run(&service, &hungry)["reason"]["code"], "out_of_memory", "{:#}", service.events(&hungry));

    // An image that does not exist fails the job.
    patch(
        &service,
        json!({ "limits": { "memoryBytes": null }, "sandbox": { "image": "localhost/none:1", "pull": "never" } }),
    );
    let lost = service.create("x");
    assert_eq!(service.settled(&lost)["status"], "failed", "{:#}", service.events(&lost));
    let reason = last_run(&service, &lost)["reason"].clone();
    assert_eq!(reason["code"], "image_refused", "{reason}");
    assert!(reason["text"].as_str().unwrap().contains("has no image localhost/none:1"), "{reason}");
    assert_eq!(runs(&service, &lost), 1, "there is one attempt");

    // The next service removes what a killed service leaves, and its own containers when it ends.
    patch(&service, json!({ "sandbox": { "image": null } }));
    let long = service.create("[[run touch ~/begun; sleep SECONDS]]".replace("SECONDS", seconds).as_str());
    until(&service, &long, "the turn did not start", || home(&site, &long).join("begun").exists());
    until(&service, &long, "the command did not start", || is_running(&["sleep", seconds]));
    service.kill();
    journeyman_testkit::until("the command ends with its service", || (!is_running(&["sleep", seconds])).then_some(()));
    assert!(containers(&engine, &site) > 0);
    let mut service = site.start();
    let (status, answer) = service.call("POST", &format!("{long}/cancel"), None);
    assert_eq!(status, 200, "{answer}");
    service.settled(&long);
    let after = service.create("[[write after.txt|x]]");
    assert_eq!(service.settled(&after)["status"], "completed", "{:#}", service.events(&after));
    service.terminate();
    assert_eq!(service.ended(), Some(0));
    assert_eq!(containers(&engine, &site), 0);
}

#[test]
#[ignore = "needs a container engine: make test-containers"]
fn agents_run_in_containers_of_rootless_podman() {
    let Some(engine) = engine(Kind::RootlessPodman) else { return };
    let lost = "sandbox-allow-degraded = [\"memory\", \"process-count\", \"cpu\"]\n";
    let site = site(&engine, lost);
    if rustix::process::geteuid().is_root() {
        // Root's workspaces belong to users that do not exist in a rootless engine.
        let output = site.run(&["doctor"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!output.status.success() && text.contains("is rootless, but this service runs as root"), "{text}");
        std::fs::remove_dir_all(site.path("data/sandbox")).unwrap_or_default();
    }
    engine.change_owner(site.dir.path());

    let output = wrapped(engine.wrapper(), &site.command(&["doctor", "--json"])).output().unwrap();
    let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
    let holds = |name: &str| {
        let mut all = findings.as_array().unwrap().iter();
        all.any(|one| one["check"].as_str().unwrap().ends_with(name) && one["health"] == "ok")
    };
    for name in ["files", "network", "environment", "lifetime", "privileges", "system-calls"] {
        assert!(holds(name), "{name}: {findings:#}");
    }

    // More processors than the machine has, and limits for which rootless engines may have no control groups.
    let service = site.start_wrapped(engine.wrapper());
    patch(
        &service,
        json!({ "setup": "id -u > ~/setup", "limits": { "cpuMillis": 1_000_000, "memoryBytes": 1 << 30 } }),
    );
    let job = service.create("[[run id -u > who.txt; grep -E 'Cap(Prm|Bnd)' /proc/self/status > rights.txt]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}\n{}", service.events(&job), service.log());
    let diff = service.text(&format!("{job}/diff"));
    assert!(!diff.contains("+0\n") && diff.matches("0000000000000000").count() == 2, "{diff}");
    service.send(&job, "[[append who.txt|more]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    assert!(service.text(&format!("{job}/diff")).contains("+more"));
}

#[test]
#[ignore = "needs a container engine: make test-containers"]
fn a_finished_turn_waits_for_podman_to_come_back() {
    a_finished_turn_waits(Kind::Podman);
}

#[test]
#[ignore = "needs a container engine: make test-containers"]
fn a_finished_turn_waits_for_docker_to_come_back() {
    a_finished_turn_waits(Kind::Docker);
}

fn a_finished_turn_waits(kind: Kind) {
    let Some(mut engine) = engine(kind) else { return };
    let site = site(&engine, "");
    let service = site.start();
    assert_eq!(service.call("GET", "/readyz", None).0, 200);
    let job = service.create("[[run touch ~/begun; until [ -e ~/go ]; do sleep 0.02; done; echo kept > kept.txt]]");
    until(&service, &job, "the turn did not start", || home(&site, &job).join("begun").exists());
    engine.stop();
    until(&service, &job, "the service is ready without an engine", || {
        let (status, answer) = service.call("GET", "/readyz", None);
        status == 503 && answer["code"] == "sandbox_unavailable"
    });
    std::fs::write(home(&site, &job).join("go"), "").unwrap();
    until(&service, &job, "the turn does not wait for the engine", || {
        service.log().contains("waits for the container engine")
    });
    assert_eq!(service.get(&job)["status"], "active");
    engine.serve();
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}\n{}", service.events(&job), service.log());
    assert_eq!(site.file(&site.branch(), "kept.txt").unwrap(), "kept\n");
    assert_eq!(runs(&service, &job), 1, "the turn was not repeated");
    until(&service, &job, "the service is not ready with an engine", || service.call("GET", "/readyz", None).0 == 200);
    until(&service, &job, "other containers than that of the agent are left", || containers(&engine, &site) <= 1);
}

#[test]
#[ignore = "needs a container engine: make test-containers"]
fn an_image_that_cannot_be_used_is_refused_by_podman() {
    images_are_refused(Kind::Podman);
}

#[test]
#[ignore = "needs a container engine: make test-containers"]
fn an_image_that_cannot_be_used_is_refused_by_docker() {
    images_are_refused(Kind::Docker);
}

/// Checks that an image is refused if it has a link at a path of the sandbox, declares volumes, or has no git.
fn images_are_refused(kind: Kind) {
    let Some(engine) = engine(kind) else { return };
    let (link, no_git) = (image(&["link"]), image(&["no-git"]));
    let site = site(&engine, "");
    for (name, tar, change, word) in [
        ("link", &link, "ENV A=b", "something else at /home/agent"),
        ("volume", &link, "VOLUME /data", "declares volumes (/data)"),
        ("no-git", &no_git, "ENV A=b", "has no git in its search path"),
    ] {
        let image = format!("localhost/journeyman-{name}:latest");
        engine.import(&image, change, tar).unwrap();
        let config = std::fs::read_to_string(site.path("config.toml")).unwrap();
        std::fs::write(site.path("config.toml"), config.replace(IMAGE, &image)).unwrap();
        let output = site.run(&["doctor"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!output.status.success() && text.contains(word), "{image}: {text}");
        std::fs::write(site.path("config.toml"), config).unwrap();
        assert_eq!(containers(&engine, &site), 0, "{image}: no container is left");
    }
    // A project's image is refused before the turn, after one attempt.
    let service = site.start();
    patch(&service, json!({ "sandbox": { "image": "localhost/journeyman-no-git:latest" } }));
    let job = service.create("[[run touch ~/begun]]");
    assert_eq!(service.settled(&job)["status"], "failed", "{:#}", service.events(&job));
    let reason = last_run(&service, &job)["reason"].clone();
    assert_eq!(reason["code"], "image_refused", "{reason}");
    assert!(reason["text"].as_str().unwrap().contains("has no git in its search path"), "{reason}");
    assert_eq!((runs(&service, &job), home(&site, &job).join("begun").exists()), (1, false));
}

#[test]
fn without_an_engine_doctor_says_what_to_do() {
    let site = site_with("sandbox = \"container\"\ncontainer-engine = \"/nowhere/docker.sock\"\n");
    let output = site.run(&["doctor"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!output.status.success() && text.contains("/nowhere/docker.sock does not answer"), "{text}");
    assert_eq!(text.matches("podman system service").count(), 1, "one cause is one line: {text}");
}
