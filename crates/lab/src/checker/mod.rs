//! Judges a history: whether the cluster kept its promises under the faults.
//!
//! [`check`] groups the events by record, and each check reads all records. The store numbers the writes of a
//! record, so the answers show the order in which writes took effect, and no search for an order is needed.
//! Every check is linear in the number of events, except for sorting.
//!
//! Memory: about 200 bytes for each event, and 80 more during the check. Two million events take some seconds
//! in a release build. At most [`KEPT`] violations of each check are kept as text, the others are counted.
//!
//! A history must be complete: it contains how every record that is read in it was created, and every write.

mod codes;
mod convergence;
mod faults;
mod lost;
mod messages;
mod names;
mod records;
mod register;
mod relations;
mod report;
mod requests;
mod restarts;
mod sessions;
mod shown;
mod staleness;
mod values;

use std::{collections::BTreeMap, time::Duration};

pub(crate) use codes::is_outage_code;
pub(crate) use relations::relations_agree;
pub use report::{CheckResult, KEPT, Report};
pub(crate) use requests::repeated_requests;
pub use staleness::{Ages, Staleness};

use self::{
    faults::{Faults, nanos},
    messages::Messages,
    records::Records,
    relations::Relations,
    restarts::Restarts,
};
use crate::history::{Call, Event, Fault, Outcome, RecordEnd, UserRequest};

/// How old a cached answer may be, and what counts as undisturbed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum staleness for an undisturbed read: no fault had an effect during it.
    pub healthy: Duration,
    /// The effect that faults without an entry in `by_fault` have.
    pub faulty: FaultEffect,
    /// The effect that these faults have, by name.
    pub by_fault: BTreeMap<String, FaultEffect>,
}

/// The effect that a fault has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultEffect {
    /// Maximum staleness for a read under the fault. Under several faults, the highest bound applies.
    pub bound: Duration,
    /// How long the fault may have an effect after its end.
    pub heals: Duration,
}

impl Bounds {
    fn of(&self, fault: &str) -> FaultEffect {
        self.by_fault.get(fault).copied().unwrap_or(self.faulty)
    }
}

/// How a call counts in a report's totals.
struct CallTraits {
    reads: bool,
    refused: bool,
    open: bool,
}

/// One run's data, as the checks need it.
struct Run<'a> {
    events: &'a [Event],
    records: Records<'a>,
    relations: Relations<'a>,
    messages: Messages<'a>,
    faults: Faults<'a>,
    restarts: Restarts,
    bounds: &'a Bounds,
}

impl<'a> Run<'a> {
    fn new(events: &'a [Event], bounds: &'a Bounds) -> Self {
        let (records, relations) = (Records::new(events), Relations::new(events));
        let (faults, messages) = (Faults::new(faults(events), bounds), Messages::new(events));
        Self { events, records, relations, messages, faults, restarts: Restarts::new(events), bounds }
    }

    fn calls(&self) -> impl Iterator<Item = &'a Call> {
        calls(self.events)
    }

    /// Maximum age that a cached answer may have if its call began and ended at these times.
    fn bound(&self, when: [u64; 2]) -> u64 {
        let most = self.faults.around(when).filter_map(|name| self.faults.bound(name)).max();
        most.unwrap_or_else(|| nanos(self.bounds.healthy))
    }
}

/// Judges the events in one run, which may come in any order. The report has an entry for every check,
/// ordered by number.
#[must_use]
pub fn check(events: &[Event], bounds: &Bounds) -> Report {
    let run = Run::new(events, bounds);
    let (fresh, staleness) = staleness::check(&run);
    let checks = vec![
        sessions::monotonic(&run),
        sessions::own_writes(&run),
        fresh,
        register::check(&run),
        lost::check(&run),
        values::check(&run),
        convergence::check(&run),
        names::check(&run),
        messages::log(&run.messages),
        messages::streams(&run.messages),
        relations::symmetry(&run.relations),
        relations::counts(&run.relations),
        relations::new_enemy(&run.relations),
        messages::marks(&run.messages, |when| run.bound(when)),
        requests::check(&run),
        codes::check(&run),
    ];
    let kinds = run.calls().map(|call| {
        let reads = matches!(call.what, UserRequest::Read(_));
        CallTraits {
            reads,
            refused: matches!(call.outcome, Outcome::Refused(_)),
            open: matches!(call.outcome, Outcome::Open(_)),
        }
    });
    let kinds: Vec<CallTraits> = kinds.chain(run.relations.kinds()).chain(run.messages.kinds()).collect();
    let count = |of: fn(&CallTraits) -> bool| report::number(kinds.iter().filter(|kind| of(kind)).count());
    Report {
        checks,
        staleness,
        events: report::number(events.len()),
        reads: count(|kind| kind.reads),
        writes: count(|kind| !kind.reads),
        refused: count(|kind| kind.refused),
        open: count(|kind| kind.open),
        faults: report::number(faults(events).count()),
    }
}

fn calls(events: &[Event]) -> impl Iterator<Item = &Call> {
    events.iter().filter_map(|event| if let Event::Call(call) = event { Some(call) } else { None })
}

fn faults(events: &[Event]) -> impl Iterator<Item = &Fault> {
    events.iter().filter_map(|event| if let Event::Fault(fault) = event { Some(fault) } else { None })
}

fn held(events: &[Event]) -> impl Iterator<Item = &RecordEnd> {
    events.iter().filter_map(|event| if let Event::Held(held) = event { Some(held) } else { None })
}
