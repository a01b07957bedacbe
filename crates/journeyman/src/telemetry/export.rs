//! The export of traces to an OpenTelemetry collector: OTLP over HTTP with protocol buffers
//! (<https://opentelemetry.io/docs/specs/otlp/>).

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use anyhow::Context;
use async_trait::async_trait;
use bytes::Bytes;
use journeyman_net::{Client, Limits, Settings as NetSettings};
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

/// The time for exporting the last spans when the service stops.
const LAST_EXPORT: Duration = Duration::from_secs(5);

/// The maximum size of the collector's answer in bytes. It contains at most an error message.
const ANSWER_BYTES: usize = 64 << 10;

/// Exports spans in batches, from a separate thread.
pub(super) struct Exporter {
    provider: SdkTracerProvider,
    /// Sends the requests. It lives longer than the runtime of the service, whose last spans are exported at its end.
    _runtime: Runtime,
}

impl Exporter {
    /// # Errors
    /// The runtime or the HTTP client cannot be built.
    pub(super) fn new(settings: &OtlpSettings) -> anyhow::Result<Self> {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).thread_name("otlp").enable_all().build();
        let runtime = runtime.context("the runtime of the trace exporter could not be built")?;
        let collector = Collector { client: Client::new(&NetSettings::default())?, handle: runtime.handle().clone() };
        let headers: HashMap<String, String> =
            settings.headers.iter().map(|(name, value)| (name.clone(), value.0.clone())).collect();
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(collector)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(settings.endpoint.as_str())
            .with_headers(headers)
            .with_timeout(REQUEST_TIME)
            .build()
            .context("the trace exporter could not be built")?;
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(settings.sample))))
            .with_resource(Resource::builder().with_service_name("journeyman").with_attribute(version).build())
            .build();
        Ok(Self { provider, _runtime: runtime })
    }

    pub(super) fn tracer(&self) -> SdkTracer {
        self.provider.tracer("journeyman")
    }

    /// Exports the spans that are left.
    pub(super) fn end(self) {
        if let Err(error) = self.provider.shutdown_with_timeout(LAST_EXPORT) {
            tracing::warn!(%error, "the last traces could not be exported");
        }
    }
}

/// Sends requests to the collector from the runtime of the exporter.
struct Collector {
    client: Client,
    handle: tokio::runtime::Handle,
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Collector")
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let limits = Limits { time: REQUEST_TIME, bytes: ANSWER_BYTES };
        Ok(self.handle.spawn(async move { client.send(request, limits).await }).await??)
    }
}
