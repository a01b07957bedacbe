//! The operations of the interface, by resource.

mod code_hosts;
mod events;
mod jobs;
mod keys;
mod projects;
mod pulls;
mod slack;
mod system;
mod templates;
mod trusts;
mod users;
mod webhooks;

pub use self::code_hosts::{CodeHosts, Inbox};
pub use self::events::Events;
pub use self::jobs::{Jobs, Messages, Runs};
pub use self::keys::Keys;
pub use self::projects::Projects;
pub use self::pulls::Pulls;
pub use self::slack::Slack;
pub use self::system::{Audit, UsageReports};
pub use self::templates::Templates;
pub use self::trusts::Trusts;
pub use self::users::Users;
pub use self::webhooks::Webhooks;
use crate::client::Client;
use crate::job::JobHandle;

impl Client {
    /// Returns the operations on one job.
    pub fn job(&self, project: impl Into<String>, job: impl Into<String>) -> JobHandle {
        JobHandle::new(self.clone(), project.into(), job.into())
    }

    /// Returns the operations on jobs.
    pub fn jobs(&self) -> Jobs {
        Jobs { client: self.clone() }
    }

    /// Returns the operations on messages.
    pub fn messages(&self) -> Messages {
        Messages { client: self.clone() }
    }

    /// Returns the operations on runs.
    pub fn runs(&self) -> Runs {
        Runs { client: self.clone() }
    }

    /// Returns the operations on the feed of events.
    pub fn events(&self) -> Events {
        Events { client: self.clone() }
    }

    /// Returns the operations on projects.
    pub fn projects(&self) -> Projects {
        Projects { client: self.clone() }
    }

    /// Returns the operations on the pull requests of projects.
    pub fn pulls(&self) -> Pulls {
        Pulls { client: self.clone() }
    }

    /// Returns the operations on code hosts.
    pub fn code_hosts(&self) -> CodeHosts {
        CodeHosts { client: self.clone() }
    }

    /// Returns the operations on the inbox, which has the events of code hosts.
    pub fn inbox(&self) -> Inbox {
        Inbox { client: self.clone() }
    }

    /// Returns the operations on API keys.
    pub fn keys(&self) -> Keys {
        Keys { client: self.clone() }
    }

    /// Returns the operations on webhooks.
    pub fn webhooks(&self) -> Webhooks {
        Webhooks { client: self.clone() }
    }

    /// Returns the operations on templates, which people choose when they create a job.
    pub fn templates(&self) -> Templates {
        Templates { client: self.clone() }
    }

    /// Returns the operations on trusts, and the exchange of tokens.
    pub fn trusts(&self) -> Trusts {
        Trusts { client: self.clone() }
    }

    /// Returns the operations on users of the dashboard.
    pub fn users(&self) -> Users {
        Users { client: self.clone() }
    }

    /// Returns the operations on Slack workspaces.
    pub fn slack(&self) -> Slack {
        Slack { client: self.clone() }
    }

    /// Returns the reports on usage.
    pub fn usage(&self) -> UsageReports {
        UsageReports { client: self.clone() }
    }

    /// Returns the operations on the audit log.
    pub fn audit(&self) -> Audit {
        Audit { client: self.clone() }
    }
}
