//! Inboxes over a real Redis, under their own prefix.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use kith_cache::remote::redis::Reply;
use kith_delivery::{
    FanOutResult, Generation, InboxKeeper, InboxLimits, Mark, OpenedInbox, Position, ReadFrom, ReadOutcome,
    RedisInboxes, SentMessages,
    conformance::{Faults, Part, Subject},
};
use kith_store::{NodeName, Seq, Timestamp, UserId};

use crate::{model::TestRedis, stage::Epochs};

pub(crate) fn user(id: i64) -> UserId {
    UserId::new(id).unwrap()
}

pub(crate) fn node(name: &str) -> NodeName {
    name.parse().unwrap()
}

pub(crate) struct InboxStage {
    pub(crate) keeper: Arc<RedisInboxes>,
    pub(crate) redis: TestRedis,
    pub(crate) epochs: Arc<Epochs>,
}

/// Deletes keys in the real Redis.
#[derive(Debug)]
struct Deletion {
    keeper: Arc<RedisInboxes>,
    redis: TestRedis,
}

impl InboxStage {
    pub(crate) async fn new(limits: InboxLimits) -> Self {
        Self::over(TestRedis::connect().await, limits)
    }

    pub(crate) fn over(redis: TestRedis, limits: InboxLimits) -> Self {
        let epochs = Epochs::of(&redis, 5);
        let source = Arc::<Epochs>::clone(&epochs);
        let keeper = Arc::new(RedisInboxes::over(Arc::clone(&redis.runner), source, limits));
        Self { keeper, redis, epochs }
    }

    /// A keeper over the same keys, with other script texts.
    pub(crate) fn edited(&self, edit: impl Fn(&'static str) -> &'static str) -> RedisInboxes {
        let epochs = Arc::<Epochs>::clone(&self.epochs);
        RedisInboxes::over(Arc::clone(&self.redis.runner), epochs, InboxLimits::default()).with_scripts(edit)
    }

    pub(crate) fn subject(self) -> Subject {
        let faults = Deletion { keeper: Arc::clone(&self.keeper), redis: self.redis };
        Subject { keeper: self.keeper, faults: Arc::new(faults) }
    }

    /// The epoch that the node follows from now on.
    pub(crate) fn follow(&self, number: u64) {
        self.epochs.follow(&self.redis, number);
    }

    /// Runs a script on an inbox's keys in epoch 5.
    pub(crate) async fn on_inbox(&self, id: i64, script: &'static str, argument: &str) -> Reply {
        let keys = self.keeper.keys(user(id), 5);
        self.redis.eval(script, keys, [Bytes::copy_from_slice(argument.as_bytes())]).await
    }

    pub(crate) async fn open(&self, name: &str, id: i64) -> OpenedInbox {
        self.keeper.open(&node(name), &[user(id)]).await.remove(0).unwrap()
    }

    /// Opens an inbox in which g9 has this mark.
    pub(crate) async fn begin(&self, name: &str, id: i64, end: Seq) -> Generation {
        let opened = self.open(name, id).await;
        let mark = Mark { conversation: "g9".parse().unwrap(), end };
        self.keeper.mark(user(id), opened.generation, &[mark], true).await.unwrap();
        opened.generation
    }

    pub(crate) async fn fan(&self, last: Seq, ids: &[i64]) -> FanOutResult {
        fan(&*self.keeper, last, ids).await
    }

    pub(crate) async fn read(&self, id: i64, generation: Generation, after: Position) -> ReadOutcome {
        let from = ReadFrom { user: user(id), generation, after };
        self.keeper.read(&[from], 100).await.remove(0).unwrap()
    }
}

pub(crate) async fn fan(keeper: &dyn InboxKeeper, last: Seq, ids: &[i64]) -> FanOutResult {
    let (conversation, sent) = ("g9".parse().unwrap(), Timestamp(1));
    let users: Vec<UserId> = ids.iter().map(|id| user(*id)).collect();
    let sent = SentMessages { conversation, last, sent, entries: Vec::new() };
    keeper.fan_out(&sent, &users).await
}

#[async_trait]
impl Faults for Deletion {
    async fn lose(&self, user: UserId, part: Part) {
        let mut keys = self.keeper.keys(user, 5);
        match part {
            Part::Hash => keys.truncate(1),
            Part::Stream => drop(keys.remove(0)),
            Part::Both => {}
        }
        let deleted = self.redis.eval("return redis.call('DEL', unpack(KEYS))", keys, []).await;
        assert!(matches!(deleted, Reply::Number(1..)));
    }
}
