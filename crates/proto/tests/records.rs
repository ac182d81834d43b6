//! Import messages are decoded as the contract defines them, and never into much more than their size.

use kith_proto::{
    RECORDS_MAX,
    group::v1::{Group, ImportGroup, ImportGroupsRequest},
    user::v1::{ImportUser, ImportUsersRequest, User},
};
use prost::Message as _;

#[test]
fn records_decode_in_order_past_unknown_fields() {
    let record = |number: i64| ImportUser {
        record: number,
        user: Some(User { user_name: format!("user {number}"), ..Default::default() }),
        request_id: format!("r-{number}"),
    };
    let message = ImportUsersRequest { records: (1..=500).map(record).collect() };
    let mut bytes = message.encode_to_vec();
    assert_eq!(bytes.len(), message.encoded_len());
    // This is field 2 with three bytes.
    bytes.extend([0x12, 3, 1, 2, 3]);
    assert_eq!(ImportUsersRequest::decode(&bytes[..]).unwrap(), message);
    let groups = ImportGroupsRequest {
        records: vec![ImportGroup {
            group: Some(Group { name: "a".into(), ..Default::default() }),
            ..Default::default()
        }],
    };
    assert_eq!(ImportGroupsRequest::decode(&groups.encode_to_vec()[..]).unwrap(), groups);
}

#[test]
fn empty_records_decode_into_bounded_memory() {
    let bytes = [0x0a, 0].repeat(520_000);
    let message = ImportUsersRequest::decode(&bytes[..]).unwrap();
    assert_eq!(message.records.len(), RECORDS_MAX + 1, "enough to be refused");
    let held = message.records.capacity() * size_of::<ImportUser>();
    assert!(held < 4 << 20, "{held} bytes");
}

#[test]
fn invalid_bytes_past_the_bound_are_refused() {
    let mut bytes = [0x0a, 0].repeat(RECORDS_MAX + 10);
    bytes.extend([0x0a, 0xff]);
    ImportUsersRequest::decode(&bytes[..]).unwrap_err();
}
