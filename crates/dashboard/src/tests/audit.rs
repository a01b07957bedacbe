//! Tests of the audit log: sentences, filters, pages and the export.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use journeyman_core::audit::AuditEntry;
use journeyman_core::code_host::PullState;
use journeyman_core::key::{ApiKey, NewKey, Scope};
use journeyman_core::ports::{KeyStore as _, UserStore as _};
use journeyman_core::time::Clock as _;
use journeyman_core::user::Role;
use journeyman_testkit::Seeds as _;

use super::pulls::{Fake, detail};
use super::{Fixture, Reply, START, audit_entry};

const ADMIN: Option<Role> = Some(Role::Administrator);

async fn fixture() -> Fixture {
    super::fixture(Arc::new(Fake::with(detail(PullState::Open)))).await
}

async fn see(fixture: &Fixture, path: &str) -> Reply {
    fixture.send(ADMIN, Method::GET, path, "").await
}

async fn note(fixture: &Fixture, actor: &str, action: &str, subject: &str) {
    let [actor, action, subject] = [actor, action, subject].map(str::to_owned);
    let entry = AuditEntry { at: fixture.world.now(), actor, action, subject, address: Some("10.0.0.7".to_owned()) };
    fixture.store.note(entry).await.unwrap();
}

/// Creates a key of the administrator.
pub(super) async fn key(fixture: &Fixture, name: &str) -> ApiKey {
    let user = fixture.store.user_by_name("administrator".into()).await.unwrap().unwrap().id;
    let new =
        NewKey { name: name.into(), scopes: vec![Scope::Read], projects: None, expires_at: None, allowed_ips: None };
    let (key, _) = new.make((&user.to_string(), Some(user)), START, &*fixture.world).unwrap();
    fixture.store.create_key(key.clone(), audit_entry()).await.unwrap();
    key
}

#[tokio::test]
async fn entries_are_sentences_and_filters_are_in_the_url() {
    let fixture = fixture().await;
    let (admin, ci) = (key(&fixture, "admin").await, key(&fixture, "<i>ci").await);
    let bob = fixture.store.user_by_name("member".into()).await.unwrap().unwrap().id.to_string();
    note(&fixture, &admin.id.to_string(), "key.revoked", &ci.id.to_string()).await;
    note(&fixture, &bob, "pull.merged", "shop#7").await;
    fixture.world.advance(Duration::from_secs(86_400));
    note(&fixture, "cli", "project.changed", "docs").await;

    let page = see(&fixture, "/audit").await.body;
    let revoked = format!(
        "<bdi class=\"who\">administrator</bdi> revoked the key <bdi>&#60;i&#62;ci</bdi> \
         <span class=\"muted tiny mono\">{}</span> with the key <bdi>admin</bdi> from <code>10.0.0.7</code>",
        ci.id
    );
    let merged = "<bdi class=\"who\">member</bdi> merged the pull request <a href=\"/projects/shop/pulls/7\">";
    let changed = "<bdi class=\"who\">The command line</bdi> changed the project";
    for part in [revoked.as_str(), merged, changed] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    let admin = fixture.store.user_by_name("administrator".into()).await.unwrap().unwrap().id;
    for (path, expected) in [
        // The entries of a user include those of the user's keys.
        (format!("/audit?who={admin}"), [true, false, false]),
        (format!("/audit?who={bob}"), [false, true, false]),
        ("/audit?who=cli".to_owned(), [false, false, true]),
        ("/audit?what=pull.".to_owned(), [false, true, false]),
        ("/audit?project=shop".to_owned(), [false, true, false]),
        ("/audit?from=2026-11-21&to=2026-11-21".to_owned(), [true, true, false]),
        ("/audit?from=2026-11-22".to_owned(), [false, false, true]),
        ("/audit?what=pull.&who=cli".to_owned(), [false, false, false]),
        ("/audit?project=none-such".to_owned(), [false, false, false]),
    ] {
        let page = see(&fixture, &path).await.body;
        let found = [revoked.as_str(), merged, changed].map(|part| page.contains(part));
        assert_eq!(found, expected, "{path}: {page}");
        assert!(page.contains("Clear filters"), "{path}");
    }
}

#[tokio::test]
async fn pages_keep_the_filters() {
    let fixture = fixture().await;
    for number in 0..60 {
        note(&fixture, "cli", "project.changed", &format!("p{number}")).await;
    }
    let first = see(&fixture, "/audit?what=project.").await.body;
    assert!(first.contains("<bdi>p59</bdi>") && !first.contains("<bdi>p9</bdi>"), "{first}");
    let older = first.split("href=\"").find_map(|part| part.strip_prefix("/audit?before=")).unwrap();
    let older = format!("/audit?before={}", older.split('"').next().unwrap().replace("&#38;", "&"));
    assert!(older.ends_with("&what=project."), "{older}");
    let second = see(&fixture, &older).await.body;
    assert!(second.contains("<bdi>p9</bdi>") && !second.contains("<bdi>p10</bdi>"), "{second}");
    assert!(second.contains("href=\"/audit?what=project.\">Newest") && !second.contains(">Older<"), "{second}");
}

#[tokio::test]
async fn the_selected_entries_are_exported_as_a_table_and_as_json_lines() {
    let fixture = fixture().await;
    note(&fixture, "=1+1", "session.refused", "x").await;
    note(&fixture, "cli", "project.changed", "shop").await;
    let table = see(&fixture, "/audit/export?format=csv&what=session.").await;
    assert_eq!(table.header("content-disposition"), "attachment; filename=\"audit.csv\"");
    let lines: Vec<&str> = table.body.split("\r\n").collect();
    assert_eq!(lines[0], "id,at,actor,actorName,action,subject,address");
    assert!(lines[1].ends_with(",'=1+1,,session.refused,x,10.0.0.7"), "{}", table.body);
    assert_eq!(lines.len(), 3, "{}", table.body);

    let json = see(&fixture, "/audit/export?format=jsonl&project=shop").await;
    assert_eq!(json.header("content-disposition"), "attachment; filename=\"audit.jsonl\"");
    let entries: Vec<serde_json::Value> = json.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(entries.len(), 1);
    assert_eq!(
        (&entries[0]["action"], &entries[0]["actorName"]),
        (&"project.changed".into(), &serde_json::Value::Null)
    );

    for role in [Role::Member, Role::Viewer] {
        let refused = fixture.send(Some(role), Method::GET, "/audit/export", "").await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{}", refused.body);
    }
}
