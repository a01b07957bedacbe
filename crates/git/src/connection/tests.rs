//! Tests of connections with servers that redirect, names whose address changes, and text of servers.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use journeyman_core::ports::{Credential, Reach, ReachedServers, Remote};
use journeyman_net::{Outbound, Proxies, Resolver};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::Service;
use crate::{Failure, Git, GitError, Route, Runner, write_program};

const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A resolver that gives these answers one after the other, and the last one again.
#[derive(Default)]
struct Answers(Mutex<VecDeque<&'static str>>, AtomicUsize);

#[async_trait]
impl Resolver for Answers {
    async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        self.1.fetch_add(1, Ordering::SeqCst);
        let mut answers = self.0.lock().unwrap();
        let answer = if answers.len() > 1 { answers.pop_front() } else { answers.front().copied() };
        Ok(vec![answer.ok_or(io::ErrorKind::NotFound)?.parse().unwrap()])
    }
}

/// A server that answers each request with what `answer` makes of its head.
struct Server {
    port: u16,
    /// The heads of the requests.
    seen: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn start(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, seen) = (listener.local_addr().unwrap().port(), Arc::<Mutex<Vec<String>>>::default());
        let (log, answer) = (Arc::clone(&seen), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    // The request of the git protocol ends with a zero byte, that of HTTP with an empty line.
                    while !head.ends_with(b"\r\n\r\n") && !head.ends_with(b"\0") {
                        if stream.read_buf(&mut head).await.unwrap_or(0) == 0 {
                            break;
                        }
                    }
                    let head = String::from_utf8_lossy(&head).into_owned();
                    let answer = answer(&head);
                    log.lock().unwrap().push(head);
                    let _ = stream.write_all(answer.as_bytes()).await;
                    let _ = stream.shutdown().await;
                });
            }
        });
        Self { port, seen }
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

fn http(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}Connection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Answers as a server that serves a repository as files.
fn refs(_: &str) -> String {
    http("200 OK", "Content-Type: text/plain\r\n", &format!("{}\trefs/heads/main\n", "1".repeat(40)))
}

fn git(outbound: Outbound) -> Git {
    git_at(PATH, outbound)
}

fn git_at(path: &str, outbound: Outbound) -> Git {
    let runner = Runner { program: "git".into(), path: path.into(), environment: vec![], askpass: None };
    Git::new(runner).with_outbound(outbound)
}

fn resolving(answers: impl IntoIterator<Item = &'static str>) -> (Outbound, Arc<Answers>) {
    let answers = Arc::new(Answers(Mutex::new(answers.into_iter().collect()), AtomicUsize::default()));
    (Outbound { resolver: answers.clone(), ..Outbound::default() }, answers)
}

fn remote(url: impl Into<String>, reach: Reach) -> Remote {
    Remote { url: url.into(), credential: None, is_ours: false, reach }
}

async fn heads(git: &Git, remote: &Remote) -> Result<String, GitError> {
    let list = |route: &Route| git.command(["ls-remote", "--heads", "--", route.address()]);
    git.ask(remote, Service::Read, list).await?.text()
}

#[tokio::test]
async fn a_redirect_to_another_server_is_not_followed() {
    let inside = Server::start(refs).await;
    for target in [format!("127.0.0.1:{}", inside.port), format!("localhost:{}", inside.port)] {
        for (status, with) in [("301 Moved", false), ("302 Found", true), ("307 Temporary Redirect", false)] {
            let location = format!("Location: http://{target}/x/info/refs?service=git-upload-pack\r\n");
            let server = Server::start(move |_| http(status, &location, "")).await;
            let credential = Credential { username: "bot".to_owned(), password: "s3cret".to_owned() };
            let url = format!("http://127.0.0.1:{}/x", server.port);
            let remote = Remote { credential: with.then_some(credential), ..remote(url, Reach::Private) };
            let error = heads(&git(Outbound::default()), &remote).await.unwrap_err();
            assert_eq!(error.failure(), Failure::Redirected, "{error}");
            assert!(error.to_string().contains("are not followed") && !error.to_string().contains(&target), "{error}");
            assert!(!server.seen().is_empty(), "the control");
        }
    }
    assert!(inside.seen().is_empty(), "{:?}", inside.seen());
    let url = format!("http://127.0.0.1:{}/x", inside.port);
    assert!(heads(&git(Outbound::default()), &remote(url, Reach::Private)).await.is_ok(), "the control");
}

#[tokio::test]
async fn a_redirect_within_the_host_is_followed_for_a_renamed_repository() {
    let server = Server::start(|head| {
        if head.starts_with("GET /old/") {
            return http("301 Moved", "Location: /new.git/info/refs?service=git-upload-pack\r\n", "");
        }
        refs(head)
    })
    .await;
    let url = format!("http://127.0.0.1:{}/old", server.port);
    let found = heads(&git(Outbound::default()), &remote(url, Reach::Private)).await.unwrap();
    assert!(found.ends_with("refs/heads/main"), "{found}");
    assert!(server.seen().last().unwrap().starts_with("GET /new.git/"), "{:?}", server.seen());
    let circle = Server::start(|_| http("301 Moved", "Location: /x/info/refs\r\n", "")).await;
    let url = format!("http://127.0.0.1:{}/y", circle.port);
    let error = heads(&git(Outbound::default()), &remote(url, Reach::Private)).await.unwrap_err();
    assert_eq!(error.failure(), Failure::Redirected, "{error}");
}

#[tokio::test]
async fn the_address_that_is_checked_is_the_one_that_is_reached() {
    let inside = Server::start(refs).await;
    for scheme in ["http", "https", "git", "ssh"] {
        for address in ["127.0.0.1", "169.254.169.254", "10.0.0.1", "::1", "::ffff:127.0.0.1"] {
            // The first answer is that to a check of the address, such as by the test of a project.
            let (outbound, answers) = resolving(["93.184.216.34", address]);
            outbound.resolver.resolve("git.example").await.unwrap();
            let remote = remote(format!("{scheme}://git.example:{}/x", inside.port), Reach::Public);
            let error = heads(&git(outbound), &remote).await.unwrap_err();
            assert_eq!(error.failure(), Failure::AddressRefused, "{scheme} {address}: {error}");
            assert!(error.to_string().contains("git.example"), "{error}");
            assert!(answers.1.load(Ordering::SeqCst) >= 2, "{scheme} {address}");
        }
    }
    assert!(inside.seen().is_empty(), "{:?}", inside.seen());
}

#[tokio::test]
async fn a_permitted_address_is_reached_and_recorded_and_the_server_sees_its_name() {
    let server = Server::start(refs).await;
    let (outbound, _) = resolving(["127.0.0.1"]);
    let networks = Arc::from(["127.0.0.0/8".parse().unwrap()]);
    let allowed = Outbound { networks, ..outbound.clone() };
    for (outbound, reach) in [(allowed, Reach::Public), (outbound, Reach::Private)] {
        let reached = ReachedServers::default();
        let git = git(outbound).recording(&reached);
        heads(&git, &remote(format!("http://git.example:{}/x", server.port), reach)).await.unwrap();
        assert_eq!(reached.list().as_deref(), Some("git.example (127.0.0.1)"));
        let (host, head) = (format!("Host: git.example:{}", server.port), server.seen().pop().unwrap());
        assert!(head.contains(&host), "{head}");
        // A server of the git protocol that says nothing.
        let error = heads(&git, &remote(format!("git://git.example:{}/x/y", server.port), reach)).await.unwrap_err();
        let (host, head) = (format!("/x/y\0host=git.example:{}\0", server.port), server.seen().pop().unwrap());
        assert!(head.contains(&host), "{head:?}: {error}");
    }
}

#[tokio::test]
async fn a_configured_host_that_becomes_link_local_is_refused() {
    for address in ["169.254.169.254", "fe80::1", "100.100.100.200"] {
        let (outbound, _) = resolving([address]);
        let error = heads(&git(outbound), &remote("https://git.example/x", Reach::Private)).await.unwrap_err();
        assert_eq!(error.failure(), Failure::AddressRefused, "{address}: {error}");
    }
    let localhost = remote("https://localhost/x", Reach::Private);
    let error = heads(&git(resolving(["10.0.0.1"]).0), &localhost).await.unwrap_err();
    assert_eq!(error.failure(), Failure::AddressRefused, "{error}");
}

#[tokio::test]
async fn a_command_without_a_route_reaches_no_server() {
    let server = Server::start(refs).await;
    for url in ["http", "git", "ssh"].map(|scheme| format!("{scheme}://127.0.0.1:{}/x", server.port)) {
        let error = git(Outbound::default()).command(["ls-remote", &url]).run().await.unwrap_err();
        assert!(error.to_string().contains("not allowed"), "{url}: {error}");
    }
    // A route is for one host and port.
    let other = Server::start(refs).await;
    let git = git(Outbound::default());
    let route = git.route(&remote(format!("http://127.0.0.1:{}/x", other.port), Reach::Private)).await.unwrap();
    for url in ["http://127.0.0.1", "http://localhost", "http://127.1"] {
        let url = format!("{url}:{}/x", server.port);
        git.command(["ls-remote", &url]).through(&route).run().await.unwrap_err();
    }
    assert_eq!((server.seen().len(), other.seen().len()), (0, 0));
}

#[tokio::test]
async fn text_of_a_server_is_in_no_error() {
    let answer = |status: &'static str| move |_: &str| http(status, "Content-Type: text/plain\r\n", "S3CR3T\n");
    for (status, failure) in [
        ("403 Forbidden", Failure::CredentialRefused),
        ("404 Not Found", Failure::NotFound),
        ("500 S3CR3T", Failure::Unreachable),
        ("200 OK", Failure::Other),
    ] {
        let server = Server::start(answer(status)).await;
        let url = format!("http://127.0.0.1:{}/x", server.port);
        let error = heads(&git(Outbound::default()), &remote(url, Reach::Private)).await.unwrap_err();
        assert_eq!(error.failure(), failure, "{status}: {error}");
        assert!(!error.to_string().contains("S3CR3T"), "{error}");
        assert!(error.says("S3CR3T") || !status.starts_with("40"), "the control: {error:?}");
    }
    let server = Server::start(|_| "0015ERR S3CR3T of it\n".to_owned()).await;
    let url = format!("git://127.0.0.1:{}/x", server.port);
    let error = heads(&git(Outbound::default()), &remote(url, Reach::Private)).await.unwrap_err();
    assert!(!error.to_string().contains("S3CR3T") && error.says("S3CR3T"), "{error:?}");
}

#[tokio::test]
async fn a_proxy_of_the_operator_is_used_except_for_refused_addresses() {
    let proxy = Server::start(refs).await;
    let url = format!("http://127.0.0.1:{}", proxy.port);
    let proxies = Arc::new(Proxies::new([("http_proxy", url.as_str()), ("no_proxy", "direct.example")]));
    // A name that only the proxy can resolve.
    let (unknown, _) = resolving([]);
    let outbound = Outbound { proxies: Arc::clone(&proxies), ..unknown };
    let reached = ReachedServers::default();
    let git_with_proxy = git(outbound).recording(&reached);
    heads(&git_with_proxy, &remote("http://git.example/x", Reach::Public)).await.unwrap();
    assert!(proxy.seen()[0].starts_with("GET http://git.example/x/info/refs"), "{:?}", proxy.seen());
    assert_eq!(reached.list().as_deref(), Some("git.example (through the proxy of the service)"));
    let before = proxy.seen().len();
    for url in ["http://127.0.0.1/x", "http://10.0.0.1/x", "http://169.254.169.254/x", "http://direct.example/x"] {
        let error = heads(&git_with_proxy, &remote(url, Reach::Public)).await.unwrap_err();
        assert!(
            matches!(error.failure(), Failure::AddressRefused | Failure::NotFound | Failure::Unreachable),
            "{error}"
        );
    }
    let (inside, _) = resolving(["10.0.0.1"]);
    let git = git(Outbound { proxies, ..inside });
    let error = heads(&git, &remote("http://git.example/x", Reach::Public)).await.unwrap_err();
    assert_eq!(error.failure(), Failure::AddressRefused, "{error}");
    assert_eq!(proxy.seen().len(), before);
}

/// Writes an `ssh` that prints its configuration, and otherwise connects as it is told and writes its arguments down.
fn fake_ssh(folder: &Path, configuration: &str) -> PathBuf {
    let log = folder.join("log");
    let script = format!(
        "#!/bin/sh\nfor one; do [ \"$one\" = -G ] && {{ printf '{configuration}'; exit; }}; done\n\
         printf '%s\\n' \"$@\" >> {}\n\
         for one; do case $one in -oPort=*) port=${{one#-oPort=}};; esac; done\n\
         exec perl -MIO::Socket -e 'my $s = IO::Socket::INET->new(\"127.0.0.1:$ARGV[0]\") or die; \
         print $s \"ssh\\r\\n\\r\\n\"; $s->flush; my $l = <$s>; exit 255' \"$port\"\n",
        log.display()
    );
    write_program(&folder.join("ssh"), &script).unwrap();
    log
}

#[tokio::test]
async fn ssh_connects_to_the_checked_address_and_expects_the_host_key_of_the_name() {
    let server = Server::start(|_| "no\n".to_owned()).await;
    let folder = tempfile::tempdir().unwrap();
    let path = format!("{}:{PATH}", folder.path().display());
    let configuration = format!("hostname git.example\\nport {}\\n", server.port);
    let log = fake_ssh(folder.path(), &configuration);
    let (outbound, _) = resolving(["127.0.0.1"]);
    let reached = ReachedServers::default();
    let git = git_at(&path, outbound.clone()).recording(&reached);
    for url in [format!("ssh://me@git.example:{}/x", server.port), "me@git.example:x".to_owned()] {
        heads(&git, &remote(url, Reach::Private)).await.unwrap_err();
        let arguments = std::fs::read_to_string(&log).unwrap();
        assert!(arguments.contains(&format!("-oHostKeyAlias=[git.example]:{}\n", server.port)), "{arguments}");
        assert!(arguments.contains("-oHostName=127.0.0.1\n") && arguments.contains("me@git.example\n"), "{arguments}");
        std::fs::remove_file(&log).unwrap();
    }
    assert_eq!(server.seen().len(), 2);
    assert_eq!(reached.list().as_deref(), Some("git.example (127.0.0.1)"));
    let error = heads(&git, &remote("me@git.example:x", Reach::Public)).await.unwrap_err();
    assert_eq!((error.failure(), server.seen().len()), (Failure::AddressRefused, 2), "{error}");
    // The operator has configured a jump host.
    let log = fake_ssh(folder.path(), "hostname git.example\\nproxyjump jump.example\\n");
    let _ = std::fs::remove_file(&log);
    heads(&git, &remote("me@git.example:x", Reach::Public)).await.unwrap_err();
    assert!(!std::fs::read_to_string(&log).unwrap().contains("-oHostName"));
}
