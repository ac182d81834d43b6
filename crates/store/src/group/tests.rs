use super::*;

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn names_are_checked() {
    for name in ["a", &"é".repeat(64), " padded ", "a:b{c}*?"] {
        assert_eq!(GroupWords::name(name).unwrap(), name);
    }
    for name in ["", "  ", "\u{200B}", &"a".repeat(65), "a\nb", "a\0", "a\u{202E}b"] {
        assert!(GroupWords::name(name).is_err(), "{name:?}");
    }
}

#[test]
fn tags_are_checked() {
    assert!(GroupWords::tags(&words(&["a:b", "{x}", "*?", "a b", "' OR 1=1", &"é".repeat(32)])).is_ok());
    for tag in ["", " ", "\u{3164}", &"a".repeat(33), "a\r\nb", "a\0"] {
        assert!(GroupWords::tags(&words(&["fine", tag])).is_err(), "{tag:?}");
    }
}

#[test]
fn pasted_keyword_finds_what_is_seen() {
    assert!(GroupWords::check_keyword("\u{202A}Chess\u{202C}").is_ok());
    assert_eq!(GroupWords::exact_key("\u{202A}Chess\u{202C}"), GroupWords::exact_key("chess"));
    for keyword in ["", "\u{200B}", &"a".repeat(65)] {
        assert!(GroupWords::check_keyword(keyword).is_err(), "{keyword:?}");
    }
}

#[test]
fn first_form_of_a_repeated_tag_is_kept() {
    let tags = GroupWords::tags(&words(&["Chess", "go", "CHESS", "\u{FF43}hess", "Go"])).unwrap();
    assert_eq!(tags, ["Chess", "go"]);
}

#[test]
fn at_most_sixteen_different_tags_are_taken() {
    let numbered = |count| (0..count).map(|at| format!("t{at}")).collect::<Vec<_>>();
    assert_eq!(GroupWords::tags(&numbered(16)).unwrap().len(), 16);
    assert!(GroupWords::tags(&numbered(17)).is_err());
    assert_eq!(GroupWords::tags(&[numbered(16), numbered(16)].concat()).unwrap().len(), 16);
}

#[test]
fn a_private_group_has_no_search_keys() {
    assert!(group_search_keys("name", &words(&["tag"]), Visibility::Private).is_empty());
}

#[test]
fn search_keys_are_words_and_prefixes() {
    let keys = group_search_keys("Ab", &words(&["aBc"]), Visibility::Public);
    assert_eq!(keys.into_iter().collect::<Vec<_>>(), ["=ab", "=abc", "^a", "^ab", "^abc"]);
}

#[test]
fn prefixes_have_up_to_sixteen_characters() {
    let keys = group_search_keys(&"é".repeat(20), &[""; 0], Visibility::Public);
    assert_eq!(keys.len(), 17);
    assert!(keys.contains(&format!("^{}", "é".repeat(16))));
    assert!(!keys.contains(&format!("^{}", "é".repeat(17))));
}

#[test]
fn keyword_keys_match_group_keys() {
    let keys = group_search_keys("Straße 東京", &words(&["o\u{FB03}ce"]), Visibility::Public);
    for keyword in ["STRASSE 東京", "Office"] {
        assert!(keys.contains(&GroupWords::exact_key(keyword)), "{keyword}");
        assert!(keys.contains(&GroupWords::prefix_key(keyword).0), "{keyword}");
    }
    assert!(!keys.contains(&GroupWords::exact_key("strasse")));
    assert!(keys.contains(&GroupWords::prefix_key("strasse").0));
}

#[test]
fn long_keyword_is_found_by_its_prefix() {
    let keyword = "A".repeat(20);
    let (key, folded) = GroupWords::prefix_key(&keyword);
    assert_eq!((key, folded), (format!("^{}", "a".repeat(16)), "a".repeat(20)));
}

#[test]
fn no_word_is_taken_for_the_beginning_of_another() {
    let keys = group_search_keys("^ab", &words(&["=cd"]), Visibility::Public);
    assert!(!keys.contains(&GroupWords::exact_key("ab")) && !keys.contains(&GroupWords::exact_key("cd")));
    assert!(!keys.contains(&GroupWords::prefix_key("ab").0));
}

#[test]
fn largest_group_has_bounded_number_of_keys() {
    let tags = (0..16).map(|at| format!("{at:02}{}", "x".repeat(30))).collect::<Vec<_>>();
    let keys = group_search_keys(&"n".repeat(64), &tags, Visibility::Public);
    assert!(keys.len() <= 17 * 17, "{}", keys.len());
}

fn bare() -> Group {
    Group {
        id: GroupId::new(1).unwrap(),
        version: Version::FIRST,
        name: Text::default(),
        icon: Text::default(),
        tags: Vec::new(),
        kind: GroupType::Chat,
        visibility: Visibility::Public,
        join_policy: JoinPolicy::Open,
        history_for_new_members: false,
        receipts: None,
        params: Params::default(),
        creator: None,
        created: Timestamp(0),
        updated: Timestamp(0),
    }
}

#[test]
fn weight_grows_with_what_a_group_holds() {
    let bare = bare();
    let tagged = Group { tags: vec!["0".repeat(100).into()], ..bare.clone() };
    assert_eq!(tagged.weight(), bare.weight() + size_of::<Text>() + 100);
    let pictured = Group { icon: "0".repeat(100).into(), ..bare.clone() };
    assert_eq!(pictured.weight(), bare.weight() + 100);
}

#[test]
fn group_of_an_older_version_has_no_icon() {
    let mut older = serde_json::to_value(bare()).unwrap();
    older.as_object_mut().unwrap().remove("icon").unwrap();
    assert_eq!(serde_json::from_value::<Group>(older).unwrap(), bare());
}
