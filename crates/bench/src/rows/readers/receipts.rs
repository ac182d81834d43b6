//! Receipts from a node whose copies are in memory, over reads of as many bytes from Redis.

use std::{hint::black_box, time::Duration};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use fred::{interfaces::KeysInterface as _, types::Value};
use kith_proto::{
    group::v1::{CreateGroupRequest, Group, group_service_client::GroupServiceClient},
    message::v1::{
        BatchSendRequest, SendMessageRequest, message_service_client::MessageServiceClient,
        send_message_request::To,
    },
    receipt::v1::{
        BatchGetReceiptsRequest, GetReceiptRequest, receipt_result::Result as Found,
        receipt_service_client::ReceiptServiceClient,
    },
};
use kith_server::{
    admin::NodeStatus,
    config::Config,
    edge::{Edge, Routes},
    health::Reporter,
    node::services,
};
use kith_store::{
    ChangeContext, DialogKey, DialogMark, GroupId, MARKS_AT_ONCE, MEMBERS_AT_ONCE, MarkKind, MemberChange,
    ReadMark, Stores, Timestamp, UserId, Write,
};
use kith_store_sqlite::SqliteHandle;

use crate::{
    claims::{Plan, RECEIPT_100K, RECEIPTS_50},
    ratio::{Pair, Side},
    results::Results,
    rows::{latency::compare_medians, redis::RawRedis},
};

const GROUP: i64 = 9;
/// Messages on one screen.
const SCREEN: usize = 50;
/// Members in a block of read marks, eight bytes each, as a copy in Redis would have them.
const BLOCK: i64 = 1_024;
/// Reading a large group for the first time may take longer than a call may otherwise.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the requested rows. Without Redis, no row runs.
pub(super) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    let Some(url) = &plan.redis else { return Ok(()) };
    let screens = async { ReceiptStage::start(url, 200).await?.screens(plan).await };
    results.row(&RECEIPTS_50, Box::pin(screens)).await?;
    let members = plan.size(100_000, 3_000);
    let receipts = async { ReceiptStage::start(url, members).await?.receipts(plan).await };
    results.row(&RECEIPT_100K, Box::pin(receipts)).await
}

/// A node in this process with a group in which every second member has read all, and the bytes that copies
/// of its read marks would have in Redis.
struct ReceiptStage {
    edge: Edge,
    /// The last messages' numbers.
    seqs: Vec<i64>,
    members: i64,
    blocks: Vec<String>,
    raw: RawRedis,
    _file: SqliteHandle,
}

impl ReceiptStage {
    async fn start(url: &str, members: i64) -> Result<Self> {
        let file = kith_store_sqlite::open_in_memory().await?;
        let stores = file.stores();
        let edge = edge(&stores).await?;
        let group = Group { group_id: GROUP, name: "many".to_owned(), ..Group::default() };
        let request = CreateGroupRequest { group: Some(group), ..CreateGroupRequest::default() };
        GroupServiceClient::new(edge.clone()).create_group(request).await?;
        let users = (1..=members).map(UserId::new).collect::<Result<Vec<_>, _>>()?;
        add_members(&stores, &users).await?;
        let seqs = send(&edge).await?;
        mark(&stores, &users, *seqs.last().context("there are messages")?).await?;
        let raw = RawRedis::patient(url, &format!("raw-{:x}", rand::random::<u64>())).await?;
        let mut this = Self { edge, seqs, members, blocks: Vec::new(), raw, _file: file };
        this.fill_blocks().await?;
        Ok(this)
    }

    /// A block for each 1,024 members, with a flag.
    async fn fill_blocks(&mut self) -> Result<()> {
        for first in (0..self.members).step_by(usize::try_from(BLOCK)?) {
            let bytes = usize::try_from(1 + 8 * BLOCK.min(self.members - first))?;
            let key = self.raw.key(format_args!("block:{first}"));
            self.raw
                .client
                .set::<(), _, _>(key.clone(), Bytes::from(vec![7; bytes]), None, None, false)
                .await?;
            self.blocks.push(key);
        }
        Ok(())
    }

    /// Microseconds for the receipts on a screen, and for a GET of what the members have read.
    async fn screens(self, plan: &Plan) -> Result<Vec<Pair<f64>>> {
        let request = BatchGetReceiptsRequest {
            conversation_id: format!("g{GROUP}"),
            seqs: self.seqs.clone(),
            ..BatchGetReceiptsRequest::default()
        };
        let client = ReceiptServiceClient::new(self.edge.clone());
        let call = async || {
            let answer = client.clone().batch_get_receipts(request.clone()).await?.into_inner();
            for result in &answer.results {
                let Some(Found::Receipt(receipt)) = &result.result else {
                    anyhow::bail!("a message has no receipt")
                };
                ensure!(receipt.read == self.members / 2, "{} have read a message", receipt.read);
            }
            ensure!(answer.results.len() == SCREEN, "{} receipts", answer.results.len());
            Ok(())
        };
        self.measure(plan, plan.size(2_000, 20), call).await
    }

    /// Like `screens`, but for one receipt.
    async fn receipts(self, plan: &Plan) -> Result<Vec<Pair<f64>>> {
        let request = GetReceiptRequest {
            conversation_id: format!("g{GROUP}"),
            seq: *self.seqs.last().context("there are messages")?,
            ..GetReceiptRequest::default()
        };
        let client = ReceiptServiceClient::new(self.edge.clone());
        let call = async || {
            let answer = client.clone().get_receipt(request.clone()).await?.into_inner();
            let read = answer.receipt.context("a receipt")?.read;
            ensure!(read == self.members / 2, "{read} have read the message");
            Ok(())
        };
        self.measure(plan, plan.size(300, 5), call).await
    }

    async fn measure(
        &self,
        plan: &Plan,
        calls: usize,
        call: impl AsyncFn() -> Result<()>,
    ) -> Result<Vec<Pair<f64>>> {
        call().await?;
        let rounds = compare_medians(plan.rounds, calls, async |side| match side {
            Side::Baseline => self.read_blocks().await,
            Side::Kith => call().await,
        })
        .await?;
        let _removed: i64 = self.raw.client.del(self.blocks.clone()).await?;
        Ok(rounds)
    }

    async fn read_blocks(&self) -> Result<()> {
        let get = |key: &String| ("GET", vec![Value::from(key.as_str())]);
        black_box(self.raw.together(self.blocks.iter().map(get)).await)
    }
}

/// A node without a connection.
async fn edge(stores: &Stores) -> Result<Edge> {
    let mut config = Config::default();
    (config.limits.deadline_default, config.limits.deadline_max) = (PATIENCE, PATIENCE);
    let edge = Edge::new(Routes::default(), &config.limits);
    let node_status = NodeStatus::new(Reporter::new(), edge.load(), stores);
    edge.open(services::services(stores, &config, node_status).await?.routes);
    Ok(edge)
}

async fn add_members(stores: &Stores, users: &[UserId]) -> Result<()> {
    let terms = ChangeContext { by: None, members_max: u32::MAX, bans_max: 0, history: false };
    for some in users.chunks(MEMBERS_AT_ONCE) {
        let (group, write) = (GroupId::new(GROUP)?, Write::at(Timestamp::now()));
        stores.members.change_members(group, MemberChange::Add(some.to_vec()), terms, write).await?;
    }
    Ok(())
}

/// Sends a screen with messages. Returns their numbers.
async fn send(edge: &Edge) -> Result<Vec<i64>> {
    let message = SendMessageRequest {
        to: Some(To::GroupId(GROUP)),
        body: "hi".into(),
        ..SendMessageRequest::default()
    };
    let mut client = MessageServiceClient::new(edge.clone());
    let first = client.send_message(message.clone()).await?.into_inner().seq;
    client.batch_send(BatchSendRequest { messages: vec![message; SCREEN - 1] }).await?;
    Ok((first..first + i64::try_from(SCREEN)?).collect())
}

/// Marks every second member as having read up to this number, as the mark queue writes it.
async fn mark(stores: &Stores, users: &[UserId], seq: i64) -> Result<()> {
    let mark = |user: &UserId| {
        let conversation = format!("g{GROUP}").parse()?;
        let key = DialogKey { user: *user, conversation };
        anyhow::Ok(DialogMark { key, mark: ReadMark::direct(MarkKind::UpTo(seq)), expected: None })
    };
    let marks = users.iter().step_by(2).map(mark).collect::<Result<Vec<_>>>()?;
    for some in marks.chunks(MARKS_AT_ONCE) {
        for made in stores.dialogs.mark_dialogs(some, Timestamp::now()).await? {
            made?;
        }
    }
    Ok(())
}
