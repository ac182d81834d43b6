//! Ways to damage a correct history with follows and blocks in one place, so that exactly one check detects
//! it.

#![expect(clippy::ptr_arg, reason = "each has the type of a Break")]

use kith_lab::history::{
    Edge, Event, Level, ListsEnd, RelationCall, RelationOutcome, RelationRequest, Setting, Settings,
};
use rand::{rngs::StdRng, seq::IndexedRandom as _};

use crate::plan::BOUNDS;

/// Breaks a history in a random possible place, and returns the place; `None` where there is none.
pub(crate) type Break = fn(&mut Vec<Event>, &mut StdRng) -> Option<String>;

/// The check that detects each break, and the break's description.
pub(crate) const ALL: [(&str, &str, Break); 11] = [
    ("C12", "a list lacks a fan", fan_is_missing),
    ("C12", "a list has a user who does not follow any more", follow_stays_in_a_list),
    ("C12", "a list is of an older follow", list_is_of_an_older_follow),
    ("C12", "a follow is lost without an unfollow", follow_is_lost),
    ("C13", "a count differs from its list", count_differs),
    ("C13", "a count is below zero", count_is_below_zero),
    ("C14", "a blocked user is let through", blocked_is_allowed),
    ("C14", "settings from before a change are read", old_settings_are_read),
    ("C5", "a change of settings is overwritten", change_is_written_over),
    ("C3", "a follow is seen long after its end", ended_follow_is_seen),
    ("C4", "the version of a follow does not rise", version_does_not_rise),
];

const INVENTED: u64 = 1;

/// A list of fans lacks a follower at the end.
fn fan_is_missing(events: &mut Vec<Event>, random: &mut StdRng) -> Option<String> {
    let end = a_list(events, random, |end| !end.fans.is_empty())?;
    let (fan, _) = end.fans.pop()?;
    end.counts.1 -= 1;
    Some(format!("{fan} among the fans of {}", end.user))
}

/// At the end a list has a user who does not follow any more.
fn follow_stays_in_a_list(events: &mut Vec<Event>, random: &mut StdRng) -> Option<String> {
    let end = a_list(events, random, |end| end.following.iter().all(|(other, _)| *other != 99))?;
    end.following.push((99, INVENTED));
    end.counts.0 += 1;
    Some(format!("99 followed by {}", end.user))
}

/// At the end a list has an older follow.
fn list_is_of_an_older_follow(events: &mut Vec<Event>, random: &mut StdRng) -> Option<String> {
    let end = a_list(events, random, |end| !end.fans.is_empty())?;
    end.fans.first_mut()?.1 -= 1;
    Some(format!("{end:?}"))
}

/// An edge's last follow is missing at the end, without an unfollow.
fn follow_is_lost(events: &mut Vec<Event>, random: &mut StdRng) -> Option<String> {
    let is_active = |edge: Edge, version: u64| {
        let follow = calls(events).find(|call| call.outcome == RelationOutcome::Follows(version));
        follow.is_some_and(|follow| {
            calls(events).filter(|call| may_end(call, edge)).all(|end| {
                let open = matches!(end.outcome, RelationOutcome::Open(_)) && !is_resolved(events, end);
                !open && end.ended < follow.began
            })
        })
    };
    let active_edge = |event: &Event| match event {
        Event::Edge(end) => end.follow.filter(|version| is_active(end.edge, *version)).map(|_| end.edge),
        _ => None,
    };
    let edges: Vec<Edge> = events.iter().filter_map(active_edge).collect();
    let edge = *edges.choose(random)?;
    for event in events {
        match event {
            Event::Edge(end) if end.edge == edge => end.follow = None,
            Event::Lists(end) if end.user == edge.0 => {
                end.following.retain(|(other, _)| *other != edge.1);
                end.counts.0 = i64::try_from(end.following.len()).ok()?;
            }
            Event::Lists(end) if end.user == edge.1 => {
                end.fans.retain(|(other, _)| *other != edge.0);
                end.counts.1 = i64::try_from(end.fans.len()).ok()?;
            }
            _ => {}
        }
    }
    Some(format!("{edge:?}"))
}

fn count_differs(events: &mut Vec<Event>, random: &mut StdRng) -> Option<String> {
    let end = a_list(events, random, |_| true)?;
    end.counts.1 += 1;
    Some(format!("{end:?}"))
}

fn count_is_below_zero(events: &mut Vec<Event>, random: &mut StdRng) -> Option<String> {
    let call = a_call(events, random, |call| matches!(call.outcome, RelationOutcome::Counted(..)))?;
    call.outcome = RelationOutcome::Counted(0, -1);
    Some(format!("{call:?}"))
}

/// A block was acknowledged, and a message is let through.
fn blocked_is_allowed(events: &mut Vec<Event>, random: &mut StdRng) -> Option<String> {
    let changes = |edge: Edge| {
        calls(events)
            .filter(move |call| matches!(call.what, RelationRequest::Set(of, _) if of == edge))
            .cloned()
    };
    let blocked = |call: &RelationCall| {
        let RelationRequest::Check(edge, _) = call.what else { return false };
        let before: Vec<RelationCall> = changes(edge).filter(|change| change.began <= call.ended).collect();
        let settled = before
            .iter()
            .all(|change| change.ended < call.began && (set_by(change).is_some() || is_refused(change)));
        let last = before.iter().filter_map(set_by).max_by_key(|settings| settings.version);
        settled && last.is_some_and(|settings| settings.blocked)
    };
    let places: Vec<usize> = places(events, blocked);
    let Event::Relation(call) = &mut events[*places.choose(random)?] else { return None };
    call.outcome = RelationOutcome::Allows(true, 0);
    Some(format!("{call:?}"))
}

/// A permission was taken, and is still there.
fn old_settings_are_read(events: &mut Vec<Event>, random: &mut StdRng) -> Option<String> {
    let known: Vec<(Edge, u64, Settings)> = calls(events)
        .filter_map(|call| match (call.what, &call.outcome) {
            (RelationRequest::Set(edge, _), RelationOutcome::Set(settings, _)) => {
                Some((edge, call.ended, *settings))
            }
            _ => None,
        })
        .collect();
    let older = |call: &RelationCall| match (call.what, &call.outcome) {
        (RelationRequest::Get(edge, _), RelationOutcome::Found { settings, .. }) => {
            let is_known = known.iter().any(|(of, ended, known)| {
                *of == edge && known.version == settings.version && *ended < call.began
            });
            let before =
                known.iter().find(|(of, _, known)| *of == edge && known.version + 1 == settings.version);
            before.filter(|_| is_known).map(|(_, _, known)| *known)
        }
        _ => None,
    };
    let call = a_call(events, random, |call| older(call).is_some())?;
    let old = older(call)?;
    if let RelationOutcome::Found { settings, .. } = &mut call.outcome {
        *settings = old;
    }
    Some(format!("{call:?}"))
}

/// Two changes became the same version.
fn change_is_written_over(events: &mut Vec<Event>, random: &mut StdRng) -> Option<String> {
    let once = |call: &RelationCall| {
        let id = call.request_id.as_ref();
        calls(events).filter(|other| other.request_id.as_ref() == id).count() == 1
    };
    let changed: Vec<RelationCall> = calls(events)
        .filter(|call| matches!(call.outcome, RelationOutcome::Set(..)) && once(call))
        .cloned()
        .collect();
    let mut twin = changed.choose(random)?.clone();
    twin.client = 77;
    twin.request_id = Some("twin".to_owned());
    let place = format!("{twin:?}");
    events.push(Event::Relation(twin));
    Some(place)
}

/// A cached read finds a follow that ended long before.
fn ended_follow_is_seen(events: &mut Vec<Event>, random: &mut StdRng) -> Option<String> {
    let faulty = u64::try_from(BOUNDS.faulty.bound.as_nanos()).unwrap();
    let ends: Vec<(Edge, u64, u64)> = calls(events)
        .filter_map(|call| match (call.what, &call.outcome) {
            (RelationRequest::Follow(edge), RelationOutcome::Follows(version)) => {
                let end = calls(events).filter(|end| {
                    end.what == RelationRequest::Unfollow(edge)
                        && matches!(end.outcome, RelationOutcome::Ended(_))
                        && end.began > call.ended
                });
                end.map(|end| end.ended).min().map(|ended| (edge, *version, ended))
            }
            _ => None,
        })
        .collect();
    let old = |call: &RelationCall| {
        let edge = match call.what {
            RelationRequest::Get(edge, Level::Cached) if !call.pinned => edge,
            _ => return None,
        };
        let own = calls(events).any(|other| {
            let there = (other.client, other.node) == (call.client, call.node) && other.began < call.began;
            there && matches!(other.what, RelationRequest::Follow(of) | RelationRequest::Unfollow(of) if of == edge)
        });
        ends.iter()
            .filter(|_| !own)
            .find(|(of, _, ended)| *of == edge && ended + faulty < call.began)
            .copied()
    };
    let places: Vec<(usize, u64)> = events
        .iter()
        .enumerate()
        .filter_map(|(at, event)| match event {
            Event::Relation(call) if matches!(call.outcome, RelationOutcome::Found { .. }) => {
                Some((at, old(call)?.1))
            }
            _ => None,
        })
        .collect();
    let (at, version) = *places.choose(random)?;
    let Event::Relation(call) = &mut events[at] else { return None };
    if let RelationOutcome::Found { follow, .. } = &mut call.outcome {
        *follow = Some(version);
    }
    Some(format!("{call:?}"))
}

/// A follow's end has the same version as the follow itself.
fn version_does_not_rise(events: &mut Vec<Event>, random: &mut StdRng) -> Option<String> {
    let ended = |call: &RelationCall| {
        let RelationRequest::Unfollow(edge) = call.what else { return None };
        let before = calls(events).filter(|other| other.ended < call.began);
        let last = before.filter_map(|other| match (other.what, &other.outcome) {
            (RelationRequest::Follow(of), RelationOutcome::Follows(version)) if of == edge => {
                Some((*version, true))
            }
            (RelationRequest::Unfollow(of), RelationOutcome::Ended(version)) if of == edge => {
                Some((*version, false))
            }
            (RelationRequest::Get(of, _), RelationOutcome::Found { follow: Some(version), .. })
                if of == edge =>
            {
                Some((*version, false))
            }
            _ => None,
        });
        let once = calls(events).filter(|other| other.request_id == call.request_id).count() == 1;
        let (version, follows) =
            last.max().filter(|_| once && matches!(call.outcome, RelationOutcome::Ended(_)))?;
        follows.then_some(version)
    };
    let places = places(events, |call| ended(call).is_some());
    let at = *places.choose(random)?;
    let Event::Relation(call) = &events[at] else { return None };
    let version = ended(call)?;
    let Event::Relation(call) = &mut events[at] else { return None };
    call.outcome = RelationOutcome::Ended(version);
    Some(format!("{call:?}"))
}

/// Whether this may end an edge's follow.
fn may_end(call: &RelationCall, edge: Edge) -> bool {
    match call.what {
        RelationRequest::Unfollow(of) => of == edge && !is_refused(call),
        RelationRequest::Follow(of) => of == edge && !matches!(call.outcome, RelationOutcome::Follows(_)),
        RelationRequest::Set(of, Setting::Block) => of.reversed() == edge && !is_refused(call),
        _ => false,
    }
}

/// Whether the same was sent again, and answered.
fn is_resolved(events: &[Event], call: &RelationCall) -> bool {
    let again = calls(events).filter(|other| other.request_id == call.request_id);
    again
        .into_iter()
        .any(|other| !matches!(other.outcome, RelationOutcome::Open(_) | RelationOutcome::Refused(_)))
}

fn is_refused(call: &RelationCall) -> bool {
    matches!(call.outcome, RelationOutcome::Refused(_))
}

fn set_by(call: &RelationCall) -> Option<Settings> {
    if let RelationOutcome::Set(settings, _) = call.outcome { Some(settings) } else { None }
}

/// The places of the calls that fit.
fn places(events: &[Event], fits: impl Fn(&RelationCall) -> bool) -> Vec<usize> {
    let fitting =
        |(at, event): (usize, &Event)| matches!(event, Event::Relation(call) if fits(call)).then_some(at);
    events.iter().enumerate().filter_map(fitting).collect()
}

fn calls(events: &[Event]) -> impl Iterator<Item = &RelationCall> {
    events.iter().filter_map(|event| if let Event::Relation(call) = event { Some(call) } else { None })
}

fn a_list<'a>(
    events: &'a mut [Event],
    random: &mut StdRng,
    fits: impl Fn(&ListsEnd) -> bool,
) -> Option<&'a mut ListsEnd> {
    let event = pick(events, random, |event| matches!(event, Event::Lists(end) if fits(end)))?;
    if let Event::Lists(end) = event { Some(end) } else { None }
}

fn a_call<'a>(
    events: &'a mut [Event],
    random: &mut StdRng,
    fits: impl Fn(&RelationCall) -> bool,
) -> Option<&'a mut RelationCall> {
    let event = pick(events, random, |event| matches!(event, Event::Relation(call) if fits(call)))?;
    if let Event::Relation(call) = event { Some(call) } else { None }
}

/// A random event among those that fit.
fn pick<'a>(
    events: &'a mut [Event],
    random: &mut StdRng,
    fits: impl Fn(&Event) -> bool,
) -> Option<&'a mut Event> {
    let places: Vec<usize> = (0..events.len()).filter(|at| fits(&events[*at])).collect();
    Some(&mut events[*places.choose(random)?])
}
