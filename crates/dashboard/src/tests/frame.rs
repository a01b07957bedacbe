//! Tests of the parts of every page: the header, the theme, the keys, the search, and toasts.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use journeyman_core::ports::PullPagesError;
use journeyman_core::user::Role;
use journeyman_testkit::FakeForges;

use super::job::{complete, create_job};
use super::pulls::Fake;
use super::{Fixture, Reply, fixture, token};

async fn with_cookie(fixture: &Fixture, path: &str, cookie: &str) -> Reply {
    let cookies = format!("journeyman={}; {cookie}", token(Role::Member));
    fixture
        .send_with(Method::GET, path, "", |request| {
            request.headers_mut().insert("cookie", cookies.parse().unwrap());
        })
        .await
}

#[tokio::test]
async fn the_menu_of_the_account_has_what_the_role_may_open() {
    let fixture = fixture(Arc::new(FakeForges)).await;
    for (role, links) in [
        (Role::Administrator, ["href=\"/keys\"", "href=\"/users\"", "href=\"/audit\""].as_slice()),
        (Role::Member, &["href=\"/keys\""]),
        (Role::Viewer, &[]),
    ] {
        let page = fixture.send(Some(role), Method::GET, "/projects", "").await.body;
        for link in ["href=\"/keys\"", "href=\"/users\"", "href=\"/audit\""] {
            assert_eq!(page.contains(link), links.contains(&link), "{link} for {}", role.name());
        }
        for link in
            ["href=\"/account\"", "href=\"/search\"", "href=\"/keyboard\"", "href=\"/usage\"", "href=\"/system\""]
        {
            assert!(page.contains(link), "{link} for {}", role.name());
        }
    }
}

#[tokio::test]
async fn the_theme_is_kept_and_rendered() {
    let fixture = fixture(Arc::new(FakeForges)).await;
    let system = with_cookie(&fixture, "/projects?a=b", "").await.body;
    assert!(system.contains("<html lang=\"en\" data-theme=\"system\">"), "{system}");
    assert!(system.contains("name=\"next\" value=\"/projects?a=b\""), "{system}");
    let form = "theme=dark&next=%2Fprojects%3Fa%3Db";
    let chosen = fixture.send(Some(Role::Member), Method::POST, "/account/theme", form).await;
    assert_eq!((chosen.status, chosen.header("location")), (StatusCode::SEE_OTHER, "/projects?a=b"));
    let cookie = chosen.header("set-cookie");
    assert_eq!(cookie, "journeyman-theme=dark; Path=/; Max-Age=31536000; HttpOnly; SameSite=Lax");
    for path in ["/projects", "/docs", "/login"] {
        let page = fixture.send_with(Method::GET, path, "", |request| {
            let cookie = "journeyman-theme=dark".to_owned();
            let session =
                if path == "/login" { String::new() } else { format!("; journeyman={}", token(Role::Member)) };
            request.headers_mut().insert("cookie", (cookie + &session).parse().unwrap());
        });
        let page = page.await.body;
        assert!(page.contains("data-theme=\"dark\""), "{path}: {page}");
    }
    let elsewhere = fixture.send(Some(Role::Member), Method::POST, "/account/theme", "theme=light&next=//evil.example");
    assert_eq!(elsewhere.await.header("location"), "/");
}

#[tokio::test]
async fn letters_can_be_switched_off() {
    let fixture = fixture(Arc::new(FakeForges)).await;
    let off = fixture.send(Some(Role::Member), Method::POST, "/account/letters", "").await;
    assert!(off.header("set-cookie").starts_with("journeyman-letters=off; Path=/; Max-Age=31536000;"));
    let on = fixture.send(Some(Role::Member), Method::POST, "/account/letters", "letters=on").await;
    assert!(on.header("set-cookie").starts_with("journeyman-letters=; Path=/; Max-Age=0;"));
    assert!(
        with_cookie(&fixture, "/projects", "journeyman-letters=off").await.body.contains("<body data-letters=\"off\">")
    );
    assert!(with_cookie(&fixture, "/projects", "").await.body.contains("<body>"));
}

#[tokio::test]
async fn the_search_finds_projects_jobs_and_projects_for_a_new_job() {
    let fixture = fixture(Arc::new(FakeForges)).await;
    let job = create_job(&fixture, "Fix the <typo>").await;
    let search = async |role: Role, q: &str| {
        let answer = fixture.send(Some(role), Method::GET, &format!("/search/results?q={q}"), "").await;
        assert_eq!(answer.header("content-type"), "application/json");
        serde_json::from_str::<serde_json::Value>(&answer.body).unwrap()
    };
    let found = search(Role::Viewer, "SHO").await;
    assert_eq!(found[0]["href"], "/projects/shop/jobs");
    let found = search(Role::Viewer, "fix+the").await;
    assert_eq!((found[0]["title"].as_str(), found[1].is_null()), (Some("Fix the <typo>"), true), "{found}");
    assert_eq!(found[0]["href"], format!("/projects/shop/jobs/{job}"));
    assert_eq!(search(Role::Member, "new+job+in").await[0]["href"], "/projects/shop/jobs/new");
    let recent = search(Role::Viewer, "").await;
    assert_eq!(
        (recent[0]["group"].as_str(), recent[0]["title"].as_str()),
        (Some("Recent jobs"), Some("Fix the <typo>"))
    );
    for (role, q) in [(Role::Viewer, "new+job+in"), (Role::Member, "nothing")] {
        assert_eq!(search(role, q).await, serde_json::json!([]), "{q}");
    }
    let page = fixture.send(Some(Role::Viewer), Method::GET, "/search?q=typo", "").await.body;
    assert!(page.contains("Fix the &#60;typo&#62;") && page.contains("value=\"typo\""), "{page}");
    assert!(fixture.send(Some(Role::Viewer), Method::GET, "/search?q=zzz", "").await.body.contains("Nothing found"));
}

#[tokio::test]
async fn the_search_finds_a_job_by_its_id_and_its_branch() {
    let fixture = fixture(Arc::new(FakeForges)).await;
    let search =
        async |q: &str| fixture.send(Some(Role::Viewer), Method::GET, &format!("/search?q={q}"), "").await.body;
    for title in ["Fix it", "Fix journeyman/x too"] {
        let job = create_job(&fixture, title).await;
        complete(&fixture, job, 10, Vec::new()).await;
        let link = format!("href=\"/projects/shop/jobs/{job}\"");
        for q in [job.to_string(), "journeyman/x".to_owned()] {
            let page = search(&q).await;
            assert_eq!(page.matches(&link).count(), 1, "{title}, {q}: {page}");
            let mark = "<span class=\"mark completed\"><span class=\"unseen\">completed</span>";
            assert!(page.contains(mark), "{title}, {q}: {page}");
        }
    }
    let other = format!("/search?q=job_{}", "0".repeat(32));
    assert!(fixture.send(Some(Role::Viewer), Method::GET, &other, "").await.body.contains("Nothing found"));
}

#[tokio::test]
async fn a_confirmation_is_a_toast_that_can_be_dismissed() {
    let fixture = fixture(Arc::new(FakeForges)).await;
    let page = fixture.send(Some(Role::Member), Method::GET, "/projects?a=b&done=saved", "").await.body;
    assert!(page.contains("<p role=\"status\">Saved.</p>"), "{page}");
    assert!(page.contains("href=\"/projects?a=b\" data-dismiss"), "{page}");
    let plain = fixture.send(Some(Role::Member), Method::GET, "/projects?done=nonsense", "").await.body;
    assert!(!plain.contains("data-toast"), "{plain}");
}

#[tokio::test]
async fn an_action_that_fails_is_a_toast_if_a_script_has_sent_its_form() {
    let fixture = fixture(Arc::new(FakeForges)).await;
    let job = create_job(&fixture, "Fix the typo").await;
    let retry = format!("/projects/shop/jobs/{job}/retry");
    let withdraw = format!("/projects/shop/jobs/{job}/messages/<b>/withdraw");
    let large = format!("id=shop{}", "x".repeat(3 << 20));
    for (role, path, form, status, text) in [
        (Role::Viewer, retry.as_str(), "", 403, "<strong>Not allowed.</strong>"),
        (Role::Member, &withdraw.replace('<', "%3C").replace('>', "%3E"), "", 404, "There is no such message."),
        (Role::Administrator, "/projects/shop/delete", "id=other", 422, "<strong>The request was refused.</strong>"),
        (Role::Administrator, "/projects/shop/delete", &large, 413, "The form is too large."),
        (Role::Administrator, "/nowhere", "", 404, "There is no page at this address."),
    ] {
        let reply = fixture.send_with_turbo(role, path, form).await;
        assert_eq!(reply.status.as_u16(), status, "{path}: {}", reply.body);
        assert_eq!(reply.header("content-type"), "text/vnd.turbo-stream.html; charset=utf-8", "{path}");
        assert!(reply.body.starts_with("<turbo-stream action=\"append\" target=\"toasts\">"), "{path}: {}", reply.body);
        assert!(reply.body.contains("role=\"alert\"") && reply.body.contains(text), "{path}: {}", reply.body);
        assert!(!reply.body.contains("Try again</button>"), "{path}: a repetition fails too: {}", reply.body);
    }
    let page = fixture.send(Some(Role::Viewer), Method::POST, &retry, "").await;
    assert!(page.body.contains("<h1>Not allowed</h1>"), "without a script, it is a page: {}", page.body);
}

#[test]
fn all_other_forms_are_sent_by_turbo() {
    // A cookie that the whole page depends on, the answers that are pages with a link, forms for another site, and the
    // page with a secret, which must not stay in the browser.
    let expected = [
        "/account/provider",
        "/account/theme",
        "/secrets/{{ ticket }}/stored",
        "/system/code-hosts/github/app",
        "{{ action }}",
        "{{ asked.action }}",
    ];
    let mut found = Vec::new();
    for file in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/templates")).unwrap() {
        let template = std::fs::read_to_string(file.unwrap().path()).unwrap();
        for form in template.split("<form ").skip(1) {
            let tag = form.split_once('>').unwrap().0;
            if tag.contains("data-turbo=\"false\"") {
                found.push(tag.split_once("action=\"").unwrap().1.split_once('"').unwrap().0.to_owned());
            }
        }
        for button in template.split("<button ").skip(1) {
            assert!(!button.split_once('>').unwrap().0.contains("data-turbo"), "a button of {template}");
        }
    }
    found.sort();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_form_with_a_secret_fails_as_a_toast_and_redirects_to_its_page() {
    let fixture = fixture(Arc::new(FakeForges)).await;
    let made = fixture.send_with_turbo(Role::Member, "/keys", "name=ci&days=30&project=shop").await;
    assert_eq!(made.status, StatusCode::SEE_OTHER, "{}", made.body);
    assert!(made.header("location").starts_with("/secrets/"), "{}", made.header("location"));
    let refused =
        fixture.send_with_turbo(Role::Member, "/keys", "name=ci&days=30&project=shop&addresses=nowhere").await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", refused.body);
    assert!(refused.body.contains("The key was not created.") && refused.body.contains("value=\"nowhere\""));
    let failed = fixture.send_with_turbo(Role::Member, "/keys/nonsense/rotate", "keep=0").await;
    assert_eq!(failed.status, StatusCode::NOT_FOUND);
    assert!(failed.body.starts_with("<turbo-stream action=\"append\" target=\"toasts\">"), "{}", failed.body);
}

#[tokio::test]
async fn a_failure_of_the_server_can_be_tried_again() {
    let error = PullPagesError::Failed("/srv/secret".to_owned());
    let fixture = fixture(Arc::new(Fake::failing(&error))).await;
    let reply = fixture.send_with_turbo(Role::Member, "/projects/shop/pulls/7/merge", "").await;
    assert_eq!(reply.status, StatusCode::INTERNAL_SERVER_ERROR, "{}", reply.body);
    assert!(reply.body.contains("data-again hidden>Try again</button>"), "{}", reply.body);
    assert!(!reply.body.contains("secret"), "{}", reply.body);
}

#[tokio::test]
async fn an_action_that_can_be_undone_has_a_button_for_that() {
    let fixture = fixture(Arc::new(FakeForges)).await;
    let job = create_job(&fixture, "Fix the typo").await;
    let page = format!("/projects/shop/jobs/{job}");
    let active = fixture.send(Some(Role::Member), Method::POST, &format!("{page}/archive"), "").await;
    let shown = fixture.follow(Role::Member, &active).await.body;
    assert!(shown.contains("The job is canceled and archived.") && !shown.contains(">Undo</button>"), "{shown}");
    fixture.send(Some(Role::Member), Method::POST, &format!("{page}/unarchive"), "").await;
    let archived = fixture.send(Some(Role::Member), Method::POST, &format!("{page}/archive"), "").await;
    let shown = fixture.follow(Role::Member, &archived).await.body;
    let undo = format!("<form method=\"post\" action=\"{page}/unarchive\">");
    assert!(shown.contains("The job is archived.") && shown.contains(&undo), "{shown}");
    assert!(shown.contains(&format!("href=\"{page}\" data-dismiss")), "{shown}");
    // The button is encrypted for the session: in another one, and after a change, there is only the text.
    let address = archived.header("location");
    let other = fixture.send(Some(Role::Viewer), Method::GET, address, "").await.body;
    assert!(other.contains("The job is archived.") && !other.contains(">Undo</button>"), "{other}");
    let changed = fixture.send(Some(Role::Member), Method::GET, &format!("{address}00"), "").await.body;
    assert!(changed.contains("The job is archived.") && !changed.contains(">Undo</button>"), "{changed}");

    let undone = fixture.send(Some(Role::Member), Method::POST, &format!("{page}/unarchive"), "").await;
    let shown = fixture.follow(Role::Member, &undone).await.body;
    let redo = format!("<form method=\"post\" action=\"{page}/archive\">");
    assert!(shown.contains("The job is no longer archived.") && shown.contains(&redo), "{shown}");
}

#[tokio::test]
async fn forms_and_lists_use_the_words_of_people() {
    let fixture = fixture(Arc::new(FakeForges)).await;
    let admin = Some(Role::Administrator);
    let key = fixture.send(admin, Method::POST, "/keys", "name=ci&days=90&where=all&scope=read").await;
    let created = fixture.follow(Role::Administrator, &key).await.body;
    let day = "<time datetime=\"2027-02-19T01:25:30.123Z\" title=\"2027-02-19 01:25 UTC\" data-day=\"date\">19 Feb 2027</time>";
    assert!(created.contains(&format!("The key expires on {day}.")), "{created}");
    for (path, texts) in [
        ("/keys", vec![format!("expires on {day}"), "<span class=\"chip\">read only</span>".to_owned()]),
        ("/keys/new", vec!["<legend>Access</legend>".to_owned()]),
        ("/projects/new", vec!["Used in URLs; cannot be changed.".to_owned()]),
        ("/projects/shop/settings/repository", vec!["Used in URLs; cannot be changed.".to_owned()]),
        ("/projects/shop/settings/limits", vec!["<label for=\"cpuCores\">CPU cores".to_owned()]),
        ("/system/trusts/new", vec!["<legend>Access</legend>".to_owned()]),
        ("/system/code-hosts/new", vec!["Used in URLs; cannot be changed.".to_owned()]),
    ] {
        let page = fixture.send(admin, Method::GET, path, "").await.body;
        for text in texts {
            assert!(page.contains(&text), "{text} is not on {path}: {page}");
        }
    }
}
