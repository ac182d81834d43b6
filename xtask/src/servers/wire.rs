//! Implements enough of MongoDB's protocol to make a replica set and to see its primary: one OP_MSG with one
//! BSON document each way. A driver would double the time that `cargo xtask` takes to build.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddrV4, TcpStream},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};

const OP_MSG: i32 = 2013;
const HEADER_BYTES: usize = 16;
const ANSWER_BYTES_MAX: usize = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(10);

/// A document under construction: its fields, without length and end.
#[derive(Clone, Debug, Default)]
pub(super) struct Command(Vec<u8>);

impl Command {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Appends a 32-bit number.
    pub(super) fn number(self, name: &str, value: i32) -> Self {
        self.field(0x10, name, &value.to_le_bytes())
    }

    /// Appends a text.
    pub(super) fn text(self, name: &str, value: &str) -> Self {
        let mut bytes = length(value.len() + 1).to_vec();
        bytes.extend_from_slice(value.as_bytes());
        bytes.push(0);
        self.field(0x02, name, &bytes)
    }

    /// Appends a document.
    pub(super) fn document(self, name: &str, value: &Self) -> Self {
        self.field(0x03, name, &value.bytes())
    }

    /// Appends an array, given as a document whose names are the positions.
    pub(super) fn array(self, name: &str, value: &Self) -> Self {
        self.field(0x04, name, &value.bytes())
    }

    fn field(mut self, kind: u8, name: &str, value: &[u8]) -> Self {
        self.0.push(kind);
        self.0.extend_from_slice(name.as_bytes());
        self.0.push(0);
        self.0.extend_from_slice(value);
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = length(4 + self.0.len() + 1).to_vec();
        bytes.extend_from_slice(&self.0);
        bytes.push(0);
        bytes
    }
}

/// A server's answer.
#[derive(Debug)]
pub(super) struct Answer(Vec<u8>);

impl Answer {
    /// Returns whether it has a boolean field with this name that is true, at any depth.
    pub(super) fn says(&self, name: &str) -> bool {
        let mut field = vec![0x08];
        field.extend_from_slice(name.as_bytes());
        field.extend_from_slice(&[0, 1]);
        self.0.windows(field.len()).any(|window| window == field)
    }
}

/// Sends a command on its own connection and waits for the answer.
pub(super) fn ask(server: SocketAddrV4, command: &Command) -> Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&server.into(), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(&message(command))?;
    let mut header = [0; HEADER_BYTES];
    stream.read_exact(&mut header)?;
    let whole = header.first_chunk().map(|bytes| i32::from_le_bytes(*bytes)).unwrap_or_default();
    let whole = usize::try_from(whole).context("an answer of negative length")?;
    ensure!((HEADER_BYTES..ANSWER_BYTES_MAX).contains(&whole), "an answer of unlikely length");
    let mut body = vec![0; whole - HEADER_BYTES];
    stream.read_exact(&mut body)?;
    Ok(Answer(body))
}

/// Encodes a header (length, request, response to, kind), flags, and one section with kind 0.
fn message(command: &Command) -> Vec<u8> {
    let body = command.bytes();
    let mut message = length(HEADER_BYTES + 5 + body.len()).to_vec();
    for number in [1, 0, OP_MSG, 0] {
        message.extend_from_slice(&i32::to_le_bytes(number));
    }
    message.push(0);
    message.extend_from_slice(&body);
    message
}

fn length(bytes: usize) -> [u8; 4] {
    i32::try_from(bytes).unwrap_or(i32::MAX).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_has_the_bytes_of_the_specification() {
        let hello = Command::new().text("hello", "world");
        assert_eq!(hello.bytes(), b"\x16\0\0\0\x02hello\0\x06\0\0\0world\0\0");
    }

    #[test]
    fn only_a_true_field_is_reported() {
        let answer = |value: u8| Answer([b"\x08isWritablePrimary\0".as_slice(), &[value]].concat());
        assert!(answer(1).says("isWritablePrimary"));
        assert!(!answer(0).says("isWritablePrimary"));
    }
}
