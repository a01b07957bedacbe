//! Tests of what the service writes in threads, and of comments that it changes.

use std::collections::BTreeSet;

use http::Method;
use journeyman_core::conversation::{CommentTarget, InThread, NewReply, Replied};
use journeyman_core::hook::CommentKind;
use journeyman_core::open_pull::Ensured;
use journeyman_core::position::Thread;
use journeyman_testkit::code_host::{
    ApiRequest, CommentReply, CommentedOn, Fault, Product, Review, ReviewComment, State,
};

use super::fixtures::{Fixture, PATH, PRODUCTS, discussion};

/// Opens a pull request with a review of three comments on lines, of which the first has a reply and the last is locked.
async fn reviewed(product: Product) -> (Fixture, u64) {
    let fixture = Fixture::new(product).await;
    let head = fixture.branch("work").await;
    let Ensured::Opened { pull, .. } = fixture.ensure("work", &head).await.unwrap() else { panic!("not opened") };
    let ada = fixture.server.state().add_user("ada", "write");
    let line = |id: u64, line: u64| {
        let (path, body) = ("README.md".to_owned(), format!("comment {id}"));
        ReviewComment { id, body, path, line, reactions: Vec::new() }
    };
    let comments = vec![line(31, 1), line(32, 2), line(33, 3)];
    {
        let mut state = fixture.server.state();
        let found = state.by_path(PATH).unwrap();
        found.reviews.push(Review { id: 9, pull: pull.number, author: ada, body: String::new(), comments });
        found.replies.push(CommentReply { id: 41, to: 31, author: ada, body: "to what?".to_owned() });
        found.locked_threads.insert(33);
    }
    (fixture, pull.number)
}

fn in_thread(product: Product, id: u64, root: u64) -> InThread {
    let thread = match product {
        Product::Gitlab => Thread { id: Some(format!("d{root:039x}")), ..Thread::default() },
        _ if id == root => Thread::begun_by(&id.to_string()),
        _ => Thread::answering(root.to_string()),
    };
    InThread { kind: CommentKind::Line, id: id.to_string(), thread, review: Some("9".to_owned()) }
}

fn reply(product: Product, id: u64, root: u64) -> NewReply {
    let marker = format!("<!-- journeyman:reply:{id} -->");
    NewReply { to: in_thread(product, id, root), marker, text: format!("Done for {id}.") }
}

/// Returns the replies of the service: the first comment of the thread, and the text.
fn ours(fixture: &Fixture) -> Vec<(u64, String)> {
    let mut state = fixture.server.state();
    let found = state.by_path(PATH).unwrap();
    let ours = found.replies.iter().filter(|reply| reply.author == State::BOT);
    ours.map(|reply| (found.root(reply.to), reply.body.clone())).collect()
}

#[tokio::test]
async fn a_reply_is_written_once_in_its_thread_and_a_refused_one_says_so() {
    for product in PRODUCTS {
        let (fixture, pull) = reviewed(product).await;
        let forge = fixture.forge().await;
        let discussion = discussion(&*forge);
        let target = CommentTarget::Pull(pull);
        let replies = [(41, 31), (32, 32), (33, 33), (4711, 31)].map(|(id, root)| reply(product, id, root));
        let results = discussion.reply(target, &replies).await.unwrap();
        let is_written: Vec<bool> = results.iter().map(|result| matches!(result, Replied::Written(_))).collect();
        if product == Product::Forgejo {
            assert_eq!((is_written, ours(&fixture)), (vec![false; 4], Vec::new()), "it has no replies");
            continue;
        }
        // The service is a member of the project, and GitLab lets members reply in locked discussions.
        let is_member = product == Product::Gitlab;
        assert_eq!(is_written, [true, true, is_member, false], "{product:?}: {results:?}");
        let written = ours(&fixture);
        let roots: Vec<u64> = written.iter().map(|(root, _)| *root).collect();
        assert_eq!(roots, if is_member { vec![31, 32, 33] } else { vec![31, 32] }, "{product:?}");
        let (_, text) = &written[0];
        assert!(
            text.starts_with("Done for 41.") && text.contains("<!-- journeyman:reply:41 -->"),
            "{product:?}: {text}"
        );
        assert_eq!(discussion.reply(target, &replies).await.unwrap()[..2], results[..2], "{product:?}");
        assert_eq!(ours(&fixture), written, "{product:?}: a repeated reply is not written again");
        // The answer to the request is lost.
        let new = NewReply { marker: "<!-- journeyman:reply:new -->".to_owned(), ..replies[1].clone() };
        let part = match product {
            Product::Github | Product::Gitea | Product::Forgejo => "/replies",
            Product::Gitlab => "/notes",
            Product::Bitbucket | Product::BitbucketDataCenter => "/comments",
        };
        fixture.server.fault(Fault::FailsAfter, Method::POST, part, 1);
        let again = discussion.reply(target, std::slice::from_ref(&new)).await.unwrap();
        assert!(
            matches!(again.as_slice(), [Replied::Written(url)] if url.starts_with("http")),
            "{product:?}: {again:?}"
        );
        assert_eq!(ours(&fixture).len(), written.len() + 1, "{product:?}");
    }
}

#[tokio::test]
async fn a_version_without_replies_refuses_them() {
    let (fixture, pull) = reviewed(Product::Gitea).await;
    fixture.server.state().lacks_replies = true;
    let forge = fixture.forge().await;
    let replies = [reply(Product::Gitea, 31, 31)];
    let results = discussion(&*forge).reply(CommentTarget::Pull(pull), &replies).await.unwrap();
    assert!(matches!(results.as_slice(), [Replied::Refused(_)]), "{results:?}");
}

#[tokio::test]
async fn a_thread_is_resolved_once() {
    for product in PRODUCTS {
        let (fixture, pull) = reviewed(product).await;
        let forge = fixture.forge().await;
        let discussion = discussion(&*forge);
        let of = [in_thread(product, 41, 31), in_thread(product, 32, 32)];
        let resolved = discussion.resolve(CommentTarget::Pull(pull), &of).await;
        if product == Product::Forgejo {
            assert!(resolved.is_err(), "it has no resolution by its interface");
            continue;
        }
        resolved.unwrap();
        let state = |fixture: &Fixture| fixture.server.state().by_path(PATH).unwrap().resolved.clone();
        assert_eq!(state(&fixture), BTreeSet::from([31, 32]), "{product:?}");
        let changes = |calls: &[ApiRequest]| calls.iter().filter(|call| call.method == Method::PUT).count();
        let before = changes(&fixture.server.requests());
        discussion.resolve(CommentTarget::Pull(pull), &of).await.unwrap();
        assert_eq!(changes(&fixture.server.requests()), before, "{product:?}");
    }
}

#[tokio::test]
async fn a_comment_shows_its_newest_text() {
    for product in PRODUCTS {
        let (fixture, pull) = reviewed(product).await;
        let forge = fixture.forge().await;
        let discussion = discussion(&*forge);
        assert!(discussion.can_update());
        let (target, marker) = (CommentTarget::Pull(pull), "<!-- journeyman:answer:1 -->");
        // A stranger cannot get the text by writing the marker.
        let stranger = fixture.server.state().add_user("mallory", "");
        fixture.server.state().add_comment(PATH, CommentedOn::Pull(pull), stranger, marker);
        assert_eq!(discussion.show(target, marker, "Queued.", false).await.unwrap(), None, "{product:?}");
        let url = discussion.show(target, marker, "Queued.", true).await.unwrap().unwrap();
        for text in ["Queued.", "Working: `step`.", "Done.\n\n- a\n- b"] {
            for creates in [true, false] {
                let shown = discussion.show(target, marker, text, creates).await.unwrap();
                assert_eq!(shown.as_ref(), Some(&url), "{product:?}");
            }
            let comments = fixture.server.state().by_path(PATH).unwrap().comments.clone();
            let ours: Vec<_> = comments.iter().filter(|comment| comment.author == State::BOT).collect();
            assert!(
                matches!(ours.as_slice(), [one] if one.body.starts_with(text) && one.body.contains(marker)),
                "{ours:?}"
            );
            assert!(comments.iter().any(|comment| comment.author == stranger && comment.body == marker), "{product:?}");
        }
        let changes = fixture.server.requests();
        let changes = changes.iter().filter(|call| matches!(call.method, Method::PUT | Method::PATCH));
        assert_eq!(changes.count(), 2, "{product:?}: the same text is not written again");
    }
}
