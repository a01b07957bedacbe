//! Slack workspaces.

use reqwest::Method;
use serde::Deserialize;
use serde_json::Value;

use super::code_hosts::findings;
use crate::call::Call;
use crate::client::Client;
use crate::models::{ChangeSlackWorkspace, Finding, SlackCode, SlackEvent, SlackPost, SlackWorkspace};
use crate::pager::Pager;

/// The operations on Slack workspaces.
#[derive(Debug, Clone)]
pub struct Slack {
    pub(crate) client: Client,
}

impl Slack {
    /// Returns all workspaces, oldest first, without their secrets.
    pub fn list(&self) -> Call<Vec<SlackWorkspace>> {
        #[derive(Deserialize)]
        struct List {
            workspaces: Vec<SlackWorkspace>,
        }
        let call: Call<Value> = self.client.get(&["v2", "slack", "workspaces"]);
        call.read_with(|response| Ok(response.json::<List>()?.workspaces))
    }

    /// Connects a workspace. The server asks Slack for the workspace of the token.
    pub fn create(&self, workspace: &ChangeSlackWorkspace) -> Call<SlackWorkspace> {
        self.client.post(&["v2", "slack", "workspaces"]).json(workspace)
    }

    /// Returns a workspace, and which of its secrets are set.
    pub fn get(&self, workspace: &str) -> Call<SlackWorkspace> {
        self.client.get(&["v2", "slack", "workspaces", workspace])
    }

    /// Changes a workspace, and connects and disconnects channels and people.
    pub fn change(&self, workspace: &str, changes: &ChangeSlackWorkspace) -> Call<SlackWorkspace> {
        self.client.call(Method::PATCH, &["v2", "slack", "workspaces", workspace]).harmless().json(changes)
    }

    /// Removes a workspace with its secrets, events, threads and posts. Jobs stay.
    pub fn remove(&self, workspace: &str) -> Call<()> {
        self.client.call_nothing(Method::DELETE, &["v2", "slack", "workspaces", workspace]).harmless()
    }

    /// Tests whether Slack accepts the tokens, whether events arrive, and whether posts are accepted.
    pub fn check(&self, workspace: &str) -> Call<Vec<Finding>> {
        findings(self.client.call(Method::POST, &["v2", "slack", "workspaces", workspace, "check"]).harmless())
    }

    /// Lists mentions, replies and direct messages with what became of each, newest first.
    pub fn events(&self, workspace: &str) -> Pager<SlackEvent> {
        self.client.list(&["v2", "slack", "workspaces", workspace, "events"], "events")
    }

    /// Lists what the server writes to Slack, with the errors of Slack, newest first.
    pub fn posts(&self, workspace: &str) -> Pager<SlackPost> {
        self.client.list(&["v2", "slack", "workspaces", workspace, "posts"], "posts")
    }

    /// Creates a code, which the user of the key sends to the bot as `link CODE` within ten minutes. An earlier code of
    /// the user is no longer valid.
    pub fn create_code(&self) -> Call<SlackCode> {
        // If the response is lost, no client has the code, and a retry replaces it.
        self.client.call(Method::POST, &["v2", "slack", "code"]).harmless()
    }
}
