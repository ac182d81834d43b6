//! An import's input: a file, which a later run can resume, or a pipe, which is read once.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Cursor, Read, Seek as _, SeekFrom},
    path::Path,
};

use anyhow::{Context as _, Result, bail};

use kith_server::jsonl::file_form::FileForm;

/// How many bytes at the beginning are examined.
const BEGINNING: usize = 64 * 1024;
/// How many lines with records are awaited from a pipe: a header, and one more.
const LINES: usize = 2;

/// An opened input.
pub(super) struct Input {
    /// The name in errors.
    pub(super) name: String,
    /// Its first bytes, at most 64 KiB, with at least two lines that have records, if it has them there.
    pub(super) beginning: Vec<u8>,
    source: Source,
}

enum Source {
    File(File),
    Pipe(Box<dyn Read>),
}

impl Input {
    /// Opens a file, a pipe or, by the name `-`, standard input. Waits for a pipe's first two lines. Fails
    /// when it cannot be read, or does not have records as lines: the error names the form and a command that
    /// makes lines from it for `kith import KIND`.
    pub(super) fn open(kind: &str, path: &Path) -> Result<Self> {
        let is_standard = path == Path::new("-");
        let name = if is_standard { "standard input".to_owned() } else { path.display().to_string() };
        let unreadable = || format!("could not read {name}");
        let (beginning, source) = if is_standard {
            let mut pipe = io::stdin();
            (beginning(&mut pipe).with_context(unreadable)?, Source::Pipe(Box::new(pipe)))
        } else {
            let mut file = File::open(path).with_context(unreadable)?;
            let beginning = beginning(&mut file).with_context(unreadable)?;
            let source = if is_kept(path) { Source::File(file) } else { Source::Pipe(Box::new(file)) };
            (beginning, source)
        };
        if let Some(form) = FileForm::of(&beginning) {
            let file = if is_standard { "...".to_owned() } else { quoted(&name) };
            bail!("{name} is {}; run: {} {file} | kith import {kind} -", form.is, form.filter);
        }
        Ok(Self { name, beginning, source })
    }

    /// Returns whether a later run can resume it.
    pub(super) const fn is_file(&self) -> bool {
        matches!(self.source, Source::File(_))
    }

    /// Returns its lines: for a file from this offset on, for a pipe all. Fails if the file cannot be read.
    pub(super) fn lines(self, offset: u64) -> Result<Box<dyn BufRead>> {
        Ok(match self.source {
            Source::Pipe(rest) => Box::new(Cursor::new(self.beginning).chain(BufReader::new(rest))),
            Source::File(mut file) => {
                file.seek(SeekFrom::Start(offset))
                    .with_context(|| format!("could not read {}", self.name))?;
                Box::new(BufReader::new(file))
            }
        })
    }
}

/// Returns whether a later run can read the same bytes. Files in `/dev` and `/proc` belong to this process,
/// except files in shared memory.
fn is_kept(path: &Path) -> bool {
    let passing = path.starts_with("/dev") || path.starts_with("/proc");
    let passing = passing && !path.starts_with("/dev/shm");
    !passing && fs::metadata(path).is_ok_and(|data| data.is_file())
}

fn beginning(source: &mut impl Read) -> io::Result<Vec<u8>> {
    let (mut bytes, mut read) = (vec![0; BEGINNING], 0);
    while read < BEGINNING && records(&bytes[..read]) < LINES {
        match source.read(&mut bytes[read..]) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(read);
    Ok(bytes)
}

/// Counts whole lines that are neither empty nor a comment.
fn records(bytes: &[u8]) -> usize {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    lines.filter(|line| !matches!(line.trim_ascii(), [] | [b'#' | b'%', ..])).count()
}

/// Quotes a name for a shell.
fn quoted(name: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "._/-+=,@%".contains(c);
    if name.chars().all(is_plain) { name.to_owned() } else { format!("'{}'", name.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bytes: &[u8]) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("of users.json");
        fs::write(&path, bytes).unwrap();
        (dir, path)
    }

    #[test]
    fn another_form_is_named_with_its_command() {
        let (_dir, path) = file(b"[\n{\"userName\":\"a\"},\n{\"userName\":\"b\"}\n]\n");
        let why = Input::open("users", &path).err().unwrap().to_string();
        let path = path.display();
        let expected = format!(
            "{path} is one JSON array and not a record a line; run: jq -c '.[]' '{path}' | kith import users -"
        );
        assert_eq!(why, expected);
    }

    #[test]
    fn a_file_is_read_from_an_offset() {
        let (_dir, path) = file(b"first\nsecond\n");
        let input = Input::open("users", &path).unwrap();
        assert!(input.is_file() && input.beginning == b"first\nsecond\n");
        let mut rest = String::new();
        input.lines(6).unwrap().read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "second\n");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_file_in_shared_memory_is_kept() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = dir.path().join("users.json");
        fs::write(&path, b"{}\n").unwrap();
        assert!(is_kept(&path) && !is_kept(Path::new("/dev/null")) && !is_kept(Path::new("/proc/self/stat")));
    }

    #[test]
    fn a_pipe_is_read_whole() {
        let (reader, mut writer) = io::pipe().unwrap();
        let long = format!("# about\n1 2\n{}\n", "x".repeat(3 * BEGINNING));
        let sent = long.clone();
        let sending = std::thread::spawn(move || io::Write::write_all(&mut writer, sent.as_bytes()).unwrap());
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
        let input = Input::open("follows", Path::new(&path)).unwrap();
        drop(reader);
        assert!(!input.is_file());
        let mut all = String::new();
        input.lines(0).unwrap().read_to_string(&mut all).unwrap();
        sending.join().unwrap();
        assert_eq!(all, long);
    }

    #[test]
    fn a_pipe_is_waited_for_no_longer_than_two_lines() {
        struct EndlessReader(&'static [u8]);
        impl Read for EndlessReader {
            fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
                assert!(!self.0.is_empty(), "it was asked for more");
                let (part, rest) = self.0.split_at(self.0.len().min(5));
                self.0 = rest;
                into[..part.len()].copy_from_slice(part);
                Ok(part.len())
            }
        }
        assert_eq!(beginning(&mut EndlessReader(b"# a\n\n1 2\n3 4\n")).unwrap(), b"# a\n\n1 2\n3 4\n");
    }
}
