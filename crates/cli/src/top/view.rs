//! What is shown, and what keys do to it.

use super::feed::Node;

/// A key that means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Up,
    Down,
    /// Looks closer.
    Enter,
    /// Goes back; on the list of nodes it ends.
    Back,
    Quit,
    Pause,
    Help,
}

/// Which page is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    /// All nodes.
    Nodes,
    /// The selected one.
    Node,
}

/// What is shown.
#[derive(Debug)]
pub(super) struct View {
    pub(super) page: Page,
    /// Which node is selected, by its place.
    pub(super) selected: usize,
    /// The first method of a node that is shown.
    pub(super) scrolled: usize,
    pub(super) help: bool,
    /// The nodes as they were when it was halted.
    pub(super) halted: Option<Vec<Node>>,
    /// Whether what is wrong is red; else it is bold.
    pub(super) colour: bool,
}

impl View {
    /// Of all nodes.
    pub(super) const fn new(colour: bool) -> Self {
        Self { page: Page::Nodes, selected: 0, scrolled: 0, help: false, halted: None, colour }
    }

    /// The nodes to show.
    pub(super) fn nodes<'a>(&'a self, now: &'a [Node]) -> &'a [Node] {
        self.halted.as_deref().unwrap_or(now)
    }

    /// Takes a key. Whether it goes on.
    pub(super) fn take(&mut self, key: Key, now: &[Node]) -> bool {
        match key {
            Key::Quit => return false,
            // Any other key takes the help away.
            _ if self.help => self.help = false,
            Key::Help => self.help = true,
            Key::Pause => self.halted = if self.halted.is_some() { None } else { Some(now.to_vec()) },
            Key::Enter => self.page = Page::Node,
            Key::Back => match self.page {
                Page::Nodes => return false,
                Page::Node => (self.page, self.scrolled) = (Page::Nodes, 0),
            },
            Key::Up => self.step(|at| at.saturating_sub(1), now),
            Key::Down => self.step(|at| at.saturating_add(1), now),
        }
        true
    }

    fn step(&mut self, step: impl Fn(usize) -> usize, now: &[Node]) {
        let last = self.nodes(now).len().saturating_sub(1);
        match self.page {
            Page::Nodes => self.selected = step(self.selected).min(last),
            // What is drawn bounds it.
            Page::Node => self.scrolled = step(self.scrolled),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::feed::Now, *};

    fn nodes(count: usize) -> Vec<Node> {
        let node = |at| Node { addr: format!("127.0.0.1:{at}"), now: Now::Asked, fresh: true };
        (0..count).map(node).collect()
    }

    #[test]
    fn keys_select_a_node_look_closer_and_go_back() {
        let (mut view, nodes) = (View::new(true), nodes(2));
        for key in [Key::Up, Key::Down, Key::Down, Key::Enter] {
            assert!(view.take(key, &nodes));
        }
        assert_eq!((view.selected, view.page), (1, Page::Node));
        assert!(view.take(Key::Back, &nodes) && view.page == Page::Nodes);
        assert!(!view.take(Key::Back, &nodes), "there is nothing to go back to");
        assert!(!view.take(Key::Quit, &nodes));
    }

    #[test]
    fn a_halted_view_shows_what_was_and_then_what_is() {
        let (mut view, before, now) = (View::new(true), nodes(1), nodes(3));
        view.take(Key::Pause, &before);
        assert_eq!(view.nodes(&now).len(), 1);
        view.take(Key::Pause, &now);
        assert_eq!(view.nodes(&now).len(), 3);
    }

    #[test]
    fn help_goes_with_any_key_which_does_nothing_else() {
        let (mut view, nodes) = (View::new(true), nodes(1));
        view.take(Key::Help, &nodes);
        assert!(view.help);
        assert!(view.take(Key::Back, &nodes), "it does not end");
        assert!(!view.help);
    }
}
