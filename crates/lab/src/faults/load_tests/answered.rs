//! A call that is sent until a node answers it.

use std::time::Duration;

use anyhow::{Result, bail};
use futures::future::BoxFuture;
use tokio::time::sleep;
use tonic::{Code, Status, transport::Channel};

use crate::{checker::of_a_disturbance, faults::calls::failed};

/// Pause after a call that failed.
const PAUSE: Duration = Duration::from_millis(20);
/// Attempts of a call.
const TRIES: usize = 200;

/// Sends a call to one node after the other until one answers it.
///
/// # Errors
/// If none does, or with a code that no disturbance explains.
pub(super) async fn until_answered(
    nodes: &[Channel],
    first: usize,
    send: impl Fn(Channel) -> BoxFuture<'static, Result<(), Status>> + Send + Sync,
) -> Result<()> {
    let mut last = None;
    for node in nodes.iter().cycle().skip(first).take(TRIES) {
        match send(node.clone()).await {
            Ok(()) => return Ok(()),
            Err(status) if status.code() == Code::AlreadyExists => return Ok(()),
            Err(status) if of_a_disturbance(&failed(&status, false).0) => last = Some(status),
            Err(status) => return Err(status.into()),
        }
        sleep(PAUSE).await;
    }
    bail!("no node answers; the last answer: {last:?}")
}
