//! Timestamps and durations that only one wire form can carry are refused in every request that has such a
//! field.

use crate::relation_calls::with_users;
use std::collections::BTreeSet;

use crate::contract;
use crate::group_calls::chat;
use crate::http::post;
use crate::node::{TestNode, assert_invalid};
use kith_proto::{
    admin::v1::WatchNodeRequest,
    member::v1::*,
    message::v1::*,
    relation::v1::*,
    r#type::v1::{ImportResult, import_result},
};
use prost_reflect::{Kind, MessageDescriptor};
use prost_types::{Duration, Timestamp};

/// Times that JSON cannot express, and a time that it can express but that is before 1970.
pub(crate) const WRONG_MOMENTS: [Timestamp; 6] = [
    Timestamp { seconds: 253_402_300_800, nanos: 0 },
    Timestamp { seconds: i64::MAX, nanos: 0 },
    Timestamp { seconds: i64::MIN, nanos: 0 },
    Timestamp { seconds: -1, nanos: 0 },
    Timestamp { seconds: 5, nanos: -1 },
    Timestamp { seconds: 5, nanos: 1_000_000_000 },
];
pub(crate) const WRONG_TIMES: [Duration; 4] = [
    Duration { seconds: 315_576_000_001, nanos: 0 },
    Duration { seconds: i64::MAX, nanos: 999_999_999 },
    Duration { seconds: -1, nanos: 0 },
    Duration { seconds: i64::MIN, nanos: i32::MIN },
];
const LAST: Timestamp = Timestamp { seconds: 253_402_300_799, nanos: 999_000_000 };

/// The fields of streamed requests that have a timestamp or a duration. Those of unary requests are in the
/// walk of wrong fields.
const KNOWN: [&str; 11] = [
    "kith.admin.v1.WatchNodeRequest.interval",
    "kith.member.v1.Ban.ban_time",
    "kith.member.v1.Ban.until",
    "kith.member.v1.Member.join_time",
    "kith.member.v1.Member.mute_time",
    "kith.message.v1.DialogRecord.pin_time",
    "kith.message.v1.ImportReaction.time",
    "kith.message.v1.Message.send_time",
    "kith.relation.v1.ImportFollow.follow_time",
    "kith.relation.v1.SettingsRecord.block_time",
    "kith.relation.v1.SettingsRecord.do_not_disturb_time",
];
/// Record fields that requests carry and only answers fill: they are ignored.
pub(crate) const OUTPUT_ONLY: [&str; 9] = [
    "kith.group.v1.Group.create_time",
    "kith.group.v1.Group.update_time",
    "kith.message.v1.Message.edit_time",
    "kith.message.v1.Recall.time",
    "kith.notice.v1.Audience.create_time",
    "kith.notice.v1.Notice.create_time",
    "kith.notice.v1.Notice.update_time",
    "kith.user.v1.User.create_time",
    "kith.user.v1.User.update_time",
];

fn times_in(message: &MessageDescriptor, seen: &mut BTreeSet<String>, found: &mut BTreeSet<String>) {
    if !seen.insert(message.full_name().to_owned()) {
        return;
    }
    for field in message.fields() {
        let Kind::Message(inner) = field.kind() else { continue };
        match inner.full_name() {
            "google.protobuf.Timestamp" | "google.protobuf.Duration" => {
                found.insert(field.full_name().to_owned());
            }
            _ => times_in(&inner, seen, found),
        }
    }
}

#[test]
fn every_time_of_a_stream_is_tested_here() {
    let (mut seen, mut found) = (BTreeSet::new(), BTreeSet::new());
    for method in contract::methods().iter().filter(|method| !contract::is_unary(method)) {
        times_in(&method.input(), &mut seen, &mut found);
    }
    found.retain(|name| !OUTPUT_ONLY.contains(&name.as_str()));
    assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), KNOWN);
}

#[tokio::test]
async fn wrong_duration_of_a_stream_is_refused() {
    let node = TestNode::start().await;
    for time in WRONG_TIMES.map(Some) {
        let watched = node.admin().watch_node(WatchNodeRequest { interval: time }).await;
        assert_invalid(watched, "interval");
    }
}

#[tokio::test]
async fn last_moment_is_shown_in_json() {
    let (node, [ann, bob]) = with_users().await;
    let group_id = chat(&node, ann, &[bob]).await;
    let mute = MuteMemberRequest { group_id, user_id: bob, mute_time: Some(LAST), ..Default::default() };
    node.members().mute_member(mute).await.unwrap();
    let body = format!(r#"{{"groupId":"{group_id}"}}"#);
    let listed = post(node.address, "/kith.member.v1.MemberService/ListMembers", &body).await.json();
    assert_eq!(listed["members"][1]["muteTime"], "9999-12-31T23:59:59.999Z", "{listed}");
}

#[tokio::test]
async fn wrong_moment_of_an_import_is_refused() {
    let (node, [ann, bob]) = with_users().await;
    let group_id = chat(&node, ann, &[bob]).await;
    for time in WRONG_MOMENTS.map(Some) {
        let settings = |block_time, do_not_disturb_time| ImportSettings {
            settings: Some(SettingsRecord {
                user_id: ann,
                target_id: bob,
                block_time,
                do_not_disturb_time,
                ..Default::default()
            }),
            ..Default::default()
        };
        let records = vec![settings(time, None), settings(None, time)];
        let messages = tokio_stream::iter([ImportSettingsRequest { records }]);
        let mut answers = node.relations().import_settings(messages).await.unwrap().into_inner();
        let fields = wrong_fields(answers.message().await.unwrap().unwrap().results);
        assert_eq!(fields, ["settings.block_time", "settings.do_not_disturb_time"]);

        let follow = ImportFollow { record: 1, user_id: ann, target_id: bob, follow_time: time };
        let messages = tokio_stream::iter([ImportFollowsRequest { records: vec![follow] }]);
        let mut answers = node.relations().import_follows(messages).await.unwrap().into_inner();
        assert_eq!(wrong_fields(answers.message().await.unwrap().unwrap().results).len(), 1);

        let pinned = DialogRecord {
            user_id: ann,
            conversation_id: format!("g{group_id}"),
            pin_time: time,
            ..Default::default()
        };
        let records = vec![ImportDialog { record: 1, dialog: Some(pinned) }];
        let messages = tokio_stream::iter([ImportDialogsRequest { records }]);
        let mut answers = node.messages().import_dialogs(messages).await.unwrap().into_inner();
        let fields = wrong_fields(answers.message().await.unwrap().unwrap().results);
        assert_eq!(fields, ["dialog.pin_time"]);

        let reaction = ImportReaction {
            conversation_id: format!("g{group_id}"),
            seq: 1,
            user_id: ann,
            kind: "a".into(),
            time,
        };
        let message = Message {
            conversation_id: format!("g{group_id}"),
            kind: MessageKind::Message.into(),
            send_time: time,
            ..Default::default()
        };
        let records = vec![
            ImportMessage { reaction: Some(reaction), ..Default::default() },
            ImportMessage { message: Some(message), ..Default::default() },
        ];
        let messages = tokio_stream::iter([ImportMessagesRequest { records }]);
        let mut answers = node.messages().import_messages(messages).await.unwrap().into_inner();
        let fields = wrong_fields(answers.message().await.unwrap().unwrap().results);
        assert_eq!(fields, ["reaction.time", "message.send_time"]);

        let messages =
            tokio_stream::iter([ImportMembersRequest { records: members_with(group_id, bob, time) }]);
        let mut answers = node.members().import_members(messages).await.unwrap().into_inner();
        let fields = wrong_fields(answers.message().await.unwrap().unwrap().results);
        assert_eq!(fields, ["member.member.join_time", "member.mute_time", "ban.ban_time", "ban.until"]);
    }
}

/// Makes members and bans with a time in each place.
fn members_with(group_id: i64, user_id: i64, time: Option<Timestamp>) -> Vec<ImportMember> {
    let fine = Some(Timestamp { seconds: 5, nanos: 0 });
    let member = |join_time, mute_time| {
        let role = Role::Member.into();
        let member = Member { group_id, user_id, role, join_time, mute_time, ..Default::default() };
        let member = Some(MemberRecord { member: Some(member), ..Default::default() });
        ImportMember { member, ..Default::default() }
    };
    let ban = |ban_time, until| {
        let ban = Some(Ban { group_id, user_id, ban_time, until, ..Default::default() });
        ImportMember { ban, ..Default::default() }
    };
    vec![member(time, None), member(fine, time), ban(time, None), ban(fine, time)]
}

/// Returns the fields that are refused.
fn wrong_fields(results: Vec<ImportResult>) -> Vec<String> {
    let field = |result: ImportResult| match result.result.unwrap() {
        import_result::Result::Error(error) => {
            assert_eq!(error.reason, "INVALID_FIELD", "{error:?}");
            error.field
        }
        import_result::Result::Id(id) => panic!("{id} is imported"),
    };
    results.into_iter().map(field).collect()
}
