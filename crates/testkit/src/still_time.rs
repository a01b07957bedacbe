//! Paused time that stands still while a store writes.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use journeyman_core::ports::StoreError;

use crate::tapped::{StoreCall, Tap, Tapped};

/// Lets paused time stand still while a store writes. Tokio advances a paused clock as soon as all tasks wait, even if
/// one of them waits for the thread that writes; it does not do so while a blocking task runs.
#[derive(Debug, Default)]
pub struct StillTime(Mutex<Vec<Sender<()>>>);

impl StillTime {
    /// Wraps a store for tests that pause the time.
    pub fn over<S: ?Sized>(store: Arc<S>) -> Tapped<S, Self> {
        Tapped::new(store, Arc::default())
    }
}

#[async_trait]
impl Tap for StillTime {
    async fn before(&self, call: StoreCall<'_>) -> Result<(), StoreError> {
        if !matches!(call, StoreCall::Read) {
            let (release, released) = channel::<()>();
            tokio::task::spawn_blocking(move || released.recv());
            self.0.lock().unwrap().push(release);
        }
        Ok(())
    }

    async fn after(&self, _: StoreCall<'_>) -> Result<(), StoreError> {
        // The blocking task ends when its sender is dropped. It does not matter which of them ends.
        self.0.lock().unwrap().pop();
        Ok(())
    }

    async fn woken(&self) {}
}
