//! Tests that the git repositories of a service become small again.

use std::path::{Path, PathBuf};

use journeyman_testkit::until;

use super::fixtures::{git, site};

/// The number of new jobs, each of which leaves a pack and a ref in the mirror and in the repository: together more than
/// the number of files from which the service packs them.
const JOBS: usize = 30;

/// Returns the number of files of objects and refs.
fn files(repository: &Path) -> usize {
    fn below(folder: &Path) -> usize {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        entries.map(|path| if path.is_dir() { below(&path) } else { 1 }).sum()
    }
    below(&repository.join("objects")) + below(&repository.join("refs"))
}

#[test]
fn the_files_of_jobs_in_git_are_packed_while_jobs_go_on_and_refs_of_deleted_jobs_go() {
    let site = site();
    let service = site.start();
    let jobs: Vec<String> = (0..JOBS).map(|number| service.create(&format!("[[write a.txt|{number}]]"))).collect();
    for job in &jobs {
        assert_eq!(service.settled(job)["status"], "completed");
    }
    let mirrors: Vec<PathBuf> =
        std::fs::read_dir(site.path("data/mirrors")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let [mirror] = mirrors.as_slice() else { panic!("{mirrors:?}") };
    let (before, refs) = ([files(mirror), files(&site.repository())], git(&site.repository(), &["for-each-ref"]));
    assert!(before.iter().all(|files| *files > 2 * JOBS), "{before:?}");
    let (status, answer) = service.call("DELETE", &jobs[0], None);
    assert_eq!(status, 204, "{answer}");
    service.kill();
    // As if the last maintenance was long ago.
    for repository in [mirror, &site.repository()] {
        std::fs::write(repository.join("journeyman-maintenance"), "packed 1\nswept 1\nrepacked 1\nend\n").unwrap();
    }
    let service = site.start();
    let job = service.create("[[write b.txt|b]]");
    until("the packing", || [mirror, &site.repository()].iter().all(|repository| files(repository) < 20).then_some(()));
    assert_eq!(service.settled(&job)["status"], "completed");
    let after = git(&site.repository(), &["for-each-ref"]);
    assert!(refs.lines().all(|line| after.contains(line)), "{after}");
    let kept = git(mirror, &["for-each-ref", "--format=%(refname)", "refs/jobs"]);
    let id = jobs[0].rsplit('/').next().unwrap();
    assert!(!kept.contains(id) && kept.lines().count() == JOBS, "{kept}");
    for repository in [mirror, &site.repository()] {
        git(repository, &["fsck", "--strict", "--no-dangling"]);
    }
    // A follow-up finds the branch of its job.
    service.send(&jobs[1], "[[write c.txt|c]]");
    assert_eq!(service.settled(&jobs[1])["status"], "completed");
}
