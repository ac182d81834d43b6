/// The beginning of 2025, from which ids that are made of moments count.
pub(crate) const FIRST_MOMENT: i64 = 1_735_689_600_000;
/// Low bits of such an id, which distinguish ids of one millisecond.
pub(crate) const LOW_BITS: u32 = 22;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(std::num::NonZeroI64);

        impl $name {
            /// Wraps a number.
            ///
            /// # Errors
            /// When it is not above 0.
            pub fn new(number: i64) -> Result<Self, $crate::Invalid> {
                match std::num::NonZeroI64::new(number) {
                    Some(id) if number > 0 => Ok(Self(id)),
                    _ => Err($crate::Invalid::new("must be above 0")),
                }
            }

            /// The number, above 0.
            #[must_use]
            pub const fn get(self) -> i64 {
                self.0.get()
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::Invalid;

            fn from_str(text: &str) -> Result<Self, $crate::Invalid> {
                Self::new(text.parse().map_err(|_| $crate::Invalid::new("must be a whole number above 0"))?)
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
id! {
    /// Names an event among those in the log of a user. The later it was, the higher.
    RelationEventId
}

macro_rules! id_of_moment {
    ($name:ident) => {
        impl $name {
            /// An id of this moment; the 22 lowest bits of `low` distinguish ids of one millisecond.
            #[must_use]
            pub fn at(moment: $crate::Timestamp, low: u32) -> Self {
                let since = moment
                    .0
                    .saturating_sub($crate::id::FIRST_MOMENT)
                    .clamp(1, i64::MAX >> $crate::id::LOW_BITS);
                let low = i64::from(low & ((1 << $crate::id::LOW_BITS) - 1));
                let number = (since << $crate::id::LOW_BITS) | low;
                Self::new(number).unwrap_or_else(|_| unreachable!("it is above 0"))
            }

            /// When it was made, to the millisecond.
            #[must_use]
            pub const fn moment(self) -> $crate::Timestamp {
                $crate::Timestamp((self.get() >> $crate::id::LOW_BITS) + $crate::id::FIRST_MOMENT)
            }
        }
    };
}

id_of_moment! { RelationEventId }

pub(crate) use {id, id_of_moment};

/// What ids are allocated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IdKind {
    /// Users.
    User,
    /// Groups.
    Group,
    /// Notices.
    Notice,
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
            Self::Notice => "notice",
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
    use crate::Timestamp;

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

    #[test]
    fn ids_are_ordered_by_their_moments_and_tell_them() {
        let moment = Timestamp(1_800_000_000_123);
        let [low, high] = [0, u32::MAX].map(|low| RelationEventId::at(moment, low));
        assert_eq!([low.moment(), high.moment()], [moment; 2]);
        assert!(low < high && high < RelationEventId::at(Timestamp(moment.0 + 1), 0));
    }

    #[test]
    fn an_id_of_any_moment_is_above_zero() {
        for moment in [i64::MIN, 0, FIRST_MOMENT, i64::MAX] {
            assert!(RelationEventId::at(Timestamp(moment), 0).get() > 0, "{moment}");
        }
    }
}
