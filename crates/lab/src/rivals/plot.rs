//! The comparison as one page: a plot of each fault, and the table.

use super::{Comparison, Fault, Run, Scheme, ages::SLOT, table};

/// Of a plot, in pixels: the whole, and the part where the lines are.
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 880.0;
const TOP: f64 = 20.0;
const BOTTOM: f64 = 250.0;

/// Slots that a point of a line is the worst of: what is stale is not read in every slot.
const OF_LAST: u32 = 5;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:960px;margin:2em auto;padding:0 1em;\
    color:#222;background:#fff}svg{width:100%;height:auto}text{font:12px system-ui,sans-serif;fill:#444}\
    pre{overflow-x:auto;font-size:12px}.legend span{margin-right:1.5em}.legend i{display:inline-block;width:1.6em;\
    height:.25em;vertical-align:middle;margin-right:.4em}";

/// How wide and how high a plot is, in seconds.
#[derive(Clone, Copy)]
struct Scale {
    wide: f64,
    high: f64,
}

/// One page that needs nothing else.
#[must_use]
pub fn html(comparison: &Comparison) -> String {
    let mut body = String::new();
    for fault in Fault::ALL {
        let runs: Vec<&Run> = comparison.runs.iter().filter(|run| run.fault == fault).collect();
        if !runs.is_empty() {
            body += &format!("<h2>{}</h2>\n{}{}", fault.name(), legend(), plot(fault, &runs));
        }
    }
    let table = table(&comparison.runs).replace('<', "&lt;").replace('>', "&gt;");
    format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Kith beside other caches</title>\n\
        <style>{STYLE}</style>\n<h1>How old are cached reads?</h1>\n<p>The oldest read of the last {} ms, as the \
        time since a later version had been acknowledged. The grey part is the fault. Seed {}.</p>\n\
        {body}<h2>All figures</h2>\n<pre>{table}</pre>\n</html>\n",
        (SLOT * OF_LAST).as_millis(),
        comparison.seed,
    )
}

const fn colour(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::Kith => "#1a7f37",
        Scheme::DeleteAndPublish => "#cf222e",
        Scheme::Leases => "#0969da",
        Scheme::GetWith => "#bf8700",
    }
}

fn legend() -> String {
    let entry = |scheme: Scheme| {
        format!("<span><i style=\"background:{}\"></i>{}</span>", colour(scheme), scheme.name())
    };
    format!("<p class=\"legend\">{}</p>\n", Scheme::ALL.map(entry).concat())
}

fn plot(fault: Fault, runs: &[&Run]) -> String {
    let longest = runs.iter().map(|run| run.lasted_ms).max().unwrap_or_default();
    let worst = runs.iter().map(|run| run.ages.worst_ms).max().unwrap_or_default();
    let scale = Scale { wide: step(longest) * 10.0, high: step(worst) * 10.0 };
    let name = fault.name();
    let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{name}\">\n");
    let healed = runs.first().map_or(0.0, |run| seconds(run.fault_ms));
    let (from, to) = (scale.x(0.0), scale.x(healed));
    let (wide, high) = (to - from, BOTTOM - TOP);
    svg += &format!("<rect x=\"{from}\" y=\"{TOP}\" width=\"{wide:.1}\" height=\"{high}\" fill=\"#eee\"/>\n");
    svg += &axes(scale, [step(longest), step(worst)]);
    // Kith last, so that no other line hides it.
    runs.iter().rev().for_each(|run| svg += &line(run, scale));
    svg + "</svg>\n"
}

impl Scale {
    fn x(self, seconds: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * (seconds / self.wide).min(1.0)
    }

    fn y(self, seconds: f64) -> f64 {
        BOTTOM - (BOTTOM - TOP) * (seconds / self.high).min(1.0)
    }
}

/// A round number of seconds of which ten are not less than that.
fn step(ms: u64) -> f64 {
    let steps = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0];
    steps.into_iter().find(|step| step * 10.0 >= seconds(ms)).unwrap_or(10.0)
}

fn axes(scale: Scale, steps: [f64; 2]) -> String {
    let mut svg = String::new();
    for at in 0..=10 {
        let (x, y) = (f64::from(at) * steps[0], f64::from(at) * steps[1]);
        let (across, up) = (scale.x(x), scale.y(y));
        let (left, below) = (LEFT - 8.0, BOTTOM + 18.0);
        svg += &format!("<line x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{up:.1}\" y2=\"{up:.1}\" stroke=\"#ddd\"/>");
        svg += &format!("<text x=\"{left}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>", up + 4.0, label(y));
        svg += &format!("<text x=\"{across:.1}\" y=\"{below}\" text-anchor=\"middle\">{}</text>\n", label(x));
    }
    let middle = f64::midpoint(LEFT, RIGHT);
    svg += &format!("<line x1=\"{LEFT}\" x2=\"{LEFT}\" y1=\"{TOP}\" y2=\"{BOTTOM}\" stroke=\"#444\"/>");
    svg += &format!("<line x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{BOTTOM}\" y2=\"{BOTTOM}\" stroke=\"#444\"/>");
    let below = BOTTOM + 40.0;
    svg += &format!(
        "<text x=\"{middle}\" y=\"{below}\" text-anchor=\"middle\">seconds since the fault began</text>"
    );
    svg + &format!("<text x=\"{LEFT}\" y=\"{:.1}\" text-anchor=\"middle\">oldest read, s</text>\n", TOP - 8.0)
}

fn line(run: &Run, scale: Scale) -> String {
    let slots = usize::try_from(u128::from(run.lasted_ms) / SLOT.as_millis()).unwrap_or_default() + 1;
    let of_last = usize::try_from(OF_LAST).unwrap_or_default();
    let (mut points, mut at) = (String::new(), 0.0);
    for slot in 1..=slots {
        let last = run.ages.slots_ms.iter().take(slot).skip(slot.saturating_sub(of_last));
        let worst = last.max().copied().unwrap_or_default();
        points += &format!("{:.1},{:.1} ", scale.x(at), scale.y(seconds(worst)));
        at += SLOT.as_secs_f64();
    }
    let colour = colour(run.scheme);
    format!("<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{points}\"/>\n")
}

fn label(seconds: f64) -> String {
    let text = format!("{seconds:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn seconds(ms: u64) -> f64 {
    std::time::Duration::from_millis(ms).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rivals::Ages;

    #[test]
    fn a_line_begins_at_the_fault_and_keeps_an_age_for_half_a_second() {
        let ages = Ages { slots_ms: vec![0, 1_000], ..Ages::default() };
        let run = Run {
            scheme: Scheme::Kith,
            fault: Fault::Nothing,
            fault_ms: 500,
            lasted_ms: 700,
            writes: 0,
            refused: 0,
            ages,
            stale_for_ever: 0,
            loads: 0,
            machine_ms: 0,
        };
        let line = line(&run, Scale { wide: 1.0, high: 1.0 });
        let heights: Vec<&str> =
            line.split(' ').filter_map(|point| point.split_once(",")).map(|(_, y)| y).collect();
        assert_eq!(heights, ["250.0", "20.0", "20.0", "20.0", "20.0", "20.0", "250.0", "250.0"]);
    }
}
