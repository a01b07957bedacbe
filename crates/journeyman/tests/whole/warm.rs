//! Agents that are kept for a follow-up, and trees that are made before they are asked for.

use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use journeyman_core::job::JobStatus;
use journeyman_core::ports::ProjectStore;
use journeyman_core::project::Settings;
use journeyman_worker::{Limits, Warm};
use rustix::process::{Pid, Signal, kill_process};

use super::given::{House, house, idle_with};

/// A prompt that writes the number of the agent's process to `file`.
fn tells(house: &House, file: &str) -> String {
    format!("[[run echo $PPID >> {}]]", house.dir.path().join(file).display())
}

/// The agents that have told, in order.
fn told(house: &House, file: &str) -> Vec<Pid> {
    let text = std::fs::read_to_string(house.dir.path().join(file)).unwrap();
    text.lines().map(|line| Pid::from_raw(line.parse().unwrap()).unwrap()).collect()
}

/// The letter for what a process does (proc_pid_stat(5)); `Z` and none for one that has ended.
fn state(agent: Pid) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", agent.as_raw_nonzero())).unwrap_or_default();
    stat.rsplit(") ").next()?.chars().next()
}

fn runs(agent: Pid) -> bool {
    !matches!(state(agent), None | Some('Z'))
}

async fn ends(agent: Pid) {
    let end = Instant::now() + Duration::from_secs(20);
    while runs(agent) {
        assert!(Instant::now() < end, "the agent runs on");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_follow_up_finds_the_agent_running_and_one_after_its_death_a_new_one() {
    let house = house().await;
    let id = house.create(&tells(&house, "agents")).await;
    house.settled(id).await;
    assert_eq!(state(told(&house, "agents")[0]), Some('T'), "it waits without moving");
    house.send(id, &format!("{} [[append a|1]]", tells(&house, "agents"))).await;
    house.settled(id).await;
    let agents = told(&house, "agents");
    assert_eq!(agents[0], agents[1]);
    kill_process(agents[1], Signal::KILL).unwrap();
    ends(agents[1]).await;
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
    let seasons = house.dir.path().join("seasons");
    house.send(id, &format!("{} [[run echo $SEASON > {}]]", tells(&house, "agents"), seasons.display())).await;
    house.settled(id).await;
    let agents = told(&house, "agents");
    assert_ne!(agents[0], agents[1]);
    assert_eq!(std::fs::read_to_string(seasons).unwrap(), "winter\n");
    ends(agents[0]).await;
}

#[tokio::test]
async fn the_agent_that_has_waited_longest_makes_room() {
    let house = idle_with(Settings::default(), Warm { agents: 1, time: Duration::from_secs(300) }).await;
    house.hire(1, Limits::default());
    for _ in 0..2 {
        let id = house.create(&tells(&house, "agents")).await;
        house.settled(id).await;
    }
    let agents = told(&house, "agents");
    ends(agents[0]).await;
    assert!(runs(agents[1]));
}

#[tokio::test]
async fn an_agent_does_not_wait_for_ever() {
    let house = idle_with(Settings::default(), Warm { agents: 2, time: Duration::from_millis(200) }).await;
    house.hire(1, Limits::default());
    let id = house.create(&tells(&house, "agents")).await;
    house.settled(id).await;
    ends(told(&house, "agents")[0]).await;
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
