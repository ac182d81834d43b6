//! Tests the exact bytes of cached records. If a test fails because a form has changed, its codec's schema
//! must be raised.

use kith_presence::Distribution;
use kith_store::{
    Audience, AudienceEntry, AudienceId, Block, Conversation, Dialog, Edge, Follow, Gender, Group, GroupId,
    GroupType, JoinPolicy, ListPosition, Member, Notice, NoticeId, NoticeReader, NoticeTerms, Permissions,
    ReadBits, ReadRanges, ReceiptVisibility, Role, Roster, SeqRange, Suspension, Timestamp, User, UserAccess,
    UserId, Version, Visibility,
};
use proptest::prelude::*;

use super::*;
use crate::sample::user as user_id;

fn version(number: i64) -> Version {
    Version::new(number).unwrap()
}

fn edge() -> Edge {
    Edge::new(user_id(7), user_id(i64::MAX)).unwrap()
}

/// Its bytes are these, they are decoded to it, and neither fewer bytes nor more are.
pub(crate) fn assert_form<T>(codec: RecordCodec, value: &T, hexadecimal: &str)
where
    T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let bytes = codec.encode(value);
    let written: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(written, hexadecimal, "another form of {value:?} needs another schema than {codec:?}");
    assert_eq!(codec.decode(&bytes).as_ref(), Some(value));
    let decoded = |bytes: &[u8]| <RecordCodec as Codec<T>>::decode(&codec, bytes);
    assert!((0..bytes.len()).all(|end| decoded(&bytes[..end]).is_none()), "cut off: {value:?}");
    assert_eq!(decoded(&[&bytes[..], &[0]].concat()), None, "with one more byte");
}

fn user() -> User {
    User {
        id: user_id(i64::MAX),
        version: version(i64::MAX),
        user_name: "Ада".into(),
        nick_name: "".into(),
        email: "ada@example.org".into(),
        phone: "+4930123456".into(),
        gender: Gender::Female,
        age: u8::MAX,
        region: "DE".into(),
        icon: "a.png".into(),
        params: [("a", "b"), ("lang", "")].into_iter().collect(),
        created: Timestamp(-1),
        updated: Timestamp(i64::MAX),
    }
}

#[test]
fn users_keep_their_form() {
    assert_form(
        RecordCodec::USER,
        &user(),
        "feffffffffffffffff01feffffffffffffffff0106d090d0b4d0b0000f616461406578616d706c652e6f72670b2b3439333031323334353601ff02444505612e706e670201610162046c616e670001feffffffffffffffff01",
    );
    for gender in [Gender::Unspecified, Gender::Male, Gender::Other] {
        let user = User { gender, ..user() };
        assert_eq!(RecordCodec::USER.decode(&RecordCodec::USER.encode(&user)), Some(user));
    }
}

#[test]
fn accesses_keep_their_form() {
    let access = UserAccess {
        user: user_id(7),
        version: version(3),
        account: 1,
        tokens_from: Timestamp(5_000),
        suspension: Some(Suspension { until: Some(Timestamp(6_000)), reason: "spam".into() }),
    };
    assert_form(RecordCodec::ACCESS, &access, "0e0601904e0101e05d047370616d");
}

fn group() -> Group {
    Group {
        id: GroupId::new(9).unwrap(),
        version: version(3),
        name: "Chess".into(),
        icon: "a.png".into(),
        tags: vec!["games".into(), "".into()],
        kind: GroupType::Channel,
        visibility: Visibility::Private,
        join_policy: JoinPolicy::Code,
        history_for_new_members: true,
        receipts: Some(ReceiptVisibility::default()),
        params: [("a", "b")].into_iter().collect(),
        creator: Some(user_id(7)),
        created: Timestamp(1),
        updated: Timestamp(2),
    }
}

#[test]
fn groups_keep_their_form() {
    assert_form(
        RecordCodec::GROUP,
        &group(),
        "120605436865737305612e706e67020567616d6573000101020101010101610162010e0204",
    );
    for join_policy in [JoinPolicy::Open, JoinPolicy::Approval, JoinPolicy::Invite] {
        let group = Group { join_policy, creator: None, kind: GroupType::Chat, ..group() };
        let group = Group { visibility: Visibility::Public, ..group };
        assert_eq!(RecordCodec::GROUP.decode(&RecordCodec::GROUP.encode(&group)), Some(group));
    }
}

#[test]
fn members_and_rosters_keep_their_form() {
    let member = Member {
        key: "9,9223372036854775807".parse().unwrap(),
        version: version(7),
        role: Role::Admin,
        ordinal: u32::MAX,
        remark: "Žo".into(),
        muted_until: Some(Timestamp(-1)),
        joined: Timestamp(5),
        from_seq: 0,
        joined_seq: i64::MAX,
    };
    assert_form(
        RecordCodec::MEMBER,
        &member,
        "12feffffffffffffffff010e01ffffffff0f03c5bd6f01010a00feffffffffffffffff01",
    );
    let roster = Roster {
        version: version(7),
        count: 3,
        ordinals: 4,
        owner: UserId::new(5).ok(),
        muted_until: Some(Timestamp(9)),
    };
    assert_form(RecordCodec::ROSTER, &roster, "0e0304010a0112");
    assert_form(RecordCodec::ROSTER, &Roster { owner: None, muted_until: None, ..roster }, "0e03040000");
}

#[test]
fn ids_keep_their_form() {
    assert_form(RecordCodec::ID, &user_id(1), "02");
    assert_form(RecordCodec::ID, &GroupId::new(i64::MAX).unwrap(), "feffffffffffffffff01");
}

#[test]
fn follows_and_positions_keep_their_form() {
    let follow = Follow { edge: edge(), version: version(2), since: Timestamp(-3), placed: Timestamp(4) };
    assert_form(RecordCodec::FOLLOW, &follow, "0efeffffffffffffffff01040508");
    let position = ListPosition { at: Timestamp(-1), user: user_id(8) };
    assert_form(RecordCodec::POSITION, &position, "0110");
}

#[test]
fn blocks_keep_their_form() {
    let block = Block {
        edge: edge(),
        version: version(1),
        blocked: Some(Timestamp(0)),
        permissions: Some(Permissions::NONE),
        do_not_disturb: Some(Timestamp(-1)),
        remark: "".into(),
        updated: Timestamp(5),
    };
    assert_form(RecordCodec::BLOCK, &block, "0efeffffffffffffffff0102010001000101000a");
    let block = Block { blocked: None, permissions: None, do_not_disturb: None, ..block };
    assert_form(RecordCodec::BLOCK, &block, "0efeffffffffffffffff0102000000000a");
}

#[test]
fn conversations_and_dialogs_keep_their_form() {
    let conversation =
        Conversation { id: "d7-8".parse().unwrap(), version: version(1), min_seq: 3, trim: true };
    assert_form(RecordCodec::CONVERSATION, &conversation, "0464372d38020601");
    let unread = vec![SeqRange { first: 1, last: 1 }, SeqRange { first: 5, last: i64::MAX - 2 }];
    let dialog = Dialog {
        key: "7,d7-9223372036854775807".parse().unwrap(),
        version: version(i64::MAX),
        settings_version: version(4),
        read: ReadRanges::new(i64::MAX, unread).unwrap(),
        min_seq: Some(0),
        max_seq: Some(i64::MAX),
        pinned: Some(Timestamp(-1)),
        hidden_seq: Some(0),
        do_not_disturb: true,
        marked_unread: true,
        ext: vec![0, 255],
        day: -3,
    };
    assert_form(
        RecordCodec::DIALOG,
        &dialog,
        "0e1664372d39323233333732303336383534373735383037feffffffffffffffff0108feffffffffffffffff010202020afaffffffffffffffff01010001feffffffffffffffff010101010001010200ff05",
    );
    let bare = Dialog { version: Version::FIRST, ..Dialog::absent("7,g9".parse().unwrap()) };
    assert_form(RecordCodec::DIALOG, &bare, "0e026739020000000000000000000000");
}

#[test]
fn distributions_keep_their_form() {
    let gateways = vec![("a".parse().unwrap(), 2), ("b-1".parse().unwrap(), u32::MAX)];
    assert_form(
        RecordCodec::DISTRIBUTION,
        &Distribution { version: 7, total: 3, gateways },
        "0e030201610203622d31ffffffff0f",
    );
}

#[test]
fn audiences_keep_their_form() {
    let entry = AudienceEntry {
        notice: NoticeId::new(9).unwrap(),
        slot: 4,
        confirm_slot: Some(5),
        publish: Timestamp(-7),
        expire: None,
        pinned: true,
        for_newcomers: false,
    };
    let audience = Audience {
        id: AudienceId::new(i64::from(i32::MAX)).unwrap(),
        version: version(i64::MAX),
        name: "Kunden".into(),
        of_users: true,
        created: Timestamp(-1),
        next_slot: u32::MAX,
        entries: vec![entry, AudienceEntry { expire: Some(Timestamp(3)), ..entry }],
    };
    assert_form(
        RecordCodec::AUDIENCE,
        &audience,
        "feffffff0ffeffffffffffffffff01064b756e64656e0101ffffffff0f02120401050d000100120401050d01060100",
    );
}

#[test]
fn notices_keep_their_form() {
    let terms = NoticeTerms {
        publish: Timestamp(5),
        expire: Some(Timestamp(i64::MAX)),
        pinned: true,
        must_confirm: false,
        for_newcomers: true,
    };
    let notice = Notice {
        id: NoticeId::new(i64::MAX).unwrap(),
        version: version(i64::MAX),
        revision: 3,
        title: "Titel".into(),
        body: "a\nb".into(),
        params: [("a", "b")].into_iter().collect(),
        audiences: [1, 7].map(|id| AudienceId::new(id).unwrap()).to_vec(),
        terms,
        created: Timestamp(1),
        updated: Timestamp(2),
    };
    assert_form(
        RecordCodec::NOTICE,
        &notice,
        "feffffffffffffffff01feffffffffffffffff010605546974656c03610a62010161016202020e0a01feffffffffffffffff010100010204",
    );
}

#[test]
fn readers_of_notices_keep_their_form() {
    let reader = NoticeReader {
        key: "7,9223372036854775807".parse().unwrap(),
        version: version(i64::MAX),
        ordinal: u32::MAX,
        since: Timestamp(-5),
        bits: ReadBits::default().with(&[0, 63, 64, u32::MAX]),
    };
    assert_form(
        RecordCodec::READER,
        &reader,
        "0efeffffffffffffffff01feffffffffffffffff01ffffffff0f090300818080808080808080010101ffffff1f80808080808080808001",
    );
    assert_form(
        RecordCodec::READER,
        &NoticeReader { bits: ReadBits::default(), ..reader },
        "0efeffffffffffffffff01feffffffffffffffff01ffffffff0f0900",
    );
}

proptest! {
    #[test]
    fn any_bytes_are_a_record_or_none(bytes: Vec<u8>) {
        let user: Option<User> = RecordCodec::USER.decode(&bytes);
        prop_assert!(user.is_none_or(|user| user.id.get() > 0 && user.version.get() >= 0));
        let follow: Option<Follow> = RecordCodec::FOLLOW.decode(&bytes);
        let again = |follow: Follow| {
            RecordCodec::FOLLOW.decode(&RecordCodec::FOLLOW.encode(&follow)) == Some(follow)
        };
        prop_assert!(follow.is_none_or(again));
    }

    #[test]
    fn any_text_and_parameters_come_back(name in ".{0,60}", params in prop::collection::btree_map("[a-z][a-z0-9_]{0,9}", ".{0,30}", 0..5)) {
        let user = User { user_name: name.into(), params: params.into_iter().collect(), ..user() };
        prop_assert_eq!(RecordCodec::USER.decode(&RecordCodec::USER.encode(&user)), Some(user));
    }
}
