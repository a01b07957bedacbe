//! Tests of requests, retries and streams with a server that gives prepared answers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use journeyman_client::models::{
    CreateJob, ErrorCode, EventData, ExchangeToken, JobFilter, MessageStatus, ProjectChanges, SendMessage, Status,
};
use journeyman_client::{Client, Error, Method};
use serde_json::{Value, json};

const KEY: &str = "jmn_secret_of_the_test";

/// The time after which a test counts as hanging.
const PATIENCE: Duration = Duration::from_secs(600);

/// A request that the server has received.
#[derive(Debug, Clone)]
struct Received {
    line: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl Received {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

struct Server {
    url: String,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Server {
    /// Starts a server that gives one answer to each connection. An empty answer closes the connection.
    fn start(answers: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let received: Arc<Mutex<Vec<Received>>> = Arc::default();
        let seen = Arc::clone(&received);
        std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().expect("a connection");
                let request = read(&stream);
                seen.lock().expect("a lock").push(request);
                // The client may have closed the connection.
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        Self { url, received }
    }

    fn client(&self) -> Client {
        Client::new(&self.url, KEY).expect("a client")
    }

    fn received(&self) -> Vec<Received> {
        self.received.lock().expect("a lock").clone()
    }
}

fn read(stream: &TcpStream) -> Received {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line");
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let headers = lines.iter().skip(1).filter_map(|line| line.split_once(": "));
    let headers: Vec<_> = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
    let length = headers.iter().find(|(name, _)| name == "content-length").and_then(|(_, value)| value.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).expect("a body");
    Received { line: lines.swap_remove(0), headers, body: String::from_utf8_lossy(&body).into_owned() }
}

fn answer(status: u16, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status} X\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}")
}

fn document(body: &Value) -> String {
    answer(200, "Content-Type: application/json\r\n", &body.to_string())
}

fn refusal(status: u16, code: &str, headers: &str) -> String {
    let body = json!({"error": "the reason", "code": code, "requestId": "req_1"});
    answer(status, headers, &body.to_string())
}

fn stream(text: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n{text}")
}

fn job(status: &str) -> Value {
    json!({
        "id": "job_1", "status": status, "source": {"repository": "r", "ref": "main"}, "model": "m",
        "prLink": null, "createdAt": "2026-11-22T09:00:00.000Z", "archivedAt": null, "later": 1,
    })
}

fn message(status: &str, finished_at: Option<&str>) -> Value {
    json!({
        "id": "msg_2", "prompt": "p", "origin": "api", "author": null, "delivery": "queue", "status": status,
        "createdAt": "t", "deliveredAt": null, "finishedAt": finished_at, "runId": null, "commits": [],
        "prLink": null, "publishedWith": null, "answer": "done", "source": null,
    })
}

fn event(seq: u64, kind: &str, data: &Value) -> String {
    let document = json!({"seq": seq, "type": kind, "at": "t", "runId": null, "data": data});
    format!("id: {seq}\nevent: {kind}\ndata: {document}\n\n")
}

fn feed_event(id: &str) -> String {
    let data = json!({"job": job("completed"), "projectId": "shop", "title": "t"});
    let document = json!({"id": id, "type": "job.completed", "timestamp": "t", "data": data});
    format!("id: {id}\ndata: {document}\n\n")
}

#[tokio::test]
async fn a_lost_creation_is_repeated_with_the_same_key() {
    let server = Server::start(vec![String::new(), refusal(504, "outcome_unknown", ""), document(&job("active"))]);
    let created = server.client().jobs().create("shop", &CreateJob::new("Say hello").title("t")).await;
    assert_eq!(created.expect("a job").status, Status::Active);
    let received = server.received();
    let keys: Vec<_> = received.iter().map(|request| request.header("idempotency-key").map(str::to_owned)).collect();
    assert!(keys.len() == 3 && keys[0].is_some() && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    assert_eq!(received[0].line, "POST /v2/agent/shop/job HTTP/1.1");
    assert_eq!(received[2].body, r#"{"prompt":"Say hello","title":"t"}"#);
    assert_eq!(received[2].header("authorization"), Some(format!("Bearer {KEY}").as_str()));
}

#[tokio::test]
async fn a_request_that_could_take_effect_twice_is_not_repeated() {
    let server = Server::start(vec![String::new(), String::new(), document(&json!({}))]);
    let webhooks = server.client().webhooks();
    let lost = webhooks.replay("shop", "wh_1", "2026-11-22T09:00:00Z").await;
    assert!(matches!(lost, Err(Error::Connection { is_unsent: false, .. })), "{lost:?}");
    let changes = ProjectChanges::new().model("m");
    let lost = server.client().projects().change("shop", &changes).if_match("\"1\"").await;
    assert!(matches!(lost, Err(Error::Connection { .. })), "{lost:?}");
    assert_eq!(server.received().len(), 2);
    assert_eq!(server.received()[1].header("if-match"), Some("\"1\""));
}

#[tokio::test]
async fn a_rate_limit_is_waited_for_if_it_is_short() {
    let limited = |seconds: u32| refusal(429, "rate_limited", &format!("Retry-After: {seconds}\r\n"));
    let server = Server::start(vec![limited(1), document(&job("active")), limited(3600)]);
    let handle = server.client().job("shop", "job_1");
    let begun = std::time::Instant::now();
    assert_eq!(handle.get().await.expect("a job").id, "job_1");
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
    let error = handle.get().await.expect_err("a long limit is left to the caller");
    let refusal = error.api().expect("a refusal");
    assert_eq!((refusal.status, error.code()), (429, Some(&ErrorCode::RateLimited)));
    assert_eq!((refusal.retry_after, refusal.request_id.as_deref()), (Some(Duration::from_secs(3600)), Some("req_1")));
}

#[tokio::test]
async fn the_key_is_in_no_error_and_is_not_sent_to_another_server() {
    let other = Server::start(vec![document(&job("active"))]);
    let redirect = answer(307, &format!("Location: {}/v2/me\r\n", other.url), "");
    let server = Server::start(vec![redirect, answer(200, "", "<html>")]);
    let client = server.client();
    let refused = client.me().await.expect_err("a redirect is an error");
    assert_eq!(refused.status(), Some(307));
    let unreadable = client.me().await.expect_err("HTML is not an answer of the interface");
    assert!(matches!(unreadable, Error::InvalidResponse(_)), "{unreadable:?}");
    let unreachable = Client::builder("http://127.0.0.1:1", KEY).max_retries(0).build().expect("a client");
    let lost = unreachable.me().await.expect_err("there is no server");
    assert!(matches!(lost, Error::Connection { is_unsent: true, .. }), "{lost:?}");
    let builder = Client::builder(&server.url, KEY);
    for text in
        [format!("{client:?} {builder:?} {:?}", client.me()), format!("{refused:?} {unreadable} {lost:?} {lost}")]
    {
        assert!(!text.contains(KEY), "{text}");
    }
    assert!(other.received().is_empty(), "the key was sent to the target of the redirect");
    for (url, key) in
        [("ftp://x", KEY), ("localhost:8080", KEY), ("http://a:b@x", KEY), ("http://x", "a\nb"), ("http://x", " ")]
    {
        let error = Client::new(url, key).expect_err("an invalid argument").to_string();
        assert!(!error.contains(key) || key == " ", "{error}");
    }
}

#[tokio::test]
async fn an_exchange_is_repeated_and_sends_no_key_and_shows_no_secret() {
    let key = json!({
        "id": "key_1", "name": "oidc:ci", "prefix": "jmn_x", "scopes": ["jobs"], "projects": ["shop"], "expiresAt": "t",
        "allowedIps": null, "createdAt": "t", "lastUsedAt": null, "oldSecretUntil": null, "revokedAt": null,
    });
    let body = json!({"secret": KEY, "key": key, "expiresAt": "t"});
    let server = Server::start(vec![String::new(), document(&body)]);
    let client = Client::without_key(&server.url).expect("a client");
    let token = ExchangeToken::new("a.b.c").trust("ci");
    let exchanged = client.trusts().exchange(&token).await.expect("a key");
    assert_eq!((exchanged.secret.expose(), exchanged.key.id.as_str()), (KEY, "key_1"));
    let shown = format!("{exchanged:?} {token:?}");
    assert!(!shown.contains(KEY) && !shown.contains("a.b.c"), "{shown}");
    let received = server.received();
    assert_eq!(received.len(), 2);
    assert!(received.iter().all(|request| request.header("authorization").is_none()), "{received:?}");
    assert_eq!(received[1].line, "POST /v2/oidc/exchange HTTP/1.1");
    assert_eq!(received[1].body, r#"{"token":"a.b.c","trust":"ci"}"#);
}

#[tokio::test]
async fn a_list_continues_with_the_cursor_of_each_page() {
    let first = json!({"jobs": [job("active"), job("failed")], "nextCursor": "c 1"});
    let last = json!({"jobs": [job("completed")], "nextCursor": null});
    let server = Server::start(vec![document(&first), document(&last), document(&last)]);
    let mut filter = JobFilter::new();
    filter.labels = vec!["a".to_owned(), "b".to_owned()];
    let list = server.client().jobs().list_records("shop", &filter).page_size(2);
    let jobs = list.all().await.expect("all jobs");
    assert_eq!(jobs.iter().map(|job| job.status.as_str()).collect::<Vec<_>>(), ["active", "failed", "completed"]);
    let received = server.received();
    assert!(received[0].line.contains("?label=a&label=b&limit=2 "), "{}", received[0].line);
    assert!(received[1].line.contains("&limit=2&cursor=c+1 "), "{}", received[1].line);
    let raw = server.client().jobs().list_records("shop", &JobFilter::new()).raw().all().await.expect("documents");
    assert_eq!(raw, [job("completed")], "fields that the client does not know are kept");
}

#[tokio::test]
async fn a_stream_of_a_job_resumes_without_loss_or_repetition_and_ends() {
    let text = |text: &str| json!({ "text": text });
    let cut = format!(
        "{}{}id: 3\ndata: {{\"seq\":3",
        event(1, "agent.message", &text("a")),
        event(2, "agent.message", &text("b"))
    );
    let rest = event(2, "agent.message", &text("b"))
        + &event(3, "agent.message", &text("c"))
        + &event(4, "job.completed", &json!({}));
    let end = json!({"events": [], "nextAfter": 4, "hasMore": false});
    let server = Server::start(vec![
        document(&job("active")),
        stream(&cut),
        stream(&rest),
        document(&job("completed")),
        document(&end),
    ]);
    let mut events = server.client().job("shop", "job_1").stream_events();
    let mut texts = Vec::new();
    while let Some(event) = events.next().await.expect("an event") {
        match event.data {
            EventData::AgentMessage(message) => texts.push(message.text.unwrap_or_default()),
            other => assert_eq!(other, EventData::JobCompleted),
        }
    }
    assert_eq!(texts, ["a", "b", "c"]);
    let received = server.received();
    let ids: Vec<_> = received.iter().map(|request| request.header("last-event-id").unwrap_or("-")).collect();
    assert_eq!(ids, ["-", "0", "2", "-", "-"]);
}

#[tokio::test]
async fn a_stream_of_the_feed_resumes_from_its_beginning_if_no_event_was_received() {
    let server = Server::start(vec![
        stream("id: 100\n\n"),
        stream(&feed_event("101")),
        stream(&(feed_event("101") + &feed_event("102"))),
    ]);
    let mut events = server.client().events().stream("shop");
    assert_eq!(events.begin().await.expect("a cursor"), "100");
    assert_eq!(events.next().await.expect("an event").id, "101");
    let event = events.next().await.expect("an event");
    assert_eq!((event.id.as_str(), events.cursor()), ("102", Some("102")));
    let received = server.received();
    let ids: Vec<_> = received.iter().map(|request| request.header("last-event-id")).collect();
    assert_eq!(ids, [None, Some("100"), Some("101")]);
}

#[tokio::test]
async fn a_stream_that_is_refused_is_an_error() {
    let server = Server::start(vec![document(&job("active")), refusal(404, "job_not_found", "")]);
    let mut events = server.client().job("shop", "job_1").stream_events();
    let error = events.next().await.expect_err("a refusal");
    assert_eq!(error.code(), Some(&ErrorCode::JobNotFound));
}

#[tokio::test]
async fn a_sent_message_waits_for_its_own_end() {
    let location = "Location: /v2/agent/shop/job/job_1/message/msg_2\r\nContent-Type: application/json\r\n";
    let server = Server::start(vec![
        answer(200, location, &job("active").to_string()),
        document(&message("queued", None)),
        document(&job("active")),
        document(&message("finished", Some("t"))),
    ]);
    let sent = server.client().job("shop", "job_1").send_message(&SendMessage::new("p")).await.expect("a message");
    assert_eq!((sent.id.as_str(), sent.record.status.as_str()), ("msg_2", "active"));
    let ended = sent.wait(Some(PATIENCE)).await.expect("the end");
    assert_eq!((ended.status, ended.answer.as_deref()), (MessageStatus::Finished, Some("done")));
    assert_eq!(server.received()[2].line, "GET /v2/agent/shop/job/job_1?wait=5 HTTP/1.1");
}

#[tokio::test]
async fn a_wait_ends_after_its_time() {
    let server = Server::start(vec![document(&job("active")); 4]);
    let waited = server.client().job("shop", "job_1").wait(Some(Duration::from_millis(300))).await;
    assert!(matches!(&waited, Err(Error::WaitTimeout(text)) if text.contains("job_1")), "{waited:?}");
}

#[tokio::test]
async fn other_requests_can_be_sent_with_the_same_retries() {
    let server = Server::start(vec![
        String::new(),
        answer(304, "ETag: \"7\"\r\n", ""),
        answer(200, "ETag: \"8\"\r\n", &job("active").to_string()),
    ]);
    let client = server.client();
    let call = client.request(Method::GET, "/v2/projects/shop").header("If-None-Match", "\"7\"").query("a", "b&c");
    let response = call.await.expect("a response");
    assert_eq!((response.status, response.header("etag")), (304, Some("\"7\"")));
    assert_eq!(server.received()[1].line, "GET /v2/projects/shop?a=b%26c HTTP/1.1");
    let versioned = client.job("shop", "job_1").get().versioned().await.expect("a job");
    assert_eq!((versioned.value.id.as_str(), versioned.etag.as_str()), ("job_1", "\"8\""));
    for path in ["v2/me", "/v2/me?x=1"] {
        assert!(matches!(client.request(Method::GET, path).await, Err(Error::Invalid(_))), "{path}");
    }
    assert!(matches!(client.job("shop", "..").get().await, Err(Error::Invalid(_))));
}
