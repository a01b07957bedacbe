//! Tests of `journeyman code-host`, and of the checks of code hosts by `journeyman doctor`.

use std::io::Write;
use std::process::{Output, Stdio};

use journeyman_testkit::code_host::{CodeHostServer, Product, State};
use serde_json::Value;

use super::fixtures::{Site, site, site_with};

/// The path of the repository.
const PATH: &str = "acme/shop";

/// A stand-in for GitLab with one repository.
struct Host {
    server: CodeHostServer,
    repository: String,
    _runtime: tokio::runtime::Runtime,
}

fn host() -> Host {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (server, repository) = runtime.block_on(async {
        let server = CodeHostServer::start(Product::Gitlab).await;
        let repository = server.repository(PATH).await;
        (server, repository)
    });
    Host { server, repository, _runtime: runtime }
}

/// Runs a command with a text as its stdin.
fn with_stdin(site: &Site, arguments: &[&str], text: &str) -> Output {
    let mut child =
        site.command(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_code_host_is_added_tested_and_removed() {
    let (host, site) = (host(), site());
    let secret = site.path("webhook");
    std::fs::write(&secret, "webhook-s3cret\n").unwrap();
    let add = ["code-host", "add", "gitlab", "--kind", "gitlab", "--url", &host.server.url, "--token-file", "-"];
    let webhook = ["--webhook-secret-file", secret.to_str().unwrap()];
    let added = with_stdin(&site, &[add.as_slice(), &webhook].concat(), &format!("{}\n", State::TOKEN));
    assert!(added.status.success(), "{}", text(&added.stderr));
    assert!(text(&added.stdout).trim().ends_with("/hooks/gitlab"), "{}", text(&added.stdout));
    assert!(text(&added.stderr).contains("public-url is not set"), "{}", text(&added.stderr));
    let listed = site.succeed(&["code-host", "list", "--json"]);
    assert!(!listed.contains(State::TOKEN) && !listed.contains("s3cret"), "{listed}");
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let gitlab = &listed["codeHosts"][0];
    assert_eq!((&gitlab["hasToken"], &gitlab["hasWebhookSecret"]), (&true.into(), &true.into()), "{listed}");
    let table = site.succeed(&["code-host", "list"]);
    assert!(table.contains("gitlab") && table.contains("database"), "{table}");
    let checked = site.succeed(&["code-host", "check"]);
    assert!(checked.contains("ok    gitlab, credential: valid; the service acts as @journeyman-bot"), "{checked}");
    assert!(checked.contains("warn  gitlab, webhooks:"), "{checked}");

    host.server.state().tokens.clear();
    let refused = site.run(&["code-host", "check", "gitlab", "--json"]);
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused.stderr));
    let findings: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!(findings["findings"][1]["health"], "failure", "{findings}");

    let refused = site.run(&["code-host", "remove", "gitlab"]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    site.succeed(&["code-host", "remove", "gitlab", "--yes"]);
    let again = site.succeed(&["code-host", "remove", "gitlab", "--yes"]);
    assert_eq!(again, "Removed the code host gitlab with its secrets.\n");
    let missing = site.run(&["code-host", "remove", "other", "--yes"]);
    assert!(!missing.status.success() && text(&missing.stderr).contains("`journeyman code-host list`"), "{missing:?}");
}

#[test]
fn the_token_and_the_webhook_secret_of_a_code_host_are_replaced() {
    let (host, site) = (host(), site());
    let (old, webhook) = (site.path("old"), site.path("webhook"));
    std::fs::write(&old, "glpat-0ld").unwrap();
    std::fs::write(&webhook, "webhook-s3cret\n").unwrap();
    let (old, webhook) = (old.to_str().unwrap(), webhook.to_str().unwrap());
    let add = ["code-host", "add", "gitlab", "--kind", "gitlab", "--url", &host.server.url, "--token-file", old];
    site.succeed(&[add.as_slice(), &["--trusted-bot", "7"]].concat());
    assert_eq!(site.run(&["code-host", "check", "gitlab"]).status.code(), Some(1), "the old token is not valid");

    let edit = ["code-host", "edit", "gitlab", "--token-file", "-", "--json"];
    let edited = with_stdin(&site, &edit, &format!("{}\n", State::TOKEN));
    assert!(edited.status.success(), "{}", text(&edited.stderr));
    let edited: Value = serde_json::from_slice(&edited.stdout).unwrap();
    assert_eq!((&edited["hasToken"], &edited["hasWebhookSecret"]), (&true.into(), &false.into()), "{edited}");
    assert_eq!(
        (&edited["url"], &edited["trustedBots"][0]),
        (&host.server.url.as_str().into(), &"7".into()),
        "{edited}"
    );
    site.succeed(&["code-host", "check", "gitlab"]);

    let edited = site.succeed(&["code-host", "edit", "gitlab", "--webhook-secret-file", webhook]);
    assert_eq!(edited, "Replaced the secrets of the code host gitlab.\n");
    let listed: Value = serde_json::from_str(&site.succeed(&["code-host", "list", "--json"])).unwrap();
    let gitlab = &listed["codeHosts"][0];
    assert_eq!((&gitlab["hasToken"], &gitlab["hasWebhookSecret"]), (&true.into(), &true.into()), "{listed}");
    site.succeed(&["code-host", "check", "gitlab"]);

    for (arguments, named) in [
        (&["gitlab"][..], "nothing to change: use --token-file"),
        (&["gitlab", "--token", "s3cret"], "--token"),
        (&["gitlab", "--token-file", "/nowhere/token"], "/nowhere/token cannot be read"),
        (&["gitlab", "--private-key-file", old], "has no GitHub App"),
        (&["gitlab", "--username", "bot"], "--token-file"),
        (&["gitea", "--token-file", old], "`journeyman code-host list`"),
    ] {
        let refused = site.run(&[&["code-host", "edit"], arguments].concat());
        assert!(!refused.status.success(), "{arguments:?}");
        assert!(text(&refused.stderr).contains(named), "{arguments:?}: {}", text(&refused.stderr));
    }
}

#[test]
fn an_invalid_code_host_is_refused_with_the_remedy() {
    let site = site();
    let add = |more: &[&str]| {
        let output =
            site.run(&[&["code-host", "add", "x", "--kind", "gitlab", "--url", "https://a.example"], more].concat());
        assert!(!output.status.success(), "{more:?}");
        text(&output.stderr)
    };
    assert!(add(&["--token-file", "/nowhere/token"]).contains("/nowhere/token cannot be read"));
    assert!(add(&["--token-file", "-", "--webhook-secret-file", "-"]).contains("only one secret"));
    assert!(add(&["--app-id", "7"]).contains("--private-key-file"));
    assert!(add(&["--token", "s3cret"]).contains("--token"), "there is no option for the token itself");
    let kind = site.run(&["code-host", "add", "x", "--kind", "sourcehut", "--url", "https://a.example"]);
    assert!(text(&kind.stderr).contains("use one of github, gitlab"), "{}", text(&kind.stderr));
}

#[test]
fn doctor_tests_code_hosts_and_the_repositories_of_projects() {
    let host = host();
    let secrets = super::fixtures::open_folder();
    let token = secrets.path().join("token");
    std::fs::write(&token, State::TOKEN).unwrap();
    let config = format!(
        "[code-hosts.gitlab]\nkind = \"gitlab\"\nurl = {:?}\ntoken-file = {:?}\n",
        host.server.url,
        token.to_str().unwrap()
    );
    let site = site_with(&config);
    site.succeed(&["project", "create", "web", "--repository", &host.repository]);
    let healthy = site.succeed(&["doctor", "--verbose"]);
    for line in [
        "ok    code host gitlab, credential: valid; the service acts as @journeyman-bot",
        "warn  code host gitlab, webhooks: no secret is set",
        "ok    project web, repository: acme/shop can be read",
        "ok    project web, push:",
        "ok    project web, pull requests:",
        "warn  project web, webhooks:",
    ] {
        assert!(healthy.contains(line), "{line}: {healthy}");
    }
    let short = site.succeed(&["doctor"]);
    assert!(short.starts_with("warn  ") && !short.contains("ok    ") && !short.contains('\u{1b}'), "{short}");
    assert!(short.trim_end().ends_with("checks passed; --verbose lists them"), "{short}");
    let edit = ["code-host", "edit", "gitlab", "--token-file", token.to_str().unwrap()];
    for read_only in [&["code-host", "remove", "gitlab", "--yes"][..], &edit] {
        let refused = site.run(read_only);
        assert!(text(&refused.stderr).contains("configuration file"), "{refused:?}");
    }

    host.server.state().tokens.clear();
    let failing = site.run(&["doctor"]);
    assert_eq!(failing.status.code(), Some(1));
    let failing = text(&failing.stdout);
    assert!(failing.starts_with("FAIL  code host gitlab, credential:"), "{failing}");
    assert!(failing.contains("FAIL  project web, repository:"), "{failing}");
}

#[test]
fn git_uses_the_proxy_of_the_environment() {
    let site = site();
    let proxy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", proxy.local_addr().unwrap());
    let asked = std::thread::spawn(move || {
        let (mut connection, _) = proxy.accept().unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(&connection), &mut line).unwrap();
        connection.write_all(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
        line
    });
    let mut wrapper = std::process::Command::new("env");
    wrapper.arg(format!("HTTP_PROXY={address}"));
    let service = site.start_wrapped(wrapper);
    let repository = serde_json::json!({"id": "far", "repository": "http://203.0.113.7/acme/far.git"});
    let (status, body) = service.call("POST", "/v2/repository/test", Some(repository));
    assert_eq!((status, body["code"].as_str()), (422, Some("repository_unreachable")), "{body}");
    let line = asked.join().unwrap();
    assert!(line.starts_with("GET http://203.0.113.7/acme/far.git/info/refs"), "{line}");
}
