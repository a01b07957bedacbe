//! What a message leads to.

use std::time::{Duration, Instant};

use journeyman_core::job::{JobState, JobStatus};
use journeyman_core::message::{DeliveryMode, MessageStatus};
use journeyman_core::ports::{Diffs, JobStore, PullPages};
use journeyman_core::project::Settings;
use journeyman_core::run::{ReasonCode, RunStatus};
use journeyman_worker::Limits;

use super::given::{house, idle};

fn reason(job: &journeyman_core::job::Job) -> (ReasonCode, String) {
    match &job.state {
        JobState::Failed(reason) => (reason.code, reason.text.clone()),
        other => panic!("the job did not fail: {other:?}"),
    }
}

#[tokio::test]
async fn a_prompt_becomes_a_pull_request_and_a_follow_up_extends_it() {
    let house = house().await;
    let id = house.create("Add a page\n[[write page.html|<h1>Shop</h1>]]").await;
    let job = house.settled(id).await;
    assert_eq!(job.status(), JobStatus::Completed);
    let link = job.record().pr_link;
    assert_eq!(link.as_deref(), Some("http://localhost:8080/projects/shop/pulls/1"));
    let branch = job.branch.unwrap().name;
    assert!(branch.starts_with("journeyman/add-a-page-"), "{branch}");
    assert_eq!(house.file(&branch, "page.html").await.as_deref(), Some("<h1>Shop</h1>\n"));

    house.send(id, "[[append page.html|<p>Open</p>]]").await;
    assert_eq!(house.job(id).await.record().pr_link, None, "active again");
    let job = house.settled(id).await;
    assert_eq!(job.record().pr_link, link, "the same pull request");
    assert_eq!(house.file(&branch, "page.html").await.as_deref(), Some("<h1>Shop</h1>\n<p>Open</p>\n"));
    let messages = house.messages(id).await;
    let on_branch = house.branch_commits(&branch).await;
    for (message, commit) in messages.iter().zip(on_branch[1..].iter().cloned()) {
        assert_eq!(message.status, MessageStatus::Finished);
        assert_eq!(message.commits.iter().map(ToString::to_string).collect::<Vec<_>>(), [commit]);
    }
    let detail = house.hosts.local().pull(&house.project, 1).await.unwrap();
    assert_eq!((detail.commits.len(), detail.pull.title.as_str()), (2, "Add a page"));
    let diff = house.host.diff(&house.project, &job).await.unwrap();
    let diff = String::from_utf8(diff.to_vec()).unwrap();
    assert!(diff.ends_with("+<h1>Shop</h1>\n+<p>Open</p>\n"), "{diff}");
    let log = house.store.log(id, 0, 1000).await.unwrap();
    let count = |kind: &str| log.iter().filter(|entry| entry.kind == kind).count();
    assert_eq!((count("pull_request.opened"), count("pull_request.updated"), count("commit.pushed")), (1, 1, 2));
    assert!(count("agent.tool_call") >= 2 && count("agent.message") >= 2);
}

#[tokio::test]
async fn commits_of_the_agent_are_kept_and_the_rest_becomes_one() {
    let house = house().await;
    let id = house
        .create("[[write a|1]] [[run git add a && git commit -q -m 'The agent says so']] [[write b|2]] [[write c|3]]")
        .await;
    let job = house.settled(id).await;
    assert_eq!(job.status(), JobStatus::Completed);
    let detail = house.hosts.local().pull(&house.project, 1).await.unwrap();
    let subjects: Vec<&str> = detail.commits.iter().map(|commit| commit.subject.as_str()).collect();
    assert_eq!(subjects.len(), 2, "{subjects:?}");
    assert_eq!(subjects[0], "The agent says so");
    assert_eq!(house.messages(id).await[0].commits.len(), 2);
}

#[tokio::test]
async fn nothing_changed_is_no_pull_request() {
    let house = house().await;
    let id = house.create("[[say All is well.]]").await;
    let job = house.settled(id).await;
    assert_eq!((job.status(), job.record().pr_link), (JobStatus::Completed, None));
    assert_eq!(house.messages(id).await[0].status, MessageStatus::Finished);
}

#[tokio::test]
async fn the_agent_finds_its_earlier_work_committed_when_a_follow_up_comes() {
    let house = house().await;
    let id = house.create("[[write a|1]] [[write other|1]]").await;
    house.settled(id).await;
    house.send(id, "[[append a|2]] [[run test -z \"$(git status --short other)\" && git commit -qam 'Only a']]").await;
    house.settled(id).await;
    let detail = house.hosts.local().pull(&house.project, 1).await.unwrap();
    let subjects: Vec<&str> = detail.commits.iter().map(|commit| commit.subject.as_str()).collect();
    assert_eq!(subjects.last(), Some(&"Only a"), "{subjects:?}");
    assert_eq!(house.messages(id).await[1].commits.len(), 1);
}

#[tokio::test]
async fn peoples_commits_on_the_branch_are_built_upon() {
    let house = house().await;
    let id = house.create("[[write a|1]]").await;
    let branch = house.settled(id).await.branch.unwrap().name;
    house.run(&["fetch", "--quiet"], &house.clone()).await;
    house.run(&["checkout", "--quiet", &format!("origin/{branch}")], &house.clone()).await;
    house.people_push(&branch, "theirs", "people\n").await;
    house.send(id, "[[run cat theirs > seen]]").await;
    assert_eq!(house.settled(id).await.status(), JobStatus::Completed);
    assert_eq!(house.file(&branch, "seen").await.as_deref(), Some("people\n"));
    assert_eq!(house.branch_commits(&branch).await.len(), 4, "nothing was pushed over");
}

#[tokio::test]
async fn a_push_in_the_middle_of_the_turn_is_rebased_upon_and_a_conflict_keeps_the_work() {
    let house = house().await;
    let id = house.create("[[write a|1]]").await;
    let branch = house.settled(id).await.branch.unwrap().name;
    house.run(&["fetch", "--quiet"], &house.clone()).await;
    house.run(&["checkout", "--quiet", &format!("origin/{branch}")], &house.clone()).await;

    let said = house.count(id, "agent.message").await;
    house.send(id, "[[say begun]] [[sleep 2]] [[write b|2]]").await;
    house.until(id, "agent.message", said + 1).await;
    house.people_push(&branch, "theirs", "people\n").await;
    assert_eq!(house.settled(id).await.status(), JobStatus::Completed);
    let (ours, theirs) = (house.file(&branch, "b").await, house.file(&branch, "theirs").await);
    assert_eq!((ours.as_deref(), theirs.as_deref()), (Some("2\n"), Some("people\n")));
    let on_branch = house.branch_commits(&branch).await;
    let receipt: Vec<String> = house.messages(id).await[1].commits.iter().map(ToString::to_string).collect();
    assert_eq!(receipt, on_branch[on_branch.len() - 1..], "the receipt names the commit as it was pushed");

    house.run(&["fetch", "--quiet"], &house.clone()).await;
    house.run(&["checkout", "--quiet", &format!("origin/{branch}")], &house.clone()).await;
    let said = house.count(id, "agent.message").await;
    house.send(id, "[[say begun]] [[sleep 2]] [[write a|agent]]").await;
    house.until(id, "agent.message", said + 1).await;
    house.people_push(&branch, "a", "people\n").await;
    let job = house.settled(id).await;
    let (code, text) = reason(&job);
    assert_eq!(code, ReasonCode::PushConflict, "{text}");
    let kept = text.split_whitespace().find(|word| word.contains("-conflict-")).unwrap().trim_end_matches('.');
    assert_eq!(house.file(kept, "a").await.as_deref(), Some("agent\n"));
    assert_eq!(house.file(&branch, "a").await.as_deref(), Some("people\n"));
}

#[tokio::test]
async fn after_a_merge_the_job_goes_on_with_a_new_branch_and_pull_request() {
    let house = house().await;
    let id = house.create("[[write a|1]]").await;
    let first = house.settled(id).await;
    house.hosts.local().merge(&house.project, 1, "people").await.unwrap();
    house.send(id, "[[write b|2]]").await;
    let second = house.settled(id).await;
    assert_ne!(second.branch.as_ref().unwrap().name, first.branch.unwrap().name);
    assert_eq!(second.record().pr_link.as_deref(), Some("http://localhost:8080/projects/shop/pulls/2"));
    let detail = house.hosts.local().pull(&house.project, 2).await.unwrap();
    assert_eq!(detail.commits.len(), 1, "it holds the new work only");
    assert_eq!(house.file(&second.branch.unwrap().name, "a").await.as_deref(), Some("1\n"), "it starts from the merge");
}

#[tokio::test]
async fn messages_wait_their_turn_and_a_failed_one_does_not_drop_the_rest() {
    let house = idle(Settings::default()).await;
    let id = house.create("[[write a|1]]").await;
    house.send(id, "[[fail the model is out of words]]").await;
    house.send(id, "[[append a|3]]").await;
    house.hire(1, Limits::default());
    let job = house.settled(id).await;
    assert_eq!(job.status(), JobStatus::Completed);
    let statuses: Vec<_> = house.messages(id).await.iter().map(|message| message.status).collect();
    assert_eq!(statuses, [MessageStatus::Finished, MessageStatus::Failed, MessageStatus::Finished]);
    assert_eq!(house.file(&job.branch.unwrap().name, "a").await.as_deref(), Some("1\n3\n"));
    let runs = house.store.runs(id).await.unwrap();
    let failed = runs[1].reason.as_ref().unwrap();
    assert_eq!(failed.code, ReasonCode::AgentFailed);
    assert!(failed.text.contains("the model is out of words"), "{}", failed.text);
}

#[tokio::test]
async fn an_agent_that_dies_is_tried_again_and_then_given_up() {
    let house = house().await;
    let id = house.create("[[write a|1]] [[die]]").await;
    let job = house.settled(id).await;
    let (code, text) = reason(&job);
    assert_eq!(code, ReasonCode::AgentExited, "{text}");
    let runs = house.store.runs(id).await.unwrap();
    assert_eq!(runs.iter().map(|run| run.attempt).collect::<Vec<_>>(), [1, 2, 3]);
    house.send(id, "[[write b|2]]").await;
    assert_eq!(house.settled(id).await.status(), JobStatus::Completed, "a follow-up reopens it");
}

#[tokio::test]
async fn cancel_reaches_a_running_turn_within_a_second() {
    let house = house().await;
    let id = house.create("[[say begun]] [[sleep 60]] [[write late|1]]").await;
    house.until(id, "agent.message", 1).await;
    house.engine.cancel(&house.project.id, id).await.unwrap();
    assert_eq!(reason(&house.job(id).await).0, ReasonCode::Cancelled);
    let begun = Instant::now();
    house.send(id, "[[write after|1]]").await;
    let job = house.settled(id).await;
    assert!(begun.elapsed() < Duration::from_secs(10), "the workspace was held for {:?}", begun.elapsed());
    let branch = job.branch.clone().unwrap().name;
    assert_eq!(job.status(), JobStatus::Completed);
    assert_eq!((house.file(&branch, "late").await, house.file(&branch, "after").await), (None, Some("1\n".into())));
}

#[tokio::test]
async fn a_setup_command_may_print_as_much_as_it_likes() {
    let setup = Some("seq 1 1000000; seq 1 1000000 >&2; echo the last word; [ -e ok ] || exit 1".to_owned());
    let house = idle(Settings { setup, ..Settings::default() }).await;
    house.hire(1, Limits::default());
    let id = house.create("[[write a|1]]").await;
    let (code, text) = reason(&house.settled(id).await);
    assert_eq!(code, ReasonCode::SetupFailed);
    assert!(text.contains("1000000") && text.len() < 3000, "the end of it is shown: {text}");
    house.people_push("main", "ok", "").await;
    let id = house.create("[[write a|1]]").await;
    assert_eq!(house.settled(id).await.status(), JobStatus::Completed);
}

#[tokio::test]
async fn cancel_reaches_git_that_hangs_in_the_tree() {
    let house = house().await;
    // Git waits for somebody to write to the pipe.
    let id = house.create("[[run rm .git/HEAD && mkfifo .git/HEAD]] [[say done]]").await;
    house.until(id, "agent.message", 1).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    house.engine.cancel(&house.project.id, id).await.unwrap();
    let begun = Instant::now();
    house.send(id, "[[write after|1]]").await;
    let job = house.settled(id).await;
    assert!(begun.elapsed() < Duration::from_secs(20), "the workspace was held for {:?}", begun.elapsed());
    assert_eq!(job.status(), JobStatus::Completed);
}

#[tokio::test]
async fn an_interrupt_keeps_what_was_committed_and_goes_first() {
    let house = house().await;
    let id = house.create("[[write a|1]] [[run git add a && git commit -q -m kept]] [[say begun]] [[sleep 60]]").await;
    house.until(id, "agent.message", 1).await;
    house.send(id, "[[write third|3]]").await;
    house.say(id, "[[write second|2]]", DeliveryMode::Interrupt).await;
    let job = house.settled(id).await;
    assert_eq!(job.status(), JobStatus::Completed);
    let messages = house.messages(id).await;
    let statuses: Vec<_> = messages.iter().map(|message| message.status).collect();
    assert_eq!(statuses, [MessageStatus::Cancelled, MessageStatus::Finished, MessageStatus::Finished]);
    assert!(messages[2].delivered_at < messages[1].delivered_at, "the interrupting message goes first");
    assert_eq!(messages[0].commits.len(), 1, "what it had committed is kept");
    assert_eq!(house.file(&job.branch.unwrap().name, "a").await.as_deref(), Some("1\n"));
}

#[tokio::test]
async fn a_workspace_that_was_deleted_is_built_again_and_the_session_goes_on() {
    let house = house().await;
    let id = house.create("[[write a|1]]").await;
    house.settled(id).await;
    std::fs::remove_dir_all(house.dir.path().join("workspaces")).unwrap();
    house.send(id, "[[append a|2]]").await;
    let job = house.settled(id).await;
    assert_eq!(house.file(&job.branch.unwrap().name, "a").await.as_deref(), Some("1\n2\n"));
    let session = job.session.unwrap();
    let file = house.dir.path().join(format!("workspaces/{id}/home/sessions/{session}.json"));
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains("[[write a|1]]") && text.contains("[[append a|2]]"), "{text}");
}

#[tokio::test]
async fn a_worker_that_shuts_down_hands_its_run_back_and_the_next_finishes_it_once() {
    let house = idle(Settings::default()).await;
    let first = house.hire(1, Limits::default());
    let id = house.create("[[append a|1]] [[say begun]] [[sleep 3]]").await;
    house.until(id, "agent.message", 1).await;
    house.drain.cancel();
    house.stop.cancel();
    tokio::time::timeout(Duration::from_secs(20), first).await.unwrap().unwrap();
    let runs = house.store.runs(id).await.unwrap();
    assert_eq!(runs[0].status, RunStatus::Cancelled);
    assert_eq!(runs[0].reason.as_ref().unwrap().code, ReasonCode::HandedBack);
    let again = journeyman_worker::Worker::new(
        std::sync::Arc::clone(&house.host),
        journeyman_core::ids::WorkerId::from_uuid(uuid::Uuid::from_u128(2)),
        Limits::default(),
    );
    let (drain, stop) = (tokio_util::sync::CancellationToken::new(), tokio_util::sync::CancellationToken::new());
    let working = tokio::spawn(async move { again.work(drain, stop).await });
    let job = house.settled(id).await;
    working.abort();
    assert_eq!(house.file(&job.branch.unwrap().name, "a").await.as_deref(), Some("1\n"), "done once, not twice");
    assert_eq!(house.messages(id).await[0].commits.len(), 1);
}

#[tokio::test]
async fn what_is_wrong_with_a_repository_is_said() {
    let house = house().await;
    let mut empty = house.project.clone();
    empty.id = "empty".parse().unwrap();
    empty.repository = "local:empty".to_owned();
    journeyman_core::ports::ProjectStore::create_project(&*house.store, empty.clone(), [].into()).await.unwrap();
    journeyman_core::ports::Forges::prepare(&house.hosts, &empty).await.unwrap();
    let mut missing = empty.clone();
    missing.id = "missing".parse().unwrap();
    missing.repository = "/no/such/repository.git".to_owned();
    journeyman_core::ports::ProjectStore::create_project(&*house.store, missing.clone(), [].into()).await.unwrap();
    let mut astray = house.project.clone();
    astray.reference = Some("no-such-branch".to_owned());
    for (project, code, word) in [
        (empty, ReasonCode::RepositoryEmpty, "no commits"),
        (missing, ReasonCode::RepositoryNotFound, "no repository"),
        (astray, ReasonCode::UnknownRef, "no-such-branch"),
    ] {
        let prompt = journeyman_core::engine::Prompt {
            text: "x".into(),
            origin: journeyman_core::message::Origin::Api,
            author: None,
            delivery: DeliveryMode::Queue,
        };
        let options = journeyman_core::job::JobOptions::default();
        let new = journeyman_core::engine::NewJob { prompt, reference: None, model: None, agent: None, options };
        let made = house.engine.create_job(&project, new, journeyman_core::engine::Admission::default()).await.unwrap();
        let (said, text) = house.settled_or_waiting(made.record.id).await;
        assert_eq!(said, code, "{text}");
        assert!(text.contains(word), "{text}");
    }
}

#[tokio::test]
async fn what_an_agent_takes_out_of_the_repository_or_puts_in_by_force_stays_so() {
    let house = house().await;
    house.people_push("main", ".env", "KEY=1\n").await;
    let own = "[[run git rm -q --cached .env; printf '.env\\n*.gen\\n' > .gitignore; git add .gitignore; echo 1 > x.gen; \
               git add -f x.gen; git commit -qm own]] [[write a|1]]";
    let id = house.create(own).await;
    let branch = house.settled(id).await.branch.unwrap().name;
    for turn in ["first", "second"] {
        assert_eq!(house.file(&branch, ".env").await, None, "{turn}");
        assert_eq!(house.file(&branch, "x.gen").await.as_deref(), Some("1\n"), "{turn}");
        house.send(id, "[[append a|2]]").await;
        assert_eq!(house.settled(id).await.status(), JobStatus::Completed);
    }
    assert_eq!(house.file(&branch, "a").await.as_deref(), Some("1\n2\n2\n"));
}

#[tokio::test]
async fn a_setup_command_prepares_the_workspace_and_its_failure_is_shown() {
    let settings = |setup: &str| Settings { setup: Some(setup.to_owned()), ..Settings::default() };
    let house = idle(settings("echo ready > ~/ready")).await;
    house.hire(1, Limits::default());
    let id = house.create("[[run cat ~/ready > seen]]").await;
    let job = house.settled(id).await;
    assert_eq!(house.file(&job.branch.unwrap().name, "seen").await.as_deref(), Some("ready\n"));

    let house = idle(settings("echo no such tool; exit 7")).await;
    house.hire(1, Limits::default());
    let id = house.create("x").await;
    let (code, text) = reason(&house.settled(id).await);
    assert_eq!(code, ReasonCode::SetupFailed);
    assert!(text.contains("no such tool"), "{text}");
}
