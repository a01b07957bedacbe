//! Tests that a blob store or a sandbox which fails between the agent's answer and the record of the turn costs no turn
//! and no message.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use journeyman_blobs::Folder;
use journeyman_core::ids::JobId;
use journeyman_core::job::JobStatus;
use journeyman_core::message::MessageStatus;
use journeyman_core::ports::Blobs;
use journeyman_core::project::Settings;
use journeyman_core::run::ReasonCode;
use journeyman_testkit::{BlobFault, FaultyBlobs, until_async};
use journeyman_worker::{IdleAgentLimits, Limits};

use super::fixtures::{Harness, idle, idle_with_blobs};
use super::sandbox::STAYS;

/// Returns a prompt that counts itself in `prompts`, and appends a line to the file `a`.
fn counted(harness: &Harness, line: usize) -> String {
    format!("[[run echo {line} >> {}]] [[append a|{line}]]", harness.shared_dir().join("prompts").display())
}

/// Returns the lines that the prompts have counted.
fn prompts(harness: &Harness) -> Vec<String> {
    let text = std::fs::read_to_string(harness.shared_dir().join("prompts")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Waits until the job waits for the storage.
async fn until_waiting(harness: &Harness, job: JobId) {
    let (code, text) = harness.settled_or_waiting(job).await;
    assert_eq!(code, ReasonCode::StorageUnavailable, "{text}");
    let now = harness.job(job).await;
    assert!(now.has_unrecorded_work(), "{:?}", now.state);
}

/// Checks that each of the messages took effect once and was prompted once.
async fn check(harness: &Harness, job: JobId, messages: usize) {
    let now = harness.settled(job).await;
    assert_eq!(now.status(), JobStatus::Completed, "{:?}", now.state);
    let lines: Vec<String> = (1..=messages).map(|line| line.to_string()).collect();
    assert_eq!(prompts(harness), lines, "each message was prompted once");
    let file = harness.file(&now.branch.unwrap().name, "a").await.unwrap();
    assert_eq!(file.lines().collect::<Vec<_>>(), lines, "each message took effect once");
    let messages = harness.messages(job).await;
    assert!(messages.iter().all(|message| message.status == MessageStatus::Finished), "{messages:?}");
    assert!(messages.iter().all(|message| message.commits.len() == 1), "{messages:?}");
}

#[tokio::test]
async fn a_blob_store_that_fails_in_any_way_after_the_answer_costs_no_turn() {
    let blobs: Arc<std::sync::OnceLock<Arc<FaultyBlobs>>> = Arc::default();
    let known = Arc::clone(&blobs);
    let harness = idle_with_blobs(Settings::default(), IdleAgentLimits::NONE, |folder| {
        let faulty = Arc::new(FaultyBlobs::new(Arc::new(Folder::new(folder.to_owned(), true))));
        Arc::clone(known.get_or_init(|| faulty)) as Arc<dyn Blobs>
    })
    .await;
    let blobs = blobs.get().unwrap();
    harness.start_worker(1, Limits::default());
    let faults = [BlobFault::Writes, BlobFault::WritesAfterTaking, BlobFault::LostAnswers, BlobFault::Everything];
    blobs.set(Some(faults[0]));
    let job = harness.create(&counted(&harness, 1)).await;
    for (number, fault) in (1..).zip(faults) {
        if number > 1 {
            blobs.set(Some(fault));
            harness.send(job, &counted(&harness, number)).await;
        }
        until_waiting(&harness, job).await;
        harness.engine.retry(&harness.project.id, job).await.unwrap();
        until_async("another attempt fails", async || (blobs.failures() >= 2).then_some(())).await;
        blobs.set(None);
        until_async("the job waits or works", async || harness.job(job).await.waiting().is_some().then_some(())).await;
        harness.engine.retry(&harness.project.id, job).await.unwrap();
        check(&harness, job, number).await;
    }
    assert_eq!(harness.count(job, "message.waiting").await, faults.len());
    assert_eq!(harness.count(job, "checkout.incomplete").await, 0);
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_after_the_answer_costs_no_turn() {
    let harness = idle(Settings::default()).await;
    harness.start_worker(1, Limits::default());
    let folder = harness.dir.path().join("blobs");
    let job = harness.create(&counted(&harness, 1)).await;
    check(&harness, job, 1).await;
    let away = harness.dir.path().join("away");
    // Root may write to a read-only folder, but nothing can write to these.
    let replacements: [fn(&Path); 3] = [
        |path| std::fs::write(path, "a file").unwrap(),
        |path| std::os::unix::fs::symlink("/proc/self", path).unwrap(),
        |path| std::os::unix::fs::symlink(path, path).unwrap(),
    ];
    for (number, replace) in (2..).zip(replacements) {
        std::fs::rename(&folder, &away).unwrap();
        replace(&folder);
        harness.send(job, &counted(&harness, number)).await;
        until_waiting(&harness, job).await;
        std::fs::remove_file(&folder).unwrap();
        std::fs::rename(&away, &folder).unwrap();
        harness.engine.retry(&harness.project.id, job).await.unwrap();
        check(&harness, job, number).await;
    }
}

#[tokio::test]
async fn a_restarted_worker_collects_the_turn_that_waits_for_the_storage() {
    let harness = idle(Settings::default()).await;
    harness.shared_blobs.set(Some(BlobFault::Writes));
    let one = harness.start_machine("one", Limits::default());
    let job = harness.create(&counted(&harness, 1)).await;
    until_waiting(&harness, job).await;
    one.abort();
    harness.shared_blobs.set(None);
    harness.start_machine("one", Limits::default());
    check(&harness, job, 1).await;
}

#[tokio::test]
async fn the_end_of_a_turn_is_recorded_before_its_agent_is_ended() {
    let harness = idle(Settings::default()).await;
    let stays = harness.shared_dir().join(STAYS);
    harness.start_worker(1, Limits::default());
    let job = harness.create(&format!("{} {}", harness.hold("work"), counted(&harness, 1))).await;
    let session = harness.dir.path().join("workspaces").join(job.to_string()).join("session");
    until_async("the agent works", async || session.exists().then_some(())).await;
    std::fs::write(&stays, "").unwrap();
    harness.release("work");
    let is_asked = async || stays.with_extension("asked").exists().then_some(());
    until_async("the agent is asked to end", is_asked).await;
    assert!(harness.job(job).await.has_unrecorded_work(), "the end of the turn is recorded before the agent is ended");
    std::fs::remove_file(&stays).unwrap();
    check(&harness, job, 1).await;
}

#[tokio::test]
async fn an_outage_while_left_out_files_and_large_objects_are_stored_costs_no_turn() {
    let mut settings = Settings::default();
    settings.limits.file_bytes = Some(100_000);
    let harness = idle(settings).await;
    harness.start_machine("one", Limits::default());
    let large = "[[run head -c 200000 /dev/zero > large]]";
    let pointer = "[[write .gitattributes|*.bin filter=lfs diff=lfs merge=lfs -text]] [[write x.bin|content]]";
    for (number, more, fault) in [(1, large, BlobFault::Writes), (2, pointer, BlobFault::WritesAfterTaking)] {
        harness.shared_blobs.set(Some(fault));
        let prompt = format!("{} {more}", counted(&harness, 1));
        std::fs::remove_file(harness.shared_dir().join("prompts")).ok();
        let job = harness.create(&prompt).await;
        until_waiting(&harness, job).await;
        assert_eq!(harness.count(job, "changes.left_out").await, 0, "told when it is stored");
        harness.shared_blobs.set(None);
        harness.engine.retry(&harness.project.id, job).await.unwrap();
        check(&harness, job, 1).await;
        let branch = harness.job(job).await.branch.unwrap().name;
        if number == 1 {
            assert_eq!(harness.count(job, "changes.left_out").await, 1);
            assert_eq!(harness.file(&branch, "large").await, None);
        } else {
            let pointer = harness.file(&branch, "x.bin").await.unwrap();
            assert!(pointer.starts_with("version https://git-lfs.github.com/spec/v1"), "{pointer}");
        }
    }
}

#[tokio::test]
async fn without_a_marker_a_turn_is_finished_in_its_run_and_repeated_after_an_outage() {
    let harness = idle(Settings::default()).await;
    harness.start_machine("one", Limits::default());
    let waits = |number| format!("{} {}", harness.hold(number), counted(&harness, 1));
    // Nothing can replace a folder with a file.
    let block = async |job: JobId| {
        let marker = harness.dir.path().join("one/workspaces").join(job.to_string()).join("marker.json");
        until_async("the agent works", async || marker.parent().unwrap().join("session").exists().then_some(())).await;
        std::fs::create_dir_all(marker.join("is-a-folder")).unwrap();
        marker
    };
    let job = harness.create(&waits("first")).await;
    block(job).await;
    harness.release("first");
    check(&harness, job, 1).await;
    // The rebuilt workspace may get another user.
    let counts = harness.shared_dir().join("prompts");
    std::fs::write(&counts, "").unwrap();
    std::fs::set_permissions(&counts, Permissions::from_mode(0o666)).unwrap();
    let job = harness.create(&waits("second")).await;
    let marker = block(job).await;
    harness.shared_blobs.set(Some(BlobFault::Writes));
    harness.release("second");
    let (code, text) = harness.settled_or_waiting(job).await;
    assert_eq!(code, ReasonCode::StorageUnavailable, "{text}");
    assert!(!harness.job(job).await.has_unrecorded_work(), "the work is not kept");
    std::fs::remove_dir_all(marker).unwrap();
    harness.shared_blobs.set(None);
    harness.engine.retry(&harness.project.id, job).await.unwrap();
    let now = harness.settled(job).await;
    assert_eq!((now.status(), prompts(&harness)), (JobStatus::Completed, vec!["1".to_owned(), "1".to_owned()]));
}

#[tokio::test]
async fn another_machine_prompts_again_and_says_so() {
    let harness = idle(Settings::default()).await;
    harness.shared_blobs.set(Some(BlobFault::Writes));
    let one = harness.start_machine("one", Limits::default());
    let job = harness.create(&counted(&harness, 1)).await;
    until_waiting(&harness, job).await;
    one.abort();
    harness.shared_blobs.set(None);
    harness.start_machine("two", Limits::default());
    let now = harness.settled(job).await;
    assert_eq!((now.status(), prompts(&harness)), (JobStatus::Completed, vec!["1".to_owned(), "1".to_owned()]));
    assert_eq!(harness.file(&now.branch.unwrap().name, "a").await.as_deref(), Some("1\n"));
    assert_eq!(harness.count(job, "checkout.incomplete").await, 1, "the lost turn is told");
}

#[tokio::test]
async fn an_interrupting_message_waits_for_a_turn_that_has_ended() {
    let harness = idle(Settings::default()).await;
    harness.shared_blobs.set(Some(BlobFault::Writes));
    harness.start_machine("one", Limits::default());
    let job = harness.create(&counted(&harness, 1)).await;
    until_waiting(&harness, job).await;
    let delivery = journeyman_core::message::DeliveryMode::Interrupt;
    harness.send_with(job, &counted(&harness, 2), delivery).await;
    harness.shared_blobs.set(None);
    harness.engine.retry(&harness.project.id, job).await.unwrap();
    check(&harness, job, 2).await;
}

#[tokio::test]
async fn a_cancelled_message_that_waits_for_the_storage_keeps_its_answer() {
    let harness = idle(Settings::default()).await;
    harness.shared_blobs.set(Some(BlobFault::Everything));
    harness.start_machine("one", Limits::default());
    let job = harness.create("[[write a|1]] [[say the answer]]").await;
    until_waiting(&harness, job).await;
    harness.engine.cancel(&harness.project.id, job).await.unwrap();
    let message = harness.messages(job).await.remove(0);
    assert_eq!(message.status, MessageStatus::Cancelled);
    assert!(message.answer.is_some_and(|answer| answer.contains("the answer")));
    harness.shared_blobs.set(None);
    harness.send(job, "[[append b|2]]").await;
    let now = harness.settled(job).await;
    assert_eq!(now.status(), JobStatus::Completed, "{:?}", now.state);
    let branch = now.branch.unwrap().name;
    assert_eq!(harness.file(&branch, "a").await, None, "the work of the cancelled message is discarded");
    assert_eq!(harness.file(&branch, "b").await.as_deref(), Some("2\n"));
}
