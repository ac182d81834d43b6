//! Spans that show what a call waits for, as parts of its trace. They name namespaces and tiers, and never a
//! key or a value.

use std::future::Future;

use tracing::{Instrument as _, Span, field::Empty, level_filters::LevelFilter};

/// The target of all spans that are exported. They are at level DEBUG.
pub const TRACE_TARGET: &str = "kith::rpc";

/// A step that a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A read that memory does not answer: the shared tier, then the store.
    Load,
    /// A read of the shared tier.
    SharedRead,
    /// A read of the store.
    StoreRead,
    /// A write of the store.
    StoreWrite,
    /// The turn of messages to be appended, and their append.
    Append,
    /// The announcement of changes to the other nodes.
    Publish,
}

impl Step {
    /// Its name, and the kind of span that OpenTelemetry knows.
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Load => ("load", "internal"),
            Self::SharedRead => ("redis read", "client"),
            Self::StoreRead => ("store read", "client"),
            Self::StoreWrite => ("store write", "client"),
            Self::Append => ("append", "internal"),
            Self::Publish => ("publish", "producer"),
        }
    }

    /// Creates this step's span for so many records in a namespace, such as `store read user`; `None`:
    /// `count` records how many. It is a part of the span that is entered, or disabled if there is none:
    /// work in the background has no trace. Disabled, it costs a comparison.
    #[must_use]
    pub fn span(self, namespace: &str, records: impl Into<Option<usize>>) -> Span {
        if LevelFilter::current() < LevelFilter::DEBUG || Span::current().is_disabled() {
            return Span::none();
        }
        let ((step, kind), records): (_, Option<usize>) = (self.names(), records.into());
        tracing::debug_span!(
            target: TRACE_TARGET,
            "step",
            otel.name = %format_args!("{step} {namespace}"),
            otel.kind = kind,
            otel.status_code = Empty,
            kith.records = records.map(as_number),
        )
    }

    /// Runs the step within its span. An error fails the span.
    ///
    /// # Errors
    /// That of the step.
    pub(crate) async fn run<T, E>(
        self,
        namespace: &str,
        records: usize,
        step: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let span = self.span(namespace, records);
        let ended = step.instrument(span.clone()).await;
        if ended.is_err() {
            fail(&span);
        }
        ended
    }
}

/// Records how many records the step of this span is about.
pub(crate) fn count(span: &Span, records: usize) {
    span.record("kith.records", as_number(records));
}

/// Converts to a signed number: OpenTelemetry would show an unsigned number as text.
fn as_number(records: usize) -> i64 {
    i64::try_from(records).unwrap_or(i64::MAX)
}

/// Marks a span as failed.
pub fn fail(span: &Span) {
    span.record("otel.status_code", "ERROR");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No test of this crate exports spans.
    #[test]
    fn step_without_a_trace_is_disabled() {
        for step in [Step::Load, Step::SharedRead, Step::StoreRead, Step::StoreWrite, Step::Publish] {
            assert!(step.span("user", 1).is_none(), "{step:?}: nothing is made");
        }
    }

    #[tokio::test]
    async fn step_without_a_trace_has_its_result() {
        let read = Step::StoreRead.run("user", 1, async { Ok::<_, ()>(7) }).await;
        let failed = Step::StoreRead.run("user", 1, async { Err::<i32, _>("away") }).await;
        assert_eq!((read, failed), (Ok(7), Err("away")));
    }
}
