//! Ways to damage a correct user history in one place, so that exactly one check detects it. Each takes a
//! random possible place and returns it.

#![expect(clippy::ptr_arg, reason = "each has the type of a Break")]

use std::collections::BTreeMap;

use kith_lab::history::{Call, CopyPlace, Event, Level, Outcome, RecordEnd, UserRequest};
use rand::{rngs::StdRng, seq::IndexedRandom as _};

use crate::world::BOUNDS;

/// Breaks a history; `None` where it offers no place for that.
pub(crate) type Break = fn(&mut Vec<Event>, &mut StdRng) -> Option<String>;

/// The check that detects each break, and the break's description.
pub(crate) const ALL: [(&str, &str, Break); 14] = [
    ("C1", "a pinned read goes back", pinned_read_goes_back),
    ("C1", "a read is below its token", read_is_below_its_token),
    ("C2", "a read misses the own write of its client", own_write_is_not_seen),
    ("C3", "a cached read is older than its bound", cached_read_is_too_old),
    ("C4", "a strong read is old", strong_read_is_old),
    ("C4", "a strong read finds nothing where a record is", strong_read_finds_nothing),
    ("C5", "a write has no effect", last_write_is_dropped),
    ("C5", "two records are swapped at the end", ends_are_swapped),
    ("C6", "a value that no client wrote is read", value_is_invented),
    ("C7", "a memory differs at the end", memory_differs),
    ("C8", "a name has two owners", name_has_two_owners),
    ("C16", "a request has two effects", request_has_two_effects),
    ("C17", "a code is that of a bug", code_of_a_bug),
    ("C17", "a code of a fault comes without one", code_without_a_fault),
];

pub(crate) const INVENTED: u64 = 9_000_000;

fn pinned_read_goes_back(events: &mut Vec<Event>, random: &mut StdRng) -> Option<String> {
    let facts = Facts::of(events);
    age_a_read(events, random, |read| {
        let before = facts.read_before(read).filter(|_| read.pinned && cached(read))?;
        let version = facts.older(read, before)?;
        (facts.wrote(read) <= version && facts.age(read, version) <= healthy()).then_some(version)
    })
}

fn read_is_below_its_token(events: &mut Vec<Event>, random: &mut StdRng) -> Option<String> {
    let facts = Facts::of(events);
    age_a_read(events, random, |read| {
        let UserRequest::Read(Level::AtLeast(token)) = read.what else { return None };
        facts.older(read, token).filter(|version| facts.wrote(read) <= *version)
    })
}

fn own_write_is_not_seen(events: &mut Vec<Event>, random: &mut StdRng) -> Option<String> {
    let facts = Facts::of(events);
    age_a_read(events, random, |read| {
        let own = facts.wrote_there(read).filter(|_| cached(read))?;
        let version = facts.older(read, own)?;
        let seen = facts.read_before(read).filter(|_| read.pinned).unwrap_or_default();
        (seen <= version && facts.age(read, version) <= healthy()).then_some(version)
    })
}

fn cached_read_is_too_old(events: &mut Vec<Event>, random: &mut StdRng) -> Option<String> {
    let facts = Facts::of(events);
    let faulty = u64::try_from(BOUNDS.faulty.bound.as_nanos()).unwrap();
    age_a_read(events, random, |read| {
        let free = cached(read) && !read.pinned && facts.wrote(read) == 0;
        let versions = (1..version(read)?).filter(|version| facts.values.contains_key(&at(read, *version)));
        versions.rev().find(|version| free && facts.age(read, *version) > faulty)
    })
}

fn strong_read_is_old(events: &mut Vec<Event>, random: &mut StdRng) -> Option<String> {
    let facts = Facts::of(events);
    age_a_read(events, random, |read| {
        let free = read.what == UserRequest::Read(Level::Strong) && !read.pinned && facts.wrote(read) == 0;
        let version = facts.older(read, version(read)?)?;
        (free && facts.age(read, version) > 0).then_some(version)
    })
}

fn strong_read_finds_nothing(events: &mut Vec<Event>, random: &mut StdRng) -> Option<String> {
    let facts = Facts::of(events);
    let read = choose(events, random, |read| {
        let free = read.what == UserRequest::Read(Level::Strong) && !read.pinned && facts.wrote(read) == 0;
        free && !facts.deleted(&read.key) && version(read).is_some() && facts.age(read, 0) > 0
    })?;
    read.outcome = Outcome::Gone;
    Some(format!("{read:?}"))
}

/// The write was not read, and is not there at the end.
fn last_write_is_dropped(events: &mut Vec<Event>, random: &mut StdRng) -> Option<String> {
    let facts = Facts::of(events);
    let write = choose(events, random, |write| {
        facts.is_last(write) && facts.older(write, version(write).unwrap()).is_some()
    })?;
    let (key, last) = (write.key.clone(), version(write)?);
    events.retain(|event| {
        let read = |call: &Call| matches!(call.what, UserRequest::Read(_)) && call.key == key;
        !matches!(event, Event::Call(call) if read(call) && version(call) == Some(last))
    });
    hold(events, &key, last - 1, facts.values[&(key.clone(), last - 1)]);
    Some(format!("{key} at version {last}"))
}

fn ends_are_swapped(events: &mut Vec<Event>, random: &mut StdRng) -> Option<String> {
    let facts = Facts::of(events);
    let clean = |write: &Call| facts.is_last(write) && !facts.open(&write.key);
    let one = choose(events, random, clean)?.key.clone();
    let other = choose(events, random, |write| clean(write) && write.key != one)?.key.clone();
    for event in events {
        match event {
            Event::Held(held) if held.key == one => held.key.clone_from(&other),
            Event::Held(held) if held.key == other => held.key.clone_from(&one),
            _ => {}
        }
    }
    Some(format!("{one} and {other}"))
}

fn value_is_invented(events: &mut Vec<Event>, random: &mut StdRng) -> Option<String> {
    let facts = Facts::of(events);
    let read = choose(events, random, |read| {
        matches!(read.what, UserRequest::Read(_))
            && version(read).is_some_and(|version| facts.values.contains_key(&at(read, version)))
    })?;
    read.outcome = Outcome::Done { version: version(read)?, value: INVENTED, key: None };
    Some(format!("{read:?}"))
}

fn memory_differs(events: &mut Vec<Event>, random: &mut StdRng) -> Option<String> {
    let copies = |event: &Event| {
        matches!(event, Event::Held(RecordEnd { place: CopyPlace::Memory(_), state: Some(_), .. }))
    };
    let Event::Held(held) = pick(events, random, copies)? else { return None };
    held.state = held.state.map(|(version, value)| (version, value.map(|value| value + INVENTED)));
    Some(format!("{held:?}"))
}

fn name_has_two_owners(events: &mut Vec<Event>, random: &mut StdRng) -> Option<String> {
    let facts = Facts::of(events);
    let key = "user:9999".to_owned();
    let create = choose(events, random, |create| {
        let UserRequest::Create { name, .. } = &create.what else { return false };
        let is_taken = facts.owners.get(name).is_some_and(|ended| *ended < create.began);
        is_taken && create.outcome == Outcome::Refused("ALREADY_EXISTS".to_owned()) && facts.sent_once(create)
    })?;
    let UserRequest::Create { value, .. } = create.what else { return None };
    create.outcome = Outcome::Done { version: 1, value, key: Some(key.clone()) };
    let place = format!("{create:?}");
    events.push(Event::Held(RecordEnd {
        key,
        place: CopyPlace::Store,
        state: Some((1, Some(value))),
        gone: false,
    }));
    Some(place)
}

/// A record's last write is sent again when all is over, and takes effect again.
fn request_has_two_effects(events: &mut Vec<Event>, random: &mut StdRng) -> Option<String> {
    let facts = Facts::of(events);
    let mut again = choose(events, random, |write| facts.is_last(write))?.clone();
    let Outcome::Done { version, value, .. } = again.outcome else { return None };
    let over = calls(events).map(|call| call.ended).max()?;
    (again.began, again.ended) = (over + 1, over + 2);
    again.outcome = Outcome::Done { version: version + 1, value, key: None };
    hold(events, &again.key, version + 1, value);
    let place = format!("{again:?}");
    events.push(Event::Call(again));
    Some(place)
}

fn code_of_a_bug(events: &mut Vec<Event>, random: &mut StdRng) -> Option<String> {
    refuse(events, random, "INTERNAL", |_| true)
}

fn code_without_a_fault(events: &mut Vec<Event>, random: &mut StdRng) -> Option<String> {
    let faults =
        events.iter().filter_map(|event| if let Event::Fault(fault) = event { Some(fault.at) } else { None });
    let first = faults.min()?;
    refuse(events, random, "UNAVAILABLE", |call| call.ended < first)
}

fn refuse(
    events: &mut [Event],
    random: &mut StdRng,
    code: &str,
    fits: impl Fn(&Call) -> bool,
) -> Option<String> {
    let read = choose(events, random, |call| matches!(call.what, UserRequest::Read(_)) && fits(call))?;
    read.outcome = Outcome::Refused(code.to_owned());
    Some(format!("{read:?}"))
}

/// Lets a read find the version that `older` gives for it.
fn age_a_read(
    events: &mut [Event],
    random: &mut StdRng,
    older: impl Fn(&Call) -> Option<u64>,
) -> Option<String> {
    let facts = Facts::of(events);
    let read = choose(events, random, |call| {
        matches!(call.what, UserRequest::Read(_)) && version(call).is_some() && older(call).is_some()
    })?;
    let (was, version) = (read.outcome.clone(), older(read)?);
    read.outcome = Outcome::Done { version, value: facts.values[&at(read, version)], key: None };
    Some(format!("{read:?} instead of {was:?}"))
}

fn choose<'a>(
    events: &'a mut [Event],
    random: &mut StdRng,
    fits: impl Fn(&Call) -> bool,
) -> Option<&'a mut Call> {
    let event = pick(events, random, |event| matches!(event, Event::Call(call) if fits(call)))?;
    if let Event::Call(call) = event { Some(call) } else { None }
}

/// A random event among those that fit.
pub(crate) fn pick<'a>(
    events: &'a mut [Event],
    random: &mut StdRng,
    fits: impl Fn(&Event) -> bool,
) -> Option<&'a mut Event> {
    let places: Vec<usize> = (0..events.len()).filter(|at| fits(&events[*at])).collect();
    Some(&mut events[*places.choose(random)?])
}

/// Makes every place that has this record hold this version and value.
fn hold(events: &mut [Event], key: &str, version: u64, value: u64) {
    for event in events {
        if let Event::Held(held) = event
            && held.key == key
        {
            held.state = held.state.map(|_| (version, Some(value)));
        }
    }
}

/// Facts about a history, for choosing a place.
struct Facts {
    calls: Vec<Call>,
    /// The values that acknowledged writes have, by record and version.
    values: BTreeMap<(String, u64), u64>,
    /// When they were acknowledged.
    acked: BTreeMap<(String, u64), u64>,
    /// The store's versions at the end.
    ends: BTreeMap<String, u64>,
    /// When the creation of a record that exists at the end was acknowledged, by name.
    owners: BTreeMap<String, u64>,
}

impl Facts {
    fn of(events: &[Event]) -> Self {
        let calls: Vec<Call> = calls(events).cloned().collect();
        let (mut values, mut acked, mut ends) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for event in events {
            if let Event::Held(RecordEnd {
                key, place: CopyPlace::Store, state: Some((version, _)), ..
            }) = event
            {
                ends.insert(key.clone(), *version);
            }
        }
        let mut owners = BTreeMap::new();
        for call in calls.iter().filter(|call| !matches!(call.what, UserRequest::Read(_))) {
            let Outcome::Done { version, value, key } = &call.outcome else { continue };
            let record = key.as_ref().unwrap_or(&call.key);
            values.insert((record.clone(), *version), *value);
            let ended = acked.entry((record.clone(), *version)).or_insert(call.ended);
            *ended = call.ended.min(*ended);
            if let UserRequest::Create { name, .. } = &call.what
                && ends.contains_key(record)
            {
                owners.insert(name.clone(), *ended);
            }
        }
        Self { calls, values, acked, ends, owners }
    }

    /// The previous version, if its write was acknowledged.
    fn older(&self, call: &Call, version: u64) -> Option<u64> {
        let older = version.checked_sub(1)?;
        self.values.contains_key(&at(call, older)).then_some(older)
    }

    /// Returns how long a version newer than this had been acknowledged when the call began.
    fn age(&self, call: &Call, version: u64) -> u64 {
        let newer = self.acked.range(at(call, version + 1)..=at(call, u64::MAX)).map(|(_, ended)| *ended);
        newer.min().map_or(0, |ended| call.began.saturating_sub(ended))
    }

    /// The newest version of this record that the client read before.
    fn read_before(&self, call: &Call) -> Option<u64> {
        let before = self.before(call).filter(|before| matches!(before.what, UserRequest::Read(_)));
        before.filter_map(version).max()
    }

    /// The newest version of this record that the client wrote before, on any node; 0 if nothing.
    fn wrote(&self, call: &Call) -> u64 {
        self.writes_before(call).filter_map(version).max().unwrap_or_default()
    }

    /// Like `wrote`, but on this node.
    fn wrote_there(&self, call: &Call) -> Option<u64> {
        self.writes_before(call).filter(|write| write.node == call.node).filter_map(version).max()
    }

    fn writes_before(&self, call: &Call) -> impl Iterator<Item = &Call> {
        self.before(call).filter(|before| !matches!(before.what, UserRequest::Read(_)))
    }

    /// The client's earlier calls about this record.
    fn before(&self, call: &Call) -> impl Iterator<Item = &Call> {
        let (client, key, began) = (call.client, call.key.clone(), call.began);
        self.calls
            .iter()
            .filter(move |before| before.client == client && before.ended <= began && record(before) == key)
    }

    /// Whether this is an acknowledged update, and the last update to a record that exists.
    fn is_last(&self, call: &Call) -> bool {
        let last = self.ends.get(&call.key).copied();
        matches!(call.what, UserRequest::Update { .. }) && last.is_some() && version(call) == last
    }

    fn open(&self, key: &str) -> bool {
        self.calls.iter().any(|call| call.key == key && matches!(call.outcome, Outcome::Open(_)))
    }

    fn deleted(&self, key: &str) -> bool {
        self.calls.iter().any(|call| call.key == key && call.what == UserRequest::Delete)
    }

    fn sent_once(&self, call: &Call) -> bool {
        self.calls.iter().filter(|other| other.request_id == call.request_id).count() == 1
    }
}

fn calls(events: &[Event]) -> impl Iterator<Item = &Call> {
    events.iter().filter_map(|event| if let Event::Call(call) = event { Some(call) } else { None })
}

fn record(call: &Call) -> &str {
    match &call.outcome {
        Outcome::Done { key: Some(key), .. } => key,
        _ => &call.key,
    }
}

fn version(call: &Call) -> Option<u64> {
    if let Outcome::Done { version, .. } = call.outcome { Some(version) } else { None }
}

fn at(call: &Call, version: u64) -> (String, u64) {
    (call.key.clone(), version)
}

fn cached(call: &Call) -> bool {
    call.what == UserRequest::Read(Level::Cached)
}

fn healthy() -> u64 {
    u64::try_from(BOUNDS.healthy.as_nanos()).unwrap()
}
