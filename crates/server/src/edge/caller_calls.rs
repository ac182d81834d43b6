//! How many calls each caller makes, and how they end.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use ahash::RandomState;
use arc_swap::ArcSwap;
use kith_service::{metric, rpc::rights::CallerId};
use metrics::Counter;
use tonic::Code;

use super::codes::CODES;
use crate::auth::{Caller, identity::Identity};

/// Most callers that are counted separately, so that renaming callers again and again makes no endless
/// series.
const CALLERS_MAX: usize = 200;
/// Names the callers beyond [`CALLERS_MAX`]. No configured caller can have a name with brackets.
const OTHERS: &str = "(other)";

/// One caller's calls by code.
#[derive(Debug)]
pub(super) struct CallerCounters {
    caller: Box<str>,
    /// Each is looked up once, so that a call costs no lookup by name.
    counters: [OnceLock<Counter>; CODES.len()],
}

/// All callers' calls. Finding the counters for a caller that has called before takes no lock.
#[derive(Debug)]
pub(super) struct CallerCalls {
    known: ArcSwap<HashMap<CallerId, Arc<CallerCounters>, RandomState>>,
    users: Arc<CallerCounters>,
    nodes: Arc<CallerCounters>,
    others: Arc<CallerCounters>,
}

impl CallerCounters {
    fn of(caller: &str) -> Arc<Self> {
        Arc::new(Self { caller: caller.into(), counters: Default::default() })
    }

    /// Counts a call that ended.
    pub(super) fn count(&self, code: Code) {
        let found = usize::try_from(i32::from(code)).ok();
        let Some((at, counter)) = found.and_then(|at| Some((at, self.counters.get(at)?))) else { return };
        let counter = counter.get_or_init(|| {
            metrics::counter!(metric::CALLER_CALLS.name, "caller" => self.caller.to_string(), "code" => CODES[at])
        });
        counter.increment(1);
    }
}

impl CallerCalls {
    pub(super) fn new() -> Self {
        let of = |by: Identity| CallerCounters::of(by.name().0);
        Self {
            known: ArcSwap::default(),
            users: CallerCounters::of("(user)"),
            nodes: of(Identity::Node),
            others: CallerCounters::of(OTHERS),
        }
    }

    /// The counters for this principal. `None`: it proves nothing, like every client on a node without
    /// callers.
    pub(super) fn of(&self, by: &Identity) -> Option<Arc<CallerCounters>> {
        match by {
            Identity::Anonymous => None,
            Identity::Caller(caller) => Some(self.of_caller(caller)),
            Identity::User(_) => Some(Arc::clone(&self.users)),
            Identity::Node => Some(Arc::clone(&self.nodes)),
        }
    }

    /// The counters for this caller.
    pub(super) fn of_caller(&self, caller: &Caller) -> Arc<CallerCounters> {
        if let Some(known) = self.known.load().get(&caller.id) {
            return Arc::clone(known);
        }
        self.add(caller)
    }

    /// Two first calls from a caller at the same time add it once: both count with the same recorder.
    fn add(&self, caller: &Caller) -> Arc<CallerCounters> {
        let answers = CallerCounters::of(&caller.name);
        self.known.rcu(|known| {
            let mut known = HashMap::clone(known);
            if known.len() < CALLERS_MAX {
                known.entry(caller.id).or_insert_with(|| Arc::clone(&answers));
            }
            known
        });
        self.known.load().get(&caller.id).map_or_else(|| Arc::clone(&self.others), Arc::clone)
    }
}

#[cfg(test)]
mod tests {
    use kith_service::rpc::rights::Rights;
    use metrics_exporter_prometheus::PrometheusBuilder;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::auth::Digest;

    fn caller(name: &str) -> Arc<Caller> {
        Arc::new(Caller {
            id: CallerId::of_name(name),
            name: name.into(),
            rights: Rights::NONE,
            key: Digest::of(name.as_bytes()).key_id(),
            ended: CancellationToken::new(),
        })
    }

    /// The metric's lines after `count` has run.
    fn counted(count: impl FnOnce(&CallerCalls)) -> Vec<String> {
        let recorder = PrometheusBuilder::new().build_recorder();
        metrics::with_local_recorder(&recorder, || count(&CallerCalls::new()));
        let text = recorder.handle().render();
        let mut lines: Vec<_> = text
            .lines()
            .filter_map(|line| Some(line.strip_prefix(metric::CALLER_CALLS.name)?.to_owned()))
            .collect();
        lines.sort();
        lines
    }

    #[test]
    fn calls_are_counted_by_caller_and_code() {
        let counts = counted(|calls| {
            for code in [Code::Ok, Code::Ok, Code::NotFound] {
                calls.of(&Identity::Caller(caller("chat"))).unwrap().count(code);
            }
            calls.of(&Identity::Node).unwrap().count(Code::Ok);
            assert!(calls.of(&Identity::Anonymous).is_none());
        });
        let of = |caller, code, count| format!(r#"{{caller="{caller}",code="{code}"}} {count}"#);
        assert_eq!(counts, [of("(node)", "OK", 1), of("chat", "NOT_FOUND", 1), of("chat", "OK", 2)]);
    }

    #[test]
    fn callers_after_the_first_200_share_a_count() {
        let counts = counted(|calls| {
            for number in (0..300).chain(0..200) {
                calls.of_caller(&caller(&format!("caller-{number}"))).count(Code::Ok);
            }
        });
        assert_eq!(counts.len(), 201);
        assert_eq!(counts[0], r#"{caller="(other)",code="OK"} 100"#);
        assert!(counts[1..].iter().all(|line| line.ends_with(r#",code="OK"} 2"#)), "{counts:?}");
    }
}
