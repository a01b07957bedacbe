//! Tests of power cuts: work that a receipt calls finished is on the disk, and the service continues with it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::fixtures::{Service, Site, git, site};

/// A script that mounts the image `$1` as the data directory `$2`. If the image is empty, the script first copies the
/// existing data to it.
const MOUNT: &str = r#"
    set -e
    image=$1 data=$2
    shift 2
    mkdir -p "$data.disk"
    mount -o loop "$image" "$data.disk"
    [ -e "$data.disk/journeyman.db" ] || cp -a "$data/." "$data.disk"
    sync -f "$data.disk"
    mount --bind "$data.disk" "$data"
    exec "$@"
"#;

/// Creates an ext4 file system in a file; returns `None` if this user may not mount it.
fn image(site: &Site, name: &str) -> Option<PathBuf> {
    let path = site.path(name);
    std::fs::File::create(&path).unwrap().set_len(512 << 20).unwrap();
    let run = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).arg(&path).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let try_it = "mkdir -p \"$1.try\" && mount -o loop \"$1\" \"$1.try\"";
    let is_made = run("mkfs.ext4", &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"]);
    if is_made && run("unshare", &["--mount", "sh", "-c", try_it, "sh"]) {
        return Some(path);
    }
    let _ = writeln!(std::io::stderr(), "ignored: this user may not mount a file system in a file");
    None
}

fn start_on(site: &Site, image: &Path) -> Service {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", MOUNT, "sh"]).arg(image).arg(site.path("data"));
    site.start_wrapped(command)
}

/// Kills the service; returns a copy of the disk without the data that only the kernel's memory holds.
fn cut(site: &Site, service: Service, image: &Path, name: &str) -> PathBuf {
    service.freeze();
    let data = format!("/proc/{}/root{}", service.id(), site.path("data").display());
    let copy = site.path(name);
    // A file that is not synced shows whether the copy of the image lacks such data. If the kernel has much data in
    // memory, it may write the file by itself at any time; the cut is then repeated. No cut reuses a name: the disk may
    // have the file that an earlier cut has written.
    let control = (0..20).map(|attempt| format!("unsynced-{name}-{attempt}")).find(|control| {
        let file = Path::new(&data).join(control);
        std::fs::write(&file, "x").unwrap();
        std::fs::copy(image, &copy).unwrap();
        is_only_in_memory(&file)
    });
    std::fs::write(site.path("control"), control.unwrap()).unwrap();
    service.thaw();
    service.kill();
    copy
}

/// Returns whether the file system has not yet allocated blocks for the data of a file.
fn is_only_in_memory(file: &Path) -> bool {
    let listed = Command::new("/usr/sbin/filefrag").arg("-v").arg(file).output().unwrap();
    assert!(listed.status.success(), "{listed:?}");
    String::from_utf8(listed.stdout).unwrap().contains("delalloc")
}

/// Returns the receipts of a job's messages, all of which must be finished.
fn receipts(service: &Service, job: &str) -> Vec<Value> {
    let messages = service.get(&format!("{job}/messages"))["messages"].as_array().unwrap().clone();
    for message in &messages {
        assert_eq!(message["status"], "finished", "{message:#}\n{}", service.log());
    }
    messages
}

/// Checks that each commit that a receipt names can be fetched completely from the built-in code host.
fn check_commits(site: &Site, service: &Service, receipts: &[Value], clone: &str) {
    let address = service.url.replace("http://", &format!("http://me:{}@", site.key)) + "/git/shop.git";
    git(site.dir.path(), &["clone", "--quiet", "--mirror", &address, clone]);
    let clone = site.path(clone);
    git(&clone, &["fsck", "--connectivity-only"]);
    for commit in receipts.iter().flat_map(|receipt| receipt["commits"].as_array().unwrap()) {
        git(&clone, &["cat-file", "-e", &format!("{}^{{tree}}", commit.as_str().unwrap())]);
    }
}

#[test]
fn finished_work_survives_a_power_cut() {
    let site = site();
    let Some(mut disk) = image(&site, "disk-0.img") else { return };
    let mut jobs: Vec<String> = Vec::new();
    for round in 1..=3 {
        let service = start_on(&site, &disk);
        for job in &jobs {
            let known = receipts(&service, job);
            assert_eq!(known.len(), round - 1 - jobs.iter().position(|one| one == job).unwrap() / 2, "{job}");
            check_commits(&site, &service, &known, &format!("clone-{round}-{}", job.rsplit('_').next().unwrap()));
            service.send(job, &format!("[[write round.txt|{round}]]"));
        }
        let new = [1, 2].map(|number| service.create(&format!("[[write new-{round}-{number}.txt|{round}]]")));
        jobs.extend(new);
        for job in &jobs {
            assert_eq!(service.settled(job)["status"], "completed", "{:#}\n{}", service.events(job), service.log());
        }
        let copy = cut(&site, service, &disk, &format!("disk-{round}.img"));
        std::fs::remove_file(&disk).unwrap();
        disk = copy;
    }
    let service = start_on(&site, &disk);
    check_that_unsynced_data_is_lost(&site, &service);
    for job in &jobs {
        receipts(&service, job);
    }
}

/// Checks, as the control of these tests, that the image of the disk lacks what [`cut`] wrote without a sync.
fn check_that_unsynced_data_is_lost(site: &Site, service: &Service) {
    let data = format!("/proc/{}/root{}", service.id(), site.path("data").display());
    let control = std::fs::read_to_string(site.path("control")).unwrap();
    let unsynced = std::fs::read(Path::new(&data).join(control)).unwrap_or_default();
    assert!(unsynced.is_empty(), "the image of the disk has data that was not synced");
}

/// Points the project `shop` of `site` at the repository that the service of another site serves over HTTP.
fn use_remote(site: &Site, host: &Site, code_host: &Service) {
    let token = site.path("token");
    std::fs::write(&token, &host.key).unwrap();
    let repository = format!("{}/git/shop.git", code_host.url);
    let arguments = ["project", "update", "shop", "--repository", &repository, "--token-file"];
    site.succeed(&[&arguments[..], &[token.to_str().unwrap()]].concat());
}

#[test]
fn work_on_a_remote_continues_after_a_power_cut_and_is_done_once() {
    let (host, site) = (site(), site());
    let code_host = host.start();
    use_remote(&site, &host, &code_host);
    let Some(mut disk) = image(&site, "disk-0.img") else { return };
    let mut jobs: Vec<(String, Vec<String>)> = Vec::new();
    for round in 1..=3 {
        let service = start_on(&site, &disk);
        for (job, lines) in &mut jobs {
            service.send(job, &format!("[[append work.txt|{round}]]"));
            lines.push(round.to_string());
        }
        for _ in 0..2 {
            let job = service.create(&format!("[[append work.txt|{round}]]"));
            jobs.push((job, vec![round.to_string()]));
        }
        // Cut the power when one job has settled. The others are queued, in a turn, or pushing.
        assert_eq!(service.settled(&jobs[0].0)["status"], "completed", "{}", service.log());
        let copy = cut(&site, service, &disk, &format!("disk-{round}.img"));
        std::fs::remove_file(&disk).unwrap();
        disk = copy;
    }
    let service = start_on(&site, &disk);
    check_that_unsynced_data_is_lost(&site, &service);
    for (job, lines) in &jobs {
        assert_eq!(service.settled(job)["status"], "completed", "{:#}\n{}", service.events(job), service.log());
        assert_eq!(receipts(&service, job).len(), lines.len(), "{job}");
        let branch = service.get(&format!("{job}/details"))["branch"].as_str().unwrap().to_owned();
        assert_eq!(
            host.file(&branch, "work.txt").unwrap().lines().collect::<Vec<_>>(),
            *lines,
            "each turn once, in order"
        );
    }
}

/// Returns all files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

fn mirror(site: &Site) -> PathBuf {
    let mut mirrors = std::fs::read_dir(site.path("data/mirrors")).unwrap().flatten();
    let mirror = mirrors.next().unwrap().path();
    assert!(mirrors.next().is_none());
    mirror
}

/// Checks that a job's second message succeeds in one attempt after `damage` has changed the mirror.
fn continues_after(damage: impl Fn(&Path)) {
    let site = site();
    let service = site.start();
    let job = service.create("[[write first.txt|1]]");
    assert_eq!(service.settled(&job)["status"], "completed");
    damage(&mirror(&site));
    service.send(&job, "[[write second.txt|2]]");
    let other = service.create("[[write other.txt|3]]");
    for job in [&job, &other] {
        assert_eq!(service.settled(job)["status"], "completed", "{:#}\n{}", service.events(job), service.log());
    }
    let runs = service.get(&format!("{job}/runs"))["runs"].as_array().unwrap().clone();
    assert_eq!(runs.len(), 2, "one attempt for each message: {runs:#?}");
    git(&mirror(&site), &["fsck", "--connectivity-only"]);
}

#[test]
fn a_mirror_with_empty_objects_is_rebuilt_by_the_attempt_that_finds_it() {
    continues_after(|mirror| {
        for file in files(&mirror.join("objects")) {
            std::fs::remove_file(&file).unwrap();
            std::fs::write(file, "").unwrap();
        }
    });
}

#[test]
fn a_mirror_that_was_removed_or_lost_its_head_is_rebuilt() {
    continues_after(|mirror| std::fs::remove_dir_all(mirror).unwrap());
    continues_after(|mirror| std::fs::write(mirror.join("HEAD"), "").unwrap());
}
