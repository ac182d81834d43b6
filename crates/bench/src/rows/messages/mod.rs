//! Measures messages: sends and reads, over what a service would do by hand with the drivers.

mod cpu;
mod raw;
mod reads;
mod stage;

use anyhow::Result;

pub(in crate::rows) use self::stage::{GROUP, MessageClient, USER, fill_from, quiet, text};
use crate::{claims::Plan, results::Results};

/// Bytes in a body.
const BODY: usize = 200;
const CONTENT_TYPE: &str = "text/plain";

/// Runs the requested rows.
pub(crate) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    Box::pin(reads::rows(plan, results)).await?;
    Box::pin(cpu::rows(plan, results)).await
}

pub(in crate::rows) fn body() -> Vec<u8> {
    vec![b'x'; BODY]
}
