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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_above_zero() {
        for number in [1, 2, i64::MAX] {
            assert_eq!(UserId::new(number).unwrap().get(), number);
            assert_eq!(GroupId::new(number).unwrap().get(), number);
        }
        for number in [0, -1, i64::MIN] {
            assert!(UserId::new(number).is_err() && GroupId::new(number).is_err(), "{number}");
        }
    }

    #[test]
    fn ids_are_read_from_whole_numbers_alone() {
        assert_eq!("7".parse::<UserId>().unwrap().get(), 7);
        assert_eq!(i64::MAX.to_string().parse::<UserId>().unwrap().to_string(), i64::MAX.to_string());
        for text in ["", "0", "-1", "1.0", " 1", "1 ", "0x1", "9223372036854775808", "one", "１"] {
            assert!(text.parse::<UserId>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn counters_of_users_and_groups_have_their_own_names() {
        assert_ne!(IdKind::User.name(), IdKind::Group.name());
    }
}
