//! Tests of a full disk and of a failing disk: nothing is accepted that could not be stored, nothing that was accepted
//! is lost, and no answer claims an outcome that is not known.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use journeyman_testkit::{FailingDisk, until};
use serde_json::json;

use super::fixtures::{Service, Site, site, site_with, wrapped};

/// A script that puts the data directory on a disk of 32 MiB that only the service sees.
const SMALL: &str = r#"
    set -e
    mkdir "$1.small"
    mount -t tmpfs -o size=32m,mode=700 tmpfs "$1.small"
    cp -a "$1/." "$1.small"
    mount --bind "$1.small" "$1"
    shift
    exec "$@"
"#;

/// Returns the options of unshare(1) with which this user may mount a disk: as root, or as root of a new user
/// namespace; `None` if neither works.
fn unshare() -> Option<Vec<&'static str>> {
    let choices = [vec!["--mount"], vec!["--user", "--map-root-user", "--mount"]];
    choices.into_iter().find(|options| {
        let mut attempt = Command::new("unshare");
        attempt
            .args(options)
            .args(["mount", "-t", "tmpfs", "tmpfs", "/mnt"])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        attempt.status().is_ok_and(|status| status.success())
    })
}

struct Disk {
    filler: PathBuf,
}

impl Disk {
    fn of(site: &Site, service: &Service) -> Self {
        let seen = site.path("data").join("filler");
        Self { filler: format!("/proc/{}/root{}", service.id(), seen.display()).into() }
    }

    fn fill(&self) {
        let mut filler = File::create(&self.filler).unwrap();
        // Write single pages, so that no page stays free.
        loop {
            match filler.write_all(&[0; 4096]) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => return,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Fills the disk until only `free` bytes are free.
    fn fill_to(&self, free: u64) {
        let disk = rustix::fs::statvfs(self.filler.parent().unwrap()).unwrap();
        let bytes = (disk.f_bavail * disk.f_frsize).saturating_sub(free);
        File::create(&self.filler).unwrap().write_all(&vec![0; usize::try_from(bytes).unwrap()]).unwrap();
    }

    fn clear(&self) {
        std::fs::remove_file(&self.filler).unwrap();
    }
}

#[test]
fn below_the_reserve_no_run_starts_and_growing_runs_are_stopped_before_the_disk_is_full() {
    let Some(options) = unshare() else {
        let _ = writeln!(std::io::stderr(), "not tested: this user may not mount a small disk");
        return;
    };
    let site = site_with("workers = 4\ndisk-reserve = \"6MiB\"\n");
    let mut command = Command::new("unshare");
    command.args(options).args(["sh", "-c", SMALL, "sh"]).arg(site.path("data"));
    let service = site.start_wrapped(command);
    assert_eq!(service.get("/readyz")["disk"]["enough"], true);
    // The first run writes 1.5 MB at a time, slower than the disk is checked, and would continue until the disk is
    // full; the other run does nothing.
    let quiet = service.create("[[run touch begun; while [ ! -e ~/never ]; do sleep 0.1; done]]");
    service.until(&quiet, "run.started", 1);
    let fill = service.create(
        "[[run for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do head -c 1500000 /dev/urandom > ~/$i; sleep 0.3; done; sleep 3600]]",
    );
    let first_reason = || {
        let runs = service.get(&format!("{fill}/runs"));
        runs["runs"].as_array().and_then(|runs| runs.first().map(|run| run["reason"].clone())).unwrap_or_default()
    };
    until("the end of the run that fills the disk", || (first_reason()["code"] == "disk_full").then_some(()));
    assert!(first_reason()["text"].as_str().unwrap().contains("disk-reserve"), "{}", first_reason());
    assert_eq!(service.get(&quiet)["status"], "active", "the run that had not grown continues");
    // While something else fills the disk, no run is claimed.
    let disk = Disk::of(&site, &service);
    assert_eq!(service.call("POST", &format!("{fill}/cancel"), None).0 / 100, 2);
    assert_eq!(service.call("POST", &format!("{quiet}/cancel"), None).0 / 100, 2);
    disk.fill_to(3 << 20);
    let job = service.create("[[append a|1]]");
    assert_eq!(service.get("/readyz")["disk"]["enough"], false);
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert_eq!(service.count(&job, "run.started"), 0, "no run is claimed");
    disk.clear();
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
}

#[test]
fn with_a_full_disk_messages_are_refused_and_none_is_lost() {
    let Some(options) = unshare() else {
        let _ = writeln!(std::io::stderr(), "not tested: this user may not mount a small disk");
        return;
    };
    let site = site();
    let mut command = Command::new("unshare");
    let data = site.path("data");
    command.args(options).args(["sh", "-c", SMALL, "sh"]).arg(&data);
    let service = site.start_wrapped(command);
    let disk = Disk::of(&site, &service);
    let job = service.create("[[append a|1]]");
    service.settled(&job);

    disk.fill();
    let message = format!("{job}/message");
    let (status, refusal) = service.call("POST", &message, Some(json!({ "prompt": "[[append a|refused]]" })));
    assert_eq!((status, refusal["code"].as_str()), (503, Some("storage_full")), "{refusal}");
    assert_eq!(service.get(&job)["status"], "completed", "stored data can be read");
    let (status, ready) = service.call("GET", "/readyz", None);
    assert_eq!((status, ready["code"].as_str()), (503, Some("storage_full")), "{ready}");
    assert_eq!((&ready["reads"]["ok"], &ready["writes"]["ok"]), (&json!(true), &json!(false)), "{ready}");
    assert!(ready["writes"]["checkedAt"].is_string() && ready["requestId"].is_string(), "{ready}");
    let reads = service.get("/readyz/reads");
    assert_eq!((&reads["reads"]["ok"], &reads["writes"]["ok"]), (&json!(true), &json!(false)), "{reads}");
    disk.clear();
    until("the service is ready", || (service.call("GET", "/readyz", None).0 == 200).then_some(()));
    service.send(&job, "[[append a|2]]");
    assert_eq!(service.settled(&job)["status"], "completed");

    // Fill the disk while an agent works.
    service.send(&job, "[[say begun]] [[sleep 5]] [[append a|3]]");
    service.until(&job, "agent.message", 3);
    disk.fill();
    std::thread::sleep(Duration::from_secs(7));
    disk.clear();
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    let messages = service.get(&format!("{job}/messages"))["messages"].as_array().unwrap().len();
    assert_eq!(messages, 3, "the refused message is not among them");
    let diff = service.text(&format!("{job}/diff"));
    let added: Vec<&str> = diff.lines().filter(|line| line.starts_with('+') && !line.starts_with("+++")).collect();
    assert_eq!(added, ["+1", "+2", "+3"], "each once");
}

/// A process that keeps a small disk, on which services can be started one after the other.
struct Holder {
    process: std::process::Child,
    is_root: bool,
}

impl Holder {
    fn start(site: &Site, options: &[&str]) -> Self {
        let mut command = Command::new("unshare");
        command.args(options).args(["sh", "-c", SMALL, "sh"]).arg(site.path("data")).args(["sleep", "infinity"]);
        let holder = Self { process: command.spawn().unwrap(), is_root: !options.contains(&"--user") };
        let data = holder.seen(&site.path("data"));
        until("the small disk is there", || {
            let disk = rustix::fs::statvfs(&data).ok()?;
            (disk.f_blocks * disk.f_frsize == 32 << 20).then_some(())
        });
        holder
    }

    /// Returns the path of a file on the disk for this process.
    fn seen(&self, path: &std::path::Path) -> PathBuf {
        format!("/proc/{}/root{}", self.process.id(), path.display()).into()
    }

    /// Returns the beginning of a command line that runs a program on the disk.
    fn enter(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.process.id().to_string(), "--mount"]);
        if !self.is_root {
            command.args(["--user", "--preserve-credentials"]);
        }
        command
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_service_starts_on_a_full_disk_and_becomes_ready_when_there_is_space() {
    let Some(options) = unshare() else {
        let _ = writeln!(std::io::stderr(), "not tested: this user may not mount a small disk");
        return;
    };
    let site = site();
    let holder = Holder::start(&site, &options);
    let mut service = site.start_wrapped(holder.enter());
    let job = service.create("[[append a|1]]");
    service.settled(&job);
    // A clean end removes the files that SQLite needs to read the database, so the next start must create them.
    service.terminate();
    assert_eq!(service.ended(), Some(0), "{}", service.log());
    let filler = |name: &str| Disk { filler: holder.seen(&site.path("data").join(name)) };
    let (first, second) = (filler("filler"), filler("filler-2"));
    first.fill();
    let service = site.start_wrapped(holder.enter());
    second.fill();
    assert_eq!(service.get(&job)["status"], "completed", "stored data can be read");
    let (status, refusal) =
        service.call("POST", &format!("{job}/message"), Some(json!({ "prompt": "[[append a|no]]" })));
    assert_eq!((status, refusal["code"].as_str()), (503, Some("storage_full")), "{refusal}");
    until("the service is not ready", || (service.call("GET", "/readyz", None).0 == 503).then_some(()));
    assert_eq!(service.call("GET", "/readyz/reads", None).0, 200);
    first.clear();
    second.clear();
    until("the service is ready", || (service.call("GET", "/readyz", None).0 == 200).then_some(()));
    service.send(&job, "[[append a|2]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{}", service.log());
}

/// Returns the beginning of a command line that runs a program on the disk.
fn on_disk(disk: &FailingDisk) -> Command {
    let mut command = Command::new("env");
    for (name, path) in disk.environment() {
        command.arg(format!("{name}={}", path.display()));
    }
    command
}

#[test]
fn an_io_error_at_the_commit_is_an_unknown_outcome_and_the_service_stops() {
    let site = site();
    let disk = FailingDisk::new(site.dir.path());
    let mut service = site.start_wrapped(on_disk(&disk));
    let job = service.create("[[append a|1]]");
    service.settled(&job);

    disk.fail();
    let message = format!("{job}/message");
    let (status, answer) = service.call("POST", &message, Some(json!({ "prompt": "[[append a|2]]" })));
    assert_eq!((status, answer["code"].as_str()), (504, Some("outcome_unknown")), "{answer}");
    let code = service.ended();
    assert!(code.is_some_and(|code| code != 0), "a supervisor restarts the service: {code:?}");
    service.until_log("the database can no longer be trusted; the service is stopping");

    // While the disk fails, the service does not start.
    let serve = site.command(&["serve", "--listen", "127.0.0.1:0"]);
    let refused = wrapped(on_disk(&disk), &serve).output().unwrap();
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && error.contains("journeyman.db-wal"), "{error}");

    // After the disk works again, the service finds the transaction in the database's log. That is why the answer left
    // the outcome open.
    disk.work();
    let service = site.start();
    assert_eq!(service.call("GET", "/readyz", None).0, 200);
    assert_eq!(service.settled(&job)["status"], "completed");
    let messages = service.get(&format!("{job}/messages"))["messages"].as_array().unwrap().len();
    assert_eq!(messages, 2);
    service.send(&job, "[[append a|3]]");
    assert_eq!(service.settled(&job)["status"], "completed");
    let diff = service.text(&format!("{job}/diff"));
    let added: Vec<&str> = diff.lines().filter(|line| line.starts_with('+') && !line.starts_with("+++")).collect();
    assert_eq!(added, ["+1", "+2", "+3"], "each once");
}
