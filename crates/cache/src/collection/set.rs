//! Small sets, each cached as one record, with limits on members and bytes. A larger set is cached as a
//! marker without members.

/// A whole set as one record, or the fact that it is too large for that: then pages and pairs are used. Its
/// version is that of the record, if the store has a version for the set.
///
/// Bounded: a loader asks its store for at most [`MEMBERS_MAX`](Self::MEMBERS_MAX) + 1 members and passes
/// them to [`SmallSet::new`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmallSet<T> {
    /// The members in ascending order, without repetitions; `None`: too large.
    members: Option<Box<[T]>>,
    bytes: usize,
}

impl<T> SmallSet<T> {
    /// Most members of a set that is kept as a whole: to read it costs about as much as a few single records.
    pub const MEMBERS_MAX: usize = 2_000;
    /// Most bytes of all members together.
    pub const BYTES_MAX: usize = 64 * 1_024;

    /// A set that is too large.
    #[must_use]
    pub const fn too_large() -> Self {
        Self { members: None, bytes: 0 }
    }

    /// The members in ascending order; `None` if the set is too large.
    #[must_use]
    pub fn members(&self) -> Option<&[T]> {
        self.members.as_deref()
    }

    /// Bytes of the members, for the cache.
    #[must_use]
    pub const fn weight(&self) -> usize {
        self.bytes
    }
}

impl<T: Ord> SmallSet<T> {
    /// Keeps these members, in any order, if they are few enough; `weigh` gives a member's bytes. Reads at
    /// most one member more than it keeps.
    pub fn new(members: impl IntoIterator<Item = T>, weigh: fn(&T) -> usize) -> Self {
        let (mut kept, mut bytes) = (Vec::new(), 0_usize);
        for member in members {
            bytes = bytes.saturating_add(weigh(&member));
            if kept.len() == Self::MEMBERS_MAX || bytes > Self::BYTES_MAX {
                return Self::too_large();
            }
            kept.push(member);
        }
        kept.sort_unstable();
        kept.dedup();
        Self { members: Some(kept.into()), bytes }
    }

    /// Restores a set from its stored form; `None` if it is invalid.
    pub(super) fn restored(members: Option<Vec<T>>, bytes: usize) -> Option<Self> {
        let Some(members) = members else { return (bytes == 0).then(Self::too_large) };
        let bounded = members.len() <= Self::MEMBERS_MAX && bytes <= Self::BYTES_MAX;
        let ascends = members.windows(2).all(|two| two[0] < two[1]);
        (bounded && ascends).then(|| Self { members: Some(members.into()), bytes })
    }

    /// Whether it has this member; `None` if it is too large.
    #[must_use]
    pub fn contains(&self, member: &T) -> Option<bool> {
        self.members().map(|members| members.binary_search(member).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(members: impl IntoIterator<Item = u64>) -> SmallSet<u64> {
        SmallSet::new(members, |_| 8)
    }

    #[test]
    fn members_are_found_whatever_order_they_came_in() {
        let set = set([5, 1, 3, 5]);
        assert_eq!(set.members(), Some(&[1, 3, 5][..]));
        assert_eq!((set.contains(&3), set.contains(&4)), (Some(true), Some(false)));
        assert_eq!(self::set([]).contains(&1), Some(false), "an empty set is known to be empty");
    }

    #[test]
    fn set_is_kept_up_to_its_limit() {
        let most = u64::try_from(SmallSet::<u64>::MEMBERS_MAX).unwrap();
        assert_eq!(set(0..most).members().map(<[_]>::len), Some(SmallSet::<u64>::MEMBERS_MAX));
        let more = set(0..=most);
        assert_eq!((more.members(), more.contains(&1), more.weight()), (None, None, 0));
        assert_eq!(set(0..).members(), None, "it stops looking");
    }

    #[test]
    fn a_few_long_members_are_too_large_too() {
        let half = SmallSet::<String>::BYTES_MAX / 2;
        let long = |count: usize| (0..count).map(|at| char::from(b'a' + u8::try_from(at).unwrap()));
        let set = |count, bytes| SmallSet::new(long(count).map(|c| c.to_string().repeat(bytes)), String::len);
        assert_eq!(set(2, half).members().map(<[_]>::len), Some(2));
        assert_eq!(set(2, half + 1).members(), None);
    }
}
