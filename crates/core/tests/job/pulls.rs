//! The states of pull requests that a code host tells, and `archiveOnMerge`.

use journeyman_core::code_host::{PullRef, PullState};
use journeyman_core::job::JobStatus;
use journeyman_core::job::change::Row;
use journeyman_core::job::command::{Command, Outcome, Published, Report};
use journeyman_core::job::turn::Ending;
use journeyman_core::pull::{IndexedPull, Pull, PullSummary};
use journeyman_core::run::Usage;

use super::fixtures::{Case, repository, running, sha};

impl Case {
    fn tell(self, state: PullState, archive_on_merge: bool) -> Self {
        let pull = PullRef { repository: repository(), number: 1 };
        self.then(&Command::RecordPull { pull, state, archive_on_merge, summary: None })
    }

    fn describe(self, title: &str, draft: bool) -> Self {
        let (pull, summary) =
            (PullRef { repository: repository(), number: 1 }, Some(PullSummary { title: title.to_owned(), draft }));
        self.then(&Command::RecordPull { pull, state: PullState::Open, archive_on_merge: false, summary })
    }

    fn merge(self) -> Self {
        self.tell(PullState::Merged, true)
    }

    fn finish(self, pushed: Option<char>, pull: Published) -> Self {
        let outcome = Outcome::Published { pushed: pushed.map(sha), pull };
        self.report(Report::Finished { outcome, usage: Usage::default() })
    }
}

fn published() -> Case {
    running().turn('a', Ending::Done).publish_there('a')
}

#[test]
fn a_merge_archives_a_job_that_is_not_active() {
    let case = published().merge();
    assert_eq!(case.last_kinds(), ["pull_request.merged", "job.archived"]);
    assert_eq!(published().tell(PullState::Closed, true).last_kinds(), ["pull_request.closed"]);
    assert_eq!(published().tell(PullState::Merged, false).last_kinds(), ["pull_request.merged"]);
}

#[test]
fn a_merge_archives_an_active_job_when_its_work_is_done() {
    let case = published().send(2).send(3).claim().merge();
    assert_eq!((case.last_kinds(), case.job.status()), (vec!["pull_request.merged"], JobStatus::Active));
    let case = case.turn('a', Ending::Done).finish(None, Published::Nothing);
    assert_eq!(case.job.status(), JobStatus::Active, "message 3 is queued");
    let case = case.claim().turn('a', Ending::Done).finish(None, Published::Nothing);
    assert_eq!(case.last_kinds().last(), Some(&"job.archived"));
    // The next message of an unarchived job does not archive it again.
    let case = case.then(&Command::Unarchive).send(4).claim().turn('a', Ending::Done).finish(None, Published::Nothing);
    assert_eq!(case.job.status(), JobStatus::Completed);
}

#[test]
fn a_job_that_opens_another_pull_request_after_a_merge_is_not_archived() {
    let next = Pull { repository: Some(repository()), ..Pull::new(2, "https://github.com/a/b/pull/2") };
    let case = published().send(2).claim().merge().turn('b', Ending::Done);
    let case = case.finish(Some('b'), Published::Opened(next, None));
    assert_eq!(case.job.status(), JobStatus::Completed);
}

#[test]
fn a_merge_stays_when_the_worker_has_read_the_pull_request_before() {
    let case = published().send(2).claim().merge().turn('b', Ending::Done).publish_there('b');
    assert_eq!(case.job.pull.as_ref().map(|pull| pull.state), Some(PullState::Merged));
    assert_eq!(case.job.status(), JobStatus::Archived);
}

#[test]
fn a_job_that_was_archived_while_its_pull_request_was_merged_is_archived_once() {
    let case = published().send(2).claim().turn('b', Ending::Done).merge().then(&Command::Archive);
    let case = case.publish_there('b');
    assert_eq!(case.kinds.iter().filter(|kind| *kind == "job.archived").count(), 1, "{:?}", case.kinds);
}

#[test]
fn the_index_keeps_a_merge_that_came_before_the_report_of_the_worker() {
    let case = published().send(2).claim().merge().turn('b', Ending::Done).publish_there('b');
    let states: Vec<PullState> = case.last.rows.iter().filter_map(indexed).map(|pull| pull.state).collect();
    assert_eq!(states, [PullState::Merged]);
}

#[test]
fn a_new_title_is_recorded_once_and_adds_nothing_to_the_log() {
    let case = published().describe("Fix the typo", true);
    let pull = case.job.pull.as_ref().unwrap();
    assert_eq!((pull.title.as_deref(), pull.draft), (Some("Fix the typo"), true));
    assert_eq!(case.last_kinds(), Vec::<&str>::new());
    let rows: Vec<_> = case.last.rows.iter().filter_map(indexed).collect();
    assert_eq!((rows[0].title.as_deref(), rows[0].draft, rows[0].ended_at), (Some("Fix the typo"), true, None));
    assert_eq!(case.describe("Fix the typo", true).last.rows, []);
    // After the next message, it is an earlier pull request, whose title stays as it was.
    let next = Pull { repository: Some(repository()), ..Pull::new(2, "https://github.com/a/b/pull/2") };
    let case = published().send(2).claim().turn('b', Ending::Done).finish(Some('b'), Published::Opened(next, None));
    let case = case.describe("Fix the typo", true);
    assert_eq!(case.job.pull.as_ref().and_then(|pull| pull.title.as_ref()), None);
}

fn indexed(row: &Row) -> Option<&IndexedPull> {
    match row {
        Row::Pull(pull) => Some(pull),
        _ => None,
    }
}
