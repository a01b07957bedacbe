//! Reviews that the service writes, on every code host.

use journeyman_core::conversation::{DiffLine, NewReview, ReviewComment};
use journeyman_core::open_pull::Ensured;
use journeyman_testkit::code_host::{Product, State};

use super::fixtures::{Fixture, PATH, discussion};

const PRODUCTS: [Product; 6] = [
    Product::Github,
    Product::Gitlab,
    Product::Gitea,
    Product::Forgejo,
    Product::Bitbucket,
    Product::BitbucketDataCenter,
];

const MARKER: &str = "<!-- journeyman:review:1 -->";

/// Returns the number of a pull request that was opened.
fn opened(ensured: Ensured) -> u64 {
    let Ensured::Opened { pull, .. } = ensured else { unreachable!("{ensured:?}") };
    pull.number
}

/// Returns the texts of the service: of comments in the conversation and reviews, and of comments on lines.
fn written(fixture: &Fixture) -> (Vec<String>, Vec<(String, u64, String)>) {
    let mut state = fixture.server.state();
    let found = state.by_path(PATH).unwrap();
    let comments = found.comments.iter().filter(|comment| comment.author == State::BOT).map(|one| one.body.clone());
    let reviews = found.reviews.iter().map(|review| review.body.clone()).filter(|body| !body.is_empty());
    let lines = found.reviews.iter().flat_map(|review| &review.comments);
    (comments.chain(reviews).collect(), lines.map(|one| (one.path.clone(), one.line, one.body.clone())).collect())
}

#[tokio::test]
async fn a_review_is_written_once_with_its_comments_on_lines() {
    for product in PRODUCTS {
        let fixture = Fixture::new(product).await;
        let head = fixture.branch("work").await;
        let number = opened(fixture.ensure("work", &head).await.unwrap());
        let line = |number| DiffLine { old: None, new: Some(number) };
        let comment = |first, last, body: &str| ReviewComment {
            path: "work.txt".to_owned(),
            old_path: "work.txt".to_owned(),
            first,
            last,
            body: body.to_owned(),
        };
        let review = NewReview {
            marker: MARKER.to_owned(),
            commit: head.clone(),
            text: "Two mistakes.".to_owned(),
            comments: vec![comment(None, line(1), "First."), comment(Some(line(2)), line(3), "Second.")],
        };
        let forge = fixture.forge().await;
        for _ in 0..2 {
            let url = discussion(&*forge).write_review(number, &review).await.unwrap();
            assert!(url.starts_with(&fixture.server.url), "{product:?}: {url}");
        }
        let (texts, lines) = written(&fixture);
        assert_eq!(texts.len(), 1, "{product:?}: {texts:?}");
        assert!(texts[0].starts_with("Two mistakes.") && texts[0].contains("review:1"), "{product:?}: {texts:?}");
        let found: Vec<(&str, u64)> = lines.iter().map(|(path, line, _)| (path.as_str(), *line)).collect();
        assert_eq!(found, [("work.txt", 1), ("work.txt", 3)], "{product:?}");
        assert!(lines[0].2.starts_with("First.") && lines[1].2.contains("Second."), "{product:?}: {lines:?}");
    }
}

#[tokio::test]
async fn a_comment_that_the_host_refuses_stands_in_the_text() {
    for product in PRODUCTS {
        let fixture = Fixture::new(product).await;
        let head = fixture.branch("work").await;
        let number = opened(fixture.ensure("work", &head).await.unwrap());
        let comment = |line, body: &str| ReviewComment {
            path: "work.txt".to_owned(),
            old_path: "work.txt".to_owned(),
            first: None,
            last: DiffLine { old: None, new: Some(line) },
            body: body.to_owned(),
        };
        let review = NewReview {
            marker: MARKER.to_owned(),
            commit: head.clone(),
            text: "Two mistakes.".to_owned(),
            comments: vec![comment(1, "First."), comment(900, "Second.")],
        };
        discussion(&*fixture.forge().await).write_review(number, &review).await.unwrap();
        let (texts, lines) = written(&fixture);
        assert_eq!(texts.len(), 1, "{product:?}: {texts:?}");
        let expected = "**`work.txt`, line 900**\n\nSecond.";
        if matches!(product, Product::Gitea | Product::Forgejo) {
            // They accept lines that the file does not have.
            assert!(lines.iter().any(|(_, line, _)| *line == 900), "{product:?}: {lines:?}");
        } else {
            assert!(texts[0].contains(expected), "{product:?}: {texts:?}");
        }
        let is_first = |text: &String| text.contains("First.");
        let count =
            texts.iter().filter(|text| is_first(text)).count() + lines.iter().filter(|one| is_first(&one.2)).count();
        assert_eq!(count, 1, "{product:?}: nothing is lost or said twice");
    }
}
