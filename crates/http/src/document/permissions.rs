//! The keys that operations need. A test compares them with the server.

use journeyman_core::key::Scope;
use serde_json::{Value, json};

/// The operations that need the scope `write`, although their method or path suggests a narrower one.
const WRITING: [&str; 7] =
    ["deleteJob", "archiveJob", "unarchiveJob", "listInbox", "listWebhooks", "getWebhook", "listDeliveries"];

/// The tags whose operations need a key that is not limited to projects.
const OF_ALL_PROJECTS: [&str; 6] = ["Code hosts", "Keys", "Slack", "Trusts", "Users", "Webhooks"];

/// The other operations that need such a key.
const NEEDING_ALL_PROJECTS: [&str; 12] = [
    "createProject",
    "changeProject",
    "deleteProject",
    "testNewProject",
    "testProject",
    "createTemplate",
    "changeTemplate",
    "deleteTemplate",
    "listInbox",
    "listAudit",
    "exportAudit",
    "getSystem",
];

/// Adds the key that an operation needs, as `x-required-key`; an operation without security needs none.
pub(super) fn add(id: &str, method: &str, path: &str, operation: &mut Value) {
    if operation.get("security").is_some() {
        return;
    }
    let scope = match method {
        _ if WRITING.contains(&id) => Scope::Write,
        "get" => Scope::Read,
        _ if path.starts_with("/v2/agent/") => Scope::Jobs,
        _ => Scope::Write,
    };
    let has_tag = operation["tags"][0].as_str().is_some_and(|tag| OF_ALL_PROJECTS.contains(&tag));
    // A key can read itself.
    let all_projects = (has_tag && id != "getMe") || NEEDING_ALL_PROJECTS.contains(&id);
    operation["x-required-key"] = json!({ "scope": scope.name(), "allProjects": all_projects });
}
