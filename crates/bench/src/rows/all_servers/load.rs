//! Keeps a load running before the measurement and after it, so that work that servers do later for a call
//! counts for the next call.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result};
use kith_lab_servers::wait::until;
use tokio::{
    task::JoinSet,
    time::{Instant, error::Elapsed, sleep, sleep_until},
};
use tonic::Status;

use super::processes::Processes;
use crate::{claims::Plan, load::at_once, ratio::count, rows::until_done::may_pass};

/// How long a caller waits after a failed call.
const AFTER_FAILURE: Duration = Duration::from_millis(20);

/// How long the first call may take that is measured.
const DONE_WITHIN: Duration = Duration::from_secs(30);

/// When calls begin.
#[derive(Clone, Copy, Debug)]
pub(in crate::rows) enum Load {
    /// This many callers, each with a new call after every answer.
    Callers(usize),
    /// This many calls a second.
    Rate(u32),
}

/// How long calls are made.
#[derive(Clone, Copy, Debug)]
pub(in crate::rows) struct Times {
    /// How long calls run before the measurement, and how long there are no calls after it: longer than
    /// servers gather anything.
    around: Duration,
    measured: Duration,
}

impl Times {
    pub(in crate::rows) fn of(plan: &Plan) -> Self {
        let times = |around, measured| Self {
            around: Duration::from_millis(around),
            measured: Duration::from_millis(measured),
        };
        plan.size(times(1_200, 3_000), times(100, 500))
    }
}

/// The cost of some time under load.
#[derive(Clone, Copy, Debug)]
pub(in crate::rows) struct Measured {
    /// Calls that were done.
    pub(in crate::rows) done: f64,
    cpu_seconds: f64,
    seconds: f64,
}

impl Measured {
    /// Microseconds of processor time for a call.
    pub(in crate::rows) fn cpu_micros(&self) -> f64 {
        self.cpu_micros_over(0.0)
    }

    /// Like `cpu_micros`, but without what the servers take at rest, in seconds of processor time a second.
    pub(in crate::rows) fn cpu_micros_over(&self, at_rest: f64) -> f64 {
        (self.cpu_seconds - at_rest * self.seconds) * 1e6 / self.done
    }

    /// Calls a second.
    pub(in crate::rows) fn per_second(&self) -> f64 {
        self.done / self.seconds
    }
}

/// Measures calls, each with a distinct number. Calls for which the server has no room or time do not count;
/// other failures end the run.
pub(in crate::rows) async fn measure<F>(
    times: Times,
    load: Load,
    servers: &Processes,
    call: impl Fn(u64) -> F + Clone + Send + Sync + 'static,
) -> Result<Measured>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let (ends, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let counted = {
        let done = Arc::clone(&done);
        move |number| {
            let (called, done) = (call(number), Arc::clone(&done));
            async move {
                match called.await {
                    Ok(()) => drop(done.fetch_add(1, Ordering::Relaxed)),
                    Err(error) if passes(&error) => sleep(AFTER_FAILURE).await,
                    Err(error) => return Err(error),
                }
                Ok(())
            }
        }
    };
    let calling = tokio::spawn(keep_calling(load, Arc::clone(&ends), counted));
    let measured = window(times, servers, &done).await;
    ends.store(true, Ordering::Relaxed);
    calling.await??;
    sleep(times.around).await;
    measured
}

/// Whether the failure comes from an overloaded server.
fn passes(error: &anyhow::Error) -> bool {
    let refused = error.downcast_ref::<Status>().is_some_and(|status| may_pass(status.code()));
    refused || error.is::<Elapsed>()
}

async fn window(times: Times, servers: &Processes, done: &AtomicU64) -> Result<Measured> {
    sleep(times.around).await;
    let (begun, first, before) = (Instant::now(), done.load(Ordering::Relaxed), servers.cpu_seconds()?);
    sleep(times.measured).await;
    let is_any_done = async || Ok(done.load(Ordering::Relaxed) > first);
    until("no call is done", DONE_WITHIN, is_any_done).await?;
    let done = done.load(Ordering::Relaxed) - first;
    let (cpu_seconds, seconds) = (servers.cpu_seconds()? - before, begun.elapsed().as_secs_f64());
    Ok(Measured { done: count(usize::try_from(done)?), cpu_seconds, seconds })
}

/// Processor time that these servers take without calls, in seconds a second.
pub(in crate::rows) async fn at_rest(time: Duration, servers: &Processes) -> Result<f64> {
    let (begun, before) = (Instant::now(), servers.cpu_seconds()?);
    sleep(time).await;
    Ok((servers.cpu_seconds()? - before) / begun.elapsed().as_secs_f64())
}

async fn keep_calling<F>(
    load: Load,
    ends: Arc<AtomicBool>,
    call: impl Fn(u64) -> F + Clone + Send + Sync + 'static,
) -> Result<()>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let numbers = Arc::new(AtomicU64::new(0));
    match load {
        Load::Callers(callers) => {
            at_once(callers, |_| {
                let (ends, numbers, call) = (Arc::clone(&ends), Arc::clone(&numbers), call.clone());
                async move {
                    while !ends.load(Ordering::Relaxed) {
                        call(numbers.fetch_add(1, Ordering::Relaxed)).await?;
                    }
                    Ok(())
                }
            })
            .await?;
        }
        Load::Rate(rate) => {
            let (begun, mut calls) = (Instant::now(), JoinSet::new());
            while !ends.load(Ordering::Relaxed) {
                let number = numbers.fetch_add(1, Ordering::Relaxed);
                let due = Duration::from_secs(1) * u32::try_from(number)? / rate;
                sleep_until(begun + due).await;
                calls.spawn(call(number));
                while let Some(ended) = calls.try_join_next() {
                    ended.context("a call has ended")??;
                }
            }
            while let Some(ended) = calls.join_next().await {
                ended??;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: Times = Times { around: Duration::from_millis(200), measured: Duration::from_secs(2) };

    async fn calls(load: Load) -> Measured {
        let call = |_| async {
            sleep(Duration::from_millis(100)).await;
            Ok(())
        };
        measure(TIMES, load, &Processes(vec![std::process::id()]), call).await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn calls_of_measured_time_alone_count() {
        assert!((195.0..=205.0).contains(&calls(Load::Callers(10)).await.done));
        assert!((95.0..=105.0).contains(&calls(Load::Rate(50)).await.done));
    }

    #[tokio::test(start_paused = true)]
    async fn only_failures_of_busy_server_may_pass() {
        let servers = Processes(vec![std::process::id()]);
        let failing = |failure: fn() -> Status| {
            move |number: u64| async move {
                sleep(Duration::from_millis(80)).await;
                if number.is_multiple_of(2) { Ok(()) } else { Err(failure().into()) }
            }
        };
        let busy = failing(|| Status::unavailable("it is busy"));
        let measured = measure(TIMES, Load::Rate(50), &servers, busy).await.unwrap();
        assert!((45.0..=55.0).contains(&measured.done), "{}", measured.done);
        let refused = failing(|| Status::invalid_argument("it is wrong"));
        assert!(measure(TIMES, Load::Rate(50), &servers, refused).await.is_err());
    }

    #[test]
    fn time_at_rest_is_taken_off() {
        let measured = Measured { done: 1_000.0, cpu_seconds: 3.0, seconds: 2.0 };
        assert_eq!((measured.cpu_micros(), measured.per_second()), (3_000.0, 500.0));
        assert_eq!(measured.cpu_micros_over(0.5), 2_000.0);
    }
}
