//! Makes good records.

use std::collections::{BTreeMap, HashSet};

use super::{
    people::{LOCALES, Locale, TOPICS},
    random::Random,
    record::{Group, User},
};

const FIRST_USER_ID: i64 = 100_001;
const FIRST_GROUP_ID: i64 = 500_001;
const MAIL_DOMAINS: &[&str] = &["example.org", "example.com", "example.net", "mail.example.org"];

/// Makes users with ids from 100001 on, whose names differ in their normalised form: they are NFC, have no
/// letter with a compatibility form, and differ in lower case.
pub(super) fn users(count: usize, random: &mut Random) -> Vec<User> {
    let mut taken = HashSet::new();
    (FIRST_USER_ID..).take(count).map(|id| user(id, random, &mut taken)).collect()
}

/// Makes groups with ids from 500001 on, created by some of `users`.
pub(super) fn groups(count: usize, users: &[User], random: &mut Random) -> Vec<Group> {
    (FIRST_GROUP_ID..).take(count).map(|id| group(id, users, random)).collect()
}

fn user(id: i64, random: &mut Random, taken: &mut HashSet<String>) -> User {
    let locale = locale(random);
    let (family, family_latin) = locale.families[random.below(locale.families.len())];
    let (given, given_latin) = locale.givens[random.below(locale.givens.len())];
    let (region, prefix) = locale.regions[random.below(locale.regions.len())];
    let shown = if locale.family_first {
        format!("{family}{}{given}", locale.gap)
    } else {
        format!("{given}{}{family}", locale.gap)
    };
    let name = match random.below(3) {
        0 => format!("{given_latin}.{family_latin}"),
        1 => format!("{given_latin}_{family_latin}"),
        _ => shown.clone(),
    };
    let domain = random.pick(MAIL_DOMAINS);
    let email = format!("{given_latin}.{family_latin}.{id}@{domain}");
    User {
        user_id: id,
        user_name: free_name(&name, random, taken),
        nick_name: if random.percent(30) { given.to_owned() } else { shown },
        email: if random.percent(92) { email } else { String::new() },
        phone: if random.percent(85) { phone(prefix, random) } else { String::new() },
        gender: gender(random),
        age: random.percent(80).then(|| random.between(14, 89)),
        region: region.to_owned(),
        icon: if random.percent(40) { format!("https://img.example.org/u/{id}.webp") } else { String::new() },
        params: params(locale, random),
    }
}

fn locale(random: &mut Random) -> &'static Locale {
    let mut at = random.below(100);
    for locale in LOCALES {
        if at < locale.share {
            return locale;
        }
        at -= locale.share;
    }
    &LOCALES[0]
}

/// Returns `name`, with a number that grows in length while the name is taken.
fn free_name(name: &str, random: &mut Random, taken: &mut HashSet<String>) -> String {
    let (mut free, mut numbers) = (name.to_owned(), 100);
    while !taken.insert(free.to_lowercase()) {
        free = format!("{name}{}", random.below(numbers));
        numbers += numbers / 10;
    }
    free
}

/// Makes a number with ten to 15 digits behind the plus sign.
fn phone(prefix: &str, random: &mut Random) -> String {
    let digits = 12_usize.saturating_sub(prefix.len());
    let number: String =
        (0..digits).map(|_| char::from(b'0' + u8::try_from(random.below(10)).unwrap_or(0))).collect();
    format!("{prefix}{number}")
}

fn gender(random: &mut Random) -> Option<&'static str> {
    match random.below(100) {
        0..40 => Some("GENDER_FEMALE"),
        40..80 => Some("GENDER_MALE"),
        80..85 => Some("GENDER_OTHER"),
        _ => None,
    }
}

fn params(locale: &Locale, random: &mut Random) -> BTreeMap<&'static str, String> {
    let mut params = BTreeMap::from([("lang", locale.lang.to_owned())]);
    if random.percent(60) {
        params.insert("title", random.pick(locale.titles).to_owned());
    }
    params
}

fn group(id: i64, users: &[User], random: &mut Random) -> Group {
    let (topic, words) = TOPICS[random.below(TOPICS.len())];
    let (region, _) = locale(random).regions[0];
    let mut tags: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    tags.push(region.to_owned());
    let public = random.percent(70);
    Group {
        group_id: id,
        name: format!("{topic} · {region}"),
        tags,
        kind: if random.percent(85) { "GROUP_TYPE_CHAT" } else { "GROUP_TYPE_CHANNEL" },
        visibility: if public { "VISIBILITY_PUBLIC" } else { "VISIBILITY_PRIVATE" },
        join_policy: join_policy(public, random),
        history_for_new_members: random.percent(25),
        params: BTreeMap::from([("founded", random.between(2009, 2025).to_string())]),
        creator_id: if users.is_empty() { 0 } else { users[random.below(users.len())].user_id },
    }
}

fn join_policy(public: bool, random: &mut Random) -> &'static str {
    if public {
        random.pick(&["JOIN_POLICY_OPEN", "JOIN_POLICY_APPROVAL"])
    } else {
        random.pick(&["JOIN_POLICY_CODE", "JOIN_POLICY_INVITE", "JOIN_POLICY_APPROVAL"])
    }
}
