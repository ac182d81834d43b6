//! Uses the terminal as a screen.

use std::{io, thread, time::Duration};

use anyhow::{Context as _, Result};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

use super::{
    super::OK,
    draw,
    feed::Feed,
    view::{Action, View},
};

/// How often the thread that reads keys checks whether the screen has ended.
const KEY_POLL: Duration = Duration::from_millis(100);
/// The most keys that wait to be handled.
const KEYS_MAX: usize = 64;

/// Restores the terminal when it is dropped; on a panic ratatui's hook does it.
struct RestoreTerminal;

impl Drop for RestoreTerminal {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// An event from the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TerminalInput {
    Act(Action),
    /// The terminal has another size.
    Resized,
}

/// Shows the nodes until a key or a signal ends it. Fails when the terminal cannot be used.
pub(super) async fn run(mut feed: Feed) -> Result<u8> {
    let mut ended = signal(SignalKind::terminate()).context("signals cannot be listened for")?;
    let mut interrupted = signal(SignalKind::interrupt()).context("signals cannot be listened for")?;
    let mut hung_up = signal(SignalKind::hangup()).context("signals cannot be listened for")?;
    // The terminal is restored even if it could be prepared only in part.
    let _restore = RestoreTerminal;
    let mut terminal = ratatui::try_init().context("the terminal cannot be made a screen; try -o plain")?;
    let mut view = View::new(color(std::env::var_os("NO_COLOR").as_deref()));
    let mut inputs = inputs();
    loop {
        terminal.draw(|frame| draw::draw(frame, &view, &feed.nodes))?;
        tokio::select! {
            () = feed.changed() => {}
            input = inputs.recv() => match input {
                Some(TerminalInput::Act(action)) if view.apply(action, &feed.nodes) => {}
                Some(TerminalInput::Resized) => {}
                Some(TerminalInput::Act(_)) | None => return Ok(OK),
            },
            _signal = ended.recv() => return Ok(OK),
            _signal = interrupted.recv() => return Ok(OK),
            _signal = hung_up.recv() => return Ok(OK),
        }
    }
}

/// Returns whether colors are wanted (`NO_COLOR`, <https://no-color.org>).
fn color(no_color: Option<&std::ffi::OsStr>) -> bool {
    no_color.is_none_or(std::ffi::OsStr::is_empty)
}

/// Returns input from the terminal, until the receiver is gone. Reading blocks, so it has its own thread.
fn inputs() -> mpsc::Receiver<TerminalInput> {
    let (sender, inputs) = mpsc::channel(KEYS_MAX);
    thread::spawn(move || {
        while !sender.is_closed() {
            let Ok(input) = next() else { return };
            if let Some(input) = input
                && sender.blocking_send(input).is_err()
            {
                return;
            }
        }
    });
    inputs
}

fn next() -> io::Result<Option<TerminalInput>> {
    if !event::poll(KEY_POLL)? {
        return Ok(None);
    }
    Ok(match event::read()? {
        Event::Key(key) if key.kind != KeyEventKind::Release => Some(TerminalInput::Act(action_of(key))),
        Event::Resize(..) => Some(TerminalInput::Resized),
        _ => None,
    })
}

/// Returns a key's action. In raw mode Ctrl-C is a key.
fn action_of(key: KeyEvent) -> Action {
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Action::Quit,
        KeyCode::Char('q') => Action::Quit,
        KeyCode::Char('p' | ' ') => Action::Pause,
        KeyCode::Char('?' | 'h') => Action::Help,
        KeyCode::Char('k') | KeyCode::Up => Action::Up,
        KeyCode::Char('j') | KeyCode::Down => Action::Down,
        KeyCode::Char('d') | KeyCode::Enter => Action::Details,
        KeyCode::Esc => Action::Back,
        _ => Action::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_do_what_the_help_says() {
        let action = |code| action_of(KeyEvent::new(code, KeyModifiers::NONE));
        for (keys, does) in [
            (&[KeyCode::Char('k'), KeyCode::Up][..], Action::Up),
            (&[KeyCode::Char('j'), KeyCode::Down], Action::Down),
            (&[KeyCode::Char('d'), KeyCode::Enter], Action::Details),
            (&[KeyCode::Char('p'), KeyCode::Char(' ')], Action::Pause),
            (&[KeyCode::Char('?'), KeyCode::Char('h')], Action::Help),
            (&[KeyCode::Char('q')], Action::Quit),
            (&[KeyCode::Esc], Action::Back),
            (&[KeyCode::Char('x'), KeyCode::Char('c')], Action::Other),
        ] {
            assert!(keys.iter().all(|key| action(*key) == does), "{keys:?}");
        }
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(action_of(control_c), Action::Quit);
    }

    #[test]
    fn no_color_leaves_out_colors() {
        assert!(color(None) && color(Some("".as_ref())) && !color(Some("1".as_ref())));
    }
}
