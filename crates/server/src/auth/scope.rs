//! Scope presets, and the texts of both.

use std::fmt;

use kith_service::rpc::rights::{Rights, Scope};

/// A named set of scopes.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// The preset's name, such as `backend`.
    pub name: &'static str,
    /// The scopes the preset grants.
    pub rights: Rights,
    /// Describes who should have it.
    pub purpose: &'static str,
}

/// Every preset. None but `all` and `signup` has both `act` and an `own`: a service that acts for users and
/// forgets to name a user must not act as a service that may do everything. `signup` has the `own` for users
/// alone, because a user that is to be created does not exist yet.
pub const PRESETS: [Preset; 11] = [
    Preset { name: "all", rights: Rights::ALL, purpose: "api_key_file, and the first minutes" },
    Preset { name: "backend", rights: BACKEND, purpose: "servers that pass on requests of users" },
    Preset {
        name: "signup",
        rights: BACKEND.and(Rights::of(&[Scope::UserOwn])),
        purpose: "servers that sign users up, and pass on their requests",
    },
    Preset {
        name: "gateway",
        rights: Rights::of(&[Scope::PresenceRead, Scope::PresenceWrite, Scope::PresenceOwn]),
        purpose: "servers that hold the connections of users; usually with backend",
    },
    Preset { name: "service", rights: SERVICE, purpose: "jobs that act for no user" },
    Preset {
        name: "login",
        rights: Rights::of(&[Scope::UserRead, Scope::UserSecret, Scope::UserOwn, Scope::UserContact]),
        purpose: "sign-in",
    },
    Preset {
        name: "reader",
        rights: Rights::of(&[
            Scope::UserRead,
            Scope::UserOwn,
            Scope::GroupRead,
            Scope::GroupOwn,
            Scope::MemberRead,
            Scope::MemberOwn,
            Scope::PresenceRead,
            Scope::PresenceOwn,
        ]),
        purpose: "dashboards: no blocks, remarks or messages",
    },
    Preset {
        name: "loader",
        rights: Rights::of(&[
            Scope::UserImport,
            Scope::GroupImport,
            Scope::RelationImport,
            Scope::MemberImport,
            Scope::MessageImport,
        ]),
        purpose: "imports",
    },
    Preset {
        name: "connector",
        rights: Rights::of(&[
            Scope::UserRead,
            Scope::UserOwn,
            Scope::GroupRead,
            Scope::GroupOwn,
            Scope::RelationRead,
            Scope::RelationOwn,
            Scope::MemberRead,
            Scope::MemberOwn,
            Scope::MessageRead,
            Scope::MessageOwn,
            Scope::NoticeRead,
            Scope::NoticeOwn,
            Scope::ChangeExport,
        ]),
        purpose: "systems that follow every change, such as a search index; reads all messages",
    },
    Preset {
        name: "operator",
        rights: Rights::of(&[Scope::AdminRead, Scope::AdminWrite]),
        purpose: "operation",
    },
    Preset { name: "watcher", rights: Rights::of(&[Scope::AdminRead]), purpose: "operation without changes" },
];

const BACKEND: Rights = READS_AND_WRITES.and(MESSAGES).and(Rights::of(&[Scope::GroupSecret, Scope::Act]));

const SERVICE: Rights = READS_AND_WRITES.and(Rights::of(&[
    Scope::UserOwn,
    Scope::UserContact,
    Scope::GroupOwn,
    Scope::RelationOwn,
    Scope::MemberOwn,
    Scope::ApplicationOwn,
    Scope::PresenceOwn,
    Scope::NoticeOwn,
    Scope::ReceiptOwn,
    Scope::SequenceOwn,
]));

/// The rights of a user who calls with its own token: what the preset `backend` may do for it. Excludes
/// sequence numbers, and the rights to act, to own, to import, to export and to administer. Email and phone
/// are shown only to the user itself.
pub const USER_RIGHTS: Rights = DOMAINS.and(MESSAGES).and(Rights::of(&[Scope::GroupSecret]));

/// Rights in every domain but messages.
const READS_AND_WRITES: Rights = DOMAINS.and(Rights::of(&[Scope::SequenceRead, Scope::SequenceWrite]));

/// Rights in every domain but messages and sequences.
const DOMAINS: Rights = Rights::of(&[
    Scope::UserRead,
    Scope::UserWrite,
    Scope::GroupRead,
    Scope::GroupWrite,
    Scope::RelationRead,
    Scope::RelationWrite,
    Scope::MemberRead,
    Scope::MemberWrite,
    Scope::ApplicationRead,
    Scope::ApplicationWrite,
    Scope::PresenceRead,
    Scope::PresenceWrite,
    Scope::NoticeRead,
    Scope::NoticeWrite,
    Scope::ReceiptRead,
    Scope::ReceiptWrite,
]);

const MESSAGES: Rights = Rights::of(&[Scope::MessageRead, Scope::MessageWrite]);

/// Parses a list of presets and scopes into what they allow together. An empty list allows nothing.
///
/// # Errors
/// Returns the first text that is neither a preset nor a scope.
pub fn parse_scopes<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Rights, UnknownScope> {
    texts.into_iter().try_fold(Rights::NONE, |rights, text| Ok(rights.and(one(text)?)))
}

fn one(text: &str) -> Result<Rights, UnknownScope> {
    let preset = PRESETS.iter().find(|preset| preset.name == text).map(|preset| preset.rights);
    let scope = || Scope::named(text).map(|scope| Rights::of(&[scope]));
    preset.or_else(scope).ok_or_else(|| UnknownScope::of(text))
}

/// A text that is neither a preset nor a scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownScope {
    /// The given text, if it has a scope's form: a key at the wrong place must not be repeated.
    given: Option<String>,
    /// The scope that was probably meant.
    meant: Option<&'static str>,
}

/// Longest text that is repeated. Keys are longer.
const SHOWN_MAX: usize = 24;

impl UnknownScope {
    fn of(text: &str) -> Self {
        let formed =
            |text: &str| text.bytes().all(|b| b.is_ascii_alphabetic() || matches!(b, b':' | b'*' | b'-'));
        let given = (text.len() <= SHOWN_MAX && formed(text)).then(|| text.to_owned());
        let known = PRESETS.iter().map(|preset| preset.name).chain(Scope::ALL.map(Scope::text));
        let near = known.map(|known| (strsim::damerau_levenshtein(text, known), known));
        let most = (text.len() / 3).max(2);
        let meant = given.as_ref().and(near.min()).filter(|(distance, _)| *distance <= most);
        Self { given, meant: meant.map(|(_, known)| known) }
    }
}

impl fmt::Display for UnknownScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.given {
            Some(given) => write!(f, "unknown scope `{given}`")?,
            None => f.write_str("unknown scope")?,
        }
        match self.meant {
            Some(meant) => write!(f, "; did you mean `{meant}`?"),
            None => f.write_str("; docs/reference/authorization.md lists presets and scopes"),
        }
    }
}

impl std::error::Error for UnknownScope {}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(preset: &str) -> String {
        let rights = parse_scopes([preset]).unwrap();
        rights.scopes().map(Scope::text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn presets_have_exactly_these_scopes() {
        assert_eq!(
            texts("backend"),
            "user:read user:write group:read group:write group:secret relation:read relation:write member:read member:write \
             application:read application:write presence:read presence:write message:read message:write notice:read \
             notice:write receipt:read receipt:write sequence:read sequence:write act"
        );
        assert_eq!(
            texts("service"),
            "user:read user:write user:own user:contact group:read group:write group:own relation:read relation:write \
             relation:own member:read member:write member:own application:read application:write application:own \
             presence:read presence:write presence:own notice:read notice:write notice:own receipt:read receipt:write \
             receipt:own sequence:read sequence:write sequence:own"
        );
        assert_eq!(texts("signup"), texts("backend").replace("user:write ", "user:write user:own "));
        assert_eq!(texts("gateway"), "presence:read presence:write presence:own");
        assert_eq!(texts("login"), "user:read user:own user:secret user:contact");
        assert_eq!(
            texts("reader"),
            "user:read user:own group:read group:own member:read member:own presence:read presence:own"
        );
        assert_eq!(texts("loader"), "user:import group:import relation:import member:import message:import");
        assert_eq!(
            texts("connector"),
            "user:read user:own group:read group:own relation:read relation:own member:read member:own message:read \
             message:own notice:read notice:own change:export"
        );
        assert_eq!(texts("operator"), "admin:read admin:write");
        assert_eq!(texts("watcher"), "admin:read");
        assert_eq!(parse_scopes(["all"]), Ok(Rights::ALL));
    }

    #[test]
    fn users_have_backend_rights_but_no_sequence() {
        let backend = PRESETS.iter().find(|preset| preset.name == "backend").unwrap().rights;
        let left_out: Vec<_> =
            backend.scopes().filter(|scope| !USER_RIGHTS.has(*scope)).map(Scope::text).collect();
        assert_eq!(left_out, ["sequence:read", "sequence:write", "act"]);
        assert!(USER_RIGHTS.scopes().all(|scope| backend.has(scope)));
    }

    #[test]
    fn presets_that_act_own_at_most_users() {
        let owns = |rights: Rights| rights.scopes().any(|scope| scope.text().ends_with(":own"));
        let both = PRESETS.iter().filter(|preset| preset.rights.has(Scope::Act) && owns(preset.rights));
        assert_eq!(both.map(|preset| preset.name).collect::<Vec<_>>(), ["all", "signup"]);
    }

    #[test]
    fn presets_and_scopes_are_combined() {
        let rights = parse_scopes(["watcher", "user:read"]).unwrap();
        assert_eq!(rights, Rights::of(&[Scope::AdminRead, Scope::UserRead]));
        assert_eq!(parse_scopes([]), Ok(Rights::NONE));
    }

    #[test]
    fn unknown_scopes_name_what_was_probably_meant() {
        let why = |text| parse_scopes(["act", text]).unwrap_err().to_string();
        assert_eq!(why("user:raed"), "unknown scope `user:raed`; did you mean `user:read`?");
        assert_eq!(why("bakend"), "unknown scope `bakend`; did you mean `backend`?");
        assert_eq!(why("User:read"), "unknown scope `User:read`; did you mean `user:read`?");
        assert_eq!(
            why("everything"),
            "unknown scope `everything`; docs/reference/authorization.md lists presets and scopes"
        );
        assert_eq!(why(""), "unknown scope ``; docs/reference/authorization.md lists presets and scopes");
    }

    #[test]
    fn a_key_among_the_scopes_is_not_repeated() {
        let key = "kith_abcdefghijklmnopqrstuvwxyz234567abcdefghijklmnopqrstuvwxyz";
        let why = parse_scopes([key]).unwrap_err().to_string();
        assert_eq!(why, "unknown scope; docs/reference/authorization.md lists presets and scopes");
    }
}
