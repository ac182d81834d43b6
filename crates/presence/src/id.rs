//! Gateway ids, gateway incarnations, and device ids.

use std::{fmt, num::NonZeroI64, str::FromStr, sync::Arc};

use kith_store::Invalid;
use serde::{Deserialize, Serialize};

/// The longest id that a caller chooses.
const LENGTH_MAX: usize = 64;

macro_rules! chosen {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Returns the id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = Invalid;

            fn try_from(text: String) -> Result<Self, Invalid> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.as_str().to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = Invalid;

            fn from_str(text: &str) -> Result<Self, Invalid> {
                let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
                if text.is_empty() || text.len() > LENGTH_MAX || !text.bytes().all(allowed) {
                    return Err(Invalid::new("must be 1 to 64 letters, digits, '.', '_' or '-'"));
                }
                Ok(Self(text.into()))
            }
        }
    };
}

chosen! {
    /// Identifies one of the caller's connection servers. 1 to 64 of `[A-Za-z0-9._-]`.
    GatewayId
}
chosen! {
    /// Identifies a user's device. 1 to 64 of `[A-Za-z0-9._-]`.
    DeviceId
}

/// Distinguishes successive gateways with the same id. Random, above 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(NonZeroI64);

impl Incarnation {
    /// The incarnation with this number; `None`: it is not above 0.
    #[must_use]
    pub fn new(number: i64) -> Option<Self> {
        NonZeroI64::new(number).filter(|number| number.get() > 0).map(Self)
    }

    /// Makes a new incarnation.
    #[must_use]
    pub fn random() -> Self {
        let number = rand::random::<i64>() & i64::MAX;
        Self(NonZeroI64::new(number).unwrap_or(NonZeroI64::MIN.saturating_abs()))
    }

    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0.get()
    }
}

/// One run of a gateway; a later run with the same id is distinct. Sessions belong to the run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instance {
    /// The gateway's id.
    pub gateway: GatewayId,
    /// The incarnation.
    pub incarnation: Incarnation,
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}~{}", self.gateway, self.incarnation.get())
    }
}

impl FromStr for Instance {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let wrong = || Invalid::new("must be a gateway and a number");
        let (gateway, number) = text.split_once('~').ok_or_else(wrong)?;
        let incarnation = number.parse().ok().and_then(Incarnation::new).ok_or_else(wrong)?;
        Ok(Self { gateway: gateway.parse()?, incarnation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_hold_nothing_that_could_steer() {
        for bad in ["", "a b", "a|b", "a~b", "a,b", "a{b", "ä", "a\n", &"x".repeat(65)] {
            assert!(bad.parse::<GatewayId>().is_err(), "{bad:?}");
        }
        assert_eq!("gw-1.eu_A".parse::<DeviceId>().unwrap().as_str(), "gw-1.eu_A");
    }

    #[test]
    fn instances_are_read_back() {
        let instance = Instance { gateway: "gw".parse().unwrap(), incarnation: Incarnation::random() };
        assert_eq!(instance.to_string().parse(), Ok(instance));
        for bad in ["gw", "gw~", "gw~0", "gw~-1", "~1", "gw~1~2"] {
            assert!(bad.parse::<Instance>().is_err(), "{bad:?}");
        }
    }
}
