//! The timeouts of a write. A write that has not started in time is withdrawn, and its caller learns that nothing was
//! stored. A write that has started is awaited longer; if it does not finish either, its outcome is unknown.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use journeyman_core::ports::StoreError;
use tokio::sync::oneshot;

/// The maximum time that a write waits in the queue, so that clients get an answer before they give up.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum time that a started write may take after [`QUEUE_TIMEOUT`].
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

const WAITING: u8 = 0;
const STARTED: u8 = 1;
const WITHDRAWN: u8 = 2;

/// The state of a queued write, shared by both sides of the queue.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ticket(Arc<AtomicU8>);

impl Ticket {
    /// Marks the write as started, and returns whether it should run, which is false if it was withdrawn. A started
    /// write cannot be withdrawn. Idempotent.
    pub(crate) fn begin(&self) -> bool {
        self.0.compare_exchange(WAITING, STARTED, Ordering::SeqCst, Ordering::SeqCst) != Err(WITHDRAWN)
    }

    fn withdraw(&self) -> bool {
        self.0.compare_exchange(WAITING, WITHDRAWN, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Waits for the answer to a write, or withdraws the write.
    pub(crate) async fn wait<T, E: From<StoreError>>(
        &self,
        mut answer: oneshot::Receiver<Result<T, E>>,
    ) -> Result<T, E> {
        let stopped = |_| Err(E::from(StoreError::Unavailable("the store was closed".to_owned())));
        if let Ok(answered) = tokio::time::timeout(QUEUE_TIMEOUT, &mut answer).await {
            return answered.unwrap_or_else(stopped);
        }
        if self.withdraw() {
            return Err(StoreError::Busy.into());
        }
        match tokio::time::timeout(WRITE_TIMEOUT, answer).await {
            Ok(answered) => answered.unwrap_or_else(stopped),
            Err(_) => Err(StoreError::Unknown("the write did not finish in time".to_owned()).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_write_that_has_not_started_is_withdrawn_and_a_started_write_is_awaited() {
        let (_open, answer) = oneshot::channel::<Result<u8, StoreError>>();
        let ticket = Ticket::default();
        assert_eq!(ticket.wait(answer).await, Err(StoreError::Busy));
        assert!(!ticket.begin(), "a withdrawn write must not run");

        let (reply, answer) = oneshot::channel::<Result<u8, StoreError>>();
        let ticket = Ticket::default();
        assert!(ticket.begin() && ticket.begin());
        tokio::spawn(async move {
            tokio::time::sleep(QUEUE_TIMEOUT * 2).await;
            reply.send(Ok(7))
        });
        assert_eq!(ticket.wait(answer).await, Ok(7));

        let (_open, answer) = oneshot::channel::<Result<u8, StoreError>>();
        let ticket = Ticket::default();
        ticket.begin();
        assert!(matches!(ticket.wait(answer).await, Err(StoreError::Unknown(_))));
    }
}
