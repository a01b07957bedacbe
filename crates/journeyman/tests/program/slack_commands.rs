//! Tests of `journeyman slack`.

use journeyman_testkit::slack_server::{APP_TOKEN, BOT_TOKEN, SIGNING_SECRET};
use serde_json::{Value, json};

use super::fixtures::site_with;
use super::slack::{secret_file, stand_in};

#[test]
fn a_workspace_is_connected_changed_tested_and_disconnected() {
    let (slack, _runtime) = stand_in();
    let site = site_with(&format!("slack-api-url = {:?}\n", slack.url));
    let bot = secret_file(&site, "bot", &format!("{BOT_TOKEN}\n"));
    let (signing, app) = (secret_file(&site, "signing", SIGNING_SECRET), secret_file(&site, "app", APP_TOKEN));
    site.succeed(&["user", "add", "ada", "--role", "member"]);
    let connected = site.succeed(&[
        "slack",
        "connect",
        "--bot-token-file",
        &bot,
        "--signing-secret-file",
        &signing,
        "--user",
        "U0ADA=ada",
    ]);
    let lines: Vec<&str> = connected.lines().collect();
    let [id, url] = lines.as_slice() else { panic!("{connected}") };
    assert!(id.starts_with("slw_") && url.ends_with(&format!("/hooks/slack/{id}")), "{connected}");
    let mapped = site.succeed(&["slack", "map-channel", id, "C0SHOP", "shop"]);
    assert_eq!(mapped, "Connected the channel C0SHOP with the project shop.\n");
    let shown = site.succeed(&["slack", "show", id]);
    for part in ["Acme", "T0ACME", "events", "C0SHOP=shop", "U0ADA=ada"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let json = site.succeed(&["slack", "show", id, "--json"]);
    assert!(!json.contains(BOT_TOKEN) && !json.contains(SIGNING_SECRET), "{json}");
    let changed: Value = serde_json::from_str(&site.succeed(&[
        "slack",
        "update",
        id,
        "--name",
        "Shop",
        "--mode",
        "socket",
        "--app-token-file",
        &app,
        "--json",
    ]))
    .unwrap();
    assert_eq!(
        (&changed["name"], &changed["mode"], &changed["hasAppToken"]),
        (&json!("Shop"), &json!("socket"), &json!(true))
    );
    assert!(site.succeed(&["slack", "list"]).contains("socket"));
    let checked = site.succeed(&["slack", "check", id]);
    assert!(checked.contains("Slack accepts the token for the workspace Acme"), "{checked}");
    assert!(checked.contains("a connection can be opened"), "{checked}");
    assert_eq!(site.succeed(&["slack", "events", id]).trim(), "No events found.");
    assert!(site.succeed(&["slack", "posts", id, "--json"]).contains("\"posts\": []"));
    site.succeed(&["slack", "map-channel", id, "C0SHOP", "--remove"]);
    site.succeed(&["slack", "map-user", id, "U0ADA", "--remove"]);
    let shown: Value = serde_json::from_str(&site.succeed(&["slack", "show", id, "--json"])).unwrap();
    assert_eq!((&shown["channels"], &shown["users"]), (&json!({}), &json!({})));

    slack.revoke(BOT_TOKEN);
    let refused = site.run(&["slack", "check", id, "--json"]);
    assert_eq!(refused.status.code(), Some(1));
    let findings: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!(findings["findings"][0]["health"], "failure", "{findings}");
    assert_eq!(site.run(&["slack", "disconnect", id]).status.code(), Some(2), "it is not confirmed");
    site.succeed(&["slack", "disconnect", id, "--yes"]);
    assert!(!site.succeed(&["slack", "list"]).contains("slw_"));
}

#[test]
fn a_wrong_command_says_what_to_do_and_shows_no_secret() {
    let (slack, _runtime) = stand_in();
    let site = site_with(&format!("slack-api-url = {:?}\n", slack.url));
    let (bot, signing) = (secret_file(&site, "bot", BOT_TOKEN), secret_file(&site, "signing", SIGNING_SECRET));
    let wrong = secret_file(&site, "wrong", "xoxb-unknown");
    let missing = "slw_0193456789ab7def8123456789abcdef";
    for (arguments, named) in [
        (&["connect", "--bot-token-file", &bot][..], "signingSecret: is missing"),
        (&["connect", "--bot-token-file", &signing, "--signing-secret-file", &signing], "botToken: must be"),
        (&["connect", "--bot-token-file", &wrong, "--signing-secret-file", &signing], "invalid_auth"),
        (&["connect", "--bot-token-file", "-", "--signing-secret-file", "-"], "only one secret can be read from stdin"),
        (&["connect", "--bot-token", BOT_TOKEN], "--bot-token"),
        (&["connect", "--bot-token-file", "/nowhere/bot"], "/nowhere/bot cannot be read"),
        (&["connect", "--bot-token-file", &bot, "--user", "U0ADA=nobody"], "there is no user nobody"),
        (&["connect", "--bot-token-file", &bot, "--channel", "C0SHOP"], "the ID at Slack"),
        (&["map-channel", missing, "C0SHOP", "shop"], "`journeyman slack list`"),
        (&["map-channel", missing, "C0SHOP"], "PROJECT"),
        (&["update", missing], "nothing to change: use --name"),
        (&["disconnect", missing, "--yes"], "`journeyman slack list`"),
    ] {
        let refused = site.run(&[&["slack"], arguments].concat());
        assert!(!refused.status.success(), "{arguments:?}");
        let error = String::from_utf8(refused.stderr).unwrap();
        assert!(error.contains(named), "{arguments:?}: {error}");
        assert!(!error.contains(SIGNING_SECRET), "{arguments:?}: {error}");
    }
    let manifest: Value = serde_json::from_str(&site.succeed(&["slack", "manifest", "--mode", "socket"])).unwrap();
    assert_eq!(manifest["settings"]["socket_mode_enabled"], true);
}
