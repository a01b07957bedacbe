//! How the pull request of a job compares with its base, above the conversation: what conflicts, and the button that asks
//! the agent to merge the base.

use askama::Template;
use journeyman_app::KnownComparison;
use journeyman_core::pull::base_comparison::BaseComparison;

use super::{InJob, status};
use crate::fragment::Fragment;
use crate::frame::Frame;
use crate::pages::pulls::base_note::BaseNote;
use crate::pages::pulls::merge_box::files;
use crate::visible;

/// The maximum number of files that the page lists.
const MAX_FILES: usize = 10;

#[derive(Template)]
#[template(path = "_job_base.html")]
struct Base<'a> {
    at: &'a InJob,
    frame: &'a Frame,
    notice: Option<Notice>,
    /// The idempotency key of the form.
    once: String,
}

/// What there is to say about a pull request and its base.
struct Notice {
    /// The name of the base.
    base: String,
    text: String,
    /// The conflicting files; none if the pull request is only behind.
    files: Vec<String>,
    /// True if the agent can be asked.
    can_ask: bool,
}

/// Renders the part; empty while the agent works, and if the pull request is up to date or cannot be compared.
pub(super) async fn render(at: &InJob) -> askama::Result<Fragment> {
    let rests = !status::is_active(&at.job);
    let comparison = if rests { known(at).await } else { None };
    // The same key on each page of the same state, so that the agent is asked once.
    let ends = comparison.as_ref().map(|found| format!("update-{}-{}", found.base_sha, found.head_sha));
    let notice = comparison.and_then(|comparison| Notice::of(at, &comparison));
    Fragment::of(&Base { at, frame: at, notice, once: ends.unwrap_or_default() })
}

/// Returns the stored comparison. A page without it is complete too.
async fn known(at: &InJob) -> Option<BaseComparison> {
    match at.cases().known_comparison_of_job(&at.project, &at.job).await {
        Ok(known) => known?.result.ok(),
        Err(error) => {
            tracing::warn!(job = %at.job.id, %error, "the comparison with the base could not be read");
            None
        }
    }
}

impl Notice {
    fn of(at: &InJob, comparison: &BaseComparison) -> Option<Self> {
        let base = visible::line(&comparison.base).into_owned();
        let text = BaseNote::of(&KnownComparison { result: Ok(comparison.clone()), at: None })?.text;
        let mut named = comparison.conflicts.clone();
        named.more += named.files.len().saturating_sub(MAX_FILES);
        named.files.truncate(MAX_FILES);
        let can_ask = at.viewer.can_write() && at.job.status() != journeyman_core::job::JobStatus::Archived;
        Some(Self { base, text, files: files(&named), can_ask })
    }
}
