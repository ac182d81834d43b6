//! Others interfere between an append's commands, on a real server.

use std::time::Duration;

use kith_store::{Appended, MessageStore as _, SUCCESSOR_AGE};

use super::{
    batch, log, messages, new, replayed,
    stage::{BeforeCommand, InterleavedNode, Stage, fill},
};

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn document_that_two_nodes_make_is_made_once() {
    Stage::<2>::run(async |stage| {
        let [one, other] = &stage.nodes;
        fill(one, &batch("before", 99)).await;
        let meanwhile = messages(["x"]);
        let late = InterleavedNode::new(one, [(BeforeCommand::Make, Box::pin(fill(other, &meanwhile)))]);
        let appended = late.append(&messages(["a", "b", "c"])).await.unwrap();
        assert_eq!(appended, new([100, 102, 103]));
        assert_eq!(stage.ids(100, 100).await, ["a"]);
        assert_eq!(stage.ids(101, 200).await, ["x", "b", "c"]);
    })
    .await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn document_takes_as_many_as_there_is_room_for() {
    Stage::<1>::run(async |stage| {
        let [node] = &stage.nodes;
        fill(node, &batch("before", 97)).await;
        let ten = batch("ten", 10);
        assert_eq!(node.append(log(), &ten).await.unwrap(), new(98..=107));
        assert_eq!(stage.sizes().await, [(0, 100), (1, 7)]);
        let ids: Vec<String> = (1..=10).map(|number| format!("ten-{number}")).collect();
        assert_eq!(stage.ids(98, 100).await, ids[..3]);
        assert_eq!(stage.ids(101, 107).await, ids[3..]);
    })
    .await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn size_at_the_push_decides_the_numbers() {
    Stage::<2>::run(async |stage| {
        let [one, other] = &stage.nodes;
        fill(one, &batch("before", 90)).await;
        let meanwhile = batch("meanwhile", 7);
        let late = InterleavedNode::new(one, [(BeforeCommand::Push, Box::pin(fill(other, &meanwhile)))]);
        assert_eq!(late.append(&batch("ten", 10)).await.unwrap(), new(98..=107));
        assert_eq!(stage.sizes().await, [(0, 100), (1, 7)]);
    })
    .await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn batch_repeated_over_a_border_is_kept_once() {
    Stage::<2>::run(async |stage| {
        let [one, other] = &stage.nodes;
        fill(one, &batch("before", 97)).await;
        let ten = batch("ten", 10);
        fill(one, &ten).await;
        let expected: Vec<Appended> = (98..=107).map(replayed).collect();
        for node in [one, other] {
            assert_eq!(node.append(log(), &ten).await.unwrap(), expected);
        }
        assert_eq!(stage.sizes().await, [(0, 100), (1, 7)]);
    })
    .await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn batch_repeated_in_one_document_is_kept_once() {
    Stage::<2>::run(async |stage| {
        let [one, other] = &stage.nodes;
        let three = batch("three", 3);
        fill(one, &three).await;
        for node in [one, other] {
            assert_eq!(node.append(log(), &three).await.unwrap(), [1, 2, 3].map(replayed));
        }
        assert_eq!(stage.sizes().await, [(0, 3)]);
    })
    .await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn part_that_is_missing_is_appended() {
    Stage::<2>::run(async |stage| {
        let [one, other] = &stage.nodes;
        fill(one, &batch("before", 97)).await;
        let ten = batch("ten", 10);
        // The node died before it made the next document, and others went on.
        fill(one, &ten[..3]).await;
        fill(other, &messages(["x"])).await;
        let expected = [(98..=100).map(replayed).collect(), new(102..=108)].concat();
        assert_eq!(other.append(log(), &ten).await.unwrap(), expected);
        assert_eq!(stage.sizes().await, [(0, 100), (1, 8)]);
    })
    .await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn id_in_concurrent_later_document_is_a_replay() {
    Stage::<2>::run(async |stage| {
        let [one, other] = &stage.nodes;
        fill(one, &batch("before", 99)).await;
        let both = messages(["x", "same"]);
        let late = InterleavedNode::new(one, [(BeforeCommand::Make, Box::pin(fill(other, &both)))]);
        let appended = late.append(&messages(["a", "same", "b"])).await.unwrap();
        assert_eq!(appended, [Appended::New(100), replayed(102), Appended::New(103)]);
        assert_eq!(stage.sizes().await, [(0, 100), (1, 3)]);
    })
    .await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn id_in_an_earlier_document_is_a_replay() {
    Stage::<2>::run(async |stage| {
        let [one, other] = &stage.nodes;
        fill(one, &batch("before", 99)).await;
        fill(other, &messages(["same"])).await;
        // Refused: to make the next document, to push into it, and by a hint to the earlier document.
        for (node, later) in [(other, "a"), (other, "b"), (one, "c")] {
            let appended = node.append(log(), &messages(["same", later])).await.unwrap();
            assert_eq!(appended[0], replayed(100));
        }
        assert_eq!(stage.sizes().await, [(0, 100), (1, 3)]);
    })
    .await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn other_content_under_an_id_is_refused() {
    Stage::<1>::run(async |stage| {
        let [node] = &stage.nodes;
        fill(node, &[messages(["first"]), batch("m", 99), messages(["last"])].concat()).await;
        for id in ["first", "last"] {
            let other =
                kith_store::NewMessage { hash: kith_store::ContentHash([0; 8]), ..super::message(id) };
            assert_eq!(node.append(log(), &[other]).await.unwrap(), [Appended::OtherContent]);
        }
        assert_eq!(stage.sizes().await, [(0, 100), (1, 1)]);
    })
    .await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn old_hint_leads_to_the_tail() {
    Stage::<2>::run(async |stage| {
        let [one, other] = &stage.nodes;
        fill(one, &batch("old", 1)).await;
        fill(other, &batch("new", 349)).await;
        assert_eq!(one.append(log(), &messages(["a"])).await.unwrap(), new([351]));
        assert_eq!(stage.sizes().await, [(0, 100), (1, 100), (2, 100), (3, 51)]);
    })
    .await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn hint_below_the_trimmed_part_makes_no_document() {
    Stage::<3>::run(async |stage| {
        let [partly, fully, other] = &stage.nodes;
        fill(partly, &batch("old", 99)).await;
        // The last push by `fully` filled the document, the last push by `partly` did not.
        fill(fully, &messages(["last"])).await;
        fill(other, &batch("new", 250)).await;
        stage.trim(SUCCESSOR_AGE).await;
        assert_eq!(stage.sizes().await, [(3, 50)]);
        assert_eq!(partly.append(log(), &messages(["a"])).await.unwrap(), new([351]));
        assert_eq!(fully.append(log(), &messages(["b"])).await.unwrap(), new([352]));
        assert_eq!(stage.sizes().await, [(3, 52)]);
    })
    .await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn late_insert_makes_no_removed_document() {
    Stage::<2>::run(async |stage| {
        let [one, other] = &stage.nodes;
        fill(one, &batch("before", 99)).await;
        let meanwhile = Box::pin(async {
            fill(other, &batch("meanwhile", 300)).await;
            // A node may be late by this long.
            stage.trim(Duration::from_secs(600)).await;
        });
        let late = InterleavedNode::new(one, [(BeforeCommand::Make, meanwhile)]);
        assert_eq!(late.append(&messages(["a", "b"])).await.unwrap(), new([100, 401]));
        stage.trim(SUCCESSOR_AGE).await;
        assert_eq!(stage.ids(401, 401).await, ["b"]);
    })
    .await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn ends_follow_hints_of_any_age() {
    Stage::<3>::run(async |stage| {
        let [near, far, other] = &stage.nodes;
        let end = async |node: &crate::mongo::database::Mongo| {
            let (ends, strong) = (node.ends(&[log()]).await.unwrap(), node.strong_end(log()).await.unwrap());
            assert_eq!(ends[0].seq, strong);
            strong
        };
        fill(far, &batch("first", 7)).await;
        fill(other, &batch("second", 93)).await;
        assert_eq!(end(far).await, 100, "full, and no next one");
        fill(near, &batch("third", 7)).await;
        assert_eq!(end(far).await, 107);
        fill(other, &batch("fourth", 93)).await;
        assert_eq!((end(near).await, end(far).await), (200, 200), "the next one of some is full");
        fill(other, &batch("fifth", 207)).await;
        assert_eq!(end(far).await, 407, "the next one is full, and others follow");
        for trimmed in 0..3 {
            stage.delete(trimmed).await;
        }
        assert_eq!((end(near).await, end(far).await, end(other).await), (407, 407, 407));
    })
    .await;
}
