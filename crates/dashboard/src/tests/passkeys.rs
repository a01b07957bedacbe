//! Tests of passkeys: adding, sign-in with and without a password, proofs, the list, removal, and what is refused.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use journeyman_core::code_host::PullState;
use journeyman_core::ports::{KeyStore, UserStore};
use journeyman_core::time::{Clock, Timestamp};
use journeyman_core::user::passkey::{CHALLENGE_LIFETIME, MAX_PASSKEYS, Passkey};
use journeyman_core::user::second_factor::RequiredOf;
use journeyman_core::user::{PROOF_LIFETIME, Role, TokenHash, User};
use journeyman_testkit::{FakeHosts, Seeds as _};

use super::pulls::{Fake, detail};
use super::{Fixture, Reply, fixture, fixture_of, seeded, token};
use crate::passkeys::tests::Device;
use crate::words;

const PAGE: &str = "/account/passkeys";
const RIGHT: &str = "name=Member&password=a+long+password&next=/keys";

async fn new_fixture() -> Fixture {
    fixture(Arc::new(Fake::with(detail(PullState::Open)))).await
}

async fn fixture_at(public_url: &str, second_factor: RequiredOf) -> Fixture {
    let fixture = fixture_of(
        Arc::new(Fake::with(detail(PullState::Open))),
        |store, _| Arc::new(FakeHosts(store)),
        |_, settings| {
            settings.public_url = public_url.to_owned();
            settings.second_factor = second_factor;
        },
    );
    seeded(fixture).await
}

async fn user(fixture: &Fixture, role: Role) -> User {
    fixture.store.user_by_name(role.name().to_owned()).await.unwrap().unwrap()
}

async fn passkeys(fixture: &Fixture) -> Vec<Passkey> {
    user(fixture, Role::Member).await.passkeys.list
}

async fn actions(fixture: &Fixture, count: usize) -> Vec<String> {
    let entries = fixture.store.audit(None, count).await.unwrap();
    entries.into_iter().map(|entry| entry.entry.action).collect()
}

/// Returns the text between two texts.
fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    text.split_once(before).and_then(|(_, rest)| rest.split_once(after)).unwrap_or_else(|| panic!("{before}: {text}")).0
}

/// Returns the options and the encrypted challenge of a page.
fn asked(page: &Reply) -> (String, String) {
    let options = between(&page.body, "data-options=\"", "\"").replace("&#34;", "\"");
    let before = page.body.split("challenge\" value=\"").nth(1).unwrap_or_else(|| panic!("{}", page.body));
    (options, before.split('"').next().unwrap().to_owned())
}

/// Returns the fields of a form with an answer.
fn fields(prefix: &str, answer: &str, sealed: &str) -> String {
    format!("{prefix}passkey={}&{prefix}challenge={sealed}", words::in_query(answer))
}

/// Adds a passkey of a role's user.
async fn add(fixture: &Fixture, role: Role, device: &mut Device, name: &str) -> Reply {
    let page = fixture.send(Some(role), Method::GET, PAGE, "").await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.body);
    let (options, sealed) = asked(&page);
    let form = format!("{}&name={name}", fields("", &device.create(&options), &sealed));
    fixture.send(Some(role), Method::POST, PAGE, &form).await
}

/// Creates a fixture whose member has a passkey, and its device.
async fn with_passkey() -> (Fixture, Device) {
    let (fixture, mut device) = (new_fixture().await, Device::new());
    let added = add(&fixture, Role::Member, &mut device, "Phone").await;
    assert_eq!((added.status, added.header("location")), (StatusCode::SEE_OTHER, "/account?done=passkey_added"));
    (fixture, device)
}

/// Sends a request with one cookie.
async fn with_cookie(fixture: &Fixture, cookie: &str, method: Method, path: &str, form: &str) -> Reply {
    fixture
        .send_with(method, path, form, |request| {
            request.headers_mut().insert("sec-fetch-site", "same-origin".parse().unwrap());
            request.headers_mut().insert("cookie", cookie.parse().unwrap());
        })
        .await
}

/// Enters the right password of the member; returns the cookie of the sign-in.
async fn begun(fixture: &Fixture) -> String {
    let reply = fixture.send(None, Method::POST, "/login", RIGHT).await;
    assert_eq!((reply.status, reply.header("location")), (StatusCode::SEE_OTHER, "/login/code"), "{}", reply.body);
    reply.cookies()[0].clone()
}

/// Signs in with a passkey alone. `change` changes the form.
async fn sign_in(fixture: &Fixture, device: &Device, change: impl Fn(String) -> String) -> Reply {
    let (options, sealed) = asked(&fixture.send(None, Method::GET, "/login/passkey?next=/keys", "").await);
    let form = format!("next=/keys&{}", fields("", &device.get(&options), &sealed));
    fixture.send(None, Method::POST, "/login/passkey", &change(form)).await
}

fn assert_refused(reply: &Reply, text: &str) {
    assert_eq!(reply.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", reply.body);
    assert!(reply.body.contains(text), "{text}: {}", reply.body);
    assert!(!reply.headers.contains_key("set-cookie"));
}

#[tokio::test]
async fn a_passkey_is_added_and_ends_the_sessions_that_began_without_one() {
    let fixture = new_fixture().await;
    let other = fixture.send(None, Method::POST, "/login", RIGHT).await.token().to_owned();
    let mut device = Device::new();
    let added = add(&fixture, Role::Member, &mut device, "My+phone").await;
    assert_eq!((added.status, added.header("location")), (StatusCode::SEE_OTHER, "/account?done=passkey_added"));
    assert_eq!(actions(&fixture, 1).await, ["user.passkey.added"]);
    assert!(fixture.store.session(TokenHash::of(&other)).await.unwrap().is_none(), "the other sessions have ended");
    let account = fixture.send(Some(Role::Member), Method::GET, "/account", "").await;
    assert!(account.body.contains("<bdi>My phone</bdi>") && account.body.contains("never used"), "{}", account.body);
    assert!(account.body.contains("This is your only second factor."), "{}", account.body);

    let page = fixture.send(Some(Role::Member), Method::GET, PAGE, "").await;
    let options: serde_json::Value = serde_json::from_str(&asked(&page).0).unwrap();
    assert_eq!(options["excludeCredentials"][0]["id"], passkeys(&fixture).await[0].credential);
    assert_eq!(options["rp"]["id"], "localhost");
    assert_eq!(options["attestation"], "none");
    assert_eq!(options["authenticatorSelection"]["userVerification"], "required");
    assert_refused(&add(&fixture, Role::Member, &mut device, "Again").await, "This passkey was added before.");
}

#[tokio::test]
async fn an_answer_that_is_not_one_to_the_challenge_adds_nothing() {
    let fixture = new_fixture().await;
    let mut device = Device::new();
    let (options, sealed) = asked(&fixture.send(Some(Role::Member), Method::GET, PAGE, "").await);
    let answer = device.create(&options);
    let send = async |role, answer: &str, sealed: &str| {
        let form = fields("", answer, sealed);
        fixture.send(Some(role), Method::POST, PAGE, &form).await
    };
    let too_long = "The page was open for too long";
    assert_refused(&send(Role::Administrator, &answer, &sealed).await, too_long);
    assert_refused(&send(Role::Member, &answer, "00").await, too_long);
    let other = asked(&fixture.send(Some(Role::Member), Method::GET, PAGE, "").await).1;
    assert_refused(&send(Role::Member, &answer, &other).await, "The passkey answered another page");
    let sign_in = asked(&fixture.send(None, Method::GET, "/login/passkey", "").await).1;
    assert_refused(&send(Role::Member, &answer, &sign_in).await, too_long);
    assert_refused(&send(Role::Member, "", &sealed).await, "The browser&#39;s answer could not be read");
    fixture.world.advance(CHALLENGE_LIFETIME);
    assert_refused(&send(Role::Member, &answer, &sealed).await, too_long);
    assert_eq!(passkeys(&fixture).await, []);
}

#[tokio::test]
async fn a_passkey_is_a_second_factor_after_the_password() {
    let (fixture, device) = with_passkey().await;
    let cookie = begun(&fixture).await;
    let page = with_cookie(&fixture, &cookie, Method::GET, "/login/code", "").await;
    assert!(page.body.contains("<h1>Use your passkey</h1>") && !page.body.contains("name=\"code\""), "{}", page.body);
    let (options, sealed) = asked(&page);
    assert!(options.contains(&passkeys(&fixture).await[0].credential), "{options}");
    let form = fields("", &device.get(&options), &sealed);
    // The challenge of one sign-in is not accepted by another one.
    fixture.world.advance(std::time::Duration::from_secs(1));
    let another = begun(&fixture).await;
    let refused = with_cookie(&fixture, &another, Method::POST, "/login/code", &form).await;
    assert_refused(&refused, "The page was open for too long");
    assert_eq!(actions(&fixture, 1).await, ["session.passkey_refused"]);
    let code = with_cookie(&fixture, &cookie, Method::POST, "/login/code", "code=123456").await;
    assert_eq!(code.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", code.body);

    let signed_in = with_cookie(&fixture, &cookie, Method::POST, "/login/code", &form).await;
    assert_eq!((signed_in.status, signed_in.header("location")), (StatusCode::SEE_OTHER, "/keys"));
    let session = fixture.store.session(TokenHash::of(signed_in.token())).await.unwrap().unwrap().0;
    assert!(session.is_fresh(fixture.world.now()));
    // The database stores the time in milliseconds.
    let used_at = fixture.world.now().as_micros() / 1000 * 1000;
    assert_eq!(passkeys(&fixture).await[0].used_at, Some(Timestamp::from_micros(used_at)));
    assert_eq!(actions(&fixture, 1).await, ["session.started"]);
    let again = with_cookie(&fixture, &cookie, Method::POST, "/login/code", &form).await;
    assert_refused(&again, "This answer was used before");
    assert_eq!(actions(&fixture, 1).await, ["session.passkey_refused"]);
}

#[tokio::test]
async fn a_passkey_alone_signs_in() {
    let (fixture, device) = with_passkey().await;
    let page = fixture.send(None, Method::GET, "/login?next=/keys", "").await;
    assert!(page.body.contains("href=\"/login/passkey?next=%2Fkeys\""), "{}", page.body);
    let signed_in = sign_in(&fixture, &device, |form| form).await;
    assert_eq!(
        (signed_in.status, signed_in.header("location")),
        (StatusCode::SEE_OTHER, "/keys"),
        "{}",
        signed_in.body
    );
    let (session, found) = fixture.store.session(TokenHash::of(signed_in.token())).await.unwrap().unwrap();
    assert!(session.is_fresh(fixture.world.now()) && found.name == "member");
    let open = with_cookie(&fixture, &signed_in.cookies()[0], Method::GET, "/login/passkey?next=/keys", "").await;
    assert_eq!((open.status, open.header("location")), (StatusCode::SEE_OTHER, "/keys"));
}

#[tokio::test]
async fn a_sign_in_with_a_passkey_that_is_not_valid_is_refused_and_audited() {
    let (fixture, mut device) = with_passkey().await;
    let refused = async |device: &Device, text: &str, action: &str| {
        assert_refused(&sign_in(&fixture, device, |form| form).await, text);
        assert_eq!(actions(&fixture, 1).await, [action], "{text}");
    };
    let audited = "session.passkey_refused";
    let (handle, site) = (device.user_handle.clone(), device.site.clone());
    device.flags = 1;
    refused(&device, "The device did not check that it is you", audited).await;
    device.flags = 5;
    device.other_origin = Some("https://evil.example".to_owned());
    refused(&device, "The passkey was used on another site", audited).await;
    device.site.id = "evil.example".to_owned();
    device.other_origin = Some(site.origin.clone());
    refused(&device, "The passkey was used on another site", audited).await;
    (device.site, device.other_origin) = (site, None);
    device.credential = b"other".to_vec();
    refused(&device, "This passkey is not one of this user", audited).await;
    device.credential = b"credential".to_vec();
    let mut other_key = Device::new();
    other_key.user_handle = handle.clone();
    refused(&other_key, "The signature of the passkey is wrong.", audited).await;
    // The passkey of the member, and the name of the administrator.
    let admin = user(&fixture, Role::Administrator).await.id;
    device.user_handle = Some(crate::passkeys::user_handle(admin));
    refused(&device, "This passkey is not one of this user", audited).await;
    for unknown in [None, Some("AAAA".to_owned()), Some("?".to_owned())] {
        device.user_handle = unknown;
        refused(&device, "This passkey is not one of this user", "session.refused").await;
    }
    device.user_handle = handle;
    device.counter = 5;
    assert_eq!(sign_in(&fixture, &device, |form| form).await.status, StatusCode::SEE_OTHER);
    device.counter = 4;
    refused(&device, "counter went back", audited).await;
    let stale = sign_in(&fixture, &device, |form| form.replace("challenge=", "challenge=00")).await;
    assert_refused(&stale, "The page was open for too long");
}

#[tokio::test]
async fn an_answer_is_accepted_once_and_for_five_minutes() {
    let (fixture, device) = with_passkey().await;
    let (options, sealed) = asked(&fixture.send(None, Method::GET, "/login/passkey", "").await);
    let form = fields("", &device.get(&options), &sealed);
    let send = async || fixture.send(None, Method::POST, "/login/passkey", &form).await;
    assert_eq!(send().await.status, StatusCode::SEE_OTHER);
    assert_refused(&send().await, "This answer was used before");
    fixture.world.advance(CHALLENGE_LIFETIME);
    assert_refused(&send().await, "The page was open for too long");
}

#[tokio::test]
async fn disabled_users_and_too_many_attempts_are_refused() {
    let (fixture, device) = with_passkey().await;
    let mut status = StatusCode::OK;
    for _ in 0..100 {
        let wrong = sign_in(&fixture, &device, |form| form.replace("challenge=", "challenge=00")).await;
        status = wrong.status;
        if status != StatusCode::UNPROCESSABLE_ENTITY {
            break;
        }
    }
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    let (fixture, device) = with_passkey().await;
    let id = user(&fixture, Role::Member).await.id;
    fixture.store.set_disabled(id, true, super::audit_entry()).await.unwrap();
    assert_refused(&sign_in(&fixture, &device, |form| form).await, "This passkey is not one of this user");
}

#[tokio::test]
async fn a_passkey_confirms_who_the_viewer_is_and_keeps_the_form() {
    let (fixture, device) = with_passkey().await;
    fixture.world.advance(PROOF_LIFETIME);
    let page = fixture.send(Some(Role::Member), Method::POST, "/keys", "name=mine&scopes=read&project=shop").await;
    assert_eq!(page.status, StatusCode::FORBIDDEN, "{}", page.body);
    assert!(!page.body.contains("type=\"password\""), "the password alone is no proof: {}", page.body);
    let (options, sealed) = asked(&page);
    let kept = "name=mine&scopes=read&project=shop&confirm=on";
    let alone = format!("{kept}&confirm-password=a+long+password");
    let refused = fixture.send(Some(Role::Member), Method::POST, "/keys", &alone).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN, "{}", refused.body);
    let mut other = Device::new();
    other.user_handle = device.user_handle.clone();
    let wrong = format!("{kept}&{}", fields("confirm-", &other.get(&options), &sealed));
    let refused = fixture.send(Some(Role::Member), Method::POST, "/keys", &wrong).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN, "{}", refused.body);
    assert!(refused.body.contains("The signature of the passkey is wrong."), "{}", refused.body);
    assert_eq!(actions(&fixture, 1).await, ["session.passkey_refused"]);

    let right = format!("{kept}&{}", fields("confirm-", &device.get(&options), &sealed));
    let made = fixture.send(Some(Role::Member), Method::POST, "/keys", &right).await;
    assert_eq!(made.status, StatusCode::SEE_OTHER, "{}", made.body);
    assert!(actions(&fixture, 2).await.contains(&"session.confirmed".to_owned()));
    let page = fixture.follow(Role::Member, &made).await;
    assert!(page.body.contains("mine"), "{}", page.body);
}

#[tokio::test]
async fn passkeys_are_renamed_and_removed() {
    let (fixture, device) = with_passkey().await;
    let id = passkeys(&fixture).await[0].id();
    let form = "name=Work+laptop";
    let renamed = fixture.send(Some(Role::Member), Method::POST, &format!("{PAGE}/{id}/rename"), form).await;
    assert_eq!(renamed.header("location"), "/account?done=passkey_renamed");
    assert_eq!(passkeys(&fixture).await[0].name, "Work laptop");
    assert_eq!(actions(&fixture, 1).await, ["user.passkey.renamed"]);
    for action in ["rename", "remove"] {
        let path = format!("{PAGE}/{id}/{action}");
        let other = fixture.send(Some(Role::Administrator), Method::POST, &path, "name=x").await;
        assert_refused(&other, "There is no such passkey any more.");
    }
    let long = format!("name={}", "x".repeat(101));
    let refused = fixture.send(Some(Role::Member), Method::POST, &format!("{PAGE}/{id}/rename"), &long).await;
    assert_refused(&refused, "The name of a passkey has at most 100 characters.");
    assert_eq!(passkeys(&fixture).await[0].name, "Work laptop");
    let removed = fixture.send(Some(Role::Member), Method::POST, &format!("{PAGE}/{id}/remove"), "").await;
    assert_eq!(removed.header("location"), "/account?done=passkey_removed");
    assert_eq!(actions(&fixture, 1).await, ["user.passkey.removed"]);
    assert_refused(&sign_in(&fixture, &device, |form| form).await, "This passkey is not one of this user");
    let reply = fixture.send(None, Method::POST, "/login", RIGHT).await;
    assert_eq!(reply.header("location"), "/keys", "the password is enough again");
}

#[tokio::test]
async fn an_administrator_removes_the_passkeys_of_a_user() {
    let (fixture, device) = with_passkey().await;
    let users = fixture.send(Some(Role::Administrator), Method::GET, "/users", "").await;
    assert!(users.body.contains("<span class=\"chip\">second factor</span>"), "{}", users.body);
    let path = format!("/users/{}/second-factor/remove", user(&fixture, Role::Member).await.id);
    let removed = fixture.send(Some(Role::Administrator), Method::POST, &path, "").await;
    assert_eq!(removed.header("location"), "/users?done=user_second_factor_removed");
    assert_eq!(
        (passkeys(&fixture).await, actions(&fixture, 1).await),
        (vec![], vec!["user.second_factor.removed".into()])
    );
    assert_refused(&sign_in(&fixture, &device, |form| form).await, "This passkey is not one of this user");
}

#[tokio::test]
async fn there_is_a_limit_of_passkeys() {
    let fixture = new_fixture().await;
    for number in 0..MAX_PASSKEYS {
        let mut user = user(&fixture, Role::Member).await;
        let name = format!("{number}");
        let (credential, key, at) = (name.clone(), String::new(), fixture.world.now());
        user.passkeys.list.push(Passkey { credential, key, counter: 0, name, created_at: at, used_at: None });
        let challenge = journeyman_core::user::passkey::Challenge {
            hash: TokenHash([u8::try_from(number).unwrap(); 32]),
            until: at + CHALLENGE_LIFETIME,
        };
        let (id, passkey) = (user.id, user.passkeys.list.pop().unwrap());
        let caller = journeyman_app::Caller::user(Arc::new(user), None);
        fixture.cases.add_passkey(&caller, id, passkey, challenge, TokenHash::of(&token(Role::Member))).await.unwrap();
    }
    let refused = add(&fixture, Role::Member, &mut Device::new(), "One+more").await;
    assert_refused(&refused, "There are 20 passkeys already");
}

#[tokio::test]
async fn without_https_passkeys_are_not_offered_and_the_page_says_why() {
    let fixture = fixture_at("http://jobs.example.com", RequiredOf::Nobody).await;
    let reason = "Passkeys need https, and the public URL of this server has http.";
    let account = fixture.send(Some(Role::Member), Method::GET, "/account", "").await;
    assert!(account.body.contains(reason) && !account.body.contains("Add a passkey"), "{}", account.body);
    assert_refused(&fixture.send(Some(Role::Member), Method::GET, PAGE, "").await, reason);
    assert_refused(&fixture.send(Some(Role::Member), Method::POST, PAGE, "passkey=x").await, reason);
    let login = fixture.send(None, Method::GET, "/login", "").await;
    assert!(!login.body.contains("passkey"), "{}", login.body);
    assert_refused(&fixture.send(None, Method::GET, "/login/passkey", "").await, reason);
    assert_refused(&fixture.send(None, Method::POST, "/login/passkey", "").await, reason);
}

#[tokio::test]
async fn a_passkey_satisfies_the_rule_that_requires_a_second_factor() {
    let fixture = fixture_at("http://localhost:8080", RequiredOf::Everyone).await;
    let led = fixture.send(Some(Role::Member), Method::GET, "/keys", "").await;
    assert_eq!(led.header("location"), "/account/second-factor");
    let page = fixture.send(Some(Role::Member), Method::GET, "/account/second-factor", "").await;
    assert!(page.body.contains("href=\"/account/passkeys\""), "{}", page.body);
    let mut device = Device::new();
    assert_eq!(add(&fixture, Role::Member, &mut device, "Phone").await.status, StatusCode::SEE_OTHER);
    assert_eq!(fixture.send(Some(Role::Member), Method::GET, "/keys", "").await.status, StatusCode::OK);
}
