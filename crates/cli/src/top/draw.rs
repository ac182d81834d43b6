//! The page of all nodes, and what every page has around it.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::Line,
    widgets::{Cell, Paragraph, Row, Table, TableState},
};

use super::{
    detail,
    feed::{Node, Now},
    sample::Sample,
    shown,
    view::{Page, View},
};

/// From this width on trust, epoch and breaker have columns of their own.
const WIDE: u16 = 104;

const HELP: &str = "\
up/k down/j   select a node, or scroll its methods
Enter         its methods and namespaces
Esc           back; on the list of nodes: end
p             halt, go on
q             end
?             this

state    serving; untrusted: memory is passed by; away: it does not answer
lag      changes of other nodes that it knew of and had not applied
calls/s  unary calls of users and groups; p99: 99 in 100 took no longer
mem%     keys that memory answered; red%: of the rest, those that Redis did
load/s   loads sent to the store; inv/s: changed keys heard of from others
wait     changes that other nodes have not been told of yet
busy     calls in flight
What is wrong is red (bold with NO_COLOR).";

/// How a cell is to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Plain,
    /// It should not be so.
    Wrong,
}

impl Look {
    pub(super) const fn wrong_if(wrong: bool) -> Self {
        if wrong { Self::Wrong } else { Self::Plain }
    }

    pub(super) fn style(self, view: &View) -> Style {
        match (self, view.colour) {
            (Self::Plain, _) => Style::new(),
            (Self::Wrong, true) => Style::new().fg(Color::Red),
            (Self::Wrong, false) => Style::new().add_modifier(Modifier::BOLD),
        }
    }
}

/// A column: its name, its width, and how its cells come about.
pub(super) struct Column<T> {
    pub(super) name: &'static str,
    /// 0: what is left.
    pub(super) width: u16,
    pub(super) cell: fn(&T) -> (String, Look),
}

/// Draws the view.
pub(super) fn draw(frame: &mut Frame<'_>, view: &View, now: &[Node]) {
    let [top, page, bottom] =
        Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)])
            .areas(frame.area());
    let nodes = view.nodes(now);
    let halted = if view.halted.is_some() { "   halted" } else { "" };
    let away = nodes.iter().filter(|node| matches!(node.now, Now::Away(_))).count();
    let away = if away > 0 { format!("   {away} away") } else { String::new() };
    let title = format!("kith top   nodes {}{away}{halted}", nodes.len());
    frame.render_widget(Line::styled(title, Style::new().add_modifier(Modifier::BOLD)), top);
    let keys = match view.page {
        Page::Nodes => "q end   Enter look closer   p halt   ? help",
        Page::Node => "q end   Esc back   p halt   ? help",
    };
    frame.render_widget(Line::raw(keys), bottom);
    match (view.help, view.page, nodes.get(view.selected)) {
        (true, ..) => frame.render_widget(Paragraph::new(HELP), page),
        (false, Page::Node, Some(node)) => detail::draw(frame, page, view, node),
        (false, ..) => list(frame, page, view, nodes),
    }
}

/// A table with numbers to the right.
pub(super) fn table<T>(columns: &[Column<T>], rows: &[T], view: &View) -> Table<'static> {
    let width = |column: &Column<T>| match column.width {
        0 => Constraint::Fill(1),
        width => Constraint::Length(width),
    };
    let header = columns.iter().map(|column| aligned(column.name.to_owned(), column.width));
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let row = |of: &T| {
        Row::new(columns.iter().map(|column| {
            let (text, look) = (column.cell)(of);
            aligned(text, column.width).style(look.style(view))
        }))
    };
    Table::new(rows.iter().map(row), columns.iter().map(width)).header(Row::new(header).style(bold))
}

fn aligned(text: String, width: u16) -> Cell<'static> {
    let line = Line::from(text);
    Cell::from(if width == 0 { line } else { line.right_aligned() })
}

/// The sample of a node, where there is one.
fn sample(node: &Node) -> Option<&Sample> {
    match &node.now {
        Now::Here(sample) => Some(sample),
        Now::Asked | Now::Away(_) => None,
    }
}

fn of(node: &Node, text: fn(&Sample) -> String, wrong: fn(&Sample) -> bool) -> (String, Look) {
    sample(node)
        .map_or_else(|| (String::new(), Look::Plain), |sample| (text(sample), Look::wrong_if(wrong(sample))))
}

fn never(_: &Sample) -> bool {
    false
}

/// In a word.
pub(super) fn state(node: &Node) -> (String, Look) {
    match &node.now {
        Now::Asked => ("asked".to_owned(), Look::Plain),
        Now::Away(_) => ("away".to_owned(), Look::Wrong),
        Now::Here(sample) if sample.state == "serving" && !sample.trusted => {
            ("untrusted".to_owned(), Look::Wrong)
        }
        Now::Here(sample) => (sample.state.clone(), Look::wrong_if(sample.state != "serving")),
    }
}

const TRUST: Column<Node> = Column {
    name: "trust",
    width: 5,
    cell: |node| of(node, |one| if one.trusted { "yes" } else { "no" }.to_owned(), |one| !one.trusted),
};
const EPOCH: Column<Node> =
    Column { name: "epoch", width: 5, cell: |node| of(node, |one| one.epoch.to_string(), never) };
const BREAKER: Column<Node> = Column {
    name: "breaker",
    width: 9,
    cell: |node| {
        let closed = |one: &Sample| one.redis_breaker.as_deref().is_none_or(|state| state == "closed");
        let text = |one: &Sample| one.redis_breaker.clone().unwrap_or_else(|| "-".to_owned());
        let (text, _) = of(node, text, never);
        (text, Look::wrong_if(sample(node).is_some_and(|one| !closed(one))))
    },
};

/// The columns of every width.
const FIGURES: [Column<Node>; 9] = [
    Column { name: "lag", width: 4, cell: |node| of(node, |one| shown::some(one.entries_behind), never) },
    Column {
        name: "calls/s",
        width: 7,
        cell: |node| of(node, |one| shown::number(one.calls.calls_per_second), |one| one.calls_shed > 0),
    },
    Column { name: "p99", width: 6, cell: |node| of(node, |one| shown::time(one.calls.p99_ms), never) },
    Column {
        name: "mem%",
        width: 4,
        cell: |node| of(node, |one| shown::percent(one.memory_hit_rate), never),
    },
    Column { name: "red%", width: 4, cell: |node| of(node, |one| shown::percent(one.redis_hit_rate), never) },
    Column {
        name: "load/s",
        width: 6,
        cell: |node| of(node, |one| shown::number(one.loads_per_second), never),
    },
    Column {
        name: "inv/s",
        width: 5,
        cell: |node| of(node, |one| shown::number(one.invalidations_per_second), never),
    },
    Column {
        name: "wait",
        width: 4,
        cell: |node| {
            of(
                node,
                |one| shown::some(one.changes_waiting),
                |one| one.changes_waiting.is_some_and(|all| all > 0),
            )
        },
    },
    Column { name: "busy", width: 4, cell: |node| of(node, |one| shown::count(one.calls_in_flight), never) },
];

fn list(frame: &mut Frame<'_>, area: Rect, view: &View, nodes: &[Node]) {
    let node = Column { name: "node", width: 0, cell: |node: &Node| (short(&node.addr), Look::Plain) };
    let state = Column { name: "state", width: 10, cell: state };
    let mut columns = vec![node, state];
    let wide = area.width >= WIDE;
    if wide {
        columns.extend([TRUST, EPOCH]);
    }
    columns.extend(FIGURES);
    if wide {
        columns.push(BREAKER);
    }
    let selected = Style::new().add_modifier(Modifier::REVERSED);
    let table = table(&columns, nodes, view).row_highlight_style(selected);
    let mut state = TableState::default().with_selected(Some(view.selected));
    frame.render_stateful_widget(table, area, &mut state);
}

/// An address without its scheme; of a long one the end, which says more.
fn short(addr: &str) -> String {
    /// What is left for it at 80 columns.
    const WIDTH: usize = 16;
    let addr = addr.split_once("://").map_or(addr, |(_, rest)| rest).trim_end_matches('/');
    let length = addr.chars().count();
    if length <= WIDTH {
        return addr.to_owned();
    }
    let end: String = addr.chars().skip(length + 1 - WIDTH).collect();
    format!("…{end}")
}
