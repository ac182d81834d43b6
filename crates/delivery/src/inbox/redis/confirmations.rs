//! Keeps what each node's receivers have confirmed: a sorted set of nodes by time, and a hash of users for
//! each node. The keys share one slot and serve all epochs.
//!
//! A user's text has the epoch, the generation, the position and the time at which it was written: `5 77 12
//! 1790000000000`.

use std::time::Duration;

use bytes::Bytes;
use kith_cache::remote::{
    SharedError,
    redis::{RedisScript, Reply, ScriptCall},
};
use kith_store::{NodeName, UserId};

use super::{RedisInboxes, name, reply};
use crate::{
    inbox::{AbandonedReceivers, Generation, ReadFrom},
    redis::{
        arguments::{milliseconds, number},
        values::{MALFORMED, ReplyResult, list, number as number_of, text},
    },
};

/// How long all confirmations are kept after a node has confirmed something.
const KEPT: Duration = Duration::from_secs(3_600);
/// The most nodes that are found at once.
const NODES: usize = 16;

impl RedisInboxes {
    pub(super) async fn write_confirmed(
        &self,
        node: &NodeName,
        confirmed: &[ReadFrom],
    ) -> Result<(), SharedError> {
        let mut arguments = vec![name(node), milliseconds(KEPT)];
        arguments.extend(confirmed.iter().flat_map(|from| [number(from.user), text_of(from)]));
        reply::done(&self.run(&self.scripts.confirm, self.names.confirmed(node), arguments).await?)
    }

    pub(super) async fn remove_confirmed(
        &self,
        node: &NodeName,
        users: &[UserId],
        silent_for: Duration,
    ) -> Result<(), SharedError> {
        let mut arguments = vec![name(node), milliseconds(silent_for)];
        arguments.extend(users.iter().map(|user| number(*user)));
        reply::done(&self.run(&self.scripts.forget, self.names.confirmed(node), arguments).await?)
    }

    pub(super) async fn silent_nodes(
        &self,
        silent_for: Duration,
        most: usize,
    ) -> Result<Vec<AbandonedReceivers>, SharedError> {
        let arguments = vec![milliseconds(silent_for), number(NODES)];
        let silent = self.run(&self.scripts.silent, vec![self.names.times()], arguments).await?;
        let mut all = Vec::new();
        for (node, silent_for) in nodes(silent)? {
            let arguments = vec![name(&node), number(most), milliseconds(self.limits.receiver_kept)];
            let keys = self.names.confirmed(&node);
            let found = self.run(&self.scripts.confirmed, keys, arguments).await?;
            all.push(AbandonedReceivers { confirmed: read_from(found)?, node, silent_for });
        }
        Ok(all)
    }

    async fn run(
        &self,
        script: &RedisScript,
        keys: Vec<String>,
        arguments: Vec<Bytes>,
    ) -> Result<Reply, SharedError> {
        let epoch = self.runner.followed_epoch()?;
        self.runner.one(&epoch, ScriptCall::new(script, keys, arguments)).await
    }
}

/// Writes the text without its time.
fn text_of(ReadFrom { generation, after, .. }: &ReadFrom) -> Bytes {
    format!("{} {} {after}", generation.epoch, generation.number).into()
}

/// Reads nodes, each with the time for which it has been silent.
fn nodes(reply: Reply) -> ReplyResult<Vec<(NodeName, Duration)>> {
    pairs(reply)?
        .into_iter()
        .map(|(node, silent_for)| {
            let silent_for = u64::try_from(number_of(&silent_for)?).unwrap_or_default();
            Ok((word(&text(node)?)?, Duration::from_millis(silent_for)))
        })
        .collect()
}

fn read_from(reply: Reply) -> ReplyResult<Vec<ReadFrom>> {
    pairs(reply)?
        .into_iter()
        .map(|(user, confirmed)| {
            let (user, confirmed) = (word(&text(user)?)?, text(confirmed)?);
            let mut words = confirmed.split(|byte| *byte == b' ');
            let mut next = || words.next().ok_or(MALFORMED).and_then(word);
            let generation = Generation { epoch: next()?, number: next()? };
            Ok(ReadFrom { user, generation, after: next()? })
        })
        .collect()
}

fn pairs(reply: Reply) -> ReplyResult<Vec<(Reply, Reply)>> {
    let values = list(reply)?;
    let mut values = values.into_iter();
    let mut pairs = Vec::with_capacity(values.len() / 2);
    while let Some(first) = values.next() {
        pairs.push((first, values.next().ok_or(MALFORMED)?));
    }
    Ok(pairs)
}

fn word<T: std::str::FromStr>(text: impl AsRef<[u8]>) -> ReplyResult<T> {
    std::str::from_utf8(text.as_ref()).ok().and_then(|text| text.parse().ok()).ok_or(MALFORMED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(words: &[&'static str]) -> Reply {
        Reply::List(words.iter().map(|word| Reply::Text(Bytes::from_static(word.as_bytes()))).collect())
    }

    #[test]
    fn confirmed_position_is_read_as_it_was_written() {
        let generation = Generation { epoch: 5, number: u64::MAX };
        let from = ReadFrom { user: UserId::new(8).unwrap(), generation, after: 12 };
        assert_eq!(text_of(&from), "5 18446744073709551615 12");
        assert_eq!(read_from(texts(&["8", "5 18446744073709551615 12 1790000000000"])), Ok(vec![from]));
        for wrong in [&["8"][..], &["8", "5 77"], &["x", "5 77 12"], &["8", "5 77 -1"]] {
            assert_eq!(read_from(texts(wrong)), Err(MALFORMED), "{wrong:?}");
        }
    }

    #[test]
    fn silent_node_is_read() {
        let node = Reply::Text(Bytes::from_static(b"n1"));
        let found = nodes(Reply::List(vec![node.clone(), Reply::Number(15_000)]));
        assert_eq!(found, Ok(vec![("n1".parse().unwrap(), Duration::from_secs(15))]));
        assert_eq!(nodes(Reply::List(vec![node])), Err(MALFORMED));
    }
}
