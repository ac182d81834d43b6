//! Compressed files of BSON documents.

use std::{
    fs::File,
    io::{self, BufReader, Read, Write},
    path::Path,
};

use sha2::{Digest as _, Sha256};
use zstd::stream::{read::Decoder, write::Encoder};

use super::{BackupFile, BackupStore, folder::private, manifest::path_of};

/// Fast, and still a third of the size.
const LEVEL: i32 = 1;
/// The largest document: that of `MongoDB`, with room for what its server adds.
const DOCUMENT_MAX: usize = (16 << 20) + (16 << 10);
/// The smallest: its length and its end.
const DOCUMENT_MIN: usize = 5;

/// Passes bytes on, and knows how many these were, and their SHA-256.
pub(super) struct Hashed<T> {
    inner: T,
    digest: Sha256,
    bytes: u64,
}

impl<T> Hashed<T> {
    pub(super) fn new(inner: T) -> Self {
        Self { inner, digest: Sha256::new(), bytes: 0 }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.digest.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    /// Returns how many bytes passed, and their SHA-256 in hexadecimal digits.
    pub(super) fn total(self) -> (u64, String) {
        (self.bytes, format!("{:x}", self.digest.finalize()))
    }
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.add(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.add(&buffer[..read]);
        Ok(read)
    }
}

/// Writes the copy of a collection or table.
pub(crate) struct DocumentWriter {
    store: BackupStore,
    name: String,
    encoder: Encoder<'static, Hashed<File>>,
    rows: u64,
}

impl DocumentWriter {
    pub(crate) fn create(folder: &Path, store: BackupStore, name: &str) -> io::Result<Self> {
        let file = Hashed::new(private(&path_of(folder, store, name))?);
        Ok(Self { store, name: name.to_owned(), encoder: Encoder::new(file, LEVEL)?, rows: 0 })
    }

    /// Adds a document. Returns how many there are.
    pub(crate) fn add(&mut self, document: &[u8]) -> io::Result<u64> {
        self.encoder.write_all(document)?;
        self.rows += 1;
        Ok(self.rows)
    }

    /// Writes the rest to the disk.
    pub(crate) fn end(self) -> io::Result<BackupFile> {
        let file = self.encoder.finish()?;
        file.inner.sync_all()?;
        let (bytes, sha256) = file.total();
        Ok(BackupFile { store: self.store, name: self.name, bytes, rows: self.rows, sha256 })
    }
}

/// Reads documents, each checked for its length alone.
pub(crate) struct DocumentReader<R: Read> {
    decoder: Decoder<'static, BufReader<R>>,
}

impl DocumentReader<File> {
    pub(crate) fn open(file: &BackupFile, folder: &Path) -> io::Result<Self> {
        Self::new(File::open(file.path(folder))?)
    }
}

impl<R: Read> DocumentReader<R> {
    pub(super) fn new(file: R) -> io::Result<Self> {
        Ok(Self { decoder: Decoder::new(file)? })
    }

    /// Returns the file, which was read to its end if the documents were.
    pub(super) fn into_inner(self) -> R {
        self.decoder.finish().into_inner()
    }

    fn document(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut length = [0; 4];
        if self.decoder.read(&mut length[..1])? == 0 {
            return Ok(None);
        }
        self.decoder.read_exact(&mut length[1..])?;
        let bytes = usize::try_from(i32::from_le_bytes(length)).unwrap_or_default();
        if !(DOCUMENT_MIN..=DOCUMENT_MAX).contains(&bytes) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut document = vec![0; bytes];
        document[..4].copy_from_slice(&length);
        self.decoder.read_exact(&mut document[4..])?;
        Ok(Some(document))
    }
}

impl<R: Read> Iterator for DocumentReader<R> {
    type Item = io::Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.document().transpose()
    }
}
