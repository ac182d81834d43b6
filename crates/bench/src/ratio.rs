//! Calculates a figure from interleaved rounds.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde::Serialize;

/// The sides that are measured in turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The bare part alone.
    Baseline,
    /// Kith over the bare part.
    Kith,
}

impl Side {
    /// Chooses the value for this side.
    pub(crate) fn of<T>(self, baseline: T, kith: T) -> T {
        match self {
            Self::Baseline => baseline,
            Self::Kith => kith,
        }
    }
}

/// Which way a figure gets better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    /// A lower figure is better: a cost.
    Lower,
    /// A higher figure is better: a gain.
    Higher,
}

/// How a figure comes from the two sides in one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figure {
    /// Kith divided by the baseline.
    Ratio,
    /// Kith less the baseline.
    Difference,
    /// Kith alone: an absolute promise. The baseline is the lower limit for what is possible.
    Kith,
}

/// The claim that a row is to show.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    /// Names the row, for `--only` and in the result file.
    pub(crate) name: &'static str,
    /// The unit for both sides.
    pub(crate) unit: &'static str,
    /// Which way the figure gets better.
    pub(crate) better: Better,
    /// How it is made.
    pub(crate) figure: Figure,
    /// The target that the figure has to reach; `None`: it is reported only.
    pub(crate) target: Option<f64>,
}

impl Claim {
    /// A ratio that is better the lower it is, and is reported only.
    pub(crate) const fn cost(name: &'static str, unit: &'static str) -> Self {
        Self { name, unit, better: Better::Lower, figure: Figure::Ratio, target: None }
    }

    /// A ratio that is better the higher it is, and is reported only.
    pub(crate) const fn gain(name: &'static str, unit: &'static str) -> Self {
        Self { better: Better::Higher, ..Self::cost(name, unit) }
    }

    /// Makes the figure a [`Figure::Difference`].
    pub(crate) const fn difference(self) -> Self {
        Self { figure: Figure::Difference, ..self }
    }

    /// Makes the figure [`Figure::Kith`].
    pub(crate) const fn kith_alone(self) -> Self {
        Self { figure: Figure::Kith, ..self }
    }

    /// Sets the target that the figure has to reach.
    pub(crate) const fn target(self, target: f64) -> Self {
        Self { target: Some(target), ..self }
    }
}

/// Both measurements from one round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair<T> {
    /// The bare part's value.
    pub(crate) baseline: T,
    /// The value for Kith.
    pub(crate) kith: T,
}

/// One line in the results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    /// The claim's name.
    pub(crate) name: &'static str,
    /// The unit for `baseline` and `kith`.
    pub(crate) unit: &'static str,
    /// The bare part's median.
    pub(crate) baseline: f64,
    /// The median for Kith.
    pub(crate) kith: f64,
    /// The rounds' median figure; not the quotient of the two medians.
    pub(crate) figure: f64,
    /// The claim's target.
    pub(crate) target: Option<f64>,
    /// The claim's direction.
    pub(crate) better: Better,
    /// Whether the figure reaches the target; true without a target.
    pub(crate) holds: bool,
    /// A round's smallest and largest figure.
    pub(crate) spread: [f64; 2],
    /// How many rounds there were.
    pub(crate) rounds: usize,
}

impl Row {
    /// Makes the figure for at least one round.
    ///
    /// # Errors
    /// Fails without a round, or when a side measured nothing.
    pub(crate) fn new(claim: &Claim, rounds: &[Pair<f64>]) -> Result<Self> {
        ensure!(!rounds.is_empty(), "{}: no round was run", claim.name);
        // A server at rest may take no clock tick: a difference needs no baseline.
        let has_baseline = |round: &Pair<f64>| round.baseline > 0.0 || claim.figure == Figure::Difference;
        let measured = rounds.iter().all(|round| has_baseline(round) && round.kith > 0.0);
        ensure!(measured, "{}: a round was too short to measure anything", claim.name);
        let figures: Vec<f64> = rounds.iter().map(|round| figure(claim.figure, *round)).collect();
        let figure = median(figures.clone());
        let holds = match (claim.target, claim.better) {
            (None, _) => true,
            (Some(target), Better::Lower) => figure <= target,
            (Some(target), Better::Higher) => figure >= target,
        };
        Ok(Self {
            name: claim.name,
            unit: claim.unit,
            baseline: median(rounds.iter().map(|round| round.baseline).collect()),
            kith: median(rounds.iter().map(|round| round.kith).collect()),
            figure,
            target: claim.target,
            better: claim.better,
            holds,
            spread: figures
                .iter()
                .fold([f64::MAX, f64::MIN], |[least, most], &f| [least.min(f), most.max(f)]),
            rounds: rounds.len(),
        })
    }
}

/// Measures both sides in each of `rounds`, one after the other. The side that begins changes with every
/// round, so that neither always finds the machine as the other left it. Returns the first error from
/// `measure`.
pub(crate) async fn interleave<T>(
    rounds: usize,
    mut measure: impl AsyncFnMut(Side) -> Result<T>,
) -> Result<Vec<Pair<T>>> {
    let mut pairs = Vec::with_capacity(rounds);
    for round in 0..rounds {
        let pair = if round % 2 == 0 {
            let baseline = measure(Side::Baseline).await?;
            Pair { baseline, kith: measure(Side::Kith).await? }
        } else {
            let kith = measure(Side::Kith).await?;
            Pair { baseline: measure(Side::Baseline).await?, kith }
        };
        pairs.push(pair);
    }
    Ok(pairs)
}

/// One figure from rounds that measured several.
pub(crate) fn each<T>(pairs: &[Pair<T>], figure: fn(&T) -> f64) -> Vec<Pair<f64>> {
    pairs.iter().map(|pair| Pair { baseline: figure(&pair.baseline), kith: figure(&pair.kith) }).collect()
}

/// The median value; 0 without values.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.len().saturating_sub(1) / 2, values.len() / 2);
    match (values.get(low), values.get(high)) {
        (Some(low), Some(high)) => f64::midpoint(*low, *high),
        _ => 0.0,
    }
}

/// Times the pieces in a longer run, and takes the median piece: what other programs take from a piece or two
/// does not count, what every piece costs does.
#[derive(Debug)]
pub(crate) struct Pieces {
    begun: Instant,
    times: Vec<f64>,
}

impl Pieces {
    /// Begins the first piece.
    pub(crate) fn begin() -> Self {
        Self { begun: Instant::now(), times: Vec::new() }
    }

    /// Ends a piece after `operations` and begins the next piece.
    pub(crate) fn end_piece(&mut self, operations: usize) {
        let now = Instant::now();
        self.times.push(nanos(now - self.begun) / count(operations));
        self.begun = Instant::now();
    }

    /// Nanoseconds for an operation in the median piece.
    pub(crate) fn nanos_an_operation(self) -> f64 {
        median(self.times)
    }
}

/// Compares the microseconds that an operation takes on each side, timed in `pieces` [`Pieces`] with `each`
/// operations.
pub(crate) async fn compare_micros(
    rounds: usize,
    pieces: usize,
    each: usize,
    mut operation: impl AsyncFnMut(Side) -> Result<()>,
) -> Result<Vec<Pair<f64>>> {
    interleave(rounds, async |side| {
        let mut taken = Pieces::begin();
        for _ in 0..pieces {
            for _ in 0..each {
                operation(side).await?;
            }
            taken.end_piece(each);
        }
        Ok(taken.nanos_an_operation() / 1e3)
    })
    .await
}

/// How many operations a second `work` does, given that it does `operations`.
pub(crate) async fn per_second<T>(operations: usize, work: impl Future<Output = Result<T>>) -> Result<f64> {
    let begun = Instant::now();
    work.await?;
    Ok(count(operations) / begun.elapsed().as_secs_f64())
}

/// A number of things, to calculate with.
#[expect(clippy::cast_precision_loss, reason = "counts of a benchmark are far below 2^52")]
pub(crate) const fn count(number: usize) -> f64 {
    number as f64
}

/// The time in nanoseconds.
pub(crate) const fn nanos(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}

fn figure(figure: Figure, round: Pair<f64>) -> f64 {
    match figure {
        Figure::Ratio => round.kith / round.baseline,
        Figure::Difference => round.kith - round.baseline,
        Figure::Kith => round.kith,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST: Claim = Claim::cost("cost", "ns").target(1.5);

    fn rounds(pairs: &[(f64, f64)]) -> Vec<Pair<f64>> {
        pairs.iter().map(|&(baseline, kith)| Pair { baseline, kith }).collect()
    }

    #[test]
    fn figure_is_median_of_ratios_of_rounds() {
        let row = Row::new(&COST, &rounds(&[(1.0, 1.0), (10.0, 14.0), (2.0, 8.0)])).unwrap();
        assert_eq!((row.figure, row.spread, row.rounds), (1.4, [1.0, 4.0], 3));
        assert!(row.holds);
    }

    #[test]
    fn figure_on_wrong_side_of_target_does_not_hold() {
        assert!(!Row::new(&COST, &rounds(&[(1.0, 1.6)])).unwrap().holds);
        let gain = Claim { better: Better::Higher, target: Some(0.8), ..COST };
        assert!(!Row::new(&gain, &rounds(&[(1.0, 0.7)])).unwrap().holds);
        assert!(Row::new(&gain, &rounds(&[(1.0, 0.9)])).unwrap().holds);
    }

    #[test]
    fn a_difference_is_taken_round_by_round() {
        let bytes = Claim { figure: Figure::Difference, target: Some(48.0), ..COST };
        let row = Row::new(&bytes, &rounds(&[(100.0, 130.0), (90.0, 140.0), (95.0, 135.0)])).unwrap();
        assert_eq!((row.figure, row.holds), (40.0, true));
    }

    #[test]
    fn absolute_target_needs_no_baseline() {
        let time = Claim { figure: Figure::Kith, target: Some(20.0), ..COST };
        let row = Row::new(&time, &rounds(&[(1.0, 19.0), (30.0, 21.0), (1.0, 20.0)])).unwrap();
        assert_eq!((row.figure, row.holds, row.baseline), (20.0, true, 1.0));
    }

    #[test]
    fn a_side_that_measured_nothing_is_an_error() {
        assert!(Row::new(&COST, &[]).is_err());
        assert!(Row::new(&COST, &rounds(&[(0.0, 1.0)])).is_err());
        let difference = COST.difference();
        assert!(Row::new(&difference, &rounds(&[(0.0, 1.0)])).is_ok_and(|row| row.figure == 1.0));
        assert!(Row::new(&difference, &rounds(&[(1.0, 0.0)])).is_err());
    }

    #[test]
    fn median_of_even_count_averages_middle_two() {
        assert_eq!(median(vec![4.0, 1.0, 2.0, 100.0]), 3.0);
        assert_eq!(median(vec![]), 0.0);
    }

    #[tokio::test]
    async fn the_sides_take_turns_and_swap_who_begins() {
        let mut order = Vec::new();
        let mut measure = async |side| {
            order.push(side);
            Ok(())
        };
        interleave(3, &mut measure).await.unwrap();
        use Side::{Baseline as B, Kith as K};
        assert_eq!(order, [B, K, K, B, B, K]);
    }
}
