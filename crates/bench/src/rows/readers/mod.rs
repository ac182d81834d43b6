//! Measures read tracking: notices and receipts, over what a service would do by hand.

mod answers;
mod bitmaps;
mod notice_marks;
mod notices;
mod raw;
mod receipt_marks;
mod receipts;
mod stage;

use anyhow::Result;

use crate::{claims::Plan, results::Results};

/// Runs the requested rows.
pub(crate) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    answers::rows(plan, results).await?;
    Box::pin(notice_marks::rows(plan, results)).await?;
    bitmaps::rows(plan, results).await?;
    Box::pin(receipts::rows(plan, results)).await?;
    Box::pin(receipt_marks::rows(plan, results)).await?;
    Ok(())
}
