//! Tests of the search for a post, against the stand-in for Slack.

use journeyman_core::ports::{Slack as _, SlackError, SlackMessage};
use journeyman_core::secret::SecretValue;
use journeyman_core::time::Timestamp;
use journeyman_slack::Client;
use journeyman_testkit::slack_server::{BOT_TOKEN, SlackServer};

const CHANNEL: &str = "C0SHOP";

const THREAD: &str = "1700000000.000100";

const MARKER: &str = "slw_1/7";

const MESSAGE: SlackMessage<'static> =
    SlackMessage { channel: CHANNEL, thread: THREAD, text: "⏳ Queued.", marker: MARKER };

/// The time from which messages are read. The stand-in gives later timestamps to posts.
const SINCE: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

fn token() -> SecretValue {
    SecretValue(BOT_TOKEN.to_owned())
}

#[tokio::test]
async fn a_post_is_found_after_any_number_of_earlier_messages() {
    let server = SlackServer::start().await;
    let client = Client::new(&server.url).unwrap();
    server.add_replies(CHANNEL, THREAD, 1_750_000_000, 100);
    assert_eq!(client.find(&token(), CHANNEL, THREAD, MARKER, SINCE).await, Ok(None));
    let posted = client.post(&token(), MESSAGE).await.unwrap();
    assert_eq!(client.find(&token(), CHANNEL, THREAD, MARKER, SINCE).await, Ok(Some(posted)));
    assert_eq!(server.calls("conversations.replies"), 2, "earlier messages are not read");
}

#[tokio::test]
async fn a_search_that_cannot_read_all_messages_does_not_say_that_the_post_is_missing() {
    let server = SlackServer::start().await;
    let client = Client::new(&server.url).unwrap();
    server.add_replies(CHANNEL, THREAD, 1_850_000_000, 100);
    client.post(&token(), MESSAGE).await.unwrap();
    let found = client.find(&token(), CHANNEL, THREAD, MARKER, SINCE).await;
    assert!(matches!(found, Err(SlackError::Unavailable(_))), "{found:?}");
}
