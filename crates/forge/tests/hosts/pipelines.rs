//! GitLab's pipelines, and the effects of commit statuses on them.

use journeyman_core::checks::{CheckState, CommitStatus, StatusState};
use journeyman_core::ids::Sha;
use journeyman_core::ports::{CreatedPull, Forge};
use journeyman_testkit::code_host::{Bridge, Check, MergedResult, Pipeline, Product, Status};

use serde_json::json;

use super::fixtures::{Fixture, PATH, new_pull};

fn job(id: u64, sha: &Sha, name: &str, passed: bool) -> Check {
    let log = format!("log of {name}");
    Check { id, sha: sha.to_string(), name: name.to_owned(), passed: Some(passed), log }
}

fn pipeline(id: u64, sha: &Sha, source: &str, jobs: &[u64]) -> Pipeline {
    Pipeline {
        id,
        sha: sha.to_string(),
        reference: "work".to_owned(),
        source: source.to_owned(),
        status: "success".to_owned(),
        jobs: jobs.to_vec(),
        bridges: Vec::new(),
    }
}

fn bridge(id: u64, name: &str, downstream: Option<(u64, u64, &str)>) -> Bridge {
    let downstream = downstream.map(|(project, id, status)| (project, id, status.to_owned()));
    Bridge { id, name: name.to_owned(), status: "success".to_owned(), allow_failure: false, downstream }
}

/// Returns the names and states of the checks of a commit, sorted.
async fn states(forge: &dyn Forge, sha: &Sha) -> Vec<(String, CheckState)> {
    let found = forge.checks().unwrap().of_commit(sha).await.unwrap();
    let mut states: Vec<_> = found.into_iter().map(|check| (check.name, check.state)).collect();
    states.sort_by(|one, other| one.0.cmp(&other.0));
    states
}

fn expected(states: &[(&str, CheckState)]) -> Vec<(String, CheckState)> {
    states.iter().map(|(name, state)| ((*name).to_owned(), *state)).collect()
}

#[tokio::test]
async fn a_failed_job_of_a_child_pipeline_is_a_failed_check() {
    let fixture = Fixture::new(Product::Gitlab).await;
    let sha = fixture.branch("work").await;
    {
        let mut state = fixture.server.state();
        let repository = state.by_path(PATH).unwrap();
        let own = repository.id;
        repository.checks = vec![
            job(1, &sha, "lint", true),
            job(2, &sha, "unit", false),
            job(3, &sha, "deep", false),
            job(4, &sha, "flaky", false),
        ];
        let children =
            [bridge(11, "child", Some((own, 21, "failed"))), bridge(12, "other", Some((9_999, 31, "failed")))];
        let mut optional = bridge(13, "optional", Some((own, 23, "failed")));
        optional.allow_failure = true;
        let mut top = pipeline(20, &sha, "push", &[1]);
        top.bridges = children.into_iter().chain([optional, bridge(14, "not started", None)]).collect();
        let mut child = pipeline(21, &sha, "parent_pipeline", &[2]);
        child.bridges = vec![bridge(15, "grandchild", Some((own, 22, "failed")))];
        let grandchild = pipeline(22, &sha, "parent_pipeline", &[3]);
        repository.pipelines = vec![top, child, grandchild, pipeline(23, &sha, "parent_pipeline", &[4])];
    }
    let forge = fixture.forge().await;
    assert_eq!(
        states(&*forge, &sha).await,
        expected(&[
            ("child / grandchild / deep", CheckState::Failed),
            ("child / unit", CheckState::Failed),
            ("lint", CheckState::Passed),
            ("not started", CheckState::Passed),
            ("optional / flaky", CheckState::Skipped),
            // The pipeline of another project counts, and its jobs are not read.
            ("other", CheckState::Failed),
        ])
    );
    let found = forge.checks().unwrap().of_commit(&sha).await.unwrap();
    let child = found.iter().find(|check| check.name == "child / unit").unwrap();
    let log = forge.checks().unwrap().log(child.log.as_ref().unwrap(), 100).await.unwrap();
    assert_eq!(log.as_deref(), Some(b"log of unit".as_slice()));
    assert_eq!(child.summary.as_deref(), Some("script failure"));
    let asked = fixture.server.requests();
    assert!(asked.iter().all(|call| !call.target.contains("9999") && !call.target.contains("/31/")), "{asked:?}");
}

#[tokio::test]
async fn the_newest_pipeline_of_a_ref_counts_and_statuses_of_services_too() {
    let fixture = Fixture::new(Product::Gitlab).await;
    let sha = fixture.branch("work").await;
    let status = |context: &str, state: &str, url: &str, pipeline: u64| Status {
        sha: sha.to_string(),
        context: context.to_owned(),
        state: state.to_owned(),
        url: url.to_owned(),
        description: String::new(),
        pipeline,
    };
    {
        let mut state = fixture.server.state();
        let repository = state.by_path(PATH).unwrap();
        repository.checks =
            vec![job(1, &sha, "removed", false), job(2, &sha, "test", false), job(3, &sha, "test", true)];
        let empty = Pipeline { reference: "refs/merge-requests/1/head".to_owned(), ..pipeline(22, &sha, "push", &[]) };
        repository.pipelines = vec![
            pipeline(20, &sha, "push", &[1, 2]),
            pipeline(21, &sha, "push", &[3]),
            Pipeline { status: "failed".to_owned(), ..empty },
            pipeline(23, &sha, "external", &[]),
        ];
        repository.statuses = vec![
            status("jenkins", "failed", "", 23),
            status("sonar", "success", "https://sonar.example/1", 21),
            status("bare", "success", "", 21),
            status("journeyman", "success", "https://j.example/1", 21),
        ];
    }
    let forge = fixture.forge().await;
    assert_eq!(
        states(&*forge, &sha).await,
        expected(&[
            // It has no jobs, for example because its configuration has an error.
            ("Pipeline 22", CheckState::Failed),
            ("bare", CheckState::Passed),
            ("jenkins", CheckState::Failed),
            ("sonar", CheckState::Passed),
            ("test", CheckState::Passed),
        ])
    );
}

#[tokio::test]
async fn what_prevents_a_merge_is_told_in_words() {
    let fixture = Fixture::new(Product::Gitlab).await;
    let sha = fixture.branch("work").await;
    let forge = fixture.forge().await;
    let CreatedPull::Created(_) = forge.create_pull(&new_pull("work")).await.unwrap() else { panic!("no pull") };
    {
        let mut state = fixture.server.state();
        state.add_user("ada", "write");
        let repository = state.by_path(PATH).unwrap();
        repository.checks = vec![job(1, &sha, "test", true)];
        repository.merge_status = "not_approved".to_owned();
        repository.pulls[0].reviewers = vec!["ada".to_owned()];
        repository.changes_requested = vec!["ada".to_owned()];
    }
    let found = forge.checks().unwrap().of_commit(&sha).await.unwrap();
    let told = found.iter().find(|check| check.state == CheckState::Ignored).unwrap();
    let expected = "The merge request !1 waits: approvals are missing; changes are requested by ada.";
    assert_eq!(told.summary.as_deref(), Some(expected));
}

#[tokio::test]
async fn a_commit_with_only_merged_results_says_why_it_has_no_status() {
    let fixture = Fixture::new(Product::Gitlab).await;
    let sha = fixture.branch("work").await;
    let forge = fixture.forge().await;
    let CreatedPull::Created(_) = forge.create_pull(&new_pull("work")).await.unwrap() else { panic!("no pull") };
    let merge: Sha = "c".repeat(40).parse().unwrap();
    let result = MergedResult { pull: 1, head: sha.to_string(), merge: merge.to_string() };
    {
        let mut state = fixture.server.state();
        let repository = state.by_path(PATH).unwrap();
        repository.merged_results = vec![result];
        repository.checks = vec![job(1, &merge, "test", true)];
    }
    let found = forge.checks().unwrap().of_commit(&sha).await.unwrap();
    let told = found.iter().find(|check| check.name == "journeyman").unwrap();
    assert!(told.summary.as_deref().unwrap().contains("only a merged results pipeline"), "{found:?}");
}

fn status(state: StatusState) -> CommitStatus {
    let (url, branch) = ("https://j.example/1".to_owned(), "work".to_owned());
    CommitStatus { state, description: "The agent has finished".to_owned(), url, branch }
}

#[tokio::test]
async fn a_status_never_makes_a_pipeline_and_never_stays_running() {
    let fixture = Fixture::new(Product::Gitlab).await;
    let sha = fixture.branch("work").await;
    let forge = fixture.forge().await;
    let checks = forge.checks().unwrap();
    for state in [StatusState::Pending, StatusState::Success, StatusState::Failure] {
        checks.set_status(&sha, &status(state)).await.unwrap();
    }
    {
        let mut state = fixture.server.state();
        let repository = state.by_path(PATH).unwrap();
        assert_eq!((repository.pipelines.len(), repository.statuses.len()), (0, 0));
    }
    let told = checks.of_commit(&sha).await.unwrap();
    assert!(told[0].summary.as_ref().unwrap().contains("sets no status"), "{told:?}");
    // The newest pipeline is that of another service.
    fixture.server.state().by_path(PATH).unwrap().pipelines =
        vec![pipeline(20, &sha, "push", &[]), pipeline(21, &sha, "external", &[])];
    for state in [StatusState::Pending, StatusState::Success] {
        checks.set_status(&sha, &status(state)).await.unwrap();
    }
    let mut state = fixture.server.state();
    let repository = state.by_path(PATH).unwrap();
    let set: Vec<_> = repository.statuses.iter().map(|status| (status.state.as_str(), status.pipeline)).collect();
    assert_eq!((set, repository.pipelines.len()), (vec![("success", 20)], 2));
    drop(state);
    let posted =
        fixture.server.requests().into_iter().filter(|call| call.target.contains("/statuses/")).last().unwrap();
    assert_eq!((&posted.body["ref"], &posted.body["pipeline_id"]), (&"work".into(), &20.into()));
}

#[tokio::test]
async fn a_status_that_an_older_version_left_running_is_ended_and_permits_no_merge() {
    let fixture = Fixture::new(Product::Gitlab).await;
    let sha = fixture.branch("work").await;
    {
        let mut state = fixture.server.state();
        let repository = state.by_path(PATH).unwrap();
        repository.pipelines = vec![pipeline(21, &sha, "external", &[])];
        repository.statuses = vec![Status {
            sha: sha.to_string(),
            context: "journeyman".to_owned(),
            state: "running".to_owned(),
            url: String::new(),
            description: String::new(),
            pipeline: 21,
        }];
    }
    let forge = fixture.forge().await;
    forge.checks().unwrap().set_status(&sha, &status(StatusState::Success)).await.unwrap();
    let mut state = fixture.server.state();
    let statuses = &state.by_path(PATH).unwrap().statuses;
    assert_eq!((statuses.len(), statuses[0].state.as_str()), (1, "canceled"));
}

#[tokio::test]
async fn the_failed_tests_of_a_job_are_its_report() {
    let fixture = Fixture::new(Product::Gitlab).await;
    let sha = fixture.branch("work").await;
    {
        let mut state = fixture.server.state();
        let repository = state.by_path(PATH).unwrap();
        let own = repository.id;
        repository.checks = vec![job(1, &sha, "lint", true), job(2, &sha, "unit", false)];
        let parent = Pipeline {
            bridges: vec![bridge(11, "child", Some((own, 21, "failed")))],
            ..pipeline(20, &sha, "push", &[1])
        };
        repository.pipelines = vec![parent, pipeline(21, &sha, "parent_pipeline", &[2])];
        let test = json!({"status": "failed", "classname": "Cart", "name": "adds", "system_output": "expected 1"});
        let suite = json!({"name": "unit", "total_count": 3, "test_cases": [test]});
        repository.test_suites.insert(21, json!([suite]));
    }
    let forge = fixture.forge().await;
    let checks = forge.checks().unwrap();
    let found = checks.of_commit(&sha).await.unwrap();
    let named = |name: &str| found.iter().find(|check| check.name == name).unwrap();
    assert_eq!(named("lint").report, None);
    let report = named("child / unit").report.clone().unwrap();
    let text = String::from_utf8(checks.log(&report, 1000).await.unwrap().unwrap()).unwrap();
    assert_eq!(text, "1 of 3 tests failed.\n\nCart adds\nexpected 1");
    // The log is another file.
    let log = named("child / unit").log.clone().unwrap();
    assert_eq!(checks.log(&log, 1000).await.unwrap().unwrap(), b"log of unit");
    fixture.server.state().by_path(PATH).unwrap().test_suites.clear();
    assert_eq!(checks.log(&report, 1000).await, Ok(None));
}
