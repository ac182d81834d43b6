//! Implements the group domain's needs: the groups that a user may be about to join, and invitations.

use std::collections::HashSet;

use async_trait::async_trait;
use kith_store::{
    Application, ApplicationList, ApplicationPurpose, GroupId, MemberKey, Receiver, Text, Timestamp, UserId,
};

use super::{
    Applications,
    applications::{ApplicationDraft, store_error},
};
use crate::{
    error::{Error, Reason},
    group::{PendingGroups, member::GroupInvitations},
    relation::are_friends,
    rpc::request::WriteContext,
};

/// Applications that are read at a time.
const PAGE: usize = 100;

#[async_trait]
impl PendingGroups for Applications {
    async fn pending_groups(&self, user: UserId) -> Result<HashSet<GroupId>, Error> {
        let mut groups = HashSet::new();
        self.pending_in(ApplicationList::Sent(user), user, &mut groups).await?;
        let received = self.store.count_pending(Receiver::User(user)).await.map_err(store_error)?;
        if received.invites > 0 {
            self.pending_in(ApplicationList::Received(user), user, &mut groups).await?;
        }
        Ok(groups)
    }
}

#[async_trait]
impl GroupInvitations for Applications {
    async fn friends_among(&self, user: UserId, others: &[UserId]) -> Result<HashSet<UserId>, Error> {
        let friends = are_friends(&self.follows, &self.blocks, user, others).await?;
        Ok(others.iter().zip(friends).filter_map(|(other, is_friend)| is_friend.then_some(*other)).collect())
    }

    async fn invite(&self, key: MemberKey, by: UserId, context: WriteContext) -> Result<(), Error> {
        let MemberKey { group, user } = key;
        let draft = ApplicationDraft {
            purpose: ApplicationPurpose::Invite(group, user),
            applicant: by,
            message: Text::default(),
            reference: Text::default(),
            code: String::new(),
        };
        match self.apply(draft, context).await {
            Ok(_) => Ok(()),
            // The user has blocked the other user, or has too many invitations.
            Err(error) if matches!(error.reason(), Reason::StateForbids | Reason::TooManyPending) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Applications {
    /// Adds the groups of the user's pending invites or applications. Reads a whole list, a page at a time.
    async fn pending_in(
        &self,
        list: ApplicationList,
        user: UserId,
        groups: &mut HashSet<GroupId>,
    ) -> Result<(), Error> {
        let now = Timestamp::now();
        let mut after = self.config.first(now);
        loop {
            let page = self.store.list_applications(list, after, PAGE).await.map_err(store_error)?;
            let open = page.iter().map(|listed| &listed.application).filter(|found| found.is_open(now));
            groups.extend(open.filter_map(|found| group_for(found, user)));
            match page.last() {
                Some(last) if page.len() == PAGE => after = last.application.id,
                _ => return Ok(()),
            }
        }
    }
}

/// The group that the user joins if this is accepted.
fn group_for(found: &Application, user: UserId) -> Option<GroupId> {
    match found.purpose {
        ApplicationPurpose::Join(group) if found.applicant == user => Some(group),
        ApplicationPurpose::Invite(group, invited) if invited == user => Some(group),
        ApplicationPurpose::Friend(_) | ApplicationPurpose::Join(_) | ApplicationPurpose::Invite(..) => None,
    }
}
