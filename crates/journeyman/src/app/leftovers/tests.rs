//! Tests of the files that a start removes, and of those that must stay.

use std::fs::{create_dir_all, write};

use journeyman_core::time::Clock;

use super::*;
use crate::config::{self, Layer};
use crate::system::Machine;

/// Process IDs; only the second counts as that of a running process.
const DEAD: u32 = 4_000_001;
const LIVING: u32 = 4_000_002;

fn site() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a folder");
    let data = dir.path().join("data");
    create_dir_all(&data).expect("made");
    (dir, data)
}

fn leftovers(data: &Path) -> Leftovers<'_> {
    Leftovers { data, living: &|number| number == LIVING, removed: 0 }
}

fn file(path: PathBuf) -> PathBuf {
    create_dir_all(path.parent().expect("a folder")).expect("made");
    write(&path, "x").expect("written");
    path
}

#[test]
fn drafts_of_dead_processes_are_removed_and_those_of_running_ones_stay() {
    let (_dir, data) = site();
    let names = [
        "master.N.draft",
        "git/askpass.N.draft",
        "git/gitconfig.N.draft",
        "sandbox/runtime/libc.so.N.draft",
        "doctor.N",
        "sandbox/journeyman.N",
        "sandbox/etc.N/passwd",
        "sandbox/etc.old.N/passwd",
    ];
    let of = |number: u32| names.map(|name| file(data.join(name.replace('N', &number.to_string()))));
    let (dead, living) = (of(DEAD), of(LIVING));
    let keep = ["master.key", "git/gitconfig", "sandbox/etc/passwd", "sandbox/journeyman", "notes.123", "a.1.draft"]
        .map(|name| file(data.join(name)));
    let mut leftovers = leftovers(&data);
    leftovers.drafts(&data, &["master", "worker"]);
    leftovers.numbered(&data, &["doctor"]);
    leftovers.drafts(&data.join("git"), &[]);
    leftovers.numbered(&data.join("sandbox"), &["journeyman", "etc", "etc.old"]);
    leftovers.drafts(&data.join("sandbox/runtime"), &[]);
    assert_eq!(leftovers.removed, names.len());
    for path in dead {
        assert!(!path.exists(), "{}", path.display());
    }
    for path in living.iter().chain(&keep) {
        assert!(path.exists(), "{}", path.display());
    }
}

#[test]
fn files_with_the_id_of_this_process_count_as_leftovers() {
    // This process has created no files yet, so a file with its ID is from a dead process.
    assert!(!is_living(std::process::id()));
    // If another program has the ID now, our process with that ID is dead.
    let mut sleep = std::process::Command::new("sleep").arg("1000").spawn().expect("started");
    assert!(!is_living(sleep.id()) && !is_living(DEAD));
    sleep.kill().expect("killed");
    sleep.wait().expect("waited for");
}

#[test]
fn a_start_removes_all_leftovers_including_those_of_a_killed_start() {
    let (_dir, data) = site();
    let layer = Layer { data_dir: Some(data.clone()), ..Layer::default() };
    let mut settings = config::isolated(layer).expect("settings");
    // A folder that was moved aside by a start that was killed.
    file(data.join("removed/0/big"));
    let removed = [
        file(data.join("scratch/job_1.session")),
        file(data.join("spares/abc.draft/tree")),
        file(data.join("spares/gone/tree")),
        file(data.join("sandbox/shim-sockets/.tmpx/socket")),
        file(data.join("agents/kimi/node_modules/half")),
        file(data.join("repositories/.shop.123.0/HEAD")),
        file(data.join("repositories/.sh.op.123.1/HEAD")),
        file(data.join("mirrors/m.git/packed-refs.lock")),
        file(data.join("mirrors/m.git/refs/heads/a/b.lock")),
        file(data.join("mirrors/m.git/objects/pack/tmp_pack_1")),
        file(data.join("mirrors/m.git/objects/ab/tmp_obj_1")),
        file(data.join("repositories/shop.git/objects/tmp_objdir-incoming-1/pack/x")),
        file(data.join("blobs/sessions/job_1/1.tar.draft")),
    ];
    let keep = [
        file(data.join("mirrors/m.git/HEAD")),
        file(data.join("repositories/shop.git/HEAD")),
        file(data.join("mirrors/m.git/refs/heads/a/b")),
        file(data.join("spares/abc/tree")),
        file(data.join("agents/mine/by-hand")),
        file(data.join("blobs/sessions/job_1/1.tar.gz")),
        file(data.join("workspaces/job_1/tree/a.lock")),
    ];
    // An agent whose new version was being installed, and one whose old version was being removed.
    file(data.join("agents/.lock"));
    file(data.join("agents/.pi.before/installed.json"));
    file(data.join("agents/pi/half"));
    file(data.join("agents/.qwen.before/node_modules/old"));
    file(data.join("agents/qwen/installed.json"));
    let now = Machine.now() + Duration::from_secs(1);
    remove(&settings, now);
    remove_slowly(&settings, now);
    for path in removed {
        assert!(!path.exists(), "{}", path.display());
    }
    for path in keep {
        assert!(path.exists(), "{}", path.display());
    }
    assert!(data.join("agents/pi/installed.json").exists() && !data.join("agents/pi/half").exists());
    assert!(data.join("agents/qwen/installed.json").exists() && !data.join("agents/.qwen.before").exists());
    assert!(!data.join("removed").exists());
    // Files that other machines may be writing stay until they are old.
    let shared = [file(data.join("blobs/sessions/job_1/2.tar.draft")), file(data.join("repositories/shop.git/a.lock"))];
    settings.blobs = BlobLocation::Folder { path: data.join("blobs"), shared: true };
    settings.database = Database::Postgres("postgres://localhost/x".to_owned());
    remove(&settings, now);
    remove_slowly(&settings, now);
    assert!(shared.iter().all(|path| path.exists()));
    let tomorrow = now + SHARED_AGE;
    remove(&settings, tomorrow);
    remove_slowly(&settings, tomorrow);
    assert!(shared.iter().all(|path| !path.exists()));
}

#[test]
fn a_repository_that_is_being_created_stays() {
    let (_dir, data) = site();
    let repository = data.join("repositories/.shop.123.0");
    file(repository.join("HEAD"));
    let lock = File::open(&repository).expect("opened");
    lock.try_lock().expect("locked");
    leftovers(&data).repositories(&data.join("repositories"));
    assert!(repository.exists());
    // Closing the file is not enough: until its exec, a process that another test starts also has the descriptor.
    lock.unlock().expect("unlocked");
    leftovers(&data).repositories(&data.join("repositories"));
    assert!(!repository.exists());
}

#[test]
fn an_agent_that_is_being_installed_stays() {
    let (_dir, data) = site();
    let (lock, half) = (file(data.join("agents/.lock")), file(data.join("agents/pi/half")));
    let held = File::open(lock).expect("opened");
    held.try_lock().expect("locked");
    leftovers(&data).agents(&data.join("agents"), &["pi"]);
    assert!(half.exists());
    held.unlock().expect("unlocked");
    leftovers(&data).agents(&data.join("agents"), &["pi"]);
    assert!(!half.exists());
}

#[test]
fn unused_temporary_folders_are_removed() {
    let (dir, _data) = site();
    let folder = |name: &str| {
        let path = dir.path().join(name);
        create_dir_all(&path).expect("made");
        path
    };
    let [dead, living, young, other] =
        ["journeyman-check-a", "journeyman-check-b", "journeyman-check-c", "unrelated"].map(folder);
    file(dead.join("serve.lock"));
    file(other.join("serve.lock"));
    let held = File::open(file(living.join("serve.lock"))).expect("opened");
    held.try_lock().expect("locked");
    let link = dir.path().join("journeyman-check-link");
    std::os::unix::fs::symlink(&other, &link).expect("linked");
    let now = Machine.now();
    remove_temporary(dir.path(), "journeyman-check-", now);
    assert!(!dead.exists() && living.exists() && young.exists() && other.exists() && link.is_symlink());
    remove_temporary(dir.path(), "journeyman-check-", now + TEMPORARY_AGE + Duration::from_secs(60));
    assert!(!young.exists() && living.exists() && other.join("serve.lock").exists());
}

#[test]
fn the_locks_of_a_repository_in_use_stay() {
    let (_dir, data) = site();
    let folder = data.join("repositories");
    file(folder.join("shop.git/HEAD"));
    let lock = file(folder.join("shop.git/packed-refs.lock"));
    let mut push = std::process::Command::new("sleep");
    let mut push = push.arg("1000").current_dir(folder.join("shop.git")).spawn().expect("started");
    let later = Machine.now() + Duration::from_secs(1);
    assert_eq!(git::remove_locks(&folder, later), 0);
    assert!(lock.exists());
    push.kill().expect("killed");
    push.wait().expect("ended");
    assert_eq!(git::remove_locks(&folder, later), 1);
    assert!(!lock.exists());
}

#[test]
fn git_processes_of_a_dead_service_are_ended() {
    let (_dir, data) = site();
    let settings = data.join("git");
    create_dir_all(&settings).expect("made");
    let start = |command: &str| {
        std::process::Command::new("sh")
            .args(["-c", command])
            .env("GIT_CONFIG_GLOBAL", settings.join("gitconfig"))
            .spawn()
            .expect("started")
    };
    // The shell in between exits, so its child no longer has a parent, like a child of a killed service.
    start("sleep 1000 & echo $! > \"$GIT_CONFIG_GLOBAL.pid\"").wait().expect("ended");
    let pid = std::fs::read_to_string(settings.join("gitconfig.pid"));
    let pid: i32 = pid.unwrap_or_default().trim().parse().expect("a number");
    // The child of a running process stays.
    let mut own = start("exec sleep 1000");
    git::end_orphans(&settings);
    journeyman_testkit::until("the process of the dead service ends", || {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        (state.is_empty() || state.contains(") Z")).then_some(())
    });
    assert!(own.try_wait().expect("asked").is_none(), "our own process runs");
    own.kill().expect("killed");
    own.wait().expect("ended");
}

#[test]
fn unfinished_downloads_of_objects_are_removed_and_cached_objects_stay() {
    let (_dir, data) = site();
    let unfinished = file(data.join("mirrors/0a.lfs/in.job_1/object"));
    let cached = file(data.join("mirrors/0a.lfs/0b/object"));
    let mirror = file(data.join("mirrors/0a.git/in.x"));
    let mut leftovers = leftovers(&data);
    leftovers.downloads(&data.join("mirrors"));
    assert_eq!(leftovers.removed, 1);
    assert!(!unfinished.exists() && cached.exists() && mirror.exists());
}
