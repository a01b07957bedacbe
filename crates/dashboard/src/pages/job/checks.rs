//! The checks of a job's pull request, in the sidebar of its page.

use journeyman_core::checks::{Check, CheckResult, CheckState, CheckWatch};
use journeyman_core::job::Job;

use crate::{visible, words};

/// The checks of the newest commit that a job has pushed.
pub(super) struct ChecksLine {
    /// The class of the mark.
    pub(super) mark: &'static str,
    /// The result, or the progress.
    pub(super) text: String,
    pub(super) failed: Vec<FailedCheck>,
    /// The other checks that need words: those that wait for a person, do not count, or are flaky.
    pub(super) others: Vec<String>,
    /// The reaction to failed checks.
    pub(super) note: Option<String>,
}

/// A failed check.
pub(super) struct FailedCheck {
    pub(super) name: String,
    /// The page of the check.
    pub(super) href: Option<String>,
}

impl ChecksLine {
    /// Returns the checks of the commit that `watch` is about; `None` if it is not the newest, or if no checks are known.
    pub(super) fn of(job: &Job, watch: Option<CheckWatch>) -> Option<Self> {
        let pushed = job.branch.as_ref().and_then(|branch| branch.pushed.as_ref());
        let watch = watch.filter(|watch| pushed == Some(&watch.sha))?;
        let settled = job.checks.as_deref().filter(|checks| checks.sha == watch.sha);
        let count = |state| watch.checks.iter().filter(|check| check.state == state).count();
        let (waiting, ignored) = (count(CheckState::Waiting), count(CheckState::Ignored));
        let total = watch.checks.len() - ignored;
        let unfinished = count(CheckState::Pending) + waiting;
        let text = match settled.map(|settled| settled.result) {
            Some(CheckResult::Passed) => format!("{} passed", words::counted(total, "check")),
            Some(CheckResult::Failed) => format!("{} of {total} failed", count(CheckState::Failed)),
            Some(CheckResult::None) => "none".to_owned(),
            Some(CheckResult::TimedOut) => format!("{unfinished} did not finish within a day"),
            None if watch.checks.is_empty() => return None,
            None if total == 0 => "none yet".to_owned(),
            None => format!("{} of {total} finished", total - unfinished),
        };
        let mark = match settled.map(|settled| settled.result) {
            Some(CheckResult::Passed) => "completed",
            Some(CheckResult::Failed) => "failed",
            Some(CheckResult::None | CheckResult::TimedOut) => "stopped",
            None => "in_progress",
        };
        let failed =
            watch.checks.iter().filter(|check| check.state == CheckState::Failed).map(FailedCheck::of).collect();
        let others = watch.checks.iter().filter_map(told).collect();
        let settled = settled.filter(|settled| settled.result == CheckResult::Failed);
        let note = settled.and_then(|settled| match settled.stop {
            Some(stop) => Some(format!("Not repaired: {}.", stop.text())),
            None => settled.attempted.then(|| format!("Repair requested (attempt {}).", settled.attempts)),
        });
        Some(Self { mark, text, failed, others, note })
    }
}

/// Returns the line of a check that has not failed, if its state needs words.
fn told(check: &Check) -> Option<String> {
    let is_special = matches!(check.state, CheckState::Waiting | CheckState::Ignored) || check.is_flaky;
    let summary = check.summary.as_deref().filter(|_| check.state == CheckState::Ignored);
    let more = summary.map(|summary| format!(": {}", visible::line(summary))).unwrap_or_default();
    let line = || format!("{} {}{more}", visible::line(&check.name), check.told());
    (is_special && check.state != CheckState::Failed).then(line)
}

impl FailedCheck {
    fn of(check: &Check) -> Self {
        let href = check.url.clone().filter(|url| words::is_page(url));
        Self { name: visible::line(&check.name).into_owned(), href }
    }
}

#[cfg(test)]
mod tests {
    use journeyman_core::checks::{CheckStop, JobChecks};
    use journeyman_core::ids::{JobId, Sha};
    use journeyman_core::job::{Branch, Source};
    use journeyman_core::time::Timestamp;
    use uuid::Uuid;

    use super::*;

    fn sha(digit: &str) -> Sha {
        digit.repeat(40).parse().unwrap()
    }

    fn job(result: Option<CheckResult>, stop: Option<CheckStop>) -> Job {
        let source = Source { repository: String::new(), reference: String::new() };
        let mut job = Job::new(JobId::from_uuid(Uuid::nil()), "shop".parse().unwrap(), source, Timestamp::default());
        job.branch = Some(Branch {
            name: "b".to_owned(),
            generation: 1,
            base: sha("0"),
            head: sha("a"),
            pushed: Some(sha("a")),
            repository: None,
            existed: false,
        });
        job.checks = result.map(|result| {
            Box::new(JobChecks {
                sha: sha("a"),
                result,
                stop,
                attempted: stop.is_none(),
                attempts: 1,
                signature: None,
                automatic: Vec::new(),
                at: Timestamp::default(),
            })
        });
        job
    }

    fn watch(digit: &str, states: &[CheckState]) -> CheckWatch {
        let check =
            |state: &CheckState| Check { url: Some("javascript:alert(1)".to_owned()), ..Check::new("test", *state) };
        CheckWatch {
            job: JobId::from_uuid(Uuid::nil()),
            project: "shop".parse().unwrap(),
            sha: sha(digit),
            since: Timestamp::default(),
            due_at: None,
            looks: 1,
            checks: states.iter().map(check).collect(),
        }
    }

    #[test]
    fn the_line_says_how_many_checks_passed_or_failed() {
        use CheckState::{Failed, Passed, Pending};
        for (result, stop, states, text, note) in [
            (None, None, vec![Passed, Pending], "1 of 2 finished", None),
            (Some(CheckResult::Passed), None, vec![Passed], "1 check passed", None),
            (Some(CheckResult::None), None, vec![], "none", None),
            (Some(CheckResult::Failed), None, vec![Failed], "1 of 1 failed", Some("Repair requested (attempt 1).")),
            (Some(CheckResult::Failed), Some(CheckStop::Archived), vec![Failed, Passed], "1 of 2 failed", Some("Not")),
        ] {
            let line = ChecksLine::of(&job(result, stop), Some(watch("a", &states))).unwrap();
            assert_eq!(line.text, text);
            match (line.note, note) {
                (None, None) => {}
                (found, expected) => assert!(found.unwrap().starts_with(expected.unwrap()), "{text}"),
            }
        }
    }

    #[test]
    fn checks_that_wait_or_do_not_count_are_told() {
        use CheckState::{Ignored, Passed, Waiting};
        let line = ChecksLine::of(&job(None, None), Some(watch("a", &[Waiting, Passed, Ignored]))).unwrap();
        assert_eq!(line.text, "1 of 2 finished");
        assert_eq!(line.others, ["test waits for a person", "test does not count as a check"]);
        let line = ChecksLine::of(&job(None, None), Some(watch("a", &[Ignored]))).unwrap();
        assert_eq!(line.text, "none yet");
        let mut watch = watch("a", &[Passed]);
        watch.checks[0].is_flaky = true;
        let line = ChecksLine::of(&job(Some(CheckResult::Passed), None), Some(watch)).unwrap();
        assert_eq!(line.others, ["test passed, after another result on the same commit"]);
    }

    #[test]
    fn nothing_is_shown_for_an_older_commit_or_before_the_first_check() {
        assert!(ChecksLine::of(&job(None, None), Some(watch("b", &[CheckState::Failed]))).is_none());
        assert!(ChecksLine::of(&job(None, None), Some(watch("a", &[]))).is_none());
        assert!(ChecksLine::of(&job(None, None), None).is_none());
    }

    #[test]
    fn only_http_pages_are_linked() {
        let line = ChecksLine::of(&job(None, None), Some(watch("a", &[CheckState::Failed]))).unwrap();
        assert_eq!((line.failed[0].name.as_str(), &line.failed[0].href), ("test", &None));
    }
}
