//! Makes believable users and groups: names in several scripts, emails, phones, tags. The same options give
//! the same bytes.

mod bad;
mod make;
mod people;
mod random;
mod record;

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use serde::Serialize;

use self::random::Random;
use crate::SampleOptions;

/// Both files, as lines.
#[derive(Debug, PartialEq, Eq)]
struct Sample {
    users: Vec<Vec<u8>>,
    groups: Vec<Vec<u8>>,
}

/// Writes `users.jsonl` and `groups.jsonl`.
pub(crate) fn run(options: &SampleOptions) -> Result<()> {
    let sample = sample(options)?;
    fs::create_dir_all(&options.out).with_context(|| format!("could not make {}", options.out.display()))?;
    write(&options.out.join("users.jsonl"), &sample.users)?;
    write(&options.out.join("groups.jsonl"), &sample.groups)
}

fn sample(options: &SampleOptions) -> Result<Sample> {
    let mut random = Random::new(options.seed);
    let users = make::users(options.users, &mut random);
    let groups = make::groups(options.groups, &users, &mut random);
    let bad_groups = options.bad / 4;
    let bad_users = bad::users(options.bad - bad_groups, &users);
    let bad_groups = bad::groups(bad_groups, &groups);
    Ok(Sample { users: mixed(lines(&users)?, bad_users), groups: mixed(lines(&groups)?, bad_groups) })
}

fn lines<T: Serialize>(records: &[T]) -> Result<Vec<Vec<u8>>> {
    records.iter().map(|record| Ok(serde_json::to_vec(record)?)).collect()
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

fn write(file: &Path, lines: &[Vec<u8>]) -> Result<()> {
    let mut bytes = lines.join(&b'\n');
    bytes.push(b'\n');
    fs::write(file, bytes).with_context(|| format!("could not write {}", file.display()))?;
    println!("{}: {} lines", file.display(), lines.len());
    Ok(())
}

#[cfg(test)]
mod tests;
