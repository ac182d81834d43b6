//! Read consistency: which tokens count, and who may read the store.

use kith_cache::{Consistency, Token, TokenError};
use kith_proto::r#type::v1::{Consistency as Asked, consistency::Level};
use kith_store::Seq;

use crate::{
    error::Error,
    rpc::{batch::Limits, call::Call},
};

impl Limits {
    /// An answer's consistency: what the read asks for, and what the session of its call demands. A strong
    /// read bypasses all copies and reads the store, so it is for services: users could load the store
    /// without a limit. Tokens that this node has not reached send the read to the store, which counts as one
    /// more record for a user.
    ///
    /// # Errors
    /// If a user itself asks for a strong read; if there are more tokens than a read may have, or a token is
    /// invalid; QUOTA_EXCEEDED if the caller is a user who may read no record now.
    pub fn consistency(&self, call: Call, asked: Option<&Asked>) -> Result<Consistency, Error> {
        let consistency = self.demanded(call, asked)?;
        if let Consistency::AtLeast(tokens) = &consistency
            && !self.node.has_reached(tokens)
        {
            self.records.count(call, 1)?;
        }
        Ok(consistency)
    }

    /// Whether a read asks the store for data that no token covers: it does for any token and in any session,
    /// which counts as one more record for a user.
    ///
    /// # Errors
    /// The errors of [`Self::consistency`].
    pub fn is_fresh(&self, call: Call, asked: Option<&Asked>) -> Result<bool, Error> {
        let is_fresh = match self.demanded(call, asked)? {
            Consistency::Cached => call.session.is_carried,
            Consistency::AtLeast(tokens) => call.session.is_carried || !tokens.is_empty(),
            Consistency::Strong => true,
        };
        if is_fresh {
            self.records.count(call, 1)?;
        }
        Ok(is_fresh)
    }

    /// The message number that a read has to reach: the asked one, or all that the store has, if the session
    /// of the call demands more than this node has applied. That counts as one more record for a user.
    ///
    /// # Errors
    /// QUOTA_EXCEEDED if the caller is a user who may read no record now.
    pub(crate) fn at_least(&self, call: Call, asked: Seq) -> Result<Seq, Error> {
        if call.session.demand.is_none() {
            return Ok(asked);
        }
        self.records.count(call, 1)?;
        Ok(Seq::MAX)
    }

    fn demanded(&self, call: Call, asked: Option<&Asked>) -> Result<Consistency, Error> {
        const FIELD: &str = "consistency.at_least.consistency_tokens";
        match asked.and_then(|asked| asked.level.as_ref()) {
            None | Some(Level::Strong(false)) => Ok(match call.session.demand {
                Some(position) => Consistency::AtLeast(vec![Token::new(position)]),
                None => Consistency::Cached,
            }),
            Some(Level::Strong(true)) if call.is_user() => Err(Error::not_allowed(
                "only services may read with consistency.strong; use consistency.at_least",
            )),
            Some(Level::Strong(true)) => Ok(Consistency::Strong),
            Some(Level::AtLeast(at_least)) => {
                let texts = &at_least.consistency_tokens;
                if texts.len() > self.tokens {
                    let why = format!("must hold at most {} tokens", self.tokens);
                    return Err(Error::invalid(FIELD, &why));
                }
                let tokens = texts.iter().filter_map(|text| self.token(call, text).transpose()).collect();
                let why = |_| Error::invalid(FIELD, "must hold tokens as writes returned them");
                let mut tokens: Vec<_> = Result::map_err(tokens, why)?;
                tokens.extend(call.session.demand.map(Token::new));
                Ok(Consistency::AtLeast(tokens))
            }
        }
    }

    /// A text's token, if it demands anything. Versions before this one issued tokens without a code, which
    /// anyone can make: they count for services alone, who may read the store anyway.
    fn token(&self, call: Call, text: &str) -> Result<Option<Token>, TokenError> {
        let issuer = self.node.tokens();
        let token = issuer.accept(text)?;
        let is_believed = token.issued().is_some() || !call.is_user();
        Ok((is_believed && !issuer.is_outlived(&token)).then_some(token))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicU64, Ordering},
        time::Duration,
    };

    use kith_cache::{Node, NodeConfig, Position, TOKEN_KEPT, TokenIssuer, UNPUBLISHED};
    use kith_proto::r#type::v1::AtLeast;
    use kith_store::UserId;
    use tokio::time::Instant;

    use super::*;
    use crate::{
        error::Reason,
        rpc::{
            call::{CallSession, Principal},
            page_token::PageSizes,
            record_quota::RecordQuota,
        },
    };

    const EPOCH: u64 = 3;
    /// A quota for more records than any test counts.
    const QUOTA: u32 = 100;

    /// Limits for a node whose tokens have this time.
    fn limits_of(seconds: fn() -> u64) -> Limits {
        let tokens = TokenIssuer::new(&[7; 32], seconds);
        Limits {
            batch_ids: 1,
            import_records: 1,
            import_at_once: 1,
            import_patience: Duration::ZERO,
            tokens: 2,
            node: Node::new(NodeConfig { tokens, ..NodeConfig::local(EPOCH) }),
            pages: PageSizes { default: 1, max: 1 },
            records: RecordQuota::per_minute(QUOTA),
        }
    }

    fn limits() -> Limits {
        limits_of(|| 1_000_000)
    }

    fn service() -> Call {
        let principal = Principal::User(UserId::new(7).unwrap());
        Call { principal, ..Call::internal(Instant::now()) }
    }

    fn user() -> Call {
        Call { by_user: true, ..service() }
    }

    fn at_least(tokens: &[&Token]) -> Asked {
        let consistency_tokens = tokens.iter().map(ToString::to_string).collect();
        Asked { level: Some(Level::AtLeast(AtLeast { consistency_tokens })) }
    }

    /// Returns how many tokens a read by this call demands with this token.
    fn demand(limits: &Limits, call: Call, token: &Token) -> Result<usize, Error> {
        match limits.consistency(call, Some(&at_least(&[token])))? {
            Consistency::AtLeast(tokens) => Ok(tokens.len()),
            other => panic!("{other:?}"),
        }
    }

    fn counted(limits: &Limits) -> u32 {
        let left = (0..=QUOTA).find(|_| limits.records.count(user(), 1).is_err()).unwrap();
        QUOTA - left
    }

    #[test]
    fn strong_reads_are_for_services() {
        let strong =
            |call, strong| limits().consistency(call, Some(&Asked { level: Some(Level::Strong(strong)) }));
        assert_eq!(strong(service(), true), Ok(Consistency::Strong));
        assert_eq!(strong(user(), true).unwrap_err().reason(), Reason::NotAllowed);
        assert_eq!(strong(user(), false), Ok(Consistency::Cached));
    }

    #[tokio::test(start_paused = true)]
    async fn token_ahead_counts_as_a_record() {
        let limits = limits();
        for number in [0, 5, UNPUBLISHED] {
            assert_eq!(demand(&limits, user(), &limits.node.token_of(number)), Ok(1));
            assert_eq!(demand(&limits, service(), &limits.node.token_of(number)), Ok(1));
        }
        assert_eq!(counted(&limits), 2, "not the one that is reached, and none of services");
    }

    #[tokio::test(start_paused = true)]
    async fn any_token_of_a_fresh_read_counts() {
        let limits = limits();
        let reached = limits.node.token();
        assert_eq!(limits.is_fresh(user(), None), Ok(false));
        assert_eq!(limits.is_fresh(user(), Some(&at_least(&[]))), Ok(false));
        assert_eq!(limits.is_fresh(user(), Some(&at_least(&[&reached]))), Ok(true));
        assert_eq!(counted(&limits), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn read_in_a_session_demands_what_it_does() {
        let limits = limits();
        let demand = Position { partition: 0, epoch: EPOCH, number: 5 };
        let in_session = |demand| Call { session: CallSession { is_carried: true, demand }, ..user() };
        assert_eq!(limits.consistency(in_session(None), None), Ok(Consistency::Cached));
        let asked = Ok(Consistency::AtLeast(vec![Token::new(demand)]));
        assert_eq!(limits.consistency(in_session(Some(demand)), None), asked);
        assert_eq!(limits.is_fresh(in_session(None), None), Ok(true));
        let with_token =
            limits.consistency(in_session(Some(demand)), Some(&at_least(&[&limits.node.token()])));
        assert!(matches!(with_token, Ok(Consistency::AtLeast(tokens)) if tokens.len() == 2));
        assert_eq!(counted(&limits), 3, "all but the first: the demand is ahead of the node");
    }

    #[test]
    fn tokens_of_other_keys_are_refused() {
        let (here, there) = (limits(), Node::local(EPOCH));
        for call in [user(), service()] {
            let refused = demand(&here, call, &there.token()).unwrap_err();
            assert_eq!(refused.reason(), Reason::InvalidField);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn token_without_code_counts_for_services_alone() {
        let limits = limits();
        let forged = Token::new(Position { partition: 0, epoch: EPOCH, number: 1_000_000_000_000 });
        assert_eq!(demand(&limits, user(), &forged), Ok(0));
        assert_eq!(demand(&limits, service(), &forged), Ok(1));
        assert_eq!(counted(&limits), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn token_demands_nothing_after_an_hour() {
        static SECONDS: AtomicU64 = AtomicU64::new(1_000_000);
        let limits = limits_of(|| SECONDS.load(Ordering::Relaxed));
        let unpublished = limits.node.token_of(UNPUBLISHED);
        SECONDS.fetch_add(TOKEN_KEPT.as_secs(), Ordering::Relaxed);
        assert_eq!(demand(&limits, user(), &unpublished), Ok(1));
        SECONDS.fetch_add(1, Ordering::Relaxed);
        assert_eq!(demand(&limits, user(), &unpublished), Ok(0));
        assert_eq!(counted(&limits), 1);
    }
}
