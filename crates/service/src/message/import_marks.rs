//! Imports read marks for messages that users had read elsewhere. Neither the users' devices nor other users
//! get notes or signals.

use futures::{StreamExt as _, stream};
use kith_proto::message::v1 as wire;
use kith_store::{DialogKey, MarkKind, Seq};

use super::{Messages, convert, range::no_conversation};
use crate::{
    dialog::MarkRequest,
    error::Error,
    rpc::{
        batch::{Limits, missing},
        ids,
    },
};

/// The most marks that are made at the same time. Marks that wait together are written by one store command.
const AT_ONCE: usize = 100;

/// A mark from an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ImportedMark {
    key: DialogKey,
    read_seq: Seq,
}

impl Messages {
    /// Makes these records' marks. Returns each mark's result, in the same order: the number up to which the
    /// user has read.
    pub(super) async fn import_marks(
        &self,
        limits: &Limits,
        records: Vec<wire::ImportMessage>,
    ) -> Vec<Result<Seq, Error>> {
        let marks = records.into_iter().map(async |record| {
            let (this, mark) = (self.clone(), mark(record)?);
            let work = Box::pin(async move { this.import_mark(mark).await });
            self.mutations.call(limits.import_deadline(), work).await
        });
        stream::iter(marks.collect::<Vec<_>>()).buffered(AT_ONCE).collect().await
    }

    async fn import_mark(&self, ImportedMark { key, read_seq }: ImportedMark) -> Result<Seq, Error> {
        let bounds = self.bounds(Some(key.user), &[key.conversation]).await?;
        let bounds = bounds.into_iter().next().unwrap_or_else(|| Err(no_conversation()))?;
        let (kind, joined, last) = (MarkKind::UpTo(read_seq), bounds.joined(), bounds.left());
        let request = MarkRequest { key, kind, joined, last, exists: false, imported: true };
        let marked = self.marks.mark(request).await?;
        Ok(marked.dialog.read.read_seq())
    }
}

/// The mark of a record.
fn mark(record: wire::ImportMessage) -> Result<ImportedMark, Error> {
    let mark = record.mark.ok_or_else(|| missing("mark"))?;
    if record.message.is_some() {
        return Err(Error::invalid("mark", "must not be given with a message"));
    }
    imported(&mark).map_err(|error| error.within("mark"))
}

fn imported(mark: &wire::ImportMark) -> Result<ImportedMark, Error> {
    let user = ids::user("user_id", mark.user_id)?;
    let conversation = convert::conversation(&mark.conversation_id)?;
    match mark.read_seq {
        ..1 => Err(Error::invalid("read_seq", "must be above 0")),
        read_seq => Ok(ImportedMark { key: DialogKey { user, conversation }, read_seq }),
    }
}
