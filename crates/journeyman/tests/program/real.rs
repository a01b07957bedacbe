//! Tests of third-party agents, installed from their packages, with a scripted model: `make test-agents`.

use journeyman_testkit::{Asked, Reply};
use serde_json::{Value, json};

use super::fixtures::Service;
use super::models::{Models, create, has_tool_result, last_run, served};

/// Answers as a model that runs the last command between `RUN<` and `>` in the conversation, with the tool for commands
/// that the agent offers, and then ends the turn.
fn run_command(asked: &Asked) -> Reply {
    let tools = asked.tools();
    let text = asked.body.to_string();
    let command =
        text.rsplit_once("RUN<").and_then(|(_, rest)| rest.split_once('>')).map(|(command, _)| command.to_owned());
    let Some(command) = command.filter(|_| !tools.is_empty() && !has_tool_result(asked)) else {
        return Reply::Text("It is done.".to_owned());
    };
    let known = ["Bash", "bash", "shell_command", "exec_command", "shell", "run_shell_command", "Shell", "execute"];
    let Some(name) = known.into_iter().find(|name| tools.iter().any(|tool| tool == name)) else {
        return Reply::Text(format!("there is no tool for commands among {tools:?}"));
    };
    let arguments = match name {
        "exec_command" => json!({ "cmd": command }),
        "shell" => json!({ "command": ["/bin/sh", "-c", command] }),
        _ => json!({ "command": command, "description": "Do what was asked for" }),
    };
    Reply::Tool { name: name.to_owned(), arguments }
}

fn sessions(service: &Service, job: &str) -> Vec<Value> {
    let events = service.events(job);
    let all = events.as_array().unwrap().iter().filter(|event| event["type"] == "agent.session");
    all.map(|event| event["data"].clone()).collect()
}

/// Checks three turns of an agent: the first one, one of the idle process, and one after the service was killed.
fn works(id: &str, model: &str) {
    let models = Models::start(run_command);
    let (site, service) = served(&models, "");
    site.succeed(&["agent", "install", id]);
    let (status, answer) = service.call("PATCH", "/v2/projects/shop", Some(json!({ "agent": id })));
    assert_eq!(status, 200, "{answer}");
    let check = |service: &Service, job: &str, file: &str, number: usize| {
        let record = service.settled(job);
        let run = last_run(service, job);
        assert_eq!(record["status"], "completed", "{id} {number}: {run:#} {:#}", service.events(job));
        let made = site.file(&site.branch(), file);
        assert!(made.is_some(), "{id} {number}: {file} is not in the commit: {:#}", service.events(job));
        assert!(run["usage"]["inputTokens"].as_u64().unwrap() > 0, "{id} {number}: {run}");
    };
    let job = create(&service, model, "Please do this: RUN<echo one-apple |tee one.txt>");
    check(&service, &job, "one.txt", 1);
    service.send(&job, "And now: RUN<echo two |tee two.txt>");
    check(&service, &job, "two.txt", 2);
    assert_eq!(sessions(&service, &job).len(), 1, "{id}: the idle process was not reused");
    service.kill();
    let service = site.start_wrapped({
        let mut with_keys = std::process::Command::new("env");
        with_keys.args(["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"].map(|name| format!("{name}=sk-x")));
        with_keys
    });
    let before = models.server.asked().len();
    service.send(&job, "At last: RUN<echo three |tee three.txt>");
    check(&service, &job, "three.txt", 3);
    let sent: String = models.server.asked()[before..].iter().map(|asked| asked.body.to_string()).collect();
    assert!(sent.contains("one-apple"), "{id}: the session was not resumed: {sent}");
    let sessions = sessions(&service, &job);
    let (agent, opened) = (sessions[0]["agent"].as_str().unwrap(), sessions[1]["opened"].as_str().unwrap());
    if id == "opencode" {
        let denied = service.count(&job, "egress.denied");
        assert_eq!(denied, 0, "the agent contacts more than its model: {:#}", service.events(&job));
    }
    let calls = models.server.asked().len();
    #[expect(clippy::print_stdout, reason = "a line for docs/agents.md")]
    {
        println!("| {id} | {agent} | {opened} | {} | {calls} |", sessions[0]["millis"]);
    }
}

#[test]
#[ignore = "installs from npm; run by make test-agents"]
fn claude_code() {
    works("claude-code", "anthropic/claude-sonnet-5-5");
}

#[test]
#[ignore = "installs from npm; run by make test-agents"]
fn codex() {
    works("codex", "openai/gpt-5");
}

#[test]
#[ignore = "installs from npm; run by make test-agents"]
fn opencode() {
    works("opencode", "openai/gpt-5");
}

#[test]
#[ignore = "installs from npm; run by make test-agents"]
fn qwen() {
    works("qwen", "openai/gpt-5");
}

#[test]
#[ignore = "installs from npm; run by make test-agents"]
fn kimi() {
    works("kimi", "openai/gpt-5");
}

#[test]
#[ignore = "installs from npm; run by make test-agents"]
fn gemini() {
    works("gemini", "gemini/gemini-2.5-pro");
}

#[test]
#[ignore = "installs from npm; run by make test-agents"]
fn pi() {
    works("pi", "openai/gpt-5");
}
