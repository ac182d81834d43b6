//! Scripts: one step comes between two others (interleavings 3, 4, 5, 9, 11, 13, and what belongs to them).

use kith_cache::remote::address;

use crate::{
    holds::{Call, Direction},
    store::Versions,
    truth::{Id, LIST, ONE},
    wire::Link,
    world::{World, sleep_ms},
};

/// Interleaving 3: the answer if reads asked the primary alone, and if they ask the majority.
#[tokio::test(start_paused = true)]
async fn reused_version_hides_no_majority_state() {
    assert_eq!(rolled_back(false).await, Some(99), "without the rule a lost state stays");
    assert_eq!(rolled_back(true).await, Some(2));
}

/// The state that a node reads after the store fell back behind a state that it had not acknowledged.
async fn rolled_back(majority: bool) -> Option<u64> {
    let (world, [a, b]) = World::scripted().await;
    a.put(ONE).await.unwrap();
    world.evict(ONE);
    world.store.set_primary_only((!majority).then_some((ONE, 99, 2)));
    b.read(ONE).await;
    world.store.set_primary_only(None);
    a.put(ONE).await.unwrap();
    sleep_ms(1).await;
    b.read(ONE).await
}

/// Interleaving 4.
#[tokio::test(start_paused = true)]
async fn delayed_writer_value_leaves_nothing() {
    let (world, [a, c]) = World::scripted().await;
    a.put(ONE).await.unwrap();
    let (publishing, second) = c.held(Call::Change, Direction::Request, |c| c.puts(ONE)).await;
    a.put(ONE).await.unwrap();
    world.evict(ONE);
    publishing.open();
    second.await.unwrap();
    let late = world.start();
    sleep_ms(300).await;
    assert_eq!(late.read(ONE).await, Some(3));
}

/// Interleaving 4: a tomb is respected, and where there is none any more the fill leaves nothing.
#[tokio::test(start_paused = true)]
async fn paused_fill_replaces_no_newer_version() {
    assert_eq!(paused_fill(false).await, Some(3));
    assert_eq!(paused_fill(true).await, Some(3), "evicted");
}

/// The state that a node reads when version 2 is filled after version 3 was published and forgotten.
async fn paused_fill(gone: bool) -> Option<u64> {
    let (world, [a, b, c]) = World::scripted().await;
    a.put(ONE).await.unwrap();
    world.evict(ONE);
    let (publishing, second) = c.held(Call::Change, Direction::Request, |c| c.puts(ONE)).await;
    let (fill, reading) = b.held(Call::Fill, Direction::Request, |b| b.reads(ONE)).await;
    a.put(ONE).await.unwrap();
    world.evict(ONE);
    publishing.open();
    second.await.unwrap();
    if gone {
        world.evict(ONE);
    }
    fill.open();
    reading.await.unwrap();
    let late = world.start();
    sleep_ms(300).await;
    late.read(ONE).await
}

#[tokio::test(start_paused = true)]
async fn load_does_not_fill_under_lease_of_another() {
    let (world, [a, b, c]) = World::scripted().await;
    a.put(LIST).await.unwrap();
    let (fill, first) = b.held(Call::Fill, Direction::Request, |b| b.reads(LIST)).await;
    a.put(LIST).await.unwrap();
    let (load, second) = c.held(Call::Load, Direction::Request, |c| c.reads(LIST)).await;
    fill.open();
    first.await.unwrap();
    let late = world.start();
    sleep_ms(300).await;
    assert_eq!(late.read(LIST).await, Some(2));
    load.open();
    assert_eq!(second.await.unwrap(), Some(2));
}

/// Interleaving 5: what versions by clocks would do, and what lists without versions do.
#[tokio::test(start_paused = true)]
async fn two_nodes_whose_clocks_differ_change_one_list() {
    assert_eq!(clocks(ONE).await, Some(2), "without the rule the later change is taken for the earlier");
    assert_eq!(clocks(LIST).await, Some(3));
}

/// The state that a node reads after two changes, where the later change uses a clock that is behind.
async fn clocks(id: Id) -> Option<u64> {
    let (world, [a, b, c]) = World::scripted().await;
    world.store.clock(1_000);
    a.put(id).await.unwrap();
    c.read(id).await;
    world.store.clock(2_005);
    a.put(id).await.unwrap();
    sleep_ms(1).await;
    c.read(id).await;
    world.store.clock(2_000);
    b.put(id).await.unwrap();
    sleep_ms(1).await;
    c.read(id).await
}

/// Interleaving 9.
#[tokio::test(start_paused = true)]
async fn load_before_baseline_is_not_kept() {
    let (world, [a]) = World::scripted().await;
    a.put(ONE).await.unwrap();
    let b = world.start();
    let mut subscribe = b.holds.hold(Call::Subscribe, Direction::Request);
    let mut load = b.holds.hold(Call::Load, Direction::Response);
    let reading = b.reads(ONE);
    subscribe.entered().await;
    load.entered().await;
    a.put(ONE).await.unwrap();
    subscribe.open();
    sleep_ms(10).await;
    assert!(b.node.trusted());
    load.open();
    assert_eq!(reading.await.unwrap(), Some(1), "it began before the write");
    assert_eq!(b.read(ONE).await, Some(2));
}

/// Interleaving 11.
#[tokio::test(start_paused = true)]
async fn late_write_of_unknown_outcome_is_seen() {
    let (world, [a, b]) = World::scripted().await;
    a.put(ONE).await.unwrap();
    let guard = a.cache(ONE.0).begin_write(&[ONE.1]).await;
    guard.unknown().await.unwrap();
    sleep_ms(1_000).await;
    assert_eq!(b.read(ONE).await, Some(1));
    world.store.apply_write(ONE, true);
    sleep_ms(4_100).await;
    assert_eq!(b.read(ONE).await, Some(2));
}

/// Interleaving 13: the answer if the store forgets versions, and if it keeps stubs.
#[tokio::test(start_paused = true)]
async fn recreated_record_is_seen_by_a_late_node() {
    assert_eq!(
        made_again(Versions::Forgotten).await,
        None,
        "without the rule the new one has the older version"
    );
    assert_eq!(made_again(Versions::Stub).await, Some(4));
}

/// The state that a node reads when it was long behind.
async fn made_again(versions: Versions) -> Option<u64> {
    let (world, [a, b]) = World::scripted().await;
    world.store.versions(versions);
    a.put(ONE).await.unwrap();
    a.put(ONE).await.unwrap();
    b.read(ONE).await;
    // The loaded copy is left in the shared tier without its reader.
    sleep_ms(1).await;
    b.wire.set(Link::Stalled);
    a.write(&[ONE], false).await.unwrap();
    a.put(ONE).await.unwrap();
    sleep_ms(20_000).await;
    b.wire.set(Link::Up);
    sleep_ms(3_000).await;
    b.read(ONE).await
}

#[tokio::test(start_paused = true)]
async fn fill_from_before_a_change_does_not_stay() {
    let (_world, [a, b]) = World::scripted().await;
    a.put(LIST).await.unwrap();
    let (fill, reading) = b.held(Call::Fill, Direction::Response, |b| b.reads(LIST)).await;
    a.put(LIST).await.unwrap();
    sleep_ms(1).await;
    fill.open();
    reading.await.unwrap();
    assert_eq!(b.read(LIST).await, Some(2));
}

#[tokio::test(start_paused = true)]
async fn fill_from_before_unknown_write_does_not_stay() {
    let (world, [a, b]) = World::scripted().await;
    a.put(ONE).await.unwrap();
    world.evict(ONE);
    let (fill, reading) = b.held(Call::Fill, Direction::Response, |b| b.reads(ONE)).await;
    let guard = a.cache(ONE.0).begin_write(&[ONE.1]).await;
    world.store.apply_write(ONE, true);
    guard.unknown().await.unwrap();
    sleep_ms(1).await;
    fill.open();
    reading.await.unwrap();
    assert_eq!(b.read(ONE).await, Some(2));
}

#[tokio::test(start_paused = true)]
async fn memory_keeps_nothing_refused_by_shared_tier() {
    let (world, [a, b]) = World::scripted().await;
    a.put(ONE).await.unwrap();
    a.put(ONE).await.unwrap();
    // Version 2 is known, and a member of the store lags.
    sleep_ms(1).await;
    world.store.lag(ONE, 1);
    b.read(ONE).await;
    assert_eq!(b.read(ONE).await, Some(2));
    let late = world.start();
    sleep_ms(300).await;
    assert_eq!(late.read(ONE).await, Some(2), "nor does the shared tier");
}

#[tokio::test(start_paused = true)]
async fn read_after_ack_joins_no_older_load() {
    let (_world, [a, _b]) = World::with_cached(LIST).await;
    let (change, writing) = a.held(Call::Change, Direction::Request, |a| a.puts(LIST)).await;
    a.wire.lose_entries(1);
    let (read, early) = a.held(Call::Read, Direction::Response, |a| a.reads(LIST)).await;
    change.open();
    assert_eq!(writing.await.unwrap(), Some(2));
    assert_eq!(a.node.applied(), 1, "it has not received its own change yet");
    let later = a.reads(LIST);
    sleep_ms(1).await;
    read.open();
    assert_eq!(early.await.unwrap(), Some(1), "it began before");
    assert_eq!(later.await.unwrap(), Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_value_is_written_through() {
    let (_world, [a, b]) = World::with_cached(ONE).await;
    // The loaded copy is left in the shared tier without its reader.
    sleep_ms(1).await;
    let loads = b.loads(ONE.0);
    a.put(ONE).await.unwrap();
    sleep_ms(1).await;
    assert_eq!(b.read(ONE).await, Some(2));
    assert_eq!(b.loads(ONE.0), loads, "the store was not asked");
}

#[tokio::test(start_paused = true)]
async fn addresses_differ_by_namespace_and_epoch() {
    assert_ne!(address(1, "thing", &1), address(1, "list", &1));
    assert_ne!(address(1, "thing", &1), address(2, "thing", &1));
}
