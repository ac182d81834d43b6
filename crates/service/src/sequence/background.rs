//! The background of sequences: tasks of the runtime.

use std::time::Duration;

use futures::{FutureExt as _, future::BoxFuture};
use kith_delivery::Background;

/// Runs work in tasks of the runtime. A stop of the node does not wait for them: unfinished work leaves a gap.
#[derive(Clone, Copy, Debug)]
pub struct TokioBackground;

impl Background for TokioBackground {
    fn run(&self, work: BoxFuture<'static, ()>) {
        tokio::spawn(work);
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        tokio::time::sleep(time).boxed()
    }
}
