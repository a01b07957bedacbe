//! Tests of the pages of trusts.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use journeyman_core::key::Scope;
use journeyman_core::ports::KeyStore as _;
use journeyman_core::trust::Trust;
use journeyman_core::user::Role;
use journeyman_testkit::{FakeForges, all_stored};

use super::{Fixture, Reply, fixture};

const ADMIN: Option<Role> = Some(Role::Administrator);
const PATH: &str = "/system/trusts";
const RULES: &str = "name=ci&issuer=https%3A%2F%2Fid.example&audience=shop-ci&claims=repository+%3D+acme%2Fshop%0D%0A\
                     ref+%3D+refs%2Fheads%2Fmain&scope=read&project=shop";

impl Fixture {
    async fn read(&self, path: &str) -> String {
        self.send(ADMIN, Method::GET, path, "").await.body
    }

    async fn submit(&self, path: &str, form: &str) -> Reply {
        self.send(ADMIN, Method::POST, path, form).await
    }

    /// Creates a trust, and returns it with the path of its form.
    async fn trusted(&self) -> (Trust, String) {
        let created = self.submit(PATH, RULES).await;
        let expected = (StatusCode::SEE_OTHER, "/system/trusts?done=created");
        assert_eq!((created.status, created.header("location")), expected, "{}", created.body);
        let trust = self.only_trust().await;
        let form = format!("{PATH}/{}/edit", trust.id);
        (trust, form)
    }

    async fn only_trust(&self) -> Trust {
        all_stored::<Trust>(&*self.store, None).await.remove(0)
    }
}

#[tokio::test]
async fn a_trust_is_edited_and_a_stale_form_changes_nothing() {
    let fixture = fixture(Arc::new(FakeForges)).await;
    let (trust, path) = fixture.trusted().await;
    assert!(fixture.read(PATH).await.contains(&format!("href=\"{path}\"")), "the list leads to the form");

    let form = fixture.read(&path).await;
    for part in [
        "name=\"version\" value=\"1\"",
        "value=\"ci\"",
        "value=\"https://id.example\"",
        "value=\"shop-ci\"",
        "ref = refs/heads/main\nrepository = acme/shop</textarea>",
        "value=\"read\" checked",
        "value=\"shop\" checked",
    ] {
        assert!(form.contains(part), "{part}: {form}");
    }
    let unchanged = fixture.submit(&path, &format!("version=1&{RULES}")).await;
    assert_eq!(unchanged.header("location"), "/system/trusts?done=saved");
    assert_eq!(fixture.only_trust().await, trust, "an unchanged form changes nothing");

    let change = "name=ci&issuer=https%3A%2F%2Fid.example&claims=repository%3Dacme%2F*&scope=jobs&project=shop";
    let saved = fixture.submit(&path, &format!("version=1&{change}")).await;
    assert_eq!((saved.status, saved.header("location")), (StatusCode::SEE_OTHER, "/system/trusts?done=saved"));
    let changed = fixture.only_trust().await;
    assert_eq!((changed.version, changed.settings.scope), (2, Scope::Jobs));
    assert_eq!(changed.settings.claims, [("repository".to_owned(), "acme/*".to_owned())].into());
    assert_eq!(changed.settings.audience, "http://localhost:8080", "an empty audience is the default");
    let entry = fixture.store.audit(None, 1).await.unwrap().remove(0).entry;
    assert_eq!((entry.action, entry.subject), ("trust.changed".to_owned(), trust.id.to_string()));

    // The answer to a stale form keeps its version, so that sending it again is refused too.
    let late = fixture.submit(&path, &format!("version=1&{RULES}")).await;
    assert_eq!(late.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", late.body);
    assert!(late.body.contains("Someone has changed the trust") && late.body.contains("shop-ci"), "{}", late.body);
    assert!(late.body.contains("name=\"version\" value=\"1\""), "{}", late.body);
    assert_eq!(fixture.only_trust().await, changed);
}

#[tokio::test]
async fn a_refused_form_keeps_its_input_and_names_the_field() {
    let fixture = fixture(Arc::new(FakeForges)).await;
    let (trust, path) = fixture.trusted().await;
    for (field, value, named) in [
        ("name", "name=not+valid", "Name: must have"),
        ("issuer", "issuer=http%3A%2F%2Fid.example", "Issuer: must be"),
        ("claims", "claims=repository", "Claims: write a claim"),
        ("claims", "claims=repository%3D*", "more than wildcards"),
        ("project", "x=x", "Projects: must name"),
        ("project", "project=nowhere", "there is no project nowhere"),
    ] {
        let kept = RULES.split('&').filter(|pair| !pair.starts_with(&format!("{field}=")));
        let form: Vec<&str> = kept.chain([value]).collect();
        for (path, form) in [(PATH, form.join("&")), (&*path, format!("version=1&{}", form.join("&")))] {
            let refused = fixture.submit(path, &form).await;
            assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{path} {form}: {}", refused.body);
            assert!(refused.body.to_lowercase().contains(&named.to_lowercase()), "{named}: {}", refused.body);
            assert!(refused.body.contains("shop-ci"), "the input stays: {}", refused.body);
        }
    }
    assert_eq!(all_stored::<Trust>(&*fixture.store, None).await, [trust]);
}
