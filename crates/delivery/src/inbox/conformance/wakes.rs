//! Cases about wakes, signals and registrations: which nodes are woken, how often, and with what content.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use kith_store::{NodeName, UserId};

use super::sample::{Subject, log, next_event, node, sent, user};
use crate::{InboxLimits, NodeWake, Note, SentMessages, Wake, WakeEvent, WakeSubscription, WokenUser};

fn nodes_of(wakes: &[NodeWake]) -> Vec<NodeName> {
    let mut nodes: Vec<NodeName> = wakes.iter().map(|wake| wake.node.clone()).collect();
    nodes.sort_unstable();
    nodes
}

fn set<T: Ord + Clone>(values: &[T]) -> BTreeSet<T> {
    values.iter().cloned().collect()
}

/// Publishes a signal, and asserts that it is what the node hears next.
async fn is_next(subject: &Subject, name: &str, wakes: &mut dyn WakeSubscription) {
    let wake = Wake::Signal { user: user(4_711), signal: Bytes::from_static(b"next") };
    subject.keeper.publish(&[NodeWake { node: node(name), wake: wake.clone() }]).await.unwrap();
    assert_eq!(next_event(wakes).await, WakeEvent::Wake(wake));
}

/// The users that a wake for messages is for.
async fn woken(wakes: &mut dyn WakeSubscription) -> Vec<WokenUser> {
    match next_event(wakes).await {
        WakeEvent::Wake(Wake::Messages { sent: messages, woken, lost }) => {
            assert_eq!((messages, lost), (sent("g9", 57), Vec::new()));
            woken
        }
        other => panic!("{other:?}"),
    }
}

pub async fn one_publish_per_node(subject: Subject) {
    let ids: Vec<i64> = (1..=200).collect();
    let users: Vec<UserId> = ids.iter().map(|id| user(*id)).collect();
    // The last 50 have no receiver; of 100 to 110 there is one on each node.
    let mut of_nodes = Vec::new();
    for (name, receivers) in [("a", &users[..110]), ("b", &users[99..150])] {
        for opened in subject.keeper.open(&node(name), receivers).await {
            opened.unwrap();
        }
        of_nodes.push((name, receivers, subject.wakes(name).await));
    }
    let fanned = subject.fan("g9", 57, &ids).await;
    assert_eq!(nodes_of(&fanned.wakes), [node("a"), node("b")]);
    assert_eq!(set(&fanned.without_receiver), set(&users[150..]));
    subject.keeper.publish(&fanned.wakes).await.unwrap();
    for (name, receivers, mut wakes) in of_nodes {
        let woken = woken(&mut *wakes).await;
        assert_eq!(woken.len(), receivers.len());
        assert_eq!(woken.iter().map(|woken| woken.user).collect::<BTreeSet<_>>(), set(receivers));
        assert!(woken.iter().all(|woken| (woken.position, woken.first) == (1, None)));
        is_next(&subject, name, &mut *wakes).await;
    }
}

pub async fn wake_carries_small_entries(subject: Subject) {
    subject.begin("a", 8, &[("g9", 56)]).await;
    let entry = |length: usize| Bytes::from(vec![b'x'; length]);
    let most = InboxLimits::default().wake_bytes;
    for (last, lengths, carried) in
        [(57, &[most, 9][..], 1), (58, &[1, most - 1], 2), (59, &[9, most + 1], 0)]
    {
        let entries = lengths.iter().map(|length| entry(*length)).collect();
        let sent = SentMessages { entries, ..sent("g9", last) };
        let fanned = subject.keeper.fan_out(&sent, &[user(8)]).await;
        let [NodeWake { wake: Wake::Messages { sent, woken, .. }, .. }] = &fanned.wakes[..] else { panic!() };
        assert_eq!((sent.entries.len(), sent.last), (carried, last));
        assert_eq!(woken[0].first, Some(last));
    }
}

pub async fn signal_leaves_no_entry(subject: Subject) {
    let generation = subject.begin("a", 8, &[("g9", 56)]).await;
    let mut wakes = subject.wakes("a").await;
    let signal = Bytes::from_static(b"\xfftyping");
    let wake = Wake::Signal { user: user(8), signal };
    subject.keeper.publish(&[NodeWake { node: node("a"), wake: wake.clone() }]).await.unwrap();
    assert_eq!(next_event(&mut *wakes).await, WakeEvent::Wake(wake));
    assert!(subject.entries(8, generation, 0).await.is_empty());
    assert_eq!(subject.open("a", 8).await.position, 0);
}

pub async fn users_with_receivers_are_found_among_many(subject: Subject) {
    for (name, id) in [("a", 8), ("b", 8), ("a", 24), ("a", 25)] {
        subject.open(name, id).await;
    }
    subject.keeper.close(&node("a"), user(25)).await.unwrap();
    let users: Vec<_> = (1..=1_200).map(user).collect();
    let expected = [(user(8), vec![node("a"), node("b")]), (user(24), vec![node("a")])];
    assert_eq!(subject.keeper.receiving(&users).await.unwrap(), BTreeMap::from(expected));
    assert!(subject.keeper.receiving(&[user(7), user(25)]).await.unwrap().is_empty());
    assert!(subject.keeper.receiving(&[]).await.unwrap().is_empty());
}

pub async fn closed_node_is_not_woken(subject: Subject) {
    let generation = subject.begin("a", 8, &[("g9", 56)]).await;
    subject.open("b", 8).await;
    subject.keeper.close(&node("a"), user(8)).await.unwrap();
    assert_eq!(nodes_of(&subject.fan("g9", 57, &[8]).await.wakes), [node("b")]);
    subject.keeper.close(&node("b"), user(8)).await.unwrap();
    let fanned = subject.fan("g9", 58, &[8]).await;
    assert!(fanned.wakes.is_empty() && fanned.without_receiver == [user(8)]);
    // A repeated one says the same, so that none is forgotten.
    assert_eq!(subject.fan("g9", 58, &[8]).await.without_receiver, [user(8)]);
    assert_eq!(subject.entries(8, generation, 0).await.len(), 2, "the inbox goes on");
    assert_eq!(subject.open("a", 8).await.generation, generation);
}

pub async fn node_is_opened_once(subject: Subject) {
    let first = subject.open("a", 8).await;
    assert_eq!(subject.open("a", 8).await, first, "renewed");
    assert_eq!(nodes_of(&subject.fan("g9", 57, &[8]).await.wakes), [node("a")]);
    subject.keeper.close(&node("a"), user(8)).await.unwrap();
    assert!(subject.fan("g9", 58, &[8]).await.wakes.is_empty());
}

pub async fn note_wakes_every_node(subject: Subject) {
    let generation = subject.begin("a", 8, &[("g9", 56)]).await;
    subject.open("b", 8).await;
    subject.fan("g9", 57, &[8]).await;
    let wakes = subject.keeper.note(user(8), Note::ContactAdded { user: user(7) }).await.unwrap();
    assert_eq!(nodes_of(&wakes), [node("a"), node("b")]);
    let expected = Wake::Entries { user: user(8), generation, position: 2 };
    assert!(wakes.iter().all(|wake| wake.wake == expected));
}

pub async fn registered_nodes_are_named(subject: Subject) {
    let logs = [log("g9"), log("g10")];
    assert!(subject.keeper.registered(logs[0]).await.unwrap().is_empty());
    for name in ["a", "b", "a"] {
        subject.keeper.register(&node(name), &logs).await.unwrap();
    }
    subject.keeper.register(&node("c"), &logs[1..]).await.unwrap();
    let registered = async |index: usize| set(&subject.keeper.registered(logs[index]).await.unwrap());
    assert_eq!(registered(0).await, set(&[node("a"), node("b")]));
    assert_eq!(registered(1).await, set(&[node("a"), node("b"), node("c")]));
    assert_eq!(subject.keeper.registered(logs[0]).await.unwrap().len(), 2, "each once");
}

pub async fn wake_is_for_its_node(subject: Subject) {
    let (mut of_a, mut of_b) = (subject.wakes("a").await, subject.wakes("b").await);
    let sent = sent("g9", 57);
    let wakes = ["a", "b"].map(|name| NodeWake { node: node(name), wake: Wake::Conversation(sent.clone()) });
    subject.keeper.publish(&wakes).await.unwrap();
    for wakes in [&mut of_a, &mut of_b] {
        assert_eq!(next_event(&mut **wakes).await, WakeEvent::Wake(Wake::Conversation(sent.clone())));
    }
    subject.keeper.publish(&[]).await.unwrap();
    is_next(&subject, "b", &mut *of_b).await;
    is_next(&subject, "a", &mut *of_a).await;
}
