//! The callers that a node knows at this moment.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use ahash::RandomState;
use arc_swap::ArcSwap;
use kith_service::rpc::rights::{CallerId, Rights, Scope};
use tokio_util::sync::CancellationToken;

use super::key::{Digest, KeyId};

/// A caller, as found by one of its keys.
#[derive(Debug)]
pub struct Caller {
    /// Derived from the name.
    pub id: CallerId,
    /// The configured name. Appears in logs and metrics.
    pub name: Box<str>,
    /// The rights it has.
    pub rights: Rights,
    /// The id of the key that was given.
    pub key: KeyId,
    /// Cancelled when the key is removed or expires, or when the caller is removed or gets other rights. The
    /// caller's streams end then.
    pub ended: CancellationToken,
}

/// A configured key of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerKey {
    /// The caller's name.
    pub name: String,
    /// The caller's rights.
    pub rights: Rights,
    /// The key's digest.
    pub digest: Digest,
    /// When the key was made, where that is known.
    pub made: Option<SystemTime>,
    /// The time at which the key begins to be refused.
    pub expires: Option<SystemTime>,
}

/// All callers' keys, as they were configured together.
pub type CallerSet = Vec<CallerKey>;

/// The callers that a node knows. A lookup takes no lock; a new set replaces the whole old one.
pub struct Callers {
    known: ArcSwap<CallerTable>,
    open: bool,
}

/// How another set changes one caller.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CallerChange {
    /// The caller's name.
    pub(crate) caller: String,
    pub(crate) kind: CallerChangeKind,
    /// Keys that are valid from now on, or with other rights.
    pub(crate) begun: Vec<KeyId>,
    /// Keys that are no longer valid, or no longer with these rights.
    pub(crate) ended: Vec<KeyId>,
}

/// How a caller changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallerChangeKind {
    /// The caller was not there before.
    Added,
    /// The caller has other keys, rights or expiry times.
    Changed,
    /// The caller is no longer there.
    Removed,
}

impl CallerChangeKind {
    /// The event's name in the log.
    pub(crate) const fn event(self) -> &'static str {
        match self {
            Self::Added => "caller_added",
            Self::Changed => "caller_changed",
            Self::Removed => "caller_removed",
        }
    }
}

struct CallerTable {
    keys: HashMap<u64, Vec<KnownKey>, RandomState>,
    /// How many callers there are, each counted once.
    callers: usize,
}

struct KnownKey {
    digest: Digest,
    expires: Option<SystemTime>,
    caller: Arc<Caller>,
}

impl Callers {
    /// No caller is configured: everybody who reaches the port may do everything. It stays so until the node
    /// restarts.
    #[must_use]
    pub fn open() -> Self {
        Self { known: ArcSwap::from_pointee(CallerTable::of(Vec::new(), None)), open: true }
    }

    /// Makes a table with exactly these callers.
    #[must_use]
    pub fn new(set: CallerSet) -> Self {
        Self { known: ArcSwap::from_pointee(CallerTable::of(set, None)), open: false }
    }

    /// Whether no caller is configured.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.open
    }

    /// How many callers are known.
    #[must_use]
    pub fn count(&self) -> usize {
        self.known.load().callers
    }

    /// The caller with this credential. `None` if it is unknown or has expired. Costs one SHA-256 over the
    /// credential, and no lock. A credential without a right byte is refused by the same steps as a
    /// credential with a single wrong byte.
    #[must_use]
    pub fn find(&self, credential: &[u8]) -> Option<Arc<Caller>> {
        self.find_digest(&Digest::of(credential))
    }

    /// Like [`Self::find`], but for a credential's digest.
    pub(super) fn find_digest(&self, digest: &Digest) -> Option<Arc<Caller>> {
        self.known.load().find(digest, SystemTime::now)
    }

    /// Takes on another set. A key that is in both with the same caller and rights stays as it is, with its
    /// streams. All other streams end. Returns the changes, by name.
    pub(crate) fn replace(&self, set: CallerSet) -> Vec<CallerChange> {
        let before = self.known.load_full();
        let now = Arc::new(CallerTable::of(set, Some(&before)));
        self.known.store(Arc::clone(&now));
        // This comes after the new set is stored: a later call finds its caller in the new set alone.
        let (ended, begun) = (before.without(&now), now.without(&before));
        ended.iter().for_each(|caller| caller.ended.cancel());
        changes(&before, &now, &begun, &ended)
    }

    /// All keys with what they allow, in an order of their own: equal for equal sets. Not meant for people to
    /// read.
    pub(crate) fn canonical(&self) -> Vec<u8> {
        let known = self.known.load();
        let mut keys: Vec<_> = known.all().map(KnownKey::canonical).collect();
        keys.sort_unstable();
        keys.concat()
    }

    /// The caller whose key had this digest until it expired. For the log alone.
    pub(super) fn expired(&self, digest: &Digest) -> Option<Arc<Caller>> {
        self.known.load().find(digest, || SystemTime::UNIX_EPOCH)
    }

    /// Ends the streams whose keys have expired by `now`.
    pub(crate) fn end_expired(&self, now: SystemTime) {
        let known = self.known.load();
        known.all().filter(|key| key.has_expired(now)).for_each(|key| key.caller.ended.cancel());
    }

    /// How long the key that expires first is still valid at `now`; `None` if no key expires.
    pub(crate) fn first_expiry(&self, now: SystemTime) -> Option<Duration> {
        let first = self.known.load().all().filter_map(|key| key.expires).min()?;
        Some(first.duration_since(now).unwrap_or_default())
    }
}

impl fmt::Debug for Callers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callers").field("open", &self.open).field("count", &self.count()).finish()
    }
}

impl CallerTable {
    fn of(set: CallerSet, before: Option<&Self>) -> Self {
        let mut names: Vec<_> = set.iter().map(|key| key.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let callers = names.len();
        let mut keys: HashMap<u64, Vec<KnownKey>, RandomState> = HashMap::default();
        for key in set {
            let caller =
                before.and_then(|before| before.same(&key)).unwrap_or_else(|| Arc::new(Caller::of(&key)));
            let key = KnownKey { digest: key.digest, expires: key.expires, caller };
            keys.entry(key.digest.prefix()).or_default().push(key);
        }
        Self { keys, callers }
    }

    /// The clock is read for keys that expire alone.
    fn find(&self, digest: &Digest, now: impl Fn() -> SystemTime) -> Option<Arc<Caller>> {
        let key = self.keys.get(&digest.prefix())?.iter().find(|key| key.digest == *digest)?;
        let expired = key.expires.is_some() && key.has_expired(now());
        (!expired).then(|| Arc::clone(&key.caller))
    }

    /// The caller that this key finds already, if nothing but its expiry has changed.
    fn same(&self, key: &CallerKey) -> Option<Arc<Caller>> {
        let known = self.keys.get(&key.digest.prefix())?.iter().find(|known| known.digest == key.digest)?;
        let caller = &known.caller;
        // A key that has expired and gets a later end begins again.
        let same = *caller.name == *key.name && caller.rights == key.rights && !caller.ended.is_cancelled();
        same.then(|| Arc::clone(caller))
    }

    /// The callers that are not among the others.
    fn without(&self, others: &Self) -> Vec<Arc<Caller>> {
        let others: HashSet<_> = others.all().map(|key| Arc::as_ptr(&key.caller)).collect();
        let callers = self.all().map(|key| &key.caller);
        callers.filter(|caller| !others.contains(&Arc::as_ptr(caller))).cloned().collect()
    }

    fn all(&self) -> impl Iterator<Item = &KnownKey> {
        self.keys.values().flatten()
    }

    /// Each caller's keys, with what may change without ending their streams.
    fn by_name(&self) -> BTreeMap<&str, BTreeSet<(KeyId, Option<SystemTime>)>> {
        let mut names: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for key in self.all() {
            names.entry(&*key.caller.name).or_default().insert((key.caller.key, key.expires));
        }
        names
    }
}

fn changes(
    before: &CallerTable,
    now: &CallerTable,
    begun: &[Arc<Caller>],
    ended: &[Arc<Caller>],
) -> Vec<CallerChange> {
    let (before, now) = (before.by_name(), now.by_name());
    let names: BTreeSet<_> = before.keys().chain(now.keys()).copied().collect();
    let keys = |callers: &[Arc<Caller>], name: &str| {
        let mut keys: Vec<_> =
            callers.iter().filter(|caller| *caller.name == *name).map(|caller| caller.key).collect();
        keys.sort_unstable();
        keys
    };
    let change = |name: &str| {
        let kind = match (before.get(name), now.get(name)) {
            (None, _) => CallerChangeKind::Added,
            (_, None) => CallerChangeKind::Removed,
            (Some(_), Some(_)) => CallerChangeKind::Changed,
        };
        let (begun, ended) = (keys(begun, name), keys(ended, name));
        let changed = !begun.is_empty() || !ended.is_empty() || before.get(name) != now.get(name);
        changed.then(|| CallerChange { caller: name.to_owned(), kind, begun, ended })
    };
    names.into_iter().filter_map(change).collect()
}

impl KnownKey {
    /// The digest has a fixed length and is first. No name has a line break.
    fn canonical(&self) -> Vec<u8> {
        let Caller { name, rights, .. } = &*self.caller;
        let expires = self.expires.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        let scopes = rights.scopes().map(Scope::text).collect::<Vec<_>>().join(" ");
        format!("{}\n{name}\n{scopes}\n{expires:?}\n", self.digest.to_hex()).into_bytes()
    }

    fn has_expired(&self, now: SystemTime) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }
}

impl Caller {
    fn of(key: &CallerKey) -> Self {
        Self {
            id: CallerId::of_name(&key.name),
            name: key.name.as_str().into(),
            rights: key.rights,
            key: key.digest.key_id(),
            ended: CancellationToken::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, credential: &str) -> CallerKey {
        let rights = Rights::of(&[Scope::UserRead]);
        let digest = Digest::of(credential.as_bytes());
        CallerKey { name: name.to_owned(), rights, digest, made: None, expires: None }
    }

    fn name(callers: &Callers, credential: &str) -> Option<String> {
        callers.find(credential.as_bytes()).map(|caller| caller.name.to_string())
    }

    #[test]
    fn a_caller_is_found_by_the_whole_key_alone() {
        let callers = Callers::new(vec![key("a", "one"), key("a", "two"), key("b", "three")]);
        assert_eq!(name(&callers, "two").as_deref(), Some("a"));
        assert_eq!(name(&callers, "three").as_deref(), Some("b"));
        for wrong in ["", "tw", "two ", "twotwo", "Two"] {
            assert_eq!(name(&callers, wrong), None, "{wrong:?}");
        }
        assert_eq!(callers.count(), 2);
    }

    #[test]
    fn a_digest_that_begins_alike_is_another_one() {
        let hex = Digest::of(b"one").to_hex();
        let alike =
            Digest::from_hex(&format!("{}{}", &hex[..62], if hex.ends_with("00") { "01" } else { "00" }));
        let other = CallerKey { digest: alike.unwrap(), ..key("other", "") };
        assert_eq!(name(&Callers::new(vec![other.clone()]), "one"), None);
        let callers = Callers::new(vec![other, key("a", "one")]);
        assert_eq!(name(&callers, "one").as_deref(), Some("a"));
    }

    #[test]
    fn expired_keys_do_not_open_a_node() {
        assert!(Callers::open().is_open());
        let expired = CallerKey { expires: Some(SystemTime::UNIX_EPOCH), ..key("a", "one") };
        let callers = Callers::new(vec![expired]);
        assert!(!callers.is_open());
        assert_eq!(name(&callers, "one"), None);
    }

    #[test]
    fn a_key_is_valid_until_it_expires() {
        let end = SystemTime::UNIX_EPOCH + Duration::from_secs(100);
        let known = CallerTable::of(vec![CallerKey { expires: Some(end), ..key("a", "one") }], None);
        let found = |now| known.find(&Digest::of(b"one"), || now).is_some();
        assert!(found(end - Duration::from_nanos(1)));
        assert!(!found(end));
    }

    #[test]
    fn streams_end_only_with_their_key_or_right() {
        let callers =
            Callers::new(vec![key("a", "one"), key("a", "two"), key("b", "three"), key("c", "four")]);
        let ended =
            ["one", "two", "three", "four"].map(|key| callers.find(key.as_bytes()).unwrap().ended.clone());
        let fewer = CallerKey { rights: Rights::NONE, ..key("b", "three") };
        let later =
            CallerKey { expires: Some(SystemTime::now() + Duration::from_secs(60)), ..key("c", "four") };
        let changes = callers.replace(vec![key("a", "two"), fewer, later, key("d", "five")]);
        let of = |key: &str| Digest::of(key.as_bytes()).key_id();
        let change = |caller: &str, kind, begun: &[KeyId], ended: &[KeyId]| CallerChange {
            caller: caller.to_owned(),
            kind,
            begun: begun.to_vec(),
            ended: ended.to_vec(),
        };
        let expected = [
            change("a", CallerChangeKind::Changed, &[], &[of("one")]),
            change("b", CallerChangeKind::Changed, &[of("three")], &[of("three")]),
            change("c", CallerChangeKind::Changed, &[], &[]),
            change("d", CallerChangeKind::Added, &[of("five")], &[]),
        ];
        assert_eq!(changes, expected);
        assert_eq!(ended.map(|ended| ended.is_cancelled()), [true, false, true, false]);
        assert_eq!(callers.find(b"three").unwrap().rights, Rights::NONE);
        assert_eq!(name(&callers, "one"), None);
        assert_eq!(name(&callers, "five").as_deref(), Some("d"));
        let removed = callers.replace(vec![key("a", "two")]);
        assert_eq!(
            removed.iter().map(|change| change.kind).collect::<Vec<_>>(),
            [CallerChangeKind::Removed; 3]
        );
        assert_eq!(callers.replace(vec![key("a", "two")]), []);
    }

    #[test]
    fn streams_end_at_expiry_and_resume_when_later() {
        let end = SystemTime::now() + Duration::from_secs(60);
        let until = |end| CallerKey { expires: Some(end), ..key("a", "one") };
        let callers = Callers::new(vec![until(end), key("b", "two")]);
        let (a, b) = (callers.find(b"one").unwrap(), callers.find(b"two").unwrap());
        callers.end_expired(end - Duration::from_secs(1));
        assert!(!a.ended.is_cancelled());
        callers.end_expired(end);
        assert!(a.ended.is_cancelled() && !b.ended.is_cancelled());
        callers.replace(vec![until(end + Duration::from_secs(60)), key("b", "two")]);
        assert!(!callers.find(b"one").unwrap().ended.is_cancelled());
    }

    #[test]
    fn first_expiry_is_reported_and_zero_when_past() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(100);
        let at = |seconds| CallerKey { expires: Some(now + Duration::from_secs(seconds)), ..key("a", "one") };
        assert_eq!(
            Callers::new(vec![at(7), at(5), key("b", "two")]).first_expiry(now),
            Some(Duration::from_secs(5))
        );
        let past = now + Duration::from_secs(6);
        assert_eq!(Callers::new(vec![at(5)]).first_expiry(past), Some(Duration::ZERO));
        assert_eq!(Callers::new(vec![key("b", "two")]).first_expiry(now), None);
    }
}
