//! Tests of conversations and the files in them.

use journeyman_core::conversation::{CommentRef, CommentTarget, Conversation};
use journeyman_core::hook::CommentKind;
use journeyman_core::ports::{CommentFile, Discussion, ForgeError};
use journeyman_core::time::Timestamp;
use journeyman_testkit::code_host::{
    CodeHostServer, CommentedOn, Issue, Product, Pull, Review, ReviewComment, State, UploadedFile,
};

use super::fixtures::{Fixture, Outbound, PATH, PRODUCTS, discussion};

/// The number of the pull request.
const NUMBER: u64 = 1;

/// Opens a pull request of ada, on which bob and the service have commented.
async fn given(product: Product) -> (Fixture, [u64; 2]) {
    let fixture = Fixture::new(product).await;
    fixture.branch("work").await;
    let mut state = fixture.server.state();
    let [ada, bob] = ["ada", "bob"].map(|name| state.add_user(name, "write"));
    let pull = Pull {
        number: NUMBER,
        title: "Add a cart".to_owned(),
        body: "It *closes* #7.".to_owned(),
        head: "work".to_owned(),
        base: "main".to_owned(),
        author: ada,
        ..Pull::default()
    };
    state.by_path(PATH).unwrap().pulls.push(pull);
    state.add_comment(PATH, CommentedOn::Pull(NUMBER), bob, "Use a map.");
    state.add_comment(PATH, CommentedOn::Pull(NUMBER), State::BOT, "Done.");
    drop(state);
    (fixture, [ada, bob])
}

/// Returns the names of the authors and the texts of the comments.
fn texts(conversation: &Conversation) -> Vec<(String, String)> {
    let text =
        |said: &journeyman_core::conversation::Said| (said.comment.author.name.clone(), said.comment.body.clone());
    conversation.comments.iter().map(text).collect()
}

fn pairs(known: &[(&str, &str)]) -> Vec<(String, String)> {
    known.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

#[tokio::test]
async fn each_host_shows_the_description_and_the_comments() {
    for product in PRODUCTS {
        let (fixture, _) = given(product).await;
        let forge = fixture.forge().await;
        let read = discussion(&*forge).conversation(CommentTarget::Pull(NUMBER), None).await.unwrap();
        let subject = read.subject.as_ref().unwrap();
        assert_eq!((subject.title.as_str(), subject.body.as_str()), ("Add a cart", "It *closes* #7."), "{product:?}");
        assert_eq!(subject.author.name, "ada", "{product:?}");
        assert!(subject.url.starts_with("http"), "{product:?}: {}", subject.url);
        let expected = pairs(&[("bob", "Use a map."), ("journeyman-bot", "Done.")]);
        assert_eq!(texts(&read), expected, "{product:?}");
        assert!(!read.is_incomplete && read.comments.iter().all(|said| !said.comment.id.is_empty()), "{product:?}");
        let missing = discussion(&*forge).conversation(CommentTarget::Pull(99), None).await.unwrap_err();
        assert!(!missing.may_pass(), "{product:?}: {missing}");
    }
}

#[tokio::test]
async fn reviews_come_with_their_comments_on_lines() {
    for product in [Product::Github, Product::Gitea, Product::Forgejo] {
        let (fixture, [ada, bob]) = given(product).await;
        let line = |id: u64, line: u64| {
            let (body, path) = (format!("Line {line}."), "README.md".to_owned());
            ReviewComment { id, body, path, line, reactions: Vec::new() }
        };
        let reviews = [
            Review { id: 9, pull: NUMBER, author: bob, body: "Nearly.".into(), comments: vec![line(31, 1)] },
            Review { id: 10, pull: NUMBER, author: ada, body: String::new(), comments: vec![line(32, 2)] },
        ];
        fixture.server.state().by_path(PATH).unwrap().reviews.extend(reviews);
        let forge = fixture.forge().await;
        let read = discussion(&*forge).conversation(CommentTarget::Pull(NUMBER), None).await.unwrap();
        let of_kind = |kind: CommentKind| {
            let found = read.comments.iter().filter(move |said| said.comment.kind == kind);
            found.map(|said| (said.comment.id.as_str(), said.comment.body.as_str())).collect::<Vec<_>>()
        };
        assert_eq!(of_kind(CommentKind::Review), [("9", "Nearly.")], "{product:?}");
        assert_eq!(of_kind(CommentKind::Line), [("31", "Line 1."), ("32", "Line 2.")], "{product:?}");
        let position = read.comments.iter().find_map(|said| said.comment.position.as_ref()).unwrap();
        assert_eq!(position.to_string(), "`README.md`, line 1", "{product:?}");
    }
}

#[tokio::test]
async fn only_what_was_written_since_a_time_is_returned() {
    // The stand-ins of the others tell no times in these lists.
    for product in [Product::Github, Product::Gitlab, Product::Bitbucket, Product::BitbucketDataCenter] {
        let (fixture, [_, bob]) = given(product).await;
        let forge = fixture.forge().await;
        let (discussion, target) = (discussion(&*forge), CommentTarget::Pull(NUMBER));
        let first = Some(Timestamp::default());
        let before = discussion.conversation(target, first).await.unwrap();
        let at = before.comments.iter().filter_map(|said| said.at).max();
        // The stand-in's clock moves by a second with each change.
        fixture.server.state().add_comment(PATH, CommentedOn::Pull(NUMBER), bob, "And sort it.");
        let all = discussion.conversation(target, first).await.unwrap();
        assert_eq!(all.comments.len(), 3, "{product:?}");
        let since = at.map(|at| at + std::time::Duration::from_secs(1));
        let read = discussion.conversation(target, since).await.unwrap();
        assert_eq!(texts(&read), pairs(&[("bob", "And sort it.")]), "{product:?} {since:?}");
        let later = since.map(|since| since + std::time::Duration::from_secs(3600));
        assert_eq!(discussion.conversation(target, later).await.unwrap().comments, [], "{product:?}");
    }
}

#[tokio::test]
async fn of_a_long_conversation_the_newest_comments_are_read() {
    let (fixture, [_, bob]) = given(Product::Github).await;
    for number in 1..=648 {
        fixture.server.state().add_comment(PATH, CommentedOn::Pull(NUMBER), bob, &format!("Comment {number}"));
    }
    let forge = fixture.forge().await;
    let read = discussion(&*forge).conversation(CommentTarget::Pull(NUMBER), None).await.unwrap();
    assert!(read.is_incomplete);
    // 650 comments are seven pages. The last one has 50.
    assert_eq!(read.comments.len(), 450);
    assert_eq!(read.comments.last().unwrap().comment.body, "Comment 648");
    assert_eq!(read.comments[0].comment.body, "Comment 199");
}

#[tokio::test]
async fn issues_have_their_comments() {
    for product in [Product::Github, Product::Gitlab, Product::Gitea, Product::Forgejo] {
        let (fixture, [ada, bob]) = given(product).await;
        {
            let mut state = fixture.server.state();
            let issue = Issue { number: 7, title: "Slow".to_owned(), author: ada, ..Issue::default() };
            state.by_path(PATH).unwrap().issues.push(issue);
            state.add_comment(PATH, CommentedOn::Issue(7), bob, "On Mondays.");
        }
        let forge = fixture.forge().await;
        let read = discussion(&*forge).conversation(CommentTarget::Issue(7), None).await.unwrap();
        assert_eq!((texts(&read), &read.subject), (pairs(&[("bob", "On Mondays.")]), &None), "{product:?}");
        assert_eq!(read.comments[0].comment.kind, CommentKind::Issue, "{product:?}");
    }
}

/// Returns the address of an upload in a comment, and the path at which the host sends it to the service.
fn upload(fixture: &Fixture) -> (String, String) {
    let (url, secret) = (&fixture.server.url, "0123456789abcdef0123456789abcdef");
    let id = fixture.server.state().by_path(PATH).unwrap().id;
    match fixture.server.product {
        Product::Github => {
            (format!("{url}/user-attachments/files/1/a.png"), "/user-attachments/files/1/a.png".to_owned())
        }
        Product::Gitlab => {
            let path = format!("/api/v4/projects/{id}/uploads/{secret}/a%20b.png");
            (format!("{url}/{PATH}/uploads/{secret}/a%20b.png"), path)
        }
        Product::Gitea | Product::Forgejo => (format!("{url}/attachments/6f1c"), "/attachments/6f1c".to_owned()),
        Product::Bitbucket => (format!("{url}/repo/6X/images/1-a.png"), "/repo/6X/images/1-a.png".to_owned()),
        Product::BitbucketDataCenter => {
            let path = "/rest/api/latest/projects/acme/repos/shop/attachments/ab/a.png".to_owned();
            ("attachment:5/ab%2Fa.png".to_owned(), path)
        }
    }
}

/// Reads a file of a comment.
async fn read(discussion: &dyn Discussion, url: &str, limit: usize) -> Result<CommentFile, ForgeError> {
    let of = CommentRef { kind: CommentKind::Pull, number: NUMBER, id: "7".to_owned() };
    discussion.file(&of, url, limit).await
}

#[tokio::test]
async fn uploads_are_read_with_the_credential_and_within_the_limit() {
    for product in PRODUCTS {
        let (fixture, _) = given(product).await;
        let (url, path) = upload(&fixture);
        let file = UploadedFile {
            content: b"0123456789".to_vec(),
            content_type: "application/octet-stream".to_owned(),
            is_private: true,
            ..UploadedFile::default()
        };
        fixture.server.state().files.insert(path.clone(), file.clone());
        let forge = fixture.forge().await;
        let discussion = discussion(&*forge);
        let content = read(discussion, &url, 10).await;
        assert_eq!(content, Ok(CommentFile::Content(file.content.clone().into())), "{product:?}");
        assert_eq!(read(discussion, &url, 9).await, Ok(CommentFile::TooLarge), "{product:?}");
        let page = UploadedFile { content_type: "text/html; charset=utf-8".to_owned(), ..file.clone() };
        fixture.server.state().files.insert(path.clone(), page);
        let error = read(discussion, &url, 10).await.unwrap_err().to_string();
        assert!(error.contains("a page was sent in place of the file"), "{product:?}: {error}");
        fixture.server.state().files.remove(&path);
        let error = read(discussion, &url, 10).await.unwrap_err();
        assert!(matches!(error, ForgeError::NotFound(_)), "{product:?}: {error}");
        // Whatever is stored, nothing but uploads is read with the credential.
        let base = &fixture.server.url;
        for other in ["/api/v3/user", "/acme/shop/settings", "/../user-attachments"] {
            let error = read(discussion, &format!("{base}{other}"), 10).await.unwrap_err();
            assert!(matches!(error, ForgeError::Refused(_)), "{product:?}: {error}");
        }
        let error = read(discussion, "http://169.254.169.254/user-attachments/files/1/a.png", 10).await.unwrap_err();
        assert!(matches!(error, ForgeError::Refused(_)), "{product:?}: {error}");
    }
}

#[tokio::test]
async fn a_redirect_takes_no_credential_to_another_server_and_leads_to_no_internal_one() {
    for product in PRODUCTS {
        let (fixture, _) = given(product).await;
        let (url, path) = upload(&fixture);
        let storage = CodeHostServer::start(product).await;
        let file = UploadedFile {
            content: b"content".to_vec(),
            content_type: "image/png".to_owned(),
            ..UploadedFile::default()
        };
        storage.state().files.insert("/blob".to_owned(), file.clone());
        let redirect = Some(format!("{}/blob", storage.url));
        fixture.server.state().files.insert(path, UploadedFile { redirect, is_private: true, ..file.clone() });
        let forge = fixture.forge().await;
        let content = read(discussion(&*forge), &url, 10).await;
        assert_eq!(content, Ok(CommentFile::Content(file.content.into())), "{product:?}");
        assert_eq!(storage.state().file_requests, [("/blob".to_owned(), false)], "{product:?}");
        // The code host itself is on this machine, which its administrator has entered.
        let fixture = fixture.reconnected_with(Outbound::default());
        let forge = fixture.forge().await;
        let error = read(discussion(&*forge), &url, 10).await.unwrap_err();
        assert!(error.to_string().contains("code-host-networks") && !error.may_pass(), "{product:?}: {error}");
        assert_eq!(storage.state().file_requests.len(), 1, "{product:?}");
    }
}
