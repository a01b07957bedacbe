//! The log on stderr.

use std::io::IsTerminal;

use anyhow::Context;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

use crate::config::{LogFormat, Settings};

/// Begins to log.
///
/// # Errors
/// The filter cannot be read.
pub(crate) fn begin(settings: &Settings) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&settings.log)
        .with_context(|| format!("log {:?} is no filter; write a level such as info", settings.log))?;
    let log = fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    // Whoever has read it may be gone: that is to be told to nobody, by a panic least of all.
    let log = log.log_internal_errors(false);
    match settings.log_format {
        LogFormat::Text => log.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
    Ok(())
}
