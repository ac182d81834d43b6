//! Authentication between nodes: a proof for each call, and a proof for each record in Redis.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::Mac as _;
use kith_service::error::Error;
use kith_store::Timestamp;

use super::{NodeKeys, keys::mac};

const VERSION: &str = "v1";
/// How long a proof is valid, before and after its time: node clocks differ.
const GOOD_MS: u64 = 30_000;
/// Where the proof begins in a record, which is JSON: its last field.
const FIELD: &str = ",\"proof\":\"";

/// Creates and verifies proofs with keys that only the nodes know.
#[derive(Clone)]
pub(crate) struct Proofs {
    calls: [u8; 32],
    records: [u8; 32],
}

impl Proofs {
    pub(super) fn new(keys: &NodeKeys) -> Self {
        Self { calls: keys.calls(), records: keys.records() }
    }

    /// A proof that the node `from` makes this call, `SERVICE/METHOD`, to the node `to` at this time. It
    /// proves no other call and no other node, so that a program that reads it can at most repeat the call
    /// for a while.
    pub(super) fn of_call(&self, from: &str, to: &str, method: &str, now: Timestamp) -> String {
        let time = now.0.to_string();
        let proof = mac(&self.calls, &call(from, to, method, &time)).finalize().into_bytes();
        format!("{VERSION}.{from}.{time}.{}", URL_SAFE_NO_PAD.encode(proof))
    }

    /// Verifies that the caller is a node and makes this call to the node `to`.
    ///
    /// # Errors
    /// NOT_ALLOWED for every invalid proof.
    pub(super) fn check_call(
        &self,
        proof: &[u8],
        to: &str,
        method: &str,
        now: Timestamp,
    ) -> Result<(), Error> {
        let text = "kith-node is not that of a node for this call, or the clocks of the nodes are more than 30s apart";
        self.is_call(proof, to, method, now).then_some(()).ok_or_else(|| Error::not_allowed(text))
    }

    fn is_call(&self, proof: &[u8], to: &str, method: &str, now: Timestamp) -> bool {
        let Some([VERSION, from, time, proof]) = std::str::from_utf8(proof).ok().and_then(parts) else {
            return false;
        };
        let is_now = time.parse::<i64>().is_ok_and(|time| time.abs_diff(now.0) <= GOOD_MS);
        let given = URL_SAFE_NO_PAD.decode(proof).unwrap_or_default();
        is_now && mac(&self.calls, &call(from, to, method, time)).verify_slice(&given).is_ok()
    }

    /// The record with a proof that a node in this epoch wrote it. A record is a JSON object.
    pub(super) fn with_proof(&self, record: &str, epoch: u64) -> String {
        let Some(fields) = record.strip_suffix('}') else { return String::new() };
        let proof =
            URL_SAFE_NO_PAD.encode(mac(&self.records, &of_epoch(fields, epoch)).finalize().into_bytes());
        format!("{fields}{FIELD}{proof}\"}}")
    }

    /// Whether a node in this epoch wrote the record.
    pub(super) fn is_proven(&self, record: &str, epoch: u64) -> bool {
        let parts = record.strip_suffix("\"}").and_then(|record| record.rsplit_once(FIELD));
        let Some((fields, proof)) = parts else { return false };
        let given = URL_SAFE_NO_PAD.decode(proof).unwrap_or_default();
        mac(&self.records, &of_epoch(fields, epoch)).verify_slice(&given).is_ok()
    }
}

impl fmt::Debug for Proofs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Proofs")
    }
}

/// Exactly as many parts.
fn parts<const N: usize>(text: &str) -> Option<[&str; N]> {
    text.split('.').collect::<Vec<_>>().try_into().ok()
}

/// No part may have a line break.
fn call(from: &str, to: &str, method: &str, time: &str) -> String {
    format!("{VERSION}\n{to}\n{from}\n{method}\n{time}")
}

fn of_epoch(fields: &str, epoch: u64) -> String {
    format!("{epoch}\n{fields}")
}

#[cfg(test)]
impl Proofs {
    pub(super) fn of_test(key: u8) -> Self {
        Self { calls: [key; 32], records: [key.wrapping_add(1); 32] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INSPECT: &str = "kith.admin.v1.AdminService/InspectKey";
    const FLUSH: &str = "kith.admin.v1.AdminService/FlushMemory";
    const NOW: Timestamp = Timestamp(1_800_000_000_000);

    fn is_call(proof: &str, to: &str, method: &str, later_ms: i64) -> bool {
        let now = Timestamp(NOW.0 + later_ms);
        Proofs::of_test(1).check_call(proof.as_bytes(), to, method, now).is_ok()
    }

    #[test]
    fn proof_is_valid_for_one_call_for_a_while() {
        let proof = Proofs::of_test(1).of_call("a", "b", INSPECT, NOW);
        assert!(is_call(&proof, "b", INSPECT, 0));
        assert!(is_call(&proof, "b", INSPECT, 30_000) && is_call(&proof, "b", INSPECT, -30_000));
        assert!(!is_call(&proof, "b", INSPECT, 30_001) && !is_call(&proof, "b", INSPECT, -30_001));
        assert!(!is_call(&proof, "b", FLUSH, 0), "of another method");
        assert!(!is_call(&proof, "c", INSPECT, 0), "of another node");
        let other = Proofs::of_test(2).of_call("a", "b", INSPECT, NOW);
        assert!(!is_call(&other, "b", INSPECT, 0), "of another store");
    }

    #[test]
    fn what_is_changed_is_no_proof() {
        let proof = Proofs::of_test(1).of_call("a", "b", INSPECT, NOW);
        let later = proof.replace(&NOW.0.to_string(), &(NOW.0 + 1).to_string());
        let by_another = proof.replace("v1.a.", "v1.c.");
        let changed =
            [later, by_another, proof.replace("v1", "v2"), format!("{proof}.x"), proof[..20].to_owned()];
        for wrong in changed.iter().map(String::as_str).chain(["", "v1", "v1...", "v1.a.b.c"]) {
            assert_ne!(wrong, proof);
            assert!(!is_call(wrong, "b", INSPECT, 0), "{wrong:?}");
        }
    }

    #[test]
    fn record_is_proven_unchanged_in_its_epoch() {
        let proofs = Proofs::of_test(1);
        let record = proofs.with_proof(r#"{"id":"a","address":"http://a:1"}"#, 7);
        assert!(proofs.is_proven(&record, 7));
        assert!(!proofs.is_proven(&record, 8), "of another epoch");
        assert!(!Proofs::of_test(2).is_proven(&record, 7), "of another store");
        assert!(!proofs.is_proven(&record.replace("a:1", "b:1"), 7), "changed");
        let read: serde_json::Value = serde_json::from_str(&record).unwrap();
        assert_eq!((&read["id"], &read["address"]), (&"a".into(), &"http://a:1".into()));
        for wrong in ["", "{}", r#"{"id":"a"}"#, r#"{"id":"a","proof":""}"#, r#","proof":""}"#, "\u{0}"] {
            assert!(!proofs.is_proven(wrong, 7), "{wrong:?}");
        }
    }
}
