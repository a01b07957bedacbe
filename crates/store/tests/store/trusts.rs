//! Trusts and the keys that they create: changes, the end of a trust, and the removal of expired keys.

use std::time::Duration;

use journeyman_core::audit::AuditEntry;
use journeyman_core::decision;
use journeyman_core::decision::key::KeyToChange;
use journeyman_core::decision::trust::Exchange;
use journeyman_core::decision::user::{NewUser, UserChanges, UserToChange};
use journeyman_core::decision::{Change, Subject};
use journeyman_core::ids::{KeyId, TrustId, UserId};
use journeyman_core::key::{ApiKey, KeyOrigin, NewKey, Scope};
use journeyman_core::ports::{AdminError, Retention, Swept};
use journeyman_core::refusal::{Refusal, RefusalKind, ResourceKind};
use journeyman_core::resource::{Key, Put, Resource as _};
use journeyman_core::trust::{
    EXCHANGE_INTERVAL, KEY_LIFETIME, MAX_LIVE_KEYS_OF_SUBJECT, TokenClaims, Trust, TrustSettings,
};
use journeyman_core::user::{Role, User};
use journeyman_core::version::Precondition;
use journeyman_testkit::{Refused as _, Seeds as _, all_stored, decide_on, stored};
use serde_json::{Value, json};
use uuid::Uuid;

use super::fixtures::{Fixture, all, shop};

fn id(number: u128) -> TrustId {
    TrustId::from_uuid(Uuid::from_u128(number))
}

fn token() -> TokenClaims {
    match json!({"iss": "https://id.test", "aud": "here", "sub": "x", "repository": "acme/shop"}) {
        Value::Object(claims) => TokenClaims::verified(claims),
        other => unreachable!("{other}"),
    }
}

impl Fixture {
    fn line(&self, action: &str) -> AuditEntry {
        let (at, actor, action) = (self.engine.now(), "cli".to_owned(), action.to_owned());
        AuditEntry { at, actor, action, subject: String::new(), address: None }
    }

    fn new_trust(&self, number: u128, name: &str, owner: Option<UserId>) -> Trust {
        let settings = TrustSettings {
            name: name.to_owned(),
            issuer: "https://id.test".to_owned(),
            audience: "here".to_owned(),
            claims: [("repository".to_owned(), "acme/*".to_owned())].into(),
            projects: vec![shop()],
            scope: Scope::Jobs,
        };
        let (creator, created_at) = ("cli".to_owned(), self.engine.now());
        Trust { id: id(number), settings, creator, owner, created_at, last_used_at: None, version: 1 }
    }

    async fn administer_trust<S: Subject>(
        &self,
        subject: S,
        decide: impl FnMut(&S::Locked) -> Result<Change, Refusal> + Send + 'static,
    ) -> Result<(), AdminError> {
        decide_on(&*self.store, subject, self.engine.now(), decide).await.map(drop)
    }

    async fn create_trust(&self, trust: Trust) -> Result<(), AdminError> {
        let (audit, key, new) = (self.line("trust.created"), trust.key(), Put { resource: trust, secrets: () });
        let create = move |locked: &_| decision::resource::create(locked, new.clone(), audit.clone());
        self.administer_trust(key, create).await
    }

    /// Renames a trust, or gives it the scope `read`.
    async fn change_trust(&self, number: u128, name: &str, scope: Scope) -> Result<(), AdminError> {
        let (audit, new_name) = (self.line("trust.changed"), name.to_owned());
        let decide = move |state: &_| {
            let edit = |known: &TrustSettings| TrustSettings { name: new_name.clone(), scope, ..known.clone() };
            decision::trust::change(state, &Precondition::None, edit, audit.clone())
        };
        let key: Key<Trust> = Key { name: name.to_owned(), ..Key::new(id(number), None) };
        self.administer_trust(key, decide).await
    }

    async fn remove_trust(&self, number: u128) -> Result<(), AdminError> {
        let audit = self.line("trust.removed");
        let decide = move |state: &_| decision::trust::remove(state, &Precondition::None, audit.clone());
        self.administer_trust(Key::<Trust>::new(id(number), None), decide).await
    }

    /// Exchanges a token that was not exchanged before.
    async fn exchange(&self, number: u128, version: u64) -> Result<ApiKey, AdminError> {
        self.exchange_for(number, version, None).await
    }

    /// Exchanges the token of the key with this ID, or one that was not exchanged before.
    async fn exchange_for(&self, number: u128, version: u64, known: Option<KeyId>) -> Result<ApiKey, AdminError> {
        let now = self.engine.now();
        let new = NewKey {
            name: "oidc".to_owned(),
            scopes: vec![Scope::Jobs],
            projects: Some(vec![shop()]),
            expires_at: Some(now + KEY_LIFETIME),
            allowed_ips: None,
        };
        let owner = stored::<Trust>(&*self.store, id(number)).await.and_then(|trust| trust.owner);
        let (key, _) = new.make((&id(number).to_string(), owner), now, &*self.world).unwrap();
        let key = ApiKey { id: known.unwrap_or(key.id), ..key };
        let (made, audit) = (key.clone(), self.line("oidc.exchanged"));
        let subject = Exchange { trust: id(number), key: key.id, name: key.name.clone(), at: now };
        let decide = move |state: &_| decision::trust::exchange(state, &token(), version, made.clone(), audit.clone());
        self.administer_trust(subject, decide).await?;
        Ok(key)
    }

    async fn is_revoked(&self, key: &ApiKey) -> bool {
        self.store.key(key.id).await.unwrap().unwrap().revoked_at.is_some()
    }
}

#[tokio::test]
async fn a_trust_is_stored_changed_and_removed_with_its_keys() {
    for fixture in all().await {
        let name = fixture.name;
        let made = fixture.new_trust(1, "one", None);
        fixture.create_trust(made.clone()).await.unwrap();
        fixture.create_trust(fixture.new_trust(2, "two", None)).await.unwrap();
        assert_eq!(stored::<Trust>(&*fixture.store, id(1)).await, Some(made), "{name}");
        let taken = Err((RefusalKind::Exists, ResourceKind::Trust));
        assert_eq!(fixture.create_trust(fixture.new_trust(3, "one", None)).await.refused(), taken, "{name}");
        assert_eq!(fixture.change_trust(2, "one", Scope::Jobs).await.refused(), taken, "{name}");

        let (first, other) = (fixture.exchange(1, 1).await.unwrap(), fixture.exchange(2, 1).await.unwrap());
        let used = stored::<Trust>(&*fixture.store, id(1)).await.unwrap();
        assert_eq!((used.last_used_at, used.version), (Some(fixture.engine.now()), 1), "{name}");
        fixture.change_trust(1, "renamed", Scope::Jobs).await.unwrap();
        assert!(!fixture.is_revoked(&first).await, "{name}: a new name leaves the keys");
        fixture.change_trust(1, "renamed", Scope::Read).await.unwrap();
        assert!(fixture.is_revoked(&first).await, "{name}");
        let changed = stored::<Trust>(&*fixture.store, id(1)).await.unwrap();
        assert_eq!((changed.version, changed.last_used_at), (3, used.last_used_at), "{name}");
        let stale = fixture.exchange(1, 1).await;
        assert_eq!(stale.refused(), Err((RefusalKind::VersionMismatch, ResourceKind::Trust)), "{name}");

        fixture.remove_trust(2).await.unwrap();
        assert!(fixture.is_revoked(&other).await, "{name}");
        fixture.remove_trust(2).await.unwrap();
        let never = Err((RefusalKind::NotFound, ResourceKind::Trust));
        assert_eq!(fixture.remove_trust(9).await.refused(), never, "{name}");
        assert_eq!(fixture.exchange(2, 1).await.refused(), never, "{name}");
        let left: Vec<TrustId> =
            all_stored::<Trust>(&*fixture.store, None).await.into_iter().map(|trust| trust.id).collect();
        assert_eq!(left, [id(1)], "{name}");
    }
}

#[tokio::test]
async fn a_trust_gives_no_keys_after_its_owner_was_disabled() {
    for fixture in all().await {
        let name = fixture.name;
        let owner = |number: u128, role: Role| User {
            id: UserId::from_uuid(Uuid::from_u128(number)),
            name: format!("user-{number}"),
            role,
            password: None,
            identity: None,
            second_factor: None,
            passkeys: Default::default(),
            created_at: fixture.engine.now(),
            signed_in_at: None,
            disabled_at: None,
            version: 1,
        };
        for user in [owner(1, Role::Administrator), owner(2, Role::Administrator)] {
            let (audit, subject) = (fixture.line("user.created"), NewUser(user.name.clone(), None));
            let decide = move |state: &_| journeyman_core::decision::user::create(state, user.clone(), audit.clone());
            fixture.administer_trust(subject, decide).await.unwrap();
        }
        let user = UserId::from_uuid(Uuid::from_u128(1));
        fixture.create_trust(fixture.new_trust(1, "one", Some(user))).await.unwrap();
        let key = fixture.exchange(1, 1).await.unwrap();
        assert_eq!(key.owner, Some(user), "{name}");
        let audit = fixture.line("user.disabled");
        let decide = move |state: &_| {
            let changes = UserChanges { disabled: Some(true), ..UserChanges::default() };
            journeyman_core::decision::user::change(state, &Precondition::None, changes, |_| audit.clone())
        };
        fixture.administer_trust(UserToChange(user), decide).await.unwrap();
        assert!(fixture.is_revoked(&key).await, "{name}");
        let refused = fixture.exchange(1, 1).await.map(drop);
        assert_eq!(refused.refused(), Err((RefusalKind::Forbidden, ResourceKind::Trust)), "{name}");
    }
}

#[tokio::test]
async fn a_token_that_is_exchanged_again_keeps_its_key_and_its_secret_before_ends() {
    for fixture in all().await {
        let name = fixture.name;
        fixture.create_trust(fixture.new_trust(1, "one", None)).await.unwrap();
        let first = fixture.exchange(1, 1).await.unwrap();
        fixture.world.advance(Duration::from_secs(60));
        let second = fixture.exchange_for(1, 1, Some(first.id)).await.unwrap();
        let stored = fixture.store.key(first.id).await.unwrap().unwrap();
        assert_eq!((stored.hash, stored.expires_at, stored.version), (second.hash, second.expires_at, 2), "{name}");
        assert_eq!((stored.created_at, stored.old_secret), (first.created_at, None), "{name}");
        assert_eq!(fixture.store.key_by_hash(first.hash).await.unwrap(), None, "{name}");
        assert_eq!(fixture.store.keys().await.unwrap().len(), 1, "{name}");
        let exchanges = |line: &journeyman_core::audit::AuditLine| line.entry.action == "oidc.exchanged";
        let lines = fixture.store.audit(None, 10).await.unwrap();
        assert_eq!(lines.iter().filter(|line| exchanges(line)).count(), 2, "{name}");

        let (audit, subject) = (fixture.line("key.revoked"), KeyToChange(first.id));
        let revoke = move |state: &_| journeyman_core::decision::key::revoke(state, &Precondition::None, audit.clone());
        fixture.administer_trust(subject, revoke).await.unwrap();
        let refused = fixture.exchange_for(1, 1, Some(first.id)).await.map(drop);
        assert_eq!(refused.refused(), Err((RefusalKind::Forbidden, ResourceKind::Token)), "{name}");
    }
}

#[tokio::test]
async fn the_live_keys_of_a_subject_are_limited() {
    for fixture in all().await {
        let name = fixture.name;
        fixture.create_trust(fixture.new_trust(1, "one", None)).await.unwrap();
        fixture.create_trust(fixture.new_trust(2, "two", None)).await.unwrap();
        let mut keys = Vec::new();
        for _ in 0..MAX_LIVE_KEYS_OF_SUBJECT {
            keys.push(fixture.exchange(1, 1).await.unwrap());
        }
        let refused = fixture.exchange(1, 1).await;
        let too_often = RefusalKind::TooOften(EXCHANGE_INTERVAL);
        assert_eq!(refused.refused(), Err((too_often, ResourceKind::Token)), "{name}");
        fixture.exchange_for(1, 1, Some(keys[0].id)).await.unwrap();
        fixture.exchange(2, 1).await.unwrap();
        fixture.world.advance(KEY_LIFETIME);
        fixture.exchange(1, 1).await.unwrap();
        let listed = fixture.store.keys_after(KeyOrigin::Exchanged, None, 1000).await.unwrap();
        assert_eq!(listed.len(), MAX_LIVE_KEYS_OF_SUBJECT + 2, "{name}");
    }
}

#[tokio::test]
async fn keys_of_trusts_are_removed_a_day_after_they_expire_and_others_stay() {
    for fixture in all().await {
        let name = fixture.name;
        fixture.create_trust(fixture.new_trust(1, "one", None)).await.unwrap();
        let key = fixture.exchange(1, 1).await.unwrap();
        let now = fixture.engine.now();
        let new = NewKey {
            name: "of a person".to_owned(),
            scopes: vec![Scope::Read],
            projects: None,
            expires_at: Some(now + KEY_LIFETIME),
            allowed_ips: None,
        };
        let (other, _) = new.make(("cli", None), now, &*fixture.world).unwrap();
        fixture.store.create_key(other.clone(), fixture.line("key.created")).await.unwrap();
        let sweep = || fixture.store.sweep(fixture.engine.now(), Retention::default(), 10);
        fixture.world.advance(KEY_LIFETIME + Duration::from_secs(23 * 3600));
        assert_eq!(sweep().await.unwrap(), Swept::default(), "{name}");
        fixture.world.advance(Duration::from_secs(3600));
        assert_eq!(sweep().await.unwrap(), Swept { keys: 1, ..Swept::default() }, "{name}");
        assert_eq!(fixture.store.key(key.id).await.unwrap(), None, "{name}");
        assert!(fixture.store.key(other.id).await.unwrap().is_some(), "{name}");
        assert!(!fixture.store.audit(None, 10).await.unwrap().is_empty(), "{name}: the audit log keeps the trace");
    }
}
