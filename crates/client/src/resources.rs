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
