//! Draws a screen as a picture.

use std::fmt::Write as _;

use vt100::{Cell, Color, Screen};

/// A cell's size, in the picture's units.
const WIDTH: u16 = 9;
const HEIGHT: u16 = 18;
const MARGIN: u16 = 12;
const BACKGROUND: &str = "#1c1c1c";
const FOREGROUND: &str = "#d0d0d0";

/// Returns a screen's cells with their row and column, line by line.
pub(super) fn cells(screen: &Screen) -> impl Iterator<Item = (u16, u16, &Cell)> {
    let (rows, columns) = screen.size();
    (0..rows.get()).flat_map(move |row| {
        (0..columns.get()).filter_map(move |column| Some((row, column, screen.cell(row, column)?)))
    })
}

/// The look of the letters in a run of cells.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Style {
    color: Color,
    bold: bool,
    inverse: bool,
}

/// Adjacent cells in a line with the same style.
struct Run {
    row: u16,
    column: u16,
    style: Style,
    text: String,
}

pub(super) fn picture(screen: &Screen) -> String {
    let (rows, columns) = screen.size();
    let (width, height) = (columns.get() * WIDTH + 2 * MARGIN, rows.get() * HEIGHT + 2 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"ui-monospace, DejaVu Sans Mono, Menlo, Consolas, monospace\" font-size=\"15\">\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"6\" fill=\"{BACKGROUND}\"/>\n"
    );
    for run in runs(screen) {
        draw(&mut svg, &run);
    }
    svg + "</svg>\n"
}

fn runs(screen: &Screen) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (row, column, cell) in cells(screen) {
        let style = Style { color: cell.fgcolor(), bold: cell.bold(), inverse: cell.inverse() };
        let letter = if cell.has_contents() { cell.contents() } else { " " };
        match runs.last_mut() {
            Some(run) if run.row == row && run.style == style => run.text += letter,
            _ => runs.push(Run { row, column, style, text: letter.to_owned() }),
        }
    }
    runs
}

fn draw(svg: &mut String, run: &Run) {
    let (x, y) = (MARGIN + run.column * WIDTH, MARGIN + run.row * HEIGHT);
    let length = u16::try_from(run.text.chars().count()).unwrap() * WIDTH;
    let (mut letters, mut behind) = (color(run.style.color), BACKGROUND);
    if run.style.inverse {
        std::mem::swap(&mut letters, &mut behind);
        writeln!(svg, "<rect x=\"{x}\" y=\"{y}\" width=\"{length}\" height=\"{HEIGHT}\" fill=\"{behind}\"/>")
            .unwrap();
    }
    let text = run.text.trim_end();
    if text.is_empty() {
        return;
    }
    let length = u16::try_from(text.chars().count()).unwrap() * WIDTH;
    let weight = if run.style.bold { " font-weight=\"bold\"" } else { "" };
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    // The text is as wide as its cells in every font.
    writeln!(
        svg,
        "<text x=\"{x}\" y=\"{}\" textLength=\"{length}\" fill=\"{letters}\"{weight} xml:space=\"preserve\">{text}</text>",
        y + HEIGHT - 4
    )
    .unwrap();
}

fn color(color: Color) -> &'static str {
    match color {
        Color::Idx(1) => "#e06c60",
        Color::Idx(2) => "#7fbf6a",
        Color::Idx(3) => "#d9b44a",
        _ => FOREGROUND,
    }
}
