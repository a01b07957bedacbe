//! `journeyman context`: the servers that `journeyman login` has stored.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use clap_complete::engine::ArgValueCandidates;
use serde_json::json;

use super::complete::contexts::contexts;
use super::contexts::{ContextFile, Contexts};
use super::exit::{Exit, Failure};
use super::look::{Look, plain};
use super::paint::ColorWhen;
use super::session::run as run_with_exit;
use super::store::{print, print_lines};
use super::table::Column::{Extra, Text, Whole};
use super::table::{headed, listed};
use super::{complete, login};
use crate::config::client_environment;

#[derive(Debug, Args)]
pub(crate) struct ContextArgs {
    #[command(subcommand)]
    command: ContextCommand,
}

#[derive(Debug, Subcommand)]
enum ContextCommand {
    /// List the contexts, without their keys
    List {
        /// Print one line of JSON for each context
        #[arg(long)]
        json: bool,
    },
    /// Make a context the current one, and set its project
    Use {
        /// Name of the context
        #[arg(add = ArgValueCandidates::new(contexts))]
        name: String,
        /// Project of commands that name none
        #[arg(short, long, value_name = "PROJECT", add = ArgValueCandidates::new(complete::projects))]
        project: Option<String>,
    },
    /// Remove a context with its key, as `journeyman logout` does
    Remove {
        /// Name of the context
        #[arg(add = ArgValueCandidates::new(contexts))]
        name: String,
    },
}

/// Runs a command.
pub(crate) fn run(arguments: ContextArgs, color: ColorWhen) -> anyhow::Result<ExitCode> {
    run_with_exit(false, async {
        let environment = client_environment();
        match arguments.command {
            ContextCommand::List { json } => {
                let contexts = ContextFile::read_of(&environment)?;
                if json {
                    print_lines(&documents(&contexts))?;
                } else {
                    print_lines(&rows(&contexts, Look::for_stdout(color)))?;
                }
            }
            ContextCommand::Use { name, project } => {
                let file = ContextFile::of(&environment)?;
                let unknown = file.change(|contexts| {
                    let unknown = contexts.unknown(&name);
                    let Some(context) = contexts.contexts.get_mut(&name) else { return Ok(Some(unknown)) };
                    context.project = project.or(context.project.take());
                    contexts.current = Some(name.clone());
                    Ok(None)
                })?;
                if let Some(unknown) = unknown {
                    return Err(Failure::Usage(unknown));
                }
                print(&format!("The context {name} is now the current one."))?;
            }
            ContextCommand::Remove { name } => login::remove(&environment, Some(name))?,
        }
        Ok(Exit::Done)
    })
}

fn documents(contexts: &Contexts) -> Vec<String> {
    let is_current = |name: &str| contexts.current.as_deref() == Some(name);
    let all = contexts.contexts.iter().map(|(name, one)| {
        json!({
            "name": name, "url": one.url, "keyName": one.key_name, "project": one.project, "current": is_current(name),
        })
    });
    all.map(|document| document.to_string()).collect()
}

fn rows(contexts: &Contexts, look: Look) -> Vec<String> {
    let paint = look.paint;
    let all = contexts.contexts.iter().map(|(name, one)| {
        let is_current = contexts.current.as_ref() == Some(name);
        let mark = if is_current { paint.good("*") } else { String::new() };
        let project = one.project.clone().unwrap_or_else(|| "-".to_owned());
        [mark, plain(name), paint.link(&plain(&one.url)), plain(&project), plain(&one.key_name)]
    });
    let head = [Whole("CURRENT"), Text("NAME"), Whole("URL"), Text("PROJECT"), Extra("KEY")];
    let table = headed(look, head, all.collect());
    listed(table, "No contexts; `journeyman login` stores one.")
}

#[cfg(test)]
mod tests {
    use journeyman_core::time::Timestamp;

    use super::*;
    use crate::cli::contexts::Context;
    use crate::cli::paint::Paint;

    #[test]
    fn a_list_shows_the_current_context_and_no_key() {
        let context = |project: Option<&str>| Context {
            url: "http://h".to_owned(),
            key: "jmn_s3cret".to_owned(),
            key_name: "me".to_owned(),
            project: project.map(str::to_owned),
        };
        let mut contexts = Contexts::default();
        contexts.put("a", context(Some("shop")));
        contexts.put("b", context(None));
        let look = Look { paint: Paint::OFF, now: Timestamp::from_micros(0), columns: None };
        let lines = rows(&contexts, look);
        assert_eq!(lines[1], "         a     http://h  shop     me");
        assert_eq!(lines[2], "*        b     http://h  -        me");
        let documents = documents(&contexts);
        assert!(documents[1].contains("\"current\":true"), "{documents:?}");
        assert!(![lines, documents].concat().concat().contains("s3cret"));
    }
}
