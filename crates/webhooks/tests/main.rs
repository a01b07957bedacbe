//! Tests of the sender with real sockets: signatures, hostile endpoints, and addresses that it must not connect to.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use journeyman_core::ids::WebhookId;
use journeyman_core::job::feed::example_event;
use journeyman_core::ports::WebhookSender;
use journeyman_core::time::Timestamp;
use journeyman_core::webhook::{Response, Webhook, WebhookFormat, WebhookSecret, WebhookSecrets, WebhookSettings};
use journeyman_net::Resolver;
use journeyman_testkit::{PATIENCE, within};
use journeyman_webhooks::Sender;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use uuid::Uuid;

const NOW: Timestamp = Timestamp::from_micros(1_795_338_000_000_000);

/// A resolver whose answers to all names are given; the last one stays.
struct Names(Mutex<VecDeque<Vec<IpAddr>>>);

#[async_trait]
impl Resolver for Names {
    async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        let mut answers = self.0.lock().unwrap();
        Ok(if answers.len() > 1 { answers.pop_front().unwrap() } else { answers[0].clone() })
    }
}

fn names(answers: &[&[&str]]) -> Arc<Names> {
    let addresses = |answer: &&[&str]| answer.iter().map(|address| address.parse().unwrap()).collect();
    Arc::new(Names(Mutex::new(answers.iter().map(addresses).collect())))
}

/// Returns a sender that may connect to this machine.
fn local() -> Sender {
    let sender = Sender::new(&["127.0.0.0/8".parse().unwrap()], names(&[&["127.0.0.1"]]), "https://jm.example");
    sender.with_time(PATIENCE)
}

/// Returns a sender that may connect to public addresses, and to those of documents (RFC 5737), behind which is nothing.
fn public(names: Arc<Names>) -> Sender {
    let documents = ["192.0.2.0/24".parse().unwrap(), "203.0.113.0/24".parse().unwrap()];
    Sender::new(&documents, names, "").with_time(PATIENCE)
}

fn webhook(url: &str) -> Webhook {
    let settings = WebhookSettings {
        url: url.to_owned(),
        kinds: Vec::new(),
        format: WebhookFormat::Standard,
        description: String::new(),
    };
    Webhook {
        id: WebhookId::from_uuid(Uuid::nil()),
        project: "shop".parse().unwrap(),
        settings,
        disabled: None,
        failing_since: None,
        created_at: NOW,
        old_secret_until: None,
        version: 1,
    }
}

fn secrets() -> WebhookSecrets {
    let secret = |letter: &str| WebhookSecret::parse(&format!("whsec_{}", letter.repeat(32))).unwrap();
    WebhookSecrets { current: secret("A"), old: Some((secret("B"), NOW + Duration::from_secs(9))) }
}

async fn send(sender: &Sender, url: &str) -> Response {
    let event = example_event(&"shop".parse().unwrap(), NOW);
    sender.send(&webhook(url), &secrets(), &event, NOW).await.response
}

fn failure(response: Response) -> String {
    let Response::Failed(text) = response else { unreachable!("{response:?}") };
    text
}

/// Reads a request, and returns its head and its body.
async fn request(stream: &mut TcpStream) -> (String, Vec<u8>) {
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).await.unwrap();
        bytes.extend_from_slice(&piece[..count]);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        if bytes.len() >= end + 4 + length.parse::<usize>().unwrap() {
            return (head, bytes[end + 4..].to_vec());
        }
    }
}

/// Starts an endpoint that handles one connection, and returns its URL.
async fn endpoint<F: Future<Output = ()> + Send + 'static>(
    handle: impl FnOnce(TcpStream) -> F + Send + 'static,
) -> (String, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://hooks.example:{}/in?a=b", listener.local_addr().unwrap().port());
    let task = tokio::spawn(async move { handle(listener.accept().await.unwrap().0).await });
    (url, task)
}

#[tokio::test]
async fn a_request_is_signed_with_all_valid_secrets_over_its_id_its_time_and_its_body() {
    let (url, task) = endpoint(|mut stream| async move {
        let (head, body) = request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        let header =
            |name: &str| head.lines().find_map(|line| line.strip_prefix(&format!("{name}: "))).unwrap().to_owned();
        assert!(head.starts_with("post /in?a=b http/1.1"), "{head}");
        assert_eq!(header("content-type"), "application/json");
        let (id, seconds) = (header("webhook-id"), header("webhook-timestamp"));
        assert_eq!(seconds, "1795338000");
        for letter in ["A", "B"] {
            let key = STANDARD.decode(letter.repeat(32)).unwrap();
            let mut mac = Hmac::<sha2::Sha256>::new_from_slice(&key).unwrap();
            mac.update(format!("{id}.{seconds}.").as_bytes());
            mac.update(&body);
            let expected = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())).to_lowercase();
            assert!(header("webhook-signature").split(' ').any(|signature| signature == expected), "{head}");
        }
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["type"], "job.completed");
    })
    .await;
    assert_eq!(send(&local(), &url).await, Response::Status(204, String::new()));
    task.await.unwrap();
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let (url, task) = endpoint(|mut stream| async move {
        request(&mut stream).await;
        let answer = b"HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 2\r\n\r\nno";
        stream.write_all(answer).await.unwrap();
    })
    .await;
    assert_eq!(send(&local(), &url).await, Response::Status(302, "no".to_owned()));
    task.await.unwrap();
}

#[tokio::test]
async fn an_endless_answer_is_read_only_at_its_beginning() {
    const PIECE: usize = 1 << 16;
    // The buffers of a connection have at most 10 MiB on Linux (net.ipv4.tcp_rmem and tcp_wmem).
    const BUFFERS: usize = 16 << 20;
    let written = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&written);
    let (url, task) = endpoint(|mut stream| async move {
        request(&mut stream).await;
        // The beginning of the body arrives with the head, so the time for the body does not matter.
        let beginning = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nx\0yz\r\n";
        stream.write_all(beginning).await.unwrap();
        let piece = [format!("{PIECE:x}\r\n").into_bytes(), vec![b'x'; PIECE], b"\r\n".to_vec()].concat();
        while stream.write_all(&piece).await.is_ok() {
            counter.fetch_add(PIECE, Ordering::Relaxed);
        }
    })
    .await;
    let Response::Status(200, text) = send(&local(), &url).await else { unreachable!("the status had arrived") };
    assert!(text.starts_with("x\u{fffd}yz") && !text.contains('\0') && text.len() < 2048, "{}", text.len());
    task.await.unwrap();
    let written = written.load(Ordering::Relaxed);
    assert!(written < BUFFERS, "{written} bytes were read");
}

#[tokio::test]
async fn a_body_that_never_ends_does_not_change_a_status_that_has_arrived() {
    let (url, task) = endpoint(|mut stream| async move {
        request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nsome").await.unwrap();
        std::future::pending().await
    })
    .await;
    // The sender waits 2 s for the rest.
    assert_eq!(send(&local(), &url).await, Response::Status(200, "some".to_owned()));
    task.abort();
}

#[tokio::test]
async fn an_endpoint_that_hangs_or_closes_is_a_failure_with_its_cause() {
    let (url, hanging) = endpoint(|mut stream| async move {
        request(&mut stream).await;
        std::future::pending().await
    })
    .await;
    let sender = local().with_time(Duration::from_millis(300));
    assert_eq!(failure(send(&sender, &url).await), "no answer within 0.3 s");
    hanging.abort();
    let (url, closing) = endpoint(|mut stream| async move {
        request(&mut stream).await;
    })
    .await;
    let closed = failure(send(&local(), &url).await);
    assert!(!closed.is_empty() && !closed.contains("a=b"), "{closed}");
    closing.await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://hooks.example:{}/", listener.local_addr().unwrap().port());
    drop(listener);
    let refused = failure(send(&local(), &url).await);
    assert!(refused.contains("refused"), "{refused}");
}

#[tokio::test]
async fn private_addresses_are_refused_in_every_form_unless_they_are_allowed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let by_name = public(names(&[&["127.0.0.1"]]));
    for host in [
        "127.0.0.1",
        "127.1",
        "0x7f000001",
        "2130706433",
        "0.0.0.0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "169.254.169.254",
        "[fe80::1]",
        "[fd00:ec2::254]",
        "10.0.0.1",
        "192.168.1.1",
        "100.100.100.200",
        "localhost",
        "hooks.example",
    ] {
        let text = failure(send(&by_name, &format!("http://{host}:{port}/")).await);
        assert!(text.contains("is not a public address") && text.contains("webhook-networks"), "{host}: {text}");
    }
    // A name with a public address among others gets only connections to that one.
    let mixed = public(names(&[&["192.0.2.1", "127.0.0.1"]])).with_time(Duration::from_millis(300));
    let text = failure(send(&mixed, &format!("http://hooks.example:{port}/")).await);
    assert!(!text.contains("is not a public address"), "{text}");
    let accepted = tokio::time::timeout(Duration::from_millis(50), listener.accept()).await;
    assert!(accepted.is_err(), "nothing has connected to this machine");
}

#[tokio::test]
async fn a_name_that_changes_its_address_after_the_check_is_not_followed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://rebinding.example:{}/", listener.local_addr().unwrap().port());
    // The first answer is a public address that nothing listens on; each later one is this machine.
    let names = names(&[&["203.0.113.7"], &["127.0.0.1"]]);
    let sender = public(Arc::clone(&names));
    // Without a route to the public address, connecting fails only by its time limit, which may end before the name is
    // resolved.
    let impatient = sender.clone().with_time(Duration::from_millis(300));
    within("the name is resolved", async {
        while names.0.lock().unwrap().len() > 1 {
            let first = failure(send(&impatient, &url).await);
            assert!(!first.contains("is not a public address"), "{first}");
        }
    })
    .await;
    let second = failure(send(&sender, &url).await);
    assert!(second.contains("is not a public address"), "{second}");
    let accepted = tokio::time::timeout(Duration::from_millis(50), listener.accept()).await;
    assert!(accepted.is_err(), "nothing has connected to this machine");
}
