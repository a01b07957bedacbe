//! Tests with the test model.

use std::fs;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use crate::support::Agent;

struct Setup {
    directory: tempfile::TempDir,
}

impl Setup {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("work")).unwrap();
        Self { directory }
    }

    fn work(&self) -> std::path::PathBuf {
        self.directory.path().join("work")
    }

    fn state(&self) -> std::path::PathBuf {
        self.directory.path().join("state")
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.work().join(name)).unwrap()
    }
}

fn updates_of<'a>(agent: &'a Agent, kind: &str) -> Vec<&'a Value> {
    agent.updates.iter().filter(|update| update["sessionUpdate"] == kind).collect()
}

#[tokio::test]
async fn directives_change_files_and_are_reported_as_tool_calls() {
    let setup = Setup::new();
    let mut agent = Agent::start(&setup.state()).await;
    let session = agent.session(&setup.work()).await;

    let answer =
        agent.prompt(&session, "[[write a.txt|one]] [[append a.txt|two\\n]] [[run cat a.txt]] [[say hello]]").await;

    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert_eq!(answer["result"]["usage"]["totalTokens"], 0, "{answer}");
    assert_eq!(setup.read("a.txt"), "one\ntwo\n");
    let calls = updates_of(&agent, "tool_call");
    let kinds: Vec<_> = calls.iter().map(|call| call["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["edit", "edit", "execute"]);
    assert_eq!(calls[0]["rawInput"]["path"], "a.txt");
    assert!(calls[0]["locations"][0]["path"].as_str().unwrap().ends_with("/a.txt"));
    let results = updates_of(&agent, "tool_call_update");
    assert!(results.iter().all(|result| result["status"] == "completed"), "{results:?}");
    assert_eq!(results[1]["content"][0]["type"], "diff");
    assert_eq!(results[1]["content"][0]["oldText"], "one\n");
    assert_eq!(results[1]["content"][0]["newText"], "one\ntwo\n");
    assert_eq!(results[2]["content"][0]["content"]["text"], "one\ntwo");
    assert!(agent.said().starts_with("hello\n\nDone: wrote `a.txt`"), "{}", agent.said());
    agent.stop().await;
}

#[tokio::test]
async fn failing_and_unknown_directives_do_not_end_the_turn() {
    let setup = Setup::new();
    let mut agent = Agent::start(&setup.state()).await;
    let session = agent.session(&setup.work()).await;

    let answer = agent.prompt(&session, "[[run exit 7]] [[write ../out|x]] [[foo bar]] [[write b|last]]").await;

    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let results = updates_of(&agent, "tool_call_update");
    let states: Vec<_> = results.iter().map(|result| result["status"].as_str().unwrap()).collect();
    assert_eq!(states, ["failed", "failed", "completed"]);
    assert!(agent.said().contains("unknown directive [[foo bar]]; known directives: [[write"), "{}", agent.said());
    assert!(!setup.directory.path().join("out").exists());
    assert_eq!(setup.read("b"), "last\n");
    agent.stop().await;
}

#[tokio::test]
async fn a_prompt_without_directives_is_added_to_the_notes() {
    let setup = Setup::new();
    let mut agent = Agent::start(&setup.state()).await;
    let session = agent.session(&setup.work()).await;
    agent.prompt(&session, "First thing.").await;
    agent.prompt(&session, "Second thing.").await;
    assert_eq!(setup.read("AGENT_NOTES.md"), "# Agent notes\n\nFirst thing.\n\nSecond thing.\n");
    assert!(agent.said().contains("AGENT_NOTES.md"));
    agent.stop().await;
}

#[tokio::test]
async fn failures_and_crashes_can_be_requested() {
    let setup = Setup::new();
    let mut agent = Agent::start(&setup.state()).await;
    let session = agent.session(&setup.work()).await;

    let failed = agent.prompt(&session, "[[fail on purpose]]").await;
    assert_eq!(failed["error"]["code"], -32603, "{failed}");
    assert_eq!(failed["error"]["message"], "on purpose");

    assert!(!agent.died.load(Ordering::Relaxed));
    agent.prompt(&session, "[[die]]").await;
    assert!(agent.died.load(Ordering::Relaxed));
    agent.stop().await;
}

#[tokio::test]
async fn permissions_are_requested_while_a_turn_runs() {
    let setup = Setup::new();
    let mut agent = Agent::start(&setup.state()).await;
    let session = agent.session(&setup.work()).await;

    for (chosen, expected) in [("allow_once", "permission granted"), ("reject_once", "permission refused")] {
        let prompt = agent.send_prompt(&session, "[[ask may I?]]").await;
        let question = agent.request_of_agent("session/request_permission").await;
        let kinds: Vec<_> = question["params"]["options"]
            .as_array()
            .unwrap()
            .iter()
            .map(|option| option["kind"].as_str().unwrap())
            .collect();
        assert_eq!(kinds, ["allow_once", "reject_once"]);
        let outcome = json!({"outcome": {"outcome": "selected", "optionId": chosen}});
        agent.send(json!({"jsonrpc": "2.0", "id": question["id"], "result": outcome})).await;
        let answer = agent.answer(prompt).await;
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
        assert!(agent.said().contains(expected), "{}", agent.said());
    }
    agent.stop().await;
}

#[tokio::test]
async fn refused_calls_are_not_executed() {
    let setup = Setup::new();
    let mut agent = Agent::start_asking(&setup.state()).await;
    let session = agent.session(&setup.work()).await;
    for (prompt, kind) in [("[[write a|x]]", "edit"), ("[[run touch b]]", "execute")] {
        for (chosen, done) in [("reject_once", false), ("allow_once", true)] {
            let prompt = agent.send_prompt(&session, prompt).await;
            let question = agent.request_of_agent("session/request_permission").await;
            assert_eq!(question["params"]["toolCall"]["kind"], kind, "{question}");
            let outcome = json!({"outcome": {"outcome": "selected", "optionId": chosen}});
            agent.send(json!({"jsonrpc": "2.0", "id": question["id"], "result": outcome})).await;
            let answer = agent.answer(prompt).await;
            assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
            let file = if kind == "edit" { "a" } else { "b" };
            assert_eq!(setup.work().join(file).exists(), done, "{kind}");
        }
    }
    // Cancelling a turn ends it while a permission request is pending.
    let prompt = agent.send_prompt(&session, "[[write c|x]]").await;
    agent.request_of_agent("session/request_permission").await;
    agent.cancel(&session).await;
    assert_eq!(agent.answer(prompt).await["result"]["stopReason"], "cancelled");
    assert!(!setup.work().join("c").exists());
    agent.stop().await;
}

#[tokio::test]
async fn cancel_stops_sleeping_running_holding_and_asking_at_once() {
    let setup = Setup::new();
    let mut agent = Agent::start(&setup.state()).await;
    let session = agent.session(&setup.work()).await;
    for (prompt, first_update) in [
        ("[[say begun]] [[sleep 86400]]", Some("agent_message_chunk")),
        ("[[run sleep 86400]]", Some("tool_call")),
        ("[[say begun]] [[hold]]", Some("agent_message_chunk")),
        ("[[ask x]]", None),
    ] {
        let id = agent.send_prompt(&session, &format!("{prompt} [[write no|x]]")).await;
        match first_update {
            Some(kind) => agent.update_where(|update| update["sessionUpdate"] == kind).await,
            None => drop(agent.request_of_agent("session/request_permission").await),
        }
        agent.cancel(&session).await;
        let answer = agent.answer(id).await;
        assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
        assert!(!setup.work().join("no").exists());
    }
    // The session accepts prompts again.
    let answer = agent.prompt(&session, "[[say on]]").await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    agent.stop().await;
}

#[tokio::test]
async fn hold_pauses_until_a_file_is_there() {
    let setup = Setup::new();
    std::fs::create_dir_all(setup.state()).unwrap();
    let mut agent = Agent::start(&setup.state()).await;
    let session = agent.session(&setup.work()).await;
    let id = agent.send_prompt(&session, "[[hold]] [[write a.txt|x]]").await;
    journeyman_testkit::until_async("the test model waits", async || setup.state().join("held").exists().then_some(()))
        .await;
    assert!(!setup.work().join("a.txt").exists());
    std::fs::write(setup.state().join("released"), "").unwrap();
    let answer = agent.answer(id).await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert!(setup.work().join("a.txt").exists());
    agent.stop().await;
}

#[tokio::test]
async fn a_second_prompt_while_one_runs_is_an_error() {
    let setup = Setup::new();
    let mut agent = Agent::start(&setup.state()).await;
    let session = agent.session(&setup.work()).await;
    let first = agent.send_prompt(&session, "[[say begun]] [[sleep 86400]]").await;
    agent.update_where(|update| update["content"]["text"] == "begun\n\n").await;
    let second = agent.prompt(&session, "[[say too early]]").await;
    assert_eq!(second["error"]["code"], -32600, "{second}");
    agent.cancel(&session).await;
    let answer = agent.answer(first).await;
    assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
    agent.stop().await;
}

#[tokio::test]
async fn sessions_are_loaded_and_resumed_by_another_process() {
    let setup = Setup::new();
    let mut first = Agent::start(&setup.state()).await;
    let session = first.session(&setup.work()).await;
    first.prompt(&session, "[[say hello]]").await;
    first.stop().await;

    let mut second = Agent::start(&setup.state()).await;
    let params = json!({"sessionId": session, "cwd": setup.work(), "mcpServers": []});
    let unopened = second.prompt(&session, "[[say x]]").await;
    assert_eq!(unopened["error"]["code"], -32002, "{unopened}");
    let loaded = second.request("session/load", params.clone()).await;
    assert!(loaded.get("result").is_some(), "{loaded}");
    assert_eq!(second.texts("user_message_chunk"), ["[[say hello]]"]);
    assert_eq!(second.texts("agent_message_chunk")[0], "hello");
    second.stop().await;

    let mut third = Agent::start(&setup.state()).await;
    let resumed = third.request("session/resume", params).await;
    assert!(resumed.get("result").is_some(), "{resumed}");
    assert!(third.updates.is_empty());
    let answer = third.prompt(&session, "[[say again]]").await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    third.stop().await;
}

#[tokio::test]
async fn invalid_requests_are_refused() {
    let setup = Setup::new();
    let mut agent = Agent::start(&setup.state()).await;
    let session = agent.session(&setup.work()).await;
    let work = setup.work();
    for (method, params, code) in [
        ("session/load", json!({"sessionId": "none", "cwd": work, "mcpServers": []}), -32002),
        ("session/load", json!({"sessionId": "../x", "cwd": work, "mcpServers": []}), -32602),
        ("session/new", json!({"cwd": "relative", "mcpServers": []}), -32602),
        ("session/new", json!({"cwd": "/does/not/exist", "mcpServers": []}), -32602),
        ("session/prompt", json!({"sessionId": "none", "prompt": []}), -32002),
        ("session/prompt", json!({"sessionId": session, "prompt": []}), -32602),
        ("session/set_mode", json!({"sessionId": session, "modeId": "x"}), -32601),
        ("no/such/method", json!({}), -32601),
    ] {
        let answer = agent.request(method, params).await;
        assert_eq!(answer["error"]["code"], code, "{method}: {answer}");
    }
    agent.stop().await;
}
