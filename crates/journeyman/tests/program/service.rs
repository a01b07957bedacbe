//! Tests of the service over HTTP, with real processes and real git.

use journeyman_testkit::until;
use serde_json::{Value, json};

use super::fixtures::{git, is_running, site, site_with};

#[test]
fn a_prompt_becomes_a_pull_request_and_a_follow_up_extends_it() {
    let site = site();
    let service = site.start();
    let job = service.create("Add a greeting\n[[write hello.txt|Hello]]");
    let record = service.settled(&job);
    assert_eq!(record["status"], "completed", "{}", service.log());
    assert_eq!(record["source"]["ref"], "main", "the name of the default branch");
    let link = record["prLink"].as_str().unwrap();
    assert_eq!(link, format!("{}/projects/shop/pulls/1", service.url));
    let (status, page) = service.page(&site, link);
    assert_eq!(status, 200);
    assert!(page.contains("Add a greeting") && page.contains("hello.txt"), "{page}");

    let pulls = service.get(&format!("{job}/pulls"));
    let pull = &pulls["pulls"][0];
    assert_eq!((pull["number"].clone(), pull["url"].clone()), (json!(1), json!(link)), "{pulls:#}");
    assert_eq!((pull["state"].clone(), pull["base"].clone()), (json!("open"), json!("main")), "{pulls:#}");
    assert_eq!((pull["title"].clone(), pull["head"].clone()), (json!("Add a greeting"), json!(site.branch())));

    let active = service.send(&job, "Say goodbye too\n[[append hello.txt|Goodbye]]");
    assert_eq!((active["status"].clone(), active["prLink"].clone()), (json!("active"), Value::Null));
    let record = service.settled(&job);
    assert_eq!(record["prLink"], link, "the same pull request");
    assert_eq!(site.file(&site.branch(), "hello.txt").unwrap(), "Hello\nGoodbye\n");
    let diff = service.text(&format!("{job}/diff"));
    assert!(diff.contains("+Hello") && diff.contains("+Goodbye"), "{diff}");

    let messages = service.get(&format!("{job}/messages"));
    for message in messages["messages"].as_array().unwrap() {
        assert_eq!((message["status"].clone(), message["prLink"].clone()), (json!("finished"), json!(link)));
        assert_eq!(message["commits"].as_array().unwrap().len(), 1, "{message}");
    }
    assert_eq!(service.count(&job, "pull_request.opened"), 1);
    assert_eq!(service.count(&job, "pull_request.updated"), 1);
}

#[test]
fn people_clone_and_push_with_a_key_as_the_password() {
    let site = site();
    let service = site.start();
    let url = service.get("/v2/projects/shop")["cloneUrl"].as_str().unwrap().to_owned();
    let with_key = url.replace("http://", &format!("http://me:{}@", site.key));
    git(site.dir.path(), &["clone", "--quiet", &with_key, "clone"]);
    let clone = site.path("clone");
    std::fs::write(clone.join("by-http.txt"), "x\n").unwrap();
    git(&clone, &["add", "--all"]);
    git(&clone, &["commit", "--quiet", "--message", "By HTTP"]);
    git(&clone, &["push", "--quiet", "origin", "main"]);
    assert_eq!(site.file("main", "by-http.txt").unwrap(), "x\n");
    let reader = site.succeed(&["key", "create", "--name", "reader", "--scope", "read"]);
    let read_only = url.replace("http://", &format!("http://me:{}@", reader.trim()));
    git(site.dir.path(), &["ls-remote", "--quiet", &read_only]);
    let refused = std::process::Command::new("git")
        .args(["push", "--quiet", &read_only, "HEAD:refs/heads/other"])
        .env("GIT_TERMINAL_PROMPT", "0")
        .current_dir(&clone)
        .output()
        .unwrap();
    assert!(!refused.status.success(), "a key that reads must not push");
}

#[test]
fn follow_ups_are_accepted_unless_the_job_is_archived_and_none_is_lost() {
    let site = site();
    let service = site.start();
    let job = service.create("[[write one.txt|1]][[hold]]");
    service.until(&job, "agent.tool_call", 1);
    // Active: the message is queued.
    service.send(&job, "[[write two.txt|2]]");
    assert_eq!(site.release(&service, &job)["status"], "completed");
    // Completed: the message reopens the job.
    service.send(&job, "[[fail on purpose]]");
    assert_eq!(service.settled(&job)["status"], "failed");
    let runs = service.get(&format!("{job}/runs"));
    let last = runs["runs"].as_array().unwrap().last().unwrap().clone();
    assert!(last["reason"]["text"].as_str().unwrap().contains("on purpose"), "{last}");
    // Failed: the message reopens the job, too.
    service.send(&job, "[[write three.txt|3]]");
    assert_eq!(service.settled(&job)["status"], "completed");
    // Archived: messages are refused until the job is unarchived.
    assert_eq!(service.call("POST", &format!("{job}/archive"), None).1["status"], "archived");
    let (status, body) = service.call("POST", &format!("{job}/message"), Some(json!({"prompt": "x"})));
    assert_eq!((status, body["code"].clone()), (409, json!("job_archived")));
    service.call("POST", &format!("{job}/unarchive"), None);
    service.send(&job, "[[write four.txt|4]]");
    assert_eq!(service.settled(&job)["status"], "completed");
    let branch = site.branch();
    for file in ["one.txt", "two.txt", "three.txt", "four.txt"] {
        assert!(site.file(&branch, file).is_some(), "{file}");
    }
    assert_eq!(service.count(&job, "pull_request.opened"), 1);
}

#[test]
fn a_running_turn_is_cancelled_or_interrupted_before_its_end() {
    let site = site();
    let service = site.start();
    let cancelled = service.create("[[write a.txt|a]][[sleep 3600]]");
    service.until(&cancelled, "agent.tool_call", 1);
    let (_, record) = service.call("POST", &format!("{cancelled}/cancel"), None);
    assert_eq!(record["status"], "failed");
    let interrupted = service.create("[[write b.txt|b]][[sleep 3600]]");
    service.until(&interrupted, "agent.tool_call", 1);
    let message = json!({"prompt": "[[write c.txt|c]]", "delivery": "interrupt"});
    service.call("POST", &format!("{interrupted}/message"), Some(message));
    assert_eq!(service.settled(&interrupted)["status"], "completed");
    let messages = service.get(&format!("{interrupted}/messages"));
    let states: Vec<&str> =
        messages["messages"].as_array().unwrap().iter().map(|message| message["status"].as_str().unwrap()).collect();
    assert_eq!(states, ["cancelled", "finished"]);
}

#[test]
fn processes_of_a_cancelled_or_archived_turn_end_with_it() {
    let site = site();
    let service = site.start();
    // Numbers that no other process on the machine sleeps for.
    for (what, seconds) in [("cancel", "86461"), ("archive", "86462")] {
        // A command ends by its own after two minutes. An agent that nothing ends would then run the next one, and all
        // take longer than a test waits.
        let commands: Vec<String> = (0..6).map(|number| format!("{seconds}{number}.{}", std::process::id())).collect();
        let running = || commands.iter().any(|number| is_running(&["sleep", number]));
        let job = service.create(&commands.iter().map(|number| format!("[[run sleep {number}]]")).collect::<String>());
        until(&format!("{what}: a command runs"), || running().then_some(()));
        service.call("POST", &format!("{job}/{what}"), None);
        // Between two commands, none runs for a moment.
        until(&format!("{what}: no command runs"), || (0..20).all(|_| !running()).then_some(()));
    }
}

#[test]
fn after_kill_9_in_the_middle_of_a_turn_the_message_is_finished_once() {
    let site = site();
    let service = site.start();
    let job = service.create("[[append log.txt|line]][[hold]]");
    let waiting = service.create("[[write other.txt|x]]");
    service.until(&job, "agent.tool_call", 1);
    service.send(&job, "[[append log.txt|second]]");
    service.kill();

    let service = site.start();
    site.release(&service, &job);
    for job in [&job, &waiting] {
        assert_eq!(service.settled(job)["status"], "completed", "{:#}", service.events(job));
    }
    let pulls = service.get(&format!("{job}/messages"));
    let link = pulls["messages"][0]["prLink"].as_str().unwrap();
    assert_eq!(pulls["messages"][1]["prLink"], link);
    for message in pulls["messages"].as_array().unwrap() {
        assert_eq!((message["status"].clone(), message["commits"].as_array().unwrap().len()), (json!("finished"), 1));
    }
    let name = service.events(&job).as_array().unwrap().iter().find(|event| event["type"] == "commit.pushed").unwrap()
        ["data"]["branch"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(site.file(&name, "log.txt").unwrap(), "line\nsecond\n", "each line once, in order");
    let runs = service.get(&format!("{job}/runs"));
    assert_eq!(runs["runs"][0]["reason"]["code"], "worker_lost");
    assert_eq!(runs["runs"][1]["attempt"], 2);
    assert_eq!(service.count(&job, "pull_request.opened"), 1);
}

#[test]
fn sigterm_lets_a_turn_finish_and_starts_no_other() {
    let site = site_with("grace = \"1h\"\nworkers = 1\n");
    let mut service = site.start();
    let job = service.create("[[write a.txt|a]][[hold]]");
    let queued = service.create("[[write b.txt|b]]");
    service.until(&job, "agent.tool_call", 1);
    service.terminate();
    service.until_log("stopping: ");
    site.finish(&job);
    assert_eq!(service.ended(), Some(0), "{}", service.log());

    let service = site.start();
    assert_eq!(service.settled(&job)["status"], "completed");
    assert_eq!(
        service.get(&format!("{job}/runs"))["runs"].as_array().unwrap().len(),
        1,
        "the turn was not interrupted"
    );
    assert_eq!(service.settled(&queued)["status"], "completed");
}

#[test]
fn after_the_grace_period_a_turn_is_handed_back_and_repeated() {
    let site = site_with("lease = \"15m\"\ngrace = \"300ms\"\n");
    let mut service = site.start();
    let job = service.create("[[append a.txt|a]][[hold]]");
    service.until(&job, "agent.tool_call", 1);
    service.terminate();
    // The turn does not end: the service does not wait for it.
    assert_eq!(service.ended(), Some(0), "{}", service.log());

    let service = site.start();
    assert_eq!(site.release(&service, &job)["status"], "completed");
    let runs = service.get(&format!("{job}/runs"));
    assert_eq!(
        runs["runs"][0]["reason"]["code"], "handed_back",
        "the run was not handed back, so its lease had to expire"
    );
    assert_eq!(site.file(&site.branch(), "a.txt").unwrap(), "a\n");
}

#[test]
fn a_second_sigterm_ends_the_service_at_once() {
    let site = site_with("grace = \"1h\"\n");
    let mut service = site.start();
    let job = service.create("[[write a.txt|a]][[hold]]");
    service.until(&job, "agent.tool_call", 1);
    service.terminate();
    service.until_log("stopping: ");
    service.terminate();
    assert_eq!(service.ended(), Some(143));
    let service = site.start();
    assert_eq!(site.release(&service, &job)["status"], "completed");
}

#[test]
fn deleted_workspaces_and_mirrors_are_rebuilt() {
    let site = site();
    let service = site.start();
    let job = service.create("[[write a.txt|a]]");
    service.settled(&job);
    std::fs::remove_dir_all(site.path("data/workspaces")).unwrap();
    std::fs::remove_dir_all(site.path("data/mirrors")).unwrap();
    service.send(&job, "[[append a.txt|b]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    assert_eq!(site.file(&site.branch(), "a.txt").unwrap(), "a\nb\n");
}

#[test]
fn workspaces_of_idle_jobs_are_removed() {
    let site = site_with("workspace-idle = \"0s\"\n");
    let service = site.start();
    let job = service.create("[[write a.txt|a]]");
    service.settled(&job);
    let workspaces = || std::fs::read_dir(site.path("data/workspaces")).unwrap().count();
    assert_eq!(workspaces(), 1);
    drop(service);
    // The cleanup removes idle workspaces when the service starts.
    let service = site.start();
    until("the workspace is removed", || (workspaces() == 0).then_some(()));
    service.send(&job, "[[append a.txt|b]]");
    assert_eq!(service.settled(&job)["status"], "completed");
    assert_eq!(site.file(&site.branch(), "a.txt").unwrap(), "a\nb\n");
}

#[test]
fn a_job_that_starts_from_a_tag_has_a_pull_request_for_the_default_branch() {
    let site = site();
    git(&site.repository(), &["tag", "v1", "main"]);
    site.people_commit("later.txt", "x\n");
    let service = site.start();
    let (_, record) =
        service.call("POST", "/v2/agent/shop/job", Some(json!({"prompt": "[[write a.txt|a]]", "ref": "v1"})));
    let job = format!("/v2/agent/shop/job/{}", record["id"].as_str().unwrap());
    let record = service.settled(&job);
    assert_eq!(record["status"], "completed", "{:#}", service.events(&job));
    assert!(site.file(&site.branch(), "later.txt").is_none(), "the branch does not start from the tag");
    let (_, page) = service.page(&site, record["prLink"].as_str().unwrap());
    assert!(page.contains("main"), "{page}");
}

#[test]
fn a_job_never_works_on_the_branch_that_it_would_be_merged_into() {
    let site = site();
    let service = site.start();
    let before = git(&site.repository(), &["rev-parse", "main"]);
    let body = json!({"prompt": "[[write a.txt|a]]", "branch": "main"});
    let (_, record) = service.call("POST", "/v2/agent/shop/job", Some(body));
    let job = format!("/v2/agent/shop/job/{}", record["id"].as_str().unwrap());
    assert_eq!(service.settled(&job)["status"], "failed");
    let runs = service.get(&format!("{job}/runs"));
    assert!(runs["runs"][0]["reason"]["text"].as_str().unwrap().contains("choose another"), "{runs}");
    assert_eq!(git(&site.repository(), &["rev-parse", "main"]), before);
}

#[test]
fn a_service_whose_log_is_no_longer_read_stops_on_sigterm() {
    let site = site();
    let mut command = site.command(&["serve", "--listen", "127.0.0.1:0"]);
    let mut process = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut log = std::io::BufReader::new(process.stderr.take().unwrap());
    let mut text = String::new();
    // Lines about a cleanup may come first.
    while !text.contains("serving") {
        assert_ne!(std::io::BufRead::read_line(&mut log, &mut text).unwrap(), 0, "{text}");
    }
    drop(log);
    rustix::process::kill_process(rustix::process::Pid::from_child(&process), rustix::process::Signal::TERM).unwrap();
    until("the service stops", || process.try_wait().unwrap());
}
