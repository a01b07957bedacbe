//! Tests of mentions on pull requests of people, on which no job works.

use serde_json::{Value, json};

use super::{PATH, World, git, opened_by_people, until, until_inbox};
use crate::program::fixtures::Service;

/// Returns the only job of the project.
fn only_job(service: &Service) -> String {
    until("no job", service, || {
        let jobs = service.get("/v2/agent/web/jobs")["jobs"].take();
        jobs.as_array().unwrap().first().map(|job| format!("/v2/agent/web/job/{}", job["id"].as_str().unwrap()))
    })
}

#[test]
fn a_mention_on_a_pull_request_of_a_person_starts_work_and_is_answered_there() {
    let world = World::new();
    let service = world.start();
    let maria = world.user("maria", "write");
    let (number, page) = opened_by_people(&world, maria);
    let (comment, body) = world.comment(number, maria, "@journeyman-bot please [[append hello.txt|Goodbye]]");
    world.deliver_all(&service, "issue_comment", &[body]);
    until_inbox(&service, &["job_created"]);
    let job = only_job(&service);
    let record = service.settled(&job);
    assert_eq!((&record["status"], &record["prLink"]), (&json!("completed"), &json!(page)), "{record}");
    assert_eq!(world.file("feature", "hello.txt"), "Hello\nGoodbye\n");
    let is_done = |answers: &Vec<String>| answers.iter().any(|answer| answer.starts_with("✅ Done in "));
    until("no answer", &service, || Some(world.answers()).filter(is_done));
    until("no reaction", &service, || (world.reactions(comment) == ["eyes", "rocket"]).then_some(()));
    let message = &service.get(&format!("{job}/messages"))["messages"][0];
    assert_eq!((&message["origin"], &message["author"]), (&json!("comment"), &json!("maria")), "{message:#}");
    // The next comment is for the same job, and the pull request keeps its words.
    let (_, body) = world.comment(number, maria, "@journeyman-bot and [[append hello.txt|Again]]");
    world.deliver_all(&service, "issue_comment", &[body]);
    until_inbox(&service, &["job_created", "message"]);
    service.settled(&job);
    assert_eq!(world.file("feature", "hello.txt"), "Hello\nGoodbye\nAgain\n");
    let pulls = world.host.state().by_path(PATH).unwrap().pulls.clone();
    assert_eq!((pulls.len(), pulls[0].title.as_str(), pulls[0].body.as_str()), (1, "Greet", "My own words."));
}

#[test]
fn a_mention_in_a_pull_request_of_a_fork_is_answered_with_the_reason() {
    let world = World::new();
    let service = world.start();
    let maria = world.user("maria", "write");
    let (number, _) = opened_by_people(&world, maria);
    world.host.state().by_path(PATH).unwrap().pulls[0].fork = Some(999);
    let (_, body) = world.comment(number, maria, "@journeyman-bot please fix it");
    world.deliver_all(&service, "issue_comment", &[body]);
    until_inbox(&service, &["no_job"]);
    let told = until("no answer", &service, || Some(world.answers()).filter(|told| !told.is_empty()));
    assert!(told[0].contains("in another repository"), "{told:?}");
    assert_eq!(service.get("/v2/agent/web/jobs")["jobs"], json!([]));
}

#[test]
fn a_fork_is_reviewed_with_comments_on_lines_and_nothing_is_pushed() {
    let world = World::new();
    let service = world.start();
    let settings = json!({ "setup": "touch ../set-up", "secrets": { "DEPLOY": "s3cr3t-value" } });
    let (status, body) = service.call("PATCH", "/v2/projects/web", Some(settings));
    assert_eq!(status, 200, "{body}");
    let maria = world.user("maria", "write");
    let (number, _) = opened_by_people(&world, maria);
    // The branch is in a fork: this repository has the commit only in the ref of the pull request.
    let git_dir = world.host.git_dir(PATH);
    let head = git(&git_dir, &["rev-parse", "refs/heads/feature"]).trim().to_owned();
    git(&git_dir, &["update-ref", &format!("refs/pull/{number}/head"), &head]);
    git(&git_dir, &["update-ref", "-d", "refs/heads/feature"]);
    world.host.state().by_path(PATH).unwrap().pulls[0].fork = Some(999);
    let text = "@journeyman-bot review [[run cat hello.txt; env; ls ..; echo changed > hello.txt]]\n\
                [[say One mistake.\n\n### hello.txt:1\n\nSay more.\n\n```suggestion\nHello there\n```\n]]";
    let (comment, body) = world.comment(number, maria, text);
    world.deliver_all(&service, "issue_comment", &[body]);
    until_inbox(&service, &["job_created"]);
    let job = only_job(&service);
    let record = service.settled(&job);
    assert_eq!((&record["status"], &record["prLink"]), (&json!("completed"), &Value::Null), "{record}");
    let reviews = || world.host.state().by_path(PATH).unwrap().reviews.clone();
    let review = until("no review", &service, || reviews().into_iter().next());
    assert!(review.body.contains("One mistake.") && review.body.contains(&head[..12]), "{review:?}");
    let line = &review.comments[0];
    assert_eq!((line.path.as_str(), line.line), ("hello.txt", 1), "{review:?}");
    assert!(line.body.starts_with("Say more."), "{review:?}");
    assert!(line.body.ends_with("```suggestion\nHello there\n```"), "{review:?}");
    until("no reaction", &service, || (world.reactions(comment) == ["eyes", "rocket"]).then_some(()));
    let events = service.events(&job).to_string();
    assert!(!events.contains("s3cr3t-value") && !events.contains("DEPLOY=") && !events.contains("set-up"), "{events}");
    let refs = git(&git_dir, &["for-each-ref", "--format=%(refname)"]);
    assert_eq!(refs.lines().collect::<Vec<_>>(), ["refs/heads/main", &format!("refs/pull/{number}/head")]);
    assert_eq!(world.host.state().by_path(PATH).unwrap().statuses.len(), 0);
}
