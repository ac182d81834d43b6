//! The admin service on the wire: each call is decoded, made by one method, and encoded.

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use kith_cache::{CacheError, Depth, Namespace};
use kith_proto::admin::v1::{self as wire, admin_service_server::AdminService};
use kith_service::{
    error::{Error, Reason},
    relation::RelationUpkeep,
    rpc::{audit_notes::AuditNotes, call::Call},
    write::mutations::Mutations,
};
use kith_store::{ConversationId, Invalid, Timestamp};
use tonic::{Request, Response, Status};

use super::{
    AdminContext, NodeStatus,
    context::trusted_throughout,
    convert::{copy, stats},
    edges::{EdgeRuns, ProgressStream},
    fan_out::{self, Answer},
    log_filter, resync,
    watch::{NodeUpdates, Watchers},
};
use crate::cluster::Admin;

/// How much of a call's time is reserved for its answer.
const ANSWERED: Duration = Duration::from_millis(200);
/// Replaces the id of the node that is called.
const SELF: &str = "self";

/// A node's identity since its start.
#[derive(Clone, Debug)]
pub struct NodeFacts {
    /// New at every start.
    pub node_id: String,
    /// When it started.
    pub started: Timestamp,
    /// `sqlite` or `cluster`.
    pub backend: &'static str,
}

/// The admin service on the wire.
#[derive(Clone, Debug)]
pub struct AdminRpc {
    pub(super) context: AdminContext,
    pub(super) facts: NodeFacts,
    pub(super) mutations: Mutations,
    pub(super) node_status: NodeStatus,
    pub(super) watchers: Watchers,
    edges: EdgeRuns,
}

impl AdminRpc {
    /// Creates the service over this node's tiers and mutations, with a limit on watchers.
    #[must_use]
    pub(crate) fn new(
        context: AdminContext,
        facts: NodeFacts,
        mutations: Mutations,
        node_status: NodeStatus,
        watchers: usize,
        upkeep: RelationUpkeep,
    ) -> Self {
        let (watchers, edges) = (Watchers::new(watchers), EdgeRuns::new(upkeep));
        Self { context, facts, mutations, node_status, watchers, edges }
    }

    /// Splits `NAMESPACE/KEY` into its namespace and the rest.
    fn find<'a>(&self, key: &'a str) -> Result<(Arc<dyn Namespace>, &'a str), Error> {
        let refused = || Error::invalid("key", &Invalid::new("must be NAMESPACE/KEY, for example user/7"));
        let (namespace, key) = key.split_once('/').ok_or_else(refused)?;
        Ok((self.context.node.namespace(namespace).ok_or_else(refused)?, key))
    }

    /// Inspects the requested nodes' tiers.
    async fn inspect(
        &self,
        request: wire::InspectKeyRequest,
        by_node: bool,
    ) -> Result<wire::InspectKeyResponse, Error> {
        let (namespace, key) = self.find(&request.key)?;
        let (asked, own) = (request.node_id.as_str(), self.facts.node_id.as_str());
        let here = by_node || asked == SELF || asked == own;
        let mut answer = wire::InspectKeyResponse { complete: true, ..Default::default() };
        answer.node_id = own.to_owned();
        if here || asked.is_empty() {
            let depth = if request.memory_only { Depth::Memory } else { Depth::Store };
            let (copies, trusted) =
                trusted_throughout(&self.context.node, namespace.inspect(key, depth)).await;
            let copies = copies.map_err(|error| failed(namespace.name(), &error))?;
            answer.copies = copies.iter().map(copy).collect();
            answer.trusted = trusted;
        }
        if let (Some(cluster), false) = (&self.context.cluster, here) {
            let message = wire::InspectKeyRequest { node_id: SELF.to_owned(), ..request.clone() };
            let call = |mut admin: Admin| {
                let message = message.clone();
                async move { admin.inspect_key(message).await }
            };
            let only = Some(asked).filter(|asked| !asked.is_empty());
            let (others, complete) = fan_out::ask(cluster, only, &call).await;
            answer.others = others.into_iter().map(Answer::into_copies).collect();
            answer.complete = complete;
        }
        if answer.complete && !here && !asked.is_empty() && answer.others.is_empty() {
            return Err(Error::not_found("node"));
        }
        Ok(answer)
    }

    /// The namespace with this name; all, if it is empty.
    fn chosen(&self, name: &str) -> Result<Vec<Arc<dyn Namespace>>, Error> {
        if name.is_empty() {
            return Ok(self.context.node.namespaces());
        }
        let refused = || Error::invalid("namespace", &Invalid::new("must be one of this node"));
        Ok(vec![self.context.node.namespace(name).ok_or_else(refused)?])
    }

    fn flush(&self, name: &str) -> Result<Vec<String>, Error> {
        let chosen = self.chosen(name)?;
        chosen.iter().for_each(|namespace| namespace.flush());
        Ok(chosen.iter().map(|namespace| namespace.name().to_owned()).collect())
    }

    /// Empties memories, and returns the nodes on which that failed.
    async fn flush_all(
        &self,
        request: wire::FlushMemoryRequest,
        by_node: bool,
    ) -> Result<wire::FlushMemoryResponse, Error> {
        let namespaces = self.flush(&request.namespace)?;
        let mut answer = wire::FlushMemoryResponse { namespaces, others: Vec::new(), complete: true };
        if let (Some(cluster), true) = (&self.context.cluster, request.every_node && !by_node) {
            let call = |mut admin: Admin| {
                let message = request.clone();
                async move { admin.flush_memory(message).await }
            };
            let (others, complete) = fan_out::ask(cluster, None, &call).await;
            answer.others = others.into_iter().map(Answer::into_outcome).collect();
            answer.complete = complete;
        }
        Ok(answer)
    }
}

#[tonic::async_trait]
impl AdminService for AdminRpc {
    async fn get_node(
        &self,
        _request: Request<wire::GetNodeRequest>,
    ) -> Result<Response<wire::GetNodeResponse>, Status> {
        Ok(Response::new(self.node().await))
    }

    async fn list_nodes(
        &self,
        _request: Request<wire::ListNodesRequest>,
    ) -> Result<Response<wire::ListNodesResponse>, Status> {
        Ok(Response::new(self.context.nodes(&self.facts, self.node_status.callers()).await))
    }

    async fn inspect_key(
        &self,
        request: Request<wire::InspectKeyRequest>,
    ) -> Result<Response<wire::InspectKeyResponse>, Status> {
        let by_node = Call::of(&request).by_node;
        Ok(Response::new(self.inspect(request.into_inner(), by_node).await?))
    }

    async fn inspect_conversation(
        &self,
        request: Request<wire::InspectConversationRequest>,
    ) -> Result<Response<wire::InspectConversationResponse>, Status> {
        let id = request.get_ref().conversation_id.parse();
        let id: ConversationId = id.map_err(|why: Invalid| Error::invalid("conversation_id", &why))?;
        Ok(Response::new(self.context.logs.inspect(id).await?))
    }

    async fn read_canary(
        &self,
        _request: Request<wire::ReadCanaryRequest>,
    ) -> Result<Response<wire::ReadCanaryResponse>, Status> {
        Ok(Response::new(self.context.canary().await?))
    }

    async fn invalidate_key(
        &self,
        request: Request<wire::InvalidateKeyRequest>,
    ) -> Result<Response<wire::InvalidateKeyResponse>, Status> {
        AuditNotes::of(&request).note_key(&request.get_ref().key);
        let (namespace, key) = self.find(&request.get_ref().key)?;
        let token = namespace.invalidate(key).await.map_err(|error| failed(namespace.name(), &error))?;
        Ok(Response::new(wire::InvalidateKeyResponse { consistency_token: token.to_string() }))
    }

    async fn flush_memory(
        &self,
        request: Request<wire::FlushMemoryRequest>,
    ) -> Result<Response<wire::FlushMemoryResponse>, Status> {
        let by_node = Call::of(&request).by_node;
        AuditNotes::of(&request).note_key(&request.get_ref().namespace);
        Ok(Response::new(self.flush_all(request.into_inner(), by_node).await?))
    }

    async fn resync(
        &self,
        request: Request<wire::ResyncRequest>,
    ) -> Result<Response<wire::ResyncResponse>, Status> {
        let call = Call::of(&request);
        AuditNotes::of(&request).note_key(&request.get_ref().namespace);
        let wire::ResyncRequest { namespace, full } = request.into_inner();
        let chosen = self.chosen(&namespace)?;
        // The last ones get as much time as the first.
        let until = call.deadline.checked_sub(ANSWERED).unwrap_or(call.deadline);
        let compared = chosen.iter().map(|namespace| resync::compare(&**namespace, full, until));
        Ok(Response::new(wire::ResyncResponse { namespaces: join_all(compared).await }))
    }

    async fn start_epoch(
        &self,
        _request: Request<wire::StartEpochRequest>,
    ) -> Result<Response<wire::StartEpochResponse>, Status> {
        Ok(Response::new(self.context.start_epoch().await?))
    }

    async fn set_log_filter(
        &self,
        request: Request<wire::SetLogFilterRequest>,
    ) -> Result<Response<wire::SetLogFilterResponse>, Status> {
        Ok(Response::new(log_filter::set(request.get_ref())?))
    }

    async fn get_cache_stats(
        &self,
        _request: Request<wire::GetCacheStatsRequest>,
    ) -> Result<Response<wire::GetCacheStatsResponse>, Status> {
        let namespaces = self.context.node.namespaces();
        let namespaces =
            namespaces.iter().map(|namespace| stats(namespace.name(), &namespace.stats())).collect();
        Ok(Response::new(wire::GetCacheStatsResponse { namespaces }))
    }

    type WatchNodeStream = NodeUpdates;

    async fn watch_node(
        &self,
        request: Request<wire::WatchNodeRequest>,
    ) -> Result<Response<Self::WatchNodeStream>, Status> {
        Ok(Response::new(self.node_updates(request.into_inner().interval)?))
    }

    type VerifyEdgesStream = ProgressStream<wire::VerifyEdgesResponse>;

    async fn verify_edges(
        &self,
        request: Request<wire::VerifyEdgesRequest>,
    ) -> Result<Response<Self::VerifyEdgesStream>, Status> {
        Ok(Response::new(self.edges.verify(request.get_ref().examples)?))
    }

    type RepairEdgesStream = ProgressStream<wire::RepairEdgesResponse>;

    async fn repair_edges(
        &self,
        request: Request<wire::RepairEdgesRequest>,
    ) -> Result<Response<Self::RepairEdgesStream>, Status> {
        Ok(Response::new(self.edges.repair(request.get_ref().examples)?))
    }

    type RebuildCountsStream = ProgressStream<wire::RebuildCountsResponse>;

    async fn rebuild_counts(
        &self,
        _request: Request<wire::RebuildCountsRequest>,
    ) -> Result<Response<Self::RebuildCountsStream>, Status> {
        Ok(Response::new(self.edges.recount()?))
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
