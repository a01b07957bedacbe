//! The log on stderr, and the export of traces.

mod export;

use std::io::IsTerminal;

use anyhow::Context;
use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::FilterFn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, fmt};

use self::export::Exporter;
use crate::config::{LogFormat, Settings};

/// Returns whether a span is exported: all spans of this program are, and none of its libraries. Lines of the log are not
/// exported, because their texts may contain anything.
fn is_exported(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && metadata.target().starts_with("journeyman") && *metadata.level() <= Level::DEBUG
}

/// The log and the export of traces, until [`Telemetry::end`].
pub(crate) struct Telemetry {
    exporter: Option<Exporter>,
}

/// Starts logging in the format of the settings, and the export of traces if it is configured.
///
/// # Errors
/// The filter of the settings is invalid, or the exporter cannot be built.
pub(crate) fn begin(settings: &Settings) -> anyhow::Result<Telemetry> {
    let filter = EnvFilter::try_new(&settings.log).with_context(|| {
        format!("log {:?} is not a valid filter; use a level such as info, or levels by module", settings.log)
    })?;
    // The library of the Model Context Protocol logs requests, with their prompts, and reports errors of clients as
    // warnings.
    let filter = filter.add_directive("rmcp=error".parse()?);
    let exporter = settings.otlp.as_ref().map(Exporter::new).transpose()?;
    let log = fmt::layer().with_writer(std::io::stderr).with_target(false);
    // If stderr is closed, reporting the failed write to stderr would panic.
    let log = log.log_internal_errors(false);
    let log = match settings.log_format {
        LogFormat::Text => log.with_ansi(std::io::stderr().is_terminal()).with_filter(filter).boxed(),
        LogFormat::Json => log.json().flatten_event(true).with_current_span(false).with_filter(filter).boxed(),
    };
    let spans = match &exporter {
        Some(exporter) => {
            let exported = FilterFn::new(is_exported).with_max_level_hint(LevelFilter::DEBUG);
            let layer = tracing_opentelemetry::layer().with_tracer(exporter.tracer());
            Some(layer.with_location(false).with_threads(false).with_filter(exported))
        }
        None => None,
    };
    tracing_subscriber::registry().with(log).with(spans).init();
    Ok(Telemetry { exporter })
}

impl Telemetry {
    /// Exports the remaining spans.
    pub(crate) fn end(self) {
        if let Some(exporter) = self.exporter {
            exporter.end();
        }
    }
}
