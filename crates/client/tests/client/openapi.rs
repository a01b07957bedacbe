//! Compares the crate with the OpenAPI document of the interface.

use journeyman_client::models;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Operations, and the names of the methods that carry them out.
const METHODS: [(&str, &str, &[&str]); 91] = [
    ("createJob", "resources/jobs.rs", &["create", "create_and_wait"]),
    ("getJob", "job.rs", &["get", "poll", "wait"]),
    ("deleteJob", "job.rs", &["delete"]),
    ("sendMessage", "job.rs", &["send_message", "ask"]),
    ("listJobs", "resources/jobs.rs", &["list_records"]),
    ("listProjectJobs", "resources/jobs.rs", &["list"]),
    ("listAllJobs", "resources/jobs.rs", &["list_all"]),
    ("getJobDetails", "job.rs", &["details"]),
    ("retryJob", "job.rs", &["retry"]),
    ("cancelJob", "job.rs", &["cancel"]),
    ("archiveJob", "job.rs", &["archive"]),
    ("unarchiveJob", "job.rs", &["unarchive"]),
    ("listMessages", "job.rs", &["messages"]),
    ("getMessage", "job.rs", &["message"]),
    ("withdrawMessage", "job.rs", &["withdraw"]),
    ("listRuns", "job.rs", &["runs"]),
    ("listJobPulls", "job.rs", &["pulls"]),
    ("getJobChecks", "job.rs", &["checks"]),
    ("listEvents", "job.rs", &["events", "newest_event"]),
    ("streamEvents", "job_events.rs", &["stream_events"]),
    ("listProjectEvents", "resources/events.rs", &["list"]),
    ("listAllEvents", "resources/events.rs", &["list_all"]),
    ("streamProjectEvents", "resources/events.rs", &["stream"]),
    ("streamAllEvents", "resources/events.rs", &["stream_all"]),
    ("getDiff", "job.rs", &["diff"]),
    ("listProjects", "resources/projects.rs", &["list"]),
    ("createProject", "resources/projects.rs", &["create"]),
    ("getProject", "resources/projects.rs", &["get"]),
    ("deleteProject", "resources/projects.rs", &["delete"]),
    ("changeProject", "resources/projects.rs", &["change"]),
    ("testNewProject", "resources/projects.rs", &["test_new"]),
    ("testProject", "resources/projects.rs", &["test"]),
    ("listPulls", "resources/pulls.rs", &["list"]),
    ("getPull", "resources/pulls.rs", &["get"]),
    ("openPull", "resources/pulls.rs", &["open"]),
    ("mergePull", "resources/pulls.rs", &["merge", "merge_with"]),
    ("listCodeHosts", "resources/code_hosts.rs", &["list"]),
    ("createCodeHost", "resources/code_hosts.rs", &["create"]),
    ("getCodeHost", "resources/code_hosts.rs", &["get"]),
    ("replaceCodeHost", "resources/code_hosts.rs", &["replace"]),
    ("removeCodeHost", "resources/code_hosts.rs", &["remove"]),
    ("checkCodeHost", "resources/code_hosts.rs", &["check"]),
    ("listProjectInbox", "resources/code_hosts.rs", &["list"]),
    ("listInbox", "resources/code_hosts.rs", &["list_all"]),
    ("listKeys", "resources/keys.rs", &["list"]),
    ("createKey", "resources/keys.rs", &["create"]),
    ("getKey", "resources/keys.rs", &["get"]),
    ("revokeKey", "resources/keys.rs", &["revoke"]),
    ("rotateKey", "resources/keys.rs", &["rotate"]),
    ("listTemplates", "resources/templates.rs", &["list"]),
    ("createTemplate", "resources/templates.rs", &["create"]),
    ("getTemplate", "resources/templates.rs", &["get"]),
    ("deleteTemplate", "resources/templates.rs", &["delete"]),
    ("changeTemplate", "resources/templates.rs", &["change"]),
    ("listTrusts", "resources/trusts.rs", &["list"]),
    ("createTrust", "resources/trusts.rs", &["create"]),
    ("getTrust", "resources/trusts.rs", &["get"]),
    ("changeTrust", "resources/trusts.rs", &["change"]),
    ("deleteTrust", "resources/trusts.rs", &["delete"]),
    ("exchangeToken", "resources/trusts.rs", &["exchange"]),
    ("listUsers", "resources/users.rs", &["list"]),
    ("createUser", "resources/users.rs", &["create"]),
    ("getUser", "resources/users.rs", &["get"]),
    ("changeUser", "resources/users.rs", &["change"]),
    ("createUserLink", "resources/users.rs", &["create_link"]),
    ("listSlackWorkspaces", "resources/slack.rs", &["list"]),
    ("createSlackWorkspace", "resources/slack.rs", &["create"]),
    ("getSlackWorkspace", "resources/slack.rs", &["get"]),
    ("changeSlackWorkspace", "resources/slack.rs", &["change"]),
    ("removeSlackWorkspace", "resources/slack.rs", &["remove"]),
    ("checkSlackWorkspace", "resources/slack.rs", &["check"]),
    ("listSlackEvents", "resources/slack.rs", &["events"]),
    ("listSlackPosts", "resources/slack.rs", &["posts"]),
    ("createSlackCode", "resources/slack.rs", &["create_code"]),
    ("getMe", "resources/system.rs", &["me"]),
    ("listAgents", "resources/system.rs", &["agents"]),
    ("listAudit", "resources/system.rs", &["list"]),
    ("exportAudit", "resources/system.rs", &["export"]),
    ("listWebhooks", "resources/webhooks.rs", &["list"]),
    ("createWebhook", "resources/webhooks.rs", &["create"]),
    ("getWebhook", "resources/webhooks.rs", &["get"]),
    ("deleteWebhook", "resources/webhooks.rs", &["delete"]),
    ("changeWebhook", "resources/webhooks.rs", &["change"]),
    ("rotateWebhook", "resources/webhooks.rs", &["rotate"]),
    ("testWebhook", "resources/webhooks.rs", &["test"]),
    ("listDeliveries", "resources/webhooks.rs", &["deliveries"]),
    ("redeliver", "resources/webhooks.rs", &["redeliver"]),
    ("replayWebhook", "resources/webhooks.rs", &["replay"]),
    ("getUsage", "resources/system.rs", &["report", "csv"]),
    ("listModels", "resources/system.rs", &["models"]),
    ("getSystem", "resources/system.rs", &["system"]),
];

/// Operations without a method, with the reason. `Client::request` carries them out.
const WITHOUT_METHOD: [(&str, &str); 0] = [];

/// Fields of objects that the models leave to `raw`, with the reason.
const WITHOUT_FIELD: [(&str, &str, &str); 0] = [];

fn source(path: &str) -> String {
    let path = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn document() -> Value {
    serde_json::from_str(&source("../../docs/openapi.json")).expect("the document is JSON")
}

fn operations(document: &Value) -> Vec<&Value> {
    let paths = document["paths"].as_object().expect("paths");
    paths.values().flat_map(|path| path.as_object().expect("operations").values()).collect()
}

#[test]
fn every_operation_has_a_method() {
    let document = document();
    let named: Vec<&str> = METHODS.iter().map(|(operation, ..)| *operation).collect();
    for operation in operations(&document) {
        let id = operation["operationId"].as_str().expect("an ID");
        let is_left_out = WITHOUT_METHOD.iter().any(|(own, _)| *own == id);
        assert!(named.contains(&id) != is_left_out, "{id} has no method, or has one and is listed as having none");
    }
    assert_eq!(operations(&document).len(), METHODS.len() + WITHOUT_METHOD.len(), "an operation does not exist");
    for (operation, file, methods) in METHODS {
        let text = source(&format!("src/{file}"));
        for method in methods {
            let is_there = ["(", "<"].iter().any(|end| text.contains(&format!("fn {method}{end}")));
            assert!(is_there, "{operation}: {file} has no method {method}");
        }
    }
}

fn reads<T: DeserializeOwned>(example: &Value) -> Result<(), String> {
    serde_json::from_value::<T>(example.clone()).map(drop).map_err(|error| error.to_string())
}

/// Reads entries of a page.
fn entries<T: DeserializeOwned>(example: &Value, field: &str) -> Result<(), String> {
    let entries = example[field].as_array().ok_or_else(|| format!("{field} is missing"))?;
    entries.iter().try_for_each(reads::<T>)
}

/// Reads an example as the model of its schema; `None` if there is no such model.
fn read(schema: &str, example: &Value) -> Option<Result<(), String>> {
    Some(match schema {
        "AgentList" => entries::<models::Agent>(example, "agents"),
        "Attempt" => reads::<models::Attempt>(example),
        "AuditPage" => entries::<models::AuditEntry>(example, "entries"),
        "CodeHostList" => entries::<models::InstalledCodeHost>(example, "codeHosts"),
        "CreatedKey" => reads::<models::CreatedKey>(example),
        "CreatedUser" => reads::<models::CreatedUser>(example),
        "CreatedWebhook" => reads::<models::CreatedWebhook>(example),
        "DeliveryPage" => entries::<models::WebhookDelivery>(example, "deliveries"),
        "EventPage" => entries::<models::Event>(example, "events"),
        "ExchangedKey" => reads::<models::ExchangedKey>(example),
        "FindingList" => entries::<models::Finding>(example, "findings"),
        "InboxPage" => entries::<models::InboxEvent>(example, "events"),
        "InstalledCodeHost" => reads::<models::InstalledCodeHost>(example),
        "Job" => reads::<models::Job>(example),
        "JobChecks" => reads::<models::JobChecks>(example),
        "JobDetails" => reads::<models::JobDetails>(example),
        "JobDetailsPage" => entries::<models::JobDetails>(example, "jobs"),
        "JobPage" => entries::<models::Job>(example, "jobs"),
        "JobPullList" => entries::<models::JobPull>(example, "pulls"),
        "Key" => reads::<models::Key>(example),
        "KeyList" => entries::<models::Key>(example, "keys"),
        "Me" => reads::<models::Me>(example),
        "Message" => reads::<models::Message>(example),
        "MessageList" => entries::<models::Message>(example, "messages"),
        "ModelList" => entries::<models::Provider>(example, "providers"),
        "Project" => reads::<models::Project>(example),
        "ProjectEventPage" => entries::<models::ProjectEvent>(example, "events"),
        "ProjectPull" => reads::<models::ProjectPull>(example),
        "ProjectPullList" => entries::<models::ProjectPull>(example, "pulls"),
        "ProjectList" => entries::<models::Project>(example, "projects"),
        "Replayed" => example["deliveries"].as_u64().map(drop).ok_or_else(|| "no number".to_owned()),
        "RunList" => entries::<models::Run>(example, "runs"),
        "SlackCode" => reads::<models::SlackCode>(example),
        "SlackEventPage" => entries::<models::SlackEvent>(example, "events"),
        "SlackPostPage" => entries::<models::SlackPost>(example, "posts"),
        "SlackWorkspace" => reads::<models::SlackWorkspace>(example),
        "SlackWorkspaceList" => entries::<models::SlackWorkspace>(example, "workspaces"),
        "System" => reads::<models::System>(example),
        "Template" => reads::<models::Template>(example),
        "TemplateList" => entries::<models::Template>(example, "templates"),
        "Trust" => reads::<models::Trust>(example),
        "TrustList" => entries::<models::Trust>(example, "trusts"),
        "UsageReport" => reads::<models::UsageReport>(example),
        "User" => reads::<models::User>(example),
        "UserLink" => reads::<models::UserLink>(example),
        "UserList" => entries::<models::User>(example, "users"),
        "Webhook" => reads::<models::Webhook>(example),
        "WebhookBody" => reads::<models::WebhookBody>(example),
        "WebhookList" => entries::<models::Webhook>(example, "webhooks"),
        _ => return None,
    })
}

/// Returns the examples of a body with the names of their schemas.
fn examples(body: &Value) -> Vec<(&str, &Value)> {
    let content = &body["content"]["application/json"];
    let schema = content["schema"]["$ref"].as_str().unwrap_or_default().rsplit('/').next().unwrap_or_default();
    let named = content["examples"].as_object().into_iter().flat_map(|examples| examples.values());
    content
        .get("example")
        .into_iter()
        .chain(named.filter_map(|one| one.get("value")))
        .map(|one| (schema, one))
        .collect()
}

#[test]
fn every_example_of_a_response_is_read_by_its_model() {
    let document = document();
    let mut count = 0;
    for operation in operations(&document) {
        let id = operation["operationId"].as_str().expect("an ID");
        let responses = operation["responses"].as_object().expect("responses");
        for (_, response) in responses.iter().filter(|(status, _)| status.starts_with('2')) {
            for (schema, example) in examples(response) {
                let Some(found) = read(schema, example) else { panic!("{id}: {schema} has no model") };
                assert_eq!(found, Ok(()), "{id}: {schema}");
                count += 1;
            }
        }
    }
    assert!(count > 40, "{count} examples");
}

#[test]
fn every_field_of_an_object_has_a_field_in_its_model() {
    let files = std::fs::read_dir(format!("{}/src/models", env!("CARGO_MANIFEST_DIR"))).expect("the models");
    let texts = files.map(|file| std::fs::read_to_string(file.expect("a file").path()).expect("a model"));
    let text: String = texts.collect::<Vec<_>>().join("\n");
    for (schema, definition) in document()["components"]["schemas"].as_object().expect("schemas") {
        let Some((_, found)) = text.split_once(&format!("pub struct {schema} {{\n")) else { continue };
        let model = found.split("\n}\n").next().unwrap_or_default();
        // `CreateProject` has the fields of `ProjectChanges`.
        if schema == "CreateProject" {
            continue;
        }
        for name in definition["properties"].as_object().into_iter().flat_map(|fields| fields.keys()) {
            let is_left_out = WITHOUT_FIELD.iter().any(|(own, field, _)| own == schema && field == name);
            let is_there =
                model.contains(&format!("pub {}:", snake(name))) || model.contains(&format!("rename = \"{name}\""));
            assert!(is_there != is_left_out, "{schema} has no field {name}");
        }
    }
}

fn snake(name: &str) -> String {
    let parts = name.chars().map(|c| if c.is_uppercase() { format!("_{}", c.to_lowercase()) } else { c.to_string() });
    parts.collect()
}
