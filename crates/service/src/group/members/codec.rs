use kith_cache::remote::Codec;
use kith_store::{GroupId, Member, MemberKey, Role, Roster, Timestamp, UserId, Version};
use prost::Message;

/// Form of the bytes of rosters; nodes of another one miss.
const SCHEMA: u16 = 1;
/// Form of the bytes of members. 2: with the lowest number of a message that the member may read. A node that does not
/// know it must not answer from such bytes, and a node that does must not read bytes without it as "from the first".
const MEMBER_SCHEMA: u16 = 2;

/// The codec of members in the shared tier.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemberCodec;

/// The codec of rosters.
#[derive(Clone, Copy, Debug)]
pub(super) struct RosterCodec;

/// A member as bytes. Numbers of fields are never reused; a change of meaning raises [`MEMBER_SCHEMA`].
#[derive(Clone, PartialEq, Message)]
struct PackedMember {
    #[prost(int64, tag = "1")]
    group: i64,
    #[prost(int64, tag = "2")]
    user: i64,
    #[prost(int64, tag = "3")]
    version: i64,
    #[prost(uint32, tag = "4")]
    role: u32,
    #[prost(uint32, tag = "5")]
    ordinal: u32,
    #[prost(string, tag = "6")]
    remark: String,
    #[prost(sint64, optional, tag = "7")]
    muted_until: Option<i64>,
    #[prost(sint64, tag = "8")]
    joined: i64,
    #[prost(int64, tag = "9")]
    from_seq: i64,
    #[prost(int64, tag = "10")]
    joined_seq: i64,
    /// Written last, so that truncated bytes lack it.
    #[prost(bool, tag = "15")]
    whole: bool,
}

/// A roster as bytes; the same rules apply, with [`SCHEMA`].
#[derive(Clone, PartialEq, Message)]
struct PackedRoster {
    #[prost(int64, tag = "1")]
    version: i64,
    #[prost(uint32, tag = "2")]
    count: u32,
    #[prost(uint32, tag = "3")]
    ordinals: u32,
    #[prost(int64, tag = "4")]
    owner: i64,
    #[prost(sint64, optional, tag = "5")]
    muted_until: Option<i64>,
    #[prost(bool, tag = "15")]
    whole: bool,
}

impl Codec<Member> for MemberCodec {
    fn schema(&self) -> u16 {
        MEMBER_SCHEMA
    }

    fn encode(&self, member: &Member) -> Vec<u8> {
        PackedMember {
            group: member.key.group.get(),
            user: member.key.user.get(),
            version: member.version.get(),
            role: u32::from(member.role as u8),
            ordinal: member.ordinal,
            remark: member.remark.to_string(),
            muted_until: member.muted_until.map(|at| at.0),
            joined: member.joined.0,
            from_seq: member.from_seq,
            joined_seq: member.joined_seq,
            whole: true,
        }
        .encode_to_vec()
    }

    fn decode(&self, bytes: &[u8]) -> Option<Member> {
        let packed = PackedMember::decode(bytes).ok().filter(|packed| packed.whole)?;
        let (group, user) = (GroupId::new(packed.group).ok()?, UserId::new(packed.user).ok()?);
        Some(Member {
            key: MemberKey { group, user },
            version: Version::new(packed.version)?,
            role: Role::of(i64::from(packed.role))?,
            ordinal: packed.ordinal,
            remark: packed.remark.into(),
            muted_until: packed.muted_until.map(Timestamp),
            joined: Timestamp(packed.joined),
            from_seq: packed.from_seq,
            joined_seq: packed.joined_seq,
        })
    }
}

impl Codec<Roster> for RosterCodec {
    fn schema(&self) -> u16 {
        SCHEMA
    }

    fn encode(&self, roster: &Roster) -> Vec<u8> {
        PackedRoster {
            version: roster.version.get(),
            count: roster.count,
            ordinals: roster.ordinals,
            owner: roster.owner.map_or(0, UserId::get),
            muted_until: roster.muted_until.map(|at| at.0),
            whole: true,
        }
        .encode_to_vec()
    }

    fn decode(&self, bytes: &[u8]) -> Option<Roster> {
        let packed = PackedRoster::decode(bytes).ok().filter(|packed| packed.whole)?;
        Some(Roster {
            version: Version::new(packed.version)?,
            count: packed.count,
            ordinals: packed.ordinals,
            owner: UserId::new(packed.owner).ok(),
            muted_until: packed.muted_until.map(Timestamp),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member() -> Member {
        let key = MemberKey { group: GroupId::new(9).unwrap(), user: UserId::new(i64::MAX).unwrap() };
        Member {
            key,
            version: Version::new(7).unwrap(),
            role: Role::Admin,
            ordinal: u32::MAX,
            remark: "Žo".into(),
            muted_until: Some(Timestamp(-1)),
            joined: Timestamp(5),
            from_seq: 0,
            joined_seq: i64::MAX,
        }
    }

    #[test]
    fn members_and_rosters_come_back_as_they_were() {
        for member in [member(), Member { muted_until: None, remark: "".into(), ..member() }] {
            assert_eq!(MemberCodec.decode(&MemberCodec.encode(&member)), Some(member));
        }
        let owned = Roster {
            version: Version::new(7).unwrap(),
            count: 3,
            ordinals: 4,
            owner: UserId::new(5).ok(),
            muted_until: Some(Timestamp(9)),
        };
        for roster in [owned, Roster { owner: None, muted_until: None, ..owned }] {
            assert_eq!(RosterCodec.decode(&RosterCodec.encode(&roster)), Some(roster));
        }
    }

    #[test]
    fn bytes_that_were_cut_off_are_no_record() {
        let bytes = MemberCodec.encode(&member());
        for cut in 0..bytes.len() {
            assert_eq!(MemberCodec.decode(&bytes[..cut]), None, "{cut}");
        }
    }
}
