//! Decides which texts around the comments of a message are requests and which are data.

use std::collections::BTreeMap;

use journeyman_core::conversation::Permission;
use journeyman_core::hook::HostUser;
use journeyman_core::inbox::earlier::Doubt;

use super::Problem;
use super::context::Context;
use crate::UseCases;

/// The maximum number of authors of other texts whose permissions are read for a part of a message, newest first. The text
/// of others is data.
const AUTHORS: usize = 20;

/// What is known about the authors of texts.
pub(super) struct Doubts {
    /// Whether an author may push, by the ID.
    permitted: BTreeMap<String, bool>,
    /// `true` if people who may not push may have edited what was edited.
    others_edit: bool,
    /// The ID of the service's user.
    me: Option<String>,
}

impl Doubts {
    /// Returns the reason why a text is data; `None` if only people who may push have written it.
    pub(super) fn of(&self, author: &HostUser, is_edited: bool) -> Option<Doubt> {
        match self.permitted.get(&author.id) {
            _ if self.is_service(author) => Some(Doubt::Service),
            Some(true) if is_edited && self.others_edit => Some(Doubt::Edited),
            Some(true) => None,
            _ => Some(Doubt::NotPermitted),
        }
    }

    /// Returns whether the service itself is the author.
    pub(super) fn is_service(&self, author: &HostUser) -> bool {
        self.me.as_ref() == Some(&author.id)
    }
}

impl UseCases {
    /// Finds out about the authors of texts, the newest first. `is_edited` is true if one of the texts was edited, and the
    /// host does not show by whom.
    pub(super) async fn doubts<'a>(
        &self,
        authors: impl Iterator<Item = &'a HostUser> + Send,
        is_edited: bool,
        context: &Context,
    ) -> Result<Doubts, Problem> {
        let me = context.identity.me.as_ref().map(|me| me.id.clone());
        let mut permitted = BTreeMap::new();
        for author in authors {
            let is_known =
                permitted.contains_key(&author.id) || author.id.is_empty() || me.as_ref() == Some(&author.id);
            if permitted.len() >= AUTHORS || is_known {
                continue;
            }
            let is_trusted_bot = context.identity.trusted_bots.contains(&author.id);
            let may_push = is_trusted_bot || self.permission(context, author).await? >= Permission::Write;
            permitted.insert(author.id.clone(), may_push);
        }
        let others_edit = is_edited && self.editor_unknown(context).await?.is_some();
        Ok(Doubts { permitted, others_edit, me })
    }
}
