//! Promises that a row makes beyond the checks for all rows, measured from the clients' history.

use std::collections::BTreeMap;

use super::figure::{Figure, float, millis};
use crate::{
    checker::{is_outage_code, repeated_requests},
    history::{Call, Event, Outcome, RelationOutcome, UserRequest},
};

/// The measures. A call has failed if its answer reports the cluster's state: `UNAVAILABLE` or its like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    /// The longest time after the fault's begin in which no write was acknowledged, in ms.
    Outage,
    /// Failed calls in a hundred, among those that began while the fault was on.
    Failed,
    /// The longest time that a node took from the fault's end to its first answer, in ms.
    Comeback,
    /// The longest time that a failed call about relations took, among those that began while the fault was
    /// on, in ms.
    Refusal,
    /// Writes with an unknown outcome that were sent again and were never answered, among all that were sent
    /// again.
    Unresolved,
}

/// A measure with its upper limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Promise {
    measure: Measure,
    at_most: f64,
}

impl Promise {
    pub(super) const fn new(measure: Measure, at_most: f64) -> Self {
        Self { measure, at_most }
    }

    /// Measures the events in this row.
    pub(super) fn measured(self, row: &str, events: &[Event]) -> Figure {
        // JSON knows nothing infinite.
        let figure = self.figure(events).min(f64::MAX);
        let (name, unit) = self.measure.words();
        Figure::at_most(name, unit, figure, self.at_most).of(row)
    }

    /// The measured value. Infinite: the awaited event never came.
    fn figure(self, events: &[Event]) -> f64 {
        let run = MeasuredRun::new(events);
        match self.measure {
            Measure::Outage => millis(run.outage()),
            Measure::Failed => run.failed(),
            Measure::Comeback => run.comeback().map_or(f64::INFINITY, millis),
            Measure::Refusal => millis(refusal(&run, events)),
            Measure::Unresolved => float(run.unresolved()),
        }
    }
}

impl Measure {
    /// The measure's name and unit.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Outage => ("longest outage", "ms"),
            Self::Failed => ("calls failed", "percent"),
            Self::Comeback => ("first answer afterwards", "ms"),
            Self::Refusal => ("longest refusal", "ms"),
            Self::Unresolved => ("unresolved", "count"),
        }
    }
}

/// A run's calls, and when its fault was on: from its first begin to its last end.
struct MeasuredRun<'a> {
    calls: Vec<&'a Call>,
    on: u64,
    off: u64,
}

impl<'a> MeasuredRun<'a> {
    fn new(events: &'a [Event]) -> Self {
        let (mut calls, mut on, mut off) = (Vec::new(), u64::MAX, 0);
        for event in events {
            match event {
                Event::Call(call) => calls.push(call),
                Event::Fault(fault) if fault.on => on = on.min(fault.at),
                Event::Fault(fault) => off = off.max(fault.at),
                _ => {}
            }
        }
        Self { calls, on, off }
    }

    fn outage(&self) -> u64 {
        let writes = self.calls.iter().filter(|call| is_write(call) && answered(call));
        let mut acknowledged: Vec<u64> = writes.map(|call| call.ended).filter(|at| *at > self.on).collect();
        // The time until the run's end counts, too.
        acknowledged.extend(self.calls.iter().map(|call| call.ended).max().filter(|at| *at > self.on));
        acknowledged.sort_unstable();
        let before = std::iter::once(self.on).chain(acknowledged.iter().copied());
        before.zip(&acknowledged).map(|(before, at)| at - before).max().unwrap_or_default()
    }

    fn failed(&self) -> f64 {
        let during = self.calls.iter().filter(|call| (self.on..=self.off).contains(&call.began));
        let (failed, all) = during.fold((0, 0), |(bad, all), call| (bad + u64::from(failed(call)), all + 1));
        float(failed) * 100.0 / float(all).max(1.0)
    }

    /// `None`: a node that was called has not answered.
    fn comeback(&self) -> Option<u64> {
        let mut first: BTreeMap<u32, Option<u64>> = BTreeMap::new();
        for call in &self.calls {
            let first = first.entry(call.node).or_default();
            if call.ended >= self.off && answered(call) {
                let took = call.ended - self.off;
                *first = Some(first.map_or(took, |first| first.min(took)));
            }
        }
        first.into_values().try_fold(0, |longest, first| Some(longest.max(first?)))
    }

    fn unresolved(&self) -> u64 {
        let requests = repeated_requests(self.calls.iter().copied(), |call| call.request_id.as_deref());
        let is_unresolved = |calls: &&Vec<&Call>| {
            let open = calls.iter().any(|call| matches!(call.outcome, Outcome::Open(_)));
            open && calls.iter().all(|call| failed(call))
        };
        u64::try_from(requests.values().filter(is_unresolved).count()).unwrap_or(u64::MAX)
    }
}

fn refusal(run: &MeasuredRun<'_>, events: &[Event]) -> u64 {
    let failed = events.iter().filter_map(|event| match event {
        Event::Relation(call) if (run.on..=run.off).contains(&call.began) => match &call.outcome {
            RelationOutcome::Refused(code) | RelationOutcome::Open(code) if is_outage_code(code) => {
                Some(call.ended - call.began)
            }
            _ => None,
        },
        _ => None,
    });
    failed.max().unwrap_or_default()
}

const fn is_write(call: &Call) -> bool {
    !matches!(call.what, UserRequest::Read(_))
}

const fn answered(call: &Call) -> bool {
    matches!(call.outcome, Outcome::Done { .. } | Outcome::Gone)
}

fn failed(call: &Call) -> bool {
    match &call.outcome {
        Outcome::Refused(code) | Outcome::Open(code) => is_outage_code(code),
        Outcome::Done { .. } | Outcome::Gone => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Fault, Level};

    const MS: u64 = 1_000_000;

    /// The fault is on from 100 to 200 ms.
    fn fault() -> Vec<Event> {
        let turn = |at: u64, on| Event::Fault(Fault { at: at * MS, what: "F".to_owned(), on });
        vec![turn(100, true), turn(200, false)]
    }

    fn done() -> Outcome {
        Outcome::Done { version: 1, value: 1, key: None }
    }

    fn unavailable() -> Outcome {
        Outcome::Refused("UNAVAILABLE".to_owned())
    }

    fn open() -> Outcome {
        Outcome::Open("UNAVAILABLE".to_owned())
    }

    fn call([began, ended]: [u64; 2], what: UserRequest, outcome: Outcome) -> Call {
        let (began, ended, key) = (began * MS, ended * MS, "user:1".to_owned());
        Call { client: 1, pinned: false, node: 0, began, ended, key, what, request_id: None, outcome }
    }

    fn write(at: [u64; 2], outcome: Outcome) -> Event {
        Event::Call(call(at, UserRequest::Update { value: 1 }, outcome))
    }

    fn read(at: [u64; 2], outcome: Outcome) -> Event {
        Event::Call(call(at, UserRequest::Read(Level::Cached), outcome))
    }

    fn figure(measure: Measure, calls: impl IntoIterator<Item = Event>) -> f64 {
        let events: Vec<Event> = fault().into_iter().chain(calls).collect();
        Promise::new(measure, 0.0).figure(&events)
    }

    #[test]
    fn an_outage_lasts_until_a_write_is_acknowledged() {
        let calls = || [write([50, 60], done()), write([90, 110], done()), write([300, 310], done())];
        assert_eq!(figure(Measure::Outage, calls()), 200.0);
        let more = [read([200, 210], done()), write([120, 220], unavailable()), write([120, 250], open())];
        assert_eq!(
            figure(Measure::Outage, calls().into_iter().chain(more)),
            200.0,
            "none of them is a write"
        );
        assert_eq!(figure(Measure::Outage, calls().into_iter().chain([write([100, 200], done())])), 110.0);
        assert_eq!(figure(Measure::Outage, [read([800, 900], done())]), 800.0, "none until the end");
    }

    #[test]
    fn only_cluster_failures_count_as_failed_calls() {
        let refused = Outcome::Refused("ALREADY_EXISTS".to_owned());
        let calls = [read([100, 101], unavailable()), write([150, 180], open()), read([160, 161], done())];
        let others =
            [write([170, 171], refused), read([90, 99], unavailable()), read([201, 290], unavailable())];
        assert_eq!(figure(Measure::Failed, calls.into_iter().chain(others)), 50.0);
        assert_eq!(figure(Measure::Failed, []), 0.0);
    }

    #[test]
    fn comeback_is_first_answer_of_the_last_node() {
        let of = |node, at, outcome| Event::Call(Call { node, ..call(at, UserRequest::Delete, outcome) });
        let calls = [of(0, [190, 205], done()), of(0, [210, 220], done()), of(1, [10, 20], done())];
        let back = of(1, [230, 240], done());
        assert_eq!(figure(Measure::Comeback, calls.clone().into_iter().chain([back])), 40.0);
        let not_back = of(1, [230, 240], unavailable());
        assert_eq!(figure(Measure::Comeback, calls.into_iter().chain([not_back])), f64::INFINITY);
    }

    #[test]
    fn unknown_outcome_is_resolved_by_same_request() {
        let of = |id: &str, outcome| {
            let call = call([110, 120], UserRequest::Delete, outcome);
            Event::Call(Call { request_id: Some(id.to_owned()), ..call })
        };
        let resolved = [of("a", open()), of("a", Outcome::Gone)];
        let known = [of("b", Outcome::Refused("NOT_FOUND".to_owned())), of("b", open())];
        let once = [of("c", open())];
        assert_eq!(figure(Measure::Unresolved, resolved.into_iter().chain(known).chain(once)), 0.0);
        assert_eq!(figure(Measure::Unresolved, [of("d", open()), of("d", unavailable())]), 1.0);
    }

    #[test]
    fn a_promise_holds_up_to_its_figure() {
        let failed = |at_most| Promise::new(Measure::Failed, at_most).measured("F", &half()).holds;
        assert!(failed(50.0) && !failed(49.0));
    }

    fn half() -> Vec<Event> {
        let calls = [read([100, 101], unavailable()), read([100, 101], done())];
        fault().into_iter().chain(calls).collect()
    }
}
