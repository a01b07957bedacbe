//! Tests of the results of messages: commits, pull requests, reasons of failures.

use std::time::Duration;

use journeyman_core::code_host::PullState;
use journeyman_core::job::{JobState, JobStatus};
use journeyman_core::message::{DeliveryMode, MessageStatus};
use journeyman_core::ports::{Diffs, JobStore, PullPages, beginning};
use journeyman_core::project::Settings;
use journeyman_core::pull::{MergeMethod, NewMerge, PullEnding};
use journeyman_core::run::{ReasonCode, RunStatus};
use journeyman_core::time::Clock as _;
use journeyman_testkit::{Seeds as _, until_async, within};
use journeyman_worker::Limits;
use rustix::fs::{Mode, OFlags, open};

use super::fixtures::{harness, idle};

fn reason(job: &journeyman_core::job::Job) -> (ReasonCode, String) {
    match &job.state {
        JobState::Failed(reason) => (reason.code, reason.text.clone()),
        other => panic!("the job did not fail: {other:?}"),
    }
}

#[tokio::test]
async fn a_prompt_becomes_a_pull_request_and_a_follow_up_extends_it() {
    let harness = harness().await;
    let id = harness.create("Add a page\n[[write page.html|<h1>Shop</h1>]]").await;
    let job = harness.settled(id).await;
    assert_eq!(job.status(), JobStatus::Completed);
    let link = job.record().pr_link;
    assert_eq!(link.as_deref(), Some("http://localhost:8080/projects/shop/pulls/1"));
    let branch = job.branch.unwrap().name;
    assert!(branch.starts_with("journeyman/add-a-page-"), "{branch}");
    assert_eq!(harness.file(&branch, "page.html").await.as_deref(), Some("<h1>Shop</h1>\n"));

    harness.send(id, "[[append page.html|<p>Open</p>]]").await;
    assert_eq!(harness.job(id).await.record().pr_link, None, "active again");
    let job = harness.settled(id).await;
    assert_eq!(job.record().pr_link, link, "the same pull request");
    assert_eq!(harness.file(&branch, "page.html").await.as_deref(), Some("<h1>Shop</h1>\n<p>Open</p>\n"));
    let messages = harness.messages(id).await;
    let on_branch = harness.branch_commits(&branch).await;
    for (message, commit) in messages.iter().zip(on_branch[1..].iter().cloned()) {
        assert_eq!(message.status, MessageStatus::Finished);
        assert_eq!(message.commits.iter().map(ToString::to_string).collect::<Vec<_>>(), [commit]);
    }
    let detail = harness.hosts.local().pull(&harness.project, 1).await.unwrap();
    assert_eq!((detail.commits.len(), detail.pull.title.as_str()), (2, "Add a page"));
    let read = async |body| String::from_utf8(beginning(body, usize::MAX - 1).await.unwrap().0).unwrap();
    let diff = read(harness.diffs.diff(&harness.project, &job).await.unwrap()).await;
    assert!(diff.ends_with("+<h1>Shop</h1>\n+<p>Open</p>\n"), "{diff}");
    for (message, lines) in messages.iter().zip(["+<h1>Shop</h1>\n", " <h1>Shop</h1>\n+<p>Open</p>\n"]) {
        let diff = read(harness.diffs.diff_of_commits(&harness.project, &job, &message.commits).await.unwrap()).await;
        assert!(diff.ends_with(lines), "the changes of one message: {diff}");
    }
    let first = &messages[0].commits[0];
    let file = harness.diffs.file(&harness.project, &job, first, "page.html").await.unwrap();
    assert_eq!(file.as_deref(), Some(b"<h1>Shop</h1>\n".as_slice()), "as it was after the first message");
    for missing in ["missing.html", "", "../page.html", "page.html\0"] {
        assert_eq!(harness.diffs.file(&harness.project, &job, first, missing).await, Ok(None), "{missing:?}");
    }
    let log = harness.store.log(id, 0, 1000).await.unwrap();
    let count = |kind: &str| log.iter().filter(|entry| entry.kind == kind).count();
    assert_eq!((count("pull_request.opened"), count("pull_request.updated"), count("commit.pushed")), (1, 1, 2));
    assert!(count("agent.tool_call") >= 2 && count("agent.message") >= 2);
}

#[tokio::test]
async fn commits_of_the_agent_are_kept_and_the_rest_becomes_one() {
    let harness = harness().await;
    let id = harness
        .create("[[write a|1]] [[run git add a && git commit -q -m 'The agent says so']] [[write b|2]] [[write c|3]]")
        .await;
    let job = harness.settled(id).await;
    assert_eq!(job.status(), JobStatus::Completed);
    let detail = harness.hosts.local().pull(&harness.project, 1).await.unwrap();
    let subjects: Vec<&str> = detail.commits.iter().map(|commit| commit.subject.as_str()).collect();
    assert_eq!(subjects.len(), 2, "{subjects:?}");
    assert_eq!(subjects[0], "The agent says so");
    assert_eq!(harness.messages(id).await[0].commits.len(), 2);
}

#[tokio::test]
async fn a_turn_without_changes_opens_no_pull_request() {
    let harness = harness().await;
    let id = harness.create("[[say All is well.]]").await;
    let job = harness.settled(id).await;
    assert_eq!((job.status(), job.record().pr_link), (JobStatus::Completed, None));
    assert_eq!(harness.messages(id).await[0].status, MessageStatus::Finished);
}

#[tokio::test]
async fn a_follow_up_finds_the_earlier_work_committed() {
    let harness = harness().await;
    let id = harness.create("[[write a|1]] [[write other|1]]").await;
    harness.settled(id).await;
    harness
        .send(id, "[[append a|2]] [[run test -z \"$(git status --short other)\" && git commit -qam 'Only a']]")
        .await;
    harness.settled(id).await;
    let detail = harness.hosts.local().pull(&harness.project, 1).await.unwrap();
    let subjects: Vec<&str> = detail.commits.iter().map(|commit| commit.subject.as_str()).collect();
    assert_eq!(subjects.last(), Some(&"Only a"), "{subjects:?}");
    assert_eq!(harness.messages(id).await[1].commits.len(), 1);
}

#[tokio::test]
async fn a_follow_up_builds_on_commits_that_people_pushed() {
    let harness = harness().await;
    let id = harness.create("[[write a|1]]").await;
    let branch = harness.settled(id).await.branch.unwrap().name;
    harness.run(&["fetch", "--quiet"], &harness.clone()).await;
    harness.run(&["checkout", "--quiet", &format!("origin/{branch}")], &harness.clone()).await;
    harness.people_push(&branch, "theirs", "people\n").await;
    harness.send(id, "[[run cat theirs > seen]]").await;
    assert_eq!(harness.settled(id).await.status(), JobStatus::Completed);
    assert_eq!(harness.file(&branch, "seen").await.as_deref(), Some("people\n"));
    assert_eq!(harness.branch_commits(&branch).await.len(), 4, "no commit was overwritten");
}

#[tokio::test]
async fn a_turn_is_rebased_onto_a_concurrent_push_and_a_conflict_keeps_its_work() {
    let harness = harness().await;
    let id = harness.create("[[write a|1]]").await;
    let branch = harness.settled(id).await.branch.unwrap().name;
    harness.run(&["fetch", "--quiet"], &harness.clone()).await;
    harness.run(&["checkout", "--quiet", &format!("origin/{branch}")], &harness.clone()).await;

    let before = harness.count(id, "agent.message").await;
    harness.send(id, &format!("[[say begun]] {} [[write b|2]]", harness.hold("first"))).await;
    harness.until(id, "agent.message", before + 1).await;
    harness.people_push(&branch, "theirs", "people\n").await;
    harness.release("first");
    assert_eq!(harness.settled(id).await.status(), JobStatus::Completed);
    let (ours, theirs) = (harness.file(&branch, "b").await, harness.file(&branch, "theirs").await);
    assert_eq!((ours.as_deref(), theirs.as_deref()), (Some("2\n"), Some("people\n")));
    let on_branch = harness.branch_commits(&branch).await;
    let receipt: Vec<String> = harness.messages(id).await[1].commits.iter().map(ToString::to_string).collect();
    assert_eq!(receipt, on_branch[on_branch.len() - 1..], "the receipt names the pushed commit");

    harness.run(&["fetch", "--quiet"], &harness.clone()).await;
    harness.run(&["checkout", "--quiet", &format!("origin/{branch}")], &harness.clone()).await;
    let before = harness.count(id, "agent.message").await;
    harness.send(id, &format!("[[say begun]] {} [[write a|agent]]", harness.hold("second"))).await;
    harness.until(id, "agent.message", before + 1).await;
    harness.people_push(&branch, "a", "people\n").await;
    harness.release("second");
    let job = harness.settled(id).await;
    let (code, text) = reason(&job);
    assert_eq!(code, ReasonCode::PushConflict, "{text}");
    let saved = text.split_whitespace().find(|word| word.contains("-conflict-")).unwrap().trim_end_matches('.');
    assert_eq!(harness.file(saved, "a").await.as_deref(), Some("agent\n"));
    assert_eq!(harness.file(&branch, "a").await.as_deref(), Some("people\n"));
}

#[tokio::test]
async fn after_a_merge_a_job_continues_with_a_new_branch_and_pull_request() {
    let harness = harness().await;
    let id = harness.create("[[write a|1]]").await;
    let first = harness.settled(id).await;
    let at = harness.world.now();
    let new = NewMerge { method: MergeMethod::Merge, by: "people".to_owned(), at };
    let merge = harness.hosts.local().merge(&harness.project, 1, &new).await.unwrap();
    let (state, by, between) = (PullState::Merged, Some("people".to_owned()), Some(merge.between));
    let ending = PullEnding { state, by, at, between, commit: merge.commit };
    harness.store.end_pull("shop", 1, ending).await.unwrap();
    harness.send(id, "[[write b|2]]").await;
    let second = harness.settled(id).await;
    assert_ne!(second.branch.as_ref().unwrap().name, first.branch.unwrap().name);
    assert_eq!(second.record().pr_link.as_deref(), Some("http://localhost:8080/projects/shop/pulls/2"));
    let detail = harness.hosts.local().pull(&harness.project, 2).await.unwrap();
    assert_eq!(detail.commits.len(), 1, "it has only the new work");
    assert_eq!(
        harness.file(&second.branch.unwrap().name, "a").await.as_deref(),
        Some("1\n"),
        "it starts from the merge"
    );
}

#[tokio::test]
async fn messages_run_in_order_and_a_failed_one_does_not_drop_the_rest() {
    let harness = idle(Settings::default()).await;
    let id = harness.create("[[write a|1]]").await;
    harness.send(id, "[[fail the model is out of words]]").await;
    harness.send(id, "[[append a|3]]").await;
    harness.start_worker(1, Limits::default());
    let job = harness.settled(id).await;
    assert_eq!(job.status(), JobStatus::Completed);
    let statuses: Vec<_> = harness.messages(id).await.iter().map(|message| message.status).collect();
    assert_eq!(statuses, [MessageStatus::Finished, MessageStatus::Failed, MessageStatus::Finished]);
    assert_eq!(harness.file(&job.branch.unwrap().name, "a").await.as_deref(), Some("1\n3\n"));
    let runs = harness.store.runs(id).await.unwrap();
    let failed = runs[1].reason.as_ref().unwrap();
    assert_eq!(failed.code, ReasonCode::AgentFailed);
    assert!(failed.text.contains("the model is out of words"), "{}", failed.text);
}

#[tokio::test]
async fn a_message_whose_agent_dies_is_retried_and_then_fails() {
    let harness = harness().await;
    let id = harness.create("[[write a|1]] [[die]]").await;
    let job = harness.settled(id).await;
    let (code, text) = reason(&job);
    assert_eq!(code, ReasonCode::AgentExited, "{text}");
    let runs = harness.store.runs(id).await.unwrap();
    assert_eq!(runs.iter().map(|run| run.attempt).collect::<Vec<_>>(), [1, 2, 3]);
    harness.send(id, "[[write b|2]]").await;
    assert_eq!(harness.settled(id).await.status(), JobStatus::Completed, "a follow-up reopens the job");
}

#[tokio::test]
async fn cancel_stops_a_running_turn() {
    let harness = harness().await;
    let id = harness.create("[[say begun]] [[sleep 3600]] [[write late|1]]").await;
    harness.until(id, "agent.message", 1).await;
    harness.engine.cancel(&harness.project.id, id).await.unwrap();
    assert_eq!(reason(&harness.job(id).await).0, ReasonCode::Cancelled);
    harness.send(id, "[[write after|1]]").await;
    let job = harness.settled(id).await;
    let branch = job.branch.clone().unwrap().name;
    assert_eq!(job.status(), JobStatus::Completed);
    assert_eq!((harness.file(&branch, "late").await, harness.file(&branch, "after").await), (None, Some("1\n".into())));
}

#[tokio::test]
async fn a_setup_command_may_print_any_amount_of_output() {
    let setup = Some("seq 1 1000000; seq 1 1000000 >&2; echo the last word; [ -e ok ] || exit 1".to_owned());
    let harness = idle(Settings { setup, ..Settings::default() }).await;
    harness.start_worker(1, Limits::default());
    let id = harness.create("[[write a|1]]").await;
    let (code, text) = reason(&harness.settled(id).await);
    assert_eq!(code, ReasonCode::SetupFailed);
    assert!(text.contains("1000000") && text.len() < 3000, "the reason has the end of the output: {text}");
    harness.people_push("main", "ok", "").await;
    let id = harness.create("[[write a|1]]").await;
    assert_eq!(harness.settled(id).await.status(), JobStatus::Completed);
}

#[tokio::test]
async fn cancel_stops_git_that_hangs_in_the_tree() {
    let harness = harness().await;
    // git reads the pipe as a part of its configuration when it looks for the commit of the turn.
    let pipe = harness.shared_dir().join("pipe");
    let plant = "mkfifo -m 666 PIPE; git config include.path PIPE; echo ref: refs/heads/none > .git/HEAD";
    let plant = plant.replace("PIPE", pipe.to_str().unwrap());
    let id = harness.create(&format!("[[run {plant}]] [[write before|1]]")).await;
    // A pipe can be opened for writing, without waiting, only while a process reads it. That process then waits until
    // this end is closed.
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let held = until_async("git reads the pipe", async || open(&pipe, flags, Mode::empty()).ok()).await;
    // No later git process finds the pipe.
    std::fs::remove_file(&pipe).unwrap();
    harness.engine.cancel(&harness.project.id, id).await.unwrap();
    harness.send(id, "[[write after|1]]").await;
    // git would end after five minutes by its own limit.
    let settled = tokio::time::timeout(Duration::from_secs(240), harness.settled(id)).await;
    assert!(settled.is_ok_and(|job| job.status() == JobStatus::Completed), "the cancellation has not stopped git");
    drop(held);
}

#[tokio::test]
async fn an_interrupting_message_goes_first_and_earlier_commits_are_kept() {
    let harness = harness().await;
    let id =
        harness.create("[[write a|1]] [[run git add a && git commit -q -m kept]] [[say begun]] [[sleep 3600]]").await;
    harness.until(id, "agent.message", 1).await;
    harness.send(id, "[[write third|3]]").await;
    harness.send_with(id, "[[write second|2]]", DeliveryMode::Interrupt).await;
    let job = harness.settled(id).await;
    assert_eq!(job.status(), JobStatus::Completed);
    let messages = harness.messages(id).await;
    let statuses: Vec<_> = messages.iter().map(|message| message.status).collect();
    assert_eq!(statuses, [MessageStatus::Cancelled, MessageStatus::Finished, MessageStatus::Finished]);
    assert!(messages[2].delivered_at < messages[1].delivered_at, "the interrupting message goes first");
    assert_eq!(messages[0].commits.len(), 1, "the commits of the interrupted turn are kept");
    assert_eq!(harness.file(&job.branch.unwrap().name, "a").await.as_deref(), Some("1\n"));
}

#[tokio::test]
async fn a_deleted_workspace_is_rebuilt_and_the_session_continues() {
    let harness = harness().await;
    let id = harness.create("[[write a|1]]").await;
    harness.settled(id).await;
    std::fs::remove_dir_all(harness.dir.path().join("workspaces")).unwrap();
    harness.send(id, "[[append a|2]]").await;
    let job = harness.settled(id).await;
    assert_eq!(harness.file(&job.branch.unwrap().name, "a").await.as_deref(), Some("1\n2\n"));
    let session = job.session.unwrap();
    let file = harness.dir.path().join(format!("workspaces/{id}/home/sessions/{session}.json"));
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains("[[write a|1]]") && text.contains("[[append a|2]]"), "{text}");
}

#[tokio::test]
async fn a_worker_that_shuts_down_hands_its_run_back_and_another_finishes_it_once() {
    let harness = idle(Settings::default()).await;
    let first = harness.start_worker(1, Limits::default());
    let id = harness.create(&format!("[[append a|1]] [[say begun]] {}", harness.hold("released"))).await;
    harness.until(id, "agent.message", 1).await;
    harness.drain.cancel();
    harness.stop.cancel();
    within("the worker stops", first).await.unwrap();
    harness.release("released");
    let runs = harness.store.runs(id).await.unwrap();
    assert_eq!(runs[0].status, RunStatus::Cancelled);
    assert_eq!(runs[0].reason.as_ref().unwrap().code, ReasonCode::HandedBack);
    let again = journeyman_worker::Worker::new(
        std::sync::Arc::clone(&harness.host),
        journeyman_core::ids::WorkerId::from_uuid(uuid::Uuid::from_u128(2)),
        Limits::default(),
    );
    let (drain, stop) = (tokio_util::sync::CancellationToken::new(), tokio_util::sync::CancellationToken::new());
    let working = tokio::spawn(async move { again.work(drain, stop).await });
    let job = harness.settled(id).await;
    working.abort();
    assert_eq!(harness.file(&job.branch.unwrap().name, "a").await.as_deref(), Some("1\n"), "done once, not twice");
    assert_eq!(harness.messages(id).await[0].commits.len(), 1);
}

#[tokio::test]
async fn each_problem_of_a_repository_has_a_specific_reason() {
    let harness = harness().await;
    let mut empty = harness.project.clone();
    empty.id = "empty".parse().unwrap();
    empty.repository = "local:empty".to_owned();
    harness.store.create_project(empty.clone(), [].into()).await.unwrap();
    journeyman_core::ports::Forges::prepare(&harness.hosts, &empty).await.unwrap();
    let mut missing = empty.clone();
    missing.id = "missing".parse().unwrap();
    missing.repository = "/no/such/repository.git".to_owned();
    harness.store.create_project(missing.clone(), [].into()).await.unwrap();
    let mut unknown_ref = harness.project.clone();
    unknown_ref.reference = Some("no-such-branch".to_owned());
    let remotes = tempfile::tempdir().unwrap();
    let remote = async |name: &str| {
        let mut project = missing.clone();
        project.id = name.parse().unwrap();
        project.repository = remotes.path().join(name).to_str().unwrap().to_owned();
        harness.store.create_project(project.clone(), [].into()).await.unwrap();
        project
    };
    let (shallow, damaged) = (remote("shallow").await, remote("damaged").await);
    let git = |arguments: &[&str]| crate::program::fixtures::git(remotes.path(), arguments);
    git(&["init", "--quiet", "--initial-branch=main", "whole"]);
    for text in ["1", "2"] {
        std::fs::write(remotes.path().join("whole/a"), text).unwrap();
        git(&["-C", "whole", "add", "a"]);
        git(&["-C", "whole", "commit", "--quiet", "--message", text]);
    }
    let url = format!("file://{}", remotes.path().join("whole").display());
    git(&["clone", "--quiet", "--bare", "--depth=1", &url, "shallow"]);
    git(&["init", "--quiet", "--bare", "--initial-branch=main", "damaged"]);
    git(&["-C", "whole", "push", "--quiet", "../damaged", "main"]);
    let file = git(&["-C", "damaged", "rev-parse", "main:a"]).trim().to_owned();
    std::fs::remove_file(remotes.path().join("damaged/objects").join(&file[..2]).join(&file[2..])).unwrap();
    for (project, code, word) in [
        (empty, ReasonCode::RepositoryEmpty, "no commits"),
        (missing, ReasonCode::RepositoryNotFound, "no repository"),
        (unknown_ref, ReasonCode::UnknownRef, "no-such-branch"),
        (shallow, ReasonCode::RepositoryUnsupported, "shallow clone"),
        (damaged, ReasonCode::RepositoryUnsupported, "is damaged"),
    ] {
        let prompt = journeyman_core::engine::Prompt {
            text: "x".into(),
            origin: journeyman_core::message::Origin::Api,
            author: None,
            key: None,
            delivery: DeliveryMode::Queue,
            traceparent: None,
            source: None,
        };
        let options = journeyman_core::job::JobOptions::default();
        let new = journeyman_core::engine::NewJob { options, ..journeyman_core::engine::NewJob::new(prompt) };
        let made =
            harness.engine.create_job(&project, new, journeyman_core::engine::Admission::default()).await.unwrap();
        let (found, text) = harness.settled_or_waiting(made.record.id).await;
        assert_eq!(found, code, "{text}");
        assert!(text.contains(word), "{text}");
    }
}

#[tokio::test]
async fn ignored_files_stay_as_the_agent_removed_or_added_them() {
    let harness = harness().await;
    harness.people_push("main", ".env", "KEY=1\n").await;
    let own = "[[run git rm -q --cached .env; printf '.env\\n*.gen\\n' > .gitignore; git add .gitignore; echo 1 > x.gen; \
               git add -f x.gen; git commit -qm own]] [[write a|1]]";
    let id = harness.create(own).await;
    let branch = harness.settled(id).await.branch.unwrap().name;
    for turn in ["first", "second"] {
        assert_eq!(harness.file(&branch, ".env").await, None, "{turn}");
        assert_eq!(harness.file(&branch, "x.gen").await.as_deref(), Some("1\n"), "{turn}");
        harness.send(id, "[[append a|2]]").await;
        assert_eq!(harness.settled(id).await.status(), JobStatus::Completed);
    }
    assert_eq!(harness.file(&branch, "a").await.as_deref(), Some("1\n2\n2\n"));
}

#[tokio::test]
async fn a_setup_command_prepares_the_workspace_and_its_failure_is_shown() {
    let settings = |setup: &str| Settings { setup: Some(setup.to_owned()), ..Settings::default() };
    let harness = idle(settings("echo ready > ~/ready")).await;
    harness.start_worker(1, Limits::default());
    let id = harness.create("[[run cat ~/ready > seen]]").await;
    let job = harness.settled(id).await;
    assert_eq!(harness.file(&job.branch.unwrap().name, "seen").await.as_deref(), Some("ready\n"));

    let harness = idle(settings("echo no such tool; exit 7")).await;
    harness.start_worker(1, Limits::default());
    let id = harness.create("x").await;
    let (code, text) = reason(&harness.settled(id).await);
    assert_eq!(code, ReasonCode::SetupFailed);
    assert!(text.contains("no such tool"), "{text}");
}
