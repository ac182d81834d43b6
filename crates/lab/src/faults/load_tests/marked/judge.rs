//! Compares the final store with the acknowledged marks and with what nodes count.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::{Context as _, Result};
use futures::TryStreamExt as _;
use kith_proto::{
    notice::v1::{CountReadersRequest, notice_service_client::NoticeServiceClient},
    receipt::v1::{
        BatchGetReceiptsRequest, receipt_result::Result as Found,
        receipt_service_client::ReceiptServiceClient,
    },
};
use mongodb::{
    Database,
    bson::{Document, doc},
};
use tokio::time::{Instant, sleep};
use tonic::transport::Channel;

use super::{
    BITMAPS_KEPT, KnownMarks, MarkLoss, Workload,
    messages::{CONVERSATION, MessageModel, USERS},
    notices::{AUDIENCE, NOTICES, NoticeModel},
};
use crate::{
    faults::{
        Figure, Site,
        calls::{consistency, with_deadline},
        site::NAME,
    },
    history::Level,
};

/// Counts are right this long after the last fault. After a node's death, its bitmaps must also have expired.
const RIGHT_WITHIN: Duration = Duration::from_secs(15);
/// How much longer the counts are read.
const LOOKED_FOR: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(50);
/// Receipts are read for one message in this many.
const RECEIPT_EVERY: usize = 23;
/// Messages in one call.
const SEQS: usize = 100;
/// How many violations are printed in full.
const PRINTED_MAX: usize = 5;

/// The marks in the store.
struct Dump {
    notices: NoticeModel,
    messages: MessageModel,
}

pub(super) async fn figures(
    site: &Site,
    state: &Workload,
    marks: &KnownMarks,
    loss: MarkLoss,
) -> Result<Vec<Figure>> {
    let bound = if loss == MarkLoss::Node { BITMAPS_KEPT + RIGHT_WITHIN } else { RIGHT_WITHIN };
    let dump = Dump::read(&site.mongod.database(NAME).await?).await?;
    let right_after = dump.until_counted(&state.nodes, bound + LOOKED_FOR).await?;
    let (receipts, wrong) = dump.compare_receipts(&state.nodes).await?;
    let none = |name, wrong: Vec<String>| {
        wrong.iter().take(PRINTED_MAX).for_each(|what| eprintln!("{name}: {what}"));
        Figure::none(name, wrong.len() as u64)
    };
    Ok(vec![
        none("acknowledged marks of notices missing", difference(&marks.notices, &dump.notices)),
        none("marks of notices that no caller made", difference(&dump.notices, &marks.notices)),
        none("acknowledged marks of messages missing", dump.missing_messages(marks)),
        Figure::at_most("counts right after", "s", right_after, bound.as_secs_f64()),
        none("receipts that the store contradicts", wrong),
        Figure::at_least_count("receipts", receipts, 1),
        Figure::count("readers who have read a notice", dump.marked()),
    ])
}

impl Dump {
    async fn read(database: &Database) -> Result<Self> {
        Ok(Self { notices: notices(database).await?, messages: messages(database).await? })
    }

    fn missing_messages(&self, marks: &KnownMarks) -> Vec<String> {
        let stored = |user: &i64| self.messages.get(user).copied().unwrap_or_default();
        let lower = marks.messages.iter().filter(|(user, seq)| stored(user) < **seq);
        lower.map(|(user, seq)| format!("user {user} has read up to {seq}, not {}", stored(user))).collect()
    }

    fn marked(&self) -> u64 {
        self.notices.values().filter(|read| !read.is_empty()).count() as u64
    }

    /// Seconds until every node's count for each notice equals the store's; infinite if that takes too long.
    async fn until_counted(&self, nodes: &[Channel], longest: Duration) -> Result<f64> {
        let of_notice = |notice| self.notices.values().filter(|read| read.contains(&notice)).count();
        let expected: Vec<i64> =
            (1..=NOTICES).map(|notice| i64::try_from(of_notice(notice))).collect::<Result<_, _>>()?;
        let began = Instant::now();
        for node in nodes {
            while counted(node).await.as_ref() != Some(&expected) {
                if began.elapsed() > longest {
                    eprintln!("{:?} is counted, {expected:?} is stored", counted(node).await);
                    return Ok(f64::INFINITY);
                }
                sleep(LOOK).await;
            }
        }
        Ok(began.elapsed().as_secs_f64())
    }

    /// Reads receipts through each node. Returns how many, and which differ.
    async fn compare_receipts(&self, nodes: &[Channel]) -> Result<(u64, Vec<String>)> {
        let last = self.messages.values().max().copied().unwrap_or_default();
        // The group's events have no receipts: they come before all messages.
        let seqs: Vec<i64> = (1..=last).rev().step_by(RECEIPT_EVERY).collect();
        let (mut receipts, mut wrong) = (0, Vec::new());
        for node in nodes {
            for seqs in seqs.chunks(SEQS) {
                for (seq, read, unread) in self::receipts(node, seqs).await? {
                    let expected = self.messages.values().filter(|read| **read >= seq).count();
                    let expected = i64::try_from(expected)?;
                    receipts += 1;
                    if (read, unread) != (expected, USERS - expected) {
                        wrong.push(format!(
                            "message {seq}: {read} of {expected} have read it, {unread} have not"
                        ));
                    }
                }
            }
        }
        Ok((receipts, wrong))
    }
}

/// The marks that `one` has and `other` lacks.
fn difference(one: &NoticeModel, other: &NoticeModel) -> Vec<String> {
    let none = BTreeSet::new();
    let pairs = one.iter().flat_map(|(reader, read)| {
        let others = other.get(reader).unwrap_or(&none);
        read.difference(others).map(move |notice| format!("reader {reader}, notice {notice}"))
    });
    pairs.collect()
}

/// All readers' words: the notices have the slots from 0 on, in the order in which they were published.
async fn notices(database: &Database) -> Result<NoticeModel> {
    let mut readers = database.collection::<Document>("notice_readers").find(doc! {}).await?;
    let mut notices = BTreeMap::new();
    while let Some(reader) = readers.try_next().await? {
        let id = reader.get_document("_id")?.get_i64("r")?;
        let words = reader.get_document("w")?;
        let word = if words.contains_key("0") { words.get_i64("0")? } else { 0 };
        notices.insert(id, (1..=NOTICES).filter(|notice| word & (1 << (notice - 1)) != 0).collect());
    }
    Ok(notices)
}

/// Up to where each user has read.
async fn messages(database: &Database) -> Result<MessageModel> {
    let of_group = doc! { "_id.c": CONVERSATION };
    let mut dialogs = database.collection::<Document>("dialogs").find(of_group).await?;
    let mut messages = BTreeMap::new();
    while let Some(dialog) = dialogs.try_next().await? {
        messages.insert(dialog.get_document("_id")?.get_i64("u")?, dialog.get_i64("read")?);
    }
    Ok(messages)
}

/// How many have read each notice; `None`: the node does not say, or not for all sections.
async fn counted(node: &Channel) -> Option<Vec<i64>> {
    let request = CountReadersRequest { audience_id: AUDIENCE, notice_ids: (1..=NOTICES).collect() };
    let counted =
        NoticeServiceClient::new(node.clone()).count_readers(with_deadline(request)).await.ok()?.into_inner();
    (!counted.incomplete).then(|| counted.counts.iter().map(|count| count.read).collect())
}

/// For each of these messages that is no event: the number, and how many have and have not read it.
async fn receipts(node: &Channel, seqs: &[i64]) -> Result<Vec<(i64, i64, i64)>> {
    let request = BatchGetReceiptsRequest {
        conversation_id: CONVERSATION.to_owned(),
        seqs: seqs.to_vec(),
        consistency: consistency(Level::Strong, ""),
        ..Default::default()
    };
    let answer = ReceiptServiceClient::new(node.clone())
        .batch_get_receipts(with_deadline(request))
        .await?
        .into_inner();
    let mut receipts = Vec::new();
    for result in answer.results {
        match result.result.context("a message has no result")? {
            Found::Receipt(receipt) => receipts.push((receipt.seq, receipt.read, receipt.unread)),
            Found::Error(error) => {
                anyhow::ensure!(error.reason == "NOT_FOUND", "{}: {}", result.seq, error.reason)
            }
        }
    }
    Ok(receipts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(notices: &[(i64, &[i64])], messages: &[(i64, i64)]) -> KnownMarks {
        let of = |(reader, read): &(i64, &[i64])| (*reader, read.iter().copied().collect());
        KnownMarks { notices: notices.iter().map(of).collect(), messages: messages.iter().copied().collect() }
    }

    #[test]
    fn acknowledged_write_not_stored_is_missing() {
        let known = marks(&[(1, &[3, 4]), (2, &[5])], &[(1, 10), (2, 20), (3, 30)]);
        let KnownMarks { notices, messages } = marks(&[(1, &[4, 6])], &[(1, 10), (2, 19)]);
        let dump = Dump { notices, messages };
        assert_eq!(difference(&known.notices, &dump.notices), ["reader 1, notice 3", "reader 2, notice 5"]);
        assert_eq!(difference(&dump.notices, &known.notices), ["reader 1, notice 6"]);
        assert_eq!(dump.missing_messages(&known).len(), 2);
    }
}
