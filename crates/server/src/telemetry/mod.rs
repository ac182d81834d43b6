//! The process's logs, traces and metrics. Set up once; a second set-up changes nothing.

pub mod audit;
pub(crate) mod instance;
mod log_filter;
pub(crate) mod process;

use std::{io::IsTerminal as _, sync::OnceLock, time::Duration};

use kith_cache::spans::TRACE_TARGET;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use opentelemetry::{KeyValue, global, trace::TracerProvider as _};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::{Resource, propagation::TraceContextPropagator, trace::SdkTracerProvider};
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::{
    Layer, Registry,
    filter::{FilterExt as _, Targets},
    fmt::MakeWriter,
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

pub(crate) use self::log_filter::{FilterError, FilterState, filter_log, filter_log_as_configured};
use crate::{
    build_info,
    config::{LogFormat, TelemetryConfig},
    start_error::StartError,
};

/// Log lines that may wait to be written. Further ones are dropped and counted: no call waits for a log.
const LINES_MAX: usize = 16_384;

/// Buckets in seconds, from a memory read to the longest deadline.
const SECONDS: [f64; 14] =
    [0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.0, 10.0];
/// Buckets for counts, such as writes in one commit.
const SIZES: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

type BoxLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// Keeps logs and traces running; waiting lines are written when it is dropped.
#[derive(Debug)]
pub struct Telemetry {
    _writer: WorkerGuard,
    spans: Option<SdkTracerProvider>,
}

/// Guards the log writer.
static DROPPED: OnceLock<ErrorCounter> = OnceLock::new();

/// How many log lines this process dropped because they were not read.
#[must_use]
pub fn dropped_lines() -> u64 {
    DROPPED.get().map_or(0, |dropped| dropped.dropped_lines() as u64)
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        if let Some(spans) = &self.spans
            && let Err(error) = spans.shutdown_with_timeout(Duration::from_secs(2))
        {
            tracing::warn!(%error, "spans were lost at the end");
        }
    }
}

/// Sets up logs on standard error, and traces where configured. Must be called within the runtime.
///
/// # Errors
/// If the filter or the endpoint is invalid.
pub fn start(config: &TelemetryConfig) -> Result<Telemetry, StartError> {
    start_with(config, true)
}

/// Like [`start`], but the filter drops security events like other lines: for a node that is a demonstration.
///
/// # Errors
/// Returns the errors of [`start`].
pub fn start_demonstration(config: &TelemetryConfig) -> Result<Telemetry, StartError> {
    start_with(config, false)
}

fn start_with(config: &TelemetryConfig, security_events: bool) -> Result<Telemetry, StartError> {
    let filter = log_filter::layer(&config.log_filter)
        .map_err(|error| StartError::new(format!("telemetry.log_filter: {error}")))?;
    let filter = filter
        .and(log_filter::libraries(config.library_lines))
        .or(log_filter::security_events(security_events));
    let (writer, guard) =
        NonBlockingBuilder::default().lossy(true).buffered_lines_limit(LINES_MAX).finish(std::io::stderr());
    DROPPED.get_or_init(|| writer.error_counter());
    let spans = spans(config)?;
    let mut layers: Vec<BoxLayer> = vec![lines(config.log_format, writer).with_filter(filter).boxed()];
    if let Some(provider) = &spans {
        global::set_text_map_propagator(TraceContextPropagator::new());
        let exported = Targets::new().with_target(TRACE_TARGET, tracing::Level::DEBUG);
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("kith"));
        // This program's files, lines and threads mean nothing to readers of traces.
        let layer =
            layer.with_location(false).with_threads(false).with_tracked_inactivity(false).with_target(false);
        layers.push(layer.with_filter(exported).boxed());
    }
    // This fails when the process has a subscriber already, as tests do: that subscriber stays.
    drop(tracing_subscriber::registry().with(layers).try_init());
    Ok(Telemetry { _writer: guard, spans })
}

/// Sets up the log for a command that opens the data itself: its security events alone, on standard error.
/// The command prints everything else itself.
pub fn start_security_events(config: &TelemetryConfig) {
    let lines = lines(config.log_format, std::io::stderr).with_filter(log_filter::security_events(true));
    // This fails when the process has a subscriber already, which then has the lines.
    drop(tracing_subscriber::registry().with(lines).try_init());
}

fn lines(format: LogFormat, writer: impl for<'a> MakeWriter<'a> + Send + Sync + 'static) -> BoxLayer {
    let layer = tracing_subscriber::fmt::layer().with_writer(writer);
    match format {
        LogFormat::Text => layer.with_ansi(std::io::stderr().is_terminal()).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    }
}

fn spans(config: &TelemetryConfig) -> Result<Option<SdkTracerProvider>, StartError> {
    let Some(endpoint) = &config.otlp_endpoint else { return Ok(None) };
    let exporter = SpanExporter::builder()
        .with_tonic()
        .with_endpoint(endpoint)
        .build()
        .map_err(|error| StartError::new(format!("telemetry.otlp_endpoint: {error}")))?;
    let resource = Resource::builder().with_service_name(config.service_name.clone()).with_attributes([
        KeyValue::new("service.version", build_info::FULL),
        KeyValue::new("service.instance.id", instance::id()),
    ]);
    Ok(Some(
        SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource.build()).build(),
    ))
}

/// The process's metrics; the first call installs the recorder.
///
/// # Errors
/// If another recorder is installed.
pub fn metrics() -> Result<PrometheusHandle, StartError> {
    static RECORDER: OnceLock<Option<PrometheusHandle>> = OnceLock::new();
    let handle = RECORDER.get_or_init(|| {
        let builder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)
            .and_then(|builder| builder.set_buckets_for_metric(Matcher::Suffix("_size".to_owned()), &SIZES));
        let handle = builder.and_then(PrometheusBuilder::install_recorder).ok();
        crate::metrics_table::describe();
        crate::build_info::export();
        handle
    });
    handle.clone().ok_or_else(|| StartError::new("the recorder of metrics cannot be installed"))
}
