//! The axes of a plot: the mapping from seconds to SVG pixels, with ten round steps on each axis. Values
//! outside an axis are clamped to it.

/// The size in pixels: the whole plot, and the part where the lines are.
pub(super) const WIDTH: f64 = 900.0;
pub(super) const HEIGHT: f64 = 300.0;
pub(super) const LEFT: f64 = 60.0;
pub(super) const RIGHT: f64 = 880.0;
pub(super) const TOP: f64 = 20.0;
pub(super) const BOTTOM: f64 = 250.0;

/// The possible lengths for ten steps on an axis, in seconds.
const STEPS: [f64; 21] = [
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0,
    500.0, 1_000.0, 2_000.0, 5_000.0,
];

/// A plot's width and height: ten steps with these seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    across: f64,
    up: f64,
}

impl Scale {
    /// Chooses round steps, so that ten of them are not less than these seconds.
    pub(super) fn of(seconds: f64, highest: f64) -> Self {
        Self { across: step(seconds), up: step(highest) }
    }

    pub(super) fn x(self, seconds: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * (seconds / (self.across * 10.0)).clamp(0.0, 1.0)
    }

    pub(super) fn y(self, seconds: f64) -> f64 {
        BOTTOM - (BOTTOM - TOP) * (seconds / (self.up * 10.0)).clamp(0.0, 1.0)
    }

    pub(super) fn axes(self, since: &str) -> String {
        let mut svg: String = (0..=10).map(|at| self.step(f64::from(at))).collect();
        let (middle, below, above) = (f64::midpoint(LEFT, RIGHT), BOTTOM + 40.0, TOP - 8.0);
        svg += &format!("<line class=\"axis\" x1=\"{LEFT}\" x2=\"{LEFT}\" y1=\"{TOP}\" y2=\"{BOTTOM}\"/>");
        svg +=
            &format!("<line class=\"axis\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{BOTTOM}\" y2=\"{BOTTOM}\"/>");
        svg += &format!("<text x=\"{middle}\" y=\"{below}\" text-anchor=\"middle\">{since}</text>");
        svg + &format!("<text x=\"{LEFT}\" y=\"{above}\" text-anchor=\"middle\">oldest read, s</text>\n")
    }

    fn step(self, at: f64) -> String {
        let (x, y) = (at * self.across, at * self.up);
        let (across, up) = (self.x(x), self.y(y));
        let (left, below, baseline) = (LEFT - 8.0, BOTTOM + 18.0, up + 4.0);
        let (x, y) = (label(x), label(y));
        format!(
            "<line class=\"step\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{up:.1}\" y2=\"{up:.1}\"/>\
             <text x=\"{left}\" y=\"{baseline:.1}\" text-anchor=\"end\">{y}</text>\
             <text x=\"{across:.1}\" y=\"{below}\" text-anchor=\"middle\">{x}</text>\n"
        )
    }
}

/// Seconds with as many places as they need, at most three.
pub(super) fn label(seconds: f64) -> String {
    let text = format!("{seconds:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn step(seconds: f64) -> f64 {
    STEPS.into_iter().find(|step| step * 10.0 >= seconds).unwrap_or(10_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_ends_at_the_next_round_number() {
        assert_eq!([0.0, 0.011, 9.9, 10.1, 480.0].map(step), [0.001, 0.002, 1.0, 2.0, 50.0]);
    }

    #[test]
    fn labels_have_no_empty_places() {
        assert_eq!([0.0, 0.005, 1.5, 100.0].map(label), ["0", "0.005", "1.5", "100"]);
    }
}
