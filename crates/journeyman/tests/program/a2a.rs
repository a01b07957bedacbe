//! Tests of the Agent2Agent protocol with the built program: contexts and tasks across a restart, and streams.

use journeyman_testkit::until;
use serde_json::{Value, json};

use super::fixtures::{Service, client, site};

/// Calls a method, and returns its result.
fn result(service: &Service, method: &str, params: &Value) -> Value {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let (status, answer) = service.call("POST", "/a2a?A2A-Version=1.0", Some(body));
    assert!(status == 200 && answer.get("error").is_none(), "{status} {answer}");
    answer["result"].clone()
}

/// Sends a message, and returns its task after its end. The answer to the message may come earlier: it waits at most 50
/// seconds for the end.
fn ended_task(service: &Service, message: &Value) -> Value {
    let mut task = result(service, "SendMessage", message)["task"].clone();
    until("the end of the task", || {
        let state = task["status"]["state"].as_str().unwrap();
        if !["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"].contains(&state) {
            return Some(task.clone());
        }
        task = result(service, "GetTask", &json!({ "id": task["id"] }));
        None
    })
}

fn message(id: &str, context: Option<&Value>, text: &str) -> Value {
    let mut message = json!({ "messageId": id, "role": "ROLE_USER", "parts": [{ "text": text }] });
    if let Some(context) = context {
        message["contextId"] = context.clone();
    }
    json!({ "message": message })
}

fn artifact<'a>(task: &'a Value, name: &str) -> &'a Value {
    let artifacts = task["artifacts"].as_array().unwrap();
    let found = artifacts.iter().find(|artifact| artifact["name"] == name);
    &found.unwrap_or_else(|| panic!("no {name}: {task}"))["parts"][0]
}

#[test]
fn a_context_continues_after_a_restart_with_the_results_of_its_tasks() {
    let site = site();
    let service = site.start();
    let address = service.url.trim_start_matches("http://").to_owned();
    let card = service.get("/.well-known/agent-card.json");
    assert_eq!(card["supportedInterfaces"][0]["url"], json!(format!("{}/a2a", service.url)));

    let first = message("m1", None, "Add a page [[write a.txt|one]] [[say done]]");
    let task = ended_task(&service, &first);
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{task}");
    assert!(artifact(&task, "answer")["text"].as_str().unwrap().contains("done"), "{task}");
    let data = &artifact(&task, "result")["data"];
    assert!(data["pullRequest"].is_string() && data["commits"].as_array().unwrap().len() == 1, "{data}");
    let diff = artifact(&task, "diff");
    assert!(diff["text"].as_str().unwrap().contains("+one"), "{diff}");
    assert!(diff["metadata"]["notice"].as_str().unwrap().contains("not instructions"), "{diff}");

    service.kill();
    let service = site.start_at(&address);
    assert_eq!(result(&service, "GetTask", &json!({ "id": task["id"] })), task);
    assert_eq!(result(&service, "SendMessage", &first)["task"]["id"], task["id"], "sent again");
    let more = message("m2", Some(&task["contextId"]), "More [[append a.txt|two]]");
    let more = ended_task(&service, &more);
    assert_eq!((&more["contextId"], &more["status"]["state"]), (&task["contextId"], &json!("TASK_STATE_COMPLETED")));
    assert!(artifact(&more, "diff")["text"].as_str().unwrap().contains("+one\n+two"), "{more}");
    let listed = result(&service, "ListTasks", &json!({ "contextId": task["contextId"] }));
    assert_eq!((&listed["totalSize"], &listed["tasks"][0]["id"]), (&json!(2), &more["id"]));
}

#[test]
fn a_stream_has_the_texts_of_the_agent_and_the_artifacts() {
    let site = site();
    let service = site.start();
    let body = message("m1", None, "[[say hello]] [[write a.txt|one]]");
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": body });
    let client = client();
    let request = client.post(format!("{}/a2a", service.url)).bearer_auth(&service.key).header("a2a-version", "1.0");
    let text = request.json(&body).send().unwrap().text().unwrap();
    let events = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let events: Vec<Value> = events.map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> =
        events.iter().map(|event| event["result"].as_object().unwrap().keys().next().unwrap().as_str()).collect();
    assert_eq!((kinds.first(), kinds.last()), (Some(&"task"), Some(&"statusUpdate")), "{text}");
    assert!(kinds.contains(&"artifactUpdate"), "{text}");
    let said = |event: &Value| {
        let status = &event["result"]["statusUpdate"]["status"];
        let said = status["message"]["parts"][0]["text"].as_str().unwrap_or_default();
        status["state"] == "TASK_STATE_WORKING" && said.contains("hello")
    };
    assert!(events.iter().any(said), "{text}");
    let last = &events.last().unwrap()["result"]["statusUpdate"]["status"]["state"];
    assert_eq!(last, "TASK_STATE_COMPLETED");
}
