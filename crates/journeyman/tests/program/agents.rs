//! Agents that are not ours, and what they may do to a service.

use std::time::{Duration, Instant};

use serde_json::json;

use super::given::{Service, Site, site, site_with};
use crate::inside::{Inmate, TELL};

/// An agent that knows nothing of us: a shell script that speaks the protocol.
const SHELL_AGENT: &str = r#"#!/bin/sh
cwd=""
while IFS= read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\("[^"]*"\|[0-9][0-9]*\).*/\1/p')
    case "$line" in
    *'"method":"initialize"'*)
        printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":1,"agentCapabilities":{},"authMethods":[]}}\n' "$id" ;;
    *'"method":"session/new"'*)
        printf '{"jsonrpc":"2.0","id":%s,"result":{"sessionId":"s1"}}\n' "$id" ;;
    *'"method":"session/prompt"'*)
        echo "made with $GREETING by $1" > from-the-shell.txt
        printf '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Done by a shell."}}}}\n'
        printf '{"jsonrpc":"2.0","id":%s,"result":{"stopReason":"end_turn"}}\n' "$id" ;;
    esac
done
"#;

#[test]
fn another_agent_is_plugged_in_by_configuration_alone() {
    let site = site_with(
        "lease = \"3s\"\n[agents.shell]\ncommand = [\"sh\", \"DIR/agent.sh\", \"{model}\"]\nreadable = [\"DIR/agent.sh\"]\nenvironment = { GREETING = \"love\" }\n",
    );
    let config = std::fs::read_to_string(site.path("config.toml")).unwrap();
    std::fs::write(site.path("config.toml"), config.replace("DIR", site.dir.path().to_str().unwrap())).unwrap();
    std::fs::write(site.path("agent.sh"), SHELL_AGENT).unwrap();
    let service = site.start();
    let body = json!({"prompt": "x", "agent": "shell", "model": "some/model"});
    let (status, record) = service.call("POST", "/v2/agent/shop/job", Some(body));
    assert_eq!((status, record["model"].clone()), (201, json!("some/model")), "{record}");
    let job = format!("/v2/agent/shop/job/{}", record["id"].as_str().unwrap());
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    assert_eq!(site.file(&site.branch(), "from-the-shell.txt").unwrap(), "made with love by some/model\n");
    let said = service.events(&job).as_array().unwrap().iter().any(|event| event["data"]["text"] == "Done by a shell.");
    assert!(said, "{:#}", service.events(&job));
}

/// A site with the agent `shell`, a script of that text.
fn site_with_script(script: &str) -> Site {
    let site = site_with(
        "lease = \"3s\"\n[agents.shell]\ncommand = [\"sh\", \"DIR/agent.sh\"]\nreadable = [\"DIR/agent.sh\"]\n",
    );
    let config = std::fs::read_to_string(site.path("config.toml")).unwrap();
    std::fs::write(site.path("config.toml"), config.replace("DIR", site.dir.path().to_str().unwrap())).unwrap();
    std::fs::write(site.path("agent.sh"), script).unwrap();
    site
}

fn create(service: &Service, agent: &str, prompt: &str) -> String {
    let (status, record) = service.call("POST", "/v2/agent/shop/job", Some(json!({"prompt": prompt, "agent": agent})));
    assert_eq!(status, 201, "{record}");
    format!("/v2/agent/shop/job/{}", record["id"].as_str().unwrap())
}

fn follow_up(service: &Service, job: &str, prompt: &str) {
    let (status, record) = service.call("POST", &format!("{job}/message"), Some(json!({"prompt": prompt})));
    assert_eq!(status, 200, "{record}");
    assert_eq!(service.settled(job)["status"], "completed", "{:#}", service.events(job));
}

#[test]
fn an_agent_has_a_moment_after_its_answer_to_write_its_session() {
    let answer = r#"printf '{"jsonrpc":"2.0","id":%s,"result":{"stopReason":"end_turn"}}\n' "$id" ;;"#;
    let late = answer.replace(";;", "; sleep 0.05; echo told >> \"$HOME/session\" ;;");
    let site = site_with_script(
        &SHELL_AGENT.replace(answer, &late).replace("echo \"made", "cp \"$HOME/session\" told.txt; echo \"made"),
    );
    let service = site.start();
    let job = create(&service, "shell", "x");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    std::fs::remove_dir_all(site.path("data/workspaces")).unwrap();
    follow_up(&service, &job, "y");
    assert_eq!(site.file(&site.branch(), "told.txt").as_deref(), Some("told\n"));
}

#[test]
fn an_agent_that_has_waited_and_forgotten_its_session_is_replaced() {
    let once = "[ -z \"$served\" ] || { printf '{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":-32000,\"message\":\
                \"no such session\"}}\\n' \"$id\"; continue; }; served=1; echo \"made";
    let site = site_with_script(&SHELL_AGENT.replace("echo \"made", once).replace("> from", ">> from"));
    let service = site.start();
    let job = create(&service, "shell", "x");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    follow_up(&service, &job, "y");
    assert_eq!(site.file(&site.branch(), "from-the-shell.txt").unwrap().lines().count(), 2);
    let runs = service.get(&format!("{job}/runs"));
    let statuses: Vec<_> = runs["runs"].as_array().unwrap().iter().map(|run| run["status"].clone()).collect();
    assert_eq!(statuses, ["succeeded", "failed", "succeeded"], "{runs:#}");
}

/// The agent of a job that has come to rest.
fn waiting_agent(site: &Site, service: &Service) -> Inmate {
    let job = service.create(&format!("[[run {TELL} > ~/told]]"));
    assert_eq!(service.settled(&job)["status"], "completed");
    let id = job.rsplit('/').next().unwrap();
    Inmate::parse(&std::fs::read_to_string(site.path(&format!("data/workspaces/{id}/home/told"))).unwrap())
}

#[test]
fn a_service_that_ends_ends_the_agents_that_wait_for_a_follow_up() {
    let site = site();
    let mut service = site.start();
    let agent = waiting_agent(&site, &service);
    assert!(agent.runs(), "it waits");
    service.terminate();
    assert_eq!(service.ended(), Some(0));
    assert!(!agent.runs(), "it is gone before the service is");
}

#[test]
fn an_agent_that_waits_paused_does_not_outlive_a_service_that_is_killed() {
    let site = site();
    let service = site.start();
    let agent = waiting_agent(&site, &service);
    let until = |wanted: &[Option<char>]| {
        let end = Instant::now() + Duration::from_secs(20);
        while !wanted.contains(&agent.state()) {
            assert!(Instant::now() < end, "the agent is in state {:?}", agent.state());
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    until(&[Some('T')]);
    service.kill();
    until(&[None, Some('Z')]);
}
