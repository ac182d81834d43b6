//! The numbers of ids that are texts elsewhere. Numbers stay; other texts get new ones, which a file keeps.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, BufRead as _, BufReader, Write as _},
    path::Path,
};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

/// New numbers begin here: above the ids that people choose, and exact in every language.
const FIRST: i64 = 1_000_000_000_000;

/// The kinds of things that ids name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum IdKind {
    User,
    Group,
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct IdLine {
    kind: IdKind,
    id: String,
    number: String,
}

/// The numbers of all ids.
#[derive(Debug, Default)]
pub(super) struct Ids {
    numbers: HashMap<(IdKind, String), i64>,
    /// The ids that got new numbers, in their order.
    new: Vec<(IdKind, String, i64)>,
    next: i64,
}

impl Ids {
    /// Loads the numbers that an earlier run gave, if there was one.
    pub(super) fn load(file: &Path) -> Result<Self> {
        let mut ids = Self { next: FIRST, ..Self::default() };
        let unreadable = || format!("could not read {}", file.display());
        let lines = match File::open(file) {
            Ok(opened) => BufReader::new(opened).lines(),
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(ids),
            Err(why) => return Err(why).with_context(unreadable),
        };
        for line in lines {
            let line: IdLine =
                serde_json::from_str(&line.with_context(unreadable)?).with_context(unreadable)?;
            let number: i64 = line.number.parse().with_context(unreadable)?;
            ids.next = ids.next.max(number + 1);
            ids.numbers.insert((line.kind, line.id.clone()), number);
            ids.new.push((line.kind, line.id, number));
        }
        Ok(ids)
    }

    /// The number of an id, which gets one if it has none.
    pub(super) fn give(&mut self, kind: IdKind, id: &str) -> i64 {
        let key = (kind, id.to_owned());
        if let Some(number) = self.numbers.get(&key) {
            return *number;
        }
        let own = id.parse().ok().filter(|number| (1..FIRST).contains(number) && number.to_string() == id);
        let number = own.unwrap_or_else(|| {
            self.next += 1;
            self.new.push((kind, id.to_owned(), self.next - 1));
            self.next - 1
        });
        self.numbers.insert(key, number);
        number
    }

    /// The number of an id that has one.
    pub(super) fn of(&self, kind: IdKind, id: &str) -> Option<i64> {
        self.numbers.get(&(kind, id.to_owned())).copied()
    }

    /// Writes the numbers that were given.
    pub(super) fn save(&self, file: &Path) -> Result<()> {
        let part = file.with_added_extension("part");
        let write = || -> Result<()> {
            let mut out = io::BufWriter::new(File::create(&part)?);
            for (kind, id, number) in &self.new {
                let line = IdLine { kind: *kind, id: id.clone(), number: number.to_string() };
                writeln!(out, "{}", serde_json::to_string(&line)?)?;
            }
            out.flush()?;
            Ok(fs::rename(&part, file)?)
        };
        write().with_context(|| format!("could not write {}", file.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_and_texts_keep_their_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ids.jsonl");
        let mut ids = Ids::load(&file).unwrap();
        let all = ["7", "ann", "007", "1000000000000", "bob"];
        let given = all.map(|id| ids.give(IdKind::User, id));
        assert_eq!(given, [7, FIRST, FIRST + 1, FIRST + 2, FIRST + 3]);
        assert_eq!(ids.give(IdKind::Group, "ann"), FIRST + 4);
        ids.save(&file).unwrap();
        let mut again = Ids::load(&file).unwrap();
        assert_eq!(all.map(|id| again.give(IdKind::User, id)), given);
        assert_eq!((again.give(IdKind::User, "cal"), again.of(IdKind::User, "dan")), (FIRST + 5, None));
    }
}
