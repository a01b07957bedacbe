//! Tests of `run_command`, with real processes.

use std::time::Instant;

use tokio_util::sync::CancellationToken;

use super::*;

async fn run_in(
    directory: &tempfile::TempDir,
    command: &str,
    timeout_seconds: Option<u64>,
    cancel: &CancellationToken,
) -> Result<ToolOutput, ToolError> {
    let workspace = Workspace::open(directory.path()).unwrap();
    let args = Args { command: command.to_owned(), timeout_seconds };
    let context = Context { workspace: &workspace, cancel };
    run(&args, &context).await
}

/// Returns whether the process whose identifier was written to `file` still runs; a zombie does not.
fn is_alive(directory: &tempfile::TempDir, file: &str) -> bool {
    let number = std::fs::read_to_string(directory.path().join(file)).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", number.trim())).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

async fn dies(directory: &tempfile::TempDir, file: &str) -> bool {
    for _ in 0..100 {
        if !is_alive(directory, file) {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    false
}

#[tokio::test]
async fn both_outputs_are_captured_in_the_working_directory() {
    let directory = tempfile::tempdir().unwrap();
    let cancel = CancellationToken::new();
    let output = run_in(&directory, "pwd; echo to-stderr >&2; cat", None, &cancel).await.unwrap();
    assert!(!output.failed);
    assert!(output.text.contains("to-stderr"), "{}", output.text);
    let name = directory.path().file_name().unwrap().to_string_lossy().into_owned();
    assert!(output.text.contains(&name), "{}", output.text);
}

#[tokio::test]
async fn a_failing_command_is_a_failed_output() {
    let directory = tempfile::tempdir().unwrap();
    let cancel = CancellationToken::new();
    let output = run_in(&directory, "echo before; exit 3", None, &cancel).await.unwrap();
    assert!(output.failed);
    assert_eq!(output.text, "before\n[The command failed: exit status: 3.]");
    let silent = run_in(&directory, "true", None, &cancel).await.unwrap();
    assert_eq!(silent.text, "[The command succeeded without output.]");
}

#[tokio::test]
async fn the_whole_group_dies_when_the_time_is_up() {
    let directory = tempfile::tempdir().unwrap();
    let cancel = CancellationToken::new();
    let command = "sleep 100 & echo $! > child; echo started; wait";
    let output = run_in(&directory, command, Some(1), &cancel).await.unwrap();
    assert!(output.failed);
    assert_eq!(output.text, "started\n[The command was stopped after 1 seconds.]");
    assert!(dies(&directory, "child").await);
}

#[tokio::test]
async fn the_whole_group_dies_at_once_on_cancel() {
    let directory = tempfile::tempdir().unwrap();
    let cancel = CancellationToken::new();
    let begin = Instant::now();
    let canceller = cancel.clone();
    let (result, ()) =
        tokio::join!(run_in(&directory, "sleep 100 & echo $! > child; wait", None, &cancel), async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            canceller.cancel();
        });
    assert!(matches!(result, Err(ToolError::Cancelled)));
    assert!(begin.elapsed() < Duration::from_secs(5));
    assert!(dies(&directory, "child").await);
}

#[tokio::test]
async fn a_process_in_the_background_neither_delays_nor_outlives_the_call() {
    let directory = tempfile::tempdir().unwrap();
    let cancel = CancellationToken::new();
    let begin = Instant::now();
    let output = run_in(&directory, "sleep 100 & echo $! > child; echo done", None, &cancel).await.unwrap();
    assert_eq!(output.text, "done");
    assert!(begin.elapsed() < Duration::from_secs(10));
    assert!(dies(&directory, "child").await);
}

#[test]
fn long_output_keeps_its_start_and_its_end() {
    let mut capture = Capture::default();
    capture.push(&vec![b'a'; HEAD_BYTES]);
    for _ in 0..100 {
        capture.push(&[b'b'; 999]);
    }
    capture.push(&vec![b'c'; TAIL_BYTES]);
    let text = capture.into_text();
    assert!(text.starts_with(&"a".repeat(HEAD_BYTES)));
    assert!(text.contains("\n[… 99900 bytes left out …]\n"));
    assert!(text.ends_with(&"c".repeat(TAIL_BYTES)));
}

#[test]
fn output_up_to_the_limit_is_whole() {
    let mut capture = Capture::default();
    capture.push(&vec![b'x'; MAX_OUTPUT_BYTES]);
    assert_eq!(capture.into_text(), "x".repeat(MAX_OUTPUT_BYTES));
}
