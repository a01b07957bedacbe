//! Repositories of the stand-in, and git over HTTP with `git http-backend`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Response};
use http_body_util::Full;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::{Reply, Shared, response};

/// Returns a git command. With the full path of a program, it starts without a copy of this process's page tables
/// (posix_spawn), which are large in some tests.
fn any_git() -> Command {
    let mut command = Command::new("/usr/bin/env");
    command.arg("git").env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", "/nonexistent");
    command
}

fn git(dir: &Path) -> Command {
    let mut command = any_git();
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_DIR", dir);
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "Ada").env(format!("GIT_{role}_EMAIL"), "ada@example.com");
    }
    command
}

async fn run(dir: &Path, arguments: &[&str], stdin: &[u8]) -> String {
    let mut command = git(dir);
    let mut child =
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(stdin).await.unwrap();
    let output = child.wait_with_output().await.unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Creates a bare repository with one commit on `main`.
pub(super) async fn create(dir: &Path) {
    std::fs::create_dir_all(dir).unwrap();
    run(dir, &["init", "--quiet", "--bare", "--initial-branch=main"], b"").await;
    run(dir, &["config", "http.receivepack", "true"], b"").await;
    commit(dir, "main", "README.md", "# Shop\n").await;
}

/// Adds a file to a branch.
pub(super) async fn commit(dir: &Path, branch: &str, file: &str, content: &str) -> String {
    let name = format!("refs/heads/{branch}");
    let parent = match head(dir, branch).await {
        Some(parent) => Some(parent),
        None => head(dir, "main").await,
    };
    let blob = run(dir, &["hash-object", "-w", "--stdin"], content.as_bytes()).await;
    let index = dir.join(format!("index-{}", blob));
    let in_index = |arguments: Vec<String>| {
        let mut command = git(dir);
        command.env("GIT_INDEX_FILE", &index).args(arguments).stdout(Stdio::piped());
        async move {
            let output = command.output().await.unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        }
    };
    if let Some(parent) = &parent {
        in_index(vec!["read-tree".into(), parent.clone()]).await;
    }
    in_index(vec!["update-index".into(), "--add".into(), "--cacheinfo".into(), format!("100644,{blob},{file}")]).await;
    let tree = in_index(vec!["write-tree".into()]).await;
    let _ = std::fs::remove_file(&index);
    let message = format!("Change {file}");
    let mut arguments = vec!["commit-tree", &tree, "-m", &message];
    if let Some(parent) = &parent {
        arguments.extend(["-p", parent]);
    }
    let commit = run(dir, &arguments, b"").await;
    run(dir, &["update-ref", &name, &commit], b"").await;
    commit
}

/// Moves a branch to a commit.
pub(super) async fn move_branch(dir: &Path, branch: &str, commit: &str) {
    run(dir, &["update-ref", &format!("refs/heads/{branch}"), commit], b"").await;
}

/// Returns the newest commit of a branch.
pub(super) async fn head(dir: &Path, branch: &str) -> Option<String> {
    branches(dir).await.remove(branch)
}

/// Returns the newest commit of each branch.
async fn branches(dir: &Path) -> BTreeMap<String, String> {
    heads(dir).await.into_iter().map(|(name, sha, _)| (name, sha)).collect()
}

/// Returns the name, the newest commit and its parents of each branch.
pub(super) async fn heads(dir: &Path) -> Vec<(String, String, Vec<String>)> {
    let format = "--format=%(objectname) %(refname:lstrip=2) %(parent)";
    let listed = run(dir, &["for-each-ref", format, "refs/heads"], b"").await;
    let lines = listed.lines().map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    lines.filter_map(|line| Some((line.get(1)?.clone(), line.first()?.clone(), line[2..].to_vec()))).collect()
}

/// Returns all commits that branches and the refs of pull requests contain, with their parents.
pub(super) async fn commits(dir: &Path) -> BTreeMap<String, Vec<String>> {
    let listed = run(dir, &["rev-list", "--all", "--parents"], b"").await;
    let lines = listed.lines().map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    lines.filter_map(|line| line.split_first().map(|(sha, parents)| (sha.clone(), parents.to_vec()))).collect()
}

/// Decodes `%xx` in a segment of a path.
pub(super) fn decoded(text: &str) -> String {
    // The parser of queries would read a plus sign as a space.
    let text = text.replace('+', "%2B");
    url::form_urlencoded::parse(format!("x={text}").as_bytes()).next().map(|(_, value)| value.into_owned()).unwrap()
}

/// Splits the path of a request of git into that of the repository, which may end with `.git`, and the rest; `None` for
/// other requests.
pub(super) fn split(path: &str) -> Option<(&str, &str)> {
    let requests = ["info/refs", "git-upload-pack", "git-receive-pack"];
    requests.into_iter().find_map(|request| {
        let repository = path.strip_suffix(request)?.strip_suffix('/')?;
        Some((repository.strip_suffix(".git").unwrap_or(repository), request))
    })
}

/// Answers a request of git. A repository can be reached by its earlier paths too.
pub(super) async fn answer(shared: &Shared, head: &Parts, body: &Bytes) -> Response<Full<Bytes>> {
    let path = decoded(head.uri.path());
    let path = path.trim_start_matches('/').trim_start_matches("scm/");
    let (repository, below) = split(path).unwrap();
    let unauthorized = || {
        let reply = Reply::text(401, "Authentication required\n");
        response(reply.header("www-authenticate", "Basic realm=\"stand-in\""))
    };
    let token = head.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(|value| {
        let (kind, value) = value.split_once(' ')?;
        match kind {
            "Basic" => String::from_utf8(STANDARD.decode(value).ok()?).ok()?.split_once(':').map(|(_, p)| p.to_owned()),
            _ => Some(value.to_owned()),
        }
    });
    let is_push = head.uri.query().unwrap_or_default().contains("git-receive-pack") || below == "git-receive-pack";
    let folder = {
        let mut state = shared.state.lock().unwrap();
        let Some((_, token)) = state.signed_in(token.as_deref()) else { return unauthorized() };
        let renamed = state.renamed(repository).map(|repository| repository.path.clone());
        let found = state.by_path(&renamed.unwrap_or_else(|| repository.to_owned()));
        let Some(found) = found.filter(|found| token.reaches(found)) else {
            return response(Reply::text(404, "Repository not found.\n"));
        };
        if is_push && found.is_archived {
            return response(Reply::text(403, "This repository was archived so it is read-only.\n"));
        }
        if is_push && !token.can_write {
            return response(Reply::text(403, "Write access to repository not granted.\n"));
        }
        found.folder.clone()
    };
    let mut command = any_git();
    command
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", shared.folder.path())
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", format!("/{folder}/{below}"))
        .env("QUERY_STRING", head.uri.query().unwrap_or_default())
        .env("REQUEST_METHOD", head.method.as_str())
        .env("REMOTE_USER", "journeyman-bot")
        .env("CONTENT_LENGTH", body.len().to_string());
    for (name, variable) in [
        (CONTENT_TYPE, "CONTENT_TYPE"),
        (CONTENT_ENCODING, "HTTP_CONTENT_ENCODING"),
        (HeaderName::from_static("git-protocol"), "GIT_PROTOCOL"),
    ] {
        if let Some(value) = head.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()) {
            command.env(variable, value);
        }
    }
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let sent = body.clone();
    let writing = tokio::spawn(async move {
        let _ = stdin.write_all(&sent).await;
    });
    let output = child.wait_with_output().await.unwrap().stdout;
    writing.await.unwrap();
    let end = output.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let mut reply = Reply { status: 200, headers: Vec::new(), body: Bytes::copy_from_slice(&output[end + 4..]) };
    for line in String::from_utf8_lossy(&output[..end]).lines() {
        let (name, value) = line.split_once(": ").unwrap();
        match name {
            "Status" => reply.status = value[..3].parse().unwrap(),
            _ => reply.headers.push((name.to_lowercase(), value.to_owned())),
        }
    }
    response(reply)
}
