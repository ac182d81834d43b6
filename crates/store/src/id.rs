use std::{fmt, num::NonZeroI64, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::Invalid;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(NonZeroI64);

        impl $name {
            /// Wraps a number.
            ///
            /// # Errors
            /// When it is not above 0.
            pub fn new(number: i64) -> Result<Self, Invalid> {
                match NonZeroI64::new(number) {
                    Some(id) if number > 0 => Ok(Self(id)),
                    _ => Err(Invalid::new("must be above 0")),
                }
            }

            /// The number, above 0.
            #[must_use]
            pub const fn get(self) -> i64 {
                self.0.get()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = Invalid;

            fn from_str(text: &str) -> Result<Self, Invalid> {
                Self::new(text.parse().map_err(|_| Invalid::new("must be a whole number above 0"))?)
            }
        }
    };
}

id! {
    /// Names a user. 1 to `i64::MAX`: every backend keeps signed 64-bit numbers.
    UserId
}
id! {
    /// Names a group. 1 to `i64::MAX`.
    GroupId
}

/// What ids are allocated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IdKind {
    /// Users.
    User,
    /// Groups.
    Group,
}

impl IdKind {
    /// First id that is ever allocated. Those below are for ids that callers bring along.
    pub const FIRST_ALLOCATED: i64 = 10_000_000_000;

    /// Name under which a backend keeps the counter.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Group => "group",
        }
    }
}

/// Ids `first..first + count`, given to one caller only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdBlock {
    /// The smallest.
    pub first: i64,
    /// How many.
    pub count: u32,
}
