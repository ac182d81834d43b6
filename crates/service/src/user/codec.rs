use kith_cache::remote::Codec;
use kith_store::{Gender, Timestamp, User, UserId, Version};
use prost::Message;

use crate::write::record_codec::{Param, packed_params};

/// The codec of users in the shared tier: the whole record, which has no secrets.
#[derive(Clone, Copy, Debug)]
pub(super) struct UserCodec;

/// A user as bytes. Numbers of fields are never reused; a change of meaning raises [`SCHEMA`].
#[derive(Clone, PartialEq, Message)]
struct PackedUser {
    #[prost(int64, tag = "1")]
    id: i64,
    #[prost(int64, tag = "2")]
    version: i64,
    #[prost(string, tag = "3")]
    user_name: String,
    #[prost(string, tag = "4")]
    nick_name: String,
    #[prost(string, tag = "5")]
    email: String,
    #[prost(string, tag = "6")]
    phone: String,
    #[prost(uint32, tag = "7")]
    gender: u32,
    #[prost(uint32, tag = "8")]
    age: u32,
    #[prost(string, tag = "9")]
    region: String,
    #[prost(string, tag = "10")]
    icon: String,
    #[prost(message, repeated, tag = "11")]
    params: Vec<Param>,
    #[prost(sint64, tag = "12")]
    created: i64,
    #[prost(sint64, tag = "13")]
    updated: i64,
    /// Written last, so that truncated bytes lack it.
    #[prost(bool, tag = "15")]
    whole: bool,
}

/// Version of the format; nodes with another one treat such bytes as a miss.
const SCHEMA: u16 = 1;

impl Codec<User> for UserCodec {
    fn schema(&self) -> u16 {
        SCHEMA
    }

    fn encode(&self, user: &User) -> Vec<u8> {
        PackedUser {
            id: user.id.get(),
            version: user.version.get(),
            user_name: user.user_name.to_string(),
            nick_name: user.nick_name.to_string(),
            email: user.email.to_string(),
            phone: user.phone.to_string(),
            gender: u32::from(user.gender as u8),
            age: user.age.into(),
            region: user.region.to_string(),
            icon: user.icon.to_string(),
            params: packed_params(&user.params),
            created: user.created.0,
            updated: user.updated.0,
            whole: true,
        }
        .encode_to_vec()
    }

    fn decode(&self, bytes: &[u8]) -> Option<User> {
        let packed = PackedUser::decode(bytes).ok().filter(|packed| packed.whole)?;
        Some(User {
            id: UserId::new(packed.id).ok()?,
            version: Version::new(packed.version)?,
            user_name: packed.user_name.into(),
            nick_name: packed.nick_name.into(),
            email: packed.email.into(),
            phone: packed.phone.into(),
            gender: gender(packed.gender)?,
            age: u8::try_from(packed.age).ok()?,
            region: packed.region.into(),
            icon: packed.icon.into(),
            params: packed.params.into_iter().map(Param::into_pair).collect(),
            created: Timestamp(packed.created),
            updated: Timestamp(packed.updated),
        })
    }
}

fn gender(number: u32) -> Option<Gender> {
    let all = [Gender::Unspecified, Gender::Female, Gender::Male, Gender::Other];
    all.into_iter().find(|gender| u32::from(*gender as u8) == number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::write::record_codec::tests::{assert_none_when_cut, params, text};

    fn users() -> impl Strategy<Value = User> {
        let gender =
            prop::sample::select(vec![Gender::Unspecified, Gender::Female, Gender::Male, Gender::Other]);
        let numbers = (1..=i64::MAX, 0..=i64::MAX, any::<u8>(), any::<i64>(), any::<i64>());
        let texts = [text(), text(), text(), text(), text(), text()];
        (numbers, texts, gender, params()).prop_map(
            |((id, version, age, created, updated), texts, gender, params)| {
                let [user_name, nick_name, email, phone, region, icon] = texts;
                User {
                    id: UserId::new(id).unwrap(),
                    version: Version::new(version).unwrap(),
                    user_name,
                    nick_name,
                    email,
                    phone,
                    gender,
                    age,
                    region,
                    icon,
                    params,
                    created: Timestamp(created),
                    updated: Timestamp(updated),
                }
            },
        )
    }

    proptest! {
        #[test]
        fn a_user_comes_back_as_it_was(user in users()) {
            prop_assert_eq!(UserCodec.decode(&UserCodec.encode(&user)), Some(user));
        }

        #[test]
        fn a_user_that_is_cut_off_is_none(user in users()) {
            assert_none_when_cut(&UserCodec.encode(&user), |bytes| UserCodec.decode(bytes));
        }

        #[test]
        fn bytes_of_any_kind_are_no_panic(bytes: Vec<u8>) {
            drop(UserCodec.decode(&bytes));
        }
    }

    #[test]
    fn what_no_user_can_have_is_refused() {
        assert_eq!(UserCodec.decode(b""), None, "an id of 0");
        let fine = PackedUser { id: 7, whole: true, ..PackedUser::default() };
        assert!(UserCodec.decode(&fine.encode_to_vec()).is_some());
        for wrong in [
            PackedUser { id: -7, ..fine.clone() },
            PackedUser { version: -1, ..fine.clone() },
            PackedUser { gender: 4, ..fine.clone() },
            PackedUser { age: 256, ..fine },
        ] {
            assert_eq!(UserCodec.decode(&wrong.encode_to_vec()), None, "{wrong:?}");
        }
        assert_eq!(UserCodec.decode(&[0xFF; 40]), None);
    }
}
