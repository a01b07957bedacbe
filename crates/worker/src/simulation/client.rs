//! A client with one job, which records every answer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use journeyman_core::engine::{Admission, Engine, NewJob, Prompt};
use journeyman_core::idempotency::{Claim, Fingerprint};
use journeyman_core::ids::{JobId, MessageId};
use journeyman_core::message::{DeliveryMode, Origin};
use journeyman_core::ports::{Accepted, JobStore, StoreError, UpdateError};
use journeyman_core::project::Project;
use journeyman_core::time::{Clock, IdGen};
use journeyman_store::MemoryStore;
use journeyman_testkit::Tapped;

use super::machine::MachineProcess;
use super::world::World;

/// A client's knowledge of whether its message was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Acceptance {
    Accepted,
    Refused,
    /// The answer was lost.
    Unclear,
}

/// A message as it was sent.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) author: String,
    pub(super) delivery: DeliveryMode,
    pub(super) acceptance: Acceptance,
}

/// A client's record of its job and its messages.
#[derive(Debug)]
pub(super) struct ClientRecord {
    pub(super) job: JobId,
    pub(super) sent: Vec<Sent>,
}

pub(super) struct Client {
    world: Arc<World>,
    store: Arc<MemoryStore>,
    engine: Engine,
    project: Project,
    number: usize,
    count: usize,
}

impl Client {
    pub(super) fn new(world: Arc<World>, store: Arc<MemoryStore>, project: Project, number: usize) -> Self {
        // A machine that serves the interface. It never crashes as a whole, but each request may be lost.
        let process = MachineProcess::new(Arc::clone(&world), Arc::new(Mutex::default()), number);
        process.disable_crashes();
        let tapped = Arc::new(Tapped::new(Arc::clone(&store), Arc::clone(&process)));
        let engine = Engine::new(tapped, process as Arc<dyn Clock>, Arc::clone(&world) as Arc<dyn IdGen>);
        Self { world, store, engine, project, number, count: 0 }
    }

    /// Creates a job, and sends random requests about it while there are faults.
    pub(super) async fn work(mut self) -> ClientRecord {
        let (prompt, admission) = (self.prompt(DeliveryMode::Queue), self.admission());
        let first = Sent {
            author: prompt.author.clone().unwrap(),
            delivery: DeliveryMode::Queue,
            acceptance: Acceptance::Accepted,
        };
        let job = loop {
            let new = NewJob::new(prompt.clone());
            if let Ok(accepted) = self.engine.create_job(&self.project, new, admission.clone()).await {
                break accepted.record.id;
            }
            self.pause(2).await;
        };
        let mut record = ClientRecord { job, sent: vec![first] };
        while self.world.has_faults() {
            match self.world.number(100) {
                0..50 => self.send(&mut record, DeliveryMode::Queue).await,
                50..58 => self.send(&mut record, DeliveryMode::Interrupt).await,
                58..62 => self.send(&mut record, DeliveryMode::Reject).await,
                62..66 => self.withdraw(job).await,
                66..69 => self.log(job, "cancel", self.engine.cancel(&self.project.id, job).await),
                69..71 => self.log(job, "archive", self.engine.archive(&self.project.id, job).await),
                71..85 => self.log(job, "unarchive", self.engine.unarchive(&self.project.id, job).await),
                _ => {}
            }
            self.pause(40).await;
        }
        record
    }

    async fn pause(&self, seconds: u64) {
        tokio::time::sleep(self.world.up_to(Duration::from_secs(seconds))).await;
    }

    fn log(&self, job: JobId, what: &str, answer: Result<Accepted, UpdateError>) {
        let answer = answer.map(|accepted| accepted.record.status);
        self.world.log(format!("client {}: {what} {job}: {answer:?}", self.number));
    }

    /// Returns a message that asks for a random number of steps, with a unique author.
    fn prompt(&mut self, delivery: DeliveryMode) -> Prompt {
        self.count += 1;
        let author = Some(format!("c{}m{}", self.number, self.count));
        Prompt {
            text: self.world.number(4).to_string(),
            origin: Origin::Api,
            author,
            key: None,
            delivery,
            traceparent: None,
            source: None,
        }
    }

    fn admission(&self) -> Admission {
        let key = format!("c{}m{}", self.number, self.count);
        let fingerprint = Fingerprint::of("message", key.as_bytes());
        Admission {
            idempotency: Some(Claim {
                project: Some(self.project.id.clone()),
                caller: "client".to_owned(),
                key,
                fingerprint,
            }),
            limit: 0,
        }
    }

    async fn send(&mut self, record: &mut ClientRecord, delivery: DeliveryMode) {
        let prompt = self.prompt(delivery);
        let retries = self.world.happens(2);
        let admission = if retries { self.admission() } else { Admission::default() };
        let acceptance = loop {
            let sent = self.engine.add_message(&self.project.id, record.job, prompt.clone(), admission.clone()).await;
            self.log(record.job, &format!("{:?} {delivery:?}", prompt.author), sent.clone());
            match sent {
                Ok(_) => break Acceptance::Accepted,
                Err(UpdateError::Store(_)) if retries => self.pause(5).await,
                Err(UpdateError::Store(StoreError::Unknown(_))) => break Acceptance::Unclear,
                Err(_) => break Acceptance::Refused,
            }
        };
        record.sent.push(Sent { author: prompt.author.unwrap(), delivery, acceptance });
    }

    async fn withdraw(&self, job: JobId) {
        let queue: Vec<MessageId> = self.store.job(job).await.unwrap().unwrap().queue;
        if let Some(last) = queue.last() {
            let answer = self.engine.withdraw(&self.project.id, job, *last).await;
            self.log(job, &format!("withdraw {last}"), answer);
        }
    }
}
