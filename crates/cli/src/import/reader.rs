//! Reads a file as chunks of records, once, from an earlier run's position. Memory is bounded by a chunk and
//! a line.

use std::io::{self, BufRead, Read as _};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use prost::Message as _;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::kind::{Entry, Import};

/// The limits for a chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkBounds {
    /// The most lines in a chunk.
    pub(super) lines: usize,
    /// The most bytes that a chunk's records have.
    pub(super) bytes: usize,
    /// The most bytes in a line; a longer line is bad.
    pub(super) line_bytes: usize,
}

impl Default for ChunkBounds {
    fn default() -> Self {
        Self { lines: 500, bytes: 800 * 1024, line_bytes: 512 * 1024 }
    }
}

/// A position between two lines in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Position {
    /// Bytes before it.
    pub(super) offset: u64,
    /// Lines before it.
    pub(super) line: u64,
}

/// A line that did not become a record, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BadLine {
    /// The line number. Starts at 1.
    pub(super) line: u64,
    /// The reason. Follows the line number in a sentence.
    pub(super) why: String,
}

/// Consecutive lines that are sent and recorded together.
#[derive(Debug)]
pub(super) struct Chunk<R> {
    /// The records among them.
    pub(super) entries: Vec<Entry<R>>,
    /// The lines that have no record.
    pub(super) bad: Vec<BadLine>,
    /// The position behind the last line.
    pub(super) end: Position,
}

#[derive(Debug)]
pub(super) struct ChunkReader<B> {
    source: B,
    at: Position,
    /// Makes this import's request ids different from those of others.
    run: String,
    bounds: ChunkBounds,
}

impl<B: BufRead> ChunkReader<B> {
    /// Reads `source`, which is at the position `at`.
    pub(super) const fn new(source: B, at: Position, run: String, bounds: ChunkBounds) -> Self {
        Self { source, at, run, bounds }
    }

    /// Returns the next lines; `None` at the end. Empty lines, and lines without a record, are skipped.
    pub(super) fn chunk<K: Import>(&mut self, kind: &K) -> io::Result<Option<Chunk<K::Record>>> {
        let (mut entries, mut bad, mut bytes, began) = (Vec::new(), Vec::new(), 0, self.at);
        while entries.len() + bad.len() < self.bounds.lines && bytes < self.bounds.bytes {
            let Some(line) = self.line()? else { break };
            let number = self.at.line;
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            match self.record(kind, &line) {
                Ok(None) => {}
                Ok(Some(record)) => {
                    bytes += record.encoded_len();
                    entries.push(Entry { line: number, request_id: self.request_id(&line), record });
                }
                Err(why) => bad.push(BadLine { line: number, why }),
            }
        }
        Ok((self.at != began).then_some(Chunk { entries, bad, end: self.at }))
    }

    fn record<K: Import>(&self, kind: &K, line: &[u8]) -> Result<Option<K::Record>, String> {
        if line.len() > self.bounds.line_bytes {
            return Err(format!("longer than {} bytes", self.bounds.line_bytes));
        }
        kind.read_line(line)
    }

    /// Returns the next line, without its end: complete, or one byte longer than the limit.
    fn line(&mut self) -> io::Result<Option<Vec<u8>>> {
        let most = u64::try_from(self.bounds.line_bytes + 1).unwrap_or(u64::MAX);
        let mut line = Vec::new();
        let mut bytes = self.source.by_ref().take(most).read_until(b'\n', &mut line)?;
        if bytes == 0 {
            return Ok(None);
        }
        if line.ends_with(b"\n") {
            line.pop();
        } else {
            // The line is longer than the limit, or the last line.
            bytes += self.source.skip_until(b'\n')?;
        }
        self.at.offset += u64::try_from(bytes).unwrap_or(u64::MAX);
        self.at.line += 1;
        if self.at.line == 1 && line.starts_with(b"\xEF\xBB\xBF") {
            line.drain(..3);
        }
        Ok(Some(line))
    }

    fn request_id(&self, line: &[u8]) -> String {
        let digest = Sha256::new()
            .chain_update(self.run.as_bytes())
            .chain_update(self.at.line.to_be_bytes())
            .chain_update(line)
            .finalize();
        URL_SAFE_NO_PAD.encode(digest)
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, io::Cursor};

    use super::*;
    use crate::users::Users;

    const SMALL: ChunkBounds = ChunkBounds { lines: 2, bytes: 1_000, line_bytes: 40 };

    fn reader(text: &str) -> ChunkReader<Cursor<Vec<u8>>> {
        ChunkReader::new(Cursor::new(text.as_bytes().to_vec()), Position::default(), "run".to_owned(), SMALL)
    }

    #[test]
    fn chunks_say_where_reading_continues() {
        let text = "{\"userName\":\"a\"}\n\n{\"userName\":\"b\"}\r\n{\"userName\":\"c\"}";
        let mut whole = reader(text);
        let first = whole.chunk(&Users).unwrap().unwrap();
        assert_eq!(first.entries.iter().map(|entry| entry.line).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(first.end, Position { offset: 36, line: 3 });
        let second = whole.chunk(&Users).unwrap().unwrap();
        assert!(whole.chunk(&Users).unwrap().is_none());

        let rest = Cursor::new(text.as_bytes()[36..].to_vec());
        let mut resumed = ChunkReader::new(rest, first.end, "run".to_owned(), SMALL);
        assert_eq!(resumed.chunk(&Users).unwrap().unwrap().entries, second.entries);
    }

    #[test]
    fn bad_lines_come_with_records_of_their_chunk() {
        let long = format!("{{\"userName\":\"{}\"}}\n{{}}", "n".repeat(100_000));
        let mut reader = reader(&format!("{{\n{long}"));
        let chunk = reader.chunk(&Users).unwrap().unwrap();
        let words: Vec<_> = chunk.bad.iter().map(|bad| (bad.line, bad.why.as_str())).collect();
        assert_eq!(
            words,
            [(1, "not JSON: EOF while parsing an object at column 1"), (2, "longer than 40 bytes")]
        );
        assert_eq!(reader.chunk(&Users).unwrap().unwrap().entries[0].line, 3);
    }

    #[test]
    fn equal_lines_have_request_ids_of_their_own() {
        let mut reader = reader("{}\n{}\n");
        let chunk = reader.chunk(&Users).unwrap().unwrap();
        let ids: HashSet<_> = chunk.entries.iter().map(|entry| entry.request_id.as_str()).collect();
        assert_eq!(ids.len(), 2);
        assert!(ids.iter().all(|id| id.parse::<kith_store::RequestId>().is_ok()));
    }

    #[test]
    fn a_byte_order_mark_is_passed_over() {
        assert_eq!(reader("\u{FEFF}{}").chunk(&Users).unwrap().unwrap().entries.len(), 1);
    }
}
