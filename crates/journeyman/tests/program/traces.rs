//! Tests of the export of traces to a collector, and of the log of a run.

use journeyman_testkit::{Collector, ExportedSpan, until};
use serde_json::{Value, json};

use super::fixtures::{Service, client};
use super::models::{Models, served};

/// The example of the W3C trace context.
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

struct Traces {
    collector: Collector,
    _runtime: tokio::runtime::Runtime,
}

fn collector() -> Traces {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let collector = runtime.block_on(Collector::start());
    Traces { collector, _runtime: runtime }
}

/// Creates a job with a trace context, and waits for its end. Returns the record of its details.
fn traced_job(service: &Service, traceparent: &str) -> Value {
    let client = client();
    let body = json!({ "prompt": "Fix it", "model": "anthropic/claude-x" });
    let request = client.post(format!("{}/v2/agent/shop/job", service.url)).bearer_auth(&service.key).json(&body);
    let created: Value = request.header("traceparent", traceparent).send().unwrap().json().unwrap();
    let job = format!("/v2/agent/shop/job/{}", created["id"].as_str().unwrap());
    assert_eq!(service.settled(&job)["status"], "completed", "{}", service.log());
    created
}

#[test]
fn the_trace_of_a_run_links_to_the_request_that_caused_it() {
    let (models, traces) = (Models::that_runs("echo hello > greeting.txt"), collector());
    let headers = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(headers.path(), "authorization: Bearer collector-token\n").unwrap();
    let settings =
        format!("otlp-endpoint = \"{}\"\notlp-headers-file = \"{}\"\n", traces.collector.url, headers.path().display());
    let (_site, mut service) = served(&models, &settings);
    let job = traced_job(&service, PARENT);
    // The last spans are exported when the service stops.
    service.terminate();
    assert_eq!(service.ended(), Some(0), "{}", service.log());
    let id = job["id"].as_str().unwrap();
    let find = |what: &str, condition: &dyn Fn(&ExportedSpan) -> bool| traces.collector.wait_for(what, condition);

    let request = find("request", &|span| span.name == "POST /v2/agent/{projectId}/job");
    assert_eq!((request.trace.as_str(), request.parent.as_str()), (&PARENT[3..35], &PARENT[36..52]));
    assert_eq!((request.attribute("project"), request.attribute("http.response.status_code")), ("shop", "201"));
    let command = find("command", &|span| span.name == "create_job");
    assert_eq!((command.parent.as_str(), command.attribute("project")), (request.id.as_str(), "shop"));
    find("transaction", &|span| span.name == "transaction" && span.parent == command.id);

    let run = find("run", &|span| span.name == "run");
    assert_ne!(run.trace, request.trace, "a run has its own trace");
    assert_eq!(run.links, [(request.trace, request.id)]);
    assert_eq!((run.attribute("project"), run.attribute("job")), ("shop", id));
    assert_eq!(run.events, [""; 0], "lines of the log are not exported, although the run has logged its beginning");
    assert!(run.attribute("message").starts_with("msg_") && run.attribute("run").starts_with("run_"), "{run:?}");
    for step in ["fetch", "prepare", "prompt", "collect", "push", "pull_request"] {
        let step = find(step, &|span| span.attribute("name") == step);
        assert_eq!((&step.trace, &step.parent), (&run.trace, &run.id), "{step:?}");
    }
    let prompt = find("prompt", &|span| span.attribute("name") == "prompt");
    let in_run = |name: &'static str| find(name, &|span| span.name.starts_with(name) && span.trace == run.trace);
    let call = in_run("chat claude-x");
    assert_eq!(call.parent, prompt.id);
    assert_eq!(call.attribute("gen_ai.provider.name"), "anthropic");
    assert_ne!(call.attribute("gen_ai.usage.output_tokens"), "");
    let tool = in_run("execute_tool execute");
    assert_eq!((tool.parent.as_str(), tool.attribute("gen_ai.operation.name")), (prompt.id.as_str(), "execute_tool"));
    in_run("git");
    in_run("report");

    let sent = traces.collector.headers();
    assert!(sent.iter().all(|headers| headers["authorization"] == "Bearer collector-token"));
    let all = format!("{:?}", traces.collector.spans());
    for secret in [super::models::KEY, service.key.as_str(), "greeting.txt"] {
        assert!(!all.contains(secret), "{secret} is in a span");
    }
}

#[test]
fn a_collector_that_is_away_does_not_disturb_the_service() {
    let models = Models::that_runs("true");
    let (_site, service) = served(&models, "otlp-endpoint = \"http://127.0.0.1:9\"\n");
    traced_job(&service, PARENT);
}

#[test]
fn a_run_can_be_followed_in_the_log_by_its_id() {
    let models = Models::that_runs("echo hello > greeting.txt");
    let (_site, service) = served(&models, "log = \"info,journeyman_worker=debug\"\n");
    let job = traced_job(&service, "not a trace context");
    let path = format!("/v2/agent/shop/job/{}/runs", job["id"].as_str().unwrap());
    let run = service.get(&path)["runs"][0]["id"].as_str().unwrap().to_owned();
    for step in ["a run begins", "prepare", "prompt", "push", "pull_request", "a run has ended"] {
        let is_logged = || service.log().lines().any(|line| line.contains(&run) && line.contains(step));
        // The last line follows the outcome, which the client has seen already.
        until(&format!("{step} is in the log of the run"), || is_logged().then_some(()));
    }
}
