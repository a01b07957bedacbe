//! The wire format of the information about the installation.

use journeyman_core::worker;
use serde::Serialize;
use utoipa::ToSchema;

/// Information about the installation.
#[derive(Debug, Serialize, ToSchema)]
pub struct System {
    /// The version of the service.
    pub version: String,
    /// The sandbox of the machine that handles the request; `null` if the machine carries out no jobs.
    #[schema(required)]
    pub sandbox: Option<Containment>,
}

/// The sandbox of a machine, and its guarantees.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Containment {
    /// The name of the sandbox's back end.
    pub kind: String,
    /// `true` if all required guarantees hold. Otherwise, the machine runs only the test model.
    pub enough: bool,
    /// The guarantees of the sandbox.
    pub guarantees: Vec<Guarantee>,
}

/// A guarantee of a sandbox.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Guarantee {
    /// The name, such as `network`.
    pub name: String,
    /// `true` if a test has shown that the guarantee holds.
    pub holds: bool,
    /// `true` if the configuration does not require the guarantee.
    pub given_up: bool,
    /// A note on how the sandbox provides the guarantee, or the remedy if it does not.
    pub note: String,
}

impl From<worker::Containment> for Containment {
    fn from(found: worker::Containment) -> Self {
        let enough = found.is_enough();
        let given_up = found.given_up;
        let guarantee = |one: worker::Guarantee| Guarantee {
            name: one.name.to_owned(),
            holds: one.holds,
            given_up: given_up.iter().any(|name| name == one.name),
            note: one.note,
        };
        let guarantees = found.guarantees.into_iter().map(guarantee).collect();
        Self { kind: found.sandbox.to_owned(), enough, guarantees }
    }
}
