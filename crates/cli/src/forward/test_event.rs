//! `kith forward test`: sends one event that says nothing.

use anyhow::Result;
use kith_forward::{Outcome, Settings};
use serde::Serialize;

use super::receiver_options::ReceiverOptions;
use crate::{Common, FAILED, OK, output::Report};

/// The options for `kith forward test`.
#[derive(Debug, clap::Args)]
pub(crate) struct TestOptions {
    #[command(flatten)]
    receiver: ReceiverOptions,
}

/// The receiver's status, or why there is none.
#[derive(Serialize)]
struct TestAnswer {
    delivered: bool,
    answer: String,
}

impl Report for TestAnswer {
    const COLUMNS: &'static [&'static str] = &["delivered", "answer"];
}

/// Sends the event, once. Fails if it cannot be sent.
pub(super) async fn run(common: &Common, options: &TestOptions) -> Result<u8> {
    let answer = options.receiver.receiver().await?.post_test(Settings::default().request).await;
    let delivered = answer.outcome() == Outcome::Delivered;
    common.output.print(&TestAnswer { delivered, answer: answer.to_string() })?;
    Ok(if delivered { OK } else { FAILED })
}
