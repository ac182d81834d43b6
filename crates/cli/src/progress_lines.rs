//! Shows progress on standard error: a bar on a terminal, else a line every few seconds.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::output::note;

/// How often a line is printed, if there is no bar.
const EVERY: Duration = Duration::from_secs(5);

/// Makes a bar with this template; `None`: unknown length. A bar is drawn on a terminal alone.
pub(super) fn bar(length: Option<u64>, template: &str) -> ProgressBar {
    let bar = length.map_or_else(ProgressBar::no_length, ProgressBar::new);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

/// A bar with a message, or lines instead.
#[derive(Debug)]
pub(super) struct ProgressLines {
    bar: ProgressBar,
    printed: Instant,
}

impl ProgressLines {
    /// Begins at zero; `None`: unknown length.
    pub(super) fn new(length: Option<u64>) -> Self {
        let template = match length {
            Some(_) => "{bar:24} {percent:>3}% {eta:>4} left  {wide_msg}",
            None => "{spinner} {wide_msg}",
        };
        Self { bar: bar(length, template), printed: Instant::now() }
    }

    /// Moves the bar. Without a bar, prints the line for this message now and then.
    pub(super) fn update(&mut self, position: u64, message: String, line: impl FnOnce(&str) -> String) {
        self.bar.set_position(position);
        if self.bar.is_hidden() && self.printed.elapsed() >= EVERY {
            self.printed = Instant::now();
            self.say(&line(&message));
        }
        self.bar.set_message(message);
    }

    /// Prints a line above the bar.
    pub(super) fn say(&self, line: &str) {
        self.bar.suspend(|| note(line));
    }

    /// Removes the bar.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}
