//! Raw commands. No other file sends raw commands: a reply with `ok: 1` may still say that a write was
//! refused.

use std::time::Duration;

use kith_store::millis;
use mongodb::{
    Collection, Database,
    bson::{Bson, Document, RawDocumentBuf, deserialize_from_bson, doc},
    error::{Error, ErrorKind, WriteFailure},
};
use serde::de::DeserializeOwned;

const DUPLICATE_KEY: i64 = 11000;
/// A statement would set another id.
const IMMUTABLE_FIELD: i64 = 66;

/// Why a reply is not a clear answer. The write may have been applied.
#[derive(Clone, Copy, Debug)]
enum UnclearReply {
    /// Some writes in the command were applied, and others were refused.
    Partial,
    /// The reply has an error that cannot be read.
    Malformed,
}

/// Codes by which a server says that it is not the primary, or is about to stop being it.
const NOT_PRIMARY: [i32; 8] = [91, 189, 10058, 10107, 11600, 11602, 13435, 13436];
/// The server's time limit for the read that finds the primary.
const CHECK: Duration = Duration::from_secs(1);
/// The comment that identifies this read in a server log.
const CHECK_COMMENT: &str = "topology check";

/// Runs a command that writes nothing. Returns its reply.
///
/// # Errors
/// Fails like the driver, and with the errors that [`run_write`] adds.
pub(super) async fn run_read(database: &Database, command: Document) -> Result<Document, Error> {
    run(database, command, examine).await.map(|(reply, ())| reply)
}

/// Runs a command that writes. Returns the reply if the whole reply says that the command was applied, under
/// its write concern. The command names its own write concern and time limit: the client's are not added.
///
/// A write concern that fails because the server stops being the primary makes the driver look for the new
/// primary.
///
/// # Errors
/// Fails like the driver. [`ErrorKind::Write`] if the reply has `writeErrors` or `writeConcernError`; if
/// both, `writeErrors`. Another kind, whose outcome is unknown, if only some writes were applied, or the
/// error cannot be read.
pub(super) async fn run_write(database: &Database, command: Document) -> Result<Document, Error> {
    send_write(database, command, examine).await.map(|(reply, ())| reply)
}

/// Runs an unordered `update` command as [`run_write`] does. Returns which statements a unique index refused,
/// by their place in the command, if the whole reply says that all others were applied.
///
/// # Errors
/// Fails like [`run_write`]. Some statements may have been applied with every error.
pub(super) async fn run_updates(database: &Database, command: Document) -> Result<Vec<usize>, Error> {
    send_write(database, command, duplicates).await.map(|(_, duplicates)| duplicates)
}

/// Like [`run_updates`], for statements that fail where they would make a document, as they set another id on
/// insert. Returns these, too.
///
/// # Errors
/// Fails like [`run_updates`].
pub(super) async fn run_unless_absent(database: &Database, command: Document) -> Result<Vec<usize>, Error> {
    let refused = |reply: &Document| refused(reply, &[DUPLICATE_KEY, IMMUTABLE_FIELD]);
    send_write(database, command, refused).await.map(|(_, refused)| refused)
}

/// The write concern that a command names: the primary's majority, on disk.
pub(super) fn durable_document(limit: Duration) -> Document {
    doc! { "w": "majority", "j": true, "wtimeout": millis(limit) }
}

/// An error for a reply that cannot be read. Its write's outcome is unknown.
pub(super) fn malformed() -> Error {
    Error::custom(UnclearReply::Malformed)
}

/// Runs a command that writes. A server that stops being the primary makes the driver look for the new
/// primary.
async fn send_write<T>(
    database: &Database,
    command: Document,
    examine: fn(&Document) -> Result<T, Error>,
) -> Result<(Document, T), Error> {
    let written = run(database, command, examine).await;
    if written.as_ref().is_err_and(is_deposed) {
        // It is not awaited: it may take as long as an election.
        tokio::spawn(check_topology(database.collection("node")));
    }
    written
}

/// All replies are checked here.
async fn run<T>(
    database: &Database,
    command: Document,
    examine: fn(&Document) -> Result<T, Error>,
) -> Result<(Document, T), Error> {
    let reply = database.run_command(command).await?;
    let examined = examine(&reply)?;
    Ok((reply, examined))
}

/// Whether a reply with `ok: 1` shows that its server is no longer the primary. The driver examines those
/// with `ok: 0` itself.
fn is_deposed(error: &Error) -> bool {
    match &*error.kind {
        ErrorKind::Write(WriteFailure::WriteConcernError(concern)) => NOT_PRIMARY.contains(&concern.code),
        _ => false,
    }
}

/// Reads from the primary. Another server refuses with `ok: 0`, and the driver then finds the primary.
async fn check_topology(any: Collection<RawDocumentBuf>) {
    let nothing = any.find_one(doc! { "_id": Bson::Null }).max_time(CHECK).comment(CHECK_COMMENT);
    if nothing.await.is_err() {
        tracing::debug!("no primary answers");
    }
}

/// The statements that a unique index refused, in a reply without other errors.
fn duplicates(reply: &Document) -> Result<Vec<usize>, Error> {
    refused(reply, &[DUPLICATE_KEY])
}

/// The statements that were refused with one of these codes, in a reply without other errors.
fn refused(reply: &Document, codes: &[i64]) -> Result<Vec<usize>, Error> {
    let errors = match reply.get("writeErrors") {
        Some(errors) => errors.as_array().ok_or_else(malformed)?,
        None => &Vec::new(),
    };
    let mut refused = Vec::with_capacity(errors.len());
    for error in errors {
        let number = |field| error.as_document().and_then(|error| error.get(field)).and_then(whole);
        if number("code").is_none_or(|code| !codes.contains(&code)) {
            return examine(reply).map(|()| Vec::new());
        }
        let index = number("index").and_then(|index| usize::try_from(index).ok());
        refused.push(index.ok_or_else(malformed)?);
    }
    match reply.get("writeConcernError") {
        Some(concern) => Err(ErrorKind::Write(WriteFailure::WriteConcernError(read(concern)?)).into()),
        None => Ok(refused),
    }
}

fn examine(reply: &Document) -> Result<(), Error> {
    if let Some(refused) = reply.get("writeErrors").filter(|errors| **errors != Bson::Array(Vec::new())) {
        let first = refused.as_array().and_then(|errors| errors.first()).ok_or_else(malformed)?;
        let applied = reply.get("n").is_some_and(|n| !is_zero(n));
        let first = read(first)?;
        let failure = ErrorKind::Write(WriteFailure::WriteError(first));
        return Err(if applied { Error::custom(UnclearReply::Partial) } else { failure.into() });
    }
    match reply.get("writeConcernError") {
        Some(concern) => Err(ErrorKind::Write(WriteFailure::WriteConcernError(read(concern)?)).into()),
        None => Ok(()),
    }
}

fn read<T: DeserializeOwned>(error: &Bson) -> Result<T, Error> {
    deserialize_from_bson(error.clone()).map_err(|_| malformed())
}

fn is_zero(n: &Bson) -> bool {
    match n {
        Bson::Int32(n) => *n == 0,
        Bson::Int64(n) => *n == 0,
        Bson::Double(n) => *n == 0.0,
        _ => false,
    }
}

/// A whole number that the server counts.
fn whole(number: &Bson) -> Option<i64> {
    match number {
        Bson::Int32(number) => Some((*number).into()),
        Bson::Int64(number) => Some(*number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use kith_store::{Outcome, StoreError};
    use mongodb::bson::doc;

    use super::{super::error::write_failed, *};

    fn failed(reply: &Document) -> StoreError {
        write_failed(examine(reply).unwrap_err())
    }

    fn refused(code: i32) -> Bson {
        Bson::Array(vec![doc! { "index": 0, "code": code, "errmsg": "refused" }.into()])
    }

    fn no_majority() -> Document {
        doc! { "code": 64, "codeName": "WriteConcernTimeout", "errmsg": "timed out" }
    }

    #[test]
    fn ok_alone_is_applied() {
        for reply in [doc! { "ok": 1 }, doc! { "ok": 1, "n": 1 }, doc! { "ok": 1, "writeErrors": [] }] {
            assert!(examine(&reply).is_ok(), "{reply}");
        }
    }

    #[test]
    fn write_error_is_not_applied() {
        for reply in [
            doc! { "ok": 1, "writeErrors": refused(13) },
            doc! { "ok": 1, "n": 0, "writeErrors": refused(13) },
        ] {
            let error = failed(&reply);
            assert_eq!(error.outcome(), Outcome::NotApplied);
            assert!(matches!(error, StoreError::Internal { .. }), "{error:?}");
        }
    }

    #[test]
    fn write_error_of_interrupted_write_is_unknown() {
        let error = failed(&doc! { "ok": 1, "n": 0, "writeErrors": refused(11600) });
        assert!(matches!(error, StoreError::Unavailable { outcome: Outcome::Unknown, .. }), "{error:?}");
    }

    #[test]
    fn write_concern_error_is_unknown() {
        let error = failed(&doc! { "ok": 1, "n": 1, "writeConcernError": no_majority() });
        assert!(matches!(error, StoreError::Unavailable { outcome: Outcome::Unknown, .. }), "{error:?}");
    }

    #[test]
    fn of_both_the_write_error_decides() {
        let reply = doc! { "ok": 1, "n": 0, "writeErrors": refused(13), "writeConcernError": no_majority() };
        assert_eq!(failed(&reply).outcome(), Outcome::NotApplied);
    }

    #[test]
    fn partly_applied_is_unknown() {
        for n in [Bson::Int32(1), Bson::Int64(1), Bson::Double(1.0)] {
            let reply = doc! { "ok": 1, "n": n, "writeErrors": refused(13) };
            assert_eq!(failed(&reply).outcome(), Outcome::Unknown);
        }
    }

    #[test]
    fn unreadable_error_is_unknown() {
        for reply in [
            doc! { "ok": 1, "writeErrors": "none" },
            doc! { "ok": 1, "writeErrors": [7] },
            doc! { "ok": 1, "writeConcernError": 7 },
            doc! { "ok": 1, "writeConcernError": { "errmsg": "timed out" } },
        ] {
            assert_eq!(failed(&reply).outcome(), Outcome::Unknown, "{reply}");
        }
    }

    fn refused_by_index(statements: &[i32]) -> Bson {
        let error = |index: &i32| doc! { "index": *index, "code": 11000, "errmsg": "refused" };
        statements.iter().map(error).collect::<Vec<_>>().into()
    }

    #[test]
    fn updates_name_their_duplicates() {
        assert_eq!(duplicates(&doc! { "ok": 1, "n": 3 }).unwrap(), Vec::<usize>::new());
        let reply = doc! { "ok": 1, "n": 1, "writeErrors": refused_by_index(&[0, 2]) };
        assert_eq!(duplicates(&reply).unwrap(), [0, 2]);
    }

    #[test]
    fn other_errors_of_updates_are_errors() {
        let failed = |reply: Document| write_failed(duplicates(&reply).unwrap_err()).outcome();
        assert_eq!(failed(doc! { "ok": 1, "n": 0, "writeErrors": refused(13) }), Outcome::NotApplied);
        assert_eq!(failed(doc! { "ok": 1, "n": 1, "writeErrors": refused(13) }), Outcome::Unknown);
        let both = doc! { "ok": 1, "n": 1, "writeErrors": refused_by_index(&[0]), "writeConcernError": no_majority() };
        assert_eq!(failed(both), Outcome::Unknown);
        assert_eq!(failed(doc! { "ok": 1, "n": 0, "writeErrors": 7 }), Outcome::Unknown);
        assert_eq!(failed(doc! { "ok": 1, "n": 0, "writeErrors": [{ "code": 11000 }] }), Outcome::Unknown);
    }

    #[test]
    fn only_concern_of_old_primary_checks_topology() {
        let concern = |code: i32| doc! { "ok": 1, "writeConcernError": { "code": code, "errmsg": "made" } };
        for code in NOT_PRIMARY {
            assert!(is_deposed(&examine(&concern(code)).unwrap_err()), "{code}");
        }
        assert!(!is_deposed(&examine(&concern(64)).unwrap_err()));
        assert!(!is_deposed(&examine(&doc! { "ok": 1, "writeErrors": refused(10107) }).unwrap_err()));
    }

    #[test]
    fn disk_without_room_is_full() {
        assert!(matches!(failed(&doc! { "ok": 1, "writeErrors": refused(14031) }), StoreError::Full { .. }));
    }
}
