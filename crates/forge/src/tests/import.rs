//! Tests of imports into the built-in host, with real git and a git server over HTTP.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use journeyman_core::lfs::Pointer;
use journeyman_core::ports::{ImportedObjects, LfsError, LfsFailure, PullPages, Reach, Remote};

use super::serve::server;
use super::*;

/// Two repositories: `shop` with a history, and `fresh` without one.
struct Import {
    setup: Setup,
    fresh: Project,
    from: Remote,
}

impl Import {
    async fn new() -> Self {
        let setup = setup().await;
        let fresh = project("local:fresh");
        setup.hosts.prepare(&fresh).await.unwrap();
        let from = Remote { url: server(&setup).await, credential: None, is_ours: false, reach: Reach::Private };
        Self { setup, fresh, from }
    }

    async fn run(&self) -> Result<(), String> {
        assert_eq!(self.left_out().await?, None);
        Ok(())
    }

    /// Imports, and returns what was not copied.
    async fn left_out(&self) -> Result<Option<String>, String> {
        self.setup
            .hosts
            .import(&self.fresh, &self.from, &journeyman_core::ports::ReachedServers::default())
            .await
            .map_err(|failed| failed.to_string())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.setup.hosts.local().path(name)
    }

    async fn ask(&self, name: &str, arguments: &[&str]) -> String {
        self.setup.git.at(&self.path(name), arguments).run().await.unwrap().text().unwrap()
    }

    async fn refs(&self, name: &str) -> String {
        self.ask(name, &["for-each-ref", "--format=%(objectname) %(refname)"]).await
    }

    /// Returns the names in the folder of the repositories.
    fn folders(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.setup.dir.path().join("repos")).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[tokio::test]
async fn an_import_copies_branches_tags_and_the_default_branch_and_can_be_repeated() {
    let import = Import::new().await;
    import.setup.commit("trunk", "trunk.txt", "trunk\n").await;
    import.ask("shop", &["symbolic-ref", "HEAD", "refs/heads/trunk"]).await;
    import.ask("shop", &["tag", "v1", "main"]).await;
    let expected = import.refs("shop").await;
    import.ask("shop", &["update-ref", "refs/jobs/hidden", "main"]).await;
    std::fs::create_dir_all(import.path("shop").join("hooks")).unwrap();
    std::fs::write(import.path("shop").join("hooks/post-update"), "#!/bin/sh\n").unwrap();

    // The second import is the continuation of one that ended before its record was written.
    for _ in 0..2 {
        import.run().await.unwrap();
        assert_eq!(import.refs("fresh").await, expected);
        assert_eq!(import.ask("fresh", &["symbolic-ref", "HEAD"]).await, "refs/heads/trunk");
        import.ask("fresh", &["fsck", "--strict"]).await;
        assert!(!import.path("fresh").join("hooks/post-update").exists());
        assert_eq!(import.ask("fresh", &["config", "http.receivepack"]).await, "true");
        assert_eq!(import.folders(), ["fresh.git", "shop.git"]);
    }
}

#[tokio::test]
async fn objects_of_git_lfs_that_were_not_copied_are_told_and_prevent_no_import() {
    let import = Import::new().await;
    let objects = &import.setup.objects;
    let failure = |error| LfsFailure { pointer: Pointer { oid: "a".repeat(64), bytes: 1 }, error };
    let partly = ImportedObjects { copied: 2, failed: 1, example: Some(failure(LfsError::Missing)) };
    objects.import_as(Ok(partly.clone()));
    let told = import.left_out().await.unwrap().unwrap();
    assert!(told.starts_with("1 of 3 objects of Git LFS were not copied: 127.0.0.1 does not have them."), "{told}");
    assert!(told.contains("git lfs push --all"), "{told}");
    let example = Some(failure(LfsError::Credential("wrong token".to_owned())));
    objects.import_as(Ok(ImportedObjects { example, ..partly }));
    let told = import.left_out().await.unwrap().unwrap();
    assert!(told.contains("refused the credential: wrong token."), "{told}");
    objects.import_as(Err(LfsError::Failed("no disk".to_owned())));
    let told = import.left_out().await.unwrap().unwrap();
    assert!(told.contains("no disk"), "{told}");
    assert_eq!(import.refs("fresh").await, import.refs("shop").await);
}

#[tokio::test]
async fn an_import_copies_refs_whose_names_are_not_text_and_a_default_branch_like_that() {
    let import = Import::new().await;
    for name in [b"refs/heads/caf\xe9".as_slice(), b"refs/tags/caf\xe9"] {
        let update = import.setup.git.at(&import.path("shop"), ["update-ref"]).argument(OsStr::from_bytes(name));
        update.argument("refs/heads/main").run().await.unwrap();
    }
    let head = import.setup.git.at(&import.path("shop"), ["symbolic-ref", "HEAD"]);
    head.argument(OsStr::from_bytes(b"refs/heads/caf\xe9")).run().await.unwrap();
    import.run().await.unwrap();
    let read = async |name: &str, arguments: &[&str]| {
        import.setup.git.at(&import.path(name), arguments).run().await.unwrap().stdout
    };
    for arguments in [["for-each-ref", "--format=%(objectname) %(refname)"], ["symbolic-ref", "HEAD"]] {
        assert_eq!(read("fresh", &arguments).await, read("shop", &arguments).await);
    }
    assert_eq!(read("fresh", &["symbolic-ref", "HEAD"]).await, b"refs/heads/caf\xe9\n");
    assert_eq!(
        import.setup.hosts.local().branches(&import.fresh).await.unwrap(),
        ["main"],
        "the others cannot be chosen"
    );
}

#[tokio::test]
async fn a_push_that_arrives_first_wins() {
    let import = Import::new().await;
    let clone = import.setup.dir.path().join("clone");
    std::fs::write(clone.join("README"), "another\n").unwrap();
    import.setup.run(&["commit", "-q", "-a", "-m", "Another"], &clone).await;
    let fresh = import.path("fresh").to_str().unwrap().to_owned();
    for branch in ["main", "other"] {
        import.setup.run(&["push", "-q", &fresh, &format!("HEAD:refs/heads/{branch}")], &clone).await;
        let before = import.refs("fresh").await;
        let error = import.run().await.unwrap_err();
        assert!(error.starts_with("Something was pushed to the repository of the project before"), "{error}");
        assert_eq!(import.refs("fresh").await, before);
        import.ask("fresh", &["update-ref", "-d", &format!("refs/heads/{branch}")]).await;
    }
    assert_eq!(import.folders(), ["fresh.git", "shop.git"]);
}

#[tokio::test]
async fn a_shallow_clone_is_not_imported_in_part() {
    let import = Import::new().await;
    import.ask("shop", &["branch", "complete", "main"]).await;
    import.setup.commit("main", "a.txt", "a\n").await;
    let cut = import.ask("shop", &["rev-parse", "main"]).await;
    std::fs::write(import.path("shop").join("shallow"), format!("{cut}\n")).unwrap();
    let error = import.run().await.unwrap_err();
    assert!(error.contains("is a shallow clone") && error.contains("--unshallow"), "{error}");
    assert_eq!(import.refs("fresh").await, "", "not even the branch that is complete");
    std::fs::remove_file(import.path("shop").join("shallow")).unwrap();
    import.run().await.unwrap();
    assert_eq!(import.refs("fresh").await, import.refs("shop").await);
}

#[tokio::test]
async fn a_failure_changes_nothing_and_names_the_cause() {
    let mut import = Import::new().await;
    let good = import.from.url.clone();
    import.ask("shop", &["update-ref", "-d", "refs/heads/main"]).await;
    assert_eq!(
        import.run().await.unwrap_err(),
        "The repository on 127.0.0.1 has no branches. Push to it first, or start without it."
    );
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    import.from.url = format!("http://{nobody}/shop.git");
    let error = import.run().await.unwrap_err();
    assert!(error.starts_with("127.0.0.1 does not answer, or not in time: "), "{error}");

    // A tree with a file named `.git`, which pushes may not contain either.
    import.from.url = good;
    let tree = import.setup.git.at(&import.path("shop"), ["hash-object", "-t", "tree", "-w", "--stdin", "--literally"]);
    let blob = import.setup.git.at(&import.path("shop"), ["hash-object", "-w", "--stdin"]).stdin("x");
    let blob = blob.run().await.unwrap().sha().unwrap();
    let bytes = (0..40).step_by(2).map(|at| u8::from_str_radix(&blob.as_str()[at..at + 2], 16).unwrap());
    let entry: Vec<u8> = b"100644 .git\0".iter().copied().chain(bytes).collect();
    let tree = tree.stdin(entry).run().await.unwrap().sha().unwrap();
    let commit = import.ask("shop", &["commit-tree", tree.as_str(), "-m", "Bad"]).await;
    import.ask("shop", &["update-ref", "refs/heads/main", &commit]).await;
    let error = import.run().await.unwrap_err();
    assert!(error.contains("has objects that the built-in code host refuses"), "{error}");
    assert_eq!(import.refs("fresh").await, "");
    assert_eq!(import.folders(), ["fresh.git", "shop.git"]);
}
