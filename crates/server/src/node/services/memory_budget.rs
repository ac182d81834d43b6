//! The share of each namespace in memory. What a namespace does not use of it is lent to others (ADR 0028).

/// Parts that the memory tier is shared out in.
pub(super) const SHARES: u64 = 64;
/// Users are read far more often than groups.
pub(super) const USER_SHARES: u64 = 23;
pub(super) const GROUP_SHARES: u64 = 7;
/// Pages of searches are ids: with 256 MiB, some 12,000 pages of 50.
pub(super) const SEARCH_PAGE_SHARES: u64 = 2;
/// Names of epochs: some 15,000 buckets.
pub(super) const SEARCH_EPOCH_SHARES: u64 = 1;
/// Records of pairs are small: with 256 MiB, some 200,000 follows, or 280,000 absences.
pub(super) const FOLLOW_SHARES: u64 = 8;
/// What is asked for every message.
pub(super) const BLOCK_SHARES: u64 = 8;
/// Pages of follows: some 3,000 of 100.
pub(super) const FOLLOW_PAGE_SHARES: u64 = 4;
pub(super) const BLOCK_PAGE_SHARES: u64 = 1;
/// Of lists of follows, and of blocks: half a share each.
pub(super) const LIST_EPOCH_SHARES: u64 = 1;
/// What is asked for every message of a group: with 256 MiB, some 100,000 members, or 170,000 absences.
pub(super) const MEMBER_SHARES: u64 = 5;
/// Rosters, and pages of both kinds of lists.
pub(super) const ROSTER_SHARES: u64 = 1;
pub(super) const MEMBER_PAGE_SHARES: u64 = 1;
/// Of lists of members, and of groups: half a share each.
pub(super) const MEMBER_EPOCH_SHARES: u64 = 1;
/// How many of each group are online: some 20,000 groups.
pub(super) const ACTIVE_SHARES: u64 = 1;
const _: () = assert!(
    USER_SHARES
        + GROUP_SHARES
        + SEARCH_PAGE_SHARES
        + SEARCH_EPOCH_SHARES
        + FOLLOW_SHARES
        + BLOCK_SHARES
        + FOLLOW_PAGE_SHARES
        + BLOCK_PAGE_SHARES
        + LIST_EPOCH_SHARES
        + MEMBER_SHARES
        + ROSTER_SHARES
        + MEMBER_PAGE_SHARES
        + MEMBER_EPOCH_SHARES
        + ACTIVE_SHARES
        == SHARES
);
