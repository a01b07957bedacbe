//! Tests of agents that misbehave: each run ends with a reason, and the service continues to work.

use serde_json::{Value, json};

use crate::program::fixtures::{acp_script, is_running, site_with};

/// Agents: a name, the script that runs when the agent is prompted, and the reason code of the last run (empty: none).
const AGENTS: &[(&str, &str, &str)] = &[
    ("junk", "echo 'not json at all'; echo '{}'; echo '[1,2]'; answer", ""),
    ("broken", "echo '{\"jsonrpc\":\"2.0\",\"id\":'; echo '}}}'; answer", ""),
    ("binary", "head -c 100000 /dev/urandom; echo; answer", ""),
    (
        "unknown",
        "echo '{\"jsonrpc\":\"2.0\",\"id\":\"q1\",\"method\":\"fs/read_text_file\",\"params\":{\"path\":\"/etc/shadow\"}}'; read -r said; case $said in *-32601*) answer ;; esac",
        "",
    ),
    (
        "nameless",
        "echo '{\"jsonrpc\":\"2.0\",\"id\":\"q1\",\"method\":\"session/request_permission\",\"params\":{\"options\":[{\"optionId\":\"x\",\"kind\":\"allow_everything\"}]}}'; read -r said; case $said in *cancelled*) answer ;; esac",
        "",
    ),
    ("stranger", "echo '{\"jsonrpc\":\"2.0\",\"id\":999,\"result\":{}}'; answer", ""),
    ("silent", "sleep 1000", "timed_out"),
    ("deaf", "trap '' TERM INT HUP; while :; do sleep 1; done", "timed_out"),
    ("long", "head -c 50000000 /dev/zero | tr '\\0' a; echo; answer", "agent_protocol"),
    (
        "endless",
        "while :; do printf '{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"s1\",\"update\":{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"%s\"}}}}\\n' \"$BULK\"; done",
        "output_limit",
    ),
    ("dying", "kill -9 $$", "agent_exited"),
    ("leaving", "exit 0", "agent_exited"),
    ("closing", "exec 1>&-; sleep 1000", "agent_exited"),
    (
        "wrong",
        "printf '{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":-32000,\"message\":\"no money left\"}}\\n' \"$id\"",
        "agent_failed",
    ),
    (
        "refusing",
        "printf '{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"stopReason\":\"refusal\"}}\\n' \"$id\"",
        "agent_refused",
    ),
    (
        "odd",
        "printf '{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"stopReason\":\"because\"}}\\n' \"$id\"",
        "turn_cut_short",
    ),
    (
        "halved",
        "printf '%s\\n' '{\"jsonrpc\":\"2.0\",\"id\":\"q1\",\"method\":\"session/request_permission\",\"params\":{\"toolCall\":{\"title\":\"cut \\ud83d\"},\"options\":[{\"optionId\":\"x\",\"kind\":\"allow_once\"}]}}'; read -r said; case $said in *'\"optionId\":\"x\"'*) answer ;; esac",
        "",
    ),
    ("mumbling", "printf '{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"stopReason\":NaN}}\\n' \"$id\"", "agent_failed"),
    (
        "mute",
        "printf '%s\\n' '{\"jsonrpc\":\"2.0\",\"method\":\"session/request_permission\",\"params\":{\"x\":NaN},\"id\":\"q1\"}'; sleep 1000",
        "agent_protocol",
    ),
    ("haunting", "setsid sleep 97531 & (trap '' TERM; sleep 97532) & answer", ""),
];

#[test]
fn a_misbehaving_agent_ends_only_its_run() {
    let mut config = "workers = 8\nwarm-agents = 0\n".to_owned();
    for (name, ..) in AGENTS {
        config.push_str(&format!(
            "[agents.{name}]\ncommand = [\"sh\", \"DIR/{name}.sh\"]\nreadable = [\"DIR/{name}.sh\"]\n"
        ));
    }
    let site = site_with(&config);
    std::fs::write(site.path("config.toml"), config.replace("DIR", site.dir.path().to_str().unwrap())).unwrap();
    for (name, on_prompt, _) in AGENTS {
        std::fs::write(site.path(&format!("{name}.sh")), acp_script(on_prompt)).unwrap();
    }
    let service = site.start();
    // Only the agents that never answer get a short time for their runs, which are in another project.
    let create = ["project", "create", "quick", "--repository", "local:shop"];
    site.succeed(&create);
    for (project, seconds) in [("shop", 3600), ("quick", 5)] {
        let limits = json!({ "limits": { "runSeconds": seconds, "outputBytes": 20_000_000 } });
        assert_eq!(service.call("PATCH", &format!("/v2/projects/{project}"), Some(limits)).0, 200);
    }
    let jobs: Vec<String> = AGENTS
        .iter()
        .map(|(name, _, expected)| {
            let project = if *expected == "timed_out" { "quick" } else { "shop" };
            let body = json!({ "prompt": "x", "agent": name });
            let (status, record) = service.call("POST", &format!("/v2/agent/{project}/job"), Some(body));
            assert_eq!(status, 201, "{record}");
            format!("/v2/agent/{project}/job/{}", record["id"].as_str().unwrap())
        })
        .collect();
    for ((name, _, expected), job) in AGENTS.iter().zip(&jobs) {
        service.settled(job);
        let runs = service.get(&format!("{job}/runs"));
        let last = runs["runs"].as_array().unwrap().last().unwrap();
        let code = last["reason"]["code"].as_str().unwrap_or_default();
        assert_eq!(code, *expected, "{name}: {last:#}");
        let text = last["reason"]["text"].as_str().unwrap_or_default();
        assert!(code.is_empty() || text.len() > 10, "{name}: {text:?} does not say what happened");
    }
    for number in ["97531", "97532"] {
        assert!(!is_running(&["sleep", number]), "sleep {number}");
    }
    let job = service.create("[[write well|yes]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
}

/// Agents that violate the protocol when they start: a name, the script, the code of the reason, and parts of its text.
/// Another attempt would fail in the same way, so there is only one, except for the slow agent: the machine may have been
/// busy.
const FAILING_STARTS: &[(&str, &str, &str, &[&str])] = &[
    (
        "exiting",
        "echo no license >&2; exit 7",
        "agent_exited",
        &["before it answered initialize", "exit code 7", "no license"],
    ),
    (
        "newer",
        r#"read -r line; printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":9}}\n' "$(id)"; sleep 1000"#,
        "agent_protocol",
        &["version 9"],
    ),
    ("slow", "sleep 1000", "agent_not_started", &["did not answer initialize within 2 s", "initialize-seconds"]),
    (
        "wordy",
        "read -r line; head -c 50000000 /dev/zero | tr '\\0' a; sleep 1000",
        "agent_protocol",
        &["a line of more"],
    ),
    (
        "leaving",
        r#"read -r line; printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":1}}\n' "$(id)"; read -r line; exit 3"#,
        "agent_exited",
        &["before its session was open", "exit code 3"],
    ),
];

#[test]
fn an_agent_that_cannot_start_fails_and_the_reason_says_why() {
    let mut config = "workers = 8\nwarm-agents = 0\n".to_owned();
    for (name, ..) in FAILING_STARTS {
        config.push_str(&format!(
            "[agents.{name}]\ncommand = [\"sh\", \"DIR/{name}.sh\"]\nreadable = [\"DIR/{name}.sh\"]\n\
             initialize-seconds = {}\n",
            if *name == "slow" { 2 } else { 600 }
        ));
    }
    let site = site_with(&config);
    std::fs::write(site.path("config.toml"), config.replace("DIR", site.dir.path().to_str().unwrap())).unwrap();
    for (name, script, ..) in FAILING_STARTS {
        let id = r#"id() { printf '%s' "$line" | sed -n 's/.*"id":\("[^"]*"\|[0-9][0-9]*\).*/\1/p'; }"#;
        std::fs::write(site.path(&format!("{name}.sh")), format!("{id}\n{script}\n")).unwrap();
    }
    let service = site.start();
    for (name, _, code, words) in FAILING_STARTS {
        let body = json!({ "prompt": "x", "agent": name });
        let (status, record) = service.call("POST", "/v2/agent/shop/job", Some(body));
        assert_eq!(status, 201, "{record}");
        let job = format!("/v2/agent/shop/job/{}", record["id"].as_str().unwrap());
        assert_eq!(service.settled(&job)["status"], "failed", "{name}");
        let runs = service.get(&format!("{job}/runs"))["runs"].as_array().unwrap().clone();
        assert_eq!(runs.len(), if *name == "slow" { 3 } else { 1 }, "{name}: {runs:#?}");
        let reason = &runs[0]["reason"];
        let text = reason["text"].as_str().unwrap();
        assert_eq!(reason["code"], *code, "{name}: {text}");
        assert!(words.iter().all(|word| text.contains(word)), "{name}: {text}");
    }
}

/// What agents print before their first message, and whether a line follows.
const FIRST_LINES: &[(&str, &str, &str)] = &[
    ("title", r"\033]0;agent\007", r"\u{1b}]0;agent\u{7}"),
    ("mark", r"\357\273\277", r"\u{feff}"),
    ("banner", r"Welcome back!\n", "Welcome back!"),
];

#[test]
fn what_an_agent_prints_before_its_first_message_is_dropped_and_told() {
    let mut config = "workers = 8\nwarm-agents = 0\n".to_owned();
    for (name, ..) in FIRST_LINES {
        config.push_str(&format!(
            "[agents.{name}]\ncommand = [\"sh\", \"DIR/{name}.sh\"]\nreadable = [\"DIR/{name}.sh\"]\n"
        ));
    }
    let site = site_with(&config);
    std::fs::write(site.path("config.toml"), config.replace("DIR", site.dir.path().to_str().unwrap())).unwrap();
    for (name, printed, _) in FIRST_LINES {
        let script = format!(
            r#"printf '{printed}'
while read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\("[^"]*"\|[0-9][0-9]*\).*/\1/p')
    case $line in
        *'"initialize"'*) result='{{"protocolVersion":1}}' ;;
        *'"session/new"'*) result='{{"sessionId":"s"}}' ;;
        *'"session/prompt"'*) result='{{"stopReason":"end_turn"}}' ;;
        *) continue ;;
    esac
    printf '{{"jsonrpc":"2.0","id":%s,"result":%s}}\n' "$id" "$result"
done
"#
        );
        std::fs::write(site.path(&format!("{name}.sh")), script).unwrap();
    }
    let service = site.start();
    for (name, _, told) in FIRST_LINES {
        let body = json!({ "prompt": "x", "agent": name });
        let (status, record) = service.call("POST", "/v2/agent/shop/job", Some(body));
        assert_eq!(status, 201, "{record}");
        let job = format!("/v2/agent/shop/job/{}", record["id"].as_str().unwrap());
        assert_eq!(service.settled(&job)["status"], "completed", "{name}: {:#}", service.events(&job));
        let events = service.events(&job);
        let dropped: Vec<&Value> =
            events.as_array().unwrap().iter().filter(|event| event["type"] == "agent.line_dropped").collect();
        assert_eq!(dropped.len(), 1, "{name}: {events:#}");
        assert_eq!(dropped[0]["data"]["beginning"], *told, "{name}");
    }
}
