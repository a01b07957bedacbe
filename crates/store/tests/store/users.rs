//! Tests of users, sessions, sign-in links and comments, on both databases.

use std::time::Duration;

use journeyman_core::audit::AuditEntry;
use journeyman_core::decision;
use journeyman_core::decision::Change;
use journeyman_core::decision::second_factor::Attempt;
use journeyman_core::decision::user::{LockedUser, PasswordChange, UserChanges, UserToChange};
use journeyman_core::ids::{KeyId, MessageId, UserId};
use journeyman_core::key::{ApiKey, KeyHash, Scope};
use journeyman_core::ports::{AdminError, AdminStore, Retention};
use journeyman_core::pull::{NewComment, NewPull};
use journeyman_core::refusal::{Refusal, RefusalKind, ResourceKind};
use journeyman_core::time::Timestamp;
use journeyman_core::user::passkey::{Assertion, Challenge, Passkey};
use journeyman_core::user::second_factor::{SecondFactor, TotpSecret, step};
use journeyman_core::user::{
    Identity, PasswordHash, Role, SESSION_IDLE, Session, SessionsToEnd, SignInLink, TokenHash, User,
};
use journeyman_core::version::Precondition;
use journeyman_testkit::{Refused as _, Seeds as _, decide_on};
use uuid::Uuid;

use super::fixtures::all;

fn at(seconds: u64) -> Timestamp {
    Timestamp::default() + Duration::from_secs(seconds)
}

fn id(number: u128) -> UserId {
    UserId::from_uuid(Uuid::from_u128(number))
}

fn user(number: u128, role: Role) -> User {
    User {
        id: id(number),
        name: format!("user-{number}"),
        role,
        password: Some(PasswordHash(format!("hash-{number}"))),
        identity: None,
        second_factor: None,
        passkeys: Default::default(),
        created_at: at(1),
        signed_in_at: None,
        disabled_at: None,
        version: 1,
    }
}

fn line(seconds: u64, action: &str) -> AuditEntry {
    let (actor, subject) = ("cli".to_owned(), "person".to_owned());
    AuditEntry { at: at(seconds), actor, action: action.to_owned(), subject, address: Some("192.0.2.1".to_owned()) }
}

fn session(byte: u8, owner: u128, seconds: u64) -> Session {
    Session {
        hash: TokenHash([byte; 32]),
        user: id(owner),
        created_at: at(seconds),
        seen_at: at(seconds),
        proven_at: None,
        address: Some("192.0.2.1".to_owned()),
        browser: Some("Firefox".to_owned()),
    }
}

/// Decides on the user 1, at a time in seconds.
async fn change(
    store: &(impl AdminStore + ?Sized),
    now: u64,
    decide: impl FnMut(&LockedUser) -> Result<Change, Refusal> + Send + 'static,
) -> Result<Change, AdminError> {
    decide_on(store, UserToChange(id(1)), at(now), decide).await
}

#[tokio::test]
async fn a_user_is_found_by_id_name_and_identity_which_are_unique() {
    for fixture in all().await {
        let (store, name) = (&fixture.store, fixture.name);
        let identity = Identity { issuer: "https://id.example.com".to_owned(), subject: "7".to_owned() };
        let ada = User { identity: Some(identity.clone()), ..user(1, Role::Member) };
        store.create_user(ada.clone(), line(1, "user.created")).await.unwrap();
        assert_eq!(store.user(id(1)).await.unwrap(), Some(ada.clone()), "{name}");
        assert_eq!(store.user_by_name("user-1".into()).await.unwrap(), Some(ada.clone()), "{name}");
        assert_eq!(store.user_by_identity(identity.clone()).await.unwrap(), Some(ada.clone()), "{name}");
        assert_eq!(store.user_by_name("user-2".into()).await.unwrap(), None, "{name}");
        for double in [
            User { name: "user-1".into(), ..user(2, Role::Viewer) },
            User { identity: Some(identity), ..user(2, Role::Viewer) },
        ] {
            let again = store.create_user(double, line(1, "user.created")).await;
            assert_eq!(again.refused(), Err((RefusalKind::Exists, ResourceKind::User)), "{name}");
        }
        assert_eq!(store.users().await.unwrap(), [ada], "{name}");
        assert_eq!(store.audit(None, 9).await.unwrap().len(), 1, "{name}: refusals have no audit entry");
    }
}

#[tokio::test]
async fn a_user_is_connected_with_one_identity_that_no_other_user_has() {
    for fixture in all().await {
        let (store, name) = (&fixture.store, fixture.name);
        let identity =
            |subject: &str| Identity { issuer: "https://id.example.com".to_owned(), subject: subject.to_owned() };
        let provided = User { identity: Some(identity("7")), password: None, ..user(1, Role::Member) };
        store.create_user(provided, line(1, "user.created")).await.unwrap();
        store.create_user(user(2, Role::Member), line(1, "user.created")).await.unwrap();
        let connect = async |number, subject: &str| {
            store.connect_identity(id(number), identity(subject), line(2, "user.identity.connected")).await
        };
        let disconnect = async |number| {
            let kept = TokenHash([1; 32]);
            store.disconnect_identity(id(number), kept, line(3, "user.identity.disconnected")).await
        };
        assert_eq!(connect(2, "7").await.refused(), Err((RefusalKind::Exists, ResourceKind::Identity)), "{name}");
        assert_eq!(disconnect(2).await.refused(), Err((RefusalKind::Missing, ResourceKind::Identity)), "{name}");
        assert_eq!(disconnect(1).await.refused(), Err((RefusalKind::Missing, ResourceKind::Password)), "{name}");
        assert_eq!(
            connect(3, "8").await.refused(),
            Err((RefusalKind::Changed, ResourceKind::User)),
            "{name}: there is no such user"
        );
        connect(2, "8").await.unwrap();
        let connected = User { identity: Some(identity("8")), version: 2, ..user(2, Role::Member) };
        assert_eq!(store.user(id(2)).await.unwrap(), Some(connected.clone()), "{name}");
        assert_eq!(store.user_by_identity(identity("8")).await.unwrap(), Some(connected), "{name}");
        assert_eq!(connect(2, "9").await.refused(), Err((RefusalKind::Used, ResourceKind::Identity)), "{name}");
        store.set_role(id(2), Role::Viewer, line(3, "user.role.viewer")).await.unwrap();
        assert!(store.user(id(2)).await.unwrap().unwrap().identity.is_some(), "{name}: other changes keep it");
        for (byte, owner, password) in [(1, 2, Some("hash-2")), (2, 2, Some("hash-2")), (3, 1, None)] {
            let password = password.map(|hash| PasswordHash(hash.to_owned()));
            store.start_session(session(byte, owner, 10), password, line(2, "session.started")).await.unwrap();
        }
        disconnect(2).await.unwrap();
        assert_eq!(store.user_by_identity(identity("8")).await.unwrap(), None, "{name}");
        let left = [1, 2, 3].map(|byte| store.session(TokenHash([byte; 32])));
        let left: Vec<bool> =
            futures::future::join_all(left).await.into_iter().map(|session| session.unwrap().is_some()).collect();
        assert_eq!(left, [true, false, true], "{name}: the current session and those of others continue");
        connect(2, "8").await.unwrap();
        let actions: Vec<String> =
            store.audit(None, 3).await.unwrap().into_iter().map(|entry| entry.entry.action).collect();
        let expected = ["user.identity.connected", "user.identity.disconnected", "session.started"];
        assert_eq!(actions, expected, "{name}: refusals have no audit entry");
    }
}

#[tokio::test]
async fn a_session_has_the_time_at_which_its_user_proved_who_they_are() {
    for fixture in all().await {
        let (store, name) = (&fixture.store, fixture.name);
        let identity = Identity { issuer: "https://id.example.com".to_owned(), subject: "7".to_owned() };
        let connected = User { identity: Some(identity.clone()), ..user(1, Role::Administrator) };
        store.create_user(connected.clone(), line(1, "user.created")).await.unwrap();
        let hash = connected.password.unwrap();
        let entry = line(2, "session.started");
        store.start_session(session(1, 1, 2), Some(hash.clone()), entry.clone()).await.unwrap();
        let proven = session(2, 1, 2);
        store.start_session(Session { proven_at: Some(at(2)), ..proven }, Some(hash.clone()), entry).await.unwrap();
        let proofs = async || {
            let found = [1, 2].map(|byte| store.session(TokenHash([byte; 32])));
            futures::future::join_all(found).await.into_iter().map(|one| one.unwrap().unwrap().0.proven_at).collect()
        };
        let both: Vec<_> = proofs().await;
        assert_eq!(both, [None, Some(at(2))], "{name}");
        let confirmed = || line(3, "session.confirmed");
        let wrong = PasswordHash("another".to_owned());
        let refused = change(&**store, 3, move |state| {
            decision::user::prove_session(state, TokenHash([1; 32]), &wrong, confirmed())
        });
        assert_eq!(
            refused.await.refused(),
            Err((RefusalKind::Changed, ResourceKind::User)),
            "{name}: the password was changed meanwhile"
        );
        let other = Identity { subject: "8".to_owned(), ..identity.clone() };
        let refused = change(&**store, 3, move |state| {
            decision::user::prove_session_by_provider(state, TokenHash([1; 32]), &other, at(3), confirmed())
        });
        assert_eq!(
            refused.await.refused(),
            Err((RefusalKind::Changed, ResourceKind::User)),
            "{name}: another identity"
        );
        let both: Vec<_> = proofs().await;
        assert_eq!(both, [None, Some(at(2))], "{name}");
        let decide = move |state: &_| decision::user::prove_session(state, TokenHash([1; 32]), &hash, confirmed());
        change(&**store, 3, decide).await.unwrap();
        let decide = move |state: &_| {
            decision::user::prove_session_by_provider(state, TokenHash([2; 32]), &identity, at(4), confirmed())
        };
        change(&**store, 3, decide).await.unwrap();
        let both: Vec<_> = proofs().await;
        assert_eq!(both, [Some(at(3)), Some(at(4))], "{name}");
    }
}

#[tokio::test]
async fn an_answer_of_a_passkey_is_accepted_once() {
    for fixture in all().await {
        let (store, name) = (&fixture.store, fixture.name);
        store.create_user(user(1, Role::Administrator), line(1, "user.created")).await.unwrap();
        let password = user(1, Role::Administrator).password;
        store.start_session(session(1, 1, 2), password.clone(), line(2, "session.started")).await.unwrap();
        store.start_session(session(2, 1, 2), password.clone(), line(2, "session.started")).await.unwrap();
        let (credential, key, label) = ("one".to_owned(), "key".to_owned(), "Phone".to_owned());
        let one = Passkey {
            credential: credential.clone(),
            key: key.clone(),
            counter: 4,
            name: label,
            created_at: at(3),
            used_at: None,
        };
        let challenge = |byte: u8| Challenge { hash: TokenHash([byte; 32]), until: at(700) };
        let (added, first) = (one.clone(), challenge(1));
        let add = move |state: &_| {
            let entry = line(3, "user.passkey.added");
            decision::passkey::add(state, added.clone(), first, TokenHash([1; 32]), entry)
        };
        change(&**store, 3, add).await.unwrap();
        let stored = store.user(id(1)).await.unwrap().unwrap().passkeys;
        assert_eq!((stored.list, stored.used), (vec![one.clone()], vec![challenge(1)]), "{name}");
        assert!(store.session(TokenHash([1; 32])).await.unwrap().is_some(), "{name}: this session continues");
        assert!(store.session(TokenHash([2; 32])).await.unwrap().is_none(), "{name}: the others have ended");
        let alone = store.start_session(session(3, 1, 4), password, line(4, "session.started")).await;
        assert_eq!(
            alone.refused(),
            Err((RefusalKind::Missing, ResourceKind::Code)),
            "{name}: the password is not enough"
        );

        // Two browsers send the same answer at the same time.
        let present = |byte: u8| {
            let (credential, key) = (credential.clone(), key.clone());
            let presented = Ok(Assertion { credential, key, counter: 5, challenge: challenge(2) });
            let enter = move |state: &_| {
                let about = |action: &str| line(600, action);
                decision::passkey::start_session(state, session(byte, 1, 600), None, &presented, about)
                    .map(|(change, _)| change)
            };
            change(&**store, 600, enter)
        };
        let both = futures::future::join(present(4), present(5)).await;
        both.0.unwrap();
        both.1.unwrap();
        let begun = futures::future::join_all([4, 5].map(|byte| store.session(TokenHash([byte; 32])))).await;
        assert_eq!(begun.into_iter().filter(|one| one.as_ref().unwrap().is_some()).count(), 1, "{name}");
        let mut actions: Vec<String> =
            store.audit(None, 2).await.unwrap().into_iter().map(|entry| entry.entry.action).collect();
        actions.sort();
        assert_eq!(actions, ["session.passkey_refused", "session.started"], "{name}");

        // Another change of the user keeps the passkey, and an administrator removes it.
        store.set_role(id(1), Role::Administrator, line(601, "user.role")).await.unwrap();
        let used = Passkey { counter: 5, used_at: Some(at(600)), ..one };
        assert_eq!(store.user(id(1)).await.unwrap().unwrap().passkeys.list, [used], "{name}");
        let changes = UserChanges { has_second_factor: Some(false), ..UserChanges::default() };
        let remove = move |state: &_| {
            decision::user::change(state, &Precondition::None, changes, |action: &str| line(602, action))
        };
        change(&**store, 3, remove).await.unwrap();
        let stored = store.user(id(1)).await.unwrap().unwrap();
        assert!(!stored.has_second_factor(), "{name}");
        let last = store.audit(None, 1).await.unwrap().remove(0).entry.action;
        assert_eq!(last, "user.second_factor.removed", "{name}");
    }
}

#[tokio::test]
async fn a_code_of_a_second_factor_is_accepted_once() {
    for fixture in all().await {
        let (store, name) = (&fixture.store, fixture.name);
        store.create_user(user(1, Role::Administrator), line(1, "user.created")).await.unwrap();
        let password = user(1, Role::Administrator).password.unwrap();
        store.start_session(session(1, 1, 2), Some(password.clone()), line(2, "session.started")).await.unwrap();
        store.start_session(session(2, 1, 2), Some(password.clone()), line(2, "session.started")).await.unwrap();
        let recovery = vec![TokenHash::of("aaaabbbbccccdddd"), TokenHash::of("eeeeffffgggghhhh")];
        let factor = SecondFactor {
            secret: "sealed".to_owned(),
            since: at(3),
            last_step: 0,
            recovery,
            failures: 0,
            failed_at: None,
        };
        let added = factor.clone();
        let add = move |state: &_| {
            decision::second_factor::add(state, added.clone(), TokenHash([1; 32]), line(3, "user.second_factor.added"))
        };
        change(&**store, 3, add.clone()).await.unwrap();
        assert_eq!(
            change(&**store, 3, add).await.refused(),
            Err((RefusalKind::Exists, ResourceKind::SecondFactor)),
            "{name}"
        );
        assert_eq!(store.user(id(1)).await.unwrap().unwrap().second_factor, Some(factor.clone()), "{name}");
        assert!(store.session(TokenHash([1; 32])).await.unwrap().is_some(), "{name}: this session continues");
        assert!(store.session(TokenHash([2; 32])).await.unwrap().is_none(), "{name}: the others have ended");
        let alone = store.start_session(session(3, 1, 4), Some(password.clone()), line(4, "session.started")).await;
        assert_eq!(
            alone.refused(),
            Err((RefusalKind::Missing, ResourceKind::Code)),
            "{name}: the password is not enough"
        );

        // Two browsers enter the same code at the same time.
        let secret = TotpSecret::parse("GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ").unwrap();
        let code = secret.code(step(at(600)));
        let attempt = Attempt { sealed: "sealed".to_owned(), secret, code };
        let enter = |byte: u8, attempt: Attempt| {
            let password = password.clone();
            let enter = move |state: &_| {
                let about = |action: &str| line(600, action);
                decision::second_factor::start_session(state, session(byte, 1, 600), &password, &attempt, about)
                    .map(|(change, _)| change)
            };
            change(&**store, 600, enter)
        };
        let both = futures::future::join(enter(4, attempt.clone()), enter(5, attempt.clone())).await;
        both.0.unwrap();
        both.1.unwrap();
        let begun = futures::future::join_all([4, 5].map(|byte| store.session(TokenHash([byte; 32])))).await;
        assert_eq!(begun.into_iter().filter(|one| one.as_ref().unwrap().is_some()).count(), 1, "{name}");
        let stored = store.user(id(1)).await.unwrap().unwrap().second_factor.unwrap();
        assert_eq!((stored.last_step, stored.recovery.len()), (step(at(600)), 2), "{name}");
        let mut actions: Vec<String> =
            store.audit(None, 2).await.unwrap().into_iter().map(|entry| entry.entry.action).collect();
        actions.sort();
        assert_eq!(actions, ["session.code_refused", "session.started"], "{name}");

        // The same recovery code, at the same time.
        let recovery = Attempt { code: "aaaa-bbbb-cccc-dddd".to_owned(), ..attempt.clone() };
        let both = futures::future::join(enter(6, recovery.clone()), enter(7, recovery)).await;
        both.0.unwrap();
        both.1.unwrap();
        let begun = futures::future::join_all([6, 7].map(|byte| store.session(TokenHash([byte; 32])))).await;
        assert_eq!(begun.into_iter().filter(|one| one.as_ref().unwrap().is_some()).count(), 1, "{name}");

        // Another change of the user keeps the second factor, and an administrator removes it.
        store.set_role(id(1), Role::Administrator, line(601, "user.role")).await.unwrap();
        assert!(store.user(id(1)).await.unwrap().unwrap().second_factor.is_some(), "{name}");
        let other = Attempt { sealed: "of another second factor".to_owned(), ..attempt };
        assert_eq!(enter(8, other).await.refused(), Err((RefusalKind::Changed, ResourceKind::User)), "{name}");
        let changes = UserChanges { has_second_factor: Some(false), ..UserChanges::default() };
        let remove = move |state: &_| {
            decision::user::change(state, &Precondition::None, changes, |action: &str| line(602, action))
        };
        change(&**store, 3, remove).await.unwrap();
        assert_eq!(store.user(id(1)).await.unwrap().unwrap().second_factor, None, "{name}");
        let last = store.audit(None, 1).await.unwrap().remove(0).entry.action;
        assert_eq!(last, "user.second_factor.removed", "{name}");
        let give = UserChanges { has_second_factor: Some(true), ..UserChanges::default() };
        let give =
            move |state: &_| decision::user::change(state, &Precondition::None, give, |action: &str| line(603, action));
        assert_eq!(
            change(&**store, 3, give).await.refused(),
            Err((RefusalKind::Missing, ResourceKind::SecondFactor)),
            "{name}"
        );
    }
}

#[tokio::test]
async fn the_last_administrator_keeps_the_role_and_stays_enabled() {
    for fixture in all().await {
        let (store, name) = (&fixture.store, fixture.name);
        store.create_user(user(1, Role::Viewer), line(1, "user.created")).await.unwrap();
        store.set_role(id(1), Role::Member, line(2, "user.role")).await.expect("there was no administrator before");
        store.create_user(user(2, Role::Administrator), line(1, "user.created")).await.unwrap();
        let refused = store.set_role(id(2), Role::Member, line(3, "user.role")).await;
        assert_eq!(refused.refused(), Err((RefusalKind::Missing, ResourceKind::Administrator)), "{name}");
        let refused = store.set_disabled(id(2), true, line(3, "user.disabled")).await;
        assert_eq!(refused.refused(), Err((RefusalKind::Missing, ResourceKind::Administrator)), "{name}");
        assert_eq!(store.user(id(2)).await.unwrap(), Some(user(2, Role::Administrator)), "{name}");
        store.create_user(user(3, Role::Administrator), line(4, "user.created")).await.unwrap();
        store.set_disabled(id(3), true, line(4, "user.disabled")).await.unwrap();
        let refused = store.set_role(id(2), Role::Viewer, line(4, "user.role")).await;
        assert_eq!(
            refused.refused(),
            Err((RefusalKind::Missing, ResourceKind::Administrator)),
            "{name}: the other one is disabled"
        );
        store.set_disabled(id(3), false, line(4, "user.enabled")).await.unwrap();
        store.set_role(id(2), Role::Member, line(5, "user.role")).await.unwrap();
        assert_eq!(store.user(id(2)).await.unwrap().unwrap().role, Role::Member, "{name}");
        for unknown in [
            store.set_role(id(9), Role::Viewer, line(6, "user.role")).await,
            store.set_disabled(id(9), true, line(6, "user.disabled")).await,
        ] {
            assert_eq!(unknown.refused(), Err((RefusalKind::NotFound, ResourceKind::User)), "{name}");
        }
        let actions = store.audit(None, 20).await.unwrap().len();
        assert_eq!(actions, 7, "{name}: refusals have no audit entry");
    }
}

#[tokio::test]
async fn sessions_start_are_used_and_end() {
    for fixture in all().await {
        let (store, name) = (&fixture.store, fixture.name);
        for number in [1, 2] {
            store.create_user(user(number, Role::Member), line(1, "user.created")).await.unwrap();
        }
        for (byte, owner, seconds) in [(1, 1, 10), (2, 1, 20), (3, 1, 30), (4, 2, 40)] {
            let password = Some(PasswordHash(format!("hash-{owner}")));
            store
                .start_session(session(byte, owner, seconds), password, line(seconds, "session.started"))
                .await
                .unwrap();
        }
        let found = store.session(TokenHash([2; 32])).await.unwrap().unwrap();
        let signed_in = User { signed_in_at: Some(at(30)), ..user(1, Role::Member) };
        assert_eq!(found, (session(2, 1, 20), signed_in), "{name}");
        store.session_seen(TokenHash([1; 32]), at(50)).await.unwrap();
        store.session_seen(TokenHash([1; 32]), at(45)).await.unwrap();
        let seen: Vec<_> =
            store.sessions(id(1)).await.unwrap().iter().map(|one| (one.hash.0[0], one.seen_at)).collect();
        assert_eq!(seen, [(1, at(50)), (3, at(30)), (2, at(20))], "{name}");
        for (which, ended) in [
            (SessionsToEnd::One(TokenHash([9; 32])), 0),
            (SessionsToEnd::One(TokenHash([2; 32])), 1),
            (SessionsToEnd::OthersOf(id(1), TokenHash([1; 32])), 1),
            (SessionsToEnd::AllOf(id(1)), 1),
        ] {
            let done = store.end_sessions(which, line(60, "session.ended")).await.unwrap();
            assert_eq!(done, ended, "{name}: {which:?}");
        }
        assert_eq!(store.session(TokenHash([1; 32])).await.unwrap(), None, "{name}");
        assert!(store.session(TokenHash([4; 32])).await.unwrap().is_some(), "{name}: the session of another user");
        // A sweep removes expired sessions.
        store.sweep(at(41) + SESSION_IDLE, Retention::default(), 10).await.unwrap();
        assert_eq!(store.session(TokenHash([4; 32])).await.unwrap(), None, "{name}");
    }
}

#[tokio::test]
async fn a_user_who_was_changed_meanwhile_cannot_sign_in_or_set_a_password() {
    for fixture in all().await {
        let (store, name) = (&fixture.store, fixture.name);
        let old = || Some(PasswordHash("hash-1".to_owned()));
        store.create_user(user(1, Role::Member), line(1, "user.created")).await.unwrap();
        for byte in [1, 2] {
            store.start_session(session(byte, 1, 10), old(), line(10, "session.started")).await.unwrap();
        }
        let link = SignInLink { hash: TokenHash([7; 32]), user: Some(id(1)), expires_at: at(99) };
        store.create_link(link, line(11, "user.link")).await.unwrap();
        let change =
            |from, to: &str| PasswordChange { from, to: PasswordHash(to.to_owned()), keep: TokenHash([1; 32]) };
        store.set_password(id(1), change(old(), "new"), line(12, "user.password")).await.unwrap();
        let left: Vec<_> = store.sessions(id(1)).await.unwrap().iter().map(|one| one.hash.0[0]).collect();
        assert_eq!(left, [1], "{name}: other sessions have ended");
        assert_eq!(store.link(TokenHash([7; 32])).await.unwrap(), None, "{name}: the link was deleted");

        let late = store.start_session(session(3, 1, 20), old(), line(20, "session.started")).await;
        assert_eq!(late.refused(), Err((RefusalKind::Changed, ResourceKind::User)), "{name}: with the old password");
        let late = store.set_password(id(1), change(old(), "other"), line(20, "user.password")).await;
        assert_eq!(late.refused(), Err((RefusalKind::Changed, ResourceKind::User)), "{name}: with the old password");
        store.set_disabled(id(1), true, line(21, "user.disabled")).await.unwrap();
        let new = || Some(PasswordHash("new".to_owned()));
        let late = store.start_session(session(3, 1, 22), new(), line(22, "session.started")).await;
        assert_eq!(late.refused(), Err((RefusalKind::Changed, ResourceKind::User)), "{name}: disabled");
        let late = store.set_password(id(1), change(new(), "other"), line(22, "user.password")).await;
        assert_eq!(late.refused(), Err((RefusalKind::Changed, ResourceKind::User)), "{name}: disabled");
        let found = store.user(id(1)).await.unwrap().unwrap();
        assert_eq!((found.disabled_at, found.password, found.role), (Some(at(21)), new(), Role::Member), "{name}");
    }
}

pub(crate) fn key(number: u8, owner: Option<UserId>, projects: bool) -> ApiKey {
    ApiKey {
        id: KeyId::from_uuid(Uuid::from_u128(number.into())),
        name: "ci".into(),
        prefix: "jmn_abcdef".into(),
        hash: KeyHash([number; 32]),
        scopes: vec![Scope::Write],
        projects: projects.then(|| vec!["shop".parse().unwrap()]),
        expires_at: None,
        allowed_ips: None,
        created_at: at(1),
        last_used_at: None,
        revoked_at: None,
        creator: Some("person".to_owned()),
        owner,
        old_secret: None,
        version: 1,
    }
}

#[tokio::test]
async fn keys_are_revoked_when_their_owner_loses_the_rights() {
    for fixture in all().await {
        let (store, name) = (&fixture.store, fixture.name);
        for number in [1, 2] {
            store.create_user(user(number, Role::Administrator), line(1, "user.created")).await.unwrap();
        }
        for (number, owner, projects) in
            [(1, Some(id(1)), false), (2, Some(id(1)), true), (3, Some(id(2)), false), (4, None, false)]
        {
            store.create_key(key(number, owner, projects), line(2, "key.created")).await.unwrap();
        }
        let revoked = async || {
            let keys = store.keys().await.unwrap();
            let mut revoked: Vec<_> =
                keys.iter().filter(|key| key.revoked_at.is_some()).map(|key| key.hash.0[0]).collect();
            revoked.sort_unstable();
            revoked
        };
        store.set_role(id(1), Role::Administrator, line(3, "user.role")).await.unwrap();
        assert!(revoked().await.is_empty(), "{name}");
        store.set_role(id(1), Role::Member, line(4, "user.role")).await.unwrap();
        assert_eq!(revoked().await, [1], "{name}: a member has no key for all projects");
        store.set_role(id(1), Role::Viewer, line(5, "user.role")).await.unwrap();
        assert_eq!(revoked().await, [1, 2], "{name}: a viewer has no keys");
        let refused = store.set_disabled(id(2), true, line(6, "user.disabled")).await;
        let last = Err((RefusalKind::Missing, ResourceKind::Administrator));
        assert_eq!((refused.refused(), revoked().await), (last, vec![1, 2]), "{name}");
    }
}

#[tokio::test]
async fn disabling_a_user_ends_sessions_links_and_keys() {
    for fixture in all().await {
        let (store, name) = (&fixture.store, fixture.name);
        let password = Some(PasswordHash("hash-1".to_owned()));
        store.create_user(user(1, Role::Member), line(1, "user.created")).await.unwrap();
        store.start_session(session(1, 1, 10), password, line(10, "session.started")).await.unwrap();
        let link = SignInLink { hash: TokenHash([7; 32]), user: Some(id(1)), expires_at: at(99) };
        store.create_link(link, line(11, "link.created")).await.unwrap();
        for (number, owner) in [(1, Some(id(1))), (2, None)] {
            store.create_key(key(number, owner, true), line(12, "key.created")).await.unwrap();
        }
        store.set_disabled(id(1), true, line(20, "user.disabled")).await.unwrap();
        let link = SignInLink { hash: TokenHash([8; 32]), user: Some(id(1)), expires_at: at(99) };
        let refused = store.create_link(link, line(21, "link.created")).await;
        assert_eq!(refused.refused(), Err((RefusalKind::Disabled, ResourceKind::User)), "{name}");
        assert_eq!(store.session(TokenHash([1; 32])).await.unwrap(), None, "{name}");
        assert_eq!(store.link(TokenHash([7; 32])).await.unwrap(), None, "{name}");
        let mut revoked: Vec<_> =
            store.keys().await.unwrap().iter().map(|key| (key.hash.0[0], key.revoked_at)).collect();
        revoked.sort();
        assert_eq!(revoked, [(1, Some(at(20))), (2, None)], "{name}");
    }
}

#[tokio::test]
async fn a_sign_in_link_works_once() {
    for fixture in all().await {
        let (store, name) = (&fixture.store, fixture.name);
        let link = |byte, user, end| SignInLink { hash: TokenHash([byte; 32]), user, expires_at: at(end) };
        let first = |number| user(number, Role::Administrator);
        for (byte, end) in [(1, 100), (2, 100), (3, 15)] {
            store.create_link(link(byte, None, end), line(10, "link.created")).await.unwrap();
        }
        assert_eq!(store.link(TokenHash([1; 32])).await.unwrap(), Some(link(1, None, 100)), "{name}");
        let expired = store.use_link(TokenHash([3; 32]), first(1), line(20, "user.created")).await;
        assert_eq!(expired.refused(), Err((RefusalKind::Ended, ResourceKind::Link)), "{name}: expired");
        store.use_link(TokenHash([1; 32]), first(1), line(20, "user.created")).await.unwrap();
        for (byte, why) in [(1, "used"), (2, "there is an administrator"), (9, "unknown")] {
            let again = store.use_link(TokenHash([byte; 32]), first(2), line(21, "user.created")).await;
            assert_eq!(again.refused(), Err((RefusalKind::Ended, ResourceKind::Link)), "{name}: {why}");
        }
        assert_eq!(store.users().await.unwrap(), [first(1)], "{name}");

        let password = Some(PasswordHash("hash-1".to_owned()));
        store.start_session(session(1, 1, 30), password, line(30, "session.started")).await.unwrap();
        store.create_link(link(4, Some(id(1)), 100), line(40, "link.created")).await.unwrap();
        store.create_link(link(5, Some(id(1)), 100), line(41, "link.created")).await.unwrap();
        assert_eq!(store.link(TokenHash([4; 32])).await.unwrap(), None, "{name}: a newer link replaced it");
        let other = store.use_link(TokenHash([5; 32]), user(2, Role::Viewer), line(49, "user.password")).await;
        assert_eq!(other.refused(), Err((RefusalKind::Ended, ResourceKind::Link)), "{name}: the link of another user");
        assert!(store.link(TokenHash([5; 32])).await.unwrap().is_some(), "{name}: a refused link stays");
        let new = Some(PasswordHash("new".to_owned()));
        let changed = User { password: new.clone(), role: Role::Viewer, ..first(1) };
        store.use_link(TokenHash([5; 32]), changed, line(50, "user.password")).await.unwrap();
        let found = store.user(id(1)).await.unwrap().unwrap();
        assert_eq!((found.password, found.role), (new, Role::Administrator), "{name}: only the password changes");
        assert_eq!(store.session(TokenHash([1; 32])).await.unwrap(), None, "{name}: a new password ends sessions");
    }
}

#[tokio::test]
async fn comments_stay_in_order() {
    for fixture in all().await {
        let (store, name) = (&fixture.store, fixture.name);
        let message = MessageId::from_uuid(Uuid::from_u128(1));
        let comment = |text: &str, message| NewComment {
            author: "ada".into(),
            body: text.into(),
            at: at(1),
            message,
            ..NewComment::default()
        };
        for head in ["a", "b"] {
            let new = NewPull { title: "T".into(), head: head.into(), ..NewPull::default() };
            store.open_pull("shop".into(), "main".into(), new, at(1)).await.unwrap().unwrap();
        }
        for (number, text, of) in [(1, "one", None), (2, "elsewhere", None), (1, "two", Some(message))] {
            store.comment("shop", number, comment(text, of)).await.unwrap();
        }
        let found = store.comments("shop".into(), 1).await.unwrap();
        let seen: Vec<_> =
            found.iter().map(|one| (one.number, one.comment.body.as_str(), one.comment.message)).collect();
        assert_eq!(seen, [(1, "one", None), (2, "two", Some(message))], "{name}");
    }
}
