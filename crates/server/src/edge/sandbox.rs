//! `kith-sandbox`: the sandbox that a call means on a node for tests.

use std::sync::Arc;

use http::HeaderMap;
use tonic::Status;

use super::answer;

const SANDBOX: &str = "kith-sandbox";
const CHARS_MAX: usize = 64;

/// A sandbox name: 1 to 64 characters from A-Z, a-z, 0-9, `_` and `-`. Put into a request's extensions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SandboxName(Arc<str>);

/// The sandbox that a call names; `None`: the node itself.
///
/// Where there are none a name is refused and not passed over: tests that were pointed at the wrong node must
/// not write there.
pub(super) fn of(headers: &HeaderMap, allowed: bool) -> Result<Option<SandboxName>, Box<Status>> {
    let Some(value) = headers.get(SANDBOX) else { return Ok(None) };
    let refuse = |why| Err(Box::new(answer::invalid_metadata(SANDBOX, why)));
    if !allowed {
        return refuse("is for nodes that were started with --ephemeral; this one keeps its data");
    }
    if headers.get_all(SANDBOX).iter().nth(1).is_some() {
        return refuse("must be given once");
    }
    match value.to_str() {
        Ok(name) if is_name(name) => Ok(Some(SandboxName(name.into()))),
        Ok(_) | Err(_) => refuse("must be 1 to 64 of A-Z, a-z, 0-9, _ and -"),
    }
}

fn is_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=CHARS_MAX).contains(&text.len()) && text.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_1_to_64_letters_digits_and_marks() {
        let long = "n".repeat(CHARS_MAX);
        assert!(["a", "Test_7-b", long.as_str()].into_iter().all(is_name));
        let longer = "n".repeat(CHARS_MAX + 1);
        assert!(!["", "a b", "a.b", "\u{e9}", longer.as_str()].into_iter().any(is_name));
    }
}
