//! Receipt calls that tests share.

use kith_proto::{
    group::v1::{self as groups, ReceiptVisibility},
    receipt::v1::{receipt::Who, receipt_result::Result as Found, *},
};
use tonic::Status;

use crate::node::{SERVICE, TestNode, all_pages, principal, update_of_group};

pub fn to_get(id: &str, seq: i64) -> GetReceiptRequest {
    GetReceiptRequest { conversation_id: id.to_owned(), seq, ..Default::default() }
}

pub async fn get(node: &TestNode, by: i64, request: GetReceiptRequest) -> Result<Receipt, Status> {
    Ok(node.receipts().get_receipt(principal(by, request)).await?.into_inner().receipt.unwrap())
}

/// Returns how many have read a message, have not read it, and have left.
pub async fn counts(node: &TestNode, by: i64, id: &str, seq: i64) -> Result<[i64; 3], Status> {
    let receipt = get(node, by, to_get(id, seq)).await?;
    assert_eq!((receipt.seq, receipt.who), (seq, None));
    Ok([receipt.read, receipt.unread, receipt.left])
}

/// Returns a message's bits, as a service reads them.
pub async fn bits(node: &TestNode, id: &str, seq: i64) -> Vec<u8> {
    let request = GetReceiptRequest { form: ReceiptForm::Bits.into(), ..to_get(id, seq) };
    match get(node, SERVICE, request).await.unwrap().who {
        Some(Who::Packed(packed)) => packed,
        other => panic!("no bits: {other:?}"),
    }
}

/// Returns the receipts for some messages, or the reasons why there are none.
pub async fn batch(
    node: &TestNode,
    by: i64,
    id: &str,
    seqs: &[i64],
) -> Result<Vec<Result<[i64; 3], String>>, Status> {
    let conversation_id = id.to_owned();
    let request = BatchGetReceiptsRequest { conversation_id, seqs: seqs.to_vec(), ..Default::default() };
    let results = node.receipts().batch_get_receipts(principal(by, request)).await?.into_inner().results;
    assert_eq!(results.iter().map(|result| result.seq).collect::<Vec<_>>(), seqs);
    let found = |result: ReceiptResult| match result.result.unwrap() {
        Found::Receipt(receipt) => Ok([receipt.read, receipt.unread, receipt.left]),
        Found::Error(error) => Err(error.reason),
    };
    Ok(results.into_iter().map(found).collect())
}

/// Returns a page with users who have read a message, and the next page's token.
pub async fn readers(
    node: &TestNode,
    by: i64,
    id: &str,
    seq: i64,
    page_size: i32,
    page_token: &str,
) -> Result<(Vec<i64>, String), Status> {
    let request = ListReadersRequest {
        conversation_id: id.to_owned(),
        seq,
        page_size,
        page_token: page_token.to_owned(),
        ..Default::default()
    };
    let page = node.receipts().list_readers(principal(by, request)).await?.into_inner();
    Ok((page.user_ids, page.next_page_token))
}

/// Returns the users who have read a message, have not read it, and have left, in pages of two.
pub async fn lists(node: &TestNode, by: i64, id: &str, seq: i64) -> Result<[Vec<i64>; 3], Status> {
    let mut receipts = node.receipts();
    let read = all_pages(async |token| readers(node, by, id, seq, 2, &token).await).await?;
    let unread = all_pages(async |page_token| {
        let (conversation_id, page_size) = (id.to_owned(), 2);
        let request = ListUnreadRequest { conversation_id, seq, page_size, page_token, ..Default::default() };
        let page = receipts.list_unread(principal(by, request)).await?.into_inner();
        Ok((page.user_ids, page.next_page_token))
    });
    let unread = unread.await?;
    let left = all_pages(async |page_token| {
        let (conversation_id, page_size) = (id.to_owned(), 2);
        let request = ListLeftRequest { conversation_id, seq, page_size, page_token, ..Default::default() };
        let page = receipts.list_left(principal(by, request)).await?.into_inner();
        Ok((page.user_ids, page.next_page_token))
    });
    Ok([read, unread, left.await?])
}

/// Returns all users in a conversation in ordinal order, and whether each has left.
pub async fn ordinals(node: &TestNode, by: i64, id: &str) -> Result<Vec<(i64, bool)>, Status> {
    let users = all_pages(async |page_token| {
        let request = ListOrdinalsRequest { conversation_id: id.to_owned(), page_size: 2, page_token };
        let page = node.receipts().list_ordinals(principal(by, request)).await?.into_inner();
        Ok((page.users, page.next_page_token))
    });
    let users = users.await?;
    assert!(users.iter().map(|user| user.ordinal).eq(0..i64::try_from(users.len()).unwrap()));
    Ok(users.into_iter().map(|user| (user.user_id, user.left)).collect())
}

/// Sets which users see a group's receipts.
pub async fn show(node: &TestNode, group_id: i64, receipts: ReceiptVisibility) {
    let group = groups::Group { group_id, receipts: receipts.into(), ..Default::default() };
    let request = update_of_group(group, &["receipts"]);
    let group = node.groups().update_group(request).await.unwrap().into_inner().group.unwrap();
    assert_eq!(group.receipts(), receipts);
}
