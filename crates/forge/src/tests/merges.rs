//! Tests of the methods of merging.

use super::*;

/// Opens a pull request with two commits, while others have committed to `main`. `files` are the files of the three
/// commits and their texts.
async fn diverged(files: [(&str, &str); 3]) -> (Setup, Sha, Sha) {
    let setup = setup().await;
    let [first, second, theirs] = files;
    let start = setup.revision("main").await;
    setup.commit("topic", first.0, first.1).await;
    setup.commit("topic", second.0, second.1).await;
    setup.checkout(start.as_str()).await;
    setup.commit("main", theirs.0, theirs.1).await;
    setup.open(&pull("topic")).await.unwrap();
    let ends = setup.hosts.local().ends(&setup.project, 1).await.unwrap().unwrap();
    (setup, ends.0, ends.1)
}

impl Setup {
    /// Returns what git prints about the repository of the host.
    async fn shown(&self, arguments: &[&str]) -> String {
        let path = self.hosts.local().path("shop");
        self.git.at(&path, arguments.iter().copied()).run().await.unwrap().text().unwrap()
    }

    async fn merged(&self, method: MergeMethod) -> Result<PullMerge, PullPagesError> {
        self.hosts.local().merge(&self.project, 1, &by_ci(method)).await
    }
}

#[tokio::test]
async fn a_squashed_pull_request_is_one_commit_that_names_the_others() {
    let (setup, base, head) = diverged([("a.txt", "a"), ("b.txt", "b"), ("c.txt", "c")]).await;
    let merge = setup.merged(MergeMethod::Squash).await.unwrap();
    let commit = setup.revision("main").await;
    assert_eq!(merge, PullMerge { between: (base.clone(), head.clone()), commit: Some(commit), is_new: true });
    assert_eq!(setup.shown(&["rev-list", "--parents", "-1", "main"]).await.split_once(' ').unwrap().1, base.as_str());
    let message = setup.shown(&["log", "-1", "--format=%B", "main"]).await;
    assert_eq!(message, "T (#1)\n\n* Write a.txt\n* Write b.txt\n\nMerged-by: ci");
    assert_eq!(setup.shown(&["ls-tree", "--name-only", "main"]).await, "README\na.txt\nb.txt\nc.txt");
    setup.shown(&["fsck", "--strict"]).await;
    let again = setup.merged(MergeMethod::Squash).await.unwrap();
    let (between, main) = ((setup.revision("main").await, head), setup.revision("main").await);
    assert_eq!(again, PullMerge { between, commit: None, is_new: false }, "a merge that was not recorded");
    assert_eq!(setup.revision("main").await, main);
}

#[tokio::test]
async fn a_rebased_pull_request_keeps_its_commits_with_authors_and_messages() {
    let (setup, base, head) = diverged([("a.txt", "a"), ("b.txt", "b"), ("c.txt", "c")]).await;
    let format = "--format=%an <%ae> %at %s";
    let before = setup.shown(&["log", format, &format!("{base}..{head}")]).await;
    let merge = setup.merged(MergeMethod::Rebase).await.unwrap();
    assert_eq!(merge.commit, Some(setup.revision("main").await));
    assert_eq!(setup.shown(&["log", format, &format!("{base}..main")]).await, before);
    assert_eq!(setup.shown(&["rev-list", "--merges", "main"]).await, "");
    assert_eq!(setup.shown(&["log", "-1", "--format=%ct", "main"]).await, "1800000000");
    setup.shown(&["fsck", "--strict"]).await;
    let again = setup.merged(MergeMethod::Rebase).await.unwrap();
    assert!(!again.is_new && again.commit.is_none(), "{again:?}");
}

#[tokio::test]
async fn a_rebase_leaves_out_merges_and_commits_that_change_nothing() {
    let (setup, base, head) = diverged([("a.txt", "a"), ("c.txt", "c"), ("c.txt", "c")]).await;
    let clone = setup.dir.path().join("clone");
    setup.checkout(head.as_str()).await;
    setup.run(&["merge", "-q", "-m", "Merge main", base.as_str()], &clone).await;
    setup.commit("topic", "d.txt", "d").await;
    setup.merged(MergeMethod::Rebase).await.unwrap();
    let subjects = setup.shown(&["log", "--format=%s", &format!("{base}..main")]).await;
    assert_eq!(subjects, "Write d.txt\nWrite a.txt");
}

#[tokio::test]
async fn commits_that_are_ahead_of_the_base_stay_what_they_are() {
    let setup = setup().await;
    setup.commit("topic", "a.txt", "a").await;
    setup.open(&pull("topic")).await.unwrap();
    setup.merged(MergeMethod::Rebase).await.unwrap();
    assert_eq!(setup.revision("main").await, setup.revision("topic").await);
}

#[tokio::test]
async fn commits_that_cannot_be_rebased_are_refused_and_can_be_merged() {
    // The second commit takes back what conflicts, so the branches do not conflict.
    let (setup, base, head) = diverged([("README", "mine"), ("README", "hello\n"), ("README", "theirs")]).await;
    setup.checkout(head.as_str()).await;
    setup.commit("topic", "new", "text").await;
    let refused = setup.merged(MergeMethod::Rebase).await.unwrap_err();
    let PullPagesError::NotRebased(text) = &refused else { panic!("{refused:?}") };
    assert!(text.ends_with("conflicts") && refused.to_string().contains("merge or squash them instead"), "{refused}");
    assert_eq!(setup.revision("main").await, base, "nothing has changed");
    setup.merged(MergeMethod::Merge).await.unwrap();
}
