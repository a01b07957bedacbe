//! What GitHub says about checks beside their results.

use journeyman_core::checks::CheckState;
use journeyman_core::ids::Sha;
use journeyman_testkit::code_host::{Check, Output, Product};
use serde_json::json;

use super::fixtures::{Fixture, PATH};

fn check(id: u64, sha: &Sha, name: &str) -> Check {
    Check { id, sha: sha.to_string(), name: name.to_owned(), passed: Some(false), log: "the log".to_owned() }
}

#[tokio::test]
async fn what_waits_for_people_is_no_failure() {
    let fixture = Fixture::new(Product::Github).await;
    let sha = fixture.branch("work").await;
    let conclusions = [
        ("action_required", CheckState::Waiting),
        ("cancelled", CheckState::Skipped),
        ("failure", CheckState::Failed),
        ("neutral", CheckState::Passed),
        ("timed_out", CheckState::Failed),
    ];
    {
        let mut state = fixture.server.state();
        let repository = state.by_path(PATH).unwrap();
        for (id, (conclusion, _)) in (1..).zip(conclusions) {
            repository.checks.push(check(id, &sha, conclusion));
            let output = Output { conclusion: conclusion.to_owned(), ..Output::default() };
            repository.outputs.insert(id, output);
        }
    }
    let mut found = fixture.forge().await.checks().unwrap().of_commit(&sha).await.unwrap();
    // The order of check runs is not documented.
    found.sort_by(|one, other| one.name.cmp(&other.name));
    let states: Vec<_> = found.iter().map(|check| (check.name.as_str(), check.state)).collect();
    assert_eq!(states, conclusions);
    assert!(found.iter().all(|check| check.report.is_none()), "{found:?}");
}

#[tokio::test]
async fn a_workflow_without_jobs_that_waits_for_an_approval_is_a_check() {
    let fixture = Fixture::new(Product::Github).await;
    let sha = fixture.branch("work").await;
    fixture.server.state().by_path(PATH).unwrap().waiting_workflows = vec![(sha.to_string(), "CI".to_owned())];
    let found = fixture.forge().await.checks().unwrap().of_commit(&sha).await.unwrap();
    assert_eq!((found.len(), found[0].name.as_str(), found[0].state), (1, "CI", CheckState::Waiting));
    assert!(found[0].summary.as_ref().unwrap().contains("approval"), "{found:?}");
}

#[tokio::test]
async fn the_report_of_a_check_has_its_annotations_its_summary_and_its_text() {
    let fixture = Fixture::new(Product::Github).await;
    let sha = fixture.branch("work").await;
    let annotation = |path: &str, end: u64| {
        json!({
            "path": path, "start_line": 3, "end_line": end, "annotation_level": "failure", "title": "E1",
            "message": "unused", "raw_details": null, "start_column": null, "end_column": null,
            "blob_href": "https://g.example/b",
        })
    };
    {
        let mut state = fixture.server.state();
        let repository = state.by_path(PATH).unwrap();
        repository.checks = vec![check(1, &sha, "lint"), check(2, &sha, "test")];
        let output = Output {
            title: "2 problems".to_owned(),
            summary: "Two **problems**".to_owned(),
            text: "ä".repeat(1000),
            annotations: vec![annotation("a.rs", 3), annotation("b.rs", 5)],
            is_of_app: true,
            ..Output::default()
        };
        repository.outputs.insert(1, output);
    }
    let forge = fixture.forge().await;
    let checks = forge.checks().unwrap();
    let mut found = checks.of_commit(&sha).await.unwrap();
    found.sort_by(|one, other| one.name.cmp(&other.name));
    assert_eq!((found[0].log.as_deref(), found[1].report.as_deref()), (None, None));
    let report = found[0].report.as_ref().unwrap();
    let text = String::from_utf8(checks.log(report, 64 << 10).await.unwrap().unwrap()).unwrap();
    let expected =
        "2 problems\n\na.rs:3: failure: E1\nunused\n\nb.rs:3-5: failure: E1\nunused\n\nTwo **problems**\n\nää";
    assert!(text.starts_with(expected), "{text}");
    let cut = String::from_utf8(checks.log(report, 200).await.unwrap().unwrap()).unwrap();
    assert!(cut.len() <= 200 && cut.starts_with("2 problems") && cut.ends_with("is left out]"), "{cut}");
    let log = checks.log(found[1].log.as_ref().unwrap(), 100).await.unwrap();
    assert_eq!(log.as_deref(), Some(b"the log".as_slice()));
}
