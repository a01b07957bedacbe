//! Tests of the built-in host with real git and the reference store.

mod import;
mod maintenance;
mod merges;
mod remove;
mod serve;

use journeyman_core::decision::pull::PullToChange;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use journeyman_core::audit::AuditEntry;
use journeyman_core::code_host::PullState;
use journeyman_core::conversation::{CommentRef, CommentTarget, Permission, Reaction};
use journeyman_core::decision::pull::{PullPage, review};
use journeyman_core::hook::{CommentKind, HostUser};
use journeyman_core::ids::{Sha, UserId};
use journeyman_core::open_pull::{Ensure, Ensured};
use journeyman_core::ports::{
    ComparisonStore as _, CreatedPull, Forge, ForgeError, Forges, PullMerge, PullPages, PullPagesError, PullStore as _,
};
use journeyman_core::position::DiffSide;
use journeyman_core::project::Project;
use journeyman_core::pull::base_comparison::Conflicts;
use journeyman_core::pull::{HostPull, LinePosition, MergeMethod, NewComment, NewMerge, NewPull, PullEnding};
use journeyman_core::run::ReasonCode;
use journeyman_core::time::Timestamp;
use journeyman_core::user::{Role, User};
use journeyman_git::{Git, Runner};
use journeyman_store::SqliteStore;
use journeyman_testkit::{FakeHostedObjects, Seeds as _, World, decide_on};
use uuid::Uuid;

use crate::{CodeHosts, Parts};

struct Setup {
    git: Git,
    store: Arc<SqliteStore>,
    hosts: CodeHosts,
    project: Project,
    dir: tempfile::TempDir,
    objects: Arc<FakeHostedObjects>,
    world: Arc<World>,
}

fn project(repository: &str) -> Project {
    Project::new("shop".parse().unwrap(), repository.to_owned(), Timestamp::default())
}

/// Creates a repository on the built-in host: `main` with one commit, and a clone of it.
async fn setup() -> Setup {
    let dir = tempfile::tempdir().unwrap();
    let path = "/usr/local/bin:/usr/bin:/bin".into();
    let git = Git::new(Runner { program: "git".into(), path, environment: vec![], askpass: None });
    let store = Arc::new(SqliteStore::temporary(World::new()).unwrap());
    let url = "http://localhost:8080".to_owned();
    let (objects, world) = (Arc::new(FakeHostedObjects::default()), World::new());
    let hosts = CodeHosts::new(Parts {
        git: git.clone(),
        repositories: dir.path().join("repos"),
        hooks: crate::write_hooks(dir.path()).unwrap(),
        public_url: url,
        pulls: store.clone(),
        comparisons: store.clone(),
        users: store.clone(),
        secrets: store.clone(),
        hosts: store.clone(),
        configured: Vec::new(),
        outbound: journeyman_net::Outbound::default(),
        objects: objects.clone(),
        clock: world.clone(),
    });
    let setup = Setup { git, store, hosts, project: project("local:shop"), dir, objects, world };
    setup.hosts.prepare(&setup.project).await.unwrap();
    setup.run(&["clone", "-q", "repos/shop.git", "clone"], setup.dir.path()).await;
    setup.commit("main", "README", "hello\n").await;
    setup
}

impl Setup {
    /// Returns a command of a client, which is not bound to a route.
    fn client<S: AsRef<std::ffi::OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> journeyman_git::GitCommand {
        self.git.command(arguments).env("GIT_ALLOW_PROTOCOL", "file:http")
    }

    async fn run(&self, arguments: &[&str], directory: &Path) {
        self.client(arguments).directory(directory).run().await.unwrap();
    }

    /// Commits a file on top of the clone's checked-out commit, and pushes the commit as `branch`.
    async fn commit(&self, branch: &str, file: &str, text: &str) {
        let clone = self.dir.path().join("clone");
        std::fs::write(clone.join(file), text).unwrap();
        self.run(&["add", "-A"], &clone).await;
        self.run(&["commit", "-q", "-m", &format!("Write {file}")], &clone).await;
        self.run(&["push", "-q", "origin", &format!("HEAD:refs/heads/{branch}")], &clone).await;
    }

    /// Opens a pull request, which must not exist.
    async fn open(&self, new: &NewPull) -> Result<HostPull, ForgeError> {
        let forge = self.hosts.of(&self.project).await?;
        match forge.create_pull(new).await? {
            CreatedPull::Created(pull) => Ok(pull),
            other => panic!("{other:?}"),
        }
    }

    async fn ensure(&self, forge: &dyn Forge, branch: &str) -> Result<Ensured, ForgeError> {
        let path = self.hosts.local().path("shop");
        let head = self.git.at(&path, ["rev-parse", &format!("refs/heads/{branch}")]).run().await;
        let head: Sha = head.map_or_else(|_| "a".repeat(40).parse().unwrap(), |head| head.sha().unwrap());
        let world = World::new();
        Ensure { forge, locks: &*self.store, clock: &*world, ids: &*world }.run(&pull(branch), &head).await
    }

    /// Returns the commit that a name stands for in the repository of the host.
    async fn revision(&self, name: &str) -> Sha {
        let path = self.hosts.local().path("shop");
        self.git.at(&path, ["rev-parse", name]).run().await.unwrap().sha().unwrap()
    }

    async fn checkout(&self, commit: &str) {
        self.run(&["checkout", "-q", commit], &self.dir.path().join("clone")).await;
    }
}

fn at() -> Timestamp {
    Timestamp::from_micros(1_800_000_000_000_000)
}

fn by_ci(method: MergeMethod) -> NewMerge {
    NewMerge { method, by: "ci".to_owned(), at: at() }
}

fn pull(head: &str) -> NewPull {
    NewPull { title: "T".into(), body: "B".into(), head: head.into(), ..NewPull::default() }
}

#[tokio::test]
async fn a_branch_becomes_a_pull_request_once_and_is_merged() {
    let setup = setup().await;
    setup.commit("topic", "a.txt", "a\n").await;
    let forge = setup.hosts.of(&setup.project).await.unwrap();
    let ensured = setup.ensure(&*forge, "topic").await.unwrap();
    let Ensured::Opened { pull: opened, .. } = ensured else { panic!("{ensured:?}") };
    assert_eq!(opened.url, "http://localhost:8080/projects/shop/pulls/1");
    assert_eq!(setup.ensure(&*forge, "topic").await, Ok(Ensured::Found(opened)));
    assert_eq!(forge.create_pull(&pull("topic")).await, Ok(CreatedPull::AlreadyExists));
    let pages = setup.hosts.local();
    let detail = pages.pull(&setup.project, 1).await.unwrap();
    assert_eq!(detail.commits.len(), 1);
    assert_eq!(detail.commits[0].subject, "Write a.txt");
    assert!(detail.diff.contains("+++ b/a.txt\n@@ -0,0 +1 @@\n+a\n"), "{}", detail.diff);
    assert!(detail.mergeable && detail.conflicts.is_empty());
    assert_eq!(pages.conflicts(&setup.project, 1).await, Ok(Conflicts::default()));
    let ends = pages.ends(&setup.project, 1).await.unwrap().unwrap();
    let merge = pages.merge(&setup.project, 1, &by_ci(MergeMethod::Merge)).await.unwrap();
    assert_eq!(merge, PullMerge { between: ends, commit: Some(setup.revision("main").await), is_new: true });
    let again = pages.merge(&setup.project, 1, &by_ci(MergeMethod::Merge)).await;
    let found = PullMerge { is_new: false, ..merge.clone() };
    assert_eq!(again, Ok(found), "a merge that was not recorded is found, and there is no other commit");
    let (state, by, between) = (PullState::Merged, Some("ci".to_owned()), Some(merge.between));
    let ending = PullEnding { state, by, at: at(), between, commit: merge.commit };
    setup.store.end_pull("shop", 1, ending).await.unwrap();
    assert_eq!(forge.pull(1).await.unwrap().map(|pull| pull.state), Some(PullState::Merged));
    assert_eq!(pages.merge(&setup.project, 1, &by_ci(MergeMethod::Merge)).await, Err(PullPagesError::NotOpen));
    assert_eq!(pages.pull(&setup.project, 1).await.unwrap().diff, detail.diff, "the page does not change");
    let ensured = setup.ensure(&*forge, "topic").await.unwrap();
    assert!(matches!(&ensured, Ensured::Found(pull) if pull.state == PullState::Merged), "{ensured:?}");
    assert_eq!(forge.create_pull(&pull("topic")).await, Ok(CreatedPull::NoChanges), "main contains the branch");
}

#[tokio::test]
async fn a_merge_by_hand_is_found_with_its_commit() {
    let setup = setup().await;
    let clone = setup.dir.path().join("clone");
    setup.commit("topic", "a.txt", "a\n").await;
    setup.open(&pull("topic")).await.unwrap();
    let pages = setup.hosts.local();
    let (base, head) = pages.ends(&setup.project, 1).await.unwrap().unwrap();
    setup.checkout(base.as_str()).await;
    setup.run(&["merge", "-q", "--no-ff", "-m", "By hand", head.as_str()], &clone).await;
    setup.commit("main", "b.txt", "b\n").await;
    let commit = Some(setup.revision("main~1").await);
    let merge = pages.merge(&setup.project, 1, &by_ci(MergeMethod::Merge)).await;
    assert_eq!(merge, Ok(PullMerge { between: (base, head), commit, is_new: false }));
}

#[tokio::test]
async fn a_merge_of_the_base_into_the_branch_is_found_if_the_base_was_moved_to_it() {
    let setup = setup().await;
    let clone = setup.dir.path().join("clone");
    setup.commit("topic", "a.txt", "a\n").await;
    setup.open(&pull("topic")).await.unwrap();
    setup.checkout("HEAD~1").await;
    setup.commit("main", "b.txt", "b\n").await;
    let pages = setup.hosts.local();
    let (base, head) = pages.ends(&setup.project, 1).await.unwrap().unwrap();
    setup.checkout(head.as_str()).await;
    setup.run(&["merge", "-q", "--no-ff", "-m", "By hand", base.as_str()], &clone).await;
    setup.run(&["push", "-q", "origin", "HEAD:main"], &clone).await;
    let commit = Some(setup.revision("main").await);
    let merge = pages.merge(&setup.project, 1, &by_ci(MergeMethod::Merge)).await;
    assert_eq!(merge, Ok(PullMerge { between: (base, head), commit, is_new: false }));
}

#[tokio::test]
async fn a_fast_forward_by_hand_has_no_merge_commit() {
    let setup = setup().await;
    setup.commit("topic", "a.txt", "a\n").await;
    setup.open(&pull("topic")).await.unwrap();
    setup.commit("main", "b.txt", "b\n").await;
    let pages = setup.hosts.local();
    let between = pages.ends(&setup.project, 1).await.unwrap().unwrap();
    let merge = pages.merge(&setup.project, 1, &by_ci(MergeMethod::Merge)).await;
    assert_eq!(merge, Ok(PullMerge { between, commit: None, is_new: false }));
}

#[tokio::test]
async fn the_default_branch_of_a_head_that_does_not_exist_is_chosen_by_the_rule_for_all_repositories() {
    let setup = setup().await;
    for branch in ["a", "master"] {
        setup.commit(branch, branch, "text").await;
    }
    let path = setup.hosts.local().path("shop");
    for command in [&["update-ref", "-d", "refs/heads/main"][..], &["symbolic-ref", "HEAD", "refs/heads/gone"]] {
        setup.git.at(&path, command).run().await.unwrap();
    }
    let forge = setup.hosts.of(&setup.project).await.unwrap();
    assert_eq!(forge.repository().await.unwrap().default_branch.as_deref(), Some("master"));
    assert_eq!(setup.hosts.local().branches(&setup.project).await.unwrap(), ["master", "a"]);
    setup.commit("topic", "b", "text").await;
    assert_eq!(setup.open(&pull("topic")).await.unwrap().base, "master");
}

#[tokio::test]
async fn branches_are_listed_with_the_default_branch_first() {
    let setup = setup().await;
    let pages = setup.hosts.local();
    assert_eq!(pages.branches(&setup.project).await.unwrap(), ["main"]);
    setup.commit("a-topic", "a.txt", "a\n").await;
    assert_eq!(pages.branches(&setup.project).await.unwrap(), ["main", "a-topic"]);
    assert_eq!(pages.commits(&setup.project, "a-topic", 100).await, Ok(Some(2)));
    assert_eq!(pages.commits(&setup.project, "a-topic", 1).await, Ok(Some(1)), "no more commits are counted");
    assert_eq!(pages.commits(&setup.project, "none", 100).await, Ok(None));
    let empty = project("local:empty");
    assert_eq!(pages.branches(&empty).await, Ok(Vec::new()), "the repository does not exist yet");
    setup.hosts.prepare(&empty).await.unwrap();
    assert_eq!(pages.branches(&empty).await, Ok(Vec::new()));
}

#[tokio::test]
async fn branches_that_conflict_are_not_merged() {
    let setup = setup().await;
    setup.commit("topic", "README", "topic\n").await;
    setup.checkout("HEAD~1").await;
    setup.commit("main", "README", "main\n").await;
    setup.open(&pull("topic")).await.unwrap();
    let pages = setup.hosts.local();
    let detail = pages.pull(&setup.project, 1).await.unwrap();
    let readme = Conflicts { files: vec!["README".to_owned()], more: 0 };
    assert_eq!((detail.mergeable, detail.conflicts), (false, readme.clone()));
    for attempt in ["merged", "remembered"] {
        assert_eq!(pages.conflicts(&setup.project, 1).await, Ok(readme.clone()), "{attempt}");
    }
    let refused = pages.merge(&setup.project, 1, &by_ci(MergeMethod::Merge)).await;
    assert!(matches!(refused, Err(PullPagesError::Conflict { .. })), "{refused:?}");
}

#[tokio::test]
async fn a_missing_base_or_head_is_refused_by_name() {
    let setup = setup().await;
    let refused = setup.open(&pull("nowhere")).await.unwrap_err();
    assert!(refused.to_string().contains("\"nowhere\""), "{refused}");
    let based = NewPull { base: Some("gone".into()), ..pull("main") };
    assert!(setup.open(&based).await.unwrap_err().to_string().contains("\"gone\""));
}

#[tokio::test]
async fn restricted_hosts_are_recognized_by_their_address() {
    let setup = setup().await;
    let found = setup.hosts.restricted_host("git@0xa9fea9fe:x.git").await.map(|host| host.to_string());
    assert_eq!(found.as_deref(), Some("169.254.169.254, a cloud metadata service"));
    // `localhost` is resolved without a network.
    assert!(setup.hosts.addresses("localhost").await.iter().all(|address| address.is_loopback()));
    for other in ["http://localhost:3000/x", "local:shop", "/srv/git/x.git"] {
        assert_eq!(setup.hosts.restricted_host(other).await, None, "{other}");
    }
}

#[tokio::test]
async fn a_plain_remote_opens_no_pull_request_and_says_why() {
    let setup = setup().await;
    let elsewhere = project("/srv/git/elsewhere.git");
    setup.hosts.prepare(&elsewhere).await.unwrap();
    let forge = setup.hosts.of(&elsewhere).await.unwrap();
    assert_eq!(forge.remote().await.unwrap().url, "/srv/git/elsewhere.git");
    let Err(ForgeError::NoPulls(reason)) = setup.ensure(&*forge, "x").await else { panic!("pull request opened") };
    assert_eq!(reason.code, ReasonCode::NoCodeHost);
    assert_eq!(setup.hosts.local().pulls(&elsewhere).await, Err(PullPagesError::NotFound));
}

/// Stores a user of the dashboard, and returns it as the author of comments.
async fn user(setup: &Setup, number: u128, role: Role) -> HostUser {
    let user = User {
        id: UserId::from_uuid(Uuid::from_u128(number)),
        name: role.name().to_owned(),
        role,
        password: None,
        identity: None,
        second_factor: None,
        passkeys: Default::default(),
        created_at: Timestamp::default(),
        signed_in_at: None,
        disabled_at: None,
        version: 1,
    };
    let audit = audit_entry();
    setup.store.create_user(user.clone(), audit).await.unwrap();
    HostUser { id: user.id.to_string(), name: user.name, is_bot: false }
}

fn audit_entry() -> AuditEntry {
    let (actor, action, subject) = ("cli".to_owned(), "made".to_owned(), "test".to_owned());
    AuditEntry { at: Timestamp::default(), actor, action, subject, address: None }
}

#[tokio::test]
async fn the_permission_of_a_commenter_is_that_of_the_role_now() {
    let setup = setup().await;
    let forge = setup.hosts.of(&setup.project).await.unwrap();
    let discussion = forge.discussion().unwrap();
    let mut users = Vec::new();
    for (role, number, expected) in [
        (Role::Administrator, 1, Permission::Admin),
        (Role::Member, 2, Permission::Write),
        (Role::Viewer, 3, Permission::Read),
    ] {
        let user = user(&setup, number, role).await;
        assert_eq!(discussion.permission(&user).await, Ok(expected), "{role:?}");
        users.push(user);
    }
    let id = users[1].id.parse().unwrap();
    setup.store.set_disabled(id, true, audit_entry()).await.unwrap();
    assert_eq!(discussion.permission(&users[1]).await, Ok(Permission::None), "the user is disabled");
    let nobody = |id: &str| HostUser { id: id.to_owned(), name: "administrator".to_owned(), is_bot: false };
    for (id, expected) in [
        ("", Permission::None),
        ("administrator", Permission::None),
        ("journeyman", Permission::None),
        ("cli", Permission::Admin),
    ] {
        assert_eq!(discussion.permission(&nobody(id)).await, Ok(expected), "{id}: names do not count");
    }
}

#[tokio::test]
async fn the_service_answers_on_the_page_of_the_pull_request_once() {
    let setup = setup().await;
    setup.commit("topic", "a.txt", "a\n").await;
    setup.open(&pull("topic")).await.unwrap();
    let forge = setup.hosts.of(&setup.project).await.unwrap();
    let discussion = forge.discussion().unwrap();
    for _ in 0..2 {
        let url = discussion.comment(CommentTarget::Pull(1), "<!-- journeyman:answer:1 -->", "Done.").await;
        assert_eq!(url.as_deref(), Ok("http://localhost:8080/projects/shop/pulls/1#c-1"));
    }
    let comments = setup.store.comments("shop".into(), 1).await.unwrap();
    assert_eq!(comments.len(), 1);
    let me = discussion.me().await.unwrap();
    assert_eq!((&comments[0].comment.author_id, comments[0].comment.body.as_str()), (&Some(me.id), "Done."));
    let missing = discussion.comment(CommentTarget::Pull(9), "m", "Done.").await;
    assert!(matches!(missing, Err(ForgeError::NotFound(_))), "{missing:?}");
    let issue = discussion.comment(CommentTarget::Issue(1), "m", "Done.").await;
    assert!(matches!(issue, Err(ForgeError::Refused(_))), "{issue:?}");
    let at = CommentRef { kind: CommentKind::Pull, number: 1, id: "shop/1/1".to_owned() };
    assert_eq!(discussion.react(&at, Reaction::Seen).await, Ok(()));
}

#[tokio::test]
async fn a_review_has_the_comments_that_were_submitted_with_it() {
    let setup = setup().await;
    setup.commit("topic", "a.txt", "a\n").await;
    setup.open(&pull("topic")).await.unwrap();
    let line =
        |line| LinePosition { path: "a.txt".into(), side: DiffSide::New, line, hunk: "@@ -0,0 +1 @@\n+a".into() };
    let by = |body: &str, number| NewComment {
        author: "ada".into(),
        author_id: Some("usr_1".into()),
        body: body.into(),
        at: at(),
        line: Some(line(number)),
        is_draft: true,
        ..NewComment::default()
    };
    setup.store.comment("shop", 1, by("Rename it.", 1)).await.unwrap();
    let text = NewComment { line: None, is_draft: false, ..by("Please.", 1) };
    let page =
        PullPage { project: setup.project.id.clone(), url: "http://localhost:8080/projects/shop/pulls/1".into() };
    let review = move |state: &_| review(state, text.clone(), &page, audit_entry());
    decide_on(&*setup.store, PullToChange("shop".into(), 1), at(), review).await.unwrap();
    setup.store.comment("shop", 1, by("Not submitted.", 2)).await.unwrap();

    let forge = setup.hosts.of(&setup.project).await.unwrap();
    let discussion = forge.discussion().unwrap();
    let reviews = discussion.reviews(1).await.unwrap();
    assert_eq!(reviews.len(), 1);
    assert_eq!((reviews[0].id.as_str(), reviews[0].body.as_str()), ("shop/1/2", "Please."));
    let lines = discussion.review(1, "shop/1/2").await.unwrap();
    assert_eq!(lines.len(), 1);
    let (one, url) = (&lines[0], "http://localhost:8080/projects/shop/pulls/1#c-1");
    assert_eq!((one.id.as_str(), one.body.as_str(), one.url.as_str()), ("shop/1/1", "Rename it.", url));
    assert_eq!(
        (one.position.to_string().as_str(), one.hunk.as_deref()),
        ("`a.txt`, line 1", Some("@@ -0,0 +1 @@\n+a"))
    );
    assert_eq!(discussion.review(1, "shop/1/7").await, Ok(Vec::new()));
}
