//! A user in an answer, encoded directly: a message would first allocate each of its texts. Equal to what
//! [`super::convert::to_wire`] returns.

use kith_proto::{Fields, user::v1::GetUserResponse};
use kith_store::User;

use super::{UserRules, convert::Viewer};
use crate::rpc::versions::write_time;

/// The bytes for all fields except the texts, and for the tag and length before each text.
const ROOM: usize = 160;

/// The answer with this user, as `viewer` may see it.
pub(super) fn answer(user: &User, viewer: Viewer, rules: &UserRules) -> GetUserResponse {
    let texts = user.user_name.len() + user.nick_name.len() + user.email.len() + user.phone.len();
    let bytes =
        ROOM + texts + user.region.len() + user.icon.len() + user.params.bytes() + 8 * user.params.len();
    GetUserResponse::written(bytes, |fields| write(fields, user, viewer, rules))
}

fn write(fields: &mut Fields<'_>, user: &User, viewer: Viewer, rules: &UserRules) {
    fields.number(1, user.id.get());
    fields.string(2, &user.user_name);
    fields.string(3, &user.nick_name);
    if viewer.sees_contact(user.id) {
        fields.string(4, &user.email);
        fields.string(5, &user.phone);
    }
    fields.number(6, i64::from(user.gender as u8));
    fields.number(7, user.age.into());
    fields.string(8, &user.region);
    fields.string(9, &user.icon);
    for (name, value) in user.params.iter().filter(|(name, _)| viewer.sees_param(name, rules)) {
        fields.message(10, |fields| {
            fields.string(1, name);
            fields.string(2, value);
        });
    }
    fields.number(11, user.version.get());
    fields.message(12, |fields| write_time(fields, user.created));
    fields.message(13, |fields| write_time(fields, user.updated));
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, num::NonZeroU32, time::Duration};

    use kith_store::{Gender, Params, Timestamp, UserId, Version};
    use prost::Message as _;

    use tokio::time::Instant;

    use super::{super::convert::to_wire, *};
    use crate::rpc::{
        call::{Call, Principal},
        rights::Rights,
    };

    fn ann() -> User {
        let params = [("lang", "en".to_owned()), ("note", "x".repeat(300)), ("unset", String::new())];
        User {
            id: UserId::new(7).unwrap(),
            version: Version::FIRST,
            user_name: "ann".into(),
            nick_name: "".into(),
            email: "ann@example.org".into(),
            phone: "+49123456789".into(),
            gender: Gender::Female,
            age: 30,
            region: "Leipzig".into(),
            icon: "https://example.org/ann.png".into(),
            params: Params::new(params.map(|(name, value)| (name.to_owned(), value)).into()).unwrap(),
            created: Timestamp(1_700_000_000_123),
            updated: Timestamp(1_700_000_000_000),
        }
    }

    fn rules() -> UserRules {
        UserRules {
            reserved_names: Vec::new(),
            name_kept: Duration::ZERO,
            secret_params: BTreeSet::from(["note".to_owned()]),
            user_params: BTreeSet::from(["lang".to_owned(), "note".to_owned()]),
            tries_per_minute: NonZeroU32::MIN,
            id_block: 1,
        }
    }

    #[test]
    fn written_user_is_the_message() {
        let [other, own] = [8, 7].map(|id| Principal::User(UserId::new(id).unwrap()));
        let rules = rules();
        let call = Call::internal(Instant::now());
        let calls = [Principal::Service, own, other].map(|principal| Call { principal, ..call });
        let itself = Call { by_user: true, ..calls[1] };
        for call in [calls[0], calls[1], calls[2], itself, Call { rights: Rights::NONE, ..call }] {
            let viewer = Viewer::of(call);
            let written = answer(&ann(), viewer, &rules).encode_to_vec();
            let message = GetUserResponse::of(to_wire(&ann(), viewer, &rules)).encode_to_vec();
            assert_eq!(written, message, "{call:?}");
        }
    }
}
