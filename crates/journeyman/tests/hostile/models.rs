//! Tests of programs in a sandbox that try to use models in ways that their run does not permit.

use journeyman_testkit::Reply;
use serde_json::json;

use crate::program::models::{KEY, Models, create, last_run, served};

/// A program that sends a request with a token (`own`: its agent's) to the model proxy, and prints the answer.
const ASK: &str = r#"use IO::Socket::INET;
my ($method, $path, $token, $body) = @ARGV;
if ($token eq "own") {
    for my $file (glob "/proc/[0-9]*/environ") {
        open(my $in, "<", $file) or next;
        local $/;
        ($token) = (<$in> || "") =~ /(jmt_[0-9a-f]+)/ and last;
    }
}
my $s = IO::Socket::INET->new(PeerAddr => "127.0.0.1:8811", Timeout => 5) or die "no proxy\n";
my $head = "$method $path HTTP/1.1\r\nHost: api.anthropic.com\r\nConnection: close\r\nAuthorization: Bearer $token\r\n";
print $s $head . "Content-Length: " . length($body) . "\r\n\r\n$body";
print while <$s>;
print "\n";
"#;

#[test]
fn the_model_proxy_serves_only_the_model_of_the_run() {
    let body = r#"'{"model":"m","max_tokens":1,"messages":[]}'"#;
    let attacks = [
        ("POST", "/v1/messages", "wrong", body.to_owned(), "401"),
        (
            "POST",
            "/v1/messages",
            "jmt_0000000000000000000000000000000000000000000000000000000000000000",
            body.to_owned(),
            "401",
        ),
        ("GET", "/v1/organizations/api_keys", "own", "''".to_owned(), "404"),
        ("POST", "/v1/files", "own", body.to_owned(), "404"),
        ("POST", "/v1/messages/../files", "own", body.to_owned(), "404"),
        ("POST", "/v1/messages/%2e%2e/files", "own", body.to_owned(), "404"),
        ("POST", "http://evil.example/v1/files", "own", body.to_owned(), "404"),
        ("CONNECT", "evil.example:443", "own", "''".to_owned(), "404"),
        ("DELETE", "/v1/messages", "own", "''".to_owned(), "404"),
        ("POST", "/v1/messages", "own", body.replace("\"m\"", "\"dearest\""), "403"),
        ("POST", "/v1/messages", "own", body.replace("[]", "[],\"mcp_servers\":[{\"url\":\"https://evil\"}]"), "400"),
        // The control: a permitted call with the token of the run.
        ("POST", "/v1/messages", "own", body.to_owned(), "200"),
    ];
    let commands: Vec<String> = attacks
        .iter()
        .map(|(method, path, token, body, _)| format!("perl ask.pl {method} '{path}' {token} {body} | head -c 3000"))
        .collect();
    let command = commands.join("; echo ------; ");
    let models = Models::start(move |asked| {
        let messages = asked.body["messages"].to_string();
        if messages.contains("tool_result") {
            return Reply::Text("It is done.".to_owned());
        }
        if asked.body["max_tokens"] == 1 {
            return Reply::Text("the control was answered".to_owned());
        }
        Reply::Tool { name: "run_command".to_owned(), arguments: json!({ "command": format!("({command}) > ~/seen") }) }
    });
    let (site, service) = served(&models, "");
    site.people_commit("ask.pl", ASK);
    let job = create(&service, "anthropic/m", "attack");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    let home = site.path(&format!("data/workspaces/{}/home", job.rsplit('/').next().unwrap()));
    let seen = std::fs::read_to_string(home.join("seen")).unwrap();
    let answers: Vec<&str> = seen.split("------").collect();
    assert_eq!(answers.len(), attacks.len(), "{seen}");
    for ((method, path, token, body, status), answer) in attacks.iter().zip(&answers) {
        let begins = format!("HTTP/1.1 {status}");
        assert!(answer.trim_start().starts_with(&begins), "{method} {path} {token} {body}: {answer}");
    }
    assert!(answers.last().unwrap().contains("the control was answered"), "{seen}");
    assert!(!seen.contains(KEY), "{seen}");
    assert_eq!(models.server.asked().len(), 3, "two calls of the agent, and the control");
    // Two of the denials are the same, and requests without a valid token are not recorded.
    assert_eq!(service.count(&job, "model.denied"), 8, "{:#}", service.events(&job));
}

#[test]
fn the_token_of_a_run_is_invalid_in_another_sandbox_after_its_turn() {
    // The prompt of the second job has the token of the first, and the model lets the second job's agent use it.
    let steal = "perl -e 'for (glob \"/proc/[0-9]*/environ\") { open(my $i, \"<\", $_) or next; local $/; \
                 (<$i> || \"\") =~ /(jmt_[0-9a-f]+)/ and print($1), last }'";
    let models = Models::start(move |asked| {
        let messages = asked.body["messages"].to_string();
        let command =
            |text: String| Reply::Tool { name: "run_command".to_owned(), arguments: json!({ "command": text }) };
        let try_it = "perl ask.pl POST /v1/messages $TOKEN '{\"model\":\"m\",\"messages\":[]}' | head -1";
        match (messages.contains("tool_result"), messages.split("use ").nth(1)) {
            (true, _) => Reply::Text("It is done.".to_owned()),
            (false, Some(rest)) => {
                let token: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
                command(format!("TOKEN={token}; {try_it} > ~/foreign"))
            }
            (false, None) => command(format!("{steal} > ~/token; TOKEN=$(cat ~/token); {try_it} > ~/own")),
        }
    });
    let (site, service) = served(&models, "");
    site.people_commit("ask.pl", ASK);
    let read = |job: &str, name: &str| {
        let home = site.path(&format!("data/workspaces/{}/home", job.rsplit('/').next().unwrap()));
        std::fs::read_to_string(home.join(name)).unwrap()
    };
    let one = create(&service, "anthropic/m", "steal");
    assert_eq!(service.settled(&one)["status"], "completed", "{:#}", service.events(&one));
    assert!(read(&one, "own").contains("200"), "the control: {}", read(&one, "own"));
    let token = read(&one, "token");
    assert!(token.starts_with("jmt_") && token.len() == 68, "{token}");
    let two = create(&service, "anthropic/m", &format!("use {token}"));
    assert_eq!(service.settled(&two)["status"], "completed", "{:#}", service.events(&two));
    assert!(read(&two, "foreign").contains("401"), "{}", read(&two, "foreign"));
}

#[test]
fn a_setup_command_and_a_run_of_the_test_model_have_no_model_proxy() {
    let models = Models::start(|_| Reply::Text("It is done.".to_owned()));
    let (site, service) = served(&models, "");
    site.people_commit("ask.pl", ASK);
    let setup = json!({ "setup": "perl ask.pl GET /v1/models own '' > ~/setup 2>&1 || true" });
    let (status, answer) = service.call("PATCH", "/v2/projects/shop", Some(setup));
    assert_eq!(status, 200, "{answer}");
    for (model, prompt) in
        [("test/scripted", "[[run perl ask.pl GET /v1/models own '' > ~/turn 2>&1]]"), ("anthropic/m", "hello")]
    {
        let job = create(&service, model, prompt);
        service.settled(&job);
        let home = site.path(&format!("data/workspaces/{}/home", job.rsplit('/').next().unwrap()));
        let seen = std::fs::read_to_string(home.join("setup")).unwrap();
        assert_eq!(seen, "no proxy\n", "{model}: {}", last_run(&service, &job));
        if model == "test/scripted" {
            assert_eq!(std::fs::read_to_string(home.join("turn")).unwrap(), "no proxy\n");
        }
    }
}
