//! Tests of `journeyman mcp`, as a program with an agent starts it: messages on stdin and stdout, and restarts of the
//! server.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use journeyman_testkit::until;
use serde_json::{Value, json};

use super::fixtures::site;
use crate::binary::program;

/// A client of the protocol, which has started the command.
struct McpClient {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl McpClient {
    fn start(url: &str, key: &str) -> Self {
        let mut command = Command::new(program());
        command.arg("mcp").env("JOURNEYMAN_URL", url).env("JOURNEYMAN_KEY", key);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, stdin, stdout }
    }

    fn write(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn read(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| unreachable!("{error}: {line:?}"))
    }

    fn request(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.write(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string());
        let answer = self.read();
        assert_eq!(answer["id"], json!(id), "{answer}");
        answer
    }

    fn initialize(&mut self) {
        let client = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
        });
        let begun = self.request(0, "initialize", client);
        assert_eq!(begun["result"]["serverInfo"]["name"], "journeyman", "{begun}");
        self.write(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    }

    fn call(&mut self, id: u64, tool: &str, arguments: Value) -> Value {
        let answer = self.request(id, "tools/call", json!({ "name": tool, "arguments": arguments }));
        answer["result"]["structuredContent"].clone()
    }

    /// Returns what `get_job` answers after the end of the job. One call waits at most 50 seconds.
    fn ended(&mut self, id: u64, job: &Value) -> Value {
        until("the end of the job", || {
            let answer = self.call(id, "get_job", json!({ "job": job, "wait": 50 }));
            (answer["stillActive"] != json!(true)).then_some(answer)
        })
    }

    /// Closes stdin, and checks that the command ends without an error and prints nothing more.
    fn end(mut self) {
        self.stdin.take();
        assert!(self.child.wait().unwrap().success());
        let mut rest = String::new();
        self.stdout.read_line(&mut rest).unwrap();
        assert_eq!(rest, "");
    }
}

#[test]
fn a_job_is_created_and_continued_although_the_server_restarts_between_two_calls() {
    let site = site();
    let service = site.start();
    let address = service.url.trim_start_matches("http://").to_owned();
    let mut client = McpClient::start(&service.url, &site.key);
    client.initialize();
    let made = client.call(1, "create_job", json!({ "prompt": "Add a page [[write a.txt|one]] [[say done]]" }));
    let job = made["job"]["id"].clone();
    let ended = client.ended(2, &job);
    assert_eq!(ended["job"]["status"], "completed", "{ended}");
    assert!(
        ended["job"]["prLink"].is_string() && ended["answer"]["text"].as_str().unwrap().contains("done"),
        "{ended}"
    );
    service.kill();
    let _service = site.start_at(&address);
    let sent = client.call(3, "send_message", json!({ "job": job, "prompt": "More [[append a.txt|two]]" }));
    assert_eq!(sent["stillActive"], json!(true), "{sent}");
    let ended = client.ended(4, &job);
    assert_eq!(ended["message"]["status"], "finished", "{ended}");
    let changes = client.call(5, "get_changes", json!({ "job": job }));
    assert!(changes["diff"]["text"].as_str().unwrap().contains("+one\n+two"), "{changes}");
    client.end();
}

#[test]
fn failures_are_answers_and_a_canceled_request_has_none() {
    let site = site();
    let service = site.start();
    let mut client = McpClient::start(&service.url, &site.key);
    client.initialize();
    client.write("this is not JSON");
    assert_eq!(client.read()["error"]["code"], json!(-32700));
    let unknown = client.request(1, "tools/none", json!({}));
    assert_eq!(unknown["error"]["code"], json!(-32601), "{unknown}");

    let job = client.call(2, "create_job", json!({ "prompt": "[[sleep 3600]]" }))["job"]["id"].clone();
    let wait = json!({ "name": "get_job", "arguments": { "job": job, "wait": 50 } });
    client.write(&json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": wait }).to_string());
    client.write(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}"#);
    let listed = client.request(4, "tools/list", json!({}));
    assert!(listed["result"]["tools"].as_array().is_some_and(|tools| !tools.is_empty()), "{listed}");
    client.call(5, "cancel_job", json!({ "job": job }));
    client.end();

    let mut stranger = McpClient::start(&service.url, &"jmn_".to_owned().repeat(11));
    let refused = stranger.request(1, "tools/list", json!({}));
    assert_eq!(refused["error"]["code"], json!(-32000), "{refused}");
    assert!(!refused.to_string().contains(&"jmn_".repeat(11)), "{refused}");
    stranger.end();
    service.kill();
    let mut alone = McpClient::start("http://127.0.0.1:9", &site.key);
    let unreachable = alone.request(1, "tools/list", json!({}));
    assert!(unreachable["error"]["message"].as_str().unwrap().contains("cannot reach a server"), "{unreachable}");
    alone.end();
}
