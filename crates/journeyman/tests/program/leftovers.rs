//! Tests that the next start removes what a killed service leaves behind: files, folders, processes, control groups.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime};

use journeyman_testkit::PATIENCE;

use super::fixtures::{Service, Site, is_running, site};

/// The commands that run in the sandboxes of the tests and nowhere else: each test has its own.
const SLEEP: [&str; 2] = ["sleep", "86417"];
const OTHER_SLEEP: [&str; 2] = ["sleep", "86419"];

/// Waits until a condition holds.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    journeyman_testkit::until(what, || is_so().then_some(()));
}

/// Returns the files and folders that only a service in the middle of an operation has.
fn unfinished(site: &Site) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![site.path("data")]);
    while let Some(folder) = folders.pop() {
        let entries: Vec<_> = std::fs::read_dir(&folder).into_iter().flatten().flatten().collect();
        for entry in entries {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            let last = name.rsplit('.').next().unwrap_or_default();
            let is_numbered = name.contains('.') && !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
            let is_lock = last == "lock" && !["serve.lock", ".lock"].contains(&name.as_str());
            let is_aside = ["scratch", "removed"].iter().any(|aside| folder == site.path(&format!("data/{aside}")));
            if is_aside || last == "draft" || is_numbered && is_ours(&folder) || is_lock || name.starts_with("tmp_") {
                found.push(path);
            } else if path.is_dir() && !path.is_symlink() && is_ours(&folder) {
                folders.push(path);
            }
        }
    }
    found
}

/// Returns whether the program itself chooses the names in a folder.
fn is_ours(folder: &Path) -> bool {
    !["workspaces", "objects", "etc", "tree"].iter().any(|name| folder.ends_with(name))
}

/// Returns the control group folders of all services that have used the site's data directory, and those of the last
/// one.
fn groups(site: &Site) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let text = std::fs::read_to_string(site.path("data/sandbox/groups")).unwrap_or_default();
    let last: Vec<PathBuf> = text.lines().map(PathBuf::from).collect();
    let mut all = Vec::new();
    for folder in &last {
        // `journeyman-<owner>-<process ID>`
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let owner = name.rsplit_once('-').unwrap().0.to_owned();
        let entries = std::fs::read_dir(folder.parent().unwrap()).unwrap().flatten();
        let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&format!("{owner}-")));
        all.extend(ours.map(|entry| entry.path()));
    }
    (all, last)
}

/// Starts a service with a job that runs a command in the sandbox.
fn at_work(site: &Site, sleep: &[&str]) -> (Service, String) {
    let service = site.start();
    let job = service.create(&format!("[[run {}]]", sleep.join(" ")));
    until("the run", || is_running(sleep));
    (service, job)
}

#[test]
fn the_next_start_removes_what_a_killed_service_left_behind() {
    let site = site();
    // Kill the service during its startup, a little later each time: what it is doing then depends on the machine.
    for moment in 0..12 {
        let mut serve = site.command(&["serve", "--listen", "127.0.0.1:0"]);
        let mut serve = serve.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(moment * 25));
        serve.kill().unwrap();
        serve.wait().unwrap();
    }
    // Kill the service in the middle of runs.
    let mut jobs = Vec::new();
    for _ in 0..3 {
        let (service, job) = at_work(&site, &SLEEP);
        jobs.push(job);
        service.kill();
    }
    // Plant the leftovers of operations that are too short to be interrupted reliably.
    let number = 4_000_001;
    let planted = [
        format!("data/sandbox/etc.{number}/passwd"),
        format!("data/sandbox/etc.old.{number}/passwd"),
        format!("data/git/gitconfig.{number}.draft"),
        format!("data/worker.{number}.draft"),
        "data/scratch/job.session".to_owned(),
        "data/spares/abc.draft/tree/file".to_owned(),
        "data/spares/gone/tree/file".to_owned(),
        "data/repositories/.other.1700000000000000.0/HEAD".to_owned(),
        "data/repositories/shop.git/packed-refs.lock".to_owned(),
        "data/blobs/sessions/job_x/1.draft".to_owned(),
    ];
    for path in planted.iter().map(|path| site.path(path)) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = std::fs::File::create(path).unwrap();
        file.write_all(b"x").unwrap();
        // The file is from the killed service, not from the moment at which the next one starts.
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    }
    assert!(unfinished(&site).len() >= planted.len() - 2, "the planted files are not found: {:#?}", unfinished(&site));
    let service = site.start();
    for job in &jobs {
        service.call("POST", &format!("{job}/cancel"), None);
    }
    until("the end of the runs", || !is_running(&SLEEP));
    let end = Instant::now() + PATIENCE;
    while !unfinished(&site).is_empty() {
        assert!(Instant::now() < end, "not removed: {:#?}\n{}", unfinished(&site), service.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(
        !site.path("data/spares/gone").exists() && !site.path("data/repositories/.other.1700000000000000.0").exists()
    );
    // Only the groups of the running service are there.
    let (mut all, mut last) = groups(&site);
    all.sort();
    last.sort();
    assert_eq!(all, last);
    assert!(!rustix::process::geteuid().is_root() || !last.is_empty(), "root has control groups");
    // The service works, even on the repository whose lock was left behind.
    let job = service.create("[[write a.txt|A]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    drop(service);
}

#[test]
fn a_start_leaves_control_groups_and_processes_of_another_service_alone() {
    let (one, other) = (site(), site());
    let (living, job) = at_work(&other, &OTHER_SLEEP);
    let (before, _) = groups(&other);
    let service = one.start();
    service.kill();
    let _service = one.start();
    let (after, last) = groups(&other);
    assert_eq!(before, after);
    assert!(last.iter().all(|folder| folder.exists()));
    assert!(is_running(&OTHER_SLEEP), "the sandbox of the other service still runs");
    living.call("POST", &format!("{job}/cancel"), None);
    until("the end of the run", || !is_running(&OTHER_SLEEP));
}

#[test]
fn an_unfinished_workspace_is_removed_at_the_start_of_the_service() {
    let site = site();
    let service = site.start();
    let (whole, broken) = (service.create("[[write a.txt|A]]"), service.create("[[write b.txt|B]]"));
    let workspace = |job: &str| site.path(&format!("data/workspaces/{}", job.rsplit('/').next().unwrap()));
    for job in [&whole, &broken] {
        assert_eq!(service.settled(job)["status"], "completed", "{:#}", service.events(job));
        until("the mark of the workspace", || workspace(job).join("marker.json").exists());
    }
    service.kill();
    // As if a service had been killed while it removed or built a workspace.
    std::fs::remove_file(workspace(&broken).join("marker.json")).unwrap();
    let service = site.start();
    until("the removal of the workspace", || !workspace(&broken).exists());
    assert!(workspace(&whole).join("tree/a.txt").exists(), "the other workspace is unchanged");
    service.send(&broken, "[[write c.txt|C]]");
    assert_eq!(service.settled(&broken)["status"], "completed", "{:#}", service.events(&broken));
}
