//! Blocks of sequence numbers in Redis, one key for each sequence and epoch. Every reply is validated,
//! because a wrong one could issue a number twice.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use kith_cache::remote::{
    SharedError,
    redis::{RedisScript, Reply, ScriptCall, ScriptRunner},
};
use kith_store::{Seq, SeqRange, SequenceName};

use super::keeper::{Offer, SequenceKeeper, TakeOutcome};
use crate::{
    EpochSource,
    redis::{
        arguments::number,
        fenced::FencedRunner,
        values::{self, list},
    },
};

/// How long a sequence is kept after its last use. The rest of its block is lost then.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// Issues the numbers of blocks in Redis, in the epoch that the node follows. Only answers of that epoch's server
/// count, and commands are sent once: a repeated offer would issue numbers a second time. A call ends within the
/// command timeout of its runner.
pub struct RedisSequences {
    runner: FencedRunner,
    take: RedisScript,
    offer: RedisScript,
}

impl RedisSequences {
    /// Creates it over the connections of a runner, which others may use too.
    #[must_use]
    pub fn over(runner: Arc<ScriptRunner>, epochs: Arc<dyn EpochSource>) -> Self {
        let take = RedisScript::new(include_str!("lua/take.lua"));
        let offer = RedisScript::new(include_str!("lua/offer.lua"));
        Self { runner: FencedRunner::over(runner, epochs), take, offer }
    }

    /// The same with the scripts changed by `edit`.
    #[cfg(feature = "mutants")]
    #[must_use]
    pub fn with_scripts(self, edit: impl Fn(&'static str) -> &'static str) -> Self {
        let take = RedisScript::new(edit(include_str!("lua/take.lua")));
        let offer = RedisScript::new(edit(include_str!("lua/offer.lua")));
        Self { take, offer, ..self }
    }

    async fn run<const N: usize>(
        &self,
        script: &RedisScript,
        name: &SequenceName,
        arguments: [i64; N],
    ) -> Result<Reply, SharedError> {
        let epoch = self.runner.followed_epoch()?;
        let keys = vec![key(&self.runner.runner().tag(), name, epoch.number)];
        let call = ScriptCall::new(script, keys, arguments.map(number));
        self.runner.one(&epoch, call).await
    }
}

#[async_trait]
impl SequenceKeeper for RedisSequences {
    async fn take(&self, name: &SequenceName, count: u32, seen: Seq) -> Result<TakeOutcome, SharedError> {
        let reply = self.run(&self.take, name, [count.into(), seen, kept()]).await?;
        taken(reply, count, seen).ok_or(SharedError::Unexpected)
    }

    async fn offer(&self, name: &SequenceName, Offer { block, seen }: Offer) -> Result<(), SharedError> {
        let reply = self.run(&self.offer, name, [block.first, block.last, seen, kept()]).await?;
        if reply == Reply::Number(0) { Ok(()) } else { Err(SharedError::Unexpected) }
    }
}

impl fmt::Debug for RedisSequences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisSequences").field("runner", &self.runner).finish_non_exhaustive()
    }
}

fn kept() -> i64 {
    i64::try_from(KEPT.as_millis()).unwrap_or(i64::MAX)
}

/// Keys of different epochs are different keys.
fn key(tag: &str, name: &SequenceName, epoch: u64) -> String {
    format!("{{{tag}:seq:{name}}}:{epoch}")
}

/// `None`: the reply has an invalid form.
fn taken(reply: Reply, count: u32, seen: Seq) -> Option<TakeOutcome> {
    let numbers =
        list(reply).ok()?.iter().map(|value| values::number(value).ok()).collect::<Option<Vec<i64>>>()?;
    match numbers[..] {
        [0, first, taken, left] => {
            let is_right = first > seen && (1..=i64::from(count)).contains(&taken);
            let range = SeqRange { first, last: first.checked_add(taken)? - 1 };
            let left = u64::try_from(left).ok()?;
            is_right.then_some(TakeOutcome::Numbers { range, left })
        }
        [1] => Some(TakeOutcome::Unknown),
        [3] => Some(TakeOutcome::UsedUp),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: &[i64]) -> Option<TakeOutcome> {
        taken(Reply::List(values.iter().copied().map(Reply::Number).collect()), 10, 40)
    }

    #[test]
    fn keys_of_epochs_and_names_differ() {
        let name = |text: &str| text.parse::<SequenceName>().unwrap();
        assert_eq!(key("kith:1", &name("room:9"), 5), "{kith:1:seq:room:9}:5");
        assert_ne!(key("kith:1", &name("a"), 5), key("kith:1", &name("a"), 6));
    }

    #[test]
    fn replies_are_read() {
        let range = SeqRange { first: 41, last: 50 };
        assert_eq!(read(&[0, 41, 10, 0]), Some(TakeOutcome::Numbers { range, left: 0 }));
        assert_eq!(read(&[1]), Some(TakeOutcome::Unknown));
        assert_eq!(read(&[3]), Some(TakeOutcome::UsedUp));
    }

    #[test]
    fn reply_in_another_form_is_not_believed() {
        for wrong in
            [&[0, 40, 1, 0][..], &[0, 41, 11, 0], &[0, 41, 0, 0], &[0, 41, 1, -1], &[0, 41, 1], &[2], &[]]
        {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
        assert_eq!(taken(Reply::Number(1), 10, 0), None);
        assert_eq!(taken(Reply::List(vec![Reply::Nothing]), 10, 0), None);
    }
}
