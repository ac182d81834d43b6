//! The leases that this process knows: its own are renewed together, and those of other holders are read
//! together.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

/// How long an answer about the leases of other holders is used.
const HELD_KNOWN: Duration = Duration::from_secs(1);
/// A name that no caller has asked for in this time is not read any more.
const ASKED_WITHIN: Duration = Duration::from_secs(60);

/// The known leases by their names.
#[derive(Debug, Default)]
pub(super) struct KnownLeases(HashMap<String, KnownName>);

#[derive(Debug)]
struct KnownName {
    /// When this process asked for it last.
    asked: Instant,
    /// When the request was sent that brought this answer.
    seen: Option<Instant>,
    lease: Option<KnownLease>,
}

#[derive(Clone, Debug)]
struct KnownLease {
    holder: String,
    until_least: Instant,
    until_most: Instant,
    /// For how long this process took it; `None`: another process did.
    lasts: Option<Duration>,
    /// When its holder in this process wanted it last, if it was not renewed since.
    wanted: Option<Instant>,
}

/// The next step for a request for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaseStep {
    /// The holder has it, for at least two thirds of the time.
    Held,
    /// Another holder has it.
    Refused,
    /// The holder has it, and it is to be renewed.
    Renew,
    /// It may be free.
    Take,
    /// The lease's holder is not known.
    Read,
}

/// A lease that the store has, or is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredLease {
    pub(super) name: String,
    pub(super) holder: String,
    /// How much longer it lasts.
    pub(super) left: Duration,
}

impl KnownLeases {
    /// Returns the next step for a holder that wants this lease now.
    pub(super) fn ask(&mut self, name: &str, holder: &str, lasts: Duration) -> LeaseStep {
        let now = Instant::now();
        let known = self.name(name, now);
        let is_new = known.is_new(now);
        let Some(lease) = known.lease.as_mut().filter(|lease| now < lease.until_most) else {
            return if is_new { LeaseStep::Take } else { LeaseStep::Read };
        };
        if lease.holder != holder {
            return if is_new { LeaseStep::Refused } else { LeaseStep::Read };
        }
        if lease.lasts.is_none_or(|known| known == lasts) && now + lasts * 2 / 3 <= lease.until_least {
            lease.wanted = Some(now);
            return LeaseStep::Held;
        }
        if lease.lasts == Some(lasts) { LeaseStep::Renew } else { LeaseStep::Take }
    }

    /// Returns which of these leases are held; `None`: the store must be asked.
    pub(super) fn held(&mut self, names: &[String]) -> Option<Vec<String>> {
        let now = Instant::now();
        let mut held = Vec::new();
        let mut is_known = true;
        for name in names {
            let known = self.name(name, now);
            is_known &= known.is_new(now);
            if known.lease.as_ref().is_some_and(|lease| now < lease.until_most) {
                held.push(name.clone());
            }
        }
        is_known.then_some(held)
    }

    /// Returns the names to read.
    pub(super) fn names(&mut self) -> Vec<String> {
        let now = Instant::now();
        self.0.retain(|_, known| now.duration_since(known.asked) < ASKED_WITHIN);
        self.0.keys().cloned().collect()
    }

    /// Records that the store, asked for these names at `sent`, has these leases.
    pub(super) fn read(&mut self, names: &[String], stored: Vec<StoredLease>, sent: Instant) {
        let mut stored: HashMap<_, _> = stored.into_iter().map(|lease| (lease.name.clone(), lease)).collect();
        for name in names {
            let Some(known) = self.0.get_mut(name) else { continue };
            // A change by this process after `sent` is newer than the answer.
            if known.seen.is_some_and(|seen| seen >= sent) {
                continue;
            }
            let before = known.lease.take();
            known.seen = Some(sent);
            known.lease = stored.remove(name).map(|StoredLease { holder, left, .. }| {
                let before = before.filter(|before| before.holder == holder);
                let (lasts, wanted) = before.map_or((None, None), |before| (before.lasts, before.wanted));
                KnownLease { lasts, wanted, ..KnownLease::new(holder, left, sent) }
            });
        }
    }

    /// Records that the holder has taken the lease by a request that was sent at `sent`.
    pub(super) fn taken(&mut self, name: &str, holder: &str, lasts: Duration, sent: Instant) {
        let known = self.name(name, sent);
        known.seen = Some(sent);
        let lease = KnownLease::new(holder.to_owned(), lasts, sent);
        known.lease = Some(KnownLease { lasts: Some(lasts), ..lease });
    }

    /// Forgets a lease whose known state is wrong.
    pub(super) fn forget(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Returns the leases to renew together: this lease, and those that were wanted since they were renewed
    /// last. Each is to last as long as if it had been renewed when it was wanted.
    pub(super) fn due(&mut self, name: &str) -> Vec<StoredLease> {
        let now = Instant::now();
        if let Some(lease) = self.name(name, now).lease.as_mut() {
            lease.wanted = Some(now);
        }
        let due = |(name, known): (&String, &KnownName)| {
            let KnownLease { holder, lasts, wanted, .. } = known.lease.as_ref()?;
            let left = (*lasts)?.saturating_sub(now.duration_since((*wanted)?));
            Some(StoredLease { name: name.clone(), holder: holder.clone(), left })
        };
        self.0.iter().filter_map(due).collect()
    }

    /// Records that these leases were renewed by a request that was sent at `sent`.
    pub(super) fn renewed(&mut self, renewed: &[StoredLease], sent: Instant) {
        for StoredLease { name, holder, left } in renewed {
            // A lease that was released meanwhile is not known.
            let Some(known) = self.0.get_mut(name) else { continue };
            let Some(lease) = known.lease.as_mut().filter(|lease| lease.holder == *holder) else { continue };
            let new = KnownLease::new(holder.clone(), *left, sent);
            lease.until_least = lease.until_least.max(new.until_least);
            lease.until_most = lease.until_most.max(new.until_most);
            lease.wanted = lease.wanted.filter(|wanted| *wanted > sent);
            known.seen = Some(sent);
        }
    }

    fn name(&mut self, name: &str, now: Instant) -> &mut KnownName {
        let new = || KnownName { asked: now, seen: None, lease: None };
        let known = self.0.entry(name.to_owned()).or_insert_with(new);
        known.asked = now;
        known
    }
}

impl KnownName {
    fn is_new(&self, now: Instant) -> bool {
        self.seen.is_some_and(|seen| now.duration_since(seen) < HELD_KNOWN)
    }
}

impl KnownLease {
    /// Creates a lease that lasts for `left` from a moment between `sent` and now.
    fn new(holder: String, left: Duration, sent: Instant) -> Self {
        let (until_least, until_most) = (sent + left, Instant::now() + left);
        Self { holder, until_least, until_most, lasts: None, wanted: None }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const LASTS: Duration = Duration::from_secs(6);

    fn stored(name: &str, holder: &str, left: u64) -> StoredLease {
        StoredLease { name: name.to_owned(), holder: holder.to_owned(), left: Duration::from_secs(left) }
    }

    /// Reads with a store that answers at once.
    fn reads(known: &mut KnownLeases, stored: Vec<StoredLease>) {
        let names = known.names();
        known.read(&names, stored, Instant::now());
    }

    fn taken(names: &[&str]) -> KnownLeases {
        let mut known = KnownLeases::default();
        for name in names {
            assert_eq!(known.ask(name, "a", LASTS), LeaseStep::Read);
            reads(&mut known, Vec::new());
            assert_eq!(known.ask(name, "a", LASTS), LeaseStep::Take);
            known.taken(name, "a", LASTS, Instant::now());
        }
        known
    }

    #[tokio::test(start_paused = true)]
    async fn lease_is_held_for_a_third_of_its_time() {
        let mut known = taken(&["one"]);
        advance(LASTS / 3).await;
        assert_eq!(known.ask("one", "a", LASTS), LeaseStep::Held);
        advance(Duration::from_millis(1)).await;
        assert_eq!(known.ask("one", "a", LASTS), LeaseStep::Renew);
        advance(LASTS * 2 / 3).await;
        assert_eq!(known.ask("one", "a", LASTS), LeaseStep::Read, "it may have ended");
    }

    #[tokio::test(start_paused = true)]
    async fn wanted_leases_are_renewed_with_one() {
        let mut known = taken(&["one", "wanted", "unwanted"]);
        advance(Duration::from_secs(1)).await;
        assert_eq!(known.ask("wanted", "a", LASTS), LeaseStep::Held);
        advance(Duration::from_secs(2)).await;
        assert_eq!(known.ask("one", "a", LASTS), LeaseStep::Renew);
        let sent = Instant::now();
        let mut due = known.due("one");
        due.sort_by(|a, b| a.name.cmp(&b.name));
        assert_eq!(due, [stored("one", "a", 6), stored("wanted", "a", 4)], "as long as it would last");
        known.renewed(&due, sent);
        assert_eq!(known.ask("one", "a", LASTS), LeaseStep::Held);
        assert_eq!(known.ask("wanted", "a", LASTS), LeaseStep::Held);
        assert_eq!(known.ask("unwanted", "a", LASTS), LeaseStep::Renew);
        advance(Duration::from_secs(3)).await;
        let names: Vec<_> = known.due("unwanted").into_iter().map(|lease| lease.name).collect();
        assert_eq!(names.len(), 3, "{names:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn lease_of_another_is_refused_for_a_second() {
        let mut known = KnownLeases::default();
        assert_eq!(known.ask("one", "a", LASTS), LeaseStep::Read);
        reads(&mut known, vec![stored("one", "b", 5)]);
        assert_eq!(known.ask("one", "a", LASTS), LeaseStep::Refused);
        advance(HELD_KNOWN).await;
        assert_eq!(known.ask("one", "a", LASTS), LeaseStep::Read);
        reads(&mut known, Vec::new());
        assert_eq!(known.ask("one", "a", LASTS), LeaseStep::Take);
    }

    #[tokio::test(start_paused = true)]
    async fn shared_lease_is_held_if_another_renews_it() {
        let mut known = taken(&["one"]);
        advance(Duration::from_secs(3)).await;
        reads(&mut known, vec![stored("one", "a", 5)]);
        assert_eq!(known.ask("one", "a", LASTS), LeaseStep::Held);
        advance(Duration::from_secs(3)).await;
        reads(&mut known, vec![stored("one", "b", 5)]);
        assert_eq!(known.ask("one", "a", LASTS), LeaseStep::Refused, "another holder took it");
    }

    #[tokio::test(start_paused = true)]
    async fn older_answer_does_not_hide_a_taken_lease() {
        let mut known = KnownLeases::default();
        assert_eq!(known.ask("one", "a", LASTS), LeaseStep::Read);
        let (names, sent) = (known.names(), Instant::now());
        advance(Duration::from_millis(1)).await;
        known.taken("one", "a", LASTS, Instant::now());
        known.read(&names, Vec::new(), sent);
        assert_eq!(known.ask("one", "a", LASTS), LeaseStep::Held);
    }

    #[tokio::test(start_paused = true)]
    async fn released_lease_is_not_renewed() {
        let mut known = taken(&["one", "other"]);
        advance(Duration::from_secs(3)).await;
        let (due, sent) = (known.due("one"), Instant::now());
        known.forget("one");
        known.renewed(&due, sent);
        assert_eq!(known.ask("one", "a", LASTS), LeaseStep::Read);
    }

    #[tokio::test(start_paused = true)]
    async fn other_time_is_asked_of_the_store() {
        let mut known = taken(&["one"]);
        assert_eq!(known.ask("one", "a", LASTS / 2), LeaseStep::Take);
    }

    #[tokio::test(start_paused = true)]
    async fn names_of_a_minute_ago_are_not_read() {
        let mut known = taken(&["one"]);
        advance(ASKED_WITHIN / 2).await;
        assert_eq!(known.held(&["other".to_owned()]), None);
        advance(ASKED_WITHIN / 2).await;
        assert_eq!(known.names(), ["other"]);
    }
}
