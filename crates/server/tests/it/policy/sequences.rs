//! Sequence numbers for logs that are kept elsewhere.

use kith_proto::sequence::v1::{GetMaxSeqsRequest, ReserveSeqsRequest, SeqRange};

use crate::node::TestNode;

async fn reserve(node: &TestNode, name: &str, count: i32, above: i64) -> Vec<SeqRange> {
    let request = ReserveSeqsRequest { name: name.to_owned(), count, above };
    let ranges = node.sequences().reserve_seqs(request).await.unwrap().into_inner().ranges;
    assert_eq!(numbers(&ranges).len(), usize::try_from(count).unwrap(), "{ranges:?}");
    ranges
}

fn numbers(ranges: &[SeqRange]) -> Vec<i64> {
    ranges.iter().flat_map(|range| range.first..=range.last).collect()
}

async fn max(node: &TestNode, names: &[&str]) -> Vec<i64> {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    let found = node.sequences().get_max_seqs(GetMaxSeqsRequest { names }).await.unwrap();
    found.into_inner().max_seqs.into_iter().map(|max| max.max_seq).collect()
}

#[tokio::test]
async fn numbers_follow_each_other_from_one() {
    let node = TestNode::start().await;
    assert_eq!(reserve(&node, "a", 1, 0).await, [SeqRange { first: 1, last: 1 }]);
    assert_eq!(reserve(&node, "a", 5, 0).await, [SeqRange { first: 2, last: 6 }]);
    assert_eq!(reserve(&node, "b", 1, 0).await, [SeqRange { first: 1, last: 1 }]);
    assert_eq!(reserve(&node, "a", 1, 6).await, [SeqRange { first: 7, last: 7 }]);
    assert_eq!(reserve(&node, "a", 2, 12_345).await, [SeqRange { first: 12_346, last: 12_347 }]);
    assert!(max(&node, &["a", "c"]).await[0] >= 12_347, "an upper bound");
}

#[tokio::test]
async fn restarted_node_gives_out_no_number_again() {
    let node = TestNode::start_with(|config| config.sequences.block = 10).await;
    let before = numbers(&reserve(&node, "a", 25, 0).await);
    let data = node.stop().await;
    let node = TestNode::start_over(&data).await;
    let after = numbers(&reserve(&node, "a", 25, 0).await);
    assert!(after[0] > before[24], "{before:?} {after:?}");
    node.stop().await;
}
