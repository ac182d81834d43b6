//! The comparison as one page: a plot for each fault, and the table.

use kith_lab_servers::plot::{Line, Plot, Shade, escaped, legend, page};

use super::{Comparison, Fault, Run, Scheme, ages::SLOT, table};

/// A point on a line is the maximum over this many slots: a stale record is not read in every slot.
const OF_LAST: u32 = 5;

/// A self-contained page.
pub(super) fn html(comparison: &Comparison) -> String {
    let mut body = format!(
        "<p>How old are cached reads? The oldest read of the last {} ms, as the time since a later version had been \
         acknowledged. The grey part is the fault. Seed {}.</p>\n",
        (SLOT * OF_LAST).as_millis(),
        comparison.seed,
    );
    for fault in Fault::ALL {
        let runs: Vec<&Run> = comparison.runs.iter().filter(|run| run.fault == fault).collect();
        if !runs.is_empty() {
            let lines = legend(Scheme::ALL.iter().map(|scheme| (colour(*scheme), scheme.name())));
            body += &format!("<h2>{}</h2>\n{lines}{}", escaped(fault.name()), plot(fault, &runs).svg());
        }
    }
    body += &format!("<h2>All figures</h2>\n<pre>{}</pre>\n", escaped(&table(&comparison.runs)));
    page("Kith and other caches", &body)
}

const fn colour(scheme: Scheme) -> usize {
    match scheme {
        Scheme::Kith => 0,
        Scheme::DeleteAndPublish => 1,
        Scheme::Leases => 2,
        Scheme::GetWith => 3,
    }
}

fn plot<'a>(fault: Fault, runs: &[&'a Run]) -> Plot<'a> {
    let longest = runs.iter().map(|run| run.lasted_ms).max().unwrap_or_default();
    let healed = runs.first().map_or(0.0, |run| seconds(run.fault_ms));
    Plot {
        title: fault.name(),
        since: "seconds since the fault began",
        seconds: seconds(longest),
        // Kith last, so that no other line hides it.
        lines: runs.iter().rev().map(|run| line(run)).collect(),
        shades: vec![Shade { name: fault.name(), from: 0.0, until: healed }],
        bounds: Vec::new(),
    }
}

fn line(run: &Run) -> Line<'_> {
    let slots = usize::try_from(u128::from(run.lasted_ms) / SLOT.as_millis()).unwrap_or_default() + 1;
    let of_last = usize::try_from(OF_LAST).unwrap_or_default();
    let worst = |slot: usize| {
        let last = run.ages.slots_ms.iter().take(slot).skip(slot.saturating_sub(of_last));
        seconds(last.max().copied().unwrap_or_default())
    };
    let values = (1..=slots).map(worst).collect();
    Line { colour: colour(run.scheme), name: run.scheme.name(), slot: SLOT.as_secs_f64(), values }
}

fn seconds(ms: u64) -> f64 {
    std::time::Duration::from_millis(ms).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::Ages;

    #[test]
    fn line_starts_at_fault_and_holds_age_for_500_ms() {
        let ages = Ages { slots_ms: vec![0, 1_000], ..Ages::default() };
        let run = Run::without_fault(Scheme::Kith, ages);
        assert_eq!(line(&run).values, [0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0]);
    }
}
