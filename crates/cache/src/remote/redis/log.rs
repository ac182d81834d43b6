//! The log of changes in Redis, one stream per epoch. One script changes the cells, appends the entry and
//! publishes it.

use bytes::Bytes;
use fred::{
    interfaces::StreamsInterface,
    types::{Key, Value},
};

use super::{
    RedisShared,
    failures::meaning,
    frames::{self, EpochSubscription},
    scripts::run,
    values,
};
use crate::remote::shared::{
    CellWrite, ChangeAnswer, Confirmation, Frame, Frames, Log, LogEntry, SharedError,
};

/// A stream entry, as Redis returns it: its id, then its fields' names and values in turn.
type Logged = (String, Vec<Bytes>);

#[async_trait::async_trait]
impl Log for RedisShared {
    async fn change(
        &self,
        epoch: u64,
        writes: &[(String, CellWrite)],
        entry: LogEntry<'_>,
    ) -> Result<ChangeAnswer, SharedError> {
        let retention = &self.options.retention;
        let cells = writes.iter().map(|(key, _)| self.names.cell(key));
        let keys: Vec<Key> = cells.chain(self.epoch_keys(epoch)).collect();
        let mut arguments = vec![
            self.wakes(),
            Value::from(self.names.entries(epoch)),
            values::number(entry.nonce),
            values::bytes(entry.message.to_vec()),
            Value::from(i64::from(retention.log_max)),
            self.tombs(),
            values::number(epoch),
            values::duration(retention.silent),
        ];
        arguments.extend(
            writes.iter().map(|(_, write)| values::cell_write(write, self.jittered(retention.copies))),
        );
        let script = if entry.strict { &self.scripts.change_strict } else { &self.scripts.change };
        let call = self.begin_call()?;
        let answer = run(call.client(), script, keys, arguments).await;
        changed(call.finish(answer)?)
    }

    async fn replay(&self, epoch: u64, from: u64, most: usize) -> Result<Vec<Frame>, SharedError> {
        let from = format!("1-{}", from.saturating_sub(1));
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        let log = self.names.log(epoch);
        let entries = self.control.client.xrange(log, from, "+", Some(most)).await;
        let entries: Vec<Logged> = entries.map_err(|error| meaning(&error))?;
        // Entries of other programs are left out: they show as a gap.
        Ok(entries.iter().filter_map(|(id, fields)| frame(id, fields)).collect())
    }

    async fn subscribe(&self, epoch: u64, node: u64) -> Result<Box<dyn Frames>, SharedError> {
        Ok(Box::new(EpochSubscription::begin(self, epoch, node).await?))
    }

    async fn confirm(&self, epoch: u64, to: &[u64], confirmed: Confirmation) -> Result<(), SharedError> {
        let mut arguments =
            vec![self.wakes(), values::number(confirmed.node), values::number(confirmed.number)];
        for to in to {
            let message = frames::confirmation(self.options.mac.as_ref(), (epoch, *to), confirmed);
            arguments.extend([Value::from(self.names.confirmations(epoch, *to)), values::bytes(message)]);
        }
        let nodes = vec![self.names.nodes(epoch)];
        let proof = self.proof_link().await;
        let done = run(proof.client(), &self.scripts.confirm, nodes, arguments).await;
        done.map(drop).map_err(|error| meaning(&error))
    }
}

fn changed(value: Value) -> Result<ChangeAnswer, SharedError> {
    let values = values::array(value)?;
    let [number, epoch, peers] = <[Value; 3]>::try_from(values).map_err(|_| SharedError::Unexpected)?;
    Ok(ChangeAnswer {
        number: values::unsigned(&number).ok_or(SharedError::Unexpected)?,
        epoch: values::read_number(&epoch).ok_or(SharedError::Unexpected)?,
        peers: values::peer_positions(peers)?,
    })
}

fn frame(id: &str, fields: &[Bytes]) -> Option<Frame> {
    let at: u64 = id.strip_prefix("1-")?.parse().ok()?;
    let [_, entry] = fields else { return None };
    Frame::from_log(at + 1, entry)
}
