//! The part of Redis' protocol that the laboratory needs: words in, values out, in both its versions.

/// How deep lists may lie in lists.
const DEEP_MAX: usize = 16;
/// Longest text and most parts that are believed.
const LENGTH_MAX: usize = 64 << 20;

/// An answer from Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A line, or a byte string.
    Text(Vec<u8>),
    /// An error message.
    Error(String),
    /// An integer reply.
    Number(i64),
    /// The absence of a value.
    None,
    /// Parts, in order. A map yields its keys and values by turns.
    List(Vec<Self>),
    /// A message that was not requested.
    Push(Vec<Self>),
}

/// Bytes that violate the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bytes are not of Redis' protocol")]
pub struct Malformed;

impl Value {
    /// The text, if the value is a text. Invalid UTF-8 is replaced.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Text(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            Self::Error(_) | Self::Number(_) | Self::None | Self::List(_) | Self::Push(_) => None,
        }
    }

    /// The texts in a list, in its order; empty for other values.
    #[must_use]
    pub fn texts(&self) -> Vec<String> {
        match self {
            Self::List(parts) => parts.iter().filter_map(Self::text).collect(),
            Self::Text(_) | Self::Error(_) | Self::Number(_) | Self::None | Self::Push(_) => Vec::new(),
        }
    }

    /// Whether it is a published message.
    #[must_use]
    pub fn is_message(&self) -> bool {
        let (Self::List(parts) | Self::Push(parts)) = self else { return false };
        let first = parts.first().and_then(Self::text);
        first.is_some_and(|first| matches!(first.as_str(), "message" | "pmessage" | "smessage"))
    }
}

/// A command with these words.
#[must_use]
pub fn command<W: AsRef<[u8]>>(words: &[W]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words.iter().map(AsRef::as_ref) {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// The first value and how many bytes it takes; `None` when it is not all there yet.
///
/// # Errors
/// If no further bytes can make it valid.
pub fn parse(bytes: &[u8]) -> Result<Option<(Value, usize)>, Malformed> {
    let mut rest = bytes;
    let value = value(&mut rest, DEEP_MAX)?;
    Ok(value.map(|value| (value, bytes.len() - rest.len())))
}

fn value(rest: &mut &[u8], deep: usize) -> Result<Option<Value>, Malformed> {
    let Some((kind, line)) = line(rest)? else { return Ok(None) };
    let text = || String::from_utf8_lossy(line).into_owned();
    Ok(match kind {
        b'+' | b',' | b'#' | b'(' => Some(Value::Text(line.to_vec())),
        b'-' => Some(Value::Error(text())),
        b':' => Some(Value::Number(text().parse().map_err(|_| Malformed)?)),
        b'_' => Some(Value::None),
        b'$' | b'=' => match length(line)? {
            None => Some(Value::None),
            Some(length) => bytes(rest, length)?.map(|bytes| Value::Text(bytes.to_vec())),
        },
        b'!' => {
            let found = bytes(rest, length(line)?.ok_or(Malformed)?)?;
            found.map(|found| Value::Error(String::from_utf8_lossy(found).into_owned()))
        }
        b'*' | b'~' => match length(line)? {
            None => Some(Value::None),
            Some(length) => list(rest, length, deep)?.map(Value::List),
        },
        b'%' => list(rest, length(line)?.ok_or(Malformed)? * 2, deep)?.map(Value::List),
        b'>' => list(rest, length(line)?.ok_or(Malformed)?, deep)?.map(Value::Push),
        _ => return Err(Malformed),
    })
}

fn list(rest: &mut &[u8], length: usize, deep: usize) -> Result<Option<Vec<Value>>, Malformed> {
    let deeper = deep.checked_sub(1).ok_or(Malformed)?;
    let mut parts = Vec::new();
    for _ in 0..length {
        let Some(part) = value(rest, deeper)? else { return Ok(None) };
        parts.push(part);
    }
    Ok(Some(parts))
}

/// A value's kind and the rest of its first line.
fn line<'a>(rest: &mut &'a [u8]) -> Result<Option<(u8, &'a [u8])>, Malformed> {
    let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let (kind, line) = rest[..end].split_first().ok_or(Malformed)?;
    *rest = &rest[end + 2..];
    Ok(Some((*kind, line)))
}

fn bytes<'a>(rest: &mut &'a [u8], length: usize) -> Result<Option<&'a [u8]>, Malformed> {
    let Some((bytes, after)) = rest.split_at_checked(length) else { return Ok(None) };
    let Some((end, after)) = after.split_at_checked(2) else { return Ok(None) };
    *rest = after;
    if end == b"\r\n" { Ok(Some(bytes)) } else { Err(Malformed) }
}

/// A length; `None` for -1, which means nothing.
fn length(line: &[u8]) -> Result<Option<usize>, Malformed> {
    if line == b"-1" {
        return Ok(None);
    }
    let length = std::str::from_utf8(line).ok().and_then(|line| line.parse().ok());
    length.filter(|length| *length <= LENGTH_MAX).map(Some).ok_or(Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &[u8] = b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$4\r\na\r\nb\r\n";

    #[test]
    fn a_value_is_found_once_all_of_it_is_there() {
        for cut in 0..MESSAGE.len() {
            assert_eq!(parse(&MESSAGE[..cut]), Ok(None), "after {cut} bytes");
        }
        let (value, length) = parse(&[MESSAGE, b"+OK\r\n"].concat()).unwrap().unwrap();
        assert!(value.is_message());
        assert_eq!(length, MESSAGE.len());
    }

    #[test]
    fn only_what_was_published_is_a_message() {
        for (bytes, message) in [
            (&b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n"[..], true),
            (b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n", false),
            (b"$7\r\nmessage\r\n", false),
            (b"*-1\r\n", false),
        ] {
            assert_eq!(parse(bytes).unwrap().unwrap().0.is_message(), message);
        }
    }

    #[test]
    fn bytes_of_others_are_refused() {
        for bytes in [&b"hello\r\n"[..], b"$x\r\n", b"\r\n", b"$1\r\nabc", b"*99999999999\r\n"] {
            assert_eq!(parse(bytes), Err(Malformed), "{bytes:?}");
        }
        assert_eq!(parse(&b"*1\r\n".repeat(DEEP_MAX + 1)), Err(Malformed));
    }
}
