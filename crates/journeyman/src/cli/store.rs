//! Shared parts of the commands that access the store directly, with or without a running service.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use journeyman_core::ports::Store;
use serde::Serialize;

use crate::app;
use crate::config::{self, Layer, Settings};

/// The installation that a command works on, named by settings of `journeyman serve`.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Installation")]
pub(super) struct StoreArgs {
    /// Configuration file of the service
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,

    /// Data directory of the service
    #[arg(long, value_name = "DIR", global = true)]
    data_dir: Option<PathBuf>,

    /// Database of the service
    #[arg(long, value_name = "URL", global = true)]
    database_url: Option<String>,

    /// File with the key that encrypts secrets; required with PostgreSQL
    #[arg(long, value_name = "FILE", global = true)]
    master_key_file: Option<PathBuf>,

    /// Files with further keys that decrypt secrets
    #[arg(long, value_name = "FILE", value_delimiter = ',', global = true)]
    other_master_key_files: Option<Vec<PathBuf>>,
}

impl StoreArgs {
    /// Returns whether an option names the installation.
    pub(super) fn is_given(&self) -> bool {
        let Self { config, data_dir, database_url, master_key_file, other_master_key_files } = self;
        config.is_some()
            || data_dir.is_some()
            || database_url.is_some()
            || master_key_file.is_some()
            || other_master_key_files.is_some()
    }

    /// Returns the settings of the service.
    pub(super) fn settings(self) -> anyhow::Result<Settings> {
        let Self { config, data_dir, database_url, master_key_file, other_master_key_files } = self;
        config::load(Layer {
            config,
            data_dir,
            database_url,
            master_key_file,
            other_master_key_files,
            ..Layer::default()
        })
    }

    /// Opens the store of the service, and returns it with the settings.
    pub(super) async fn open(self) -> anyhow::Result<(Settings, Arc<dyn Store>)> {
        let settings = self.settings()?;
        let store = app::open_store(&settings).await?;
        Ok((settings, store))
    }
}

/// Runs the asynchronous part of a command.
pub(super) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("the runtime could not be started")?.block_on(work)
}

/// The reader of stdout has closed the pipe, as in `journeyman job list | head -1`.
#[derive(Debug)]
struct OutputClosed;

impl std::fmt::Display for OutputClosed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("the reader of the output has closed the pipe")
    }
}

impl std::error::Error for OutputClosed {}

/// Returns whether an error is [`OutputClosed`].
pub(super) fn is_output_closed(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<OutputClosed>())
}

/// Writes bytes to stdout.
///
/// # Errors
/// [`OutputClosed`] if the reader of stdout has closed the pipe.
pub(super) fn write_out(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => io::Error::new(io::ErrorKind::BrokenPipe, OutputClosed),
        _ => error,
    })
}

/// Prints a line on stdout.
pub(super) fn print(line: &str) -> io::Result<()> {
    write_out(format!("{line}\n").as_bytes())
}

/// Prints lines on stdout.
pub(super) fn print_lines(lines: &[String]) -> io::Result<()> {
    lines.iter().try_for_each(|line| print(line))
}

/// Prints a document as JSON on stdout.
pub(super) fn print_json(document: &impl Serialize) -> anyhow::Result<()> {
    Ok(print(&serde_json::to_string_pretty(document)?)?)
}
