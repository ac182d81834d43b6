//! The screen's state, and what keys do to it.

use super::feed::WatchedNode;

/// The effect of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Up,
    Down,
    /// Shows the selected node's details.
    Details,
    /// Goes back; quits on the node list.
    Back,
    Quit,
    Pause,
    Help,
    /// Has no effect, except that it closes the help.
    Other,
}

/// The page that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    Nodes,
    /// The selected node's details.
    Details,
}

/// The screen's state.
#[derive(Debug)]
pub(super) struct View {
    pub(super) page: Page,
    /// The position of the selected node.
    pub(super) selected: usize,
    /// The first visible method and namespace of the node.
    pub(super) scrolled: usize,
    pub(super) help: bool,
    /// The nodes at the time when it was paused.
    pub(super) paused: Option<Vec<WatchedNode>>,
    /// Whether states have colors; else bad states are bold.
    pub(super) color: bool,
}

impl View {
    /// Shows all nodes.
    pub(super) const fn new(color: bool) -> Self {
        Self { page: Page::Nodes, selected: 0, scrolled: 0, help: false, paused: None, color }
    }

    /// Returns the nodes to show.
    pub(super) fn nodes<'a>(&'a self, now: &'a [WatchedNode]) -> &'a [WatchedNode] {
        self.paused.as_deref().unwrap_or(now)
    }

    /// Applies an action. Returns whether the screen remains.
    pub(super) fn apply(&mut self, action: Action, now: &[WatchedNode]) -> bool {
        match action {
            Action::Quit => return false,
            // Any other key closes the help.
            _ if self.help => self.help = false,
            Action::Help => self.help = true,
            Action::Pause => self.paused = if self.paused.is_some() { None } else { Some(now.to_vec()) },
            Action::Details => self.page = Page::Details,
            Action::Back => match self.page {
                Page::Nodes => return false,
                Page::Details => (self.page, self.scrolled) = (Page::Nodes, 0),
            },
            Action::Other => {}
            Action::Up => self.step(|at| at.saturating_sub(1), now),
            Action::Down => self.step(|at| at.saturating_add(1), now),
        }
        true
    }

    fn step(&mut self, step: impl Fn(usize) -> usize, now: &[WatchedNode]) {
        let nodes = self.nodes(now);
        let rows = match self.page {
            Page::Nodes => nodes.len(),
            Page::Details => nodes.get(self.selected).map_or(0, WatchedNode::rows),
        };
        let at = match self.page {
            Page::Nodes => &mut self.selected,
            Page::Details => &mut self.scrolled,
        };
        *at = step(*at).min(rows.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(count: usize) -> Vec<WatchedNode> {
        (0..count).map(|at| WatchedNode::new(format!("127.0.0.1:{at}"))).collect()
    }

    #[test]
    fn keys_select_a_node_show_it_and_go_back() {
        let (mut view, nodes) = (View::new(true), nodes(2));
        for key in [Action::Up, Action::Down, Action::Down, Action::Details] {
            assert!(view.apply(key, &nodes));
        }
        assert_eq!((view.selected, view.page), (1, Page::Details));
        assert!(view.apply(Action::Back, &nodes) && view.page == Page::Nodes);
        assert!(!view.apply(Action::Back, &nodes), "there is nothing to go back to");
        assert!(!view.apply(Action::Quit, &nodes));
    }

    #[test]
    fn paused_view_shows_the_nodes_of_that_moment() {
        let (mut view, before, now) = (View::new(true), nodes(1), nodes(3));
        view.apply(Action::Pause, &before);
        assert_eq!(view.nodes(&now).len(), 1);
        view.apply(Action::Pause, &now);
        assert_eq!(view.nodes(&now).len(), 3);
    }

    #[test]
    fn help_is_closed_by_any_key() {
        let (mut view, nodes) = (View::new(true), nodes(1));
        view.apply(Action::Help, &nodes);
        assert!(view.help);
        assert!(view.apply(Action::Back, &nodes), "it does not end");
        assert!(!view.help);
    }
}
