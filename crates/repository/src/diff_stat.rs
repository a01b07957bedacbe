//! The sizes of the changes of a turn.

use std::time::Duration;

use journeyman_core::diff_stat::{CommitDiff, DiffStat, MAX_COMMITS, MAX_PATHS, MessageDiff, TurnDiff, subject};
use journeyman_core::ids::Sha;
use journeyman_core::left_out::{LeftOut, path_text};
use journeyman_git::GitError;

use crate::Mirror;
use crate::upstream::start_of_work;

/// The time limit for counting the lines of all changes of a turn. The end of the turn is reported after that.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The options of git that count lines, one line for each file. The agent's repository cannot select another format.
const FORMAT: [&str; 5] = ["--numstat", "--find-renames", "--no-color", "--no-ext-diff", "--no-textconv"];

/// The commits of a turn.
#[derive(Debug, Clone, Copy)]
pub struct Range<'a> {
    /// The commit that the job's branch started from.
    pub base: &'a Sha,
    /// The commit that the turn started from.
    pub start: &'a Sha,
    /// The last commit of the turn.
    pub head: &'a Sha,
    /// The newest commit of the branch that the work is merged into. What the turn has merged from it is not counted.
    pub upstream: Option<&'a Sha>,
}

/// Counts the changes of a turn, and those of the job's branch. Returns `None` if there is nothing to tell. If git cannot
/// count the lines, it logs why, and the numbers are zero: they are only shown.
pub async fn turn_diff(mirror: &Mirror, range: Range<'_>, left_out: Vec<LeftOut>) -> Option<Box<TurnDiff>> {
    if range.start == range.head && left_out.is_empty() {
        return None;
    }
    let head = range.head;
    let mut diff = match tokio::time::timeout(TIMEOUT, counted(mirror, range)).await {
        Ok(Ok(diff)) => diff,
        Ok(Err(error)) => {
            tracing::warn!(%head, %error, "the changed lines of a turn could not be counted");
            TurnDiff::default()
        }
        Err(_) => {
            tracing::warn!(%head, "counting the changed lines of a turn took too long");
            TurnDiff::default()
        }
    };
    if diff == TurnDiff::default() && left_out.is_empty() {
        return None;
    }
    diff.message.leave_out(left_out);
    Some(Box::new(diff))
}

async fn counted(mirror: &Mirror, Range { base, start, head, upstream }: Range<'_>) -> Result<TurnDiff, GitError> {
    let (commits, has_merged) = match start == head {
        true => (Vec::new(), false),
        false => mirror.commit_diffs(start, upstream, head).await?,
    };
    let stat = match commits.as_slice() {
        [] => DiffStat::default(),
        [only] => only.stat,
        all if has_merged => sum(all),
        _ => mirror.diff_stat(&format!("{start}..{head}")).await?,
    };
    let branch = match base == start {
        true => stat,
        false => {
            let from = start_of_work(&mirror.git, &mirror.path, base, upstream, head).await?;
            mirror.diff_stat(&format!("{from}...{head}")).await?
        }
    };
    Ok(TurnDiff { branch, message: MessageDiff { stat, commits, ..MessageDiff::default() } })
}

impl Mirror {
    /// Returns the first parent of a commit; `None` if there is none.
    pub(crate) async fn parent(&self, commit: Option<&Sha>) -> Option<Sha> {
        let parent = format!("{}^", commit?);
        let found = self.git.at(&self.path, ["rev-parse", "--verify", "--quiet", &parent]).run().await;
        found.ok()?.sha().ok()
    }

    /// Returns the newest commits from `start` to `head` with their sizes, oldest first, without those that `upstream`
    /// has, and whether there is a merge. The size of a merge is that of the resolution of its conflicts.
    async fn commit_diffs(
        &self,
        start: &Sha,
        upstream: Option<&Sha>,
        head: &Sha,
    ) -> Result<(Vec<CommitDiff>, bool), GitError> {
        let most = format!("--max-count={MAX_COMMITS}");
        let range = [format!("{start}..{head}")].into_iter().chain(upstream.map(|upstream| format!("^{upstream}")));
        let order = ["--reverse", "--topo-order", "--diff-merges=off", "--format=%x00%H %P%n%s", &most];
        let arguments = ["log"].into_iter().chain(order).chain(FORMAT).map(str::to_owned);
        let arguments = arguments.chain(range).chain(["--".to_owned()]);
        let output = self.git.at(&self.path, arguments).timeout(TIMEOUT).run().await?;
        let mut has_merge = false;
        let mut commits = Vec::new();
        let mut left = MAX_PATHS;
        for Logged { mut commit, is_merge } in parse(&path_text(&output.stdout)) {
            has_merge |= is_merge;
            match left.checked_sub(commit.paths.len()) {
                Some(rest) => left = rest,
                None => commit.paths.clear(),
            }
            if is_merge {
                commit.stat = self.resolution(&commit.sha).await;
            }
            commits.push(commit);
        }
        Ok((commits, has_merge))
    }

    /// Returns the size of what a merge has beyond an automatic one. Git before 2.35 cannot tell.
    async fn resolution(&self, merge: &Sha) -> DiffStat {
        let arguments = ["show", "--format=", "--diff-merges=remerge"].into_iter().chain(FORMAT);
        let shown = self.git.at(&self.path, arguments.chain([merge.as_str(), "--"])).timeout(TIMEOUT).run().await;
        shown.map_or_else(|_| DiffStat::default(), |output| count(&String::from_utf8_lossy(&output.stdout)))
    }

    async fn diff_stat(&self, range: &str) -> Result<DiffStat, GitError> {
        let arguments = ["diff"].into_iter().chain(FORMAT).chain([range, "--"]);
        let output = self.git.at(&self.path, arguments).timeout(TIMEOUT).run().await?;
        Ok(count(&path_text(&output.stdout)))
    }
}

/// A commit of the log.
struct Logged {
    commit: CommitDiff,
    is_merge: bool,
}

/// Parses commits, each of which begins with a NUL, its hash and those of its parents; a line with its subject and lines
/// about its files follow.
fn parse(output: &str) -> impl Iterator<Item = Logged> {
    output.split('\0').filter_map(|entry| {
        let (hashes, rest) = entry.split_once('\n')?;
        let (text, files) = rest.split_once('\n').unwrap_or((rest, ""));
        let mut hashes = hashes.split(' ');
        let sha = hashes.next()?.parse().ok()?;
        let commit = CommitDiff { sha, subject: subject(text), stat: count(files), paths: paths(files) };
        Some(Logged { commit, is_merge: hashes.count() > 1 })
    })
}

/// Adds up the sizes of commits. A file counts for each commit that changes it.
fn sum(commits: &[CommitDiff]) -> DiffStat {
    commits.iter().fold(DiffStat::default(), |sum, CommitDiff { stat, .. }| DiffStat {
        additions: sum.additions + stat.additions,
        deletions: sum.deletions + stat.deletions,
        files: sum.files + stat.files,
    })
}

/// Counts the files and lines of the output of `git diff --numstat`: for each file the added and the removed lines, which
/// are `-` if it is binary, and its path, in which git quotes tabs and line breaks.
fn count(output: &str) -> DiffStat {
    let mut stat = DiffStat::default();
    for line in output.lines() {
        let mut columns = line.splitn(3, '\t');
        let (Some(additions), Some(deletions), Some(_)) = (columns.next(), columns.next(), columns.next()) else {
            continue;
        };
        let [additions, deletions] = [additions, deletions].map(|lines| lines.parse().unwrap_or_default());
        stat.add_file(additions, deletions);
    }
    stat
}

/// Returns the paths in the output of `git diff --numstat`, for a renamed file the old and the new one. Paths that git
/// quotes are left out.
fn paths(output: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for path in output.lines().filter_map(|line| line.splitn(3, '\t').nth(2)).filter(|path| !path.starts_with('"')) {
        let renamed = path.split_once(" => ").map(|(before, after)| {
            let (start, old) = before.split_once('{').unwrap_or(("", before));
            let (new, end) = after.split_once('}').unwrap_or((after, ""));
            // An empty part leaves two slashes.
            [old, new].map(|part| format!("{start}{part}{end}").replace("//", "/"))
        });
        match renamed {
            Some(both) => paths.extend(both),
            None => paths.push(path.to_owned()),
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    #[test]
    fn files_are_counted_also_if_they_are_binary_or_renamed() {
        let output = "1\t2\tsrc/{a => b}.rs\n-\t-\timage.png\n\n7\t0\t\"odd\\tname\"\n";
        assert_eq!(count(output), DiffStat { additions: 8, deletions: 2, files: 3 });
        assert_eq!(count(""), DiffStat::default());
        assert_eq!(paths(output), ["src/a.rs", "src/b.rs", "image.png"]);
        assert_eq!(
            paths("1\t0\ta.rs => b.rs\n1\t0\tsrc/{ => sub}/c.rs\n"),
            ["a.rs", "b.rs", "src/c.rs", "src/sub/c.rs"]
        );
    }

    #[tokio::test]
    async fn the_commits_the_turn_and_the_branch_are_counted() {
        let fixture = Fixture::new().await;
        let first = fixture.commit(&[("a", Some("2\n3\n")), ("b", Some("x\n"))]).await;
        let second = fixture.commit(&[("a", Some("2\n3\n4\n")), ("b", None)]).await;
        let mirrors = fixture.mirrors();
        let mirror = fixture.mirror(&mirrors).await;
        let stat = |additions, deletions, files| DiffStat { additions, deletions, files };
        let between = |start, head| Range { base: &fixture.base, start, head, upstream: None };
        let diff = turn_diff(&mirror, between(&fixture.base, &second), Vec::new()).await.unwrap();
        assert_eq!(
            (diff.branch, diff.message.stat),
            (stat(3, 1, 1), stat(3, 1, 1)),
            "the file that went counts no more"
        );
        let commits: Vec<_> = diff.message.commits.iter().map(|commit| (&commit.sha, commit.stat)).collect();
        assert_eq!(commits, [(&first, stat(3, 1, 2)), (&second, stat(1, 1, 2))]);
        assert_eq!(diff.message.commits[0].paths, ["a", "b"]);
        assert_eq!(diff.message.commits[0].subject, "Change");
        let follow_up = turn_diff(&mirror, between(&first, &second), Vec::new()).await.unwrap();
        assert_eq!((follow_up.branch, follow_up.message.stat), (stat(3, 1, 1), stat(1, 1, 2)));
        assert_eq!(mirror.parent(Some(&second)).await.as_ref(), Some(&first));
        assert_eq!(turn_diff(&mirror, between(&second, &second), Vec::new()).await, None);
        let unknown = "f".repeat(40).parse().unwrap();
        assert_eq!(turn_diff(&mirror, between(&second, &unknown), Vec::new()).await, None, "the turn goes on");
    }
}
