//! The parts that make up a write, one for each namespace that it changes: they are settled by one verdict
//! and published together.

use std::fmt;

use crate::{
    Acknowledge, CacheError, Invalidation, Node, Token,
    spans::Step,
    testing::{
        failpoints::{Failpoint, reach},
        rules,
    },
};

/// All that one write in progress changes, in one or several namespaces: its records, lists that may show
/// them, records that may end with it. Its guards have begun; it waits for its verdict: committed, aborted or
/// unknown.
///
/// Dropped without a verdict, or while a verdict is being given, it acts like [`unknown`](Self::unknown).
#[must_use = "dropped, it counts as a write of unknown outcome"]
pub struct WriteParts {
    first: Box<dyn WritePart>,
    others: Vec<Box<dyn WritePart>>,
}

/// The part of one namespace.
pub(crate) trait WritePart: Send + Sync {
    /// The node of the namespace.
    fn node(&self) -> &Node;

    /// The name of the namespace.
    fn name(&self) -> &'static str;

    /// Whether the namespace is strict.
    fn is_strict(&self) -> bool;

    /// Drops the copies here that a committed write has made old. Returns what is to be published.
    fn drop_committed(&self) -> Vec<Invalidation>;

    /// Drops the copies for a write that may have been applied, or may be later.
    fn drop_uncertain(&self) -> Vec<Invalidation>;

    /// These changes are published, or will be: drops what was loaded from the shared tier in between.
    fn published(&self, changes: &[Invalidation]);

    /// Memory takes the values of the committed write.
    fn settle_committed(self: Box<Self>);

    /// The write was not applied.
    fn settle_aborted(self: Box<Self>);

    /// The copies are dropped again later.
    fn settle_unknown(self: Box<Self>);
}

impl WriteParts {
    /// The write of one namespace.
    pub(super) fn of(part: impl WritePart + 'static) -> Self {
        Self { first: Box::new(part), others: Vec::new() }
    }

    /// Adds other parts that the same write changes.
    pub fn and(mut self, others: impl IntoIterator<Item = Self>) -> Self {
        for Self { first, others } in others {
            self.others.push(first);
            self.others.extend(others);
        }
        self
    }

    /// Whether one of its namespaces is strict. Then the write is acknowledged only when no node can decide
    /// by an earlier value of any part.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.all().any(WritePart::is_strict)
    }

    /// The write was committed. Memory takes the values at once, unless something newer is known or another
    /// write of the key is in progress. One publication, whose token covers all parts.
    ///
    /// # Errors
    /// [`CacheError::Bus`] if the change could not be published to the other nodes. The write is committed;
    /// all of it is invalidated as if its outcome were unknown.
    pub async fn committed(self) -> Result<Token, CacheError> {
        reach(Failpoint::AfterCommit).await;
        let dropped = self.all().map(WritePart::drop_committed).collect();
        let token = self.publish(dropped, rules::published_after_commit()).await?;
        self.into_all().for_each(WritePart::settle_committed);
        Ok(token)
    }

    /// The write was not applied, and never will be. Publishes nothing.
    pub fn aborted(self) {
        self.into_all().for_each(WritePart::settle_aborted);
    }

    /// The write may have been applied, or may be later: its copies are dropped as if it were, and again
    /// after 5, 30 and 90 s.
    ///
    /// # Errors
    /// [`CacheError::Bus`] if the change could not be published to the other nodes now.
    pub async fn unknown(self) -> Result<Token, CacheError> {
        let dropped = self.all().map(WritePart::drop_uncertain).collect();
        let token = self.publish(dropped, true).await?;
        self.into_all().for_each(WritePart::settle_unknown);
        Ok(token)
    }

    /// Publishes what each part has dropped.
    async fn publish(&self, dropped: Vec<Vec<Invalidation>>, is_due: bool) -> Result<Token, CacheError> {
        let all: Vec<Invalidation> = if is_due { dropped.concat() } else { Vec::new() };
        let token = publish(self.first.node(), self.first.name(), self.is_strict(), &all).await;
        self.all().zip(&dropped).for_each(|(part, dropped)| part.published(dropped));
        token
    }

    fn all(&self) -> impl Iterator<Item = &dyn WritePart> {
        std::iter::once(&*self.first).chain(self.others.iter().map(|part| &**part))
    }

    fn into_all(self) -> impl Iterator<Item = Box<dyn WritePart>> {
        std::iter::once(self.first).chain(self.others)
    }
}

/// Publishes changes; `name` names them in traces.
pub(super) async fn publish(
    node: &Node,
    name: &'static str,
    is_strict: bool,
    changes: &[Invalidation],
) -> Result<Token, CacheError> {
    let acknowledge = if is_strict { Acknowledge::Confirmed } else { Acknowledge::Published };
    let published = if rules::published() { changes } else { &[] };
    Step::Publish.run(name, published.len(), node.publish(published, acknowledge)).await
}

impl fmt::Debug for WriteParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all().map(WritePart::name)).finish()
    }
}
