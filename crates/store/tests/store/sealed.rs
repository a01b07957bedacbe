//! Tests of encrypted values and the rotation of their key, on both databases.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use journeyman_core::audit::AuditEntry;
use journeyman_core::code_host::{CodeHost, CodeHostId, DefinedIn, HostKind, HostSecret};
use journeyman_core::decision;
use journeyman_core::decision::project::ProjectToChange;
use journeyman_core::decision::{AnyPut, Change, Decision, Once, Row, Subject};
use journeyman_core::idempotency::{Claim, Fingerprint};
use journeyman_core::ids::{ProjectId, SlackWorkspaceId, TemplateId, UserId, WebhookId};
use journeyman_core::ports::{
    Administered, Seal as _, SealedCensus, SealedCounts, SealedKind, SealedPage, SealedRow, Store, StoreError,
};
use journeyman_core::resource::{Put, Resource};
use journeyman_core::secret::SecretValue;
use journeyman_core::slack::{SlackMode, SlackSecret, SlackSettings, SlackWorkspace};
use journeyman_core::template::{Template, TemplateSettings};
use journeyman_core::time::{Clock as _, Timestamp};
use journeyman_core::user::second_factor::SecondFactor;
use journeyman_core::user::{Role, TokenHash, User};
use journeyman_core::webhook::{SecretChange, Webhook, WebhookFormat, WebhookSecret, WebhookSettings};
use journeyman_store::{
    MasterKey, MasterKeys, PostgresOpenError, PostgresStore, Schema, Sealer, SqliteStore, VaultError, export_postgres,
    export_sqlite,
};
use journeyman_testkit::{Seeds as _, World, decide_on};
use uuid::Uuid;

use super::fixtures::{migrated, project, shop};

fn key(byte: u8) -> MasterKey {
    MasterKey::new([byte; 32])
}

fn id(byte: u8) -> String {
    key(byte).id().unwrap().to_string()
}

/// A database that is opened with several sets of keys.
enum Database {
    Sqlite(tempfile::TempDir),
    Postgres(String),
}

impl Database {
    async fn all() -> [Self; 2] {
        [Self::Sqlite(tempfile::tempdir().unwrap()), Self::Postgres(migrated().await)]
    }

    fn path(dir: &tempfile::TempDir) -> std::path::PathBuf {
        dir.path().join("journeyman.db")
    }

    /// Opens the database with a current key and others.
    async fn try_open(&self, current: u8, others: &[u8]) -> Result<Arc<dyn Store>, Option<VaultError>> {
        let keys = MasterKeys::new(key(current), others.iter().map(|byte| key(*byte)).collect());
        match self {
            Self::Sqlite(dir) => match SqliteStore::open(&Self::path(dir), keys, World::new()) {
                Ok(store) => Ok(Arc::new(store)),
                Err(journeyman_store::OpenError::Key(error)) => Err(Some(error)),
                Err(_) => Err(None),
            },
            Self::Postgres(url) => match PostgresStore::open(url, 4, Schema::Check, keys, World::new()).await {
                Ok(store) => Ok(Arc::new(store)),
                Err(PostgresOpenError::Key(error)) => Err(Some(error)),
                Err(_) => Err(None),
            },
        }
    }

    async fn open(&self, current: u8, others: &[u8]) -> Arc<dyn Store> {
        self.try_open(current, others).await.unwrap()
    }
}

fn entry() -> AuditEntry {
    let text = |text: &str| text.to_owned();
    let at = World::new().now();
    AuditEntry { at, actor: text("cli"), action: text("key_encryption.rotated"), subject: String::new(), address: None }
}

/// Encrypts all values of a kind with the current key, `limit` rows at a time, and returns how many there were.
async fn reseal(store: &dyn Store, kind: SealedKind, limit: usize) -> u64 {
    let (mut after, mut done) = (None, 0);
    loop {
        let resealed = store.reseal(SealedPage { kind, after, limit }, entry()).await.unwrap();
        done += resealed.done;
        match resealed.next {
            Some(next) => after = Some(next),
            None => return done,
        }
    }
}

async fn rotate(store: &dyn Store) -> BTreeMap<SealedKind, u64> {
    let mut done = BTreeMap::new();
    for kind in SealedKind::ALL {
        done.insert(kind, reseal(store, kind, 2).await);
    }
    done
}

async fn census(store: &dyn Store) -> SealedCensus {
    store.sealed(SealedKind::ALL.to_vec()).await.unwrap()
}

fn secret(text: &str) -> Option<SecretValue> {
    Some(SecretValue(text.to_owned()))
}

fn unnamed() -> TemplateSettings {
    let text = String::new;
    TemplateSettings { name: text(), description: text(), prompt: text(), agent: None, model: None, labels: [].into() }
}

/// Stores an answer for an idempotency key, or returns the stored one.
async fn once(store: &dyn Store) -> Option<String> {
    let claim = Claim {
        project: Some(shop()),
        caller: "cli".to_owned(),
        key: "once".to_owned(),
        fingerprint: Fingerprint([1; 32]),
    };
    let settings = TemplateSettings { name: "a".to_owned(), prompt: "b".to_owned(), ..unnamed() };
    let (id, now) = (TemplateId::from_uuid(Uuid::from_u128(1)), World::new().now());
    let template = Template { id, project: shop(), settings, created_at: now, version: 1 };
    let (key, new) = (template.key(), Put { resource: template, secrets: () });
    let create = move |locked: &_| decision::resource::create(locked, new.clone(), entry());
    let once = Some(Once { claim, answer: "the answer".to_owned() });
    match store.administer(Subject::any(Decision::new(key, create)), once, now).await.unwrap() {
        Administered::Done(_) => None,
        Administered::Replayed(answer) => Some(answer),
    }
}

async fn fill(store: &dyn Store) {
    store
        .create_project(project("shop"), [("A".to_owned(), secret("one")), ("B".to_owned(), secret("two"))].into())
        .await
        .unwrap();
    store.create_project(project("other"), [("A".to_owned(), secret("three"))].into()).await.unwrap();
    store.update_project(project("other"), [("A".to_owned(), secret("four"))].into()).await.unwrap();
    assert_eq!(once(store).await, None);
    let (rows, now) = (rows_of_others(), World::new().now());
    let change = move |_: &_| Ok(Change::new(rows.clone(), entry()));
    decide_on(store, ProjectToChange(shop()), now, change).await.unwrap();
    store.create_user(user_with_app(), entry()).await.unwrap();
}

fn user_id() -> UserId {
    UserId::from_uuid(Uuid::from_u128(1))
}

/// Returns the context of the secret of the user's app.
fn app_context() -> String {
    format!("second_factor/{}", user_id())
}

/// Returns a user with a second factor whose secret the first key has encrypted.
fn user_with_app() -> User {
    let now = World::new().now();
    let sealer = Sealer::new(key(1), World::new());
    let factor = SecondFactor {
        secret: sealer.seal(&app_context(), "of the app").unwrap(),
        since: now,
        last_step: 7,
        recovery: vec![TokenHash::of("aaaabbbbccccdddd")],
        failures: 0,
        failed_at: None,
    };
    User {
        id: user_id(),
        name: "ada".to_owned(),
        role: Role::Member,
        password: None,
        identity: None,
        second_factor: Some(factor),
        passkeys: Default::default(),
        created_at: now,
        signed_in_at: None,
        disabled_at: None,
        version: 1,
    }
}

/// Returns the secret of the user's app if a key decrypts it, and checks that nothing else of the second factor has
/// changed.
async fn of_app(store: &dyn Store, byte: u8) -> Option<String> {
    let user = store.user(user_id()).await.unwrap().unwrap();
    let (found, expected) = (user.second_factor.unwrap(), user_with_app().second_factor.unwrap());
    assert_eq!(SecondFactor { secret: expected.secret.clone(), ..found.clone() }, expected);
    Sealer::new(key(byte), World::new()).open(&app_context(), &found.secret)
}

fn webhook_id() -> WebhookId {
    WebhookId::from_uuid(Uuid::from_u128(1))
}

fn workspace_id() -> SlackWorkspaceId {
    SlackWorkspaceId::from_uuid(Uuid::from_u128(1))
}

fn host_id() -> CodeHostId {
    "ghe".parse().unwrap()
}

/// Returns a webhook with a current and an old secret, a code host, and a Slack workspace.
fn put<R: Resource>(resource: R, secrets: R::Secrets) -> Row
where
    AnyPut: From<Put<R>>,
{
    Row::Put(Put { resource, secrets }.into())
}

fn rows_of_others() -> Vec<Row> {
    let (created_at, text) = (World::new().now(), |text: &str| text.to_owned());
    let settings = WebhookSettings {
        url: text("https://a.example.com/"),
        kinds: [].into(),
        format: WebhookFormat::Standard,
        description: text(""),
    };
    let webhook = Webhook {
        id: webhook_id(),
        project: shop(),
        settings,
        disabled: None,
        failing_since: None,
        created_at,
        old_secret_until: Some(created_at),
        version: 1,
    };
    let host = CodeHost {
        id: host_id(),
        kind: HostKind::Gitea,
        url: text("https://git.example.com"),
        api_url: None,
        access: None,
        trusted_bots: [].into(),
        polls: false,
        defined_in: DefinedIn::Store,
        created_at,
        version: 1,
    };
    let settings = SlackSettings {
        name: text("Acme"),
        team: text("T1"),
        bot_user: text("U1"),
        enterprise: None,
        mode: SlackMode::Events,
        channels: [].into(),
        users: [].into(),
    };
    let workspace = SlackWorkspace { id: workspace_id(), settings, created_at, version: 1 };
    vec![
        put(webhook.clone(), SecretChange::New(webhook_secret("A"))),
        put(webhook, SecretChange::Rotate(webhook_secret("B"))),
        put(host, [(HostSecret::Token, secret("of the host"))].into()),
        put(workspace, [(SlackSecret::BotToken, secret("xoxb-1"))].into()),
    ]
}

fn webhook_secret(letter: &str) -> WebhookSecret {
    WebhookSecret::parse(&format!("whsec_{}", letter.repeat(32))).unwrap()
}

/// Returns whether the secrets of the webhook, the code host and the Slack workspace are the stored ones.
async fn others_are_known(store: &dyn Store) -> bool {
    let hooks = store.webhook_secrets(webhook_id()).await.unwrap().unwrap();
    let of_host = store.code_host_secrets(host_id()).await.unwrap();
    let of_slack = store.slack_secrets(workspace_id()).await.unwrap();
    hooks.current == webhook_secret("B")
        && hooks.old.is_some_and(|(old, _)| old == webhook_secret("A"))
        && of_host.token == secret("of the host")
        && of_slack.into_values().map(Some).collect::<Vec<_>>() == [secret("xoxb-1")]
}

async fn secrets(store: &dyn Store, of: &str) -> Vec<String> {
    store.secrets(of.parse::<ProjectId>().unwrap()).await.unwrap().into_values().map(|value| value.0).collect()
}

#[tokio::test]
async fn every_value_is_encrypted_again_and_only_then_the_old_key_is_dispensable() {
    for database in Database::all().await {
        fill(&*database.open(1, &[]).await).await;
        assert_eq!(database.try_open(2, &[]).await.err(), Some(Some(VaultError::OtherKey)), "only the new key");
        // The new key decrypts before it encrypts, on another machine.
        let first = database.open(1, &[2]).await;
        let store = database.open(2, &[1]).await;
        let before = census(&*store).await;
        assert_eq!((before.current.clone(), before.others.clone()), (id(2), vec![id(1)]));
        assert_eq!((before.required.clone(), before.with_other_keys()), (Some(id(1)), 10), "{before:?}");
        assert!(!before.is_complete() && census(&*first).await.is_complete());

        let done = rotate(&*store).await;
        let expected = SealedKind::ALL.into_iter().zip([3, 1, 1, 2, 1, 1, 1]).collect();
        assert_eq!(done, expected);
        assert_eq!(rotate(&*store).await.values().sum::<u64>(), 0, "a second rotation has nothing to do");
        assert!(!census(&*store).await.is_complete(), "services still need the old key to start");
        assert_eq!(database.try_open(2, &[]).await.err(), Some(Some(VaultError::OtherKey)));
        assert_eq!(secrets(&*first, "shop").await, ["one", "two"], "the other machine reads the new values");
        assert!(store.require_current_key(entry()).await.unwrap());
        assert!(!store.require_current_key(entry()).await.unwrap(), "it is required already");
        assert!(census(&*store).await.is_complete());

        let last = database.open(2, &[]).await;
        assert_eq!(secrets(&*last, "shop").await, ["one", "two"]);
        assert_eq!(secrets(&*last, "other").await, ["four"]);
        let earlier = last.retired_secrets("other".parse().unwrap(), Timestamp::from_micros(0)).await.unwrap();
        assert_eq!(earlier, [("A".to_owned(), SecretValue("three".to_owned()))]);
        assert_eq!(once(&*last).await.as_deref(), Some("the answer"));
        assert!(others_are_known(&*last).await && census(&*last).await.is_complete());
        assert_eq!(of_app(&*last, 2).await.as_deref(), Some("of the app"));
        assert_eq!(of_app(&*last, 1).await, None);
        assert_eq!(database.try_open(1, &[]).await.err(), Some(Some(VaultError::OtherKey)), "only the old key");
    }
}

#[tokio::test]
async fn each_transaction_has_its_entry_in_the_audit_log() {
    for database in Database::all().await {
        fill(&*database.open(1, &[]).await).await;
        let store = database.open(2, &[1]).await;
        rotate(&*store).await;
        store.require_current_key(entry()).await.unwrap();
        let lines = store.audit(None, 100).await.unwrap();
        let mut subjects: Vec<String> = lines
            .into_iter()
            .filter(|line| line.entry.action.starts_with("key_encryption.") && !line.entry.subject.is_empty())
            .map(|line| line.entry.subject)
            .collect();
        subjects.reverse();
        let of = |text: &str| format!("{} {text}", id(2));
        // Two rows are read at a time.
        let expected = [
            of("(2 in project_secrets)"),
            of("(1 in project_secrets)"),
            of("(1 in code_host_secrets)"),
            of("(1 in slack_secrets)"),
            of("(2 in webhook_secrets)"),
            of("(1 in idempotency_keys)"),
            of("(1 in retired_secrets)"),
            of("(1 in users)"),
            id(2),
        ];
        assert_eq!(subjects, expected);
    }
}

#[tokio::test]
async fn a_value_that_changed_after_it_was_read_is_left_as_it_is() {
    for database in Database::all().await {
        fill(&*database.open(1, &[]).await).await;
        let (old, new) = (database.open(1, &[2]).await, database.open(2, &[1]).await);
        // Both processes write the same secrets while they are encrypted again. No written value is lost.
        let write = |round: u32| {
            let old = Arc::clone(&old);
            async move {
                let changed = [("A".to_owned(), secret(&format!("value {round}")))].into();
                old.update_project(project("shop"), changed).await.unwrap();
            }
        };
        for round in 0..20 {
            let (_, ()) = tokio::join!(reseal(&*new, SealedKind::ProjectSecret, 1), write(round));
            let expected = [format!("value {round}"), "two".to_owned()];
            assert_eq!(secrets(&*new, "shop").await, expected);
            assert_eq!(secrets(&*old, "shop").await, expected);
        }
        reseal(&*new, SealedKind::ProjectSecret, 1).await;
        assert_eq!(census(&*new).await.counts[&SealedKind::ProjectSecret].others, BTreeMap::new());
    }
}

#[tokio::test]
async fn a_value_that_no_key_decrypts_is_named_and_kept() {
    for database in Database::all().await {
        fill(&*database.open(1, &[]).await).await;
        let writer = database.open(3, &[1]).await;
        writer.update_project(project("shop"), [("B".to_owned(), secret("four"))].into()).await.unwrap();
        let store = database.open(2, &[1]).await;
        rotate(&*store).await;
        let found = census(&*store).await;
        let row = SealedRow { kind: SealedKind::ProjectSecret, owner: "shop".to_owned(), name: "B".to_owned() };
        assert_eq!((found.unreadable(), found.with_other_keys(), found.unreadable.clone()), (1, 0, vec![row]));
        let counts = SealedCounts { current: 2, others: BTreeMap::new(), unreadable: 1 };
        assert_eq!(found.counts[&SealedKind::ProjectSecret], counts);
        assert!(!found.is_complete());
        let refused = store.secrets(shop()).await.unwrap_err();
        let StoreError::Corrupt { row, detail, .. } = &refused else { panic!("{refused}") };
        assert!(row == "shop/B" && detail.contains(&id(3)) && !refused.to_string().contains("four"), "{refused}");
        let all = database.open(3, &[1, 2]).await;
        assert_eq!(secrets(&*all, "shop").await, ["one", "four"], "it was not changed");
    }
}

#[tokio::test]
async fn a_database_that_requires_an_unknown_key_is_not_changed() {
    for database in Database::all().await {
        fill(&*database.open(1, &[]).await).await;
        let third = database.open(3, &[1]).await;
        let second = database.open(2, &[1]).await;
        assert!(third.require_current_key(entry()).await.unwrap());
        let refused = second.require_current_key(entry()).await.unwrap_err();
        assert!(refused.to_string().contains("another master key"), "{refused}");
        assert_eq!(census(&*second).await.required, None);
    }
}

#[tokio::test]
async fn a_backup_names_the_keys_that_it_needs() {
    let out = tempfile::tempdir().unwrap();
    for (number, database) in Database::all().await.into_iter().enumerate() {
        fill(&*database.open(1, &[]).await).await;
        let store = database.open(2, &[1, 3]).await;
        let during = export(&database, &out.path().join(format!("{number}a"))).await;
        assert_eq!(during, [id(1)], "nothing was encrypted with the new key");
        reseal(&*store, SealedKind::ProjectSecret, 100).await;
        assert_eq!(export(&database, &out.path().join(format!("{number}b"))).await, [id(1), id(2)]);
        rotate(&*store).await;
        store.require_current_key(entry()).await.unwrap();
        assert_eq!(export(&database, &out.path().join(format!("{number}c"))).await, [id(2)]);
    }
}

async fn export(database: &Database, to: &Path) -> Vec<String> {
    let keys = MasterKeys::new(key(2), vec![key(1), key(3)]);
    let exported = match database {
        Database::Sqlite(dir) => export_sqlite(&Database::path(dir), to, &keys, &mut |_| {}).unwrap(),
        Database::Postgres(url) => {
            std::fs::create_dir(to).unwrap();
            export_postgres(url, to, &keys, &mut |_| {}).await.unwrap()
        }
    };
    exported.key_ids
}
