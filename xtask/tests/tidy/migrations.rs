use std::collections::BTreeMap;

use crate::tree::tracked;

/// A store, and a migration of which it has no part.
const WITHOUT: [(&str, &str); 12] = [
    ("migrations/cql", "0009_messages"),
    ("migrations/cql", "0011_dialogs"),
    ("migrations/cql", "0012_erasures"),
    ("migrations/cql", "0013_sequences"),
    ("migrations/cql", "0014_notices"),
    ("migrations/cql", "0015_receipts"),
    ("migrations/cql", "0016_fan_out_notes"),
    ("migrations/cql", "0017_user_access"),
    ("migrations/cql", "0018_message_times"),
    ("migrations/cql", "0019_group_icons"),
    ("migrations/cql", "0020_changes"),
    ("migrations/cql", "0021_reactions"),
];

#[test]
fn migrations_have_same_numbers_on_all_stores() {
    let mut stores: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in tracked("").into_iter().filter(|file| file.starts_with("migrations/")) {
        let (folder, name) = file.rsplit_once('/').unwrap();
        let stem = name.split_once('.').unwrap().0;
        stores.entry(folder.to_owned()).or_default().push(stem.to_owned());
    }
    assert!(stores.len() > 1, "{stores:?}");
    let longest = stores.values().max_by_key(|names| names.len()).unwrap();
    // A store that came later begins with the migration that brought it.
    for (store, names) in &stores {
        let has = |name: &&String| !WITHOUT.contains(&(store.as_str(), name.as_str()));
        let expected: Vec<String> = longest.iter().filter(has).cloned().collect();
        assert!(expected.ends_with(names), "{store}: {names:#?}");
    }
    for (at, name) in longest.iter().enumerate() {
        assert!(name.starts_with(&format!("{:04}_", at + 1)), "{name}");
    }
}
