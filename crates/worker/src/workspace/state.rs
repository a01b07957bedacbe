//! What the service knows about the tree of a job: the state with which the tree after the next turn is compared.

use std::collections::BTreeSet;

use journeyman_core::idempotency::Fingerprint;
use serde::{Deserialize, Serialize};

use super::listing::Stamp;
use crate::submodules::SubmoduleState;

/// The state of a tree between two turns, without the list of its files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TreeState {
    /// The fingerprint of the tree ([`super::scan`]), if there was nothing to commit.
    pub(crate) clean: Option<String>,
    /// The stamp of the agent's index, if none of its entries is marked as local.
    pub(crate) unmarked_index: Option<Stamp>,
    /// The digest of the agent's own ignore rules.
    pub(crate) ignore_rules: Stamp,
    /// The submodules.
    pub(crate) submodules: SubmoduleState,
    /// The paths that were left out of the last commit, as people see them.
    pub(crate) left_out: BTreeSet<String>,
}

/// Returns the digest of ignore rules.
pub(crate) fn digest(rules: &[u8]) -> Stamp {
    let mut digest = Stamp::default();
    for (byte, with) in digest.iter_mut().zip(Fingerprint::of("ignore rules", rules).0) {
        *byte = with;
    }
    digest
}
