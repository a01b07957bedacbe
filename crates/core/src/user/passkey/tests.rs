//! Tests of the decisions on passkeys.

use super::*;
use crate::audit::AuditEntry;
use crate::decision::passkey::{Presented, add, prove_session, remove, rename, start_session};
use crate::decision::user::LockedUser;
use crate::decision::{Row, user as user_decide};
use crate::ids::UserId;
use crate::refusal::{RefusalKind, ResourceKind};
use crate::user::{PasswordHash, Role, Session, User};

fn at(seconds: u64) -> Timestamp {
    Timestamp::default() + Duration::from_secs(seconds)
}

fn audit(action: &str) -> AuditEntry {
    let (actor, subject) = ("ada".to_owned(), "ada".to_owned());
    AuditEntry { at: at(100), actor, action: action.to_owned(), subject, address: None }
}

fn passkey(counter: u32) -> Passkey {
    let (credential, key, name) = ("one".to_owned(), "key".to_owned(), "Phone".to_owned());
    Passkey { credential, key, counter, name, created_at: at(1), used_at: None }
}

fn challenge(byte: u8) -> Challenge {
    Challenge { hash: TokenHash([byte; 32]), until: at(101) }
}

fn user(list: Vec<Passkey>) -> User {
    User {
        id: UserId::from_uuid(uuid::Uuid::from_u128(1)),
        name: "ada".to_owned(),
        role: Role::Member,
        password: Some(PasswordHash("hash".to_owned())),
        identity: None,
        second_factor: None,
        passkeys: Passkeys { list, used: Vec::new() },
        created_at: at(0),
        signed_in_at: None,
        disabled_at: None,
        version: 1,
    }
}

fn state(user: User) -> LockedUser {
    LockedUser { user: Some(user), ..LockedUser::default() }
}

fn session() -> Session {
    Session {
        hash: TokenHash([9; 32]),
        user: UserId::from_uuid(uuid::Uuid::from_u128(1)),
        created_at: at(100),
        seen_at: at(100),
        proven_at: Some(at(100)),
        address: None,
        browser: None,
    }
}

fn presented(counter: u32) -> Presented {
    let (credential, key) = ("one".to_owned(), "key".to_owned());
    Ok(Assertion { credential, key, counter, challenge: challenge(1) })
}

/// Returns the outcome, the user after it if it was changed, and the actions of the audit entries.
fn start(user: User, presented: &Presented) -> (Result<(), PasskeyRefusal>, Option<User>, Vec<String>) {
    let (change, outcome) = start_session(&state(user), session(), None, presented, audit).unwrap();
    let changed = change.rows.iter().find_map(|row| match row {
        Row::User(user) => Some(user.clone()),
        _ => None,
    });
    let has_session = change.rows.iter().any(|row| matches!(row, Row::Session(_)));
    assert_eq!(has_session, outcome.is_ok());
    (outcome, changed, change.audit.into_iter().map(|entry| entry.action).collect())
}

#[test]
fn a_challenge_is_accepted_once_and_until_it_expires() {
    let (outcome, after, actions) = start(user(vec![passkey(0)]), &presented(0));
    let after = after.unwrap();
    assert_eq!((outcome, actions), (Ok(()), vec!["session.started".to_owned()]));
    assert_eq!(after.passkeys.used, [challenge(1)]);
    assert_eq!(after.passkeys.list[0].used_at, Some(at(100)));
    assert_eq!((after.signed_in_at, after.version), (Some(at(100)), 1));
    let (outcome, changed, actions) = start(after, &presented(0));
    assert_eq!((outcome, changed), (Err(PasskeyRefusal::Used), None));
    assert_eq!(actions, ["session.passkey_refused"]);

    let mut other = presented(0).unwrap();
    other.challenge.until = at(100);
    assert_eq!(start(user(vec![passkey(0)]), &Ok(other)).0, Err(PasskeyRefusal::Expired));

    let mut old = user(vec![passkey(0)]);
    old.passkeys.used.push(Challenge { until: at(100), ..challenge(2) });
    let after = start(old, &presented(0)).1.unwrap();
    assert_eq!(after.passkeys.used, [challenge(1)], "an expired challenge is forgotten");
}

#[test]
fn a_counter_grows_or_is_always_zero() {
    for (stored, sent, is_accepted) in
        [(0, 0, true), (0, 1, true), (5, 6, true), (5, 5, false), (5, 4, false), (5, 0, false)]
    {
        let (outcome, after, actions) = start(user(vec![passkey(stored)]), &presented(sent));
        let expected = if is_accepted { Ok(()) } else { Err(PasskeyRefusal::CounterBack) };
        assert_eq!(outcome, expected, "{stored} {sent}");
        assert_eq!(after.map(|user| user.passkeys.list[0].counter), is_accepted.then_some(sent), "{stored} {sent}");
        assert_eq!(actions, [if is_accepted { "session.started" } else { "session.passkey_refused" }]);
    }
}

#[test]
fn only_a_passkey_that_the_user_still_has_is_accepted() {
    let other_key = Passkey { key: "other".to_owned(), ..passkey(0) };
    let other_credential = Passkey { credential: "other".to_owned(), ..passkey(0) };
    for list in [vec![], vec![other_key], vec![other_credential]] {
        assert_eq!(start(user(list), &presented(1)).0, Err(PasskeyRefusal::Unknown));
    }
    let refused = Err(PasskeyRefusal::WrongSignature);
    let (outcome, _, actions) = start(user(vec![passkey(0)]), &refused);
    assert_eq!((outcome, actions), (Err(PasskeyRefusal::WrongSignature), vec!["session.passkey_refused".to_owned()]));
    let disabled = User { disabled_at: Some(at(1)), ..user(vec![passkey(0)]) };
    let outcome = start_session(&state(disabled), session(), None, &presented(0), audit);
    assert!(outcome.unwrap_err().is(RefusalKind::Changed, ResourceKind::User));
    let password = PasswordHash("old".to_owned());
    let outcome = start_session(&state(user(vec![passkey(0)])), session(), Some(&password), &presented(0), audit);
    assert!(outcome.unwrap_err().is(RefusalKind::Changed, ResourceKind::User));
}

#[test]
fn a_proof_is_recorded_only_for_a_valid_passkey() {
    let state = state(user(vec![passkey(3)]));
    let (change, outcome) = prove_session(&state, TokenHash([9; 32]), &presented(4), audit).unwrap();
    assert_eq!(outcome, Ok(()));
    assert!(change.rows.iter().any(|row| matches!(row, Row::SessionProven { at: time, .. } if *time == at(100))));
    assert_eq!(change.audit, [audit("session.confirmed")]);
    let (change, outcome) = prove_session(&state, TokenHash([9; 32]), &presented(3), audit).unwrap();
    assert_eq!(outcome, Err(PasskeyRefusal::CounterBack));
    assert!(change.rows.is_empty());
    assert_eq!(change.audit, [audit("session.passkey_refused")]);
}

#[test]
fn the_first_passkey_ends_other_sessions_and_makes_the_password_insufficient() {
    let keep = TokenHash([9; 32]);
    let added = |user| add(&state(user), passkey(0), challenge(1), keep, audit("user.passkey.added"));
    let change = added(user(vec![])).unwrap();
    let [Row::User(after), Row::SessionsEnded(_)] = &change.rows[..] else { panic!("{change:?}") };
    assert!(after.has_second_factor() && after.version == 2);
    let password = after.password.as_ref();
    let refused = user_decide::start_session(&state(after.clone()), session(), password, audit(""));
    assert!(refused.unwrap_err().is(RefusalKind::Missing, ResourceKind::Code));
    assert!(added(after.clone()).unwrap_err().is(RefusalKind::Exists, ResourceKind::Passkey));
    let removed = remove(&state(after.clone()), &passkey(0).id(), audit("")).unwrap();
    let [Row::User(without)] = &removed.rows[..] else { panic!("{removed:?}") };
    assert!(
        added(without.clone()).unwrap_err().is(RefusalKind::Exists, ResourceKind::Passkey),
        "the challenge is used"
    );

    let other = |number: usize| Passkey { credential: format!("other {number}"), ..passkey(0) };
    let second = added(user(vec![other(0)])).unwrap();
    assert_eq!(second.rows.len(), 1, "the other sessions began with a second factor");
    let full = added(user((0..MAX_PASSKEYS).map(other).collect()));
    assert!(full.unwrap_err().is(RefusalKind::TooMany, ResourceKind::Passkey));
    assert!(
        added(User { password: None, ..user(vec![]) }).unwrap_err().is(RefusalKind::Missing, ResourceKind::Password)
    );
}

#[test]
fn a_passkey_is_renamed_and_removed_by_its_id() {
    let state = state(user(vec![passkey(0)]));
    let renamed = rename(&state, &passkey(0).id(), "Laptop".to_owned(), audit("")).unwrap();
    let [Row::User(after)] = &renamed.rows[..] else { panic!("{renamed:?}") };
    assert_eq!((after.passkeys.list[0].name.as_str(), after.version), ("Laptop", 2));
    assert!(
        rename(&state, "other", String::new(), audit("")).unwrap_err().is(RefusalKind::NotFound, ResourceKind::Passkey)
    );
    let removed = remove(&state, &passkey(0).id(), audit("")).unwrap();
    let [Row::User(after)] = &removed.rows[..] else { panic!("{removed:?}") };
    assert!(!after.has_second_factor());
    assert!(remove(&state, "other", audit("")).unwrap_err().is(RefusalKind::NotFound, ResourceKind::Passkey));
    let name = |text: &str| passkey_name(text);
    assert_eq!((name("  Work  "), name(" ")), (Ok("Work".to_owned()), Ok("Passkey".to_owned())));
    let longest = "ä".repeat(MAX_NAME_CHARS);
    assert_eq!((name(&longest), name(&format!("{longest}x"))), (Ok(longest.clone()), Err(NameTooLong)));
}
