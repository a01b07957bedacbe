//! Runs the examples for curl in the documentation, one for each operation, against the program.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use journeyman_testkit::oidc::Provider;
use journeyman_testkit::slack_server::BOT_TOKEN;
use journeyman_testkit::{PATIENCE, until};
use serde_json::{Value, json};

use super::fixtures::{Service, Site, site_with};
use super::slack::stand_in;
use super::users::Now;

/// The IDs in the examples.
const JOB: &str = "job_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7";
const MESSAGE: &str = "msg_019aa3bb4a2c7d10b2b1a1c5d0f3e8a8";
const KEY: &str = "key_019aa3bb4a2c7d10b2b1a1c5d0f3e8aa";
const TEMPLATE: &str = "tpl_019aa3bb4a2c7d10b2b1a1c5d0f3e8ab";
const TRUST: &str = "trust_019aa3bb4a2c7d10b2b1a1c5d0f3e8ab";
const USER: &str = "usr_019aa3bb4a2c7d10b2b1a1c5d0f3e8ac";
const WORKSPACE: &str = "slw_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7";
const WEBHOOK: &str = "whk_019aa3bb4a2c7d10b2b1a1c5d0f3e8ab";
const DELIVERY: &str = "/deliveries/4711/";

/// The examples, and what has been run of them.
struct Examples<'s> {
    service: &'s Service,
    folder: tempfile::TempDir,
    /// Texts in the examples, and those that replace them.
    values: Vec<(&'static str, String)>,
    run: BTreeSet<String>,
}

impl<'s> Examples<'s> {
    fn new(service: &'s Service) -> Self {
        Self { service, folder: tempfile::tempdir().unwrap(), values: Vec::new(), run: BTreeSet::new() }
    }

    /// Replaces a text in all later examples.
    fn set(&mut self, text: &'static str, value: impl Into<String>) {
        self.values.retain(|(known, _)| *known != text);
        self.values.push((text, value.into()));
    }

    /// Replaces an ID by the one in an answer.
    fn set_id(&mut self, id: &'static str, answer: &Value) {
        self.set(id, answer["id"].as_str().unwrap_or_else(|| panic!("no ID: {answer}")));
    }

    /// Runs the example of an operation, checks the status, and returns the JSON of the answer, or null.
    fn run(&mut self, operation: &str, expected: u16) -> Value {
        let page = self.service.text(&format!("/docs/reference/{operation}"));
        let mut line = example(&page).unwrap_or_else(|| panic!("{operation} has no example: {page}"));
        for (text, value) in &self.values {
            line = line.replace(text, value);
        }
        let [head, body] = ["head", "body"].map(|part| self.folder.path().join(format!("{operation}.{part}")));
        let flags = format!(
            "exec curl --silent --max-time {} --dump-header {} --output {}",
            PATIENCE.as_secs(),
            head.display(),
            body.display()
        );
        let known = line.strip_prefix("curl --fail-with-body").unwrap_or_else(|| panic!("{operation}: {line}"));
        let line = format!("{flags}{known}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]).env("NO_PROXY", "127.0.0.1").current_dir(self.folder.path());
        shell.env("JOURNEYMAN_URL", &self.service.url).env("JOURNEYMAN_KEY", &self.service.key);
        let mut curl = shell.stdin(Stdio::null()).spawn().unwrap();
        let read = |file: &Path| std::fs::read_to_string(file).unwrap_or_default();
        // A stream does not end by itself, so curl is ended after the head of the answer.
        let is_stream = line.contains(" -N ");
        until(&format!("the answer to {operation}"), || {
            let is_over = curl.try_wait().unwrap().is_some() || is_stream && read(&head).contains("\r\n\r\n");
            is_over.then_some(())
        });
        curl.kill().unwrap();
        curl.wait().unwrap();
        let (head, answer) = (read(&head), read(&body));
        let status = head.lines().rev().find(|line| line.starts_with("HTTP/")).and_then(|line| line.split(' ').nth(1));
        assert_eq!(status, Some(expected.to_string().as_str()), "{operation}: {answer}\n{line}");
        self.run.insert(operation.to_owned());
        serde_json::from_str(&answer).unwrap_or_default()
    }

    /// Runs the examples of operations that are answered with a status.
    fn run_all(&mut self, expected: u16, operations: &[&str]) {
        for operation in operations {
            self.run(operation, expected);
        }
    }
}

/// Returns the example for curl on the page of an operation.
fn example(page: &str) -> Option<String> {
    let (_, rest) = page.split_once("id=\"example-curl\">")?;
    let (marked, _) = rest.split_once("</code>")?;
    let mut text = String::new();
    for (number, part) in marked.split('<').enumerate() {
        text.push_str(if number == 0 { part } else { part.split_once('>')?.1 });
    }
    for (entity, character) in [
        ("&#34;", "\""),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&#x27;", "'"),
        ("&#60;", "<"),
        ("&lt;", "<"),
        ("&#62;", ">"),
        ("&gt;", ">"),
        ("&#38;", "&"),
        ("&amp;", "&"),
    ] {
        text = text.replace(entity, character);
    }
    Some(text)
}

/// Makes the key of the service one of a user, who is an administrator.
fn use_key_of_a_user(site: &Site, service: &mut Service) {
    let cookie = service.use_link(&site.succeed(&["user", "add", "ada", "--role", "administrator"]));
    let page = service.secret_page(&cookie, "/keys", "name=examples&scope=write&where=all");
    let secret = page.split_once("id=\"key\">").and_then(|(_, rest)| rest.split_once('<'));
    service.key = secret.unwrap_or_else(|| panic!("no key: {page}")).0.to_owned();
}

/// Creates a job whose prompt is a script of the test model, and returns its path and its ID.
fn job(service: &Service, script: &str) -> (String, String) {
    let path = service.create(script);
    let id = path.rsplit('/').next().unwrap().to_owned();
    (path, id)
}

#[test]
fn the_example_for_curl_of_each_operation_is_answered_as_the_document_says() {
    let (slack, _slack_runtime) = stand_in();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let provider = runtime.block_on(Provider::start(Arc::new(Now)));
    let site = site_with(&format!(
        "workers = 4\nslack-api-url = {:?}\noidc-networks = [\"127.0.0.0/8\"]\n\
         [agents.claude-code]\ncommand = [\"true\"]\n",
        slack.url
    ));
    let mut service = site.start();
    use_key_of_a_user(&site, &mut service);
    let mut examples = Examples::new(&service);

    let webhook = examples.run("createWebhook", 201);
    examples.set_id(WEBHOOK, &webhook);
    let created = examples.run("createJob", 201);
    service.settled(&format!("/v2/agent/shop/job/{}", created["id"].as_str().unwrap()));
    read(&mut examples);
    change_a_job(&mut examples);
    manage(&mut examples);
    integrate(&mut examples);

    let issuer = provider.issuer.as_str().trim_end_matches('/');
    let rules = ["--name", "other", "--issuer", issuer, "--audience", "a", "--claim", "sub=x", "--project", "shop"];
    site.succeed(&[&["trust", "create"], &rules[..]].concat());
    let token = provider.ci_token(&json!({"aud": "a", "sub": "x"}));
    examples.set("eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJleGFtcGxlIn0.c2lnbmF0dXJl", token);
    examples.run("exchangeToken", 201);

    // Nothing can be read from the repository of the example.
    examples.set("https://github.com/example/shop.git", "local:shop");
    examples.run_all(200, &["testProject", "changeProject"]);
    examples.run("deleteProject", 204);
    examples.run("testNewProject", 200);
    examples.run("createProject", 201);

    let document = service.get("/openapi.json");
    let items = document["paths"].as_object().unwrap().values().flat_map(|item| item.as_object().unwrap().values());
    let all: BTreeSet<String> = items.map(|one| one["operationId"].as_str().unwrap().to_owned()).collect();
    assert_eq!(examples.run, all, "the operations whose examples were run, and those of the document");
}

/// Runs the examples that read, with a job that has changed something.
fn read(examples: &mut Examples<'_>) {
    let (path, id) = job(examples.service, "Say hello [[write hello.txt|Hello]]");
    examples.service.settled(&path);
    examples.set(JOB, id);
    let of_a_job = ["getJob", "getJobDetails", "listMessages", "listRuns", "listJobPulls", "getJobChecks", "getDiff"];
    examples.run_all(200, &of_a_job);
    examples.set("/pulls/7", "/pulls/1");
    examples.run_all(200, &["listPulls", "getPull"]);
    // Nobody has pushed the branch of the example.
    examples.run_all(422, &["openPull"]);
    examples.run_all(200, &["mergePull"]);
    examples.run_all(200, &["listJobs", "listProjectJobs", "listAllJobs", "listEvents", "streamEvents"]);
    examples.run_all(200, &["listProjectEvents", "listAllEvents", "streamProjectEvents", "streamAllEvents"]);
    examples.run_all(200, &["listProjects", "getProject", "listProjectInbox", "listInbox"]);
    examples.run_all(200, &["getMe", "listAgents", "listModels", "listAudit", "exportAudit", "getUsage", "getSystem"]);
}

/// Runs the examples that change a job, with one whose first message does not end by itself.
fn change_a_job(examples: &mut Examples<'_>) {
    let (path, id) = job(examples.service, "[[sleep 3600]]");
    examples.set(JOB, id);
    examples.run("sendMessage", 200);
    let messages = examples.service.get(&format!("{path}/messages"));
    examples.set_id(MESSAGE, messages["messages"].as_array().unwrap().last().unwrap());
    examples.run_all(200, &["getMessage", "withdrawMessage", "cancelJob", "retryJob", "archiveJob", "unarchiveJob"]);
    examples.run("deleteJob", 204);
}

/// Runs the examples about code hosts, keys, users, templates and trusts.
fn manage(examples: &mut Examples<'_>) {
    examples.run("createCodeHost", 201);
    // The code host of the example does not exist, so no credential can be tested; the findings say so.
    examples.run_all(200, &["listCodeHosts", "getCodeHost", "replaceCodeHost", "checkCodeHost"]);
    examples.run("removeCodeHost", 204);
    let key = examples.run("createKey", 201);
    examples.set_id(KEY, &key);
    examples.run_all(200, &["listKeys", "getKey", "rotateKey"]);
    examples.run("revokeKey", 204);
    let user = examples.run("createUser", 201);
    examples.set_id(USER, &user);
    examples.run_all(200, &["listUsers", "getUser", "createUserLink", "changeUser"]);
    let template = examples.run("createTemplate", 201);
    examples.set_id(TEMPLATE, &template);
    examples.run_all(200, &["listTemplates", "getTemplate", "changeTemplate"]);
    examples.run("deleteTemplate", 204);
    let trust = examples.run("createTrust", 201);
    examples.set_id(TRUST, &trust);
    examples.run_all(200, &["listTrusts", "getTrust", "changeTrust"]);
    examples.run("deleteTrust", 204);
}

/// Runs the examples about webhooks and Slack. The webhook has the events of the jobs before.
fn integrate(examples: &mut Examples<'_>) {
    examples.run_all(200, &["listWebhooks", "getWebhook", "rotateWebhook", "testWebhook"]);
    let deliveries = examples.run("listDeliveries", 200);
    let delivery = deliveries["deliveries"][0]["id"].as_str().unwrap_or_else(|| panic!("none: {deliveries}"));
    examples.set(DELIVERY, format!("/deliveries/{delivery}/"));
    examples.run_all(202, &["redeliver", "replayWebhook"]);
    examples.run("changeWebhook", 200);
    examples.run("deleteWebhook", 204);

    examples.set("xoxb-example", BOT_TOKEN);
    let workspace = examples.run("createSlackWorkspace", 201);
    examples.set_id(WORKSPACE, &workspace);
    let of_slack = ["listSlackWorkspaces", "getSlackWorkspace", "changeSlackWorkspace", "checkSlackWorkspace"];
    examples.run_all(200, &of_slack);
    examples.run_all(200, &["listSlackEvents", "listSlackPosts", "createSlackCode"]);
    examples.run("removeSlackWorkspace", 204);
}
