//! How long a write is waited for. One that has not begun when its time is over is taken back, and answered: nothing was
//! stored. One that has begun is waited for; if it does not end either, nobody can say what became of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use journeyman_core::ports::StoreError;
use tokio::sync::oneshot;

/// How long a write may wait for its turn: a client that hears nothing for longer thinks the worst.
const TURN: Duration = Duration::from_secs(5);

/// How long one that has begun may take.
const END: Duration = Duration::from_secs(60);

const WAITING: u8 = 0;
const BEGUN: u8 = 1;
const TAKEN_BACK: u8 = 2;

/// Held by both sides of the queue.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ticket(Arc<AtomicU8>);

impl Ticket {
    /// Whether the write is to be done; from then on it is not taken back. Again is the same as once.
    pub(crate) fn begin(&self) -> bool {
        self.0.compare_exchange(WAITING, BEGUN, Ordering::SeqCst, Ordering::SeqCst) != Err(TAKEN_BACK)
    }

    fn take_back(&self) -> bool {
        self.0.compare_exchange(WAITING, TAKEN_BACK, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Waits for the answer to a write, or takes it back.
    pub(crate) async fn wait<T, E: From<StoreError>>(
        &self,
        mut answer: oneshot::Receiver<Result<T, E>>,
    ) -> Result<T, E> {
        let stopped = |_| Err(E::from(StoreError::Unavailable("the store was closed".to_owned())));
        if let Ok(answered) = tokio::time::timeout(TURN, &mut answer).await {
            return answered.unwrap_or_else(stopped);
        }
        if self.take_back() {
            return Err(StoreError::Busy.into());
        }
        match tokio::time::timeout(END, answer).await {
            Ok(answered) => answered.unwrap_or_else(stopped),
            Err(_) => Err(StoreError::Unknown("the write did not end in time".to_owned()).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_write_that_has_not_begun_is_taken_back_and_one_that_has_is_waited_for() {
        let (_open, answer) = oneshot::channel::<Result<u8, StoreError>>();
        let ticket = Ticket::default();
        assert_eq!(ticket.wait(answer).await, Err(StoreError::Busy));
        assert!(!ticket.begin(), "it must not be done any more");

        let (reply, answer) = oneshot::channel::<Result<u8, StoreError>>();
        let ticket = Ticket::default();
        assert!(ticket.begin() && ticket.begin());
        tokio::spawn(async move {
            tokio::time::sleep(TURN * 2).await;
            reply.send(Ok(7))
        });
        assert_eq!(ticket.wait(answer).await, Ok(7));

        let (_open, answer) = oneshot::channel::<Result<u8, StoreError>>();
        let ticket = Ticket::default();
        ticket.begin();
        assert!(matches!(ticket.wait(answer).await, Err(StoreError::Unknown(_))));
    }
}
