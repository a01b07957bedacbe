//! The behavior that all products must have.

use journeyman_core::checks::{CheckState, CommitStatus, StatusState};
use journeyman_core::code_host::PullState;
use journeyman_core::conversation::{CommentRef, CommentTarget, InThread, Permission, Reaction};
use journeyman_core::hook::{CommentKind, HostComment, HostReview, HostUser};
use journeyman_core::ids::Sha;
use journeyman_core::open_pull::Ensured;
use journeyman_core::ports::{CreatedPull, ForgeError};
use journeyman_core::position::Thread;
use journeyman_core::pull::PullChange;
use journeyman_testkit::code_host::{
    self, Bridge, Check, CommentReply, CommentedOn, Issue, MergedResult, Pipeline, Product, Review, ReviewComment,
    State,
};

use super::fixtures::{Fixture, PATH, discussion, new_pull};

/// Defines a module with the tests of each product.
macro_rules! products {
    ($($module:ident: $product:ident,)*) => {
        $(mod $module {
            use super::*;
            const PRODUCT: Product = Product::$product;

            #[tokio::test]
            async fn a_repository_is_described_and_its_branches_can_be_pushed() {
                describes(PRODUCT).await;
            }

            #[tokio::test]
            async fn a_branch_gets_one_pull_request() {
                opens_one(PRODUCT).await;
            }

            #[tokio::test]
            async fn a_branch_without_changes_gets_none() {
                opens_none(PRODUCT).await;
            }

            #[tokio::test]
            async fn two_hundred_attempts_at_once_open_one_pull_request() {
                opens_one_at_once(PRODUCT).await;
            }

            #[tokio::test]
            async fn a_pull_request_is_changed() {
                changes(PRODUCT).await;
            }

            #[tokio::test]
            async fn the_state_of_a_pull_request_is_read() {
                reads_states(PRODUCT).await;
            }

            #[tokio::test]
            async fn a_comment_is_written_once() {
                comments_once(PRODUCT).await;
            }

            #[tokio::test]
            async fn the_threads_of_comments_are_read() {
                reads_threads(PRODUCT).await;
            }

            #[tokio::test]
            async fn permissions_are_those_of_the_host() {
                permissions(PRODUCT).await;
            }

            #[tokio::test]
            async fn the_status_of_a_commit_is_set_and_is_no_check() {
                sets_status(PRODUCT).await;
            }

            #[tokio::test]
            async fn a_renamed_repository_is_followed() {
                follows_renames(PRODUCT).await;
            }

            #[tokio::test]
            async fn a_repository_with_the_old_address_of_a_project_is_not_used() {
                survives_replacements(PRODUCT).await;
            }

            #[tokio::test]
            async fn errors_say_what_to_do() {
                explains(PRODUCT).await;
            }
        })*
    };
}

products! {
    github: Github,
    gitlab: Gitlab,
    gitea: Gitea,
    forgejo: Forgejo,
    bitbucket: Bitbucket,
    bitbucket_data_center: BitbucketDataCenter,
}

async fn describes(product: Product) {
    let fixture = Fixture::new(product).await;
    let forge = fixture.forge().await;
    let repository = forge.repository().await.unwrap();
    assert_eq!((repository.path.as_str(), repository.is_archived), (PATH, false));
    assert_eq!(repository.default_branch.as_deref(), Some("main"));
    assert_ne!(repository.can_push, Some(false));
    let remote = forge.remote().await.unwrap();
    assert_eq!(remote.url, fixture.project.repository);
    assert!(remote.credential.is_some() && !remote.url.contains(State::TOKEN));
    let me = discussion(&*forge).me().await.unwrap();
    assert_eq!((me.id.as_str(), me.name.as_str()), (State::BOT.to_string().as_str(), "journeyman-bot"));
}

async fn opens_one(product: Product) {
    let fixture = Fixture::new(product).await;
    let head = fixture.branch("work/one").await;
    let Ensured::Opened { pull, incomplete } = fixture.ensure("work/one", &head).await.unwrap() else {
        panic!("not opened")
    };
    assert_eq!(incomplete, [""; 0]);
    assert_eq!((pull.state, pull.head.as_str(), pull.base.as_str()), (PullState::Open, "work/one", "main"));
    assert_eq!((pull.title.as_str(), pull.draft), ("Change work/one", false));
    assert!(pull.url.starts_with(&fixture.server.url) && pull.url.contains(&pull.number.to_string()), "{}", pull.url);
    assert!(pull.body.contains("<!-- journeyman:begin -->"), "{}", pull.body);
    let found = fixture.ensure("work/one", &head).await.unwrap();
    assert!(matches!(&found, Ensured::Found(found) if found.number == pull.number), "{found:?}");
    // Another branch whose name begins with the same letters has its own.
    let other = fixture.branch("work/one-2").await;
    assert!(matches!(fixture.ensure("work/one-2", &other).await.unwrap(), Ensured::Opened { .. }));
    assert_eq!(fixture.server.state().by_path(PATH).unwrap().pulls.len(), 2);
}

async fn opens_none(product: Product) {
    let fixture = Fixture::new(product).await;
    let main = fixture.server.head(PATH, "main").await.unwrap();
    let forge = fixture.forge().await;
    let missing = forge.create_pull(&new_pull("missing")).await;
    assert!(matches!(missing, Err(ForgeError::Refused(_) | ForgeError::NotFound(_))), "{missing:?}");
    // The branch has the same commit as its base.
    fixture.branch("same").await;
    fixture.server.move_branch(PATH, "same", &main).await;
    let ensured = fixture.ensure("same", &main.parse().unwrap()).await.unwrap();
    assert_eq!(ensured, Ensured::NoChanges);
    assert_eq!(fixture.server.state().by_path(PATH).unwrap().pulls.len(), 0);
}

async fn opens_one_at_once(product: Product) {
    let fixture = Fixture::new(product).await;
    let head = fixture.branch("many").await;
    let attempts = (0..200).map(|_| async {
        loop {
            match fixture.ensure("many", &head).await.unwrap() {
                Ensured::Locked => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
                Ensured::Found(pull) | Ensured::Opened { pull, .. } => return pull.number,
                Ensured::NoChanges => panic!("there are changes"),
            }
        }
    });
    let numbers = futures::future::join_all(attempts).await;
    assert!(numbers.iter().all(|number| *number == numbers[0]), "{numbers:?}");
    assert_eq!(fixture.server.state().by_path(PATH).unwrap().pulls.len(), 1);
}

async fn changes(product: Product) {
    let fixture = Fixture::new(product).await;
    fixture.server.state().add_user("ada", "write");
    fixture.server.state().by_path(PATH).unwrap().labels.push("bot".to_owned());
    fixture.branch("work").await;
    let forge = fixture.forge().await;
    let mut new = new_pull("work");
    new.draft = true;
    let CreatedPull::Created(pull) = forge.create_pull(&new).await.unwrap() else { panic!("not created") };
    assert_eq!((pull.draft, pull.title.as_str()), (true, "Change work"));
    let change = PullChange {
        title: Some("Better".to_owned()),
        body: Some("More.".to_owned()),
        draft: Some(false),
        labels: Vec::new(),
        reviewers: vec!["ada".to_owned()],
        assignees: Vec::new(),
    };
    forge.update_pull(pull.number, &change).await.unwrap();
    let now = forge.pull(pull.number).await.unwrap().unwrap();
    assert_eq!((now.title.as_str(), now.body.as_str(), now.draft), ("Better", "More.", false));
    let stored = || fixture.server.state().by_path(PATH).unwrap().pulls[0].clone();
    assert_eq!(stored().reviewers, ["ada"]);
    // Labels are added to those that people have set. Bitbucket has no labels and assignees.
    let decorated =
        PullChange { labels: vec!["bot".to_owned()], assignees: vec!["ada".to_owned()], ..PullChange::default() };
    fixture.server.state().by_path(PATH).unwrap().pulls[0].labels.push("theirs".to_owned());
    let set = forge.update_pull(pull.number, &decorated).await;
    match product {
        Product::Bitbucket | Product::BitbucketDataCenter => {
            let text = set.unwrap_err().to_string();
            assert!(text.contains("no labels") && text.contains("no assignees"), "{text}");
        }
        _ => {
            set.unwrap();
            assert_eq!(
                (stored().labels, stored().assignees),
                (vec!["theirs".into(), "bot".into()], vec!["ada".into()])
            );
        }
    }
    // The texts stay when only others are changed.
    let now = forge.pull(pull.number).await.unwrap().unwrap();
    assert_eq!((now.title.as_str(), now.body.as_str(), now.draft), ("Better", "More.", false));
}

async fn reads_states(product: Product) {
    let fixture = Fixture::new(product).await;
    let forge = fixture.forge().await;
    for (branch, end) in [("a", code_host::PullState::Merged), ("b", code_host::PullState::Closed)] {
        let head = fixture.branch(branch).await;
        let Ensured::Opened { pull, .. } = fixture.ensure(branch, &head).await.unwrap() else { panic!("not opened") };
        fixture.server.state().end(PATH, pull.number, end);
        let expected = match end {
            code_host::PullState::Merged => PullState::Merged,
            _ => PullState::Closed,
        };
        assert_eq!(forge.pull(pull.number).await.unwrap().unwrap().state, expected);
        assert_eq!(forge.find_pulls(branch).await.unwrap()[0].state, expected);
        // A pull request that ended with this commit is not opened again; with a new commit, it is.
        let again = fixture.ensure(branch, &head).await.unwrap();
        assert!(matches!(&again, Ensured::Found(found) if found.state == expected), "{again:?}");
        let later: Sha = fixture.server.commit(PATH, branch, "later.txt", "later").await.parse().unwrap();
        assert_eq!(forge.pull(pull.number).await.unwrap().unwrap().head_sha, Some(head));
        let opened = fixture.ensure(branch, &later).await.unwrap();
        assert!(matches!(&opened, Ensured::Opened { pull: new, .. } if new.number != pull.number), "{opened:?}");
    }
    assert_eq!(forge.pull(4711).await.unwrap(), None);
}

async fn comments_once(product: Product) {
    let fixture = Fixture::new(product).await;
    let head = fixture.branch("work").await;
    let Ensured::Opened { pull, .. } = fixture.ensure("work", &head).await.unwrap() else { panic!("not opened") };
    let forge = fixture.forge().await;
    let discussion = discussion(&*forge);
    let target = CommentTarget::Pull(pull.number);
    // A stranger cannot prevent the answer by writing its marker.
    let stranger = fixture.server.state().add_user("mallory", "");
    fixture.server.state().add_comment(PATH, CommentedOn::Pull(pull.number), stranger, "<!-- journeyman:1 -->");
    let url = discussion.comment(target, "<!-- journeyman:1 -->", "Done.").await.unwrap();
    assert_eq!(discussion.comment(target, "<!-- journeyman:1 -->", "Done.").await.unwrap(), url);
    assert!(url.starts_with(&fixture.server.url), "{url}");
    let ours = |state: &mut State| {
        let comments = state.by_path(PATH).unwrap().comments.clone();
        comments.into_iter().filter(|comment| comment.author == State::BOT).collect::<Vec<_>>()
    };
    let written = ours(&mut fixture.server.state());
    assert_eq!(written.len(), 1);
    assert!(written[0].body.starts_with("Done.") && written[0].body.contains("<!-- journeyman:1 -->"));
    let comment = CommentRef { kind: CommentKind::Pull, number: pull.number, id: written[0].id.to_string() };
    for reaction in [Reaction::Seen, Reaction::Seen, Reaction::Done] {
        discussion.react(&comment, reaction).await.unwrap();
    }
    let expected = if product == Product::Bitbucket { 0 } else { 2 };
    assert_eq!(ours(&mut fixture.server.state())[0].reactions.len(), expected);
    // The comments of a review.
    let author = fixture.server.state().add_user("ada", "write");
    let line = |id: u64, line: u64| {
        let (path, body) = ("README.md".to_owned(), format!("comment {id}"));
        ReviewComment { id, body, path, line, reactions: Vec::new() }
    };
    let review =
        Review { id: 9, pull: pull.number, author, body: "Please.".into(), comments: vec![line(31, 1), line(32, 2)] };
    fixture.server.state().by_path(PATH).unwrap().reviews.push(review);
    // GitLab and Bitbucket have no reviews with several comments.
    if matches!(product, Product::Github | Product::Gitea | Product::Forgejo) {
        let lines = discussion.review(pull.number, "9").await.unwrap();
        let lines: Vec<_> = lines.iter().map(|line| (line.id.as_str(), line.position.to_string())).collect();
        assert_eq!(lines, [("31", "`README.md`, line 1".to_owned()), ("32", "`README.md`, line 2".to_owned())]);
        assert_eq!(discussion.review(pull.number, "10").await.unwrap(), []);
        let reviews = discussion.reviews(pull.number).await.unwrap();
        let reviews: Vec<_> = reviews.iter().map(|review| (review.id.as_str(), review.body.as_str())).collect();
        assert_eq!(reviews, [("9", "Please.")]);
    }
}

async fn reads_threads(product: Product) {
    let fixture = Fixture::new(product).await;
    let head = fixture.branch("work").await;
    let Ensured::Opened { pull, .. } = fixture.ensure("work", &head).await.unwrap() else { panic!("not opened") };
    let [ada, bob] = ["ada", "bob"].map(|name| fixture.server.state().add_user(name, "write"));
    let line = |id: u64, line: u64| {
        let (path, body) = ("README.md".to_owned(), format!("comment {id}"));
        ReviewComment { id, body, path, line, reactions: Vec::new() }
    };
    let comments = vec![line(31, 1), line(32, 2), line(33, 3)];
    let review = Review { id: 9, pull: pull.number, author: ada, body: String::new(), comments };
    let reply = |id: u64, to: u64, author: u64| CommentReply { id, to, author, body: format!("reply {id}") };
    // Only Data Center and Bitbucket Cloud have replies to replies.
    let replies = [reply(41, 31, bob), reply(42, 32, bob), reply(43, 41, ada), reply(44, 32, ada)];
    {
        let mut state = fixture.server.state();
        let found = state.by_path(PATH).unwrap();
        found.reviews.push(review);
        found.replies.extend(replies);
        found.resolved.insert(32);
    }
    let forge = fixture.forge().await;
    let discussion = discussion(&*forge);
    let ask = |id: u64, to: u64| InThread {
        kind: CommentKind::Line,
        id: id.to_string(),
        thread: if product == Product::Gitlab { Thread::default() } else { Thread::answering(to.to_string()) },
        review: Some("9".to_owned()),
    };
    let target = CommentTarget::Pull(pull.number);
    let mut threads = discussion.threads(target, &[ask(43, 41), ask(44, 32), ask(4711, 31)]).await.unwrap();
    threads.sort_by(|one, other| one.id.cmp(&other.id));
    let found: Vec<_> = threads
        .iter()
        .map(|thread| {
            let comments = thread.comments.iter();
            let comments: Vec<_> =
                comments.map(|comment| format!("{}: {}", comment.author.name, comment.body)).collect();
            assert!(thread.comments.iter().all(|comment| comment.url.starts_with("http")), "{product:?} {thread:?}");
            (comments.join(", "), thread.is_resolved)
        })
        .collect();
    assert_eq!(
        found,
        [
            ("ada: comment 31, bob: reply 41, ada: reply 43".to_owned(), Some(false)),
            ("ada: comment 32, bob: reply 42, ada: reply 44".to_owned(), Some(true)),
        ],
        "{product:?}"
    );
    let first = if product == Product::Gitlab { format!("d{:039x}", 31) } else { "31".to_owned() };
    assert_eq!(threads[0].id, first, "{product:?}");
    assert_eq!(discussion.threads(target, &[ask(4711, 31)]).await.unwrap(), [], "{product:?}");
    // GitLab's webhooks name the discussion, of which there may be none by now.
    if product == Product::Gitlab {
        let known = |id: String| Thread { id: Some(id), ..Thread::default() };
        let of =
            [InThread { thread: known(first), ..ask(41, 0) }, InThread { thread: known("d0".into()), ..ask(1, 0) }];
        assert_eq!(discussion.threads(target, &of).await.unwrap(), threads[..1]);
    }
}

#[tokio::test]
async fn the_reviews_of_a_webhook_without_an_id_are_found() {
    for product in [Product::Gitea, Product::Forgejo] {
        let fixture = Fixture::new(product).await;
        let head = fixture.branch("work").await;
        let Ensured::Opened { pull, .. } = fixture.ensure("work", &head).await.unwrap() else { panic!("not opened") };
        let forge = fixture.forge().await;
        let discussion = discussion(&*forge);
        let [ada, bob] = ["ada", "bob"].map(|name| fixture.server.state().add_user(name, "write"));
        let add = |id: u64, author: u64| {
            let review = Review { id, pull: pull.number, author, body: String::new(), comments: Vec::new() };
            fixture.server.state().by_path(PATH).unwrap().reviews.push(review);
        };
        add(1, ada);
        // Each request that finds a change moves the clock by a second.
        for _ in 0..20 {
            discussion.reviews(pull.number).await.unwrap();
            fixture.server.state().by_path(PATH).unwrap().pulls[0].version += 1;
        }
        for (id, author) in [(2, bob), (3, ada), (4, ada)] {
            add(id, author);
        }
        let newest = discussion.reviews(pull.number).await.unwrap().pop().unwrap();
        for (version, expected) in
            [(format!("{}/hash", newest.version), vec!["3", "4"]), ("/hash".to_owned(), vec!["4"])]
        {
            let hook = HostReview { id: String::new(), version, ..newest.clone() };
            let found = discussion.find_reviews(pull.number, &hook).await.unwrap();
            let ids: Vec<_> = found.iter().map(|review| review.id.as_str()).collect();
            assert_eq!(ids, expected, "{product:?} {}", hook.version);
        }
    }
}

#[tokio::test]
async fn the_line_of_a_reply_is_found() {
    for product in [Product::Gitea, Product::Forgejo] {
        let fixture = Fixture::new(product).await;
        let head = fixture.branch("work").await;
        let Ensured::Opened { pull, .. } = fixture.ensure("work", &head).await.unwrap() else { panic!("not opened") };
        let ada = fixture.server.state().add_user("ada", "write");
        let plain = fixture.server.state().add_comment(PATH, CommentedOn::Pull(pull.number), ada, "a");
        for (id, line) in [(9, 31), (10, 32)] {
            let comment =
                ReviewComment { id: line, body: "b".into(), path: "README.md".into(), line, reactions: Vec::new() };
            let body = String::new();
            let review = Review { id, pull: pull.number, author: ada, body, comments: vec![comment] };
            fixture.server.state().by_path(PATH).unwrap().reviews.push(review);
        }
        let forge = fixture.forge().await;
        for (id, expected) in
            [(31, Some("`README.md`, line 31")), (32, Some("`README.md`, line 32")), (plain, None), (4711, None)]
        {
            let comment = HostComment {
                kind: CommentKind::Pull,
                id: id.to_string(),
                version: "1".to_owned(),
                url: String::new(),
                author: HostUser { id: ada.to_string(), name: "ada".to_owned(), is_bot: false },
                body: "@journeyman rename it".to_owned(),
                position: None,
                hunk: None,
                thread: None,
                review: None,
            };
            let found = discussion(&*forge).complete_comment(pull.number, comment).await.unwrap();
            let position = found.position.map(|position| position.to_string());
            assert_eq!(position.as_deref(), expected, "{product:?} {id}");
            let is_line = expected.is_some();
            let kind = if is_line { CommentKind::Line } else { CommentKind::Pull };
            assert_eq!((found.kind, found.review.is_some()), (kind, is_line), "{product:?} {id}");
        }
    }
}

#[tokio::test]
async fn an_issue_is_read() {
    for product in [Product::Github, Product::Gitlab, Product::Gitea, Product::Forgejo] {
        let fixture = Fixture::new(product).await;
        let ada = fixture.server.state().add_user("ada", "write");
        let number = fixture.server.state().by_path(PATH).unwrap().next_number();
        let issue = Issue {
            number,
            title: "Crash".to_owned(),
            body: "It crashes.".to_owned(),
            author: ada,
            labels: vec!["bug".to_owned()],
            editors: Vec::new(),
        };
        fixture.server.state().by_path(PATH).unwrap().issues.push(issue);
        let forge = fixture.forge().await;
        let found = discussion(&*forge).issue(number).await.unwrap().unwrap_or_else(|| panic!("{product:?}: no issue"));
        assert_eq!((found.number, found.title.as_str()), (number, "Crash"), "{product:?}");
        assert_eq!((found.body.as_str(), found.author.name.as_str()), ("It crashes.", "ada"), "{product:?}");
        assert_eq!(found.labels, ["bug"], "{product:?}");
        assert!(found.url.ends_with(&format!("/issues/{number}")), "{product:?} {}", found.url);
        assert_eq!(discussion(&*forge).issue(number + 1).await.unwrap(), None, "{product:?}");
    }
}

#[tokio::test]
async fn the_person_who_labeled_an_issue_is_found() {
    for product in [Product::Gitea, Product::Forgejo] {
        let fixture = Fixture::new(product).await;
        let ada = fixture.server.state().add_user("ada", "write");
        let number = fixture.server.state().by_path(PATH).unwrap().next_number();
        let labels = ["bug", "Journeyman"].map(str::to_owned).to_vec();
        fixture.server.state().by_path(PATH).unwrap().issues.push(Issue { number, labels, ..Issue::default() });
        fixture.server.state().labeler = ada;
        let forge = fixture.forge().await;
        for (label, expected) in [(Some("journeyman"), Some(ada.to_string())), (Some("go"), None), (None, None)] {
            let requester = discussion(&*forge).issue_requester(number, label).await.unwrap();
            assert_eq!(requester.map(|user| user.id), expected, "{product:?} {label:?}");
        }
    }
}

#[tokio::test]
async fn the_people_who_may_have_edited_an_issue_are_found() {
    for (product, has_issue_team, is_edited, expected) in [
        (Product::Gitlab, false, false, Some(vec![])),
        (Product::Gitlab, false, true, Some(vec!["planner"])),
        (Product::Gitea, false, true, Some(vec![])),
        (Product::Forgejo, false, true, Some(vec![])),
        (Product::Forgejo, true, true, None),
        (Product::Github, false, true, Some(vec![])),
    ] {
        let fixture = Fixture::new(product).await;
        let planner = fixture.server.state().add_user("planner", "read");
        fixture.server.state().has_issue_team = has_issue_team;
        let number = fixture.server.state().by_path(PATH).unwrap().next_number();
        let editors = is_edited.then_some(planner).into_iter().collect();
        fixture.server.state().by_path(PATH).unwrap().issues.push(Issue { number, editors, ..Issue::default() });
        let forge = fixture.forge().await;
        // A comment is no edit, whatever it says.
        let text = "changed the description";
        discussion(&*forge).comment(CommentTarget::Issue(number), "<!-- journeyman:job:1 -->", text).await.unwrap();
        let found = discussion(&*forge).issue_editors(number).await.unwrap();
        let names: Option<Vec<&str>> =
            found.as_ref().map(|found| found.iter().map(|user| user.name.as_str()).collect());
        assert_eq!(names, expected, "{product:?} {is_edited}");
        assert_eq!(discussion(&*forge).lets_others_edit().await.unwrap(), has_issue_team, "{product:?}");
    }
}

async fn permissions(product: Product) {
    let fixture = Fixture::new(product).await;
    let forge = fixture.forge().await;
    for (name, permission, expected) in [
        ("root", "admin", Permission::Admin),
        ("ada", "write", Permission::Write),
        ("bob", "read", Permission::Read),
        ("mallory", "", Permission::None),
    ] {
        let id = fixture.server.state().add_user(name, permission).to_string();
        let user = HostUser { id, name: name.to_owned(), is_bot: false };
        let found = discussion(&*forge).permission(&user).await.unwrap();
        assert_eq!(found >= Permission::Write, expected >= Permission::Write, "{name}: {found:?}");
        // Someone else has taken the name of a user who had the permission.
        let other = HostUser { id: "123456".to_owned(), name: name.to_owned(), is_bot: false };
        assert_eq!(discussion(&*forge).permission(&other).await.unwrap(), Permission::None, "{name}");
    }
    let unknown = HostUser { id: "99".to_owned(), name: "unknown".to_owned(), is_bot: false };
    assert_eq!(discussion(&*forge).permission(&unknown).await.unwrap(), Permission::None);
}

async fn sets_status(product: Product) {
    let fixture = Fixture::new(product).await;
    let sha: Sha = fixture.branch("work").await;
    let forge = fixture.forge().await;
    let checks = forge.checks().unwrap();
    // GitLab says in words that there is no pipeline.
    let counted = async || {
        let mut found = checks.of_commit(&sha).await.unwrap();
        found.retain(|check| check.state != CheckState::Ignored);
        found.sort_by(|one, other| one.name.cmp(&other.name));
        found
    };
    assert_eq!(counted().await, []);
    if product == Product::Gitlab {
        let pipeline = Pipeline {
            id: 7,
            sha: sha.to_string(),
            reference: "work".to_owned(),
            source: "push".to_owned(),
            status: "success".to_owned(),
            ..Pipeline::default()
        };
        let bridge = Bridge { id: 8, name: "deploy".to_owned(), status: "manual".to_owned(), ..Bridge::default() };
        let bridges = vec![Bridge { allow_failure: true, ..bridge }];
        fixture.server.state().by_path(PATH).unwrap().pipelines = vec![Pipeline { bridges, ..pipeline }];
    }
    for state in [StatusState::Pending, StatusState::Pending, StatusState::Success] {
        let status = CommitStatus {
            state,
            description: "Working".to_owned(),
            url: "https://j.example/1".to_owned(),
            branch: "work".to_owned(),
        };
        checks.set_status(&sha, &status).await.unwrap();
    }
    let stored = fixture.server.state().by_path(PATH).unwrap().statuses.clone();
    assert!(stored.iter().all(|status| status.sha == sha.as_str() && status.context == "journeyman"), "{stored:?}");
    assert_eq!(stored.last().unwrap().url, "https://j.example/1");
    let names: Vec<String> = counted().await.into_iter().map(|check| check.name).collect();
    assert!(names.iter().all(|name| name == "deploy"), "the status of the service is no check: {names:?}");
    fixture.server.state().by_path(PATH).unwrap().pipelines.clear();
    let check = |id: u64, name: &str, passed: Option<bool>| Check {
        id,
        sha: sha.to_string(),
        name: name.to_owned(),
        passed,
        log: format!("log of {name}\n").repeat(1000),
    };
    fixture.server.state().by_path(PATH).unwrap().checks =
        vec![check(1, "lint", Some(true)), check(2, "test", Some(false)), check(3, "build", None)];
    let found = counted().await;
    let states: Vec<_> = found.iter().map(|check| (check.name.as_str(), check.state)).collect();
    let expected = [("build", CheckState::Pending), ("lint", CheckState::Passed), ("test", CheckState::Failed)];
    assert_eq!(states, expected);
    // Data Center has no logs of builds.
    if let Some(log) = &found[2].log {
        let end = checks.log(log, 1000).await.unwrap().unwrap();
        assert_eq!(end.len(), 1000);
        assert!(String::from_utf8(end).unwrap().ends_with("log of test\n"));
    } else {
        assert_eq!(product, Product::BitbucketDataCenter);
    }
}

async fn follows_renames(product: Product) {
    let mut fixture = Fixture::new(product).await;
    let id = fixture.seen().await;
    fixture.server.state().rename(PATH, "acme/store");
    let fixture = fixture.reconnected();
    let forge = fixture.forge().await;
    let repository = forge.repository().await.unwrap();
    assert_eq!((repository.id, repository.path.as_str()), (id, "acme/store"));
    assert_eq!(forge.remote().await.unwrap().url, fixture.server.clone_url("acme/store"));
    let commit = fixture.server.commit("acme/store", "work", "a.txt", "a").await;
    let ensured = fixture.ensure("work", &commit.parse().unwrap()).await.unwrap();
    assert!(matches!(ensured, Ensured::Opened { .. }), "{ensured:?}");
}

async fn survives_replacements(product: Product) {
    let mut fixture = Fixture::new(product).await;
    let id = fixture.seen().await;
    fixture.server.state().rename(PATH, "acme/store");
    fixture.server.repository(PATH).await;
    fixture = fixture.reconnected();
    let forge = fixture.forge().await;
    match product {
        // It finds repositories only by their path.
        Product::BitbucketDataCenter => {
            let error = forge.remote().await.unwrap_err();
            assert!(
                matches!(&error, ForgeError::NotFound(text) if text.contains("another one has its address")),
                "{error}"
            );
        }
        _ => {
            assert_eq!(forge.repository().await.unwrap().id, id);
            assert_eq!(forge.remote().await.unwrap().url, fixture.server.clone_url("acme/store"));
        }
    }
    // The repository that the project was made for is gone.
    fixture.server.state().repositories.retain(|repository| repository.path == PATH);
    let error = fixture.reconnected().forge().await.remote().await.unwrap_err();
    assert!(matches!(&error, ForgeError::NotFound(text) if text.contains("another one has its address")), "{error}");
}

#[tokio::test]
async fn another_repository_with_the_address_gets_nothing_although_an_answer_is_kept() {
    for product in [Product::Github, Product::Gitlab, Product::Gitea, Product::Forgejo, Product::Bitbucket] {
        let mut fixture = Fixture::new(product).await;
        fixture.seen().await;
        let mallory = fixture.server.state().add_user("mallory", "");
        let user = HostUser { id: mallory.to_string(), name: "mallory".to_owned(), is_bot: false };
        let forge = fixture.forge().await;
        let head = fixture.branch("work").await;
        let Ensured::Opened { pull, .. } = fixture.ensure("work", &head).await.unwrap() else { panic!("not opened") };
        let number = pull.number;
        forge.remote().await.unwrap();
        fixture.server.state().rename(PATH, "acme/store");
        fixture.server.repository(PATH).await;
        fixture.branch("other").await;
        // A push and a pull request use no kept answer.
        assert_eq!(forge.remote().await.unwrap().url, fixture.server.clone_url("acme/store"), "{product:?}");
        fixture.server.state().rename(PATH, "acme/third");
        fixture.server.repository(PATH).await;
        fixture.branch("other").await;
        forge.create_pull(&new_pull("other")).await.unwrap_err();
        // The time for which an answer confirms the repository has passed, but not that for which it is kept.
        tokio::time::pause();
        tokio::time::advance(std::time::Duration::from_secs(2)).await;
        tokio::time::resume();
        let discussion = discussion(&*forge);
        assert_eq!(discussion.permission(&user).await.unwrap(), Permission::None, "{product:?}");
        discussion.comment(CommentTarget::Pull(number), "<!-- journeyman:answer:1 -->", "Done.").await.unwrap();
        let mut state = fixture.server.state();
        let mut comments = |path: &str| state.by_path(path).unwrap().comments.len();
        assert_eq!((comments("acme/store"), comments(PATH)), (1, 0), "{product:?}");
    }
}

#[tokio::test]
async fn a_team_that_may_write_issues_may_not_push() {
    let fixture = Fixture::new(Product::Forgejo).await;
    let id = fixture.server.state().add_user("ada", "write").to_string();
    let ada = HostUser { id, name: "ada".to_owned(), is_bot: false };
    fixture.server.state().by_path(PATH).unwrap().permissions.insert(State::BOT, "admin");
    assert_eq!(discussion(&*fixture.forge().await).permission(&ada).await.unwrap(), Permission::Write);
    fixture.server.state().has_issue_team = true;
    let fixture = fixture.reconnected();
    // The token may not read who is in a team.
    let error = discussion(&*fixture.forge().await).permission(&ada).await.unwrap_err();
    assert!(matches!(&error, ForgeError::Denied(text) if text.contains("read:organization")), "{error}");
}

#[tokio::test]
async fn the_jobs_of_a_merged_results_pipeline_are_checks_of_the_commit() {
    let fixture = Fixture::new(Product::Gitlab).await;
    let head = fixture.branch("work").await;
    let forge = fixture.forge().await;
    let CreatedPull::Created(pull) = forge.create_pull(&new_pull("work")).await.unwrap() else { panic!("no pull") };
    let (old, new) = ("a".repeat(40), "b".repeat(40));
    let check = |id: u64, sha: &str, name: &str, passed: bool| Check {
        id,
        sha: sha.to_owned(),
        name: name.to_owned(),
        passed: Some(passed),
        log: String::new(),
    };
    let result =
        |head: &str, merge: &str| MergedResult { pull: pull.number, head: head.to_owned(), merge: merge.to_owned() };
    let states = async || {
        let mut found = forge.checks().unwrap().of_commit(&head).await.unwrap();
        found.sort_by(|one, other| one.name.cmp(&other.name));
        found.into_iter().map(|check| (check.name, check.state)).collect::<Vec<_>>()
    };
    {
        let mut state = fixture.server.state();
        let repository = state.by_path(PATH).unwrap();
        repository.checks = vec![check(1, &old, "test", false), check(2, head.as_str(), "external", true)];
        repository.merged_results = vec![result(&"c".repeat(40), &old)];
    }
    // The pipeline of an earlier commit does not count.
    assert_eq!(states().await, [("external".to_owned(), CheckState::Passed)]);
    {
        let mut state = fixture.server.state();
        let repository = state.by_path(PATH).unwrap();
        repository.checks.push(check(3, &new, "test", true));
        repository.merged_results.push(result(head.as_str(), &new));
    }
    let expected = [("external", CheckState::Passed), ("test", CheckState::Passed)];
    assert_eq!(states().await, expected.map(|(name, state)| (name.to_owned(), state)));
}

#[tokio::test]
async fn without_the_teams_it_is_not_known_who_may_push() {
    for product in [Product::Gitea, Product::Forgejo] {
        let fixture = Fixture::new(product).await;
        let id = fixture.server.state().add_user("ada", "write").to_string();
        let ada = HostUser { id, name: "ada".to_owned(), is_bot: false };
        fixture.server.state().by_path(PATH).unwrap().permissions.insert(State::BOT, "admin");
        fixture.server.state().hides_teams = true;
        let error = discussion(&*fixture.forge().await).permission(&ada).await.unwrap_err();
        assert!(matches!(&error, ForgeError::Denied(text) if text.contains("the teams")), "{product:?}: {error}");
    }
}

async fn explains(product: Product) {
    let fixture = Fixture::new(product).await;
    fixture.branch("work").await;
    fixture.server.state().by_path(PATH).unwrap().is_archived = true;
    let error = fixture.forge().await.create_pull(&new_pull("work")).await.unwrap_err();
    // Bitbucket Cloud cannot archive repositories.
    if product != Product::Bitbucket {
        assert!(error.to_string().contains("archived"), "{error}");
    }
    fixture.server.state().by_path(PATH).unwrap().is_archived = false;
    fixture.server.state().tokens.get_mut(State::TOKEN).unwrap().can_write = false;
    let fixture = fixture.reconnected();
    let error = fixture.forge().await.create_pull(&new_pull("work")).await.unwrap_err();
    assert!(matches!(error, ForgeError::Denied(_)), "{error}");
    fixture.server.state().tokens.get_mut(State::TOKEN).unwrap().is_expired = true;
    let fixture = fixture.reconnected();
    let error = fixture.forge().await.repository().await.unwrap_err();
    assert!(matches!(error, ForgeError::Credential(_)), "{error}");
    assert!(!error.to_string().contains(State::TOKEN), "{error}");
}
