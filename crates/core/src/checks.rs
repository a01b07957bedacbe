//! The checks of pull requests: CI jobs, and commit statuses of other services.
//!
//! 1. When a job pushes a commit to a pull request, the commit is watched ([`CheckWatch`]). Webhooks wake the watch; in
//!    between, the code host is asked at growing intervals.
//! 2. When all checks have finished, [`assess`] returns the result, and the job records it ([`JobChecks`]). The commit is
//!    looked at for the rest of a day, because checks can begin late or be repeated ([`late_look`]).
//! 3. If the project wants failed checks repaired, the job gets a message ([`prompt`]), unless a rule stops it
//!    ([`CheckStop`]). The next push is watched again.

mod assess;
mod check;
mod job_checks;
mod record;
mod signature;
mod text;
mod watch;

pub use assess::{Assessment, MOST_CHECKS, assess, compared, counted, late_look, next_look};
pub use record::{Attempt, CheckReport, Reaction, refusal};
pub(crate) use record::{attempt_began, is_in_day, person_wrote, settled};
pub use signature::signature;
pub use text::{
    FailedCheck, LOG_BYTES, LOG_FOLDER, MOST_LOG_FILES, MOST_LOGS, OtherChecks, prompt, receipt, report, report_marker,
};
pub use watch::{CheckWatch, LONGEST_DELAY, WAKE_DELAY, WATCH_LEASE, WATCH_LIMIT};

pub use self::check::{Check, CheckState, CommitStatus, OWN_STATUS, StatusState};
pub use self::job_checks::{CheckResult, CheckStop, JobChecks};
