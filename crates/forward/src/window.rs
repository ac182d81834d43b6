//! The changes that are read and unfinished, by their pages and lanes.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::Change;

/// A change, and the number of its page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    page: u64,
    pub(crate) change: Change,
}

/// A page with unfinished changes.
#[derive(Debug)]
struct UnfinishedPage {
    left: usize,
    /// The place after the page, and after finished pages that follow it.
    cursor: String,
}

/// Invariant: of each lane one change is being delivered; the others of the lane wait. Memory is bounded by
/// the unfinished changes, because a finished page leaves only its cursor to the page before it.
#[derive(Debug, Default)]
pub(crate) struct Window {
    pages: BTreeMap<u64, UnfinishedPage>,
    lanes: HashMap<String, VecDeque<Item>>,
    next_page: u64,
    unfinished: usize,
    /// The place before which all changes are finished.
    cursor: String,
}

impl Window {
    pub(crate) fn new(cursor: String) -> Self {
        Self { cursor, ..Self::default() }
    }

    pub(crate) const fn unfinished(&self) -> usize {
        self.unfinished
    }

    pub(crate) fn cursor(&self) -> &str {
        &self.cursor
    }

    /// Adds a page, and returns which of its changes may be delivered now.
    pub(crate) fn add(&mut self, changes: Vec<Change>, cursor: String) -> Vec<Item> {
        if changes.is_empty() {
            self.move_to(u64::MAX, cursor);
            return Vec::new();
        }
        let page = self.next_page;
        self.next_page += 1;
        self.unfinished += changes.len();
        self.pages.insert(page, UnfinishedPage { left: changes.len(), cursor });
        let mut first = Vec::new();
        for change in changes {
            match self.lanes.get_mut(&change.lane) {
                Some(waiting) => waiting.push_back(Item { page, change }),
                None => {
                    self.lanes.insert(change.lane.clone(), VecDeque::new());
                    first.push(Item { page, change });
                }
            }
        }
        first
    }

    /// Takes a finished change out, and returns the next one of its lane.
    pub(crate) fn finish(&mut self, item: &Item) -> Option<Item> {
        self.unfinished -= 1;
        if let Some(page) = self.pages.get_mut(&item.page) {
            page.left -= 1;
            if page.left == 0
                && let Some(page) = self.pages.remove(&item.page)
            {
                self.move_to(item.page, page.cursor);
            }
        }
        let next = self.lanes.get_mut(&item.change.lane).and_then(VecDeque::pop_front);
        if next.is_none() {
            self.lanes.remove(&item.change.lane);
        }
        next
    }

    /// All up to `cursor` is finished, from the last unfinished page before `page` on.
    fn move_to(&mut self, page: u64, cursor: String) {
        match self.pages.range_mut(..page).next_back() {
            Some((_, before)) => before.cursor = cursor,
            None => self.cursor = cursor,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(lane: &str) -> Change {
        let (kind, lane) = ("user".to_owned(), lane.to_owned());
        Change { position: "1".to_owned(), kind, record: lane.clone(), lane, key: serde_json::Map::new() }
    }

    #[test]
    fn cursor_waits_for_the_lowest_page() {
        let mut window = Window::new("0".to_owned());
        let first = window.add(vec![change("a"), change("b")], "1".to_owned());
        let second = window.add(vec![change("c")], "2".to_owned());
        assert!(window.add(Vec::new(), "3".to_owned()).is_empty());
        window.finish(&second[0]);
        window.finish(&first[0]);
        assert_eq!((window.cursor(), window.unfinished(), window.pages.len()), ("0", 1, 1));
        window.finish(&first[1]);
        assert_eq!((window.cursor(), window.unfinished(), window.lanes.len()), ("3", 0, 0));
        window.add(Vec::new(), "4".to_owned());
        assert_eq!(window.cursor(), "4");
    }

    #[test]
    fn changes_of_a_lane_wait_for_each_other() {
        let mut window = Window::new("0".to_owned());
        let first = window.add(vec![change("a"), change("a"), change("b")], "1".to_owned());
        assert_eq!(first.len(), 2);
        assert!(window.add(vec![change("a")], "2".to_owned()).is_empty());
        let second = window.finish(&first[0]).unwrap();
        let third = window.finish(&second).unwrap();
        assert_eq!((second.page, third.page, window.finish(&third)), (0, 1, None));
        assert_eq!(window.cursor(), "0");
    }
}
