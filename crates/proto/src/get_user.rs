//! The message that answers `GetUser`, the most frequent call.

use prost::{
    DecodeError, Message,
    bytes::{Buf, BufMut},
    encoding::{DecodeContext, WireType, message, skip_field},
};

use crate::{Fields, user::v1::User};

/// The tag of `user`, the only field in the contract.
const TAG: u32 = 1;

/// A response with one user: `message { User user = 1; }`.
///
/// A server may write the user, see [`Fields`], instead of making a message, which allocates each text. A
/// written user is on the wire, and not in `user`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GetUserResponse {
    /// The user that was requested.
    pub user: Option<User>,
    written: Vec<u8>,
}

impl GetUserResponse {
    /// Makes an answer with this user.
    #[must_use]
    pub const fn of(user: User) -> Self {
        Self { user: Some(user), written: Vec::new() }
    }

    /// Makes an answer with a user whose fields the closure writes, with room for `bytes` bytes.
    #[must_use]
    pub fn written(bytes: usize, fields: impl FnOnce(&mut Fields<'_>)) -> Self {
        let mut written = Vec::with_capacity(bytes);
        Fields::after(&mut written).message(TAG, fields);
        Self { user: None, written }
    }
}

impl Message for GetUserResponse {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        buf.put_slice(&self.written);
        if let Some(user) = &self.user {
            message::encode(TAG, user, buf);
        }
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        match tag {
            TAG => message::merge(wire_type, self.user.get_or_insert_default(), buf, context),
            _ => skip_field(wire_type, tag, buf, context),
        }
    }

    fn encoded_len(&self) -> usize {
        self.written.len() + self.user.as_ref().map_or(0, |user| message::encoded_len(TAG, user))
    }

    fn clear(&mut self) {
        self.user = None;
        self.written.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_that_was_written_is_decoded() {
        let user = User { user_id: 7, user_name: "ann".to_owned(), ..User::default() };
        let written = GetUserResponse::written(16, |fields| {
            fields.number(1, 7);
            fields.string(2, "ann");
        });
        let bytes = written.encode_to_vec();
        assert_eq!(bytes.len(), written.encoded_len());
        assert_eq!(bytes, GetUserResponse::of(user.clone()).encode_to_vec());
        assert_eq!(GetUserResponse::decode(&*bytes).unwrap(), GetUserResponse::of(user));
    }

    #[test]
    fn field_that_is_not_known_is_skipped() {
        let mut encoded = Vec::new();
        prost::encoding::int64::encode(9, &7, &mut encoded);
        assert_eq!(GetUserResponse::decode(&*encoded).unwrap(), GetUserResponse::default());
    }
}
