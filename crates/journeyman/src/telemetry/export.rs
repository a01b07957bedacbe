//! The export of traces to an OpenTelemetry collector: OTLP over HTTP with protocol buffers
//! (<https://opentelemetry.io/docs/specs/otlp/>).

use std::fmt;
use std::time::Duration;

use anyhow::Context;
use async_trait::async_trait;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use bytes::Bytes;
use journeyman_core::secret::SecretValue;
use journeyman_net::{Client, Limits, Settings as NetSettings, is_loopback};
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::{HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider};
use tokio::runtime::Runtime;

use crate::config::OtlpSettings;

/// The time limit of a request to the collector.
const REQUEST_TIME: Duration = Duration::from_secs(10);

/// The time limit for exporting the last spans when the service stops.
const LAST_EXPORT: Duration = Duration::from_secs(5);

/// The maximum size of the collector's answer in bytes. It contains at most an error message.
const ANSWER_BYTES: usize = 64 << 10;

/// Exports spans in batches, from a separate thread.
pub(super) struct Exporter {
    provider: SdkTracerProvider,
    /// Sends the requests. This runtime outlives the runtime of the service, whose last spans are exported when it ends.
    runtime: Runtime,
}

impl Exporter {
    /// Builds the exporter.
    ///
    /// # Errors
    /// The runtime cannot be built, or a header is malformed.
    pub(super) fn new(settings: &OtlpSettings) -> anyhow::Result<Self> {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).thread_name("otlp").enable_all().build();
        let runtime = runtime.context("the runtime of the trace exporter could not be built")?;
        // A collector on this machine is not reached through the proxy of the environment.
        let network = NetSettings { no_proxy: is_loopback(&settings.endpoint), ..NetSettings::default() };
        let headers = settings.headers.iter().map(header).collect::<anyhow::Result<_>>()?;
        let collector = Collector { client: Client::new(network), handle: runtime.handle().clone(), headers };
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(collector)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(settings.endpoint.as_str())
            .with_timeout(REQUEST_TIME)
            .build()
            .context("the trace exporter could not be built")?;
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(settings.sample))))
            .with_resource(Resource::builder().with_service_name("journeyman").with_attribute(version).build())
            .build();
        Ok(Self { provider, runtime })
    }

    pub(super) fn tracer(&self) -> SdkTracer {
        self.provider.tracer("journeyman")
    }

    /// Exports the remaining spans.
    pub(super) fn end(self) {
        let Self { provider, runtime } = self;
        if let Err(error) = provider.shutdown_with_timeout(LAST_EXPORT) {
            tracing::warn!(%error, "the last traces could not be exported");
        }
        // Dropping the runtime would wait for name lookups, which have no time limit.
        runtime.shutdown_background();
    }
}

/// Sends requests to the collector from the runtime of the exporter.
struct Collector {
    client: Client,
    handle: tokio::runtime::Handle,
    /// The headers of the settings. They replace those that OpenTelemetry reads from the environment.
    headers: HeaderMap,
}

fn header((name, value): &(String, SecretValue)) -> anyhow::Result<(HeaderName, HeaderValue)> {
    let read = || Some((name.parse().ok()?, HeaderValue::from_str(&value.0).ok()?));
    let (name, mut value): (HeaderName, HeaderValue) =
        read().with_context(|| format!("otlp-headers-file: {name:?} is not a valid header"))?;
    value.set_sensitive(true);
    Ok((name, value))
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Collector")
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, mut request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        for (name, value) in &self.headers {
            request.headers_mut().insert(name, value.clone());
        }
        let limits = Limits { time: REQUEST_TIME, bytes: ANSWER_BYTES };
        Ok(self.handle.spawn(async move { client.send(request, limits).await }).await??)
    }
}
