//! Sessions: the tokens of everything that a client has written or was answered, as one text that nodes
//! merge.

use std::fmt;

use super::{
    token::{Token, TokenError, UNPUBLISHED, UNSEEN},
    token_issuer::TokenIssuer,
};

/// Stands between the tokens of a text. No token has it, nor has it a meaning in lists of metadata.
const SEPARATOR: char = '.';
/// The most tokens in a text of a client. A session that a node answers has at most four.
const TOKENS_MAX: usize = 16;

/// What reads of a client must show. As text, up to four tokens with dots between; the empty text demands
/// nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    tokens: Vec<Token>,
}

impl Session {
    /// The session of a text that a client sent. Tokens that are outlived, and those without a code, demand
    /// nothing.
    ///
    /// # Errors
    /// If the text has too many tokens, or one that was not issued here.
    pub fn accept(issuer: &TokenIssuer, text: &str) -> Result<Self, TokenError> {
        let mut session = Self::default();
        for (count, text) in text.split_terminator(SEPARATOR).enumerate() {
            let token = issuer.accept(text)?;
            if count >= TOKENS_MAX {
                return Err(TokenError::TooLong);
            }
            if token.issued().is_some() && !issuer.is_outlived(&token) {
                session.add(token);
            }
        }
        Ok(session)
    }

    /// What it demands.
    #[must_use]
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// Demands what the other demands, too.
    pub fn join(&mut self, other: Self) {
        other.tokens.into_iter().for_each(|token| self.add(token));
    }

    /// Demands this token, too. Tokens that a later one covers are dropped: a lower number of the same epoch,
    /// and, of what no number covers and of more than two epochs, all but the last issued. A node
    /// whose epoch is none of those that are left asks the store, as it would for the dropped one.
    pub fn add(&mut self, token: Token) {
        let rank = |token: &Token| (token.positions().first().map(|first| first.number), token.issued());
        match self.tokens.iter_mut().find(|known| kind_of(known) == kind_of(&token)) {
            Some(known) if rank(known) < rank(&token) => *known = token,
            Some(_) => {}
            None => self.tokens.push(token),
        }
        let is_of_epoch = |token: &&Token| matches!(kind_of(token), Kind::Epoch(_));
        if self.tokens.iter().filter(is_of_epoch).count() > 2 {
            let first = self.tokens.iter().filter(is_of_epoch).min_by_key(|token| token.issued()).cloned();
            self.tokens.retain(|token| Some(token) != first.as_ref());
        }
    }
}

/// What a token demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A number of an epoch.
    Epoch(u64),
    /// A change that was not published, so that no number covers it.
    Unpublished,
    /// A message that its window may not have.
    Unseen,
}

fn kind_of(token: &Token) -> Kind {
    if token.is_of(UNPUBLISHED) {
        return Kind::Unpublished;
    }
    if token.is_of(UNSEEN) {
        return Kind::Unseen;
    }
    Kind::Epoch(token.positions().first().map_or(0, |first| first.epoch))
}

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, token) in self.tokens.iter().enumerate() {
            if index > 0 {
                write!(f, "{SEPARATOR}")?;
            }
            write!(f, "{token}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::{Position, TOKEN_KEPT, UNSEEN_KEPT};

    static SECONDS: AtomicU64 = AtomicU64::new(1_000_000);

    fn issuer() -> TokenIssuer {
        TokenIssuer::new(&[7; 32], || SECONDS.load(Ordering::Relaxed))
    }

    fn session(positions: &[(u64, u64)]) -> Session {
        let mut session = Session::default();
        for (epoch, number) in positions {
            session.add(issuer().issue(Position { partition: 0, epoch: *epoch, number: *number }));
        }
        session
    }

    fn demands(session: &Session) -> Vec<(u64, u64)> {
        let positions = session.tokens().iter().flat_map(Token::positions);
        positions.map(|position| (position.epoch, position.number)).collect()
    }

    #[test]
    fn session_keeps_the_highest_number_of_an_epoch() {
        assert_eq!(demands(&session(&[(3, 5), (3, 9), (3, 7)])), [(3, 9)]);
        assert_eq!(demands(&session(&[(2, 50), (3, 9)])), [(2, 50), (3, 9)]);
    }

    #[test]
    fn unpublished_change_stays_demanded() {
        let mut merged = session(&[(3, 9), (3, UNPUBLISHED)]);
        merged.join(session(&[(3, 12), (4, UNPUBLISHED)]));
        assert_eq!(demands(&merged), [(3, 12), (3, UNPUBLISHED)]);
    }

    #[test]
    fn session_has_four_tokens_at_most() {
        let positions = [(1, 5), (2, 5), (3, UNSEEN), (3, UNPUBLISHED), (3, 5), (4, UNSEEN), (4, 5), (5, 5)];
        let merged = session(&positions);
        assert_eq!(merged.tokens().len(), 4);
        assert!(demands(&merged).contains(&(3, UNPUBLISHED)));
        assert!(merged.to_string().len() < 300, "{merged}");
    }

    #[test]
    fn text_is_read_back_and_no_other_accepted() {
        let merged = session(&[(2, 50), (3, 9)]);
        let text = merged.to_string();
        assert_eq!(Session::accept(&issuer(), &text), Ok(merged));
        assert_eq!(Session::accept(&issuer(), ""), Ok(Session::default()));
        let other = TokenIssuer::new(&[8; 32], || 1_000_000);
        assert_eq!(Session::accept(&other, &text), Err(TokenError::Foreign));
        assert_eq!(Session::accept(&issuer(), &vec![text; 9].join(".")), Err(TokenError::TooLong));
        let forged = Token::new(Position { partition: 0, epoch: 3, number: 1_000 }).to_string();
        assert_eq!(Session::accept(&issuer(), &forged), Ok(Session::default()));
    }

    #[test]
    fn session_demands_nothing_after_an_hour() {
        static LATER: AtomicU64 = AtomicU64::new(1_000_000);
        let issuer = TokenIssuer::new(&[7; 32], || LATER.load(Ordering::Relaxed));
        let text = session(&[(3, 9)]).to_string();
        let unseen = session(&[(3, 9), (3, UNSEEN)]).to_string();
        LATER.fetch_add(UNSEEN_KEPT.as_secs(), Ordering::Relaxed);
        assert_eq!(demands(&Session::accept(&issuer, &unseen).unwrap()), [(3, 9), (3, UNSEEN)]);
        LATER.fetch_add(1, Ordering::Relaxed);
        assert_eq!(Session::accept(&issuer, &unseen).unwrap().to_string(), text);
        LATER.fetch_add(TOKEN_KEPT.as_secs() + 1, Ordering::Relaxed);
        assert_eq!(Session::accept(&issuer, &text), Ok(Session::default()));
    }
}
