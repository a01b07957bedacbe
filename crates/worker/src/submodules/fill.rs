//! Fills the folders of submodules in the tree of a job, as `git submodule update --init --recursive` does.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use journeyman_core::ids::Sha;
use journeyman_core::ports::{Exit, Spawn};
use journeyman_core::project::{self, LimitSettings};
use journeyman_core::submodule::{SkipReason, Skipped};
use journeyman_repository::{Mirror, tree_size};

use super::find::{Finding, FoundSubmodule, unnamed};
use super::sources::Sources;
use super::{Filled, SubmoduleState};
use crate::claim::lease::Signals;
use crate::commit::committer::with_plain_git;
use crate::error::RunError;
use crate::lfs::fill::{Filling as LfsFilling, NotFetched};
use crate::lfs::filter;
use crate::sandbox::job_sandbox::JobSandbox;
use crate::sandbox::script::{self, Ran};
use crate::workspace::remove::remove_folder;

const SCRIPT: &str = include_str!("fill.sh");

/// The time limit for checking out all submodules.
const TIME: Duration = Duration::from_secs(600);

/// Fills the submodules of a tree.
pub(crate) struct Filler<'a> {
    pub(crate) sources: &'a Sources<'a>,
    pub(crate) sandbox: &'a JobSandbox,
    pub(crate) signals: &'a Signals,
    pub(crate) limits: &'a LimitSettings,
    /// True if the tree is new: then the pointers that `.gitmodules` does not name are looked for.
    pub(crate) is_new: bool,
    /// The variables of programs; no secrets.
    pub(crate) environment: &'a BTreeMap<String, String>,
    /// Fills files in Git LFS, if the project wants that.
    pub(crate) lfs: Option<&'a LfsFilling<'a>>,
}

/// The submodules of a tree after they were filled.
#[derive(Debug, Default)]
pub(crate) struct Filling {
    pub(crate) state: SubmoduleState,
    pub(crate) skipped: Vec<Skipped>,
    /// The submodules whose files have changed.
    pub(crate) written: Vec<String>,
    /// The files in Git LFS that are pointers, because their content was not fetched.
    pub(crate) not_fetched: Vec<NotFetched>,
}

impl Filler<'_> {
    /// Fills the submodules of a tree that has `commit` checked out. `before` is the state of those that were filled
    /// earlier: they follow their pointers, unless the agent has changed them.
    ///
    /// # Errors
    /// The machine failed, a limit of the project was reached, or the run ends.
    pub(crate) async fn fill(
        &self,
        mirror: &Mirror,
        commit: &Sha,
        before: &SubmoduleState,
    ) -> Result<Filling, RunError> {
        let unnamed = match self.is_new {
            true => unnamed(mirror, commit, &mirror.submodules(commit).await?).await?,
            false => Vec::new(),
        };
        let may_have_some = self.sandbox.workspace.tree.join(".gitmodules").symlink_metadata().is_ok();
        if !may_have_some && before.pointers.is_empty() {
            return Ok(Filling {
                state: before.clone(),
                skipped: unnamed,
                written: Vec::new(),
                not_fetched: Vec::new(),
            });
        }
        let submodules = mirror.submodules(commit).await?;
        let pointers: BTreeMap<String, Sha> = submodules.pointers.into_iter().collect();
        if pointers == before.pointers || self.follows_already(&pointers, before) {
            let state = SubmoduleState { pointers, ..before.clone() };
            return Ok(Filling { state, skipped: unnamed, written: Vec::new(), not_fetched: Vec::new() });
        }
        if self.sources.project.settings.checkout.submodules == project::Submodules::Off {
            let skipped = |path: &String| Skipped { path: path.clone(), reason: SkipReason::Off, address: None };
            let skipped = pointers.keys().map(skipped).chain(unnamed).collect();
            let state = SubmoduleState { pointers, ..before.clone() };
            return Ok(Filling { state, skipped, ..Filling::default() });
        }
        let Finding { found, mut skipped } = self.sources.find(mirror, commit, self.limits.disk_bytes()).await?;
        self.sandbox.read_objects(found.iter().map(|one| one.mirror.objects()).collect()).await?;
        let mut state = SubmoduleState { pointers, ..before.clone() };
        let is_wanted = |path: &str| found.iter().any(|one| one.path == path);
        state.filled.retain(|path, _| is_wanted(path));
        // A submodule that has its commit already is not touched.
        let is_there =
            |one: &FoundSubmodule| before.filled.get(&one.path).is_some_and(|filled| filled.head == one.commit);
        let mut left = self.left_for_objects(mirror, commit, &found).await?;
        let to_do: Vec<FoundSubmodule> = found.into_iter().filter(|one| !is_there(one)).collect();
        let (mut written, mut not_fetched) = (Vec::new(), Vec::new());
        if !to_do.is_empty() {
            let answers = self.run(&to_do, before).await?;
            for (one, answer) in to_do.iter().zip(answers) {
                let reason = match answer.as_str() {
                    "filled" => {
                        let filled = Filled { head: one.commit.clone(), objects: one.mirror.objects() };
                        state.filled.insert(one.path.clone(), filled);
                        written.push(one.path.clone());
                        not_fetched.extend(self.fill_objects(one, &mut left).await?);
                        continue;
                    }
                    "changed" => SkipReason::Changed,
                    // The one that it is in is told.
                    "inside" => continue,
                    _ => SkipReason::Failed,
                };
                skipped.push(Skipped { path: one.path.clone(), reason, address: None });
            }
        }
        Ok(Filling { state, skipped, written, not_fetched })
    }

    /// Returns the bytes that files of submodules in Git LFS may use, after the files of the project's repository and of
    /// the submodules.
    async fn left_for_objects(&self, mirror: &Mirror, commit: &Sha, found: &[FoundSubmodule]) -> Result<u64, RunError> {
        let Some(lfs) = self.lfs else { return Ok(0) };
        let objects = mirror.lfs_tree(commit, lfs.scratch, lfs.job).await?;
        let mut used = objects.files.iter().fold(0_u64, |sum, file| sum.saturating_add(file.pointer.bytes));
        for (mirror, commit) in found.iter().map(|one| (&one.mirror, &one.commit)).chain([(mirror, commit)]) {
            used = used.saturating_add(tree_size::size(mirror, commit, u64::MAX).await?);
        }
        Ok(lfs.disk_bytes.saturating_sub(used))
    }

    /// Fills the files of a submodule in Git LFS. Returns those that were not fetched.
    async fn fill_objects(&self, one: &FoundSubmodule, left: &mut u64) -> Result<Vec<NotFetched>, RunError> {
        let Some(lfs) = self.lfs else { return Ok(Vec::new()) };
        let own = tree_size::size(&one.mirror, &one.commit, u64::MAX).await?;
        let filling = LfsFilling {
            objects: lfs.objects,
            mirror: &one.mirror,
            scratch: lfs.scratch,
            job: lfs.job,
            disk_bytes: left.saturating_add(own),
            free: lfs.free,
        };
        let not_fetched = filling.fill_submodule(&self.sandbox.workspace.tree, one).await?;
        let objects = one.mirror.lfs_tree(&one.commit, lfs.scratch, lfs.job).await?;
        let bytes = objects.files.iter().fold(0_u64, |sum, file| sum.saturating_add(file.pointer.bytes));
        *left = left.saturating_sub(bytes);
        Ok(not_fetched)
    }

    /// Returns whether the submodules that are filled have the commits of new pointers, as after a turn that has moved
    /// pointers.
    fn follows_already(&self, pointers: &BTreeMap<String, Sha>, before: &SubmoduleState) -> bool {
        pointers.iter().all(|(path, commit)| {
            before.pointers.get(path) == Some(commit)
                || before.filled.get(path).is_some_and(|filled| filled.head == *commit)
        })
    }

    /// Runs the script for these submodules, and returns its answers.
    async fn run(&self, found: &[FoundSubmodule], before: &SubmoduleState) -> Result<Vec<String>, RunError> {
        let Self { sandbox, signals, limits, .. } = self;
        let workspace = &sandbox.workspace;
        let lists = workspace.submodule_lists();
        remove_folder(&lists).await?;
        tokio::fs::create_dir_all(&lists).await?;
        let mut list = String::new();
        for (number, one) in found.iter().enumerate() {
            let before = before.filled.get(&one.path).map(|filled| filled.head.as_str()).unwrap_or_default();
            let has_lfs = match self.lfs {
                Some(lfs) => one.mirror.lfs_tree(&one.commit, lfs.scratch, lfs.job).await?.is_used,
                None => false,
            };
            one.write(&lists.join(number.to_string()), has_lfs).await?;
            let url = one.url.as_deref().unwrap_or_default();
            for line in [&one.parent_git_dir, &one.path, &one.git_dir, &one.name, url, before, one.commit.as_str()] {
                list.push_str(line);
                list.push('\n');
            }
        }
        tokio::fs::write(lists.join("list"), list).await?;
        let inside = sandbox.sandbox.layout(&workspace.tree, &workspace.commit_dir);
        let (tree, dir) = (inside.workspace.to_string_lossy(), inside.home.to_string_lossy());
        let argv = ["/bin/sh", "-c", SCRIPT, "fill", &tree, &lists.to_string_lossy()].map(str::to_owned).to_vec();
        let spawn = sandbox.spawn(argv, with_plain_git(self.environment, &dir));
        let readable = spawn.readable.iter().cloned().chain([lists.clone()]).collect();
        let spawn = Spawn { home: workspace.commit_dir.clone(), readable, ..spawn };
        let Ran { exit, stdout, stderr } = script::run(sandbox, spawn, signals, limits, TIME).await?;
        remove_folder(&lists).await?;
        if exit != Some(Exit::Code(0)) || !stderr.is_empty() {
            let exit = exit.map_or_else(|| "timeout".to_owned(), |exit| exit.to_string());
            tracing::warn!(job = %workspace.job, exit, stderr, "submodules were not filled completely");
        }
        let mut answers: Vec<String> = String::from_utf8_lossy(&stdout).lines().map(str::to_owned).collect();
        // What the script did not get to is not filled.
        answers.resize(found.len(), String::new());
        Ok(answers)
    }
}

impl FoundSubmodule {
    /// Writes the files of a new git directory to a folder for the script. With `has_lfs`, it has the filters of Git LFS.
    async fn write(&self, folder: &Path, has_lfs: bool) -> Result<(), RunError> {
        tokio::fs::create_dir_all(folder).await?;
        let up = |path: &str| "../".repeat(path.split('/').count());
        let mut config = format!(
            "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tworktree = {}\n",
            quoted(&format!("{}{}", up(&self.git_dir), self.path))
        );
        if let Some(url) = &self.url {
            config.push_str(&format!(
                "[remote \"origin\"]\n\turl = {}\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n",
                quoted(url)
            ));
        }
        if has_lfs {
            config.push_str(&filter::text());
        }
        let texts = [
            ("config", config),
            ("alternates", format!("{}\n", self.mirror.objects().display())),
            ("gitfile", format!("gitdir: {}{}\n", up(&self.path), self.git_dir)),
        ];
        for (name, text) in texts {
            tokio::fs::write(folder.join(name), text).await?;
        }
        let refs = self.mirror.packed_refs().await?;
        Ok(tokio::fs::write(folder.join("packed-refs"), refs).await?)
    }
}

/// Quotes a value of git's configuration.
fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}
