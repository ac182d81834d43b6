//! Whatever is typed: it is refused, or it comes back as it was.

use std::collections::BTreeMap;

use kith_store::{
    Email, GroupId, GroupWords, Keyword, NAME_CHARS_MAX, Params, Phone, RequestId, UserId, UserName,
    Visibility, fold, group_search_keys, prose, single_line,
};
use proptest::prelude::*;

/// Any text, often a text with characters that have several forms or none to be seen.
fn texts() -> impl Strategy<Value = String> {
    let tricky = prop::sample::select(vec![
        "a",
        "Z",
        "0",
        "@",
        "+",
        ".",
        "$",
        "-",
        "_",
        " ",
        "\0",
        "\n",
        "'",
        "ß",
        "ẞ",
        "İ",
        "ı",
        "ﬃ",
        "ｆ",
        "e\u{301}",
        "é",
        "ͅ",
        "ΐ",
        "ϓ",
        "\u{200B}",
        "\u{202E}",
        "\u{200C}",
        "\u{200D}",
        "\u{FE0F}",
        "\u{3164}",
        "ی",
        "👩",
        "ü",
        "xn--",
        "org",
        "\u{FEFF}",
        "\u{1F600}",
        "東",
        "\u{10FFFF}",
        "\u{E000}",
        "Ω",
        "K",
    ]);
    prop_oneof![any::<String>(), prop::collection::vec(tricky, 0..80).prop_map(|parts| parts.concat())]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn folding_twice_changes_nothing(text in texts()) {
        let folded = fold(&text);
        prop_assert_eq!(fold(&folded), folded);
    }

    #[test]
    fn a_user_name_is_refused_or_kept(text in texts()) {
        if let Ok(name) = UserName::new(&text) {
            prop_assert_eq!(name.text(), &text);
            prop_assert_eq!(name.key(), fold(&text));
            prop_assert!(!name.key().is_empty() && text.chars().count() <= NAME_CHARS_MAX);
            prop_assert!(name.key().chars().count() <= 18 * NAME_CHARS_MAX);
            prop_assert!(!text.contains('\0'));
        }
    }

    #[test]
    fn a_name_finds_its_user_as_a_keyword(text in texts()) {
        if let Ok(name) = UserName::new(&text) {
            let keyword = Keyword::new(&text).unwrap();
            prop_assert_eq!(keyword.name(), name.key());
        }
    }

    #[test]
    fn an_email_is_refused_or_kept_and_found(text in prop_oneof![texts(), (texts(), texts()).prop_map(|(a, b)| format!("{a}@{b}.org")), "[a-zA-Zäß.]{1,8}@[a-zA-Zäßı．。.-]{1,9}"]) {
        if let Ok(email) = Email::new(&text) {
            prop_assert_eq!(email.text(), &text);
            let keyword = Keyword::new(&text).unwrap();
            prop_assert_eq!(keyword.email(), Some(email.key()));
        }
    }

    #[test]
    fn a_phone_is_refused_or_kept_and_found(text in prop_oneof![texts(), "\\+?[0-9]{5,17}"]) {
        if let Ok(phone) = Phone::new(&text) {
            prop_assert_eq!(phone.text(), &text);
            let keyword = Keyword::new(&text).unwrap();
            prop_assert_eq!(keyword.phone(), Some(phone.text()));
        }
    }

    #[test]
    fn a_group_word_is_refused_or_kept_and_found(text in texts()) {
        if let Ok(name) = GroupWords::name(&text) {
            prop_assert_eq!(&name, &text);
            let keys = group_search_keys(&name, &[""; 0], Visibility::Public);
            prop_assert!(keys.contains(&GroupWords::exact_key(&text)));
            prop_assert!(keys.contains(&GroupWords::prefix_key(&text).0));
        }
        if let Ok(tags) = GroupWords::tags(std::slice::from_ref(&text)) {
            prop_assert_eq!(tags, [text]);
        }
    }

    #[test]
    fn text_of_lines_is_refused_or_kept(text in texts()) {
        for checked in [prose(&text, 60), single_line(&text, 60)].into_iter().flatten() {
            prop_assert_eq!(&checked, &text);
        }
        if single_line(&text, 60).is_ok() {
            prop_assert!(prose(&text, 60).is_ok(), "prose takes what one line takes");
        }
    }

    #[test]
    fn a_parameter_is_refused_or_kept(key in prop_oneof![texts(), "[A-Za-z][A-Za-z0-9_-]{0,70}"], value in texts()) {
        let map = BTreeMap::from([(key.clone(), value.clone())]);
        if let Ok(params) = Params::new(map.clone()) {
            prop_assert_eq!(params.to_map(), map);
            prop_assert!(key.len() <= 64 && key.is_ascii() && !value.contains('\0'));
        }
    }

    #[test]
    fn an_id_is_refused_or_kept(text in prop_oneof![texts(), "[+-]?[0-9]{1,21}"], number in any::<i64>()) {
        if let Ok(id) = text.parse::<RequestId>() {
            prop_assert_eq!(id.as_str(), &text);
        }
        if let Ok(id) = text.parse::<UserId>() {
            prop_assert_eq!(id.to_string().parse::<UserId>().unwrap(), id);
        }
        prop_assert_eq!(GroupId::new(number).is_ok(), number > 0);
    }
}
