use std::{collections::HashSet, path::PathBuf};

use kith_store::{Email, GroupWords, Phone, UserName};
use serde_json::Value;

use super::*;

fn options(seed: u64, bad: u32) -> SampleOptions {
    SampleOptions { users: 3_000, groups: 100, bad, seed, out: PathBuf::new() }
}

fn parsed(lines: &[Vec<u8>]) -> Vec<Value> {
    lines.iter().map(|line| serde_json::from_slice(line).unwrap()).collect()
}

#[test]
fn seed_determines_bytes() {
    let first = sample(&options(7, 20)).unwrap();
    assert_eq!(first, sample(&options(7, 20)).unwrap());
    assert_ne!(first, sample(&options(8, 20)).unwrap());
}

#[test]
fn users_are_valid_and_names_are_distinct() {
    let mut keys = HashSet::new();
    for user in parsed(&sample(&options(1, 0)).unwrap().users) {
        let name = UserName::new(user["userName"].as_str().unwrap()).unwrap();
        assert!(keys.insert(name.key().to_owned()), "{name:?}");
        if let Some(email) = user["email"].as_str() {
            Email::new(email).unwrap();
        }
        if let Some(phone) = user["phone"].as_str() {
            Phone::new(phone).unwrap();
        }
    }
    assert_eq!(keys.len(), 3_000);
}

#[test]
fn every_group_is_good_and_was_made_by_a_user() {
    let sample = sample(&options(1, 0)).unwrap();
    let users: HashSet<i64> =
        parsed(&sample.users).iter().map(|user| user["userId"].as_i64().unwrap()).collect();
    for group in parsed(&sample.groups) {
        GroupWords::name(group["name"].as_str().unwrap()).unwrap();
        let tags: Vec<String> = serde_json::from_value(group["tags"].clone()).unwrap();
        assert_eq!(GroupWords::tags(&tags).unwrap(), tags);
        assert!(users.contains(&group["creatorId"].as_i64().unwrap()));
    }
}

#[test]
fn names_come_in_several_scripts() {
    let users = parsed(&sample(&options(1, 0)).unwrap().users);
    for letter in ["é", "王", "さ", "И", "أ", "प", "김"] {
        assert!(users.iter().any(|user| user["userName"].as_str().unwrap().contains(letter)), "{letter}");
    }
}

#[test]
fn bad_lines_are_added_to_the_good_ones() {
    let good = sample(&options(3, 0)).unwrap();
    let bad = sample(&options(3, 20)).unwrap();
    assert_eq!((bad.users.len(), bad.groups.len()), (3_015, 105));
    assert_eq!(
        good.users,
        bad.users.iter().filter(|line| good.users.contains(line)).cloned().collect::<Vec<_>>()
    );
    assert_eq!(bad.users[..1_500], good.users[..1_500]);
}

#[test]
fn bad_line_may_repeat_name_in_other_form() {
    let sample = sample(&options(3, 20)).unwrap();
    let first: Value = serde_json::from_slice(&sample.users[0]).unwrap();
    let key = |user: &Value| UserName::new(user["userName"].as_str()?).ok().map(|name| name.key().to_owned());
    let same = sample.users.iter().filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    assert_eq!(same.filter(|user| key(user) == key(&first) && key(user).is_some()).count(), 2);
}
