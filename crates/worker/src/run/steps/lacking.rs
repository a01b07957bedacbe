//! What the tree of a turn lacks, and what is stored so that a later one does not lack it.

use std::path::PathBuf;

use journeyman_core::checkout::{BaseReason, LossReason, Missing};
use journeyman_core::left_out::LeftOut;
use journeyman_core::run::ReasonCode;
use journeyman_core::submodule::Skipped;
use journeyman_repository::branch::base_of;

use super::{HostSteps, Tree};
use crate::commit::CollectedCommits;
use crate::error::RunError;
use crate::workspace::home_archive;
use crate::workspace::left_out::Saved;

impl HostSteps<'_> {
    /// Returns what the newest earlier turn has left out, as far as it is recorded.
    pub(super) async fn left_out_before(&self) -> Result<Vec<LeftOut>, RunError> {
        if self.job().archive.is_none() {
            return Ok(Vec::new());
        }
        let messages = self.host.store.messages(self.job().id).await?;
        let own = self.assignment.claimed.message.id;
        let earlier = messages.into_iter().rev().filter(|message| message.id != own);
        Ok(earlier.filter_map(|message| message.diff).next().map(|diff| diff.left_out).unwrap_or_default())
    }

    /// Returns what is told if the last turn ended with work that was not finished, which only its workspace had.
    pub(super) async fn unfinished_before(&self) -> Result<Option<Missing>, RunError> {
        if self.job().archive.is_none() {
            return Ok(None);
        }
        let own = self.assignment.claimed.message.id;
        let messages = self.host.store.messages(self.job().id).await?;
        let last = messages.iter().rev().find(|message| message.id != own && message.delivered_at.is_some());
        let Some(run) = last.and_then(|message| message.run) else { return Ok(None) };
        let reason = self.host.store.run(run).await?.and_then(|run| run.reason);
        let is_unfinished = reason.is_some_and(|reason| reason.code == ReasonCode::UnresolvedConflicts);
        Ok(is_unfinished.then(|| Missing::left_out(".".to_owned(), LossReason::Unfinished)))
    }

    /// Stores what the commits of a turn have left out, and records which of it is kept.
    pub(super) async fn keep_left_out(
        &self,
        tree: &mut Tree,
        collected: &mut CollectedCommits,
        archive: &str,
    ) -> Result<(), RunError> {
        let (blobs, workspace) = (&*self.host.blobs, &self.sandbox.workspace);
        let held_back = std::mem::take(&mut collected.held_back);
        let paths: Vec<PathBuf> = held_back.iter().map(|one| one.path.clone()).collect();
        let Saved { is_stored, kept } = workspace.save_left_out(blobs, archive, &collected.head, held_back).await?;
        for (one, path) in collected.left_out.iter_mut().zip(paths) {
            one.is_kept = kept.contains(&path);
        }
        if tree.has_stored_left_out && !is_stored {
            blobs.delete(&home_archive::left_out_key(archive)).await?;
        }
        tree.has_stored_left_out = is_stored;
        Ok(())
    }

    /// Gives the agent the newest commit of the branch that the work is merged into. Returns what is missing, if that is
    /// not possible.
    pub(super) async fn show_upstream(&self) -> Result<Option<Missing>, RunError> {
        // If there is no such branch, the work cannot be merged.
        let Ok(branch) = base_of(self.job(), &self.assignment.project, &self.mirror) else { return Ok(None) };
        let Some(commit) = self.mirror.heads.get(&branch) else {
            return Ok(Some(Missing::base(&branch, BaseReason::NotFound)));
        };
        match self.sandbox.workspace.set_upstream(&branch, commit).await {
            Ok(()) => Ok(None),
            Err(error) => {
                tracing::warn!(job = %self.job().id, %branch, %error, "origin/<branch> could not be set");
                Ok(Some(Missing::base(&branch, BaseReason::NotWritten)))
            }
        }
    }

    /// Returns the submodules that were not filled and have to be told.
    pub(super) fn skipped(&self, skipped: &[Skipped]) -> Vec<Missing> {
        let is_first = self.job().archive.is_none();
        skipped.iter().filter(|one| is_first || !one.reason.is_told_once()).map(Missing::submodule).collect()
    }
}
