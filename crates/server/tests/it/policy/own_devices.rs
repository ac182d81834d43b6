//! Each change of a dialog reaches the other devices of its user, by a stream of Receive and by a socket.

use crate::messaging::*;
use crate::node::TestNode;
use crate::receiving::{Stream, live};
use crate::relation_calls::{do_not_disturb, users};
use crate::sockets::{Socket, on};
use crate::talking::*;
use kith_proto::message::v1::{note::What as Noted, send_message_request::To, *};
use serde_json::json;

/// A user with two devices besides the one that acts. A group and another user have sent three messages each.
struct Devices {
    node: TestNode,
    ann: i64,
    bea: i64,
    group: String,
    stream: Stream,
    socket: Socket,
}

impl Devices {
    async fn new() -> Self {
        let node = TestNode::start_with_relations(on).await;
        let [ann, bea] = users(&node).await;
        let group = chat(&node, ann, &[bea]).await;
        for _ in 0..3 {
            say(&node, ann, To::GroupId(group), "x").await.unwrap();
            say(&node, ann, To::UserId(bea), "x").await.unwrap();
        }
        let (stream, socket) = (live(&node, bea).await, Socket::live(node.address, bea).await);
        Self { node, ann, bea, group: format!("g{group}"), stream, socket }
    }

    fn direct(&self) -> String {
        direct(self.ann, self.bea)
    }

    async fn update(&self, settings: DialogSettings, path: &str) {
        update(&self.node, self.bea, to_update(&self.group, settings, &[path])).await.unwrap();
    }

    /// Both devices learn next that this dialog was changed, and how far it is read.
    async fn assert_noted(&mut self, id: &str, read_seq: i64) {
        let changed = DialogChanged { conversation_id: id.to_owned(), read_seq };
        assert_eq!(self.stream.note().await, Noted::Dialog(changed));
        let mut expected = json!({"dialog": {"conversationId": id, "readSeq": read_seq.to_string()}});
        if read_seq == 0 {
            expected["dialog"].as_object_mut().unwrap().remove("readSeq");
        }
        assert_eq!(self.socket.until("note").await["note"], expected);
    }

    async fn assert_group_noted(&mut self, read_seq: i64) {
        self.assert_noted(&self.group.clone(), read_seq).await;
    }
}

#[tokio::test]
async fn pin_reaches_own_devices() {
    let mut devices = Devices::new().await;
    for pinned in [true, false] {
        devices.update(DialogSettings { pinned, ..Default::default() }, "pinned").await;
        devices.assert_group_noted(0).await;
    }
}

#[tokio::test]
async fn do_not_disturb_of_a_group_reaches_own_devices() {
    let mut devices = Devices::new().await;
    for do_not_disturb in [true, false] {
        devices.update(DialogSettings { do_not_disturb, ..Default::default() }, "do_not_disturb").await;
        devices.assert_group_noted(0).await;
    }
}

#[tokio::test]
async fn do_not_disturb_of_a_user_reaches_own_devices() {
    let mut devices = Devices::new().await;
    mark_up_to(&devices.node, devices.bea, &devices.direct(), 2).await;
    devices.assert_noted(&devices.direct(), 2).await;
    for is_set in [true, false] {
        do_not_disturb(&devices.node, devices.bea, devices.ann, is_set).await;
        devices.assert_noted(&devices.direct(), 2).await;
    }
}

#[tokio::test]
async fn mark_as_unread_reaches_own_devices() {
    let mut devices = Devices::new().await;
    devices.update(DialogSettings { marked_unread: true, ..Default::default() }, "marked_unread").await;
    devices.assert_group_noted(0).await;
}

#[tokio::test]
async fn draft_reaches_own_devices() {
    let mut devices = Devices::new().await;
    devices.update(DialogSettings { ext: "draft".into(), ..Default::default() }, "ext").await;
    devices.assert_group_noted(0).await;
}

#[tokio::test]
async fn hiding_reaches_own_devices() {
    let mut devices = Devices::new().await;
    hide(&devices.node, devices.bea, &devices.direct()).await.unwrap();
    devices.assert_noted(&devices.direct(), 0).await;
}

#[tokio::test]
async fn clearing_reaches_own_devices() {
    let mut devices = Devices::new().await;
    clear(&devices.node, devices.bea, &devices.group).await.unwrap();
    devices.assert_group_noted(0).await;
}

#[tokio::test]
async fn range_that_a_service_sets_reaches_own_devices() {
    let mut devices = Devices::new().await;
    set_range(&devices.node, devices.bea, &devices.group, Some(2), None).await;
    devices.assert_group_noted(0).await;
}

#[tokio::test]
async fn read_mark_reaches_own_devices() {
    let mut devices = Devices::new().await;
    mark_up_to(&devices.node, devices.bea, &devices.direct(), 2).await;
    devices.assert_noted(&devices.direct(), 2).await;
}

#[tokio::test]
async fn mark_of_ranges_reaches_own_devices() {
    let mut devices = Devices::new().await;
    let ranges = to_mark_ranges(&devices.direct(), &[(2, 3)]);
    let read_seq = mark(&devices.node, devices.bea, ranges).await.unwrap().read_seq;
    devices.assert_noted(&devices.direct(), read_seq).await;
    let skipped = to_mark_ranges(&devices.direct(), &[(1, 1)]);
    let read_seq = mark(&devices.node, devices.bea, skipped).await.unwrap().read_seq;
    devices.assert_noted(&devices.direct(), read_seq).await;
}

#[tokio::test]
async fn hidden_mark_reaches_own_devices() {
    let mut devices = Devices::new().await;
    mark(&devices.node, devices.bea, to_hide(&devices.direct(), 3)).await.unwrap();
    devices.assert_noted(&devices.direct(), 3).await;
}
