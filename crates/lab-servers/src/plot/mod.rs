//! Plots of values over time, and their page: a self-contained HTML file with styles and drawings. Colours
//! follow the reader's preference, light or dark.

mod page;
mod scale;

use scale::{BOTTOM, HEIGHT, Scale, TOP, WIDTH};

pub use page::{escaped, page, table};

/// How many lines have distinct colours.
pub const COLOURS: usize = 4;

/// Lines over one time.
#[derive(Clone, Debug, Default)]
pub struct Plot<'a> {
    /// Describes the plot for readers who do not see it.
    pub title: &'a str,
    /// Names the moment from which the seconds are counted.
    pub since: &'a str,
    /// How long it lasts, in seconds.
    pub seconds: f64,
    /// A line hides the lines before it: the last line is on top.
    pub lines: Vec<Line<'a>>,
    /// Times that are grey.
    pub shades: Vec<Shade<'a>>,
    /// The limits of the values, each with its time.
    pub bounds: Vec<Bound>,
}

/// A value for each time slot.
#[derive(Clone, Debug)]
pub struct Line<'a> {
    /// The line's colour, a number below [`COLOURS`].
    pub colour: usize,
    /// The name in the legend.
    pub name: &'a str,
    /// How long a slot is, in seconds.
    pub slot: f64,
    /// Values in seconds, for the first slot first.
    pub values: Vec<f64>,
}

/// A time that is grey, in seconds.
#[derive(Clone, Debug)]
pub struct Shade<'a> {
    /// The name of the time span.
    pub name: &'a str,
    /// When it begins.
    pub from: f64,
    /// When it ends, in seconds.
    pub until: f64,
}

/// A limit that applies between two times, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// When it begins.
    pub from: f64,
    /// When it ends, in seconds.
    pub until: f64,
    /// The highest value meanwhile.
    pub most: f64,
}

impl Plot<'_> {
    /// Renders the plot as an SVG element for a page.
    pub fn svg(&self) -> String {
        let (scale, title) = (self.scale(), escaped(self.title));
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">\n<title>{title}</title>\n"
        );
        self.shades.iter().for_each(|shade| svg += &shade.svg(scale));
        svg += &scale.axes(&escaped(self.since));
        self.bounds.iter().for_each(|bound| svg += &bound.svg(scale));
        self.lines.iter().for_each(|line| svg += &line.svg(scale));
        svg + "</svg>\n"
    }

    fn scale(&self) -> Scale {
        let values = self.lines.iter().flat_map(|line| line.values.iter().copied());
        let highest = values.chain(self.bounds.iter().map(|bound| bound.most)).fold(0.0, f64::max);
        Scale::of(self.seconds, highest)
    }
}

/// Names the lines in plots by their colours.
pub fn legend<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> String {
    let entry = |(colour, name): (usize, &str)| {
        format!("<span><i class=\"l{}\"></i>{}</span>", colour % COLOURS, escaped(name))
    };
    format!("<p class=\"legend\">{}</p>\n", lines.map(entry).collect::<String>())
}

impl Shade<'_> {
    fn svg(&self, scale: Scale) -> String {
        let (from, to) = (scale.x(self.from), scale.x(self.until));
        let (wide, high, name) = (to - from, BOTTOM - TOP, escaped(self.name));
        let rect = format!(
            "<rect class=\"shade\" x=\"{from:.1}\" y=\"{TOP}\" width=\"{wide:.1}\" height=\"{high}\"><title>{name}\
             </title></rect>"
        );
        let (x, y) = (from + 3.0, TOP + 12.0);
        format!("{rect}<text class=\"name\" x=\"{x:.1}\" y=\"{y:.1}\">{name}</text>\n")
    }
}

impl Bound {
    fn svg(self, scale: Scale) -> String {
        let (from, to, at) = (scale.x(self.from), scale.x(self.until), scale.y(self.most));
        let label = scale::label(self.most);
        format!(
            "<line class=\"bound\" x1=\"{from:.1}\" x2=\"{to:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"><title>no older than \
             {label} s</title></line>\n"
        )
    }
}

impl Line<'_> {
    fn svg(&self, scale: Scale) -> String {
        let (mut points, mut at) = (String::new(), 0.0);
        for value in &self.values {
            points += &format!("{:.1},{:.1} ", scale.x(at), scale.y(*value));
            at += self.slot;
        }
        let (colour, name) = (self.colour % COLOURS, escaped(self.name));
        format!("<polyline class=\"l{colour}\" points=\"{points}\"><title>{name}</title></polyline>\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(values: &[f64]) -> Line<'static> {
        Line { colour: 0, name: "oldest", slot: 0.5, values: values.to_vec() }
    }

    fn plot(lines: Vec<Line<'static>>) -> Plot<'static> {
        Plot { title: "a plot", since: "seconds", seconds: 10.0, lines, ..Plot::default() }
    }

    #[test]
    fn line_rises_with_value_and_advances_with_time() {
        let svg = plot(vec![line(&[0.0, 1.0, 0.5])]).svg();
        assert!(svg.contains("points=\"60.0,250.0 101.0,20.0 142.0,135.0 \""), "{svg}");
    }

    #[test]
    fn a_bound_is_seen_though_nothing_comes_near_it() {
        let bounds = vec![Bound { from: 0.0, until: 5.0, most: 10.0 }];
        let svg = Plot { bounds, ..plot(vec![line(&[1.0])]) }.svg();
        assert!(svg.contains("class=\"bound\" x1=\"60.0\" x2=\"470.0\" y1=\"20.0\" y2=\"20.0\""), "{svg}");
        assert!(svg.contains("points=\"60.0,227.0 \""), "{svg}");
    }

    #[test]
    fn endless_shade_reaches_the_right_edge() {
        let shades = vec![Shade { name: "away", from: 5.0, until: f64::MAX }];
        let svg = Plot { shades, ..plot(Vec::new()) }.svg();
        assert!(svg.contains("class=\"shade\" x=\"470.0\" y=\"20\" width=\"410.0\""), "{svg}");
    }

    #[test]
    fn names_cannot_break_out_of_the_page() {
        let shades = vec![Shade { name: "<script>", from: 0.0, until: 1.0 }];
        let lines = vec![Line { name: "</svg>", ..line(&[0.0]) }];
        let svg = Plot { title: "\"><b>", shades, ..plot(lines) }.svg() + &legend([(0, "<i>")].into_iter());
        assert!(!svg.contains("<script") && !svg.contains("<b>"), "{svg}");
        assert_eq!((svg.matches("</svg>").count(), svg.matches("<i>").count()), (1, 0), "{svg}");
    }

    #[test]
    fn plot_has_title_and_label_for_screen_readers() {
        let svg = plot(Vec::new()).svg();
        assert!(svg.contains("role=\"img\" aria-label=\"a plot\"") && svg.contains("<title>a plot</title>"));
    }
}
