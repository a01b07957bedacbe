//! Code hosts, and the inbox of their events.

use reqwest::Method;
use serde::Deserialize;
use serde_json::Value;

use crate::call::Call;
use crate::client::Client;
use crate::models::{CreateCodeHost, Finding, InboxEvent, InstalledCodeHost, ReplaceCodeHost};
use crate::pager::Pager;

/// The operations on code hosts.
#[derive(Debug, Clone)]
pub struct CodeHosts {
    pub(crate) client: Client,
}

impl CodeHosts {
    /// Lists the code hosts.
    pub fn list(&self) -> Pager<InstalledCodeHost> {
        self.client.list(&["v2", "code-hosts"], "codeHosts")
    }

    /// Creates a code host.
    pub fn create(&self, code_host: &CreateCodeHost) -> Call<InstalledCodeHost> {
        self.client.post(&["v2", "code-hosts"]).json(code_host)
    }

    /// Returns a code host without its secrets.
    pub fn get(&self, code_host: &str) -> Call<InstalledCodeHost> {
        self.client.get(&["v2", "code-hosts", code_host])
    }

    /// Replaces a code host.
    pub fn replace(&self, code_host: &str, replacement: &ReplaceCodeHost) -> Call<InstalledCodeHost> {
        self.client.call(Method::PUT, &["v2", "code-hosts", code_host]).harmless().json(replacement)
    }

    /// Removes a code host with its secrets.
    pub fn remove(&self, code_host: &str) -> Call<()> {
        self.client.call_nothing(Method::DELETE, &["v2", "code-hosts", code_host]).harmless()
    }

    /// Checks whether a code host answers and accepts the credential, and whether webhooks arrive.
    pub fn check(&self, code_host: &str) -> Call<Vec<Finding>> {
        findings(self.client.call(Method::POST, &["v2", "code-hosts", code_host, "check"]).harmless())
    }
}

/// Reads the findings in a response.
pub(super) fn findings(call: Call<Value>) -> Call<Vec<Finding>> {
    #[derive(Deserialize)]
    struct List {
        findings: Vec<Finding>,
    }
    call.read_with(|response| Ok(response.json::<List>()?.findings))
}

/// The operations on the inbox, which has the events of code hosts.
#[derive(Debug, Clone)]
pub struct Inbox {
    pub(crate) client: Client,
}

impl Inbox {
    /// Lists the events of all code hosts, newest first. Narrow it with [`Pager::query`]: `state` or `outcome`.
    pub fn list_all(&self) -> Pager<InboxEvent> {
        self.client.list(&["v2", "inbox"], "events")
    }

    /// Lists the events for a project, newest first. Narrow it with [`Pager::query`]: `state` or `outcome`.
    pub fn list(&self, project: &str) -> Pager<InboxEvent> {
        self.client.list(&["v2", "projects", project, "inbox"], "events")
    }
}
