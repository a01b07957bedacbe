//! Tests of the properties that all stores have. Each test runs on both databases, and those of the work on jobs also run
//! on the store in memory.

use std::sync::Arc;
use std::time::Duration;

use journeyman_core::audit::AuditEntry;
use journeyman_core::code_host::{HostName, PullRepository, PullState};
use journeyman_core::diff_stat::{CommitDiff, DiffStat, MessageDiff, TurnDiff};
use journeyman_core::engine::{Admission, NewJob};
use journeyman_core::ids::{JobId, KeyId, ProjectId, Sha};
use journeyman_core::job::command::{NextAttempt, Outcome, Published, Report};
use journeyman_core::job::decide::Rejected;
use journeyman_core::job::event::{TranscriptEntry, TranscriptKind};
use journeyman_core::job::turn::{Ending, TurnArtifacts, TurnBegun};
use journeyman_core::job::{JobOptions, JobStatus};
use journeyman_core::key::{ApiKey, KeyHash, NewKey, NewSecret, Scope, parse_network};
use journeyman_core::message::MessageStatus;
use journeyman_core::model::Effort;
use journeyman_core::model::budget::{Budgets, OverBudget, Refusal, Scope as Purse, Used};
use journeyman_core::ports::{
    Cursor, GONE, JobCounts, JobFilter, NewReservation, PATIENCE, ReserveError, Retention, Sums, Swept, UpdateError,
    WorkStore,
};
use journeyman_core::project::RepositoryIdentity;
use journeyman_core::pull::existing::ExistingPull;
use journeyman_core::pull::{NewPull, Pull, PullEnding, PullText};
use journeyman_core::refusal::{RefusalKind, ResourceKind};
use journeyman_core::run::{Reason, ReasonCode, RunStatus, Usage};
use journeyman_core::secret::SecretValue;
use journeyman_core::time::{Clock, Timestamp};
use journeyman_core::worker::{WorkerReport, WorkerState};
use journeyman_testkit::{Refused as _, Seeds as _, within};
use uuid::Uuid;

use super::fixtures::{
    Fixture, all, all_for_work, all_for_work_in, free, keyed, new_job, project, prompt, shop, sqlite, worker,
};

const LEASE: Duration = Duration::from_secs(30);

fn sha(digit: char) -> Sha {
    String::from(digit).repeat(40).parse().unwrap()
}

/// Claims the next job, and reports a complete turn with one commit.
pub(crate) async fn complete_next_job(fixture: &Fixture<impl WorkStore + ?Sized>) {
    // A provider may report any token counts.
    let usage = Usage {
        input_tokens: 5,
        output_tokens: u64::MAX,
        cached_tokens: u64::MAX,
        cost_micros: Some(u64::MAX),
        estimated_micros: 7,
    };
    complete_next_job_with(fixture, usage).await;
}

/// Returns the size of the change that [`complete_next_job`] reports.
pub(crate) fn size() -> DiffStat {
    DiffStat { additions: 145, deletions: 18, files: 6 }
}

fn message_diff() -> MessageDiff {
    let commit = CommitDiff {
        sha: sha('b'),
        subject: "Fix “it” — \\ \"quoted\"".to_owned(),
        stat: size(),
        paths: vec!["src/a.rs".to_owned()],
    };
    MessageDiff { stat: size(), commits: vec![commit], ..MessageDiff::default() }
}

/// Carries out the next message, with this usage.
pub(crate) async fn complete_next_job_with(fixture: &Fixture<impl WorkStore + ?Sized>, usage: Usage) {
    publish_next_job(fixture, usage, Published::Nothing).await;
}

pub(crate) async fn publish_next_job(fixture: &Fixture<impl WorkStore + ?Sized>, usage: Usage, pull: Published) {
    let claimed = fixture.engine.claim(worker(1), LEASE).await.unwrap().expect("a job is due");
    let (job, token) = (claimed.job.id, claimed.lease.token);
    assert_eq!(fixture.store.message(claimed.message.id).await.unwrap().as_ref(), Some(&claimed.message), "up to date");
    let begun = TurnBegun {
        branch: "journeyman/x".into(),
        generation: 1,
        base: sha('a'),
        head: sha('a'),
        pushed: None,
        default_branch: None,
        repository: None,
    };
    fixture.engine.report(job, token, Report::TurnBegun(begun)).await.unwrap();
    let diff = Some(Box::new(TurnDiff { branch: size(), message: message_diff() }));
    let artifacts = TurnArtifacts { answer: Some("It is fixed.".to_owned()), diff, ..TurnArtifacts::default() };
    let ended = Report::TurnEnded { head: sha('b'), commits: vec![sha('b')], artifacts, ending: Ending::Done };
    fixture.engine.report(job, token, ended).await.unwrap();
    let outcome = Outcome::Published { pushed: Some(sha('b')), pull };
    fixture.engine.report(job, token, Report::Finished { outcome, usage }).await.unwrap();
}

#[tokio::test]
async fn a_completed_job_is_consistent_in_all_tables() {
    for fixture in all_for_work().await {
        let name = fixture.name;
        let accepted = fixture.engine.create_job(&project("shop"), new_job("Fix it"), free()).await.unwrap();
        assert_eq!(accepted.record.status, JobStatus::Active, "{name}");
        let id = accepted.record.id;
        complete_next_job(&fixture).await;
        let job = fixture.store.job(id).await.unwrap().unwrap();
        assert_eq!(job.status(), JobStatus::Completed, "{name}");
        let messages = fixture.store.messages(id).await.unwrap();
        assert_eq!(messages.len(), 1, "{name}");
        assert_eq!((messages[0].status, &messages[0].commits), (MessageStatus::Finished, &vec![sha('b')]), "{name}");
        assert_eq!(fixture.store.message(messages[0].id).await.unwrap().as_ref(), Some(&messages[0]), "{name}");
        let runs = fixture.store.runs(id).await.unwrap();
        assert_eq!(
            (runs[0].status, runs[0].usage.input_tokens, runs[0].usage.output_tokens, runs[0].attempt),
            (RunStatus::Succeeded, 5, u64::MAX, 1),
            "{name}"
        );
        assert_eq!((messages[0].diff.as_ref(), job.diff), (Some(&message_diff()), Some(size())), "{name}");
        assert_eq!(messages[0].run, Some(runs[0].id), "{name}");
        assert_eq!(messages[0].answer.as_deref(), Some("It is fixed."), "{name}");
        let log = fixture.store.log(id, 0, 100).await.unwrap();
        let kinds: Vec<&str> = log.iter().map(|entry| entry.kind.as_str()).collect();
        let expected = [
            "job.created",
            "message.accepted",
            "run.started",
            "commit.pushed",
            "run.finished",
            "message.finished",
            "job.completed",
        ];
        assert_eq!(kinds, expected, "{name}");
        assert_eq!(log.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7], "{name}");
        assert_eq!(fixture.store.log(id, 2, 2).await.unwrap(), log[2..4], "{name}: a page of the log");
    }
}

#[tokio::test]
async fn jobs_are_counted_by_whether_they_run() {
    for fixture in all().await {
        fixture.job().await;
        complete_next_job(&fixture).await;
        let counts = fixture.store.job_counts(fixture.world.now()).await.unwrap();
        assert_eq!(counts, JobCounts::default(), "{}: no job is active", fixture.name);
        let begun = fixture.world.now();
        for _ in 0..3 {
            fixture.engine.create_job(&project("shop"), new_job("x"), free()).await.unwrap();
            fixture.world.advance(Duration::from_secs(1));
        }
        fixture.engine.claim(worker(1), LEASE).await.unwrap().unwrap();
        let counts = fixture.store.job_counts(fixture.world.now()).await.unwrap();
        let second = Some(begun + Duration::from_secs(1));
        assert_eq!(counts, JobCounts { active: 3, running: 1, due: 2, oldest_due: second }, "{}", fixture.name);
        fixture.world.advance(LEASE);
        let counts = fixture.store.job_counts(fixture.world.now()).await.unwrap();
        assert_eq!((counts.running, counts.due), (0, 3), "{}: the lease has expired", fixture.name);
    }
}

#[tokio::test]
async fn a_refused_command_stores_nothing() {
    for fixture in all_for_work().await {
        let id = fixture.engine.create_job(&project("shop"), new_job("a"), free()).await.unwrap().record.id;
        fixture.engine.archive(&shop(), id).await.unwrap();
        let before = fixture.store.job(id).await.unwrap();
        let refused = fixture.engine.add_message(&shop(), id, prompt("b"), keyed("k", "b")).await;
        assert_eq!(refused, Err(UpdateError::Rejected(Rejected::Archived)), "{}", fixture.name);
        assert_eq!(fixture.store.job(id).await.unwrap(), before, "{}", fixture.name);
        assert_eq!(fixture.store.messages(id).await.unwrap().len(), 1, "{}", fixture.name);
        fixture.engine.unarchive(&shop(), id).await.unwrap();
        let taken = fixture.engine.add_message(&shop(), id, prompt("b"), keyed("k", "b")).await.unwrap();
        assert!(!taken.replayed, "{}: the key of the refused request was not stored", fixture.name);
    }
}

#[tokio::test]
async fn a_job_is_found_only_in_its_project() {
    for fixture in all_for_work().await {
        let id = fixture.engine.create_job(&project("shop"), new_job("a"), free()).await.unwrap().record.id;
        let other = "other".parse().unwrap();
        assert_eq!(fixture.engine.cancel(&other, id).await, Err(UpdateError::NotFound), "{}", fixture.name);
        assert_eq!(fixture.store.job(id).await.unwrap().unwrap().status(), JobStatus::Active, "{}", fixture.name);
    }
}

#[tokio::test]
async fn a_repeated_key_gets_the_first_answer_and_stores_nothing() {
    for fixture in all_for_work().await {
        let id = fixture.engine.create_job(&project("shop"), new_job("a"), free()).await.unwrap().record.id;
        let first = fixture.engine.add_message(&shop(), id, prompt("b"), keyed("k", "b")).await.unwrap();
        fixture.engine.archive(&shop(), id).await.unwrap();
        let again = fixture.engine.add_message(&shop(), id, prompt("b"), keyed("k", "b")).await.unwrap();
        assert!(again.replayed, "{}", fixture.name);
        assert_eq!(
            serde_json::to_string(&again.record).unwrap(),
            serde_json::to_string(&first.record).unwrap(),
            "{}: although the job has been archived since",
            fixture.name
        );
        assert_eq!(fixture.store.messages(id).await.unwrap().len(), 2, "{}", fixture.name);
        let reused = fixture.engine.add_message(&shop(), id, prompt("c"), keyed("k", "c")).await;
        assert!(matches!(reused, Err(UpdateError::KeyReused(_))), "{}", fixture.name);
    }
}

#[tokio::test]
async fn a_key_expires_after_a_day() {
    for fixture in all().await {
        let id = fixture.job().await;
        fixture.engine.add_message(&shop(), id, prompt("b"), keyed("k", "b")).await.unwrap();
        fixture.world.advance(Duration::from_secs(24 * 3600));
        fixture.store.sweep(fixture.world.now(), Retention::default(), 100).await.unwrap();
        let fresh = fixture.engine.add_message(&shop(), id, prompt("c"), keyed("k", "c")).await.unwrap();
        assert!(!fresh.replayed, "{}", fixture.name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_duplicates_store_one_message() {
    for fixture in all_for_work().await {
        let id = fixture.engine.create_job(&project("shop"), new_job("a"), free()).await.unwrap().record.id;
        let mut sent = tokio::task::JoinSet::new();
        for _ in 0..32 {
            let engine = fixture.engine.clone();
            sent.spawn(
                async move { engine.add_message(&shop(), id, prompt("b"), keyed("k", "b")).await.unwrap().replayed },
            );
        }
        let replayed = sent.join_all().await.into_iter().filter(|replayed| *replayed).count();
        assert_eq!(replayed, 31, "{}", fixture.name);
        assert_eq!(fixture.store.messages(id).await.unwrap().len(), 2, "{}", fixture.name);
    }
}

#[tokio::test]
async fn the_rate_limit_counts_accepted_requests_and_resets_after_an_hour() {
    for fixture in all_for_work().await {
        let limited = || Admission { idempotency: None, limit: 2 };
        let id = fixture.engine.create_job(&project("shop"), new_job("a"), limited()).await.unwrap().record.id;
        for left in [1, 0] {
            let accepted = fixture.engine.add_message(&shop(), id, prompt("b"), limited()).await.unwrap();
            assert_eq!(accepted.rate.map(|rate| rate.remaining), Some(left), "{}", fixture.name);
        }
        let refused = fixture.engine.add_message(&shop(), id, prompt("b"), limited()).await;
        assert!(matches!(refused, Err(UpdateError::RateLimited(..))), "{}", fixture.name);
        assert_eq!(fixture.store.messages(id).await.unwrap().len(), 3, "{}: nothing was stored", fixture.name);
        fixture.world.advance(Duration::from_secs(3600));
        fixture.engine.add_message(&shop(), id, prompt("b"), limited()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_job_is_claimed_by_one_worker() {
    for fixture in all_for_work().await {
        for number in 0..20 {
            fixture.engine.create_job(&project("shop"), new_job(&number.to_string()), free()).await.unwrap();
        }
        let mut claims = tokio::task::JoinSet::new();
        for number in 0..4 {
            let engine = fixture.engine.clone();
            claims.spawn(async move {
                let mut jobs = Vec::new();
                while let Some(claimed) = engine.claim(worker(number), LEASE).await.unwrap() {
                    jobs.push(claimed.job.id);
                }
                jobs
            });
        }
        let mut jobs = claims.join_all().await.concat();
        jobs.sort();
        jobs.dedup();
        assert_eq!(jobs.len(), 20, "{}", fixture.name);
    }
}

#[tokio::test]
async fn the_longest_waiting_job_is_claimed_first() {
    for fixture in all_for_work().await {
        let mut made = Vec::new();
        for title in ["a", "b"] {
            made.push(fixture.engine.create_job(&project("shop"), new_job(title), free()).await.unwrap().record.id);
            fixture.world.advance(Duration::from_secs(1));
        }
        complete_next_job(&fixture).await;
        fixture.engine.add_message(&shop(), made[0], prompt("more"), free()).await.unwrap();
        let next = fixture.engine.claim(worker(1), LEASE).await.unwrap().unwrap();
        assert_eq!(next.job.id, made[1], "{}: the follow-up of the older job came later", fixture.name);
        fixture.world.advance(Duration::from_secs(1));
        fixture.engine.create_job(&project("shop"), new_job("c"), free()).await.unwrap();
        let next = fixture.engine.claim(worker(1), LEASE).await.unwrap().unwrap();
        assert_eq!(next.job.id, made[0], "{}", fixture.name);
    }
}

#[tokio::test]
async fn a_project_with_many_jobs_does_not_delay_others() {
    for fixture in all_for_work_in(&[project("quiet")]).await {
        for _ in 0..5 {
            fixture.engine.create_job(&project("shop"), new_job("a"), free()).await.unwrap();
        }
        fixture.world.advance(Duration::from_secs(1));
        for _ in 0..2 {
            fixture.engine.create_job(&project("quiet"), new_job("a"), free()).await.unwrap();
        }
        let mut order = Vec::new();
        while let Some(claimed) = fixture.engine.claim(worker(1), LEASE).await.unwrap() {
            order.push(claimed.job.project.to_string());
        }
        let expected = ["shop", "quiet", "shop", "quiet", "shop", "shop", "shop"];
        assert_eq!(order, expected, "{}", fixture.name);
    }
}

#[tokio::test]
async fn a_project_has_no_more_runs_than_its_limit() {
    let mut limited = project("shop");
    limited.settings.limits.concurrent_runs = Some(1);
    for fixture in all_for_work_in(&[limited]).await {
        let name = fixture.name;
        for _ in 0..2 {
            fixture.engine.create_job(&project("shop"), new_job("a"), free()).await.unwrap();
        }
        let first = fixture.engine.claim(worker(1), LEASE).await.unwrap().unwrap();
        assert_eq!(fixture.engine.claim(worker(2), LEASE).await.unwrap(), None, "{name}: one run is live");
        fixture.world.advance(LEASE);
        let again = fixture.engine.claim(worker(2), LEASE).await.unwrap().unwrap();
        assert_ne!(again.job.id, first.job.id, "{name}: the waiting job comes before the lost one");
        fixture.engine.cancel(&shop(), again.job.id).await.unwrap();
        let lost = fixture.engine.claim(worker(2), LEASE).await.unwrap().unwrap();
        assert_eq!(lost.job.id, first.job.id, "{name}");
    }
}

#[tokio::test]
async fn a_follow_up_waits_briefly_for_the_worker_that_has_the_workspace() {
    for fixture in all_for_work().await {
        let name = fixture.name;
        let id = fixture.engine.create_job(&project("shop"), new_job("a"), free()).await.unwrap().record.id;
        complete_next_job(&fixture).await;
        fixture.engine.add_message(&shop(), id, prompt("b"), free()).await.unwrap();
        assert_eq!(fixture.engine.claim(worker(2), LEASE).await.unwrap(), None, "{name}: worker 1 has the workspace");
        complete_next_job(&fixture).await;
        fixture.engine.add_message(&shop(), id, prompt("c"), free()).await.unwrap();
        fixture.world.advance(PATIENCE);
        let taken = fixture.engine.claim(worker(2), LEASE).await.unwrap().unwrap();
        assert_eq!((taken.job.id, taken.job.preferred_worker), (id, Some(worker(2))), "{name}: worker 1 did not come");
    }
}

#[tokio::test]
async fn a_job_with_unrecorded_work_waits_for_its_worker_as_long_as_that_reports_itself() {
    for fixture in all_for_work().await {
        let name = fixture.name;
        let id = fixture.engine.create_job(&project("shop"), new_job("a"), free()).await.unwrap().record.id;
        let claimed = fixture.engine.claim(worker(1), LEASE).await.unwrap().unwrap();
        let begun = TurnBegun {
            branch: "b".into(),
            generation: 1,
            base: sha('a'),
            head: sha('a'),
            pushed: None,
            default_branch: None,
            repository: None,
        };
        let reason = Reason::new(ReasonCode::StorageUnavailable, "away");
        let (since, patience) = (fixture.world.now(), Duration::from_secs(24 * 3600));
        let outcome = Outcome::Waiting { reason, since, patience, next: NextAttempt::Backoff(0) };
        let reports = [
            Report::TurnBegun(begun),
            Report::Answered { answer: None, usage: Usage::default() },
            Report::Finished { outcome, usage: Usage::default() },
        ];
        for report in reports {
            fixture.engine.report(id, claimed.lease.token, report).await.unwrap();
        }
        let alive = async || {
            let report = WorkerReport { id: worker(1), seen_at: fixture.world.now(), state: WorkerState::default() };
            fixture.store.report_worker(report, Duration::from_secs(24 * 3600)).await.unwrap();
        };
        alive().await;
        // Much longer than a job waits for a worker that only has the workspace.
        fixture.world.advance(GONE - Duration::from_secs(1));
        assert_eq!(fixture.engine.claim(worker(2), LEASE).await.unwrap(), None, "{name}: worker 1 reports itself");
        let own = fixture.engine.claim(worker(1), LEASE).await.unwrap().unwrap();
        assert_eq!(own.job.id, id, "{name}");
        // The worker is lost during this run.
        alive().await;
        fixture.world.advance(LEASE + PATIENCE);
        assert_eq!(fixture.engine.claim(worker(2), LEASE).await.unwrap(), None, "{name}: it may start again");
        fixture.world.advance(GONE);
        let taken = fixture.engine.claim(worker(2), LEASE).await.unwrap().unwrap();
        assert_eq!(taken.job.id, id, "{name}: worker 1 is gone");
        assert!(taken.job.has_unrecorded_work(), "{name}: worker 2 tells that the work is lost");
    }
}

#[tokio::test]
async fn no_job_waits_longer_because_the_clock_was_set_back() {
    const HOUR: Duration = Duration::from_secs(3600);
    for fixture in all_for_work().await {
        let name = fixture.name;
        // One job waits for its preferred worker, one waits for its next attempt, one is new, and one is running.
        let preferred = fixture.engine.create_job(&project("shop"), new_job("a"), free()).await.unwrap().record.id;
        complete_next_job(&fixture).await;
        fixture.engine.add_message(&shop(), preferred, prompt("b"), free()).await.unwrap();
        let retried = fixture.engine.create_job(&project("shop"), new_job("c"), free()).await.unwrap().record.id;
        let claimed = fixture.engine.claim(worker(2), LEASE).await.unwrap().unwrap();
        assert_eq!(claimed.job.id, retried, "{name}");
        let failed = Outcome::Failed { reason: Reason::new(ReasonCode::AgentFailed, "x"), retry: Some(999) };
        let failed = Report::Finished { outcome: failed, usage: Usage::default() };
        fixture.engine.report(retried, claimed.lease.token, failed).await.unwrap();
        assert_eq!(fixture.engine.claim(worker(2), LEASE).await.unwrap(), None, "{name}: neither is due for worker 2");
        let running = fixture.engine.create_job(&project("shop"), new_job("d"), free()).await.unwrap().record.id;
        assert_eq!(fixture.engine.claim(worker(3), LEASE).await.unwrap().unwrap().job.id, running, "{name}");
        let new = fixture.engine.create_job(&project("shop"), new_job("e"), free()).await.unwrap().record.id;

        fixture.world.set_back(HOUR);
        let mut taken = Vec::new();
        while let Some(claimed) = fixture.engine.claim(worker(2), LEASE).await.unwrap() {
            taken.push(claimed.job.id);
        }
        taken.sort();
        // The running job is taken too: no lease can be as long as its lease now appears to be, and its worker may be
        // dead.
        let mut expected = [preferred, retried, running, new];
        expected.sort();
        assert_eq!(taken, expected, "{name}");
    }
}

#[tokio::test]
async fn small_clock_differences_do_not_affect_claims() {
    for fixture in all_for_work().await {
        let name = fixture.name;
        let id = fixture.engine.create_job(&project("shop"), new_job("a"), free()).await.unwrap().record.id;
        complete_next_job(&fixture).await;
        fixture.engine.add_message(&shop(), id, prompt("b"), free()).await.unwrap();
        fixture.world.set_back(Duration::from_millis(300));
        assert_eq!(fixture.engine.claim(worker(2), LEASE).await.unwrap(), None, "{name}: it waits for worker 1");
        let claimed = fixture.engine.claim(worker(1), LEASE).await.unwrap().expect("worker 1 need not wait");
        let failed = Outcome::Failed { reason: Reason::new(ReasonCode::AgentFailed, "x"), retry: Some(999) };
        let failed = Report::Finished { outcome: failed, usage: Usage::default() };
        fixture.engine.report(id, claimed.lease.token, failed).await.unwrap();
        assert_eq!(fixture.engine.claim(worker(1), LEASE).await.unwrap(), None, "{name}: the next attempt is not due");
    }
}

/// Returns a model call with 2 output tokens, one of whose input tokens came from a cache.
pub(crate) fn model_call(input: u64, cost: Option<u64>) -> TranscriptEntry {
    TranscriptEntry {
        kind: TranscriptKind::ModelCalled,
        data: serde_json::json!({ "inputTokens": input, "cachedTokens": 1, "outputTokens": 2, "costMicros": cost }),
        at: Timestamp::default(),
    }
}

#[tokio::test]
async fn calls_that_end_after_their_run_are_added_to_its_usage() {
    let call = model_call;
    for fixture in all_for_work().await {
        let name = fixture.name;
        let id = fixture.engine.create_job(&project("shop"), new_job("a"), free()).await.unwrap().record.id;
        let run = fixture.engine.claim(worker(1), LEASE).await.unwrap().unwrap().lease.run;
        fixture.engine.cancel(&shop(), id).await.unwrap();
        let usage = async || fixture.store.runs(id).await.unwrap()[0].usage;
        let sum = |calls: u64, input_tokens: u64, cost_micros: Option<u64>| Usage {
            input_tokens,
            cached_tokens: calls,
            output_tokens: 2 * calls,
            cost_micros,
            estimated_micros: 0,
        };
        let late = async |calls: Vec<TranscriptEntry>| fixture.engine.record_late_calls(id, run, calls).await.unwrap();
        late(vec![call(10, Some(5)), call(20, Some(7))]).await;
        assert_eq!(usage().await, sum(2, 30, Some(12)), "{name}");
        late(vec![call(1, Some(1))]).await;
        assert_eq!(usage().await, sum(3, 31, Some(13)), "{name}");
        late(vec![call(1, None)]).await;
        assert_eq!(usage().await, sum(4, 32, None), "{name}: the cost of one call is unknown");
        late(vec![call(u64::MAX, Some(1))]).await;
        assert_eq!(usage().await, sum(5, u64::MAX, None), "{name}: a sum saturates at the largest number");
        let page = fixture.store.log(id, 0, 100).await.unwrap();
        assert_eq!(page.iter().filter(|line| line.run_id == Some(run) && line.kind == "agent.model_call").count(), 5);
    }
}

#[tokio::test]
async fn a_job_on_an_existing_pull_request_is_in_the_index_and_takes_its_branch() {
    for fixture in all().await {
        let name = fixture.name;
        let repository = PullRepository { host: HostName("git.example".to_owned()), id: "7".to_owned() };
        let known = Pull::new(12, "https://git.example/a/b/pull/12");
        let pull = Pull { repository: Some(repository.clone()), is_untouched: true, ..known };
        let sha: Sha = "c".repeat(40).parse().unwrap();
        let (head, head_sha, base) = ("feature".to_owned(), Some(sha.clone()), "main".to_owned());
        let existing = ExistingPull { pull, head, head_sha, base };
        let new = || {
            let options = JobOptions { pull: Some(Box::new(existing.clone())), ..JobOptions::default() };
            NewJob { options, ..new_job("a") }
        };
        let engine = &fixture.engine;
        let created = engine.create_job(&project("shop"), new(), free()).await.unwrap().job.unwrap();
        assert_eq!((created.source.reference.as_str(), created.branch_name().as_str()), ("feature", "feature"));
        assert_eq!(fixture.store.job(created.id).await.unwrap().unwrap(), created, "{name}");
        let indexed = fixture.store.indexed_pull(repository.clone(), 12).await.unwrap().unwrap();
        assert_eq!(
            (indexed.job, indexed.head.as_str(), indexed.head_sha),
            (created.id, "feature", Some(sha)),
            "{name}"
        );
        let again = engine.create_job(&project("shop"), new(), free()).await.map(|done| done.record.id);
        assert_eq!(again, Err(UpdateError::BranchTaken("feature".to_owned(), created.id)), "{name}");
        engine.archive(&shop(), created.id).await.unwrap();
        let second = engine.create_job(&project("shop"), new(), free()).await.unwrap().record.id;
        assert_eq!(fixture.store.indexed_pull(repository, 12).await.unwrap().unwrap().job, second, "{name}");
    }
}

#[tokio::test]
async fn the_effort_of_a_job_is_kept_in_every_state() {
    for fixture in all().await {
        let name = fixture.name;
        for effort in Effort::ALL.map(Some).into_iter().chain([None]) {
            let new = NewJob { effort, ..new_job("a") };
            let created = fixture.engine.create_job(&project("shop"), new, free()).await.unwrap().job.unwrap();
            assert_eq!(created.effort, effort, "{name}");
            let id = created.id;
            assert_eq!(fixture.store.job(id).await.unwrap(), Some(created), "{name}");
            complete_next_job(&fixture).await;
            let job = fixture.store.job(id).await.unwrap().unwrap();
            assert_eq!((job.status(), job.effort), (JobStatus::Completed, effort), "{name}");
            fixture.engine.archive(&shop(), id).await.unwrap();
            assert_eq!(fixture.store.job(id).await.unwrap().unwrap().effort, effort, "{name}");
            assert_eq!(fixture.store.job_overview(id).await.unwrap().unwrap().job.effort, effort, "{name}");
        }
    }
}

#[tokio::test]
async fn a_branch_is_taken_until_its_job_is_archived() {
    for fixture in all_for_work_in(&[project("blog")]).await {
        let name = fixture.name;
        let on = |branch: &str| {
            let options = JobOptions { branch: Some(branch.to_owned()), ..JobOptions::default() };
            NewJob { options, ..new_job("a") }
        };
        let engine = &fixture.engine;
        let first = engine.create_job(&project("shop"), on("fix"), free()).await.unwrap().record.id;
        let taken = |holder: JobId| Err(UpdateError::BranchTaken("fix".to_owned(), holder));
        let create = async |branch: &str| {
            engine.create_job(&project("shop"), on(branch), free()).await.map(|done| done.record.id)
        };
        assert_eq!(create("fix").await, taken(first), "{name}");
        // A generated branch name is taken in the same way as a chosen one.
        let plain = engine.create_job(&project("shop"), new_job("b"), free()).await.unwrap();
        let generated = plain.job.unwrap().branch_name();
        assert!(matches!(create(&generated).await, Err(UpdateError::BranchTaken(..))), "{name}");
        assert!(create("other").await.is_ok(), "{name}");
        assert!(engine.create_job(&project("blog"), on("fix"), free()).await.is_ok(), "{name}: in another project");

        engine.archive(&shop(), first).await.unwrap();
        let second = create("fix").await.unwrap();
        let again = engine.unarchive(&shop(), first).await.map(|done| done.record.id);
        assert_eq!(again, taken(second), "{name}");
        engine.archive(&shop(), second).await.unwrap();
        engine.unarchive(&shop(), first).await.unwrap();

        // While a job is archived, another may take its generated branch.
        let plain = plain.record.id;
        engine.archive(&shop(), plain).await.unwrap();
        let third = create(&generated).await.unwrap();
        let again = engine.unarchive(&shop(), plain).await.map(|done| done.record.id);
        assert_eq!(again, Err(UpdateError::BranchTaken(generated, third)), "{name}");
        engine.unarchive(&shop(), first).await.unwrap();

        // Of several concurrent requests, one succeeds.
        let mut asked = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let (engine, new) = (engine.clone(), on("new"));
            asked.spawn(async move { engine.create_job(&project("shop"), new, free()).await.is_ok() });
        }
        let made = asked.join_all().await.into_iter().filter(|made| *made).count();
        assert_eq!(made, 1, "{name}");
    }
}

#[tokio::test]
async fn idempotency_keys_belong_to_their_callers() {
    for fixture in all_for_work().await {
        let name = fixture.name;
        let of = |caller: &str| {
            let mut admission = keyed("k", "body");
            if let Some(claim) = &mut admission.idempotency {
                claim.caller = caller.to_owned();
            }
            admission
        };
        let create = async |caller: &str| {
            let done = fixture.engine.create_job(&project("shop"), new_job("a"), of(caller)).await.unwrap();
            (done.record.id, done.replayed)
        };
        let (first, _) = create("one").await;
        let (second, replayed) = create("two").await;
        assert!(first != second && !replayed, "{name}");
        assert_eq!(create("one").await, (first, true), "{name}");
    }
}

#[tokio::test]
async fn a_request_accepted_by_the_previous_version_is_replayed() {
    let fixture = sqlite().await;
    let first = fixture.engine.create_job(&project("shop"), new_job("a"), keyed("k", "body")).await.unwrap().record.id;
    let path = fixture.dir.as_ref().unwrap().path().join("journeyman.db");
    let database = rusqlite::Connection::open(path).unwrap();
    let as_before = "UPDATE idempotency_keys SET key = substr(key, instr(key, char(10)) + 1)";
    assert_eq!(database.execute(as_before, []).unwrap(), 1);
    let again = fixture.engine.create_job(&project("shop"), new_job("a"), keyed("k", "body")).await.unwrap();
    assert_eq!((again.record.id, again.replayed), (first, true));
    let other = fixture.engine.create_job(&project("shop"), new_job("b"), keyed("k", "other")).await.unwrap();
    assert!(!other.replayed, "the key may belong to another caller");
}

#[tokio::test]
async fn message_times_never_decrease_within_a_job() {
    for fixture in all_for_work().await {
        let id = fixture.engine.create_job(&project("shop"), new_job("a"), free()).await.unwrap().record.id;
        fixture.world.set_back(Duration::from_secs(2));
        fixture.engine.add_message(&shop(), id, prompt("b"), free()).await.unwrap();
        fixture.world.advance(Duration::from_secs(3));
        fixture.engine.add_message(&shop(), id, prompt("c"), free()).await.unwrap();
        let messages = fixture.store.messages(id).await.unwrap();
        let times: Vec<_> = messages.iter().map(|message| message.created_at).collect();
        assert_eq!(times[1], times[0], "{}", fixture.name);
        assert_eq!(times[2].since(times[0]), Duration::from_secs(1), "{}", fixture.name);
    }
}

#[tokio::test]
async fn an_expired_lease_is_taken_over_and_its_token_is_rejected() {
    for fixture in all_for_work().await {
        let id = fixture.engine.create_job(&project("shop"), new_job("a"), free()).await.unwrap().record.id;
        let first = fixture.engine.claim(worker(1), LEASE).await.unwrap().unwrap();
        assert_eq!(fixture.engine.claim(worker(2), LEASE).await.unwrap(), None, "{}: the lease is valid", fixture.name);
        fixture.world.advance(LEASE);
        let second = fixture.engine.claim(worker(2), LEASE).await.unwrap().unwrap();
        assert!(second.lease.token > first.lease.token, "{}", fixture.name);
        let entry = TranscriptEntry {
            kind: TranscriptKind::Message,
            data: serde_json::json!({"text": "late"}),
            at: fixture.world.now(),
        };
        let late = fixture.engine.report(id, first.lease.token, Report::Transcript(vec![entry])).await;
        assert_eq!(late, Err(UpdateError::Rejected(Rejected::StaleToken)), "{}", fixture.name);
        let attempts: Vec<u32> = fixture.store.runs(id).await.unwrap().iter().map(|run| run.attempt).collect();
        assert_eq!(attempts, [1, 2], "{}", fixture.name);
    }
}

#[tokio::test]
async fn only_inactive_jobs_are_removed_after_their_retention() {
    for fixture in all().await {
        let name = fixture.name;
        let create =
            async || fixture.engine.create_job(&project("shop"), new_job("a"), free()).await.unwrap().record.id;
        let (old, busy) = (create().await, create().await);
        for _ in 0..2 {
            let claimed = fixture.engine.claim(worker(1), LEASE).await.unwrap().unwrap();
            let at = fixture.world.now();
            let entry = TranscriptEntry { kind: TranscriptKind::Message, data: serde_json::json!({"text": "x"}), at };
            fixture.engine.report(claimed.job.id, claimed.lease.token, Report::Transcript(vec![entry])).await.unwrap();
        }
        fixture.engine.cancel(&shop(), old).await.unwrap();
        fixture.world.advance(Duration::from_secs(100));
        let young = create().await;
        fixture.engine.cancel(&shop(), young).await.unwrap();
        let line = AuditEntry {
            at: Timestamp::from_micros(1),
            actor: "a".into(),
            action: "b".into(),
            subject: "c".into(),
            address: None,
        };
        fixture.store.note(line).await.unwrap();
        let minute = Some(Duration::from_secs(60));
        let sweep = |retention| fixture.store.sweep(fixture.world.now(), retention, 10);
        assert_eq!(sweep(Retention::default()).await.unwrap(), Swept::default(), "{name}: everything is kept");
        let has_transcript = async |id| {
            let log = fixture.store.log(id, 0, 100).await.unwrap();
            log.iter().any(|line| line.kind == "agent.message")
        };
        assert!(has_transcript(old).await && has_transcript(busy).await, "{name}");
        let transcripts = Retention { transcripts: minute, ..Retention::default() };
        assert_eq!(sweep(transcripts).await.unwrap(), Swept { transcripts: 1, ..Swept::default() }, "{name}");
        assert_eq!(sweep(transcripts).await.unwrap(), Swept::default(), "{name}: only once");
        assert!(!has_transcript(old).await && has_transcript(busy).await, "{name}");
        let kinds: Vec<String> =
            fixture.store.log(old, 0, 100).await.unwrap().into_iter().map(|line| line.kind).collect();
        let expected =
            ["job.created", "message.accepted", "run.started", "run.finished", "message.finished", "job.failed"];
        assert_eq!(kinds, expected, "{name}: the other entries stay");
        fixture.engine.add_message(&shop(), old, prompt("more"), free()).await.unwrap();
        fixture.engine.cancel(&shop(), old).await.unwrap();
        fixture.store.settle(&sums(old, 7), None, 5).await.unwrap();
        let jobs = Retention { jobs: minute, ..Retention::default() };
        assert_eq!(sweep(jobs).await.unwrap(), Swept::default(), "{name}: the job has just become inactive");
        fixture.world.advance(Duration::from_secs(60));
        assert_eq!(sweep(jobs).await.unwrap(), Swept { jobs: 2, ..Swept::default() }, "{name}");
        for removed in [old, young] {
            assert_eq!(fixture.store.job(removed).await.unwrap(), None, "{name}");
            let used = fixture.store.used(&sums(removed, 7)).await.unwrap();
            assert_eq!(used, [0, 5, 5].map(spent), "{name}");
            assert!(fixture.store.messages(removed).await.unwrap().is_empty(), "{name}");
            assert!(fixture.store.runs(removed).await.unwrap().is_empty(), "{name}");
            assert!(fixture.store.log(removed, 0, 100).await.unwrap().is_empty(), "{name}");
        }
        assert!(fixture.store.job(busy).await.unwrap().is_some(), "{name}");
    }
}

#[tokio::test]
async fn lists_are_stable_while_jobs_are_added() {
    for fixture in all().await {
        let mut made = Vec::new();
        for number in 0..5 {
            let title = format!("Task {number} of 100%_done");
            made.push(fixture.engine.create_job(&project("shop"), new_job(&title), free()).await.unwrap().record.id);
            if number == 2 {
                fixture.world.advance(Duration::from_secs(1));
            }
        }
        made.reverse();
        let filter = |after, limit| JobFilter { after, ..JobFilter::newest(shop(), limit) };
        let page = fixture.store.jobs(filter(None, 2)).await.unwrap();
        fixture.engine.create_job(&project("shop"), new_job("new"), free()).await.unwrap();
        let last = page.last().unwrap();
        let cursor = Cursor { created_at: last.created_at, id: last.id };
        let rest = fixture.store.jobs(filter(Some(cursor), 10)).await.unwrap();
        let seen: Vec<_> = page.iter().chain(&rest).map(|job| job.id).collect();
        assert_eq!(seen, made, "{}", fixture.name);
        let search = |text: &str| JobFilter { title_contains: Some(text.to_owned()), ..filter(None, 10) };
        assert_eq!(fixture.store.jobs(search("task 3")).await.unwrap().len(), 1, "{}: case", fixture.name);
        assert_eq!(fixture.store.jobs(search("0%_D")).await.unwrap().len(), 5, "{}: no wildcards", fixture.name);
        assert_eq!(fixture.store.jobs(search("k_3")).await.unwrap().len(), 0, "{}: no wildcards", fixture.name);
        let status = JobFilter { status: Some(JobStatus::Failed), ..filter(None, 10) };
        assert_eq!(fixture.store.jobs(status).await.unwrap().len(), 0, "{}", fixture.name);
    }
}

#[tokio::test]
async fn all_filters_give_lists_with_the_same_order_and_bounds() {
    for fixture in all().await {
        let name = fixture.name;
        fixture.store.create_project(project("other"), [].into()).await.unwrap();
        fixture.engine.create_job(&project("other"), new_job("Fix page 1"), free()).await.unwrap();
        let mut made = Vec::new();
        for number in 0..6 {
            let title = if number % 2 == 0 { format!("Fix page {number}") } else { format!("Write {number}") };
            made.push(fixture.engine.create_job(&project("shop"), new_job(&title), free()).await.unwrap().record);
            fixture.world.advance(Duration::from_secs(1));
        }
        // Jobs 0 and 1 failed, 2 and 3 are archived, 4 and 5 are active.
        for record in &made[..4] {
            fixture.engine.cancel(&shop(), record.id).await.unwrap();
        }
        for record in &made[2..4] {
            fixture.engine.archive(&shop(), record.id).await.unwrap();
        }
        let all = JobFilter::newest(shop(), 9);
        let text = |text: &str| Some(text.to_owned());
        let at = |number: usize| Some(made[number].created_at);
        let behind = |number: usize| Some(Cursor { created_at: made[number].created_at, id: made[number].id });
        let cases: [(JobFilter, &[usize]); 12] = [
            (all.clone(), &[5, 4, 3, 2, 1, 0]),
            (JobFilter { status: Some(JobStatus::Failed), ..all.clone() }, &[1, 0]),
            (JobFilter { status: Some(JobStatus::Archived), ..all.clone() }, &[3, 2]),
            (JobFilter { title_contains: text("FIX"), ..all.clone() }, &[4, 2, 0]),
            (JobFilter { title_contains: text("zebra"), ..all.clone() }, &[]),
            (JobFilter { title_contains: text("fix"), status: Some(JobStatus::Archived), ..all.clone() }, &[2]),
            (JobFilter { title_contains: text("fix"), status: Some(JobStatus::Active), ..all.clone() }, &[4]),
            (JobFilter { title_contains: text("fix"), status: Some(JobStatus::Completed), ..all.clone() }, &[]),
            (JobFilter { title_contains: text("fix"), limit: 2, ..all.clone() }, &[4, 2]),
            (JobFilter { title_contains: text("fix"), after: behind(2), ..all.clone() }, &[0]),
            (JobFilter { created_before: at(4), after: behind(5), created_after: at(1), ..all.clone() }, &[3, 2]),
            (JobFilter { created_before: at(4), after: behind(2), ..all.clone() }, &[1, 0]),
        ];
        for (filter, expected) in cases {
            let found = fixture.store.jobs(filter.clone()).await.unwrap();
            let expected: Vec<JobId> = expected.iter().map(|number| made[*number].id).collect();
            assert_eq!(found.iter().map(|job| job.id).collect::<Vec<_>>(), expected, "{name}: {filter:?}");
        }
    }
}

#[tokio::test]
async fn waiters_wake_up_for_work_and_for_log_entries() {
    for fixture in all_for_work().await {
        let seen = fixture.store.work_version();
        let id = fixture.engine.create_job(&project("shop"), new_job("a"), free()).await.unwrap().record.id;
        within("work", fixture.store.work_changed(seen)).await;
        within("an entry that exists already", fixture.store.watch(id).changed(1)).await;
        let store = Arc::clone(&fixture.store);
        let waiting = tokio::spawn(async move { store.watch(id).changed(2).await });
        tokio::task::yield_now().await;
        fixture.engine.cancel(&shop(), id).await.unwrap();
        within("a new entry", waiting).await.unwrap();
        let quiet = tokio::time::timeout(Duration::from_millis(20), fixture.store.watch(id).changed(99)).await;
        assert!(quiet.is_err(), "{}: no new entry", fixture.name);
    }
}

#[tokio::test]
async fn a_watch_misses_nothing_between_two_reads() {
    for fixture in all_for_work().await {
        let id = fixture.engine.create_job(&project("shop"), new_job("a"), free()).await.unwrap().record.id;
        let mut watch = fixture.store.watch(id);
        let mut seen = fixture.store.job(id).await.unwrap().unwrap().last_seq;
        for number in 0..3 {
            fixture.engine.add_message(&shop(), id, prompt(&number.to_string()), free()).await.unwrap();
            within("a new entry", watch.changed(seen)).await;
            seen = fixture.store.job(id).await.unwrap().unwrap().last_seq;
        }
        let quiet = tokio::time::timeout(Duration::from_millis(50), watch.changed(seen)).await;
        assert!(quiet.is_err(), "{}: no new entry", fixture.name);
    }
}

#[tokio::test]
async fn taking_over_a_run_returns_its_message() {
    for fixture in all_for_work().await {
        let id = fixture.engine.create_job(&project("shop"), new_job("a"), free()).await.unwrap().record.id;
        let lost = fixture.engine.claim(worker(1), LEASE).await.unwrap().unwrap();
        fixture.world.advance(LEASE + Duration::from_secs(1));
        let mut next = None;
        // The first claim may only end the lost run; the next attempt is due a little later.
        for _ in 0..5 {
            next = fixture.engine.claim(worker(2), LEASE).await.unwrap();
            if next.is_some() {
                break;
            }
            fixture.world.advance(Duration::from_secs(5));
        }
        let next = next.expect("the run is taken over");
        assert_eq!((next.job.id, next.message.id), (id, lost.message.id), "{}", fixture.name);
        assert_eq!(fixture.store.message(lost.message.id).await.unwrap(), Some(next.message), "{}", fixture.name);
    }
}

#[tokio::test]
async fn the_repository_of_a_project_is_recorded_once_until_its_address_is_set() {
    for fixture in all().await {
        let (name, id) = (fixture.name, || "library".parse::<ProjectId>().unwrap());
        let made = fixture.store.create_project(project("library"), [].into()).await.unwrap();
        let seen = |address: &str, id: &str| RepositoryIdentity { address: address.to_owned(), id: id.to_owned() };
        for (address, number) in [("elsewhere", "1"), (made.repository.as_str(), "2"), (made.repository.as_str(), "3")]
        {
            fixture.store.identify_repository(id(), seen(address, number)).await.unwrap();
        }
        let known = fixture.store.project(id()).await.unwrap().unwrap();
        assert_eq!((known.repository_id(), known.version), (Some("2"), made.version), "{name}");
        let mut edited = known;
        edited.settings.setup = Some("npm ci".to_owned());
        let mut edited = fixture.store.update_project(edited, [].into()).await.unwrap();
        assert_eq!(edited.repository_id(), Some("2"), "{name}");
        edited.set_repository("https://host.example/acme/store");
        let moved = fixture.store.update_project(edited, [].into()).await.unwrap();
        assert_eq!(moved.repository_id(), None, "{name}");
        fixture.store.identify_repository(id(), seen(&moved.repository, "4")).await.unwrap();
        assert_eq!(fixture.store.projects().await.unwrap()[0].repository_id(), Some("4"), "{name}");
    }
}

#[tokio::test]
async fn projects_and_secrets_are_created_changed_and_deleted() {
    for fixture in all().await {
        let name = fixture.name;
        let library = || "library".parse().unwrap();
        let secret = |text: &str| Some(SecretValue(text.to_owned()));
        let two = [("A".to_owned(), secret("1")), ("B".to_owned(), secret("2"))].into();
        let made = fixture.store.create_project(project("library"), two).await.unwrap();
        assert_eq!(made.secret_names, ["A", "B"], "{name}");
        let again = fixture.store.create_project(project("library"), [].into()).await;
        assert_eq!(again.refused(), Err((RefusalKind::Exists, ResourceKind::Project)), "{name}");
        let changed = [("A".to_owned(), None), ("B".to_owned(), secret("3"))].into();
        let mut edited = made.clone();
        edited.settings.setup = Some("npm ci".to_owned());
        let made = fixture.store.update_project(edited, changed).await.unwrap();
        assert_eq!(fixture.store.project(library()).await.unwrap(), Some(made.clone()), "{name}");
        let all = fixture.store.projects().await.unwrap();
        assert_eq!(all.iter().map(|project| project.id.as_str()).collect::<Vec<_>>(), ["library", "shop"], "{name}");
        assert_eq!(all[0], made, "{name}");
        let secrets = fixture.store.secrets(library()).await.unwrap();
        assert_eq!(secrets.into_iter().collect::<Vec<_>>(), [("B".to_owned(), SecretValue("3".to_owned()))], "{name}");
        let id = fixture.engine.create_job(&project("library"), new_job("a"), free()).await.unwrap().record.id;
        assert_eq!(
            fixture.store.delete_project(library()).await.refused(),
            Err((RefusalKind::Busy, ResourceKind::Project)),
            "{name}"
        );
        fixture.engine.cancel(&library(), id).await.unwrap();
        fixture.store.delete_project(library()).await.unwrap();
        assert_eq!(fixture.store.job(id).await.unwrap(), None, "{name}");
        assert_eq!(fixture.store.messages(id).await.unwrap(), [], "{name}");
        assert!(fixture.store.secrets(library()).await.unwrap().is_empty(), "{name}");
        assert_eq!(fixture.store.delete_project(library()).await, Ok(()), "{name}: a repetition has the same answer");
        let unknown = fixture.store.delete_project("unknown".parse().unwrap()).await;
        assert_eq!(unknown.refused(), Err((RefusalKind::NotFound, ResourceKind::Project)), "{name}");
        let late = fixture.engine.create_job(&project("library"), new_job("a"), free()).await;
        assert_eq!(late, Err(UpdateError::NoProject), "{name}");
        let missing = fixture.store.update_project(project("library"), [].into()).await;
        assert_eq!(missing.refused(), Err((RefusalKind::NotFound, ResourceKind::Project)), "{name}");
    }
}

#[tokio::test]
async fn keys_and_audit_entries_are_stored() {
    for fixture in all().await {
        let name = fixture.name;
        let key = ApiKey {
            id: KeyId::from_uuid(Uuid::from_u128(7)),
            name: "ci".into(),
            prefix: "jmn_abcdef".into(),
            hash: KeyHash([3; 32]),
            scopes: vec![Scope::Jobs],
            projects: Some(vec![shop()]),
            expires_at: Some(Timestamp::from_micros(99)),
            allowed_ips: Some(vec![parse_network("10.0.0.0/8").unwrap()]),
            created_at: Timestamp::from_micros(5),
            last_used_at: None,
            revoked_at: None,
            creator: Some("cli".into()),
            owner: None,
            old_secret: None,
            version: 1,
        };
        let line = |at, action: &str| AuditEntry {
            at: Timestamp::from_micros(at),
            actor: "cli".into(),
            action: action.into(),
            subject: key.id.to_string(),
            address: Some("192.0.2.1".into()),
        };
        fixture.store.create_key(key.clone(), line(5, "key.created")).await.unwrap();
        assert_eq!(fixture.store.key_by_hash(key.hash).await.unwrap(), Some(key.clone()), "{name}");
        assert_eq!(fixture.store.key_by_hash(KeyHash([4; 32])).await.unwrap(), None, "{name}");
        for at in [20, 10] {
            fixture.store.key_used(key.id, Timestamp::from_micros(at)).await.unwrap();
        }
        fixture.store.revoke_key(key.id, line(30, "key.revoked")).await.unwrap();
        fixture.store.revoke_key(key.id, line(40, "key.revoked")).await.unwrap();
        let unknown = KeyId::from_uuid(Uuid::from_u128(8));
        let missing = fixture.store.revoke_key(unknown, line(50, "key.revoked")).await;
        assert_eq!(missing.refused(), Err((RefusalKind::NotFound, ResourceKind::Key)), "{name}");
        let stored = fixture.store.keys().await.unwrap().remove(0);
        let times = (stored.last_used_at.map(Timestamp::as_micros), stored.revoked_at.map(Timestamp::as_micros));
        assert_eq!(times, (Some(20), Some(30)), "{name}");
        let lines = fixture.store.audit(None, 9).await.unwrap();
        let entries: Vec<_> = lines.iter().map(|line| line.entry.clone()).collect();
        assert_eq!(entries, [line(30, "key.revoked"), line(5, "key.created")], "{name}");
        let earlier = fixture.store.audit(Some(lines[0].number), 9).await.unwrap();
        assert_eq!(earlier, lines[1..], "{name}");
    }
}

#[tokio::test]
async fn a_rotated_key_is_found_by_both_secrets_until_the_next_rotation() {
    for fixture in all().await {
        let name = fixture.name;
        let new = NewKey {
            name: "ci".into(),
            scopes: vec![Scope::Jobs],
            projects: None,
            expires_at: None,
            allowed_ips: None,
        };
        let now = fixture.world.now();
        let (key, _) = new.make(("cli", None), now, &*fixture.world).unwrap();
        let line = |action: &str| AuditEntry {
            at: now,
            actor: "cli".into(),
            action: action.into(),
            subject: key.id.to_string(),
            address: None,
        };
        let found = async |hash| fixture.store.key_by_hash(hash).await.unwrap();
        fixture.store.create_key(key.clone(), line("key.created")).await.unwrap();
        let mut before = key.clone();
        for overlap in [Duration::from_secs(60), Duration::ZERO] {
            let secret = NewSecret::generate(&*fixture.world);
            fixture.store.rotate_key(key.id, secret.clone(), overlap, line("key.rotated")).await.unwrap();
            let after = before.rotated(&secret, overlap, now);
            assert_eq!(found(after.hash).await, Some(after.clone()), "{name} {overlap:?}");
            let by_old = Some(after.clone()).filter(|_| !overlap.is_zero());
            assert_eq!(found(before.hash).await, by_old, "{name} {overlap:?}");
            before = after;
        }
        assert_eq!(found(key.hash).await, None, "{name}: the secret before the last but one");
        let [now, later] = [now, now + Duration::from_secs(60)];
        let kept = key.rotated(&NewSecret::generate(&*fixture.world), Duration::from_secs(60), now);
        assert!(kept.has_secret(key.hash, now) && !kept.has_secret(key.hash, later), "{name}");
        fixture.store.revoke_key(key.id, line("key.revoked")).await.unwrap();
        let ended = fixture
            .store
            .rotate_key(key.id, NewSecret::generate(&*fixture.world), Duration::ZERO, line("key.rotated"))
            .await;
        assert_eq!(ended.refused(), Err((RefusalKind::Ended, ResourceKind::Key)), "{name}");
    }
}

#[tokio::test]
async fn a_branch_has_at_most_one_open_pull_request() {
    for fixture in all().await {
        let name = fixture.name;
        let new = |head: &str| NewPull {
            title: "T".into(),
            body: "B".into(),
            head: head.into(),
            draft: true,
            labels: vec!["bot".into()],
            ..NewPull::default()
        };
        let at = Timestamp::from_micros;
        let open = |repository: &str, head: &str| {
            fixture.store.open_pull(repository.to_owned(), "main".to_owned(), new(head), at(1))
        };
        let first = open("shop", "a").await.unwrap().unwrap();
        assert_eq!((first.number, first.draft, first.state), (1, true, PullState::Open), "{name}");
        assert_eq!(open("shop", "a").await.unwrap(), None, "{name}");
        let of = |head: &str| fixture.store.pulls_of_branch("shop".to_owned(), head.to_owned());
        assert_eq!(of("a").await.unwrap(), [first], "{name}");
        assert_eq!(of("b").await.unwrap(), [], "{name}");
        assert_eq!(open("other", "a").await.unwrap().unwrap().number, 1, "{name}: each repository counts separately");
        assert_eq!(open("shop", "b").await.unwrap().unwrap().number, 2, "{name}");
        let between = Some((sha('a'), sha('b')));
        let end = |state, by: &str| {
            let (by, between, commit) = (Some(by.to_owned()), between.clone(), Some(sha('c')));
            fixture.store.end_pull("shop", 1, PullEnding { state, by, at: at(9), between, commit })
        };
        assert_eq!(end(PullState::Merged, "ada").await, Ok(()), "{name}");
        let ended = Err((RefusalKind::Ended, ResourceKind::PullRequest));
        assert_eq!(end(PullState::Closed, "bob").await.refused(), ended, "{name}: it is already merged");
        let merged = fixture.store.pull("shop".into(), 1).await.unwrap().unwrap();
        assert_eq!(
            (merged.state, merged.ended_at, &merged.ended_between),
            (PullState::Merged, Some(at(9)), &between),
            "{name}"
        );
        let ended = (merged.ended_by.as_deref(), merged.merge_commit);
        assert_eq!(ended, (Some("ada"), Some(sha('c'))), "{name}: the refused call changes nothing");
        assert_eq!(open("shop", "a").await.unwrap().unwrap().number, 3, "{name}: the branch is free again");
        let of_branch: Vec<u64> = of("a").await.unwrap().iter().map(|pull| pull.number).collect();
        assert_eq!(of_branch, [3, 1], "{name}");
        let text = PullText { title: None, body: Some("New".into()), draft: Some(false) };
        fixture.store.edit_pull("shop".into(), 3, text).await.unwrap();
        let edited = fixture.store.pull("shop".into(), 3).await.unwrap().unwrap();
        assert_eq!((edited.title.as_str(), edited.body.as_str(), edited.draft), ("T", "New", false), "{name}");
        let numbers: Vec<u64> =
            fixture.store.pulls("shop".into()).await.unwrap().iter().map(|pull| pull.number).collect();
        assert_eq!(numbers, [3, 2, 1], "{name}");
    }
}

fn sums(job: JobId, day: i64) -> Sums {
    Sums { project: shop(), job, day }
}

fn reservation(sums: Sums, micros: u64, budgets: Budgets) -> NewReservation {
    let now = Timestamp::from_micros(1_000);
    NewReservation { sums, micros, estimate: 3, budgets, now, expires_at: Timestamp::from_micros(2_000) }
}

const fn spent(micros: u64) -> Used {
    Used { spent: micros, set_aside: 0 }
}

#[tokio::test]
async fn a_cost_is_added_to_all_sums() {
    for fixture in all().await {
        let (store, name) = (&fixture.store, fixture.name);
        let [one, two] = [1, 2].map(|number| JobId::from_uuid(Uuid::from_u128(number)));
        let used = async |job, day| store.used(&sums(job, day)).await.unwrap();
        assert_eq!(used(one, 7).await, [spent(0); 3], "{name}");
        for (job, day, micros) in [(one, 7, 100), (two, 7, 50), (one, 8, 10)] {
            store.settle(&sums(job, day), None, micros).await.unwrap();
        }
        assert_eq!(used(one, 7).await, [110, 150, 160].map(spent), "{name}");
        assert_eq!(used(two, 8).await, [50, 10, 160].map(spent), "{name}");
        let other = Sums { project: "other".parse().unwrap(), ..sums(one, 7) };
        store.settle(&other, None, 5).await.unwrap();
        let open = reservation(other.clone(), 5, Budgets::default());
        store.reserve(open).await.unwrap();
        assert_eq!(store.used(&other).await.unwrap(), [spent(0); 3], "{name}: an unknown project");
        store.reserve(reservation(sums(one, 7), 5, Budgets::default())).await.unwrap();
        store.delete_project(shop()).await.unwrap();
        assert_eq!(used(one, 7).await, [spent(0); 3], "{name}: deleted with the project");
    }
}

#[tokio::test]
async fn money_is_set_aside_until_the_cost_is_known() {
    for fixture in all().await {
        let (store, name) = (&fixture.store, fixture.name);
        let [one, two] = [1, 2].map(|number| JobId::from_uuid(Uuid::from_u128(number)));
        let free = Budgets::default();
        store.settle(&sums(one, 7), None, 100).await.unwrap();
        let held = store.reserve(reservation(sums(one, 7), 40, free)).await.unwrap();
        store.reserve(reservation(sums(two, 8), 5, free)).await.unwrap();
        let used = store.used(&sums(one, 7)).await.unwrap();
        let expected = [(100, 40), (100, 40), (100, 45)].map(|(spent, set_aside)| Used { spent, set_aside });
        assert_eq!(used, expected, "{name}");
        for (budgets, refusal) in [
            (Budgets { job: Some(149), ..free }, Some(Refusal::SetAside(Purse::Job))),
            (Budgets { project: Some(154), ..free }, Some(Refusal::SetAside(Purse::Project))),
            (
                Budgets { job: Some(149), day: Some(109), ..free },
                Some(OverBudget { scope: Purse::Day, limit: 109, spent: 100, asked: 10 }.into()),
            ),
            (Budgets { run: Some(0), job: Some(150), day: Some(150), project: Some(155) }, None),
        ] {
            let reserved = store.reserve(reservation(sums(one, 7), 10, budgets)).await;
            assert_eq!(reserved.err(), refusal.map(ReserveError::Refused), "{name} {budgets:?}");
        }
        store.settle(&sums(one, 7), Some(&held), 2).await.unwrap();
        let used = store.used(&sums(one, 7)).await.unwrap();
        let expected = [(102, 10), (102, 10), (102, 15)].map(|(spent, set_aside)| Used { spent, set_aside });
        assert_eq!(used, expected, "{name}");
    }
}

#[tokio::test]
async fn a_reservation_that_is_not_renewed_is_replaced_with_its_estimate() {
    for fixture in all().await {
        let (store, name) = (&fixture.store, fixture.name);
        let job = JobId::from_uuid(Uuid::from_u128(1));
        let budgets = Budgets { job: Some(100), ..Budgets::default() };
        let lost = store.reserve(reservation(sums(job, 7), 60, budgets)).await.unwrap();
        let late = NewReservation { now: Timestamp::from_micros(2_000), ..reservation(sums(job, 7), 60, budgets) };
        store.renew(&lost, Timestamp::from_micros(2_001)).await.unwrap();
        let refused = store.reserve(late.clone()).await.unwrap_err();
        assert_eq!(refused, ReserveError::Refused(Refusal::SetAside(Purse::Job)), "{name}: it was renewed");
        let later = NewReservation { now: Timestamp::from_micros(2_001), ..late };
        store.reserve(later).await.unwrap();
        let used = store.used(&sums(job, 7)).await.unwrap();
        assert_eq!(used, [Used { spent: 3, set_aside: 60 }; 3], "{name}");
        // The service was only slow: the cost replaces the estimate.
        store.settle(&sums(job, 7), Some(&lost), 50).await.unwrap();
        assert_eq!(store.used(&sums(job, 7)).await.unwrap(), [Used { spent: 50, set_aside: 60 }; 3], "{name}");
    }
}

#[tokio::test]
async fn a_sum_of_costs_saturates_at_the_largest_number() {
    for fixture in all().await {
        let (store, name, job) = (&fixture.store, fixture.name, JobId::from_uuid(Uuid::from_u128(1)));
        let most = u64::try_from(i64::MAX).unwrap();
        for micros in [u64::MAX, most, 1] {
            store.settle(&sums(job, 7), None, micros).await.unwrap();
            assert_eq!(store.used(&sums(job, 7)).await.unwrap(), [spent(most); 3], "{name}");
        }
        // A budget above the largest possible sum is never used up.
        let budgets = Budgets { day: Some(u64::MAX), ..Budgets::default() };
        store.reserve(reservation(sums(job, 7), most, budgets)).await.unwrap();
        let budgets = Budgets { project: Some(100), ..Budgets::default() };
        let over = OverBudget { scope: Purse::Project, limit: 100, spent: most, asked: 5 };
        let refused = store.reserve(reservation(sums(job, 7), 5, budgets)).await.unwrap_err();
        assert_eq!(refused, ReserveError::Refused(over.into()), "{name}");
    }
}

#[tokio::test]
async fn concurrent_calls_do_not_exceed_a_budget() {
    for fixture in all().await {
        let job = JobId::from_uuid(Uuid::from_u128(1));
        let budgets = Budgets { day: Some(100), ..Budgets::default() };
        let calls = (0..20).map(|_| fixture.store.reserve(reservation(sums(job, 7), 9, budgets)));
        let accepted = futures::future::join_all(calls).await.into_iter().filter(Result::is_ok).count();
        let used = fixture.store.used(&sums(job, 7)).await.unwrap();
        assert_eq!((accepted, used), (11, [Used { spent: 0, set_aside: 99 }; 3]), "{}", fixture.name);
    }
}
