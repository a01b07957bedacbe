//! Tests of the messages of the service's commits.

use journeyman_core::commit::subject::CoAuthor;
use journeyman_core::ids::Sha;
use journeyman_core::message::Origin;

use super::with_base;
use crate::fixtures::Fixture;

async fn message_of(fixture: &Fixture, commit: &Sha) -> String {
    let mirror = fixture.mirror().await;
    let show = ["show", "--no-patch", "--format=%B", commit.as_str()];
    String::from_utf8(mirror.git.at(&mirror.path, show).run().await.unwrap().stdout).unwrap()
}

#[tokio::test]
async fn the_subject_is_what_was_done_and_never_a_prompt_of_the_service() {
    const PROMPT: &str = "alice reviewed pull request #1 (13 comments). Work on each comment.";
    const ADDED: &str = "echo 1 > new; echo 2 > a";
    for (origin, prompt, answer, template, agent, expected) in [
        (Origin::Api, "Say hello", None, None, ADDED, "Say hello"),
        (Origin::Api, "Say hello", Some("I've added a greeting. It works."), None, ADDED, "Add a greeting"),
        (Origin::Review, PROMPT, Some("Renamed `x` to `y`."), None, ADDED, "Rename x to y"),
        (Origin::Review, PROMPT, Some("Alles erledigt."), None, ADDED, "Update a and 1 other file"),
        (Origin::Check, PROMPT, None, None, "rm a", "Remove a"),
        (Origin::Update, PROMPT, None, None, "mkdir d; echo 1 > d/x", "Add d/x"),
        (Origin::Check, PROMPT, Some("Fixed the build."), Some("{type}: {summary}"), ADDED, "fix: fix the build"),
    ] {
        let (mut fixture, before) = with_base("echo 1 > a").await;
        fixture.claimed.message.origin = origin;
        prompt.clone_into(&mut fixture.claimed.message.prompt);
        fixture.answer = answer.map(str::to_owned);
        fixture.project.settings.commits.subject = template.map(str::to_owned);
        fixture.run(agent);
        let collected = fixture.collect(&before).await.unwrap();
        let message = message_of(&fixture, &collected.head).await;
        assert_eq!(message.lines().next(), Some(expected), "{origin:?} {answer:?}: {message}");
    }
}

#[tokio::test]
async fn the_person_who_asked_is_a_co_author_of_the_last_commit() {
    const TRAILER: &str = "Co-authored-by: ada <7+ada@users.noreply.github.com>";
    for agent in ["echo 2 > a", "echo 2 > a; git -c user.name=x -c user.email=x@example.com commit -qam own"] {
        let (mut fixture, before) = with_base("echo 1 > a").await;
        fixture.co_author = CoAuthor::new("ada", "7+ada@users.noreply.github.com");
        fixture.run(agent);
        let collected = fixture.collect(&before).await.unwrap();
        let message = message_of(&fixture, &collected.head).await;
        let trailers: Vec<&str> = message.lines().filter(|line| *line == TRAILER).collect();
        assert_eq!(trailers, [TRAILER], "{agent}: {message}");
        let last = message.trim_end().rsplit("\n\n").next().unwrap();
        assert!(last.contains(TRAILER) && last.contains("Journeyman-Message: "), "one block of trailers: {message}");
    }
}
