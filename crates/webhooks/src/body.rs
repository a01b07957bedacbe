//! The bodies of requests: the event as JSON, or a message for a chat.

use journeyman_core::feed::{FeedEntry, FeedKind};
use journeyman_core::markdown::{cut, discord_line, plain_line, slack_line};
use journeyman_core::slack::text::link;
use journeyman_core::webhook::WebhookFormat;
use serde::Serialize;
use serde_json::{Value, json};

/// The maximum length of a title in a chat, in characters.
const TITLE_CHARS: usize = 200;

#[derive(Serialize)]
struct Standard<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    timestamp: String,
    data: &'a Value,
}

/// Returns the body of a request; `public_url` is the address of the dashboard.
pub(crate) fn body(format: WebhookFormat, event: &FeedEntry, public_url: &str) -> Vec<u8> {
    let text = |value: &Value| value.to_string().into_bytes();
    match format {
        WebhookFormat::Standard => {
            let body = Standard { kind: &event.kind, timestamp: event.at.to_string(), data: &event.data };
            serde_json::to_vec(&body).unwrap_or_default()
        }
        WebhookFormat::Slack => text(&slack(&Notice::of(event, public_url))),
        WebhookFormat::Teams => text(&teams(&Notice::of(event, public_url))),
        WebhookFormat::Discord => text(&discord(&Notice::of(event, public_url))),
    }
}

/// The content of a message for a chat.
struct Notice {
    project: String,
    title: String,
    /// What happened, such as "completed".
    what: String,
    /// The page of the job.
    job: String,
    /// The page of the pull request.
    pull: Option<String>,
    reason: Option<String>,
}

impl Notice {
    fn of(event: &FeedEntry, public_url: &str) -> Self {
        let data = &event.data;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let short = |text: String| cut(&text, TITLE_CHARS);
        let pull = text(&data["pullRequest"]["url"]).or_else(|| text(&data["job"]["prLink"]));
        Self {
            project: event.project.to_string(),
            title: short(text(&data["title"]).unwrap_or_else(|| event.job.to_string())),
            what: what(&event.kind),
            job: format!("{public_url}/projects/{}/jobs/{}", event.project, event.job),
            pull: pull.filter(|url| url.starts_with("https://") || url.starts_with("http://")),
            reason: text(&data["reason"]["text"]).map(short),
        }
    }
}

/// Returns what happened, for people.
fn what(kind: &str) -> String {
    let known = match FeedKind::from_name(kind) {
        Some(FeedKind::JobCreated) => "was created",
        Some(FeedKind::JobCompleted) => "is completed",
        Some(FeedKind::JobFailed) => "failed",
        Some(FeedKind::JobArchived) => "was archived",
        Some(FeedKind::JobUnarchived) => "was unarchived",
        Some(FeedKind::MessageFinished) => "finished a message",
        Some(FeedKind::MessageFailed) => "did not finish a message",
        Some(FeedKind::PullRequestOpened) => "opened a pull request",
        Some(FeedKind::PullRequestUpdated) => "updated its pull request",
        Some(FeedKind::PullRequestMerged) => "has a pull request that was merged",
        Some(FeedKind::PullRequestClosed) => "has a pull request that was closed",
        Some(FeedKind::PullRequestReopened) => "has a pull request that was opened again",
        Some(FeedKind::ChecksSettled) => "has checks that finished",
        Some(FeedKind::BudgetReached) => "has reached a budget",
        None => return kind.to_owned(),
    };
    known.to_owned()
}

/// Formatted text of Slack (<https://docs.slack.dev/messaging/formatting-message-text>).
fn slack(notice: &Notice) -> Value {
    let mut text = format!("{}: {} {}", slack_line(&notice.project), link(&notice.job, &notice.title), notice.what);
    if let Some(pull) = &notice.pull {
        text = format!("{text} ({})", link(pull, "pull request"));
    }
    if let Some(reason) = &notice.reason {
        text = format!("{text}\n{}", slack_line(reason));
    }
    json!({ "text": text, "unfurl_links": false, "unfurl_media": false })
}

/// An adaptive card for Microsoft Teams (<https://adaptivecards.io/explorer/>).
fn teams(notice: &Notice) -> Value {
    // Teams reads Markdown in text blocks. Titles and reasons are shown as they are.
    let plain = |text: &str| json!({ "type": "TextRun", "text": plain_line(text) });
    let line = format!("{}: {} {}", notice.project, notice.title, notice.what);
    let mut body = vec![json!({ "type": "RichTextBlock", "inlines": [plain(&line)] })];
    body.extend(notice.reason.iter().map(|reason| json!({ "type": "RichTextBlock", "inlines": [plain(reason)] })));
    let mut actions = vec![json!({ "type": "Action.OpenUrl", "title": "Open job", "url": notice.job })];
    let open = |url: &String| json!({ "type": "Action.OpenUrl", "title": "Open pull request", "url": url });
    actions.extend(notice.pull.iter().map(open));
    json!({
        "type": "message",
        "attachments": [{
            "contentType": "application/vnd.microsoft.card.adaptive",
            "content": {
                "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                "type": "AdaptiveCard",
                "version": "1.4",
                "body": body,
                "actions": actions,
            },
        }],
    })
}

/// An embed of Discord (<https://discord.com/developers/docs/resources/webhook#execute-webhook>), which mentions no one.
/// Discord shows no previews of links in embeds. The flag that suppresses previews would also suppress the embed.
fn discord(notice: &Notice) -> Value {
    let mut lines: Vec<String> = notice.reason.iter().map(|reason| discord_line(reason)).collect();
    lines.extend(notice.pull.iter().map(|url| format!("Pull request: <{url}>")));
    json!({
        "allowed_mentions": { "parse": [] },
        "embeds": [{
            "title": cut(&format!("{}: {} {}", notice.project, discord_line(&notice.title), notice.what), 256),
            "url": notice.job,
            "description": lines.join("\n"),
        }],
    })
}

#[cfg(test)]
mod tests {
    use journeyman_core::ids::JobId;
    use journeyman_core::time::Timestamp;
    use uuid::Uuid;

    use super::*;

    fn event() -> FeedEntry {
        let job = JobId::from_uuid(Uuid::nil());
        FeedEntry {
            position: 7,
            kind: "job.failed".to_owned(),
            at: Timestamp::from_micros(1_795_338_000_000_000),
            project: "shop".parse().unwrap(),
            job,
            data: json!({
                "job": { "id": job, "prLink": "https://git.example/a/pull/7" },
                "title": "Fix <b> & *all* | @here",
                "reason": { "code": "timed_out", "text": "It took <too> long." },
                "pullRequest": null,
            }),
        }
    }

    fn sent(format: WebhookFormat) -> Value {
        serde_json::from_slice(&body(format, &event(), "https://jm.example")).unwrap()
    }

    const PAGE: &str = "https://jm.example/projects/shop/jobs/job_00000000000000000000000000000000";

    #[test]
    fn the_standard_body_has_the_type_the_time_and_the_data() {
        let text = String::from_utf8(body(WebhookFormat::Standard, &event(), "")).unwrap();
        assert!(
            text.starts_with(r#"{"type":"job.failed","timestamp":"2026-11-22T09:00:00.000Z","data":{"job":"#),
            "{text}"
        );
        assert_eq!(sent(WebhookFormat::Standard)["data"], event().data);
    }

    #[test]
    fn a_chat_shows_the_texts_of_a_job_as_they_are() {
        let slack = sent(WebhookFormat::Slack);
        let title = "Fix &lt;b&gt; &amp; *all* / @here";
        let expected = format!(
            "shop: <{PAGE}|{title}> failed (<https://git.example/a/pull/7|pull request>)\nIt took &lt;too&gt; long."
        );
        assert_eq!(slack["text"], expected);
        assert_eq!((&slack["unfurl_links"], &slack["unfurl_media"]), (&json!(false), &json!(false)));
        let card = &sent(WebhookFormat::Teams)["attachments"][0]["content"];
        assert_eq!(card["body"][0]["inlines"][0]["text"], "shop: Fix <b> & *all* | @here failed");
        assert_eq!((card["actions"][0]["url"].clone(), card["actions"].as_array().unwrap().len()), (json!(PAGE), 2));
        let discord = sent(WebhookFormat::Discord);
        assert_eq!(discord["allowed_mentions"], json!({ "parse": [] }));
        assert_eq!(discord["embeds"][0]["title"], r"shop: Fix \<b\> & \*all\* \| \@here failed");
        assert_eq!(
            discord["embeds"][0]["description"],
            "It took \\<too\\> long\\.\nPull request: <https://git.example/a/pull/7>"
        );
    }

    #[test]
    fn every_type_has_words() {
        for kind in FeedKind::ALL {
            assert_ne!(what(kind.name()), kind.name(), "{kind:?}");
        }
        assert_eq!(what("job.of_a_newer_version"), "job.of_a_newer_version");
    }
}
