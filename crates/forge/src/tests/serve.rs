//! Tests of the built-in host with real git clients, through a minimal HTTP server.

use std::path::PathBuf;

use bytes::Bytes;
use futures::{StreamExt, stream};
use journeyman_core::ports::{GitHttpRequest, GitServer, GitServerError};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::LocalHost;

fn git_request(method: &str, path: &str, query: &str, body: Vec<u8>) -> GitHttpRequest {
    GitHttpRequest {
        method: method.to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        content_type: None,
        content_encoding: None,
        git_protocol: None,
        user: "bob".to_owned(),
        body: Box::pin(stream::iter([Ok::<_, std::io::Error>(Bytes::from(body))])),
    }
}

/// Answers one request and closes the connection.
async fn answer(host: LocalHost, project: Project, mut socket: TcpStream) {
    let (reader, mut writer) = socket.split();
    let mut reader = BufReader::new(reader);
    let mut line = String::new();
    reader.read_line(&mut line).await.unwrap();
    let mut words = line.split_whitespace();
    let (method, target) = (words.next().unwrap().to_owned(), words.next().unwrap().to_owned());
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let mut request = git_request(&method, path.strip_prefix("/shop.git").unwrap(), query, vec![]);
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).await.unwrap();
        let Some((name, value)) = header.trim().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap(),
            "content-type" => request.content_type = Some(value.to_owned()),
            "content-encoding" => request.content_encoding = Some(value.to_owned()),
            "git-protocol" => request.git_protocol = Some(value.to_owned()),
            _ => {}
        }
    }
    let mut sent = vec![0; length];
    reader.read_exact(&mut sent).await.unwrap();
    request.body = Box::pin(stream::iter([Ok::<_, std::io::Error>(Bytes::from(sent))]));
    let mut response = host.serve(&project, request).await.unwrap();
    let mut head = format!("HTTP/1.1 {} Answer\r\nConnection: close\r\n", response.status);
    for (name, value) in &response.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    writer.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
    while let Some(piece) = response.body.next().await {
        writer.write_all(&piece.unwrap()).await.unwrap();
    }
}

/// Starts a server for the repository and returns its address.
pub(super) async fn server(setup: &Setup) -> String {
    server_of(setup, &setup.project).await
}

async fn server_of(setup: &Setup, project: &Project) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/shop.git", listener.local_addr().unwrap());
    let (host, project) = (setup.hosts.local().clone(), project.clone());
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(answer(host.clone(), project.clone(), socket));
        }
    });
    address
}

#[tokio::test]
async fn a_client_clones_and_pushes() {
    let setup = setup().await;
    let address = server(&setup).await;
    setup.run(&["clone", "-q", &address, "far"], setup.dir.path()).await;
    let far = setup.dir.path().join("far");
    // The content is hard to compress and larger than a pipe.
    let noise: Vec<u8> = (0..100_000_u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8).collect();
    std::fs::write(far.join("noise"), noise).unwrap();
    setup.run(&["add", "-A"], &far).await;
    setup.run(&["commit", "-q", "-m", "Noise"], &far).await;
    setup.run(&["push", "-q", "origin", "HEAD:refs/heads/topic"], &far).await;
    setup.run(&["fetch", "-q", "origin", "topic"], &setup.dir.path().join("clone")).await;
    setup.open(&pull("topic")).await.unwrap();
}

#[tokio::test]
async fn a_partial_clone_fetches_missing_objects_with_every_version_of_the_protocol() {
    let setup = setup().await;
    let address = server(&setup).await;
    let path = setup.hosts.local().path("shop");
    setup.commit("main", "old.txt", "old content\n").await;
    setup.commit("main", "old.txt", "new content\n").await;
    let git = async |arguments: &[&str]| setup.git.at(&path, arguments).run().await.unwrap().text().unwrap();
    // Two commits that no branch has: a hidden ref leads to the first.
    let hidden = git(&["commit-tree", "-m", "hidden", "-p", "main", "main^{tree}"]).await;
    git(&["update-ref", "refs/journeyman/kept", &hidden]).await;
    let lost = git(&["commit-tree", "-m", "lost", "-p", "main", "main^{tree}"]).await;
    let earlier = git(&["rev-parse", "main~1"]).await;
    for version in [0, 1, 2] {
        let (folder, protocol) = (format!("partial-{version}"), format!("protocol.version={version}"));
        let clone = ["-c", &protocol, "clone", "-q", "--filter=blob:none", "--no-checkout", &address, &folder];
        setup.run(&clone, setup.dir.path()).await;
        let clone = setup.dir.path().join(&folder);
        let run = async |arguments: &[&str]| {
            let arguments = ["-c", protocol.as_str()].into_iter().chain(arguments.iter().copied());
            setup.client(arguments).directory(&clone).run().await
        };
        let missing = run(&["rev-list", "--objects", "--missing=print", "--all"]).await.unwrap().text().unwrap();
        assert!(missing.contains("\n?"), "{version}: no file was fetched: {missing}");
        run(&["checkout", "-q", "main"]).await.unwrap();
        assert_eq!(std::fs::read_to_string(clone.join("old.txt")).unwrap(), "new content\n", "{version}");
        let shown = run(&["show", &format!("{earlier}:old.txt")]).await.unwrap().text().unwrap();
        assert_eq!(shown, "old content", "{version}: an object of the history");
        run(&["fetch", "-q", "origin", &earlier]).await.unwrap();
        let refs = run(&["ls-remote", "origin"]).await.unwrap().text().unwrap();
        assert!(!refs.contains("refs/journeyman"), "{version}: {refs}");
        // Protocol v2 has no check, and the others show no more than it does.
        run(&["fetch", "-q", "origin", &hidden]).await.unwrap();
        let fetched = run(&["fetch", "-q", "origin", &lost]).await;
        assert_eq!(fetched.is_ok(), version == 2, "{version}: {fetched:?}");
        let unknown = run(&["fetch", "-q", "origin", &"7".repeat(40)]).await;
        assert!(unknown.is_err(), "{version}");
    }
}

#[tokio::test]
async fn a_push_makes_the_comparison_of_pull_requests_due() {
    let setup = setup().await;
    let address = server(&setup).await;
    setup.store.create_project(setup.project.clone(), [].into()).await.unwrap();
    setup.commit("topic", "a.txt", "a\n").await;
    setup.open(&pull("topic")).await.unwrap();
    let now = Timestamp::from_micros(1_000_000_000_000_000);
    let due = async || setup.store.claim_comparisons(now, Duration::from_secs(60), 10).await.unwrap();
    assert_eq!(due().await, []);
    setup.run(&["clone", "-q", &address, "far"], setup.dir.path()).await;
    assert_eq!(due().await, [], "a fetch changes nothing");
    let far = setup.dir.path().join("far");
    setup.run(&["commit", "-q", "--allow-empty", "-m", "More"], &far).await;
    setup.run(&["push", "-q", "origin", "HEAD:main"], &far).await;
    let [due] = due().await.try_into().unwrap();
    assert_eq!(due.project, setup.project.id);
}

/// Clones an empty repository of `project`, with a commit on `branches`, and returns the address and the clone.
async fn branched(setup: &Setup, project: &Project, branches: &[&str]) -> (String, PathBuf) {
    setup.hosts.prepare(project).await.unwrap();
    let address = server_of(setup, project).await;
    let source = setup.dir.path().join("source");
    setup.run(&["init", "-q", "-b", branches[0], "source"], setup.dir.path()).await;
    setup.run(&["commit", "-q", "--allow-empty", "-m", "First"], &source).await;
    for branch in &branches[1..] {
        setup.run(&["branch", branch], &source).await;
    }
    (address, source)
}

async fn head_after_mirror_push(project: Project, branches: &[&str]) -> String {
    let setup = setup().await;
    let (address, source) = branched(&setup, &project, branches).await;
    setup.run(&["push", "-q", "--mirror", &address], &source).await;
    let path = setup.hosts.local().path("fresh");
    setup.git.at(&path, ["symbolic-ref", "HEAD"]).run().await.unwrap().text().unwrap()
}

#[tokio::test]
async fn the_default_branch_follows_the_first_push() {
    let fresh = || project("local:fresh");
    let chosen = Project { reference: Some("develop".to_owned()), ..fresh() };
    for (project, branches, expected) in [
        (fresh(), &["master", "dependabot/npm/foo", "develop"] as &[&str], "master"),
        (fresh(), &["develop", "trunk"], "trunk"),
        (fresh(), &["develop"], "develop"),
        (fresh(), &["a", "develop"], "main"),
        (chosen, &["a", "develop"], "develop"),
    ] {
        let head = head_after_mirror_push(project, branches).await;
        assert_eq!(head, format!("refs/heads/{expected}"), "{branches:?}");
    }
}

#[tokio::test]
async fn later_pushes_keep_the_default_branch_which_cannot_be_deleted() {
    let setup = setup().await;
    let (address, source) = branched(&setup, &project("local:fresh"), &["develop"]).await;
    setup.run(&["push", "-q", &address, "develop", "develop:main"], &source).await;
    setup.run(&["push", "-q", &address, "develop:master"], &source).await;
    let path = setup.hosts.local().path("fresh");
    let head = setup.git.at(&path, ["symbolic-ref", "HEAD"]).run().await.unwrap().text().unwrap();
    assert_eq!(head, "refs/heads/main");
    let deleted = setup.client(["push", "-q", &address, ":main"]).directory(&source).run().await;
    assert!(deleted.unwrap_err().to_string().contains("main is the default branch, and cannot be deleted."));
}

#[tokio::test]
async fn pushes_cannot_remove_commits_from_the_default_branch_unless_the_project_allows_it() {
    let setup = setup().await;
    let clone = setup.dir.path().join("clone");
    setup.commit("main", "a.txt", "a\n").await;
    setup.run(&["push", "-q", "origin", "HEAD:refs/heads/topic"], &clone).await;
    setup.run(&["commit", "-q", "--amend", "-m", "Rewritten"], &clone).await;
    let before = setup.revision("main").await;
    let address = server(&setup).await;
    let force = ["push", "-q", "--force", &address, "HEAD:main", "HEAD:other"];
    let refused = setup.client(force).directory(&clone).run().await.unwrap_err().to_string();
    for text in ["this push would remove commits from it", "codeHost.allowForcePush", "Nothing was pushed."] {
        assert!(refused.contains(text), "{text} is not in {refused}");
    }
    assert_eq!(setup.revision("main").await, before);
    setup.run(&["push", "-q", "--force", &address, "HEAD:topic"], &clone).await;
    setup.run(&["push", "-q", &address, &format!("{before}:refs/heads/main")], &clone).await;

    let mut allowing = setup.project.clone();
    allowing.settings.code_host.allow_force_push = true;
    let address = server_of(&setup, &allowing).await;
    setup.run(&["push", "-q", "--force", &address, "HEAD:main"], &clone).await;
    assert_ne!(setup.revision("main").await, before);
}

#[tokio::test]
async fn options_of_a_push_are_ignored() {
    let setup = setup().await;
    let address = server(&setup).await;
    let clone = setup.dir.path().join("clone");
    setup.run(&["push", "-q", "-o", "ci.skip", &address, "HEAD:refs/heads/topic"], &clone).await;
    assert_eq!(setup.revision("topic").await, setup.revision("main").await);
}

#[tokio::test]
async fn a_partial_clone_fetches_files_when_they_are_needed() {
    let setup = setup().await;
    let address = server(&setup).await;
    setup.run(&["clone", "-q", "--no-checkout", "--filter=blob:none", &address, "part"], setup.dir.path()).await;
    let part = setup.dir.path().join("part");
    let missing = ["rev-list", "--objects", "--missing=print", "HEAD"];
    let listed = setup.client(missing).directory(&part).run().await.unwrap().text().unwrap();
    assert!(listed.contains("\n?"), "{listed}");
    setup.run(&["checkout", "-q", "main"], &part).await;
    assert_eq!(std::fs::read_to_string(part.join("README")).unwrap(), "hello\n");
}

#[tokio::test]
async fn a_mirror_push_names_the_refs_of_code_hosts_that_are_refused() {
    let setup = setup().await;
    let address = server(&setup).await;
    let clone = setup.dir.path().join("clone");
    for name in ["refs/pull/1/head", "refs/journeyman/x", "refs/notes/commits"] {
        setup.run(&["update-ref", name, "HEAD"], &clone).await;
    }
    let refspecs = ["push", &address, "HEAD:refs/heads/topic", "refs/pull/*:refs/pull/*"];
    let refspecs = refspecs.into_iter().chain(["refs/journeyman/*:refs/journeyman/*", "refs/notes/*:refs/notes/*"]);
    let error = setup.client(refspecs).directory(&clone).run().await.unwrap_err().to_string();
    for name in ["refs/pull/1/head", "refs/journeyman/x"] {
        assert!(error.contains(&format!("{name} (deny updating a hidden ref)")), "{error}");
    }
    let path = setup.hosts.local().path("shop");
    let refs = setup.git.at(&path, ["for-each-ref", "--format=%(refname)"]).run().await.unwrap().text().unwrap();
    assert_eq!(refs.lines().collect::<Vec<_>>(), ["refs/heads/main", "refs/heads/topic", "refs/notes/commits"]);
}

#[tokio::test]
async fn only_the_protocol_of_the_projects_own_repository_is_served() {
    let setup = setup().await;
    let host = setup.hosts.local();
    let refs = |project: Project| async move {
        let request = git_request("GET", "/info/refs", "service=git-upload-pack", vec![]);
        host.serve(&project, request).await.map(|found| found.status)
    };
    assert_eq!(refs(setup.project.clone()).await, Ok(200));
    assert_eq!(refs(project("local:other")).await, Err(GitServerError::NotFound));
    assert_eq!(refs(project("/srv/git/shop.git")).await, Err(GitServerError::NotFound));
    for (method, path, query) in [
        ("GET", "/HEAD", ""),
        ("GET", "/config", ""),
        ("GET", "/../other.git/info/refs", "service=git-upload-pack"),
        ("GET", "/info/refs", "service=git-upload-pack&service=git-receive-pack"),
    ] {
        let answered = host.serve(&setup.project, git_request(method, path, query, vec![])).await;
        assert_eq!(answered.err(), Some(GitServerError::NotFound), "{path}");
    }
}

#[tokio::test]
async fn the_status_of_a_refusal_by_git_is_forwarded() {
    let setup = setup().await;
    let request = git_request("POST", "/git-upload-pack", "", b"0000".to_vec());
    assert_eq!(setup.hosts.local().serve(&setup.project, request).await.unwrap().status, 415, "no content type");
}

#[tokio::test]
async fn concurrent_requests_prepare_one_repository() {
    let setup = setup().await;
    let fresh = project("local:fresh");
    let made = futures::future::join_all((0..8).map(|_| setup.hosts.prepare(&fresh))).await;
    assert_eq!(made, vec![Ok(()); 8]);
}

#[tokio::test]
async fn a_pull_request_with_a_deleted_branch_can_be_viewed() {
    let setup = setup().await;
    setup.commit("topic", "a.txt", "a\n").await;
    setup.open(&pull("topic")).await.unwrap();
    setup.run(&["push", "-q", "origin", ":refs/heads/topic"], &setup.dir.path().join("clone")).await;
    let pages = setup.hosts.local();
    let detail = pages.pull(&setup.project, 1).await.unwrap();
    assert!(!detail.mergeable && detail.commits.is_empty());
    assert_eq!(pages.ends(&setup.project, 1).await, Ok(None));
}

#[tokio::test]
async fn a_push_with_invalid_objects_is_refused() {
    let setup = setup().await;
    let address = server(&setup).await;
    let clone = setup.dir.path().join("clone");
    let object = |arguments: &[&str], input: String| {
        let command = setup.client(arguments).directory(&clone).stdin(input);
        async move { command.run().await.unwrap().text().unwrap() }
    };
    let blob = object(&["hash-object", "-w", "--stdin"], "evil".to_owned()).await;
    // The control case differs only in the file name.
    for (name, accepted) in [("good", true), (".git", false)] {
        let tree = object(&["mktree"], format!("100644 blob {blob}\t{name}\n")).await;
        let commit = object(&["commit-tree", &tree, "-m", "x"], String::new()).await;
        let refspec = format!("{commit}:refs/heads/{}", name.trim_start_matches('.'));
        let pushed = setup.client(["push", "-q", &address, &refspec]).directory(&clone).run().await;
        assert_eq!(pushed.is_ok(), accepted, "{name}: {pushed:?}");
    }
}
