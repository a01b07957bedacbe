//! Tests of the rotation of the master key, with services that run meanwhile.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use journeyman_testkit::{Postgres, until};
use serde_json::{Value, json};

use super::fixtures::{Service, Site, cluster, site_with};

/// The lines of the configuration about keys; the tests replace them.
const OLD_ONLY: &str = "master-key-file = \"OLD\"\n";

/// A site whose configuration names the file of its key.
fn keyed_site() -> Site {
    let mut site = site_with(&format!("workers = 2\n{OLD_ONLY}"));
    let old = site.path("data/master.key");
    use_keys(&mut site, OLD_ONLY, &keys(&old, &[]));
    site
}

fn keys(current: &Path, others: &[&Path]) -> String {
    format!("master-key-file = {current:?}\nother-master-key-files = {others:?}\n")
}

fn use_keys(site: &mut Site, from: &str, to: &str) {
    site.reconfigure(from, to);
}

fn write_key(path: &Path, byte: &str) {
    std::fs::write(path, byte.repeat(32)).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn status(site: &Site) -> Value {
    let output = site.run(&["key-encryption", "status", "--json"]);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)))
}

/// Ends a service, so that it starts again with other settings.
fn stop(mut service: Service) {
    service.terminate();
    assert_eq!(service.ended(), Some(0));
}

/// Returns the value of a secret, as the setup command of a job gets it.
fn value(site: &Site, service: &Service, name: &str) -> String {
    service.configure(json!({ "setup": format!("printf %s \"${name}\" > ~/value") }));
    let job = service.create("x");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    let id = job.rsplit('/').next().unwrap();
    std::fs::read_to_string(site.path(&format!("data/workspaces/{id}/home/value"))).unwrap()
}

#[test]
fn the_key_is_replaced_while_requests_write_secrets_and_the_old_one_is_not_needed_afterward() {
    let mut site = keyed_site();
    let (old, new) = (site.path("data/master.key"), site.path("new.key"));
    write_key(&new, "c3");
    let [before, during, after] = [keys(&old, &[&new]), keys(&new, &[&old]), keys(&new, &[])];
    use_keys(&mut site, &keys(&old, &[]), &before);
    let service = site.start();
    service.configure(json!({ "secrets": { "KEPT": "kept-s3cret", "WRITTEN": "first" } }));
    assert_eq!(status(&site)["complete"], true, "the new key only decrypts");
    stop(service);

    use_keys(&mut site, &before, &during);
    let service = site.start();
    let pending = site.run(&["key-encryption", "status"]);
    assert_eq!(pending.status.code(), Some(1), "{}", text(&pending));
    assert!(text(&pending).contains("key-encryption rotate"), "{}", text(&pending));
    let (done, written) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                let next = written.load(Ordering::SeqCst) + 1;
                service.configure(json!({ "secrets": { "WRITTEN": format!("value-{next}") } }));
                written.store(next, Ordering::SeqCst);
            }
        });
        until("a request wrote a secret", || (written.load(Ordering::SeqCst) > 2).then_some(()));
        let rotated = site.run(&["key-encryption", "rotate"]);
        let seen = written.load(Ordering::SeqCst);
        until("another request wrote it", || (written.load(Ordering::SeqCst) > seen).then_some(()));
        done.store(true, Ordering::SeqCst);
        assert!(rotated.status.success(), "{}", text(&rotated));
        assert!(!text(&rotated).contains("s3cret") && !text(&rotated).contains("c3c3"), "{}", text(&rotated));
    });
    let last = format!("value-{}", written.load(Ordering::SeqCst));
    assert_eq!(status(&site)["complete"], true, "{:#}", status(&site));
    let audit = service.get("/v2/audit").to_string();
    assert!(audit.contains("key_encryption.rotated") && audit.contains("key_encryption.required"), "{audit}");
    stop(service);

    use_keys(&mut site, &during, &after);
    std::fs::remove_file(&old).unwrap();
    let service = site.start();
    assert_eq!((value(&site, &service, "KEPT"), value(&site, &service, "WRITTEN")), ("kept-s3cret".to_owned(), last));
    assert!(status(&site)["complete"] == true && site.run(&["key-encryption", "status"]).status.success());
}

#[test]
fn a_database_is_not_opened_with_a_wrong_key() {
    let mut site = keyed_site();
    let (old, wrong) = (site.path("data/master.key"), site.path("wrong.key"));
    write_key(&wrong, "9a");
    use_keys(&mut site, &keys(&old, &[]), &keys(&wrong, &[]));
    for arguments in [["key-encryption", "status"], ["key-encryption", "rotate"]] {
        let refused = site.run(&arguments);
        let text = text(&refused);
        assert!(refused.status.code() == Some(1) && text.contains("another master key"), "{text}");
        assert!(!text.contains("9a9a"), "{text}");
    }
    std::fs::set_permissions(&wrong, std::fs::Permissions::from_mode(0o644)).unwrap();
    use_keys(&mut site, &keys(&wrong, &[]), &keys(&old, &[&wrong]));
    let refused = text(&site.run(&["key-encryption", "status"]));
    assert!(refused.contains("other users can read") && refused.contains("chmod 600"), "{refused}");
    std::fs::remove_file(&wrong).unwrap();
    let refused = text(&site.run(&["key-encryption", "status"]));
    assert!(refused.contains("other-master-key-files") && refused.contains("wrong.key"), "{refused}");
}

#[test]
fn a_secret_that_no_key_decrypts_is_reported_everywhere() {
    let mut site = keyed_site();
    let (old, new) = (site.path("data/master.key"), site.path("new.key"));
    write_key(&new, "c3");
    let [during, after] = [keys(&new, &[&old]), keys(&old, &[])];
    use_keys(&mut site, &after, &during);
    let service = site.start();
    service.configure(json!({ "secrets": { "LOST": "lost-s3cret" } }));
    assert_eq!(service.get("/readyz")["secrets"]["ok"], true);
    stop(service);
    // The new key is taken away although a secret needs it.
    use_keys(&mut site, &during, &after);
    let service = site.start();
    let ready = service.get("/readyz");
    assert_eq!((&ready["status"], &ready["secrets"]["unreadable"]), (&json!("degraded"), &json!(1)), "{ready}");
    service.until_log("project_secrets shop/LOST");
    let state = status(&site);
    let row = json!([{ "table": "project_secrets", "owner": "shop", "name": "LOST" }]);
    assert_eq!((&state["complete"], &state["unreadable"]), (&json!(false), &row), "{state}");
    let rotated = site.run(&["key-encryption", "rotate"]);
    assert!(rotated.status.code() == Some(1) && text(&rotated).contains("project_secrets shop/LOST"));
    let doctor = text(&site.run(&["doctor"]));
    assert!(doctor.contains("stored secrets") && doctor.contains("project_secrets shop/LOST"), "{doctor}");
    // The remedy that the reports name.
    service.configure(json!({ "secrets": { "LOST": "found-s3cret" } }));
    assert_eq!(value(&site, &service, "LOST"), "found-s3cret");
}

#[test]
fn a_rotation_that_is_killed_is_continued() {
    let database = Postgres::shared().database();
    let mut site = cluster(&database, "other-master-key-files = []\n");
    let (old, new) = (site.path("old.key"), site.path("master.key"));
    let api = site.start_machine("api", "api");
    let secrets: serde_json::Map<String, Value> =
        (0..150).map(|number| (format!("S{number:03}"), json!(format!("s3cret-{number}")))).collect();
    api.configure(json!({ "secrets": secrets }));
    stop(api);
    std::fs::rename(&new, &old).unwrap();
    write_key(&new, "c3");
    site.reconfigure("other-master-key-files = []", &format!("other-master-key-files = [{old:?}]"));
    let api = site.start_machine("api", "api");
    // The second transaction, of the last fifty rows, does not end.
    let name = database.rsplit('/').next().unwrap();
    let sql = |text: &str| Postgres::shared().sql(name, text);
    sql("CREATE FUNCTION journeyman.stall() RETURNS trigger LANGUAGE plpgsql AS \
         'BEGIN PERFORM pg_sleep(60); RETURN NEW; END'");
    sql("CREATE TRIGGER stall BEFORE UPDATE ON journeyman.project_secrets FOR EACH ROW \
         WHEN (NEW.name = 'S120') EXECUTE FUNCTION journeyman.stall()");
    let mut command = site.command(&["key-encryption", "rotate"]);
    let mut rotation = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let batches = "SELECT count(*) FROM journeyman.audit WHERE action = 'key_encryption.rotated'";
    until("the first transaction has ended", || (sql(batches) == "1").then_some(()));
    rotation.kill().unwrap();
    rotation.wait().unwrap();
    sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
         WHERE datname = current_database() AND query LIKE 'UPDATE project_secrets%'");
    sql("DROP TRIGGER stall ON journeyman.project_secrets");

    let state = status(&site);
    assert_eq!((&state["complete"], &state["values"][0]["current"]), (&json!(false), &json!(100)), "{state:#}");
    assert_ne!(state["requiredKey"], state["currentKey"], "a service without the old key must not start yet");
    // A request changes a secret between the two rotations.
    api.configure(json!({ "secrets": { "S130": "changed" } }));
    let rotated = site.run(&["key-encryption", "rotate", "--json"]);
    assert!(rotated.status.success(), "{}", text(&rotated));
    let report: Value = serde_json::from_slice(&rotated.stdout).unwrap();
    assert_eq!(report["values"][0]["encrypted"], 49, "{report:#}");
    assert_eq!((&report["complete"], &report["requiredKey"]), (&json!(true), &report["currentKey"]), "{report:#}");

    std::fs::remove_file(&old).unwrap();
    site.reconfigure(&format!("other-master-key-files = [{old:?}]"), "other-master-key-files = []");
    stop(api);
    let machine = site.start_machine("data", "api,worker");
    assert_eq!(
        (value(&site, &machine, "S130"), value(&site, &machine, "S149")),
        ("changed".into(), "s3cret-149".into())
    );
}

#[test]
fn a_backup_during_a_rotation_needs_both_keys_and_does_not_include_one() {
    let mut site = keyed_site();
    let (old, new) = (site.path("data/master.key"), site.path("new.key"));
    write_key(&new, "c3");
    let (before, during) = (keys(&old, &[]), keys(&new, &[&old]));
    let service = site.start();
    service.configure(json!({ "secrets": { "A": "one-s3cret" } }));
    stop(service);
    use_keys(&mut site, &before, &during);
    let service = site.start();
    service.configure(json!({ "secrets": { "B": "two-s3cret" } }));
    stop(service);
    let [with_key, backup] = ["with-key", "backup"].map(|name| site.path(name).display().to_string());
    let refused = text(&site.run(&["backup", "--include-key", &with_key]));
    assert!(refused.contains("a rotation has not finished") && refused.contains("--include-key"), "{refused}");
    let made = site.succeed(&["backup", &backup]);
    assert!(made.contains("its secrets also need the master keys"), "{made}");

    let mut target = site.new_installation(&[]);
    let here = target.path("new.key");
    write_key(&here, "c3");
    let copy = target.path("data/master.key");
    target.reconfigure(&format!("[{copy:?}]"), "[]");
    let refused = text(&target.run(&["restore", &backup]));
    assert!(refused.contains("the backup's secrets are encrypted with"), "{refused}");
    std::fs::create_dir_all(target.path("data")).unwrap();
    std::fs::copy(&old, &copy).unwrap();
    target.reconfigure("other-master-key-files = []", &format!("other-master-key-files = [{copy:?}]"));
    target.succeed(&["restore", &backup]);
    let service = target.start();
    assert_eq!(
        (value(&target, &service, "A"), value(&target, &service, "B")),
        ("one-s3cret".into(), "two-s3cret".into())
    );
}
