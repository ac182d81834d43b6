//! How clients call the methods.

/// How a client calls a method, as the contract says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallRule {
    /// Whether its requests or answers are a stream.
    pub streams: bool,
    /// Whether it changes nothing.
    pub reads: bool,
    /// Whether a call may be sent again, byte for byte.
    pub is_repeatable: bool,
    /// The number of the request's field whose id makes repetitions one write.
    pub id: Option<u32>,
}

impl CallRule {
    /// Returns the rule of a path such as `/kith.user.v1.UserService/GetUser`. A path that the contract does
    /// not have is no stream and is not repeated.
    #[must_use]
    pub fn of(path: &str) -> Self {
        let found = RULES.binary_search_by_key(&path, |(known, _)| *known);
        found.map_or_else(|_| Self::default(), |at| RULES[at].1)
    }
}

include!(concat!(env!("OUT_DIR"), "/call_rules.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_found_by_their_path() {
        assert!(RULES.iter().all(|(path, rule)| CallRule::of(path) == *rule));
        assert_eq!(CallRule::of("/other.Service/Call"), CallRule::default());
    }

    #[test]
    fn secrets_and_signals_are_not_repeated() {
        for (path, is_repeatable) in [
            ("/kith.user.v1.UserService/VerifySecret", false),
            ("/kith.group.v1.GroupService/VerifySecret", false),
            ("/kith.sequence.v1.SequenceService/ReserveSeqs", false),
            ("/kith.message.v1.MessageService/SendSignal", false),
            ("/kith.admin.v1.AdminService/StartEpoch", false),
            ("/kith.admin.v1.AdminService/FlushMemory", false),
            ("/kith.admin.v1.AdminService/InvalidateKey", true),
            ("/kith.message.v1.MessageService/BatchSend", true),
            ("/kith.user.v1.UserService/GetUser", true),
            ("/kith.message.v1.MessageService/SendMessage", true),
            ("/kith.message.v1.MessageService/MarkRead", true),
            ("/kith.presence.v1.PresenceService/Heartbeat", true),
            ("/kith.relation.v1.RelationService/Follow", true),
        ] {
            assert_eq!(CallRule::of(path).is_repeatable, is_repeatable, "{path}");
            assert_eq!(CallRule::of(path).reads, path.contains("/Get"), "{path}");
        }
        assert!(CallRule::of("/kith.message.v1.MessageService/Receive").streams);
    }
}
