//! The notice on the pages of a project that its repository cannot be read.

use journeyman_core::ports::StoreError;

use crate::in_project::InProject;
use crate::moment::Moment;
use crate::{Shared, visible, words};

/// The number of failed polls in a row from which the notice is shown. One may be an outage of a moment.
const FAILURES: u32 = 2;

/// The reason why the repository of a project cannot be read.
pub(super) struct Problem {
    /// The cause, for people.
    pub(super) text: String,
    /// The time of the first failure.
    pub(super) since: Moment,
}

impl Problem {
    /// Returns the reason why polls of a project's repository fail; `None` if they succeed, or it is not polled.
    pub(super) async fn of(shared: &Shared, at: &InProject) -> Result<Option<Self>, StoreError> {
        let poll = shared.services.store.poll_of(at.project.id.clone()).await?;
        let problem = poll.filter(|poll| poll.failures >= FAILURES).and_then(|poll| poll.problem);
        Ok(problem.map(|problem| Self {
            text: words::sentence(&visible::line(&problem.text)),
            since: at.moment(problem.since),
        }))
    }
}
