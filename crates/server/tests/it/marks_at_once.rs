//! Read marks by many users at the same time are written together.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::future::join_all;
use kith_proto::{
    group::v1::{self as groups, group_service_client::GroupServiceClient},
    member::v1::{AddMembersRequest, member_service_client::MemberServiceClient},
    message::v1::{
        BatchSendRequest, Conversation, GetConversationRequest, SendMessageRequest,
        message_service_client::MessageServiceClient, send_message_request::To,
    },
    receipt::v1::{
        BatchGetReceiptsRequest, receipt_result::Result as Found,
        receipt_service_client::ReceiptServiceClient,
    },
};
use kith_server::{config::Config, edge::Edge, node::services::Services};
use kith_store::*;
use tokio::{
    sync::Semaphore,
    time::{sleep, timeout},
};

use crate::store_over::store_over;
use crate::{bare_node, broken_store, dialog_calls::to_mark, node::principal};

const READERS: usize = 500;

/// Another store's dialogs. Counts the commands that wrote marks, and the commands that read dialogs.
#[derive(Debug)]
struct CountingDialogStore {
    store: Arc<dyn DialogStore>,
    commands: AtomicUsize,
    reads: AtomicUsize,
    /// If set, marks are refused.
    fails: AtomicBool,
    /// If set, the next command with marks waits until the test gives a permit.
    held: Mutex<Option<Held>>,
    permit: Semaphore,
}

/// The moment at which the next command with marks waits.
#[derive(Clone, Copy, Debug)]
enum Held {
    BeforeItsWrite,
    BeforeItsAnswer,
}

impl CountingDialogStore {
    async fn wait(&self) {
        self.permit.acquire().await.unwrap().forget();
    }
}

store_over! {
    DialogStore for CountingDialogStore by store {
        async fn dialogs(&self, keys: &[DialogKey]) -> Result<Vec<Dialog>, StoreError> {
            self.reads.fetch_add(1, Ordering::Relaxed);
            self.store.dialogs(keys).await
        }

        async fn mark_dialogs(
            &self,
            marks: &[DialogMark],
            now: Timestamp,
        ) -> Result<Vec<Result<MarkBase, StoreError>>, StoreError> {
            let held = self.held.lock().unwrap().take();
            self.commands.fetch_add(1, Ordering::Relaxed);
            if self.fails.load(Ordering::Relaxed) {
                return Err(broken_store::away(Outcome::Unknown));
            }
            if matches!(held, Some(Held::BeforeItsWrite)) {
                self.wait().await;
            }
            let made = self.store.mark_dialogs(marks, now).await;
            if matches!(held, Some(Held::BeforeItsAnswer)) {
                self.wait().await;
            }
            made
        }
    }
    fn dialog_list(user: UserId, list: DialogList, after: Option<DialogPosition>, limit: usize)
        -> Vec<Dialog>;
    fn dialog_conversations(user: UserId, after: Option<ConversationId>, limit: usize) -> Vec<ConversationId>;
    fn change_dialog(key: DialogKey, patch: DialogPatch, write: Write) -> Applied<Dialog>;
    fn make_dialogs(keys: &[DialogKey], now: Timestamp) -> ();
    fn reduce_dialogs(user: UserId, ends: &[(ConversationId, Seq)], now: Timestamp) -> ();
}

/// Creates a group with this many members besides its owner. Returns the owner first.
async fn group(edge: &Edge, readers: usize) -> (i64, Vec<i64>) {
    let create = async |number| bare_node::user(edge, 0, &format!("user{number}")).await;
    let ids = join_all((0..=readers).map(create)).await;
    let group = groups::Group { name: "All".into(), creator_id: ids[0], ..Default::default() };
    let request = groups::CreateGroupRequest { group: Some(group), ..Default::default() };
    let made = GroupServiceClient::new(edge.clone()).create_group(request).await.unwrap().into_inner();
    let group_id = made.group.unwrap().group_id;
    for some in ids[1..].chunks(100) {
        let request = AddMembersRequest { group_id, user_ids: some.to_vec(), ..Default::default() };
        MemberServiceClient::new(edge.clone()).add_members(request).await.unwrap();
    }
    (group_id, ids)
}

/// Makes a node over counted dialogs.
async fn started(file: &kith_store_sqlite::SqliteHandle) -> (Arc<CountingDialogStore>, Edge, Services) {
    let mut config = Config::default();
    // These limits let even a busy machine answer all simultaneous calls.
    config.limits.write_answer = Duration::from_secs(60);
    config.limits.write_wait = Duration::from_secs(60);
    config.cache.loads_in_flight = READERS;
    config.cache.load_hard = Duration::from_secs(60);
    let mut stores = file.stores();
    let dialogs = Arc::new(CountingDialogStore {
        store: Arc::clone(&stores.dialogs),
        commands: AtomicUsize::default(),
        reads: AtomicUsize::default(),
        fails: AtomicBool::default(),
        held: Mutex::default(),
        permit: Semaphore::new(0),
    });
    stores.dialogs = Arc::<CountingDialogStore>::clone(&dialogs);
    let (edge, services) = bare_node::serve(&stores, &config).await;
    (dialogs, edge, services)
}

/// Waits until a condition on the counted dialogs holds.
async fn until(dialogs: &CountingDialogStore, holds: impl Fn(&CountingDialogStore) -> bool) {
    let wait = async {
        while !holds(dialogs) {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(20), wait).await.unwrap();
}

/// Creates two users, and lets the second answer the first. Returns the second user and the answer's number.
async fn answered(edge: &Edge) -> (i64, i64) {
    let users = [bare_node::user(edge, 0, "ann").await, bare_node::user(edge, 0, "bob").await];
    let mut seq = 0;
    for (from, to) in [(users[0], users[1]), (users[1], users[0])] {
        let request = SendMessageRequest {
            sender_id: from,
            to: Some(To::UserId(to)),
            body: "hi".into(),
            ..Default::default()
        };
        seq = MessageServiceClient::new(edge.clone()).send_message(request).await.unwrap().into_inner().seq;
    }
    (users[1], seq)
}

async fn read_seq(file: &kith_store_sqlite::SqliteHandle, user: i64) -> i64 {
    let user = UserId::new(user).unwrap();
    let dialogs = file.stores().dialogs.dialog_list(user, DialogList::All, None, 10).await.unwrap();
    dialogs[0].read.read_seq()
}

/// Regression: a sender's own mark was tried only once, so that answered messages stayed unread.
#[tokio::test]
async fn own_mark_is_repeated_until_stored() {
    let file = kith_store_sqlite::open_in_memory().await.unwrap();
    let (dialogs, edge, _services) = started(&file).await;
    dialogs.fails.store(true, Ordering::Relaxed);
    let (user, seq) = answered(&edge).await;
    until(&dialogs, |dialogs| dialogs.commands.load(Ordering::Relaxed) >= 2).await;
    assert_eq!(read_seq(&file, user).await, 0);
    dialogs.fails.store(false, Ordering::Relaxed);
    let failed = dialogs.commands.load(Ordering::Relaxed);
    until(&dialogs, |dialogs| dialogs.commands.load(Ordering::Relaxed) > failed).await;
    let stored = async {
        while read_seq(&file, user).await != seq {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(20), stored).await.unwrap();
}

#[tokio::test]
async fn own_marks_are_stored_when_the_node_stops() {
    let file = kith_store_sqlite::open_in_memory().await.unwrap();
    let (_, edge, services) = started(&file).await;
    let (user, seq) = answered(&edge).await;
    services.messages.stop_own_marks().await;
    assert_eq!(read_seq(&file, user).await, seq);
}

#[tokio::test]
async fn opening_500_unread_is_one_update() {
    let file = kith_store_sqlite::open_in_memory().await.unwrap();
    let (dialogs, edge, _services) = started(&file).await;
    let (group_id, ids) = group(&edge, 200).await;
    let id = format!("g{group_id}");
    let mut messages = MessageServiceClient::new(edge.clone());
    let message =
        SendMessageRequest { to: Some(To::GroupId(group_id)), body: "hi".into(), ..Default::default() };
    let mut last = 0;
    for _ in 0..5 {
        let request = BatchSendRequest { messages: vec![message.clone(); 100] };
        messages.batch_send(request).await.unwrap();
        last += 100;
    }
    let shown = GetConversationRequest { conversation_id: id.clone(), ..Default::default() };
    let shown = messages.get_conversation(principal(ids[7], shown)).await.unwrap().into_inner();
    let end = shown.conversation.unwrap().max_seq;
    assert!(end >= last);

    let before = (dialogs.commands.load(Ordering::Relaxed), dialogs.reads.load(Ordering::Relaxed));
    messages.mark_read(principal(ids[7], to_mark(&id, end))).await.unwrap();
    let after = (dialogs.commands.load(Ordering::Relaxed), dialogs.reads.load(Ordering::Relaxed));
    assert_eq!((after.0 - before.0, after.1 - before.1), (1, 0), "one update, and the dialog is in memory");

    for seqs in (end - last + 1..=end).collect::<Vec<_>>().chunks(100) {
        let request = BatchGetReceiptsRequest {
            conversation_id: id.clone(),
            seqs: seqs.to_vec(),
            ..Default::default()
        };
        let answer = ReceiptServiceClient::new(edge.clone()).batch_get_receipts(request).await.unwrap();
        for result in answer.into_inner().results {
            let Some(Found::Receipt(receipt)) = result.result else { panic!("{result:?}") };
            assert_eq!((receipt.read, receipt.unread), (1, 200), "{}", receipt.seq);
        }
    }
    let read = dialogs.reads.load(Ordering::Relaxed) - after.1;
    assert!(read <= 5, "{read} reads for 500 receipts");
}

#[tokio::test]
async fn marks_of_500_readers_are_few_commands() {
    let file = kith_store_sqlite::open_in_memory().await.unwrap();
    let (dialogs, edge, _services) = started(&file).await;
    let (group_id, ids) = group(&edge, READERS).await;
    let message =
        SendMessageRequest { to: Some(To::GroupId(group_id)), body: "hi".into(), ..Default::default() };
    let sent = MessageServiceClient::new(edge.clone()).send_message(message).await.unwrap().into_inner().seq;

    let id = format!("g{group_id}");
    let mark = |user: &i64| {
        let (mut client, mut request) =
            (MessageServiceClient::new(edge.clone()), principal(*user, to_mark(&id, sent)));
        // A busy machine needs more time than the deadline of a call.
        request.set_timeout(Duration::from_secs(60));
        async move { client.mark_read(request).await.unwrap().into_inner() }
    };
    let marked = join_all(ids[1..].iter().map(mark)).await;
    assert!(marked.iter().all(|marked| (marked.read_seq, marked.unread) == (sent, 0)));
    let commands = dialogs.commands.load(Ordering::Relaxed);
    assert!((2..=READERS / 10).contains(&commands), "{commands} commands for {READERS} marks");
    let again = join_all(ids[1..].iter().map(mark)).await;
    assert!(again.iter().all(|marked| marked.read_seq == sent));
    assert_eq!(dialogs.commands.load(Ordering::Relaxed), commands, "what is marked already is not written");
}

/// A reader in a direct conversation with another user's messages. The reader's own marks are stored.
struct Reader {
    file: kith_store_sqlite::SqliteHandle,
    dialogs: Arc<CountingDialogStore>,
    edge: Edge,
    user: i64,
    id: String,
    _services: Services,
}

impl Reader {
    async fn of_messages(count: usize) -> Self {
        let file = kith_store_sqlite::open_in_memory().await.unwrap();
        let (dialogs, edge, services) = started(&file).await;
        let users = [bare_node::user(&edge, 0, "ann").await, bare_node::user(&edge, 0, "bob").await];
        let to = Some(To::UserId(users[1]));
        let message = SendMessageRequest { sender_id: users[0], to, body: "hi".into(), ..Default::default() };
        let request = BatchSendRequest { messages: vec![message; count] };
        MessageServiceClient::new(edge.clone()).batch_send(request).await.unwrap();
        services.messages.stop_own_marks().await;
        let id = format!("d{}-{}", users[0], users[1]);
        Self { file, dialogs, edge, user: users[1], id, _services: services }
    }

    /// Marks up to a number, and returns what is read then.
    async fn mark(&self, seq: i64) -> i64 {
        let request = principal(self.user, to_mark(&self.id, seq));
        MessageServiceClient::new(self.edge.clone()).mark_read(request).await.unwrap().into_inner().read_seq
    }

    async fn shown(&self) -> Conversation {
        let request = GetConversationRequest { conversation_id: self.id.clone(), ..Default::default() };
        let mut messages = MessageServiceClient::new(self.edge.clone());
        messages
            .get_conversation(principal(self.user, request))
            .await
            .unwrap()
            .into_inner()
            .conversation
            .unwrap()
    }

    fn reads(&self) -> usize {
        self.dialogs.reads.load(Ordering::Relaxed)
    }
}

#[tokio::test]
async fn marks_in_a_row_read_the_dialog_once() {
    let reader = Reader::of_messages(5).await;
    reader.mark(1).await;
    reader.shown().await;
    let reads = reader.reads();
    for seq in 2..=5 {
        assert_eq!(reader.mark(seq).await, seq);
        assert_eq!(reader.shown().await.read_seq, seq);
    }
    assert_eq!(reader.reads(), reads, "each mark leaves its dialog in memory");
}

/// One node saves a draft. The other node, which marks, does not know it yet.
#[tokio::test]
async fn mark_shows_the_draft_of_another_node() {
    let reader = Reader::of_messages(2).await;
    reader.mark(1).await;
    let key = format!("{},{}", reader.user, reader.id).parse().unwrap();
    let draft = DialogPatch { ext: Some(b"draft".to_vec()), ..DialogPatch::default() };
    let store = &reader.file.stores().dialogs;
    store.change_dialog(key, draft, Write::at(Timestamp::now())).await.unwrap();
    assert!(reader.shown().await.ext.is_empty(), "the broadcast is on its way");
    assert_eq!(reader.mark(2).await, 2);
    let shown = reader.shown().await;
    assert_eq!((shown.read_seq, &shown.ext[..]), (2, &b"draft"[..]));
}

#[tokio::test]
async fn step_that_ends_last_lowers_no_mark() {
    for held in [Held::BeforeItsWrite, Held::BeforeItsAnswer] {
        let reader = Reader::of_messages(4).await;
        reader.mark(1).await;
        *reader.dialogs.held.lock().unwrap() = Some(held);
        let commands = reader.dialogs.commands.load(Ordering::Relaxed);
        let other = async {
            until(&reader.dialogs, |dialogs| dialogs.commands.load(Ordering::Relaxed) > commands).await;
            let marked = reader.mark(3).await;
            reader.dialogs.permit.add_permits(1);
            marked
        };
        let (early, marked) = tokio::join!(reader.mark(2), other);
        assert_eq!((early >= 2, marked), (true, 3), "one does not wait for the other");
        assert_eq!((reader.shown().await.read_seq, read_seq(&reader.file, reader.user).await), (3, 3));
        assert_eq!((reader.mark(4).await, reader.shown().await.read_seq), (4, 4));
    }
}
