//! Relations in the answer to a batch: encoded directly. To build messages first, and to encode those, takes
//! as long as to read the relations (ADR 0022). The result equals [`super::convert`] for each.

use kith_proto::{Fields, relation::v1 as wire};
use kith_store::{Block, Edge, Follow, Permissions};

use super::{blocks::permitted, pair::PairRelation};
use crate::{
    error::Error,
    rpc::{call::Principal, versions::write_time},
};

/// The approximate encoded size of a relation between two users who follow each other.
const ROOM: usize = 144;

/// The inputs to an answer besides the relation.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnswerContext {
    /// The permissions that others have if a user has set nothing.
    pub(super) default: Permissions,
    /// The principal who receives the answer.
    pub(super) principal: Principal,
}

/// An empty answer with space for this many pairs.
pub(super) fn none(pairs: usize) -> wire::BatchGetRelationsResponse {
    wire::BatchGetRelationsResponse::with_room(pairs * ROOM)
}

/// Adds the relation between an edge's users, as the principal may see it, or why it is not known: a
/// `RelationResult`.
pub(super) fn add(
    results: &mut wire::BatchGetRelationsResponse,
    edge: Edge,
    found: &Result<PairRelation<'_>, Error>,
    context: AnswerContext,
) {
    results.write(|fields| {
        fields.number(1, edge.to.get());
        match found {
            Ok(between) => fields.message(2, |fields| relation(fields, between, context)),
            Err(error) => fields.encoded(3, &error.to_result()),
        }
    });
}

fn relation(fields: &mut Fields<'_>, between: &PairRelation<'_>, context: AnswerContext) {
    fields.number(1, between.edge.from.get());
    fields.number(2, between.edge.to.get());
    for (tag, found) in [(3, between.follow), (4, between.followed_by)] {
        if let Some(entry) = found {
            fields.message(tag, |fields| follow(fields, &entry.value));
        }
    }
    fields.bool(5, between.are_friends());
    let set = between.set.map(|entry| &*entry.value);
    fields.message(6, |fields| settings(fields, set, context.default));
    fields.bool(7, between.is_blocked(context.principal));
}

fn follow(fields: &mut Fields<'_>, follow: &Follow) {
    fields.number(1, follow.edge.from.get());
    fields.number(2, follow.edge.to.get());
    fields.number(3, follow.version.get());
    fields.message(4, |fields| write_time(fields, follow.since));
}

fn settings(fields: &mut Fields<'_>, block: Option<&Block>, default: Permissions) {
    let permissions = permitted(block, default).bits().into();
    let Some(block) = block else { return fields.number(2, permissions) };
    fields.bool(1, block.blocked.is_some());
    fields.number(2, permissions);
    fields.bool(3, block.permissions.is_some());
    fields.bool(4, block.do_not_disturb.is_some());
    fields.string(5, &block.remark);
    fields.number(6, block.version.get());
    if let Some(since) = block.blocked {
        fields.message(7, |fields| write_time(fields, since));
    }
}

#[cfg(test)]
mod tests {
    use kith_store::UserId;
    use prost::Message as _;

    use super::*;

    #[test]
    fn unreadable_pair_has_its_error_in_place() {
        let [one, other] = [1, 1 << 62].map(|id| UserId::new(id).unwrap());
        let edge = Edge::new(one, other).unwrap();
        let mut results = none(1);
        let context = AnswerContext { default: Permissions::ALL, principal: Principal::Service };
        add(&mut results, edge, &Err(Error::internal()), context);
        let answer = wire::BatchGetRelationsResponse::decode(&*results.encode_to_vec()).unwrap();
        let result = Some(wire::relation_result::Result::Error(Error::internal().to_result()));
        assert_eq!(answer.results, [wire::RelationResult { target_id: other.get(), result }]);
    }
}
