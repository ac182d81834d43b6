//! Reactions between the wire and the domain.

use kith_proto::message::v1 as wire;
use kith_store::{ConversationId, KindCount, Reaction, ReactionKey, ReactionKind, Seq};

use super::service::{ReactedMessage, ReadReactions, UserReaction};
use crate::{
    error::{Error, valid},
    message::convert::{acting_user, conversation},
    rpc::{call::Principal, versions::wire_time},
};

/// The fields of a request that name a reaction.
pub(super) struct NamedReaction<'a> {
    pub(super) user_id: i64,
    pub(super) conversation_id: &'a str,
    pub(super) seq: i64,
    pub(super) kind: &'a str,
}

/// The reaction that a request names.
pub(super) fn reaction(named: &NamedReaction<'_>, principal: Principal) -> Result<UserReaction, Error> {
    let conversation = conversation(named.conversation_id)?;
    let user = acting_user(named.user_id, principal)?;
    let user = user.ok_or_else(|| Error::invalid("user_id", "must be given: a user reacts"))?;
    Ok(UserReaction {
        conversation,
        key: ReactionKey { seq: seq(named.seq)?, user, kind: kind(named.kind)? },
    })
}

pub(super) fn seq(seq: i64) -> Result<Seq, Error> {
    if seq < 1 { Err(Error::invalid("seq", "must be above 0")) } else { Ok(seq) }
}

pub(super) fn kind(text: &str) -> Result<ReactionKind, Error> {
    valid("kind", text.parse())
}

/// The parts that a list's page tokens are bound to.
pub(super) fn query(conversation: ConversationId, seq: Seq, kind: &ReactionKind) -> [Vec<u8>; 4] {
    let text = conversation.to_string().into_bytes();
    [b"ListReactions".to_vec(), text, seq.to_be_bytes().to_vec(), kind.as_str().into()]
}

pub(super) fn counts_to_wire(counts: &[KindCount]) -> Vec<wire::ReactionCount> {
    let count = |of: &KindCount| wire::ReactionCount {
        kind: of.kind.as_str().to_owned(),
        count: i32::try_from(of.count).unwrap_or(i32::MAX),
    };
    counts.iter().map(count).collect()
}

pub(super) fn react_to_wire(reacted: &ReactedMessage) -> wire::ReactResponse {
    let (reactions, replayed) = (counts_to_wire(&reacted.counts), !reacted.is_changed);
    wire::ReactResponse { reactions, replayed }
}

pub(super) fn unreact_to_wire(reacted: &ReactedMessage) -> wire::UnreactResponse {
    let (reactions, replayed) = (counts_to_wire(&reacted.counts), !reacted.is_changed);
    wire::UnreactResponse { reactions, replayed }
}

pub(super) fn read_to_wire(read: &ReadReactions) -> wire::MessageReactions {
    let own_kinds = read.own.iter().map(ReactionKind::to_string).collect();
    wire::MessageReactions { seq: read.seq, reactions: counts_to_wire(&read.counts), own_kinds }
}

pub(super) fn listed_to_wire(reaction: &Reaction) -> wire::Reaction {
    wire::Reaction { user_id: reaction.key.user.get(), time: Some(wire_time(reaction.at)) }
}
