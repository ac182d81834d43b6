//! Background tasks for sequences.

use std::time::Duration;

use futures::{FutureExt as _, future::BoxFuture};
use kith_delivery::Background;

/// Runs work in runtime tasks. A stopping node does not wait for them: unfinished work leaves a gap.
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
