//! Information about a node and its state.

use kith_proto::admin::v1 as wire;
use kith_service::{
    error::damage,
    rpc::versions::{wire_duration, wire_time},
};
use kith_store::Timestamp;

use super::{
    AdminRpc,
    convert::{count, signed},
    stats,
};
use crate::{build_info, cluster::Cluster, telemetry};

impl AdminRpc {
    /// Answers also if the store does not.
    pub(super) async fn node(&self) -> wire::GetNodeResponse {
        let (store, nodes) = tokio::join!(self.node_status.store(), self.nodes_known());
        let load = self.node_status.load();
        let response = wire::GetNodeResponse {
            node_id: self.facts.node_id.clone(),
            version: build_info::FULL.to_owned(),
            start_time: Some(wire_time(self.facts.started)),
            store_backend: self.facts.backend.to_owned(),
            epoch: signed(self.context.node.epoch()),
            trusted: self.context.node.trusted(),
            migrations: store.applied,
            mutations_in_flight: count(self.mutations.in_flight()),
            applied: signed(self.context.node.applied()),
            state: self.node_status.state().to_owned(),
            store_answers: store.answers,
            migrations_pending: count(store.pending),
            calls_in_flight: count(load.in_flight()),
            calls_limit: count(load.limit()),
            log_lines_dropped: signed(telemetry::dropped_lines()),
            // This time is not corrected: it is there to find a wrong clock.
            time: Some(wire_time(Timestamp::of_machine())),
            nodes,
            calls_shed: signed(load.shed()),
            mutations_shed: signed(self.mutations.shed()),
            calls: Some(stats::of_callers(&load.counted())),
            callers_digest: self.node_status.callers(),
            relations: self.node_status.relations(self.facts.backend).to_owned(),
            store_free_bytes: self.node_status.free_bytes(),
            damaged_reads: signed(damage::count()),
            ..Default::default()
        };
        match self.context.cluster.as_deref() {
            Some(cluster) => self.among_others(cluster, response),
            None => response,
        }
    }

    /// Adds the node's state among the others.
    fn among_others(&self, cluster: &Cluster, response: wire::GetNodeResponse) -> wire::GetNodeResponse {
        let followed = cluster.followed();
        let (checked, stale) = self.context.observed.as_ref().map_or((0, 0), |observed| observed.totals());
        wire::GetNodeResponse {
            address: cluster.node_info().address.clone(),
            redis: if response.trusted { "follows" } else { "away" }.to_owned(),
            redis_breaker: cluster.breaker().to_owned(),
            changes_waiting: count(cluster.waiting()),
            entries_behind: signed(followed.behind),
            since_proof: followed.since_proof.map(wire_duration),
            repairs: signed(followed.repairs),
            observer_checked: signed(checked),
            observer_stale: signed(stale),
            ..response
        }
    }

    async fn nodes_known(&self) -> i64 {
        let Some(cluster) = &self.context.cluster else { return 0 };
        cluster.peers().await.map_or(0, |peers| count(peers.len()))
    }
}
