//! Tests of the exchange, with a shell in the place of git.

use std::path::Path;

use journeyman_git::{Git, Runner};
use journeyman_testkit::{PATIENCE, until_async};

use super::*;

fn shell(script: &str) -> Piped {
    let path = "/usr/local/bin:/usr/bin:/bin".into();
    let git = Git::new(Runner { program: "sh".into(), path, environment: vec![], askpass: None });
    git.command(["-c", script]).spawn().unwrap()
}

/// Returns the body of a request without content.
fn no_content() -> GitBody {
    Box::pin(stream::empty::<io::Result<Bytes>>())
}

/// Returns the received bytes, and whether the body ended without an error.
async fn collect(pieces: Receiver<Piece>) -> (Vec<u8>, bool) {
    let mut body = body(Bytes::new(), pieces);
    let mut all = Vec::new();
    while let Some(piece) = body.next().await {
        match piece {
            Ok(bytes) => all.extend_from_slice(&bytes),
            Err(_) => return (all, false),
        }
    }
    (all, true)
}

async fn wait_for_end(pid: &str) {
    let stat = Path::new("/proc").join(pid).join("stat");
    // A zombie counts as ended: the test does not control who reaps orphans.
    let has_ended = || std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
    until_async(&format!("process {pid} ends"), async || has_ended().then_some(())).await;
}

#[tokio::test]
async fn a_body_is_transferred_completely() {
    let sent: Vec<u8> = (0..1 << 20).map(|number: u32| number.to_le_bytes()[1]).collect();
    let pieces: Vec<io::Result<Bytes>> = sent.chunks(50_000).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    let received = collect(start(shell("cat"), Box::pin(stream::iter(pieces)), PATIENCE, None)).await;
    assert!(received.1 && received.0 == sent);
}

#[tokio::test]
async fn a_process_that_stops_reading_can_still_answer() {
    let endless = stream::repeat_with(|| Ok::<_, io::Error>(Bytes::from_static(&[0; 4096])));
    let received = collect(start(shell("exec <&-; printf no; exit 1"), Box::pin(endless), PATIENCE, None)).await;
    assert_eq!(received, (b"no".to_vec(), true));
}

#[tokio::test]
async fn a_request_that_breaks_off_truncates_the_answer() {
    let broken = stream::iter([Ok(Bytes::from_static(b"half")), Err(io::Error::other("gone"))]);
    let (_, whole) = collect(start(shell("cat; sleep 60"), Box::pin(broken), PATIENCE, None)).await;
    assert!(!whole);
}

#[tokio::test]
async fn an_exchange_without_progress_is_stopped() {
    let (_, whole) =
        collect(start(shell("printf x; exec sleep 60"), no_content(), Duration::from_millis(200), None)).await;
    assert!(!whole, "git sent nothing");
    let never: GitBody = Box::pin(stream::pending::<io::Result<Bytes>>());
    let (_, whole) = collect(start(shell("cat"), never, Duration::from_millis(200), None)).await;
    assert!(!whole, "the client sent nothing");
    for idle in [200, 2_000, 20_000, 200_000].map(Duration::from_millis) {
        let unread = start(shell("echo $$; exec yes"), no_content(), idle, None);
        until_async("the exchange is stopped", async || unread.is_closed().then_some(())).await;
        let (shown, whole) = collect(unread).await;
        assert!(!whole, "the client read nothing");
        // On a slow machine, it may be stopped before the shell has written anything.
        if let Some(pid) = String::from_utf8(shown).unwrap().lines().next() {
            wait_for_end(pid).await;
            return;
        }
    }
    panic!("the shell has written nothing");
}

#[tokio::test]
async fn no_process_outlives_its_answer() {
    let mut pieces = start(shell("sleep 86400 & echo $! $$; wait"), no_content(), PATIENCE, None);
    let Some(Piece::Data(pids)) = pieces.recv().await else { panic!("no answer") };
    drop(pieces);
    for pid in String::from_utf8(pids.to_vec()).unwrap().split_whitespace() {
        wait_for_end(pid).await;
    }
}
