//! A first attempt that a deposed primary applied, and that is lost with it. No majority read has seen it.

use kith_store::{Appended, MessageStore as _};

use super::{
    batch, log, messages, new,
    stage::{Stage, fill},
};

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn push_after_rollback_is_the_first_append() {
    Stage::<1>::run(async |stage| {
        let [node] = &stage.nodes;
        fill(node, &batch("before", 7)).await;
        let lost = messages(["a", "b"]);
        fill(node, &lost).await;
        stage.cut(0, 7).await;
        assert_eq!(node.append(log(), &messages(["x"])).await.unwrap(), new([8]));
        assert_eq!(node.append(log(), &lost).await.unwrap(), new([9, 10]));
        assert_eq!(stage.ids(8, 10).await, ["x", "a", "b"]);
    })
    .await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn document_is_made_again_after_rollback() {
    Stage::<1>::run(async |stage| {
        let [node] = &stage.nodes;
        fill(node, &batch("before", 97)).await;
        let ten = batch("ten", 10);
        fill(node, &ten).await;
        // The node has a hint to the document that is gone, and the document before is not full any more.
        stage.delete(1).await;
        stage.cut(0, 98).await;
        assert_eq!(node.append(log(), &ten[1..]).await.unwrap(), new(99..=107));
        let again: Vec<Appended> = node.append(log(), &ten).await.unwrap();
        assert_eq!(again, (98..=107).map(super::replayed).collect::<Vec<_>>());
        assert_eq!(stage.sizes().await, [(0, 100), (1, 7)]);
    })
    .await;
}
