//! Faults in published schemes for message numbers do not occur here.

use kith_proto::message::v1::{SetUserSeqRangeRequest, TrimConversationRequest, send_message_request::To};

use crate::dialog_calls::{conversation, listed};
use crate::message_calls::{fill, filled_by_service, max_seqs, pull, say, seqs, to_pull};

#[tokio::test]
async fn reading_the_end_takes_no_number() {
    let (node, ann, group) = filled_by_service(5).await;
    for _ in 0..10 {
        assert_eq!(max_seqs(&node, ann, &[&group, &group]).await, [Ok(5), Ok(5)]);
        assert_eq!(conversation(&node, ann, &group).await.unwrap().max_seq, 5);
        assert_eq!(listed(&node, ann).await[0].max_seq, 5);
    }
    assert_eq!(say(&node, ann, To::ConversationId(group), "next").await.unwrap(), 6);
}

#[tokio::test]
async fn message_leaves_the_lowest_number_as_it_is() {
    let (node, ann, group) = filled_by_service(5).await;
    let trim = TrimConversationRequest { conversation_id: group.clone(), min_seq: 4 };
    node.messages().trim_conversation(trim).await.unwrap();
    fill(&node, &group, 150).await;
    let page = pull(&node, ann, to_pull(&group, 0, 0, 1000)).await.unwrap();
    assert_eq!((page.min_seq, page.max_seq), (4, 155));
    assert_eq!(seqs(&page.messages), (4..=155).collect::<Vec<_>>());
}

#[tokio::test]
async fn highest_number_that_is_not_set_hides_nothing() {
    let (node, ann, group) = filled_by_service(5).await;
    for (max_seq, expected) in [(None, vec![1, 2, 3, 4, 5]), (Some(0), vec![]), (Some(2), vec![1, 2])] {
        let range = SetUserSeqRangeRequest {
            user_id: ann,
            conversation_id: group.clone(),
            max_seq,
            ..Default::default()
        };
        node.messages().set_user_seq_range(range).await.unwrap();
        let page = pull(&node, ann, to_pull(&group, 0, 0, 1000)).await.unwrap();
        assert_eq!(seqs(&page.messages), expected, "{max_seq:?}");
    }
}
