//! Decisions of people with rights: on resources, projects, keys, users, and pull requests of the built-in code host.
//!
//! A decision names its subject, whose rows the store locks and loads, and is a pure function of these rows
//! ([`Decision`]). It returns the rows to write with their audit entries, so that all is one transaction
//! ([`crate::ports::AdminStore`]). The modules below have the subjects with their functions; resources share those in
//! [`mod@resource`].

mod change;
pub mod job;
pub mod key;
pub mod passkey;
pub mod project;
pub mod pull;
pub mod resource;
pub mod second_factor;
pub mod slack;
pub mod trust;
pub mod user;

use std::time::Duration;

use crate::code_host::CodeHost;
use crate::refusal::Refusal;
use crate::resource::{Key, Locked};
use crate::slack::SlackWorkspace;
use crate::template::Template;
use crate::trust::Trust;
use crate::webhook::Webhook;

pub use self::change::{AnyKey, AnyPut, Change, Once, Row};
use self::job::{JobToDelete, LockedJob};
use self::key::{KeyToChange, LockedKey};
use self::project::{LockedProject, LockedProjectWithJobs, ProjectToChange, ProjectToDelete};
use self::pull::{LockedBranch, LockedLines, LockedPull, PullLines, PullOfBranch, PullToChange};
use self::slack::{LockedSlackCode, SlackCode};
use self::trust::{Exchange, LockedExchange};
use self::user::{
    LinkToUse, LockedIdentity, LockedLink, LockedNames, LockedUser, NewUser, UserToChange, UserWithIdentity,
};

/// The time for which the store remembers what was deleted, so that a repeated deletion gets the first answer.
pub const DELETED_FOR: Duration = Duration::from_hours(30 * 24);

/// What a decision is about. The store locks its rows, so that two decisions on the same subject run one after the other.
pub trait Subject: Sized + Send + Sync + 'static {
    /// The locked rows.
    type Locked: Send;

    /// Returns the decision in the form that stores take.
    fn any(decision: Decision<Self>) -> AnyDecision;
}

/// A decision: its subject, and the function that decides on the locked rows. The function is called again if the
/// transaction is repeated.
pub struct Decision<S: Subject> {
    /// The subject.
    pub subject: S,
    /// The function.
    pub decide: Decide<S>,
}

/// A function that decides on the locked rows of a subject.
pub type Decide<S> = Box<dyn FnMut(&<S as Subject>::Locked) -> Result<Change, Refusal> + Send>;

impl<S: Subject> Decision<S> {
    /// Returns a decision.
    pub fn new(subject: S, decide: impl FnMut(&S::Locked) -> Result<Change, Refusal> + Send + 'static) -> Self {
        Self { subject, decide: Box::new(decide) }
    }
}

/// Defines the subjects with their locked rows.
macro_rules! subjects {
    ($($name:ident($subject:ty) -> $locked:ty,)*) => {
        /// A decision on any subject.
        #[expect(missing_docs, reason = "each variant is the subject that it contains")]
        pub enum AnyDecision {
            $($name(Decision<$subject>),)*
        }

        $(
            impl Subject for $subject {
                type Locked = $locked;

                fn any(decision: Decision<Self>) -> AnyDecision {
                    AnyDecision::$name(decision)
                }
            }
        )*
    };
}

subjects! {
    Webhook(Key<Webhook>) -> Locked<Webhook>,
    Template(Key<Template>) -> Locked<Template>,
    CodeHost(Key<CodeHost>) -> Locked<CodeHost>,
    Trust(Key<Trust>) -> Locked<Trust>,
    SlackWorkspace(Key<SlackWorkspace>) -> Locked<SlackWorkspace>,
    Project(ProjectToChange) -> LockedProject,
    ProjectWithJobs(ProjectToDelete) -> LockedProjectWithJobs,
    Job(JobToDelete) -> LockedJob,
    Key(KeyToChange) -> LockedKey,
    User(UserToChange) -> LockedUser,
    UserWithIdentity(UserWithIdentity) -> LockedIdentity,
    NewUser(NewUser) -> LockedNames,
    Link(LinkToUse) -> LockedLink,
    Exchange(Exchange) -> LockedExchange,
    SlackCode(SlackCode) -> LockedSlackCode,
    Pull(PullToChange) -> LockedPull,
    PullOfBranch(PullOfBranch) -> LockedBranch,
    PullLines(PullLines) -> LockedLines,
}
