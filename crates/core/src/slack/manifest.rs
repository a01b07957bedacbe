//! The manifest from which a workspace creates the app.

use serde_json::{Value, json};

use super::SlackMode;

/// The permissions of the bot: reading what is sent to it and in the channels it was invited to, posting, and reacting.
const SCOPES: [&str; 6] =
    ["app_mentions:read", "channels:history", "groups:history", "im:history", "chat:write", "reactions:write"];

/// The events that Slack sends.
const EVENTS: [&str; 4] = ["app_mention", "message.channels", "message.groups", "message.im"];

/// Returns the manifest of the app, as JSON. With [`SlackMode::Events`], Slack accepts events only with the URL to which it
/// sends them, which is known when the workspace is connected.
#[must_use]
pub fn manifest(mode: SlackMode, events_url: Option<&str>) -> String {
    let mut settings = json!({ "socket_mode_enabled": mode == SlackMode::Socket });
    match (mode, events_url) {
        (SlackMode::Socket, _) => settings["event_subscriptions"] = json!({ "bot_events": EVENTS }),
        (SlackMode::Events, Some(url)) => {
            settings["event_subscriptions"] = json!({ "request_url": url, "bot_events": EVENTS });
        }
        (SlackMode::Events, None) => {}
    }
    let manifest: Value = json!({
        "display_information": { "name": "Journeyman" },
        "features": {
            "app_home": { "messages_tab_enabled": true, "messages_tab_read_only_enabled": false },
            "bot_user": { "display_name": "journeyman", "always_online": true },
        },
        "oauth_config": { "scopes": { "bot": SCOPES } },
        "settings": settings,
    });
    format!("{manifest:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_subscribes_to_events_where_slack_accepts_it() {
        let of = |mode, url| serde_json::from_str::<Value>(&manifest(mode, url)).unwrap();
        let socket = of(SlackMode::Socket, Some("https://jm.example/hooks/slack/x"));
        assert_eq!(socket["settings"]["socket_mode_enabled"], true);
        assert_eq!(socket["settings"]["event_subscriptions"], json!({ "bot_events": EVENTS }));
        let events = of(SlackMode::Events, None);
        assert!(events["settings"]["event_subscriptions"].is_null(), "Slack refuses events without a URL");
        let events = of(SlackMode::Events, Some("https://jm.example/hooks/slack/x"));
        let subscriptions = &events["settings"]["event_subscriptions"];
        assert_eq!(subscriptions["request_url"], "https://jm.example/hooks/slack/x");
        assert_eq!(events["settings"]["socket_mode_enabled"], false);
        assert_eq!(events["features"]["app_home"]["messages_tab_enabled"], true, "people can send `link CODE`");
    }
}
