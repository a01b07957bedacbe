//! Tells the other processes what was committed, and hears it from them, by `NOTIFY` and `LISTEN`.
//!
//! `NOTIFY` is sent after the commit and not in it (inside, it costs 3 to 6 times: a lock of all PostgreSQL is held
//! through the commit), by a task that sends what has gathered while it was sending. A hint and no more: whoever waits
//! looks at the store after a while anyway.

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

/// Bytes that a notification may have at most: PostgreSQL takes less than 8000.
const PAYLOAD: usize = 7900;

/// How long to wait before connecting again.
const PAUSE: Duration = Duration::from_millis(500);

/// News of jobs, from here and elsewhere.
#[derive(Debug)]
pub(super) struct News {
    pub(super) wakeups: Arc<Wakeups>,
    untold: Mutex<BTreeMap<JobId, (u64, bool)>>,
    more: Notify,
}

impl News {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { wakeups: Arc::new(Wakeups::new()), untold: Mutex::default(), more: Notify::new() })
    }

    /// A request was accepted; a replay is no news.
    pub(super) fn accepted(&self, accepted: &Accepted) {
        if let Some(job) = &accepted.job {
            self.committed(job);
        }
    }

    /// A job was written.
    pub(super) fn committed(&self, job: &Job) {
        self.wakeups.committed(job);
        let mut untold = self.untold.lock().unwrap_or_else(PoisonError::into_inner);
        untold.insert(job.id, (job.last_seq, job.may_be_claimed()));
        self.more.notify_one();
    }

    /// What gathered, as payloads.
    fn take(&self) -> Vec<String> {
        let untold = std::mem::take(&mut *self.untold.lock().unwrap_or_else(PoisonError::into_inner));
        let mut payloads = vec![String::new()];
        for (job, (seq, work)) in untold {
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

/// The tasks; they end with this.
#[derive(Debug)]
pub(super) struct Messenger {
    _speak: AbortOnDropHandle<()>,
    _listen: AbortOnDropHandle<()>,
}

impl Messenger {
    pub(super) fn start(news: &Arc<News>, pool: Pool, connector: Connector) -> Self {
        let speak = tokio::spawn(speak(Arc::clone(news), pool));
        let listen = tokio::spawn(listen(Arc::clone(&news.wakeups), connector));
        Self { _speak: AbortOnDropHandle::new(speak), _listen: AbortOnDropHandle::new(listen) }
    }
}

async fn speak(news: Arc<News>, pool: Pool) {
    loop {
        news.more.notified().await;
        let payloads = news.take();
        if payloads.is_empty() {
            continue;
        }
        if let Err(error) = send(&pool, payloads).await {
            // Those who would have heard of it look for themselves after a while.
            tracing::warn!(?error, "other processes could not be told of news");
            tokio::time::sleep(PAUSE).await;
        }
    }
}

async fn send(pool: &Pool, payloads: Vec<String>) -> Result<(), PgError> {
    let client = pool.get().await?;
    let calls: Vec<_> = payloads.into_iter().map(|text| call!("SELECT pg_notify('journeyman', $1)", text)).collect();
    for some in calls.chunks(16) {
        pipeline::run(&client, some).await?;
    }
    Ok(())
}

async fn listen(wakeups: Arc<Wakeups>, connector: Connector) {
    loop {
        if let Err(error) = hear(&wakeups, &connector).await {
            tracing::warn!(?error, "news of other processes cannot be heard; work is looked for now and then");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Hears news until the connection is lost.
async fn hear(wakeups: &Wakeups, connector: &Connector) -> Result<(), PgError> {
    let (client, mut connection) = connector.config.connect(connector.tls.clone()).await?;
    let mut begin = std::pin::pin!(client.batch_execute("LISTEN journeyman"));
    let mut listening = false;
    loop {
        let message = tokio::select! {
            begun = &mut begin, if !listening => {
                begun?;
                listening = true;
                // What was told before nobody has heard.
                wakeups.everyone();
                continue;
            }
            message = poll_fn(|context| connection.poll_message(context)) => message,
        };
        match message {
            Some(Ok(AsyncMessage::Notification(news))) => tell(wakeups, news.payload()),
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(error.into()),
            None => return Err(PgError::Lost("the connection was closed".to_owned())),
        }
    }
}

fn tell(wakeups: &Wakeups, payload: &str) {
    for line in payload.lines() {
        let mut words = line.split(' ');
        let (job, seq, work) = (words.next(), words.next(), words.next());
        // A line that another version writes in another way is not for us.
        if let (Some(Ok(job)), Some(Ok(seq))) = (job.map(str::parse), seq.map(str::parse)) {
            wakeups.news(job, seq, work == Some("1"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_of_many_jobs_are_told_in_payloads_that_the_server_takes() {
        let news = News::new();
        let ids: Vec<JobId> = (1..=500).map(|number| JobId::from_uuid(uuid::Uuid::from_u128(number))).collect();
        for id in &ids {
            news.untold.lock().unwrap().insert(*id, (7, true));
        }
        let payloads = news.take();
        assert!(payloads.len() > 1 && payloads.iter().all(|payload| payload.len() < 8000));
        let told: Vec<String> = payloads.iter().flat_map(|payload| payload.lines()).map(str::to_owned).collect();
        assert_eq!(told, ids.iter().map(|id| format!("{id} 7 1")).collect::<Vec<_>>());
        assert!(news.take().is_empty());
    }
}
