//! The installation as the interface shows it.

use journeyman_core::ports;
use serde::Serialize;
use utoipa::ToSchema;

/// The installation.
#[derive(Debug, Serialize, ToSchema)]
pub struct System {
    /// Of the program.
    pub version: String,
    /// Where agents run on the machine that answers; `null` if it carries out no jobs.
    #[schema(required)]
    pub sandbox: Option<Containment>,
}

/// Where agents run, and what holds there.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Containment {
    /// The back end.
    pub kind: String,
    /// Whether agents are run: all that must hold does.
    pub enough: bool,
    /// What it promises.
    pub guarantees: Vec<Guarantee>,
}

/// Something that a sandbox promises.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Guarantee {
    /// Such as `network`.
    pub name: String,
    /// Whether it was seen to hold.
    pub holds: bool,
    /// Whether the configuration does without it.
    pub given_up: bool,
    /// What it means here, or how to mend it.
    pub note: String,
}

impl From<ports::Containment> for Containment {
    fn from(found: ports::Containment) -> Self {
        let enough = found.is_enough();
        let given_up = found.given_up;
        let guarantee = |one: ports::Guarantee| Guarantee {
            name: one.name.to_owned(),
            holds: one.holds,
            given_up: given_up.iter().any(|name| name == one.name),
            note: one.note,
        };
        let guarantees = found.guarantees.into_iter().map(guarantee).collect();
        Self { kind: found.sandbox.to_owned(), enough, guarantees }
    }
}
