//! The key under which a request's answer is stored.

use kith_store::{REQUEST_KEPT, Request, StoreError, Timestamp};
use serde::{Serialize, de::DeserializeOwned};

use super::client::{
    error::malformed,
    row::NamedRow,
    session::{Bound, Statement, Values, values},
};

/// A request, and when it was first made.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestKey<'a> {
    pub(super) request: &'a Request,
    pub(super) begun: i64,
    /// When this call was made.
    pub(super) now: Timestamp,
}

/// An answer is stored in the partition that is changed, by the change's own write, for a day. It is read
/// serially, which first completes conditional writes in progress. It needs no condition itself: a retry has
/// read that there is no answer, and if an earlier attempt takes effect after that, the condition on the head
/// fails.
impl RequestKey<'_> {
    /// Where the answer is in the partition that is changed: a number made from the id, and [`Self::begun`].
    pub(super) fn position(self) -> (i64, i64) {
        // FNV-1a, which must not change; the stored row names its request.
        let step = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        let sum = self.request.id.as_str().bytes().fold(0xCBF2_9CE4_8422_2325, step);
        (sum.cast_signed(), self.begun)
    }

    /// The request's name in a stored answer: its id and its fingerprint.
    pub(super) fn name(self) -> String {
        let fingerprint: String = self.request.fingerprint.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}#{fingerprint}", self.request.id.as_str())
    }

    /// The statement that stores the answer in this partition. `put` takes the partition, then
    /// [`Self::position`], [`Self::name`] and the answer.
    pub(super) fn answer_part(
        self,
        put: &'static Statement,
        partition: Values,
        answer: &impl Serialize,
    ) -> Result<Bound, StoreError> {
        let (sum, begun) = self.position();
        let reply = serde_json::to_string(answer).map_err(|_| malformed("reply"))?;
        Ok(Bound(put, [partition, values![sum, begun, self.name(), reply]].concat()))
    }

    /// The stored answer among these rows, and the key under which it is stored.
    ///
    /// Its request may have begun before [`Self::begun`]: a first call may be forgotten as failed although
    /// its write takes effect later, because the server was stopped in the middle of it.
    pub(super) fn answer<A: DeserializeOwned>(
        self,
        rows: &[NamedRow],
    ) -> Result<Option<(A, Self)>, StoreError> {
        let found = rows.iter().find_map(|row| Some((row, self.answered_by(row)?)));
        found.map(|(row, begun)| Ok((row.json("reply")?, Self { begun, ..self }))).transpose()
    }

    /// When the request began that this row answers. `None`: the row answers another request, or is too old.
    fn answered_by(self, row: &NamedRow) -> Option<i64> {
        let is_named = matches!(row.text("request"), Ok(Some(name)) if name == self.name());
        let begun = row.number("begun").ok().flatten()?;
        (is_named && !is_expired(begun, self.now)).then_some(begun)
    }
}

/// Whether a request that was first made then is too old to be answered again.
pub(super) fn is_expired(asked: i64, now: Timestamp) -> bool {
    Timestamp(asked).after(REQUEST_KEPT) <= now
}
