//! Draws the frame around every page, and the help.

use ratatui::{
    Frame,
    layout::{Constraint, Layout},
    style::{Modifier, Style},
    text::Line,
    widgets::Paragraph,
};

use super::{
    detail,
    feed::{NodeState, WatchedNode},
    list,
    view::{Page, View},
};

const HELP: &str = "\
up/k down/j   select a node; scroll its methods and namespaces
d/Enter       details of the node    Esc   back; on the list of nodes: quit
p/Space       pause, resume          q     quit           ?/h   this help

state    healthy; degraded: see its details; unreachable: it does not answer
lag      changes of other nodes that it knew of and had not applied
calls/s  unary calls of users and groups; err/s: those that failed
p99      99 in 100 calls took no longer
wait     changes that other nodes have not been notified of yet
mem%     keys that memory answered; redis%: of the rest, those that Redis did
loads/s  loads sent to the store; inval/s: changed keys of other nodes
busy     calls in flight; breaker: closed while Redis answers
trusted  whether reads may be answered from memory; epoch: of the change log
Green is good, yellow is degraded, red has failed (bold with NO_COLOR).
Columns that do not fit are left out. Below the nodes are the last samples of
the selected one, at most 60; a dot is a sample without an answer.";

/// Draws the view.
pub(super) fn draw(frame: &mut Frame<'_>, view: &View, now: &[WatchedNode]) {
    let [top, page, bottom] =
        Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)])
            .areas(frame.area());
    let nodes = view.nodes(now);
    let paused = if view.paused.is_some() { "   paused" } else { "" };
    let away = nodes.iter().filter(|node| matches!(node.now, NodeState::Unreachable(_))).count();
    let away = if away > 0 { format!("   {away} unreachable") } else { String::new() };
    let title = format!("kith top   nodes {}{away}{paused}", nodes.len());
    frame.render_widget(Line::styled(title, Style::new().add_modifier(Modifier::BOLD)), top);
    let keys = match view.page {
        Page::Nodes => "q quit   p pause   d details   ? help",
        Page::Details => "q quit   p pause   Esc back   ? help",
    };
    frame.render_widget(Line::raw(keys), bottom);
    match (view.help, view.page, nodes.get(view.selected)) {
        (true, ..) => frame.render_widget(Paragraph::new(HELP), page),
        (false, Page::Details, Some(node)) => detail::draw(frame, page, view, node),
        (false, ..) => list::draw(frame, page, view, nodes),
    }
}
