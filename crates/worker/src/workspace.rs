//! The working tree that an agent gets, and the choice of the branch that it works on.
//!
//! A workspace is kept between turns and used again if it is where the job is; else it is built anew from the mirror,
//! which is always possible: a workspace holds nothing that must not be lost. Host git is run in a tree only before an
//! agent has ever touched it.

use std::path::{Path, PathBuf};

use journeyman_core::branch::branch_name;
use journeyman_core::ids::{MessageId, Sha};
use journeyman_core::job::Job;
use journeyman_core::job::command::TurnBegun;
use journeyman_core::ports::{Blobs, Forge};
use journeyman_core::project::Project;
use journeyman_core::pull::PullState;
use journeyman_core::run::ReasonCode;
use serde::{Deserialize, Serialize};

use crate::archive;
use crate::failure::Stopped;
use crate::mirror::Mirror;
use crate::publish::base_of;

/// The file that says where a tree is; without it the tree is not used again.
pub(crate) const MARKER: &str = "marker.json";

/// The folders of one job on this machine.
#[derive(Debug, Clone)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) tree: PathBuf,
    pub(crate) home: PathBuf,
    /// The host's index over the tree.
    pub(crate) index: PathBuf,
    scratch: PathBuf,
}

/// Where a workspace is, written beside it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Marker {
    /// The commit that the tree stands on.
    head: Sha,
    /// The message that is being carried out in it.
    message: Option<MessageId>,
}

impl Workspace {
    pub(crate) fn new(data: &Path, job: &Job) -> Self {
        let root = data.join("workspaces").join(job.id.to_string());
        Self {
            tree: root.join("tree"),
            home: root.join("home"),
            index: root.join("index"),
            scratch: data.join("scratch"),
            root,
        }
    }

    /// Makes the tree ready for `message` at `turn.head`; true if it was built anew. The caller marks it when the
    /// project's setup command has been through: a tree that is half made is not used again.
    pub(crate) async fn prepare(
        &self,
        mirror: &Mirror,
        turn: &TurnBegun,
        message: MessageId,
        session: &Session<'_>,
    ) -> Result<bool, Stopped> {
        let marker = self.marker().await;
        // The same message again: whatever the attempt before left behind goes, in the tree and in the session.
        let usable = marker.is_some_and(|marker| marker.head == turn.head && marker.message != Some(message));
        let fresh = !(usable && self.tree.is_dir() && self.index.is_file() && self.home.is_dir());
        if fresh {
            self.build(mirror, turn, session).await?;
        }
        Ok(fresh)
    }

    async fn build(&self, mirror: &Mirror, turn: &TurnBegun, session: &Session<'_>) -> Result<(), Stopped> {
        if self.tree.exists() {
            tokio::fs::remove_dir_all(&self.tree).await?;
        }
        tokio::fs::create_dir_all(&self.root).await?;
        for note in [self.marker_path(), self.session_path()] {
            if note.exists() {
                tokio::fs::remove_file(note).await?;
            }
        }
        self.begin_repository(mirror, &turn.branch).await?;
        let in_tree = |arguments: &[&str]| mirror.git.command(arguments).directory(&self.tree);
        in_tree(&["reset", "--quiet", "--hard", turn.head.as_str()]).run().await?;
        tokio::fs::copy(self.tree.join(".git/index"), &self.index).await?;
        let archive = session.fetch(self).await?;
        let home = self.home.clone();
        blocking(move || {
            archive::restore(&home, archive.as_deref())?;
            archive.map_or(Ok(()), std::fs::remove_file)
        })
        .await
    }

    /// An empty repository whose objects are those of the mirror: what `git init` makes, without a process for it
    /// (gitrepository-layout(5)).
    async fn begin_repository(&self, mirror: &Mirror, branch: &str) -> Result<(), Stopped> {
        let git = self.tree.join(".git");
        for dir in ["objects/info", "objects/pack", "refs/heads", "refs/tags"] {
            tokio::fs::create_dir_all(git.join(dir)).await?;
        }
        let files = [
            ("HEAD", format!("ref: refs/heads/{branch}\n")),
            ("config", "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n".to_owned()),
            ("objects/info/alternates", format!("{}\n", mirror.objects().display())),
        ];
        for (name, text) in files {
            tokio::fs::write(git.join(name), text).await?;
        }
        Ok(())
    }

    /// A file for a moment, on the disk of the workspaces.
    pub(crate) async fn scratch(&self, kind: &str) -> Result<PathBuf, Stopped> {
        tokio::fs::create_dir_all(&self.scratch).await?;
        let job = self.root.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(self.scratch.join(format!("{job}.{kind}")))
    }

    /// Notes where the tree is.
    pub(crate) async fn mark(&self, head: &Sha, message: Option<MessageId>) -> Result<(), Stopped> {
        let marker = Marker { head: head.clone(), message };
        let text = serde_json::to_string(&marker).map_err(std::io::Error::other)?;
        Ok(tokio::fs::write(self.marker_path(), text).await?)
    }

    /// The session that the agent had last in this workspace, also where its turn was not finished.
    pub(crate) async fn session(&self) -> Option<String> {
        tokio::fs::read_to_string(self.session_path()).await.ok()
    }

    /// Notes the agent's session.
    pub(crate) async fn note_session(&self, session: &str) -> Result<(), Stopped> {
        Ok(tokio::fs::write(self.session_path(), session).await?)
    }

    fn session_path(&self) -> PathBuf {
        self.root.join("session")
    }

    fn marker_path(&self) -> PathBuf {
        self.root.join(MARKER)
    }

    async fn marker(&self) -> Option<Marker> {
        let text = tokio::fs::read(self.marker_path()).await.ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Stores the agent's home as it is now, under `key`.
    pub(crate) async fn save_session(&self, blobs: &dyn Blobs, key: &str) -> Result<(), Stopped> {
        let (home, file) = (self.home.clone(), self.scratch("session").await?);
        let archive = file.clone();
        blocking(move || archive::save(&home, &archive)).await?;
        Ok(blobs.put(key, &file).await?)
    }
}

/// The session that a fresh workspace begins with.
pub(crate) struct Session<'a> {
    pub(crate) blobs: &'a dyn Blobs,
    /// The blob with the agent's home, if a turn has ended before.
    pub(crate) archive: Option<&'a str>,
}

impl Session<'_> {
    /// The archive as a file. One that is gone is no failure: the agent is told what was said before.
    async fn fetch(&self, workspace: &Workspace) -> Result<Option<PathBuf>, Stopped> {
        let Some(key) = self.archive else { return Ok(None) };
        let file = workspace.scratch("session").await?;
        Ok(self.blobs.get(key, &file).await?.then_some(file))
    }
}

async fn blocking(work: impl FnOnce() -> std::io::Result<()> + Send + 'static) -> Result<(), Stopped> {
    Ok(tokio::task::spawn_blocking(work).await.map_err(std::io::Error::other)??)
}

/// Which branch the next turn works on, and from which commit.
pub(crate) async fn choose_branch(
    job: &Job,
    project: &Project,
    mirror: &Mirror,
    forge: &dyn Forge,
) -> Result<TurnBegun, Stopped> {
    let wanted = |generation: u32| match (&job.options.branch, generation) {
        (Some(name), 1) => name.clone(),
        (Some(name), generation) => format!("{name}-{generation}"),
        (None, generation) => branch_name(&job.title, &job.id, generation),
    };
    let Some(branch) = &job.branch else {
        let start = mirror.resolve(&job.source.reference).await?;
        let (name, base) = (wanted(1), base_of(job, project, mirror));
        if name == base {
            let text =
                format!("the job's branch {name:?} is the one that its pull request would go into; choose another");
            return Err(Stopped::failed(ReasonCode::PushRefused, text));
        }
        return Ok(begin(name, 1, start, mirror));
    };
    let ended = match &job.pull {
        Some(pull) => matches!(forge.pull_state(pull.number).await?, Some(PullState::Merged | PullState::Closed)),
        None => false,
    };
    if ended {
        let generation = branch.generation + 1;
        let base = mirror.resolve(&base_of(job, project, mirror)).await?;
        return Ok(begin(wanted(generation), generation, base, mirror));
    }
    let pushed = mirror.heads.get(&branch.name).cloned();
    let head = match &pushed {
        // What people pushed is built upon; what we have not pushed yet goes on top of what is there.
        Some(theirs) if !mirror.has(&branch.head).await || !mirror.contains(&branch.head, theirs).await => {
            theirs.clone()
        }
        _ if mirror.has(&branch.head).await => branch.head.clone(),
        _ => branch.base.clone(),
    };
    let (branch, generation, base) = (branch.name.clone(), branch.generation, branch.base.clone());
    Ok(TurnBegun { branch, generation, base, head, pushed })
}

/// A branch that this job has not used: from `base`, or from where it is if the code host has it.
fn begin(branch: String, generation: u32, base: Sha, mirror: &Mirror) -> TurnBegun {
    let pushed = mirror.heads.get(&branch).cloned();
    let head = pushed.clone().unwrap_or_else(|| base.clone());
    TurnBegun { branch, generation, base, head, pushed }
}
