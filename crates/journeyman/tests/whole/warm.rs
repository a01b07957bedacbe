//! Agents that are kept for a follow-up, and trees that are made before they are asked for.

use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use journeyman_core::job::JobStatus;
use journeyman_core::ports::ProjectStore;
use journeyman_core::project::Settings;
use journeyman_worker::{Limits, Warm};
use rustix::process::{Signal, kill_process};

use super::given::{House, house, idle_with};
use crate::inside::{Inmate, TELL};

/// A prompt that makes the agent tell in `file` who it is.
fn tells(house: &House, file: &str) -> String {
    format!("[[run {TELL} >> {}]]", house.window().join(file).display())
}

/// The agents that have told, in order.
fn told(house: &House, file: &str) -> Vec<Inmate> {
    let text = std::fs::read_to_string(house.window().join(file)).unwrap();
    text.lines().map(Inmate::parse).collect()
}

async fn ends(agent: &Inmate) {
    let end = Instant::now() + Duration::from_secs(20);
    while agent.runs() {
        assert!(Instant::now() < end, "the agent runs on");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_follow_up_finds_the_agent_running_and_one_after_its_death_a_new_one() {
    let house = house().await;
    let id = house.create(&tells(&house, "agents")).await;
    house.settled(id).await;
    assert!(told(&house, "agents")[0].is_held(), "it waits without moving");
    house.send(id, &format!("{} [[append a|1]]", tells(&house, "agents"))).await;
    house.settled(id).await;
    let agents = told(&house, "agents");
    assert_eq!(agents[0], agents[1]);
    kill_process(agents[1].pid().unwrap(), Signal::KILL).unwrap();
    ends(&agents[1]).await;
    house.send(id, &format!("{} [[append a|2]]", tells(&house, "agents"))).await;
    let job = house.settled(id).await;
    assert_eq!(job.status(), JobStatus::Completed);
    assert_ne!(told(&house, "agents")[2], agents[1]);
    assert_eq!(house.runs(id).await.len(), 3, "none failed");
    assert_eq!(house.file(&job.branch.unwrap().name, "a").await.as_deref(), Some("1\n2\n"));
}

#[tokio::test]
async fn an_agent_that_was_started_with_other_settings_is_not_used_again() {
    let house = house().await;
    let id = house.create(&tells(&house, "agents")).await;
    house.settled(id).await;
    let mut project = house.project.clone();
    project.settings.environment.insert("SEASON".to_owned(), "winter".to_owned());
    house.store.update_project(project, [].into()).await.unwrap();
    let seasons = house.window().join("seasons");
    house.send(id, &format!("{} [[run echo $SEASON > {}]]", tells(&house, "agents"), seasons.display())).await;
    house.settled(id).await;
    let agents = told(&house, "agents");
    assert_ne!(agents[0], agents[1]);
    assert_eq!(std::fs::read_to_string(seasons).unwrap(), "winter\n");
    ends(&agents[0]).await;
}

#[tokio::test]
async fn the_agent_that_has_waited_longest_makes_room() {
    let house = idle_with(Settings::default(), Warm { agents: 1, time: Duration::from_secs(300) }).await;
    house.hire(1, Limits::default());
    // Each has a user of its own, and so a file.
    for file in ["first", "second"] {
        let id = house.create(&tells(&house, file)).await;
        house.settled(id).await;
    }
    ends(&told(&house, "first")[0]).await;
    assert!(told(&house, "second")[0].runs());
}

#[tokio::test]
async fn an_agent_does_not_wait_for_ever() {
    let house = idle_with(Settings::default(), Warm { agents: 2, time: Duration::from_millis(200) }).await;
    house.hire(1, Limits::default());
    let id = house.create(&tells(&house, "agents")).await;
    house.settled(id).await;
    ends(&told(&house, "agents")[0]).await;
}

#[tokio::test]
async fn the_second_job_on_a_large_repository_moves_into_a_tree_that_is_there() {
    let house = idle_with(Settings::default(), Warm::NONE).await;
    for number in 0..4000 {
        std::fs::write(house.clone().join(format!("a-file-with-a-rather-long-name-{number}")), "x").unwrap();
    }
    house.people_push("main", "more", "1").await;
    house.hire(1, Limits::default());
    let first = house.create("[[append more|first]]").await;
    house.settled(first).await;
    let spares = house.dir.path().join("spares");
    let end = Instant::now() + Duration::from_secs(60);
    let is_there = || {
        std::fs::read_dir(&spares)
            .is_ok_and(|mut spares| spares.any(|spare| spare.is_ok_and(|spare| spare.path().extension().is_none())))
    };
    while !is_there() {
        assert!(Instant::now() < end, "no spare tree is made");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let number_of = |dir: &std::path::Path| std::fs::metadata(dir).unwrap().ino();
    let spare = std::fs::read_dir(&spares).unwrap().map(|spare| number_of(&spare.unwrap().path())).next().unwrap();
    // It moves on to what people have pushed meanwhile.
    house.people_push("main", "more", "2").await;
    let branch =
        "[[run git branch --show-current > branch]] [[run git status --short > status]] [[append more|second]]";
    let second = house.create(branch).await;
    assert!(house.settled(second).await.status() == JobStatus::Completed);
    let tree = house.dir.path().join(format!("workspaces/{second}/tree"));
    assert_eq!(number_of(&tree), spare, "it was taken");
    let name = house.job(second).await.branch.unwrap().name;
    assert_eq!(house.file(&name, "more").await.as_deref(), Some("2second\n"));
    assert_eq!(house.file(&name, "branch").await, Some(format!("{name}\n")), "the agent finds the job's branch");
    assert_eq!(house.file(&name, "status").await.as_deref(), Some("?? branch\n?? status\n"), "and nothing else");
}
