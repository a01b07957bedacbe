//! Tests on a disk with user quotas, where the kernel enforces the disk limit of a run, even for files that the service
//! cannot count.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::json;

use super::limits::reason;
use crate::program::fixtures::{Service, Site, site_with};

/// A script that puts the data directory on a disk with user quotas that only the service sees.
const QUOTAS: &str = r#"
    set -e
    mkfs.ext4 -q -F -O quota "$1.disk" 300M
    mkdir "$1.mounted"
    mount -o loop,usrquota "$1.disk" "$1.mounted"
    cp -a "$1/." "$1.mounted"
    mount --bind "$1.mounted" "$1"
    shift
    exec "$@"
"#;

/// A script that fills four files with 12 MB each, one after the other. Each has no name, and its only descriptor is in
/// flight through a socket when the next begins. (sendmsg is 46, `SCM_RIGHTS` is 1.) It writes `hidden` when all are
/// full; if one cannot be filled, it keeps those before it.
const IN_FLIGHT: &str = r#"perl -MSocket -MIO::Handle -e '
    socketpair(A, B, AF_UNIX, SOCK_STREAM, 0) or die;
    for (1 .. 4) {
        open(F, "+>", "gone") or die; unlink("gone");
        (print F ("x" x 12000000) and F->flush) or do { sleep 3600; exit };
        $c = pack("Q l l l x4", 20, 1, 1, fileno(F)); $d = "x"; $v = pack("P Q", $d, 1);
        $m = pack("Q L x4 P Q P Q l x4", 0, 0, $v, 1, $c, length($c), 0);
        syscall(46, fileno(A), $m, 0) == 1 or die; close(F);
    }
    sleep 5; open(D, ">", "hidden"); print D "yes"; close(D)'"#;

/// Returns whether this machine can mount a disk with user quotas.
fn has_quotas() -> bool {
    let script = r#"mkfs.ext4 -q -F -O quota "$1" 32M && mount -o loop,usrquota "$1" /mnt"#;
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(dir.path().join("disk"));
    let done = command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success());
    if !done {
        let _ =
            writeln!(std::io::stderr(), "IGNORED: this kernel has no quotas, or this user may not mount such a disk");
    }
    done
}

fn disk_note(service: &Service) -> String {
    let system = service.get("/v2/system");
    let guarantees = system["sandbox"]["guarantees"].as_array().unwrap();
    let disk = guarantees.iter().find(|one| one["name"] == "disk").unwrap();
    disk["note"].as_str().unwrap().to_owned()
}

fn site() -> Site {
    site_with("warm-agents = 0\ndisk-reserve = \"0\"\n")
}

fn limit(service: &Service) {
    let limits = json!({ "limits": { "diskBytes": 32 << 20 } });
    assert_eq!(service.call("PATCH", "/v2/projects/shop", Some(limits)).0, 200);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_kernel_enforces_the_disk_limit_for_files_that_cannot_be_counted() {
    if !has_quotas() {
        return;
    }
    let site = site();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", QUOTAS, "sh"]).arg(site.path("data"));
    let service = site.start_wrapped(command);
    assert_eq!(disk_note(&service), "enforced by the kernel (user quota)");
    limit(&service);
    let inodes = "perl -e 'for (1 .. 60000) { open(F, \">\", \"f$_\") or last; close(F) } sleep 3600'";
    let once = "head -c 30000000 /dev/zero > a; head -c 30000000 /dev/zero > b; sleep 3600";
    for (what, script) in [("descriptors in flight", IN_FLIGHT), ("inodes", inodes), ("a fast writer", once)] {
        let (code, text) = reason(&service, &format!("[[run {script}]]"));
        assert_eq!(code, "disk_limit", "{what}: {text}");
        assert!(text.contains("33554432") && text.contains("limits.diskBytes"), "{what}: {text}");
    }
    // A setup command that ends at once, before the disk is checked.
    let setup = json!({ "setup": "head -c 30000000 /dev/zero > a && head -c 30000000 /dev/zero > b" });
    assert_eq!(service.call("PATCH", "/v2/projects/shop", Some(setup)).0, 200);
    let (code, text) = reason(&service, "x");
    assert_eq!(code, "disk_limit", "{text}");
    assert_eq!(service.call("PATCH", "/v2/projects/shop", Some(json!({ "setup": null }))).0, 200);
    let job = service.create("[[write well.txt|yes]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
}

#[cfg(target_arch = "x86_64")]
#[test]
fn control_without_quotas_descriptors_in_flight_are_not_counted() {
    let site = site();
    let service = site.start();
    if disk_note(&service).starts_with("enforced") {
        let _ = writeln!(std::io::stderr(), "IGNORED: the disk of {} has quotas", site.path("data").display());
        return;
    }
    limit(&service);
    let job = service.create(&format!("[[run {IN_FLIGHT}]]"));
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    let diff = service.text(&format!("{job}/diff"));
    assert!(diff.contains("+++ b/hidden"), "the run stored 48 MB although its limit is 32 MiB: {diff}");
}
