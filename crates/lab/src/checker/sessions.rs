//! C1 and C2: monotonic reads, and clients read their own writes.

use std::collections::HashMap;

use super::{
    Run,
    records::{Rank, Record, acknowledged},
    relations,
    report::CheckResult,
};
use crate::history::{Call, Level, UserRequest};

type ByClient<T> = HashMap<u32, T, ahash::RandomState>;
/// Values by client, and by the run of its node.
type ByRun<T> = HashMap<(u32, usize), T, ahash::RandomState>;

/// C1: no read by a client is older than its previous read of the record on the same node, until the node is
/// restarted; and no read is older than its token.
pub(super) fn monotonic(run: &Run<'_>) -> CheckResult {
    let mut checked = CheckResult::new("C1 monotonic reads");
    for record in run.records.iter() {
        let mut newest: ByRun<Rank> = HashMap::default();
        for (call, rank) in reads(record) {
            if let UserRequest::Read(Level::AtLeast(token)) = call.what {
                checked.count_judged();
                if rank < Rank::at(token) {
                    checked.violation(|| below(record, call, rank, "its token", Rank::at(token)));
                }
            }
            if call.pinned {
                checked.count_judged();
                let session = (call.client, run.restarts.count_until(call.node, call.began));
                let before = newest.entry(session).or_insert(Rank::NEVER);
                if rank < *before {
                    checked.violation(|| below(record, call, rank, "its last read", *before));
                }
                // For a client that has not seen the record, "does not exist" may mean not created yet or
                // deleted.
                let unseen = rank == Rank::DELETED && *before == Rank::NEVER;
                *before = if unseen { *before } else { rank.max(*before) };
            }
        }
    }
    relations::monotonic(&run.relations, &run.restarts, &mut checked);
    checked
}

/// C2: a client's read is no older than its own acknowledged write to the record, on the node that took the
/// write, and with the write's token on any node.
pub(super) fn own_writes(run: &Run<'_>) -> CheckResult {
    let mut checked = CheckResult::new("C2 read your writes");
    for record in run.records.iter() {
        let mut own: ByClient<OwnWrites> = HashMap::default();
        for call in &record.calls {
            let Some(rank) = record.rank(call) else { continue };
            if acknowledged(call) {
                own.entry(call.client).or_default().add(call.node, rank);
            }
            if !matches!(call.what, UserRequest::Read(_)) {
                continue;
            }
            let Some(floor) = own.get(&call.client).and_then(|own| own.floor(call)) else { continue };
            checked.count_judged();
            if rank < floor {
                checked.violation(|| below(record, call, rank, "its own write", floor));
            }
        }
    }
    relations::own_writes(&run.relations, &mut checked);
    checked
}

/// A client's newest write to a record, by node.
#[derive(Default)]
struct OwnWrites(Vec<(u32, Rank)>);

impl OwnWrites {
    fn add(&mut self, node: u32, rank: Rank) {
        match self.0.iter_mut().find(|(at, _)| *at == node) {
            Some((_, newest)) => *newest = rank.max(*newest),
            None => self.0.push((node, rank)),
        }
    }

    /// The minimum that this read must return. `None`: it may return anything.
    fn floor(&self, read: &Call) -> Option<Rank> {
        let carried = |rank: Rank| match read.what {
            UserRequest::Read(Level::AtLeast(token)) => rank <= Rank::at(token),
            _ => false,
        };
        let must = |(node, rank): &&(u32, Rank)| *node == read.node || carried(*rank);
        self.0.iter().filter(must).map(|(_, rank)| *rank).max()
    }
}

fn reads<'a, 'b>(record: &'b Record<'a>) -> impl Iterator<Item = (&'a Call, Rank)> + use<'a, 'b> {
    let reads = record.calls.iter().filter(|call| matches!(call.what, UserRequest::Read(_)));
    reads.filter_map(|call| Some((*call, record.rank(call)?)))
}

fn below(record: &Record<'_>, call: &Call, rank: Rank, what: &str, floor: Rank) -> String {
    let Call { client, node, began, .. } = call;
    format!(
        "{}: client {client} on node {node} read {rank} at {began} ns, older than {what}: {floor}",
        record.key
    )
}
