//! Calls of receipts as tests make them.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "every test file uses a part; a test may panic"
)]

use kith_proto::{
    group::v1::{self as groups, ReceiptVisibility},
    receipt::v1::{receipt::Who, receipt_result::Result as Found, *},
};
use tonic::Status;

use crate::node::{TestNode, principal};

/// For requests of a service: 0 as `by`.
pub const SERVICE: i64 = 0;

fn on_behalf<T>(by: i64, message: T) -> tonic::Request<T> {
    if by == SERVICE { tonic::Request::new(message) } else { principal(by, message) }
}

pub fn to_get(id: &str, seq: i64) -> GetReceiptRequest {
    GetReceiptRequest { conversation_id: id.to_owned(), seq, ..Default::default() }
}

pub async fn get(node: &TestNode, by: i64, request: GetReceiptRequest) -> Result<Receipt, Status> {
    Ok(node.receipts().get_receipt(on_behalf(by, request)).await?.into_inner().receipt.unwrap())
}

/// How many have read a message, have not, and left.
pub async fn counts(node: &TestNode, by: i64, id: &str, seq: i64) -> Result<[i64; 3], Status> {
    let receipt = get(node, by, to_get(id, seq)).await?;
    assert_eq!((receipt.seq, receipt.who), (seq, None));
    Ok([receipt.read, receipt.unread, receipt.left])
}

/// The bits of a message, as a service reads them.
pub async fn bits(node: &TestNode, id: &str, seq: i64) -> Vec<u8> {
    let request = GetReceiptRequest { form: ReceiptForm::Bits.into(), ..to_get(id, seq) };
    match get(node, SERVICE, request).await.unwrap().who {
        Some(Who::Packed(packed)) => packed,
        other => panic!("no bits: {other:?}"),
    }
}

/// The receipts of some messages; or the reasons why there is none.
pub async fn batch(
    node: &TestNode,
    by: i64,
    id: &str,
    seqs: &[i64],
) -> Result<Vec<Result<[i64; 3], String>>, Status> {
    let conversation_id = id.to_owned();
    let request = BatchGetReceiptsRequest { conversation_id, seqs: seqs.to_vec(), ..Default::default() };
    let results = node.receipts().batch_get_receipts(on_behalf(by, request)).await?.into_inner().results;
    assert_eq!(results.iter().map(|result| result.seq).collect::<Vec<_>>(), seqs);
    let found = |result: ReceiptResult| match result.result.unwrap() {
        Found::Receipt(receipt) => Ok([receipt.read, receipt.unread, receipt.left]),
        Found::Error(error) => Err(error.reason),
    };
    Ok(results.into_iter().map(found).collect())
}

/// A page of the users who have read a message, and the token of the next one.
pub async fn readers(
    node: &TestNode,
    by: i64,
    id: &str,
    seq: i64,
    (page_size, page_token): (i32, &str),
) -> Result<(Vec<i64>, String), Status> {
    let request = ListReadersRequest {
        conversation_id: id.to_owned(),
        seq,
        page_size,
        page_token: page_token.to_owned(),
        ..Default::default()
    };
    let page = node.receipts().list_readers(on_behalf(by, request)).await?.into_inner();
    Ok((page.user_ids, page.next_page_token))
}

/// Who has read a message, has not, and has left: all of them, in pages of two.
pub async fn lists(node: &TestNode, by: i64, id: &str, seq: i64) -> Result<[Vec<i64>; 3], Status> {
    let mut lists = [Vec::new(), Vec::new(), Vec::new()];
    for (at, list) in lists.iter_mut().enumerate() {
        let mut page_token = String::new();
        loop {
            let (conversation_id, page_size) = (id.to_owned(), 2);
            let (user_ids, next) = match at {
                0 => readers(node, by, id, seq, (page_size, &page_token)).await?,
                1 => {
                    let request = ListUnreadRequest {
                        conversation_id,
                        seq,
                        page_size,
                        page_token,
                        ..Default::default()
                    };
                    let page = node.receipts().list_unread(on_behalf(by, request)).await?.into_inner();
                    (page.user_ids, page.next_page_token)
                }
                _ => {
                    let request =
                        ListLeftRequest { conversation_id, seq, page_size, page_token, ..Default::default() };
                    let page = node.receipts().list_left(on_behalf(by, request)).await?.into_inner();
                    (page.user_ids, page.next_page_token)
                }
            };
            list.extend(user_ids);
            if next.is_empty() {
                break;
            }
            page_token = next;
        }
    }
    Ok(lists)
}

/// All users of a conversation in the order of their ordinals, and whether each has left.
pub async fn ordinals(node: &TestNode, by: i64, id: &str) -> Result<Vec<(i64, bool)>, Status> {
    let (mut found, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = ListOrdinalsRequest { conversation_id: id.to_owned(), page_size: 2, page_token };
        let page = node.receipts().list_ordinals(on_behalf(by, request)).await?.into_inner();
        for user in page.users {
            assert_eq!(user.ordinal, i64::try_from(found.len()).unwrap());
            found.push((user.user_id, user.left));
        }
        if page.next_page_token.is_empty() {
            return Ok(found);
        }
        page_token = page.next_page_token;
    }
}

/// Sets which users see receipts of a group.
pub async fn show(node: &TestNode, group_id: i64, receipts: ReceiptVisibility) {
    let group = groups::Group { group_id, receipts: receipts.into(), ..Default::default() };
    let update_mask = Some(prost_types::FieldMask { paths: vec!["receipts".to_owned()] });
    let request = groups::UpdateGroupRequest { group: Some(group), update_mask, ..Default::default() };
    let group = node.groups().update_group(request).await.unwrap().into_inner().group.unwrap();
    assert_eq!(group.receipts(), receipts);
}
