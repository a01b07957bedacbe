//! The methods of the Web API that the service calls.

use serde_json::{Value, json};

use super::{APP_TOKEN, BOT, BOT_TOKEN, MethodCall, Post, Reply, State, TEAM};

/// The number of messages on a page of a thread. It is small, so that clients must read several.
const PAGE: usize = 2;

/// Returns the answer to a call that was refused.
pub(super) fn refused(code: &str) -> Value {
    json!({ "ok": false, "error": code })
}

/// Carries out a call, and returns its answer.
pub(super) fn answer(state: &mut State, call: &MethodCall, socket_url: &str) -> Value {
    let needed = if call.method == "apps.connections.open" { APP_TOKEN } else { BOT_TOKEN };
    if state.revoked.contains(&call.token) {
        return refused("token_revoked");
    }
    if call.token != needed {
        let is_other_kind = [APP_TOKEN, BOT_TOKEN].contains(&call.token.as_str());
        return refused(if is_other_kind { "not_allowed_token_type" } else { "invalid_auth" });
    }
    match call.method.as_str() {
        "auth.test" => json!({ "ok": true, "team_id": TEAM, "team": "Acme", "user_id": BOT, "bot_id": "B0BOT" }),
        "apps.connections.open" => json!({ "ok": true, "url": socket_url }),
        "chat.postMessage" => post(state, call),
        "chat.update" => update(state, call),
        "reactions.add" => react(state, call),
        "conversations.replies" => replies(state, call),
        _ => refused("unknown_method"),
    }
}

/// Returns whether a message is shown as it is: nothing in it is looked up as a name.
fn is_shown_as_written(call: &MethodCall) -> bool {
    call.arguments["parse"] == "none" && call.arguments["link_names"] == false
}

fn post(state: &mut State, call: &MethodCall) -> Value {
    let has_previews = ["unfurl_links", "unfurl_media"].iter().any(|name| call.arguments[*name] != false);
    if has_previews || !is_shown_as_written(call) {
        return refused("previews_and_names_must_be_off");
    }
    let text = call.text("text");
    if text.is_empty() {
        return refused("no_text");
    }
    let ts = format!("1900000000.{:06}", state.posts.len() + 1);
    let channel = call.text("channel");
    state.posts.push(Post {
        channel: channel.clone(),
        thread: call.text("thread_ts"),
        ts: ts.clone(),
        text,
        before: Vec::new(),
        metadata: call.arguments["metadata"].clone(),
    });
    json!({ "ok": true, "channel": channel, "ts": ts })
}

fn update(state: &mut State, call: &MethodCall) -> Value {
    if !is_shown_as_written(call) {
        return refused("names_must_be_off");
    }
    let (channel, ts, text) = (call.text("channel"), call.text("ts"), call.text("text"));
    let Some(post) = state.posts.iter_mut().find(|post| post.channel == channel && post.ts == ts) else {
        return refused("message_not_found");
    };
    post.before.push(std::mem::replace(&mut post.text, text));
    json!({ "ok": true, "channel": channel, "ts": ts })
}

fn react(state: &mut State, call: &MethodCall) -> Value {
    let reaction = (call.text("channel"), call.text("timestamp"), call.text("name"));
    if state.reactions.contains(&reaction) {
        return refused("already_reacted");
    }
    state.reactions.push(reaction);
    json!({ "ok": true })
}

/// Returns a page of the messages of a thread after `oldest`, oldest first.
fn replies(state: &State, call: &MethodCall) -> Value {
    let (channel, thread, oldest) = (call.text("channel"), call.text("ts"), call.text("oldest"));
    let from: usize = call.text("cursor").parse().unwrap_or_default();
    let with_metadata = call.text("include_all_metadata") == "true";
    let show = |post: &Post| {
        let mut shown =
            json!({ "type": "message", "user": BOT, "ts": post.ts, "text": post.text, "thread_ts": thread });
        if with_metadata {
            shown["metadata"] = post.metadata.clone();
        }
        (post.ts.clone(), shown)
    };
    let show_reply = |reply: &Reply| {
        let shown = json!({ "type": "message", "user": "U0ADA", "ts": reply.ts, "text": "Hm.", "thread_ts": thread });
        (reply.ts.clone(), shown)
    };
    let posts = state.posts.iter().filter(|post| post.channel == channel && post.thread == thread).map(show);
    let replies = state.replies.iter().filter(|reply| reply.channel == channel && reply.thread == thread);
    let mut messages: Vec<(String, Value)> = posts.chain(replies.map(show_reply)).collect();
    // Timestamps have the same length, so texts sort like times.
    messages.retain(|(ts, _)| *ts > oldest);
    messages.sort_by(|one, other| one.0.cmp(&other.0));
    let next = from + PAGE;
    let cursor = if next < messages.len() { next.to_string() } else { String::new() };
    let page: Vec<Value> = messages.into_iter().skip(from).take(PAGE).map(|(_, shown)| shown).collect();
    json!({ "ok": true, "messages": page, "response_metadata": { "next_cursor": cursor } })
}
