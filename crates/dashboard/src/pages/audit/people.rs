//! The actors of the audit log, by their names.

use std::collections::HashMap;

use journeyman_core::key::ApiKey;

use super::choice::{Choice, choices};
use crate::failure::Failure;
use crate::{Shared, visible};

/// The names of users, keys and trusts.
pub(super) struct People {
    /// The names by ID.
    pub(super) names: HashMap<String, String>,
    pub(super) keys: HashMap<String, ApiKey>,
    /// The IDs and names of users, and of keys, sorted by name.
    pub(super) users: Vec<(String, String)>,
}

/// The actors that are neither users nor keys, with the words for them.
pub(super) const OTHERS: [(&str, &str); 3] =
    [("cli", "The command line"), ("service", "The service"), ("nobody", "A person who was not signed in")];

impl People {
    pub(super) async fn read(shared: &Shared) -> Result<Self, Failure> {
        let names = shared.services.cases.names().await?;
        let keys = shared.services.store.keys().await?.into_iter().map(|key| (key.id.to_string(), key)).collect();
        let users = shared.services.store.users().await?.into_iter();
        let mut users: Vec<(String, String)> = users.map(|user| (user.id.to_string(), user.name)).collect();
        users.sort_by(|one, other| one.1.cmp(&other.1));
        Ok(Self { names, keys, users })
    }

    /// Returns the actors of a choice. Those of a user include the user's keys.
    pub(super) fn actors_of(&self, who: &str) -> Vec<String> {
        let owned = self.keys.values().filter(|key| key.owner.is_some_and(|owner| owner.to_string() == who));
        [who.to_owned()].into_iter().chain(owned.map(|key| key.id.to_string())).collect()
    }

    /// Returns the choices of the filter: users, keys, and the command line.
    pub(super) fn choices(&self, chosen: Option<&str>) -> Vec<Choice> {
        let mut keys: Vec<(String, String)> =
            self.keys.values().map(|key| (key.id.to_string(), format!("key {}", key.name))).collect();
        keys.sort_by(|one, other| one.1.cmp(&other.1));
        let known = self.users.iter().chain(&keys).map(|(id, name)| (id.as_str(), name.as_str()));
        let mut listed = choices(known.chain(OTHERS), chosen);
        // The parameter of a link may name no known user or key.
        if let Some(other) = chosen.filter(|who| !who.is_empty() && listed.iter().all(|choice| choice.value != **who)) {
            listed.extend(choices([(other, other)].into_iter(), chosen));
        }
        listed
    }

    /// Returns the name of a user, a key or a trust.
    pub(super) fn name(&self, id: &str) -> Option<String> {
        self.names.get(id).map(|name| visible::line(name).into_owned())
    }
}
