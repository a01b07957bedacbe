//! Finds the submodules of a commit, and those in them, level by level, and fetches their mirrors.

use std::time::Duration;

use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use journeyman_core::ids::Sha;
use journeyman_core::left_out::path_text;
use journeyman_core::submodule::{
    Entry, Located, MAX_DEPTH, MAX_SUBMODULES, Main, SkipReason, Skipped, SubmoduleLocation, overlap,
};
use journeyman_repository::submodules::Submodules;
use journeyman_repository::{Mirror, tree_size};
use tokio::time::Instant;

use super::sources::{NamedBy, Sources};
use crate::error::RunError;

/// The number of repositories that are fetched at once.
const AT_ONCE: usize = 4;

/// The time limit for finding and fetching all submodules.
const TIME: Duration = Duration::from_secs(1800);

/// A submodule whose commit is in a mirror.
pub(crate) struct FoundSubmodule {
    /// The path in the tree.
    pub(crate) path: String,
    /// The name in the `.gitmodules` of its repository.
    pub(crate) name: String,
    /// The path of the git directory in the tree.
    pub(crate) git_dir: String,
    /// The path of the git directory of the repository that it is in.
    pub(crate) parent_git_dir: String,
    /// The address, unless it is a path on this machine.
    pub(crate) url: Option<String>,
    /// The commit that the pointer names.
    pub(crate) commit: Sha,
    pub(crate) mirror: Mirror,
    /// True if its repository is where the project's is: on the same server, on the built-in code host, or at a path.
    pub(crate) is_trusted: bool,
}

/// The submodules of a commit.
#[derive(Default)]
pub(crate) struct Finding {
    /// Those that can be filled; each comes after the one that it is in.
    pub(crate) found: Vec<FoundSubmodule>,
    pub(crate) skipped: Vec<Skipped>,
}

/// A repository whose submodules are looked for.
struct Parent {
    path: String,
    git_dir: String,
    /// The address that relative ones refer to.
    url: String,
    named_by: NamedBy,
    mirror: Mirror,
    commit: Sha,
}

/// A submodule that may be fetched.
struct Wanted<'a> {
    parent: &'a Parent,
    entry: Entry,
    commit: Sha,
    located: Located,
}

impl Parent {
    fn path_of(&self, path: &str) -> String {
        if self.path.is_empty() { path.to_owned() } else { format!("{}/{path}", self.path) }
    }

    /// Returns the submodules of the repository that have a pointer, each with what to fetch or the reason why not.
    fn wanted<'a>(&'a self, main: &Main, submodules: Submodules) -> Vec<Result<Wanted<'a>, Skipped>> {
        let Submodules { entries, pointers, .. } = submodules;
        let entries: Vec<(Entry, Sha)> = entries
            .into_iter()
            .filter_map(|entry| {
                let commit = pointers.get(entry.path.trim_matches('/'))?.clone();
                Some((entry, commit))
            })
            .collect();
        let skipped = |entry: &Entry, reason, address: Option<&str>| Skipped {
            path: self.path_of(&entry.path),
            reason,
            address: address.map(str::to_owned),
        };
        let decide = |(number, (entry, commit)): (usize, &(Entry, Sha))| {
            let overlaps = |(other, (one, _)): (usize, &(Entry, Sha))| other != number && overlap(one, entry);
            if !entry.is_safe() || entries.iter().enumerate().any(overlaps) {
                return Err(skipped(entry, SkipReason::Unsafe, None));
            }
            if entry.url.is_empty() {
                return Err(skipped(entry, SkipReason::NoAddress, None));
            }
            match main.locate(&self.url, &entry.url) {
                Some(located) => Ok(Wanted { parent: self, entry: entry.clone(), commit: commit.clone(), located }),
                None => Err(skipped(entry, SkipReason::AddressRefused, None)),
            }
        };
        entries.iter().enumerate().map(decide).collect()
    }
}

/// Returns the pointers of a commit that no entry of `.gitmodules` names. Their folders stay empty.
///
/// # Errors
/// Git failed.
pub(crate) async fn unnamed(mirror: &Mirror, commit: &Sha, submodules: &Submodules) -> Result<Vec<Skipped>, RunError> {
    let all = tree_size::pointers_of(mirror, commit).await?;
    let paths = all.iter().map(|path| path_text(path)).filter(|path| !submodules.pointers.contains_key(path));
    Ok(paths.map(|path| Skipped { path, reason: SkipReason::NotNamed, address: None }).collect())
}

impl Sources<'_> {
    /// Finds the submodules of a commit of the project's repository. Their files, with those of the commit, take at most
    /// `disk_bytes`.
    ///
    /// # Errors
    /// The machine failed.
    pub(crate) async fn find(&self, mirror: &Mirror, commit: &Sha, disk_bytes: u64) -> Result<Finding, RunError> {
        let Some(main) = self.main() else { return Ok(Finding::default()) };
        let mut left = disk_bytes.saturating_sub(tree_size::size(mirror, commit, disk_bytes).await?);
        let end = Instant::now() + TIME;
        let mut finding = Finding::default();
        let mut parents = vec![Parent {
            path: String::new(),
            git_dir: ".git".to_owned(),
            url: main.url().to_owned(),
            named_by: NamedBy::People,
            mirror: mirror.clone(),
            commit: commit.clone(),
        }];
        for depth in 1.. {
            let mut next = Vec::new();
            for parent in &parents {
                let submodules = parent.mirror.submodules(&parent.commit).await?;
                for one in unnamed(&parent.mirror, &parent.commit, &submodules).await? {
                    finding.skipped.push(Skipped { path: parent.path_of(&one.path), ..one });
                }
                next.extend(parent.wanted(&main, submodules));
            }
            let mut wanted = Vec::new();
            for one in next {
                match one {
                    Ok(one) if depth > MAX_DEPTH => finding.skip(&one, SkipReason::TooDeep),
                    Ok(one) if finding.found.len() + wanted.len() >= MAX_SUBMODULES => {
                        finding.skip(&one, SkipReason::TooMany);
                    }
                    Ok(one) => wanted.push(one),
                    Err(skipped) => finding.skipped.push(skipped),
                }
            }
            if wanted.is_empty() {
                break;
            }
            let fetching = wanted.into_iter().map(|one| self.fetch_until(end, one).boxed());
            let fetched: Vec<_> = stream::iter(fetching.collect::<Vec<_>>()).buffered(AT_ONCE).try_collect().await?;
            let mut filled = Vec::new();
            for (one, fetched) in fetched {
                let mirror = match fetched {
                    Ok(mirror) => mirror,
                    Err(reason) => {
                        finding.skip(&one, reason);
                        continue;
                    }
                };
                let size = tree_size::size(&mirror, &one.commit, left).await?;
                if size > left {
                    finding.skip(&one, SkipReason::TooLarge);
                    continue;
                }
                left -= size;
                filled.push(one.inside(mirror.clone()));
                finding.found.push(one.found(mirror));
            }
            parents = filled;
        }
        Ok(finding)
    }

    async fn fetch_until<'a>(
        &self,
        end: Instant,
        one: Wanted<'a>,
    ) -> Result<(Wanted<'a>, Result<Mirror, SkipReason>), RunError> {
        let fetch = self.fetch(&one.located, &one.commit, one.parent.named_by);
        let fetched = tokio::time::timeout_at(end, fetch).await.unwrap_or(Ok(Err(SkipReason::TooSlow)))?;
        Ok((one, fetched))
    }
}

impl Finding {
    fn skip(&mut self, wanted: &Wanted<'_>, reason: SkipReason) {
        let (path, address) = (wanted.parent.path_of(&wanted.entry.path), wanted.located.address.clone());
        // A path of this machine is not shown.
        let address = Some(address).filter(|address| !address.starts_with('/'));
        self.skipped.push(Skipped { path, reason, address });
    }
}

impl Wanted<'_> {
    fn git_dir(&self) -> String {
        format!("{}/modules/{}", self.parent.git_dir, self.entry.name)
    }

    /// Returns the submodule as a repository that may have submodules itself.
    fn inside(&self, mirror: Mirror) -> Parent {
        let is_elsewhere = matches!(self.located.location, SubmoduleLocation::Url { is_same_server: false, .. });
        Parent {
            path: self.parent.path_of(&self.entry.path),
            git_dir: self.git_dir(),
            url: self.located.address.clone(),
            named_by: if is_elsewhere { NamedBy::Others } else { self.parent.named_by },
            mirror,
            commit: self.commit.clone(),
        }
    }

    fn found(self, mirror: Mirror) -> FoundSubmodule {
        FoundSubmodule {
            is_trusted: !matches!(self.located.location, SubmoduleLocation::Url { is_same_server: false, .. }),
            path: self.parent.path_of(&self.entry.path),
            git_dir: self.git_dir(),
            parent_git_dir: self.parent.git_dir.clone(),
            url: Some(self.located.address).filter(|address| !address.starts_with('/')),
            name: self.entry.name,
            commit: self.commit,
            mirror,
        }
    }
}
