//! The log filter in a running process.

use std::{sync::OnceLock, time::Duration};

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};
use tracing::{Level, Metadata};
use tracing_subscriber::{
    EnvFilter, Registry,
    filter::{FilterFn, LevelFilter, filter_fn},
    reload,
};

use super::audit::TARGET;

/// The prefix that this product's targets have.
const OURS: &str = "kith";

/// The process's filter. The first set-up owns it, as it owns the logs.
static FILTER: OnceLock<LogFilter> = OnceLock::new();

struct LogFilter {
    handle: reload::Handle<EnvFilter, Registry>,
    state: Mutex<FilterState>,
}

/// The filter's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FilterState {
    /// The present filter.
    pub(crate) filter: String,
    /// The configured filter.
    pub(crate) configured: String,
    /// When the configured filter is restored; `None`: it is in effect.
    pub(crate) until: Option<Instant>,
}

/// The reason why a filter was refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FilterError {
    /// The text is not a valid filter.
    #[error("{0}")]
    Unreadable(#[from] tracing_subscriber::filter::ParseError),
    /// Another library writes this process's logs.
    #[error("another logger is installed in this process")]
    NotOurs,
}

/// The filter, to be set up.
pub(super) fn layer(filter: &str) -> Result<reload::Layer<EnvFilter, Registry>, FilterError> {
    let (layer, handle) = reload::Layer::new(EnvFilter::try_new(filter)?);
    let filter = filter.to_owned();
    let state = FilterState { filter: filter.clone(), configured: filter, until: None };
    FILTER.get_or_init(|| LogFilter { handle, state: Mutex::new(state) });
    Ok(layer)
}

/// Accepts this product's lines, and library lines without stored data, from `info` up. With `library_lines`
/// it accepts all library lines.
pub(super) fn libraries(library_lines: bool) -> FilterFn<impl Fn(&Metadata<'_>) -> bool> {
    let is_written = move |line: &Metadata<'_>| {
        library_lines || line.target().starts_with(OURS) || *line.level() <= Level::INFO
    };
    // Without a hint every line below the other filter's level would be evaluated.
    filter_fn(is_written).with_max_level_hint(LevelFilter::TRACE)
}

/// Lets through all security events, whatever the other filters say. `written`: false lets through nothing.
pub(super) fn security_events(written: bool) -> FilterFn<impl Fn(&Metadata<'_>) -> bool> {
    filter_fn(move |line| written && line.target() == TARGET).with_max_level_hint(LevelFilter::INFO)
}

/// From now on, writes the lines that this filter lets through. With a time, the configured filter returns
/// when that time has passed; without a time, this filter becomes the configured filter. An earlier request
/// is forgotten. Call it within the runtime.
///
/// # Errors
/// If it is not a valid filter; nothing is changed then.
pub(crate) fn filter_log(filter: &str, lasts: Option<Duration>) -> Result<FilterState, FilterError> {
    let ours = FILTER.get().ok_or(FilterError::NotOurs)?;
    let until = lasts.map(|lasts| Instant::now() + lasts);
    let state = ours.set(&mut ours.state.lock(), filter, until)?;
    if let Some((until, lasts)) = until.zip(lasts) {
        tokio::spawn(async move {
            sleep(lasts).await;
            ours.revert(until);
        });
    }
    Ok(state)
}

/// Restores the configured filter.
///
/// # Errors
/// If another library writes this process's logs.
pub(crate) fn filter_log_as_configured() -> Result<FilterState, FilterError> {
    let ours = FILTER.get().ok_or(FilterError::NotOurs)?;
    ours.as_configured(&mut ours.state.lock())
}

impl LogFilter {
    /// Sets the filter.
    fn set(
        &self,
        state: &mut FilterState,
        filter: &str,
        until: Option<Instant>,
    ) -> Result<FilterState, FilterError> {
        let parsed = EnvFilter::try_new(filter)?;
        self.handle.reload(parsed).map_err(|_| FilterError::NotOurs)?;
        filter.clone_into(&mut state.filter);
        state.until = until;
        if until.is_none() {
            filter.clone_into(&mut state.configured);
        }
        Ok(state.clone())
    }

    fn as_configured(&self, state: &mut FilterState) -> Result<FilterState, FilterError> {
        let configured = state.configured.clone();
        self.set(state, &configured, None)
    }

    /// Unless another filter was set since.
    fn revert(&self, asked: Instant) {
        let mut state = self.state.lock();
        if state.until != Some(asked) {
            return;
        }
        let reverted = self.as_configured(&mut state);
        drop(state);
        if let Ok(now) = reverted {
            tracing::info!(filter = now.filter, "log lines are filtered as configured again");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{io, sync::Arc};

    use tracing_subscriber::{
        Layer as _, filter::FilterExt as _, fmt::MakeWriter, layer::SubscriberExt as _,
    };

    use super::*;

    const LASTS: Duration = Duration::from_secs(60);

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Lines {
        fn of(&self, words: &str) -> usize {
            String::from_utf8_lossy(&self.0.lock()).matches(words).count()
        }
    }

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Lines {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    #[test]
    fn lines_of_libraries_are_written_from_info_up() {
        for (library_lines, expected) in [(false, [true, false, true]), (true, [true, true, true])] {
            let filter = EnvFilter::new("trace,fred=trace").and(libraries(library_lines));
            let lines = tracing_subscriber::fmt::layer().with_filter(filter);
            let _logs = tracing::subscriber::set_default(tracing_subscriber::registry().with(lines));
            let written = [
                tracing::enabled!(target: "kith_server::edge", Level::TRACE),
                tracing::enabled!(target: "fred", Level::DEBUG),
                tracing::enabled!(target: "fred", Level::INFO),
            ];
            assert_eq!(written, expected, "library_lines = {library_lines}");
        }
    }

    #[test]
    fn no_filter_drops_security_events() {
        let lines = Lines::default();
        for filter in ["off", "error,kith::audit=off", "kith_server=trace"] {
            let filter = EnvFilter::new(filter).and(libraries(false)).or(security_events(true));
            let layer = tracing_subscriber::fmt::layer().with_writer(lines.clone()).with_filter(filter);
            let _logs = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
            tracing::info!(target: TARGET, event = "written", "security event");
            tracing::info!(target: "kith_server", event = "dropped", "security event");
        }
        assert_eq!((lines.of("written"), lines.of("dropped")), (3, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn temporary_filter_yields_to_the_configured() {
        let layer = layer("warn").unwrap();
        let lines = tracing_subscriber::fmt::layer().with_filter(layer);
        let _logs = tracing::subscriber::set_default(tracing_subscriber::registry().with(lines));
        let debug = || tracing::enabled!(tracing::Level::DEBUG);
        assert!(!debug());

        filter_log("debug", Some(LASTS)).unwrap();
        assert!(debug());
        assert!(matches!(filter_log("debug,,=x=", Some(LASTS)), Err(FilterError::Unreadable(_))));
        filter_log("debug", Some(LASTS * 3)).unwrap();
        sleep(LASTS * 2).await;
        assert!(debug(), "the later wish counts");
        sleep(LASTS * 2).await;
        assert!(!debug());

        filter_log("debug", Some(LASTS)).unwrap();
        filter_log("error", None).unwrap();
        sleep(LASTS * 2).await;
        let state = FILTER.get().unwrap().state.lock().clone();
        assert_eq!((state.filter.as_str(), state.configured.as_str(), state.until), ("error", "error", None));
    }
}
