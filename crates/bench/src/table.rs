//! Results for people.

use kith_lab_servers::table::aligned;

use crate::ratio::{Better, Row};

/// The rows as a Markdown table, in their order.
#[must_use]
pub(crate) fn table(rows: &[Row]) -> String {
    let head = ["row", "unit", "baseline", "kith", "figure", "target", "spread", "rounds", "holds"];
    aligned(&head.map(str::to_owned), rows.iter().map(cells))
}

/// A row as one text line: its figure, its target, and whether it holds.
#[must_use]
pub(crate) fn line(row: &Row) -> String {
    let [name, unit, baseline, kith, figure, target, spread, _, holds] = cells(row);
    match row.target {
        None => format!("{name}: {figure} ({baseline} / {kith} {unit}; {spread})"),
        Some(_) => {
            format!("{name}: {figure} of {target}, holds: {holds} ({baseline} / {kith} {unit}; {spread})")
        }
    }
}

fn cells(row: &Row) -> [String; 9] {
    let sign = match row.better {
        Better::Lower => "<=",
        Better::Higher => ">=",
    };
    let holds = match (row.target, row.holds) {
        (None, _) => "reported",
        (Some(_), true) => "yes",
        (Some(_), false) => "NO",
    };
    [
        row.name.to_owned(),
        row.unit.to_owned(),
        number(row.baseline),
        number(row.kith),
        number(row.figure),
        row.target.map_or_else(|| "-".to_owned(), |target| format!("{sign} {target}")),
        format!("{} .. {}", number(row.spread[0]), number(row.spread[1])),
        row.rounds.to_string(),
        holds.to_owned(),
    ]
}

/// Three digits that matter.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(target: Option<f64>, holds: bool) -> Row {
        Row {
            name: "get",
            unit: "ns",
            baseline: 100.0,
            kith: 150.0,
            figure: 1.5,
            target,
            better: Better::Lower,
            holds,
            spread: [1.4, 1.6],
            rounds: 5,
        }
    }

    #[test]
    fn a_row_that_misses_its_target_says_so() {
        let text = table(&[row(Some(1.2), false)]);
        assert!(text.contains("| <= 1.2 |") && text.contains("| NO "), "{text}");
    }

    #[test]
    fn a_row_without_a_target_is_reported() {
        assert!(table(&[row(None, true)]).contains("| reported |"));
    }

    #[test]
    fn a_line_has_figure_target_and_verdict() {
        let text = line(&row(Some(1.2), false));
        assert_eq!(text, "get: 1.50 of <= 1.2, holds: NO (100 / 150 ns; 1.40 .. 1.60)");
        assert_eq!(line(&row(None, true)), "get: 1.50 (100 / 150 ns; 1.40 .. 1.60)");
    }
}
