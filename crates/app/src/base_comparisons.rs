//! How pull requests compare with their bases: the work that finds it out and stores it, and what is shown of it.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use journeyman_core::code_host::{PullRef, PullRepository, PullState};
use journeyman_core::ids::ProjectId;
use journeyman_core::job::Job;
use journeyman_core::ports::{Effort, NotCompared, OpenedRepository, StoreError};
use journeyman_core::project::{Address, Project, parse_address};
use journeyman_core::pull::base_comparison::BaseComparison;
use journeyman_core::pull::compared::{
    COMPARISON_LEASE, COMPARISON_LIMIT, COMPARISON_PAUSE, ComparedPull, DueComparison, EndedComparison,
    LONGEST_COMPARISON_DELAY, MovedBranch, NoComparison, SEEN_AGE, next_comparison,
};
use journeyman_core::time::Timestamp;

use crate::UseCases;

/// The maximum number of projects whose pull requests a process compares at the same time.
const PROJECTS_AT_ONCE: usize = 4;

/// The interval at which a process that compares looks for other projects that are due.
const LOOK: Duration = Duration::from_secs(2);

/// The time after which a process that compares claims no more projects in one call.
const CLAIMS_FOR: Duration = Duration::from_secs(600);

/// The delay until the pull requests of a repository that could not be read are compared again.
const FAILED: Duration = Duration::from_secs(60);

/// The number of pull requests by which the order of a comparison moves on, so that all get their turn with the code
/// host.
const TURN: u64 = 20;

/// What is known about an open pull request and its base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownComparison {
    /// The comparison, or the reason why there is none.
    pub result: Result<BaseComparison, NoComparison>,
    /// The time of the comparison; `None` if there was none.
    pub at: Option<Timestamp>,
}

impl KnownComparison {
    /// The record of a pull request that was not compared yet.
    const NOT_YET: Self = Self { result: Err(NoComparison::NotYet), at: None };

    /// Returns the number of conflicting files; `None` if there are none, or if they are not known.
    #[must_use]
    pub fn conflicts(&self) -> Option<usize> {
        self.result.as_ref().ok().map(|found| found.conflicts.count()).filter(|count| *count > 0)
    }
}

/// The results of a comparison of a project, as far as it came.
#[derive(Default)]
struct Progress(Mutex<Vec<ComparedPull>>);

impl UseCases {
    /// Returns what is known about open pull requests of a project and their bases, in the same order. Nothing is read
    /// from a repository or a code host; if the last comparison is some time ago, another one follows. The caller may
    /// see the project.
    ///
    /// # Errors
    /// The store failed.
    pub async fn known_comparisons(
        &self,
        project: &Project,
        pulls: &[PullRef],
    ) -> Result<Vec<KnownComparison>, StoreError> {
        if pulls.is_empty() {
            return Ok(Vec::new());
        }
        let store = &self.parts().store;
        store.refresh_comparison(project.id.clone(), self.parts().engine.now() - SEEN_AGE).await?;
        let stored = store.comparisons(pulls.to_vec()).await?;
        let known = |pull: &PullRef| {
            let found = stored.iter().find(|one| one.pull == *pull);
            found.map_or(KnownComparison::NOT_YET, |one| KnownComparison {
                result: one.result.clone(),
                at: Some(one.at).filter(|_| one.result != Err(NoComparison::NotYet)),
            })
        };
        Ok(pulls.iter().map(known).collect())
    }

    /// Returns what is known about the open pull request of a job, like [`UseCases::known_comparisons`]; `None` if the
    /// job has none.
    ///
    /// # Errors
    /// The store failed.
    pub async fn known_comparison_of_job(
        &self,
        project: &Project,
        job: &Job,
    ) -> Result<Option<KnownComparison>, StoreError> {
        let Some(pull) = open_pull(job) else { return Ok(None) };
        Ok(self.known_comparisons(project, &[pull]).await?.pop())
    }

    /// Compares an open pull request with its base now; `None` if this was not found out within `limit`, or if it
    /// cannot be compared. The caller may see the project.
    pub async fn compare_now(&self, project: &Project, pull: &PullRef, limit: Duration) -> Option<BaseComparison> {
        let work = async {
            let opened = self.parts().comparisons.open(project, Effort::Quick).await?;
            opened.compare(pull).await
        };
        let (id, number) = (&project.id, pull.number);
        match tokio::time::timeout(limit, work).await {
            Ok(Ok(compared)) => compared.ok(),
            Ok(Err(error)) => {
                tracing::info!(project = %id, number, %error, "a pull request was not compared with its base");
                None
            }
            Err(_) => {
                tracing::info!(project = %id, number, "a pull request was not compared with its base in time");
                None
            }
        }
    }

    /// Compares the open pull request of a job with its base now, like [`UseCases::compare_now`].
    pub async fn compare_job_now(&self, project: &Project, job: &Job, limit: Duration) -> Option<BaseComparison> {
        self.compare_now(project, &open_pull(job)?, limit).await
    }

    /// Adds the projects to the schedule of comparisons that have open pull requests and are not on it.
    ///
    /// # Errors
    /// The store failed.
    pub async fn plan_comparisons(&self) -> Result<(), StoreError> {
        self.parts().store.plan_comparisons().await
    }

    /// Compares the pull requests of projects that are due with their bases, stores the results, and asks jobs to merge
    /// the base where the project wants it. Any number of processes may do so at the same time.
    ///
    /// # Errors
    /// The store failed. A claimed project is due again when its lease expires.
    pub async fn carry_out_due_comparisons(&self) -> Result<(), StoreError> {
        let (engine, store) = (&self.parts().engine, &self.parts().store);
        let (begun, mut running) = (engine.now(), FuturesUnordered::new());
        loop {
            let free = PROJECTS_AT_ONCE.saturating_sub(running.len());
            if free > 0 && engine.now().since(begun) < CLAIMS_FOR {
                let due = store.claim_comparisons(engine.now(), COMPARISON_LEASE, free).await?;
                running.extend(due.into_iter().map(|due| self.compare_project(due)));
            }
            // A project that takes long must not delay the others.
            match tokio::time::timeout(LOOK, running.next()).await {
                Ok(None) => return Ok(()),
                Ok(Some(done)) => done?,
                Err(_) => {}
            }
        }
    }

    /// Compares the pull requests of a claimed project, and stores the results.
    async fn compare_project(&self, due: DueComparison) -> Result<(), StoreError> {
        let (store, engine) = (&self.parts().store, &self.parts().engine);
        let known = store.comparisons_in(due.project.clone()).await?;
        let project = store.project(due.project.clone()).await?;
        let open = match &project {
            Some(project) => self.open_pulls_of(project).await?,
            None => Vec::new(),
        };
        let mut end = EndedComparison { held_until: engine.now() + COMPARISON_PAUSE, ..EndedComparison::default() };
        end.removed.extend(known.iter().map(|one| &one.pull).filter(|pull| !open.contains(pull)).cloned());
        if let Some(project) = project.filter(|_| !open.is_empty()) {
            let progress = Progress::default();
            let order = in_order(&open, &known, due.claims);
            let work = self.compare_pulls(&project, &order, &progress);
            let failed = match tokio::time::timeout(COMPARISON_LIMIT, work).await {
                Ok(Ok(())) => false,
                Ok(Err(error)) => {
                    tracing::warn!(project = %project.id, %error, "pull requests were not compared with their bases");
                    true
                }
                Err(_) => {
                    tracing::warn!(project = %project.id, "the comparison of pull requests with their bases took too long");
                    true
                }
            };
            let found = progress.0.into_inner().unwrap_or_else(PoisonError::into_inner);
            let is_new =
                |one: &ComparedPull| !known.iter().any(|known| known.pull == one.pull && known.result == one.result);
            end.changed = found.into_iter().filter(is_new).collect();
            let period = next_comparison(project.settings.pull_request.keep_up_to_date);
            let now = engine.now();
            end.next = Some(now + if failed { FAILED } else { period });
            end.held_until = now + COMPARISON_PAUSE;
        }
        if !store.end_comparison(&due, end).await? {
            tracing::info!(project = %due.project, "another process has compared the pull requests meanwhile");
        }
        Ok(())
    }

    async fn compare_pulls(
        &self,
        project: &Project,
        pulls: &[PullRef],
        progress: &Progress,
    ) -> Result<(), NotCompared> {
        let opened = self.parts().comparisons.open(project, Effort::Complete).await?;
        for pull in pulls {
            let Some(compared) = compare(project, pull, &*opened).await else { continue };
            let at = self.parts().engine.now();
            let one = ComparedPull { pull: pull.clone(), result: compared.clone(), at };
            progress.0.lock().unwrap_or_else(PoisonError::into_inner).push(one);
            if let Ok(comparison) = compared {
                self.keep_pull_up_to_date(project, pull, comparison).await;
            }
        }
        Ok(())
    }

    /// Returns the open pull requests of a project: those of jobs and, on the built-in code host, all.
    async fn open_pulls_of(&self, project: &Project) -> Result<Vec<PullRef>, StoreError> {
        let store = &self.parts().store;
        let indexed = store.indexed_pulls_in(project.id.clone()).await?;
        let indexed = indexed.into_iter().filter(|pull| pull.state == PullState::Open);
        let mut open: Vec<PullRef> =
            indexed.map(|pull| PullRef { repository: pull.repository, number: pull.number }).collect();
        if let Ok(Address::Local(name)) = parse_address(&project.repository) {
            let known: BTreeSet<u64> = open
                .iter()
                .filter(|pull| pull.repository == PullRepository::local(&name))
                .map(|pull| pull.number)
                .collect();
            let of_people = store.pulls(name.clone()).await?.into_iter();
            let of_people = of_people.filter(|pull| pull.state == PullState::Open && !known.contains(&pull.number));
            let repository = PullRepository::local(&name);
            open.extend(of_people.map(|pull| PullRef { repository: repository.clone(), number: pull.number }));
        }
        Ok(open)
    }

    /// Compares the pull requests of a project soon, because its settings have changed.
    pub(crate) async fn compare_soon(&self, project: &ProjectId) -> Result<(), StoreError> {
        let before = self.parts().engine.now() + LONGEST_COMPARISON_DELAY;
        self.parts().store.refresh_comparison(project.clone(), before).await
    }

    /// Makes the comparisons due at once that a change of a repository on the built-in code host concerns. A failure is
    /// only logged: the pull requests are compared after a time in any case.
    pub(crate) async fn wake_local_comparisons(&self, repository: &str) {
        let repository = PullRepository::local(repository);
        let moved = MovedBranch { repository, branch: None, project: None };
        if let Err(error) = self.parts().store.wake_comparisons(moved).await {
            tracing::warn!(%error, "the comparison of pull requests with their bases could not be made due");
        }
    }
}

/// Compares a pull request; `None` if this failed. The others must not wait for one that fails.
async fn compare(
    project: &Project,
    pull: &PullRef,
    opened: &dyn OpenedRepository,
) -> Option<Result<BaseComparison, NoComparison>> {
    let compared = opened.compare(pull).await;
    let warn = |error: &NotCompared| {
        tracing::info!(project = %project.id, number = pull.number, %error, "a pull request was not compared with its base");
    };
    compared.inspect_err(warn).ok()
}

/// Returns pull requests in the order of the comparison: those without a result first, then the others, from another
/// start in each comparison. The code host is asked about some of them only.
fn in_order(open: &[PullRef], known: &[ComparedPull], claims: u64) -> Vec<PullRef> {
    let is_known = |pull: &&PullRef| known.iter().any(|one| one.pull == **pull);
    let (mut old, mut order): (Vec<PullRef>, Vec<PullRef>) = (Vec::new(), Vec::new());
    for pull in open {
        if is_known(&pull) { old.push(pull.clone()) } else { order.push(pull.clone()) }
    }
    if let Some(length) = u64::try_from(old.len()).ok().filter(|length| *length > 0) {
        let turn = usize::try_from(claims.wrapping_mul(TURN) % length).unwrap_or(0);
        old.rotate_left(turn);
    }
    order.extend(old);
    order
}

/// Returns the open pull request of a job; `None` if there is none, or if an older version opened it.
pub(crate) fn open_pull(job: &Job) -> Option<PullRef> {
    let pull = job.pull.as_ref().filter(|pull| pull.state == PullState::Open)?;
    Some(PullRef { repository: pull.repository.clone()?, number: pull.number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pull_request_gets_its_turn() {
        let pull = |number: u64| PullRef { repository: PullRepository::local("shop"), number };
        let open: Vec<PullRef> = (0..50).map(pull).collect();
        let at = Timestamp::default();
        let known: Vec<ComparedPull> =
            (0..49).map(|number| ComparedPull { pull: pull(number), result: Err(NoComparison::InFork), at }).collect();
        let mut seen = BTreeSet::new();
        for claims in 1..=3 {
            let order = in_order(&open, &known, claims);
            assert_eq!((order.len(), order[0].number), (50, 49), "what is not known comes first");
            seen.extend(order[1..=20].iter().map(|pull| pull.number));
        }
        assert_eq!(seen.len(), 49);
        assert_eq!(in_order(&open[..1], &[], 7).len(), 1);
    }
}
