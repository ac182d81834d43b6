//! Draws the page for all nodes: a row for each, and the selected node's last samples.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Modifier, Style},
    widgets::TableState,
};

use super::{
    activity,
    feed::{NodeState, WatchedNode},
    health::state,
    sample::Sample,
    shown,
    table::{CellStyle, Column, StyledText, plain, table},
    view::View,
};

const COLUMNS: [Column<WatchedNode>; 15] = [
    Column::words("node", 16, 0, |node| (shown::address(&node.addr), CellStyle::Plain)),
    Column::words("state", 11, 1, state),
    Column::words("trusted", 7, 13, |node| {
        of(node, |one| {
            (if one.trusted { "yes" } else { "no" }.to_owned(), CellStyle::warning_if(!one.trusted))
        })
    }),
    Column::numbers("epoch", 5, 14, |node| of(node, |one| plain(one.epoch.to_string()))),
    Column::numbers("lag", 4, 2, |node| of(node, |one| plain(shown::some(one.entries_behind)))),
    Column::numbers("calls/s", 7, 3, |node| {
        of(node, |one| (shown::number(one.calls.calls_per_second), CellStyle::warning_if(one.calls_shed > 0)))
    }),
    Column::numbers("err/s", 5, 6, |node| {
        of(node, |one| {
            let failed =
                if one.calls.faults_per_second > 0.0 { CellStyle::Failure } else { CellStyle::Plain };
            (shown::number(one.calls.errors_per_second), failed)
        })
    }),
    Column::numbers("p99", 6, 5, |node| of(node, |one| plain(shown::time(one.calls.p99_ms)))),
    Column::numbers("mem%", 4, 7, |node| of(node, |one| plain(shown::percent(one.memory_hit_rate)))),
    Column::numbers("redis%", 6, 8, |node| of(node, |one| plain(shown::percent(one.redis_hit_rate)))),
    Column::numbers("loads/s", 7, 9, |node| of(node, |one| plain(shown::number(one.loads_per_second)))),
    Column::numbers("inval/s", 7, 11, |node| {
        of(node, |one| plain(shown::number(one.invalidations_per_second)))
    }),
    Column::numbers("wait", 4, 4, |node| {
        of(node, |one| {
            let waiting = one.changes_waiting.is_some_and(|all| all > 0);
            (shown::some(one.changes_waiting), CellStyle::warning_if(waiting))
        })
    }),
    Column::numbers("busy", 4, 10, |node| of(node, |one| plain(shown::count(one.calls_in_flight)))),
    Column::words("breaker", 9, 12, |node| {
        of(node, |one| {
            let closed = one.redis_breaker.as_deref().is_none_or(|state| state == "closed");
            (one.redis_breaker.clone().unwrap_or_else(|| "-".to_owned()), CellStyle::warning_if(!closed))
        })
    }),
];

/// Draws the nodes' rows and, if there is room below them, the selected node's activity.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, view: &View, nodes: &[WatchedNode]) {
    let rows = u16::try_from(nodes.len()).unwrap_or(u16::MAX).saturating_add(1);
    let below = activity::HEIGHT + 1;
    let shows = area.height >= below + 3;
    let rows = if shows { rows.min(area.height - below) } else { area.height };
    let [top, _gap, bottom] =
        Layout::vertical([Constraint::Length(rows), Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    let selected = Style::new().add_modifier(Modifier::REVERSED);
    let table = table(&COLUMNS, nodes, top.width, view).row_highlight_style(selected);
    let mut state = TableState::default().with_selected(Some(view.selected));
    frame.render_stateful_widget(table, top, &mut state);
    if let Some(node) = nodes.get(view.selected).filter(|_| shows) {
        activity::draw(frame, bottom, node);
    }
}

/// Returns a cell for a node that has sent a sample.
fn of(node: &WatchedNode, cell: fn(&Sample) -> StyledText) -> StyledText {
    match &node.now {
        NodeState::Reporting(sample) => cell(sample),
        NodeState::Connecting | NodeState::Unreachable(_) => plain(String::new()),
    }
}
