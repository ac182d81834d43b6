//! Damages the log's end in a SQLite file, like a power loss during a write.
//!
//! Complete commits stay: the disk had them before the node acknowledged them. Behind them there may be
//! anything.

#![allow(unreachable_pub, reason = "a module of tests has no outside")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{fs, path::Path};

use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};

/// The bytes before the first frame, and before each frame's page.
const HEAD: usize = 32;
const FRAME_HEAD: usize = 24;
/// The first word in a log whose checksums use little-endian words; the last bit means big-endian.
const MAGIC: u32 = 0x377f_0682;

/// The bytes behind the last commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogTail {
    /// The bytes that the node left.
    Left,
    /// No bytes, or a part of the unfinished write.
    Cut,
    /// Other bytes from the disk.
    Noise,
    /// A frame that claims to be a commit, and whose page is incomplete.
    HalfFrame,
}

impl LogTail {
    /// Returns another kind in each round.
    pub fn of_round(round: usize) -> Self {
        [Self::Left, Self::Cut, Self::Noise, Self::HalfFrame][round % 4]
    }

    /// Damages this data file's log. Returns whether there was a log to damage.
    pub fn damage(self, data: &Path, seed: u64) -> bool {
        let path = data.join("kith.db-wal");
        let Ok(mut log) = fs::read(&path) else { return false };
        let Some((end, page)) = committed(&log) else { return false };
        let mut random = SmallRng::seed_from_u64(seed);
        match self {
            Self::Left => return false,
            Self::Cut => log.truncate(random.random_range(end..=log.len())),
            Self::Noise => {
                log.truncate(end);
                let length = random.random_range(1..3 * page);
                log.extend((0..length).map(|_| random.random::<u8>()));
            }
            Self::HalfFrame => {
                log.truncate(end);
                log.extend([1_u32.to_be_bytes(), 9_u32.to_be_bytes()].concat());
                log.extend_from_within(16..24);
                log.extend((0..8).map(|_| random.random::<u8>()));
                log.extend(vec![7; random.random_range(0..=page)]);
            }
        }
        fs::write(&path, log).unwrap();
        true
    }
}

/// Returns the last complete commit's end, and the page size. `None`: the bytes are no log.
pub fn committed(log: &[u8]) -> Option<(usize, usize)> {
    let head = log.get(..HEAD)?;
    let magic = word(head, 0, false);
    if magic & !1 != MAGIC {
        return None;
    }
    let little = magic & 1 == 0;
    let page = usize::try_from(word(head, 8, false)).ok()?;
    let mut sum = checksum([0; 2], &head[..24], little);
    if sum != [word(head, 24, false), word(head, 28, false)] {
        return None;
    }
    let mut end = HEAD;
    for (at, frame) in log[HEAD..].chunks_exact(FRAME_HEAD + page).enumerate() {
        sum = checksum(checksum(sum, &frame[..8], little), &frame[FRAME_HEAD..], little);
        if frame[8..16] != head[16..24] || sum != [word(frame, 16, false), word(frame, 20, false)] {
            break;
        }
        if word(frame, 4, false) != 0 {
            end = HEAD + (at + 1) * (FRAME_HEAD + page);
        }
    }
    Some((end, page))
}

/// Implements <https://www.sqlite.org/fileformat2.html#checksum_algorithm>.
fn checksum(sum: [u32; 2], bytes: &[u8], little: bool) -> [u32; 2] {
    bytes.chunks_exact(8).fold(sum, |[one, two], pair| {
        let one = one.wrapping_add(word(pair, 0, little)).wrapping_add(two);
        [one, two.wrapping_add(word(pair, 4, little)).wrapping_add(one)]
    })
}

fn word(bytes: &[u8], at: usize, little: bool) -> u32 {
    let bytes = bytes[at..at + 4].try_into().unwrap();
    if little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) }
}
