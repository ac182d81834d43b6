//! Tests how another node ends the receivers of a node that died; time is virtual.

use super::{
    super::abandoned::{ABANDONED_AFTER, AbandonedEnd, LargeGroups},
    announced::AnnouncingFixture,
    *,
};

/// All users are in the fixture's group.
#[derive(Debug)]
struct OneGroup;

#[async_trait]
impl LargeGroups for OneGroup {
    async fn of(&self, _: UserId) -> Result<Vec<ConversationId>, Error> {
        Ok(vec![group(9)])
    }
}

fn dead() -> NodeName {
    "dead".parse().unwrap()
}

/// A group with users 1, 2 and 4: user 4 receives on a node that dies, and had confirmed everything up to
/// now.
async fn begin() -> (AnnouncingFixture, AbandonedEnd) {
    let fixture = AnnouncingFixture::new().await;
    open_on_dead(&fixture, 4, 0).await;
    let delivery = fixture.stage.delivery.clone();
    (fixture, AbandonedEnd { delivery, groups: Arc::new(OneGroup) })
}

/// A user begins to receive on the node that dies, and confirms this entry in its inbox.
async fn open_on_dead(fixture: &AnnouncingFixture, id: i64, after: u64) {
    let keeper = &fixture.stage.keeper;
    let generation = keeper.open(&dead(), &[user(id)]).await.pop().unwrap().unwrap().generation;
    keeper.mark(user(id), generation, &[], true).await.unwrap();
    keeper.confirm(&dead(), &[ReadFrom { user: user(id), generation, after }]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn receivers_of_a_dead_node_are_named_after_15_s() {
    let (fixture, rounds) = begin().await;
    fixture.append(1).await;
    open_on_dead(&fixture, 4, 1).await;
    fixture.append(2).await;
    fixture.append(3).await;
    tokio::time::sleep(ABANDONED_AFTER - Duration::from_millis(1)).await;
    rounds.round().await.unwrap();
    assert_eq!(fixture.entered(), [], "its clients may come back");
    tokio::time::sleep(Duration::from_millis(1)).await;
    for _ in 0..2 {
        rounds.round().await.unwrap();
        assert_eq!(fixture.entered(), [(2, vec![4]), (3, vec![4])], "what was confirmed is not named");
    }
    assert_eq!(fixture.stage.keeper.abandoned(Duration::ZERO, 9).await, Ok(vec![]), "all is done");
    fixture.append(4).await;
    assert_eq!(fixture.entered()[2..], [(4, vec![4])], "it counts as a user without a receiver");
}

#[tokio::test(start_paused = true)]
async fn user_who_came_back_is_not_named() {
    let (fixture, rounds) = begin().await;
    fixture.append(1).await;
    fixture.stage.open(4).await;
    tokio::time::sleep(ABANDONED_AFTER).await;
    rounds.round().await.unwrap();
    assert_eq!(fixture.entered(), [], "the other receiver gets it");
}

#[tokio::test(start_paused = true)]
async fn what_fails_stays_for_the_next_round() {
    let (fixture, rounds) = begin().await;
    fixture.append(1).await;
    tokio::time::sleep(ABANDONED_AFTER).await;
    fixture.logs.is_away.store(true, Ordering::Relaxed);
    rounds.round().await.unwrap();
    fixture.logs.is_away.store(false, Ordering::Relaxed);
    assert_eq!(fixture.entered(), []);
    rounds.round().await.unwrap();
    assert_eq!(fixture.entered(), [(1, vec![4])]);
}

#[tokio::test(start_paused = true)]
async fn mention_in_a_large_group_is_named() {
    let (fixture, rounds) = begin().await;
    fixture.stage.members.change(3, 4, &[1, 2, 4, 5]);
    fixture.append(1).await;
    fixture.append_with(2, &[1, 4, 6], Appended::New(2)).await;
    assert_eq!(fixture.entered(), [], "it seems to receive");
    tokio::time::sleep(ABANDONED_AFTER).await;
    rounds.round().await.unwrap();
    assert_eq!(fixture.entered(), [(2, vec![4])]);
}

#[tokio::test(start_paused = true)]
async fn receivers_of_a_dead_node_go_in_turns() {
    let (fixture, rounds) = begin().await;
    for id in 5..=600 {
        open_on_dead(&fixture, id, 0).await;
    }
    tokio::time::sleep(ABANDONED_AFTER).await;
    let mut left = Vec::new();
    for _ in 0..4 {
        rounds.round().await.unwrap();
        let abandoned = fixture.stage.keeper.abandoned(Duration::ZERO, 1_000).await.unwrap();
        left.push(abandoned.first().map_or(0, |abandoned| abandoned.confirmed.len()));
    }
    assert_eq!(left, [347, 97, 0, 0]);
}
