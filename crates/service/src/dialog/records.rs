//! Reads and writes dialogs through this node's tiers.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use futures::FutureExt as _;
use kith_cache::{Consistency, Policy, TieredCache, Token};
use kith_store::{
    ConversationId, Dialog, DialogKey, DialogList, DialogPatch, DialogPosition, DialogStore, MarkBase, Seq,
    StoreError, Timestamp, UserId, Write,
};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{DIALOGS, mark_command::MarkCommand};
use crate::{
    domain_context::DomainContext,
    error::Error,
    rpc::versions::{loaded_live, put},
    write::mutations::{Committed, Mutations, RecordWrite},
    write::record_codec::RecordCodec,
};

/// The most dialogs that are known to exist: some 6 MB.
const KNOWN_MAX: usize = 100_000;
/// The number of locks for creations. Creations of the same dialogs are serial.
const CREATION_LOCKS: usize = 64;

/// The users' dialogs, through this node's tiers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct DialogRecords {
    cache: TieredCache<DialogKey, Dialog>,
    store: Arc<dyn DialogStore>,
    mutations: Mutations,
    /// Dialogs that are known to exist. They are never removed.
    known: Arc<Mutex<HashSet<DialogKey>>>,
    /// Concurrent sends to a new conversation find no dialog: the first one creates it, and the others wait.
    creation_locks: Arc<[tokio::sync::Mutex<()>; CREATION_LOCKS]>,
}

impl DialogRecords {
    /// Creates it with its own namespace in the tiers.
    #[must_use]
    pub fn new(context: DomainContext<'_>, policy: Policy<Dialog>) -> Self {
        let store = Arc::clone(&context.stores.dialogs);
        // Strong reads do not differ: no decision that uses a dialog needs the marks from the last seconds.
        let cache = context.caches.records(policy, RecordCodec::DIALOG, &store, |store, keys, _| {
            async move { loaded_live(store.dialogs(keys).await, |dialog| dialog.key) }.boxed()
        });
        Self {
            cache,
            store,
            mutations: context.mutations.clone(),
            known: Arc::default(),
            creation_locks: Arc::new(std::array::from_fn(|_| tokio::sync::Mutex::default())),
        }
    }

    /// Reads many dialogs through the tiers, in the order of `keys`; [`Dialog::absent`] if there is none.
    pub(crate) async fn get_many(
        &self,
        keys: &[DialogKey],
        consistency: &Consistency,
    ) -> Result<Vec<Arc<Dialog>>, Error> {
        let found = self.cache.get_many(keys, consistency).await;
        let dialog = |(found, key): (Result<Option<kith_cache::Entry<Dialog>>, _>, &DialogKey)| {
            let found = found.map_err(|error| Error::cache(DIALOGS, &error))?;
            Ok(found.map_or_else(|| Arc::new(Dialog::absent(*key)), |entry| entry.value))
        };
        found.into_iter().zip(keys).map(dialog).collect()
    }

    /// Reads one dialog through the tiers; [`Dialog::absent`] if there is none.
    pub(crate) async fn get(&self, key: DialogKey, consistency: &Consistency) -> Result<Arc<Dialog>, Error> {
        let found = self.cache.get_with(&key, consistency).await;
        let found = found.map_err(|error| Error::cache(DIALOGS, &error))?;
        Ok(found.map_or_else(|| Arc::new(Dialog::absent(key)), |entry| entry.value))
    }

    /// Creates these users' missing dialogs about a conversation; for a direct conversation, the dialogs of
    /// both its users. Writes only dialogs that this node does not know to exist. Must be called within
    /// [`Mutations::run`].
    pub(crate) async fn create_missing(
        &self,
        conversation: ConversationId,
        users: impl Iterator<Item = UserId> + Send,
    ) -> Result<Option<Token>, Error> {
        let mut keys = DialogKey::of_direct(conversation);
        keys.extend(users.map(|user| DialogKey { user, conversation }));
        keys.sort_unstable();
        keys.dedup();
        let Some(keys) = self.not_known(keys) else { return Ok(None) };
        let _creation = self.creation_locks[creation_lock(conversation)].lock().await;
        let Some(keys) = self.not_known(keys) else { return Ok(None) };
        let (store, asked) = (Arc::clone(&self.store), keys.clone());
        let write = Box::pin(async move { store.make_dialogs(&asked, Timestamp::now()).await });
        let written =
            self.mutations.write_all(&self.cache, keys.clone(), write).await.map_err(store_error)?;
        let mut known = self.known.lock();
        if known.len() + keys.len() > KNOWN_MAX {
            known.clear();
        }
        known.extend(keys);
        Ok(Some(written.token))
    }

    /// Returns the dialogs that are not known to exist; `None`: all are known.
    fn not_known(&self, keys: Vec<DialogKey>) -> Option<Vec<DialogKey>> {
        let known = self.known.lock();
        let keys: Vec<DialogKey> = keys.into_iter().filter(|key| !known.contains(key)).collect();
        (!keys.is_empty()).then_some(keys)
    }

    /// Makes up to [`MARKS_AT_ONCE`](kith_store::MARKS_AT_ONCE) marks in one store command, and notifies
    /// other nodes in one publication. Returns for each whether it was made. Memory takes each dialog whose
    /// copy was right, and drops the others. The caller must not drop this future half-way.
    ///
    /// # Errors
    /// The store's errors, which concern all marks.
    pub(super) async fn mark(
        &self,
        command: MarkCommand,
    ) -> Result<Committed<Vec<Result<MarkBase, StoreError>>>, StoreError> {
        let (store, now) = (Arc::clone(&self.store), Timestamp::now());
        let (marks, marked) = command.at(now);
        let write = Box::pin(async move { store.mark_dialogs(&marks, now).await });
        let changes = |made: &Vec<_>| marked.changes(made);
        self.mutations.write_each(&self.cache, marked.keys(), write, changes).await
    }

    /// Changes settings of a dialog. Returns the dialog after the write.
    ///
    /// # Errors
    /// ABORTED, INVALID_ARGUMENT, or errors of the store.
    pub(crate) async fn change(
        &self,
        key: DialogKey,
        patch: DialogPatch,
        write: Write,
        deadline: Instant,
    ) -> Result<Committed<Dialog>, Error> {
        let store = Arc::clone(&self.store);
        let write = Box::pin(async move { store.change_dialog(key, patch, write).await });
        self.mutations.write_record(&self.cache, deadline, RecordWrite { key, write, change: put }).await
    }

    /// Reduces a deleted user's dialogs about conversations whose logs have these ends; see
    /// [`DialogStore::reduce_dialogs`]. Must be called within [`Mutations::run`].
    pub(super) async fn reduce(&self, user: UserId, ends: Vec<(ConversationId, Seq)>) -> Result<(), Error> {
        let keys = ends.iter().map(|(conversation, _)| DialogKey { user, conversation: *conversation });
        let (store, keys) = (Arc::clone(&self.store), keys.collect());
        let write = Box::pin(async move { store.reduce_dialogs(user, &ends, Timestamp::now()).await });
        self.mutations.write_all(&self.cache, keys, write).await.map(drop).map_err(store_error)
    }

    /// Reads a page of the dialogs of a user from the store; see [`DialogStore::dialog_list`].
    pub(crate) async fn list(
        &self,
        user: UserId,
        after: Option<DialogPosition>,
        limit: usize,
    ) -> Result<Vec<Dialog>, Error> {
        self.store.dialog_list(user, DialogList::All, after, limit).await.map_err(store_error)
    }

    /// Reads the conversations of a user's dialogs; see [`DialogStore::dialog_conversations`].
    pub(super) async fn conversations(
        &self,
        user: UserId,
        after: Option<ConversationId>,
        limit: usize,
    ) -> Result<Vec<ConversationId>, Error> {
        self.store.dialog_conversations(user, after, limit).await.map_err(store_error)
    }
}

/// Returns the index of the lock that serializes a conversation's creations.
fn creation_lock(conversation: ConversationId) -> usize {
    let mut hasher = DefaultHasher::new();
    conversation.hash(&mut hasher);
    usize::try_from(hasher.finish() % CREATION_LOCKS as u64).unwrap_or_default()
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err takes")]
pub(super) fn store_error(error: StoreError) -> Error {
    Error::store(DIALOGS, &error)
}
