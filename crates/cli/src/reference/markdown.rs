//! Formats Markdown.

/// Begins a document that is generated from code.
pub(super) fn begin(title: &str, out_of: &str) -> String {
    format!("<!-- Written by `cargo xtask docs` out of {out_of}. Change it there. -->\n\n# {title}\n\n")
}

/// Makes a table; empty without rows. Each row has as many cells as there are columns.
pub(super) fn table<const N: usize>(columns: [&str; N], rows: &[[String; N]]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut text = line(columns.map(str::to_owned).to_vec());
    text += &line(vec!["---".to_owned(); N]);
    for row in rows {
        text += &line(row.iter().map(|cell| one_line(cell).replace('|', "\\|")).collect());
    }
    text + "\n"
}

/// A list of names with their meanings.
pub(super) fn definitions(rows: impl IntoIterator<Item = [String; 2]>) -> String {
    let lines: String =
        rows.into_iter().map(|[name, meaning]| format!("- {name}: {}\n", one_line(&meaning))).collect();
    if lines.is_empty() { lines } else { lines + "\n" }
}

/// Formats text as code; empty if the text is empty.
pub(super) fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{text}`") }
}

/// Formats a comment's lines as paragraphs.
pub(super) fn paragraphs(text: &str) -> String {
    let parts: Vec<_> = text.split("\n\n").map(one_line).filter(|part| !part.is_empty()).collect();
    parts.iter().fold(String::new(), |text, part| text + part + "\n\n")
}

/// Joins words with one space between them.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Removes empty lines at the end, but keeps the last newline.
pub(super) fn ended(text: &str) -> String {
    text.trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_stays_in_its_cell() {
        let text = table(["a"], &[["x | y\n  z".to_owned()]]);
        assert_eq!(text, "| a |\n| --- |\n| x \\| y z |\n\n");
    }

    #[test]
    fn a_definition_stays_in_its_line() {
        assert_eq!(definitions([["`a`".to_owned(), "x\n  y".to_owned()]]), "- `a`: x y\n\n");
        assert_eq!(definitions([]), "");
    }

    #[test]
    fn a_table_without_rows_is_left_out() {
        assert_eq!(table(["a"], &[]), "");
    }
}
