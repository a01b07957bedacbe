//! Tests of runs that exceed a limit: each ends with a reason that has the limit and the setting that raises it, and
//! leaves nothing behind.

use serde_json::{Value, json};

use crate::program::fixtures::{Service, Site, is_running, shared, site_with};

/// Returns a project with these limits.
fn service(limits: &Value) -> (Site, Service) {
    let (site, service) = shared("workers = 4\nwarm-agents = 0\n");
    let guarantees = service.get("/v2/system")["sandbox"]["guarantees"].clone();
    let lost: Vec<_> = guarantees.as_array().unwrap().iter().filter(|one| one["holds"] == false).collect();
    assert!(lost.is_empty(), "these tests need all guarantees of a sandbox; run them as root: {lost:#?}");
    service.configure(json!({ "limits": limits }));
    (site, service)
}

/// Runs a job that fails; returns the code and the text of the reason of its last run.
pub(super) fn reason(service: &Service, prompt: &str) -> (String, String) {
    reason_of(service, &service.create(prompt))
}

/// Returns the code and the text of the reason of the last run of a job that fails.
fn reason_of(service: &Service, job: &str) -> (String, String) {
    assert_eq!(service.settled(job)["status"], "failed", "{:#}", service.events(job));
    let runs = service.get(&format!("{job}/runs"));
    let reason = &runs["runs"].as_array().unwrap().last().unwrap()["reason"];
    let text = |field: &str| reason[field].as_str().unwrap_or_default().to_owned();
    (text("code"), text("text"))
}

/// Checks that the service still completes jobs.
fn check_service(service: &Service) {
    let job = service.create("[[write well.txt|yes]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
}

#[test]
fn a_run_that_exhausts_its_memory_says_so_whatever_uses_the_memory() {
    const LIMIT: u64 = 96 << 20;
    let (_site, service) = service(&json!({ "memoryBytes": LIMIT }));
    let takes = r#"perl -e '$x = "a" x 200000000; sleep 3600'"#;
    for (what, command) in [
        ("the command", takes.to_owned()),
        ("a child of a shell that continues", format!("{takes}; true")),
        ("a file in memory", "head -c 200000000 /dev/zero > /tmp/x; true".to_owned()),
        (
            "a file without a name",
            r#"perl -e '$f = syscall(319, $n = "x", 0); open(F, ">&=", $f); print F "a" x 1000000 for 1 .. 200'; true"#
                .to_owned(),
        ),
    ] {
        let (code, text) = reason(&service, &format!("[[run {command}]]"));
        assert_eq!(code, "out_of_memory", "{what}: {text}");
        assert!(text.contains(&LIMIT.to_string()) && text.contains("limits.memoryBytes"), "{text}");
    }
    check_service(&service);
}

#[test]
fn a_fork_bomb_ends_only_its_run() {
    let (_site, service) = service(&json!({ "processes": 64 }));
    let (code, text) = reason(&service, "[[run f() { f | f & }; f; sleep 3600]]");
    assert_eq!(code, "too_many_processes", "{text}");
    assert!(text.contains("64") && text.contains("limits.processes"), "{text}");
    check_service(&service);
}

#[test]
fn a_disk_that_fills_up_ends_its_run() {
    let (_site, service) = service(&json!({ "diskBytes": 32 << 20 }));
    let fill = "i=0; while [ $i -lt 8 ]; do head -c 8000000 /dev/urandom > ~/fill$i; i=$((i+1)); done; sleep 3600";
    let (code, text) = reason(&service, &format!("[[run {fill}]]"));
    assert_eq!(code, "disk_limit", "{text}");
    assert!(text.contains("33554432") && text.contains("limits.diskBytes"), "{text}");
    check_service(&service);
}

/// Scripts that keep 24 MB in a deleted file.
const HIDE: &[(&str, &str)] = &[
    ("open", "exec 9> gone; rm gone; head -c 24000000 /dev/urandom >&9"),
    ("open in the home", "exec 9> ~/gone; rm ~/gone; head -c 24000000 /dev/urandom >&9"),
    (
        "open in a daemon",
        "(setsid sh -c 'exec 9> gone; rm gone; head -c 24000000 /dev/urandom >&9; touch done; sleep 3600' &); \
         while [ ! -e done ]; do sleep 0.05; done",
    ),
    (
        "only mapped",
        "head -c 24000000 /dev/urandom > gone; (perl -e 'open(F, \"<\", \"gone\"); ($z, $l, $o) = (0, 24000000, 1); \
         $f = fileno(F); syscall(9, $z, $l, $o, $o, $f, $z); close(F); unlink(\"gone\"); sleep 3600' &); \
         while [ -e gone ]; do sleep 0.05; done",
    ),
];

#[test]
fn deleted_files_that_are_still_open_count_toward_the_limit() {
    // A single file may be as large as the limit, so there is another one.
    let (_site, service) = service(&json!({ "diskBytes": 32 << 20 }));
    for (how, script) in HIDE {
        let (code, text) =
            reason(&service, &format!("[[run {script}; head -c 16000000 /dev/urandom > more; sleep 3600]]"));
        assert_eq!(code, "disk_limit", "{how}: {text}");
        assert!(text.contains("deleted files that are still open"), "{how}: {text}");
    }
    check_service(&service);
}

#[test]
fn control_a_deleted_file_that_is_open_is_in_no_folder() {
    let dir = tempfile::tempdir().unwrap();
    let script = "exec 9> gone; rm gone; head -c 24000000 /dev/urandom >&9; du -sk . | cut -f1";
    let output = std::process::Command::new("sh").args(["-c", script]).current_dir(dir.path()).output().unwrap();
    let kib: u64 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
    assert!(kib < 1000, "du counts {kib} KiB of 24 MB");
}

#[test]
fn the_workspace_of_a_run_over_its_disk_limit_is_removed_at_once() {
    let (site, service) = service(&json!({ "diskBytes": 32 << 20 }));
    let job =
        service.create("[[run head -c 30000000 /dev/urandom > a; head -c 30000000 /dev/urandom > b; sleep 3600]]");
    let (code, text) = reason_of(&service, &job);
    assert_eq!(code, "disk_limit", "{text}");
    // The workspace is removed before the end of the run is reported.
    assert!(!site.path(&format!("data/workspaces/{}", job.rsplit('/').next().unwrap())).exists(), "it is left");
}

#[test]
fn the_disk_limit_covers_all_files_of_a_workspace() {
    let (_site, service) = service(&json!({ "diskBytes": 32 << 20 }));
    let many = "i=0; while [ $i -lt 8 ]; do head -c 8000000 /dev/urandom > \"$d/f$i\"; i=$((i+1)); done";
    let deep = "perl -e 'for (1 .. 1500) { mkdir \"d\"; chdir \"d\" } sleep 3600'";
    for (case, script) in [
        ("git's own objects", format!("d=.git/objects; {many}; sleep 3600")),
        ("a folder without permissions", format!("mkdir c; d=c; {many}; chmod 0 c; sleep 3600")),
        ("deeply nested folders", format!("cd ~ && {deep}")),
    ] {
        let (code, text) = reason(&service, &format!("[[run {script}]]"));
        assert_eq!(code, "disk_limit", "{case}: {text}");
    }
    check_service(&service);
}

#[test]
fn the_disk_limit_applies_to_a_setup_command_that_closes_its_streams() {
    let (_site, service) = service(&json!({ "diskBytes": 32 << 20 }));
    let setup =
        "exec >&- 2>&-; i=0; while [ $i -lt 8 ]; do head -c 8000000 /dev/urandom > f$i; i=$((i+1)); done; sleep 3600";
    service.configure(json!({ "setup": setup }));
    let (code, text) = reason(&service, "x");
    assert_eq!(code, "disk_limit", "{text}");
}

#[test]
fn empty_files_count_toward_the_disk_limit_and_sparse_files_cannot_exceed_it() {
    let (_site, service) = service(&json!({ "diskBytes": 32 << 20 }));
    let fill = "perl -e 'for (1 .. 60000) { open(F, \">\", \"$ENV{HOME}/f$_\"); close(F) } sleep 3600'";
    let (code, text) = reason(&service, &format!("[[run {fill}]]"));
    assert_eq!(code, "disk_limit", "{text}");
    // The file would be larger than the disk limit: it cannot be made.
    let job = service.create("[[run truncate -s 10T hole; wc -c < hole > size; rm -f hole; true]] [[write a|1]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    let diff = service.text(&format!("{job}/diff"));
    assert!(!diff.contains("10995116277760") && diff.contains("+++ b/a"), "{diff}");
    check_service(&service);
}

#[test]
fn a_run_that_takes_too_long_times_out() {
    let (_site, service) = service(&json!({ "runSeconds": 1 }));
    let (code, text) = reason(&service, "[[run while :; do :; done]]");
    assert_eq!(code, "timed_out", "{text}");
    assert!(text.contains("limits.runSeconds"), "{text}");
}

#[test]
fn a_setup_command_that_closes_its_streams_times_out() {
    let (_site, service) = service(&json!({ "runSeconds": 1 }));
    let setup = json!({ "setup": "exec >&- 2>&-; sleep 86394" });
    service.configure(setup);
    let (code, text) = reason(&service, "x");
    assert_eq!(code, "timed_out", "{text}");
    assert!(!is_running(&["sleep", "86394"]));
}

#[test]
fn processes_that_evade_their_end_are_killed_with_the_run() {
    let (_site, service) = service(&json!({}));
    // No other process on the machine sleeps for these times.
    let [deaf, apart, orphan] = ["86391", "86392", "86393"];
    let script = format!(
        "[[run (trap '' TERM HUP INT; sleep {deaf}) & setsid sleep {apart} & (setsid sh -c 'sleep {orphan} & ' &) ; sleep 0.2]]"
    );
    let job = service.create(&format!("{script} [[write a|1]]"));
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    for number in [deaf, apart, orphan] {
        assert!(!is_running(&["sleep", number]), "sleep {number}");
    }
}

#[test]
fn a_flood_of_output_does_not_fill_the_memory() {
    // Only this test uses the service, whose memory it measures.
    let site = site_with("");
    let service = site.start();
    let memory = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", service.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    check_service(&service);
    let before = memory();
    let flood = "yes | head -c 100000000; head -c 100000000 /dev/zero | tr '\\0' a; head -c 1000000 /dev/urandom";
    let job = service.create(&format!("[[run {flood}]]"));
    assert_eq!(service.settled(&job)["status"], "completed");
    // A few pieces of the output are in memory at any time.
    assert!(memory() < before + (64 << 10), "{before} KiB before, and up to {} KiB during the output", memory());
}

#[test]
fn a_large_sparse_file_is_refused() {
    let (_site, service) = service(&json!({}));
    let (code, text) = reason(&service, "[[run truncate -s 5G sparse]]");
    assert_eq!(code, "workspace_refused", "{text}");
    assert!(text.contains("sparse") && text.contains("limits.fileBytes"), "{text}");
    // A file that git ignores is not checked.
    let job = service.create("[[run truncate -s 5G sparse; echo sparse > .gitignore]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
}

#[test]
fn special_files_are_not_committed_and_links_are_not_followed() {
    let (site, service) = service(&json!({}));
    let job = service.create("[[run rm README.md; mkfifo README.md; mkfifo new; mknod node p; echo 1 > a]]");
    // The answer names the files, so the message is not done.
    assert_eq!(service.settled(&job)["status"], "failed", "{:#}", service.events(&job));
    assert_eq!(service.left_out(&job), ["README.md", "new", "node"]);
    assert_eq!(site.file(&site.branch(), "a").as_deref(), Some("1\n"));
    assert!(site.file(&site.branch(), "README.md").is_some(), "a file that became a pipe is not removed");
    let (site, service) = self::service(&json!({}));
    let linked = service.create("[[run ln -s /etc/shadow link; ln -s ../../../../data/master.key key]]");
    assert_eq!(service.settled(&linked)["status"], "completed");
    assert_eq!(site.file(&site.branch(), "link").as_deref(), Some("/etc/shadow"), "the link itself, not its target");
}
