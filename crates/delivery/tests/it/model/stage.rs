//! Steps actors: each call to the store or to Redis waits at a gate until its actor is let through.

use std::{
    cell::Cell,
    collections::BTreeMap,
    future::poll_fn,
    pin::Pin,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    task::Poll,
};

use futures::future::BoxFuture;
use parking_lot::Mutex;

/// A program in the history, as long as it runs. It ends with what it found wrong.
pub(crate) type Program = Pin<Box<dyn Future<Output = Result<(), String>>>>;

thread_local! {
    /// The actor that is polled.
    static ACTOR: Cell<usize> = const { Cell::new(0) };
}

/// How a call to Redis ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallOutcome {
    /// It is made, and answers.
    Made,
    /// It is not made.
    Failed,
    /// It is not made yet; the caller gets no answer.
    Late,
    /// It is made; the caller gets no answer.
    Unanswered,
}

#[derive(Default)]
pub(crate) struct Stage {
    /// The actor that may pass one gate.
    permit: Mutex<Option<(usize, CallOutcome)>>,
    /// Commands that are with Redis.
    running: AtomicUsize,
    late: Mutex<Vec<BoxFuture<'static, ()>>>,
    /// An actor sleeps until its hold has ended.
    oversleeps: AtomicBool,
    /// How often Redis gave each answer.
    answers: Mutex<BTreeMap<&'static str, usize>>,
}

impl Stage {
    /// Waits until the actor that asks is let through.
    pub(crate) async fn gate(&self) -> CallOutcome {
        poll_fn(|_| {
            let mut permit = self.permit.lock();
            match permit.take_if(|(actor, _)| *actor == ACTOR.get()) {
                Some((_, outcome)) => Poll::Ready(outcome),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// Waits for Redis: the actor's step does not end before.
    pub(crate) async fn command<T>(&self, command: impl Future<Output = T>) -> T {
        self.running.fetch_add(1, Ordering::AcqRel);
        let answer = command.await;
        self.running.fetch_sub(1, Ordering::AcqRel);
        answer
    }

    pub(crate) fn oversleep(&self) {
        self.oversleeps.store(true, Ordering::Release);
    }

    pub(crate) fn takes_oversleeping(&self) -> bool {
        self.oversleeps.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn count(&self, answer: &'static str) {
        *self.answers.lock().entry(answer).or_default() += 1;
    }

    pub(crate) fn answers(&self) -> BTreeMap<&'static str, usize> {
        self.answers.lock().clone()
    }

    /// Keeps a command for later.
    pub(crate) fn delay(&self, command: BoxFuture<'static, ()>) {
        self.late.lock().push(command);
    }

    pub(crate) fn late(&self) -> usize {
        self.late.lock().len()
    }

    /// Makes a command that was delayed.
    pub(crate) async fn make_late(&self, index: usize) {
        let command = self.late.lock().swap_remove(index);
        command.await;
    }

    /// Lets the actor through one gate, up to the next gate. `Some`: it has ended.
    pub(crate) async fn step(
        &self,
        actor: usize,
        outcome: CallOutcome,
        program: &mut Program,
    ) -> Option<Result<(), String>> {
        *self.permit.lock() = Some((actor, outcome));
        let ended = poll_fn(|context| {
            ACTOR.set(actor);
            match program.as_mut().poll(context) {
                Poll::Ready(ended) => Poll::Ready(Some(ended)),
                // The actor is at a gate, or waits for another actor.
                Poll::Pending if self.running.load(Ordering::Acquire) == 0 => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        })
        .await;
        *self.permit.lock() = None;
        ended
    }
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stage")
    }
}
