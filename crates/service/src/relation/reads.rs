//! Reads of what is between users: decode, one call, encode.

use kith_cache::Consistency;
use kith_proto::{relation::v1 as wire, r#type::v1::Consistency as Asked};
use kith_store::{Edge, FollowList};
use tonic::Response;

use super::{
    RelationRpc,
    compared::{AT_ONCE, Compared},
    convert,
    lists::ListOf,
    written,
};
use crate::{
    error::Error,
    rpc::{
        batch,
        call::{Call, Served, own},
        request::consistency,
    },
};

impl RelationRpc {
    pub(super) fn consistency(&self, asked: Option<&Asked>) -> Result<Consistency, Error> {
        consistency(asked, self.limits.tokens)
    }

    pub(super) async fn relation(
        &self,
        request: wire::GetRelationRequest,
        call: Call,
    ) -> Result<wire::GetRelationResponse, Error> {
        let edge = convert::edge(request.user_id, (request.target_id, "target_id"))?;
        own(edge.from, call.principal)?;
        let consistency = self.consistency(request.consistency.as_ref())?;
        let edges = [edge];
        let found = Compared::read(&self.follows, &self.blocks, &edges, &consistency).await;
        let (_, between) = found.pairs().next().ok_or_else(Error::internal)?;
        let relation = Some(convert::relation(between?, &self.blocks, call.principal));
        Ok(wire::GetRelationResponse { relation })
    }

    pub(super) async fn relations(
        &self,
        request: wire::BatchGetRelationsRequest,
        call: Call,
    ) -> Result<wire::BatchGetRelationsResponse, Error> {
        batch::check_count("target_ids", request.target_ids.len(), self.limits.batch_ids)?;
        let edge = |target: &i64| convert::edge(request.user_id, (*target, "target_ids"));
        let edges = request.target_ids.iter().map(edge).collect::<Result<Vec<Edge>, Error>>()?;
        own(convert::user("user_id", request.user_id)?, call.principal)?;
        let consistency = self.consistency(request.consistency.as_ref())?;
        let told = (self.blocks.permissions(None), call.principal);
        let mut results = written::none(edges.len());
        for edges in edges.chunks(AT_ONCE) {
            let found = Compared::read(&self.follows, &self.blocks, edges, &consistency).await;
            for (edge, between) in found.pairs() {
                written::add(&mut results, edge, &between, told);
            }
        }
        Ok(results)
    }

    /// One read of memory: what the target has set about the user.
    pub(super) async fn permission(
        &self,
        request: wire::CheckPermissionRequest,
        call: Call,
    ) -> Result<Response<wire::CheckPermissionResponse>, Error> {
        let edge = convert::edge(request.user_id, (request.target_id, "target_id"))?;
        own(edge.from, call.principal)?;
        let asked = convert::permissions(request.permissions)?;
        let consistency = self.consistency(request.consistency.as_ref())?;
        let entry = self.blocks.get(edge.reversed(), &consistency).await?;
        let (denied, blocked) = self.blocks.denied(entry.as_ref().map(|entry| &*entry.value), asked);
        let allowed = denied == 0 && !blocked;
        let mut response = Response::new(wire::CheckPermissionResponse { allowed, denied });
        if let Some(entry) = &entry {
            response.extensions_mut().insert(Served::of(entry));
        }
        Ok(response)
    }

    pub(super) async fn counts(
        &self,
        request: wire::CountRelationsRequest,
        _call: Call,
    ) -> Result<wire::CountRelationsResponse, Error> {
        let user = convert::user("user_id", request.user_id)?;
        let consistency = self.consistency(request.consistency.as_ref())?;
        let count = |list| self.follows.count(ListOf { list, user }, &consistency);
        let (following, fans) = tokio::join!(count(FollowList::Following), count(FollowList::Fans));
        let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        Ok(wire::CountRelationsResponse { following: number(following?), fans: number(fans?) })
    }
}
