//! What all machines share: the code host, the blob store, chance.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use journeyman_core::ids::{JobId, MessageId, Sha};
use journeyman_core::job::{Pull, Token};
use journeyman_core::ports::JobStore;
use journeyman_core::pull::PullState;
use journeyman_core::time::{IdGen, Timestamp};
use journeyman_store::MemoryStore;
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use uuid::Uuid;

/// The branch that pull requests go into.
pub(super) const MAIN: &str = "main";

/// A line of the only file there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Line {
    /// The step of a message's work.
    Work(MessageId, u32),
    People(u64),
}

/// A commit, of which there is never another with the same name.
#[derive(Debug, Clone)]
pub(super) struct Commit {
    pub(super) parents: Vec<Sha>,
    pub(super) lines: Vec<Line>,
}

#[derive(Debug, Clone)]
pub(super) struct PullRequest {
    pub(super) head: String,
    pub(super) state: PullState,
}

/// The code host, and every commit that was ever made, wherever it is.
#[derive(Debug, Default)]
pub(super) struct CodeHost {
    pub(super) commits: BTreeMap<Sha, Commit>,
    pub(super) branches: BTreeMap<String, Sha>,
    pub(super) pulls: Vec<PullRequest>,
    people: u64,
}

impl CodeHost {
    pub(super) fn commit(&mut self, parents: Vec<Sha>, lines: Vec<Line>) -> Sha {
        let sha: Sha = format!("{:040x}", self.commits.len() + 1).parse().unwrap();
        self.commits.insert(sha.clone(), Commit { parents, lines });
        sha
    }

    /// `sha` and all before it.
    pub(super) fn history(&self, sha: &Sha) -> BTreeSet<Sha> {
        let (mut seen, mut open) = (BTreeSet::new(), vec![sha.clone()]);
        while let Some(sha) = open.pop() {
            if seen.insert(sha.clone()) {
                open.extend(self.commits[&sha].parents.iter().cloned());
            }
        }
        seen
    }

    pub(super) fn contains(&self, commit: &Sha, ancestor: &Sha) -> bool {
        self.history(commit).contains(ancestor)
    }

    pub(super) fn lines(&self, sha: &Sha) -> &[Line] {
        &self.commits[sha].lines
    }

    /// The lines that a commit has added to its first parent.
    pub(super) fn added(&self, sha: &Sha) -> Vec<Line> {
        let commit = &self.commits[sha];
        let before = commit.parents.first().map(|parent| self.lines(parent)).unwrap_or_default();
        commit.lines.iter().filter(|line| !before.contains(line)).copied().collect()
    }

    /// Never by force.
    pub(super) fn push(&mut self, branch: &str, head: &Sha) -> bool {
        let forward = self.branches.get(branch).is_none_or(|there| self.contains(head, there));
        if forward {
            self.branches.insert(branch.to_owned(), head.clone());
        }
        forward
    }

    pub(super) fn open_pull_of(&self, head: &str) -> Option<Pull> {
        let place = self.pulls.iter().position(|pull| pull.head == head && pull.state == PullState::Open)?;
        Some(link(place))
    }

    /// Opens one; `None` where the branch holds nothing new.
    pub(super) fn open_pull(&mut self, head: &str) -> Option<Pull> {
        let branch = self.branches.get(head)?;
        if self.contains(&self.branches[MAIN], branch) {
            return None;
        }
        self.pulls.push(PullRequest { head: head.to_owned(), state: PullState::Open });
        Some(link(self.pulls.len() - 1))
    }

    /// People put a commit of theirs on a branch.
    pub(super) fn people_push(&mut self, branch: &str) {
        let Some(there) = self.branches.get(branch).cloned() else { return };
        self.people += 1;
        let mut lines = self.lines(&there).to_vec();
        lines.push(Line::People(self.people));
        let commit = self.commit(vec![there], lines);
        self.branches.insert(branch.to_owned(), commit);
    }

    /// People merge an open pull request.
    pub(super) fn merge(&mut self, number: usize) {
        let head = self.branches[&self.pulls[number].head].clone();
        let main = self.branches[MAIN].clone();
        let mut lines = self.lines(&main).to_vec();
        lines.extend(self.lines(&head).iter().filter(|line| !self.lines(&main).contains(line)).copied());
        let merged = self.commit(vec![main, head], lines);
        self.branches.insert(MAIN.to_owned(), merged);
        self.pulls[number].state = PullState::Merged;
    }
}

fn link(place: usize) -> Pull {
    let number = place as u64 + 1;
    Pull { number, url: format!("https://code.example/{number}") }
}

/// The blob store.
#[derive(Debug, Default)]
pub(super) struct Blobs {
    /// What the agent was told in each session.
    pub(super) sessions: BTreeMap<String, Vec<MessageId>>,
    pub(super) bundles: BTreeMap<String, Sha>,
}

pub(super) struct World {
    /// As it is, for those who judge.
    pub(super) store: Arc<MemoryStore>,
    chance: Mutex<StdRng>,
    host: Mutex<CodeHost>,
    blobs: Mutex<Blobs>,
    /// Whether there are faults.
    raging: Mutex<bool>,
    pub(super) begun: tokio::time::Instant,
    ids: Mutex<u128>,
    /// Where machines died.
    deaths: Mutex<BTreeSet<&'static str>>,
    /// What happened, in words.
    story: Mutex<Vec<String>>,
    /// Promises that were broken on the way.
    breaches: Mutex<Vec<String>>,
}

impl World {
    pub(super) fn new(seed: u64, store: Arc<MemoryStore>) -> Self {
        let mut host = CodeHost::default();
        let first = host.commit(Vec::new(), Vec::new());
        host.branches.insert(MAIN.to_owned(), first);
        Self {
            store,
            chance: Mutex::new(StdRng::seed_from_u64(seed)),
            host: Mutex::new(host),
            blobs: Mutex::default(),
            raging: Mutex::new(true),
            begun: tokio::time::Instant::now(),
            ids: Mutex::new(0),
            deaths: Mutex::default(),
            story: Mutex::default(),
            breaches: Mutex::default(),
        }
    }

    pub(super) fn host(&self) -> MutexGuard<'_, CodeHost> {
        self.host.lock().unwrap()
    }

    pub(super) fn blobs(&self) -> MutexGuard<'_, Blobs> {
        self.blobs.lock().unwrap()
    }

    /// True once in `one_in` times on average.
    pub(super) fn happens(&self, one_in: u32) -> bool {
        self.chance.lock().unwrap().random_ratio(1, one_in)
    }

    /// The same for a fault.
    pub(super) fn fails(&self, one_in: u32) -> bool {
        self.is_raging() && self.happens(one_in)
    }

    pub(super) fn number(&self, below: u64) -> u64 {
        self.chance.lock().unwrap().random_range(0..below)
    }

    pub(super) fn up_to(&self, most: Duration) -> Duration {
        Duration::from_millis(self.number(u64::try_from(most.as_millis()).unwrap() + 1))
    }

    pub(super) fn is_raging(&self) -> bool {
        *self.raging.lock().unwrap()
    }

    pub(super) fn calm_down(&self) {
        *self.raging.lock().unwrap() = false;
    }

    pub(super) fn died(&self, machine: usize, at: &'static str) {
        self.deaths.lock().unwrap().insert(at);
        self.tell(format!("machine {machine} dies: {at}"));
    }

    pub(super) fn deaths(&self) -> BTreeSet<&'static str> {
        self.deaths.lock().unwrap().clone()
    }

    pub(super) fn tell(&self, what: String) {
        let at = self.begun.elapsed().as_secs_f64();
        self.story.lock().unwrap().push(format!("{at:9.3} {what}"));
    }

    pub(super) fn story(&self) -> Vec<String> {
        self.story.lock().unwrap().clone()
    }

    /// The token of the job's lease.
    pub(super) async fn leased(&self, job: JobId) -> Option<Token> {
        let job = self.store.job(job).await.unwrap().unwrap();
        job.lease().map(|lease| lease.token)
    }

    pub(super) fn breach(&self, what: String) {
        self.breaches.lock().unwrap().push(what);
    }

    pub(super) fn breaches(&self) -> Vec<String> {
        self.breaches.lock().unwrap().clone()
    }
}

impl IdGen for World {
    fn uuid(&self, _: Timestamp) -> Uuid {
        let mut ids = self.ids.lock().unwrap();
        *ids += 1;
        Uuid::from_u128(*ids)
    }

    fn fill(&self, bytes: &mut [u8]) {
        self.chance.lock().unwrap().fill_bytes(bytes);
    }
}
