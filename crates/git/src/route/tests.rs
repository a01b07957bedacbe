//! Tests with malicious path remotes. Each attack has a control case: the same push with plain git.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use journeyman_core::ports::{Reach, Remote};
use rustix::process::geteuid;

use super::Route;
use super::repository::find;
use crate::{Git, GitError, Runner};

const OTHER: u32 = 65_534;

struct Setup {
    git: Git,
    dir: tempfile::TempDir,
}

fn remote(url: impl Into<String>) -> Remote {
    Remote { url: url.into(), credential: None, is_ours: false, reach: Reach::Public }
}

/// Creates a repository `near` with one commit.
async fn setup() -> Setup {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let path = "/usr/local/bin:/usr/bin:/bin".into();
    let secret = vec![("SERVICE_SECRET".into(), "planted".into())];
    let git = Git::new(Runner { program: "git".into(), path, environment: secret, askpass: None });
    let setup = Setup { git, dir };
    std::fs::create_dir(setup.path("marks")).unwrap();
    std::fs::set_permissions(setup.path("marks"), PermissionsExt::from_mode(0o777)).unwrap();
    setup.run(&["init", "--quiet", "--initial-branch=main", "near"], setup.dir.path()).await;
    std::fs::write(setup.path("near/file"), "text").unwrap();
    setup.run(&["add", "file"], &setup.path("near")).await;
    setup.run(&["commit", "--quiet", "--message", "x"], &setup.path("near")).await;
    setup
}

impl Setup {
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

    /// Removes the marks and returns their names.
    fn take_marks(&self) -> Vec<String> {
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

    /// Changes the owner of a repository, which only root can do. Returns whether it worked.
    fn change_owner(&self, name: &str) -> bool {
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
    let setup = setup().await;
    setup.bare("other.git").await;
    setup.run(&["clone", "--quiet", "near", "far"], setup.dir.path()).await;
    let far = setup.path("far");
    setup.run(&["commit", "--quiet", "--allow-empty", "--message", "y"], &setup.path("near")).await;
    std::fs::write(far.join(".git/objects/info/alternates"), format!("{}/objects\n", setup.url("other.git"))).unwrap();
    // Uses an include, which could hide the settings.
    let program = |name: &str| setup.script(&format!("far/.git/{name}"), name);
    let (alternates, smudge, gc) = (program("alternates"), program("smudge"), program("gc"));
    let text = format!(
        "[core]\n\talternateRefsCommand = {alternates}\n[filter \"evil\"]\n\tsmudge = {smudge}\n[receive]\n\
         \tdenyCurrentBranch = updateInstead\n\tautogc = true\n[gc]\n\tauto = 1\n\trecentObjectsHook = {gc}\n"
    );
    std::fs::write(far.join(".git/more"), text).unwrap();
    std::fs::write(far.join(".git/info/attributes"), "* filter=evil\n").unwrap();
    setup.run(&["config", "include.path", "more"], &far).await;
    setup.push(&remote(setup.url("far")), "topic").await.unwrap();
    let refused = setup.push(&remote(setup.url("far")), "main").await.unwrap_err();
    assert!(refused.to_string().contains("refusing to update checked out branch"), "{refused}");
    assert!(setup.heads(&remote(setup.url("far"))).await.unwrap().contains("refs/heads/topic"));
    assert_eq!(setup.marks(), Vec::<String>::new());
    setup.plain_push("far", "control").await;
    assert!(setup.take_marks().contains(&"alternates".to_owned()), "the control");
}

#[tokio::test]
async fn hooks_of_the_services_user_are_refused_and_not_skipped() {
    let setup = setup().await;
    for hook in ["pre-receive", "update", "post-receive", "post-update", "reference-transaction"] {
        let name = format!("{hook}.git");
        setup.bare(&name).await;
        std::fs::create_dir_all(setup.path(&name).join("hooks")).unwrap();
        setup.script(&format!("{name}/hooks/{hook}"), hook);
        let text = setup.refused(&remote(setup.url(&name))).await;
        assert!(text.contains(&format!("hooks/{hook} would run")) && text.contains("ssh://"), "{text}");
        // The hook is planted between the check and the push.
        let server = setup.git.as_service(&[]);
        let pushing = format!("--receive-pack={server} receive-pack");
        let push = setup.git.command(["push", "--quiet", &pushing, &setup.url(&name), "HEAD:refs/heads/late"]);
        push.directory(&setup.path("near")).run().await.unwrap();
        assert_eq!(setup.marks(), Vec::<String>::new(), "{hook}");
        setup.plain_push(&name, "control").await;
        assert_eq!(setup.take_marks(), [hook], "the control");
    }
    setup.bare("configured.git").await;
    for setting in ["core.hooksPath", "hook.x.command"] {
        setup.run(&["config", setting, "/x"], &setup.path("configured.git")).await;
        let text = setup.refused(&remote(setup.url("configured.git"))).await;
        assert!(text.contains(&setting.to_lowercase()), "{text}");
        setup.run(&["config", "--unset", setting], &setup.path("configured.git")).await;
    }
    assert!(setup.git.route(&remote(setup.url("configured.git"))).await.is_ok());
}

#[tokio::test]
async fn a_repository_of_another_user_is_served_as_that_user() {
    let setup = setup().await;
    setup.bare("theirs.git").await;
    std::fs::create_dir_all(setup.path("theirs.git/hooks")).unwrap();
    setup.script("theirs.git/hooks/pre-receive", "pre-receive");
    if !setup.change_owner("theirs.git") {
        return;
    }
    setup.plain_push("theirs.git", "control").await;
    let mark = setup.path("marks/pre-receive");
    let control = std::fs::read_to_string(&mark).unwrap();
    assert!(control.starts_with("0\n") && control.contains("SERVICE_SECRET=planted"), "the control: {control}");
    std::fs::remove_file(&mark).unwrap();
    assert!(setup.change_owner("theirs.git"));
    for (url, branch) in [(setup.url("theirs.git"), "path"), (format!("file://{}", setup.url("%74heirs.git")), "url")] {
        setup.push(&remote(url.clone()), branch).await.unwrap();
        let seen = std::fs::read_to_string(&mark).unwrap();
        assert!(seen.starts_with(&format!("{OTHER}\n")), "{seen}");
        assert!(!seen.contains("planted"), "{seen}");
        std::fs::remove_file(&mark).unwrap();
        assert!(setup.heads(&remote(url)).await.unwrap().contains(&format!("refs/heads/{branch}")));
    }
    // The repository is swapped for another one between the check and the push: git checks the owner itself.
    let route = Route::to_path(&remote(""), setup.url("theirs.git"), setup.git.as_service(&[]));
    let ask = setup.git.command(["ls-remote", &route.reading().unwrap(), route.address()]).run().await;
    assert!(ask.unwrap_err().to_string().contains("dubious ownership"));
}

#[tokio::test]
async fn alternates_of_another_user_give_no_access_to_objects_of_the_service() {
    let setup = setup().await;
    setup.bare("theirs.git").await;
    std::fs::set_permissions(setup.path("near"), PermissionsExt::from_mode(0o700)).unwrap();
    let secret = setup.git.at(&setup.path("near/.git"), ["rev-parse", "HEAD"]).run().await.unwrap().text().unwrap();
    std::fs::create_dir_all(setup.path("theirs.git/objects/info")).unwrap();
    std::fs::write(setup.path("theirs.git/objects/info/alternates"), format!("{}/.git/objects\n", setup.url("near")))
        .unwrap();
    std::fs::write(setup.path("theirs.git/refs/heads/main"), format!("{secret}\n")).unwrap();
    if !setup.change_owner("theirs.git") {
        return;
    }
    setup.bare("taker.git").await;
    let route = setup.git.route(&remote(setup.url("theirs.git"))).await.unwrap();
    let fetch = |reading: Option<String>| {
        let arguments = ["fetch", "--quiet"].map(str::to_owned).into_iter().chain(reading);
        let address = [route.address(), "main:main"].map(str::to_owned);
        setup.git.at(&setup.path("taker.git"), arguments.chain(address))
    };
    fetch(route.reading()).run().await.unwrap_err();
    let trust = setup.path("trust");
    std::fs::write(&trust, "[safe]\n\tdirectory = *\n").unwrap();
    fetch(None).env("GIT_CONFIG_GLOBAL", &trust).run().await.expect("the control: the service can read it");
}

#[tokio::test]
async fn parts_that_others_may_write_are_refused() {
    let setup = setup().await;
    setup.bare("far.git").await;
    let objects = setup.path("far.git/objects");
    std::fs::set_permissions(&objects, PermissionsExt::from_mode(0o777)).unwrap();
    let text = setup.refused(&remote(setup.url("far.git"))).await;
    assert!(text.contains("is writable by all users") && text.contains("chmod"), "{text}");
    std::fs::set_permissions(&objects, PermissionsExt::from_mode(0o755)).unwrap();
    assert!(setup.git.route(&remote(setup.url("far.git"))).await.is_ok());
    if chown(&objects, Some(OTHER), None).is_ok() {
        let text = setup.refused(&remote(setup.url("far.git"))).await;
        assert!(text.contains("belongs to user 65534") && text.contains("chown"), "{text}");
    }
}

#[tokio::test]
async fn a_service_that_is_not_root_uses_no_repository_of_another_user() {
    let setup = setup().await;
    setup.bare("far.git").await;
    let owner = geteuid().as_raw();
    let error = find(&setup.path("far.git"), &[], owner + 1).unwrap_err().to_string();
    let says = format!("belongs to user {owner}, but the service runs as user {}", owner + 1);
    assert!(error.contains(&says) && error.contains("chown"), "{error}");
}

#[tokio::test]
async fn no_path_leads_into_the_folders_of_the_service() {
    let mut setup = setup().await;
    std::fs::create_dir(setup.path("own")).unwrap();
    setup.bare("own/shop.git").await;
    assert!(setup.git.route(&remote(setup.url("own/shop.git"))).await.is_ok(), "the control");
    setup.git = setup.git.clone().with_own_folders([setup.path("own")]);
    std::os::unix::fs::symlink(setup.path("own/shop.git"), setup.path("link")).unwrap();
    std::os::unix::fs::symlink(setup.path("own"), setup.path("folder")).unwrap();
    let own = setup.url("own/shop.git");
    for url in [
        own.clone(),
        setup.url("own/shop"),
        setup.url("near/../own/shop.git"),
        setup.url("link"),
        setup.url("folder/shop.git"),
        format!("file://{own}"),
        format!("file://{}", setup.url("o%77n/shop.git")),
    ] {
        let text = setup.refused(&remote(url.clone())).await;
        assert!(text.contains("local:<name>"), "{url}: {text}");
    }
    let ours = Remote { is_ours: true, ..remote(own) };
    setup.push(&ours, "main").await.unwrap();
    assert!(setup.heads(&ours).await.unwrap().contains("refs/heads/main"));
}

#[tokio::test]
async fn missing_repositories_and_worktrees_are_reported() {
    let setup = setup().await;
    let missing = setup.git.route(&remote(setup.url("missing"))).await.unwrap_err();
    assert_eq!(missing.failure(), crate::Failure::NotFound, "{missing}");
    std::fs::create_dir(setup.path("worktree")).unwrap();
    std::fs::write(setup.path("worktree/.git"), "gitdir: /elsewhere\n").unwrap();
    assert!(setup.refused(&remote(setup.url("worktree"))).await.contains("worktree or a submodule"));
    let url = setup.git.route(&remote("https://example.com/a.git")).await.unwrap();
    assert_eq!((url.address(), url.reading(), url.pushing()), ("https://example.com/a.git", None, None));
}

#[test]
fn a_folder_that_cannot_be_written_is_read_only_and_an_address_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let address = dir.path().to_str().unwrap().to_owned();
    let server = Some("git".to_owned());
    let route = Route { server, ..Route::to_path(&remote(""), address.clone(), String::new()) };
    assert!(route.is_read_only(), "there are no objects");
    std::fs::create_dir(dir.path().join("objects")).unwrap();
    assert!(!route.is_read_only());
    assert!(!Route { address: "https://example.com/a.git".to_owned(), server: None, ..route }.is_read_only());
}
