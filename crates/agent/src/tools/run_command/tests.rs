//! Tests of `run_command`, with real processes.

use journeyman_testkit::until_async;
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

/// Returns the identifier of a process, once the command has written it to the file `child`.
fn child(directory: &tempfile::TempDir) -> Option<u32> {
    let line = std::fs::read_to_string(directory.path().join("child")).ok()?;
    line.strip_suffix('\n')?.parse().ok()
}

/// Returns whether a process still runs; a zombie does not.
fn is_alive(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

/// Waits until the process in the file `child` has ended. By itself, it would run for a day.
async fn child_ends(directory: &tempfile::TempDir) {
    let child = child(directory).unwrap();
    until_async("the child ends", async || (!is_alive(child)).then_some(())).await;
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
    let command = "echo started; sleep 86400 & echo $! > child; wait";
    let time_is_up = async {
        until_async("the command starts its child", async || child(&directory)).await;
        // Lets the tool read the output.
        tokio::time::sleep(Duration::from_millis(20)).await;
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(MAX_SECONDS)).await;
        tokio::time::resume();
    };
    let (output, ()) = tokio::join!(run_in(&directory, command, Some(MAX_SECONDS), &cancel), time_is_up);
    let output = output.unwrap();
    assert!(output.failed);
    assert_eq!(output.text, "started\n[The command was stopped after 600 seconds.]");
    child_ends(&directory).await;
}

#[tokio::test]
async fn the_whole_group_dies_at_once_on_cancel() {
    let directory = tempfile::tempdir().unwrap();
    let cancel = CancellationToken::new();
    let canceller = async {
        until_async("the command starts its child", async || child(&directory)).await;
        cancel.cancel();
    };
    let command = "sleep 86400 & echo $! > child; wait";
    let (result, ()) = tokio::join!(run_in(&directory, command, Some(MAX_SECONDS), &cancel), canceller);
    assert!(matches!(result, Err(ToolError::Cancelled)));
    child_ends(&directory).await;
}

#[tokio::test]
async fn a_process_in_the_background_neither_delays_nor_outlives_the_call() {
    let directory = tempfile::tempdir().unwrap();
    let cancel = CancellationToken::new();
    let command = "sleep 86400 & echo $! > child; echo done";
    let output = run_in(&directory, command, Some(MAX_SECONDS), &cancel).await.unwrap();
    assert!(!output.failed, "the call ends before its time is up");
    assert_eq!(output.text, "done");
    child_ends(&directory).await;
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
