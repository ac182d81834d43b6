//! Points between two steps at which a test build can die or wait (feature `failpoints`). Other builds
//! contain no such code.
//!
//! `KITH_FAILPOINT=before_publish=die@50` ends the process, without a message, every fiftieth time that a
//! task reaches the point, beginning with the first; with `after_load=wait:300@10` every tenth task waits 300
//! ms.

/// A point at which a test build can stop.
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
pub(crate) use configured::reach;

#[cfg(feature = "failpoints")]
mod configured {
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
    struct ConfiguredFailpoint {
        point: Failpoint,
        /// `None`: the process dies.
        wait: Option<Duration>,
        /// The action happens every n-th time.
        every: u64,
        times: AtomicU64,
    }

    pub(crate) async fn reach(point: Failpoint) {
        static CONFIGURED: OnceLock<Option<ConfiguredFailpoint>> = OnceLock::new();
        #[expect(clippy::disallowed_methods, reason = "only in test builds that die on purpose")]
        let configured =
            CONFIGURED.get_or_init(|| std::env::var("KITH_FAILPOINT").ok().and_then(|text| parse(&text)));
        let Some(configured) = configured.as_ref().filter(|configured| configured.point == point) else {
            return;
        };
        if !(configured.times.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(configured.every) {
            return;
        }
        match configured.wait {
            Some(time) => tokio::time::sleep(time).await,
            None => std::process::abort(),
        }
    }

    fn parse(text: &str) -> Option<ConfiguredFailpoint> {
        let (point, action) = text.split_once('=')?;
        let (action, every) = action.split_once('@')?;
        let point = match point {
            "after_commit" => Failpoint::AfterCommit,
            "before_publish" => Failpoint::BeforePublish,
            "after_publish" => Failpoint::AfterPublish,
            "after_load" => Failpoint::AfterLoad,
            _ => return None,
        };
        let wait = match action.split_once(':') {
            None if action == "die" => None,
            Some(("wait", millis)) => Some(Duration::from_millis(millis.parse().ok()?)),
            Some(_) | None => return None,
        };
        let every = every.parse().ok().filter(|every| *every > 0)?;
        Some(ConfiguredFailpoint { point, wait, every, times: AtomicU64::new(0) })
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn failpoint_is_parsed_whole_or_refused() {
            let configured = parse("before_publish=die@50").unwrap();
            assert_eq!(
                (configured.point, configured.wait, configured.every),
                (Failpoint::BeforePublish, None, 50)
            );
            let configured = parse("after_load=wait:300@10").unwrap();
            assert_eq!(
                (configured.point, configured.wait),
                (Failpoint::AfterLoad, Some(Duration::from_millis(300)))
            );
            for wrong in [
                "",
                "before_publish",
                "before_publish=die",
                "nowhere=die@1",
                "after_load=wait:x@1",
                "after_load=die@0",
            ] {
                assert!(parse(wrong).is_none(), "{wrong}");
            }
        }
    }
}
