//! The terminal while it is a screen.

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
    view::{Key, View},
};

/// How often it is looked whether keys are still wanted.
const LOOK: Duration = Duration::from_millis(100);
/// Keys that have not been taken.
const KEYS_MAX: usize = 64;

/// The terminal is as it was before when this is dropped; on a panic the hook of ratatui sees to it.
struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// What comes from the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    Key(Key),
    /// It has another size.
    Resized,
}

/// Shows the nodes until a key or a signal ends it.
///
/// # Errors
/// When the terminal cannot be used.
pub(super) async fn run(mut feed: Feed) -> Result<u8> {
    let mut ended = signal(SignalKind::terminate()).context("signals cannot be listened for")?;
    let mut interrupted = signal(SignalKind::interrupt()).context("signals cannot be listened for")?;
    let mut hung_up = signal(SignalKind::hangup()).context("signals cannot be listened for")?;
    // Also where only a part of it could be done.
    let _restored = Restored;
    let mut terminal = ratatui::try_init().context("the terminal cannot be made a screen; try -o plain")?;
    let mut view = View::new(colour(std::env::var_os("NO_COLOR").as_deref()));
    let mut inputs = inputs();
    loop {
        terminal.draw(|frame| draw::draw(frame, &view, &feed.nodes))?;
        tokio::select! {
            () = feed.changed() => {}
            input = inputs.recv() => match input {
                Some(Input::Key(key)) if view.take(key, &feed.nodes) => {}
                Some(Input::Resized) => {}
                Some(Input::Key(_)) | None => return Ok(OK),
            },
            _signal = ended.recv() => return Ok(OK),
            _signal = interrupted.recv() => return Ok(OK),
            _signal = hung_up.recv() => return Ok(OK),
        }
    }
}

/// Whether colours are wanted (`NO_COLOR`, <https://no-color.org>).
fn colour(no_colour: Option<&std::ffi::OsStr>) -> bool {
    no_colour.is_none_or(std::ffi::OsStr::is_empty)
}

/// Input from the terminal, until the receiver is gone. Reading blocks: it has a thread of its own.
fn inputs() -> mpsc::Receiver<Input> {
    let (tell, inputs) = mpsc::channel(KEYS_MAX);
    thread::spawn(move || {
        while !tell.is_closed() {
            let Ok(input) = next() else { return };
            if let Some(input) = input
                && tell.blocking_send(input).is_err()
            {
                return;
            }
        }
    });
    inputs
}

fn next() -> io::Result<Option<Input>> {
    if !event::poll(LOOK)? {
        return Ok(None);
    }
    Ok(match event::read()? {
        Event::Key(key) if key.kind != KeyEventKind::Release => key_of(key).map(Input::Key),
        Event::Resize(..) => Some(Input::Resized),
        _ => None,
    })
}

/// In raw mode Ctrl-C is a key.
fn key_of(key: KeyEvent) -> Option<Key> {
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Some(Key::Quit),
        KeyCode::Char('q') => Some(Key::Quit),
        KeyCode::Char('p') => Some(Key::Pause),
        KeyCode::Char('?') => Some(Key::Help),
        KeyCode::Char('k') | KeyCode::Up => Some(Key::Up),
        KeyCode::Char('j') | KeyCode::Down => Some(Key::Down),
        KeyCode::Enter => Some(Key::Enter),
        KeyCode::Esc => Some(Key::Back),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_mean_what_the_help_says_and_control_c_ends() {
        let key = |code| key_of(KeyEvent::new(code, KeyModifiers::NONE));
        let chars = ['k', 'j', 'q', 'p', '?', 'x', 'c'].map(|c| key(KeyCode::Char(c)));
        let meant = [Key::Up, Key::Down, Key::Quit, Key::Pause, Key::Help].map(Some);
        assert_eq!((&chars[..5], &chars[5..]), (&meant[..], &[None, None][..]));
        let rest = [KeyCode::Up, KeyCode::Down, KeyCode::Enter, KeyCode::Esc].map(key);
        assert_eq!(rest, [Key::Up, Key::Down, Key::Enter, Key::Back].map(Some));
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(key_of(control_c), Some(Key::Quit));
    }

    #[test]
    fn colours_are_left_out_where_they_are_not_wanted() {
        assert!(colour(None) && colour(Some("".as_ref())) && !colour(Some("1".as_ref())));
    }
}
