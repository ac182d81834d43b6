//! Draws a node's last samples as sparklines.

use std::collections::VecDeque;

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Modifier, Style},
    text::Line,
    widgets::Sparkline,
};

use super::{feed::WatchedNode, history::SAMPLES, shown};

/// The lines that a title and its bars take.
pub(super) const HEIGHT: u16 = 4;

/// Draws a node's calls and lag side by side, the newest sample to the right.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, node: &WatchedNode) {
    let area = Rect { height: area.height.min(HEIGHT), ..area };
    let most = u16::try_from(SAMPLES).unwrap_or(u16::MAX);
    let [left, right] =
        Layout::horizontal([Constraint::Max(most), Constraint::Max(most)]).spacing(2).areas(area);
    let of = shown::address(&node.addr);
    line(frame, left, &format!("calls/s of {of}"), node.history.calls());
    line(frame, right, &format!("lag of {of}"), node.history.lag());
}

/// Draws values under a title that names their maximum.
fn line(frame: &mut Frame<'_>, area: Rect, title: &str, values: &VecDeque<Option<f64>>) {
    let [top, bars] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    let most = values.iter().flatten().copied().fold(0.0, f64::max);
    let title = format!("{title}, max {}", shown::number(most));
    frame.render_widget(Line::styled(title, Style::new().add_modifier(Modifier::BOLD)), top);
    let older = values.len().saturating_sub(usize::from(bars.width));
    let heights: Vec<_> =
        values.iter().skip(older).map(|value| value.map(|value| height(value, most))).collect();
    frame.render_widget(Sparkline::default().data(heights).max(FULL).absent_value_symbol("·"), bars);
}

/// The highest bar's height: enough steps for any number of lines.
const FULL: u64 = 1_000;

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the highest bar")]
fn height(value: f64, most: f64) -> u64 {
    if most > 0.0 { (value / most * 1_000.0) as u64 } else { 0 }
}
