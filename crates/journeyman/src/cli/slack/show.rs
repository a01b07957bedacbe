//! The tables of `journeyman slack`.

use journeyman_app::DescribedSlack;
use journeyman_core::ids::UserId;
use journeyman_core::slack::{SlackInboxEvent, SlackMode, SlackOutcome, SlackPost, SlackPostContent, SlackSecret};
use journeyman_core::user::User;

use crate::cli::look::Look;
use crate::cli::table::Column::{Extra, Text, Whole};
use crate::cli::table::{headed, table};

const fn mode(mode: SlackMode) -> &'static str {
    match mode {
        SlackMode::Events => "events",
        SlackMode::Socket => "socket",
    }
}

/// Returns the lines of the list of workspaces.
pub(super) fn workspaces(look: Look, all: &[DescribedSlack]) -> Vec<String> {
    let row = |one: &DescribedSlack| {
        let settings = &one.workspace.settings;
        [
            one.workspace.id.to_string(),
            settings.name.clone(),
            settings.team.clone(),
            mode(settings.mode).to_owned(),
            settings.channels.len().to_string(),
            settings.users.len().to_string(),
        ]
    };
    let head = [Whole("ID"), Text("NAME"), Extra("TEAM"), Extra("MODE"), Extra("CHANNELS"), Extra("PEOPLE")];
    headed(look, head, all.iter().map(row).collect())
}

/// Returns the lines about a workspace, with the names of `users`.
pub(super) fn workspace(described: &DescribedSlack, url: &str, users: &[User]) -> Vec<String> {
    let settings = &described.workspace.settings;
    let name_of = |id: &UserId| {
        let user = users.iter().find(|user| user.id == *id);
        user.map_or_else(|| id.to_string(), |user| user.name.clone())
    };
    let is_set = |secret: SlackSecret| if described.secrets.contains(&secret) { "set" } else { "-" };
    let mut lines = vec![
        ("name", settings.name.clone()),
        ("team", settings.team.clone()),
        ("bot", settings.bot_user.clone()),
        ("mode", mode(settings.mode).to_owned()),
        ("events URL", url.to_owned()),
        ("bot token", is_set(SlackSecret::BotToken).to_owned()),
        ("signing secret", is_set(SlackSecret::SigningSecret).to_owned()),
        ("app token", is_set(SlackSecret::AppToken).to_owned()),
    ];
    lines.extend(settings.channels.iter().map(|(channel, project)| ("channel", format!("{channel}={project}"))));
    lines.extend(settings.users.iter().map(|(account, user)| ("person", format!("{account}={}", name_of(user)))));
    let lines = lines.into_iter().map(|(field, value)| [field.to_owned(), value]).collect();
    table(["id", &described.workspace.id.to_string()], lines)
}

/// Returns the lines of the list of events.
pub(super) fn events(look: Look, events: Vec<SlackInboxEvent>) -> Vec<String> {
    let name = |outcome: SlackOutcome| serde_json::to_value(outcome).ok()?.as_str().map(str::to_owned);
    let row = |event: SlackInboxEvent| {
        [
            event.number.to_string(),
            event.received_at.to_string(),
            event.thread.channel,
            event.state.name().to_owned(),
            event.outcome.and_then(name).unwrap_or_else(|| "-".to_owned()),
            event.job.map_or_else(|| "-".to_owned(), |job| job.to_string()),
            event.detail.unwrap_or_default(),
        ]
    };
    let head = [
        Whole("ID"),
        Extra("RECEIVED"),
        Extra("CHANNEL"),
        Whole("STATE"),
        Whole("OUTCOME"),
        Extra("JOB"),
        Text("DETAIL"),
    ];
    headed(look, head, events.into_iter().map(row).collect())
}

/// Returns the lines of the list of posts.
pub(super) fn posts(look: Look, posts: Vec<SlackPost>) -> Vec<String> {
    let row = |post: SlackPost| {
        let kind = match post.content {
            SlackPostContent::Text(_) => "text",
            SlackPostContent::Reaction { .. } => "reaction",
            SlackPostContent::Status { .. } => "status",
        };
        [
            post.number.to_string(),
            post.created_at.to_string(),
            post.thread.channel,
            kind.to_owned(),
            post.state.name().to_owned(),
            post.detail.unwrap_or_default(),
        ]
    };
    let head = [Whole("ID"), Extra("CREATED"), Extra("CHANNEL"), Extra("KIND"), Whole("STATE"), Text("DETAIL")];
    headed(look, head, posts.into_iter().map(row).collect())
}
