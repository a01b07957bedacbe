//! The branch, the artifacts and the end of an agent's turn.

use super::pull::Branch;
use crate::code_host::PullRepository;
use crate::diff_stat::TurnDiff;
use crate::ids::Sha;
use crate::run::Reason;

/// The end of an agent's turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Ending {
    /// The agent finished.
    #[default]
    Done,
    /// An interrupting message stopped the turn.
    Stopped,
    /// The model, the agent, or a limit ended the turn before the agent was done. The work is published, and the
    /// message fails with this reason.
    CutShort(Reason),
}

/// The artifacts of a turn that has ended, from which a follow-up or another machine continues.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TurnArtifacts {
    /// The agent's session; `None` keeps the known session.
    pub session: Option<String>,
    /// The blob with the agent's home; `None` keeps the known blob.
    pub archive: Option<String>,
    /// The blob with the commits; `None` if the commits are only on this machine.
    pub bundle: Option<String>,
    /// The final text of the turn; `None` keeps the known text.
    pub answer: Option<String>,
    /// The sizes of the changes; `None` if they were not counted.
    pub diff: Option<Box<TurnDiff>>,
}

/// The branch that a turn works on, with its commits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TurnBegun {
    /// The branch's name.
    pub branch: String,
    /// The number of the branch among the job's branches, from 1.
    pub generation: u32,
    /// The commit that the branch started from.
    pub base: Sha,
    /// The commit that is checked out in the workspace.
    pub head: Sha,
    /// The branch's commit on the code host, if the branch exists there.
    pub pushed: Option<Sha>,
    /// The repository's default branch, if the job started from it.
    pub default_branch: Option<String>,
    /// The repository on its code host, if the host gives repositories IDs.
    pub repository: Option<PullRepository>,
}

impl TurnBegun {
    /// Returns the beginning of a turn that is recorded as the state of the job's branch.
    #[must_use]
    pub fn of_branch(branch: &Branch) -> Self {
        let Branch { name, generation, base, head, pushed, existed: _, repository } = branch.clone();
        Self { branch: name, generation, base, head, pushed, default_branch: None, repository }
    }

    /// Returns the job's branch from this turn on; `before` is its branch until then.
    #[must_use]
    pub fn branch(&self, before: Option<&Branch>) -> Branch {
        let Self { branch, generation, base, head, pushed, default_branch: _, repository } = self.clone();
        let before = before.filter(|before| before.name == branch);
        let existed = before.map_or(pushed.is_some(), |before| before.existed);
        let repository = before.and_then(|before| before.repository.clone()).or(repository);
        Branch { name: branch, generation, base, head, pushed, repository, existed }
    }
}
