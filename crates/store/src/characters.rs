//! The characters that names and prose may contain.
//!
//! Names follow the identifier and nickname classes of PRECIS (RFC 8264, RFC 8266): no invisible characters,
//! except joiners where a script or an emoji needs them. Prose refuses only characters that can mislead or
//! harm its reader.

use icu_properties::{
    CodePointMapData, CodePointSetData,
    props::{DefaultIgnorableCodePoint, EmojiModifier, ExtendedPictographic, JoiningType},
};
use unicode_normalization::char::canonical_combining_class;
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory as _};

use crate::Invalid;

const ZERO_WIDTH_NON_JOINER: char = '\u{200C}';
const ZERO_WIDTH_JOINER: char = '\u{200D}';
/// After it an emoji is drawn in color.
const EMOJI_PRESENTATION: char = '\u{FE0F}';
/// Carries the tags that make it a region's flag.
const BLACK_FLAG: char = '\u{1F3F4}';
const CANCEL_TAG: char = '\u{E007F}';
/// The canonical combining class for signs that join consonants in Indic scripts.
const VIRAMA: u8 = 9;

/// Checks the characters in a name, a label or another text with one line.
///
/// # Errors
/// Names the first character that is not allowed, and its position, counted from 1.
pub(crate) fn check_single_line(text: &str) -> Result<(), Invalid> {
    let chars: Vec<char> = text.chars().collect();
    for (at, c) in chars.iter().enumerate() {
        if let Some(kind) = kind_refused_in_names(*c)
            && !needed_by_neighbors(&chars, at)
        {
            return Err(refused(*c, kind, at));
        }
    }
    Ok(())
}

/// Checks the characters in a text with several lines.
///
/// # Errors
/// Names the first character that is not allowed, and its position, counted from 1.
pub(crate) fn check_prose(text: &str) -> Result<(), Invalid> {
    let mut chars = text.chars().enumerate().peekable();
    while let Some((at, c)) = chars.next() {
        let ends_line = c == '\n' || c == '\r' && chars.peek().is_some_and(|(_, next)| *next == '\n');
        if c == '\t' || ends_line {
            continue;
        }
        if let Some(kind) = kind_refused_in_prose(c) {
            return Err(refused(c, kind, at));
        }
    }
    Ok(())
}

/// Whether it is invisible and dropped by comparisons: joiners, variation selectors, direction marks.
pub(crate) fn is_ignorable(c: char) -> bool {
    CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(c)
}

/// Whether the text has a visible character.
pub(crate) fn has_visible(text: &str) -> bool {
    text.chars().any(|c| !c.is_whitespace() && kind_refused_in_names(c).is_none())
}

fn refused(c: char, kind: &str, at: usize) -> Invalid {
    Invalid::new(format!("must not hold U+{:04X} ({kind}) at character {}", u32::from(c), at + 1))
}

fn kind_refused_in_names(c: char) -> Option<&'static str> {
    match c.general_category() {
        GeneralCategory::Control => Some("control character"),
        GeneralCategory::Unassigned => Some("unassigned character"),
        GeneralCategory::PrivateUse => Some("private use character"),
        GeneralCategory::LineSeparator | GeneralCategory::ParagraphSeparator => Some("line break"),
        _ if is_bidi_control(c) => Some("bidirectional control"),
        // The blank Braille pattern, and the annotation marks, are invisible although they are not ignorable.
        _ if is_ignorable(c) || matches!(c, '\u{2800}' | '\u{FFF9}'..='\u{FFFB}') => {
            Some("invisible character")
        }
        _ => None,
    }
}

/// Unassigned characters are allowed: they may be newer emoji, and prose is not compared.
fn kind_refused_in_prose(c: char) -> Option<&'static str> {
    let noncharacter = u32::from(c) & 0xFFFE == 0xFFFE || matches!(c, '\u{FDD0}'..='\u{FDEF}');
    match c {
        // Unlike embeddings and isolates, which phones paste around numbers, these show letters in a false
        // order.
        '\u{202D}' | '\u{202E}' => Some("bidirectional override"),
        _ if noncharacter => Some("noncharacter"),
        _ if c.general_category() == GeneralCategory::Control => Some("control character"),
        _ => None,
    }
}

const fn is_bidi_control(c: char) -> bool {
    matches!(c, '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

/// Whether an invisible character changes how its neighbors look, as some scripts need it.
fn needed_by_neighbors(chars: &[char], at: usize) -> bool {
    let (before, after) = (&chars[..at], &chars[at + 1..]);
    match chars[at] {
        ZERO_WIDTH_NON_JOINER => ends_with_virama(before) || parts_letters(before, after),
        ZERO_WIDTH_JOINER => ends_with_virama(before) || joins_emoji(before, after),
        c if is_variation_selector(c) => {
            before.last().is_some_and(|c| !c.is_whitespace() && !is_ignorable(*c))
        }
        c if is_tag(c) => names_region(before, chars),
        _ => false,
    }
}

fn ends_with_virama(before: &[char]) -> bool {
    before.last().is_some_and(|c| canonical_combining_class(*c) == VIRAMA)
}

/// Between two letters that would be joined without it (RFC 5892, appendix A.1), as in Persian.
fn parts_letters(before: &[char], after: &[char]) -> bool {
    let joining = |c: &char| CodePointMapData::<JoiningType>::new().get(*c);
    let seen = |c: &JoiningType| *c != JoiningType::Transparent;
    let left = before.iter().rev().map(joining).find(seen);
    let right = after.iter().map(joining).find(seen);
    matches!(left, Some(JoiningType::LeftJoining | JoiningType::DualJoining))
        && matches!(right, Some(JoiningType::RightJoining | JoiningType::DualJoining))
}

/// Between two pictures, the first perhaps with a skin color or in its colored form (UTS #51).
fn joins_emoji(before: &[char], after: &[char]) -> bool {
    let is_picture = |c: &char| CodePointSetData::new::<ExtendedPictographic>().contains(*c);
    let first = before.iter().rev().find(|c| **c != EMOJI_PRESENTATION);
    let first = first.is_some_and(|c| is_picture(c) || CodePointSetData::new::<EmojiModifier>().contains(*c));
    first && after.first().is_some_and(is_picture)
}

/// Whether the tags around this character name a region after the flag that they change, such as Wales.
fn names_region(before: &[char], chars: &[char]) -> bool {
    let begin = before.iter().rposition(|c| !is_tag(*c));
    let Some(flag) = begin.filter(|at| chars[*at] == BLACK_FLAG) else { return false };
    let tags = chars[flag + 1..].iter().take_while(|c| is_tag(**c)).count();
    let end = flag + tags;
    (4..=7).contains(&tags) && chars[end] == CANCEL_TAG && !chars[flag + 1..end].contains(&CANCEL_TAG)
}

/// A letter or digit in a region's name, or the end of that name.
const fn is_tag(c: char) -> bool {
    matches!(c, '\u{E0030}'..='\u{E0039}' | '\u{E0061}'..='\u{E007A}' | CANCEL_TAG)
}

const fn is_variation_selector(c: char) -> bool {
    matches!(c, '\u{FE00}'..='\u{FE0F}' | '\u{E0100}'..='\u{E01EF}' | '\u{180B}'..='\u{180D}' | '\u{180F}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn why(result: Result<(), Invalid>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn joiners_are_taken_where_writing_needs_them() {
        for name in [
            "می\u{200C}خواهم",                                          // Persian: parts letters
            "क\u{094D}\u{200D}ष",                                       // Devanagari: after a virama
            "ක\u{0DCA}\u{200D}ර",                                       // Sinhala
            "👩\u{200D}💻",                                             // an emoji made of two
            "👩🏽\u{200D}🚀",                                             // the first with a skin color
            "👁\u{FE0F}\u{200D}🗨\u{FE0F}",                               // in colored form
            "❤\u{FE0F}",                                                // a variation
            "葛\u{E0100}城",                                            // of an ideograph
            "🏴\u{E0067}\u{E0062}\u{E0077}\u{E006C}\u{E0073}\u{E007F}", // Wales
            "۝ x",                                                      // a format character that is seen
        ] {
            assert_eq!(check_single_line(name), Ok(()), "{name:?}");
        }
    }

    #[test]
    fn misplaced_joiners_are_refused_with_position() {
        for (name, at) in [
            ("a\u{200C}b", "U+200C (invisible character) at character 2"),
            ("ab\u{200D}", "U+200D (invisible character) at character 3"),
            ("\u{200D}👩", "U+200D (invisible character) at character 1"),
            ("👩\u{200D}a", "U+200D (invisible character) at character 2"),
            ("می\u{200C} x", "U+200C (invisible character) at character 3"),
            ("a\u{FE0F}\u{FE0F}", "U+FE0F (invisible character) at character 3"),
            ("🏴\u{E0067}\u{E0062}\u{E0067}", "U+E0067 (invisible character) at character 2"),
            ("x\u{E0067}\u{E007F}", "U+E0067 (invisible character) at character 2"),
        ] {
            assert_eq!(why(check_single_line(name)), format!("must not hold {at}"), "{name:?}");
        }
    }

    #[test]
    fn names_refuse_each_character_kind_by_name() {
        for (c, kind) in [
            ('\n', "U+000A (control character)"),
            ('\0', "U+0000 (control character)"),
            ('\u{2028}', "U+2028 (line break)"),
            ('\u{E000}', "U+E000 (private use character)"),
            ('\u{FFFF}', "U+FFFF (unassigned character)"),
            ('\u{200F}', "U+200F (bidirectional control)"),
            ('\u{202E}', "U+202E (bidirectional control)"),
            ('\u{200B}', "U+200B (invisible character)"),
            ('\u{2800}', "U+2800 (invisible character)"),
        ] {
            let error = why(check_single_line(&format!("é{c}b")));
            assert_eq!(error, format!("must not hold {kind} at character 2"));
        }
    }

    #[test]
    fn prose_takes_lines_marks_and_new_emoji() {
        let text = "one\r\ntwo\nthree\tfour\u{2028}\u{200F}שלום\u{200E} \u{2068}+49\u{2069} \u{202A}+49\u{202C} \
                    a\u{200C}b\u{200D}\u{00AD}\u{FEFF} \u{1FAFF} \u{F8FF}";
        assert_eq!(check_prose(text), Ok(()));
    }

    #[test]
    fn prose_refuses_controls_and_overrides() {
        for (c, kind) in [
            ('\0', "U+0000 (control character)"),
            ('\u{1B}', "U+001B (control character)"),
            ('\r', "U+000D (control character)"),
            ('\u{85}', "U+0085 (control character)"),
            ('\u{202E}', "U+202E (bidirectional override)"),
            ('\u{FFFE}', "U+FFFE (noncharacter)"),
        ] {
            let error = why(check_prose(&format!("é\n{c}b")));
            assert_eq!(error, format!("must not hold {kind} at character 3"));
        }
    }

    #[test]
    fn what_shows_nothing_is_not_visible() {
        for text in ["", " ", "\u{3000}", "\u{200B}", "\u{3164}", "\u{2800}", "\u{FE0F}"] {
            assert!(!has_visible(text), "{text:?}");
        }
        assert!(has_visible(" a") && has_visible("👩\u{200D}💻"));
    }
}
