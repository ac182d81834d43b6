//! Imports into a fake node, a map that can be set to fail.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap, VecDeque},
    io::Cursor,
    time::Duration,
};

use crate::client::{Channel, Credential};
use futures::StreamExt as _;
use kith_proto::{
    r#type::v1::{ImportResult, ResultError, import_result::Result as Outcome},
    user::v1::User,
};
use kith_service::rpc::answer_size::left_out;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, transport::Endpoint};

use super::{
    progress::{ImportCounts, default_file},
    *,
};
use crate::{
    kind::{Entry, MessageStream, StoredRecords, same_by_id},
    users,
};

/// The fault that the next chunk meets.
#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    /// The connection is lost before anything happened.
    LostBefore,
    /// The connection is lost after the whole chunk was stored.
    LostAfter,
    /// The node takes only every other record.
    Overload,
    /// The node refuses the chunk for ever.
    Refused,
}

#[derive(Default)]
struct Node {
    users: BTreeMap<i64, User>,
    requests: HashMap<String, i64>,
    faults: VecDeque<Fault>,
    chunks: usize,
}

thread_local! {
    // Each test has its own thread, and so its own node.
    static NODE: RefCell<Node> = RefCell::default();
}

struct Fake;

impl Import for Fake {
    const NAME: &'static str = "users";

    type Record = User;

    fn read_line(&self, line: &[u8]) -> Result<Option<User>, String> {
        Users.read_line(line)
    }

    async fn import(
        &self,
        _channel: Channel,
        chunks: ReceiverStream<Vec<Entry<User>>>,
    ) -> Result<MessageStream<Vec<ImportResult>>, Status> {
        let answers = chunks.scan(false, |lost, chunk| {
            let answer = (!*lost).then(|| NODE.with_borrow_mut(|node| node.take(chunk)));
            *lost = matches!(answer, Some(Err(_)));
            futures::future::ready(answer)
        });
        Ok(answers.boxed())
    }

    async fn are_stored(&self, _: Channel, sent: &[&User]) -> Result<Vec<bool>, Status> {
        same_by_id(sent, |user| user.user_id, read, users::same).await
    }
}

/// Reads with answers that have room for one record.
async fn read(ids: Vec<i64>) -> Result<StoredRecords<User>, Status> {
    let mut stored = StoredRecords::default();
    let found: Vec<User> =
        NODE.with_borrow(|node| ids.iter().filter_map(|id| node.users.get(id).cloned()).collect());
    for user in found {
        if stored.records.is_empty() {
            stored.records.push(user);
        } else {
            stored.fail(user.user_id, left_out().to_result())?;
        }
    }
    Ok(stored)
}

impl Node {
    fn take(&mut self, chunk: Vec<Entry<User>>) -> Result<Vec<ImportResult>, Status> {
        self.chunks += 1;
        let fault = self.faults.pop_front().unwrap_or(Fault::None);
        match fault {
            Fault::LostBefore => return Err(Status::unavailable("lost")),
            Fault::Refused => return Err(Status::permission_denied("not for users")),
            Fault::None | Fault::LostAfter | Fault::Overload => {}
        }
        let results = chunk.into_iter().enumerate().map(|(at, entry)| {
            let record = i64::try_from(entry.line).unwrap();
            let result = match fault {
                Fault::Overload if at % 2 == 1 => error(Code::Unavailable, "STORE_UNAVAILABLE", "away"),
                _ => self.create(entry),
            };
            ImportResult { record, result: Some(result) }
        });
        let results = results.collect();
        if matches!(fault, Fault::LostAfter) { Err(Status::unavailable("lost")) } else { Ok(results) }
    }

    fn create(&mut self, entry: Entry<User>) -> Outcome {
        let id = entry.record.user_id;
        if self.requests.contains_key(&entry.request_id) {
            return Outcome::Id(id);
        }
        if entry.record.user_name.is_empty() {
            return error(Code::InvalidArgument, "INVALID_FIELD", "user_name must have 1 to 64 characters");
        }
        if self.users.contains_key(&id) {
            return error(Code::AlreadyExists, "ID_TAKEN", "user_id is taken");
        }
        self.requests.insert(entry.request_id, id);
        self.users.insert(id, User { version: 1, ..entry.record });
        Outcome::Id(id)
    }
}

fn error(code: Code, reason: &str, message: &str) -> Outcome {
    let (reason, message) = (reason.to_owned(), message.to_owned());
    Outcome::Error(ResultError { code: code as i32, reason, message, ..ResultError::default() })
}

/// Makes a file with good users with these ids, and a bad line behind every tenth.
fn file(ids: std::ops::Range<i64>) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users.jsonl");
    let lines = ids.map(|id| {
        let bad = if id % 10 == 0 { "{\"nickName\":\"nobody\"}\n" } else { "" };
        format!("{{\"userId\":{id},\"userName\":\"u{id}\"}}\n{bad}")
    });
    fs::write(&file, lines.collect::<String>()).unwrap();
    (folder, file)
}

/// Runs once over `file`, in chunks with ten lines, and gives up at the third failure.
async fn run(file: &Path) -> Result<ImportCounts> {
    let job = Job::of("users", "http://here", file)?;
    let kept = default_file(file);
    let progress = Progress::load(&kept, &job)?.unwrap_or_else(|| Progress::new(job));
    progress.save(&kept)?;
    let source = Cursor::new(fs::read(file)?[usize::try_from(progress.at.offset)?..].to_vec());
    let bounds = ChunkBounds { lines: 10, ..ChunkBounds::default() };
    let reader = ChunkReader::new(source, progress.at, progress.run.clone(), bounds);
    let channel = Endpoint::from_static("http://127.0.0.1:1").connect_lazy();
    let channel = Channel::new(channel, Credential::default());
    let report = ImportReport::new("users.jsonl", &progress);
    let mut running = RunningImport::new(channel, Fake, reader, progress, Some(kept), report);
    running.limits.tries = 3;
    running.limits.first_wait = Duration::ZERO;
    running.run().await
}

fn fail(faults: impl IntoIterator<Item = Fault>) {
    NODE.with_borrow_mut(|node| node.faults.extend(faults));
}

fn count_stored() -> usize {
    NODE.with_borrow(|node| node.users.len())
}

fn tally(imported: u64, already_there: u64, bad: u64) -> ImportCounts {
    ImportCounts { imported, already_there, bad }
}

#[tokio::test]
async fn bad_lines_are_counted_and_others_are_stored() {
    let (_folder, file) = file(1..101);
    assert_eq!(run(&file).await.unwrap(), tally(100, 0, 10));
    assert_eq!(count_stored(), 100);
}

#[tokio::test]
async fn resumed_run_counts_both_parts_in_its_totals() {
    let (_folder, file) = file(1..101);
    fail([Fault::None, Fault::None, Fault::LostBefore, Fault::LostBefore, Fault::LostBefore]);
    let error = run(&file).await.unwrap_err().to_string();
    assert!(error.contains("run it again"), "{error}");
    let (chunks, before) = (NODE.with_borrow(|node| node.chunks), count_stored());
    assert!(before < 100);
    assert_eq!(run(&file).await.unwrap(), tally(100, 0, 10));
    assert_eq!(count_stored(), 100);
    // 110 lines are 11 chunks; the first run recorded two.
    assert_eq!(NODE.with_borrow(|node| node.chunks) - chunks, 9);
}

#[tokio::test]
async fn what_happened_without_an_answer_counts_once() {
    let (_folder, file) = file(1..101);
    fail([Fault::None, Fault::LostAfter, Fault::None, Fault::LostAfter]);
    assert_eq!(run(&file).await.unwrap(), tally(100, 0, 10));
    assert_eq!(count_stored(), 100);
}

#[tokio::test]
async fn records_refused_by_overload_are_sent_again() {
    let (_folder, file) = file(1..101);
    fail([Fault::Overload; 8]);
    assert_eq!(run(&file).await.unwrap(), tally(100, 0, 10));
}

#[tokio::test]
async fn equal_record_is_there_and_another_one_is_bad() {
    let (_folder, file) = file(1..6);
    NODE.with_borrow_mut(|node| {
        let user = |id: i64, name: &str| User {
            user_id: id,
            user_name: name.to_owned(),
            version: 4,
            ..User::default()
        };
        node.users.extend([(2, user(2, "u2")), (3, user(3, "another user"))]);
    });
    assert_eq!(run(&file).await.unwrap(), tally(3, 1, 1));
}

#[tokio::test]
async fn a_file_imported_before_is_already_there() {
    let (_folder, file) = file(1..9);
    run(&file).await.unwrap();
    fs::remove_file(default_file(&file)).unwrap();
    assert_eq!(run(&file).await.unwrap(), tally(0, 8, 0));
}

#[tokio::test]
async fn a_refusal_of_the_whole_ends_the_run_at_once() {
    let (_folder, file) = file(1..101);
    fail([Fault::Refused]);
    let error = run(&file).await.unwrap_err().to_string();
    assert_eq!(error, "the node refuses the import: not for users");
}
