//! Data for an embedded node whose follow lists were damaged by hand.

use std::{fs, path::Path};

use kith_store::{Edge, ImportedFollow, Timestamp, UserId};
use kith_store_sqlite::SqliteOptions;

/// The follow that the second user's fan list shows wrongly.
pub(crate) const WRONG: (i64, i64) = (101, 102);
/// The follow's time, whose bytes are found nowhere else in the file.
pub(crate) const SINCE: i64 = 1_250_999_896_491;
/// A user with twelve follows and thirteen fans, whose fan count is one too high.
pub(crate) const MISCOUNTED: i64 = 7;
/// The number of follows.
pub(crate) const FOLLOWS: i64 = 12 + 13 + 1;

/// Makes `data_dir` with such data.
pub(crate) async fn prepare(data_dir: &Path) {
    fs::create_dir_all(data_dir).unwrap();
    let file = data_dir.join("kith.db");
    let handle = kith_store_sqlite::open(SqliteOptions::new(file.clone())).await.unwrap();
    handle.stores().migrations.migrate().await.unwrap();
    let following = (1..=12).map(|other| follow(MISCOUNTED, 200 + other, 5));
    let fans = (1..=13).map(|other| follow(300 + other, MISCOUNTED, 6));
    let follows: Vec<_> = following.chain(fans).chain([follow(WRONG.0, WRONG.1, SINCE)]).collect();
    handle.stores().follows.import_follows(&follows, Timestamp(9_000)).await.unwrap();
    handle.close().await;
    let mut bytes = fs::read(&file).unwrap();
    // The follow, the following list and the fan list each have their own page, in schema order.
    let moments = places(&bytes, &SINCE.to_be_bytes()[2..]);
    assert_eq!(moments.len(), 3);
    bytes[moments[2] + 5] ^= 1;
    // The row with this id has six bytes; four are a header that announces two one-byte numbers.
    let counts = places(&bytes, &[6, 7, 4, 0, 1, 1, 12, 13]);
    assert_eq!(counts.len(), 1);
    bytes[counts[0] + 7] += 1;
    fs::write(&file, bytes).unwrap();
}

fn follow(from: i64, to: i64, since: i64) -> ImportedFollow {
    let user = |id| UserId::new(id).unwrap();
    ImportedFollow { edge: Edge::new(user(from), user(to)).unwrap(), since: Timestamp(since) }
}

fn places(bytes: &[u8], wanted: &[u8]) -> Vec<usize> {
    let windows = bytes.windows(wanted.len()).enumerate();
    windows.filter(|(_, window)| *window == wanted).map(|(at, _)| at).collect()
}
