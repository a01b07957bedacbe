//! Watches the checks of pull requests, and has failed checks repaired.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use journeyman_core::checks::{
    Assessment, Attempt, Check, CheckReport, CheckResult, CheckState, CheckStop, CheckWatch, FailedCheck, JobChecks,
    LOG_BYTES, MOST_LOGS, OWN_STATUS, OtherChecks, Reaction, WATCH_LEASE, WATCH_LIMIT, assess, compared, counted,
    late_look, next_look, prompt, signature,
};
use journeyman_core::code_host::PullState;
use journeyman_core::engine::Prompt;
use journeyman_core::job::Job;
use journeyman_core::message::{DeliveryMode, MessageSource, Origin, SourceLog};
use journeyman_core::ports::{Checks, Forge, ForgeError, StoreError, UpdateError};
use journeyman_core::project::{
    CheckMode, CheckSettings, DEFAULT_AUTOMATIC_PER_DAY, DEFAULT_CHECK_ATTEMPTS, DEFAULT_CHECK_SETTLE_SECONDS, Project,
};
use journeyman_core::pull::Pull;
use journeyman_core::time::Timestamp;

use crate::inbox::Problem;
use crate::{Caller, Error, UseCases};

/// The maximum number of commits whose checks a process reads at the same time.
const BATCH: usize = 16;

/// The delay until failed checks are considered again, if the job was active.
const WHILE_ACTIVE: Duration = Duration::from_secs(60);

/// The time for which checks that cannot be read are tried. After that, only a webhook causes another attempt.
const UNREADABLE: Duration = Duration::from_secs(24 * 3600);

/// The checks of the newest commit that a job has pushed.
#[derive(Debug, Clone, PartialEq)]
pub struct ChecksOfJob {
    /// The watched commit; `None` if the job has pushed none to a pull request on a remote code host.
    pub watch: Option<CheckWatch>,
    /// The result; `None` while the checks have not finished.
    pub settled: Option<JobChecks>,
    /// The number of attempts to repair checks since they last passed, or a person last sent a message.
    pub attempts: u32,
    /// The settings of the project.
    pub settings: CheckSettings,
}

/// The result of a look.
struct Seen {
    /// The checks that count; `None` if they could not be read.
    checks: Option<Vec<Check>>,
    /// The time of the next look; `None` if only a webhook causes one.
    next: Option<Timestamp>,
}

impl Seen {
    /// The result if the commit is no longer of interest.
    const NOTHING: Self = Self { checks: None, next: None };
}

/// A look at the checks of a commit.
struct Look<'a> {
    project: &'a Project,
    job: &'a Job,
    pull: &'a Pull,
    forge: &'a dyn Forge,
    checks: &'a dyn Checks,
    watch: &'a CheckWatch,
}

impl UseCases {
    /// Returns the checks of the newest commit that a job has pushed.
    ///
    /// # Errors
    /// The caller may not see the project, or the store failed.
    pub async fn checks_of_job(&self, caller: &Caller, job: &Job) -> Result<ChecksOfJob, Error> {
        let project = self.known_project(caller, &job.project).await?;
        let watch = self.parts().store.watch_of(job.id).await?;
        let pushed = job.branch.as_ref().and_then(|branch| branch.pushed.as_ref());
        let watch = watch.filter(|watch| pushed == Some(&watch.sha));
        let settled = job.checks.as_deref().filter(|checks| pushed == Some(&checks.sha)).cloned();
        let attempts = job.checks.as_deref().map_or(0, |checks| checks.attempts);
        Ok(ChecksOfJob { watch, settled, attempts, settings: project.settings.checks.clone() })
    }

    /// Reads the checks that are due, and returns the number of commits. If it is positive, more may be due. Any number of
    /// processes may do so at the same time.
    ///
    /// # Errors
    /// The store failed. Claimed watches are due again when their lease expires.
    pub async fn carry_out_due_checks(&self) -> Result<usize, StoreError> {
        let (store, now) = (&self.parts().store, self.parts().engine.now());
        let watches = store.claim_watches(now, WATCH_LEASE, BATCH).await?;
        let ends = join_all(watches.iter().map(|watch| self.look(watch))).await;
        ends.into_iter().collect::<Result<(), StoreError>>()?;
        Ok(watches.len())
    }

    async fn look(&self, watch: &CheckWatch) -> Result<(), StoreError> {
        let seen = tokio::time::timeout(WATCH_LIMIT, self.try_look(watch)).await;
        let seen = match seen.unwrap_or_else(|_| Err(Problem::timeout())) {
            Ok(seen) => seen,
            Err(problem) => {
                let age = self.parts().engine.now().since(watch.since);
                let next = (age < UNREADABLE).then(|| self.next_look(watch));
                let retries = next.is_some();
                tracing::warn!(job = %watch.job, sha = %watch.sha, error = %problem.0, retries, "the checks could not be read");
                Seen { checks: None, next }
            }
        };
        self.parts().store.end_look(watch, seen.checks, seen.next).await?;
        Ok(())
    }

    async fn try_look(&self, watch: &CheckWatch) -> Result<Seen, Problem> {
        let store = &self.parts().store;
        let Some(job) = store.job(watch.job).await? else { return Ok(Seen::NOTHING) };
        let Some(project) = store.project(job.project.clone()).await? else { return Ok(Seen::NOTHING) };
        let pushed = job.branch.as_ref().and_then(|branch| branch.pushed.as_ref());
        let Some(pull) = job.pull.as_ref().filter(|pull| pull.state == PullState::Open) else {
            return Ok(Seen::NOTHING);
        };
        if project.settings.checks.mode == CheckMode::Off || pushed != Some(&watch.sha) {
            return Ok(Seen::NOTHING);
        }
        let forge = self.parts().forges.of(&project).await?;
        let Some(checks) = forge.checks() else { return Ok(Seen::NOTHING) };
        // The project may have another repository now, with other pull requests of the same numbers.
        if let (Some(known), Some(current)) = (&pull.repository, forge.identity().await?)
            && *known != current
        {
            return Ok(Seen::NOTHING);
        }
        let look = Look { project: &project, job: &job, pull, forge: &*forge, checks, watch };
        self.assess(&look).await
    }

    async fn assess(&self, look: &Look<'_>) -> Result<Seen, Problem> {
        let (settings, watch) = (&look.project.settings.checks, look.watch);
        let found = compared(counted(settings, look.checks.of_commit(&watch.sha).await?), &watch.checks);
        self.set_late_status(look, &found).await?;
        let (now, settle) = (self.parts().engine.now(), settle(settings));
        let age = now.since(watch.since);
        let Assessment::Settled(result) = assess(&found, age, settle) else {
            return Ok(Seen { checks: Some(found), next: Some(self.next_look(watch)) });
        };
        let later = late_look(age).map(|delay| now + delay);
        if is_decided(look, result, &found) {
            return Ok(Seen { checks: Some(found), next: later });
        }
        let failed: Vec<&Check> = found.iter().filter(|check| check.state == CheckState::Failed).collect();
        let reaction = match (result, settings.mode) {
            (CheckResult::Failed, CheckMode::Fix) => self.reaction(look, &failed).await?,
            _ => Reaction::Report,
        };
        let wants_repair = matches!(reaction, Reaction::Fix(_));
        let failed = failed.into_iter().map(|check| check.name.clone()).collect();
        let report = CheckReport { sha: watch.sha.clone(), result, failed, reaction };
        // Who reads the result must see the checks that it comes from. If this process dies now, they are read again.
        if found != watch.checks {
            self.parts().store.end_look(watch, Some(found.clone()), Some(now + WATCH_LEASE)).await?;
        }
        let is_recorded = self.record_checks(look, report).await?;
        let next = if wants_repair && !is_recorded { Some(now + WHILE_ACTIVE) } else { later };
        Ok(Seen { checks: Some(found), next })
    }

    /// Sets the status of the service if the host could not store one at the last look, and can now: GitLab may make
    /// the pipeline of a commit long after the push.
    async fn set_late_status(&self, look: &Look<'_>, found: &[Check]) -> Result<(), Problem> {
        let lacks_status = |checks: &[Check]| {
            checks.iter().any(|check| check.name == OWN_STATUS && check.state == CheckState::Ignored)
        };
        if lacks_status(&look.watch.checks) && !lacks_status(found) {
            self.set_status_late(look.job.id, &look.watch.sha).await?;
        }
        Ok(())
    }

    /// Records the result. Returns false if the job was active, so that its failed checks are not repaired now.
    async fn record_checks(&self, look: &Look<'_>, report: CheckReport) -> Result<bool, Problem> {
        let limits = &look.project.settings.limits;
        let limit = limits.message_per_hour.unwrap_or(self.parts().message_per_hour);
        let sha = report.sha.clone();
        match self.parts().engine.record_checks(&look.job.project, look.job.id, report, limit).await {
            Ok(accepted) => {
                let checks = accepted.job.and_then(|job| job.checks);
                Ok(checks.is_some_and(|checks| checks.sha == sha && checks.result == CheckResult::Failed))
            }
            Err(UpdateError::NotFound) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Decides what happens about failed checks of the newest commit.
    async fn reaction(&self, look: &Look<'_>, failed: &[&Check]) -> Result<Reaction, Problem> {
        let current = look.forge.pull(look.pull.number).await?;
        if current.and_then(|pull| pull.head_sha).is_some_and(|head| head != look.watch.sha) {
            return Ok(Reaction::Stop(CheckStop::HeadMoved));
        }
        let (flaky, steady): (Vec<&Check>, Vec<&Check>) = failed.iter().partition(|check| check.is_flaky);
        if steady.is_empty() {
            return Ok(Reaction::Stop(CheckStop::Flaky));
        }
        let on_base = failed_on_base(look).await?;
        let (known, own): (Vec<&Check>, Vec<&Check>) = steady.iter().partition(|check| on_base.contains(&check.name));
        if own.is_empty() {
            return Ok(Reaction::Stop(CheckStop::FailsOnBase));
        }
        let own = with_logs(look.checks, &own).await?;
        let names = |checks: Vec<&Check>| checks.into_iter().map(|check| check.name.clone()).collect();
        let others = OtherChecks { on_base: names(known), flaky: names(flaky) };
        let signature = signature(&own);
        let settings = &look.project.settings;
        Ok(Reaction::Fix(Box::new(Attempt {
            message: self.parts().engine.new_message(self.repair_prompt(look, &own, &others)),
            signature,
            most_attempts: settings.checks.attempts.unwrap_or(DEFAULT_CHECK_ATTEMPTS),
            most_per_day: settings.limits.automatic_per_day.unwrap_or(DEFAULT_AUTOMATIC_PER_DAY),
        })))
    }

    fn repair_prompt(&self, look: &Look<'_>, failed: &[FailedCheck], others: &OtherChecks) -> Prompt {
        let number = look.pull.number;
        let logs = failed.iter().flat_map(|one| {
            let name = &one.check.name;
            let log = one.check.log.clone().filter(|_| one.log.is_some());
            let report = one.check.report.clone().filter(|_| one.report.is_some());
            let log = log.map(|log| SourceLog { name: name.clone(), log });
            log.into_iter().chain(report.map(|log| SourceLog { name: format!("{name} report"), log }))
        });
        let source = look.pull.repository.clone().map(|repository| {
            Box::new(MessageSource {
                origin: Origin::Check,
                newer: None,
                repository,
                number,
                id: look.watch.sha.to_string(),
                url: look.pull.url.clone(),
                author: None,
                comments: Vec::new(),
                inbox: Vec::new(),
                logs: logs.collect(),
                files: Vec::new(),
            })
        });
        Prompt {
            text: prompt(number, failed, others, &self.boundary()),
            origin: Origin::Check,
            author: None,
            key: None,
            delivery: DeliveryMode::Queue,
            traceparent: None,
            source,
        }
    }

    fn next_look(&self, watch: &CheckWatch) -> Timestamp {
        let now = self.parts().engine.now();
        now + next_look(now.since(watch.since))
    }
}

/// Returns whether the job knows the result, and the checks are as they were when it was recorded. Then no base and no
/// log is read again.
fn is_decided(look: &Look<'_>, result: CheckResult, found: &[Check]) -> bool {
    let known = look.job.checks.as_deref().filter(|known| known.sha == look.watch.sha && known.result == result);
    let is_repair = result == CheckResult::Failed && look.project.settings.checks.mode == CheckMode::Fix;
    found == look.watch.checks && known.is_some_and(|known| !is_repair || known.attempted || known.stop.is_some())
}

fn settle(settings: &CheckSettings) -> Duration {
    Duration::from_secs(settings.settle_seconds.unwrap_or(DEFAULT_CHECK_SETTLE_SECONDS).into())
}

/// Returns the names of the checks that fail on the commit that the branch started from.
async fn failed_on_base(look: &Look<'_>) -> Result<BTreeSet<String>, Problem> {
    let Some(branch) = &look.job.branch else { return Ok(BTreeSet::new()) };
    let found = match look.checks.of_commit(&branch.base).await {
        // The commit may be one that the host does not know.
        Err(ForgeError::NotFound(_) | ForgeError::Refused(_)) => Vec::new(),
        found => found?,
    };
    let failed = found.into_iter().filter(|check| check.state == CheckState::Failed);
    Ok(failed.map(|check| check.name).collect())
}

/// Reads the logs and the reports of the first failed checks. One that cannot be read is left out, because the failure may
/// be clear without it.
async fn with_logs(checks: &dyn Checks, failed: &[&Check]) -> Result<Vec<FailedCheck>, Problem> {
    let mut found = Vec::new();
    for (index, check) in failed.iter().enumerate() {
        let is_read = index < MOST_LOGS;
        let log = text_of(checks, check.log.as_deref().filter(|_| is_read)).await?;
        let report = text_of(checks, check.report.as_deref().filter(|_| is_read)).await?;
        found.push(FailedCheck { check: (*check).clone(), log, report });
    }
    Ok(found)
}

/// Reads the end of a log or a report; `None` if there is none, or if it cannot be read.
async fn text_of(checks: &dyn Checks, id: Option<&str>) -> Result<Option<String>, Problem> {
    let Some(id) = id else { return Ok(None) };
    match checks.log(id, LOG_BYTES).await {
        Ok(text) => Ok(text.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())),
        Err(error @ (ForgeError::RateLimited(_) | ForgeError::Unclear(_))) => Err(error.into()),
        Err(_) => Ok(None),
    }
}
