//! Compares the store's reactions with what was acknowledged, with the messages, and with what nodes answer.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use futures::TryStreamExt as _;
use kith_proto::message::v1::{
    BatchGetReactionsRequest, MessageReactions, message_service_client::MessageServiceClient,
};
use mongodb::bson::{Document, doc};
use tonic::transport::Channel;

use super::{ReactedGroup, ReactionRow, Workload};
use crate::{
    faults::{
        Figure, Site,
        answered::{call, until_answered},
        load_tests::outcomes::Violations,
        messages,
        site::NAME,
    },
    history::LoggedMessage,
};

const LOST: &str = "acknowledged reactions lost";
const LEFT: &str = "reactions left that were taken back";
const ORPHANED: &str = "reactions of messages without content";
const WRONG: &str = "messages with wrong answers";
/// Messages in one call.
const BATCH: usize = 100;

/// The reactions to each message, by conversation and number.
type RowsByMessage<'a> = BTreeMap<(&'a str, i64), Vec<&'a ReactionRow>>;

/// The differences.
#[derive(Debug, Default)]
pub(super) struct Differences {
    found: BTreeMap<&'static str, Vec<String>>,
    /// Reactions in the store.
    rows: u64,
    /// Messages that have content.
    messages: u64,
}

impl Differences {
    pub(super) fn agrees(&self) -> bool {
        self.found.is_empty()
    }

    /// The number of differences of each kind, and how much was compared.
    pub(super) fn figures(self) -> Vec<Figure> {
        let mut violations = Violations::default();
        for (kind, all) in self.found {
            all.into_iter().for_each(|one| violations.add(kind, || one));
        }
        let mut figures = vec![
            Figure::at_least_count("reactions at the end", self.rows, 1),
            Figure::count("messages at the end", self.messages),
        ];
        figures.extend(violations.figures([LOST, LEFT, ORPHANED, WRONG]));
        figures
    }

    fn add(&mut self, kind: &'static str, what: String) {
        self.found.entry(kind).or_default().push(what);
    }
}

/// Compares everything once. `expected`: the reactions that must be there if their messages are.
///
/// # Errors
/// If the store or a node does not answer.
pub(super) async fn judge(
    site: &Site,
    state: &Workload,
    groups: &[ReactedGroup],
    expected: &BTreeSet<ReactionRow>,
) -> Result<Differences> {
    let (rows, logs) =
        (stored_rows(site).await?, messages::stored(&site.mongod.database(NAME).await?).await?);
    let mut found = compare(&rows, &logs, expected);
    let rows = by_message(&rows);
    for group in groups {
        for node in 0..state.nodes.len() {
            let reader = group.users[node % group.users.len()];
            for (seq, why) in wrong_answers(&state.nodes[node], group, reader, &rows).await? {
                found.add(WRONG, format!("message {seq} of {} on node {node}: {why}", group.conversation));
            }
        }
    }
    Ok(found)
}

/// Compares the store with what was acknowledged.
fn compare(
    rows: &BTreeSet<ReactionRow>,
    logs: &BTreeMap<String, Vec<LoggedMessage>>,
    expected: &BTreeSet<ReactionRow>,
) -> Differences {
    let alive: BTreeSet<(&str, i64)> = logs
        .iter()
        .flat_map(|(conversation, log)| {
            let with_content = log.iter().filter(|message| message.value.is_some_and(|value| value > 0));
            with_content.map(move |message| (conversation.as_str(), message.seq.cast_signed()))
        })
        .collect();
    let is_alive = |row: &&ReactionRow| alive.contains(&(row.conversation.as_str(), row.seq));
    let mut found =
        Differences { rows: rows.len() as u64, messages: alive.len() as u64, ..Differences::default() };
    for row in expected.difference(rows).filter(is_alive) {
        found.add(LOST, format!("{row:?}"));
    }
    for row in rows.difference(expected).filter(is_alive) {
        found.add(LEFT, format!("{row:?}"));
    }
    for row in rows.iter().filter(|row| !is_alive(row)) {
        found.add(ORPHANED, format!("{row:?}"));
    }
    found
}

async fn stored_rows(site: &Site) -> Result<BTreeSet<ReactionRow>> {
    let database = site.mongod.database(NAME).await?;
    let mut documents = database.collection::<Document>("reactions").find(doc! {}).await?;
    let mut rows = BTreeSet::new();
    while let Some(document) = documents.try_next().await? {
        let id = document.get_document("_id")?;
        rows.insert(ReactionRow {
            conversation: id.get_str("c")?.to_owned(),
            seq: id.get_i64("s")?,
            user: id.get_i64("u")?,
            kind: id.get_str("k")?.to_owned(),
        });
    }
    Ok(rows)
}

fn by_message(rows: &BTreeSet<ReactionRow>) -> RowsByMessage<'_> {
    let mut messages = RowsByMessage::new();
    for row in rows {
        messages.entry((row.conversation.as_str(), row.seq)).or_default().push(row);
    }
    messages
}

/// The messages of which a node does not answer what the rows are, with both.
async fn wrong_answers(
    node: &Channel,
    group: &ReactedGroup,
    reader: i64,
    rows: &RowsByMessage<'_>,
) -> Result<Vec<(i64, String)>> {
    let mut wrong = Vec::new();
    for messages in group.messages.chunks(BATCH) {
        let seqs: Vec<i64> = messages.iter().map(|message| message.seq).collect();
        let answered = answers(node, group, reader, seqs.clone()).await?;
        for seq in seqs {
            let stored = rows.get(&(group.conversation.as_str(), seq));
            let stored = stored.map(|rows| Counted::of_rows(rows, reader)).unwrap_or_default();
            let shown = answered.get(&seq).map(Counted::of_answer).unwrap_or_default();
            if stored != shown {
                wrong.push((seq, format!("stored {stored:?}, answered {shown:?}")));
            }
        }
    }
    Ok(wrong)
}

async fn answers(
    node: &Channel,
    group: &ReactedGroup,
    reader: i64,
    seqs: Vec<i64>,
) -> Result<BTreeMap<i64, MessageReactions>> {
    let conversation_id = group.conversation.clone();
    let request = BatchGetReactionsRequest { user_id: reader, conversation_id, seqs };
    let answered = until_answered(
        std::slice::from_ref(node),
        0,
        request,
        call!(MessageServiceClient::batch_get_reactions),
    );
    let answered = answered.await.with_context(|| format!("no reactions of {}", group.conversation))?;
    Ok(answered.messages.into_iter().map(|message| (message.seq, message)).collect())
}

/// The counts of a message, and the reader's own kinds.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counted {
    counts: BTreeMap<String, i32>,
    own: BTreeSet<String>,
}

impl Counted {
    fn of_rows(rows: &[&ReactionRow], reader: i64) -> Self {
        let mut counted = Self::default();
        for row in rows {
            *counted.counts.entry(row.kind.clone()).or_default() += 1;
            if row.user == reader {
                counted.own.insert(row.kind.clone());
            }
        }
        counted
    }

    fn of_answer(message: &MessageReactions) -> Self {
        let counts = message.reactions.iter().map(|count| (count.kind.clone(), count.count));
        Self { counts: counts.collect(), own: message.own_kinds.iter().cloned().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(seq: i64, kind: &str) -> ReactionRow {
        ReactionRow { conversation: "g1".to_owned(), seq, user: 7, kind: kind.to_owned() }
    }

    /// The kinds of differences. Message 1 has content, and message 2 has none.
    fn kinds(rows: &[ReactionRow], expected: &[ReactionRow]) -> Vec<&'static str> {
        let message = |seq, value| LoggedMessage { seq, value: Some(value), sender: 1, silent: false };
        let logs = BTreeMap::from([("g1".to_owned(), vec![message(1, 5), message(2, 0)])]);
        let (rows, expected) = (rows.iter().cloned().collect(), expected.iter().cloned().collect());
        compare(&rows, &logs, &expected).found.into_keys().collect()
    }

    #[test]
    fn each_difference_has_its_kind() {
        let none: [&str; 0] = [];
        assert_eq!(kinds(&[row(1, "a")], &[row(1, "a"), row(2, "a")]), none);
        assert_eq!(kinds(&[], &[row(1, "a")]), [LOST]);
        assert_eq!(kinds(&[row(1, "a")], &[]), [LEFT]);
        assert_eq!(kinds(&[row(2, "a")], &[row(2, "a")]), [ORPHANED]);
    }

    #[test]
    fn counts_and_own_kinds_are_compared() {
        let counted = Counted::of_rows(&[&row(1, "a"), &ReactionRow { user: 8, ..row(1, "a") }], 8);
        let reaction = |count| kith_proto::message::v1::ReactionCount { kind: "a".to_owned(), count };
        let answer = |count, own: &[&str]| MessageReactions {
            seq: 1,
            reactions: vec![reaction(count)],
            own_kinds: own.iter().map(|kind| (*kind).to_owned()).collect(),
        };
        assert_eq!(counted, Counted::of_answer(&answer(2, &["a"])));
        assert_ne!(counted, Counted::of_answer(&answer(1, &["a"])));
        assert_ne!(counted, Counted::of_answer(&answer(2, &[])));
    }
}
