//! The sequences in Redis, with a gate before each call.

use std::{future::ready, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::{FutureExt as _, future::BoxFuture};
use kith_cache::remote::SharedError;
use kith_delivery::{Background, Offer, RedisSequences, SequenceKeeper, Take, Taken};
use kith_store::SequenceName;
use parking_lot::Mutex;

use super::{mutants::Mutant, truth::Truth};
use crate::model::stage::{CallOutcome, Stage};

/// One node's keeper.
#[derive(Debug)]
pub(super) struct Stepped {
    pub(super) keeper: Arc<RedisSequences>,
    pub(super) stage: Arc<Stage>,
    pub(super) truth: Arc<Mutex<Truth>>,
    pub(super) mutant: Mutant,
}

/// Background work on nodes: becomes an actor in the world.
#[derive(Default)]
pub(super) struct Begun(pub(super) Mutex<Vec<BoxFuture<'static, ()>>>);

impl Background for Begun {
    fn run(&self, work: BoxFuture<'static, ()>) {
        self.0.lock().push(work);
    }

    /// The actor's next step may come at once: other actors have their own steps meanwhile.
    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        ready(()).boxed()
    }
}

impl std::fmt::Debug for Begun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Begun")
    }
}

impl Stepped {
    async fn call<T: Send + 'static>(
        &self,
        call: impl Fn(Arc<RedisSequences>) -> BoxFuture<'static, Result<T, SharedError>> + Send + Sync,
        again: bool,
    ) -> Result<T, SharedError> {
        let outcome = self.stage.gate().await;
        let make = || call(Arc::clone(&self.keeper));
        match outcome {
            CallOutcome::Made => self.stage.command(make()).await,
            CallOutcome::Failed => Err(SharedError::Unavailable),
            CallOutcome::Late => {
                self.stage.delay(make().map(drop).boxed());
                Err(SharedError::Timeout)
            }
            CallOutcome::Unanswered => {
                drop(self.stage.command(make()).await);
                if again {
                    self.stage.delay(make().map(drop).boxed());
                }
                Err(SharedError::Timeout)
            }
        }
    }
}

#[async_trait]
impl SequenceKeeper for Stepped {
    async fn take(&self, name: &SequenceName, take: Take) -> Result<Taken, SharedError> {
        let take = Take { seen: if self.mutant.forgets { 0 } else { take.seen }, ..take };
        let name = name.clone();
        let call = move |keeper: Arc<RedisSequences>| {
            let name = name.clone();
            async move { keeper.take(&name, take).await }.boxed()
        };
        let taken = self.call(call, false).await;
        self.stage.count(match &taken {
            Ok(Taken { numbers: Some(range), .. })
                if range.last - range.first + 1 < i64::from(take.count) =>
            {
                "some"
            }
            Ok(Taken { numbers: Some(_), .. }) => "all",
            Ok(Taken { numbers: None, lease: Some(_) }) => "fetch",
            Ok(Taken { numbers: None, lease: None }) => "wait",
            Err(_) => "away",
        });
        taken
    }

    async fn offer(&self, name: &SequenceName, offer: Offer) -> Result<(), SharedError> {
        self.truth.lock().offered += 1;
        let name = name.clone();
        let make = move |keeper: Arc<RedisSequences>| {
            let name = name.clone();
            async move { keeper.offer(&name, offer).await }.boxed()
        };
        self.call(make, self.mutant.offers_again).await
    }
}
