//! Checks that comments are sentences. The limits are what the tree has now: they may only fall.

use crate::tree::{text, tracked};

/// The most words "of" in 10,000.
const OF_MAX: usize = 150;
/// The most words "one" and "ones" that stand for a noun, in 10,000.
const ONE_MAX: usize = 10;
/// The most sentences in 10,000 words that begin with a word in [`OPENINGS`].
const OPENINGS_MAX: usize = 3;
/// The most documentation comments with fewer than [`SHORT`] letters.
const SHORT_MAX: usize = 0;
/// The most comment lines with more than [`COLUMNS`] columns.
const LONG_MAX: usize = 0;

const SHORT: usize = 15;
const COLUMNS: usize = 110;
/// A sentence that opens with such a word has no subject, or hides it.
const OPENINGS: [&str; 8] = ["Of", "What", "Who", "Whose", "As", "As many", "The same", "So many"];
/// Before these words, or at the end of a part of a sentence, "one" replaces a noun.
const AFTER_NOUNS: [&str; 28] = [
    "that", "which", "who", "whose", "is", "was", "has", "had", "of", "with", "in", "from", "for", "to",
    "by", "may", "can", "does", "at", "on", "after", "before", "and", "or", "the", "a", "it", "there",
];

/// The figures that are counted in comments.
#[derive(Debug, Default)]
struct Counted {
    words: usize,
    of: usize,
    one: usize,
    openings: usize,
    short: Vec<String>,
    long: Vec<String>,
}

#[test]
fn comments_are_sentences() {
    let mut counted = Counted::default();
    for file in tracked(".rs") {
        counted.add_file(&file, &text(&file));
    }
    let in_10_000 = |count: usize| count * 10_000 / counted.words;
    let figures = [
        ("\"of\" in 10,000 words", in_10_000(counted.of), OF_MAX),
        ("\"one\" for a noun in 10,000 words", in_10_000(counted.one), ONE_MAX),
        ("openings without a subject in 10,000 words", in_10_000(counted.openings), OPENINGS_MAX),
        ("documentation comments that say nothing", counted.short.len(), SHORT_MAX),
        ("lines that are too long", counted.long.len(), LONG_MAX),
    ];
    let too_many: Vec<_> = figures.iter().filter(|(_, count, most)| count > most).collect();
    assert!(too_many.is_empty(), "{too_many:?}\n{:#?}\n{:#?}", counted.short, counted.long);
}

impl Counted {
    fn add_file(&mut self, file: &str, text: &str) {
        let (mut comment, mut is_doc) = (String::new(), false);
        for line in text.lines().chain([""]) {
            let trimmed = line.trim_start();
            if let Some(words) = trimmed.strip_prefix("//") {
                is_doc |= comment.is_empty() && words.starts_with(['/', '!']);
                comment.push_str(words.trim_start_matches(['/', '!']));
                if line.chars().count() > COLUMNS {
                    self.long.push(format!("{file}: {trimmed}"));
                }
            } else if !comment.is_empty() {
                self.add(file, &comment, is_doc);
                (comment, is_doc) = (String::new(), false);
            }
        }
    }

    fn add(&mut self, file: &str, comment: &str, is_doc: bool) {
        if is_doc && comment.trim().chars().count() < SHORT {
            self.short.push(format!("{file}: {}", comment.trim()));
        }
        let words: Vec<&str> = comment.split_whitespace().filter(|word| !bare(word).is_empty()).collect();
        self.words += words.len();
        self.of += words.iter().filter(|word| bare(word).eq_ignore_ascii_case("of")).count();
        self.one += (0..words.len()).filter(|at| stands_for_a_noun(&words[*at..])).count();
        self.openings += (0..words.len()).filter(|at| begins_oddly(&words, *at)).count();
    }
}

fn bare(word: &str) -> &str {
    word.trim_matches(|letter: char| !letter.is_alphanumeric())
}

fn stands_for_a_noun(words: &[&str]) -> bool {
    let is_one = ["one", "ones"].iter().any(|one| bare(words[0]).eq_ignore_ascii_case(one));
    let ends = words[0].ends_with(['.', ',', ';', ':', ')']);
    is_one && (ends || words.get(1).is_none_or(|next| AFTER_NOUNS.contains(&bare(next))))
}

fn begins_oddly(words: &[&str], at: usize) -> bool {
    let is_first = at == 0 || words[at - 1].ends_with(['.', '!', '?']);
    let two = || format!("{} {}", bare(words[at]), words.get(at + 1).map_or("", |next| bare(next)));
    is_first && (OPENINGS.contains(&bare(words[at])) || OPENINGS.contains(&two().as_str()))
}

#[test]
fn odd_sentences_are_found() {
    let mut counted = Counted::default();
    counted.add_file("a.rs", "/// Whose.\nfn a() {}\n// The one that failed. Of the end of a lease.\n");
    assert_eq!((counted.words, counted.of, counted.one, counted.openings), (11, 2, 1, 2));
    assert_eq!(counted.short, ["a.rs: Whose."]);
}
