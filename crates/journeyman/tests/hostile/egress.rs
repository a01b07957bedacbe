//! Tests of the proxy for outbound connections from a sandbox: only destinations that the project allows can be
//! reached, and each decision is an event.

use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::{Value, json};

use crate::program::fixtures::{Service, Site, site_with};

/// A program that asks the proxy for a connection to `$ARGV[0]`, and prints what it receives.
const ASK: &str = r#"use IO::Socket::INET;
my ($proxy) = ($ENV{HTTPS_PROXY} || "http://127.0.0.1:8812") =~ m{//(.*)};
my $s = IO::Socket::INET->new(PeerAddr => $proxy) or die "no proxy\n";
print $s "CONNECT $ARGV[0] HTTP/1.1\r\n\r\n";
print while <$s>;
"#;

/// Starts a server on this machine that sends a fixed text to each client; returns its port.
fn registry() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let _ = client.write_all(b"the registry speaks\n");
            let _ = client.shutdown(std::net::Shutdown::Write);
            let _ = client.read(&mut [0; 100]);
        }
    });
    port
}

fn service(config: &str, egress: &Value) -> (Site, Service) {
    let site = site_with(config);
    site.people_commit("ask.pl", ASK);
    let service = site.start();
    let body = json!({ "sandbox": { "egress": egress }, "setup": "perl ask.pl setup.example:443 || true" });
    let (status, answer) = service.call("PATCH", "/v2/projects/shop", Some(body));
    assert_eq!(status, 200, "{answer}");
    (site, service)
}

/// Returns the destinations of the job's events of a type.
fn destinations(service: &Service, job: &str, kind: &str) -> Vec<String> {
    let events = service.events(job);
    let of_kind = events.as_array().unwrap().iter().filter(|event| event["type"] == kind);
    of_kind.map(|event| event["data"]["destination"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn only_allowed_destinations_are_reached_and_each_decision_is_an_event() {
    let port = registry();
    let (site, service) = service("egress-private = [\"127.0.0.0/8\"]\n", &json!(["npm", format!("localhost:{port}")]));
    let ask = |destination: &str, file: &str| format!("[[run perl ask.pl {destination} > {file}]]");
    let prompt =
        [ask(&format!("localhost:{port}"), "good"), ask("evil.example:443", "bad"), ask("evil.example:443", "bad2")];
    let job = service.create(&prompt.join(" "));
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    let file = |name: &str| site.file(&site.branch(), name).unwrap();
    assert!(file("good").contains("200 Connection established") && file("good").contains("the registry speaks"));
    assert!(file("bad").contains("403 Forbidden") && file("bad").contains("sandbox.egress"), "{}", file("bad"));
    assert_eq!(destinations(&service, &job, "egress.allowed"), [format!("localhost:{port}")]);
    assert_eq!(destinations(&service, &job, "egress.denied"), ["setup.example:443", "evil.example:443"], "each once");

    // A destination that the project no longer allows is refused, also for an agent that is already running.
    let (status, _) = service.call("PATCH", "/v2/projects/shop", Some(json!({ "sandbox": { "egress": [] } })));
    assert_eq!(status, 200);
    service.send(&job, &ask(&format!("localhost:{port}"), "later"));
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    assert!(file("later").contains("403 Forbidden"), "{}", file("later"));
}

#[test]
fn private_addresses_are_refused_without_egress_private() {
    let port = registry();
    let (site, service) = service("", &json!([format!("localhost:{port}")]));
    // The project allows the name, but its address is an address of this machine.
    let job = service.create(&format!("[[run perl ask.pl localhost:{port} > private]]"));
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    let answer = site.file(&site.branch(), "private").unwrap();
    assert!(answer.contains("403 Forbidden") && answer.contains("egress-private"), "{answer}");
}

#[test]
fn invalid_destinations_are_refused_when_they_are_set() {
    let site = site_with("");
    let service = site.start();
    for bad in ["127.0.0.1:80", "registry.npmjs.org", "*.example:443", "npn", "Example.com:443"] {
        let body = json!({ "sandbox": { "egress": [bad] } });
        let (status, answer) = service.call("PATCH", "/v2/projects/shop", Some(body));
        let text = answer["error"].as_str().unwrap_or_default();
        assert!(status == 400 && text.contains("sandbox.egress") && text.contains(bad), "{bad}: {answer}");
    }
}
