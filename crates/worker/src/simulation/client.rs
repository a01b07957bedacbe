//! A client with one job, who writes down every answer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use journeyman_core::engine::{Admission, Engine, NewJob, Prompt};
use journeyman_core::idempotency::{Claim, Fingerprint};
use journeyman_core::ids::{JobId, MessageId};
use journeyman_core::job::JobOptions;
use journeyman_core::message::{DeliveryMode, Origin};
use journeyman_core::ports::{Accepted, JobStore, Store, StoreError, UpdateError};
use journeyman_core::project::Project;
use journeyman_core::time::{Clock, IdGen};
use journeyman_store::MemoryStore;
use journeyman_testkit::Tapped;

use super::machine::Life;
use super::world::World;

/// What a client knows of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    Accepted,
    Refused,
    /// There was no answer.
    Unclear,
}

/// A message as it was sent.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) author: String,
    pub(super) delivery: DeliveryMode,
    pub(super) known: Known,
}

/// What a client remembers.
#[derive(Debug)]
pub(super) struct Memory {
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
        // A machine that serves the interface: it never dies as a whole, each request may be lost.
        let life = Life::new(Arc::clone(&world), Arc::new(Mutex::default()), number);
        life.serves_only();
        let tapped: Arc<dyn Store> = Arc::new(Tapped::new(Arc::clone(&store) as Arc<dyn Store>, Arc::clone(&life)));
        let engine = Engine::new(tapped, life as Arc<dyn Clock>, Arc::clone(&world) as Arc<dyn IdGen>);
        Self { world, store, engine, project, number, count: 0 }
    }

    /// Creates a job and does this and that with it while there are faults.
    pub(super) async fn work(mut self) -> Memory {
        let (prompt, admission) = (self.prompt(DeliveryMode::Queue), self.admission());
        let first =
            Sent { author: prompt.author.clone().unwrap(), delivery: DeliveryMode::Queue, known: Known::Accepted };
        let job = loop {
            let new = NewJob {
                prompt: prompt.clone(),
                reference: None,
                model: None,
                agent: None,
                options: JobOptions::default(),
            };
            if let Ok(accepted) = self.engine.create_job(&self.project, new, admission.clone()).await {
                break accepted.record.id;
            }
            self.pause(2).await;
        };
        let mut memory = Memory { job, sent: vec![first] };
        while self.world.is_raging() {
            match self.world.number(100) {
                0..50 => self.send(&mut memory, DeliveryMode::Queue).await,
                50..58 => self.send(&mut memory, DeliveryMode::Interrupt).await,
                58..62 => self.send(&mut memory, DeliveryMode::Reject).await,
                62..66 => self.withdraw(job).await,
                66..69 => self.tell(job, "cancel", self.engine.cancel(&self.project.id, job).await),
                69..71 => self.tell(job, "archive", self.engine.archive(&self.project.id, job).await),
                71..85 => self.tell(job, "unarchive", self.engine.unarchive(&self.project.id, job).await),
                _ => {}
            }
            self.pause(40).await;
        }
        memory
    }

    async fn pause(&self, seconds: u64) {
        tokio::time::sleep(self.world.up_to(Duration::from_secs(seconds))).await;
    }

    fn tell(&self, job: JobId, what: &str, answer: Result<Accepted, UpdateError>) {
        let answer = answer.map(|accepted| accepted.record.status);
        self.world.tell(format!("client {}: {what} {job}: {answer:?}", self.number));
    }

    /// A message that asks for so many steps; its author tells it from others.
    fn prompt(&mut self, delivery: DeliveryMode) -> Prompt {
        self.count += 1;
        let author = Some(format!("c{}m{}", self.number, self.count));
        Prompt { text: self.world.number(4).to_string(), origin: Origin::Api, author, delivery }
    }

    fn admission(&self) -> Admission {
        let key = format!("c{}m{}", self.number, self.count);
        let fingerprint = Fingerprint::of("message", key.as_bytes());
        Admission {
            idempotency: Some(Claim {
                project: self.project.id.clone(),
                caller: "client".to_owned(),
                key,
                fingerprint,
            }),
            limit: 0,
        }
    }

    async fn send(&mut self, memory: &mut Memory, delivery: DeliveryMode) {
        let prompt = self.prompt(delivery);
        let insists = self.world.happens(2);
        let admission = if insists { self.admission() } else { Admission::default() };
        let known = loop {
            let sent = self.engine.add_message(&self.project.id, memory.job, prompt.clone(), admission.clone()).await;
            self.tell(memory.job, &format!("{:?} {delivery:?}", prompt.author), sent.clone());
            match sent {
                Ok(_) => break Known::Accepted,
                Err(UpdateError::Store(_)) if insists => self.pause(5).await,
                Err(UpdateError::Store(StoreError::Unknown(_))) => break Known::Unclear,
                Err(_) => break Known::Refused,
            }
        };
        memory.sent.push(Sent { author: prompt.author.unwrap(), delivery, known });
    }

    async fn withdraw(&self, job: JobId) {
        let queue: Vec<MessageId> = self.store.job(job).await.unwrap().unwrap().queue;
        if let Some(last) = queue.last() {
            let answer = self.engine.withdraw(&self.project.id, job, *last).await;
            self.tell(job, &format!("withdraw {last}"), answer);
        }
    }
}
