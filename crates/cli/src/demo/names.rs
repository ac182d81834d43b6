//! Names the demo's people and groups.

/// The people's ids are 1 to this number.
pub(super) const PEOPLE: i64 = 200;

const GIVEN: [(&str, &str); 20] = [
    ("Alice", "Baker"),
    ("Ben", "Clarke"),
    ("Clara", "Doyle"),
    ("Daniel", "Fischer"),
    ("Emma", "García"),
    ("Felix", "Hughes"),
    ("Grace", "Ivanova"),
    ("Hugo", "Jansen"),
    ("Inès", "Kelly"),
    ("Jonas", "Lefèvre"),
    ("Klara", "Morgan"),
    ("Liam", "Novák"),
    ("Mia", "O'Neill"),
    ("Noah", "Petrova"),
    ("Olivia", "Rossi"),
    ("Paul", "Santos"),
    ("Ruth", "Schmidt"),
    ("Sofia", "Turner"),
    ("Tom", "Vogel"),
    ("Zoé", "Young"),
];
const CHINESE: [(&str, &str); 10] = [
    ("王", "伟"),
    ("李", "娜"),
    ("张", "敏"),
    ("刘", "洋"),
    ("陈", "静"),
    ("杨", "磊"),
    ("赵", "婷"),
    ("黄", "浩"),
    ("周", "悦"),
    ("吴", "晨"),
];
pub(super) const GROUPS: [&str; 12] = [
    "Film club",
    "Climbing on Tuesdays",
    "Board games",
    "周末徒步",
    "Flat hunting",
    "Choir",
    "Bread and baking",
    "读书会",
    "Release planning",
    "Parents of 4b",
    "Photo walk",
    "Everyone",
];

/// Returns whether a person has a Chinese name; every fourth does.
pub(super) const fn is_chinese(id: i64) -> bool {
    id % 4 == 0
}

/// Returns a name that is different for each id.
pub(super) fn name(id: i64) -> String {
    let at = usize::try_from(id).unwrap_or_default();
    if is_chinese(id) {
        let (at, lists) = (at / 4, CHINESE.len());
        return format!("{}{}", CHINESE[at % lists].0, CHINESE[(at % lists + at / lists) % lists].1);
    }
    // People who share a given name have different family names.
    let (at, lists) = (at - at / 4, GIVEN.len());
    format!("{} {}", GIVEN[at % lists].0, GIVEN[(at % lists + at / lists) % lists].1)
}

/// Returns this person's friends, near and far.
pub(super) fn friends(id: i64) -> impl Iterator<Item = i64> {
    [1, 2, 5, 23, 60]
        .into_iter()
        .flat_map(move |step| [id + step, id - step])
        .map(|id| (id - 1).rem_euclid(PEOPLE) + 1)
}

/// Returns a group's members, the owner first. The last group has everyone.
pub(super) fn members(group: i64) -> impl Iterator<Item = i64> {
    let all = group == i64::try_from(GROUPS.len()).unwrap_or_default();
    let (count, step) = if all { (PEOPLE, 1) } else { (24, 7) };
    (0..count).map(move |at| (group * 31 + at * step - 1).rem_euclid(PEOPLE) + 1)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_person_has_a_name_of_its_own() {
        let names: HashSet<_> = (1..=PEOPLE).map(name).collect();
        assert_eq!(names.len(), 200);
    }

    #[test]
    fn friends_are_mutual_and_never_oneself() {
        for id in 1..=PEOPLE {
            for friend in friends(id) {
                assert!(friend != id && (1..=PEOPLE).contains(&friend), "{id} and {friend}");
                assert!(friends(friend).any(|back| back == id), "{id} and {friend}");
            }
        }
    }

    #[test]
    fn members_are_people_and_there_once() {
        for group in 1..=12 {
            let members: Vec<_> = members(group).collect();
            let once: HashSet<_> = members.iter().copied().collect();
            assert_eq!(once.len(), members.len(), "{group}");
            assert!(once.iter().all(|id| (1..=PEOPLE).contains(id)), "{group}");
        }
        assert_eq!(members(12).count(), 200);
    }
}
