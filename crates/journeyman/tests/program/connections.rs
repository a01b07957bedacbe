//! Tests of clients that hold connections: the other clients are served, and connections that are held too long are
//! closed.

use std::io::{Read, Write};
use std::net::{SocketAddr, SocketAddrV4, TcpStream};

use journeyman_testkit::{PATIENCE, until};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

use super::fixtures::{Service, Site, read_until, site_with};

fn address(service: &Service) -> SocketAddrV4 {
    service.url.trim_start_matches("http://").parse().unwrap()
}

/// Opens a connection from an address of this machine and sends a text on it.
fn held(service: &Service, from: [u8; 4], text: &str) -> TcpStream {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddr::from((from, 0))).unwrap();
    connect(&socket, &SocketAddr::from(address(service))).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // This fails if the connection was closed in the meantime.
    let _ = stream.write_all(text.as_bytes());
    stream
}

/// Reads until `done` returns true or the connection ends.
fn read(stream: &mut TcpStream, done: impl Fn(&str) -> bool) -> String {
    let (mut text, mut piece) = (String::new(), [0; 4096]);
    while !done(&text) {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(length) => text.push_str(&String::from_utf8_lossy(&piece[..length])),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => panic!("reading failed: {error}"),
        }
    }
    text
}

/// Sends a request with the key on a connection that stays open, and reads the answer.
fn ask(site: &Site, stream: &mut TcpStream) -> String {
    let request = format!("GET /v2/agent/shop/jobs HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\r\n", site.key);
    let _ = stream.write_all(request.as_bytes());
    read(stream, |text| text.ends_with('}'))
}

fn counted(service: &Service, line: &str) -> u64 {
    let numbers = service.text("/metrics");
    let found =
        numbers.lines().find_map(|found| found.strip_prefix(line)).unwrap_or_else(|| panic!("{line}: {numbers}"));
    found.trim().parse().unwrap()
}

#[test]
fn held_connections_from_one_or_many_addresses_block_no_other_clients() {
    let site = site_with("max-connections = 40\nmax-connections-per-address = 20\n");
    let service = site.start();
    let mut known = held(&service, [127, 0, 0, 9], "");
    assert!(ask(&site, &mut known).starts_with("HTTP/1.1 200"));
    let job = service.create("[[hold]]");
    site.held(&job);
    // A request without its origin and its type is refused before its body is read, and holds no connection.
    let login = format!(
        "POST /login HTTP/1.1\r\nhost: x\r\norigin: {}\r\ncontent-type: application/x-www-form-urlencoded\r\n\
         content-length: 9\r\n\r\nn",
        service.url
    );
    // A connection may be closed for others until its request is authenticated.
    let stream = service.open_stream(&job);
    let stream = std::thread::scope(|scope| {
        let stream = scope.spawn(|| read_until(stream, "job.completed"));
        let mut all = Vec::new();
        for number in 0..300_u16 {
            let from = if number < 150 { [127, 0, 0, 1] } else { [127, 0, 1, u8::try_from(number % 100).unwrap() + 1] };
            let text = ["", "GET /healthz HTTP/1.1\r\nhos", login.as_str()];
            all.push(held(&service, from, text[usize::from(number) % 3]));
            if number % 50 == 49 {
                let mut health = held(&service, [127, 0, 0, 1], "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
                assert!(read(&mut health, |text| text.ends_with('}')).starts_with("HTTP/1.1 200"), "{number}");
                assert!(ask(&site, &mut held(&service, [127, 0, 0, 1], "")).starts_with("HTTP/1.1 200"), "{number}");
                assert!(ask(&site, &mut known).starts_with("HTTP/1.1 200"), "an open connection with a key: {number}");
            }
        }
        site.release(&service, &job);
        stream.join().unwrap()
    });
    assert!(stream.contains("run.started"), "{stream}");
    for cause in ["address_limit", "limit"] {
        let closed = counted(&service, &format!("journeyman_connections_closed_total{{cause=\"{cause}\"}}"));
        assert!(closed > 100, "{cause}: {closed}");
    }
    assert!(counted(&service, "journeyman_connections_open{authenticated=\"false\"}") <= 40);
    let lines = service.log().matches("max-connections").count();
    assert!((1..100).contains(&lines), "{lines} log lines: one now and then, and not one for each connection");
}

#[test]
fn incomplete_requests_and_idle_connections_are_closed_except_those_with_a_key() {
    let site = site_with("header-timeout = \"5s\"\nidle-timeout = \"5s\"\nrequest-timeout = \"5s\"\n");
    let service = site.start();
    let body = r#"{"prompt": "[[sleep 8]]"}"#;
    let head = |path: &str, key: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\norigin: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{key}\r\n{}",
            service.url,
            body.len(),
            &body[..5]
        )
    };
    let key = format!("authorization: Bearer {}\r\n", site.key);
    let mut slow = held(&service, [127, 0, 0, 1], &head("/v2/agent/shop/job", &key));
    let form = head("/login", "").replace("application/json", "application/x-www-form-urlencoded");
    for (text, cause) in [
        ("", "header_timeout"),
        ("GET /healthz HTTP/1.1\r\nhos", "header_timeout"),
        ("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n", "idle_timeout"),
        (form.as_str(), "request_timeout"),
    ] {
        let line = format!("journeyman_connections_closed_total{{cause=\"{cause}\"}}");
        let before = counted(&service, &line);
        read(&mut held(&service, [127, 0, 0, 1], text), |_| false);
        until(&format!("{cause} is counted"), || (counted(&service, &line) > before).then_some(()));
    }
    // Each of the four connections was closed after a timeout; this one, with a key, is still open.
    slow.write_all(&body.as_bytes()[5..]).unwrap();
    let answer = read(&mut slow, |text| text.ends_with('}'));
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    let record: serde_json::Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    let job = format!("/v2/agent/shop/job/{}", record["id"].as_str().unwrap());
    // A stream and a long poll that last longer than all of the timeouts.
    assert!(service.stream_until(&job, "job.completed").contains("run.started"));
    assert_eq!(service.settled(&job)["status"], "completed");
}

#[test]
fn an_address_with_too_many_authenticated_connections_gets_an_error() {
    let site = site_with("max-connections-per-address = 2\n");
    let service = site.start();
    let mut open: Vec<TcpStream> = (0..2).map(|_| held(&service, [127, 0, 0, 9], "")).collect();
    for stream in &mut open {
        assert!(ask(&site, stream).starts_with("HTTP/1.1 200"));
    }
    let refused = ask(&site, &mut held(&service, [127, 0, 0, 9], ""));
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("too_many_connections"), "{refused}");
    assert_eq!(counted(&service, "journeyman_connections_refused_total{cause=\"address_limit\"}"), 1);
    assert!(ask(&site, &mut held(&service, [127, 0, 0, 8], "")).starts_with("HTTP/1.1 200"));
}

#[test]
fn a_maximum_of_connections_above_the_limit_of_open_files_is_lowered_and_logged() {
    let site = site_with("workers = 1\nmax-connections = 100000000\n");
    let service = site.start();
    assert!(service.log().contains("limit of open files"), "{}", service.log());
    assert!(counted(&service, "journeyman_connections_limit ") < 100_000_000);
}

#[test]
fn a_request_head_that_cannot_be_parsed_gets_a_json_error() {
    let site = site_with("");
    let service = site.start();
    let long = "a".repeat(70_000);
    for (head, status, code) in [
        ("nonsense\r\n\r\n".to_owned(), 400, "bad_request"),
        (format!("GET /{long} HTTP/1.1\r\nhost: x\r\n\r\n"), 431, "headers_too_large"),
        (format!("GET / HTTP/1.1\r\nhost: x\r\nx-long: {long}\r\n\r\n"), 431, "headers_too_large"),
    ] {
        let mut stream = held(&service, [127, 0, 0, 1], &head);
        let answer = read(&mut stream, |_| false);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
        let body: serde_json::Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body:?}"));
        assert_eq!(body["code"], code);
        let id = body["requestId"].as_str().unwrap();
        assert!(head.contains(&format!("x-request-id: {id}")) && head.contains("application/json"), "{head}");
    }
}

#[test]
fn expect_100_continue_with_a_body_over_the_limit_gets_413_before_the_body() {
    let site = site_with("");
    let service = site.start();
    let head = format!(
        "POST /v2/agent/shop/job HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\ncontent-length: 2000000\r\nexpect: 100-continue\r\n\r\n",
        site.key
    );
    let mut stream = held(&service, [127, 0, 0, 1], &head);
    let answer = read(&mut stream, |text| text.ends_with('}'));
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("body_too_large"), "{answer}");
}
