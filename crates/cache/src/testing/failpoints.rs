//! Points between two steps at which a test build can die or wait (feature `failpoints`). Other builds contain no such
//! code.
//!
//! `KITH_FAILPOINT=before_told=die@50` ends the process, without a message, every fiftieth time that a task reaches the
//! point, beginning with the first; with `after_load=wait:300@10` every tenth task waits 300 ms.

/// A point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failpoint {
    /// A write was committed, and not published yet.
    AfterCommit,
    /// This node has dropped its copies, and the shared tier is next.
    BeforePublish,
    /// The change was published, and the caller has no answer yet.
    AfterPublish,
    /// A load has its answer from the store, and has not filled memory yet.
    AfterLoad,
}

/// Dies or waits here, if configured.
#[cfg(not(feature = "failpoints"))]
#[inline]
pub(crate) async fn reach(_: Failpoint) {}

#[cfg(feature = "failpoints")]
pub(crate) use asked::reach;

#[cfg(feature = "failpoints")]
mod asked {
    use std::{
        sync::{
            OnceLock,
            atomic::{AtomicU64, Ordering},
        },
        time::Duration,
    };

    use super::Failpoint;

    /// The configured action.
    #[derive(Debug)]
    struct Asked {
        place: Failpoint,
        /// `None`: dies.
        wait: Option<Duration>,
        /// At every n-th time.
        every: u64,
        times: AtomicU64,
    }

    pub(crate) async fn reach(place: Failpoint) {
        static ASKED: OnceLock<Option<Asked>> = OnceLock::new();
        #[expect(clippy::disallowed_methods, reason = "only in test builds that die on purpose")]
        let asked = ASKED.get_or_init(|| std::env::var("KITH_FAILPOINT").ok().and_then(|text| parse(&text)));
        let Some(asked) = asked.as_ref().filter(|asked| asked.place == place) else { return };
        if !(asked.times.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(asked.every) {
            return;
        }
        match asked.wait {
            Some(time) => tokio::time::sleep(time).await,
            None => std::process::abort(),
        }
    }

    fn parse(text: &str) -> Option<Asked> {
        let (place, what) = text.split_once('=')?;
        let (what, every) = what.split_once('@')?;
        let place = match place {
            "after_commit" => Failpoint::AfterCommit,
            "before_told" => Failpoint::BeforePublish,
            "after_told" => Failpoint::AfterPublish,
            "after_load" => Failpoint::AfterLoad,
            _ => return None,
        };
        let wait = match what.split_once(':') {
            None if what == "die" => None,
            Some(("wait", millis)) => Some(Duration::from_millis(millis.parse().ok()?)),
            Some(_) | None => return None,
        };
        let every = every.parse().ok().filter(|every| *every > 0)?;
        Some(Asked { place, wait, every, times: AtomicU64::new(0) })
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn failpoint_is_parsed_whole_or_refused() {
            let asked = parse("before_told=die@50").unwrap();
            assert_eq!((asked.place, asked.wait, asked.every), (Failpoint::BeforePublish, None, 50));
            let asked = parse("after_load=wait:300@10").unwrap();
            assert_eq!((asked.place, asked.wait), (Failpoint::AfterLoad, Some(Duration::from_millis(300))));
            for wrong in [
                "",
                "before_told",
                "before_told=die",
                "nowhere=die@1",
                "after_load=wait:x@1",
                "after_load=die@0",
            ] {
                assert!(parse(wrong).is_none(), "{wrong}");
            }
        }
    }
}
