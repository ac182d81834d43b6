//! Checks the words that docs/style.md rules out: how often prose uses them may only fall.

use crate::tree::{text, tracked};

/// The words, in lower case.
const ODD: [&str; 12] = [
    "tell", "tells", "told", "telling", "whoever", "whomever", "nobody", "somebody", "anybody", "anew",
    "stands", "lives",
];
/// These two words together count as a single odd word.
const ODD_PAIR: [&str; 2] = ["by", "chance"];
/// The page that lists the words.
const STYLE: &str = "docs/style.md";
/// The most odd words in 10,000 words of all prose. Lower it when the count has fallen.
const MAX_OF_ALL: f64 = 2.0;
/// How far the count may be below its bound until the bound has to follow.
const SLACK: f64 = 3.0;

#[test]
fn odd_words_in_all_prose_only_become_fewer() {
    let files = [tracked(".rs"), tracked(".proto"), tracked(".md")].concat();
    let count = files.iter().filter(|file| *file != STYLE).map(|file| counted(file)).sum();
    let found = rate(count);
    assert!(
        found <= MAX_OF_ALL,
        "{found:.1} odd words in 10,000, at most {MAX_OF_ALL} are allowed (docs/style.md)"
    );
    assert!(found > MAX_OF_ALL - SLACK, "{found:.1} odd words in 10,000 are left: lower MAX_OF_ALL to that");
}

/// Words, and the odd ones among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    words: u32,
    odd: u32,
}

impl std::iter::Sum for Count {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), |sum, count| Self {
            words: sum.words + count.words,
            odd: sum.odd + count.odd,
        })
    }
}

/// Returns the odd words in 10,000.
fn rate(count: Count) -> f64 {
    f64::from(count.odd) * 10_000.0 / f64::from(count.words)
}

fn counted(file: &str) -> Count {
    let text = text(file);
    if file.ends_with(".md") { words(&text) } else { text.lines().filter_map(comment).map(words).sum() }
}

/// Returns the comment in a line of code.
fn comment(line: &str) -> Option<&str> {
    line.split_once("//").map(|(_, comment)| comment)
}

fn words(text: &str) -> Count {
    let mut count = Count::default();
    let mut before = String::new();
    for word in text.split(|letter: char| !letter.is_ascii_alphabetic()).filter(|word| !word.is_empty()) {
        let word = word.to_ascii_lowercase();
        count.words += 1;
        let odd = ODD.contains(&word.as_str()) || [before.as_str(), word.as_str()] == ODD_PAIR;
        count.odd += u32::from(odd);
        before = word;
    }
    count
}

#[test]
fn odd_words_are_counted_whole_in_comments() {
    assert_eq!(words("Nobody is told by chance, nor retold."), Count { words: 7, odd: 3 });
    assert_eq!(comment("let told = 1; // it stands"), Some(" it stands"));
    assert_eq!(comment("let told = 1;"), None);
}
