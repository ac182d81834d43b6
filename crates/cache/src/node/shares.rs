//! Lending: unused memory of a namespace is lent to those that need more than their share.

/// The share of a namespace in the memory of its node, and its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    /// Its own bytes: it gets them back from others as it fills them.
    pub share: u64,
    /// Weight of its copies.
    pub used: u64,
}

impl MemoryUse {
    /// Whether it has filled three quarters of its share.
    const fn is_full(self) -> bool {
        self.used >= self.share - self.share / 4
    }

    /// The lent part: half of its unused bytes. The rest is its room until the limits are set again.
    const fn lent(self) -> u64 {
        if self.is_full() { 0 } else { (self.share - self.used) / 2 }
    }
}

/// The limit of each namespace, in bytes. Their sum is at most that of the shares, and none is below the used part of
/// its own share. Lent bytes go to the full ones, by their shares.
pub(crate) fn limits(all: &[MemoryUse]) -> Vec<u64> {
    let lent: u64 = all.iter().map(|one| one.lent()).sum();
    let full: u64 = all.iter().filter(|one| one.is_full()).map(|one| one.share).sum();
    let limit = |one: &MemoryUse| match (full, one.is_full()) {
        (0, _) => one.share,
        (_, false) => one.share - one.lent(),
        (_, true) => one.share + part(lent, one.share, full),
    };
    all.iter().map(limit).collect()
}

/// `bytes` x `share` / `all`.
fn part(bytes: u64, share: u64, all: u64) -> u64 {
    u64::try_from(u128::from(bytes) * u128::from(share) / u128::from(all.max(1))).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn of(share: u64, used: u64) -> MemoryUse {
        MemoryUse { share, used }
    }

    #[test]
    fn shares_hold_while_none_is_full() {
        assert_eq!(limits(&[of(100, 0), of(60, 44)]), [100, 60]);
        assert_eq!(limits(&[]), [0; 0]);
    }

    #[test]
    fn half_of_what_is_unused_is_lent() {
        assert_eq!(limits(&[of(100, 20), of(60, 45)]), [60, 100]);
    }

    #[test]
    fn full_namespaces_divide_by_their_shares() {
        assert_eq!(limits(&[of(120, 0), of(40, 40), of(20, 70)]), [60, 80, 40]);
    }

    #[test]
    fn lender_gets_its_share_back_as_it_fills() {
        let (mut used, mut limit) = (0, 0);
        for _ in 0..8 {
            limit = limits(&[of(100, used), of(100, 150)])[0];
            used = limit;
        }
        assert_eq!(limit, 100);
    }

    #[test]
    fn limits_never_exceed_the_shares_together() {
        for used in 0..=200 {
            for other in [0, 1, 33, 75, 99, 200] {
                let all = [of(100, used), of(7, other), of(61, 13), of(u64::MAX / 8, used)];
                let sum: u64 = limits(&all).into_iter().sum();
                assert!(sum <= all.iter().map(|one| one.share).sum(), "{all:?}");
            }
        }
    }
}
