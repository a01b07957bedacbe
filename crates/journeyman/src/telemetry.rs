//! Logging to stderr.

use std::io::IsTerminal;

use anyhow::Context;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

use crate::config::{LogFormat, Settings};

/// Starts logging in the format of the settings.
///
/// # Errors
/// The filter of the settings is invalid.
pub(crate) fn begin(settings: &Settings) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&settings.log).with_context(|| {
        format!("log {:?} is not a valid filter; use a level such as info, or levels by module", settings.log)
    })?;
    let log = fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    // If stderr is closed, reporting the failed write to stderr would panic.
    let log = log.log_internal_errors(false);
    match settings.log_format {
        LogFormat::Text => log.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
    Ok(())
}
