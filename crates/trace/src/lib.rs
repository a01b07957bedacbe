//! Connects the spans of this process with the traces of other programs.
//!
//! Spans are made with the macros of `tracing`. If the program exports traces, these functions connect them; otherwise
//! they do nothing.

use journeyman_core::trace::TraceParent;
use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// Makes a span the continuation of a trace that another program has begun. Must be called before the span is entered.
pub fn continue_from(span: &Span, parent: &TraceParent) {
    if let Some(context) = span_context(parent) {
        // Fails only if the program does not export traces.
        let _ = span.set_parent(Context::new().with_remote_span_context(context));
    }
}

/// Links a span to the request that caused it, whose trace has ended or continues elsewhere.
pub fn link(span: &Span, cause: &TraceParent) {
    if let Some(context) = span_context(cause) {
        span.add_link(context);
    }
}

/// Returns the trace context of a span; `None` if the program does not export traces.
#[must_use]
pub fn context_of(span: &Span) -> Option<TraceParent> {
    let context = span.context();
    let context = context.span().span_context().clone();
    if !context.is_valid() {
        return None;
    }
    let flags = context.trace_flags().to_u8();
    format!("00-{}-{}-{flags:02x}", context.trace_id(), context.span_id()).parse().ok()
}

fn span_context(parent: &TraceParent) -> Option<SpanContext> {
    let trace = TraceId::from_hex(parent.trace_id()).ok()?;
    let span = SpanId::from_hex(parent.span_id()).ok()?;
    let flags = if parent.is_sampled() { TraceFlags::SAMPLED } else { TraceFlags::default() };
    Some(SpanContext::new(trace, span, flags, true, TraceState::default()))
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::TracerProvider as _;
    use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    fn parent() -> TraceParent {
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse().unwrap()
    }

    #[test]
    fn a_span_continues_the_trace_of_a_request_and_another_is_linked_to_it() {
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        let context = tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let request = tracing::info_span!("request");
            continue_from(&request, &parent());
            let context = context_of(&request).unwrap();
            let run = tracing::info_span!(parent: None, "run");
            link(&run, &context);
            context
        });
        assert_eq!(context.trace_id(), parent().trace_id());
        assert_ne!(context.span_id(), parent().span_id());
        provider.force_flush().unwrap();
        let spans = exporter.get_finished_spans().unwrap();
        let named = |name: &str| spans.iter().find(|span| span.name == name).unwrap();
        assert_eq!(named("request").parent_span_id.to_string(), parent().span_id());
        let run = named("run");
        assert_ne!(run.span_context.trace_id().to_string(), context.trace_id());
        assert_eq!(run.links.links[0].span_context.span_id().to_string(), context.span_id());
    }

    #[test]
    fn nothing_happens_without_an_exporter() {
        let span = tracing::info_span!("request");
        continue_from(&span, &parent());
        link(&span, &parent());
        assert_eq!(context_of(&span), None);
    }
}
