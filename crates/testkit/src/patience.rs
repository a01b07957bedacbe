//! Waiting in tests. A test never asserts how long something takes: it waits until it happens, and only a hang reaches the
//! limit, however slow the machine is.

use std::time::{Duration, Instant};

/// The time after which a test counts as hanging.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// The pause between two checks.
const PAUSE: Duration = Duration::from_millis(20);

/// Waits until `check` returns a value, and returns it; `what` describes the condition for the error.
pub fn until<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = check() {
            return value;
        }
        assert!(Instant::now() < end, "this has not happened within {} s: {what}", PATIENCE.as_secs());
        std::thread::sleep(PAUSE);
    }
}

/// Waits for a future, and returns its output; `what` describes it for the error.
pub async fn within<F: Future>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(output) => output,
        Err(_) => panic!("this has not happened within {} s: {what}", PATIENCE.as_secs()),
    }
}

/// Like [`until`], between the tasks of an async runtime.
pub async fn until_async<T>(what: &str, mut check: impl AsyncFnMut() -> Option<T>) -> T {
    within(what, async {
        loop {
            if let Some(value) = check().await {
                return value;
            }
            tokio::time::sleep(PAUSE).await;
        }
    })
    .await
}
