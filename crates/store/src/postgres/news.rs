//! Notifications between processes about committed changes, with `NOTIFY` and `LISTEN`.
//!
//! A task sends `NOTIFY` after the commit. Inside the transaction it would cost 3 to 6 times as much, because it holds
//! a lock of the whole PostgreSQL server during the commit. While the task sends, further notifications accumulate for
//! its next round. Notifications are only hints: waiters also check the store after a while without one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deadpool_postgres::Pool;
use futures::future::poll_fn;
use journeyman_core::ids::JobId;
use journeyman_core::job::Job;
use journeyman_core::ports::Accepted;
use tokio::sync::Notify;
use tokio_postgres::AsyncMessage;
use tokio_util::task::AbortOnDropHandle;

use super::connect::Connector;
use super::error::PgError;
use super::pipeline::{self, call};
use crate::wakeups::Wakeups;

/// The maximum length of a payload in bytes. PostgreSQL requires less than 8000.
const PAYLOAD: usize = 7900;

/// The pause before the next attempt after an error.
const PAUSE: Duration = Duration::from_millis(500);

/// Notifications about jobs, from this process and others.
#[derive(Debug)]
pub(super) struct News {
    pub(super) wakeups: Arc<Wakeups>,
    /// The last sequence number of each changed job, and whether it may be claimed; not yet sent to other processes.
    pending: Mutex<BTreeMap<JobId, (u64, bool)>>,
    more: Notify,
}

impl News {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { wakeups: Arc::new(Wakeups::new()), pending: Mutex::default(), more: Notify::new() })
    }

    /// Announces an accepted request. A replay changes nothing and is not announced.
    pub(super) fn accepted(&self, accepted: &Accepted) {
        if let Some(job) = &accepted.job {
            self.committed(job);
        }
    }

    /// Announces a committed job.
    pub(super) fn committed(&self, job: &Job) {
        self.wakeups.committed(job);
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.insert(job.id, (job.last_seq, job.may_be_claimed()));
        self.more.notify_one();
    }

    /// Takes the pending notifications as payloads.
    fn take(&self) -> Vec<String> {
        let pending = std::mem::take(&mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner));
        let mut payloads = vec![String::new()];
        for (job, (seq, work)) in pending {
            let line = format!("{job} {seq} {}\n", u8::from(work));
            match payloads.last_mut() {
                Some(last) if last.len() + line.len() <= PAYLOAD => last.push_str(&line),
                _ => payloads.push(line),
            }
        }
        payloads.retain(|payload| !payload.is_empty());
        payloads
    }
}

/// The tasks that send and receive notifications. They end when this is dropped.
#[derive(Debug)]
pub(super) struct Messenger {
    _send: AbortOnDropHandle<()>,
    _receive: AbortOnDropHandle<()>,
}

impl Messenger {
    pub(super) fn start(news: &Arc<News>, pool: Pool, connector: Connector) -> Self {
        let send = tokio::spawn(send_all(Arc::clone(news), pool));
        let receive = tokio::spawn(receive_all(Arc::clone(&news.wakeups), connector));
        Self { _send: AbortOnDropHandle::new(send), _receive: AbortOnDropHandle::new(receive) }
    }
}

async fn send_all(news: Arc<News>, pool: Pool) {
    loop {
        news.more.notified().await;
        let payloads = news.take();
        if payloads.is_empty() {
            continue;
        }
        if let Err(error) = send(&pool, payloads).await {
            tracing::warn!(?error, "cannot notify other processes; they will find the changes at their next check");
            tokio::time::sleep(PAUSE).await;
        }
    }
}

async fn send(pool: &Pool, payloads: Vec<String>) -> Result<(), PgError> {
    let client = pool.get().await?;
    let calls: Vec<_> = payloads.into_iter().map(|text| call!("SELECT pg_notify('journeyman', $1)", text)).collect();
    for chunk in calls.chunks(16) {
        pipeline::run(&client, chunk).await?;
    }
    Ok(())
}

async fn receive_all(wakeups: Arc<Wakeups>, connector: Connector) {
    loop {
        if let Err(error) = receive(&wakeups, &connector).await {
            tracing::warn!(?error, "cannot receive notifications; this process checks for changes periodically");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Receives notifications until the connection is lost.
async fn receive(wakeups: &Wakeups, connector: &Connector) -> Result<(), PgError> {
    let (client, mut connection) = connector.config.connect(connector.tls.clone()).await?;
    let mut begin = std::pin::pin!(client.batch_execute("LISTEN journeyman"));
    let mut listening = false;
    loop {
        let message = tokio::select! {
            begun = &mut begin, if !listening => {
                begun?;
                listening = true;
                // Earlier notifications may have been missed.
                wakeups.wake_all();
                continue;
            }
            message = poll_fn(|context| connection.poll_message(context)) => message,
        };
        match message {
            Some(Ok(AsyncMessage::Notification(news))) => wake(wakeups, news.payload()),
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(error.into()),
            None => return Err(PgError::Lost("the connection was closed".to_owned())),
        }
    }
}

fn wake(wakeups: &Wakeups, payload: &str) {
    for line in payload.lines() {
        let mut words = line.split(' ');
        let (job, seq, work) = (words.next(), words.next(), words.next());
        // Lines in an unknown format come from another version.
        if let (Some(Ok(job)), Some(Ok(seq))) = (job.map(str::parse), seq.map(str::parse)) {
            wakeups.announce(job, seq, work == Some("1"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_notifications_are_split_into_payloads_below_the_limit() {
        let news = News::new();
        let ids: Vec<JobId> = (1..=500).map(|number| JobId::from_uuid(uuid::Uuid::from_u128(number))).collect();
        for id in &ids {
            news.pending.lock().unwrap().insert(*id, (7, true));
        }
        let payloads = news.take();
        assert!(payloads.len() > 1 && payloads.iter().all(|payload| payload.len() < 8000));
        let lines: Vec<String> = payloads.iter().flat_map(|payload| payload.lines()).map(str::to_owned).collect();
        assert_eq!(lines, ids.iter().map(|id| format!("{id} 7 1")).collect::<Vec<_>>());
        assert!(news.take().is_empty());
    }
}
