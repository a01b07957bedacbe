//! The feed of events.

use crate::client::Client;
use crate::feed::FeedEvents;
use crate::models::{ProjectEvent, ProjectEventType};
use crate::pager::Pager;

/// The operations on the feed, which has the events of projects for integrations.
#[derive(Debug, Clone)]
pub struct Events {
    pub(crate) client: Client,
}

impl Events {
    /// Lists the events of all projects that the key may see, oldest first; without types, events of all types.
    pub fn list_all(&self, types: &[ProjectEventType]) -> Pager<ProjectEvent> {
        self.client.list(&["v2", "events"], "events").pairs(pairs(types))
    }

    /// Lists the events of a project, oldest first; without types, events of all types.
    pub fn list(&self, project: &str, types: &[ProjectEventType]) -> Pager<ProjectEvent> {
        self.client.list(&["v2", "projects", project, "events"], "events").pairs(pairs(types))
    }

    /// Streams the events of all projects that the key may see.
    pub fn stream_all(&self) -> FeedEvents {
        FeedEvents::new(self.client.clone(), &["v2", "events", "stream"])
    }

    /// Streams the events of a project.
    pub fn stream(&self, project: &str) -> FeedEvents {
        FeedEvents::new(self.client.clone(), &["v2", "projects", project, "events", "stream"])
    }
}

fn pairs(types: &[ProjectEventType]) -> Vec<(&'static str, String)> {
    types.iter().map(|kind| ("type", kind.to_string())).collect()
}
