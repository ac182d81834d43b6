//! Contents that no read may show any more.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::history::LoggedMessage;

/// Contents that were removed or replaced, each since when no read that begins may show it.
#[derive(Debug, Default)]
pub(super) struct RemovedContents(Mutex<HashMap<u64, Instant>>);

impl RemovedContents {
    /// The change that removed or replaced this content is acknowledged.
    pub(super) fn add(&self, value: u64) {
        self.0.lock().insert(value, Instant::now());
    }

    /// The first of these messages that a read must not have shown if it began then.
    pub(super) fn shown<'a>(
        &self,
        messages: &'a [LoggedMessage],
        began: Instant,
    ) -> Option<&'a LoggedMessage> {
        let gone = self.0.lock();
        let is_gone = |value: u64| gone.get(&value).is_some_and(|since| *since < began);
        messages.iter().find(|message| message.value.is_some_and(is_gone))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn message(seq: u64, value: Option<u64>) -> LoggedMessage {
        LoggedMessage { seq, value, sender: 1, silent: false }
    }

    #[test]
    fn only_reads_that_began_later_are_judged() {
        let (gone, before) = (RemovedContents::default(), Instant::now());
        gone.add(7);
        let after = Instant::now() + Duration::from_millis(1);
        let messages = [message(1, Some(5)), message(2, Some(7)), message(3, None), message(4, Some(0))];
        assert_eq!(gone.shown(&messages, before), None);
        assert_eq!(gone.shown(&messages, after), Some(&messages[1]));
        assert_eq!(gone.shown(&messages[2..], after), None);
    }
}
