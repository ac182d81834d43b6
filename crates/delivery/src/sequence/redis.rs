//! Blocks of sequence numbers in Redis, one key for each sequence and epoch. Every reply is validated,
//! because a wrong reply could issue a number twice.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use kith_cache::remote::{
    SharedError,
    redis::{RedisScript, Reply, ScriptCall, ScriptRunner},
};
use kith_store::{SeqRange, SequenceName};

use super::keeper::{FETCH_LEASE, FetchLease, Offer, SequenceKeeper, Take, Taken};
use crate::{
    EpochSource,
    redis::{
        arguments::number,
        fenced::FencedRunner,
        values::{self, list},
    },
};

/// How long a sequence is kept after its last renewal: a day after its last use, and the time between two
/// renewals. Its block's rest is lost then.
const KEPT: Duration = Duration::from_secs(25 * 60 * 60);

/// Issues numbers from blocks in Redis, in the epoch that the node follows. Only answers from that epoch's
/// server count, and commands are sent once: a repeated offer would issue numbers a second time. A call ends
/// within its runner's command timeout.
pub struct RedisSequences {
    runner: FencedRunner,
    take: RedisScript,
    offer: RedisScript,
    fetch_lease: Duration,
}

impl RedisSequences {
    /// Creates it over a runner's connections, which others may use too.
    #[must_use]
    pub fn over(runner: Arc<ScriptRunner>, epochs: Arc<dyn EpochSource>) -> Self {
        let take = RedisScript::new(include_str!("lua/take.lua"));
        let offer = RedisScript::new(include_str!("lua/offer.lua"));
        Self { runner: FencedRunner::over(runner, epochs), take, offer, fetch_lease: FETCH_LEASE }
    }

    /// Creates it with scripts that `edit` has changed.
    #[cfg(feature = "mutants")]
    #[must_use]
    pub fn with_scripts(self, edit: impl Fn(&'static str) -> &'static str) -> Self {
        let take = RedisScript::new(edit(include_str!("lua/take.lua")));
        let offer = RedisScript::new(edit(include_str!("lua/offer.lua")));
        Self { take, offer, ..self }
    }

    /// Creates it with leases that last this long.
    #[cfg(feature = "mutants")]
    #[must_use]
    pub fn with_fetch_lease(self, fetch_lease: Duration) -> Self {
        Self { fetch_lease, ..self }
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
    async fn take(&self, name: &SequenceName, take: Take) -> Result<Taken, SharedError> {
        let Take { count, seen, low, renews } = take;
        let low = i64::try_from(low).unwrap_or(i64::MAX);
        let (lease, kept) = (milliseconds(self.fetch_lease), milliseconds(KEPT));
        let arguments = [count.into(), seen, low, lease, kept, renews.into()];
        let reply = self.run(&self.take, name, arguments).await?;
        taken(reply, take).ok_or(SharedError::Unexpected)
    }

    async fn offer(&self, name: &SequenceName, offer: Offer) -> Result<(), SharedError> {
        let Offer { block, seen, lease } = offer;
        let arguments = [block.first, block.last, seen, lease.0, milliseconds(KEPT)];
        let reply = self.run(&self.offer, name, arguments).await?;
        if reply == Reply::Number(0) { Ok(()) } else { Err(SharedError::Unexpected) }
    }
}

impl fmt::Debug for RedisSequences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisSequences").field("runner", &self.runner).finish_non_exhaustive()
    }
}

fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// Different epochs have different keys.
fn key(tag: &str, name: &SequenceName, epoch: u64) -> String {
    format!("{{{tag}:seq:{name}}}:{epoch}")
}

/// `None`: the reply has an invalid form.
fn taken(reply: Reply, take: Take) -> Option<Taken> {
    let numbers =
        list(reply).ok()?.iter().map(|value| values::number(value).ok()).collect::<Option<Vec<i64>>>()?;
    let [first, taken, lease] = numbers[..] else { return None };
    let numbers = match taken {
        0 => None,
        _ if first > take.seen && (1..=i64::from(take.count)).contains(&taken) => {
            Some(SeqRange { first, last: first.checked_add(taken)? - 1 })
        }
        _ => return None,
    };
    if lease < 0 {
        return None;
    }
    Some(Taken { numbers, lease: (lease > 0).then_some(FetchLease(lease)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAKE: Take = Take { count: 10, seen: 40, low: 50, renews: true };

    fn read(values: &[i64]) -> Option<Taken> {
        taken(Reply::List(values.iter().copied().map(Reply::Number).collect()), TAKE)
    }

    #[test]
    fn keys_of_epochs_and_names_differ() {
        let name = |text: &str| text.parse::<SequenceName>().unwrap();
        assert_eq!(key("kith:1", &name("room:9"), 5), "{kith:1:seq:room:9}:5");
        assert_ne!(key("kith:1", &name("a"), 5), key("kith:1", &name("a"), 6));
    }

    #[test]
    fn replies_are_read() {
        let numbers = Some(SeqRange { first: 41, last: 50 });
        assert_eq!(read(&[41, 10, 0]), Some(Taken { numbers, lease: None }));
        assert_eq!(read(&[41, 10, 7]), Some(Taken { numbers, lease: Some(FetchLease(7)) }));
        assert_eq!(read(&[1, 0, 0]), Some(Taken { numbers: None, lease: None }));
    }

    #[test]
    fn reply_in_another_form_is_not_believed() {
        for wrong in [&[40, 1, 0][..], &[41, 11, 0], &[41, -1, 0], &[41, 1, -1], &[41, 1], &[2], &[]] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
        assert_eq!(taken(Reply::Number(1), TAKE), None);
        assert_eq!(taken(Reply::List(vec![Reply::Nothing]), TAKE), None);
    }
}
