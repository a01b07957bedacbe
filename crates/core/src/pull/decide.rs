//! Decisions about pull requests of the built-in code host.

use crate::admin::{AdminChange, AdminRefusal, AdminRow, AdminState};
use crate::ports::AuditEntry;
use crate::pull::{LocalPull, NewComment, PullEnding, PullState};

/// Ends an open pull request.
///
/// # Errors
/// The pull request does not exist, or has ended already.
pub fn end(state: &AdminState, ending: PullEnding, audit: AuditEntry) -> Result<AdminChange, AdminRefusal> {
    let pull = found(state)?;
    if pull.state != PullState::Open {
        return Err(AdminRefusal::PullNotOpen);
    }
    let PullEnding { state, at, between } = ending;
    let ended = LocalPull { state, ended_at: Some(at), ended_between: between, ..pull.clone() };
    Ok(AdminChange::new([AdminRow::Pull(Box::new(ended))], audit))
}

/// Adds a comment after the existing ones. Pull requests that have ended can have comments too.
///
/// # Errors
/// The pull request does not exist.
pub fn comment(state: &AdminState, comment: NewComment, audit: AuditEntry) -> Result<AdminChange, AdminRefusal> {
    let pull = found(state)?;
    let row = AdminRow::Comment { repository: pull.repository.clone(), number: pull.number, comment };
    Ok(AdminChange::new([row], audit))
}

fn found(state: &AdminState) -> Result<&LocalPull, AdminRefusal> {
    state.pull.as_ref().ok_or(AdminRefusal::NoPull)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

    fn audit() -> AuditEntry {
        let at = Timestamp::from_micros(7);
        AuditEntry { at, actor: "cli".into(), action: "pull.merged".into(), subject: "shop#1".into(), address: None }
    }

    fn open() -> LocalPull {
        LocalPull {
            repository: "shop".into(),
            number: 1,
            title: "T".into(),
            body: String::new(),
            state: PullState::Open,
            draft: false,
            head: "topic".into(),
            base: "main".into(),
            labels: vec![],
            created_at: Timestamp::default(),
            ended_at: None,
            ended_between: None,
        }
    }

    fn state(pull: Option<LocalPull>) -> AdminState {
        AdminState { pull, ..AdminState::default() }
    }

    #[test]
    fn an_open_pull_request_ends_once() {
        let at = Timestamp::from_micros(9);
        for to in [PullState::Merged, PullState::Closed] {
            let ending = PullEnding { state: to, at, between: None };
            let change = end(&state(Some(open())), ending.clone(), audit()).expect("it is open");
            let ended = LocalPull { state: to, ended_at: Some(at), ..open() };
            assert_eq!(change.rows, [AdminRow::Pull(Box::new(ended.clone()))]);
            assert_eq!(change.audit, [audit()]);
            assert_eq!(end(&state(Some(ended)), ending.clone(), audit()), Err(AdminRefusal::PullNotOpen));
            assert_eq!(end(&state(None), ending, audit()), Err(AdminRefusal::NoPull));
        }
    }

    #[test]
    fn a_comment_needs_a_pull_request_which_may_have_ended() {
        let new = NewComment { author: "Ada".into(), body: "x".into(), at: Timestamp::default(), message: None };
        let closed = LocalPull { state: PullState::Closed, ..open() };
        for pull in [open(), closed] {
            let change = comment(&state(Some(pull)), new.clone(), audit()).expect("it exists");
            let row = AdminRow::Comment { repository: "shop".into(), number: 1, comment: new.clone() };
            assert_eq!((change.rows, change.audit), (vec![row], vec![audit()]));
        }
        assert_eq!(comment(&state(None), new, audit()), Err(AdminRefusal::NoPull));
    }
}
