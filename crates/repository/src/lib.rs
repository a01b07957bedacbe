//! Mirrors of repositories, and the git operations of jobs on them.
//!
//! Each repository has one bare mirror on each machine ([`Mirrors`]). Runs fetch into it, commit to it, and push from
//! it; the HTTP interface reads diffs from it. Agents never write to a mirror: their commits arrive as a pack, which
//! git checks completely ([`import`]).
//!
//! | module | task |
//! |---|---|
//! | [`mirrors`], [`mirror`] | fetch and cache the branches and tags of the remote |
//! | [`history`] | resolve refs; answer whether a commit exists or contains another |
//! | [`branch`], [`accepted`] | choose the branch of a turn; know the branches that jobs must not push to |
//! | [`import`] | import the pack of a turn, and check its commits |
//! | [`push`] | push the commits, and rebase them if people have pushed meanwhile |
//! | `ci_files` | refuse commits that change files of CI pipelines |
//! | [`signing`] | sign commits with a key of the server |
//! | [`submodules`] | find the submodules of a commit, and fetch them |
//! | [`published`] | find the commits of a message that the database does not know |
//! | [`bundle`] | pass unpublished commits to other machines through the blob store |
//! | [`diff`] | the changes of a job |
//! | [`diff_stat`] | the sizes of the changes of a turn |
//! | [`base_comparison`] | compare pull requests with their bases |
//! | [`template`] | the repository's own template for pull requests |
//! | `upstream` | what a job's branch has merged from the branch that it will be merged into |
//! | `tree_entries` | the entries of a commit at single paths |
//! | [`tree_size`] | refuse commits that would fill the disk |
//! | [`damage`] | find out whether a mirror is damaged |
//! | [`lfs`] | find files in Git LFS, and cache their content |
//! | [`repair`] | rebuild a damaged mirror |
//! | [`maintenance`] | pack mirrors, and remove what no job needs |

pub mod accepted;
pub mod base_comparison;
pub mod branch;
pub mod bundle;
pub mod changes;
mod ci_files;
pub mod damage;
pub mod diff;
pub mod diff_stat;
mod error;
#[cfg(test)]
mod fixture;
pub mod history;
pub mod import;
pub mod lfs;
mod listing;
pub mod maintenance;
pub mod mirror;
pub mod mirrors;
pub mod published;
pub mod push;
mod repair;
mod scratch;
pub mod signing;
pub mod submodules;
mod sync;
mod template;
mod tree_entries;
pub mod tree_size;
mod upstream;

pub use error::{RepositoryError, is_of_the_disk};
pub use history::History;
pub use mirror::Mirror;
pub use mirrors::{Mirrors, ProjectMirrors};
pub use scratch::Scratch;
