//! Tests of submodules on the built-in code host: an agent reads them, and moves their pointers.

use serde_json::{Value, json};

use super::fixtures::{Service, Site, git, site};

/// Commits everything in the clone of a project, and pushes it to `main`; returns the commit.
fn publish(site: &Site, project: &str) -> String {
    let (clone, to) = (site.path(project), site.path(&format!("data/repositories/{project}.git")));
    git(&clone, &["add", "--all"]);
    git(&clone, &["commit", "--quiet", "--message", "Change"]);
    git(&clone, &["push", "--quiet", to.to_str().unwrap(), "HEAD:main"]);
    git(&clone, &["rev-parse", "HEAD"]).trim().to_owned()
}

/// Creates a project with a file; returns its commit.
fn library(site: &Site, project: &str) -> String {
    site.succeed(&["project", "create", project, "--repository", &format!("local:{project}")]);
    git(site.dir.path(), &["init", "--quiet", "--initial-branch=main", project]);
    std::fs::write(site.path(project).join("text"), format!("of {project}\n")).unwrap();
    publish(site, project)
}

/// Adds a submodule to the clone `clone`.
fn add(site: &Site, clone: &str, path: &str, url: &str, commit: &str) {
    let folder = site.path(clone);
    let name = path.replace('/', "-");
    let set = |key: &str, value: &str| {
        git(&folder, &["config", "--file", ".gitmodules", &format!("submodule.{name}.{key}"), value]);
    };
    set("path", path);
    set("url", url);
    std::fs::create_dir_all(folder.join(path)).unwrap();
    git(&folder, &["update-index", "--add", "--cacheinfo", &format!("160000,{commit},{path}")]);
}

/// A project with the submodule `vendor/lib`, which has the submodule `deep`. Returns the commit of the first.
fn with_library() -> (Site, Service, String) {
    let site = site();
    let nested = library(&site, "nested");
    library(&site, "lib");
    add(&site, "lib", "deep", "../nested.git", &nested);
    let lib = publish(&site, "lib");
    add(&site, "people", "vendor/lib", "../lib.git", &lib);
    site.people_commit("a.txt", "a\n");
    let service = site.start();
    (site, service, lib)
}

/// Returns the events of a job of the type `checkout.incomplete`, each as its paths with their reasons.
fn skipped(service: &Service, job: &str) -> Vec<Vec<(String, String)>> {
    let events = service.events(job);
    let events = events.as_array().unwrap().iter().filter(|event| event["type"] == "checkout.incomplete");
    let text = |one: &Value, field: &str| one[field].as_str().unwrap().to_owned();
    let paths = |event: &Value| event["data"]["entries"].as_array().unwrap().clone();
    events.map(|event| paths(event).iter().map(|one| (text(one, "path"), text(one, "reason"))).collect()).collect()
}

/// Returns the pointer of a submodule on the branch of the only job.
fn pointer(site: &Site) -> String {
    git(&site.repository(), &["rev-parse", &format!("{}:vendor/lib", site.branch())]).trim().to_owned()
}

#[test]
fn an_agent_reads_submodules_and_moves_their_pointers_to_published_commits() {
    let (site, service, old) = with_library();
    let read = "cat vendor/lib/text vendor/lib/deep/text > seen.txt; git submodule status --recursive > status.txt";
    let job = service.create(&format!("Read\n[[run {read}]]"));
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    let branch = site.branch();
    assert_eq!(site.file(&branch, "seen.txt").as_deref(), Some("of lib\nof nested\n"));
    let status = site.file(&branch, "status.txt").unwrap();
    assert!(status.lines().count() == 2 && status.lines().all(|line| line.starts_with(' ')), "{status}");
    assert_eq!((skipped(&service, &job), service.left_out(&job)), (Vec::new(), Vec::new()));

    // The answer names work in the submodule, which is not published.
    service.send(&job, "Patch the library\n[[run echo fix > vendor/lib/fix]] [[write b.txt|b]]");
    assert_eq!(service.settled(&job)["status"], "failed", "{:#}", service.events(&job));
    assert_eq!((service.left_out(&job), pointer(&site)), (vec!["vendor/lib".to_owned()], old.clone()));
    assert_eq!(site.file(&branch, "b.txt").as_deref(), Some("b\n"));
    service.send(
        &job,
        "Commit it\n[[run cd vendor && cd lib && rm fix && git commit -q --allow-empty -m mine]] [[write c.txt|c]]",
    );
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    let message = service.get(&format!("{job}/messages"))["messages"][2].clone();
    assert_eq!(message["leftOut"][0]["reason"], "submodule_commit", "{message:#}");
    assert_eq!(pointer(&site), old);

    // People publish a newer commit, and a rebuilt workspace has it.
    std::fs::write(site.path("lib").join("text"), "newer\n").unwrap();
    let new = publish(&site, "lib");
    let job = service.create("Update the library\n[[run git -C vendor/lib checkout -q origin/main]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    assert_eq!(service.left_out(&job), Vec::<String>::new());
    let diff = service.text(&format!("{job}/diff"));
    assert!(diff.contains(&format!("+Subproject commit {new}")), "{diff}");
    // The next turn finds it there, and changes nothing.
    service.send(&job, "Look\n[[run cat vendor/lib/text > seen.txt]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    assert!(service.text(&format!("{job}/diff")).contains("+newer"));

    // Only a commit that nobody else has.
    let job = service.create("Commit\n[[run git -C vendor/lib commit -q --allow-empty -m mine]]");
    assert_eq!(service.settled(&job)["status"], "failed", "{:#}", service.events(&job));
    let reason = service.get(&format!("{job}/runs"))["runs"][0]["reason"].clone();
    assert_eq!(reason["code"], "workspace_refused");
    assert!(reason["text"].as_str().unwrap().contains("was not found in the submodule's own repository"), "{reason}");
}

#[test]
fn submodules_that_cannot_be_filled_are_told_and_fail_no_job() {
    let (site, service, lib) = with_library();
    add(&site, "people", "gone", "../gone.git", &lib);
    add(&site, "people", "host", "/etc", &lib);
    add(&site, "people", "away", "http://127.0.0.1:1/lib.git", &lib);
    add(&site, "people", "unknown", "../lib.git", &"1".repeat(40));
    site.people_commit("a.txt", "more\n");
    let expected = [
        ("away", "address_refused"),
        ("gone", "not_readable"),
        ("host", "address_refused"),
        ("unknown", "commit_missing"),
    ];
    let sorted = |job: &str| -> Vec<Vec<(String, String)>> {
        let mut all = skipped(&service, job);
        all.iter_mut().for_each(|one| one.sort());
        all
    };
    let expected: Vec<_> = expected.iter().map(|(path, reason)| ((*path).to_owned(), (*reason).to_owned())).collect();
    let job = service.create("Read\n[[run cat vendor/lib/text > seen.txt; ls -A away gone host unknown]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    assert_eq!(sorted(&job), [expected]);
    service.send(&job, "Again\n[[write b.txt|b]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    assert_eq!(sorted(&job).len(), 1, "it is told once");

    // A key that may use this project and not the other.
    let body = json!({ "name": "limited", "projects": ["shop"], "scopes": ["read"] });
    let (status, answer) = service.call("POST", "/v2/keys", Some(body));
    assert_eq!(status, 201, "{answer}");
    let job = service.create("Read\n[[run ls -A vendor/lib > seen.txt]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    assert!(skipped(&service, &job)[0].contains(&("vendor/lib".to_owned(), "not_permitted".to_owned())));
    let (_, page) =
        service.page(&site, &format!("{}/projects/shop/jobs/{}/events", service.url, job.rsplit('/').next().unwrap()));
    assert!(page.contains("submodules not filled"), "{page}");

    let off = json!({ "checkout": { "submodules": "off" } });
    assert_eq!(service.call("PATCH", "/v2/projects/shop", Some(off)).0, 200);
    let job = service.create("Read\n[[write c.txt|c]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    let told = skipped(&service, &job);
    assert!(told.len() == 1 && told[0].len() == 5 && told[0].iter().all(|(_, reason)| reason == "off"), "{told:?}");
}
