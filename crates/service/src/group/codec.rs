use kith_cache::remote::Codec;
use kith_store::{
    Group, GroupId, GroupType, JoinPolicy, ReceiptVisibility, Timestamp, UserId, Version, Visibility,
};
use prost::Message;

use crate::write::record_codec::{Param, packed_params};

/// The codec of groups in the shared tier: the whole record. The invite code is not part of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupCodec;

/// The codec of an id in a list: eight bytes.
#[derive(Clone, Copy, Debug)]
pub(in crate::group) struct IdCodec;

/// Form of the bytes of ids; nodes of another one miss.
const ID_SCHEMA: u16 = 1;

/// A group as bytes. Numbers of fields are never reused; a change of meaning raises [`SCHEMA`].
#[derive(Clone, PartialEq, Message)]
struct PackedGroup {
    #[prost(int64, tag = "1")]
    id: i64,
    #[prost(int64, tag = "2")]
    version: i64,
    #[prost(string, tag = "3")]
    name: String,
    #[prost(string, repeated, tag = "4")]
    tags: Vec<String>,
    #[prost(uint32, tag = "5")]
    kind: u32,
    #[prost(uint32, tag = "6")]
    visibility: u32,
    #[prost(uint32, tag = "7")]
    join_policy: u32,
    #[prost(bool, tag = "8")]
    history_for_new_members: bool,
    #[prost(message, repeated, tag = "9")]
    params: Vec<Param>,
    /// 0: a service.
    #[prost(int64, tag = "10")]
    creator: i64,
    #[prost(sint64, tag = "11")]
    created: i64,
    #[prost(sint64, tag = "12")]
    updated: i64,
    /// 0: as the node is configured.
    #[prost(uint32, tag = "13")]
    receipts: u32,
    /// Written last, so that truncated bytes lack it.
    #[prost(bool, tag = "15")]
    whole: bool,
}

/// Version of the format; nodes with another one treat such bytes as a miss. 2: with the visibility of receipts, which
/// a node that does not know it would drop.
const SCHEMA: u16 = 2;

impl Codec<Group> for GroupCodec {
    fn schema(&self) -> u16 {
        SCHEMA
    }

    fn encode(&self, group: &Group) -> Vec<u8> {
        PackedGroup {
            id: group.id.get(),
            version: group.version.get(),
            name: group.name.to_string(),
            tags: group.tags.iter().map(ToString::to_string).collect(),
            kind: u32::from(group.kind as u8),
            visibility: u32::from(group.visibility as u8),
            join_policy: u32::from(group.join_policy as u8),
            history_for_new_members: group.history_for_new_members,
            params: packed_params(&group.params),
            creator: group.creator.map_or(0, UserId::get),
            created: group.created.0,
            updated: group.updated.0,
            receipts: u32::from(ReceiptVisibility::number(group.receipts)),
            whole: true,
        }
        .encode_to_vec()
    }

    fn decode(&self, bytes: &[u8]) -> Option<Group> {
        let packed = PackedGroup::decode(bytes).ok().filter(|packed| packed.whole)?;
        let creator = match packed.creator {
            0 => None,
            number => Some(UserId::new(number).ok()?),
        };
        Some(Group {
            id: GroupId::new(packed.id).ok()?,
            version: Version::new(packed.version)?,
            name: packed.name.into(),
            tags: packed.tags.into_iter().map(Into::into).collect(),
            kind: *KINDS.iter().find(|kind| u32::from(**kind as u8) == packed.kind)?,
            visibility: *VISIBILITIES.iter().find(|one| u32::from(**one as u8) == packed.visibility)?,
            join_policy: *JOIN_POLICIES.iter().find(|one| u32::from(**one as u8) == packed.join_policy)?,
            history_for_new_members: packed.history_for_new_members,
            receipts: ReceiptVisibility::of(i64::from(packed.receipts))?,
            params: packed.params.into_iter().map(Param::into_pair).collect(),
            creator,
            created: Timestamp(packed.created),
            updated: Timestamp(packed.updated),
        })
    }
}

const KINDS: [GroupType; 2] = [GroupType::Chat, GroupType::Channel];
const VISIBILITIES: [Visibility; 2] = [Visibility::Public, Visibility::Private];
const JOIN_POLICIES: [JoinPolicy; 4] =
    [JoinPolicy::Open, JoinPolicy::Approval, JoinPolicy::Code, JoinPolicy::Invite];

impl Codec<UserId> for IdCodec {
    fn schema(&self) -> u16 {
        ID_SCHEMA
    }

    fn encode(&self, id: &UserId) -> Vec<u8> {
        id.get().to_be_bytes().to_vec()
    }

    fn decode(&self, bytes: &[u8]) -> Option<UserId> {
        UserId::new(i64::from_be_bytes(bytes.try_into().ok()?)).ok()
    }
}

impl Codec<GroupId> for IdCodec {
    fn schema(&self) -> u16 {
        ID_SCHEMA
    }

    fn encode(&self, id: &GroupId) -> Vec<u8> {
        id.get().to_be_bytes().to_vec()
    }

    fn decode(&self, bytes: &[u8]) -> Option<GroupId> {
        GroupId::new(i64::from_be_bytes(bytes.try_into().ok()?)).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, sample::select};

    use super::*;
    use crate::write::record_codec::tests::{assert_none_when_cut, params, text};

    fn groups() -> impl Strategy<Value = Group> {
        let numbers = (1..=i64::MAX, 0..=i64::MAX, any::<i64>(), any::<i64>());
        let enums = (select(&KINDS[..]), select(&VISIBILITIES[..]), select(&JOIN_POLICIES[..]));
        let texts = (text(), prop::collection::vec(text(), 0..4));
        let creator = prop::option::of(1..=i64::MAX);
        let receipts = (0..4_i64).prop_map(|number| ReceiptVisibility::of(number).unwrap());
        let flags = (any::<bool>(), receipts);
        (numbers, enums, texts, flags, params(), creator).prop_map(
            |(numbers, (kind, visibility, join_policy), (name, tags), flags, params, creator)| Group {
                id: GroupId::new(numbers.0).unwrap(),
                version: Version::new(numbers.1).unwrap(),
                name,
                tags,
                kind,
                visibility,
                join_policy,
                history_for_new_members: flags.0,
                receipts: flags.1,
                params,
                creator: creator.map(|number| UserId::new(number).unwrap()),
                created: Timestamp(numbers.2),
                updated: Timestamp(numbers.3),
            },
        )
    }

    proptest! {
        #[test]
        fn a_group_comes_back_as_it_was(group in groups()) {
            prop_assert_eq!(GroupCodec.decode(&GroupCodec.encode(&group)), Some(group));
        }

        #[test]
        fn a_group_that_is_cut_off_is_none(group in groups()) {
            assert_none_when_cut(&GroupCodec.encode(&group), |bytes| GroupCodec.decode(bytes));
        }

        #[test]
        fn bytes_of_any_kind_are_no_panic(bytes: Vec<u8>) {
            drop(GroupCodec.decode(&bytes));
        }
    }

    #[test]
    fn what_no_group_can_have_is_refused() {
        assert_eq!(GroupCodec.decode(b""), None, "an id of 0");
        let fine = PackedGroup {
            id: 7,
            kind: 1,
            visibility: 1,
            join_policy: 1,
            whole: true,
            ..PackedGroup::default()
        };
        assert!(GroupCodec.decode(&fine.encode_to_vec()).is_some());
        for wrong in [
            PackedGroup { id: 0, ..fine.clone() },
            PackedGroup { kind: 3, ..fine.clone() },
            PackedGroup { visibility: 0, ..fine.clone() },
            PackedGroup { join_policy: 5, ..fine.clone() },
            PackedGroup { receipts: 4, ..fine.clone() },
            PackedGroup { creator: -1, ..fine },
        ] {
            assert_eq!(GroupCodec.decode(&wrong.encode_to_vec()), None, "{wrong:?}");
        }
    }

    #[test]
    fn ids_are_read_back() {
        let (user, group) = (UserId::new(7).unwrap(), GroupId::new(7).unwrap());
        assert_eq!(IdCodec.decode(&IdCodec.encode(&user)), Some(user));
        assert_eq!(IdCodec.decode(&IdCodec.encode(&group)), Some(group));
        for other in [&[0; 8][..], &[1; 7]] {
            let (user, group): (Option<UserId>, Option<GroupId>) =
                (IdCodec.decode(other), IdCodec.decode(other));
            assert_eq!((user, group), (None, None), "{other:?}");
        }
    }
}
