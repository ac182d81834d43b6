//! Receipts in large groups, and the store reads that they need.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use kith_proto::{
    group::v1::{self as groups, group_service_client::GroupServiceClient},
    message::v1::{
        BatchSendRequest, SendMessageRequest, message_service_client::MessageServiceClient,
        send_message_request::To,
    },
    receipt::v1::{
        BatchGetReceiptsRequest, GetReceiptRequest, ListOrdinalsRequest, ListReadersRequest, Receipt,
        ReceiptForm, receipt::Who, receipt_result::Result as Found,
        receipt_service_client::ReceiptServiceClient,
    },
};
use kith_server::{config::Config, edge::Edge};
use kith_store::*;
use kith_store_sqlite::SqliteHandle;
use tokio::sync::Semaphore;

use crate::bare_node;
use crate::store_over::store_over;

/// Another store's members. Counts row reads; each waits for a permit.
#[derive(Debug)]
struct CountingMemberStore {
    store: Arc<dyn MemberStore>,
    pages: AtomicUsize,
    single: AtomicUsize,
    permits: Semaphore,
}

store_over! {
    MemberStore for CountingMemberStore by store {
        async fn stored_members(&self, keys: &[MemberKey]) -> Result<Vec<Option<MemberRow>>, StoreError> {
            self.single.fetch_add(keys.len(), Ordering::Relaxed);
            self.store.stored_members(keys).await
        }

        async fn group_rows(
            &self,
            group: GroupId,
            after: Option<UserId>,
            limit: usize,
        ) -> Result<Vec<MemberRow>, StoreError> {
            let rows = self.store.group_rows(group, after, limit).await;
            self.pages.fetch_add(1, Ordering::SeqCst);
            self.permits.acquire().await.unwrap().forget();
            rows
        }
    }
    fn members(keys: &[MemberKey]) -> Vec<(MemberKey, Stored<Member>)>;
    fn former(keys: &[MemberKey]) -> Vec<Option<FormerMember>>;
    fn rosters(groups: &[GroupId]) -> Vec<Roster>;
    fn change_members(group: GroupId, change: MemberChange, terms: ChangeContext, write: Write)
        -> Applied<MembersUpdated>;
    fn member_list(group: GroupId, least: Role, after: Option<UserId>, limit: usize) -> Vec<Member>;
    fn memberships(user: UserId, after: Option<GroupId>, limit: usize) -> Vec<GroupId>;
    fn member_changes(group: GroupId, after: MemberChangeEvent, limit: usize)
        -> Option<Vec<MemberChangeEvent>>;
    fn ban_list(group: GroupId, after: Option<UserId>, limit: usize, now: Timestamp) -> Vec<Ban>;
    fn ban(key: MemberKey, now: Timestamp) -> Option<Ban>;
    fn banned_from(user: UserId, after: Option<GroupId>, limit: usize) -> Vec<GroupId>;
    fn end_members(group: GroupId, limit: usize, now: Timestamp) -> u32;
}

const PATIENCE: Duration = Duration::from_secs(120);
const GROUP: i64 = 9;
const ID: &str = "g9";

/// A node over a store in memory, whose member reads are counted.
struct Stage {
    stores: Stores,
    members: Arc<CountingMemberStore>,
    edge: Edge,
    _file: SqliteHandle,
}

fn user(id: i64) -> UserId {
    UserId::new(id).unwrap()
}

async fn opened(stores: &Stores) -> Edge {
    let mut config = Config::default();
    // A machine may be busy.
    (config.limits.deadline_default, config.limits.deadline_max) = (PATIENCE, PATIENCE);
    // This is less than the number of members in the groups.
    config.receipts.kept = 1_000;
    bare_node::serve(stores, &config).await.0
}

impl Stage {
    /// Starts with an empty group. Lets `permits` row reads through.
    async fn start(permits: usize) -> Self {
        let file = kith_store_sqlite::open_in_memory().await.unwrap();
        let mut stores = file.stores();
        let members = Arc::new(CountingMemberStore {
            store: Arc::clone(&stores.members),
            pages: AtomicUsize::new(0),
            single: AtomicUsize::new(0),
            permits: Semaphore::new(permits),
        });
        stores.members = Arc::<CountingMemberStore>::clone(&members);
        let edge = opened(&stores).await;
        let group = groups::Group { group_id: GROUP, name: "All".into(), ..Default::default() };
        let request = groups::CreateGroupRequest { group: Some(group), ..Default::default() };
        GroupServiceClient::new(edge.clone()).create_group(request).await.unwrap();
        Self { stores, members, edge, _file: file }
    }

    /// Restarts over the same store with a node that has cached nothing yet.
    async fn again(self) -> Self {
        Self { edge: opened(&self.stores).await, ..self }
    }

    /// Changes members in the store: no node knows about it.
    async fn change(&self, change: MemberChange) {
        let group = GroupId::new(GROUP).unwrap();
        bare_node::change_members(&self.stores, group, change, Timestamp::now()).await;
    }

    async fn add(&self, ids: std::ops::RangeInclusive<i64>) {
        for some in ids.map(user).collect::<Vec<_>>().chunks(MEMBERS_AT_ONCE) {
            self.change(MemberChange::Add(some.to_vec())).await;
        }
    }

    async fn remove(&self, ids: std::ops::RangeInclusive<i64>) {
        for some in ids.map(user).collect::<Vec<_>>().chunks(MEMBERS_AT_ONCE) {
            self.change(MemberChange::Remove(some.to_vec())).await;
        }
    }

    /// Sends `count` messages from a service. Returns the last number.
    async fn send(&self, count: usize) -> i64 {
        let message =
            SendMessageRequest { to: Some(To::GroupId(GROUP)), body: "hi".into(), ..Default::default() };
        let request = BatchSendRequest { messages: vec![message; count] };
        MessageServiceClient::new(self.edge.clone()).batch_send(request).await.unwrap();
        let end = self.stores.messages.ends(&[ID.parse().unwrap()]).await.unwrap();
        end[0].seq
    }

    /// Writes marks like the mark queue.
    async fn mark(&self, ids: std::ops::RangeInclusive<i64>, seq: i64) {
        let mark = |id| DialogMark {
            key: DialogKey { user: user(id), conversation: ID.parse().unwrap() },
            mark: ReadMark::direct(MarkKind::UpTo(seq)),
            expected: None,
        };
        for some in ids.map(mark).collect::<Vec<_>>().chunks(MARKS_AT_ONCE) {
            self.stores.dialogs.mark_dialogs(some, Timestamp::now()).await.unwrap();
        }
    }

    async fn receipt(&self, seq: i64, form: ReceiptForm) -> Receipt {
        let request =
            GetReceiptRequest { conversation_id: ID.to_owned(), seq, form: form.into(), consistency: None };
        let mut client = ReceiptServiceClient::new(self.edge.clone());
        client.get_receipt(request).await.unwrap().into_inner().receipt.unwrap()
    }

    async fn counts(&self, seq: i64) -> [i64; 4] {
        let receipt = self.receipt(seq, ReceiptForm::Counts).await;
        [receipt.max_id, receipt.read, receipt.unread, receipt.left]
    }

    /// Counts the reads of row pages, and rows that were read individually.
    fn reads(&self) -> (usize, usize) {
        (self.members.pages.load(Ordering::SeqCst), self.members.single.load(Ordering::Relaxed))
    }
}

const MANY: usize = 10_000;

#[tokio::test]
async fn receipt_of_100000_members_is_bounded() {
    let stage = Stage::start(MANY).await;
    stage.add(1..=100_000).await;
    let seq = stage.send(1).await;
    stage.mark(1..=100, seq).await;
    let Some(Who::Lists(lists)) = stage.receipt(seq, ReceiptForm::Smallest).await.who else {
        panic!("lists")
    };
    assert_eq!((lists.readers, lists.quitters), ((0..100).collect(), vec![]));
    assert_eq!(stage.reads(), (101, 0), "a page for each 1000 rows, and one that is empty");
    assert_eq!(stage.counts(seq).await, [100_000, 100, 99_900, 0]);
    assert_eq!(stage.reads(), (101, 0), "nothing is read again");
}

/// Regression: in a group with more users than are cached, each page read the whole group.
#[tokio::test]
async fn page_of_a_large_group_reads_a_page() {
    let stage = Stage::start(MANY).await;
    stage.add(1..=30_000).await;
    let seq = stage.send(1).await;
    stage.mark(25_001..=25_100, seq).await;
    let mut client = ReceiptServiceClient::new(stage.edge.clone());
    let (mut ordinals, mut token) = (0, String::new());
    loop {
        let request =
            ListOrdinalsRequest { conversation_id: ID.to_owned(), page_size: 1_000, page_token: token };
        let page = client.list_ordinals(request).await.unwrap().into_inner();
        ordinals += page.users.len();
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!((ordinals, stage.reads()), (30_000, (31, 0)), "the group is read once");

    let (mut readers, mut pages, mut token) = (Vec::new(), 0, String::new());
    loop {
        let request = ListReadersRequest {
            conversation_id: ID.to_owned(),
            seq,
            page_size: 60,
            page_token: token,
            consistency: None,
        };
        let page = client.list_readers(request).await.unwrap().into_inner();
        (readers, pages, token) = ([readers, page.user_ids].concat(), pages + 1, page.next_page_token);
        if token.is_empty() {
            break;
        }
    }
    assert_eq!((readers, pages), ((25_001..=25_100).collect(), 3), "the first page finds no reader");
    assert_eq!(stage.reads(), (31, 0));
}

#[tokio::test]
async fn few_members_of_100000_are_sent_as_lists() {
    let stage = Stage::start(MANY).await;
    stage.add(1..=100_000).await;
    let seq = stage.send(1).await;
    stage.mark(1..=100, seq).await;
    stage.remove(201..=100_000).await;
    let stage = stage.again().await;
    let last = stage.send(1).await;
    stage.mark(1..=50, last).await;
    let receipt = stage.receipt(last, ReceiptForm::Smallest).await;
    assert_eq!([receipt.max_id, receipt.read, receipt.unread, receipt.left], [100_000, 50, 150, 0]);
    let Some(Who::Lists(lists)) = receipt.who else { panic!("lists") };
    assert_eq!((lists.readers.len(), lists.quitters.len(), lists.names_present), (50, 200, true));
    assert_eq!(stage.counts(seq).await, [100_000, 100, 100, 99_800], "those of the first message have left");
}

#[tokio::test]
async fn steps_of_a_batch_are_bounded() {
    let stage = Stage::start(MANY).await;
    stage.add(1..=150_000).await;
    let last = stage.send(100).await;
    let seqs: Vec<i64> = (last - 99..=last).collect();
    let request = BatchGetReceiptsRequest { conversation_id: ID.to_owned(), seqs, ..Default::default() };
    let mut client = ReceiptServiceClient::new(stage.edge.clone());
    let results = client.batch_get_receipts(request).await.unwrap().into_inner().results;
    let left_out = results.iter().map(|result| match result.result.as_ref().unwrap() {
        Found::Receipt(_) => false,
        Found::Error(error) => error.reason == "ANSWER_TOO_LARGE",
    });
    assert_eq!(left_out.collect::<Vec<_>>(), [vec![false; 66], vec![true; 34]].concat());
}

#[tokio::test]
async fn change_while_rows_are_read_is_seen() {
    let stage = Arc::new(Stage::start(0).await);
    stage.add(1..=3).await;
    let seq = stage.send(1).await;
    let reader = tokio::spawn({
        let stage = Arc::clone(&stage);
        async move { stage.counts(seq).await }
    });
    crate::node::until(async || stage.reads().0 == 1).await;
    // The rows have been read, and are on their way.
    join_and_leave(&stage).await;
    stage.members.permits.add_permits(MANY);
    assert_eq!(reader.await.unwrap(), [3, 0, 3, 0]);
    let last = stage.send(1).await;
    assert_eq!(stage.counts(last).await, [4, 0, 3, 0]);
    assert_eq!(stage.counts(seq).await, [3, 0, 2, 1]);
    assert_eq!(stage.reads(), (1, 2), "those who changed are read, and no page");
}

/// Joins and leaves through the node, so that its roster record is invalidated.
async fn join_and_leave(stage: &Stage) {
    use kith_proto::member::v1::{
        AddMembersRequest, RemoveMembersRequest, member_service_client::MemberServiceClient,
    };
    for user_id in 3..=4 {
        bare_node::user(&stage.edge, user_id, &format!("user{user_id}")).await;
    }
    let mut members = MemberServiceClient::new(stage.edge.clone());
    let add = AddMembersRequest { group_id: GROUP, user_ids: vec![4], ..Default::default() };
    members.add_members(add).await.unwrap();
    let remove = RemoveMembersRequest { group_id: GROUP, user_ids: vec![3], ..Default::default() };
    members.remove_members(remove).await.unwrap();
}
