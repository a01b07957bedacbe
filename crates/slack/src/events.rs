//! The bodies of requests and envelopes.

use journeyman_core::ports::{SlackDelivery, SlackEnvelope};
use journeyman_core::slack::check::is_slack_id;
use journeyman_core::slack::{SlackAuthor, SlackContent, SlackEvent, SlackInstallation, SlackText};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

/// The longest text that is stored, in bytes. Slack cuts messages at 40,000 characters.
const TEXT_BYTES: usize = 200_000;

#[derive(Deserialize)]
struct Outer {
    #[serde(rename = "type")]
    kind: String,
    challenge: Option<String>,
    team_id: Option<String>,
    event_id: Option<String>,
    event: Option<Inner>,
    /// One of the installations that get the event, or none.
    #[serde(default)]
    authorizations: Vec<Authorization>,
}

#[derive(Deserialize)]
struct Authorization {
    team_id: Option<String>,
    enterprise_id: Option<String>,
    #[serde(default)]
    is_enterprise_install: bool,
}

impl From<Authorization> for SlackInstallation {
    fn from(found: Authorization) -> Self {
        let Authorization { team_id, enterprise_id, is_enterprise_install } = found;
        Self { team: team_id, enterprise: enterprise_id, is_org_wide: is_enterprise_install }
    }
}

/// The fields of the events `app_mention` and `message`, with all subtypes.
#[derive(Deserialize)]
struct Inner {
    #[serde(rename = "type")]
    kind: String,
    subtype: Option<String>,
    channel: Option<String>,
    channel_type: Option<String>,
    ts: Option<String>,
    deleted_ts: Option<String>,
    message: Option<Said>,
    previous_message: Option<Said>,
    #[serde(flatten)]
    said: Said,
}

#[derive(Default, Deserialize)]
struct Said {
    user: Option<String>,
    text: Option<String>,
    thread_ts: Option<String>,
    bot_id: Option<String>,
    #[serde(rename = "ts")]
    own_ts: Option<String>,
    /// The workspace of the author, in channels that are shared with other workspaces.
    user_team: Option<String>,
    /// The workspace in which the message was written, in the same channels.
    source_team: Option<String>,
    #[serde(default)]
    files: Vec<IgnoredAny>,
}

#[derive(Deserialize)]
struct Envelope {
    #[serde(rename = "type")]
    kind: String,
    envelope_id: Option<String>,
    payload: Option<Value>,
}

/// Reads the body of a request, or the payload of an envelope.
pub(crate) fn read(body: &[u8]) -> Result<SlackDelivery, String> {
    let outer: Outer = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    Ok(delivery(outer))
}

fn delivery(outer: Outer) -> SlackDelivery {
    let Outer { kind, challenge, team_id, event_id, event, authorizations } = outer;
    let installations: Vec<SlackInstallation> = authorizations.into_iter().map(Into::into).collect();
    // An event of an installation for a whole organization may have no workspace.
    let of_installation = installations.iter().find_map(|one| one.team.clone().or_else(|| one.enterprise.clone()));
    match (kind.as_str(), challenge, team_id.or(of_installation), event_id, event) {
        ("url_verification", Some(challenge), ..) => SlackDelivery::Challenge(challenge),
        ("event_callback", _, Some(team), Some(event_id), Some(inner)) => match used(team, event_id, inner) {
            Some(event) => SlackDelivery::Event(Box::new(SlackEvent { installations, ..event })),
            None => SlackDelivery::Other,
        },
        _ => SlackDelivery::Other,
    }
}

/// Returns an event that the service may use. Messages of Slack itself, and those of bots that mention nobody, are left
/// out.
fn used(team: String, event_id: String, inner: Inner) -> Option<SlackEvent> {
    let Inner { kind, subtype, channel, channel_type, ts, deleted_ts, message, previous_message, said } = inner;
    let author_team = said.user_team.clone().or_else(|| said.source_team.clone());
    let channel = channel.filter(|id| is_slack_id(id, "CGD"))?;
    // The event of a mention does not have the type of the channel.
    let is_direct = channel_type.as_deref() == Some("im") || channel.starts_with('D');
    let (ts, thread, content) = match (kind.as_str(), subtype.as_deref()) {
        // A mention may have any subtype, such as that of a message with files.
        ("app_mention", _) => {
            let ts = ts.or(said.own_ts.clone())?;
            let thread = said.thread_ts.clone();
            let sent = if said.bot_id.is_some() || subtype.as_deref() == Some("bot_message") {
                of_bot(said)?
            } else {
                text(said, true, is_direct)?
            };
            (ts, thread, SlackContent::Sent(sent))
        }
        ("message", None | Some("thread_broadcast" | "file_share" | "me_message")) => {
            let ts = ts.or(said.own_ts.clone())?;
            // Slack sends the mention in a channel as another event, but the mention in a thread may come first.
            (ts, said.thread_ts.clone(), SlackContent::Sent(text(said, false, is_direct)?))
        }
        ("message", Some("message_changed")) => {
            let message = message?;
            // Slack also reports that it shows the preview of a link, or that a thread has another reply.
            if previous_message.is_some_and(|previous| previous.text == message.text) {
                return None;
            }
            let ts = message.own_ts.clone()?;
            (ts, message.thread_ts.clone(), SlackContent::Edited(text(message, false, is_direct)?))
        }
        ("message", Some("message_deleted")) => {
            let previous = previous_message.unwrap_or_default();
            if previous.bot_id.is_some() {
                return None;
            }
            (deleted_ts.or(previous.own_ts)?, previous.thread_ts, SlackContent::Deleted)
        }
        _ => return None,
    };
    let thread = thread.unwrap_or_else(|| ts.clone());
    let is_valid = is_ts(&ts) && is_ts(&thread) && !event_id.is_empty() && event_id.len() <= 100;
    let installations = Vec::new();
    is_valid.then_some(SlackEvent { event_id, team, installations, author_team, channel, thread, ts, content })
}

/// Returns the mention by a bot or a workflow, which asks for nothing.
fn of_bot(said: Said) -> Option<SlackText> {
    let user = said.user.or(said.bot_id).filter(|id| is_slack_id(id, "UWB"))?;
    Some(SlackText { user, is_mention: true, author: SlackAuthor::Bot, ..SlackText::default() })
}

/// Returns the message of a person.
fn text(said: Said, is_mention: bool, is_direct: bool) -> Option<SlackText> {
    let Said { user, text, bot_id, files, .. } = said;
    let user = user.filter(|id| is_slack_id(id, "UW"))?;
    let text = text.unwrap_or_default().replace('\0', "");
    if bot_id.is_some() || text.len() > TEXT_BYTES {
        return None;
    }
    let files = u32::try_from(files.len()).unwrap_or(u32::MAX);
    Some(SlackText { user, text, is_mention, is_direct, files, ..SlackText::default() })
}

/// Returns whether a text is a timestamp of Slack: seconds and six digits.
fn is_ts(text: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.len() <= 20 && text.split_once('.').is_some_and(|(seconds, rest)| is_number(seconds) && is_number(rest))
}

/// Reads a message of a connection of Socket Mode.
pub(crate) fn envelope(text: &str) -> Result<SlackEnvelope, String> {
    let Envelope { kind, envelope_id, payload } = serde_json::from_str(text).map_err(|error| error.to_string())?;
    Ok(match (kind.as_str(), envelope_id) {
        ("hello", _) => SlackEnvelope::Hello,
        ("disconnect", _) => SlackEnvelope::Disconnect,
        // What cannot be read is acknowledged too: Slack would only send it again.
        (_, Some(id)) => {
            let outer = payload.and_then(|payload| serde_json::from_value::<Outer>(payload).ok());
            let delivery = outer.filter(|_| kind == "events_api").map_or(SlackDelivery::Other, delivery);
            SlackEnvelope::Delivery(id, delivery)
        }
        _ => SlackEnvelope::Other,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(event: Value) -> SlackDelivery {
        let body = json!({ "type": "event_callback", "team_id": "T1", "event_id": "Ev1", "event": event });
        read(body.to_string().as_bytes()).unwrap()
    }

    fn event(event: Value) -> SlackEvent {
        match of(event) {
            SlackDelivery::Event(event) => *event,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_test_of_the_url_is_answered() {
        let body = br#"{"token":"x","challenge":"3eZbrw1a","type":"url_verification"}"#;
        assert_eq!(read(body), Ok(SlackDelivery::Challenge("3eZbrw1a".to_owned())));
        assert!(read(b"payload=x").is_err());
        assert_eq!(read(br#"{"type":"app_rate_limited"}"#), Ok(SlackDelivery::Other));
    }

    #[test]
    fn a_mention_and_a_reply_are_read() {
        let mention = event(json!({
            "type": "app_mention", "user": "U1", "text": "<@UBOT> fix it", "ts": "1700000000.000100", "channel": "C1"
        }));
        assert_eq!((mention.thread.as_str(), mention.ts.as_str()), ("1700000000.000100", "1700000000.000100"));
        let SlackContent::Sent(text) = mention.content else { panic!("it was sent") };
        assert_eq!((text.user.as_str(), text.text.as_str(), text.is_mention), ("U1", "<@UBOT> fix it", true));
        let reply = event(json!({
            "type": "message", "user": "U1", "text": "and that", "ts": "1700000001.000100", "channel": "C1",
            "thread_ts": "1700000000.000100", "channel_type": "channel"
        }));
        assert_eq!((reply.thread.as_str(), reply.ts.as_str()), ("1700000000.000100", "1700000001.000100"));
    }

    #[test]
    fn a_mention_may_have_a_subtype_and_files() {
        for subtype in [None, Some("file_share"), Some("thread_broadcast"), Some("me_message"), Some("new_subtype")] {
            let mention = event(json!({
                "type": "app_mention", "subtype": subtype, "user": "U1", "text": "<@UBOT> see", "ts": "1700000000.000100",
                "channel": "C1", "files": [{ "id": "F1" }, { "id": "F2" }]
            }));
            let SlackContent::Sent(text) = mention.content else { panic!("it was sent") };
            let expected = ("<@UBOT> see", true, 2, SlackAuthor::Member);
            assert_eq!((text.text.as_str(), text.is_mention, text.files, text.author), expected, "{subtype:?}");
        }
        for by_bot in [json!({ "bot_id": "B1", "user": "U9" }), json!({ "bot_id": "B1", "subtype": "bot_message" })] {
            let mut mention = json!({ "type": "app_mention", "text": "<@UBOT> x", "ts": "1.0", "channel": "C1" });
            mention.as_object_mut().unwrap().extend(by_bot.as_object().unwrap().clone());
            let SlackContent::Sent(text) = event(mention).content else { panic!("it was sent") };
            assert_eq!((text.author, text.text.as_str()), (SlackAuthor::Bot, ""), "its text is not kept");
        }
    }

    #[test]
    fn an_event_names_the_installations_and_the_workspace_of_the_author() {
        let mention = json!({
            "type": "app_mention", "user": "U1", "text": "x", "ts": "1.0", "channel": "C1", "user_team": "T9",
        });
        let of = |outer: Value| {
            let mut body = json!({ "type": "event_callback", "event_id": "Ev1", "event": mention });
            body.as_object_mut().unwrap().extend(outer.as_object().unwrap().clone());
            match read(body.to_string().as_bytes()).unwrap() {
                SlackDelivery::Event(event) => *event,
                other => panic!("{other:?}"),
            }
        };
        let shared = of(json!({
            "team_id": "T9", "is_ext_shared_channel": true,
            "authorizations": [{ "enterprise_id": null, "team_id": "T1", "is_enterprise_install": false }],
        }));
        assert_eq!((shared.team.as_str(), shared.author_team.as_deref()), ("T9", Some("T9")));
        let installation = SlackInstallation { team: Some("T1".to_owned()), enterprise: None, is_org_wide: false };
        assert_eq!(shared.installations, [installation]);
        let org = of(json!({
            "enterprise_id": "E1",
            "authorizations": [{ "enterprise_id": "E1", "team_id": null, "is_enterprise_install": true }],
        }));
        assert_eq!((org.team.as_str(), org.installations[0].is_org_wide), ("E1", true));
    }

    #[test]
    fn a_change_without_another_text_is_no_edit() {
        for (previous, is_edit) in [("old", true), ("new", false)] {
            let delivery = of(json!({
                "type": "message", "subtype": "message_changed", "channel": "C1", "ts": "1700000009.000100",
                "message": { "user": "U1", "text": "new", "ts": "1700000000.000100" },
                "previous_message": { "user": "U1", "text": previous, "ts": "1700000000.000100" }
            }));
            assert_eq!(matches!(delivery, SlackDelivery::Event(_)), is_edit, "{previous}");
        }
    }

    #[test]
    fn edits_and_deletions_name_the_message() {
        let edited = event(json!({
            "type": "message", "subtype": "message_changed", "channel": "C1", "ts": "1700000009.000100",
            "message": { "user": "U1", "text": "new", "ts": "1700000000.000100", "thread_ts": "1700000000.000001" }
        }));
        assert!(matches!(edited.content, SlackContent::Edited(_)));
        assert_eq!((edited.ts.as_str(), edited.thread.as_str()), ("1700000000.000100", "1700000000.000001"));
        let deleted = event(json!({
            "type": "message", "subtype": "message_deleted", "channel": "C1", "ts": "1700000009.000100",
            "deleted_ts": "1700000000.000100", "previous_message": { "user": "U1", "thread_ts": "1700000000.000001" }
        }));
        assert_eq!((deleted.ts.as_str(), deleted.content), ("1700000000.000100", SlackContent::Deleted));
    }

    #[test]
    fn messages_of_bots_and_malformed_events_are_left_out() {
        for event in [
            json!({ "type": "message", "subtype": "bot_message", "text": "x", "ts": "1.0", "channel": "C1" }),
            json!({ "type": "message", "user": "U1", "bot_id": "B1", "text": "x", "ts": "1.0", "channel": "C1" }),
            json!({ "type": "message", "subtype": "channel_join", "user": "U1", "ts": "1.0", "channel": "C1" }),
            json!({ "type": "message", "user": "U1", "text": "x", "ts": "now", "channel": "C1" }),
            json!({ "type": "message", "user": "U1", "text": "x", "ts": "1.0", "channel": "../x" }),
            json!({ "type": "message", "user": "me", "text": "x", "ts": "1.0", "channel": "C1" }),
            json!({ "type": "reaction_added", "user": "U1" }),
        ] {
            assert_eq!(of(event.clone()), SlackDelivery::Other, "{event}");
        }
    }

    #[test]
    fn envelopes_are_acknowledged_also_if_they_are_not_used() {
        assert_eq!(envelope(r#"{"type":"hello","num_connections":1}"#), Ok(SlackEnvelope::Hello));
        let disconnect = r#"{"type":"disconnect","reason":"refresh_requested"}"#;
        assert_eq!(envelope(disconnect), Ok(SlackEnvelope::Disconnect));
        let other = r#"{"type":"slash_commands","envelope_id":"e1","payload":{"command":"/x"}}"#;
        assert_eq!(envelope(other), Ok(SlackEnvelope::Delivery("e1".to_owned(), SlackDelivery::Other)));
        let payload = json!({
            "type": "event_callback", "team_id": "T1", "event_id": "Ev1",
            "event": { "type": "app_mention", "user": "U1", "text": "x", "ts": "1.0", "channel": "C1" }
        });
        let text = json!({ "type": "events_api", "envelope_id": "e2", "payload": payload }).to_string();
        let Ok(SlackEnvelope::Delivery(id, SlackDelivery::Event(_))) = envelope(&text) else { panic!("an event") };
        assert_eq!(id, "e2");
        assert!(envelope("{").is_err());
    }
}
