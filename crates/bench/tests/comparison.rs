//! Compares sequence numbers with a published allocator.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use kith_bench::comparison::{NumberFault, NumberRun, NumberScheme, NumberSizes, run_numbers};

/// One run at a time: two would keep each other from being in time.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Dumps that are put back until one shows the fault. A dump that was taken while a caller held the lock
/// shows nothing: the block in it expires with the lock.
const DUMPS: usize = 10;

async fn quick(scheme: NumberScheme, fault: NumberFault) -> NumberRun {
    let _alone = ALONE.lock().await;
    let run = run_numbers(scheme, fault, &NumberSizes::QUICK).await.unwrap();
    println!("{run:?}");
    run
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kith_repeats_no_number_under_any_fault() {
    for fault in NumberFault::ALL {
        let run = quick(NumberScheme::Kith, fault).await;
        assert!(run.numbers > 500, "{run:?}");
        assert_eq!((run.twice, run.failed), (0, 0), "{run:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn published_allocator_gives_out_numbers_twice() {
    let described = quick(NumberScheme::Described, NumberFault::Nothing).await;
    assert!(described.twice > 0, "without any fault: {described:?}");
    let fine = quick(NumberScheme::Program, NumberFault::Nothing).await;
    assert_eq!(fine.twice, 0, "the program is better than its description: {fine:?}");
    for _ in 0..DUMPS {
        if quick(NumberScheme::Program, NumberFault::PutBack).await.twice > 0 {
            return;
        }
    }
    panic!("none of {DUMPS} old dumps made the program give out a number twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn published_lock_of_dead_caller_blocks_others() {
    let run = quick(NumberScheme::Program, NumberFault::CallersDie).await;
    assert!(run.longest_us > 250_000, "{run:?}");
}
