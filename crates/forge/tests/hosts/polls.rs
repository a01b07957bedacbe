//! Polls of all products.

use std::collections::BTreeSet;

use http::Method;
use journeyman_core::code_host::PullState;
use journeyman_core::conversation::CommentTarget;
use journeyman_core::hook::{CommentAction, CommentKind, HookContent, IssueAction};
use journeyman_core::inbox::Outcome;
use journeyman_core::inbox::route::Identity;
use journeyman_core::inbox::text::Dialect;
use journeyman_core::open_pull::Ensured;
use journeyman_core::poll::{Cursor, PollQuery, Polled, WatchedPull};
use journeyman_core::ports::ForgeError;
use journeyman_core::pull::HostPull;
use journeyman_core::time::{Clock as _, Timestamp};
use journeyman_testkit::code_host::{self, CommentedOn, Fault, Issue, Product, Review, ReviewComment};

use super::fixtures::{Fixture, PATH, PRODUCTS, discussion};

struct Polling {
    fixture: Fixture,
    query: PollQuery,
}

impl Polling {
    /// Opens a pull request, and polls until nothing is new.
    async fn new(product: Product) -> (Self, HostPull) {
        let mut fixture = Fixture::new(product).await;
        fixture.seen().await;
        let head = fixture.branch("work").await;
        let Ensured::Opened { pull, .. } = fixture.ensure("work", &head).await.unwrap() else { panic!("not opened") };
        let repository = fixture.forge().await.repository().await.unwrap().id;
        let watched = WatchedPull {
            repository,
            number: pull.number,
            head: "work".to_owned(),
            head_sha: Some(head),
            state: PullState::Open,
        };
        let query = PollQuery {
            cursor: None,
            from: Timestamp::default(),
            pulls: vec![watched],
            issue_label: Some("journeyman".to_owned()),
            confirms: false,
        };
        let mut polling = Self { fixture, query };
        assert_eq!(polling.poll().await.events, [], "{product:?}");
        polling.poll().await;
        (polling, pull)
    }

    async fn try_poll(&self) -> Result<Polled, ForgeError> {
        self.fixture.forge().await.changes().unwrap().poll(&self.query).await
    }

    async fn poll(&mut self) -> Polled {
        let polled = self.try_poll().await.unwrap();
        self.query.cursor = Some(polled.cursor.clone());
        polled
    }

    /// Polls, and returns the comments: the action, the kind and the text of each.
    async fn comments(&mut self) -> Vec<(CommentAction, CommentKind, String)> {
        let comment = |content: HookContent| match content {
            HookContent::Comment { action, comment, .. } => Some((action, comment.kind, comment.body)),
            _ => None,
        };
        self.poll().await.events.into_iter().filter_map(|event| comment(event.content)).collect()
    }
}

#[tokio::test]
async fn a_comment_is_found_once_and_its_edit_again() {
    for product in PRODUCTS {
        let (mut polling, pull) = Polling::new(product).await;
        let ada = polling.fixture.server.state().add_user("ada", "write");
        polling.fixture.server.state().add_comment(PATH, CommentedOn::Pull(pull.number), ada, "one");
        let polled = polling.poll().await;
        let [event] = polled.events.as_slice() else { panic!("{product:?} {:?}", polled.events) };
        let HookContent::Comment { number, action, comment } = &event.content else { panic!("{event:?}") };
        assert_eq!((*number, *action, comment.kind), (pull.number, CommentAction::Created, CommentKind::Pull));
        assert_eq!((comment.author.id.clone(), comment.body.as_str()), (ada.to_string(), "one"), "{product:?}");
        assert!(comment.url.starts_with(&polling.fixture.server.url) && !comment.version.is_empty(), "{comment:?}");
        let repository = polling.fixture.forge().await.repository().await.unwrap();
        assert_eq!(event.repository.as_ref().unwrap().id, repository.id);
        // Nothing has changed, and one or two requests find that out.
        let quiet = polling.poll().await;
        assert!(quiet.cost.requests <= 2, "{product:?} {:?}", quiet.cost);
        let again = polling.poll().await;
        assert_eq!((again.events, again.cost.requests <= 2), (vec![], true), "{product:?}");
        if product == Product::Github {
            assert_eq!((again.cost.requests, again.cost.charged), (1, 0), "an unchanged answer is free");
        }
        // The pages of pull requests say nothing of edits on Data Center.
        if product != Product::BitbucketDataCenter {
            polling.fixture.server.state().by_path(PATH).unwrap().comments[0].body = "changed".to_owned();
            let expected = [(CommentAction::Edited, CommentKind::Pull, "changed".to_owned())];
            assert_eq!(polling.comments().await, expected, "{product:?}");
        }
    }
}

#[tokio::test]
async fn a_poll_notices_that_another_repository_has_the_address_although_nothing_happens_there() {
    for product in PRODUCTS {
        let (mut polling, pull) = Polling::new(product).await;
        let ada = polling.fixture.server.state().add_user("ada", "write");
        polling.fixture.server.state().rename(PATH, "acme/store");
        polling.fixture.server.repository(PATH).await;
        polling.fixture.server.state().add_comment("acme/store", CommentedOn::Pull(pull.number), ada, "one");
        polling.query.confirms = true;
        let error = polling.try_poll().await.unwrap_err();
        if product == Product::BitbucketDataCenter {
            assert!(matches!(error, ForgeError::NotFound(_)), "{error}");
            continue;
        }
        assert!(error.to_string().contains("was renamed"), "{product:?} {error}");
        assert_eq!(polling.comments().await.len(), 1, "{product:?}");
    }
}

#[tokio::test]
async fn the_service_recognizes_its_own_comments_by_the_author_and_by_the_marker() {
    for product in PRODUCTS {
        let (mut polling, pull) = Polling::new(product).await;
        let forge = polling.fixture.forge().await;
        let me = discussion(&*forge).me().await.unwrap();
        let target = CommentTarget::Pull(pull.number);
        discussion(&*forge).comment(target, "<!-- journeyman:answer:1 -->", "@journeyman go on").await.unwrap();
        let events = polling.poll().await.events;
        let [event] = events.as_slice() else { panic!("{product:?} {events:?}") };
        let (author, text) = (event.author().unwrap(), event.text().unwrap());
        let identity = Identity {
            me: Some(me),
            aliases: Vec::new(),
            trusted_bots: BTreeSet::new(),
            dialect: Dialect::of(None),
            has_reviews: true,
        };
        assert_eq!(identity.ignores(author, "@journeyman go on"), Some(Outcome::IgnoredSelf), "{product:?}");
        let unknown = Identity { me: None, ..identity };
        assert_eq!(unknown.ignores(author, text), Some(Outcome::IgnoredSelf), "{product:?} {text}");
    }
}

#[tokio::test]
async fn reviews_and_comments_on_lines_are_found() {
    for product in PRODUCTS {
        let (mut polling, pull) = Polling::new(product).await;
        let ada = polling.fixture.server.state().add_user("ada", "write");
        let line = ReviewComment { id: 31, body: "rename".into(), path: "a.rs".into(), line: 7, reactions: Vec::new() };
        let review = Review { id: 9, pull: pull.number, author: ada, body: "Please.".to_owned(), comments: vec![line] };
        polling.fixture.server.state().by_path(PATH).unwrap().reviews.push(review);
        let events = polling.poll().await.events;
        let [event] = events.as_slice() else { panic!("{product:?} {events:?}") };
        match &event.content {
            HookContent::Review { number, action: CommentAction::Created, review } => {
                assert_eq!((*number, review.id.as_str(), review.body.as_str()), (pull.number, "9", "Please."));
                assert_eq!(review.author.id, ada.to_string());
            }
            // These products have no reviews.
            HookContent::Comment { comment, .. } => {
                assert!(!matches!(product, Product::Github | Product::Gitea | Product::Forgejo));
                // The webhooks of Data Center do not say which comments are on lines.
                let is_told = product != Product::BitbucketDataCenter;
                let kind = if is_told { CommentKind::Line } else { CommentKind::Pull };
                let position = comment.position.as_ref().unwrap().to_string();
                assert_eq!((comment.kind, position.as_str()), (kind, "`a.rs`, line 7"), "{product:?}");
            }
            other => panic!("{product:?} {other:?}"),
        }
    }
}

#[tokio::test]
async fn new_commits_and_the_end_of_a_pull_request_are_found() {
    for product in PRODUCTS {
        let (mut polling, pull) = Polling::new(product).await;
        let commit = polling.fixture.server.commit(PATH, "work", "theirs.txt", "x").await;
        let content = |polled: Polled| polled.events.into_iter().map(|event| event.content).collect::<Vec<_>>();
        // Gitea shows the newest commit of the branch, which may have been pushed after the end.
        let is_known =
            |state: PullState| state == PullState::Open || !matches!(product, Product::Gitea | Product::Forgejo);
        let expected = |state: PullState| HookContent::Pull {
            number: pull.number,
            state,
            head: "work".to_owned(),
            head_sha: is_known(state).then(|| commit.parse().unwrap()),
        };
        assert_eq!(content(polling.poll().await), [expected(PullState::Open)], "{product:?}");
        polling.query.pulls[0].head_sha = Some(commit.parse().unwrap());
        for (ended, state) in
            [(code_host::PullState::Merged, PullState::Merged), (code_host::PullState::Closed, PullState::Closed)]
        {
            polling.fixture.server.state().end(PATH, pull.number, ended);
            assert_eq!(content(polling.poll().await), [expected(state)], "{product:?}");
        }
    }
}

#[tokio::test]
async fn a_labeled_issue_is_found_with_the_person_who_labeled_it() {
    for product in [Product::Github, Product::Gitlab, Product::Gitea, Product::Forgejo] {
        let (mut polling, _) = Polling::new(product).await;
        let mallory = polling.fixture.server.state().add_user("mallory", "read");
        let ada = polling.fixture.server.state().add_user("ada", "write");
        let number = polling.fixture.server.state().by_path(PATH).unwrap().next_number();
        let issue = Issue { number, title: "Crash".to_owned(), author: mallory, ..Issue::default() };
        polling.fixture.server.state().by_path(PATH).unwrap().issues.push(issue);
        let events = polling.poll().await.events;
        let [opened] = events.as_slice() else { panic!("{product:?} {events:?}") };
        assert!(matches!(&opened.content, HookContent::Issue { action: IssueAction::Opened, .. }), "{opened:?}");
        assert_eq!(opened.sender.as_ref().unwrap().id, mallory.to_string(), "{product:?}");
        // Two polls overlap by at most 90 s.
        for _ in 0..100 {
            polling.fixture.server.state().by_path(PATH).unwrap().pulls[0].version += 1;
            polling.poll().await;
        }
        polling.fixture.server.state().labeler = ada;
        polling.fixture.server.state().by_path(PATH).unwrap().issues[0].labels.push("Journeyman".to_owned());
        let events = polling.poll().await.events;
        let [labeled] = events.as_slice() else { panic!("{product:?} {events:?}") };
        let HookContent::Issue { action: IssueAction::Labeled(label), issue } = &labeled.content else {
            panic!("{labeled:?}")
        };
        assert_eq!((label.as_str(), issue.author.id.clone()), ("journeyman", mallory.to_string()));
        assert_eq!(labeled.sender.as_ref().unwrap().id, ada.to_string(), "{product:?}");
    }
}

#[tokio::test]
async fn the_label_of_another_person_is_not_a_request_of_the_author() {
    for product in [Product::Github, Product::Gitlab, Product::Gitea, Product::Forgejo] {
        for is_by_author in [false, true] {
            let (mut polling, _) = Polling::new(product).await;
            let [maria, mallory] = [("maria", "write"), ("mallory", "read")]
                .map(|(name, permission)| polling.fixture.server.state().add_user(name, permission));
            let number = polling.fixture.server.state().by_path(PATH).unwrap().next_number();
            let labels = vec!["journeyman".to_owned()];
            let issue = Issue { number, author: maria, labels, ..Issue::default() };
            polling.fixture.server.state().labeler = if is_by_author { maria } else { mallory };
            polling.fixture.server.state().by_path(PATH).unwrap().issues.push(issue);
            let events = polling.poll().await.events;
            let [opened, labeled] = events.as_slice() else { panic!("{product:?} {events:?}") };
            let HookContent::Issue { action: IssueAction::Opened, issue } = &opened.content else {
                panic!("{product:?} {opened:?}")
            };
            assert_eq!(issue.labels.len(), usize::from(is_by_author), "{product:?}");
            let sender = labeled.sender.as_ref().unwrap().id.clone();
            assert_eq!(sender, (if is_by_author { maria } else { mallory }).to_string(), "{product:?}");
        }
    }
}

#[tokio::test]
async fn a_failed_poll_loses_nothing() {
    for product in PRODUCTS {
        let (mut polling, pull) = Polling::new(product).await;
        let ada = polling.fixture.server.state().add_user("ada", "write");
        polling.fixture.server.state().add_comment(PATH, CommentedOn::Pull(pull.number), ada, "one");
        polling.fixture.server.fault(Fault::FailsBefore, Method::GET, "", 3);
        let failed = polling.try_poll().await;
        assert!(matches!(failed, Err(ForgeError::Unclear(_))), "{product:?} {failed:?}");
        polling.fixture.server.fault(Fault::RateLimited(30), Method::GET, "", 1);
        assert!(matches!(polling.try_poll().await, Err(ForgeError::RateLimited(_))), "{product:?}");
        polling.fixture.world.advance(std::time::Duration::from_secs(31));
        assert!(polling.fixture.world.now() > Timestamp::default());
        assert_eq!(polling.comments().await.len(), 1, "{product:?}");
        // A position that cannot be read is that of no poll.
        polling.query.cursor = Some(Cursor("?".to_owned()));
        assert_eq!(polling.comments().await.len(), 1, "{product:?}");
    }
}

#[tokio::test]
async fn more_comments_than_fit_on_a_page_of_github_are_all_found() {
    let (mut polling, pull) = Polling::new(Product::Github).await;
    let ada = polling.fixture.server.state().add_user("ada", "write");
    for at in 0..250 {
        polling.fixture.server.state().add_comment(PATH, CommentedOn::Pull(pull.number), ada, &format!("comment {at}"));
    }
    let mut found = BTreeSet::new();
    for _ in 0..5 {
        found.extend(polling.comments().await.into_iter().map(|(_, _, body)| body));
    }
    assert_eq!(found.len(), 250);
}
