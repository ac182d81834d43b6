//! Inboxes over a real Redis, under a prefix of their own.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use kith_cache::remote::redis::{RedisScript, Reply, ScriptCall, ScriptRunner};
use kith_delivery::{
    FanOut, FannedOut, Generation, InboxKeeper, InboxLimits, Mark, Opened, Position, ReadFrom, Reading,
    RedisInboxes, SentMessages,
    conformance::{Faults, Part, Subject},
};
use kith_store::{Epoch, NodeName, Seq, Timestamp, UserId};
use parking_lot::Mutex;

use crate::{
    model::{connected, name},
    stage::Epochs,
};

pub(crate) fn user(id: i64) -> UserId {
    UserId::new(id).unwrap()
}

pub(crate) fn node(name: &str) -> NodeName {
    name.parse().unwrap()
}

pub(crate) struct InboxStage {
    pub(crate) keeper: Arc<RedisInboxes>,
    pub(crate) runner: Arc<ScriptRunner>,
    pub(crate) epochs: Arc<Epochs>,
    pub(crate) server: String,
}

/// Deletes keys of the real Redis.
#[derive(Debug)]
struct Deletion {
    keeper: Arc<RedisInboxes>,
    runner: Arc<ScriptRunner>,
}

impl InboxStage {
    pub(crate) async fn new(limits: InboxLimits) -> Self {
        let runner = Arc::new(connected().await);
        let server = name(&runner).await;
        let epoch = Epoch { number: 5, server: server.clone() };
        let epochs = Arc::new(Epochs { followed: Mutex::new(Some(epoch)), settled: Mutex::new(Some(5)) });
        let source = Arc::<Epochs>::clone(&epochs);
        let keeper = Arc::new(RedisInboxes::over(Arc::clone(&runner), source, limits));
        Self { keeper, runner, epochs, server }
    }

    /// A keeper over the same keys, with scripts of other texts.
    pub(crate) fn edited(&self, edit: impl Fn(&'static str) -> &'static str) -> RedisInboxes {
        let epochs = Arc::<Epochs>::clone(&self.epochs);
        RedisInboxes::over(Arc::clone(&self.runner), epochs, InboxLimits::default()).with_scripts(edit)
    }

    pub(crate) fn subject(self) -> Subject {
        let faults = Deletion { keeper: Arc::clone(&self.keeper), runner: self.runner };
        Subject { keeper: self.keeper, faults: Arc::new(faults) }
    }

    /// The epoch that the node follows from now on.
    pub(crate) fn follow(&self, number: u64) {
        *self.epochs.followed.lock() = Some(Epoch { number, server: self.server.clone() });
        *self.epochs.settled.lock() = Some(number);
    }

    /// Runs a script on the keys of an inbox in epoch 5.
    pub(crate) async fn on_inbox(&self, id: i64, script: &'static str, argument: &str) -> Reply {
        let (script, keys) = (RedisScript::new(script), self.keeper.keys(user(id), 5));
        let call = ScriptCall::new(&script, keys, [Bytes::copy_from_slice(argument.as_bytes())]);
        self.runner.run(&[call]).await.remove(0).unwrap()
    }

    pub(crate) async fn open(&self, name: &str, id: i64) -> Opened {
        self.keeper.open(&node(name), &[user(id)]).await.remove(0).unwrap()
    }

    /// Opens an inbox in which g9 has this mark.
    pub(crate) async fn begin(&self, name: &str, id: i64, end: Seq) -> Generation {
        let opened = self.open(name, id).await;
        let mark = Mark { conversation: "g9".parse().unwrap(), end };
        self.keeper.mark(user(id), opened.generation, &[mark], true).await.unwrap();
        opened.generation
    }

    pub(crate) async fn fan(&self, last: Seq, ids: &[i64]) -> FannedOut {
        fan(&*self.keeper, last, ids).await
    }

    pub(crate) async fn read(&self, id: i64, generation: Generation, after: Position) -> Reading {
        let from = ReadFrom { user: user(id), generation, after };
        self.keeper.read(&[from], 100).await.remove(0).unwrap()
    }
}

pub(crate) async fn fan(keeper: &dyn InboxKeeper, last: Seq, ids: &[i64]) -> FannedOut {
    let (conversation, sent) = ("g9".parse().unwrap(), Timestamp(1));
    let users: Vec<UserId> = ids.iter().map(|id| user(*id)).collect();
    let sent = SentMessages { conversation, last, sent, entries: Vec::new() };
    keeper.fan_out(&FanOut { sent, users: &users }).await
}

#[async_trait]
impl Faults for Deletion {
    async fn lose(&self, user: UserId, part: Part) {
        let script = RedisScript::new("return redis.call('DEL', unpack(KEYS))");
        let mut keys = self.keeper.keys(user, 5);
        match part {
            Part::Hash => keys.truncate(1),
            Part::Stream => drop(keys.remove(0)),
            Part::Both => {}
        }
        let call = ScriptCall::new(&script, keys, Vec::<Bytes>::new());
        assert!(matches!(self.runner.run(&[call]).await.remove(0), Ok(Reply::Number(1..))));
    }
}
