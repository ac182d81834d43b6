//! Which records are parked, and how many the receiver refused in a row.

use std::collections::BTreeMap;

use crate::{Change, Parked, Settings, StopReason};

/// The parked records, by their names.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    parked: BTreeMap<String, Parked>,
    /// The status with which the last records were refused, and their number.
    refused: Option<(u16, u32)>,
    changed: bool,
}

impl Ledger {
    pub(crate) fn new(parked: Vec<Parked>) -> Self {
        let parked = parked.into_iter().map(|parked| (parked.change.record.clone(), parked));
        Self { parked: parked.collect(), ..Self::default() }
    }

    /// The changes of parked records: of all, or of those with these names.
    pub(crate) fn changes(&self, names: Option<&[String]>) -> Vec<Change> {
        let asked = self
            .parked
            .values()
            .filter(|parked| names.is_none_or(|names| names.contains(&parked.change.record)));
        asked.map(|parked| parked.change.clone()).collect()
    }

    /// The receiver has the record as it is now.
    pub(crate) fn delivered(&mut self, record: &str) {
        self.refused = None;
        self.changed |= self.parked.remove(record).is_some();
    }

    /// Parks a record. `refused`: the status with which the receiver refused it.
    ///
    /// # Errors
    /// When there is no room, or the receiver refuses everything.
    pub(crate) fn park(
        &mut self,
        parked: Parked,
        refused: Option<u16>,
        settings: &Settings,
    ) -> Result<(), StopReason> {
        if self.parked.len() >= settings.parked && !self.parked.contains_key(&parked.change.record) {
            return Err(StopReason::ParkedFull(settings.parked));
        }
        self.changed = true;
        self.parked.insert(parked.change.record.clone(), parked);
        let Some(status) = refused else { return Ok(()) };
        let before = self.refused.filter(|(last, _)| *last == status).map_or(0, |(_, records)| records);
        let records = before + 1;
        self.refused = Some((status, records));
        if records >= settings.alike { Err(StopReason::Alike { status, records }) } else { Ok(()) }
    }

    pub(crate) fn parked(&self) -> Vec<Parked> {
        self.parked.values().cloned().collect()
    }

    /// Returns whether it has changed since the last call.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }
}
