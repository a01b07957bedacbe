//! `journeyman agent list`: lists the known agents and their state.

use std::path::Path;
use std::process::ExitCode;

use journeyman_core::agent::AgentSpec;
use serde::Serialize;

use super::super::look::Look;
use super::super::paint::ColorWhen;
use super::super::store::{print_json, print_lines};
use super::super::table::Column::{Extra, Text, Whole};
use super::super::table::headed;
use crate::config::{self, Settings, installed};

/// An agent and its state on this machine.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    id: String,
    name: Option<String>,
    /// The dialects that the agent speaks with models; empty for any.
    dialects: Vec<&'static str>,
    state: &'static str,
    /// The kinds of tool calls for which the agent asks permission.
    asks: Vec<&'static str>,
    packages: Vec<String>,
}

/// Prints the agents.
pub(super) fn run(settings: &Settings, json: bool, color: ColorWhen) -> anyhow::Result<ExitCode> {
    let line = |(id, spec): (&String, &AgentSpec)| Line {
        id: id.clone(),
        name: spec.name.clone(),
        dialects: spec.dialects.iter().map(|dialect| dialect.name()).collect(),
        state: state(&config::folder(&settings.data_dir, id), spec, &settings.path),
        asks: spec.asks.iter().map(|kind| kind.name()).collect(),
        packages: spec.install.iter().flat_map(|install| install.npm.iter().chain(&install.pip)).cloned().collect(),
    };
    let lines: Vec<Line> = settings.agents.iter().map(line).collect();
    if json {
        print_json(&lines)?;
        return Ok(ExitCode::SUCCESS);
    }
    let row = |line: Line| {
        let dialects = if line.dialects.is_empty() { "any".to_owned() } else { line.dialects.join(", ") };
        let asks = if line.asks.is_empty() { "nothing".to_owned() } else { line.asks.join(", ") };
        [line.id, line.name.unwrap_or_default(), line.state.to_owned(), dialects, asks, line.packages.join(" ")]
    };
    let rows = lines.into_iter().map(row).collect();
    let head = [Whole("ID"), Text("NAME"), Whole("STATE"), Text("MODELS"), Extra("ASKS FOR"), Extra("PACKAGES")];
    print_lines(&headed(Look::for_stdout(color), head, rows))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns whether a program is at its path or on the search path of agents.
fn is_there(program: &str, path: &str) -> bool {
    if program.contains('/') {
        return Path::new(program).is_file();
    }
    path.split(':').any(|folder| Path::new(folder).join(program).is_file())
}

fn state(folder: &Path, spec: &AgentSpec, path: &str) -> &'static str {
    match (&spec.install, installed(folder)) {
        (None, _) if spec.command.first().is_some_and(|program| is_there(program, path)) => "ready",
        (None, _) => "program not found",
        (Some(install), Some(found)) if found == *install => "installed",
        (Some(_), Some(_)) => "other version",
        (Some(_), None) => "not installed",
    }
}
