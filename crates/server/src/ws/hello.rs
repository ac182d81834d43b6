//! A socket's first frame: which user is there, and what it has.

use std::{collections::BTreeMap, fmt, sync::Arc};

use kith_proto::message::v1::{Position, ReceiveRequest};
use kith_service::error::Error;
use kith_store::{Invalid, UserId};
use serde::Deserialize;
use tonic::Status;

use crate::{auth::user::User, edge::Edge};

/// Longest device name, as in `ReceiveRequest`.
const DEVICE_MAX: usize = 48;
const DEVICE: &str = "web";

/// A hello that was read. Nothing in it is proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    /// The user who acts on the socket from now on.
    pub(super) user: ClaimedUser,
    /// The device name for the user's session.
    pub(super) device: String,
    /// The point at which receiving begins.
    pub(super) start: ReceiveStart,
    /// Whether the conversations are sent.
    pub(super) list: bool,
    /// The session that its calls continue; `None`: they belong to none.
    pub(super) session: Option<String>,
}

/// How a hello names its user.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum ClaimedUser {
    /// A user by its id, which is believed.
    Trusted(UserId),
    /// A user by a token, which has to be verified.
    Token(String),
}

impl ClaimedUser {
    /// A peer becomes a user only here. Keys are not taken: they belong to services, and into no page.
    pub(super) async fn authenticated(&self, edge: &Edge) -> Result<Arc<User>, Status> {
        match self {
            Self::Trusted(user) => Ok(Arc::new(User::trusted(*user))),
            Self::Token(token) => edge.user(token).await,
        }
    }
}

/// Prints no token.
impl fmt::Debug for ClaimedUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trusted(user) => write!(f, "Trusted({user})"),
            Self::Token(_) => f.write_str("Token"),
        }
    }
}

/// The point at which receiving begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ReceiveStart {
    /// The cursor from an earlier socket.
    pub(super) cursor: String,
    /// How far the peer has each conversation.
    pub(super) positions: Vec<Position>,
    /// The audiences whose totals are sent to the user.
    pub(super) notice_audiences: Vec<i32>,
}

/// The hello as it is written. Fields of later contracts are passed over.
#[derive(Deserialize)]
struct HelloFields {
    credential: Option<String>,
    user: Option<JsonNumber>,
    device: Option<String>,
    cursor: Option<String>,
    positions: Option<BTreeMap<String, JsonNumber>>,
    list: Option<bool>,
    session: Option<String>,
    /// The field's name is as in JSON, or as in the contract.
    #[serde(rename = "noticeAudiences", alias = "notice_audiences")]
    notice_audiences: Option<Vec<i32>>,
}

/// A 64-bit number, as it is or as text.
#[derive(Deserialize)]
#[serde(untagged)]
enum JsonNumber {
    Number(i64),
    Text(String),
}

impl JsonNumber {
    fn value(&self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(*number),
            // A number has one text.
            Self::Text(text) => text.parse().ok().filter(|number: &i64| number.to_string() == *text),
        }
    }
}

impl Hello {
    /// Reads a hello. `trusted`: whether the peer names its user by its id, and not by a token.
    ///
    /// # Errors
    /// Which field is wrong, without its value; that a credential, or a user, is not taken.
    pub(super) fn read(text: &str, trusted: bool) -> Result<Self, Box<Status>> {
        let form: HelloFields =
            object(text).ok_or_else(|| refused("hello", "must be an object with the fields of a hello"))?;
        Ok(Self {
            user: named(&form, trusted)?,
            device: device(form.device)?,
            start: ReceiveStart {
                cursor: form.cursor.unwrap_or_default(),
                positions: positions(form.positions)?,
                notice_audiences: form.notice_audiences.unwrap_or_default(),
            },
            list: form.list.unwrap_or(true),
            session: form.session,
        })
    }
}

/// Reads an object's fields. Refuses a list: its elements would be taken for the fields, in their order.
pub(super) fn object<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    serde_json::from_str(text).ok().filter(|_| text.trim_start().starts_with('{'))
}

fn named(form: &HelloFields, trusted: bool) -> Result<ClaimedUser, Box<Status>> {
    match (&form.credential, &form.user) {
        (Some(_), _) if trusted => Err(refused(
            "hello.credential",
            "is not taken: sockets of this node name their user (ws.trusted)",
        )),
        (_, user) if trusted => {
            let user = user.as_ref().and_then(JsonNumber::value).unwrap_or_default();
            let user = UserId::new(user);
            user.map(ClaimedUser::Trusted)
                .map_err(|why| Box::new(Error::invalid("hello.user".to_owned(), &why).into()))
        }
        (_, Some(_)) => Err(refused("hello.user", "is not taken: the token names the user")),
        (None, None) => Err(refused("hello.credential", "must be the token of the user")),
        (Some(token), None) => Ok(ClaimedUser::Token(token.clone())),
    }
}

fn device(given: Option<String>) -> Result<String, Box<Status>> {
    let device = given.unwrap_or_else(|| DEVICE.to_owned());
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if (1..=DEVICE_MAX).contains(&device.len()) && device.bytes().all(fine) {
        return Ok(device);
    }
    Err(refused("hello.device", "must be 1 to 48 letters, digits, '.', '_' or '-'"))
}

fn positions(given: Option<BTreeMap<String, JsonNumber>>) -> Result<Vec<Position>, Box<Status>> {
    let position = |(conversation_id, seq): (String, JsonNumber)| {
        let seq =
            seq.value().ok_or_else(|| refused("hello.positions", "must be whole numbers of 64 bits"))?;
        Ok(Position { conversation_id, seq })
    };
    given.unwrap_or_default().into_iter().map(position).collect()
}

/// The error for a field in a frame. `why` follows its name.
pub(super) fn refused(field: &str, why: &'static str) -> Box<Status> {
    Box::new(Error::invalid(field.to_owned(), &Invalid::new(why)).into())
}

impl ReceiveStart {
    /// The request that begins here.
    pub(super) fn request(&self, user: UserId) -> ReceiveRequest {
        let now = self.cursor.is_empty() && self.positions.is_empty();
        let Self { cursor, positions, notice_audiences } = self.clone();
        ReceiveRequest { user_id: user.get(), cursor, positions, now, notice_audiences, ..Default::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me() -> UserId {
        UserId::new(7).unwrap()
    }

    fn error_of(text: &str) -> String {
        Hello::read(text, true).unwrap_err().message().to_owned()
    }

    #[test]
    fn numbers_are_read_as_numbers_and_as_text() {
        let hello = Hello::read(r#"{"user":"7","positions":{"d7-8":3,"g9":"4"}}"#, true).unwrap();
        assert_eq!(
            (&hello.user, hello.device.as_str(), hello.list),
            (&ClaimedUser::Trusted(me()), "web", true)
        );
        let seqs: Vec<_> = hello.start.positions.iter().map(|position| position.seq).collect();
        assert_eq!(seqs, [3, 4]);
        assert!(!hello.start.request(me()).now);
    }

    #[test]
    fn peers_that_have_nothing_begin_now() {
        let hello = Hello::read(r#"{"user":7}"#, true).unwrap();
        assert!(hello.start.request(me()).now);
    }

    #[test]
    fn audiences_are_passed_on_under_both_names() {
        for name in ["noticeAudiences", "notice_audiences"] {
            let hello = Hello::read(&format!(r#"{{"user":7,"{name}":[1,2]}}"#), true).unwrap();
            let request = hello.start.request(me());
            assert_eq!((request.notice_audiences, request.now), (vec![1, 2], true));
        }
    }

    #[test]
    fn wrong_fields_are_named_without_their_values() {
        for (text, field) in [
            ("{}", "hello.user"),
            (r#"{"user":0}"#, "hello.user"),
            (r#"{"user":"x4929"}"#, "hello.user"),
            (r#"{"user":7,"device":"a b4929"}"#, "hello.device"),
            (r#"{"user":7,"positions":{"g9":"x4929"}}"#, "hello.positions"),
            (r#"{"user":7,"noticeAudiences":4929}"#, "hello"),
            (r#"{"user":7,"noticeAudiences":["x4929"]}"#, "hello"),
            (r#"{"user":7,"noticeAudiences":[1],"notice_audiences":[4929]}"#, "hello"),
            ("[4929]", "hello"),
            (r#"[null,7,null,null,null,null,null,null]"#, "hello"),
        ] {
            let error = error_of(text);
            assert!(error.starts_with(field) && !error.contains("4929"), "{text}: {error}");
        }
    }

    #[test]
    fn field_of_a_later_contract_is_passed_over() {
        let hello = Hello::read(r#"{"user":7,"later":{"a":[1]},"session":"s"}"#, true).unwrap();
        assert_eq!((hello.user, hello.session.as_deref()), (ClaimedUser::Trusted(me()), Some("s")));
    }

    #[test]
    fn user_is_named_by_token_or_trusted_id() {
        let untrusted = |text| Hello::read(text, false).map(|hello| hello.user);
        assert_eq!(untrusted(r#"{"credential":"a.b.c"}"#).unwrap(), ClaimedUser::Token("a.b.c".to_owned()));
        for (text, field) in [
            (r#"{"user":7}"#, "hello.user"),
            (r#"{"user":7,"credential":"a.b.c"}"#, "hello.user"),
            ("{}", "hello.credential"),
        ] {
            let why = untrusted(text).unwrap_err();
            assert!(why.message().starts_with(field), "{text}: {why:?}");
        }
        let why = error_of(r#"{"user":7,"credential":"secret"}"#);
        assert!(why.contains("ws.trusted") && !why.contains("secret"), "{why}");
        assert_eq!(format!("{:?}", ClaimedUser::Token("secret".to_owned())), "Token");
    }
}
