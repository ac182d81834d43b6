use std::{
    fs::File,
    io::{BufRead as _, BufReader, BufWriter, Write as _},
    path::Path,
    time::Instant,
};

use anyhow::{Context as _, Result};
use parking_lot::Mutex;

use super::Event;

/// Records events, from any number of tasks.
#[derive(Debug)]
pub struct Recorder {
    began: Instant,
    lines: Mutex<BufWriter<File>>,
}

impl Recorder {
    /// Begins a history in this file, and deletes its previous content.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn create(path: &Path) -> Result<Self> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let file = File::create(path).with_context(|| format!("{} cannot be written", path.display()))?;
        Ok(Self { began: Instant::now(), lines: Mutex::new(BufWriter::new(file)) })
    }

    /// The time since the history's begin, in nanoseconds.
    #[must_use]
    pub fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Like [`Self::now`], for another moment; `None`: it was before the begin.
    #[must_use]
    pub fn at(&self, moment: Instant) -> Option<u64> {
        let since = moment.checked_duration_since(self.began)?;
        Some(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Records an event. It may be in the file only after [`Self::finish`].
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, event: &Event) -> Result<()> {
        let mut line = serde_json::to_vec(event)?;
        line.push(b'\n');
        Ok(self.lines.lock().write_all(&line)?)
    }

    /// Writes all recorded events to the file.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn finish(&self) -> Result<()> {
        Ok(self.lines.lock().flush()?)
    }
}

/// The events in a file, in its order.
///
/// # Errors
/// When it cannot be read; a line that is no event is named by its number.
pub fn read(path: &Path) -> Result<Vec<Event>> {
    let file = File::open(path).with_context(|| format!("{} cannot be read", path.display()))?;
    let event = |(at, line): (usize, std::io::Result<String>)| {
        serde_json::from_str(&line?).with_context(|| format!("line {} is no event", at + 1))
    };
    BufReader::new(file).lines().enumerate().map(event).collect()
}
