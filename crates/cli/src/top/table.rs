//! Tables that cut no cell: where there is no room for all columns, the less important columns are left out.

use ratatui::{
    layout::Constraint,
    style::{Color, Modifier, Style},
    text::Line,
    widgets::{Cell, Row, Table},
};

use super::view::View;

/// The look of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CellStyle {
    Plain,
    Good,
    /// The value is not as it should be.
    Warning,
    /// The part does not work at all.
    Failure,
}

impl CellStyle {
    pub(super) const fn warning_if(wrong: bool) -> Self {
        if wrong { Self::Warning } else { Self::Plain }
    }

    /// Without colors, bad values are bold.
    pub(super) fn style(self, view: &View) -> Style {
        match (self, view.color) {
            (Self::Plain, _) | (Self::Good, false) => Style::new(),
            (Self::Warning | Self::Failure, false) => Style::new().add_modifier(Modifier::BOLD),
            (Self::Good, true) => Style::new().fg(Color::Green),
            (Self::Warning, true) => Style::new().fg(Color::Yellow),
            (Self::Failure, true) => Style::new().fg(Color::Red),
        }
    }
}

/// A text in its style.
pub(super) type StyledText = (String, CellStyle);
type ToCell<T> = fn(&T) -> StyledText;

pub(super) fn plain(text: String) -> StyledText {
    (text, CellStyle::Plain)
}

/// A column: its name, and the way to make its cells.
pub(super) struct Column<T> {
    pub(super) name: &'static str,
    /// The smallest width. The column is as wide as its widest cell if that is wider, so that its width does
    /// not change with every value.
    pub(super) width: usize,
    /// The column with the highest rank is left out first.
    pub(super) rank: u8,
    /// Words are aligned to the left, numbers to the right.
    pub(super) words: bool,
    pub(super) cell: ToCell<T>,
}

impl<T> Column<T> {
    /// Makes a column with numbers.
    pub(super) const fn numbers(name: &'static str, width: usize, rank: u8, cell: ToCell<T>) -> Self {
        Self { name, width, rank, words: false, cell }
    }

    /// Makes a column with words.
    pub(super) const fn words(name: &'static str, width: usize, rank: u8, cell: ToCell<T>) -> Self {
        Self { name, width, rank, words: true, cell }
    }
}

/// A column with its cell texts.
struct FilledColumn {
    name: &'static str,
    rank: u8,
    width: usize,
    words: bool,
    cells: Vec<StyledText>,
}

impl FilledColumn {
    fn of<T>(column: &Column<T>, rows: &[T]) -> Self {
        let cells: Vec<_> = rows.iter().map(column.cell).collect();
        let widest = cells.iter().map(|(text, _)| text.chars().count()).max().unwrap_or(0);
        let width = column.width.max(column.name.len()).max(widest);
        Self { name: column.name, rank: column.rank, width, words: column.words, cells }
    }
}

/// Makes a table that is at most this wide.
pub(super) fn table<T>(columns: &[Column<T>], rows: &[T], width: u16, view: &View) -> Table<'static> {
    let filled =
        fitting(columns.iter().map(|column| FilledColumn::of(column, rows)).collect(), usize::from(width));
    let aligned = |column: &FilledColumn, text: String| {
        let line = Line::from(text);
        Cell::from(if column.words { line } else { line.right_aligned() })
    };
    let header = filled.iter().map(|column| aligned(column, column.name.to_owned()));
    let row = |at: usize| {
        Row::new(filled.iter().map(move |column| {
            let (text, style) = column.cells[at].clone();
            aligned(column, text).style(style.style(view))
        }))
    };
    let widths =
        filled.iter().map(|column| Constraint::Length(u16::try_from(column.width).unwrap_or(u16::MAX)));
    let bold = Style::new().add_modifier(Modifier::BOLD);
    Table::new((0..rows.len()).map(row), widths).header(Row::new(header).style(bold))
}

/// Returns the most important columns that fit, at least one column.
fn fitting(mut columns: Vec<FilledColumn>, width: usize) -> Vec<FilledColumn> {
    let needed = |columns: &[FilledColumn]| columns.iter().map(|column| column.width + 1).sum::<usize>() - 1;
    while columns.len() > 1 && needed(&columns) > width {
        let least = columns.iter().enumerate().max_by_key(|(_, column)| column.rank);
        let Some((at, _)) = least else { break };
        columns.remove(at);
    }
    columns
}
