//! Tests of second factors: set-up, sign-in with a code, recovery codes, removal, and the rule that requires one.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use journeyman_app::Caller;
use journeyman_core::code_host::PullState;
use journeyman_core::ports::{KeyStore, Seal as _, UserStore};
use journeyman_core::time::Clock;
use journeyman_core::user::second_factor::{
    MAX_FAILURES, PAUSE, PENDING_LIFETIME, RequiredOf, SecondFactor, TotpSecret, step,
};
use journeyman_core::user::{PROOF_LIFETIME, PasswordHash, Role, SignInLink, TokenHash, User};
use journeyman_store::{MasterKey, Sealer};
use journeyman_testkit::{FakeHosts, Seeds as _, until_async};

use super::fresh::{FakeProvider, identity, send_as};
use super::pulls::{Fake, detail};
use super::{Fixture, Reply, audit_entry, fixture, fixture_of, seeded, token};

const SECRET: &str = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ";
const PAGE: &str = "/account/second-factor";
const RIGHT: &str = "name=Member&password=a+long+password&next=/keys";

fn code(fixture: &Fixture) -> String {
    TotpSecret::parse(SECRET).unwrap().code(step(fixture.world.now()))
}

async fn user(fixture: &Fixture, role: Role) -> User {
    fixture.store.user_by_name(role.name().to_owned()).await.unwrap().unwrap()
}

/// Gives the user of a role a second factor with two recovery codes, after a number of wrong codes.
async fn protect(fixture: &Fixture, role: Role, failures: u32) {
    let user = user(fixture, role).await;
    let sealer = Sealer::new(MasterKey::new([7; 32]), fixture.world.clone());
    let now = fixture.world.now();
    let factor = SecondFactor {
        secret: sealer.seal(&format!("second_factor/{}", user.id), SECRET).unwrap(),
        since: now,
        last_step: 0,
        recovery: ["aaaabbbbccccdddd", "eeeeffffgggghhhh"].map(TokenHash::of).into(),
        failures,
        failed_at: (failures > 0).then_some(now),
    };
    let (id, caller) = (user.id, Caller::user(Arc::new(user), None));
    fixture.cases.add_second_factor(&caller, id, factor, TokenHash::of(&token(role))).await.unwrap();
}

async fn new_fixture() -> Fixture {
    fixture(Arc::new(Fake::with(detail(PullState::Open)))).await
}

/// Creates a fixture whose member has a second factor.
async fn protected() -> Fixture {
    let fixture = new_fixture().await;
    protect(&fixture, Role::Member, 0).await;
    fixture
}

/// Enters the right password of the member; returns the cookie of the sign-in.
async fn begun(fixture: &Fixture) -> String {
    let reply = fixture.send(None, Method::POST, "/login", RIGHT).await;
    assert_eq!((reply.status, reply.header("location")), (StatusCode::SEE_OTHER, "/login/code"), "{}", reply.body);
    let cookies = reply.cookies();
    assert!(cookies.len() == 1 && cookies[0].starts_with("journeyman-code="), "{cookies:?}");
    cookies[0].clone()
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

async fn enter(fixture: &Fixture, cookie: &str, code: &str) -> Reply {
    with_cookie(fixture, cookie, Method::POST, "/login/code", &format!("code={code}")).await
}

async fn actions(fixture: &Fixture, count: usize) -> Vec<String> {
    let entries = fixture.store.audit(None, count).await.unwrap();
    entries.into_iter().map(|entry| entry.entry.action).collect()
}

/// Returns the text between two texts.
fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    text.split_once(before).and_then(|(_, rest)| rest.split_once(after)).unwrap_or_else(|| panic!("{before}: {text}")).0
}

#[tokio::test]
async fn a_second_factor_is_set_up_with_a_code_and_gives_recovery_codes() {
    let fixture = new_fixture().await;
    let other = fixture.send(None, Method::POST, "/login", RIGHT).await.token().to_owned();
    let page = fixture.send(Some(Role::Member), Method::GET, PAGE, "").await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.body);
    assert!(page.body.contains("<svg role=\"img\"") && !page.body.contains("<script>"), "{}", page.body);
    let key = between(&page.body, "<code id=\"key\">", "</code>").replace(' ', "");
    let secret = TotpSecret::parse(&key).unwrap();
    assert!(page.body.contains(&format!("otpauth://totp/Journeyman%20localhost:member?secret={key}")), "{}", page.body);
    let sealed = between(&page.body, "name=\"secret\" value=\"", "\"").to_owned();
    let send = async |code: String| {
        fixture.send(Some(Role::Member), Method::POST, PAGE, &format!("secret={sealed}&code={code}")).await
    };
    let wrong = send(secret.code(1)).await;
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", wrong.body);
    assert!(wrong.body.contains("The code is wrong."), "{}", wrong.body);
    assert_eq!(between(&wrong.body, "<code id=\"key\">", "</code>").replace(' ', ""), key, "the same key");
    assert_eq!(user(&fixture, Role::Member).await.second_factor, None);

    let right = secret.code(step(fixture.world.now()));
    let made = send(right.clone()).await;
    let page = fixture.follow(Role::Member, &made).await;
    let codes = (1..=10).map(|at| between(&page.body, &format!("<code id=\"code-{at}\">"), "</code>").to_owned());
    let codes: Vec<String> = codes.collect();
    let factor = user(&fixture, Role::Member).await.second_factor.unwrap();
    let hashes = codes.iter().map(|code| TokenHash::of(&code.replace('-', ""))).collect::<Vec<_>>();
    assert_eq!(factor.recovery, hashes, "only hashes are stored");
    assert!(!format!("{:?}", serde_json::to_string(&factor)).contains(&key), "the key is stored encrypted");
    assert_eq!(actions(&fixture, 1).await, ["user.second_factor.added"]);
    assert!(fixture.store.session(TokenHash::of(&other)).await.unwrap().is_none(), "the other sessions have ended");
    let account = fixture.send(Some(Role::Member), Method::GET, "/account", "").await;
    assert!(account.body.contains("You have 10 recovery codes left."), "{}", account.body);
    let again = fixture.send(Some(Role::Member), Method::GET, PAGE, "").await;
    assert_eq!((again.status, again.header("location")), (StatusCode::SEE_OTHER, "/account"));
    let again = send(right.clone()).await;
    assert_eq!(again.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(again.body.contains("This user has a second factor already"), "{}", again.body);
    let used = enter(&fixture, &begun(&fixture).await, &right).await;
    assert!(used.body.contains("This code was used before"), "the code of the set-up is used: {}", used.body);
}

#[tokio::test]
async fn a_set_up_page_that_was_open_for_too_long_shows_a_new_key() {
    let fixture = new_fixture().await;
    let page = fixture.send(Some(Role::Member), Method::GET, PAGE, "").await;
    let key = between(&page.body, "<code id=\"key\">", "</code>").replace(' ', "");
    let sealed = between(&page.body, "name=\"secret\" value=\"", "\"").to_owned();
    fixture.world.advance(Duration::from_mins(30));
    // The user has confirmed who they are meanwhile.
    let form = "next=/account&confirm=on&confirm-password=a+long+password";
    assert_eq!(fixture.send(Some(Role::Member), Method::POST, "/confirm", form).await.status, StatusCode::SEE_OTHER);
    let right = TotpSecret::parse(&key).unwrap().code(step(fixture.world.now()));
    for (sealed, role) in [(sealed.as_str(), Role::Member), ("00", Role::Member), ("", Role::Member)] {
        let form = format!("secret={sealed}&code={right}");
        let refused = fixture.send(Some(role), Method::POST, PAGE, &form).await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", refused.body);
        assert!(refused.body.contains("this is a new secret"), "{}", refused.body);
        assert_ne!(between(&refused.body, "<code id=\"key\">", "</code>").replace(' ', ""), key);
    }
    assert_eq!(user(&fixture, Role::Member).await.second_factor, None);
}

#[tokio::test]
async fn a_password_alone_is_no_sign_in() {
    let fixture = protected().await;
    let before = fixture.store.sessions(user(&fixture, Role::Member).await.id).await.unwrap().len();
    let cookie = begun(&fixture).await;
    let value = cookie.strip_prefix("journeyman-code=").unwrap();
    for cookies in [cookie.clone(), format!("{cookie}; journeyman={value}"), format!("journeyman-code={value}0")] {
        let page = with_cookie(&fixture, &cookies, Method::GET, "/account", "").await;
        assert_eq!((page.status, page.header("location")), (StatusCode::SEE_OTHER, "/login?next=%2Faccount"));
    }
    assert_eq!(fixture.store.sessions(user(&fixture, Role::Member).await.id).await.unwrap().len(), before);
    let page = with_cookie(&fixture, &cookie, Method::GET, "/login/code", "").await;
    assert!(page.status == StatusCode::OK && page.body.contains("<h1>Enter a code</h1>"), "{}", page.body);
    let other = fixture.send(None, Method::GET, "/login/code", "").await;
    assert_eq!((other.status, other.header("location")), (StatusCode::SEE_OTHER, "/login"));
}

#[tokio::test]
async fn a_code_completes_a_sign_in_once() {
    let fixture = protected().await;
    let (cookie, right) = (begun(&fixture).await, code(&fixture));
    let wrong = enter(&fixture, &cookie, if right == "000000" { "111111" } else { "000000" }).await;
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", wrong.body);
    assert!(wrong.body.contains("The code is wrong") && !wrong.headers.contains_key("set-cookie"), "{}", wrong.body);
    assert_eq!(actions(&fixture, 1).await, ["session.code_refused"]);
    let signed_in = enter(&fixture, &cookie, &right).await;
    assert_eq!((signed_in.status, signed_in.header("location")), (StatusCode::SEE_OTHER, "/keys"));
    assert_eq!(signed_in.cookies()[1], "journeyman-code=", "the cookie of the sign-in is deleted");
    let session = fixture.store.session(TokenHash::of(signed_in.token())).await.unwrap().unwrap().0;
    assert!(session.is_fresh(fixture.world.now()));
    assert_eq!(actions(&fixture, 1).await, ["session.started"]);
    assert_eq!(user(&fixture, Role::Member).await.second_factor.unwrap().failures, 0);

    let used = enter(&fixture, &cookie, &right).await;
    assert_eq!(used.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", used.body);
    assert!(used.body.contains("This code was used before; wait until your app shows the next one."), "{}", used.body);
    assert_eq!(actions(&fixture, 1).await, ["session.code_refused"]);
    fixture.world.advance(Duration::from_secs(60));
    let next = enter(&fixture, &cookie, &code(&fixture)).await;
    assert_eq!(next.status, StatusCode::SEE_OTHER, "the next code is accepted: {}", next.body);
}

#[tokio::test]
async fn a_sign_in_without_a_code_ends_after_five_minutes() {
    let fixture = protected().await;
    let cookie = begun(&fixture).await;
    fixture.world.advance(PENDING_LIFETIME);
    let page = with_cookie(&fixture, &cookie, Method::GET, "/login/code", "").await;
    assert_eq!((page.status, page.header("location")), (StatusCode::SEE_OTHER, "/login"));
    let over = enter(&fixture, &cookie, &code(&fixture)).await;
    assert_eq!(over.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(over.body.contains("it took longer than five minutes"), "{}", over.body);
    assert_eq!(over.cookies(), ["journeyman-code="]);
}

#[tokio::test]
async fn a_sign_in_ends_with_the_password_the_second_factor_and_the_user() {
    for case in ["password", "second factor", "user"] {
        let fixture = protected().await;
        let (cookie, right, user) = (begun(&fixture).await, code(&fixture), user(&fixture, Role::Member).await);
        match case {
            "password" => {
                let to = PasswordHash("another long one".to_owned());
                let keep = TokenHash::of(&token(Role::Member));
                let change = journeyman_core::decision::user::PasswordChange { from: user.password, to, keep };
                fixture.store.set_password(user.id, change, audit_entry()).await.unwrap();
            }
            "second factor" => {
                let removed = fixture.send(Some(Role::Member), Method::POST, &format!("{PAGE}/remove"), "").await;
                assert_eq!(removed.status, StatusCode::SEE_OTHER, "{}", removed.body);
            }
            _ => fixture.store.set_disabled(user.id, true, audit_entry()).await.unwrap(),
        }
        let over = enter(&fixture, &cookie, &right).await;
        assert_eq!(over.status, StatusCode::UNPROCESSABLE_ENTITY, "{case}");
        assert!(over.body.contains("This sign-in is over") && over.body.contains("<h1>Sign in</h1>"), "{}", over.body);
    }
}

#[tokio::test]
async fn attempts_with_codes_are_throttled_like_passwords() {
    let fixture = protected().await;
    let cookie = begun(&fixture).await;
    for number in 0..9 {
        let wrong = enter(&fixture, &cookie, "x").await;
        assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY, "{number}");
    }
    // Another attempt is allowed every ten seconds, which may have passed.
    let answer = until_async("attempts are refused", async || {
        let answer = enter(&fixture, &cookie, "x").await;
        (answer.status == StatusCode::TOO_MANY_REQUESTS && answer.body.contains("seconds.")).then_some(answer)
    })
    .await;
    assert!(answer.body.contains("Too many attempts. Try again in "), "{}", answer.body);
}

#[tokio::test]
async fn too_many_wrong_codes_pause_the_codes_of_the_user() {
    let fixture = new_fixture().await;
    protect(&fixture, Role::Member, MAX_FAILURES - 1).await;
    let cookie = begun(&fixture).await;
    assert_eq!(enter(&fixture, &cookie, "x").await.status, StatusCode::UNPROCESSABLE_ENTITY);
    for right in [code(&fixture), "aaaa-bbbb-cccc-dddd".to_owned()] {
        let refused = enter(&fixture, &cookie, &right).await;
        assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS, "{}", refused.body);
        assert!(refused.body.contains("There were too many wrong codes; try again in 15 minutes"), "{}", refused.body);
        assert_eq!(actions(&fixture, 1).await, ["session.code_refused"]);
    }
    fixture.world.advance(PAUSE);
    let signed_in = enter(&fixture, &begun(&fixture).await, &code(&fixture)).await;
    assert_eq!(signed_in.status, StatusCode::SEE_OTHER, "{}", signed_in.body);
}

#[tokio::test]
async fn a_recovery_code_works_once() {
    let fixture = protected().await;
    let cookie = begun(&fixture).await;
    let signed_in = enter(&fixture, &cookie, "AAAA-bbbb-cccc-dddd").await;
    assert_eq!(signed_in.status, StatusCode::SEE_OTHER, "{}", signed_in.body);
    assert_eq!(actions(&fixture, 2).await, ["session.started", "session.recovery_code"]);
    let account = send_as(&fixture, signed_in.token(), Method::GET, "/account", "").await;
    assert!(account.body.contains("You have 1 recovery code left."), "{}", account.body);
    let again = enter(&fixture, &cookie, "aaaa-bbbb-cccc-dddd").await;
    assert_eq!(again.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(again.body.contains("a recovery code that was used before"), "{}", again.body);

    let made = send_as(&fixture, signed_in.token(), Method::POST, &format!("{PAGE}/codes"), "").await;
    let cookies = format!("{}; {}", signed_in.token(), made.cookies().join("; "));
    let page = send_as(&fixture, &cookies, Method::GET, made.header("location"), "").await;
    let new = between(&page.body, "<code id=\"code-10\">", "</code>").to_owned();
    assert_eq!(actions(&fixture, 1).await, ["user.second_factor.codes"]);
    let old = enter(&fixture, &cookie, "eeee-ffff-gggg-hhhh").await;
    assert_eq!(old.status, StatusCode::UNPROCESSABLE_ENTITY, "the earlier codes no longer work");
    assert_eq!(enter(&fixture, &cookie, &new).await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn a_second_factor_that_another_session_has_removed_cannot_be_changed() {
    let fixture = protected().await;
    let remove = format!("{PAGE}/remove");
    let removed = fixture.send(Some(Role::Member), Method::POST, &remove, "").await;
    assert_eq!(removed.header("location"), "/account?done=second_factor_removed");
    assert_eq!(actions(&fixture, 1).await, ["user.second_factor.removed"]);
    for path in [remove, format!("{PAGE}/codes")] {
        let refused = fixture.send(Some(Role::Member), Method::POST, &path, "").await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{path}");
        assert!(refused.body.contains("This user has no second factor any more"), "{path}: {}", refused.body);
    }
    let signed_in = fixture.send(None, Method::POST, "/login", RIGHT).await;
    assert_eq!(signed_in.header("location"), "/keys", "the password is enough again");
}

#[tokio::test]
async fn a_proof_needs_a_code_too() {
    let fixture = protected().await;
    fixture.world.advance(PROOF_LIFETIME);
    let asked = fixture.send(Some(Role::Member), Method::POST, &format!("{PAGE}/remove"), "").await;
    assert_eq!(asked.status, StatusCode::FORBIDDEN, "the session is not fresh");
    assert!(asked.body.contains("name=\"confirm-code\""), "{}", asked.body);
    let send = async |password: &str, code: &str| {
        let form = format!("confirm=on&confirm-password={password}&confirm-code={code}");
        fixture.send(Some(Role::Member), Method::POST, &format!("{PAGE}/remove"), &form).await
    };
    let right = code(&fixture);
    for (password, code, text, action) in [
        ("wrong", right.as_str(), "The current password is wrong.", "session.unconfirmed"),
        ("a+long+password", "", "The code is wrong", "session.code_refused"),
        ("a+long+password", "x", "The code is wrong", "session.code_refused"),
    ] {
        let refused = send(password, code).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{text}");
        assert!(refused.body.contains(text) && !refused.body.contains(&right), "{text}: {}", refused.body);
        assert_eq!(actions(&fixture, 1).await, [action]);
    }
    assert_eq!(send("a+long+password", &right).await.status, StatusCode::SEE_OTHER);
    assert_eq!(actions(&fixture, 2).await, ["user.second_factor.removed", "session.confirmed"]);
}

#[tokio::test]
async fn a_link_replaces_the_password_and_not_the_second_factor() {
    let fixture = protected().await;
    let id = user(&fixture, Role::Member).await.id;
    let expires_at = fixture.world.now() + Duration::from_hours(1);
    let link = SignInLink { hash: TokenHash::of("link"), user: Some(id), expires_at };
    fixture.store.create_link(link, audit_entry()).await.unwrap();
    let set = fixture.send(None, Method::POST, "/setup", "link=link&password=another+long+one").await;
    assert_eq!((set.status, set.header("location")), (StatusCode::SEE_OTHER, "/login/code"), "{}", set.body);
    assert!(!set.cookies().iter().any(|cookie| cookie.starts_with("journeyman=")));
    let signed_in = enter(&fixture, &set.cookies()[0], &code(&fixture)).await;
    assert_eq!((signed_in.status, signed_in.header("location")), (StatusCode::SEE_OTHER, "/"));
}

#[tokio::test]
async fn an_administrator_removes_the_second_factor_of_another_user() {
    let fixture = protected().await;
    let member = user(&fixture, Role::Member).await;
    let path = format!("/users/{}/second-factor/remove", member.id);
    let users = fixture.send(Some(Role::Administrator), Method::GET, "/users", "").await;
    assert!(users.body.contains(&format!("action=\"{path}\"")), "{}", users.body);
    let refused = fixture.send(Some(Role::Member), Method::POST, &path, "").await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    let stale = fixture.send(Some(Role::Administrator), Method::POST, &path, "version=1").await;
    assert_eq!(stale.status, StatusCode::CONFLICT, "{}", stale.body);
    let form = format!("version={}", member.version);
    let removed = fixture.send(Some(Role::Administrator), Method::POST, &path, &form).await;
    let page = fixture.follow(Role::Administrator, &removed).await;
    assert!(page.body.contains("The second factor of the user is removed.") && !page.body.contains(&path));
    assert_eq!(user(&fixture, Role::Member).await.second_factor, None);
    let entry = fixture.store.audit(None, 1).await.unwrap().remove(0).entry;
    let administrator = user(&fixture, Role::Administrator).await.id.to_string();
    assert_eq!((entry.action.as_str(), entry.actor), ("user.second_factor.removed", administrator));
    let log = fixture.send(Some(Role::Administrator), Method::GET, "/audit", "").await;
    assert!(log.body.contains("removed the second factor of the user"), "{}", log.body);
}

#[tokio::test]
async fn a_secret_of_another_master_key_is_an_error_and_no_sign_in() {
    let fixture = protected().await;
    let member = user(&fixture, Role::Member).await;
    let caller = Caller::user(Arc::new(member.clone()), None);
    fixture.cases.remove_own_second_factor(&caller, member.id).await.unwrap();
    let factor = SecondFactor { secret: "00".to_owned(), ..member.second_factor.unwrap() };
    let keep = TokenHash::of(&token(Role::Member));
    fixture.cases.add_second_factor(&caller, member.id, factor, keep).await.unwrap();
    let failed = enter(&fixture, &begun(&fixture).await, &code(&fixture)).await;
    assert_eq!(failed.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(failed.body.contains("the server&#39;s log says why"), "{}", failed.body);
}

/// Creates a fixture that requires a second factor.
async fn requiring(rule: RequiredOf) -> Fixture {
    let pulls = Arc::new(Fake::with(detail(PullState::Open)));
    let provider = Arc::new(FakeProvider::default());
    *provider.person.lock().unwrap() = Some(("ada".to_owned(), None));
    let fixture = fixture_of(
        pulls,
        |store, _| Arc::new(FakeHosts(store)),
        |services, settings| {
            settings.second_factor = rule;
            services.provider = Some(provider);
        },
    );
    seeded(fixture).await
}

#[tokio::test]
async fn who_must_have_a_second_factor_can_do_nothing_else_before() {
    for (rule, concerned) in [
        (RequiredOf::Nobody, [false; 3]),
        (RequiredOf::Administrators, [true, false, false]),
        (RequiredOf::Everyone, [true; 3]),
    ] {
        let fixture = requiring(rule).await;
        for (role, concerned) in Role::ALL.into_iter().zip(concerned) {
            for (method, path) in [
                (Method::GET, "/jobs"),
                (Method::GET, "/account"),
                (Method::GET, "/home/live"),
                (Method::POST, "/account/letters"),
            ] {
                if !concerned && path == "/home/live" {
                    continue; // The stream does not end.
                }
                let answer = fixture.send(Some(role), method, path, "letters=on").await;
                let led = answer.headers.get("location").is_some_and(|target| target == PAGE);
                assert_eq!(led, concerned, "{rule:?} {path} {}", role.name());
            }
            if !concerned {
                continue;
            }
            let page = fixture.send(Some(role), Method::GET, PAGE, "").await;
            assert!(page.body.contains("This server requires a second factor of you."), "{}", page.body);
            protect(&fixture, role, 0).await;
            let open = fixture.send(Some(role), Method::GET, "/jobs", "").await;
            assert_eq!(open.status, StatusCode::OK, "{}", role.name());
        }
    }
}

#[tokio::test]
async fn a_user_who_must_have_a_second_factor_sets_it_up_with_an_old_session() {
    let fixture = requiring(RequiredOf::Everyone).await;
    fixture.world.advance(PROOF_LIFETIME);
    let asked = fixture.send(Some(Role::Viewer), Method::GET, PAGE, "").await;
    assert!(asked.body.contains("Confirm that it is you"), "{}", asked.body);
    let form = format!("next={PAGE}&confirm=on&confirm-password=a+long+password");
    let confirmed = fixture.send(Some(Role::Viewer), Method::POST, "/confirm", &form).await;
    assert_eq!((confirmed.status, confirmed.header("location")), (StatusCode::SEE_OTHER, PAGE));
    let page = fixture.follow(Role::Viewer, &confirmed).await;
    let key = between(&page.body, "<code id=\"key\">", "</code>").replace(' ', "");
    let sealed = between(&page.body, "name=\"secret\" value=\"", "\"").to_owned();
    let right = TotpSecret::parse(&key).unwrap().code(step(fixture.world.now()));
    let form = format!("secret={sealed}&code={right}");
    let made = fixture.send(Some(Role::Viewer), Method::POST, PAGE, &form).await;
    assert!(fixture.follow(Role::Viewer, &made).await.body.contains("Store these recovery codes now"));
    assert_eq!(fixture.send(Some(Role::Viewer), Method::GET, "/jobs", "").await.status, StatusCode::OK);
}

#[tokio::test]
async fn the_second_factor_of_a_sign_in_at_the_provider_is_the_providers_business() {
    let fixture = requiring(RequiredOf::Everyone).await;
    let ada = fixture.cases.new_user("ada", Role::Member, Some(identity("ada"))).unwrap();
    fixture.store.create_user(ada, audit_entry()).await.unwrap();
    let signed_in = fixture.send(None, Method::GET, "/login/returned?code=c&state=s", "").await;
    let jobs = send_as(&fixture, signed_in.token(), Method::GET, "/jobs", "").await;
    assert_eq!(jobs.status, StatusCode::OK, "a user without a password");
    let page = send_as(&fixture, signed_in.token(), Method::GET, "/account", "").await;
    assert!(!page.body.contains("Set up a second factor"), "{}", page.body);
    // The page needs a proof, which only a sign-in of which the provider tells the time gives.
    let ada = fixture.store.user_by_name("ada".to_owned()).await.unwrap().unwrap();
    let (caller, now) = (Caller::user(Arc::new(ada.clone()), None), fixture.world.now());
    let session = TokenHash::of(signed_in.token());
    fixture.cases.prove_session_by_provider(&caller, ada.id, session, identity("ada"), now).await.unwrap();
    let refused = send_as(&fixture, signed_in.token(), Method::GET, PAGE, "").await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(
        refused.body.contains("You sign in at the provider, which has its own second factors."),
        "{}",
        refused.body
    );
}
