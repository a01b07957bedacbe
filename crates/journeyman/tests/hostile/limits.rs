//! Runs that use more than they may: each ends with its reason, its number and how to raise it, and leaves nothing behind.

use serde_json::{Value, json};

use crate::program::given::{Service, Site, is_running, site_with};

fn service(limits: &Value) -> (Site, Service) {
    let site = site_with("lease = \"3s\"\nwarm-agents = 0\n");
    let service = site.start();
    let guarantees = service.get("/v2/system")["sandbox"]["guarantees"].clone();
    let lost: Vec<_> = guarantees.as_array().unwrap().iter().filter(|one| one["holds"] == false).collect();
    assert!(lost.is_empty(), "these tests need all that a sandbox promises, as root has it: {lost:#?}");
    let (status, body) = service.call("PATCH", "/v2/projects/shop", Some(json!({ "limits": limits })));
    assert_eq!(status, 200, "{body}");
    (site, service)
}

/// The reason of the job's last run, as code and text; it has ended and is not tried again.
pub(super) fn reason(service: &Service, prompt: &str) -> (String, String) {
    let job = service.create(prompt);
    assert_eq!(service.settled(&job)["status"], "failed", "{:#}", service.events(&job));
    let runs = service.get(&format!("{job}/runs"));
    let reason = &runs["runs"].as_array().unwrap().last().unwrap()["reason"];
    let text = |field: &str| reason[field].as_str().unwrap_or_default().to_owned();
    (text("code"), text("text"))
}

/// The service goes on.
fn is_well(service: &Service) {
    let job = service.create("[[write well.txt|yes]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
}

#[test]
fn memory_that_runs_out_is_told_from_other_ends_whoever_takes_it() {
    const LIMIT: u64 = 96 << 20;
    let (_site, service) = service(&json!({ "memoryBytes": LIMIT }));
    let takes = r#"perl -e '$x = "a" x 200000000; sleep 5'"#;
    for (who, command) in [
        ("the command", takes.to_owned()),
        ("a child of a shell that goes on", format!("{takes}; true")),
        ("a file in memory", "head -c 200000000 /dev/zero > /tmp/x; true".to_owned()),
        (
            "a file without a name",
            r#"perl -e '$f = syscall(319, $n = "x", 0); open(F, ">&=", $f); print F "a" x 1000000 for 1 .. 200'; true"#
                .to_owned(),
        ),
    ] {
        let (code, text) = reason(&service, &format!("[[run {command}]]"));
        assert_eq!(code, "out_of_memory", "{who}: {text}");
        assert!(text.contains(&LIMIT.to_string()) && text.contains("limits.memoryBytes"), "{text}");
    }
    is_well(&service);
}

#[test]
fn a_fork_bomb_ends_its_run_and_nothing_else() {
    let (_site, service) = service(&json!({ "processes": 64 }));
    let (code, text) = reason(&service, "[[run f() { f | f & }; f; sleep 30]]");
    assert_eq!(code, "too_many_processes", "{text}");
    assert!(text.contains("64") && text.contains("limits.processes"), "{text}");
    is_well(&service);
}

#[test]
fn a_disk_that_fills_up_ends_its_run() {
    let (_site, service) = service(&json!({ "diskBytes": 32 << 20 }));
    let fill = "i=0; while [ $i -lt 8 ]; do head -c 8000000 /dev/urandom > ~/fill$i; i=$((i+1)); done; sleep 30";
    let (code, text) = reason(&service, &format!("[[run {fill}]]"));
    assert_eq!(code, "disk_limit", "{text}");
    assert!(text.contains("33554432") && text.contains("limits.diskBytes"), "{text}");
    is_well(&service);
}

/// Ways to keep 24 MB in a file that was removed.
const HIDE: &[(&str, &str)] = &[
    ("open", "exec 9> gone; rm gone; head -c 24000000 /dev/urandom >&9"),
    ("open in the home", "exec 9> ~/gone; rm ~/gone; head -c 24000000 /dev/urandom >&9"),
    (
        "open in a process that has left",
        "(setsid sh -c 'exec 9> gone; rm gone; head -c 24000000 /dev/urandom >&9; touch done; sleep 30' &); \
         while [ ! -e done ]; do sleep 0.05; done",
    ),
    (
        "mapped alone",
        "head -c 24000000 /dev/urandom > gone; (perl -e 'open(F, \"<\", \"gone\"); ($z, $l, $o) = (0, 24000000, 1); \
         $f = fileno(F); syscall(9, $z, $l, $o, $o, $f, $z); close(F); unlink(\"gone\"); sleep 30' &); \
         while [ -e gone ]; do sleep 0.05; done",
    ),
];

#[test]
fn removed_files_that_are_still_open_count() {
    // A single file may be as large as the limit, so there is another one.
    let (_site, service) = service(&json!({ "diskBytes": 32 << 20 }));
    for (how, script) in HIDE {
        let (code, text) =
            reason(&service, &format!("[[run {script}; head -c 16000000 /dev/urandom > more; sleep 30]]"));
        assert_eq!(code, "disk_limit", "{how}: {text}");
        assert!(text.contains("deleted files that are still open"), "{how}: {text}");
    }
    is_well(&service);
}

#[test]
fn control_a_removed_file_that_is_open_is_in_no_folder() {
    let dir = tempfile::tempdir().unwrap();
    let script = "exec 9> gone; rm gone; head -c 24000000 /dev/urandom >&9; du -sk . | cut -f1";
    let said = std::process::Command::new("sh").args(["-c", script]).current_dir(dir.path()).output().unwrap();
    let kib: u64 = String::from_utf8(said.stdout).unwrap().trim().parse().unwrap();
    assert!(kib < 1000, "a look at folders sees {kib} KiB of 24 MB");
}

#[test]
fn what_a_run_has_left_that_filled_its_disk_is_removed_at_once() {
    let (site, service) = service(&json!({ "diskBytes": 32 << 20 }));
    let (code, text) =
        reason(&service, "[[run head -c 30000000 /dev/urandom > a; head -c 30000000 /dev/urandom > b; sleep 30]]");
    assert_eq!(code, "disk_limit", "{text}");
    // The workspace is removed before the end of the run is reported.
    let left = std::fs::read_dir(site.path("data/workspaces")).unwrap().count();
    assert_eq!(left, 0, "no workspace is left");
}

#[test]
fn no_place_of_a_workspace_is_left_out_of_its_disk() {
    let (_site, service) = service(&json!({ "diskBytes": 32 << 20 }));
    let many = "i=0; while [ $i -lt 8 ]; do head -c 8000000 /dev/urandom > \"$d/f$i\"; i=$((i+1)); done";
    let deep = "perl -e 'for (1 .. 1500) { mkdir \"d\"; chdir \"d\" } sleep 30'";
    for (place, script) in [
        ("git's own objects", format!("d=.git/objects; {many}; sleep 30")),
        ("a folder that is closed", format!("mkdir c; d=c; {many}; chmod 0 c; sleep 30")),
        ("folders deeper than anybody looks", format!("cd ~ && {deep}")),
    ] {
        let (code, text) = reason(&service, &format!("[[run {script}]]"));
        assert_eq!(code, "disk_limit", "{place}: {text}");
    }
    is_well(&service);
}

#[test]
fn a_setup_command_that_closes_its_streams_is_watched_all_the_same() {
    let (_site, service) = service(&json!({ "diskBytes": 32 << 20 }));
    let setup =
        "exec >&- 2>&-; i=0; while [ $i -lt 8 ]; do head -c 8000000 /dev/urandom > f$i; i=$((i+1)); done; sleep 30";
    assert_eq!(service.call("PATCH", "/v2/projects/shop", Some(json!({ "setup": setup }))).0, 200);
    let (code, text) = reason(&service, "x");
    assert_eq!(code, "disk_limit", "{text}");
}

#[test]
fn files_without_content_fill_a_disk_too_and_holes_are_no_way_around() {
    let (_site, service) = service(&json!({ "diskBytes": 32 << 20 }));
    let fill = "perl -e 'for (1 .. 60000) { open(F, \">\", \"$ENV{HOME}/f$_\"); close(F) } sleep 30'";
    let (code, text) = reason(&service, &format!("[[run {fill}]]"));
    assert_eq!(code, "disk_limit", "{text}");
    // Longer than all of its room may be: it cannot be made.
    let job = service.create("[[run truncate -s 10T hole; wc -c < hole > size; rm -f hole; true]] [[write a|1]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    let diff = service.text(&format!("{job}/diff"));
    assert!(!diff.contains("10995116277760") && diff.contains("+++ b/a"), "{diff}");
    is_well(&service);
}

#[test]
fn a_run_that_takes_too_long_ends() {
    let (_site, service) = service(&json!({ "runSeconds": 1 }));
    let (code, text) = reason(&service, "[[run while :; do :; done]]");
    assert_eq!(code, "timed_out", "{text}");
    assert!(text.contains("limits.runSeconds"), "{text}");
}

#[test]
fn a_setup_command_that_closes_its_streams_and_goes_on_takes_too_long() {
    let (_site, service) = service(&json!({ "runSeconds": 1 }));
    let setup = json!({ "setup": "exec >&- 2>&-; sleep 86394" });
    assert_eq!(service.call("PATCH", "/v2/projects/shop", Some(setup)).0, 200);
    let (code, text) = reason(&service, "x");
    assert_eq!(code, "timed_out", "{text}");
    assert!(!is_running(&["sleep", "86394"]));
}

#[test]
fn what_hides_from_its_end_ends_with_the_run() {
    let (_site, service) = service(&json!({}));
    // Numbers that nobody else sleeps for.
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
fn a_flood_of_output_passes_by() {
    let (_site, service) = service(&json!({}));
    let memory = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", service.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    is_well(&service);
    let before = memory();
    let flood = "yes | head -c 100000000; head -c 100000000 /dev/zero | tr '\\0' a; head -c 1000000 /dev/urandom";
    let job = service.create(&format!("[[run {flood}]]"));
    assert_eq!(service.settled(&job)["status"], "completed");
    // Some pieces of it are on the way at any time.
    assert!(memory() < before + (64 << 10), "{before} KiB before, {} KiB at most meanwhile", memory());
}

#[test]
fn a_file_that_only_seems_large_is_refused_in_time() {
    let (_site, service) = service(&json!({}));
    let (code, text) = reason(&service, "[[run truncate -s 5G sparse]]");
    assert_eq!(code, "workspace_refused", "{text}");
    assert!(text.contains("sparse") && text.contains("limits.fileBytes"), "{text}");
    // Where git is told to pass over it, it is nobody's business.
    let job = service.create("[[run truncate -s 5G sparse; echo sparse > .gitignore]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
}

#[test]
fn what_is_no_file_is_not_committed() {
    let (site, service) = service(&json!({}));
    // It is read as if it was gone, or refused; nobody waits for somebody to write into it.
    let job = service.create("[[run rm README.md; mkfifo README.md; mkfifo new; mknod node p; echo 1 > a]]");
    let record = service.settled(&job);
    let runs = service.get(&format!("{job}/runs"));
    let reason = runs["runs"][0]["reason"].clone();
    assert_eq!(record["status"], "failed", "{:#}", service.events(&job));
    assert_eq!(reason["code"], "workspace_refused", "{reason}");
    assert!(reason["text"].as_str().unwrap().contains("README.md"), "{reason}");
    let linked = service.create("[[run ln -s /etc/shadow link; ln -s ../../../../data/master.key key]]");
    assert_eq!(service.settled(&linked)["status"], "completed");
    assert_eq!(
        site.file(&site.branch(), "link").as_deref(),
        Some("/etc/shadow"),
        "the link itself, not what it leads to"
    );
}
