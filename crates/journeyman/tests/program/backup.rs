//! Tests of `journeyman backup` and `journeyman restore`: while a service runs, into another installation, and back to
//! an earlier state.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use journeyman_testkit::Postgres;
use serde_json::Value;

use super::fixtures::{Service, Site, cluster, git, site, site_with};

const UNLIMITED: &str = "workers = 4\nmessage-per-hour = 0\n";

/// The maximum number of messages of a client that sends without a pause.
const MESSAGES: usize = 20;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs a command that must fail; returns its error output.
fn refused(site: &Site, arguments: &[&str]) -> String {
    let output = site.run(arguments);
    assert!(!output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

/// Copies the master key of an installation to another.
fn copy_key(from: &Path, to: &Path) {
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    std::fs::copy(from, to).unwrap();
}

/// Returns the numbers in the prompts of a job's messages, all of which must be finished.
fn numbers(service: &Service, job: &str) -> Vec<String> {
    let messages = service.get(&format!("{job}/messages"))["messages"].take();
    let number = |message: &Value| {
        assert_eq!(message["status"], "finished", "{message}");
        let prompt = message["prompt"].as_str().unwrap();
        prompt.split_once('|').unwrap().1.trim_end_matches(']').to_owned()
    };
    messages.as_array().unwrap().iter().map(number).collect()
}

fn follow_up(number: usize) -> String {
    format!("[[append log.txt|{number}]]")
}

/// Makes a backup while one client sends to a job without a pause and the worker pushes; returns the number of messages
/// that were accepted before the backup began.
fn back_up_under_load(site: &Site, service: &Service, job: &str, to: &Path) -> usize {
    let (accepted, stop) = (AtomicUsize::new(1), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..MESSAGES {
                // Spread the messages, so that some arrive while the backup is made.
                service.until(job, "commit.pushed", number.saturating_sub(5));
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                service.send(job, &follow_up(number));
                accepted.fetch_add(1, Ordering::SeqCst);
            }
        });
        service.until(job, "commit.pushed", 2);
        let before = accepted.load(Ordering::SeqCst);
        let made = site.run(&["backup", text(to)]);
        stop.store(true, Ordering::SeqCst);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        before
    })
}

/// Waits for a job whose messages each append a line, and checks that no message is missing or was done twice.
fn check_job(site: &Site, service: &Service, job: &str, before: usize) {
    assert_eq!(service.settled(job)["status"], "completed", "{:#}\n{}", service.events(job), service.log());
    let done = numbers(service, job);
    let expected: Vec<String> = (0..done.len()).map(|number| number.to_string()).collect();
    assert_eq!(done, expected, "in order, without a gap");
    assert!(
        done.len() >= before,
        "{before} messages were accepted before the backup, but only {} are there",
        done.len()
    );
    let lines = site.file(&site.branch(), "log.txt").unwrap();
    assert_eq!(lines.lines().collect::<Vec<_>>(), expected, "each message took effect once");
    assert_eq!(service.count(job, "pull_request.opened"), 1);
}

#[test]
fn a_backup_made_under_load_is_restored_elsewhere_and_jobs_continue() {
    let site = site_with(UNLIMITED);
    let service = site.start();
    let still = service.create("[[write still.txt|x]]");
    service.settled(&still);
    let job = service.create(&follow_up(0));
    let backup = site.path("backup");
    let before = back_up_under_load(&site, &service, &job, &backup);
    service.kill();
    let whole = site.succeed(&["backup", "--verify", text(&backup)]);
    assert!(whole.contains("SQLite") && whole.contains("is complete and undamaged"), "{whole}");
    assert!(!backup.join("master.key").exists());

    let other = site.new_installation(&[]);
    copy_key(&site.path("data/master.key"), &other.path("data/master.key"));
    drop(std::fs::remove_dir_all(site.path("data")));
    other.succeed(&["restore", text(&backup)]);
    let service = other.start();
    assert_eq!(service.get(&still)["status"], "completed");
    service.settled(&job);
    // Remove the branch of the other job, because `Site::branch` expects only one.
    let branches = git(&other.repository(), &["for-each-ref", "--format=%(refname:short)", "refs/heads/journeyman"]);
    for branch in branches.lines().filter(|branch| other.file(branch, "still.txt").is_some()) {
        git(&other.repository(), &["update-ref", "-d", &format!("refs/heads/{branch}")]);
    }
    check_job(&other, &service, &job, before);
    let next = numbers(&service, &job).len();
    service.send(&job, &follow_up(next));
    check_job(&other, &service, &job, next + 1);
}

#[test]
fn machines_over_postgresql_are_backed_up_and_restored_into_another_database() {
    let database = Postgres::shared().database();
    let site = cluster(&database, "message-per-hour = 0\n");
    let (api, worker) = (site.start_machine("api", "api"), site.start_machine("one", "worker"));
    let job = api.create(&follow_up(0));
    let backup = site.path("backup");
    let before = back_up_under_load(&site, &api, &job, &backup);
    api.kill();
    worker.kill();

    let other = site.new_installation(&[(&database, &Postgres::shared().database())]);
    copy_key(&site.path("master.key"), &other.path("master.key"));
    other.succeed(&["restore", text(&backup)]);
    let again = refused(&other, &["restore", text(&backup)]);
    assert!(again.contains("is not empty"), "{again}");
    let (api, _worker) = (other.start_machine("api", "api"), other.start_machine("one", "worker"));
    check_job(&other, &api, &job, before);
    let next = numbers(&api, &job).len();
    api.send(&job, &follow_up(next));
    check_job(&other, &api, &job, next + 1);
}

#[test]
fn jobs_continue_with_an_older_database_and_newer_repositories() {
    let site = site();
    let service = site.start();
    let job = service.create("[[append log.txt|first]]");
    service.settled(&job);
    service.send(&job, "[[append log.txt|second]][[hold]]");
    service.until(&job, "agent.tool_call", 2);
    for number in ["third", "fourth"] {
        service.send(&job, &format!("[[append log.txt|{number}]]"));
    }
    let backup = site.path("backup");
    site.succeed(&["backup", text(&backup)]);
    site.release(&service, &job);
    service.send(&job, "[[append log.txt|after the backup]]");
    assert_eq!(service.settled(&job)["status"], "completed");
    let newest = git(&site.repository(), &["rev-parse", &site.branch()]).trim().to_owned();
    service.kill();

    // The database is lost, and with it everything that was made after the backup.
    let refusal = refused(&site, &["restore", "--database-only", text(&backup)]);
    assert!(refusal.contains("journeyman.db already exists"), "{refusal}");
    for name in ["journeyman.db", "journeyman.db-wal", "journeyman.db-shm"] {
        let _ = std::fs::remove_file(site.path("data").join(name));
    }
    let refusal = refused(&site, &["restore", "--database-only", text(&backup)]);
    assert!(refusal.contains("workspaces is not empty"), "{refusal}");
    for name in ["workspaces", "mirrors"] {
        std::fs::remove_dir_all(site.path("data").join(name)).unwrap();
    }
    site.succeed(&["restore", "--database-only", text(&backup)]);

    let service = site.start();
    // The backup was made during the turn of the second message.
    let record = site.release(&service, &job);
    assert_eq!(record["status"], "completed", "{:#}", service.events(&job));
    let messages = service.get(&format!("{job}/messages"))["messages"].take();
    let messages = messages.as_array().unwrap();
    assert_eq!(messages.len(), 4, "the messages in the backup");
    for message in messages {
        let link = message["prLink"].as_str().unwrap();
        assert!(message["status"] == "finished" && link.ends_with("/pulls/1"), "{message}");
    }
    let runs = service.get(&format!("{job}/runs"))["runs"].take();
    let succeeded = |message: &Value| {
        let of = |run: &&Value| run["messageId"] == message["id"] && run["status"] == "succeeded";
        runs.as_array().unwrap().iter().filter(of).count()
    };
    assert!(messages.iter().all(|message| succeeded(message) == 1), "each message was done once: {runs:#}");
    assert_eq!(service.count(&job, "pull_request.opened"), 1);
    // This fails unless the branch has the newest commit: no pushed commit may be lost or replaced.
    git(&site.repository(), &["merge-base", "--is-ancestor", &newest, &site.branch()]);
    service.send(&job, "[[append log.txt|and on]]");
    assert_eq!(service.settled(&job)["status"], "completed");
    assert!(site.file(&site.branch(), "log.txt").unwrap().ends_with("and on\n"));
}

#[test]
fn an_unsafe_restore_is_refused_with_an_explanation() {
    let site = site();
    let service = site.start();
    let job = service.create("[[write a.txt|a]]");
    service.settled(&job);
    let backup = site.path("backup");
    site.succeed(&["backup", text(&backup)]);
    let again = refused(&site, &["backup", text(&backup)]);
    assert!(again.contains("is not empty; use a new folder"), "{again}");
    let running = refused(&site, &["restore", text(&backup)]);
    assert!(running.contains("while the service is stopped"), "{running}");
    drop(service);
    let present = refused(&site, &["restore", text(&backup)]);
    assert!(present.contains("journeyman.db already exists"), "{present}");

    let other = site.new_installation(&[]);
    let no_key = refused(&other, &["restore", text(&backup)]);
    assert!(no_key.contains("is not in the backup") && !other.path("data/master.key").exists(), "{no_key}");
    std::fs::create_dir_all(other.path("data")).unwrap();
    std::fs::write(other.path("data/master.key"), "77".repeat(32)).unwrap();
    std::fs::set_permissions(other.path("data/master.key"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let wrong_key = refused(&other, &["restore", text(&backup)]);
    assert!(wrong_key.contains("the master key here is"), "{wrong_key}");
    copy_key(&site.path("data/master.key"), &other.path("data/master.key"));

    let url = Postgres::shared().database();
    let key = other.path("data/master.key").display().to_string();
    let config = format!("master-key-file = {key:?}\n{}", std::fs::read_to_string(other.path("config.toml")).unwrap());
    std::fs::write(other.path("config.toml"), config).unwrap();
    let crossing = refused(&other, &["restore", text(&backup), "--database-url", &url]);
    assert!(crossing.contains("the backup is of SQLite, but database-url names PostgreSQL"), "{crossing}");

    let manifest = std::fs::read(backup.join("manifest.json")).unwrap();
    std::fs::remove_file(backup.join("manifest.json")).unwrap();
    let unfinished = refused(&other, &["restore", text(&backup)]);
    assert!(unfinished.contains("not finished"), "{unfinished}");
    std::fs::write(backup.join("manifest.json"), manifest).unwrap();
    let refs = backup.join("repositories/shop.git/packed-refs");
    let whole = std::fs::read(&refs).unwrap();
    std::fs::write(&refs, "# changed").unwrap();
    for arguments in [["backup", "--verify", text(&backup)].as_slice(), &["restore", text(&backup)]] {
        let damaged = refused(&other, arguments);
        assert!(damaged.contains("damaged") && damaged.contains("packed-refs"), "{damaged}");
    }
    std::fs::write(&refs, whole).unwrap();
    assert!(
        !other.path("data/journeyman.db").exists() && !other.path("data/repositories").exists(),
        "nothing was written"
    );
    other.succeed(&["restore", text(&backup)]);
    assert_eq!(other.start().get(&job)["status"], "completed");
}

#[test]
fn a_backup_with_the_master_key_warns_and_is_restored_without_another_key() {
    let site = site();
    std::fs::write(site.path("token"), "s3cret").unwrap();
    let secret = format!("TOKEN={}", site.path("token").display());
    site.succeed(&["project", "update", "shop", "--secret-file", &secret]);
    let backup = site.path("backup");
    // A folder that exists already and that other users may read.
    std::fs::create_dir(&backup).unwrap();
    std::fs::set_permissions(&backup, std::fs::Permissions::from_mode(0o755)).unwrap();
    let made = site.run(&["backup", "--include-key", text(&backup)]);
    assert!(
        made.status.success() && String::from_utf8_lossy(&made.stderr).contains("can read all secrets"),
        "{made:?}"
    );
    for entry in [&backup, &backup.join("master.key"), &backup.join("database.sqlite")] {
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o077, 0, "{}", entry.display());
    }
    let other = site.new_installation(&[]);
    let output = other.succeed(&["restore", text(&backup)]);
    assert!(output.contains("master key of the backup was written to"), "{output}");
    let key = |site: &Site| std::fs::read_to_string(site.path("data/master.key")).unwrap();
    assert_eq!(key(&other), key(&site));
    let service = other.start();
    let job = service.create("[[write a.txt|a]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{}", service.log());
}

#[test]
fn a_missing_installation_is_not_backed_up() {
    let site = site();
    let output = site.command_at("nowhere", &["backup", text(&site.path("backup"))]).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("there is no database at"), "{error}");
    assert!(!site.path("backup").exists() && !site.path("nowhere").exists(), "nothing was created");
}
