//! Tests of bitbucket.rs.

use std::sync::Arc;

use journeyman_core::checks::CheckState;
use journeyman_core::code_host::{Access, CodeHost, HostKind, HostSecrets, PullState};
use journeyman_testkit::World;
use journeyman_testkit::code_host::{self, CodeHostServer, CommentedOn, Product, State};

use super::*;

const PATH: &str = "acme/shop";

/// A stand-in, and a client of it.
struct Setup {
    server: CodeHostServer,
    api: Arc<dyn Api>,
}

async fn setup(email: Option<&str>) -> Setup {
    let server = CodeHostServer::start(Product::Bitbucket).await;
    server.repository(PATH).await;
    let host = CodeHost::of_address("host".parse().unwrap(), HostKind::Bitbucket, server.url.clone());
    let access = Access::Token { username: email.map(str::to_owned) };
    let token = Some(SecretValue(State::TOKEN.to_owned()));
    let secrets = HostSecrets { token, ..HostSecrets::default() };
    let api =
        crate::find::connect(&host, &access, &secrets, &journeyman_net::Outbound::default(), World::new()).unwrap();
    Setup { server, api }
}

impl Setup {
    async fn repository(&self) -> HostRepository {
        self.api.repository(&RepositoryPath::parse(PATH).unwrap()).await.unwrap()
    }

    /// Opens a pull request, and returns it with its newest commit.
    async fn open(&self, branch: &str) -> (HostPull, String) {
        let commit = self.server.commit(PATH, branch, "a.txt", branch).await;
        match self.api.create_pull(&self.repository().await, &new_pull(branch), "main").await.unwrap() {
            CreatedPull::Created(pull) => (pull, commit),
            other => panic!("not created: {other:?}"),
        }
    }

    fn stored(&self) -> code_host::Pull {
        self.server.state().by_path(PATH).unwrap().pulls[0].clone()
    }
}

fn new_pull(branch: &str) -> NewPull {
    NewPull {
        title: format!("Change {branch}"),
        body: "<!-- journeyman:begin -->\nDone.\n<!-- journeyman:end -->\n\nTheirs.".to_owned(),
        head: branch.to_owned(),
        base: None,
        draft: false,
        labels: Vec::new(),
        reviewers: Vec::new(),
        assignees: Vec::new(),
        auto_merge: false,
    }
}

fn user(id: u64, name: &str) -> HostUser {
    HostUser { id: id.to_string(), name: name.to_owned(), is_bot: false }
}

#[test]
fn hidden_markers_are_read_back() {
    for text in [
        "<!-- journeyman:begin -->\nDone.\n<!-- journeyman:end -->",
        "a\r\n\r\n<!-- journeyman:begin -->\r\nb\r\n<!-- journeyman:end -->\r\nc\r\n",
        "\n<!-- journeyman:1 -->\n\n<!-- journeyman:2 -->\n",
        "text <!-- journeyman:1 --> text\n<!-- other -->",
        "",
    ] {
        assert_eq!(wire::shown(&wire::hidden(text)), text, "{text:?}");
    }
    let hidden = wire::hidden("Done.\n<!-- journeyman:1 -->");
    assert_eq!(hidden, "Done.\n\n[//]: # (<!-- journeyman:1 -->)");
    assert_eq!(wire::shown(&hidden.replace('\n', "\r\n")), "Done.\r\n<!-- journeyman:1 -->");
}

#[test]
fn the_steps_of_a_pipeline_replace_its_status() {
    let status = |url: &str| {
        let status = json!({"key": "1", "state": "FAILED", "url": url});
        serde_json::from_value::<wire::Status>(status).unwrap().pipeline()
    };
    assert_eq!(status("https://bitbucket.org/acme/shop/addon/pipelines/home#!/results/4"), Some(4));
    assert_eq!(status("https://bitbucket.org/acme/shop/pipelines/results/17/steps/x"), Some(17));
    assert_eq!(status("https://ci.example/results/4"), None);
    let pipeline = |stage: &str| {
        let state = json!({"name": "IN_PROGRESS", "stage": {"name": stage}});
        serde_json::from_value::<wire::Pipeline>(json!({"uuid": "{p}", "build_number": 4, "state": state})).unwrap()
    };
    let step = |name: &str, result: Option<&str>, stage: &str| {
        let state = json!({"name": name, "result": result.map(|result| json!({"name": result}))});
        let step = serde_json::from_value::<wire::Step>(json!({"uuid": "{s}", "name": "test", "state": state}));
        let check = step.unwrap().into_check(&pipeline(stage), None);
        (check.state, check.log)
    };
    let log = Some("p/s".to_owned());
    assert_eq!(step("COMPLETED", Some("ERROR"), "RUNNING"), (CheckState::Failed, log.clone()));
    assert_eq!(step("COMPLETED", Some("NOT_RUN"), "RUNNING"), (CheckState::Skipped, log.clone()));
    assert_eq!(step("IN_PROGRESS", None, "RUNNING"), (CheckState::Pending, log));
    assert_eq!(step("PENDING", None, "RUNNING"), (CheckState::Pending, None));
    assert_eq!(step("PENDING", None, "PAUSED"), (CheckState::Skipped, None));
}

#[tokio::test]
async fn an_api_token_acts_for_its_user() {
    let setup = setup(Some("bot@example.com")).await;
    let repository = setup.repository().await;
    assert_eq!(repository.can_push, Some(true));
    let credential = setup.api.git_credential(&RepositoryPath::parse(PATH).unwrap()).await.unwrap();
    assert_eq!(credential.username, "x-bitbucket-api-token-auth");
    let me = setup.api.me(&repository).await.unwrap();
    assert_eq!(me, user(State::BOT, "journeyman-bot"));
    let aliases = setup.api.aliases(&me).await.unwrap();
    for alias in ["journeyman-bot", "{557058:7001}", "{7001}"] {
        assert!(aliases.iter().any(|known| known == alias), "{alias}: {aliases:?}");
    }
    // Only administrators read permissions, but members can be told from strangers.
    let ada = setup.server.state().add_user("ada", "write");
    let denied = setup.api.permission(&repository, &user(ada, "ada")).await.unwrap_err();
    assert!(matches!(&denied, ForgeError::Denied(text) if text.contains("administrator")), "{denied}");
    assert_eq!(setup.api.permission(&repository, &user(99, "x")).await.unwrap(), Permission::None);
    setup.server.state().by_path(PATH).unwrap().permissions.insert(State::BOT, "read");
    assert_eq!(setup.repository().await.can_push, Some(false));
    setup.server.state().by_path(PATH).unwrap().permissions.insert(State::BOT, "admin");
    assert_eq!(setup.api.permission(&repository, &user(ada, "ada")).await.unwrap(), Permission::Write);
}

#[tokio::test]
async fn an_access_token_learns_its_user_from_its_pull_requests() {
    let setup = setup(None).await;
    let repository = setup.repository().await;
    let id = setup.server.state().by_path(PATH).unwrap().id;
    setup.server.state().tokens.get_mut(State::TOKEN).unwrap().repository = Some(id);
    setup.server.state().users[0].is_bot = true;
    let unknown = setup.api.me(&repository).await.unwrap_err();
    assert!(matches!(&unknown, ForgeError::Denied(text) if text.contains("API token")), "{unknown}");
    // A person cannot pretend to be the token.
    let (pull, _) = setup.open("work").await;
    let ada = setup.server.state().add_user("ada", "write");
    setup.server.state().by_path(PATH).unwrap().pulls[0].author = ada;
    assert!(matches!(setup.api.me(&repository).await, Err(ForgeError::Denied(_))));
    setup.server.state().by_path(PATH).unwrap().pulls[0].author = State::BOT;
    let me = setup.api.me(&repository).await.unwrap();
    assert_eq!(setup.api.aliases(&me).await.unwrap(), [format!("{{{}}}", State::BOT)]);
    assert_eq!((me.id, me.is_bot), (State::BOT.to_string(), true));
    // The members of the workspace are hidden from it, but not the users of the repository.
    let change = PullChange { reviewers: vec!["ada".to_owned()], ..PullChange::default() };
    setup.api.update_pull(&repository, pull.number, &change).await.unwrap();
    assert_eq!(setup.stored().reviewers, ["ada"]);
    setup.server.state().tokens.get_mut(State::TOKEN).unwrap().can_write = false;
    assert_eq!(setup.repository().await.can_push, Some(false));
    let denied = setup.api.update_pull(&repository, pull.number, &change).await;
    assert!(matches!(denied, Err(ForgeError::Denied(text)) if text.contains("UUID")));
}

#[tokio::test]
async fn an_open_pull_request_is_not_changed_by_a_second_one() {
    let setup = setup(None).await;
    let (pull, commit) = setup.open("work").await;
    assert_eq!(pull.body, new_pull("work").body);
    assert!(setup.stored().body.contains("\n\n[//]: # (<!-- journeyman:end -->)\n\nTheirs."));
    let repository = setup.repository().await;
    let mut second = new_pull("work");
    second.title = "Another".to_owned();
    let again = setup.api.create_pull(&repository, &second, "main").await.unwrap();
    assert_eq!((again, setup.stored().title), (CreatedPull::AlreadyExists, "Change work".to_owned()));
    // Bitbucket shortens hashes.
    let read = setup.api.pull(&repository, pull.number).await.unwrap().unwrap();
    assert_eq!(read.head_sha.unwrap().as_str(), commit);
    setup.server.state().end(PATH, pull.number, code_host::PullState::Closed);
    let found = setup.api.find_pulls(&repository, "work").await.unwrap();
    assert_eq!((found[0].state, found[0].head_sha.as_ref().unwrap().as_str()), (PullState::Closed, &*commit));
    let quoted = setup.api.find_pulls(&repository, "a\"b").await;
    assert!(matches!(quoted, Ok(found) if found.is_empty()));
}

#[tokio::test]
async fn reviewers_who_left_do_not_prevent_a_change() {
    let setup = setup(None).await;
    let (pull, _) = setup.open("work").await;
    let repository = setup.repository().await;
    let ada = setup.server.state().add_user("ada", "write");
    for name in ["bob", "twin", "twin"] {
        setup.server.state().add_user(name, "write");
    }
    let add = |names: &[&str]| PullChange {
        reviewers: names.iter().map(|name| (*name).to_owned()).collect(),
        ..PullChange::default()
    };
    setup.api.update_pull(&repository, pull.number, &add(&["ada"])).await.unwrap();
    // The author cannot review; the others are added.
    let names = ["bob", "twin", "unknown", "journeyman-bot"];
    let refused = setup.api.update_pull(&repository, pull.number, &add(&names)).await.unwrap_err().to_string();
    for part in ["several users", "no user unknown", "is the author"] {
        assert!(refused.contains(part), "{refused}");
    }
    assert_eq!(setup.stored().reviewers, ["ada", "bob"]);
    setup.server.state().by_path(PATH).unwrap().permissions.remove(&ada);
    let change = PullChange { title: Some("Better".to_owned()), ..PullChange::default() };
    setup.api.update_pull(&repository, pull.number, &change).await.unwrap();
    let stored = setup.stored();
    assert_eq!((stored.title.as_str(), stored.reviewers), ("Better", vec!["bob".to_owned()]));
    assert!(stored.body.contains("Theirs."), "{}", stored.body);
}

#[tokio::test]
async fn a_reviewer_whom_the_refusal_does_not_name_does_not_prevent_a_change() {
    let setup = setup(None).await;
    let (pull, _) = setup.open("work").await;
    let repository = setup.repository().await;
    let bob = setup.server.state().add_user("bob", "write");
    let unknown = "{00000000-0000-4000-8000-00000000ffff}".to_owned();
    let add = PullChange { reviewers: vec!["bob".to_owned(), unknown], ..PullChange::default() };
    let refused = setup.api.update_pull(&repository, pull.number, &add).await.unwrap_err().to_string();
    assert!(refused.contains("status 400") && !refused.contains("Malformed"), "{refused}");
    assert_eq!(setup.stored().reviewers, ["bob"]);
    // The account of a reviewer is closed, so its user is no member of the workspace.
    setup.server.state().closed.insert(bob);
    let change = PullChange { title: Some("Better".to_owned()), ..PullChange::default() };
    setup.api.update_pull(&repository, pull.number, &change).await.unwrap();
    assert_eq!((setup.stored().title.as_str(), setup.stored().reviewers.len()), ("Better", 0));
}

#[tokio::test]
async fn all_pages_of_a_list_are_read() {
    let setup = setup(None).await;
    let (pull, _) = setup.open("work").await;
    let repository = setup.repository().await;
    let target = CommentedOn::Pull(pull.number);
    for number in 0..230 {
        setup.server.state().add_comment(PATH, target, State::BOT, &format!("comment {number}"));
    }
    let found = setup.api.comments(&repository, CommentTarget::Pull(pull.number)).await.unwrap();
    assert_eq!((found.len(), found[229].body.as_str()), (230, "comment 229"));
    assert_eq!(found[0].author, State::BOT.to_string());
    let issue = setup.api.comments(&repository, CommentTarget::Issue(1)).await;
    assert!(matches!(issue, Err(ForgeError::Refused(_))));
}
