//! Turns the changes of an agent into commits in the mirror.
//!
//! Only the [`committer`] runs git on the tree, in a sandbox. The host decides which paths are committed ([`exact`]),
//! takes a pack, and checks the commits that it would push ([`journeyman_repository::import`]).

pub(crate) mod agent_settings;
pub(crate) mod committer;
mod conflict;
mod differences;
mod exact;
mod index;
pub(crate) mod lfs_objects;
mod paths;
mod submodules;
#[cfg(test)]
mod tests;
pub(crate) mod unfinished;
mod unpublished;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use journeyman_core::commit::subject::{Change, CoAuthor, Values, filled, subject_of, subject_of_changes};
use journeyman_core::ids::Sha;
use journeyman_core::job::Job;
use journeyman_core::job::turn::TurnBegun;
use journeyman_core::left_out::{LeftOut, LeftOutReason, path_text};
use journeyman_core::message::{Message, Origin};
use journeyman_core::project::LimitSettings;
use journeyman_core::run::ReasonCode;
use journeyman_repository::damage::named;
use journeyman_repository::import::{self, Checked, FILE_BYTES, GITMODULES, ImportError, LargeFile, Rules};
use journeyman_repository::published::TRAILER;
use journeyman_repository::{Mirror, Scratch};

use self::agent_settings::{AgentSettings, LineEndings, agent_settings};
use self::committer::{Committer, Task, open_pack};
use self::exact::{Staged, Turned, stage};
use self::lfs_objects::TurnObjects;
use self::unfinished::Unfinished;
use crate::claim::deadline;
use crate::claim::lease::Signals;
use crate::error::RunError;
use crate::sandbox::job_sandbox::JobSandbox;
use crate::submodules::SubmoduleState;
use crate::submodules::pointers::Pointers;
use crate::submodules::sources::Sources;
use crate::workspace::left_out::HeldBack;
use crate::workspace::listing::{Listing, Stamp};
use crate::workspace::scan::TreeScan;
use crate::workspace::state::{TreeState, digest};

/// The commits of a turn.
pub(crate) struct CollectedCommits {
    /// The commit that contains all changes.
    pub(crate) head: Sha,
    /// The commits from the start of the turn to the head, oldest first.
    pub(crate) commits: Vec<Sha>,
    /// True if the agent's repository has the head checked out.
    pub(crate) settled: bool,
    /// What the commits do not have, although the turn changed it.
    pub(crate) left_out: Vec<LeftOut>,
    /// The agent's commits that were replaced by one of the service. No change of a file is missing.
    pub(crate) replaced: Option<LeftOut>,
    /// What there is to store of what was left out, in the same order.
    pub(crate) held_back: Vec<HeldBack>,
    /// The submodules after the turn.
    pub(crate) submodules: SubmoduleState,
    /// The files with which those after the next turn are compared.
    pub(crate) listing: Listing,
    /// True if the agent's index may have marks.
    pub(crate) has_marks: bool,
    /// The digest of the agent's own ignore rules.
    pub(crate) ignore_rules: Stamp,
    /// True if the commits may have pointers to objects of Git LFS that are not on the code host yet.
    pub(crate) has_objects: bool,
}

/// The result of [`collect`].
pub(crate) enum Work {
    /// The changes are committed, if there are any.
    Committed(CollectedCommits),
    /// Nothing is committed, and the tree is as the agent left it.
    Unfinished(Unfinished),
}

/// The texts in the message of the service's commit.
pub(crate) struct Wording<'a> {
    /// The agent's answer, if it has sent one.
    pub(crate) answer: Option<&'a str>,
    /// The project's template of the subject.
    pub(crate) subject: Option<&'a str>,
    /// The person at the code host who asked for the work.
    pub(crate) co_author: Option<CoAuthor>,
}

/// The origin of a commit, and the rules for it.
pub(crate) struct CommitContext<'a> {
    pub(crate) sandbox: &'a JobSandbox,
    /// The variables of the committer; no secrets.
    pub(crate) environment: &'a BTreeMap<String, String>,
    pub(crate) signals: &'a Signals,
    pub(crate) mirror: &'a Mirror,
    pub(crate) turn: &'a TurnBegun,
    pub(crate) job: &'a Job,
    pub(crate) message: &'a Message,
    pub(crate) wording: Wording<'a>,
    /// True if the turn was interrupted: changes that are not committed then stay in the tree for the next turn.
    pub(crate) only_committed: bool,
    /// The newest commit of the branch that the work is merged into, which the agent has as `origin/<branch>`.
    pub(crate) upstream: Option<&'a Sha>,
    pub(crate) limits: &'a LimitSettings,
    /// Fetches the repositories of submodules.
    pub(crate) sources: &'a Sources<'a>,
    /// The folder for temporary files.
    pub(crate) scratch: &'a Scratch,
    /// The objects of Git LFS, if the project uses them.
    pub(crate) objects: Option<&'a TurnObjects<'a>>,
}

/// A tree when the turn began, and after it.
#[derive(Clone, Copy)]
pub(crate) struct Trees<'a> {
    pub(crate) state: &'a TreeState,
    /// The files when the turn began.
    pub(crate) listing: &'a Listing,
    pub(crate) scan: &'a TreeScan,
}

/// Commits the changes of a turn.
pub(crate) async fn collect(context: &CommitContext<'_>, trees: Trees<'_>) -> Result<Work, RunError> {
    let error = match commit(context, trees).await {
        Err(error) => error,
        work => return work,
    };
    // The committer reads the objects of the mirror. If the machine has damaged them, the agent is not to blame.
    if error.is_refusal() {
        let commits: Vec<&Sha> = [&context.turn.head].into_iter().chain(context.upstream).collect();
        let text = error.to_string();
        if context.mirror.is_damaged(&commits, &text).await? {
            return Err(RunError::MirrorDamaged(text));
        }
        for commit in commits {
            if let Some(path) = context.mirror.file_named(commit, &text).await? {
                let text = format!(
                    "git refuses the file {path:?}, which the repository has had before the turn, so nothing can be \
                     published on top of it; correct the file on the branch that the job starts from: {text}"
                );
                return Err(RunError::failed(ReasonCode::RepositoryUnsupported, text));
            }
        }
    }
    Err(error)
}

async fn commit(context: &CommitContext<'_>, trees: Trees<'_>) -> Result<Work, RunError> {
    let CommitContext { sandbox, mirror, turn, .. } = *context;
    let Trees { state, listing, scan } = trees;
    if !scan.repository_is_plain {
        tracing::warn!(
            job = %context.job.id,
            "the agent's commits are ignored: its .git contains links, FIFOs or devices"
        );
    }
    let settings = match context.only_committed {
        true => AgentSettings::default(),
        false => agent_settings(sandbox, &mirror.git).await?,
    };
    let rules = &settings.ignore_rules;
    let turned = Turned {
        before: listing,
        after: scan,
        may_have_marks: scan.repository_is_plain && scan.index.is_some() && state.unmarked_index != scan.index,
        has_own_ignore_rules: !rules.is_empty(),
        has_new_ignore_rules: digest(rules) != state.ignore_rules,
        converts_line_endings: settings.line_endings != LineEndings::Kept,
    };
    let mut task = Task {
        base: &turn.head,
        upstream: context.upstream,
        snapshot: !context.only_committed,
        trailer: format!("{TRAILER}: {}", context.message.id),
        co_author: context.wording.co_author.as_ref().map(ToString::to_string),
        normalize: false,
        settings: &settings,
        use_repository: scan.repository_is_plain,
        take_commits: true,
        time: deadline::commit_time(scan.bytes, scan.entries),
        limits: context.limits,
    };
    let starts: Vec<&Sha> = [&turn.head].into_iter().chain(context.upstream).collect();
    let has_submodules =
        scan.has_submodules || !state.submodules.pointers.is_empty() || listing.has(Path::new(GITMODULES));
    let mut pointers = Pointers::new(context.sources, mirror, &state.submodules, &starts, has_submodules).await?;
    let folders = mirror.folders().await?;
    let mut attempts = Attempts::default();
    let collection = Collection { context, turned, starts: &starts };
    let committed = loop {
        match collection.attempt(&mut task, &mut pointers, &mut attempts).await {
            Ok(Attempt::Committed(committed)) => break committed,
            Ok(Attempt::Unfinished(unfinished)) => return Ok(Work::Unfinished(unfinished)),
            Ok(Attempt::Again) => {}
            // Git cannot use the agent's commits, or refuses them. The files of the tree are committed without them.
            Err(error)
                if error.is_refusal()
                    && task.take_commits
                    && task.snapshot
                    && attempts.own.as_ref() != Some(&turn.head) =>
            {
                tracing::warn!(job = %context.job.id, %error, "the agent's commits are replaced by one of the service");
                task.take_commits = false;
                attempts.replaced = Some((attempts.own.take(), error));
            }
            Err(error) => return Err(error),
        }
    };
    let Committed { mut committer, head, commits, staged } = *committed;
    // Without changed files, the refused commits are all that the turn has made, and their refusal is its reason.
    if commits.is_empty()
        && staged.left_out.is_empty()
        && let Some((_, error)) = attempts.replaced
    {
        committer.end().await;
        return Err(error);
    }
    let left_out = staged
        .left_out
        .iter()
        .map(|(path, reason)| (path_text(path.as_os_str().as_bytes()), *reason))
        .map(|(path, reason)| LeftOut { path, reason, is_kept: false });
    let mut left_out: Vec<LeftOut> = left_out.collect();
    let mut held_back = staged.held_back(&scan.listing);
    let mut replaced = attempts.replaced(&committer);
    if task.snapshot {
        let tree = &sandbox.workspace.tree;
        match scan.repository_is_plain {
            true => {
                let since = context.message.delivered_at;
                let found = unpublished::find(&mut committer, mirror, tree, scan, since).await?;
                let (told, held) = found.into_iter().unzip::<_, _, Vec<_>, Vec<_>>();
                left_out.extend(told);
                held_back.extend(held);
            }
            false => replaced = unpublished::unusable(tree, &turn.head).await?,
        }
    }
    let (head, commits) = sign(context, head, commits).await?;
    // Sync before the end of the turn is recorded: recorded commits must survive a power failure.
    mirror.sync(folders).await?;
    let settled = match commits.is_empty() {
        true => {
            committer.end().await;
            scan.repository_is_plain
        }
        false => committer.settle(&head).await?,
    };
    Ok(Work::Committed(CollectedCommits {
        head,
        commits,
        settled,
        left_out,
        replaced,
        held_back,
        submodules: staged.submodules.clone().unwrap_or_else(|| state.submodules.clone()),
        listing: match context.only_committed {
            true => listing.clone(),
            false => staged.next(listing, &scan.listing),
        },
        has_marks: staged.has_marks || (context.only_committed && turned.may_have_marks),
        ignore_rules: digest(rules),
        has_objects: attempts.has_objects,
    }))
}

/// The end of an attempt to commit a turn.
enum Attempt<'a> {
    Committed(Box<Committed<'a>>),
    Unfinished(Unfinished),
    /// The task was changed, and can be attempted again.
    Again,
}

/// The commits of a turn in the mirror.
struct Committed<'a> {
    committer: Committer<'a>,
    head: Sha,
    commits: Vec<Sha>,
    staged: Staged,
}

/// What was found out by the attempts to commit a turn.
#[derive(Default)]
struct Attempts {
    /// Files and folders whose content cannot be committed, with the reasons.
    refused: BTreeMap<PathBuf, LeftOutReason>,
    /// The agent's newest commit that is taken, once it is known.
    own: Option<Sha>,
    /// The agent's newest commit, if its commits were refused, and the error. The commit is not known if git could not even
    /// begin with it.
    replaced: Option<(Option<Sha>, RunError)>,
    /// True if the commits may have pointers to objects of Git LFS.
    has_objects: bool,
}

impl Attempts {
    /// Records the files and folders of a commit with these objects. Returns whether there are any that are new.
    async fn refuse(
        &mut self,
        committer: &mut Committer<'_>,
        head: &Sha,
        objects: &BTreeSet<Sha>,
        reason: LeftOutReason,
    ) -> Result<bool, RunError> {
        let paths = committer.paths_of(head, objects).await?;
        let known = self.refused.len();
        self.refused.extend(paths.into_iter().map(|path| (path, reason)));
        Ok(self.refused.len() > known)
    }

    /// Records files that are too large after their conversion. Returns whether there are any that are new.
    async fn refuse_large(
        &mut self,
        committer: &mut Committer<'_>,
        head: &Sha,
        files: &[LargeFile],
    ) -> Result<bool, RunError> {
        let mut has_new = false;
        for file in files {
            let reason = LeftOutReason::TooLarge { bytes: file.bytes };
            has_new |= self.refuse(committer, head, &BTreeSet::from([file.object.clone()]), reason).await?;
        }
        Ok(has_new)
    }

    /// Returns which commits of the agent are replaced by one of the service.
    fn replaced(&self, committer: &Committer<'_>) -> Option<LeftOut> {
        let refused = self.replaced.as_ref().map(|(own, _)| (own.clone(), LeftOutReason::ReplacedCommits));
        let (own, reason) = refused.or_else(|| committer.replaced.clone().map(|(own, reason)| (Some(own), reason)))?;
        let path = own.map_or_else(|| unpublished::REPOSITORY.to_owned(), String::from);
        Some(LeftOut { path, reason, is_kept: false })
    }
}

/// What an attempt to commit a turn is made of.
struct Collection<'a> {
    context: &'a CommitContext<'a>,
    turned: Turned<'a>,
    /// The commits that the turn started from.
    starts: &'a [&'a Sha],
}

impl<'a> Collection<'a> {
    /// Returns the message of the service's commit.
    async fn message(&self, replaced: Option<&LeftOut>, committer: &mut Committer<'_>) -> Result<String, RunError> {
        let CommitContext { job, message, wording, .. } = self.context;
        let Wording { answer, subject: template, co_author } = wording;
        let subject = match subject_of(message, *answer, &job.title) {
            Some(subject) => subject,
            None => {
                let changes = committer.changes().await?;
                let changes: Vec<Change<'_>> =
                    changes.iter().map(|(letter, path)| Change::new(*letter, path)).collect();
                subject_of_changes(&changes)
            }
        };
        let issue = message.source.as_ref().filter(|source| source.origin == Origin::Issue);
        let branch = job.branch_name();
        let values = Values { subject: &subject, issue: issue.map(|source| source.number), branch: &branch };
        // Code hosts read the messages of commits too.
        let title = journeyman_core::markdown::title(&filled(*template, &values));
        let note = replaced.map(|one| {
            let which = match one.reason {
                LeftOutReason::ReplacedCommits => "that git refuses",
                _ => "that do not continue the branch",
            };
            format!("Replaces commits of the agent {which}. The last one is\n{}.\n\n", one.path)
        });
        let note = note.unwrap_or_default();
        let co_author = co_author.as_ref().map(|person| format!("{person}\n")).unwrap_or_default();
        Ok(format!("{title}\n\n{note}{co_author}Journeyman-Job: {}\n{TRAILER}: {}\n", job.id, message.id))
    }

    async fn attempt(
        &self,
        task: &mut Task<'_>,
        pointers: &mut Pointers<'_>,
        attempts: &mut Attempts,
    ) -> Result<Attempt<'a>, RunError> {
        let Self { context, turned, .. } = *self;
        let CommitContext { sandbox, environment, signals, mirror, turn, .. } = *context;
        attempts.own = None;
        let mut committer = Committer::start(sandbox, environment, signals, task).await?;
        attempts.own = Some(committer.own.clone());
        let staged = match task.snapshot {
            true => {
                let sources = (&mirror.git, &sandbox.workspace);
                stage(&mut committer, sources, (&turn.head, turned), pointers, context.objects, &attempts.refused)
                    .await?
            }
            false => Staged::default(),
        };
        if task.snapshot
            && let Some(unfinished) = Unfinished::find(mirror, self.starts, turned.after, &staged).await?
        {
            committer.end().await;
            return Ok(Attempt::Unfinished(unfinished));
        }
        let message = self.message(attempts.replaced(&committer).as_ref(), &mut committer).await?;
        let head = committer.commit(&message).await?;
        if head == turn.head {
            let commits = Vec::new();
            return Ok(Attempt::Committed(Box::new(Committed { committer, head, commits, staged })));
        }
        match import(sandbox, mirror).await? {
            Ok(()) => {}
            Err(ImportError::OddModes) if !task.normalize => {
                committer.end().await;
                task.normalize = true;
                return Ok(Attempt::Again);
            }
            Err(ImportError::OddModes) => {
                let text = "the agent's commits are refused: they have file modes that git does not support";
                return Err(RunError::failed(ReasonCode::WorkspaceRefused, text));
            }
            Err(ImportError::Other(error)) => {
                let error = RunError::from(error);
                if task.snapshot
                    && committer.own == turn.head
                    && error.is_refusal()
                    && attempts
                        .refuse(&mut committer, &head, &named(&error.to_string()), LeftOutReason::RefusedByGit)
                        .await?
                {
                    committer.end().await;
                    return Ok(Attempt::Again);
                }
                return Err(error);
            }
        }
        if pointers.has_some() {
            pointers.judge_commit(mirror, &head).await?;
        }
        let has_own_commits = committer.own != turn.head;
        let rules = Rules {
            submodules: pointers.known(),
            job: context.job.id,
            base: &turn.head,
            upstream: context.upstream,
            file_bytes: context.limits.file_bytes.unwrap_or(FILE_BYTES),
            // A commit of the service has no other files than those that were checked, unless git converts them.
            may_have_large_files: has_own_commits || turned.may_convert(),
        };
        let checked = import::check(mirror, &head, &rules);
        let checked = deadline::within(deadline::CHECK, "checking the commits of the turn", checked).await?;
        let checked = match checked {
            Checked::Accepted(commits) => {
                let is_used = staged.has_lfs
                    || has_own_commits
                        && turned.after.has_attributes
                        && match context.objects {
                            Some(objects) => objects.start_tree().await?.is_used,
                            None => true,
                        };
                let problem = match is_used {
                    true => check_lfs(context, &head, has_own_commits).await?,
                    false => None,
                };
                attempts.has_objects |= is_used;
                problem.map_or(Checked::Accepted(commits), Checked::Content)
            }
            other => other,
        };
        match checked {
            Checked::Accepted(commits) => {
                Ok(Attempt::Committed(Box::new(Committed { committer, head, commits, staged })))
            }
            Checked::TooLarge(files)
                if !has_own_commits && attempts.refuse_large(&mut committer, &head, &files).await? =>
            {
                committer.end().await;
                Ok(Attempt::Again)
            }
            Checked::TooLarge(files) => {
                committer.end().await;
                let LargeFile { path, bytes, .. } = &files[0];
                let most = rules.file_bytes;
                let text = format!(
                    "the agent's commits are refused: {path:?} has {bytes} bytes and the most is {most} (limits.fileBytes)"
                );
                Err(RunError::failed(ReasonCode::WorkspaceRefused, text))
            }
            Checked::Content(detail) => {
                committer.end().await;
                let text = format!("the agent's commits are refused: {detail}");
                Err(RunError::failed(ReasonCode::WorkspaceRefused, text))
            }
        }
    }
}

/// Checks the files in Git LFS of the turn's commits, and stores their objects. Returns the reason why the commits cannot be
/// published, if there is one.
async fn check_lfs(context: &CommitContext<'_>, head: &Sha, has_own_commits: bool) -> Result<Option<String>, RunError> {
    let CommitContext { sandbox, mirror, turn, .. } = *context;
    let changes = mirror.lfs_changes(&turn.head, context.upstream, head, context.scratch, context.job.id).await?;
    if let Some(path) = changes.content.filter(|_| has_own_commits) {
        return Ok(Some(format!("{path:?} belongs in Git LFS, and its content is not a pointer")));
    }
    let Some(objects) = context.objects else { return Ok(None) };
    let pointers: Vec<_> = changes.pointers.into_iter().map(|file| file.pointer).collect();
    objects.store(&sandbox.workspace.tree, &pointers).await
}

/// Signs the commits of the turn, if the server signs commits. Returns the head and the commits as they are pushed.
async fn sign(context: &CommitContext<'_>, head: Sha, commits: Vec<Sha>) -> Result<(Sha, Vec<Sha>), RunError> {
    let CommitContext { mirror, turn, job, .. } = *context;
    let signed = mirror.sign(&turn.head, &head).await?;
    if signed.replaced.is_empty() {
        return Ok((head, commits));
    }
    let head = signed.commit(&head);
    mirror.keep(&format!("{}/head", job.id), &head).await?;
    Ok((head, commits.iter().map(|commit| signed.commit(commit)).collect()))
}

/// Imports the committer's pack into the mirror.
async fn import(sandbox: &JobSandbox, mirror: &Mirror) -> Result<Result<(), ImportError>, RunError> {
    let folder = sandbox.workspace.commit_dir.clone();
    let pack = tokio::task::spawn_blocking(move || open_pack(&folder)).await.map_err(std::io::Error::other)??;
    let bytes = pack.metadata()?.len();
    Ok(import::import(mirror, pack, deadline::import_time(bytes)).await)
}
