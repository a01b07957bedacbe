//! Tests with names, authors and messages that are not UTF-8.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use journeyman_core::ids::{JobId, MessageId};
use journeyman_core::job::turn::TurnBegun;
use journeyman_core::job::{Job, Source};
use journeyman_core::project::CiFiles;
use journeyman_core::run::ReasonCode;
use journeyman_core::time::Timestamp;

use super::*;
use crate::History;
use crate::diff_stat::{Range, turn_diff};
use crate::fixture::{BRANCH, Fixture};
use crate::published::published_before;
use crate::push::Pushed;

impl Fixture {
    /// Creates or moves a ref of the code host.
    async fn set_ref(&self, name: &[u8], commit: &Sha) {
        let update = self.git.at(&self.origin(), ["update-ref"]).argument(OsStr::from_bytes(name));
        update.argument(commit.as_str()).run().await.unwrap();
    }

    /// Commits a new file whose path, author, committer and message are in Latin-1, without saying so, as no current git
    /// does.
    async fn commit_in_latin1(&self) -> Sha {
        std::fs::write(self.clone().join(OsStr::from_bytes(b"caf\xe9")), "new\n").unwrap();
        self.run(&["add", "--all"]).await;
        let (tree, parent) = (self.run(&["write-tree"]).await, self.head().await);
        let begin = format!("tree {tree}\nparent {parent}\n");
        let text = [
            begin.as_bytes(),
            b"author Andr\xe9 <andr\xe9@localhost> 1 +0000\ncommitter Andr\xe9 <andr\xe9@localhost> 1 +0000\n\nAdd a caf\xe9\n",
        ];
        let commit = self.git.command(["hash-object", "-t", "commit", "-w", "--stdin"]).directory(&self.clone());
        let commit = commit.stdin(text.concat()).run().await.unwrap().sha().unwrap();
        self.run(&["reset", "--quiet", commit.as_str()]).await;
        commit
    }
}

#[tokio::test]
async fn refs_whose_names_are_not_text_are_mirrored_and_stop_nothing() {
    let fixture = Fixture::new().await;
    let mirrors = fixture.mirrors();
    let (branch, tag) = (b"refs/heads/caf\xe9".as_slice(), b"refs/tags/caf\xe9".as_slice());
    for is_ours in [false, true] {
        let next = fixture.commit(&[("a", Some(if is_ours { "2" } else { "3" }))]).await;
        fixture.publish("other").await;
        for name in [branch, tag] {
            fixture.set_ref(name, &next).await;
        }
        for _ in 0..2 {
            let mirror = mirrors.fetch(Remote { is_ours, ..fixture.remote() }).await.unwrap();
            assert_eq!(mirror.heads.keys().collect::<Vec<_>>(), ["main", "other"]);
            assert_eq!(mirror.resolve("HEAD").await.unwrap(), fixture.base);
            for name in [branch, tag] {
                let found = fixture.git.at(&mirror.path, ["rev-parse", "--verify"]).argument(OsStr::from_bytes(name));
                assert_eq!(found.run().await.unwrap().sha().unwrap(), next);
            }
        }
    }
    // The mirror has the commit, so the ref moves without a fetch.
    fixture.set_ref(tag, &fixture.base).await;
    let mirror = mirrors.fetch(fixture.remote()).await.unwrap();
    let found = fixture.git.at(&mirror.path, ["rev-parse", "--verify"]).argument(OsStr::from_bytes(tag));
    assert_eq!(found.run().await.unwrap().sha().unwrap(), fixture.base);
}

#[tokio::test]
async fn a_default_branch_whose_name_is_not_text_must_be_renamed_or_another_ref_named() {
    let fixture = Fixture::new().await;
    fixture.set_ref(b"refs/heads/caf\xe9", &fixture.base).await;
    let head = fixture.git.at(&fixture.origin(), ["symbolic-ref", "HEAD"]);
    head.argument(OsStr::from_bytes(b"refs/heads/caf\xe9")).run().await.unwrap();
    let mirror = fixture.mirrors().fetch(fixture.remote()).await.unwrap();
    let Err(RepositoryError::Failed { reason, retry: false }) = mirror.resolve("HEAD").await else { panic!() };
    assert_eq!(reason.code, ReasonCode::UnknownRef);
    assert!(reason.text.contains(r#""caf\xe9" of the repository has a name that is not UTF-8"#), "{}", reason.text);
    assert_eq!(mirror.resolve("main").await.unwrap(), fixture.base);
}

#[tokio::test]
async fn several_branches_without_a_default_are_refused_until_one_is_named() {
    let fixture = Fixture::new().await;
    fixture.set_ref(b"refs/heads/a", &fixture.base).await;
    fixture.set_ref(b"refs/heads/b", &fixture.base).await;
    fixture.git.at(&fixture.origin(), ["update-ref", "-d", "refs/heads/main"]).run().await.unwrap();
    let mirror = fixture.mirrors().fetch(fixture.remote()).await.unwrap();
    let Err(RepositoryError::Failed { reason, retry: false }) = mirror.resolve("HEAD").await else { panic!() };
    assert_eq!(reason.code, ReasonCode::UnknownRef);
    assert!(reason.text.contains("set `ref` of the project"), "{}", reason.text);
    assert_eq!(mirror.resolve("b").await.unwrap(), fixture.base);
}

#[tokio::test]
async fn commits_with_people_and_messages_that_are_not_text_are_counted_and_found() {
    let fixture = Fixture::new().await;
    let head = fixture.commit_in_latin1().await;
    let mirrors = fixture.mirrors();
    let mirror = fixture.mirror(&mirrors).await;
    let range = Range { base: &fixture.base, start: &fixture.base, head: &head, upstream: None };
    let diff = turn_diff(&mirror, range, Vec::new()).await.unwrap();
    assert_eq!(diff.message.commits[0].subject, r"Add a caf\xe9");
    let changes = mirror.changes(&fixture.base, None, &head).await.unwrap().unwrap();
    assert_eq!(changes.files[0].path, r"caf\xe9");
    let source = Source { repository: String::new(), reference: "main".to_owned() };
    let id = JobId::from_uuid(uuid::Uuid::from_u128(1));
    let job = Job::new(id, "shop".parse().unwrap(), source, Timestamp::default());
    let message = MessageId::from_uuid(uuid::Uuid::from_u128(2));
    let (branch, base) = (BRANCH.to_owned(), fixture.base.clone());
    let pushed = Some(head.clone());
    let begun = TurnBegun { branch, generation: 1, base, head, pushed, default_branch: None, repository: None };
    assert!(published_before(&mirror, &job, message, &begun).await.unwrap().is_none());
}

#[tokio::test]
async fn commits_with_people_and_messages_that_are_not_text_are_rebased() {
    let fixture = Fixture::new().await;
    fixture.commit(&[("people", Some("1"))]).await;
    fixture.publish(BRANCH).await;
    fixture.run(&["reset", "--quiet", "--hard", fixture.base.as_str()]).await;
    fixture.commit_in_latin1().await;
    let Pushed::Rebased { head, .. } = fixture.push(CiFiles::Refuse, false).await.unwrap() else { panic!() };
    let files = ["ls-tree", "-z", "--name-only", head.as_str()];
    let mirror = fixture.mirrors().path(&fixture.remote().url);
    let files = fixture.git.at(&mirror, files).run().await.unwrap().stdout;
    assert!(files.split(|byte| *byte == 0).any(|file| file == b"caf\xe9"), "{files:?}");
}

#[tokio::test]
async fn a_ref_names_only_what_the_remote_shows() {
    let fixture = Fixture::new().await;
    let published = fixture.commit(&[("a", Some("2"))]).await;
    fixture.publish("team/x").await;
    fixture.run(&["tag", "v1"]).await;
    fixture.run(&["push", "--quiet", fixture.origin().to_str().unwrap(), "v1"]).await;
    let hidden = fixture.commit(&[("a", Some("3"))]).await;
    let mirror = fixture.mirror(&fixture.mirrors()).await;
    mirror.keep("job_1/head", &hidden).await.unwrap();
    for name in ["team/x", "heads/team/x", "refs/heads/team/x", "v1", "tags/v1", "refs/tags/v1", published.as_str()] {
        assert_eq!(mirror.resolve(name).await.unwrap(), published, "{name}");
    }
    assert_eq!(mirror.resolve(&published.as_str()[..10]).await.unwrap(), published);
    for name in ["refs/jobs/job_1/head", "jobs/job_1/head", hidden.as_str(), &hidden.as_str()[..10], "FETCH_HEAD", "@"]
    {
        let refused = mirror.resolve(name).await;
        let Err(RepositoryError::Failed { reason, retry: false }) = refused else { panic!("{name}: {refused:?}") };
        assert_eq!(reason.code, ReasonCode::UnknownRef, "{name}");
    }
    assert!(mirror.has(&hidden).await, "the job itself goes on from it");
}

#[tokio::test]
async fn projects_do_not_share_the_commits_of_their_jobs() {
    let fixture = Fixture::new().await;
    let hidden = fixture.commit(&[("a", Some("3"))]).await;
    let all = Arc::new(Mirrors::new(fixture.git.clone(), fixture.dir.path().join("mirrors")));
    let [one, two] = ["one", "two"].map(|id| all.of(&id.parse().unwrap()));
    let mirror = fixture.mirror(&one).await;
    assert!(mirror.has(&hidden).await);
    let other = two.fetch(fixture.remote()).await.unwrap();
    assert!(other.path != mirror.path && other.has(&fixture.base).await && !other.has(&hidden).await);
}

#[tokio::test]
async fn a_mirror_that_projects_shared_is_copied_without_the_commits_of_jobs() {
    let fixture = Fixture::new().await;
    let hidden = fixture.commit(&[("a", Some("3"))]).await;
    let mirrors = fixture.mirrors();
    let mirror = fixture.mirror(&mirrors).await;
    mirror.keep("job_1/head", &hidden).await.unwrap();
    let shared = mirrors.named("mirror", &fixture.remote().url);
    std::fs::remove_file(mirror.path.join(PROJECT)).unwrap();
    std::fs::rename(&mirror.path, &shared).unwrap();
    // What the mirror has is not fetched from the remote, which has lost it.
    let objects = fixture.origin().join("objects");
    let moved = fixture.dir.path().join("objects");
    std::fs::rename(&objects, &moved).unwrap();
    std::fs::create_dir_all(objects.join("pack")).unwrap();
    let copied = mirrors.fetch(fixture.remote()).await.unwrap();
    assert!(copied.path != shared && copied.has(&fixture.base).await && !copied.has(&hidden).await);
}
