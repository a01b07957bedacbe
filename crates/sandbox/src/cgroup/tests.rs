//! Tests of how the groups of dead services are removed, on the machine's own hierarchies. Only root can make groups
//! there.
//!
//! Other tests sweep the same hierarchies at the same time. A sweep skips a service while another sweep holds its locks, and
//! a process that another thread starts inherits the locks until it runs its program. So a test repeats a sweep until the
//! other one has ended.

use std::process::{Child, Command};

use journeyman_testkit::{until, until_async};

use super::*;

/// Makes the folders of a service in some of the hierarchies, each with a group, and returns them with their locks;
/// `None` if this user cannot make groups. While the locks are held, no other test removes the folders as those of a
/// dead service.
fn service(name: &str, hierarchies: impl Fn(usize) -> bool) -> Option<(Vec<PathBuf>, Vec<File>)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let mut found = Controllers::default();
    found.complete(name);
    if found.folders.len() != CONTROLLERS.len() {
        // This machine does not let root make groups.
        remove(&found.locked_folders());
        return None;
    }
    let (mut folders, mut locks) = (Vec::new(), Vec::new());
    for (number, (folder, lock)) in std::mem::take(&mut found.locks).into_iter().enumerate() {
        if hierarchies(number) {
            std::fs::create_dir(folder.join("1")).unwrap();
            folders.push(folder);
            locks.push(lock);
        } else {
            std::fs::remove_dir(folder).unwrap();
        }
    }
    Some((folders, locks))
}

/// Starts services until their sweeps have removed the folders of a dead one.
fn sweep_until_removed(folders: &[PathBuf], sweeping: &str) {
    until(&format!("the groups {folders:?} are removed"), || {
        drop(Cgroups::find(sweeping, None));
        folders.iter().all(|folder| !folder.exists()).then_some(())
    });
}

fn process_in(folders: &[PathBuf]) -> Child {
    let child = Command::new("sleep").arg("1000").spawn().unwrap();
    for folder in folders {
        std::fs::write(folder.join("1/cgroup.procs"), child.id().to_string()).unwrap();
    }
    child
}

fn name(test: &str) -> String {
    format!("unittest-{test}-{}", std::process::id())
}

#[test]
fn groups_of_a_dead_service_are_removed_with_their_processes() {
    let Some((folders, locks)) = service(&name("dead"), |_| true) else { return };
    let mut child = process_in(&folders);
    // The sweep waits for the processes to exit, and their parent has to reap them.
    let waiting = std::thread::spawn(move || child.wait().unwrap());
    drop(locks);
    sweep_until_removed(&folders, &name("living"));
    assert!(!waiting.join().unwrap().success(), "it was killed");
}

#[test]
fn groups_that_are_left_in_one_hierarchy_only_are_removed() {
    // The state after an interrupted removal, or after a process that took long to exit.
    let Some((folders, locks)) = service(&name("partial"), |number| number == 2) else { return };
    if folders.is_empty() {
        // Version 2 has only one hierarchy.
        return;
    }
    drop(locks);
    sweep_until_removed(&folders, &name("partial-living"));
}

#[test]
fn groups_of_a_living_service_stay() {
    let Some((folders, locks)) = service(&name("locked"), |_| true) else { return };
    // Another version of the service locks only the first hierarchy.
    let held = locks.into_iter().next();
    let mut child = process_in(&folders);
    drop(Cgroups::find(&name("locked-living"), None));
    assert!(folders.iter().all(|folder| folder.join("1").exists()));
    assert!(child.try_wait().unwrap().is_none(), "its processes live");
    drop(held);
    let waiting = std::thread::spawn(move || child.wait().unwrap());
    remove(&folders);
    waiting.join().unwrap();
}

#[test]
fn groups_of_a_service_with_the_same_name_are_emptied_before_they_are_used() {
    // In a container, the service has the same process ID at every start.
    let Some((folders, locks)) = service(&name("same"), |_| true) else { return };
    let mut child = process_in(&folders);
    let waiting = std::thread::spawn(move || child.wait().unwrap());
    drop(locks);
    let own = Cgroups::find(&name("same"), None);
    until("the service has all its groups", || {
        let mut found = own.0.found();
        found.complete(&name("same"));
        (found.folders.len() == CONTROLLERS.len()).then_some(())
    });
    assert!(!waiting.join().unwrap().success());
    let group = own.take(Resources::default()).unwrap();
    assert!(group.folders.iter().all(|folder| is_empty(&folder.path)));
    drop((group, own));
    assert!(folders.iter().all(|folder| !folder.exists()));
}

#[test]
fn groups_elsewhere_are_found_by_their_record() {
    let Some((folders, locks)) = service(&name("elsewhere"), |_| true) else { return };
    // Below another group, as if the previous service had been started in another session.
    let session = folders[0].join("1");
    let inner = session.join(format!("{PREFIX}{}", name("inner")));
    std::fs::create_dir_all(inner.join("1")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let record = dir.path().join("groups");
    std::fs::write(&record, format!("{}\n", inner.display())).unwrap();
    let own = Cgroups::find(&name("recording"), Some(&record));
    assert!(!inner.exists() && session.exists());
    let written = std::fs::read_to_string(&record).unwrap();
    assert_eq!(written.lines().map(PathBuf::from).collect::<Vec<_>>(), own.0.found().locked_folders());
    drop((own, locks));
    remove(&folders);
}

#[tokio::test]
async fn a_group_that_could_not_be_made_at_the_start_is_made_later() {
    let Some((folders, locks)) = service(&name("late"), |_| true) else { return };
    let own = Cgroups::find(&name("late"), None);
    assert!(CONTROLLERS.iter().all(|controller| !own.has(*controller)), "another service has the folders");
    drop(locks);
    until_async("the service has all its groups", async || {
        own.find_missing().await;
        CONTROLLERS.iter().all(|controller| own.has(*controller)).then_some(())
    })
    .await;
    let group = own.take(Resources::default()).unwrap();
    assert_eq!(group.folders.len(), CONTROLLERS.len());
    drop((group, own));
    assert!(folders.iter().all(|folder| !folder.exists()));
}
