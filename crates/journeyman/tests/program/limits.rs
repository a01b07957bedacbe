//! Tests of clients that do not read their responses: they use up only their own limits, they are disconnected, and their
//! git processes end with them.

use std::io::{Read, Write};
use std::net::TcpStream;

use journeyman_testkit::until;
use serde_json::json;

use super::fixtures::{Service, Site, site_with};

/// The limits of the tests, which are small.
const LIMITS: &str = "workers = 1\nmax-git-requests = 8\nmax-git-requests-per-key = 2\nwrite-timeout = \"2s\"\n";

/// Sends a request with a key on a new connection. The head of the response is read, and nothing after it.
fn stuck(service: &Service, key: &str, request: &str, body: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(service.url.trim_start_matches("http://")).unwrap();
    let head = format!(
        "{request} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\ngit-protocol: version=2\r\ncontent-type: \
         application/x-git-upload-pack-request\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    stream
}

fn metric(service: &Service, name: &str) -> u64 {
    let text = service.text("/metrics");
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name}: {text}"));
    line.trim().parse().unwrap()
}

/// Returns the number of git processes that descend from the service.
fn git_children(service: &Service) -> usize {
    let output = std::process::Command::new("ps").args(["-eo", "pid=,ppid=,comm="]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<(u32, u32, &str)> = text
        .lines()
        .filter_map(|line| {
            let mut parts = line.split_whitespace();
            Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?))
        })
        .collect();
    let mut family = vec![service.id()];
    let mut count = 0;
    while let Some(parent) = family.pop() {
        for (child, _, name) in rows.iter().filter(|(_, of, _)| *of == parent) {
            family.push(*child);
            count += usize::from(name.starts_with("git"));
        }
    }
    count
}

fn new_key(service: &Service, name: &str) -> String {
    let body = json!({ "name": name, "scopes": ["read"] });
    let (status, key) = service.call("POST", "/v2/keys", Some(body));
    assert_eq!(status, 201, "{key}");
    key["secret"].as_str().unwrap().to_owned()
}

/// Holds two responses without reading them, while another key is served; then the service ends them, and their processes.
fn check(service: &mut Service, request: &str, body: &[u8]) {
    let (one, other) = (new_key(service, "one"), new_key(service, "other"));
    let used = "journeyman_limit_used{class=\"git\"}";
    let ended = "journeyman_connections_closed_total{cause=\"write_timeout\"}";
    let before = metric(service, ended);
    let held = [stuck(service, &one, request, body), stuck(service, &one, request, body)];
    let own = std::mem::replace(&mut service.key, other);
    let (method, path) = request.split_once(' ').unwrap();
    if method == "GET" {
        let response = super::fixtures::client().get(format!("{}{path}", service.url)).bearer_auth(&service.key).send();
        assert!(response.unwrap().bytes().unwrap().len() > 20 << 20, "another key gets the whole response meanwhile");
    }
    drop(stuck(service, &service.key.clone(), request, body));
    service.key = own;
    until("the clients are disconnected", || (metric(service, ended) >= before + 2).then_some(()));
    until("their permits are free", || (metric(service, used) == 0).then_some(()));
    until("their processes have ended", || (git_children(service) == 0).then_some(()));
    drop(held);
}

/// Returns a service whose repository has a file of 24 MiB that cannot be compressed, as a change of a job.
fn with_large_change(site: &Site) -> (Service, String) {
    let service = site.start();
    let job = service.create("[[run head -c 18874368 /dev/urandom | base64 > large.txt]]");
    assert_eq!(service.settled(&job)["status"], "completed");
    (service, job)
}

#[test]
fn clients_that_do_not_read_diffs_or_packs_are_disconnected_and_hold_up_no_other_key() {
    let site = site_with(LIMITS);
    let (mut service, job) = with_large_change(&site);
    check(&mut service, &format!("GET {job}/diff"), b"");
    let branch = site.branch();
    let tip = super::fixtures::git(&site.repository(), &["rev-parse", &branch]);
    let line = |text: &str| format!("{:04x}{text}", text.len() + 4);
    let wants =
        format!("{}0001{}{}0000", line("command=fetch\n"), line(&format!("want {}\n", tip.trim())), line("done\n"));
    check(&mut service, "POST /git/shop.git/git-upload-pack", wants.as_bytes());
}
