//! Markdown tables.

/// A Markdown table under this head, every column as wide as its widest cell.
#[must_use]
pub fn aligned<const COLUMNS: usize>(
    head: &[String; COLUMNS],
    rows: impl Iterator<Item = [String; COLUMNS]>,
) -> String {
    let mut lines = vec![head.clone()];
    lines.extend(rows);
    let widths: Vec<usize> =
        (0..COLUMNS).map(|at| lines.iter().map(|line| line[at].len()).max().unwrap_or_default()).collect();
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        for (cell, &width) in line.iter().zip(&widths) {
            text += &format!("| {cell:<width$} ");
        }
        text.push_str("|\n");
        if number == 0 {
            for &width in &widths {
                text += &format!("| {:-<width$} ", "");
            }
            text.push_str("|\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lines_have_the_same_width() {
        let rows = [["long name", "1"], ["x", "12345"]].map(|row| row.map(str::to_owned));
        let text = aligned(&["row", "figure"].map(str::to_owned), rows.into_iter());
        assert!(text.starts_with("| row       | figure |\n| --------- | ------ |\n"), "{text}");
        assert!(text.lines().all(|line| line.len() == 22), "{text}");
    }
}
