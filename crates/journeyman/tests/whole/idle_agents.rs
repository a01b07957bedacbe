//! Tests of idle agents, which wait for a follow-up, and of working trees that are built in advance.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use journeyman_core::job::JobStatus;
use journeyman_core::project::Settings;
use journeyman_testkit::{Seeds as _, until_async};
use journeyman_worker::{IdleAgentLimits, Limits};
use rustix::process::{Signal, kill_process};

use super::fixtures::{Harness, harness, idle_with};
use crate::inside::{PRINT_PARENT, SandboxProcess};

/// Returns a prompt that makes the agent append its identity to `file`.
fn identify(harness: &Harness, file: &str) -> String {
    format!("[[run {PRINT_PARENT} >> {}]]", harness.shared_dir().join(file).display())
}

/// Returns the agents that appended their identities to `file`, in order.
fn agents(harness: &Harness, file: &str) -> Vec<SandboxProcess> {
    let text = std::fs::read_to_string(harness.shared_dir().join(file)).unwrap();
    text.lines().map(SandboxProcess::parse).collect()
}

async fn wait_for_end(agent: &SandboxProcess) {
    until_async("the end of the agent", async || (!agent.runs()).then_some(())).await;
}

#[tokio::test]
async fn a_follow_up_reuses_the_agent_or_starts_another_if_it_died() {
    let harness = harness().await;
    let id = harness.create(&identify(&harness, "agents")).await;
    harness.settled(id).await;
    let is_paused = async || agents(&harness, "agents")[0].is_held().then_some(());
    until_async("the idle agent is paused", is_paused).await;
    harness.send(id, &format!("{} [[append a|1]]", identify(&harness, "agents"))).await;
    harness.settled(id).await;
    let found = agents(&harness, "agents");
    assert_eq!(found[0], found[1]);
    kill_process(found[1].pid().unwrap(), Signal::KILL).unwrap();
    wait_for_end(&found[1]).await;
    harness.send(id, &format!("{} [[append a|2]]", identify(&harness, "agents"))).await;
    let job = harness.settled(id).await;
    assert_eq!(job.status(), JobStatus::Completed);
    assert_ne!(agents(&harness, "agents")[2], found[1]);
    assert_eq!(harness.runs(id).await.len(), 3, "no run failed");
    assert_eq!(harness.file(&job.branch.unwrap().name, "a").await.as_deref(), Some("1\n2\n"));
}

#[tokio::test]
async fn an_agent_that_was_started_with_other_settings_is_not_reused() {
    let harness = harness().await;
    let id = harness.create(&identify(&harness, "agents")).await;
    harness.settled(id).await;
    let mut project = harness.project.clone();
    project.settings.environment.insert("SEASON".to_owned(), "winter".to_owned());
    harness.store.update_project(project, [].into()).await.unwrap();
    let seasons = harness.shared_dir().join("seasons");
    harness.send(id, &format!("{} [[run echo $SEASON > {}]]", identify(&harness, "agents"), seasons.display())).await;
    harness.settled(id).await;
    let found = agents(&harness, "agents");
    assert_ne!(found[0], found[1]);
    assert_eq!(std::fs::read_to_string(seasons).unwrap(), "winter\n");
    wait_for_end(&found[0]).await;
}

#[tokio::test]
async fn the_agent_that_was_idle_longest_is_stopped_for_another() {
    let harness = idle_with(Settings::default(), IdleAgentLimits { agents: 1, time: Duration::from_secs(300) }).await;
    harness.start_worker(1, Limits::default());
    // The agents run as different users, so each needs a separate file.
    for file in ["first", "second"] {
        let id = harness.create(&identify(&harness, file)).await;
        harness.settled(id).await;
    }
    wait_for_end(&agents(&harness, "first")[0]).await;
    assert!(agents(&harness, "second")[0].runs());
}

#[tokio::test]
async fn an_idle_agent_is_stopped_at_its_time_limit() {
    let harness = idle_with(Settings::default(), IdleAgentLimits { agents: 2, time: Duration::from_millis(200) }).await;
    harness.start_worker(1, Limits::default());
    let id = harness.create(&identify(&harness, "agents")).await;
    harness.settled(id).await;
    wait_for_end(&agents(&harness, "agents")[0]).await;
}

#[tokio::test]
async fn the_second_job_on_a_large_repository_gets_a_prebuilt_tree() {
    let harness = idle_with(Settings::default(), IdleAgentLimits::NONE).await;
    for number in 0..4000 {
        std::fs::write(harness.clone().join(format!("a-file-with-a-rather-long-name-{number}")), "x").unwrap();
    }
    harness.people_push("main", "more", "1").await;
    harness.start_worker(1, Limits::default());
    let first = harness.create("[[append more|first]]").await;
    harness.settled(first).await;
    let spares = harness.dir.path().join("spares");
    let number_of = |dir: &std::path::Path| std::fs::metadata(dir).unwrap().ino();
    let number_of_spare = || {
        let mut paths = std::fs::read_dir(&spares).ok()?.flatten().map(|spare| spare.path());
        paths.find(|path| path.extension().is_none()).map(|path| number_of(&path))
    };
    let spare = until_async("a tree is prebuilt", async || number_of_spare()).await;
    // The prebuilt tree is updated to commits that were pushed in the meantime.
    harness.people_push("main", "more", "2").await;
    let branch =
        "[[run git branch --show-current > branch]] [[run git status --short > status]] [[append more|second]]";
    let second = harness.create(branch).await;
    assert!(harness.settled(second).await.status() == JobStatus::Completed);
    let tree = harness.dir.path().join(format!("workspaces/{second}/tree"));
    assert_eq!(number_of(&tree), spare, "the prebuilt tree was used");
    let name = harness.job(second).await.branch.unwrap().name;
    assert_eq!(harness.file(&name, "more").await.as_deref(), Some("2second\n"));
    assert_eq!(harness.file(&name, "branch").await, Some(format!("{name}\n")), "the agent finds the job's branch");
    assert_eq!(harness.file(&name, "status").await.as_deref(), Some("?? branch\n?? status\n"), "and no other changes");
}
