//! Imports reactions that were made elsewhere. No user is notified.

use std::collections::{BTreeMap, HashMap};

use kith_cache::Consistency;
use kith_proto::message::v1 as wire;
use kith_store::{
    DocumentKey, REACTION_CHANGES_MAX, Reaction, ReactionChange, ReactionKey, ReactionRefusal, Seq, UserId,
    document_of,
};

use super::{
    super::{Messages, changes::no_message},
    convert,
    service::refused,
};
use crate::{
    error::{Error, Reason},
    message::convert::conversation,
    rpc::{
        batch::{Limits, missing},
        ids,
        versions::past_moment,
    },
};

/// A reaction, and its document.
type Placed = (DocumentKey, Reaction);

impl Messages {
    /// Makes these records' reactions, those in one document together. Returns each one's result, in the same
    /// order: the number of its message.
    pub(in crate::message) async fn import_reactions(
        &self,
        limits: &Limits,
        records: Vec<wire::ImportMessage>,
    ) -> Vec<Result<Seq, Error>> {
        let read: Vec<Result<Placed, Error>> = records.into_iter().map(read).collect();
        let exist = self.existing_users(&read).await;
        let mut results = Vec::with_capacity(read.len());
        let mut documents: BTreeMap<DocumentKey, Vec<(usize, Reaction)>> = BTreeMap::new();
        for (at, placed) in read.into_iter().enumerate() {
            let placed = placed.and_then(|placed| {
                let exists = exist.get(&placed.1.key.user).cloned();
                exists.unwrap_or_else(|| Err(Error::internal())).map(|()| placed)
            });
            // Replaced below, unless it is an error.
            results.push(placed.as_ref().map(|(_, reaction)| reaction.key.seq).map_err(Clone::clone));
            if let Ok((key, reaction)) = placed {
                documents.entry(key).or_default().push((at, reaction));
            }
        }
        for (key, reactions) in documents {
            for some in reactions.chunks(REACTION_CHANGES_MAX) {
                for (at, result) in self.import_in(limits, key, some).await {
                    results[at] = result;
                }
            }
        }
        results
    }

    /// Makes reactions in one document. Returns the places with their results.
    async fn import_in(
        &self,
        limits: &Limits,
        key: DocumentKey,
        reactions: &[(usize, Reaction)],
    ) -> Vec<(usize, Result<Seq, Error>)> {
        let changes = reactions.iter().map(|(_, reaction)| ReactionChange::Add(reaction.clone())).collect();
        let this = self.clone();
        let work = async move { this.reactions.change(key, changes).await };
        let changed = self.mutations.call(limits.import_deadline(), Box::pin(work)).await;
        let result = |at: usize, seq: Seq| match &changed {
            Ok(changed) => match changed.results.get(at) {
                Some(Ok(true)) => Ok(seq),
                Some(Ok(false)) => Err(Error::new(Reason::IdTaken, "the reaction exists")),
                Some(Err(ReactionRefusal::NoMessage)) => Err(no_message()),
                Some(Err(refusal)) => Err(refused(*refusal)),
                None => Err(Error::internal()),
            },
            Err(error) => Err(error.clone()),
        };
        let placed = reactions.iter().enumerate();
        placed.map(|(at, (place, reaction))| (*place, result(at, reaction.key.seq))).collect()
    }

    async fn existing_users(&self, read: &[Result<Placed, Error>]) -> HashMap<UserId, Result<(), Error>> {
        let mut users: Vec<UserId> = read.iter().flatten().map(|(_, reaction)| reaction.key.user).collect();
        users.sort_unstable();
        users.dedup();
        let found = self.dependencies.users.get_many(&users, &Consistency::Cached).await;
        let exists = found.into_iter().map(|found| match found {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(Error::not_found("user")),
            Err(error) => Err(error),
        });
        users.into_iter().zip(exists).collect()
    }
}

/// The reaction of a record.
fn read(record: wire::ImportMessage) -> Result<Placed, Error> {
    let reaction = record.reaction.ok_or_else(|| missing("reaction"))?;
    if record.message.is_some() || record.mark.is_some() {
        return Err(Error::invalid("reaction", "must not be given with a message or a mark"));
    }
    imported(&reaction).map_err(|error| error.within("reaction"))
}

fn imported(reaction: &wire::ImportReaction) -> Result<Placed, Error> {
    let conversation = conversation(&reaction.conversation_id)?;
    let user = ids::user("user_id", reaction.user_id)?;
    if matches!(conversation, kith_store::ConversationId::Direct(..)) && !conversation.is_direct_of(user) {
        return Err(Error::invalid("user_id", "must be one of the two users"));
    }
    let (seq, kind) = (convert::seq(reaction.seq)?, convert::kind(&reaction.kind)?);
    let at = past_moment("time", &reaction.time.ok_or_else(|| missing("time"))?)?;
    let key = DocumentKey { conversation, document: document_of(seq) };
    Ok((key, Reaction { key: ReactionKey { seq, user, kind }, at }))
}
