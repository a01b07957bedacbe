//! Tests of files that a commit left out: they stay with the job when its workspace is rebuilt.

use journeyman_testkit::until;
use serde_json::{Value, json};

use super::fixtures::{Service, Site, git, site};

/// A project whose files may have 1000 bytes, and in which `local.cfg` is a file of people.
fn limited() -> (Site, Service) {
    let site = site();
    site.people_commit("local.cfg", "of people\n");
    let service = site.start();
    service.configure(json!({ "limits": { "fileBytes": 1000 } }));
    (site, service)
}

/// Restarts the service, so that no workspace is reused.
fn restarted(site: &Site, service: Service) -> Service {
    service.kill();
    site.start()
}

/// Sends a message, and expects that the job completes.
fn complete(service: &Service, job: &str, prompt: &str) {
    service.send(job, prompt);
    assert_eq!(service.settled(job)["status"], "completed", "{:#}", service.events(job));
}

/// Returns what the last message of a job left out: the paths, and whether they are kept.
fn kept(service: &Service, job: &str) -> Vec<(String, bool)> {
    let messages = service.get(&format!("{job}/messages"));
    let last = messages["messages"].as_array().unwrap().last().unwrap().clone();
    let left_out = last["leftOut"].as_array().unwrap().clone();
    left_out.iter().map(|one| (one["path"].as_str().unwrap().to_owned(), one["kept"] == true)).collect()
}

/// Returns the entries of the events that tell what the working trees of a job lack: their paths, kinds and reasons.
fn missing(service: &Service, job: &str) -> Vec<(String, String, String)> {
    let events = service.events(job);
    let events = events.as_array().unwrap().iter().filter(|event| event["type"] == "checkout.incomplete");
    let entries = events.flat_map(|event| event["data"]["entries"].as_array().unwrap());
    let text = |one: &Value, field: &str| one[field].as_str().unwrap().to_owned();
    entries.map(|one| (text(one, "path"), text(one, "kind"), text(one, "reason"))).collect()
}

#[test]
fn what_was_left_out_is_published_after_a_restart() {
    let (site, service) = limited();
    // A message fails if the answer names what was left out, so that the commands are in files.
    let work = "head -c 2000 /dev/zero > large; chmod +x large; git init -q inside; echo x > inside/x; echo 1 > b\n\
                git update-index --assume-unchanged local.cfg; echo mine > local.cfg; mkfifo pipe\n";
    site.people_commit("1.sh", work);
    site.people_commit("2.sh", "grep -q mine local.cfg; test -x large; git -C inside status; echo 2 > b\n");
    let shrink = "head -c 10 large > l; mv l large; rm -rf inside/.git; grep -q mine local.cfg\n";
    site.people_commit("3.sh", shrink);
    let job = service.create("Work\n[[run sh -e 1.sh]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    let expected = [("inside", true), ("large", true), ("local.cfg", true), ("pipe", false)];
    assert_eq!(kept(&service, &job), expected.map(|(path, kept)| (path.to_owned(), kept)));

    let service = restarted(&site, service);
    // What is not changed is told again, also by a turn without changes.
    complete(&service, &job, "Look\n[[run sh -e 2.sh]]");
    let names = ["inside", "large", "local.cfg"].map(|path| (path.to_owned(), true));
    assert_eq!(kept(&service, &job), names);
    let lost = ("pipe".to_owned(), "file".to_owned(), "lost".to_owned());
    assert_eq!(missing(&service, &job), std::slice::from_ref(&lost), "it is told when it is gone");

    let service = restarted(&site, service);
    complete(&service, &job, "Shrink\n[[run sh -e 3.sh]]");
    assert_eq!(kept(&service, &job), [("local.cfg".to_owned(), true)]);
    let branch = site.branch();
    assert_eq!(site.file(&branch, "large").map(|text| text.len()), Some(10));
    assert_eq!(site.file(&branch, "inside/x").as_deref(), Some("x\n"));
    assert_eq!(site.file(&branch, "local.cfg").as_deref(), Some("of people\n"), "its mark was kept, too");

    // What was published is not left out any more.
    let service = restarted(&site, service);
    complete(&service, &job, "Unmark\n[[run git update-index --no-assume-unchanged local.cfg; echo 3 > b]]");
    assert_eq!(kept(&service, &job), []);
    assert_eq!(site.file(&branch, "local.cfg").as_deref(), Some("mine\n"));
    let service = restarted(&site, service);
    complete(&service, &job, "Look\n[[run echo 4 > b]]");
    assert_eq!((kept(&service, &job), missing(&service, &job)), (Vec::new(), vec![lost]));
}

#[test]
fn a_limit_that_is_raised_publishes_what_was_left_out_before_a_restart() {
    let (site, service) = limited();
    let job = service.create("Work\n[[run head -c 2000 /dev/zero > large]]");
    assert_eq!(service.settled(&job)["status"], "failed", "{:#}", service.events(&job));
    let service = restarted(&site, service);
    service.configure(json!({ "limits": { "fileBytes": 5000 } }));
    complete(&service, &job, "Again\n[[run test -e large]]");
    assert_eq!(site.file(&site.branch(), "large").map(|text| text.len()), Some(2000));
    assert_eq!((kept(&service, &job), missing(&service, &job)), (Vec::new(), Vec::new()));
}

#[test]
fn what_people_have_changed_meanwhile_is_kept_and_told() {
    let (site, service) = limited();
    let job = service.create("Work\n[[run echo 1 > b; head -c 2000 /dev/zero | tee large > other]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    let (people, branch, repository) = (site.people(), site.branch(), site.repository());
    git(&people, &["fetch", "--quiet", repository.to_str().unwrap(), &branch]);
    git(&people, &["checkout", "--quiet", "-B", "theirs", "FETCH_HEAD"]);
    std::fs::write(people.join("large"), "of people\n").unwrap();
    git(&people, &["add", "large"]);
    git(&people, &["commit", "--quiet", "--message", "Write large"]);
    git(&people, &["push", "--quiet", repository.to_str().unwrap(), &format!("HEAD:{branch}")]);

    let service = restarted(&site, service);
    complete(&service, &job, "Look\n[[run cat large > seen]]");
    assert_eq!(site.file(&branch, "seen").as_deref(), Some("of people\n"));
    assert_eq!(site.file(&branch, "large").as_deref(), Some("of people\n"));
    assert_eq!(missing(&service, &job), [("large".to_owned(), "file".to_owned(), "in_the_way".to_owned())]);
    assert_eq!(kept(&service, &job), [("other".to_owned(), true)]);
}

#[test]
fn stored_files_that_are_gone_are_told() {
    let (site, service) = limited();
    let job = service.create("Work\n[[run echo 1 > b; head -c 2000 /dev/zero > large]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    service.kill();
    let sessions = site.path(&format!("data/blobs/sessions/{}", job.rsplit('/').next().unwrap()));
    let stored = |name: &str| name.ends_with("-left-out.tar.gz");
    let names = || -> Vec<String> {
        let entries = std::fs::read_dir(&sessions).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    let all = names();
    let [name] = all.iter().filter(|name| stored(name)).collect::<Vec<_>>()[..] else { panic!("{all:?}") };
    std::fs::write(sessions.join(name), "damaged").unwrap();
    let service = site.start();
    complete(&service, &job, "Look\n[[run test ! -e large; echo 2 > b]]");
    assert_eq!(missing(&service, &job), [("large".to_owned(), "file".to_owned(), "lost".to_owned())]);
    // The archive and the blob of the earlier turn are removed.
    until("the removal of the blobs", || (names().len() == 1).then_some(()));
}

#[test]
fn a_turn_that_does_not_end_with_commits_keeps_what_was_left_out_before() {
    let (site, service) = limited();
    let job = service.create("Work\n[[run echo 1 > b; head -c 2000 /dev/zero > large]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    site.people_commit("b", "of people\n");
    service.send(&job, "Merge main\n[[run git merge -q origin/main || echo conflict]]");
    assert_eq!(service.settled(&job)["status"], "failed", "{:#}", service.events(&job));
    let service = restarted(&site, service);
    complete(&service, &job, "Shrink\n[[run head -c 10 large > l; mv l large]]");
    assert_eq!(site.file(&site.branch(), "large").map(|text| text.len()), Some(10));
    assert_eq!(
        missing(&service, &job),
        [(".".to_owned(), "file".to_owned(), "unfinished".to_owned())],
        "the merge itself is not kept"
    );
}

#[test]
fn commits_that_the_agent_has_left_are_told_and_kept() {
    let (site, service) = limited();
    let work = "set -e; h=$(git symbolic-ref --short HEAD); git checkout -q -b fix/it; echo 1 > b; git add b; git commit -qm own\n\
                echo 2 > local.cfg; git stash -q; git checkout -q $h\n";
    site.people_commit("1.sh", work);
    let job = service.create("Work\n[[run sh 1.sh]]");
    let settled = service.settled(&job);
    assert_eq!(settled["status"], "failed", "{:#}", service.events(&job));
    let runs = service.get(&format!("{job}/runs"));
    let detail = runs["runs"][0]["reason"].to_string();
    assert!(detail.contains("refs/heads/fix/it has a commit that the branch of the job does not have"), "{detail}");
    let expected = [("refs/heads/fix/it".to_owned(), true), ("refs/stash".to_owned(), true)];
    assert_eq!(kept(&service, &job), expected);

    let service = restarted(&site, service);
    complete(&service, &job, "Merge it\n[[run git merge -q fix/it && git stash pop]]");
    assert_eq!((kept(&service, &job), missing(&service, &job)), (Vec::new(), Vec::new()));
    assert_eq!(site.file(&site.branch(), "b").as_deref(), Some("1\n"));
    assert_eq!(site.file(&site.branch(), "local.cfg").as_deref(), Some("2\n"));
}
