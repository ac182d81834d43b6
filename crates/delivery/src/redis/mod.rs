//! Windows in Redis. A window is two keys in one slot, a hash and a list; each script is one step. The
//! comments in the scripts describe each step and its invariant.

pub(crate) mod arguments;
pub(crate) mod fenced;
pub(crate) mod names;
mod reply;
mod scripts;
mod times;
pub(crate) mod values;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use kith_cache::{
    Clock, Moment,
    remote::{
        SharedError,
        redis::{RedisScript, Reply, ScriptCall, ScriptRunner},
    },
};
use kith_store::{ConversationId, Epoch, NodeName, Seq};

use self::{
    arguments::{milliseconds, number},
    fenced::{FencedRunner, unavailable},
    names::WindowNames,
    scripts::WindowScripts,
    times::ServerTimes,
};
use crate::{
    Append, Confirm, EpochSource, Fill, FillOutcome, HeadLookup, HoldToken, LeaseToken, Span, WindowKeeper,
    WindowLimits, WindowLookup,
};

/// The most windows that one script reads. They delay other calls by about a millisecond at most.
const HEADS_IN_SCRIPT: usize = 32;

/// Windows in Redis, in the epoch that the node follows. Only answers from that epoch's server count. A call
/// ends within its runner's command timeout.
pub struct RedisWindows {
    runner: FencedRunner,
    names: WindowNames,
    scripts: WindowScripts,
    clock: Arc<dyn Clock>,
    times: ServerTimes,
    limits: WindowLimits,
}

impl RedisWindows {
    /// Creates it over a runner's connections, which others may use too. `clock` must be the clock of
    /// [`Windows`](crate::Windows).
    #[must_use]
    pub fn over(
        runner: Arc<ScriptRunner>,
        epochs: Arc<dyn EpochSource>,
        clock: Arc<dyn Clock>,
        limits: WindowLimits,
    ) -> Self {
        let (names, scripts) = (WindowNames::new(runner.tag()), WindowScripts::new());
        let (runner, times) = (FencedRunner::over(runner, epochs), ServerTimes::default());
        Self { runner, names, scripts, clock, times, limits }
    }

    /// Creates it with scripts that `edit` has changed.
    #[cfg(feature = "mutants")]
    #[must_use]
    pub fn with_scripts(self, edit: impl Fn(&'static str) -> &'static str) -> Self {
        Self { scripts: WindowScripts::of(edit), ..self }
    }

    fn call<'a>(
        &self,
        script: &'a RedisScript,
        epoch: &Epoch,
        conversation: ConversationId,
        arguments: Vec<Bytes>,
    ) -> ScriptCall<'a> {
        ScriptCall::new(script, self.names.window(conversation, epoch.number), arguments)
    }

    /// Runs one script, and records the time in its answer.
    async fn one<T>(
        &self,
        epoch: &Epoch,
        call: ScriptCall<'_>,
        read: impl FnOnce(Reply, u64) -> Result<reply::Timed<T>, SharedError>,
    ) -> Result<T, SharedError> {
        let answer = self.runner.one(epoch, call).await?;
        self.record_time(read(answer, epoch.number)?)
    }

    fn record_time<T>(&self, timed: reply::Timed<T>) -> Result<T, SharedError> {
        self.times.learn(timed.at, self.clock.now());
        Ok(timed.answer)
    }

    async fn hold_in(
        &self,
        epoch: &Epoch,
        conversation: ConversationId,
        token: HoldToken,
        time: Duration,
    ) -> Result<(), SharedError> {
        let arguments = vec![hex(token.0), milliseconds(time), milliseconds(self.limits.kept)];
        let call = self.call(&self.scripts.hold, epoch, conversation, arguments);
        self.one(epoch, call, reply::changed).await
    }

    /// The server's time at which an append began, or earlier; 0: not known.
    fn began(&self, epoch: &Epoch, began: Option<Moment>) -> Bytes {
        let now = self.clock.now();
        number(began.map_or(0, |began| self.times.not_after(began, epoch.number, now)))
    }
}

#[async_trait]
impl WindowKeeper for RedisWindows {
    async fn look_up(
        &self,
        conversation: ConversationId,
        asked: Span,
        token: LeaseToken,
    ) -> Result<WindowLookup, SharedError> {
        let epoch = self.runner.followed_epoch()?;
        let (lease, kept) = (milliseconds(self.limits.lease), milliseconds(self.limits.kept));
        let arguments = vec![number(asked.first), number(asked.last), hex(token.0), lease, kept];
        let call = self.call(&self.scripts.look_up, &epoch, conversation, arguments);
        self.one(&epoch, call, |answer, epoch| reply::lookup(answer, epoch, asked)).await
    }

    async fn fill(&self, fills: &[Fill]) -> Vec<Result<FillOutcome, SharedError>> {
        let Ok(epoch) = self.runner.followed_epoch() else { return unavailable(fills.len()) };
        if fills.iter().any(|fill| fill.at.epoch != epoch.number) {
            return unavailable(fills.len());
        }
        let call = |fill: &Fill| {
            let mut arguments = vec![hex(fill.token.0), number(fill.at.ms)];
            arguments.extend([number(fill.span.first), number(fill.span.last)]);
            arguments.extend([number(i64::from(fill.has_headers)), milliseconds(self.limits.kept)]);
            arguments.extend(fill.entries.iter().cloned());
            self.call(&self.scripts.fill, &epoch, fill.conversation, arguments)
        };
        let calls: Vec<_> = fills.iter().map(call).collect();
        let answers = self.runner.run(&epoch, &calls).await.into_iter();
        answers.map(|answer| self.record_time(reply::fill_outcome(answer?, epoch.number)?)).collect()
    }

    async fn append(
        &self,
        conversation: ConversationId,
        append: &Append,
    ) -> Result<Vec<NodeName>, SharedError> {
        let epoch = self.runner.followed_epoch()?;
        let began = self.began(&epoch, append.began);
        let mut arguments = vec![number(append.span.first), number(append.span.last), began];
        arguments.push(number(i64::from(append.changes)));
        arguments.extend([number(self.limits.messages), number(self.limits.bytes)]);
        arguments.push(milliseconds(self.limits.kept));
        arguments.extend(append.entries.iter().cloned());
        let mut call = self.call(&self.scripts.append, &epoch, conversation, arguments);
        call.keys.push(names::readers(self.names.tag(), conversation, epoch.number));
        self.one(&epoch, call, reply::appended).await
    }

    async fn hold(
        &self,
        conversation: ConversationId,
        token: HoldToken,
        time: Duration,
    ) -> Result<(), SharedError> {
        self.hold_in(&self.runner.followed_epoch()?, conversation, token, time).await
    }

    async fn release(&self, conversation: ConversationId, token: HoldToken) -> Result<(), SharedError> {
        let epoch = self.runner.followed_epoch()?;
        self.hold_in(&epoch, conversation, token, Duration::ZERO).await?;
        // Nothing is known about a later epoch: a window there may have been filled before the change was
        // committed.
        if self.runner.settled_epoch().await == Some(epoch.number) {
            Ok(())
        } else {
            Err(SharedError::Unavailable)
        }
    }

    async fn confirm(&self, known: &[Confirm]) -> Vec<Result<(), SharedError>> {
        let Ok(epoch) = self.runner.followed_epoch() else { return unavailable(known.len()) };
        if known.iter().any(|confirm| confirm.at.epoch != epoch.number) {
            return unavailable(known.len());
        }
        let call = |confirm: &Confirm| {
            let kept = milliseconds(self.limits.kept);
            let arguments = vec![number(confirm.at.ms), number(confirm.end), kept];
            self.call(&self.scripts.confirm, &epoch, confirm.conversation, arguments)
        };
        let calls: Vec<_> = known.iter().map(call).collect();
        let answers = self.runner.run(&epoch, &calls).await.into_iter();
        answers.map(|answer| self.record_time(reply::changed(answer?, epoch.number)?)).collect()
    }

    async fn heads(
        &self,
        asked: &[(ConversationId, Seq)],
        token: LeaseToken,
    ) -> Vec<Result<HeadLookup, SharedError>> {
        let Ok(epoch) = self.runner.followed_epoch() else { return unavailable(asked.len()) };
        let (token, lease, kept) =
            (hex(token.0), milliseconds(self.limits.lease), milliseconds(self.limits.kept));
        let call = |some: &[(ConversationId, Seq)]| {
            let keys = some.iter().flat_map(|(log, _)| self.names.window(*log, epoch.number)).collect();
            let mut arguments = vec![token.clone(), lease.clone(), kept.clone()];
            arguments.extend(some.iter().map(|(_, after)| number(*after)));
            ScriptCall::new(&self.scripts.heads, keys, arguments)
        };
        // A script's keys must be in one slot.
        let at_once = if self.runner.has_slots() { 1 } else { HEADS_IN_SCRIPT };
        let calls: Vec<_> = asked.chunks(at_once).map(call).collect();
        let answers = self.runner.run(&epoch, &calls).await.into_iter().zip(asked.chunks(at_once));
        let heads = answers.flat_map(|(answer, some)| reply::heads(answer, epoch.number, some.len()));
        heads.map(|head| self.record_time(head?)).collect()
    }

    async fn require_check(&self, conversation: ConversationId) -> Result<(), SharedError> {
        let epoch = self.runner.followed_epoch()?;
        let call = self.call(&self.scripts.require_check, &epoch, conversation, Vec::new());
        self.one(&epoch, call, reply::changed).await
    }
}

impl fmt::Debug for RedisWindows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisWindows").field("names", &self.names).finish_non_exhaustive()
    }
}

fn hex(token: u128) -> Bytes {
    format!("{token:032x}").into()
}
