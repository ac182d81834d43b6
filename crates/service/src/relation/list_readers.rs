//! Decides who may read a user's follow lists.

use kith_store::UserId;

use super::{ListReaders, RelationRpc, are_friends};
use crate::{error::Error, rpc::call::Principal};

impl RelationRpc {
    /// Checks that the acting user may read the lists of all these users. Reads relations where friends alone
    /// may, from memory where they are there.
    ///
    /// # Errors
    /// PERMISSION_DENIED, also where the user does not exist; what a failing store makes.
    pub(super) async fn may_list(&self, users: &[UserId], principal: Principal) -> Result<(), Error> {
        let Principal::User(reader) = principal else { return Ok(()) };
        let others: Vec<_> = users.iter().copied().filter(|user| *user != reader).collect();
        let shown = match self.follows.rules.list_readers {
            ListReaders::Everyone => true,
            ListReaders::Own => others.is_empty(),
            ListReaders::Friends => are_friends(&self.follows, &self.blocks, reader, &others)
                .await?
                .into_iter()
                .all(|friend| friend),
        };
        shown
            .then_some(())
            .ok_or_else(|| Error::not_allowed("this user may not read the list (relations.lists)"))
    }
}
