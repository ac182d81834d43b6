//! The page of one node: how it is, its methods, its namespaces.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    text::{Line, Span},
    widgets::{Paragraph, Wrap},
};

use super::{
    draw::{Column, Look, state, table},
    feed::{Node, Now},
    sample::{Method, Namespace, Sample},
    shown,
    view::View,
};

/// Lines of how it is.
const FACTS: u16 = 4;

/// Draws what is known of a node.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, view: &View, node: &Node) {
    let sample = match &node.now {
        Now::Here(sample) => sample,
        Now::Asked => return frame.render_widget(Paragraph::new(node.addr.clone()), area),
        Now::Away(why) => {
            let text = format!("{}\naway: {why}", node.addr);
            let away = Paragraph::new(text).wrap(Wrap { trim: true }).style(Look::Wrong.style(view));
            return frame.render_widget(away, area);
        }
    };
    let namespaces = u16::try_from(sample.namespaces.len()).unwrap_or(u16::MAX).saturating_add(1);
    let [top, of_methods, _gap, of_namespaces] = Layout::vertical([
        Constraint::Length(FACTS),
        Constraint::Fill(1),
        Constraint::Length(1),
        Constraint::Length(namespaces),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(facts(view, node, sample)), top);
    let room = usize::from(of_methods.height.saturating_sub(1));
    let first = view.scrolled.min(sample.methods.len().saturating_sub(room));
    frame.render_widget(table(&METHODS, &sample.methods[first..], view), of_methods);
    frame.render_widget(table(&NAMESPACES, &sample.namespaces, view), of_namespaces);
}

/// Pairs of a name and a value, in lines.
struct Facts<'a> {
    view: &'a View,
    lines: Vec<Line<'static>>,
}

impl Facts<'_> {
    fn line(&mut self, pairs: Vec<(&str, (String, Look))>) {
        let spans = pairs.into_iter().flat_map(|(name, (text, look))| {
            [Span::raw(format!("{name} ")), Span::styled(text, look.style(self.view)), Span::raw("   ")]
        });
        self.lines.push(spans.collect());
    }
}

fn facts(view: &View, node: &Node, sample: &Sample) -> Vec<Line<'static>> {
    let yes = |good: bool| (if good { "yes" } else { "no" }.to_owned(), Look::wrong_if(!good));
    let some = |text: &Option<String>, good: &str| {
        let wrong = text.as_deref().is_some_and(|text| text != good);
        (text.clone().unwrap_or_else(|| "-".to_owned()), Look::wrong_if(wrong))
    };
    let more_than_none = |value: i64| (shown::count(value), Look::wrong_if(value > 0));
    let proof = sample.since_proof_seconds.map_or_else(|| "-".to_owned(), |since| format!("{since:.1}s"));
    let mut facts = Facts { view, lines: Vec::new() };
    facts.line(vec![
        ("node", plain(node.addr.clone())),
        ("state", state(node)),
        ("version", plain(sample.version.clone())),
        ("up", plain(sample.uptime_seconds.map_or_else(|| "-".to_owned(), shown::long))),
    ]);
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
    Column {
        name: "method",
        width: 0,
        cell: |one| {
            let service = one.service.rsplit('.').next().unwrap_or_default();
            (format!("{service}/{}", one.method), Look::Plain)
        },
    },
    Column { name: "calls/s", width: 8, cell: |one| plain(shown::number(one.calls.calls_per_second)) },
    Column { name: "errors/s", width: 8, cell: |one| plain(shown::number(one.calls.errors_per_second)) },
    Column {
        name: "faults/s",
        width: 8,
        cell: |one| {
            let faults = one.calls.faults_per_second;
            (shown::number(faults), Look::wrong_if(faults > 0.0))
        },
    },
    Column { name: "p50", width: 7, cell: |one| plain(shown::time(one.calls.p50_ms)) },
    Column { name: "p99", width: 7, cell: |one| plain(shown::time(one.calls.p99_ms)) },
];

const NAMESPACES: [Column<Namespace>; 9] = [
    Column { name: "namespace", width: 0, cell: |one| plain(one.namespace.clone()) },
    Column { name: "entries", width: 7, cell: |one| plain(shown::count(one.entries)) },
    Column { name: "bytes", width: 7, cell: |one| plain(shown::bytes(one.weight_bytes)) },
    Column { name: "mem%", width: 5, cell: |one| plain(shown::percent(one.memory_hit_rate)) },
    Column { name: "red%", width: 5, cell: |one| plain(shown::percent(one.redis_hit_rate)) },
    Column { name: "store/s", width: 7, cell: |one| plain(shown::number(one.store_reads_per_second)) },
    Column { name: "load/s", width: 6, cell: |one| plain(shown::number(one.loads_per_second)) },
    Column {
        name: "failed/s",
        width: 8,
        cell: |one| {
            let failed = one.load_errors_per_second;
            (shown::number(failed), Look::wrong_if(failed > 0.0))
        },
    },
    Column { name: "inv/s", width: 5, cell: |one| plain(shown::number(one.invalidations_per_second)) },
];

fn plain(text: String) -> (String, Look) {
    (text, Look::Plain)
}
