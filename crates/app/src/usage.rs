//! Reports on the usage of models.

use journeyman_core::usage::{UsageLine, UsageQuery};

use crate::{Caller, Error, UseCases};

impl UseCases {
    /// Returns the lines of a report about the projects that the caller may see.
    ///
    /// # Errors
    /// The store failed.
    pub async fn usage(&self, caller: &Caller, query: UsageQuery) -> Result<Vec<UsageLine>, Error> {
        let projects = caller.visible(query.projects.clone());
        let mut lines = self.parts().store.usage(UsageQuery { projects, ..query.clone() }).await?;
        // Without groups, there is always one line.
        if lines.is_empty() && query.groups.is_empty() {
            lines.push(UsageLine::default());
        }
        Ok(lines)
    }
}
