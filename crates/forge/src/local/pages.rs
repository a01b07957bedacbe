//! The pages of pull requests: commits, diff and merge.

use async_trait::async_trait;
use journeyman_core::code_host::PullState;
use journeyman_core::ids::Sha;
use journeyman_core::left_out::path_text;
use journeyman_core::ports::{CommitLine, MAX_BRANCHES, PullDetail, PullMerge, PullPages, PullPagesError, StoreError};
use journeyman_core::project::{Address, Project, parse_address};
use journeyman_core::pull::base_comparison::Conflicts;
use journeyman_core::pull::{LocalPull, NewMerge};
use journeyman_core::time::Timestamp;
use journeyman_git::GitError;

use super::LocalHost;

/// The maximum number of commits that a page shows.
const COMMITS: &str = "--max-count=500";

/// The maximum number of bytes of a diff that a page shows.
const DIFF_BYTES: usize = 2 << 20;

fn git(error: &GitError) -> PullPagesError {
    PullPagesError::Failed(error.to_string())
}

fn store(error: &StoreError) -> PullPagesError {
    PullPagesError::Failed(error.to_string())
}

fn name(project: &Project) -> Result<String, PullPagesError> {
    match parse_address(&project.repository) {
        Ok(Address::Local(name)) => Ok(name),
        _ => Err(PullPagesError::NotFound),
    }
}

impl LocalHost {
    async fn existing(&self, name: &str, number: u64) -> Result<LocalPull, PullPagesError> {
        let pull = self.pulls.pull(name.to_owned(), number).await.map_err(|error| store(&error))?;
        pull.ok_or(PullPagesError::NotFound)
    }

    async fn commits(&self, name: &str, base: &Sha, head: &Sha) -> Result<Vec<CommitLine>, PullPagesError> {
        let range = format!("{base}..{head}");
        // NUL separates the fields and the entries: no subject or name can contain it.
        let arguments = ["log", "-z", "--reverse", COMMITS, "--format=%H%x00%s%x00%an%x00%at", &range];
        let output = self.git.at(&self.path(name), arguments).run().await.map_err(|error| git(&error))?;
        let text = path_text(&output.stdout);
        let fields: Vec<&str> = text.split('\0').collect();
        let line = |fields: &[&str]| match fields {
            [sha, subject, author, at] => Some(CommitLine {
                sha: sha.parse().ok()?,
                subject: (*subject).to_owned(),
                author: (*author).to_owned(),
                at: Timestamp::from_micros(at.parse::<i64>().ok()?.saturating_mul(1_000_000)),
            }),
            _ => None,
        };
        Ok(fields.chunks(4).filter_map(line).collect())
    }

    /// Returns the diff, and whether it was truncated.
    async fn shown_diff(&self, name: &str, base: &Sha, head: &Sha) -> Result<(String, bool), PullPagesError> {
        let range = format!("{base}...{head}");
        let options = ["--no-color", "--no-ext-diff", "--no-textconv", "-M", "--src-prefix=a/", "--dst-prefix=b/"];
        let arguments = ["diff"].into_iter().chain(options).chain([range.as_str()]);
        let shown = self.git.at(&self.path(name), arguments).run_beginning(DIFF_BYTES).await;
        let (output, cut) = shown.map_err(|error| git(&error))?;
        let mut bytes = output.stdout;
        if cut {
            // Keeps whole lines only.
            let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            bytes.truncate(end);
        }
        Ok((String::from_utf8_lossy(&bytes).into_owned(), cut))
    }
}

#[async_trait]
impl PullPages for LocalHost {
    async fn pulls(&self, project: &Project) -> Result<Vec<LocalPull>, PullPagesError> {
        self.pulls.pulls(name(project)?).await.map_err(|error| store(&error))
    }

    async fn branches(&self, project: &Project) -> Result<Vec<String>, PullPagesError> {
        let path = self.path(&name(project)?);
        if !path.join("HEAD").exists() {
            return Ok(Vec::new());
        }
        let count = format!("--count={MAX_BRANCHES}");
        let list = self.git.at(&path, ["for-each-ref", &count, "--format=%(refname:lstrip=2)", "refs/heads"]);
        let listed = list.run().await.map_err(|error| git(&error))?;
        // A name that is not UTF-8 cannot be chosen.
        let names = listed.stdout.split(|byte| *byte == b'\n').filter(|name| !name.is_empty());
        let names = names.filter_map(|name| std::str::from_utf8(name).ok());
        let mut branches: Vec<String> = names.map(str::to_owned).collect();
        // A repository whose HEAD is no branch has no default branch.
        if let Ok(first) = self.default_branch(&path).await {
            branches.sort_by_key(|branch| branch.as_bytes() != first);
        }
        Ok(branches)
    }

    async fn commits(&self, project: &Project, branch: &str, limit: u64) -> Result<Option<u64>, PullPagesError> {
        let path = self.path(&name(project)?);
        let Some(head) = self.branch(&path, branch).await.map_err(|error| git(&error))? else { return Ok(None) };
        let (most, head) = (format!("--max-count={limit}"), head.to_string());
        let counted = self.git.at(&path, ["rev-list", "--count", &most, &head]).run().await;
        let counted = counted.map_err(|error| git(&error))?;
        let count = String::from_utf8_lossy(&counted.stdout).trim().parse();
        count.map(Some).map_err(|_| PullPagesError::Failed("git rev-list printed no number".to_owned()))
    }

    async fn pull(&self, project: &Project, number: u64) -> Result<PullDetail, PullPagesError> {
        let name = name(project)?;
        let pull = self.existing(&name, number).await?;
        let ends = match (&pull.ended_between, pull.state) {
            (Some(ends), PullState::Merged | PullState::Closed) => Some(ends.clone()),
            _ => self.branch_ends(&self.path(&name), &pull).await?,
        };
        let Some((base, head)) = ends else {
            // A branch was deleted: the pull request still exists and can be closed.
            let (commits, conflicts) = (Vec::new(), Conflicts::default());
            return Ok(PullDetail { pull, commits, diff: String::new(), diff_cut: false, mergeable: false, conflicts });
        };
        let commits = self.commits(&name, &base, &head).await?;
        let (diff, diff_cut) = self.shown_diff(&name, &base, &head).await?;
        let conflicts = match pull.state {
            PullState::Open => self.conflicts_of(&self.path(&name), (base, head)).await.ok(),
            PullState::Merged | PullState::Closed => None,
        };
        let mergeable = conflicts.as_ref().is_some_and(Conflicts::is_empty);
        let conflicts = conflicts.unwrap_or_default();
        Ok(PullDetail { pull, commits, diff, diff_cut, mergeable, conflicts })
    }

    async fn conflicts(&self, project: &Project, number: u64) -> Result<Conflicts, PullPagesError> {
        let name = name(project)?;
        let pull = self.existing(&name, number).await?;
        if pull.state != PullState::Open {
            return Ok(Conflicts::default());
        }
        let path = self.path(&name);
        let Some(ends) = self.branch_ends(&path, &pull).await? else { return Ok(Conflicts::default()) };
        self.conflicts_of(&path, ends).await
    }

    async fn ahead(&self, project: &Project, base: Option<&str>, head: &str) -> Result<(String, u64), PullPagesError> {
        let name = name(project)?;
        let base = match base {
            Some(base) => base.to_owned(),
            None => self.repository(&project.id, name.clone()).default_branch().await.map_err(|error| git(&error))?,
        };
        let commits = self.commits_ahead(&self.path(&name), &base, head).await?;
        Ok((base, commits))
    }

    async fn merge(&self, project: &Project, number: u64, merge: &NewMerge) -> Result<PullMerge, PullPagesError> {
        let name = name(project)?;
        let pull = self.existing(&name, number).await?;
        if pull.state != PullState::Open {
            return Err(PullPagesError::NotOpen);
        }
        self.merge_branches(&self.path(&name), &pull, merge).await
    }

    async fn ends(&self, project: &Project, number: u64) -> Result<Option<(Sha, Sha)>, PullPagesError> {
        let name = name(project)?;
        let pull = self.existing(&name, number).await?;
        self.branch_ends(&self.path(&name), &pull).await
    }
}
