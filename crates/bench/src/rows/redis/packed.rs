//! Users as nodes write them down where they share them.

use kith_cache::remote::Codec;
use kith_store::{Gender, Timestamp, User, UserId, Version};
use prost::Message;

/// The same on both sides of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UserCodec;

#[derive(Clone, PartialEq, Message)]
struct Packed {
    #[prost(int64, tag = "1")]
    id: i64,
    #[prost(int64, tag = "2")]
    version: i64,
    #[prost(string, repeated, tag = "3")]
    texts: Vec<String>,
    #[prost(uint32, tag = "4")]
    age: u32,
    #[prost(string, repeated, tag = "5")]
    params: Vec<String>,
    #[prost(sint64, tag = "6")]
    created: i64,
    #[prost(sint64, tag = "7")]
    updated: i64,
}

impl Codec<User> for UserCodec {
    fn schema(&self) -> u16 {
        1
    }

    fn encode(&self, user: &User) -> Vec<u8> {
        let texts = [&user.user_name, &user.nick_name, &user.email, &user.phone, &user.region, &user.icon];
        let params = user.params.iter().flat_map(|(name, value)| [name.to_string(), value.to_string()]);
        Packed {
            id: user.id.get(),
            version: user.version.get(),
            texts: texts.map(ToString::to_string).to_vec(),
            age: user.age.into(),
            params: params.collect(),
            created: user.created.0,
            updated: user.updated.0,
        }
        .encode_to_vec()
    }

    fn decode(&self, bytes: &[u8]) -> Option<User> {
        let packed = Packed::decode(bytes).ok()?;
        let [user_name, nick_name, email, phone, region, icon] =
            <[String; 6]>::try_from(packed.texts).ok()?.map(Into::into);
        let pairs = packed.params.as_chunks::<2>().0.iter();
        Some(User {
            id: UserId::new(packed.id).ok()?,
            version: Version::new(packed.version)?,
            user_name,
            nick_name,
            email,
            phone,
            gender: Gender::Other,
            age: u8::try_from(packed.age).ok()?,
            region,
            icon,
            params: pairs.map(|[name, value]| (name.as_str(), value.as_str())).collect(),
            created: Timestamp(packed.created),
            updated: Timestamp(packed.updated),
        })
    }
}
