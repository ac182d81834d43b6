//! Bad sequence input: the same code and field by gRPC and by JSON, and nothing reserved.

use kith_proto::sequence::v1::{GetMaxSeqsRequest, ReserveSeqsRequest};
use serde_json::json;

use super::{assert_field_refused, called};
use crate::node::TestNode;

const RESERVE: &str = "/kith.sequence.v1.SequenceService/ReserveSeqs";
const MAX: &str = "/kith.sequence.v1.SequenceService/GetMaxSeqs";

#[tokio::test]
async fn wrong_names_and_numbers_are_refused() {
    let node = TestNode::start().await;
    let long = "a".repeat(65);
    for name in ["", " ", "a b", "a/b", "a{b}", "a}b", "$a", "ä", "a\n", "a\0", "ａ", "a\u{200B}", &long] {
        let why = "must be 1 to 64 of A-Z a-z 0-9 _ - . :";
        assert_field_refused(&node, RESERVE, &json!({ "name": name, "count": 1 }), "name", why).await;
        assert_field_refused(&node, MAX, &json!({ "names": ["a", name] }), "names", why).await;
    }
    node.assert_healthy().await;
    let above = 1_i64 << 52;
    for count in [0, -1, 1_001, i32::MAX, i32::MIN] {
        let body = json!({ "name": "a", "count": count });
        assert_field_refused(&node, RESERVE, &body, "count", "must be from 1 to 1000").await;
    }
    for above in [-1, above + 1, i64::MAX, i64::MIN] {
        let body = json!({ "name": "a", "count": 1, "above": above.to_string() });
        assert_field_refused(&node, RESERVE, &body, "above", "must be from 0 to 4503599627370496").await;
    }
    assert_field_refused(&node, RESERVE, &json!({ "name": "a" }), "count", "must be").await;
    assert_field_refused(&node, RESERVE, &json!({}), "name", "must be").await;
    let nothing = called(&node, MAX, &json!({ "names": ["a"] })).await;
    assert_eq!(nothing.answer, json!({ "maxSeqs": [{ "name": "a" }] }), "nothing was reserved");
    node.assert_healthy().await;
}

#[tokio::test]
async fn calls_at_the_limits_are_taken() {
    let node = TestNode::start().await;
    let name = "aZ09_-.:".repeat(8);
    let request = ReserveSeqsRequest { name: name.clone(), count: 1_000, above: 1 << 52 };
    let ranges = node.sequences().reserve_seqs(request).await.unwrap().into_inner().ranges;
    assert_eq!((ranges[0].first, ranges[0].last), ((1 << 52) + 1, (1 << 52) + 1_000));
    let names = vec![name.clone(); 100];
    let found = node.sequences().get_max_seqs(GetMaxSeqsRequest { names }).await.unwrap().into_inner();
    assert!(found.max_seqs.len() == 100 && found.max_seqs.iter().all(|max| max.name == name));
    let none = node.sequences().get_max_seqs(GetMaxSeqsRequest::default()).await.unwrap().into_inner();
    assert_eq!(none.max_seqs, []);
}
