//! Tests of signatures, which git and OpenSSH verify.

use std::path::PathBuf;
use std::sync::Arc;

use journeyman_core::ids::Sha;
use journeyman_core::project::CiFiles;
use journeyman_git::{Git, Runner};

use super::{Signer, SignerError};
use crate::fixture::{BRANCH, Fixture, WORKFLOW};
use crate::push::Pushed;

const EMAIL: &str = "bot@example.com";

/// Creates a private key, and returns its file.
async fn key(fixture: &Fixture, name: &str, kind: &[&str], passphrase: &str) -> PathBuf {
    let file = fixture.dir.path().join(name);
    let keygen = fixture.git.with_program("ssh-keygen").command(["-q", "-N", passphrase, "-C", "tests", "-t"]);
    let command = kind.iter().fold(keygen, |command, argument| command.argument(argument));
    command.argument("-f").argument(&file).run().await.unwrap();
    file
}

async fn signing(kind: &[&str]) -> Fixture {
    let mut fixture = Fixture::new().await;
    let file = key(&fixture, "key", kind, "").await;
    fixture.signer = Some(Arc::new(Signer::open(&fixture.git, &file, EMAIL).await.unwrap()));
    fixture
}

impl Fixture {
    /// Returns whether git accepts the signature of a commit in a repository.
    async fn is_signed(&self, git_dir: &std::path::Path, commit: &Sha) -> bool {
        let allowed = self.dir.path().join("allowed");
        std::fs::write(&allowed, format!("{EMAIL} {}\n", self.signer.as_ref().unwrap().public_key())).unwrap();
        let setting = format!("gpg.ssh.allowedSignersFile={}", allowed.display());
        self.git.at(git_dir, ["-c", &setting, "verify-commit", commit.as_str()]).run().await.is_ok()
    }

    async fn show(&self, git_dir: &std::path::Path, form: &str, commit: &Sha) -> String {
        let form = format!("--format={form}");
        self.git.at(git_dir, ["log", "-1", &form, commit.as_str()]).run().await.unwrap().text().unwrap()
    }

    /// Pushes the head of the clone, and returns the pushed commit and whether the commits were replaced.
    async fn push_all(&self) -> (Sha, bool) {
        let mut head = self.head().await;
        let mut is_replaced = false;
        loop {
            match self.push_commit(&head, CiFiles::Refuse, false).await.unwrap() {
                Pushed::Done => return (head, is_replaced),
                Pushed::Rebased { head: new, .. } => (head, is_replaced) = (new, true),
            }
        }
    }
}

#[tokio::test]
async fn git_verifies_the_signatures_of_every_kind_of_key() {
    for kind in [["ed25519"].as_slice(), &["ecdsa", "-b", "384"], &["rsa", "-b", "2048"]] {
        let fixture = signing(kind).await;
        fixture.commit(&[("a", Some("2"))]).await;
        let mirror = fixture.mirror(&fixture.mirrors()).await;
        let head = fixture.head().await;
        assert!(!fixture.is_signed(&mirror.path, &head).await);
        let signed = mirror.sign(&fixture.base, &head).await.unwrap().commit(&head);
        assert!(fixture.is_signed(&mirror.path, &signed).await, "{kind:?}");
        assert!(!fixture.is_signed(&mirror.path, &fixture.base).await, "a commit of people stays");
    }
}

#[tokio::test]
async fn all_commits_of_a_turn_are_signed_and_keep_their_content() {
    let fixture = signing(&["ed25519"]).await;
    fixture.commit(&[("a", Some("2"))]).await;
    fixture.run(&["checkout", "--quiet", "-b", "side", fixture.base.as_str()]).await;
    fixture.commit(&[("b", Some("1"))]).await;
    fixture.run(&["checkout", "--quiet", "main"]).await;
    fixture.run(&["merge", "--quiet", "--no-edit", "side"]).await;
    // The agent may use any names, and add something that looks like a signature.
    let tree = fixture.run(&["rev-parse", "HEAD^{tree}"]).await;
    let parent = fixture.head().await;
    let forged = format!(
        "tree {tree}\nparent {parent}\nauthor \u{e4}da <a@b> 1700000000 +0530\ncommitter Linus <l@example.com> \
         1700000001 -0330\ngpgsig -----BEGIN SSH SIGNATURE-----\n forged\n -----END SSH SIGNATURE-----\n\nSubject\n\n \
         text \n"
    );
    let write = fixture.git.command(["hash-object", "-t", "commit", "-w", "--stdin"]).directory(&fixture.clone());
    let head = write.stdin(forged).run().await.unwrap().sha().unwrap();
    fixture.run(&["update-ref", "refs/heads/main", head.as_str()]).await;

    let mirror = fixture.mirror(&fixture.mirrors()).await;
    let signed = mirror.sign(&fixture.base, &head).await.unwrap();
    assert_eq!(signed.replaced.len(), 4);
    for commit in signed.replaced.values() {
        assert!(fixture.is_signed(&mirror.path, commit).await);
    }
    let new = signed.commit(&head);
    let shown = fixture.show(&mirror.path, "%an|%ae|%ad|%cn|%ce|%cd|%s|%b", &new).await;
    assert_eq!(
        shown,
        "\u{e4}da|a@b|Wed Nov 15 03:43:20 2023 +0530|Journeyman|bot@example.com|Tue Nov 14 18:43:21 2023 -0330|Subject| \
         text"
    );
    let parents = fixture.show(&mirror.path, "%P", &signed.commit(&parent)).await;
    let parents: Vec<&str> = parents.split(' ').collect();
    assert_eq!(parents.len(), 2);
    assert!(parents.iter().all(|parent| signed.replaced.values().any(|commit| commit.as_str() == *parent)));
    assert_eq!(fixture.show(&mirror.path, "%T", &new).await, tree);
}

#[tokio::test]
async fn commits_from_before_the_server_had_a_key_are_signed_before_they_are_pushed() {
    let fixture = signing(&["ed25519"]).await;
    fixture.commit(&[("a", Some("2"))]).await;
    fixture.commit(&[("a", Some("3"))]).await;
    let (pushed, is_replaced) = fixture.push_all().await;
    assert!(is_replaced && fixture.is_signed(&fixture.origin(), &pushed).await);
    let parent: Sha = fixture.show(&fixture.origin(), "%P", &pushed).await.parse().unwrap();
    assert!(fixture.is_signed(&fixture.origin(), &parent).await);
}

#[tokio::test]
async fn commits_that_the_host_rewrites_are_signed() {
    let fixture = signing(&["ed25519"]).await;
    fixture.commit(&[("a", Some("2"))]).await;
    let (first, _) = fixture.push_all().await;
    // People push to the branch, and the job has another commit.
    fixture.run(&["fetch", "--quiet", fixture.origin().to_str().unwrap(), first.as_str()]).await;
    fixture.run(&["checkout", "--quiet", "-b", "people", first.as_str()]).await;
    fixture.commit(&[("b", Some("1"))]).await;
    fixture.publish(BRANCH).await;
    fixture.run(&["checkout", "--quiet", "-b", "job", first.as_str()]).await;
    fixture.commit(&[("c", Some("1"))]).await;
    let (rebased, is_replaced) = fixture.push_all().await;
    assert!(is_replaced && fixture.is_signed(&fixture.origin(), &rebased).await);
    // A change of a CI file is undone, so that its commits become one.
    fixture.run(&["fetch", "--quiet", fixture.origin().to_str().unwrap(), rebased.as_str()]).await;
    fixture.run(&["checkout", "--quiet", "-b", "undone", rebased.as_str()]).await;
    fixture.commit(&[(WORKFLOW, Some("on: release")), ("d", Some("1"))]).await;
    fixture.commit(&[(WORKFLOW, Some("on: push"))]).await;
    let (sum, is_replaced) = fixture.push_all().await;
    assert!(is_replaced && fixture.is_signed(&fixture.origin(), &sum).await);
}

#[tokio::test]
async fn a_key_that_cannot_sign_is_refused_with_the_remedy() {
    let fixture = Fixture::new().await;
    let good = key(&fixture, "good", &["ed25519"], "").await;
    let protected = key(&fixture, "protected", &["ed25519"], "a passphrase").await;
    let garbage = fixture.dir.path().join("garbage");
    std::fs::write(&garbage, "-----BEGIN s3cret-----\n").unwrap();
    std::fs::set_permissions(&garbage, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let open = |file: PathBuf, email: &'static str| {
        let git = fixture.git.clone();
        async move { Signer::open(&git, &file, email).await.unwrap_err() }
    };
    assert!(matches!(open(protected, EMAIL).await, SignerError::Passphrase(_)));
    for file in [garbage, fixture.dir.path().join("missing"), good.with_extension("pub")] {
        let error = open(file.clone(), EMAIL).await;
        let text = error.to_string();
        assert!(matches!(error, SignerError::Unusable { .. }), "{text}");
        assert!(text.contains(file.to_str().unwrap()) && !text.contains("s3cret"), "{text}");
    }
    for email in ["", "a b@c", "<a@b>", "a\n@b"] {
        assert!(matches!(open(good.clone(), email).await, SignerError::Email(_)), "{email:?}");
    }
    let empty = Runner { program: "git".into(), path: "/nonexistent".into(), environment: vec![], askpass: None };
    let error = Signer::open(&Git::new(empty), &good, EMAIL).await.unwrap_err();
    assert!(error.to_string().contains("openssh-client"), "{error}");
}
