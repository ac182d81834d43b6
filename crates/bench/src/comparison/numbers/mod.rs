//! Compares Kith's sequence numbers with a published allocator, over the same Redis, store and faults. The
//! schemes run in sequence.
//!
//! `PublishedAllocator` is written as its source describes it, and a second time as the program has it that
//! the source describes.

mod fault;
mod kith;
mod published;
mod run;
mod store;

use anyhow::Result;
use kith_lab_servers::table::aligned;

pub use fault::NumberFault;
use published::PublishedAllocator;
pub use run::{NumberRun, NumberSizes, run_numbers};

/// A node in a scheme.
#[async_trait::async_trait]
trait NumberNode: Send + Sync + 'static {
    /// The next number in the run's only sequence, or an error if there is none in time.
    async fn next(&self) -> Result<i64>;
}

/// The compared allocators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberScheme {
    /// Kith's sequences.
    Kith,
    /// `PublishedAllocator`, as its source describes it.
    Described,
    /// `PublishedAllocator`, as the program has it.
    Program,
}

impl NumberScheme {
    /// All, in the order in which they run.
    pub const ALL: [Self; 3] = [Self::Kith, Self::Described, Self::Program];

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kith => "Kith",
            Self::Described => "lock in Redis, as described",
            Self::Program => "lock in Redis, as programmed",
        }
    }
}

/// Runs all schemes under all faults in sequence, and reports each.
///
/// # Errors
/// The first error from a run.
pub async fn compare_numbers(sizes: &NumberSizes, mut ran: impl FnMut(&NumberRun)) -> Result<Vec<NumberRun>> {
    let mut runs = Vec::new();
    for fault in NumberFault::ALL {
        for scheme in NumberScheme::ALL {
            let run = run_numbers(scheme, fault, sizes).await?;
            ran(&run);
            runs.push(run);
        }
    }
    Ok(runs)
}

/// The runs as a Markdown table, in their order.
#[must_use]
pub fn number_table(runs: &[NumberRun]) -> String {
    let head = [
        "fault",
        "scheme",
        "numbers",
        "given out twice",
        "failed",
        "steps of the store",
        "p50",
        "p99",
        "longest wait",
    ];
    aligned(&head.map(str::to_owned), runs.iter().map(cells))
}

fn cells(run: &NumberRun) -> [String; 9] {
    let ms = |micros: u64| format!("{:.1} ms", std::time::Duration::from_micros(micros).as_secs_f64() * 1e3);
    [
        run.fault.name().to_owned(),
        run.scheme.name().to_owned(),
        run.numbers.to_string(),
        run.twice.to_string(),
        run.failed.to_string(),
        run.steps.to_string(),
        ms(run.p50_us),
        ms(run.p99_us),
        ms(run.longest_us),
    ]
}
