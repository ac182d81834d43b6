//! The calls of reactions on the wire: each decodes, calls the policy once, and encodes.

use kith_proto::message::v1 as wire;
use kith_store::{ReactionList, ReactionPosition, Timestamp, UserId};
use tonic::{Request, Response};

use super::{
    super::{Messages, convert as messages, reading::PAGE_MAX},
    convert::{self, NamedReaction},
};
use crate::{
    error::Error,
    rpc::{
        answer_size::fit_into_answer,
        batch::Limits,
        call::{Call, RpcResult},
        page_token::PageTokens,
    },
};

/// The calls of reactions on the wire.
#[derive(Clone, Debug)]
pub(in crate::message) struct ReactionRpc {
    messages: Messages,
    pages: PageTokens,
    limits: Limits,
}

impl ReactionRpc {
    pub(in crate::message) const fn new(messages: Messages, pages: PageTokens, limits: Limits) -> Self {
        Self { messages, pages, limits }
    }

    pub(in crate::message) async fn react(
        &self,
        request: Request<wire::ReactRequest>,
    ) -> RpcResult<wire::ReactResponse> {
        let (call, request) = Call::open(request);
        let wire::ReactRequest { user_id, conversation_id, seq, kind } = &request;
        let named = NamedReaction { user_id: *user_id, conversation_id, seq: *seq, kind };
        let reaction = convert::reaction(&named, call.principal)?;
        let reacted = self.messages.react(reaction, call.deadline).await?;
        Ok(Response::new(convert::react_to_wire(&reacted)))
    }

    pub(in crate::message) async fn unreact(
        &self,
        request: Request<wire::UnreactRequest>,
    ) -> RpcResult<wire::UnreactResponse> {
        let (call, request) = Call::open(request);
        let wire::UnreactRequest { user_id, conversation_id, seq, kind } = &request;
        let named = NamedReaction { user_id: *user_id, conversation_id, seq: *seq, kind };
        let reaction = convert::reaction(&named, call.principal)?;
        let reacted = self.messages.unreact(reaction, call.deadline).await?;
        Ok(Response::new(convert::unreact_to_wire(&reacted)))
    }

    /// Reads at most 100 messages with 64 kinds: such an answer fits.
    pub(in crate::message) async fn batch_get_reactions(
        &self,
        request: Request<wire::BatchGetReactionsRequest>,
    ) -> RpcResult<wire::BatchGetReactionsResponse> {
        let (call, request) = Call::open(request);
        let reader = messages::acting_user(request.user_id, call.principal)?;
        let conversation = messages::conversation(&request.conversation_id)?;
        let seqs = messages::seqs(request.seqs)?;
        let mut quota = self.limits.records.page(call, seqs.len())?;
        let consistency = self.limits.consistency(call, None)?;
        let read = self.messages.reactions_to(reader, conversation, seqs, &consistency).await?;
        quota.answered(read.len());
        let messages = read.iter().map(convert::read_to_wire).collect();
        Ok(Response::new(wire::BatchGetReactionsResponse { messages }))
    }

    pub(in crate::message) async fn list_reactions(
        &self,
        request: Request<wire::ListReactionsRequest>,
    ) -> RpcResult<wire::ListReactionsResponse> {
        let (call, request) = Call::open(request);
        let reader = messages::acting_user(request.user_id, call.principal)?;
        let list = ReactionList {
            conversation: messages::conversation(&request.conversation_id)?,
            seq: convert::seq(request.seq)?,
            kind: convert::kind(&request.kind)?,
        };
        let query = convert::query(list.conversation, list.seq, &list.kind);
        let query: Vec<&[u8]> = query.iter().map(Vec::as_slice).collect();
        let after = self.pages.of(call).verify_numbers(&query, &request.page_token)?;
        let after = after.map(position).transpose()?;
        let size = self.limits.pages.of(request.page_size)?.min(PAGE_MAX);
        let mut quota = self.limits.records.page(call, size)?;
        let mut found = self.messages.list_reactions(reader, &list, after, quota.size + 1).await?;
        let more = found.len() > quota.size;
        found.truncate(quota.size);
        let reactions = fit_into_answer(call.answer_bytes, found.iter().map(convert::listed_to_wire));
        quota.answered(reactions.len());
        let more = more || reactions.len() < found.len();
        let last = reactions.len().checked_sub(1).and_then(|last| found.get(last)).filter(|_| more);
        let token =
            last.map(|last| self.pages.of(call).issue_numbers(&query, [last.at.0, last.key.user.get()]));
        let next_page_token = token.unwrap_or_default();
        Ok(Response::new(wire::ListReactionsResponse { reactions, next_page_token }))
    }
}

fn position([at, user]: [i64; 2]) -> Result<ReactionPosition, Error> {
    let user = UserId::new(user).map_err(|_| Error::internal())?;
    Ok(ReactionPosition { at: Timestamp(at), user })
}
