//! Ids for users, groups and events.

/// When 2025 began: the origin for ids that contain a time.
pub(crate) const FIRST_MOMENT: i64 = 1_735_689_600_000;
/// The low bits in such an id, which distinguish ids from one millisecond.
pub(crate) const LOW_BITS: u32 = 22;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(try_from = "i64", into = "i64")]
        pub struct $name(std::num::NonZeroI64);

        impl $name {
            /// Wraps a number.
            ///
            /// # Errors
            /// If it is not above 0.
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

        impl TryFrom<i64> for $name {
            type Error = $crate::Invalid;

            fn try_from(number: i64) -> Result<Self, $crate::Invalid> {
                Self::new(number)
            }
        }

        impl From<$name> for i64 {
            fn from(id: $name) -> Self {
                id.get()
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::Invalid;

            /// An id has one text: with a sign or a zero in front it is none.
            fn from_str(text: &str) -> Result<Self, $crate::Invalid> {
                let is_plain = text.starts_with(|first: char| matches!(first, '1'..='9'));
                let number = text.parse().ok().filter(|_| is_plain);
                Self::new(number.ok_or_else(|| $crate::Invalid::new("must be a whole number above 0"))?)
            }
        }
    };
}

id! {
    /// Identifies a user. 1 to `i64::MAX`: every backend keeps signed 64-bit numbers.
    UserId
}
id! {
    /// Identifies a group. 1 to `i64::MAX`.
    GroupId
}
id! {
    /// Identifies an event in a user's relation log. Rises with time.
    RelationEventId
}

macro_rules! id_of_moment {
    ($name:ident) => {
        impl $name {
            /// Makes an id with this time; the 22 lowest bits in `low` distinguish ids from one millisecond.
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

            /// The time in the id, to the millisecond.
            #[must_use]
            pub const fn moment(self) -> $crate::Timestamp {
                $crate::Timestamp((self.get() >> $crate::id::LOW_BITS) + $crate::id::FIRST_MOMENT)
            }
        }
    };
}

id_of_moment! { RelationEventId }

pub(crate) use {id, id_of_moment};

/// The kinds of records with allocated ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IdKind {
    /// Ids that users get.
    User,
    /// Ids that groups get.
    Group,
    /// Ids that notices get.
    Notice,
}

impl IdKind {
    /// Lists all kinds.
    pub const ALL: [Self; 3] = [Self::User, Self::Group, Self::Notice];

    /// The first allocated id. Lower ones are for ids that callers choose.
    pub const FIRST_ALLOCATED: i64 = 10_000_000_000;

    /// Returns the name under which a backend keeps the counter.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Group => "group",
            Self::Notice => "notice",
        }
    }
}

/// The ids `first..first + count`, allocated to one caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdBlock {
    /// The lowest allocated id.
    pub first: i64,
    /// How many ids were allocated.
    pub count: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;

    #[test]
    fn number_below_1_is_not_deserialized() {
        assert_eq!(serde_json::to_string(&UserId::new(7).unwrap()).unwrap(), "7");
        assert_eq!(serde_json::from_str::<UserId>("7").unwrap().get(), 7);
        assert!(["0", "-1"].iter().all(|number| serde_json::from_str::<GroupId>(number).is_err()));
    }

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
        for text in ["", "0", "-1", "1.0", " 1", "1 ", "0x1", "9223372036854775808", "one", "１", "007", "+7"]
        {
            assert!(text.parse::<UserId>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn user_and_group_counters_have_own_names() {
        assert_ne!(IdKind::User.name(), IdKind::Group.name());
    }

    #[test]
    fn ids_contain_their_moment_and_sort_by_it() {
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
