//! Tests of dashboard users: the link for the first administrator, the command line, and a provider.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::Arc;

use journeyman_core::time::{Clock, Timestamp};
use journeyman_core::user::second_factor::{TotpSecret, step};
use journeyman_testkit::oidc::{CLIENT_ID, CLIENT_SECRET, Fault, Provider, ProviderAccount};

use super::fixtures::{client, site};

#[test]
fn the_first_start_prints_a_link_for_one_administrator() {
    let site = site();
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--log", "error"];
    let mut process = site.command(&arguments).stdout(Stdio::piped()).spawn().unwrap();
    let printed: Vec<String> =
        BufReader::new(process.stdout.take().unwrap()).lines().take(2).map(Result::unwrap).collect();
    process.kill().unwrap();
    process.wait().unwrap();
    assert!(printed[0].starts_with("This server has no administrator yet."), "{printed:?}");
    assert!(printed[1].contains("/setup?link="), "{printed:?}");

    let service = site.start();
    assert!(!service.log().contains("link="), "the link is in the log: {}", service.log());
    let cookie = service.use_link(&printed[1]);
    assert!(cookie.starts_with("journeyman="), "{cookie}");
    let users = site.succeed(&["user", "list"]);
    assert!(users.contains("ada") && users.contains("administrator"), "{users}");
    let again = site.run(&["user", "link"]);
    assert!(!again.status.success());
    let error = String::from_utf8(again.stderr).unwrap();
    assert!(error.contains("there is already an administrator; name the user who needs a link"), "{error}");
}

#[test]
fn the_audit_log_has_projects_of_the_command_line_and_their_restricted_addresses() {
    let site = site();
    site.succeed(&["project", "create", "cloud", "--repository", "http://2852039166/x.git"]);
    site.succeed(&["project", "update", "cloud", "--repository", "https://127.0.0.1/x.git"]);
    site.succeed(&["project", "delete", "cloud", "--yes"]);
    let service = site.start();
    let cookie = service.use_link(&site.succeed(&["user", "add", "ada@example.com", "--role", "administrator"]));
    let client = client();
    let page = client.get(format!("{}/audit", service.url)).header("cookie", cookie).send().unwrap().text().unwrap();
    for part in
        ["cloud (repository at 169.254.169.254, a cloud metadata service)", "project.changed", "project.deleted"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[test]
fn users_and_links_are_created_at_the_command_line() {
    let site = site();
    let service = site.start();
    let first = site.succeed(&["user", "add", "Bob@example.com", "--role", "viewer"]);
    let second = site.succeed(&["user", "link", "bob@example.com"]);
    service.use_link(&second);
    assert_ne!(first, second);
    let listed = site.succeed(&["user", "list"]);
    assert!(listed.lines().any(|line| line.starts_with("bob@example.com  viewer  password")), "{listed}");
    for (arguments, text) in [
        (vec!["user", "add", "bob@example.com"], "a user with this name already exists"),
        (vec!["user", "add", "b b"], "a name has 1 to 100"),
        (vec!["user", "remove-second-factor", "bob@example.com", "--yes"], "bob@example.com has no second factor"),
        (vec!["user", "link", "nobody"], "there is no user nobody; `journeyman user list` lists the users"),
    ] {
        let output = site.run(&arguments);
        assert!(!output.status.success(), "{arguments:?}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(text), "{arguments:?}: {error}");
    }
}

/// The clock of the machine, for the provider.
pub(super) struct Now;

#[expect(clippy::disallowed_methods, reason = "the provider needs the clock of the service, which is the machine's")]
impl Clock for Now {
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap())
    }
}

/// Requests a page as a browser does; returns the status, the target of the redirect, and the new cookies.
fn visit(client: &reqwest::blocking::Client, url: &str, cookies: &str) -> (u16, String, Vec<String>) {
    let answer = client.get(url).header("cookie", cookies).send().unwrap();
    let header = |name: &str| answer.headers().get_all(name).iter().map(|value| value.to_str().unwrap().to_owned());
    let set = header("set-cookie").map(|cookie| cookie.split(';').next().unwrap().to_owned()).collect();
    let next = header("location").next().unwrap_or_default();
    (answer.status().as_u16(), next, set)
}

/// Returns the arguments of a service with the provider.
fn flags<'a>(issuer: &'a str, secret: &'a str) -> [&'a str; 14] {
    [
        "--listen",
        "127.0.0.1:0",
        "--oidc-issuer",
        issuer,
        "--oidc-client-id",
        CLIENT_ID,
        "--oidc-secret-file",
        secret,
        "--oidc-domains",
        "example.com",
        "--oidc-role",
        "member",
        "--oidc-label",
        "Sign in with Example",
    ]
}

#[test]
fn users_of_a_domain_sign_in_with_a_provider_and_others_do_not() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let provider = runtime.block_on(Provider::start(Arc::new(Now)));
    let site = site();
    let secret = site.path("oidc.secret");
    std::fs::write(&secret, CLIENT_SECRET).unwrap();
    let (issuer, secret) = (provider.issuer.to_string(), secret.display().to_string());
    let service = site.start_with(&flags(&issuer, &secret));
    let client = client();
    let page = client.get(format!("{}/login?next=/keys", service.url)).send().unwrap().text().unwrap();
    assert!(page.contains("href=\"/login/provider?next=%2Fkeys\">Sign in with Example</a>"), "{page}");
    let sign_in = || {
        let (status, authorize, cookies) = visit(&client, &format!("{}/login/provider?next=%2Fkeys", service.url), "");
        assert_eq!(status, 303, "{}", service.log());
        let (_, back, _) = visit(&client, &authorize, "");
        assert!(back.starts_with(&format!("{}/login/returned?", service.url)), "{back}");
        (back, cookies.join("; "))
    };
    let (back, cookies) = sign_in();
    let (status, next, set) = visit(&client, &back, &cookies);
    assert_eq!((status, next.as_str()), (303, "/keys"), "{}", service.log());
    let session = set.iter().find(|cookie| cookie.starts_with("journeyman=")).unwrap();
    assert_eq!(visit(&client, &format!("{}/keys", service.url), session).0, 200);
    let users = site.succeed(&["user", "list"]);
    assert!(users.contains("member") && users.contains("provider"), "{users}");
    let ada = users.lines().find(|line| line.contains("provider")).unwrap().split_whitespace().next().unwrap();
    assert_eq!(site.run(&["user", "disconnect", ada]).status.code(), Some(2), "it is not confirmed");
    let refused = site.run(&["user", "disconnect", ada, "--yes"]);
    let error = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && error.contains("the user has no password"), "{error}");

    // A browser that has not started the sign-in is refused.
    let (back, _) = sign_in();
    assert_eq!(visit(&client, &back, "").0, 403);
    provider.person(ProviderAccount { email: "eve@example.org".to_owned(), ..ProviderAccount::ada() });
    let (back, cookies) = sign_in();
    assert_eq!(visit(&client, &back, &cookies).0, 403, "another domain");
}

/// Sends a form as a browser does; returns the status, the target of the redirect, and the new cookies.
fn send_form(url: &str, path: &str, cookies: &str, form: String) -> (u16, String, Vec<String>) {
    let request = client().post(format!("{url}{path}")).header("cookie", cookies).header("origin", url);
    let answer = request.header("content-type", "application/x-www-form-urlencoded").body(form).send().unwrap();
    let header = |name: &str| answer.headers().get_all(name).iter().map(|value| value.to_str().unwrap().to_owned());
    let set = header("set-cookie").map(|cookie| cookie.split(';').next().unwrap().to_owned()).collect();
    (answer.status().as_u16(), header("location").next().unwrap_or_default(), set)
}

#[test]
fn a_required_second_factor_protects_sign_ins_until_the_operator_removes_it() {
    let site = site();
    let service = site.start_with(&["--listen", "127.0.0.1:0", "--second-factor", "everyone"]);
    let cookie = service.use_link(&site.succeed(&["user", "add", "ada", "--role", "administrator"]));
    let (client, set_up) = (client(), "/account/second-factor");
    let (status, target, _) = visit(&client, &format!("{}/keys", service.url), &cookie);
    assert_eq!((status, target.as_str()), (303, set_up));
    let page = client.get(format!("{}{set_up}", service.url)).header("cookie", &cookie).send().unwrap().text().unwrap();
    let between = |page: &str, before: &str, after: &str| {
        page.split_once(before).and_then(|(_, rest)| rest.split_once(after)).expect(before).0.to_owned()
    };
    let key = between(&page, "<code id=\"key\">", "</code>").replace(' ', "");
    let sealed = between(&page, "name=\"secret\" value=\"", "\"");
    let code = TotpSecret::parse(&key).unwrap().code(step(Now.now()));
    let (status, target, set) = send_form(&service.url, set_up, &cookie, format!("secret={sealed}&code={code}"));
    assert!(status == 303 && target.starts_with("/secrets/"), "{status} {target}: {}", service.log());
    let shown = client.get(format!("{}{target}", service.url)).header("cookie", format!("{cookie}; {}", set[0]));
    let recovery = between(&shown.send().unwrap().text().unwrap(), "<code id=\"code-1\">", "</code>");
    assert_eq!(visit(&client, &format!("{}/keys", service.url), &cookie).0, 200);

    let password = || send_form(&service.url, "/login", "", "name=ada&password=lantern+orbit+walnut".to_owned());
    let (status, target, set) = password();
    assert_eq!((status, target.as_str(), set.len()), (303, "/login/code", 1));
    assert_eq!(visit(&client, &format!("{}/keys", service.url), &set[0]).0, 303, "this is no session");
    assert_eq!(send_form(&service.url, "/login/code", &set[0], format!("code={code}")).0, 422, "the code was used");
    let (status, _, session) = send_form(&service.url, "/login/code", &set[0], format!("code={recovery}"));
    assert_eq!(status, 303, "{}", service.log());
    assert_eq!(visit(&client, &format!("{}/keys", service.url), &session[0]).0, 200);
    assert!(!service.log().contains(&key) && !service.log().contains(&recovery), "{}", service.log());

    let removal = ["user", "remove-second-factor", "ada"];
    assert_eq!(site.run(&removal).status.code(), Some(2), "it is not confirmed");
    let removed = site.succeed(&[removal[0], removal[1], removal[2], "--yes"]);
    assert_eq!(removed, "The user ada has the role administrator, and can sign in.\n");
    let (_, target, session) = password();
    assert_eq!((target.as_str(), session[0].starts_with("journeyman=")), ("/", true), "the password is enough");
    assert_eq!(visit(&client, &format!("{}/keys", service.url), &session[0]).1, set_up, "another one is required");
}

#[test]
fn a_user_of_a_provider_confirms_there_before_a_key_is_made() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let provider = runtime.block_on(Provider::start(Arc::new(Now)));
    let site = site();
    let secret = site.path("oidc.secret");
    std::fs::write(&secret, CLIENT_SECRET).unwrap();
    let (issuer, secret) = (provider.issuer.to_string(), secret.display().to_string());
    let service = site.start_with(&flags(&issuer, &secret));
    let client = client();
    // Goes to the provider from a page, and returns the path to which the way back leads.
    let go = |path: &str, session: &str| {
        let (status, authorize, cookies) = visit(&client, &format!("{}{path}", service.url), session);
        assert_eq!(status, 303, "{}", service.log());
        let (_, back, _) = visit(&client, &authorize, "");
        (authorize, visit(&client, &back, &format!("{session}; {}", cookies.join("; "))))
    };
    let (_, (_, _, set)) = go("/login/provider", "");
    let session = set.iter().find(|cookie| cookie.starts_with("journeyman=")).unwrap();
    let make = || send_form(&service.url, "/keys", session, "name=ci&days=30&project=shop".to_owned());
    assert_eq!(make().0, 403, "the provider did not say when it has asked the user");
    provider.fault(Some(Fault::OldAuthentication));
    let (authorize, (status, _, _)) = go("/confirm/provider?next=", session);
    assert!(authorize.contains("prompt=login&max_age=0") && status == 403, "{authorize}: {status}");
    assert_eq!(make().0, 403);
    provider.fault(None);
    let (_, (status, target, _)) = go("/confirm/provider?next=", session);
    assert_eq!((status, target.as_str()), (303, "/confirm/done"), "{}", service.log());
    let (status, target, _) = make();
    assert!(status == 303 && target.starts_with("/secrets/"), "{status} {target}");
}

/// Checks that the page *Account* gives the reason, and has the form again.
fn not_connected(answer: reqwest::blocking::Response, reason: &str) {
    assert_eq!(answer.status(), 422);
    let page = answer.text().unwrap();
    assert!(page.contains(&format!("<strong>The account was not connected.</strong> {reason}")), "{page}");
    assert!(page.contains("action=\"/account/provider\""), "{page}");
}

#[test]
fn a_provider_that_is_down_is_explained_on_the_page_account() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let provider = runtime.block_on(Provider::start(Arc::new(Now)));
    provider.fault(Some(Fault::Failing));
    let site = site();
    let secret = site.path("oidc.secret");
    std::fs::write(&secret, CLIENT_SECRET).unwrap();
    let (issuer, secret) = (provider.issuer.to_string(), secret.display().to_string());
    let service = site.start_with(&flags(&issuer, &secret));
    let bob = service.use_link(&site.succeed(&["user", "add", "bob", "--role", "member"]));
    let client = client();
    let request = client.post(format!("{}/account/provider", service.url)).header("origin", &service.url);
    let request = request.header("cookie", bob).header("content-type", "application/x-www-form-urlencoded");
    not_connected(
        request.body("current=lantern+orbit+walnut").send().unwrap(),
        "The identity provider is not available;",
    );
}

#[test]
fn a_user_with_a_password_is_connected_with_the_provider_and_disconnected() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let provider = runtime.block_on(Provider::start(Arc::new(Now)));
    let site = site();
    let secret = site.path("oidc.secret");
    std::fs::write(&secret, CLIENT_SECRET).unwrap();
    let (issuer, secret) = (provider.issuer.to_string(), secret.display().to_string());
    let service = site.start_with(&flags(&issuer, &secret));
    let client = client();
    let send = |path: &str, cookies: &str, form: &'static str| {
        let request = client.post(format!("{}{path}", service.url)).header("origin", &service.url).body(form);
        request.header("cookie", cookies).header("content-type", "application/x-www-form-urlencoded").send().unwrap()
    };
    let post = |path: &str, cookies: &str| send(path, cookies, "current=lantern+orbit+walnut");
    // Begins a connection, signs in at the provider, and returns the answer to the return of the browser.
    let connect = |session: &str| {
        let begun = post("/account/provider", session);
        let pending = begun.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
        let page = begun.text().unwrap();
        let (_, link) = page.split_once("<a class=\"button primary\" href=\"").unwrap();
        let authorize = link.split('"').next().unwrap().replace("&#38;", "&");
        let (_, back, _) = visit(&client, &authorize, "");
        (back, format!("{session}; {pending}"))
    };
    let bob = service.use_link(&site.succeed(&["user", "add", "bob", "--role", "member"]));
    let page = client.get(format!("{}/account", service.url)).header("cookie", &bob).send().unwrap().text().unwrap();
    assert!(page.contains("Connect with Example") && page.contains("not connected"), "{page}");

    not_connected(send("/account/provider", &bob, "current=wrong"), "The current password is wrong.");
    provider.fault(Some(Fault::AccessDenied));
    let (back, cookies) = connect(&bob);
    let denied = client.get(back).header("cookie", cookies).send().unwrap();
    not_connected(denied, "The identity provider refused the sign-in;");
    provider.fault(None);

    // The return is bound to the session that began: without it, and in another one, nobody is connected.
    let eve = service.use_link(&site.succeed(&["user", "add", "eve", "--role", "member"]));
    let (back, cookies) = connect(&bob);
    let pending = cookies.split("; ").last().unwrap();
    for others in [pending.to_owned(), format!("{eve}; {pending}")] {
        let (status, next, _) = visit(&client, &back, &others);
        assert_eq!((status, next.as_str()), (303, "/login?next=%2Faccount"), "{}", service.log());
    }
    let (back, cookies) = connect(&bob);
    let (status, next, _) = visit(&client, &back, &cookies);
    assert_eq!((status, next.as_str()), (303, "/account?done=connected"), "{}", service.log());
    assert!(site.succeed(&["user", "list"]).lines().any(|line| line.starts_with("bob") && line.contains("provider")));

    // The account at the provider now signs in as the user, and nobody else can have it.
    let (_, authorize, pending) = visit(&client, &format!("{}/login/provider?next=%2Fkeys", service.url), "");
    let (_, back, _) = visit(&client, &authorize, "");
    let (status, _, set) = visit(&client, &back, &pending.join("; "));
    assert_eq!(status, 303, "{}", service.log());
    let session = set.iter().find(|cookie| cookie.starts_with("journeyman=")).unwrap();
    let page = client.get(format!("{}/account", service.url)).header("cookie", session).send().unwrap();
    assert!(page.text().unwrap().contains("Signed in as <strong><bdi>bob</bdi>"));
    let (back, cookies) = connect(&eve);
    let refused = client.get(&back).header("cookie", cookies).send().unwrap();
    not_connected(refused, "Another user of this server is connected with this account");

    let done = post("/account/provider/disconnect", &bob);
    assert_eq!(done.headers()["location"], "/account?done=disconnected");
    let is_signed_in = |cookie: &str| {
        client.get(format!("{}/account", service.url)).header("cookie", cookie).send().unwrap().status() == 200
    };
    assert!(is_signed_in(&bob) && !is_signed_in(session), "the session that began at the provider has ended");
    let (back, cookies) = connect(&eve);
    assert_eq!(visit(&client, &back, &cookies).1, "/account?done=connected");
    site.succeed(&["user", "disconnect", "eve", "--yes"]);
    assert!(!is_signed_in(&eve), "the command ends all sessions");
    let users = site.succeed(&["user", "list"]);
    assert!(users.lines().any(|line| line.starts_with("eve") && line.contains("password")), "{users}");
}
