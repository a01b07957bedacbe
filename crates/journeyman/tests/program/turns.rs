//! Tests of turns that end before the agent is done: they are continued, and their work is kept.

use serde_json::{Value, json};

use super::fixtures::{Service, Site, acp_script, site_with};
use super::models::{Models, create, last_run, served};

/// A script that answers each prompt with the next stop reason in `STOPS`, repeating the last one, and writes a line.
const STOPPING: &str = r#"
    echo prompted >> prompts.txt
    stop=${STOPS%% *}
    STOPS=${STOPS#* }
    printf '{"jsonrpc":"2.0","id":%s,"result":{"stopReason":%s}}\n' "$id" "$stop""#;

/// Starts a service with one agent for each of `agents`: a name, and stop reasons as JSON.
fn service(agents: &[(&str, &str)]) -> (Site, Service) {
    service_of(STOPPING, agents)
}

/// Starts a service whose agents run the script `on_prompt` when they are prompted.
fn service_of(on_prompt: &str, agents: &[(&str, &str)]) -> (Site, Service) {
    let mut config = "workers = 4\nwarm-agents = 0\n".to_owned();
    for (name, stops) in agents {
        config.push_str(&format!(
            "[agents.{name}]\ncommand = [\"sh\", \"DIR/agent.sh\"]\nreadable = [\"DIR/agent.sh\"]\n\
             asks = [\"execute\"]\nenvironment = {{ STOPS = {stops:?} }}\n"
        ));
    }
    let site = site_with(&config);
    std::fs::write(site.path("config.toml"), config.replace("DIR", site.dir.path().to_str().unwrap())).unwrap();
    std::fs::write(site.path("agent.sh"), acp_script(on_prompt)).unwrap();
    let service = site.start();
    (site, service)
}

/// Runs a job of an agent; returns its path and its record.
fn settled(service: &Service, agent: &str) -> (String, Value) {
    let body = json!({ "prompt": "Do it.", "agent": agent });
    let (status, record) = service.call("POST", "/v2/agent/shop/job", Some(body));
    assert_eq!(status, 201, "{record}");
    let job = format!("/v2/agent/shop/job/{}", record["id"].as_str().unwrap());
    let record = service.settled(&job);
    (job, record)
}

#[test]
fn a_turn_that_was_cut_short_is_continued() {
    let (site, service) = service(&[("short", r#""max_tokens" "max_turn_requests" "end_turn""#)]);
    let (job, record) = settled(&service, "short");
    assert_eq!(record["status"], "completed", "{:#}", service.events(&job));
    assert_eq!(site.file(&site.branch(), "prompts.txt").unwrap(), "prompted\n".repeat(3));
    let causes: Vec<Value> = service
        .events(&job)
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["type"] == "agent.continued")
        .map(|event| event["data"]["cause"].clone())
        .collect();
    assert_eq!(causes, ["max_tokens", "max_turn_requests"]);
    assert_eq!(last_run(&service, &job)["status"], "succeeded");
}

#[test]
fn a_turn_that_stays_cut_short_fails_and_its_work_is_a_draft() {
    let (site, service) = service(&[("cut", r#""max_tokens""#)]);
    let (job, record) = settled(&service, "cut");
    assert_eq!(record["status"], "failed", "{record:#}");
    let run = last_run(&service, &job);
    assert_eq!((&run["status"], &run["reason"]["code"]), (&json!("failed"), &json!("turn_cut_short")), "{run:#}");
    assert!(run["reason"]["text"].as_str().unwrap().contains("max_tokens"), "{run:#}");
    assert_eq!(run["commits"].as_array().unwrap().len(), 1, "{run:#}");
    assert_eq!(
        site.file(&site.branch(), "prompts.txt").unwrap(),
        "prompted\n".repeat(3),
        "the turn was not continued twice"
    );
    let message = service.get(&format!("{job}/messages"))["messages"][0].clone();
    assert_eq!((&message["status"], &message["commits"]), (&json!("failed"), &run["commits"]), "{message:#}");
    let page = service.page(&site, record["prLink"].as_str().unwrap()).1;
    assert!(page.contains(">Draft<"), "{page}");
}

#[test]
fn every_stop_reason_but_the_end_of_the_turn_cuts_it_short() {
    let agents = [
        ("tokens", r#""max_tokens""#, "max_tokens"),
        ("requests", r#""max_turn_requests""#, "max_turn_requests"),
        ("cancelled", r#""cancelled""#, "cancelled"),
        ("unknown", r#""tired""#, "tired"),
        ("none", "null", "no stop reason"),
    ];
    let (_site, service) = service(&agents.map(|(name, stops, _)| (name, stops)));
    let limits = json!({ "limits": { "continuations": 0 } });
    assert_eq!(service.call("PATCH", "/v2/projects/shop", Some(limits)).0, 200);
    for (name, _, cause) in agents {
        let (job, record) = settled(&service, name);
        let run = last_run(&service, &job);
        assert_eq!((&record["status"], &run["reason"]["code"]), (&json!("failed"), &json!("turn_cut_short")), "{name}");
        assert!(run["reason"]["text"].as_str().unwrap().contains(cause), "{name}: {run:#}");
        assert_eq!(service.count(&job, "agent.continued"), 0, "{name}");
    }
}

#[test]
fn the_built_in_agents_limit_of_model_calls_is_a_setting() {
    let models = Models::that_runs("echo hello > hello.txt");
    let (_site, service) = served(&models, "");
    for (calls, status, made) in [(1, "failed", 3), (2, "completed", 2)] {
        let limits = json!({ "limits": { "modelCalls": calls } });
        assert_eq!(service.call("PATCH", "/v2/projects/shop", Some(limits)).0, 200);
        let job = create(&service, "anthropic/m", "Say hello.");
        assert_eq!(service.settled(&job)["status"], status, "{:#}", service.events(&job));
        assert_eq!(service.count(&job, "agent.model_call"), made, "{calls} calls in a turn");
        let reason = last_run(&service, &job)["reason"].clone();
        let is_cut_short = reason["text"].as_str().unwrap_or_default().contains("max_turn_requests");
        assert_eq!(is_cut_short, status == "failed", "{reason:#}");
    }
}

#[test]
fn the_answer_is_in_the_receipt_and_in_the_event() {
    let (_site, service) = service(&[]);
    let job = service.create("[[say I begin.]] [[write a.txt|1]] [[say It is written.]]");
    service.settled(&job);
    service.send(&job, "[[write b.txt|2]] [[say And the second.]]");
    assert_eq!(service.settled(&job)["status"], "completed");
    let messages = service.get(&format!("{job}/messages"))["messages"].as_array().unwrap().clone();
    let answers: Vec<&str> = messages.iter().map(|message| message["answer"].as_str().unwrap()).collect();
    assert!(answers[0].contains("It is written.") && !answers[0].contains("I begin."), "{answers:?}");
    assert!(answers[1].contains("And the second."), "{answers:?}");
    let events = service.events(&job);
    let finished = events.as_array().unwrap().iter().filter(|event| event["type"] == "message.finished");
    for (event, message) in finished.zip(&messages) {
        for field in ["answer", "status", "commits", "prLink"] {
            assert_eq!(event["data"][field], message[field], "{event:#}");
        }
        assert_eq!(event["data"]["messageId"], message["id"]);
    }
    assert_eq!(service.count(&job, "message.finished"), 2);
}

/// A script that repeats the text of the prompt.
const REPEATING: &str = r#"
    text=$(printf '%s' "$line" | sed 's/.*"text":"//; s/"}\].*//; s/"}.*//')
    update='{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"heard: '
    printf '%s%s%s\n' "$update" "$text" '"}}}}'
    answer"#;

#[test]
fn a_new_session_gets_earlier_answers_too() {
    let (site, service) = service(&[("repeater", "")]);
    std::fs::write(site.path("agent.sh"), acp_script(REPEATING)).unwrap();
    let (job, _) = settled(&service, "repeater");
    service.send(&job, "What did you say?");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    let messages = service.get(&format!("{job}/messages"))["messages"].as_array().unwrap().clone();
    assert_eq!(messages[0]["answer"], "heard: Do it.");
    let heard = messages[1]["answer"].as_str().unwrap();
    assert!(heard.contains("> Do it.") && heard.contains("> heard: Do it."), "{heard}");
    assert!(heard.contains("What did you say?"), "{heard}");
}

/// A script that asks for permission to run a command, and ends the turn with the stop reason in `STOPS`, regardless of
/// the answer.
const ASKING: &str = r#"
    printf '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"tool_call","toolCallId":"c1","title":"rm -r build","kind":"execute"}}}\n'
    printf '{"jsonrpc":"2.0","id":"p","method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"c1","title":"rm -r build"},"options":[{"optionId":"y","name":"Yes","kind":"allow_once"},{"optionId":"n","name":"No","kind":"reject_once"}]}}\n'
    IFS= read -r reply
    echo asked >> prompts.txt
    printf '{"jsonrpc":"2.0","id":%s,"result":{"stopReason":%s}}\n' "$id" "$STOPS""#;

#[test]
fn a_turn_that_ends_because_of_a_refusal_says_so() {
    for agent in [("ends", r#""end_turn""#), ("cancels", r#""cancelled""#)] {
        let (site, service) = service_of(ASKING, &[agent]);
        let settings = json!({ "agent": agent.0, "sandbox": { "permissionKinds": { "execute": "refuse" } } });
        let (status, answer) = service.call("PATCH", "/v2/projects/shop", Some(settings));
        assert_eq!(status, 200, "{answer}");
        let agent = agent.0;
        let (job, record) = settled(&service, agent);
        let run = last_run(&service, &job);
        let code = (&record["status"], &run["reason"]["code"]);
        assert_eq!(code, (&json!("failed"), &json!("permission_refused")), "{agent}: {run:#}");
        let text = run["reason"]["text"].as_str().unwrap();
        assert!(text.contains("rm -r build") && text.contains("sandbox.permissionKinds"), "{text}");
        // The agent was prompted once: such a turn is not continued.
        assert_eq!(site.file(&site.branch(), "prompts.txt").as_deref(), Some("asked\n"), "{agent}");
    }
}
