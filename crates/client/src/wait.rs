//! Polling until a job or a message has ended, with more retries than usual.

use std::time::Duration;

use tokio::time::Instant;

use crate::call::Call;
use crate::client::Client;
use crate::error::Error;

/// The shortest time between two requests of a wait, except after a held request. A server that is stopping does not
/// hold requests.
const PAUSE: Duration = Duration::from_millis(500);

/// The number of times that each request of a wait is repeated at least: enough for a restart of the server.
const RETRIES: u32 = 10;

/// The timeout of a wait, and the time at which it ends.
pub(crate) struct Wait {
    timeout: Option<Duration>,
    end: Option<Instant>,
}

impl Wait {
    /// The longest time for which the server holds a request for a job that is active. Many proxies close a connection
    /// that is quiet for a minute.
    pub(crate) const LONGEST_POLL: Duration = Duration::from_secs(30);

    /// The longest time for which the server holds a request while the client waits for a message. The server answers
    /// when the job is no longer active, which can be long after the end of the message if more messages are queued.
    pub(crate) const LONGEST_MESSAGE_POLL: Duration = Duration::from_secs(5);

    pub(crate) fn new(timeout: Option<Duration>) -> Self {
        Self { timeout, end: timeout.and_then(|timeout| Instant::now().checked_add(timeout)) }
    }

    fn left(&self) -> Option<Duration> {
        self.end.map(|end| end.saturating_duration_since(Instant::now()))
    }

    /// Returns the time for which the server may hold the next request, in whole seconds.
    pub(crate) fn hold(&self, longest: Duration) -> Duration {
        let left = self.left().map_or(longest, |left| left.min(longest));
        Duration::from_secs(left.as_secs() + u64::from(left.subsec_nanos() > 0))
    }

    /// Returns a call that is repeated until the end of the wait.
    pub(crate) fn apply<T>(&self, client: &Client, call: Call<T>) -> Call<T> {
        call.max_retries(client.shared.max_retries.max(RETRIES)).deadline(self.end)
    }

    /// Pauses until the next request; the last one, if any, began at `begin`.
    ///
    /// # Errors
    /// The timeout has passed. `what` describes the state for the error, such as "the job … is still active".
    pub(crate) async fn pause(&self, begin: Option<Instant>, what: impl FnOnce() -> String) -> Result<(), Error> {
        let left = self.left();
        if left == Some(Duration::ZERO) {
            let seconds = self.timeout.unwrap_or_default().as_secs();
            return Err(Error::WaitTimeout(format!("{} after {seconds} s", what())));
        }
        let pause = begin.map_or(Duration::ZERO, |begin| PAUSE.saturating_sub(begin.elapsed()));
        tokio::time::sleep(left.map_or(pause, |left| pause.min(left))).await;
        Ok(())
    }
}
