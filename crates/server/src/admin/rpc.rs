//! Decode, one call, encode.

use std::{sync::Arc, time::Duration};

use kith_cache::{CacheError, Namespace, Node, Presence, Stats, TierCopy};
use kith_proto::admin::v1::{self as wire, admin_service_server::AdminService};
use kith_store::{Invalid, Timestamp};
use tonic::{Request, Response, Status};

use super::Vitals;
use crate::{
    bulk::only_services,
    call::Call,
    error::{Error, Reason},
    mutation::Mutations,
    telemetry,
    versions::wire_time,
};

/// What a node knows of itself from its start on.
#[derive(Clone, Debug)]
pub struct NodeFacts {
    /// Made anew at every start.
    pub node_id: String,
    /// When it started.
    pub started: Timestamp,
    /// `sqlite` or `cluster`.
    pub backend: &'static str,
}

/// The admin service on the wire.
#[derive(Clone, Debug)]
pub struct AdminRpc {
    node: Node,
    facts: NodeFacts,
    mutations: Mutations,
    vitals: Vitals,
}

impl AdminRpc {
    /// Over the tiers and mutations of this node.
    #[must_use]
    pub const fn new(node: Node, facts: NodeFacts, mutations: Mutations, vitals: Vitals) -> Self {
        Self { node, facts, mutations, vitals }
    }

    /// The namespace and the rest of `NAMESPACE/KEY`.
    fn find<'a>(&self, key: &'a str) -> Result<(Arc<dyn Namespace>, &'a str), Error> {
        let refused = || Error::invalid("key", &Invalid::new("must be NAMESPACE/KEY, for example user/7"));
        let (namespace, key) = key.split_once('/').ok_or_else(refused)?;
        Ok((self.node.namespace(namespace).ok_or_else(refused)?, key))
    }

    /// Answers also while the store does not.
    async fn node(&self) -> wire::GetNodeResponse {
        let store = self.vitals.store().await;
        wire::GetNodeResponse {
            node_id: self.facts.node_id.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            start_time: Some(wire_time(self.facts.started)),
            store_backend: self.facts.backend.to_owned(),
            epoch: signed(self.node.epoch()),
            trusted: self.node.trusted(),
            migrations: store.applied,
            mutations_in_flight: count(self.mutations.in_flight()),
            applied: signed(self.node.applied()),
            state: self.vitals.state().to_owned(),
            store_answers: store.answers,
            migrations_pending: count(store.pending),
            calls_in_flight: count(self.vitals.load().in_flight()),
            calls_limit: count(self.vitals.load().limit()),
            log_lines_dropped: signed(telemetry::dropped_lines()),
            time: Some(wire_time(Timestamp::now())),
        }
    }
}

#[tonic::async_trait]
impl AdminService for AdminRpc {
    async fn get_node(
        &self,
        request: Request<wire::GetNodeRequest>,
    ) -> Result<Response<wire::GetNodeResponse>, Status> {
        only_services(Call::of(&request).acting)?;
        Ok(Response::new(self.node().await))
    }

    async fn inspect_key(
        &self,
        request: Request<wire::InspectKeyRequest>,
    ) -> Result<Response<wire::InspectKeyResponse>, Status> {
        only_services(Call::of(&request).acting)?;
        let (namespace, key) = self.find(&request.get_ref().key)?;
        let copies = namespace.inspect(key).await.map_err(|error| failed(namespace.name(), &error))?;
        Ok(Response::new(wire::InspectKeyResponse { copies: copies.iter().map(copy).collect() }))
    }

    async fn invalidate_key(
        &self,
        request: Request<wire::InvalidateKeyRequest>,
    ) -> Result<Response<wire::InvalidateKeyResponse>, Status> {
        only_services(Call::of(&request).acting)?;
        let (namespace, key) = self.find(&request.get_ref().key)?;
        let token = namespace.invalidate(key).await.map_err(|error| failed(namespace.name(), &error))?;
        Ok(Response::new(wire::InvalidateKeyResponse { consistency_token: token.to_string() }))
    }

    async fn flush_memory(
        &self,
        request: Request<wire::FlushMemoryRequest>,
    ) -> Result<Response<wire::FlushMemoryResponse>, Status> {
        only_services(Call::of(&request).acting)?;
        let name = &request.get_ref().namespace;
        let namespaces = if name.is_empty() {
            self.node.namespaces()
        } else {
            let refused = || Error::invalid("namespace", &Invalid::new("must be one of this node"));
            vec![self.node.namespace(name).ok_or_else(refused)?]
        };
        namespaces.iter().for_each(|namespace| namespace.flush());
        let namespaces = namespaces.iter().map(|namespace| namespace.name().to_owned()).collect();
        Ok(Response::new(wire::FlushMemoryResponse { namespaces }))
    }

    async fn get_cache_stats(
        &self,
        request: Request<wire::GetCacheStatsRequest>,
    ) -> Result<Response<wire::GetCacheStatsResponse>, Status> {
        only_services(Call::of(&request).acting)?;
        let namespaces = self.node.namespaces();
        let namespaces =
            namespaces.iter().map(|namespace| stats(namespace.name(), &namespace.stats())).collect();
        Ok(Response::new(wire::GetCacheStatsResponse { namespaces }))
    }
}

fn failed(kind: &'static str, error: &CacheError) -> Error {
    match error {
        CacheError::InvalidKey => {
            Error::invalid("key", &Invalid::new("must name a record, for example user/7"))
        }
        _ => match Error::cache(kind, error) {
            error if error.reason() == Reason::NotFound => Error::internal(),
            error => error,
        },
    }
}

fn copy(copy: &TierCopy) -> wire::TierCopy {
    let presence = match copy.presence {
        Presence::Value => wire::Presence::Value,
        Presence::Null => wire::Presence::Null,
        Presence::None => wire::Presence::None,
    };
    wire::TierCopy {
        tier: copy.tier.as_str().to_owned(),
        presence: presence.into(),
        version: signed(copy.version.get()),
        age: copy.age.map(duration),
        ttl: copy.ttl.map(duration),
        size_bytes: signed(copy.size_bytes),
    }
}

fn stats(namespace: &str, stats: &Stats) -> wire::NamespaceStats {
    wire::NamespaceStats {
        namespace: namespace.to_owned(),
        entries: signed(stats.entries),
        weight_bytes: signed(stats.weight_bytes),
        weight_limit_bytes: signed(stats.weight_limit_bytes),
        hits: signed(stats.hits),
        misses: signed(stats.misses),
        joined: signed(stats.joined),
        loads: signed(stats.loads),
        load_errors: signed(stats.load_errors),
        loads_in_flight: signed(stats.loads_in_flight),
        stale_served: signed(stats.stale_served),
        fills_rejected: signed(stats.fills_rejected),
        invalidations: signed(stats.invalidations),
        evictions: signed(stats.evictions),
        shed: signed(stats.shed),
    }
}

fn duration(time: Duration) -> prost_types::Duration {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    prost_types::Duration { seconds, nanos: i32::try_from(time.subsec_nanos()).unwrap_or_default() }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
