//! `kith sample`: makes believable users and groups: names in several scripts, emails, phones, tags. Equal
//! options give equal bytes.

mod bad;
mod make;
mod people;
mod random;
mod record;

use std::{ops::RangeInclusive, path::PathBuf};

use kith_server::start_error::StartError;
use serde::Serialize;

use self::random::Random;
use super::{
    Common, OK,
    filled_folder::FilledFolder,
    output::{Report, WriteError},
};

/// Records, of which each file has at most so many; they are made in memory.
const RECORDS_MAX: i64 = 1_000_000;

/// What to make, and where.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  kith sample\n  kith sample --users 100000 --seed 7 --out /tmp/sample")]
pub(super) struct SampleOptions {
    /// Number of users [max: 1000000]
    #[arg(long, default_value = "10000", value_parser = count(1..=RECORDS_MAX))]
    users: u32,
    /// Number of groups, created by some of the users [max: 1000000]
    #[arg(long, default_value = "500", value_parser = count(0..=RECORDS_MAX))]
    groups: u32,
    /// Number of lines besides them that an import refuses, a quarter of them among the groups [max: 10000]
    #[arg(long, default_value = "0", value_parser = count(0..=10_000))]
    bad: u32,
    /// The same seed makes the same bytes
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder for users.jsonl and groups.jsonl; created if it does not exist
    #[arg(long, default_value = "sample", value_name = "DIR")]
    out: PathBuf,
}

fn count(range: RangeInclusive<i64>) -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(range)
}

/// Writes `users.jsonl` and `groups.jsonl`, as `kith import` reads them.
pub(super) fn run(common: &Common, options: &SampleOptions) -> Result<u8, StartError> {
    let folder = FilledFolder::create("--out", &options.out)?;
    let sample = sample(options).map_err(|error| WriteError::output(error.into()))?;
    let users = write(folder, "users.jsonl", &sample.users)?;
    let groups = write(folder, "groups.jsonl", &sample.groups)?;
    common.output.print(&vec![users, groups])?;
    Ok(OK)
}

/// A file that was written.
#[derive(Serialize)]
struct SampleFile {
    file: String,
    lines: usize,
}

impl Report for SampleFile {
    const COLUMNS: &'static [&'static str] = &["file", "lines"];
}

/// Both files, as lines.
#[derive(Debug, PartialEq, Eq)]
struct SampleLines {
    users: Vec<Vec<u8>>,
    groups: Vec<Vec<u8>>,
}

fn sample(options: &SampleOptions) -> serde_json::Result<SampleLines> {
    let [users, groups, bad] = [options.users, options.groups, options.bad].map(|count| count as usize);
    let mut random = Random::new(options.seed);
    let users = make::users(users, &mut random);
    let groups = make::groups(groups, &users, &mut random);
    let bad_groups = bad / 4;
    let bad_users = bad::users(bad - bad_groups, &users);
    let bad_groups = bad::groups(bad_groups, &groups);
    Ok(SampleLines { users: mixed(lines(&users)?, bad_users), groups: mixed(lines(&groups)?, bad_groups) })
}

fn lines<T: Serialize>(records: &[T]) -> serde_json::Result<Vec<Vec<u8>>> {
    records.iter().map(serde_json::to_vec).collect()
}

/// Spreads the bad lines over the second half. A line that repeats a good line's name or id has to come long
/// after it, since lines in an import may take effect in any order within a few thousand.
fn mixed(good: Vec<Vec<u8>>, bad: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let half = good.len() / 2;
    let every = half / (bad.len() + 1);
    let mut bad = bad.into_iter();
    let mut lines = Vec::with_capacity(good.len() + bad.len());
    for (at, line) in good.into_iter().enumerate() {
        lines.push(line);
        if at >= half && every > 0 && (at - half) % every == every - 1 {
            lines.extend(bad.next());
        }
    }
    lines.extend(bad);
    lines
}

fn write(folder: FilledFolder<'_>, name: &str, lines: &[Vec<u8>]) -> Result<SampleFile, StartError> {
    let mut bytes = lines.join(&b'\n');
    if !lines.is_empty() {
        bytes.push(b'\n');
    }
    Ok(SampleFile { file: folder.write(name, &bytes)?, lines: lines.len() })
}

#[cfg(test)]
mod tests;
