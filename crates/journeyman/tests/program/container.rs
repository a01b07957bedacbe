//! The back end `container`, where an engine answers: one that is there, or Podman started for the test.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::given::{Service, Site, is_running, open_folder, site_with};
use super::models::{Models, create, last_run};

const IMAGE: &str = "localhost/journeyman-test:latest";

/// An engine with the image, until it is dropped.
struct Engine {
    socket: PathBuf,
    _dir: tempfile::TempDir,
    service: Option<Child>,
    /// The program, with the words before its commands.
    program: Vec<String>,
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Some(service) = &mut self.service {
            // It may have ended.
            let _ = service.kill();
            let _ = service.wait();
        }
    }
}

/// One that can run the image; `None`, and a word about it, where there is none.
fn engine() -> Option<Engine> {
    let dir = open_folder();
    let image =
        Command::new("sh").arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/test-image.sh")).output().unwrap();
    assert!(image.status.success(), "{}", String::from_utf8_lossy(&image.stderr));
    let works = |engine: &[&str]| {
        let command = |arguments: &[&str]| {
            let mut command = Command::new(engine[0]);
            command.args(&engine[1..]).args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
            command
        };
        let import = ["import", "--change", "ENV FLAVOUR=plain", "-", IMAGE];
        let Ok(mut child) = command(&import).stdin(Stdio::piped()).spawn() else { return false };
        // An engine that does not answer reads nothing.
        let _ = child.stdin.take().unwrap().write_all(&image.stdout);
        let run =
            ["run", "--rm", "--network=none", "--ulimit=nofile=1024", "--ulimit=nproc=1024", IMAGE, "sh", "-c", ":"];
        child.wait().unwrap().success() && command(&run).status().unwrap().success()
    };
    if Path::new("/run/docker.sock").exists() && works(&["docker"]) {
        let program = vec!["docker".to_owned()];
        return Some(Engine { socket: "/run/docker.sock".into(), _dir: dir, service: None, program });
    }
    // Some machines have control groups that only one of them knows.
    let runtime = ["crun", "runc"].into_iter().find(|runtime| works(&["podman", "--runtime", runtime]));
    let Some(runtime) = runtime else {
        #[expect(clippy::print_stderr, reason = "to whoever runs the tests")]
        {
            eprintln!("skipped: no engine (make test-containers installs Podman)");
        }
        return None;
    };
    let socket = dir.path().join("podman.sock");
    let address = format!("unix://{}", socket.display());
    let mut service = Command::new("podman");
    service.args(["--runtime", runtime, "system", "service", "--time=0", &address]).stderr(Stdio::null());
    let program = ["podman", "--runtime", runtime].map(str::to_owned).into();
    let engine = Engine { socket, _dir: dir, service: Some(service.spawn().unwrap()), program };
    let end = Instant::now() + Duration::from_secs(30);
    while !engine.socket.exists() {
        assert!(Instant::now() < end, "podman does not serve");
        std::thread::sleep(Duration::from_millis(50));
    }
    Some(engine)
}

fn site(engine: &Engine, more: &str) -> Site {
    site_with(&format!(
        "lease = \"3s\"\nworkers = 2\nsandbox = \"container\"\ncontainer-engine = {:?}\ncontainer-image = {IMAGE:?}\n{more}",
        engine.socket
    ))
}

fn patch(service: &Service, body: Value) {
    let (status, answer) = service.call("PATCH", "/v2/projects/shop", Some(body));
    assert_eq!(status, 200, "{answer}");
}

/// How many containers of the site there are.
fn containers(engine: &Engine, site: &Site) -> usize {
    let stream = std::os::unix::net::UnixStream::connect(&engine.socket).unwrap();
    let mut stream = stream;
    let filter = "%7B%22label%22%3A%5B%22journeyman.owner%22%5D%7D";
    let request = format!("GET /v1.40/containers/json?all=true&filters={filter} HTTP/1.0\r\nHost: x\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let list: Value = serde_json::from_str(&body[body.find('[').unwrap()..=body.rfind(']').unwrap()]).unwrap();
    let own = site.dir.path().to_str().unwrap();
    list.as_array().unwrap().iter().filter(|container| container.to_string().contains(own)).count()
}

fn home(site: &Site, job: &str) -> PathBuf {
    site.path(&format!("data/workspaces/{}/home", job.rsplit('/').next().unwrap()))
}

#[test]
fn agents_run_in_containers_of_their_projects_image() {
    let Some(engine) = engine() else { return };
    let models = Models::that_runs("echo $FLAVOUR > flavour.txt; ls /run/journeyman > ~/shown");
    let tables = format!("[models.anthropic]\nbase-url = \"{}\"\nkey-file = \"KEY\"\n", models.server.url);
    let key = engine._dir.path().join("key");
    std::fs::write(&key, "sk-x").unwrap();
    let site = site(&engine, &tables.replace("KEY", key.to_str().unwrap()));

    // Everything that it promises holds.
    let output = site.run(&["doctor", "--json"]);
    let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
    let of_sandbox =
        findings.as_array().unwrap().iter().filter(|one| one["check"].as_str().unwrap().starts_with("sandbox"));
    let bad: Vec<&Value> = of_sandbox.clone().filter(|one| one["health"] != "ok").collect();
    assert!(bad.is_empty() && of_sandbox.count() == 9, "{bad:#?}");
    assert_eq!(containers(&engine, &site), 0, "nothing is left of it");

    // What a program sees, and what of the host it does not.
    let service = site.start();
    patch(&service, json!({ "setup": "id > ~/setup; echo $PPID >> ~/setup" }));
    let look = "id -un; cat /proc/net/dev; ls HIDDEN /var/lib/journeyman /run/docker.sock 2>&1 | cat; touch /usr/x /root/x /etc/x 2>&1; \
                cat /proc/1/environ 2>&1; grep -E 'Cap(Prm|Bnd)|NoNewPrivs|Seccomp:' /proc/self/status; mount | head -0; echo end";
    let look = look.replace("HIDDEN", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
    let job = service.create(&format!("[[run ({look}) > seen.txt]]"));
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    let seen = site.file(&site.branch(), "seen.txt").unwrap();
    assert!(seen.starts_with("agent\n") && seen.ends_with("end\n"), "{seen}");
    assert!(seen.contains("lo:") && !seen.contains("eth0"), "{seen}");
    assert_eq!(seen.matches("No such file").count(), 3, "{seen}");
    assert!(!seen.contains("PATH=") && seen.contains("NoNewPrivs:\t1") && seen.contains("Seccomp:\t2"), "{seen}");
    assert_eq!(seen.matches("0000000000000000").count(), 2, "no capabilities: {seen}");
    assert!(!Path::new("/usr/x").exists());
    assert!(std::fs::read_to_string(home(&site, &job).join("setup")).unwrap().contains("uid=20000"));

    // A follow-up finds the agent waiting, and its work committed.
    service.send(&job, "[[append seen.txt|more]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    assert!(site.file(&site.branch(), "seen.txt").unwrap().ends_with("end\nmore\n"));
    assert_eq!(service.count(&job, "agent.session"), 1);

    // A model is called through the door, by our own agent in a system that is not ours.
    let called = create(&service, "anthropic/m", "hello");
    assert_eq!(service.settled(&called)["status"], "completed", "{:#}", service.events(&called));
    assert_eq!(last_run(&service, &called)["commits"].as_array().unwrap().len(), 1);

    // Limits, and their end.
    patch(&service, json!({ "setup": null, "limits": { "memoryBytes": 134_217_728 } }));
    let hungry = service.create("[[run perl -e 'my $x = \"x\" x 400000000; sleep 9']]");
    assert_eq!(service.settled(&hungry)["status"], "failed");
    assert_eq!(last_run(&service, &hungry)["reason"]["code"], "out_of_memory", "{:#}", service.events(&hungry));

    // An image that is not there.
    patch(
        &service,
        json!({ "limits": { "memoryBytes": null }, "sandbox": { "image": "localhost/none:1", "pull": "never" } }),
    );
    let lost = service.create("x");
    service.until(&lost, "run.started", 1);
    let reason = || last_run(&service, &lost)["reason"].clone();
    let end = Instant::now() + Duration::from_secs(60);
    while reason()["text"].is_null() {
        assert!(Instant::now() < end, "{:#}", service.events(&lost));
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(reason()["text"].as_str().unwrap().contains("there is no image localhost/none:1"), "{}", reason());
    service.call("POST", &format!("{lost}/cancel"), None);

    // What a killed service leaves is gone with the next, which ends what it has itself.
    patch(&service, json!({ "sandbox": { "image": null } }));
    let long = service.create("[[run touch ~/begun; sleep 6173]]");
    let end = Instant::now() + Duration::from_secs(60);
    while !home(&site, &long).join("begun").exists() {
        assert!(Instant::now() < end, "{:#}", service.events(&long));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(is_running(&["sleep", "6173"]));
    service.kill();
    while is_running(&["sleep", "6173"]) {
        assert!(Instant::now() < end, "it outlives its service");
        std::thread::sleep(Duration::from_millis(20));
    }
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
fn an_image_in_which_our_places_lead_elsewhere_is_refused() {
    let Some(engine) = engine() else { return };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/test-image.sh");
    let made = Command::new("sh").args([script, "link"]).output().unwrap();
    let import = |name: &str, change: &str| {
        let mut command = Command::new(&engine.program[0]);
        command.args(&engine.program[1..]).args(["import", "--change", change, "-", name]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(&made.stdout).unwrap();
        assert!(child.wait().unwrap().success());
    };
    import("localhost/journeyman-link:latest", "ENV A=b");
    import("localhost/journeyman-volume:latest", "VOLUME /data");
    let site = site(&engine, "");
    for (image, word) in
        [("link", "something else in the place of /home/agent"), ("volume", "declares volumes (/data)")]
    {
        let image = format!("localhost/journeyman-{image}:latest");
        let config = std::fs::read_to_string(site.path("config.toml")).unwrap();
        std::fs::write(site.path("config.toml"), config.replace(IMAGE, &image)).unwrap();
        let output = site.run(&["doctor"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!output.status.success() && text.contains(word), "{image}: {text}");
        std::fs::write(site.path("config.toml"), config).unwrap();
        assert_eq!(containers(&engine, &site), 0, "{image}: nothing is left of it");
    }
}

#[test]
fn without_an_engine_it_says_what_to_do() {
    let site = site_with("sandbox = \"container\"\ncontainer-engine = \"/nowhere/docker.sock\"\n");
    let output = site.run(&["doctor"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!output.status.success() && text.contains("/nowhere/docker.sock does not answer"), "{text}");
    assert!(text.contains("podman system service"), "{text}");
}
