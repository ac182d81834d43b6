//! Lists a user's conversations.

use std::{cmp::Reverse, collections::HashMap, sync::Arc};

use kith_cache::Consistency;
use kith_store::{
    BATCH_MAX, ConversationId, Dialog, DialogKey, GroupId, LogEnd, LogHead, Seq, Timestamp, UserId,
};

use super::{
    Dialogs,
    order::DialogPosition,
    shown::{DialogView, ShownConversation, unread_of},
};
use crate::{
    error::{Error, Reason},
    message::AtLeast,
};

/// Most conversations in a page.
pub(super) const PAGE_MAX: usize = 200;
/// Most dialogs, and most groups, that are read.
const SCANNED_MAX: usize = 10_000;

/// A page of a list.
#[derive(Debug)]
pub(super) struct DialogPage {
    pub(super) shown: Vec<(DialogPosition, ShownConversation)>,
    /// Whether others follow.
    pub(super) more: bool,
    /// How many conversations are not listed because there are too many; a lower bound.
    pub(super) left_out: usize,
}

/// All listed conversations of a user, by their position.
pub(super) struct ListedDialogs {
    pub(super) views: Vec<ListedDialog>,
    pub(super) left_out: usize,
}

/// A listed conversation.
pub(super) struct ListedDialog {
    pub(super) position: DialogPosition,
    pub(super) view: DialogView,
    pub(super) end: Seq,
    /// The end with the headers above what is read; `None`: they were not read.
    pub(super) head: Option<LogHead>,
}

impl Dialogs {
    /// Returns a user's conversations after a position. Logs that seem to end below `at_least` are read
    /// again.
    ///
    /// # Errors
    /// NOT_FOUND, or errors of the store.
    pub(super) async fn list(
        &self,
        user: UserId,
        after: Option<DialogPosition>,
        size: usize,
        at_least: &AtLeast,
    ) -> Result<DialogPage, Error> {
        let ListedDialogs { mut views, left_out } = self.listed(user, at_least, size).await?;
        views.retain(|listed| after.is_none_or(|after| after < listed.position));
        let more = views.len() > size;
        views.truncate(size);
        let positions: Vec<DialogPosition> = views.iter().map(|listed| listed.position).collect();
        let (views, heads): (Vec<_>, Vec<_>) =
            views.into_iter().map(|listed| (listed.view, listed.head)).unzip();
        let heads = heads.into_iter().collect();
        let shown = self.show(views, heads, &Consistency::Cached, at_least).await?;
        Ok(DialogPage { shown: positions.into_iter().zip(shown).collect(), more, left_out })
    }

    /// All listed conversations of a user, by their position, with their heads if there are no more than
    /// `heads_max`. Dialogs are read from the store.
    ///
    /// # Errors
    /// NOT_FOUND if there is no such user, or errors of the store.
    pub(super) async fn listed(
        &self,
        user: UserId,
        at_least: &AtLeast,
        heads_max: usize,
    ) -> Result<ListedDialogs, Error> {
        let users = &self.messages.dependencies.users;
        let (created, groups, mut dialogs) = tokio::try_join!(
            users.created(user, &Consistency::Cached),
            self.groups_of(user),
            self.dialogs_of(user)
        )?;
        created.ok_or_else(|| Error::not_found("user"))?;
        let (chosen, left_out) = choose(groups, &dialogs, self.messages.config.conversations_max);
        let bounds = self.messages.bounds(Some(user), &chosen).await?;
        let mut views = Vec::with_capacity(chosen.len());
        for (conversation, bounds) in chosen.into_iter().zip(bounds) {
            let key = DialogKey { user, conversation };
            let dialog = dialogs.remove(&conversation).unwrap_or_else(|| Dialog::absent(key));
            let view = match bounds {
                Ok(bounds) => DialogView::new(bounds, Arc::new(dialog)),
                // The user just left the group, or the group was dismissed.
                Err(error) if error.reason() == Reason::NotFound => continue,
                Err(error) => return Err(error),
            };
            views.extend((!view.is_of_former_member()).then_some(view));
        }
        let ends = self.ends(&views, at_least, heads_max).await?;
        let listed = views.into_iter().zip(ends).filter(|(view, (end, _))| is_listed(view, *end));
        let listed = listed.map(|(view, (end, head))| ListedDialog {
            position: position(&view, end),
            view,
            end: end.seq,
            head,
        });
        let mut views: Vec<ListedDialog> = listed.collect();
        views.sort_unstable_by_key(|listed| listed.position);
        Ok(ListedDialogs { views, left_out })
    }

    /// The ends of logs. Those of up to a page come from windows: with the headers above what is read if
    /// there are no more than `heads_max`. Those of more come from the store.
    async fn ends(
        &self,
        views: &[DialogView],
        at_least: &AtLeast,
        heads_max: usize,
    ) -> Result<Vec<(LogEnd, Option<LogHead>)>, Error> {
        let logs = &self.messages.logs;
        if views.len() <= heads_max {
            let heads = self.heads.heads(&unread_of(views), at_least).await?;
            return Ok(heads.into_iter().map(|head| (end_of(&head), Some(head))).collect());
        }
        let conversations: Vec<ConversationId> = views.iter().map(|view| view.key().conversation).collect();
        if views.len() <= PAGE_MAX && logs.windows.is_enabled() {
            let asked: Vec<_> = conversations.iter().map(|log| (*log, Seq::MAX)).collect();
            let heads = self.heads.heads(&asked, at_least).await?;
            return Ok(heads.iter().map(|head| (end_of(head), None)).collect());
        }
        let ends = logs.ends(&conversations, at_least).await?;
        Ok(ends.into_iter().map(|end| (end, None)).collect())
    }

    /// The conversations of a user that may be listed, also those that are hidden or empty, and those of
    /// groups that it just left; and the number of the others, because there are too many.
    ///
    /// # Errors
    /// NOT_FOUND if there is no such user, or errors of the store.
    pub(in crate::message) async fn conversations(
        &self,
        user: UserId,
    ) -> Result<(Vec<ConversationId>, usize), Error> {
        let users = &self.messages.dependencies.users;
        let (created, groups, dialogs) = tokio::try_join!(
            users.created(user, &Consistency::Cached),
            self.groups_of(user),
            self.dialogs_of(user)
        )?;
        created.ok_or_else(|| Error::not_found("user"))?;
        Ok(choose(groups, &dialogs, self.messages.config.conversations_max))
    }

    /// Returns a user's groups, by rising id.
    pub(in crate::message) async fn groups_of(&self, user: UserId) -> Result<Vec<GroupId>, Error> {
        let members = &self.messages.dependencies.members;
        let mut groups: Vec<GroupId> = Vec::new();
        loop {
            let (some, more) = members.groups_after(user, groups.last().copied(), BATCH_MAX).await?;
            let is_stuck = some.is_empty();
            groups.extend(some);
            if !more || is_stuck || groups.len() >= SCANNED_MAX {
                return Ok(groups);
            }
        }
    }

    /// The dialogs of a user.
    async fn dialogs_of(&self, user: UserId) -> Result<HashMap<ConversationId, Dialog>, Error> {
        let yesterday = Dialog::day_of(Timestamp::now()) - 1;
        let mut dialogs = HashMap::new();
        if self.scan(user, i64::MIN, &mut dialogs).await? > 1 {
            // Dialogs that were written meanwhile have moved to the front, perhaps from a page that was not
            // read yet.
            self.scan(user, yesterday, &mut dialogs).await?;
        }
        Ok(dialogs)
    }

    /// Reads the dialogs that were written on this day or later. Returns how many pages there were.
    async fn scan(
        &self,
        user: UserId,
        since: i64,
        dialogs: &mut HashMap<ConversationId, Dialog>,
    ) -> Result<usize, Error> {
        let (mut after, mut pages) = (None, 0);
        loop {
            let page = self.messages.dialogs.list(user, after, BATCH_MAX).await?;
            after = page.last().map(Dialog::position);
            pages += 1;
            let is_last = page.len() < BATCH_MAX || after.is_some_and(|after| after.day < since);
            dialogs.extend(page.into_iter().map(|dialog| (dialog.key.conversation, dialog)));
            if is_last || pages * BATCH_MAX >= SCANNED_MAX {
                return Ok(pages);
            }
        }
    }
}

/// Chooses the conversations to read, and counts the others: first pinned conversations, then groups, then
/// direct conversations by falling day.
fn choose(
    groups: Vec<GroupId>,
    dialogs: &HashMap<ConversationId, Dialog>,
    most: usize,
) -> (Vec<ConversationId>, usize) {
    let mut direct: Vec<&Dialog> = dialogs
        .values()
        .filter(|dialog| matches!(dialog.key.conversation, ConversationId::Direct(..)))
        .collect();
    direct.sort_unstable_by_key(|dialog| (Reverse(dialog.day), dialog.key.conversation));
    let groups = groups.into_iter().map(ConversationId::Group);
    let all: Vec<ConversationId> =
        groups.chain(direct.into_iter().map(|dialog| dialog.key.conversation)).collect();
    let is_pinned = |id: &ConversationId| dialogs.get(id).is_some_and(|dialog| dialog.pinned.is_some());
    let (mut chosen, others): (Vec<_>, Vec<_>) = all.into_iter().partition(is_pinned);
    chosen.extend(others);
    let count = chosen.len();
    chosen.truncate(most);
    (chosen, count.saturating_sub(most))
}

fn end_of(head: &LogHead) -> LogEnd {
    let last = head.last.as_ref();
    LogEnd { seq: last.map_or(0, |last| last.seq), sent: last.map(|last| last.sent) }
}

/// Groups are listed also while they are empty.
fn is_listed(view: &DialogView, end: LogEnd) -> bool {
    let is_empty = end.seq == 0 && matches!(view.key().conversation, ConversationId::Direct(..));
    let is_hidden = view.dialog.hidden_seq.is_some_and(|hidden| end.seq <= hidden);
    !is_empty && !is_hidden
}

fn position(view: &DialogView, end: LogEnd) -> DialogPosition {
    DialogPosition {
        pinned: view.dialog.pinned.is_some(),
        time: end.sent.unwrap_or(Timestamp(i64::MIN)),
        conversation: view.key().conversation,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::group_id as group;

    /// Dialogs of user 7: the conversation, the day of the last write, and whether it is pinned.
    fn dialogs(all: &[(&str, i64, bool)]) -> HashMap<ConversationId, Dialog> {
        let dialog = |(id, day, pinned): &(&str, i64, bool)| {
            let key = DialogKey { user: UserId::new(7).unwrap(), conversation: id.parse().unwrap() };
            let pinned = pinned.then_some(Timestamp(5));
            (key.conversation, Dialog { day: *day, pinned, ..Dialog::absent(key) })
        };
        all.iter().map(dialog).collect()
    }

    fn chosen_of(groups: &[i64], all: &[(&str, i64, bool)], most: usize) -> (Vec<String>, usize) {
        let groups = groups.iter().map(|id| group(*id)).collect();
        let (chosen, left_out) = choose(groups, &dialogs(all), most);
        (chosen.iter().map(ConversationId::to_string).collect(), left_out)
    }

    #[test]
    fn pinned_then_groups_then_direct_are_chosen() {
        let all =
            [("d7-8", 3, false), ("d7-9", 1, true), ("g2", 0, true), ("g3", 9, false), ("d6-7", 5, false)];
        let (whole, left_out) = chosen_of(&[1, 2, 3], &all, 6);
        assert_eq!(
            (whole, left_out),
            (["g2", "d7-9", "g1", "g3", "d6-7", "d7-8"].map(String::from).to_vec(), 0)
        );
        let (some, left_out) = chosen_of(&[1, 2, 3], &all, 4);
        assert_eq!((some, left_out), (["g2", "d7-9", "g1", "g3"].map(String::from).to_vec(), 2));
    }

    #[test]
    fn dialogs_of_left_groups_are_not_chosen() {
        let (chosen, left_out) = chosen_of(&[], &[("g2", 0, true), ("g3", 9, false)], 5);
        assert_eq!((chosen, left_out), (Vec::new(), 0));
    }
}
