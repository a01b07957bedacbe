//! Tests of agents that call models through the service, with a key that never enters their sandbox.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use journeyman_testkit::{Asked, Fault, ModelServer, Reply, TOKENS, until};
use serde_json::{Value, json};

use super::fixtures::{Service, Site, site_with};

pub(crate) const KEY: &str = "sk-4f3e2d1c-never-inside";

/// A model server for tests that are not asynchronous.
pub(crate) struct Models {
    pub(crate) server: ModelServer,
    _runtime: tokio::runtime::Runtime,
}

impl Models {
    pub(crate) fn start(script: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let server = runtime.block_on(ModelServer::start(script));
        Self { server, _runtime: runtime }
    }

    /// Starts a model that runs a command and then ends the turn.
    pub(crate) fn that_runs(command: &str) -> Self {
        let command = command.to_owned();
        Self::start(move |asked| {
            if has_tool_result(asked) {
                return Reply::Text("It is done.".to_owned());
            }
            Reply::Tool { name: "run_command".to_owned(), arguments: json!({ "command": command }) }
        })
    }
}

/// Returns the last message of a call, in any dialect.
fn last_message(asked: &Asked) -> String {
    let body = &asked.body;
    let all = ["messages", "input", "contents"].iter().find_map(|name| body[name].as_array());
    all.and_then(|all| all.last()).map(Value::to_string).unwrap_or_default()
}

/// Returns whether the last message of a call has the result of a tool.
pub(crate) fn has_tool_result(asked: &Asked) -> bool {
    let last = last_message(asked);
    let signs = ["tool_result", "\"role\":\"tool\"", "function_call_output", "functionResponse"];
    signs.iter().any(|sign| last.contains(sign))
}

/// Returns a site whose models are all served by `models`, and a service with the key.
pub(crate) fn served(models: &Models, more: &str) -> (Site, Service) {
    let url = &models.server.url;
    let tables: String = ["anthropic", "openai", "gemini", "ollama", "compatible"]
        .iter()
        .map(|name| format!("[models.{name}]\nbase-url = \"{url}\"\n"))
        .collect();
    let prices = "[prices.\"*/*\"]\ninput = 3\noutput = 15\ncached = 0.3\n";
    let prices: String = ["anthropic", "openai", "openai-responses", "gemini"]
        .map(|name| prices.replace("*/", &format!("{name}/")))
        .concat();
    let site = site_with(&format!("workers = 2\n{more}{tables}{prices}"));
    let mut with_keys = Command::new("env");
    for name in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"] {
        with_keys.arg(format!("{name}={KEY}"));
    }
    let service = site.start_wrapped(with_keys);
    (site, service)
}

/// Creates a job with a model; returns its path.
pub(crate) fn create(service: &Service, model: &str, prompt: &str) -> String {
    let (status, record) =
        service.call("POST", "/v2/agent/shop/job", Some(json!({ "prompt": prompt, "model": model })));
    assert_eq!(status, 201, "{record}");
    format!("/v2/agent/shop/job/{}", record["id"].as_str().unwrap())
}

/// Returns the job's last run.
pub(crate) fn last_run(service: &Service, job: &str) -> Value {
    service.get(&format!("{job}/runs"))["runs"].as_array().unwrap().last().unwrap().clone()
}

/// Returns the first file below a folder that contains a text.
fn file_with(folder: &std::path::Path, text: &str) -> Option<std::path::PathBuf> {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        let found = if kind.is_dir() {
            file_with(&path, text)
        } else if kind.is_file() {
            let bytes = std::fs::read(&path).unwrap_or_default();
            bytes.windows(text.len()).any(|window| window == text.as_bytes()).then_some(path)
        } else {
            None
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

#[test]
fn the_built_in_agent_works_with_every_provider_and_sees_no_key() {
    let look = "echo hello > hello.txt; (env; cat /proc/*/environ | tr '\\0' '\\n'; cat /proc/*/cmdline) > /tmp/seen; \
                cp /tmp/seen ~/seen; grep -c 'never-insid[e]' /tmp/seen";
    let models = Models::that_runs(look);
    let (site, service) = served(&models, "");
    for model in ["anthropic/m", "openai/m", "openai-responses/m", "gemini/m", "ollama/m", "compatible/org/m"] {
        let job = create(&service, model, "Say hello.");
        let record = service.settled(&job);
        assert_eq!(record["status"], "completed", "{model}: {:#}", service.events(&job));
        let run = last_run(&service, &job);
        let cached = if model.starts_with("ollama") { 0 } else { 2 * TOKENS.1 };
        assert_eq!(
            (&run["usage"]["inputTokens"], &run["usage"]["outputTokens"], &run["usage"]["cachedTokens"]),
            (&json!(2 * TOKENS.0), &json!(2 * TOKENS.2), &json!(cached)),
            "{model}: {run}"
        );
        let priced = !model.starts_with("ollama") && !model.starts_with("compatible");
        assert_eq!(run["usage"]["costMicros"].is_u64(), priced, "{model}: {run}");
        assert_eq!(service.count(&job, "agent.model_call"), 2, "{model}");
        assert_eq!(run["commits"].as_array().unwrap().len(), 1, "{model}");
        let events = service.events(&job).to_string();
        assert!(events.contains("exit status: 1") && !events.contains("never-inside"), "{model}: {events}");
    }
    let asked = models.server.asked();
    let shown =
        |asked: &Asked| ["x-api-key", "authorization", "x-goog-api-key"].map(|name| asked.header(name)).concat();
    assert_eq!(asked.iter().filter(|asked| shown(asked).ends_with(KEY)).count(), 8, "all but ollama and compatible");
    assert!(asked.iter().all(|asked| !shown(asked).contains("jmt_")), "no provider sees a token");
    // The data directory includes the agent's home, which has a copy of what the agent saw.
    assert_eq!(file_with(&site.path("data"), KEY), None);
    assert!(!service.log().contains(KEY));
    let numbers = service.text("/metrics");
    assert!(numbers.contains("journeyman_model_calls_total{provider=\"anthropic\",outcome=\"ok\"} 2"), "{numbers}");
}

#[test]
fn a_follow_up_of_an_idle_agent_has_its_own_usage() {
    let models = Models::start(|_| Reply::Text("It is done.".to_owned()));
    let (_site, service) = served(&models, "");
    let job = create(&service, "anthropic/m", "one");
    assert_eq!(service.settled(&job)["status"], "completed");
    service.send(&job, "two");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    let runs = service.get(&format!("{job}/runs"));
    let input = |number: usize| runs["runs"][number]["usage"]["inputTokens"].clone();
    assert_eq!((input(0), input(1)), (json!(TOKENS.0), json!(TOKENS.0)), "{runs}");
    let asked = models.server.asked();
    assert!(
        last_message(&asked[1]).contains("two") && asked[1].body.to_string().contains("one"),
        "the session continues"
    );
}

#[test]
fn a_run_that_fails_because_of_its_model_says_so() {
    let models = Models::start(|asked| match asked.body["model"].as_str() {
        Some("no-key") => Reply::Fault(Fault::Status(401)),
        Some("not-there") => Reply::Fault(Fault::Status(404)),
        _ => Reply::Text("hello".to_owned()),
    });
    let (_site, service) = served(&models, "refusal-patience = \"0s\"\n");
    for (model, code, word) in [
        ("anthropic/no-key", "model_unauthorized", "status 401"),
        ("anthropic/not-there", "model_refused", "status 404"),
        ("nowhere/m", "model_not_configured", "[models.<name>]"),
    ] {
        let job = create(&service, model, "hello");
        assert_eq!(service.settled(&job)["status"], "failed", "{model}");
        let run = last_run(&service, &job);
        let text = run["reason"]["text"].as_str().unwrap();
        assert!(run["reason"]["code"] == code && text.contains(word) && !text.contains(KEY), "{model}: {run}");
    }
}

#[test]
fn a_call_that_is_under_way_when_the_job_is_cancelled_is_recorded_and_counted() {
    let models = Models::start(|_| Reply::Fault(Fault::SilenceInStream));
    let (_site, service) = served(&models, "");
    let job = create(&service, "anthropic/m", "Say hello.");
    // The beginning of the answer says how many tokens the prompt has.
    until("the call of the model", || (models.server.silent() > 0).then_some(()));
    assert_eq!(service.call("POST", &format!("{job}/cancel"), None).0, 200);
    assert_eq!(service.settled(&job)["status"], "failed");
    service.until(&job, "agent.model_call", 1);
    let events = service.events(&job);
    let call = events.as_array().unwrap().iter().find(|event| event["type"] == "agent.model_call").unwrap();
    let run = last_run(&service, &job);
    assert_eq!((&run["status"], &call["runId"]), (&json!("cancelled"), &run["id"]), "{run:#}");
    assert!(run["usage"]["inputTokens"].as_u64() > Some(0), "{run:#}");
    for field in ["inputTokens", "cachedTokens", "outputTokens", "costMicros"] {
        assert_eq!(run["usage"][field], call["data"][field], "{field}: {run:#}");
    }
}

#[test]
fn an_error_in_a_stream_from_ollama_is_no_answer_and_the_turn_continues_with_the_next_call() {
    let failed = AtomicBool::new(false);
    let models = Models::start(move |asked| {
        if has_tool_result(asked) {
            return Reply::Text("It is done.".to_owned());
        }
        if !failed.swap(true, Ordering::SeqCst) {
            return Reply::Fault(Fault::ErrorInStream);
        }
        let command = "echo line >> lines.txt";
        Reply::Tool { name: "run_command".to_owned(), arguments: json!({ "command": command }) }
    });
    let (site, service) = served(&models, "");
    let job = create(&service, "ollama/m", "Add a line.");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    assert_eq!(site.file(&site.branch(), "lines.txt").as_deref(), Some("line\n"));
    let runs = service.get(&format!("{job}/runs"));
    assert_eq!(runs["runs"].as_array().unwrap().len(), 1, "{runs:#}");
    assert!(models.server.asked().iter().all(|asked| asked.body["options"]["num_ctx"] == 32_768));
}

/// An agent that calls its model once a second, and never gives up.
const PERSISTENT: &str = r#"use IO::Socket::INET;
$| = 1;
my ($host) = $ENV{MODELS} =~ m{http://([^/]+)};
while (my $line = <STDIN>) {
    my ($id) = $line =~ /"id":("[^"]*"|\d+)/;
    if ($line =~ /"initialize"/) { print qq({"jsonrpc":"2.0","id":$id,"result":{"protocolVersion":1}}\n) }
    elsif ($line =~ /"session.new"/) { print qq({"jsonrpc":"2.0","id":$id,"result":{"sessionId":"s1"}}\n) }
    elsif ($line =~ /"session.prompt"/) {
        while (1) {
            my $body = q({"model":"m","max_tokens":9,"tools":[{"name":"a","input_schema":{}}],)
                . q("messages":[{"role":"user","content":"x"}]});
            my $server = IO::Socket::INET->new(PeerAddr => $host) or die;
            print $server "POST /v1/messages HTTP/1.1\r\nHost: models\r\nx-api-key: $ENV{TOKEN}\r\n";
            print $server "Connection: close\r\nContent-Length: " . length($body) . "\r\n\r\n$body";
            my @answer = <$server>;
            sleep 1;
        }
    }
}
"#;

#[test]
fn the_chosen_model_and_effort_reach_the_provider() {
    let models = Models::start(|_| Reply::Text("hello".to_owned()));
    let (_site, service) = served(&models, "");
    let body = |effort: Value, model: &str| json!({ "prompt": "hello", "model": model, "effort": effort });
    let create = |body: Value| {
        let (status, record) = service.call("POST", "/v2/agent/shop/job", Some(body));
        assert_eq!(status, 201, "{record}");
        let job = format!("/v2/agent/shop/job/{}", record["id"].as_str().unwrap());
        assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
        job
    };
    let last = || models.server.asked().pop().unwrap();
    for model in [
        "openai-responses/gpt-5.1-codex-max",
        "openai/gpt-5-high",
        "anthropic/claude-x-none",
        "ollama/qwen3:8b-low",
        "compatible/org/a::b-minimal",
        "compatible/{home}-max",
    ] {
        create(body(Value::Null, model));
        assert_eq!(last().body["model"], model.split_once('/').unwrap().1, "{model}");
        let asked = last().body.to_string();
        assert!(!asked.contains("effort") && !asked.contains("\"think\""), "{model}: {asked}");
    }
    for (name, path) in [
        ("gemini-3-pro-high", "gemini-3-pro-high"),
        ("tuned/my model:2-max", "tuned%2Fmy%20model%3A2-max"),
        ("größe::b", "gr%C3%B6%C3%9Fe%3A%3Ab"),
    ] {
        create(body(json!("high"), &format!("gemini/{name}")));
        assert_eq!(last().path, format!("/v1beta/models/{path}:streamGenerateContent?alt=sse"));
    }
    let job = create(body(json!("xhigh"), "openai-responses/gpt-5.1-codex-max"));
    assert_eq!(last().body["reasoning"]["effort"], "xhigh");
    // A follow-up has the effort of its job, also after a change of the project.
    service.call("PATCH", "/v2/projects/shop", Some(json!({ "effort": "low" })));
    service.send(&job, "again");
    assert_eq!(service.settled(&job)["status"], "completed");
    assert_eq!(last().body["reasoning"]["effort"], "xhigh");
    create(body(Value::Null, "openai/gpt-5"));
    assert_eq!(last().body["reasoning_effort"], "low", "the project's");
}

#[test]
fn a_refused_key_ends_the_turn_of_an_agent_that_retries() {
    let models = Models::start(|_| Reply::Fault(Fault::Status(401)));
    let agent = format!(
        "refusal-patience = \"0s\"\n[agents.persistent]\ncommand = [\"sh\", \"-c\", \"exec perl $HOME/agent.pl\"]\n\
         environment = {{ MODELS = \"{{model_url}}\", TOKEN = \"{{model_token}}\" }}\n\
         [agents.persistent.files]\n\"agent.pl\" = '''\n{PERSISTENT}'''\n"
    );
    let (_site, service) = served(&models, &agent);
    let body = json!({ "prompt": "hello", "agent": "persistent", "model": "anthropic/m" });
    let (status, record) = service.call("POST", "/v2/agent/shop/job", Some(body));
    assert_eq!(status, 201, "{record}");
    let job = format!("/v2/agent/shop/job/{}", record["id"].as_str().unwrap());
    assert_eq!(service.settled(&job)["status"], "failed");
    let run = last_run(&service, &job);
    assert_eq!(run["reason"]["code"], "model_unauthorized", "{run}");
    // The agent would call the model once a second for ever: that the turn has ended is the proof.
    assert!(!models.server.asked().is_empty());
}

#[test]
fn a_run_over_its_budget_fails_and_says_what_to_raise() {
    let models = Models::start(|_| Reply::Text("hello".to_owned()));
    let (_site, service) = served(&models, "");
    let set = |budget: Value| {
        let (status, answer) =
            service.call("PATCH", "/v2/projects/shop", Some(json!({ "limits": { "budget": budget } })));
        assert_eq!(status, 200, "{answer}");
        answer
    };
    let project = set(json!({ "jobMicros": 1 }));
    let expected = json!({ "runMicros": null, "jobMicros": 1, "dayMicros": null, "projectMicros": null });
    assert_eq!(project["limits"]["budget"], expected);
    let job = create(&service, "anthropic/m", "hello");
    assert_eq!(service.settled(&job)["status"], "failed");
    let run = last_run(&service, &job);
    assert_eq!(run["reason"]["code"], "over_budget", "{run}");
    assert!(run["reason"]["text"].as_str().unwrap().contains("limits.budget.jobMicros"), "{run}");
    assert!(models.server.asked().is_empty(), "the provider was not asked");
    assert_eq!(service.count(&job, "model.denied"), 1, "{:#}", service.events(&job));
    // With a larger budget, the same job continues.
    set(json!({ "jobMicros": 5_000_000 }));
    service.send(&job, "again");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
}

#[test]
fn a_project_calls_models_with_its_own_key_which_no_program_gets() {
    let models = Models::that_runs("echo ${#ANTHROPIC_API_KEY} > ~/length");
    let (site, service) = served(&models, "");
    let own = "sk-of-the-project-77";
    let body = json!({ "secrets": { "ANTHROPIC_API_KEY": own }, "secretUses": { "ANTHROPIC_API_KEY": ["model"] },
        "setup": "echo ${#ANTHROPIC_API_KEY} > ~/setup" });
    let (status, answer) = service.call("PATCH", "/v2/projects/shop", Some(body));
    assert_eq!(status, 200, "{answer}");
    let job = create(&service, "anthropic/m", "hello");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    assert!(models.server.asked().iter().all(|asked| asked.header("x-api-key") == own));
    let home = site.path(&format!("data/workspaces/{}/home", job.rsplit('/').next().unwrap()));
    let got = |name: &str| std::fs::read_to_string(home.join(name)).unwrap();
    assert_eq!((got("setup").as_str(), got("length").as_str()), ("0\n", "0\n"));
}

#[test]
fn models_are_called_without_a_sandbox_too() {
    let models = Models::that_runs("echo hello > hello.txt");
    let (_site, service) = served(&models, "sandbox = \"none\"\n");
    let job = create(&service, "openai/m", "Say hello.");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    assert_eq!(last_run(&service, &job)["usage"]["inputTokens"], 2 * TOKENS.0);
}

#[test]
fn certificates_that_are_installed_later_are_used_without_a_restart() {
    let site = site_with("[models.anthropic]\nbase-url = \"https://127.0.0.1:9\"\n");
    let certificates = site.path("certificates.pem");
    let mut wrapper = Command::new("env");
    wrapper.args(["--unset=SSL_CERT_DIR", &format!("SSL_CERT_FILE={}", certificates.display())]);
    wrapper.arg(format!("ANTHROPIC_API_KEY={KEY}"));
    let service = site.start_wrapped(wrapper);
    let job = create(&service, "anthropic/m", "Say hello.");
    assert_eq!(service.settled(&job)["status"], "failed");
    let reason = last_run(&service, &job)["reason"].to_string();
    assert!(reason.contains("found no CA certificates"), "{reason}");
    std::fs::copy("/etc/ssl/certs/ca-certificates.crt", &certificates).unwrap();
    // Nothing listens there, so the call of this job is repeated, which one without certificates is not.
    let job = create(&service, "anthropic/m", "Say hello.");
    let refused = until("a refused connection", || {
        let events = service.events(&job).to_string();
        events.contains("could not be reached").then_some(events)
    });
    assert!(!refused.contains("CA certificates"), "{refused}");
}
