//! Each dialog change reaches the user's other devices, by a Receive stream and by a socket.

use crate::dialog_calls::*;
use crate::group_calls::chat;
use crate::message_calls::*;
use crate::message_streams::{Stream, live};
use crate::node::TestNode;
use crate::relation_calls::{do_not_disturb, node_with_users};
use crate::sockets::{Socket, on};
use kith_proto::message::v1::{note::What as Noted, send_message_request::To, *};
use serde_json::json;

/// A user with two devices besides the acting device. A group and another user have sent three messages each.
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
        let (node, [ann, bea]) = node_with_users(on).await;
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

    /// Checks that both devices learn next that this dialog was changed, and how far it is read; `change`
    /// names the change.
    async fn assert_noted(&mut self, change: &str, id: &str, read_seq: i64) {
        let changed = DialogChanged { conversation_id: id.to_owned(), read_seq };
        assert_eq!(self.stream.note().await, Noted::Dialog(changed), "{change}");
        let mut expected = json!({"dialog": {"conversationId": id, "readSeq": read_seq.to_string()}});
        if read_seq == 0 {
            expected["dialog"].as_object_mut().unwrap().remove("readSeq");
        }
        assert_eq!(self.socket.until("note").await["note"], expected, "{change}");
    }

    async fn assert_group_noted(&mut self, change: &str) {
        self.assert_noted(change, &self.group.clone(), 0).await;
    }
}

#[tokio::test]
async fn changes_of_a_group_reach_own_devices() {
    let settings = DialogSettings::default;
    let changes = [
        ("pinned", DialogSettings { pinned: true, ..settings() }),
        ("pinned", settings()),
        ("do_not_disturb", DialogSettings { do_not_disturb: true, ..settings() }),
        ("do_not_disturb", settings()),
        ("marked_unread", DialogSettings { marked_unread: true, ..settings() }),
        ("ext", DialogSettings { ext: "draft".into(), ..settings() }),
    ];
    let mut devices = Devices::new().await;
    for (path, settings) in changes {
        update(&devices.node, devices.bea, to_update(&devices.group, settings, &[path])).await.unwrap();
        devices.assert_group_noted(path).await;
    }
    clear(&devices.node, devices.bea, &devices.group).await.unwrap();
    devices.assert_group_noted("clearing").await;
    set_range(&devices.node, devices.bea, &devices.group, Some(2), None).await;
    devices.assert_group_noted("range that a service sets").await;
}

#[tokio::test]
async fn marks_and_hiding_reach_own_devices() {
    let mut devices = Devices::new().await;
    let id = devices.direct();
    hide(&devices.node, devices.bea, &id).await.unwrap();
    devices.assert_noted("hiding", &id, 0).await;
    mark(&devices.node, devices.bea, to_mark_ranges(&id, &[(2, 2)])).await.unwrap();
    devices.assert_noted("mark of ranges", &id, 2).await;
    mark(&devices.node, devices.bea, to_mark_ranges(&id, &[(1, 1)])).await.unwrap();
    devices.assert_noted("mark of a skipped range", &id, 2).await;
    // A mark that changes nothing is no note.
    mark_up_to(&devices.node, devices.bea, &id, 1).await;
    for is_set in [true, false] {
        do_not_disturb(&devices.node, devices.bea, devices.ann, is_set).await;
        devices.assert_noted("do not disturb of a user", &id, 2).await;
    }
    mark(&devices.node, devices.bea, to_hide(&id, 3)).await.unwrap();
    devices.assert_noted("hidden mark", &id, 3).await;
}
