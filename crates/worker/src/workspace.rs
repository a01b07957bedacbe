//! The folders of a job on one machine: its working tree, its agent's home, and the folder of the committer.
//!
//! A workspace is kept between turns, and reused if it is in the state that the job is in. Otherwise it is rebuilt from
//! the mirror, which is always possible: a workspace contains nothing that must not be lost. The host never runs git in a
//! tree, and the files of a commit are written in the sandbox.

pub(crate) mod beneath;
pub(crate) mod build;
pub(crate) mod checkout;
pub(crate) mod disk_usage;
pub(crate) mod free_space;
pub(crate) mod git_dirs;
pub(crate) mod home_archive;
pub(crate) mod left_out;
pub(crate) mod listing;
pub(crate) mod lock;
mod marker;
mod merge_home;
pub(crate) mod owner;
pub(crate) mod prebuilt;
pub(crate) mod prepared_home;
pub(crate) mod remove;
pub(crate) mod scan;
pub(crate) mod session;
pub(crate) mod state;
pub(crate) mod unpack;
mod upstream;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use journeyman_core::ids::{JobId, MessageId, Sha};
use journeyman_core::job::turn::TurnBegun;
use journeyman_repository::{Mirror, Scratch};

use self::listing::Listing;
use self::marker::{AnsweredTurn, Marker, sync_all};
use self::state::TreeState;
use crate::turn::result::Turn;

/// The file that describes the state of a tree. It exists only between turns, and from the end of a turn until its work is
/// recorded; without it, the tree is not reused.
pub(crate) const MARKER: &str = "marker.json";

/// The folders of one job on this machine.
#[derive(Debug, Clone)]
pub(crate) struct Workspace {
    pub(crate) job: JobId,
    pub(crate) root: PathBuf,
    /// The working tree.
    pub(crate) tree: PathBuf,
    /// The agent's home.
    pub(crate) home: PathBuf,
    /// The committer's folder, with a git directory and an index that are not the agent's ([`crate::commit`]).
    pub(crate) commit_dir: PathBuf,
    pub(crate) scratch: Scratch,
    /// The ID of this process, from [`crate::Host`].
    instance: Arc<str>,
}

impl Workspace {
    pub(crate) fn new(data: &Path, job: JobId, instance: &Arc<str>) -> Self {
        let root = data.join("workspaces").join(job.to_string());
        Self {
            job,
            tree: root.join("tree"),
            home: root.join("home"),
            commit_dir: root.join("commit"),
            scratch: Scratch::new(data),
            instance: Arc::clone(instance),
            root,
        }
    }

    /// Returns all folders that programs in the sandbox may write to.
    pub(crate) fn folders(&self) -> [PathBuf; 3] {
        [self.tree.clone(), self.home.clone(), self.commit_dir.clone()]
    }

    /// Returns the committer's index of the tree.
    pub(crate) fn index(&self) -> PathBuf {
        self.commit_dir.join("index")
    }

    /// Returns the folder of the lists for the committer, to which only the service writes.
    pub(crate) fn lists(&self) -> PathBuf {
        self.root.join("lists")
    }

    /// Returns the folder of the lists for filling submodules, to which only the service writes.
    pub(crate) fn submodule_lists(&self) -> PathBuf {
        self.root.join("submodules")
    }

    /// Stores the listing of the tree.
    pub(crate) async fn write_listing(&self, listing: Listing) -> io::Result<()> {
        let path = self.listing_path();
        tokio::task::spawn_blocking(move || listing.write(&path)).await.map_err(io::Error::other)?
    }

    /// Reads the listing that was stored last.
    pub(crate) async fn read_listing(&self) -> io::Result<Listing> {
        let path = self.listing_path();
        tokio::task::spawn_blocking(move || Listing::read(&path)).await.map_err(io::Error::other)?
    }

    fn listing_path(&self) -> PathBuf {
        self.root.join("listing")
    }

    /// Returns whether the tree can be reused for a turn at `turn.head` with the objects of `mirror` and the session
    /// archive `session`: if so, its state.
    pub(crate) async fn can_be_reused(
        &self,
        mirror: &Mirror,
        turn: &TurnBegun,
        session: Option<&str>,
    ) -> Option<TreeState> {
        let marker = Marker::read(&self.marker_path()).await?;
        // A tree with work that was not recorded is rebuilt.
        let is_current = *marker.instance == *self.instance && marker.answered.is_none();
        (is_current && self.is_at(&marker, mirror, turn, session)).then_some(marker.tree)
    }

    /// Returns whether a marker describes the state in which `turn` begins, and everything is there that it needs.
    fn is_at(&self, marker: &Marker, mirror: &Mirror, turn: &TurnBegun, session: Option<&str>) -> bool {
        let mut needed = self.folders().to_vec();
        needed.extend(marker.tree.submodules.objects().cloned());
        marker.head == turn.head
            && marker.objects == mirror.objects()
            && marker.session.as_deref() == session
            && needed.iter().all(|folder| folder.is_dir())
    }

    /// Records that the agent has ended its turn, which began at `head` with the session archive `session` and the tree
    /// `tree`. Returns false if it was stopped, or if the machine cannot tell its boots apart.
    pub(crate) async fn keep_answered(
        &self,
        message: MessageId,
        turn: &Turn,
        (mirror, head, session): (&Mirror, &Sha, Option<&str>),
        tree: TreeState,
    ) -> io::Result<bool> {
        let answered = AnsweredTurn::of(message, turn).await;
        let Some(answered) = answered else { return Ok(false) };
        let marker = Marker { session: session.map(str::to_owned), ..self.marker(mirror, head, tree, Some(answered)) };
        marker.write(&self.marker_path()).await?;
        Ok(true)
    }

    /// Returns the turn that the agent has ended for a message, and the state of the tree before it; `None` if it is not
    /// in this workspace, or if the machine has lost files of it.
    pub(crate) async fn answered(
        &self,
        message: MessageId,
        mirror: &Mirror,
        begun: &TurnBegun,
        session: Option<&str>,
    ) -> Option<(Turn, TreeState)> {
        let mut marker = Marker::read(&self.marker_path()).await?;
        let answered = marker.answered.take().filter(|answered| answered.message == message)?;
        let is_usable = self.is_at(&marker, mirror, begun, session) && answered.is_whole().await;
        is_usable.then(|| (answered.turn(), marker.tree))
    }

    /// Makes the turn that the agent has ended survive a power failure, if it is in this workspace.
    pub(crate) async fn sync_answered(&self) -> io::Result<()> {
        let Some(mut marker) = Marker::read(&self.marker_path()).await else { return Ok(()) };
        let Some(answered) = marker.answered.as_mut().filter(|answered| answered.boot.is_some()) else { return Ok(()) };
        if !answered.is_whole().await {
            return Ok(());
        }
        sync_all([&self.folders()[..], std::slice::from_ref(&self.root)].concat()).await?;
        answered.boot = None;
        marker.write(&self.marker_path()).await?;
        sync_all(vec![self.root.clone()]).await
    }

    /// Removes the marker when a turn begins. If the turn does not end, the tree and the session that it leaves behind
    /// are discarded: the agent may have prepared them to harm the next turn.
    pub(crate) async fn remove_marker(&self) -> io::Result<()> {
        remove_file(&self.marker_path()).await
    }

    /// Records the state of the tree and of the session after a turn.
    pub(crate) async fn mark(&self, mirror: &Mirror, head: &Sha, session: &str, tree: TreeState) -> io::Result<()> {
        let marker = Marker { session: Some(session.to_owned()), ..self.marker(mirror, head, tree, None) };
        marker.write(&self.marker_path()).await
    }

    fn marker(&self, mirror: &Mirror, head: &Sha, tree: TreeState, answered: Option<AnsweredTurn>) -> Marker {
        let (instance, objects) = (self.instance.to_string(), mirror.objects());
        Marker { instance, head: head.clone(), objects, session: None, tree, answered }
    }

    /// Returns the ID of the agent's last session in this workspace, even if its turn did not end.
    pub(crate) async fn session(&self) -> Option<String> {
        tokio::fs::read_to_string(self.session_path()).await.ok()
    }

    /// Records the ID of the agent's session.
    pub(crate) async fn note_session(&self, session: &str) -> io::Result<()> {
        tokio::fs::write(self.session_path(), session).await
    }

    /// Returns the temporary path of the setup command's home.
    fn setup_home(&self) -> PathBuf {
        self.root.join("setup-home")
    }

    fn session_path(&self) -> PathBuf {
        self.root.join("session")
    }

    fn marker_path(&self) -> PathBuf {
        self.root.join(MARKER)
    }
}

async fn remove_file(file: &Path) -> io::Result<()> {
    match tokio::fs::remove_file(file).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
