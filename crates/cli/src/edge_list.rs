//! Reads edge lists: lines with two user ids, as published graphs and exported tables have them.

use super::output::one_line;

/// Names for the follower column, letters only, in published graphs and in Kith.
const USER: [&str; 6] = ["userid", "followerid", "follower", "source", "from", "fromnodeid"];
/// Names for the column with followed users.
const TARGET: [&str; 6] = ["targetid", "followeeid", "followee", "target", "to", "tonodeid"];
const TIME: &str = "followtime";
/// How many column names an error repeats, and their longest length.
const NAMES_MAX: usize = 8;
const NAME_MAX: usize = 40;

/// A list's columns.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Columns {
    user: usize,
    target: usize,
    time: Option<usize>,
    /// The line that names the columns, if there is one.
    header: Option<String>,
}

/// A line in a list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) user_id: i64,
    pub(super) target_id: i64,
    /// The time as text; absent without such a column, or if it is empty.
    pub(super) time: Option<String>,
}

impl Columns {
    /// Takes the first two columns, without a header.
    pub(super) const FIRST_TWO: Self = Self { user: 0, target: 1, time: None, header: None };

    /// Finds the columns by the list's header, or takes the first two. `lines`: the first lines, without
    /// comments. Fails if none of the lines has two ids, with a text that follows the file name.
    pub(super) fn of(lines: &[&str]) -> Result<Self, String> {
        let Some(first) = lines.first() else { return Ok(Self::FIRST_TWO) };
        if first.starts_with('{') || Self::FIRST_TWO.edge(first).is_some() {
            return Ok(Self::FIRST_TWO);
        }
        let names: Vec<String> = cells(first).iter().map(|name| normalized(name)).collect();
        let named = |known: &[&str]| names.iter().position(|name| known.contains(&name.as_str()));
        let header = Some((*first).to_owned());
        let columns = match (named(&USER), named(&TARGET)) {
            (Some(user), Some(target)) => Self { user, target, time: named(&[TIME]), header },
            _ => Self { header, ..Self::FIRST_TWO },
        };
        let has_edges = lines.len() == 1 || lines[1..].iter().any(|line| columns.edge(line).is_some());
        if has_edges { Ok(columns) } else { Err(no_ids_error(first)) }
    }

    /// Returns whether this line names the columns.
    pub(super) fn is_header(&self, line: &str) -> bool {
        self.header.as_deref() == Some(line)
    }

    /// Reads the edge in a line; further columns are ignored.
    pub(super) fn edge(&self, line: &str) -> Option<Edge> {
        let cells = cells(line);
        let time = self.time.and_then(|time| cells.get(time)).filter(|time| !time.is_empty());
        Some(Edge {
            user_id: id(cells.get(self.user)?)?,
            target_id: id(cells.get(self.target)?)?,
            time: time.cloned(),
        })
    }
}

/// Reads an id. Tables write whole numbers also as `12.0`.
fn id(cell: &str) -> Option<i64> {
    cell.strip_suffix(".0").unwrap_or(cell).parse().ok()
}

/// Splits a line at commas, tabs, semicolons or blanks. Within quotes a separator is text.
fn cells(line: &str) -> Vec<String> {
    let separator = [',', '\t', ';'].into_iter().find(|separator| line.contains(*separator));
    let is_separator = |c: char| separator.map_or(c.is_whitespace(), |separator| c == separator);
    let (mut cells, mut cell, mut quoted) = (Vec::new(), String::new(), false);
    for c in line.trim().chars() {
        match c {
            '"' => quoted = !quoted,
            c if is_separator(c) && !quoted => cells.push(std::mem::take(&mut cell)),
            c => cell.push(c),
        }
    }
    cells.push(cell);
    if separator.is_none() {
        cells.retain(|cell| !cell.is_empty());
    }
    cells.into_iter().map(|cell| cell.trim().to_owned()).collect()
}

/// Returns a column name without case and separators.
fn normalized(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Returns the error for a list without ids. A cell with an `@` is an address: the line is a record, and is
/// not repeated.
fn no_ids_error(first: &str) -> String {
    let cells = cells(first);
    let found = if cells.iter().any(|cell| cell.contains('@')) {
        format!("its lines have {} columns", cells.len())
    } else {
        let shown =
            |cell: &String| format!("{:?}", one_line(cell).chars().take(NAME_MAX).collect::<String>());
        let more = if cells.len() > NAMES_MAX { ", ..." } else { "" };
        let names: Vec<_> = cells.iter().take(NAMES_MAX).map(shown).collect();
        format!("its columns are {}{more}", names.join(", "))
    };
    format!(
        "no line has two user ids ({found}); name two columns of ids user_id and target_id, or put them first"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(user_id: i64, target_id: i64) -> Option<Edge> {
        Some(Edge { user_id, target_id, time: None })
    }

    #[test]
    fn first_two_columns_without_header_are_ids() {
        let columns = Columns::of(&["1 2", "3 4"]).unwrap();
        for line in [
            "1 2",
            "1,2",
            "1\t2",
            "1;2",
            " 1 , 2 ",
            "1  2\r",
            "\"1\",\"2\"",
            "1.0,2.0",
            "1 2 3",
            "1,2,\"a, b\",x",
        ] {
            assert_eq!(columns.edge(line), edge(1, 2), "{line:?}");
        }
        for line in ["1", "a b", "1 99999999999999999999", ",", "1.5,2", ",1,2"] {
            assert_eq!(columns.edge(line), None, "{line:?}");
        }
        assert!(!columns.is_header("1 2"));
    }

    #[test]
    fn a_header_names_the_columns_in_any_order() {
        let header = "Show boosts,\"Target id\",Languages,user_id,Follow Time";
        let columns = Columns::of(&[header, "true,2,\"en, de\",1,"]).unwrap();
        assert!(columns.is_header(header));
        assert_eq!(columns.edge("true,2,\"en, de\",1,"), edge(1, 2));
        let timed = columns.edge("true,2,,1,2024-05-01T08:00:00Z").unwrap();
        assert_eq!(timed.time.as_deref(), Some("2024-05-01T08:00:00Z"));
        let others = Columns::of(&["follower,followee", "1,2"]).unwrap();
        assert_eq!(others.edge("1,2"), edge(1, 2));
    }

    #[test]
    fn a_header_with_other_names_is_ignored() {
        let columns = Columns::of(&["a,b", "1,2"]).unwrap();
        assert!(columns.is_header("a,b") && columns.edge("1,2") == edge(1, 2));
    }

    #[test]
    fn list_of_addresses_is_refused_with_columns() {
        let mastodon =
            ["Account address,Show boosts,Notify on new posts,Languages", "ann@example.social,true,false,"];
        assert_eq!(
            Columns::of(&mastodon).unwrap_err(),
            "no line has two user ids (its columns are \"Account address\", \"Show boosts\", \"Notify on new posts\", \
             \"Languages\"); name two columns of ids user_id and target_id, or put them first"
        );
        let bare = ["ann@example.social,true", "bob@example.social,true"];
        let why = Columns::of(&bare).unwrap_err();
        assert!(why.contains("its lines have 2 columns") && !why.contains("ann"), "{why}");
    }
}
