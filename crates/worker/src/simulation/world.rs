//! The parts of the world that all machines share: the code host, the blob store, and the source of randomness.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use journeyman_core::code_host::PullState;
use journeyman_core::ids::{JobId, MessageId, Sha};
use journeyman_core::job::Token;
use journeyman_core::ports::JobStore;
use journeyman_core::pull::HostPull;
use journeyman_core::time::{IdGen, Timestamp};
use journeyman_store::MemoryStore;
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use uuid::Uuid;

/// The branch that pull requests go into.
pub(super) const MAIN: &str = "main";

/// A line of the only file in the repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Line {
    /// A step of a message's work.
    Work(MessageId, u32),
    /// A change by people.
    People(u64),
}

/// A commit. Each has a unique name.
#[derive(Debug, Clone)]
pub(super) struct Commit {
    pub(super) parents: Vec<Sha>,
    pub(super) lines: Vec<Line>,
}

#[derive(Debug, Clone)]
pub(super) struct PullRequest {
    pub(super) head: String,
    pub(super) state: PullState,
    /// The newest commit of the branch when the pull request ended; later pushes are not part of it.
    pub(super) ended_with: Option<Sha>,
}

/// The code host, and all commits that were ever made, wherever they are stored.
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

    /// Returns the commit and all of its ancestors.
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

    /// Returns the lines that a commit has added to its first parent.
    pub(super) fn added(&self, sha: &Sha) -> Vec<Line> {
        let commit = &self.commits[sha];
        let before = commit.parents.first().map(|parent| self.lines(parent)).unwrap_or_default();
        commit.lines.iter().filter(|line| !before.contains(line)).copied().collect()
    }

    /// Pushes a commit to a branch, never by force. Returns whether the branch now has it.
    pub(super) fn push(&mut self, branch: &str, head: &Sha) -> bool {
        let is_forward = self.branches.get(branch).is_none_or(|old| self.contains(head, old));
        if is_forward {
            self.branches.insert(branch.to_owned(), head.clone());
        }
        is_forward
    }

    /// Returns the pull requests of a branch, newest first.
    pub(super) fn pulls_of(&self, head: &str) -> Vec<HostPull> {
        let numbers = (1..=self.pulls.len() as u64).rev();
        numbers.filter_map(|number| self.pull(number)).filter(|pull| pull.head == head).collect()
    }

    pub(super) fn pull(&self, number: u64) -> Option<HostPull> {
        let pull = self.pulls.get(usize::try_from(number).ok()?.checked_sub(1)?)?;
        Some(HostPull {
            number,
            url: format!("https://code.example/{number}"),
            state: pull.state,
            draft: false,
            title: String::new(),
            body: String::new(),
            head: pull.head.clone(),
            head_sha: pull.ended_with.clone().or_else(|| self.branches.get(&pull.head).cloned()),
            base: MAIN.to_owned(),
            is_from_fork: false,
        })
    }

    /// Opens a pull request; `None` if the branch contains nothing new.
    pub(super) fn open_pull(&mut self, head: &str) -> Option<HostPull> {
        let branch = self.branches.get(head)?;
        if self.contains(&self.branches[MAIN], branch) {
            return None;
        }
        self.pulls.push(PullRequest { head: head.to_owned(), state: PullState::Open, ended_with: None });
        self.pull(self.pulls.len() as u64)
    }

    /// Adds a commit of people to a branch.
    pub(super) fn people_push(&mut self, branch: &str) {
        let Some(head) = self.branches.get(branch).cloned() else { return };
        self.people += 1;
        let mut lines = self.lines(&head).to_vec();
        lines.push(Line::People(self.people));
        let commit = self.commit(vec![head], lines);
        self.branches.insert(branch.to_owned(), commit);
    }

    /// Merges an open pull request, as people do.
    pub(super) fn merge(&mut self, number: usize) {
        let head = self.branches[&self.pulls[number].head].clone();
        let main = self.branches[MAIN].clone();
        let mut lines = self.lines(&main).to_vec();
        lines.extend(self.lines(&head).iter().filter(|line| !self.lines(&main).contains(line)).copied());
        let merged = self.commit(vec![main, head.clone()], lines);
        self.branches.insert(MAIN.to_owned(), merged);
        self.pulls[number].ended_with = Some(head);
        self.pulls[number].state = PullState::Merged;
    }
}

/// The blob store.
#[derive(Debug, Default)]
pub(super) struct Blobs {
    /// The messages that the agent received in each session.
    pub(super) sessions: BTreeMap<String, Vec<MessageId>>,
    pub(super) bundles: BTreeMap<String, Sha>,
}

pub(super) struct World {
    /// The store without faults, for checks.
    pub(super) store: Arc<MemoryStore>,
    rng: Mutex<StdRng>,
    host: Mutex<CodeHost>,
    blobs: Mutex<Blobs>,
    /// True while there are faults.
    faults: Mutex<bool>,
    pub(super) begun: tokio::time::Instant,
    ids: Mutex<u128>,
    /// The points at which machines crashed.
    crashes: Mutex<BTreeSet<&'static str>>,
    /// The events, as text.
    log: Mutex<Vec<String>>,
    /// The times at which the blob store is away, from the begin of the world.
    away: Vec<std::ops::Range<Duration>>,
    /// How often the agent was prompted with each message.
    prompts: Mutex<BTreeMap<MessageId, u32>>,
    /// The violations that were found during the simulation.
    violations: Mutex<Vec<String>>,
}

impl World {
    pub(super) fn new(seed: u64, store: Arc<MemoryStore>) -> Self {
        let mut host = CodeHost::default();
        let first = host.commit(Vec::new(), Vec::new());
        host.branches.insert(MAIN.to_owned(), first);
        Self {
            store,
            rng: Mutex::new(StdRng::seed_from_u64(seed)),
            host: Mutex::new(host),
            blobs: Mutex::default(),
            faults: Mutex::new(true),
            begun: tokio::time::Instant::now(),
            ids: Mutex::new(0),
            crashes: Mutex::default(),
            log: Mutex::default(),
            away: [60..90, 150..240, 300..310]
                .map(|at| Duration::from_secs(at.start)..Duration::from_secs(at.end))
                .into(),
            prompts: Mutex::default(),
            violations: Mutex::default(),
        }
    }

    pub(super) fn host(&self) -> MutexGuard<'_, CodeHost> {
        self.host.lock().unwrap()
    }

    pub(super) fn blobs(&self) -> MutexGuard<'_, Blobs> {
        self.blobs.lock().unwrap()
    }

    /// Returns whether the blob store does not answer now.
    pub(super) fn blobs_are_away(&self) -> bool {
        let now = self.begun.elapsed();
        self.away.iter().any(|away| away.contains(&now))
    }

    /// Records that the agent gets a message.
    pub(super) fn prompted(&self, message: MessageId) {
        *self.prompts.lock().unwrap().entry(message).or_default() += 1;
    }

    /// Returns how often the agent got a message.
    pub(super) fn prompts(&self, message: MessageId) -> u32 {
        self.prompts.lock().unwrap().get(&message).copied().unwrap_or_default()
    }

    /// Returns true once in `one_in` calls on average.
    pub(super) fn happens(&self, one_in: u32) -> bool {
        self.rng.lock().unwrap().random_ratio(1, one_in)
    }

    /// Returns true once in `one_in` calls on average while there are faults.
    pub(super) fn fails(&self, one_in: u32) -> bool {
        self.has_faults() && self.happens(one_in)
    }

    pub(super) fn number(&self, below: u64) -> u64 {
        self.rng.lock().unwrap().random_range(0..below)
    }

    pub(super) fn up_to(&self, most: Duration) -> Duration {
        Duration::from_millis(self.number(u64::try_from(most.as_millis()).unwrap() + 1))
    }

    pub(super) fn has_faults(&self) -> bool {
        *self.faults.lock().unwrap()
    }

    pub(super) fn stop_faults(&self) {
        *self.faults.lock().unwrap() = false;
    }

    pub(super) fn crashed(&self, machine: usize, at: &'static str) {
        self.crashes.lock().unwrap().insert(at);
        self.log(format!("machine {machine} crashes: {at}"));
    }

    pub(super) fn crashes(&self) -> BTreeSet<&'static str> {
        self.crashes.lock().unwrap().clone()
    }

    pub(super) fn log(&self, event: String) {
        let at = self.begun.elapsed().as_secs_f64();
        self.log.lock().unwrap().push(format!("{at:9.3} {event}"));
    }

    pub(super) fn log_lines(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    /// Returns the token of the job's lease.
    pub(super) async fn leased(&self, job: JobId) -> Option<Token> {
        let job = self.store.job(job).await.unwrap().unwrap();
        job.lease().map(|lease| lease.token)
    }

    pub(super) fn violation(&self, what: String) {
        self.violations.lock().unwrap().push(what);
    }

    pub(super) fn violations(&self) -> Vec<String> {
        self.violations.lock().unwrap().clone()
    }
}

impl IdGen for World {
    fn uuid(&self, _: Timestamp) -> Uuid {
        let mut ids = self.ids.lock().unwrap();
        *ids += 1;
        Uuid::from_u128(*ids)
    }

    fn fill(&self, bytes: &mut [u8]) {
        self.rng.lock().unwrap().fill_bytes(bytes);
    }
}
