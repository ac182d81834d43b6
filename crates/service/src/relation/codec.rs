use kith_cache::remote::Codec;
use kith_store::{Block, Edge, Follow, ListPosition, Permissions, Timestamp, UserId, Version};
use prost::Message;

use super::RelationListItem;

/// Schema of these encodings; a node with another schema treats them as a miss.
const SCHEMA: u16 = 1;
/// The kinds of list items.
const COUNT: u8 = 0;
const FOLLOW: u8 = 1;
const PLACE: u8 = 2;

/// The encoding of follows in the shared tier.
#[derive(Clone, Copy, Debug)]
pub(super) struct FollowCodec;

/// The encoding of settings for others.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockCodec;

/// The encoding of an item of a list of follows.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListedCodec;

/// The encoding of a position in a list: sixteen bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlaceCodec;

/// A follow as bytes. Field numbers are never reused; a change of a field's meaning must raise [`SCHEMA`].
#[derive(Clone, PartialEq, Message)]
struct PackedFollow {
    #[prost(int64, tag = "1")]
    from: i64,
    #[prost(int64, tag = "2")]
    to: i64,
    #[prost(int64, tag = "3")]
    version: i64,
    #[prost(sint64, tag = "4")]
    since: i64,
    #[prost(sint64, tag = "5")]
    placed: i64,
    /// Written last, so that truncated bytes lack it.
    #[prost(bool, tag = "15")]
    whole: bool,
}

/// A block as bytes; with the same rules for field numbers.
#[derive(Clone, PartialEq, Message)]
struct PackedBlock {
    #[prost(int64, tag = "1")]
    from: i64,
    #[prost(int64, tag = "2")]
    to: i64,
    #[prost(int64, tag = "3")]
    version: i64,
    #[prost(sint64, optional, tag = "4")]
    blocked: Option<i64>,
    #[prost(uint32, optional, tag = "5")]
    permissions: Option<u32>,
    #[prost(sint64, optional, tag = "6")]
    do_not_disturb: Option<i64>,
    #[prost(string, tag = "7")]
    remark: String,
    #[prost(sint64, tag = "8")]
    updated: i64,
    #[prost(bool, tag = "15")]
    whole: bool,
}

impl Codec<Follow> for FollowCodec {
    fn schema(&self) -> u16 {
        SCHEMA
    }

    fn encode(&self, follow: &Follow) -> Vec<u8> {
        PackedFollow {
            from: follow.edge.from.get(),
            to: follow.edge.to.get(),
            version: follow.version.get(),
            since: follow.since.0,
            placed: follow.placed.0,
            whole: true,
        }
        .encode_to_vec()
    }

    fn decode(&self, bytes: &[u8]) -> Option<Follow> {
        let packed = PackedFollow::decode(bytes).ok().filter(|packed| packed.whole)?;
        Some(Follow {
            edge: edge(packed.from, packed.to)?,
            version: Version::new(packed.version)?,
            since: Timestamp(packed.since),
            placed: Timestamp(packed.placed),
        })
    }
}

impl Codec<Block> for BlockCodec {
    fn schema(&self) -> u16 {
        SCHEMA
    }

    fn encode(&self, block: &Block) -> Vec<u8> {
        PackedBlock {
            from: block.edge.from.get(),
            to: block.edge.to.get(),
            version: block.version.get(),
            blocked: block.blocked.map(|at| at.0),
            permissions: block.permissions.map(|permissions| u32::from(permissions.bits())),
            do_not_disturb: block.do_not_disturb.map(|at| at.0),
            remark: block.remark.to_string(),
            updated: block.updated.0,
            whole: true,
        }
        .encode_to_vec()
    }

    fn decode(&self, bytes: &[u8]) -> Option<Block> {
        let packed = PackedBlock::decode(bytes).ok().filter(|packed| packed.whole)?;
        Some(Block {
            edge: edge(packed.from, packed.to)?,
            version: Version::new(packed.version)?,
            blocked: packed.blocked.map(Timestamp),
            permissions: packed.permissions.map(Permissions::new).transpose().ok()?,
            do_not_disturb: packed.do_not_disturb.map(Timestamp),
            remark: packed.remark.into(),
            updated: Timestamp(packed.updated),
        })
    }
}

impl Codec<RelationListItem> for ListedCodec {
    fn schema(&self) -> u16 {
        SCHEMA
    }

    /// The first byte is the kind.
    fn encode(&self, listed: &RelationListItem) -> Vec<u8> {
        let (kind, bytes) = match listed {
            RelationListItem::Count(count) => (COUNT, count.to_be_bytes().to_vec()),
            RelationListItem::Follow(follow) => (FOLLOW, FollowCodec.encode(follow)),
            RelationListItem::Place(place) => (PLACE, PlaceCodec.encode(place)),
        };
        [&[kind], &bytes[..]].concat()
    }

    fn decode(&self, bytes: &[u8]) -> Option<RelationListItem> {
        match bytes.split_first()? {
            (&COUNT, count) => Some(RelationListItem::Count(u64::from_be_bytes(count.try_into().ok()?))),
            (&FOLLOW, follow) => FollowCodec.decode(follow).map(RelationListItem::Follow),
            (&PLACE, place) => PlaceCodec.decode(place).map(RelationListItem::Place),
            _ => None,
        }
    }
}

impl Codec<ListPosition> for PlaceCodec {
    fn schema(&self) -> u16 {
        SCHEMA
    }

    fn encode(&self, place: &ListPosition) -> Vec<u8> {
        [place.at.0.to_be_bytes(), place.user.get().to_be_bytes()].concat()
    }

    fn decode(&self, bytes: &[u8]) -> Option<ListPosition> {
        let (at, user) = bytes.split_first_chunk::<8>()?;
        let user = i64::from_be_bytes(user.try_into().ok()?);
        Some(ListPosition { at: Timestamp(i64::from_be_bytes(*at)), user: UserId::new(user).ok()? })
    }
}

fn edge(from: i64, to: i64) -> Option<Edge> {
    Edge::new(UserId::new(from).ok()?, UserId::new(to).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::write::record_codec::tests::{assert_none_when_cut, text};

    fn edges() -> impl Strategy<Value = Edge> {
        (1..=i64::MAX, 1..=i64::MAX).prop_filter_map("two users", |(from, to)| edge(from, to))
    }

    fn follows() -> impl Strategy<Value = Follow> {
        (edges(), 0..=i64::MAX, any::<i64>(), any::<i64>()).prop_map(|(edge, version, since, placed)| {
            Follow {
                edge,
                version: Version::new(version).unwrap(),
                since: Timestamp(since),
                placed: Timestamp(placed),
            }
        })
    }

    fn blocks() -> impl Strategy<Value = Block> {
        let moment = || prop::option::of(any::<i64>().prop_map(Timestamp));
        let permissions = prop::option::of((0..=63_u32).prop_map(|bits| Permissions::new(bits).unwrap()));
        (edges(), 0..=i64::MAX, moment(), permissions, moment(), text(), any::<i64>()).prop_map(
            |(edge, version, blocked, permissions, do_not_disturb, remark, updated)| Block {
                edge,
                version: Version::new(version).unwrap(),
                blocked,
                permissions,
                do_not_disturb,
                remark,
                updated: Timestamp(updated),
            },
        )
    }

    proptest! {
        #[test]
        fn a_follow_comes_back_as_it_was(follow in follows()) {
            let bytes = FollowCodec.encode(&follow);
            assert_none_when_cut(&bytes, |bytes| FollowCodec.decode(bytes));
            let listed = RelationListItem::Follow(follow.clone());
            prop_assert_eq!(ListedCodec.decode(&ListedCodec.encode(&listed)), Some(listed));
            prop_assert_eq!(FollowCodec.decode(&bytes), Some(follow));
        }

        #[test]
        fn a_block_comes_back_as_it_was(block in blocks()) {
            let bytes = BlockCodec.encode(&block);
            assert_none_when_cut(&bytes, |bytes| BlockCodec.decode(bytes));
            prop_assert_eq!(BlockCodec.decode(&bytes), Some(block));
        }

        #[test]
        fn a_count_and_a_place_come_back_as_they_were(count: u64, at: i64, user in 1..=i64::MAX) {
            let place = ListPosition { at: Timestamp(at), user: UserId::new(user).unwrap() };
            prop_assert_eq!(PlaceCodec.decode(&PlaceCodec.encode(&place)), Some(place));
            let listed = RelationListItem::Place(place);
            prop_assert_eq!(ListedCodec.decode(&ListedCodec.encode(&listed)), Some(listed));
            prop_assert_eq!(ListedCodec.decode(&ListedCodec.encode(&RelationListItem::Count(count))), Some(RelationListItem::Count(count)));
        }

        #[test]
        fn bytes_of_any_kind_are_no_panic(bytes: Vec<u8>) {
            drop((FollowCodec.decode(&bytes), BlockCodec.decode(&bytes)));
            let listed = ListedCodec.decode(&bytes);
            let again = |listed| ListedCodec.decode(&ListedCodec.encode(&listed)) == Some(listed);
            prop_assert!(listed.is_none_or(again));
            prop_assert!(bytes.len() == 16 || PlaceCodec.decode(&bytes).is_none());
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let fine = PackedBlock { from: 1, to: 2, whole: true, ..PackedBlock::default() };
        assert!(BlockCodec.decode(&fine.encode_to_vec()).is_some());
        let wrong = PackedBlock { permissions: Some(64), ..fine.clone() };
        assert_eq!(BlockCodec.decode(&wrong.encode_to_vec()), None);
        let wrong = PackedBlock { to: 1, ..fine };
        assert_eq!(BlockCodec.decode(&wrong.encode_to_vec()), None);
    }
}
