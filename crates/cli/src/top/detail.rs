//! Draws the page for one node: its state, its last samples, its methods, its namespaces.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    text::{Line, Span},
    widgets::{Paragraph, Wrap},
};

use super::{
    activity,
    feed::{NodeState, WatchedNode},
    health::{problems, state},
    sample::{Method, Namespace, Sample},
    shown,
    table::{CellStyle, Column, StyledText, plain, table},
    view::View,
};

/// The lines that the state takes.
const FACTS: u16 = 5;
/// The page height from which the last samples are drawn.
const TALL: u16 = 30;

/// Draws everything that is known about a node.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, view: &View, node: &WatchedNode) {
    let sample = match &node.now {
        NodeState::Reporting(sample) => sample,
        NodeState::Connecting => return frame.render_widget(Paragraph::new(node.addr.clone()), area),
        NodeState::Unreachable(why) => {
            let text = format!("{}\nunreachable: {why}", node.addr);
            let away = Paragraph::new(text).wrap(Wrap { trim: true }).style(CellStyle::Failure.style(view));
            return frame.render_widget(away, area);
        }
    };
    let samples = if area.height >= TALL { activity::HEIGHT + 1 } else { 0 };
    let lists = area.height.saturating_sub(FACTS + samples);
    // The methods get at least half the room.
    let namespaces = rows(sample.namespaces.len()).min(lists / 2);
    let [top, of_samples, of_methods, _gap, of_namespaces] = Layout::vertical([
        Constraint::Length(FACTS),
        Constraint::Length(samples),
        Constraint::Length(rows(sample.methods.len()).min(lists.saturating_sub(namespaces + 1))),
        Constraint::Length(1),
        Constraint::Length(namespaces),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(facts(view, node, sample)), top);
    if samples > 0 {
        activity::draw(frame, of_samples, node);
    }
    scrolled(frame, of_methods, view, &METHODS, &sample.methods);
    scrolled(frame, of_namespaces, view, &NAMESPACES, &sample.namespaces);
}

/// Returns the height that `count` rows and their header take.
fn rows(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX).saturating_add(1)
}

/// Draws the rows from the first visible row, as many as there is room for.
fn scrolled<T>(frame: &mut Frame<'_>, area: Rect, view: &View, columns: &[Column<T>], rows: &[T]) {
    let room = usize::from(area.height.saturating_sub(1));
    let first = view.scrolled.min(rows.len().saturating_sub(room));
    frame.render_widget(table(columns, &rows[first..], area.width, view), area);
}

/// Pairs with a name and a value, in lines.
struct FactLines<'a> {
    view: &'a View,
    lines: Vec<Line<'static>>,
}

impl FactLines<'_> {
    fn line(&mut self, pairs: Vec<(&str, StyledText)>) {
        let spans = pairs.into_iter().flat_map(|(name, (text, look))| {
            [Span::raw(format!("{name} ")), Span::styled(text, look.style(self.view)), Span::raw("   ")]
        });
        self.lines.push(spans.collect());
    }
}

fn facts(view: &View, node: &WatchedNode, sample: &Sample) -> Vec<Line<'static>> {
    let yes = |good: bool| (if good { "yes" } else { "no" }.to_owned(), CellStyle::warning_if(!good));
    let some = |text: &Option<String>, good: &str| {
        let wrong = text.as_deref().is_some_and(|text| text != good);
        (text.clone().unwrap_or_else(|| "-".to_owned()), CellStyle::warning_if(wrong))
    };
    let more_than_none = |value: i64| (shown::count(value), CellStyle::warning_if(value > 0));
    let proof = sample.since_proof_seconds.map_or_else(|| "-".to_owned(), |since| format!("{since:.1}s"));
    let mut facts = FactLines { view, lines: Vec::new() };
    facts.line(vec![
        ("node", plain(node.addr.clone())),
        ("version", plain(sample.version.clone())),
        ("up", plain(sample.uptime_seconds.map_or_else(|| "-".to_owned(), shown::long))),
    ]);
    facts.line(vec![("state", state(node)), ("", (problems(sample).join(", "), CellStyle::Warning))]);
    facts.line(vec![
        ("trusted", yes(sample.trusted)),
        ("epoch", plain(sample.epoch.to_string())),
        ("applied", plain(sample.applied.to_string())),
        ("lag", plain(shown::some(sample.entries_behind))),
        ("proof", plain(proof)),
        ("repairs", plain(shown::count(sample.repairs))),
    ]);
    facts.line(vec![
        ("redis", some(&sample.redis, "follows")),
        ("breaker", some(&sample.redis_breaker, "closed")),
        ("waiting", sample.changes_waiting.map_or_else(|| plain("-".to_owned()), more_than_none)),
        ("store answers", yes(sample.store_answers)),
    ]);
    facts.line(vec![
        ("in flight: calls", plain(shown::count(sample.calls_in_flight))),
        ("writes", plain(shown::count(sample.mutations_in_flight))),
        ("shed: calls", more_than_none(sample.calls_shed)),
        ("writes", more_than_none(sample.mutations_shed)),
    ]);
    facts.lines
}

const METHODS: [Column<Method>; 6] = [
    Column::words("method", 30, 0, |one| {
        let service = one.service.rsplit('.').next().unwrap_or_default();
        plain(format!("{service}/{}", one.method))
    }),
    Column::numbers("calls/s", 8, 1, |one| plain(shown::number(one.calls.calls_per_second))),
    Column::numbers("errors/s", 8, 3, |one| plain(shown::number(one.calls.errors_per_second))),
    Column::numbers("faults/s", 8, 4, |one| failures(one.calls.faults_per_second)),
    Column::numbers("p50", 7, 5, |one| plain(shown::time(one.calls.p50_ms))),
    Column::numbers("p99", 7, 2, |one| plain(shown::time(one.calls.p99_ms))),
];

const NAMESPACES: [Column<Namespace>; 9] = [
    Column::words("namespace", 18, 0, |one| plain(one.namespace.clone())),
    Column::numbers("entries", 7, 2, |one| plain(shown::count(one.entries))),
    Column::numbers("bytes", 7, 5, |one| plain(shown::bytes(one.weight_bytes))),
    Column::numbers("mem%", 5, 1, |one| plain(shown::percent(one.memory_hit_rate))),
    Column::numbers("redis%", 6, 3, |one| plain(shown::percent(one.redis_hit_rate))),
    Column::numbers("store/s", 7, 8, |one| plain(shown::number(one.store_reads_per_second))),
    Column::numbers("loads/s", 7, 4, |one| plain(shown::number(one.loads_per_second))),
    Column::numbers("failed/s", 8, 6, |one| failures(one.load_errors_per_second)),
    Column::numbers("inval/s", 7, 7, |one| plain(shown::number(one.invalidations_per_second))),
];

fn failures(rate: f64) -> StyledText {
    (shown::number(rate), if rate > 0.0 { CellStyle::Failure } else { CellStyle::Plain })
}
