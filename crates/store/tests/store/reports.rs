//! The queries of integrations: jobs by their attributes, pages of lists, deletions, and reports on usage.

use std::collections::BTreeMap;
use std::time::Duration;

use journeyman_core::audit::AuditEntry;
use journeyman_core::code_host::PullState;
use journeyman_core::decision::job::JobToDelete;
use journeyman_core::decision::{self, Change};
use journeyman_core::engine::{NewJob, Prompt};
use journeyman_core::ids::{JobId, KeyId, ProjectId, RunId, TrustId, UserId};
use journeyman_core::job::command::{Outcome, Published, Report};
use journeyman_core::job::event::{TranscriptEntry, TranscriptKind};
use journeyman_core::job::label::{Attribute, Labels, Metadata};
use journeyman_core::job::summary::{JobSummary, STEP_WINDOW};
use journeyman_core::job::{JobOptions, JobStatus};
use journeyman_core::key::{ApiKey, KeyOrigin};
use journeyman_core::message::{MessageStatus, PlanProgress};
use journeyman_core::model::price::day;
use journeyman_core::ports::{
    AdminError, Cursor, JobFilter, MessageFilter, ProjectJobs, Retention, StatusCounts, Sums,
};
use journeyman_core::refusal::{RefusalKind, ResourceKind};
use journeyman_core::run::{Reason, ReasonCode, Usage};
use journeyman_core::time::Timestamp;
use journeyman_core::usage::{UsageGroup, UsageLine, UsageQuery, UsageSum};
use journeyman_testkit::{Refused as _, Seeds as _, decide_on};
use serde_json::{Value, json};
use uuid::Uuid;

use super::conformance::{complete_next_job_with, model_call, publish_next_job};
use super::fixtures::{Fixture, all, free, keyed, new_job, project, prompt, shop, worker};
use super::holds::put_on_hold;
use super::pulls::{pull, remote};
use super::users::key;

const LEASE: Duration = Duration::from_secs(60);

fn labeled(text: &str, labels: &[&str], metadata: &[(&str, &str)]) -> NewJob {
    let own = |text: &&str| (*text).to_owned();
    let entries = metadata.iter().map(|(key, value)| (own(key), own(value))).collect();
    NewJob {
        labels: Labels::new(labels.iter().map(own)).unwrap(),
        metadata: Metadata::new(entries).unwrap(),
        ..new_job(text)
    }
}

fn label(text: &str) -> Attribute {
    Attribute::Label(text.to_owned())
}

#[tokio::test]
async fn jobs_are_found_by_their_attributes_in_one_project_and_in_all() {
    for fixture in all().await {
        let name = fixture.name;
        fixture.store.create_project(project("other"), [].into()).await.unwrap();
        let mut made = Vec::new();
        for (at, new) in [
            ("shop", labeled("Fix a", &["bug"], &[("ticket", "S-1")])),
            ("other", labeled("Fix b", &["bug", "ui"], &[])),
            ("shop", labeled("Fix c", &["bug", "ui"], &[("ticket", "S-1"), ("team", "web")])),
            ("shop", NewJob { agent: Some("goose".to_owned()), ..labeled("Write d", &[], &[("ticket", "S-2")]) }),
            (
                "shop",
                NewJob {
                    options: JobOptions { branch: Some("topic".to_owned()), ..JobOptions::default() },
                    prompt: Prompt { author: Some("ann".to_owned()), ..prompt("Fix e") },
                    ..labeled("", &["bug"], &[])
                },
            ),
        ] {
            made.push(fixture.engine.create_job(&project(at), new, free()).await.unwrap().record);
            fixture.world.advance(Duration::from_secs(1));
        }
        fixture.engine.cancel(&shop(), made[2].id).await.unwrap();
        let everywhere = JobFilter { limit: 9, ..JobFilter::default() };
        let in_shop = JobFilter::newest(shop(), 9);
        let with = |attributes: &[Attribute], filter: &JobFilter| JobFilter {
            attributes: attributes.to_vec(),
            ..filter.clone()
        };
        let ticket = Attribute::Metadata("ticket".to_owned(), "S-1".to_owned());
        let behind = |number: usize| Some(Cursor { created_at: made[number].created_at, id: made[number].id });
        let failed = Some(JobStatus::Failed);
        let cases: [(JobFilter, &[usize]); 17] = [
            (everywhere.clone(), &[4, 3, 2, 1, 0]),
            (JobFilter { limit: 2, ..everywhere.clone() }, &[4, 3]),
            (JobFilter { limit: 2, after: behind(3), ..everywhere.clone() }, &[2, 1]),
            (JobFilter { status: failed, ..everywhere.clone() }, &[2]),
            (
                JobFilter { projects: Some(vec!["other".parse().unwrap(), shop()]), ..everywhere.clone() },
                &[4, 3, 2, 1, 0],
            ),
            (JobFilter { projects: Some(vec!["other".parse().unwrap()]), ..everywhere.clone() }, &[1]),
            (JobFilter { projects: Some(Vec::new()), ..everywhere.clone() }, &[]),
            (with(&[label("bug")], &everywhere), &[4, 2, 1, 0]),
            (with(&[label("bug")], &in_shop), &[4, 2, 0]),
            (with(&[label("bug"), label("ui")], &everywhere), &[2, 1]),
            (with(&[label("bug"), ticket.clone()], &in_shop), &[2, 0]),
            (JobFilter { status: failed, ..with(&[ticket], &in_shop) }, &[2]),
            (JobFilter { after: behind(4), limit: 1, ..with(&[label("bug")], &in_shop) }, &[2]),
            (with(&[Attribute::Agent("goose".to_owned())], &everywhere), &[3]),
            (with(&[Attribute::Author("ann".to_owned())], &everywhere), &[4]),
            (JobFilter { branch: Some("topic".to_owned()), ..everywhere.clone() }, &[4]),
            (JobFilter { branch: Some("topic".to_owned()), ..with(&[label("ui")], &everywhere) }, &[]),
        ];
        for (filter, expected) in cases {
            let found = fixture.store.jobs(filter.clone()).await.unwrap();
            let expected: Vec<JobId> = expected.iter().map(|number| made[*number].id).collect();
            assert_eq!(found.iter().map(|job| job.id).collect::<Vec<_>>(), expected, "{name}: {filter:?}");
        }
        let extras = fixture.store.extras_of_jobs(vec![made[2].id, made[3].id]).await.unwrap();
        let texts =
            |number: usize| extras[&made[number].id].attributes.iter().map(ToString::to_string).collect::<Vec<_>>();
        let third =
            ["agent:journeyman", "author:ci", "label:bug", "label:ui", "metadata:team=web", "metadata:ticket=S-1"];
        assert_eq!(texts(2), third, "{name}");
        assert_eq!(texts(3), ["agent:goose", "author:ci", "metadata:ticket=S-2"], "{name}");
    }
}

#[tokio::test]
async fn the_overview_of_a_job_is_what_the_single_reads_return() {
    for fixture in all().await {
        let (name, store) = (fixture.name, &fixture.store);
        let new = labeled("a", &["bug", "ui"], &[("ticket", "S-1")]);
        let id = fixture.engine.create_job(&project("shop"), new, free()).await.unwrap().record.id;
        let usage = Usage { input_tokens: 7, ..Usage::default() };
        publish_next_job(&fixture, usage, Published::Opened(pull(remote(), 7), None)).await;
        fixture.record(id, 7, PullState::Merged, None).await;
        fixture.engine.add_message(&shop(), id, prompt("a"), free()).await.unwrap();
        publish_next_job(&fixture, usage, Published::Opened(pull(remote(), 8), None)).await;
        fixture.engine.add_message(&shop(), id, prompt("b"), free()).await.unwrap();
        // Another job, whose data must not be in it.
        let other = labeled("c", &["other"], &[]);
        let other = fixture.engine.create_job(&project("shop"), other, free()).await.unwrap().record.id;
        let plain = store.job_overview(other).await.unwrap().expect(name);
        assert_eq!(Some(plain.job), store.job(other).await.unwrap(), "{name}");
        assert_eq!(plain.newest_message, store.newest_message(other).await.unwrap(), "{name}");
        assert_eq!(Some(&plain.extras), store.extras_of_jobs(vec![other]).await.unwrap().get(&other), "{name}");
        assert_eq!((plain.extras.pulls.len(), plain.extras.hold), (0, None), "{name}");
        put_on_hold(&fixture).await;

        let overview = store.job_overview(id).await.unwrap().expect(name);
        assert_eq!(Some(&overview.job), store.job(id).await.unwrap().as_ref(), "{name}");
        let newest = store.newest_message(id).await.unwrap();
        assert_eq!(overview.newest_message.as_ref().map(|message| message.prompt.as_str()), Some("b"), "{name}");
        assert_eq!(overview.newest_message, newest, "{name}");
        let extras = store.extras_of_jobs(vec![id]).await.unwrap().remove(&id).expect(name);
        assert_eq!(
            (extras.attributes.len(), extras.usage.input_tokens, extras.hold.is_some()),
            (5, 14, true),
            "{name}"
        );
        assert_eq!(extras.pulls.iter().map(|pull| pull.number).collect::<Vec<_>>(), [7, 8], "{name}");
        assert_eq!(overview.extras, extras, "{name}");
        let unknown = JobId::from_uuid(Uuid::from_u128(404));
        assert_eq!(store.job_overview(unknown).await.unwrap(), None, "{name}");
    }
}

#[tokio::test]
async fn the_time_of_a_job_is_that_of_its_runs() {
    for fixture in all().await {
        let id = fixture.engine.create_job(&project("shop"), new_job("Fix it"), free()).await.unwrap().record.id;
        for seconds in [10, 20] {
            if seconds == 20 {
                fixture.engine.add_message(&shop(), id, prompt("Again"), free()).await.unwrap();
            }
            let claimed = fixture.engine.claim(worker(1), LEASE).await.unwrap().expect("the job is due");
            fixture.world.advance(Duration::from_secs(seconds));
            let outcome = Outcome::Failed { reason: Reason::new(ReasonCode::AgentFailed, "it broke"), retry: None };
            let finished = Report::Finished { outcome, usage: Usage::default() };
            fixture.engine.report(id, claimed.lease.token, finished).await.unwrap();
            // The time until a person reacts does not count.
            fixture.world.advance(Duration::from_secs(3600));
        }
        let summaries = fixture.store.summaries_of_jobs(vec![id]).await.unwrap();
        assert_eq!(summaries[&id].run_time, Duration::from_secs(30), "{}", fixture.name);
    }
}

#[tokio::test]
async fn jobs_are_found_by_the_number_of_a_pull_request() {
    for fixture in all().await {
        let first = fixture.on_pull("shop", remote(), 7).await;
        let second = fixture.on_pull("shop", remote(), 8).await;
        let of = |number: u64, filter: JobFilter| JobFilter { pull: Some(number), ..filter };
        for (filter, expected) in [
            (of(7, JobFilter::newest(shop(), 9)), vec![first]),
            (of(8, JobFilter { limit: 9, ..JobFilter::default() }), vec![second]),
            (of(9, JobFilter::newest(shop(), 9)), vec![]),
            (of(7, JobFilter { attributes: vec![label("none")], ..JobFilter::newest(shop(), 9) }), vec![]),
        ] {
            let found = fixture.store.jobs(filter.clone()).await.unwrap();
            let found: Vec<JobId> = found.into_iter().map(|job| job.id).collect();
            assert_eq!(found, expected, "{}: {filter:?}", fixture.name);
        }
    }
}

#[tokio::test]
async fn jobs_are_found_by_the_state_of_a_pull_request() {
    for fixture in all().await {
        let first = fixture.on_pull("shop", remote(), 7).await;
        let second = fixture.on_pull("shop", remote(), 8).await;
        fixture.job().await;
        let of = |state, filter: JobFilter| JobFilter { pull_state: Some(state), ..filter };
        let failed = JobFilter { status: Some(JobStatus::Failed), ..JobFilter::newest(shop(), 9) };
        let named = JobFilter { title_contains: Some("no such title".to_owned()), ..JobFilter::newest(shop(), 9) };
        let labeled = JobFilter { attributes: vec![label("none")], ..JobFilter::newest(shop(), 9) };
        for (filter, expected) in [
            (of(PullState::Open, JobFilter::newest(shop(), 9)), vec![second, first]),
            (of(PullState::Open, JobFilter { limit: 1, ..JobFilter::default() }), vec![second]),
            (of(PullState::Open, failed.clone()), vec![]),
            (of(PullState::Open, named.clone()), vec![]),
            (of(PullState::Open, labeled.clone()), vec![]),
            (of(PullState::Merged, JobFilter::newest(shop(), 9)), vec![]),
            (of(PullState::Closed, failed), vec![]),
            (of(PullState::Merged, labeled), vec![]),
        ] {
            let found = fixture.store.jobs(filter.clone()).await.unwrap();
            let found: Vec<JobId> = found.into_iter().map(|job| job.id).collect();
            assert_eq!(found, expected, "{}: {filter:?}", fixture.name);
        }
        let open = ProjectJobs { running: 0, open_pulls: 2 };
        assert_eq!(
            fixture.store.jobs_of_projects().await.unwrap(),
            BTreeMap::from([(shop(), open)]),
            "{}",
            fixture.name
        );
    }
}

#[tokio::test]
async fn jobs_are_found_by_any_of_several_attributes() {
    for fixture in all().await {
        let mut jobs = Vec::new();
        for labels in [&["a"][..], &["b"], &["a", "b"], &["c"]] {
            let created = fixture.engine.create_job(&project("shop"), labeled("x", labels, &[]), free()).await;
            jobs.push(created.unwrap().record.id);
            fixture.world.advance(Duration::from_secs(1));
        }
        let any = |labels: &[&str]| JobFilter {
            any_of: labels.iter().map(|text| label(text)).collect(),
            ..JobFilter::newest(shop(), 9)
        };
        let active = Some(JobStatus::Active);
        for (filter, expected) in [
            (any(&["a", "b"]), vec![jobs[2], jobs[1], jobs[0]]),
            (any(&["c", "none"]), vec![jobs[3]]),
            (any(&["none"]), vec![]),
            (JobFilter { status: active, ..any(&["a", "c"]) }, vec![jobs[3], jobs[2], jobs[0]]),
            (JobFilter { attributes: vec![label("b")], ..any(&["a", "c"]) }, vec![jobs[2]]),
            (JobFilter { pull_state: Some(PullState::Open), ..any(&["a"]) }, vec![]),
        ] {
            let found = fixture.store.jobs(filter.clone()).await.unwrap();
            let found: Vec<JobId> = found.into_iter().map(|job| job.id).collect();
            assert_eq!(found, expected, "{}: {filter:?}", fixture.name);
        }
    }
}

#[tokio::test]
async fn jobs_are_counted_by_status_up_to_a_limit() {
    for fixture in all().await {
        let (name, store, engine) = (fixture.name, &fixture.store, &fixture.engine);
        let count = async |project: Option<ProjectId>, limit| store.count_jobs(project, limit).await.unwrap();
        assert_eq!(count(None, 9).await, StatusCounts::default(), "{name}");
        for is_archived in [false, true] {
            let id = fixture.job().await;
            complete_next_job_with(&fixture, Usage::default()).await;
            if is_archived {
                engine.archive(&shop(), id).await.unwrap();
            }
        }
        for _ in 0..3 {
            let id = fixture.job().await;
            engine.cancel(&shop(), id).await.unwrap();
        }
        fixture.job().await;
        let other = project("other");
        store.create_project(other.clone(), [].into()).await.unwrap();
        engine.create_job(&other, new_job("x"), free()).await.unwrap();

        let of_shop = StatusCounts { active: 1, completed: 1, archived: 1, failed: 3 };
        assert_eq!(count(Some(shop()), 9).await, of_shop, "{name}");
        assert_eq!(count(Some(shop()), 2).await, StatusCounts { failed: 2, ..of_shop }, "{name}");
        let of_other = StatusCounts { active: 1, ..StatusCounts::default() };
        assert_eq!(count(Some(other.id), 9).await, of_other, "{name}");
        assert_eq!(count(Some(project("none").id), 9).await, StatusCounts::default(), "{name}");
        assert_eq!(count(None, 9).await, StatusCounts { active: 2, ..of_shop }, "{name}");
        assert_eq!(count(None, 1).await, StatusCounts { active: 1, completed: 1, archived: 1, failed: 1 }, "{name}");
        assert_eq!(count(None, 9).await.total(), 7, "{name}");
    }
}

#[tokio::test]
async fn a_summary_has_the_sums_and_the_progress_of_a_job() {
    for fixture in all().await {
        let (name, store, engine) = (fixture.name, &fixture.store, &fixture.engine);
        assert!(store.jobs_of_projects().await.unwrap().is_empty(), "{name}");
        let new = labeled("a", &["bug"], &[]);
        let id = engine.create_job(&project("shop"), new, free()).await.unwrap().record.id;
        fixture.world.advance(Duration::from_secs(1));
        let waiting = engine.create_job(&project("shop"), new_job("b"), free()).await.unwrap().record.id;
        let unknown = JobId::from_uuid(Uuid::from_u128(404));
        let summaries = async || store.summaries_of_jobs(vec![id, waiting, unknown]).await.unwrap();
        let attributes = |with_label: bool| {
            let label = with_label.then(|| label("bug"));
            let first = [Attribute::Agent("journeyman".to_owned()), Attribute::Author("ci".to_owned())];
            first.into_iter().chain(label).collect::<Vec<_>>()
        };
        let before =
            |with_label| JobSummary { attributes: attributes(with_label), messages: 1, ..JobSummary::default() };
        assert_eq!(summaries().await, BTreeMap::from([(id, before(true)), (waiting, before(false))]), "{name}");
        assert_eq!(summaries().await[&id].author(), Some("ci"), "{name}");

        let claimed = engine.claim(worker(1), LEASE).await.unwrap().expect("a job is due");
        assert_eq!(claimed.job.id, id, "{name}");
        let started = store.runs(id).await.unwrap()[0].started_at;
        let report = async |entries: Vec<(TranscriptKind, Value)>| {
            let at = engine.now();
            let entries = entries.into_iter().map(|(kind, data)| TranscriptEntry { kind, data, at }).collect();
            engine.report(id, claimed.lease.token, Report::Transcript(entries)).await.unwrap();
        };
        let call = |id: Value, title: Value, status: &str| {
            (TranscriptKind::ToolCall, json!({"toolCallId": id, "title": title, "status": status}))
        };
        let step = |status: &str| json!({"content": "x", "status": status});
        let plan = |steps: Vec<Value>| (TranscriptKind::Plan, json!({"entries": steps}));
        report(vec![
            plan(vec![step("pending"), step("pending")]),
            plan(vec![step("completed"), step("in_progress"), step("pending")]),
            call(json!("1"), json!("cargo test"), "in_progress"),
            call(json!("2"), json!("Edit \"a\".rs"), "completed"),
            call(json!(3), json!(["no", "text"]), "completed"),
        ])
        .await;
        engine.add_message(&shop(), id, prompt("more"), free()).await.unwrap();
        store.settle(&Sums { project: shop(), job: id, day: 1 }, None, 610_000).await.unwrap();
        let running = JobSummary {
            messages: 2,
            running_since: Some(started),
            cost_micros: 610_000,
            plan: Some(PlanProgress { done: 1, total: 3, current: Some("x".to_owned()) }),
            step: Some("cargo test".to_owned()),
            ..before(true)
        };
        assert_eq!(summaries().await[&id], running, "{name}");
        let counts = ProjectJobs { running: 1, open_pulls: 0 };
        assert_eq!(store.jobs_of_projects().await.unwrap(), BTreeMap::from([(shop(), counts)]), "{name}");

        // The plan is found however far it is from the end of the log, and a step only near the end.
        let said = (TranscriptKind::Message, json!({"text": "x"}));
        report(vec![said; usize::try_from(STEP_WINDOW).unwrap()]).await;
        assert_eq!(summaries().await[&id], JobSummary { step: None, ..running }, "{name}");
    }
}

#[tokio::test]
async fn the_newest_plan_before_an_entry_is_found() {
    for fixture in all().await {
        let (name, store, engine) = (fixture.name, &fixture.store, &fixture.engine);
        let id = fixture.job().await;
        let claimed = engine.claim(worker(1), LEASE).await.unwrap().expect("a job is due");
        let at = engine.now();
        let entry = |kind, data| TranscriptEntry { kind, data, at };
        let plan = |text: &str| entry(TranscriptKind::Plan, json!({"entries": [{"content": text}]}));
        let said = entry(TranscriptKind::Message, json!({"text": "x"}));
        let entries = vec![plan("one"), said.clone(), plan("two"), said];
        engine.report(id, claimed.lease.token, Report::Transcript(entries)).await.unwrap();

        let log = store.log(id, 0, 100).await.unwrap();
        let plans: Vec<_> = log.iter().filter(|entry| entry.kind == "agent.plan").cloned().collect();
        let [one, two] = &plans[..] else { panic!("{name}: {log:?}") };
        assert_eq!(one.run_id, Some(claimed.lease.run), "{name}");
        for (before, expected) in [
            (0, None),
            (one.seq, None),
            (one.seq + 1, Some(one)),
            (two.seq, Some(one)),
            (two.seq + 1, Some(two)),
            (u64::MAX, Some(two)),
        ] {
            assert_eq!(store.plan_before(id, before).await.unwrap().as_ref(), expected, "{name}: before {before}");
        }
        let unknown = JobId::from_uuid(Uuid::from_u128(404));
        assert_eq!(store.plan_before(unknown, u64::MAX).await.unwrap(), None, "{name}");
    }
}

#[tokio::test]
async fn the_steps_among_some_entries_are_counted() {
    for fixture in all().await {
        let (name, store, engine) = (fixture.name, &fixture.store, &fixture.engine);
        let id = fixture.job().await;
        let claimed = engine.claim(worker(1), LEASE).await.unwrap().expect("a job is due");
        let at = engine.now();
        let call = |data| TranscriptEntry { kind: TranscriptKind::ToolCall, data, at };
        let said = TranscriptEntry { kind: TranscriptKind::Message, data: json!({"text": "x"}), at };
        let entries = vec![
            call(json!({"toolCallId": "a"})),
            call(json!({"toolCallId": "a", "update": true})),
            said,
            call(json!({"toolCallId": "b", "update": false})),
            // An agent may give an ID another type.
            call(json!({"toolCallId": 7, "update": "true"})),
        ];
        engine.report(id, claimed.lease.token, Report::Transcript(entries)).await.unwrap();
        let log = store.log(id, 0, 100).await.unwrap();
        let first = log.iter().find(|entry| entry.kind == "agent.tool_call").unwrap().seq;
        for (entries, expected) in [
            (0..u64::MAX, 3),
            (0..first, 0),
            (first..first + 1, 1),
            (first + 1..first + 3, 0),
            (first + 1..first + 4, 1),
            (first..first, 0),
        ] {
            let count = store.count_steps(id, entries.clone()).await.unwrap();
            assert_eq!(count, expected, "{name}: {entries:?} of {first}");
        }
        let unknown = JobId::from_uuid(Uuid::from_u128(404));
        assert_eq!(store.count_steps(unknown, 0..u64::MAX).await.unwrap(), 0, "{name}");
    }
}

#[tokio::test]
async fn messages_are_found_in_the_order_of_their_last_change() {
    for fixture in all().await {
        let name = fixture.name;
        let first = fixture.job().await;
        let second = fixture.job().await;
        complete_next_job_with(&fixture, Usage::default()).await;
        let [done, queued] = [first, second].map(|id| fixture.store.newest_message(id));
        let (done, queued) = (done.await.unwrap().unwrap(), queued.await.unwrap().unwrap());
        assert_eq!((done.status, queued.status), (MessageStatus::Finished, MessageStatus::Queued), "{name}");
        let any = MessageFilter { projects: None, statuses: Vec::new(), updated_since: None, after: None, limit: 9 };
        let mut expected = [done.clone(), queued.clone()];
        expected.sort_by_key(|message| std::cmp::Reverse((message.updated_at(), message.id)));
        let [newest, oldest] = expected.clone();
        for (filter, expected) in [
            (any.clone(), expected.to_vec()),
            (MessageFilter { limit: 1, ..any.clone() }, vec![newest.clone()]),
            (MessageFilter { after: Some((newest.updated_at(), newest.id)), ..any.clone() }, vec![oldest.clone()]),
            (MessageFilter { after: Some((oldest.updated_at(), oldest.id)), ..any.clone() }, vec![]),
            (MessageFilter { statuses: vec![MessageStatus::Queued], ..any.clone() }, vec![queued]),
            (
                MessageFilter {
                    statuses: vec![MessageStatus::Cancelled, MessageStatus::Finished],
                    projects: Some(vec![shop()]),
                    ..any.clone()
                },
                vec![done],
            ),
            (MessageFilter { projects: Some(vec!["other".parse().unwrap()]), ..any.clone() }, vec![]),
            (MessageFilter { projects: Some(Vec::new()), ..any.clone() }, vec![]),
            (MessageFilter { updated_since: Some(newest.updated_at()), limit: 1, ..any.clone() }, vec![newest]),
        ] {
            assert_eq!(fixture.store.find_messages(filter.clone()).await.unwrap(), expected, "{name}: {filter:?}");
            let count = fixture.store.count_messages(MessageFilter { after: None, ..filter.clone() }).await.unwrap();
            let all = fixture.store.find_messages(MessageFilter { after: None, ..filter }).await.unwrap();
            assert_eq!(count, u64::try_from(all.len()).unwrap(), "{name}");
        }
    }
}

#[tokio::test]
async fn lists_are_read_in_pages() {
    for fixture in all().await {
        let name = fixture.name;
        let id = fixture.job().await;
        for text in ["b", "c"] {
            fixture.engine.add_message(&shop(), id, prompt(text), free()).await.unwrap();
        }
        let other = fixture.job().await;
        let messages = fixture.store.messages(id).await.unwrap();
        let after = |index: usize| Some(messages[index].id);
        assert_eq!(fixture.store.messages_after(id, None, 2).await.unwrap(), messages[..2], "{name}");
        assert_eq!(fixture.store.messages_after(id, after(1), 9).await.unwrap(), messages[2..], "{name}");
        assert_eq!(fixture.store.newest_message(id).await.unwrap().as_ref(), messages.last(), "{name}");
        assert_eq!(fixture.store.messages_after(id, after(2), 9).await.unwrap(), [], "{name}");
        assert_eq!(fixture.store.messages_after(other, after(0), 9).await.unwrap(), [], "{name}: of another job");
        for _ in 0..2 {
            complete_next_job_with(&fixture, Usage::default()).await;
        }
        let runs = fixture.store.runs(id).await.unwrap();
        let first = runs.first().expect("a run").id;
        assert_eq!(fixture.store.runs_after(id, None, 1).await.unwrap(), runs[..1], "{name}");
        assert_eq!(fixture.store.runs_after(id, Some(first), 9).await.unwrap(), runs[1..], "{name}");
        assert_eq!(fixture.store.runs_after(other, Some(first), 9).await.unwrap(), [], "{name}: of another job");
        assert_eq!(fixture.store.run(first).await.unwrap().as_ref(), runs.first(), "{name}");
        assert_eq!(fixture.store.run(RunId::from_uuid(Uuid::from_u128(99))).await.unwrap(), None, "{name}");
        fixture.store.create_project(project("zoo"), [].into()).await.unwrap();
        let projects = async |after: Option<&str>, limit| {
            let found = fixture.store.projects_after(after.map(|id| id.parse().unwrap()), limit).await.unwrap();
            found.into_iter().map(|project| project.id.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(projects(None, 1).await, ["shop"], "{name}");
        assert_eq!(projects(Some("shop"), 9).await, ["zoo"], "{name}");
        assert_eq!(projects(Some("a"), 9).await, ["shop", "zoo"], "{name}: the ID of a deleted project");
    }
}

#[tokio::test]
async fn keys_are_read_in_pages() {
    for fixture in all().await {
        let name = fixture.name;
        for number in 0..3 {
            let now = fixture.engine.now();
            let new = ApiKey { created_at: now, ..key(number, None, false) };
            fixture.store.create_key(new, entry("key.created", now)).await.unwrap();
            fixture.world.advance(Duration::from_secs(1));
        }
        let keys = fixture.store.keys().await.unwrap();
        assert_eq!(keys.len(), 3, "{name}");
        assert_eq!(fixture.store.keys_after(KeyOrigin::Created, None, 2).await.unwrap(), keys[..2], "{name}");
        assert_eq!(
            fixture.store.keys_after(KeyOrigin::Created, Some(keys[1].id), 2).await.unwrap(),
            keys[2..],
            "{name}"
        );
        assert_eq!(fixture.store.key(keys[1].id).await.unwrap().as_ref(), Some(&keys[1]), "{name}");
        let unknown = KeyId::from_uuid(Uuid::from_u128(99));
        assert_eq!(fixture.store.keys_after(KeyOrigin::Created, Some(unknown), 2).await.unwrap(), [], "{name}");
        assert_eq!(fixture.store.key(unknown).await.unwrap(), None, "{name}");

        let exchanged = ApiKey {
            created_at: keys[1].created_at,
            creator: Some(format!("trust_{}", "0".repeat(32))),
            ..key(9, None, false)
        };
        fixture.store.create_key(exchanged.clone(), entry("oidc.exchanged", exchanged.created_at)).await.unwrap();
        let created = fixture.store.keys_after(KeyOrigin::Created, None, 9).await.unwrap();
        assert_eq!(created, keys, "{name}: exchanged keys are not among the others");
        let found = fixture.store.keys_after(KeyOrigin::Exchanged, None, 9).await.unwrap();
        assert_eq!(found, std::slice::from_ref(&exchanged), "{name}");
        let after = fixture.store.keys_after(KeyOrigin::Exchanged, Some(exchanged.id), 9).await.unwrap();
        assert_eq!(after, [], "{name}");
    }
}

#[tokio::test]
async fn the_names_of_the_keys_of_a_user_are_those_that_no_trust_has_created() {
    for fixture in all().await {
        let (name, store) = (fixture.name, &fixture.store);
        let users = [1, 2].map(|number| UserId::from_uuid(Uuid::from_u128(number)));
        let now = fixture.engine.now();
        let (person, trust) = (Some(users[0].to_string()), TrustId::from_uuid(Uuid::from_u128(3)).to_string());
        let revoked = ApiKey { revoked_at: Some(now), ..key(5, Some(users[0]), false) };
        for (text, new) in [
            ("deploy", ApiKey { creator: person.clone(), ..key(1, Some(users[0]), false) }),
            ("deploy", ApiKey { creator: None, ..key(2, Some(users[0]), true) }),
            ("of a trust", ApiKey { creator: Some(trust), ..key(3, Some(users[0]), false) }),
            ("of another user", ApiKey { creator: person, ..key(4, Some(users[1]), false) }),
            ("old", revoked),
            ("without an owner", key(6, None, false)),
        ] {
            let new = ApiKey { name: text.to_owned(), ..new };
            store.create_key(new, entry("key.created", now)).await.unwrap();
        }
        let names = async |user: UserId| store.names_of_keys(user).await.unwrap().into_iter().collect::<Vec<String>>();
        assert_eq!(names(users[0]).await, ["deploy", "old"], "{name}");
        assert_eq!(names(users[1]).await, ["of another user"], "{name}");
        let unknown = UserId::from_uuid(Uuid::from_u128(99));
        assert!(names(unknown).await.is_empty(), "{name}");
    }
}

fn entry(action: &str, at: Timestamp) -> AuditEntry {
    AuditEntry { at, actor: "cli".to_owned(), action: action.to_owned(), subject: String::new(), address: None }
}

/// Deletes a job, as the use case does.
pub(super) async fn delete_job(fixture: &Fixture, project: ProjectId, id: JobId) -> Result<Change, AdminError> {
    let now = fixture.engine.now();
    let audit = entry("job.deleted", now);
    let subject = JobToDelete(id, project.clone());
    let delete = move |state: &_| decision::job::delete(state, &project, |_| true, audit.clone());
    decide_on(&*fixture.store, subject, now, delete).await
}

#[tokio::test]
async fn a_deleted_job_is_gone_with_all_its_rows_and_deleting_it_again_changes_nothing() {
    for fixture in all().await {
        let name = fixture.name;
        let new = labeled("a", &["bug"], &[("ticket", "S-1")]);
        let id = fixture.engine.create_job(&project("shop"), new, keyed("k", "b")).await.unwrap().record.id;
        let kept =
            fixture.engine.create_job(&project("shop"), labeled("b", &["bug"], &[]), free()).await.unwrap().record.id;
        assert_eq!(
            delete_job(&fixture, shop(), id).await.refused(),
            Err((RefusalKind::Busy, ResourceKind::Job)),
            "{name}"
        );
        fixture.engine.cancel(&shop(), id).await.unwrap();
        let other = "other".parse().unwrap();
        assert_eq!(
            delete_job(&fixture, other, id).await.refused(),
            Err((RefusalKind::NotFound, ResourceKind::Job)),
            "{name}"
        );
        delete_job(&fixture, shop(), id).await.unwrap();
        assert_eq!(fixture.store.job(id).await.unwrap(), None, "{name}");
        assert_eq!(fixture.store.messages(id).await.unwrap(), [], "{name}");
        assert_eq!(fixture.store.log(id, 0, 9).await.unwrap(), [], "{name}");
        assert!(fixture.store.extras_of_jobs(vec![id]).await.unwrap().is_empty(), "{name}");
        let labeled = JobFilter { attributes: vec![label("bug")], ..JobFilter::newest(shop(), 9) };
        let left: Vec<JobId> = fixture.store.jobs(labeled).await.unwrap().into_iter().map(|job| job.id).collect();
        assert_eq!(left, [kept], "{name}");
        let lines = async || fixture.store.audit(None, 9).await.unwrap().len();
        let written = lines().await;
        delete_job(&fixture, shop(), id).await.expect("a repetition");
        assert_eq!(lines().await, written, "{name}: nothing is written again");
        let elsewhere = delete_job(&fixture, "elsewhere".parse().unwrap(), id).await;
        assert_eq!(elsewhere.refused(), Err((RefusalKind::NotFound, ResourceKind::Job)), "{name}: of another project");
        let unknown = JobId::from_uuid(Uuid::from_u128(77));
        assert_eq!(
            delete_job(&fixture, shop(), unknown).await.refused(),
            Err((RefusalKind::NotFound, ResourceKind::Job)),
            "{name}"
        );
        fixture.world.advance(Duration::from_hours(31 * 24));
        fixture.store.sweep(fixture.engine.now(), Retention::default(), 9).await.unwrap();
        assert_eq!(
            delete_job(&fixture, shop(), id).await.refused(),
            Err((RefusalKind::NotFound, ResourceKind::Job)),
            "{name}: it is forgotten"
        );
    }
}

#[tokio::test]
async fn usage_is_added_up_by_day_project_model_author_and_key() {
    let usage = |input_tokens: u64, cost_micros: Option<u64>| Usage { input_tokens, cost_micros, ..Usage::default() };
    for fixture in all().await {
        let name = fixture.name;
        let sender = KeyId::from_uuid(Uuid::from_u128(5));
        fixture.store.create_project(project("other"), [].into()).await.unwrap();
        let today = day(fixture.engine.now());
        let of_ann = || Prompt { author: Some("ann".to_owned()), key: Some(sender), ..prompt("a") };
        for (at, prompt, usage) in [
            ("shop", prompt("a"), usage(10, Some(3))),
            ("other", of_ann(), usage(20, Some(5))),
            ("shop", of_ann(), usage(40, None)),
            ("shop", of_ann(), usage(80, Some(7))),
        ] {
            fixture.engine.create_job(&project(at), NewJob::new(prompt), free()).await.unwrap();
            complete_next_job_with(&fixture, usage).await;
            fixture.world.advance(Duration::from_hours(12));
        }
        let query = |groups: &[UsageGroup]| UsageQuery {
            first_day: today,
            last_day: today + 9,
            groups: groups.to_vec(),
            limit: 99,
            ..UsageQuery::default()
        };
        let report = async |query: UsageQuery| {
            let lines = fixture.store.usage(query).await.unwrap();
            let line = |line: UsageLine| {
                let groups = [
                    line.day.map(|day| (day - today).to_string()),
                    line.project.map(|project| project.to_string()),
                    line.author,
                    line.key.map(|_| "key".to_owned()),
                ];
                let groups: Vec<String> = groups.into_iter().flatten().collect();
                (groups.join(" "), line.sum.runs, line.sum.input_tokens, line.sum.cost_micros, line.sum.unpriced)
            };
            lines.into_iter().map(line).collect::<Vec<_>>()
        };
        let own = |text: &str| text.to_owned();
        assert_eq!(report(query(&[])).await, [(own(""), 4, 150, 15, 1)], "{name}");
        let days = report(query(&[UsageGroup::Day])).await;
        assert_eq!(days.iter().map(|line| line.1).sum::<u64>(), 4, "{name}");
        assert!(days.len() >= 2 && days[0].0 == "0", "{name}: {days:?}");
        let by_project = [(own("other"), 1, 20, 5, 0), (own("shop"), 3, 130, 10, 1)];
        assert_eq!(report(query(&[UsageGroup::Project])).await, by_project, "{name}");
        let by_author = [(own("ann"), 3, 140, 12, 1), (own("ci"), 1, 10, 3, 0)];
        assert_eq!(report(query(&[UsageGroup::Author])).await, by_author, "{name}");
        let by_key = [(own(""), 1, 10, 3, 0), (own("key"), 3, 140, 12, 1)];
        assert_eq!(report(query(&[UsageGroup::Key])).await, by_key, "{name}");
        let of_key = UsageQuery { key: Some(sender), projects: Some(vec![shop()]), ..query(&[]) };
        assert_eq!(report(of_key).await, [(own(""), 2, 120, 7, 1)], "{name}");
        let of_author = UsageQuery { author: Some(own("ci")), ..query(&[UsageGroup::Project]) };
        assert_eq!(report(of_author).await, [(own("shop"), 1, 10, 3, 0)], "{name}");
        let of_model = UsageQuery { model: Some(own("none")), ..query(&[UsageGroup::Project]) };
        assert_eq!(report(of_model).await, [], "{name}");
        let later = UsageQuery { first_day: today + 3, ..query(&[UsageGroup::Project]) };
        assert_eq!(report(later).await, [], "{name}");
        let two = UsageQuery { limit: 1, ..query(&[UsageGroup::Project]) };
        assert_eq!(report(two).await.len(), 1, "{name}");
        let models = fixture.store.usage(query(&[UsageGroup::Model])).await.unwrap();
        assert_eq!(
            models.iter().map(|line| line.model.clone()).collect::<Vec<_>>(),
            [Some(own("test/scripted"))],
            "{name}"
        );
    }
}

#[tokio::test]
async fn calls_that_end_after_their_run_are_added_to_the_sums_once() {
    for fixture in all().await {
        let id = fixture.job().await;
        let run = fixture.engine.claim(worker(1), LEASE).await.unwrap().unwrap().lease.run;
        fixture.engine.cancel(&shop(), id).await.unwrap();
        let mut interrupted = model_call(20, Some(7));
        interrupted.data["estimated"] = json!(true);
        fixture.engine.record_late_calls(id, run, vec![model_call(10, Some(5)), interrupted]).await.unwrap();
        let first_day = day(fixture.engine.now());
        let query = UsageQuery { first_day, last_day: first_day, limit: 9, ..UsageQuery::default() };
        let sum = fixture.store.usage(query).await.unwrap()[0].sum;
        let expected = UsageSum {
            runs: 1,
            input_tokens: 30,
            output_tokens: 4,
            cached_tokens: 2,
            cost_micros: 12,
            estimated_micros: 7,
            unpriced: 0,
        };
        assert_eq!(fixture.store.runs(id).await.unwrap()[0].usage.estimated_micros, 7, "{}", fixture.name);
        assert_eq!(sum, expected, "{}", fixture.name);
    }
}
