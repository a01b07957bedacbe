//! Tests of the proof of who the viewer is, which some changes need.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use axum::http::{Method, StatusCode};
use journeyman_core::code_host::PullState;
use journeyman_core::ports::{
    BegunSignIn, KeyStore, NotProven, ProvenPerson, ReturnedSignIn, SignInProvider, UserStore,
};
use journeyman_core::time::{Clock, Timestamp};
use journeyman_core::user::{Identity, PROOF_LIFETIME, Role, TokenHash};
use journeyman_testkit::{FakeHosts, Seeds as _, until_async};

use super::pulls::{Fake, detail};
use super::{Fixture, Reply, audit_entry, fixture, fixture_of, seeded};
use crate::fresh::is_needed;

/// A provider at which one person signs in, at a time that the test chooses.
#[derive(Default)]
pub(super) struct FakeProvider {
    /// The subject of the person, and the time at which the provider says that it has asked them.
    pub(super) person: Mutex<Option<(String, Option<Timestamp>)>>,
}

pub(super) fn identity(subject: &str) -> Identity {
    Identity { issuer: "https://id.example".to_owned(), subject: subject.to_owned() }
}

#[async_trait]
impl SignInProvider for FakeProvider {
    fn label(&self) -> &'static str {
        "Sign in with Example"
    }

    fn default_role(&self) -> Role {
        Role::Viewer
    }

    async fn begin(&self, _: &str, _: Timestamp) -> Result<BegunSignIn, NotProven> {
        Ok(BegunSignIn { url: "https://id.example/authorize".to_owned(), pending: "pending".to_owned() })
    }

    async fn begin_again(&self, _: &str, _: Timestamp) -> Result<BegunSignIn, NotProven> {
        Ok(BegunSignIn { url: "https://id.example/authorize?max_age=0".to_owned(), pending: "pending".to_owned() })
    }

    async fn finish(&self, _: &str, _: ReturnedSignIn, _: &str, _: Timestamp) -> Result<ProvenPerson, NotProven> {
        let person = self.person.lock().unwrap().clone();
        let (subject, authenticated_at) = person.ok_or_else(|| NotProven("access was denied".to_owned()))?;
        let email = format!("{subject}@example.com");
        Ok(ProvenPerson { identity: identity(&subject), email, authenticated_at })
    }
}

/// Creates a fixture whose sessions are too old for changes that need a proof.
async fn with_old_sessions() -> Fixture {
    let fixture = fixture(Arc::new(Fake::with(detail(PullState::Open)))).await;
    fixture.world.advance(PROOF_LIFETIME);
    fixture
}

async fn actions(fixture: &Fixture, count: usize) -> Vec<String> {
    let entries = fixture.store.audit(None, count).await.unwrap();
    entries.into_iter().map(|entry| entry.entry.action).collect()
}

#[tokio::test]
async fn a_change_that_lets_people_in_needs_a_recent_proof() {
    let fixture = with_old_sessions().await;
    let member = fixture.store.user_by_name("member".into()).await.unwrap().unwrap();
    let user = format!("/users/{}", member.id);
    let before = fixture.audited().await;
    for (path, form) in [
        ("/keys".to_owned(), "name=ci&days=30&project=shop"),
        ("/users".to_owned(), "name=bob&role=administrator"),
        (format!("{user}/role"), "role=administrator"),
        (format!("{user}/link"), ""),
        (format!("{user}/disable"), ""),
        ("/account/password".to_owned(), "current=a+long+password&password=another+long+one"),
        ("/system/trusts".to_owned(), "name=ci&issuer=https://a.example&claims=sub%3Dx&project=shop&scope=jobs"),
        ("/system/code-hosts".to_owned(), "id=a&kind=gitea&url=https://a.example&token=t"),
        ("/system/slack".to_owned(), "mode=events&bot-token=xoxb-12345&signing-secret=0123456789"),
    ] {
        for with_turbo in [false, true] {
            let answer = match with_turbo {
                true => fixture.send_with_turbo(Role::Administrator, &path, form).await,
                false => fixture.send(Some(Role::Administrator), Method::POST, &path, form).await,
            };
            assert_eq!(answer.status, StatusCode::FORBIDDEN, "{path}: {}", answer.body);
            assert!(answer.header("content-type").starts_with("text/html"), "{path}: Turbo shows a page");
            assert!(answer.body.contains("<h1>Confirm that it is you</h1>"), "{path}: {}", answer.body);
            let action = format!("method=\"post\" action=\"{path}\" data-turbo=\"false\"");
            assert!(answer.body.contains(&action), "{path}: {}", answer.body);
        }
    }
    assert_eq!(fixture.audited().await, before, "nothing was changed");
    assert!(fixture.store.keys().await.unwrap().is_empty());
    let other = fixture.send(Some(Role::Administrator), Method::POST, "/account/letters", "letters=on").await;
    assert_eq!(other.status, StatusCode::SEE_OTHER, "other changes need no proof");
}

#[tokio::test]
async fn the_form_is_carried_out_with_what_was_typed_after_the_proof() {
    let fixture = with_old_sessions().await;
    let form = "name=%3Cci%3E+%22key%22&days=30&project=shop&project=empty";
    let asked = fixture.send(Some(Role::Administrator), Method::POST, "/keys", form).await;
    for field in [
        "<input type=\"hidden\" name=\"name\" value=\"&#60;ci&#62; &#34;key&#34;\">",
        "<input type=\"hidden\" name=\"days\" value=\"30\">",
        "<input type=\"hidden\" name=\"project\" value=\"shop\">",
        "<input type=\"hidden\" name=\"project\" value=\"empty\">",
        "<input type=\"hidden\" name=\"confirm\" value=\"on\">",
    ] {
        assert!(asked.body.contains(field), "{field}: {}", asked.body);
    }
    let form = "name=%3Cci%3E&days=30&project=shop&confirm=on&confirm-name=administrator&confirm-password=";
    let send = async |password: &str| {
        fixture.send(Some(Role::Administrator), Method::POST, "/keys", &format!("{form}{password}")).await
    };
    for (password, error) in [("", "You have not confirmed yet"), ("wrong", "The current password is wrong.")] {
        let refused = send(password).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{password}");
        assert!(refused.body.contains(error), "{password}: {}", refused.body);
        assert!(refused.body.contains("name=\"name\" value=\"&#60;ci&#62;\""), "{password}: {}", refused.body);
        assert!(!refused.body.contains("value=\"wrong\"") && !refused.body.contains("type=\"hidden\" name=\"confirm-"));
    }
    assert_eq!(actions(&fixture, 1).await, ["session.unconfirmed"]);
    let made = send("a+long+password").await;
    let page = fixture.follow(Role::Administrator, &made).await;
    assert!(page.body.contains("jmn_"), "{}", page.body);
    assert_eq!(fixture.store.keys().await.unwrap()[0].name, "<ci>");
    assert_eq!(actions(&fixture, 2).await, ["key.created", "session.confirmed"]);
    let next = fixture.send(Some(Role::Administrator), Method::POST, "/keys", "name=b&days=30&project=shop").await;
    assert_eq!(next.status, StatusCode::SEE_OTHER, "the proof lasts");
    fixture.world.advance(PROOF_LIFETIME);
    let next = fixture.send(Some(Role::Administrator), Method::POST, "/keys", "name=c&days=30&project=shop").await;
    assert_eq!(next.status, StatusCode::FORBIDDEN, "the proof has expired");
}

#[tokio::test]
async fn a_form_that_is_refused_after_the_proof_is_shown_with_its_fields() {
    let fixture = with_old_sessions().await;
    let form = "name=what+I+typed&days=soon&confirm=on&confirm-password=a+long+password";
    let refused = fixture.send(Some(Role::Administrator), Method::POST, "/keys", form).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", refused.body);
    assert!(refused.body.contains("what I typed") && refused.body.contains("is not a number of days"));
}

#[tokio::test]
async fn a_page_that_needs_a_proof_opens_after_it() {
    let fixture = with_old_sessions().await;
    let path = "/system/code-hosts/github/app?id=hub";
    let asked = fixture.send(Some(Role::Administrator), Method::GET, path, "").await;
    assert_eq!(asked.status, StatusCode::OK, "{}", asked.body);
    assert!(asked.body.contains("<h1>Confirm that it is you</h1>"), "{}", asked.body);
    assert!(asked.body.contains("action=\"/confirm\""), "{}", asked.body);
    assert!(asked.body.contains(&format!("name=\"next\" value=\"{path}\"")), "{}", asked.body);
    let next = "next=%2Fsystem%2Fcode-hosts%2Fgithub%2Fapp%3Fid%3Dhub&confirm=on&confirm-password=";
    let send = async |password: &str| {
        fixture.send(Some(Role::Administrator), Method::POST, "/confirm", &format!("{next}{password}")).await
    };
    let wrong = send("wrong").await;
    assert_eq!(wrong.status, StatusCode::FORBIDDEN, "{}", wrong.body);
    assert!(wrong.body.contains(&format!("name=\"next\" value=\"{path}\"")), "{}", wrong.body);
    let right = send("a+long+password").await;
    assert_eq!((right.status, right.header("location")), (StatusCode::SEE_OTHER, path));
    assert_eq!(fixture.follow(Role::Administrator, &right).await.status, StatusCode::OK);
    let away = "next=https://evil.example&confirm=on";
    let away = fixture.send(Some(Role::Administrator), Method::POST, "/confirm", away).await;
    assert_eq!(away.header("location"), "/");
}

#[tokio::test]
async fn attempts_to_confirm_are_throttled() {
    let fixture = with_old_sessions().await;
    let send = async |password: &str| {
        let form = format!("next=/keys&confirm=on&confirm-password={password}");
        fixture.send(Some(Role::Member), Method::POST, "/confirm", &form).await
    };
    for _ in 0..10 {
        assert!(send("wrong").await.body.contains("The current password is wrong."));
    }
    // Another attempt is allowed every ten seconds, which may have passed.
    let answer = until_async("attempts are refused", async || {
        let answer = send("a+long+password").await;
        (answer.status == StatusCode::FORBIDDEN).then_some(answer)
    })
    .await;
    assert!(answer.body.contains("Too many attempts. Try again in "), "{}", answer.body);
}

#[tokio::test]
async fn a_sign_in_is_a_proof_and_a_session_of_an_older_version_is_none() {
    let fixture = with_old_sessions().await;
    let signed_in = fixture.send(None, Method::POST, "/login", "name=Member&password=a+long+password").await;
    let found = fixture.store.session(TokenHash::of(signed_in.token())).await.unwrap().unwrap().0;
    assert_eq!(found.proven_at, Some(fixture.world.now()));
    assert!(found.is_fresh(fixture.world.now()));
    let older = journeyman_core::user::Session { proven_at: None, hash: TokenHash::of("older"), ..found };
    let password = fixture.store.user(older.user).await.unwrap().unwrap().password;
    fixture.store.start_session(older, password, audit_entry()).await.unwrap();
    let answer = send_as(&fixture, "older", Method::POST, "/account/password", "current=a&password=b").await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN, "{}", answer.body);
}

/// Sends a request with the session of a token, and other cookies after a semicolon.
pub(super) async fn send_as(fixture: &Fixture, token: &str, method: Method, path: &str, form: &str) -> Reply {
    fixture
        .send_with(method, path, form, |request| {
            let headers = request.headers_mut();
            headers.insert("sec-fetch-site", "same-origin".parse().unwrap());
            headers.insert("cookie", format!("journeyman={token}").parse().unwrap());
        })
        .await
}

/// Creates a fixture with a provider, at which the member has an account and no password here. The sessions are old.
async fn with_provider() -> (Fixture, Arc<FakeProvider>) {
    let provider = Arc::new(FakeProvider::default());
    let fixture = fixture_of(
        Arc::new(Fake::with(detail(PullState::Open))),
        |store, _| Arc::new(FakeHosts(store)),
        |services, _| services.provider = Some(provider.clone()),
    );
    let fixture = seeded(fixture).await;
    let ada = fixture.cases.new_user("ada", Role::Member, Some(identity("ada"))).unwrap();
    fixture.store.create_user(ada, audit_entry()).await.unwrap();
    (fixture, provider)
}

/// Signs in at the provider, and returns the token of the session.
async fn sign_in_at(fixture: &Fixture, provider: &FakeProvider, at: Option<Timestamp>) -> String {
    *provider.person.lock().unwrap() = Some(("ada".to_owned(), at));
    let reply = fixture.send(None, Method::GET, "/login/returned?code=c&state=s", "").await;
    assert_eq!(reply.status, StatusCode::SEE_OTHER, "{}", reply.body);
    reply.token().to_owned()
}

#[tokio::test]
async fn a_sign_in_at_the_provider_is_a_proof_of_the_time_at_which_the_provider_asked() {
    let (fixture, provider) = with_provider().await;
    let now = fixture.world.now();
    let old = Timestamp::from_micros(now.as_micros() - 3_600_000_000);
    for (at, is_fresh) in [(Some(now), true), (Some(old), false), (None, false)] {
        let token = sign_in_at(&fixture, &provider, at).await;
        let session = fixture.store.session(TokenHash::of(&token)).await.unwrap().unwrap().0;
        assert_eq!((session.proven_at, session.is_fresh(now)), (at, is_fresh));
    }
}

#[tokio::test]
async fn a_user_of_a_provider_confirms_by_signing_in_there_again() {
    let (fixture, provider) = with_provider().await;
    let token = sign_in_at(&fixture, &provider, None).await;
    let form = "name=ci&days=30&project=shop";
    let asked = send_as(&fixture, &token, Method::POST, "/keys", form).await;
    assert_eq!(asked.status, StatusCode::FORBIDDEN, "{}", asked.body);
    assert!(asked.body.contains("href=\"/confirm/provider?next=\" data-turbo=\"false\" target=\"_blank\""));
    assert!(!asked.body.contains("type=\"password\""), "the user has none: {}", asked.body);
    let again = send_as(&fixture, &token, Method::POST, "/keys", &format!("{form}&confirm=on")).await;
    assert!(again.body.contains("You have not confirmed yet that it is you."), "{}", again.body);

    let begun = send_as(&fixture, &token, Method::GET, "/confirm/provider?next=", "").await;
    assert_eq!(
        (begun.status, begun.header("location")),
        (StatusCode::SEE_OTHER, "https://id.example/authorize?max_age=0")
    );
    let cookies = format!("{token}; {}", begun.cookies().join("; "));
    let back = async || send_as(&fixture, &cookies, Method::GET, "/login/returned?code=c&state=s", "").await;
    let now = fixture.world.now();
    let old = Timestamp::from_micros(now.as_micros() - 3_600_000_000);
    for (person, text) in [
        (None, "Access was denied"),
        (Some(("ada", None)), "does not say when it has asked you to sign in"),
        (Some(("ada", Some(old))), "has not asked you to sign in again"),
        (Some(("bob", Some(now))), "with another account"),
    ] {
        *provider.person.lock().unwrap() = person.map(|(name, at): (&str, _)| (name.to_owned(), at));
        let refused = back().await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{text}: {}", refused.body);
        assert!(refused.body.contains(text), "{text}: {}", refused.body);
        assert_eq!(actions(&fixture, 1).await, ["session.unconfirmed"]);
        let asked = send_as(&fixture, &token, Method::POST, "/keys", form).await;
        assert_eq!(asked.status, StatusCode::FORBIDDEN, "{text}");
    }
    *provider.person.lock().unwrap() = Some(("ada".to_owned(), Some(now)));
    let confirmed = back().await;
    assert_eq!((confirmed.status, confirmed.header("location")), (StatusCode::SEE_OTHER, "/confirm/done"));
    assert_eq!(actions(&fixture, 1).await, ["session.confirmed"]);
    let made = send_as(&fixture, &token, Method::POST, "/keys", &format!("{form}&confirm=on")).await;
    assert_eq!(made.status, StatusCode::SEE_OTHER, "{}", made.body);
    assert_eq!(fixture.store.keys().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_proof_at_the_provider_is_for_the_session_that_began_it() {
    let (fixture, provider) = with_provider().await;
    let token = sign_in_at(&fixture, &provider, None).await;
    let begun = send_as(&fixture, &token, Method::GET, "/confirm/provider?next=/keys", "").await;
    *provider.person.lock().unwrap() = Some(("ada".to_owned(), Some(fixture.world.now())));
    for other in ["none".to_owned(), sign_in_at(&fixture, &provider, None).await] {
        *provider.person.lock().unwrap() = Some(("ada".to_owned(), Some(fixture.world.now())));
        let cookies = format!("{other}; {}", begun.cookies().join("; "));
        let refused = send_as(&fixture, &cookies, Method::GET, "/login/returned?code=c&state=s", "").await;
        assert_eq!((refused.status, refused.header("location")), (StatusCode::SEE_OTHER, "/login?next=%2Fkeys"));
    }
    let session = fixture.store.session(TokenHash::of(&token)).await.unwrap().unwrap().0;
    assert_eq!(session.proven_at, None);
    fixture.world.advance(Duration::from_secs(1));
    assert!(!session.is_fresh(fixture.world.now()));
}

#[tokio::test]
async fn a_user_without_a_password_and_a_provider_is_told_how_to_get_one() {
    let (fixture, provider) = with_provider().await;
    let token = sign_in_at(&fixture, &provider, None).await;
    drop(provider);
    let without = fixture_of(
        Arc::new(Fake::with(detail(PullState::Open))),
        |store, _| Arc::new(FakeHosts(store)),
        |services, _| services.store = fixture.store.clone(),
    );
    let asked = send_as(&without, &token, Method::POST, "/keys", "name=ci").await;
    assert_eq!(asked.status, StatusCode::FORBIDDEN, "{}", asked.body);
    assert!(asked.body.contains("An administrator can give you a link to set a password."), "{}", asked.body);
    let begun = send_as(&without, &token, Method::GET, "/confirm/provider?next=", "").await;
    assert_eq!(begun.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn the_routes_that_need_a_proof_exist() {
    let fixture = fixture(Arc::new(Fake::with(detail(PullState::Open)))).await;
    let all = super::routes::routes(&fixture).await;
    let needed: Vec<&String> = all
        .iter()
        .filter(|route| {
            let (method, path) = route.split_once(' ').unwrap();
            is_needed(&method.parse().unwrap(), path)
        })
        .collect();
    assert_eq!(needed.len(), crate::fresh::ROUTES.len(), "{needed:?}");
    // Whatever changes users, keys, trusts or connections needs one, except what only takes something away from a key.
    let kinds = ["/users", "/keys", "/system/trusts", "/system/slack", "/system/code-hosts"];
    let harmless = ["/revoke", "/check", "/channels"];
    for route in all.iter().filter(|route| route.starts_with("POST ")) {
        let path = route.trim_start_matches("POST ");
        if kinds.iter().any(|kind| path.starts_with(kind)) && !harmless.iter().any(|end| path.ends_with(end)) {
            assert!(needed.contains(&route), "{route}");
        }
    }
}
