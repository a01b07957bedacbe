//! Malicious path remotes. Each attack has a control case: the same push with plain git.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use journeyman_core::ports::Remote;

use super::*;
use crate::Runner;

const OTHER: u32 = 65_534;

struct Place {
    git: Git,
    dir: tempfile::TempDir,
}

fn remote(url: impl Into<String>) -> Remote {
    Remote { url: url.into(), credential: None, is_ours: false }
}

/// Creates a repository `near` with one commit.
async fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let path = "/usr/local/bin:/usr/bin:/bin".into();
    let secret = vec![("SERVICE_SECRET".into(), "planted".into())];
    let git = Git::new(Runner { program: "git".into(), path, environment: secret, askpass: None });
    let place = Place { git, dir };
    std::fs::create_dir(place.path("marks")).unwrap();
    std::fs::set_permissions(place.path("marks"), PermissionsExt::from_mode(0o777)).unwrap();
    place.run(&["init", "--quiet", "--initial-branch=main", "near"], place.dir.path()).await;
    std::fs::write(place.path("near/file"), "text").unwrap();
    place.run(&["add", "file"], &place.path("near")).await;
    place.run(&["commit", "--quiet", "--message", "x"], &place.path("near")).await;
    place
}

impl Place {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn url(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    async fn run(&self, arguments: &[&str], directory: &Path) {
        self.git.command(arguments).directory(directory).run().await.unwrap();
    }

    async fn bare(&self, name: &str) {
        self.run(&["init", "--quiet", "--bare", name], self.dir.path()).await;
    }

    fn script(&self, file: &str, mark: &str) -> String {
        let text = format!(
            "#!/bin/sh\n(id -u; tr '\\0' '\\n' < /proc/self/environ; tr '\\0' '\\n' < /proc/$PPID/environ) > {} 2>&1\n",
            self.path("marks").join(mark).display()
        );
        std::fs::write(self.path(file), text).unwrap();
        std::fs::set_permissions(self.path(file), PermissionsExt::from_mode(0o755)).unwrap();
        self.url(file)
    }

    async fn push(&self, remote: &Remote, branch: &str) -> Result<(), GitError> {
        let route = self.git.route(remote).await?;
        let refspec = format!("HEAD:refs/heads/{branch}");
        let arguments = ["push", "--quiet"].map(str::to_owned).into_iter().chain(route.pushing());
        let push = self.git.command(arguments.chain([route.address().to_owned(), refspec]));
        push.directory(&self.path("near")).run().await.map(|_| ())
    }

    async fn heads(&self, remote: &Remote) -> Result<String, GitError> {
        let route = self.git.route(remote).await?;
        let arguments = ["ls-remote", "--heads"].map(str::to_owned).into_iter().chain(route.reading());
        self.git.command(arguments.chain([route.address().to_owned()])).run().await?.text()
    }

    /// Pushes with plain git, which trusts all folders.
    async fn plain_push(&self, name: &str, branch: &str) {
        let trust = self.path("trust");
        std::fs::write(&trust, "[safe]\n\tdirectory = *\n").unwrap();
        let (url, refspec) = (self.url(name), format!("HEAD:refs/heads/{branch}"));
        let push = self.git.command(["push", "--quiet", &url, &refspec]).env("GIT_CONFIG_GLOBAL", &trust);
        // The result does not matter.
        let _ = push.directory(&self.path("near")).run().await;
    }

    fn marks(&self) -> Vec<String> {
        let marks = self.path("marks").read_dir().unwrap().flatten();
        let mut marks: Vec<String> = marks.map(|mark| mark.file_name().to_string_lossy().into_owned()).collect();
        marks.sort();
        marks
    }

    /// Removes the marks, and returns their names.
    fn taken(&self) -> Vec<String> {
        let marks = self.marks();
        for mark in &marks {
            std::fs::remove_file(self.path("marks").join(mark)).unwrap();
        }
        marks
    }

    async fn refused(&self, remote: &Remote) -> String {
        let error = self.git.route(remote).await.unwrap_err();
        assert!(matches!(error, GitError::NotUsed(_)), "{error}");
        error.to_string()
    }

    /// Gives a repository to another user; only root can. Returns whether it worked.
    fn give_away(&self, name: &str) -> bool {
        let mut folders = vec![self.path(name)];
        while let Some(path) = folders.pop() {
            if chown(&path, Some(OTHER), Some(OTHER)).is_err() {
                return false;
            }
            if path.is_dir() {
                folders.extend(path.read_dir().unwrap().flatten().map(|entry| entry.path()));
            }
        }
        true
    }
}

#[tokio::test]
async fn commands_that_a_repository_configures_do_not_run_as_the_service() {
    let place = place().await;
    place.bare("other.git").await;
    place.run(&["clone", "--quiet", "near", "far"], place.dir.path()).await;
    let far = place.path("far");
    place.run(&["commit", "--quiet", "--allow-empty", "--message", "y"], &place.path("near")).await;
    std::fs::write(far.join(".git/objects/info/alternates"), format!("{}/objects\n", place.url("other.git"))).unwrap();
    // Uses an include, which could hide the settings.
    let program = |name: &str| place.script(&format!("far/.git/{name}"), name);
    let (alternates, smudge, gc) = (program("alternates"), program("smudge"), program("gc"));
    let text = format!(
        "[core]\n\talternateRefsCommand = {alternates}\n[filter \"evil\"]\n\tsmudge = {smudge}\n[receive]\n\
         \tdenyCurrentBranch = updateInstead\n\tautogc = true\n[gc]\n\tauto = 1\n\trecentObjectsHook = {gc}\n"
    );
    std::fs::write(far.join(".git/more"), text).unwrap();
    std::fs::write(far.join(".git/info/attributes"), "* filter=evil\n").unwrap();
    place.run(&["config", "include.path", "more"], &far).await;
    place.push(&remote(place.url("far")), "topic").await.unwrap();
    let refused = place.push(&remote(place.url("far")), "main").await.unwrap_err();
    assert!(refused.to_string().contains("refusing to update checked out branch"), "{refused}");
    assert!(place.heads(&remote(place.url("far"))).await.unwrap().contains("refs/heads/topic"));
    assert_eq!(place.marks(), Vec::<String>::new());
    place.plain_push("far", "control").await;
    assert!(place.taken().contains(&"alternates".to_owned()), "the control");
}

#[tokio::test]
async fn hooks_of_the_services_user_are_refused_and_not_passed_over() {
    let place = place().await;
    for hook in ["pre-receive", "update", "post-receive", "post-update", "reference-transaction"] {
        let name = format!("{hook}.git");
        place.bare(&name).await;
        std::fs::create_dir_all(place.path(&name).join("hooks")).unwrap();
        place.script(&format!("{name}/hooks/{hook}"), hook);
        let text = place.refused(&remote(place.url(&name))).await;
        assert!(text.contains(&format!("hooks/{hook} would run")) && text.contains("ssh://"), "{text}");
        // The hook is planted between the check and the push.
        let server = place.git.as_service(&[]);
        let pushing = format!("--receive-pack={server} receive-pack");
        let push = place.git.command(["push", "--quiet", &pushing, &place.url(&name), "HEAD:refs/heads/late"]);
        push.directory(&place.path("near")).run().await.unwrap();
        assert_eq!(place.marks(), Vec::<String>::new(), "{hook}");
        place.plain_push(&name, "control").await;
        assert_eq!(place.taken(), [hook], "the control");
    }
    place.bare("configured.git").await;
    for setting in ["core.hooksPath", "hook.x.command"] {
        place.run(&["config", setting, "/x"], &place.path("configured.git")).await;
        let text = place.refused(&remote(place.url("configured.git"))).await;
        assert!(text.contains(&setting.to_lowercase()), "{text}");
        place.run(&["config", "--unset", setting], &place.path("configured.git")).await;
    }
    assert!(place.git.route(&remote(place.url("configured.git"))).await.is_ok());
}

#[tokio::test]
async fn a_repository_of_another_user_is_served_as_that_user() {
    let place = place().await;
    place.bare("theirs.git").await;
    std::fs::create_dir_all(place.path("theirs.git/hooks")).unwrap();
    place.script("theirs.git/hooks/pre-receive", "pre-receive");
    if !place.give_away("theirs.git") {
        return;
    }
    place.plain_push("theirs.git", "control").await;
    let mark = place.path("marks/pre-receive");
    let control = std::fs::read_to_string(&mark).unwrap();
    assert!(control.starts_with("0\n") && control.contains("SERVICE_SECRET=planted"), "the control: {control}");
    std::fs::remove_file(&mark).unwrap();
    assert!(place.give_away("theirs.git"));
    for (url, branch) in [(place.url("theirs.git"), "path"), (format!("file://{}", place.url("%74heirs.git")), "url")] {
        place.push(&remote(url.clone()), branch).await.unwrap();
        let seen = std::fs::read_to_string(&mark).unwrap();
        assert!(seen.starts_with(&format!("{OTHER}\n")), "{seen}");
        assert!(!seen.contains("planted"), "{seen}");
        std::fs::remove_file(&mark).unwrap();
        assert!(place.heads(&remote(url)).await.unwrap().contains(&format!("refs/heads/{branch}")));
    }
    // The repository is swapped for another one between the check and the push: git checks the owner itself.
    let route = Route { address: place.url("theirs.git"), server: Some(place.git.as_service(&[])) };
    let ask = place.git.command(["ls-remote", &route.reading().unwrap(), route.address()]).run().await;
    assert!(ask.unwrap_err().to_string().contains("dubious ownership"));
}

#[tokio::test]
async fn alternates_of_another_user_bring_nothing_that_this_user_cannot_read() {
    let place = place().await;
    place.bare("theirs.git").await;
    std::fs::set_permissions(place.path("near"), PermissionsExt::from_mode(0o700)).unwrap();
    let secret = place.git.at(&place.path("near/.git"), ["rev-parse", "HEAD"]).run().await.unwrap().text().unwrap();
    std::fs::create_dir_all(place.path("theirs.git/objects/info")).unwrap();
    std::fs::write(place.path("theirs.git/objects/info/alternates"), format!("{}/.git/objects\n", place.url("near")))
        .unwrap();
    std::fs::write(place.path("theirs.git/refs/heads/main"), format!("{secret}\n")).unwrap();
    if !place.give_away("theirs.git") {
        return;
    }
    place.bare("taker.git").await;
    let route = place.git.route(&remote(place.url("theirs.git"))).await.unwrap();
    let fetch = |reading: Option<String>| {
        let arguments = ["fetch", "--quiet"].map(str::to_owned).into_iter().chain(reading);
        let address = [route.address(), "main:main"].map(str::to_owned);
        place.git.at(&place.path("taker.git"), arguments.chain(address))
    };
    fetch(route.reading()).run().await.unwrap_err();
    let trust = place.path("trust");
    std::fs::write(&trust, "[safe]\n\tdirectory = *\n").unwrap();
    fetch(None).env("GIT_CONFIG_GLOBAL", &trust).run().await.expect("the control: the service can read it");
}

#[tokio::test]
async fn parts_that_others_may_write_are_refused() {
    let place = place().await;
    place.bare("far.git").await;
    let objects = place.path("far.git/objects");
    std::fs::set_permissions(&objects, PermissionsExt::from_mode(0o777)).unwrap();
    let text = place.refused(&remote(place.url("far.git"))).await;
    assert!(text.contains("is writable by all users") && text.contains("chmod"), "{text}");
    std::fs::set_permissions(&objects, PermissionsExt::from_mode(0o755)).unwrap();
    assert!(place.git.route(&remote(place.url("far.git"))).await.is_ok());
    if chown(&objects, Some(OTHER), None).is_ok() {
        let text = place.refused(&remote(place.url("far.git"))).await;
        assert!(text.contains("belongs to user 65534") && text.contains("chown"), "{text}");
    }
}

#[tokio::test]
async fn a_service_that_is_not_root_uses_no_repository_of_another() {
    let place = place().await;
    place.bare("far.git").await;
    let owner = geteuid().as_raw();
    let error = find(&place.path("far.git"), &[], owner + 1).unwrap_err().to_string();
    let says = format!("belongs to user {owner}, but the service runs as user {}", owner + 1);
    assert!(error.contains(&says) && error.contains("chown"), "{error}");
}

#[tokio::test]
async fn no_path_leads_into_the_folders_of_the_service() {
    let mut place = place().await;
    std::fs::create_dir(place.path("own")).unwrap();
    place.bare("own/shop.git").await;
    assert!(place.git.route(&remote(place.url("own/shop.git"))).await.is_ok(), "the control");
    place.git = place.git.clone().with_own_folders([place.path("own")]);
    std::os::unix::fs::symlink(place.path("own/shop.git"), place.path("link")).unwrap();
    std::os::unix::fs::symlink(place.path("own"), place.path("folder")).unwrap();
    let own = place.url("own/shop.git");
    for url in [
        own.clone(),
        place.url("own/shop"),
        place.url("near/../own/shop.git"),
        place.url("link"),
        place.url("folder/shop.git"),
        format!("file://{own}"),
        format!("file://{}", place.url("o%77n/shop.git")),
    ] {
        let text = place.refused(&remote(url.clone())).await;
        assert!(text.contains("local:<name>"), "{url}: {text}");
    }
    let ours = Remote { is_ours: true, ..remote(own) };
    place.push(&ours, "main").await.unwrap();
    assert!(place.heads(&ours).await.unwrap().contains("refs/heads/main"));
}

#[tokio::test]
async fn what_is_no_repository_is_said() {
    let place = place().await;
    let missing = place.git.route(&remote(place.url("missing"))).await.unwrap_err();
    assert_eq!(missing.failure(), crate::Failure::NotFound, "{missing}");
    std::fs::create_dir(place.path("worktree")).unwrap();
    std::fs::write(place.path("worktree/.git"), "gitdir: /elsewhere\n").unwrap();
    assert!(place.refused(&remote(place.url("worktree"))).await.contains("worktree or a submodule"));
    let url = place.git.route(&remote("https://example.com/a.git")).await.unwrap();
    assert_eq!((url.address(), url.reading(), url.pushing()), ("https://example.com/a.git", None, None));
}
