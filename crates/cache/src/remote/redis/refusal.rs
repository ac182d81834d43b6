//! Why a server that answers cannot be used.

use fred::error::{Error, ErrorKind};

use super::failures::{REFUSALS, first_word};

/// Why a server that answers cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It refuses the user or the password, or requires them.
    Credentials {
        /// `WRONGPASS` or `NOAUTH`.
        code: &'static str,
    },
    /// Its user may not run these commands on the keys and channels of the prefix.
    Rights {
        /// The command names in upper case.
        commands: Vec<String>,
    },
    /// It does not know these commands: they are renamed, or it is too old.
    Commands {
        /// The command names in upper case.
        commands: Vec<String>,
    },
    /// It has no database of this number.
    Index(u8),
    /// It has no TLS, and the address requires it.
    PlainText,
    /// It uses TLS, and the address does not.
    Tls,
    /// Its certificate is not trusted, or is not for the host of the address.
    Certificate,
    /// It is no cluster member, and the address requires that.
    NoCluster,
    /// It is in protected mode, and only accepts connections from its own machine.
    Protected,
    /// It has its maximum number of connections.
    Connections,
    /// It does not accept writes now.
    Writes {
        /// `OOM`, `READONLY`, `MISCONF`, `LOADING` and the like.
        code: &'static str,
    },
    /// Fewer replicas than this have what is written.
    Replicas(u32),
}

impl Refusal {
    /// Whether it lasts until the server or the configuration is changed.
    #[must_use]
    pub const fn lasts(&self) -> bool {
        !matches!(self, Self::Writes { .. } | Self::Replicas(_) | Self::Connections)
    }

    /// Interprets an error answer to `command`; `None`: no refusal. From the server's text, only the first
    /// word and the command's name are kept: the rest may contain what was sent, such as a password.
    pub(super) fn of(error: &Error, command: &str, index: Option<u8>) -> Option<Self> {
        let text = error.details();
        let code = first_word(error);
        if let Some(code) = ["WRONGPASS", "NOAUTH"].into_iter().find(|known| *known == code) {
            return Some(Self::Credentials { code });
        }
        if code == "NOPERM" {
            return Some(Self::Rights { commands: vec![named(text).unwrap_or_else(|| command.to_owned())] });
        }
        if let Some(code) = REFUSALS.into_iter().find(|known| *known == code) {
            return Some(Self::Writes { code });
        }
        match code {
            "DENIED" => Some(Self::Protected),
            "ERR" => Self::of_text(text, index),
            _ if untrusted(error) => Some(Self::Certificate),
            _ => None,
        }
    }

    /// Interprets an error without a code.
    fn of_text(text: &str, index: Option<u8>) -> Option<Self> {
        if text.contains("unknown command") {
            return Some(Self::Commands { commands: named(text).into_iter().collect() });
        }
        if text.contains("DB index") {
            return Some(Self::Index(index.unwrap_or_default()));
        }
        if text.contains("cluster support disabled") {
            return Some(Self::NoCluster);
        }
        text.contains("max number of clients").then_some(Self::Connections)
    }
}

/// The command that a text names in quotes.
fn named(text: &str) -> Option<String> {
    let name = text.split(['\'', '`']).nth(1)?;
    let is_name = |byte: u8| byte.is_ascii_alphabetic() || byte == b'|';
    (!name.is_empty() && name.bytes().all(is_name)).then(|| name.to_ascii_uppercase().replace('|', " "))
}

/// The client reports that a handshake failed because of its certificate.
fn untrusted(error: &Error) -> bool {
    let of_handshake = matches!(error.kind(), ErrorKind::IO | ErrorKind::Tls | ErrorKind::Sentinel);
    of_handshake && error.details().contains("InvalidCertificate")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_words_are_causes_and_no_value_is_kept() {
        let of = |text: &'static str| Refusal::of(&Error::new(ErrorKind::Unknown, text), "EVAL", Some(99));
        let commands = |name: &str| vec![name.to_owned()];
        for (text, cause) in [
            ("WRONGPASS invalid username-password pair", Refusal::Credentials { code: "WRONGPASS" }),
            ("NOAUTH HELLO must be called with", Refusal::Credentials { code: "NOAUTH" }),
            (
                "NOPERM User kith has no permissions to run the 'client|info' command",
                Refusal::Rights { commands: commands("CLIENT INFO") },
            ),
            (
                "NOPERM this user has no permissions to access one of the keys",
                Refusal::Rights { commands: commands("EVAL") },
            ),
            (
                "ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'kith' 'sesame'",
                Refusal::Commands { commands: commands("HELLO") },
            ),
            ("ERR DB index is out of range", Refusal::Index(99)),
            ("ERR This instance has cluster support disabled", Refusal::NoCluster),
            ("DENIED Redis is running in protected mode", Refusal::Protected),
            ("OOM command not allowed", Refusal::Writes { code: "OOM" }),
        ] {
            assert_eq!(of(text).as_ref(), Some(&cause), "{text}");
            assert!(!format!("{cause:?}").contains("sesame"));
        }
        assert_eq!(of("Connection refused"), None);
        assert_eq!(named("unknown command 'x y; z'"), None);
    }
}
