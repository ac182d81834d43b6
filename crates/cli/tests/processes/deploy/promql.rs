//! Parses enough PromQL to see the names in an expression. It is strict: text that it does not understand
//! counts as a metric name, and then no such metric exists.

use std::collections::{BTreeMap, BTreeSet};

/// Words that precede a label list in parentheses.
const LISTS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
/// Words without a meaning for names.
const WORDS: [&str; 5] = ["and", "or", "unless", "offset", "bool"];

/// The names in an expression.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct NamesInUse {
    /// Labels by the metric that they select.
    pub(crate) metrics: BTreeMap<String, BTreeSet<String>>,
    /// Labels by which series are joined and grouped.
    pub(crate) grouped: BTreeSet<String>,
    /// Labels with the values in the query, as they are written.
    pub(crate) values: BTreeSet<(String, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Text(String),
    Sign(char),
}

/// Reads an expression.
pub(crate) fn named(expression: &str) -> NamesInUse {
    let (tokens, mut named) = (tokens(expression), NamesInUse::default());
    let mut left = tokens.as_slice();
    while let Some((first, rest)) = left.split_first() {
        left = match (first, rest.first()) {
            (Token::Word(word), Some(Token::Sign('('))) if LISTS.contains(&word.as_str()) => {
                let (list, rest) = until(rest, ')');
                named.grouped.extend(list.iter().filter_map(word_of));
                rest
            }
            (Token::Word(metric), Some(Token::Sign('{'))) => {
                let (matchers, rest) = until(rest, '}');
                named.select(metric, matchers);
                rest
            }
            // A function or an aggregation.
            (Token::Word(_), Some(Token::Sign('('))) => rest,
            (Token::Word(word), _) if LISTS.contains(&word.as_str()) || WORDS.contains(&word.as_str()) => {
                rest
            }
            // An aggregation whose labels come first: `sum by (job) (...)`.
            (Token::Word(_), Some(Token::Word(list))) if LISTS.contains(&list.as_str()) => rest,
            (Token::Word(metric), _) => {
                named.metrics.entry(metric.clone()).or_default();
                rest
            }
            (Token::Sign('['), _) => until(left, ']').1,
            (Token::Text(_) | Token::Sign(_), _) => rest,
        };
    }
    named
}

impl NamesInUse {
    /// `matchers`: `label = "value"`, with commas between them.
    fn select(&mut self, metric: &str, matchers: &[Token]) {
        let labels = self.metrics.entry(metric.to_owned()).or_default();
        for at in 0..matchers.len() {
            let Token::Word(label) = &matchers[at] else { continue };
            labels.insert(label.clone());
            let value = matchers[at..].iter().find_map(|token| match token {
                Token::Text(value) => Some(value.clone()),
                Token::Word(_) | Token::Sign(_) => None,
            });
            self.values.extend(value.map(|value| (label.clone(), value)));
        }
    }
}

fn word_of(token: &Token) -> Option<String> {
    match token {
        Token::Word(word) => Some(word.clone()),
        Token::Text(_) | Token::Sign(_) => None,
    }
}

/// Splits the tokens at the closing sign.
fn until(tokens: &[Token], close: char) -> (&[Token], &[Token]) {
    let end = tokens.iter().position(|token| *token == Token::Sign(close)).unwrap_or(tokens.len());
    (&tokens[..end], tokens.get(end + 1..).unwrap_or_default())
}

/// Splits an expression into words, quoted texts and signs. Numbers, durations and board variables name
/// nothing, and are left out.
fn tokens(text: &str) -> Vec<Token> {
    let (mut tokens, mut left) = (Vec::new(), text);
    while let Some(first) = left.chars().next() {
        let word = |from: &str| {
            from.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':').unwrap_or(from.len())
        };
        let end = match first {
            '"' | '\'' => {
                let end = left[1..].find(first).map_or(left.len(), |end| end + 2);
                tokens.push(Token::Text(left[1..end].trim_end_matches(first).to_owned()));
                end
            }
            '$' => 1 + word(&left[1..]),
            '0'..='9' => word(left),
            _ if first.is_ascii_alphabetic() || first == '_' => {
                let end = word(left);
                tokens.push(Token::Word(left[..end].to_owned()));
                end
            }
            _ => {
                if !first.is_whitespace() {
                    tokens.push(Token::Sign(first));
                }
                first.len_utf8()
            }
        };
        left = &left[end..];
    }
    tokens
}

#[test]
fn metrics_and_labels_of_an_expression_are_found() {
    let found = named(
        r#"sum by (job, le) (rate(a_total{x="1,}", y=~"b|c"}[$__rate_interval] offset 1d)) > 0.05 * b
           and on (instance) histogram_quantile(0.99, sum(rate(c_bucket[5m])) by (le)) unless d{} == 1e3"#,
    );
    let metrics: Vec<_> = found.metrics.iter().map(|(name, labels)| (name.as_str(), labels.len())).collect();
    assert_eq!(metrics, [("a_total", 2), ("b", 0), ("c_bucket", 0), ("d", 0)]);
    assert_eq!(found.grouped, BTreeSet::from(["instance", "job", "le"].map(str::to_owned)));
    let values = [("x", "1,}"), ("y", "b|c")].map(|(label, value)| (label.to_owned(), value.to_owned()));
    assert_eq!(found.values, BTreeSet::from(values));
}
