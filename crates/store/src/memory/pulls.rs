//! Pull requests of the built-in code host.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use journeyman_core::code_host::PullState;
use journeyman_core::ports::{PullStore, StoreError};
use journeyman_core::pull::{Comment, CommentState, LocalPull, NewComment, NewPull, PullReviews, PullText, Verdict};
use journeyman_core::time::Timestamp;

use super::MemoryStore;

#[async_trait]
impl PullStore for MemoryStore {
    async fn open_pull(
        &self,
        repository: String,
        base: String,
        new: NewPull,
        now: Timestamp,
    ) -> Result<Option<LocalPull>, StoreError> {
        let mut tables = self.tables();
        let own = || tables.pulls.values().filter(|pull| pull.repository == repository);
        if own().any(|pull| pull.head == new.head && pull.state == PullState::Open) {
            return Ok(None);
        }
        let number = own().map(|pull| pull.number).max().unwrap_or(0) + 1;
        let pull = LocalPull {
            repository: repository.clone(),
            number,
            title: new.title,
            body: new.body,
            state: PullState::Open,
            draft: new.draft,
            head: new.head,
            base,
            labels: new.labels,
            created_at: now,
            ended_at: None,
            ended_by: None,
            ended_between: None,
            merge_commit: None,
        };
        tables.pulls.insert((repository, number), pull.clone());
        Ok(Some(pull))
    }

    async fn pull(&self, repository: String, number: u64) -> Result<Option<LocalPull>, StoreError> {
        Ok(self.tables().pulls.get(&(repository, number)).cloned())
    }

    async fn pulls_of_branch(&self, repository: String, head: String) -> Result<Vec<LocalPull>, StoreError> {
        let is_it = |pull: &&LocalPull| pull.repository == repository && pull.head == head;
        Ok(self.tables().pulls.values().rev().filter(is_it).cloned().collect())
    }

    async fn edit_pull(&self, repository: String, number: u64, text: PullText) -> Result<(), StoreError> {
        if let Some(pull) = self.tables().pulls.get_mut(&(repository, number)) {
            let PullText { title, body, draft } = text;
            pull.title = title.unwrap_or_else(|| pull.title.clone());
            pull.body = body.unwrap_or_else(|| pull.body.clone());
            pull.draft = draft.unwrap_or(pull.draft);
        }
        Ok(())
    }

    async fn pulls(&self, repository: String) -> Result<Vec<LocalPull>, StoreError> {
        let tables = self.tables();
        Ok(tables.pulls.values().rev().filter(|pull| pull.repository == repository).cloned().collect())
    }

    async fn remove_pulls(&self, repository: String) -> Result<(), StoreError> {
        let mut tables = self.tables();
        tables.comments.retain(|((of, _), _)| *of != repository);
        tables.pulls.retain(|(of, _), _| *of != repository);
        Ok(())
    }

    async fn comments(&self, repository: String, number: u64) -> Result<Vec<Comment>, StoreError> {
        let (tables, key) = (self.tables(), (repository, number));
        let found = tables.comments.iter().filter(|(of, _)| *of == key).map(|(_, comment)| comment.clone());
        let mut found: Vec<Comment> = found.collect();
        found.sort_unstable_by_key(|comment| comment.place);
        Ok(found)
    }

    async fn comment_states(&self, repository: String, number: u64) -> Result<Vec<CommentState>, StoreError> {
        let mut found = self.comments(repository, number).await?;
        found.retain(|one| !one.comment.is_draft);
        Ok(found.iter().map(Comment::state).collect())
    }

    async fn reviews_of_pulls(
        &self,
        repository: String,
        numbers: Vec<u64>,
    ) -> Result<BTreeMap<u64, PullReviews>, StoreError> {
        let mut by_pull = BTreeMap::new();
        for number in numbers {
            let mut comments = self.comments(repository.clone(), number).await?;
            comments.retain(|one| !one.comment.is_draft);
            let authors: BTreeSet<_> = comments.iter().map(|one| one.comment.author_id.clone()).collect();
            for author in authors {
                let own = || comments.iter().filter(|one| one.comment.author_id == author);
                let latest = |verdict: Verdict| {
                    let reviews = own().filter(|one| one.is_review());
                    reviews.filter(|one| one.comment.verdict == verdict).map(|one| one.place).max()
                };
                let count = u64::try_from(own().filter(|one| one.is_root()).count()).unwrap_or(u64::MAX);
                let reviews: &mut PullReviews = by_pull.entry(number).or_default();
                reviews.add(count, latest(Verdict::Approve), latest(Verdict::RequestChanges));
            }
        }
        Ok(by_pull)
    }

    async fn comment_once(
        &self,
        repository: String,
        number: u64,
        marker: String,
        comment: NewComment,
    ) -> Result<Option<u64>, StoreError> {
        let (mut tables, key) = (self.tables(), (repository, number));
        if !tables.pulls.contains_key(&key) {
            return Ok(None);
        }
        if let Some(place) = tables.comment_markers.get(&(key.clone(), marker.clone())) {
            return Ok(Some(*place));
        }
        let place = tables.last_comment(&key) + 1;
        tables.comment_markers.insert((key.clone(), marker), place);
        tables.comments.push((key, Comment { place, comment }));
        Ok(Some(place))
    }
}
