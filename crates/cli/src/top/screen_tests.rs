//! Compares the screen with text.

use ratatui::{
    Terminal,
    backend::TestBackend,
    buffer::{Buffer, Cell},
    style::{Color, Modifier},
};

use super::{
    draw,
    feed::{NodeState, WatchedNode},
    sample::{Method, Namespace, Rates, Sample},
    view::{Action, View},
};

/// Draws a screen with this size.
fn drawn(size: (u16, u16), view: &View, nodes: &[WatchedNode]) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
    terminal.draw(|frame| draw::draw(frame, view, nodes)).unwrap();
    terminal.backend().buffer().clone()
}

/// Returns its lines that are not empty, without trailing space.
fn text(buffer: &Buffer) -> String {
    let lines = buffer.content().chunks(usize::from(buffer.area.width));
    let line =
        |cells: &[Cell]| cells.iter().map(Cell::symbol).collect::<String>().trim_end().to_owned() + "\n";
    lines.map(line).filter(|line| line != "\n").collect()
}

/// Returns the words in the cells for which `is` is true, in their order.
fn words(buffer: &Buffer, is: fn(&Cell) -> bool) -> Vec<String> {
    let marked = buffer.content().iter().map(|cell| if is(cell) { cell.symbol() } else { " " });
    marked.collect::<String>().split_whitespace().map(str::to_owned).collect()
}

fn green(cell: &Cell) -> bool {
    cell.fg == Color::Green
}

fn yellow(cell: &Cell) -> bool {
    cell.fg == Color::Yellow
}

fn red(cell: &Cell) -> bool {
    cell.fg == Color::Red
}

/// Makes a sample from a healthy node in a cluster with three.
fn well() -> Sample {
    let calls = |rate, p99| Rates {
        calls_per_second: rate,
        errors_per_second: rate / 100.0,
        faults_per_second: 0.0,
        p50_ms: Some(0.21),
        p99_ms: Some(p99),
    };
    let method = |method: &str, rate, p99| Method {
        service: "kith.user.v1.UserService".to_owned(),
        method: method.to_owned(),
        calls: calls(rate, p99),
    };
    let namespace = |name: &str, entries| Namespace {
        namespace: name.to_owned(),
        entries,
        weight_bytes: entries * 600,
        memory_hit_rate: Some(0.9876),
        redis_hit_rate: Some(0.8),
        store_reads_per_second: 31.0,
        loads_per_second: 28.0,
        invalidations_per_second: 120.0,
        ..Namespace::default()
    };
    Sample {
        state: "serving".to_owned(),
        version: "0.1.0".to_owned(),
        trusted: true,
        epoch: 3,
        applied: 81_234,
        store_answers: true,
        uptime_seconds: Some(93_784),
        calls_in_flight: 12,
        mutations_in_flight: 2,
        redis: Some("follows".to_owned()),
        redis_breaker: Some("closed".to_owned()),
        nodes: Some(3),
        changes_waiting: Some(0),
        entries_behind: Some(0),
        since_proof_seconds: Some(0.12),
        interval_seconds: 1.0,
        calls: calls(12_345.0, 1.25),
        memory_hit_rate: Some(0.9876),
        redis_hit_rate: Some(0.8),
        loads_per_second: 28.0,
        invalidations_per_second: 120.0,
        methods: vec![method("CreateUser", 9.5, 12.3), method("GetUser", 12_300.0, 0.9)],
        namespaces: vec![namespace("user", 41_000), namespace("group", 900)],
        ..Sample::default()
    }
}

/// Makes a sample from a node that serves without Redis.
fn untrusted() -> Sample {
    Sample {
        trusted: false,
        redis: Some("away".to_owned()),
        redis_breaker: Some("open".to_owned()),
        changes_waiting: Some(7),
        entries_behind: Some(15),
        since_proof_seconds: Some(4.5),
        redis_hit_rate: None,
        ..well()
    }
}

fn here(sample: Sample) -> NodeState {
    NodeState::Reporting(Box::new(sample))
}

fn nodes(all: impl IntoIterator<Item = NodeState>) -> Vec<WatchedNode> {
    let node = |(at, now): (u8, NodeState)| {
        let mut node = WatchedNode::new(format!("http://10.0.0.{at}:7600"));
        node.update(now);
        node
    };
    (1..).zip(all).map(node).collect()
}

fn troubled() -> Vec<WatchedNode> {
    let away =
        NodeState::Unreachable("no node answers at http://10.0.0.3:7600 (Connection refused)".to_owned());
    nodes([here(well()), here(untrusted()), away])
}

#[test]
fn healthy_cluster_fits_into_80_columns() {
    let nodes = nodes([here(well()), here(well()), NodeState::Connecting]);
    let screen = drawn((80, 24), &View::new(true), &nodes);
    assert_eq!(text(&screen), WELL);
    assert_eq!(words(&screen, green), ["healthy", "healthy"]);
    assert_eq!(words(&screen, |cell| yellow(cell) || red(cell)), [""; 0]);
}

#[test]
fn states_have_colors_or_are_bold_without() {
    let nodes = troubled();
    let screen = drawn((80, 24), &View::new(true), &nodes);
    assert_eq!(text(&screen), TROUBLED);
    assert_eq!(words(&screen, green), ["healthy"]);
    assert_eq!(words(&screen, yellow), ["degraded", "7"]);
    assert_eq!(words(&screen, red), ["unreachable"]);
    let screen = drawn((80, 24), &View::new(false), &nodes);
    assert_eq!(words(&screen, |cell| cell.fg != Color::Reset), [""; 0]);
    let bold = words(&screen, |cell| cell.modifier.contains(Modifier::BOLD));
    assert!(
        ["degraded", "7", "unreachable"].iter().all(|word| bold.iter().any(|one| one == word)),
        "{bold:?}"
    );
}

#[test]
fn headers_and_values_are_whole_at_120_columns() {
    let screen = drawn((120, 40), &View::new(true), &troubled());
    assert_eq!(text(&screen), WIDE);
    let shown = words(&screen, |_| true);
    for name in [
        "node", "state", "trusted", "epoch", "lag", "calls/s", "err/s", "p99", "mem%", "redis%", "loads/s",
        "inval/s", "wait", "busy", "breaker",
    ] {
        assert!(shown.iter().any(|word| word == name), "{name} is not whole: {shown:?}");
    }
}

/// Makes a sample with the widest value in each column.
fn widest() -> Sample {
    Sample {
        state: "starting".to_owned(),
        epoch: 4_000_000_000,
        entries_behind: Some(12_345),
        changes_waiting: Some(23_456),
        calls_in_flight: 34_567,
        redis_breaker: Some("half_open".to_owned()),
        calls: Rates {
            calls_per_second: 12_345.0,
            errors_per_second: 23_456.0,
            p99_ms: Some(67_110.0),
            ..Rates::default()
        },
        memory_hit_rate: Some(0.9876),
        redis_hit_rate: Some(1.0),
        ..well()
    }
}

#[test]
fn values_are_whole_or_their_column_is_left_out() {
    let values = [
        "10.0.0.1:7600",
        "starting",
        "yes",
        "4000000000",
        "12.3k",
        "23.5k",
        "34.6k",
        "67.11s",
        "98.7",
        "100",
        "28",
        "120",
        "half_open",
    ];
    let all = words(&drawn((200, 10), &View::new(true), &nodes([here(widest())])), |_| true);
    assert!(values.iter().all(|value| all.iter().any(|word| word == value)), "{all:?}");
    let mut columns = Vec::new();
    for width in (30..=200).rev() {
        let shown = words(&drawn((width, 3), &View::new(true), &nodes([here(widest())])), |_| true);
        let row: Vec<_> =
            shown.iter().filter(|word| word.starts_with(|first: char| first.is_ascii_digit())).collect();
        assert!(row.iter().all(|word| all.contains(word)), "at {width}: {shown:?}");
        columns.push(shown.len());
    }
    assert!(
        columns.is_sorted_by(|wider, narrower| wider >= narrower),
        "fewer on a narrower screen: {columns:?}"
    );
}

#[test]
fn last_samples_of_the_selected_node_are_drawn() {
    let mut nodes = nodes([here(well()), here(well())]);
    for (calls, lag) in [(100.0, 0), (400.0, 30), (800.0, 60)] {
        let calls = Rates { calls_per_second: calls, ..Rates::default() };
        nodes[1].update(here(Sample { calls, entries_behind: Some(lag), ..well() }));
    }
    nodes[1].update(NodeState::Unreachable("gone".to_owned()));
    let mut view = View::new(true);
    view.apply(Action::Down, &nodes);
    let shown = text(&drawn((120, 12), &view, &nodes));
    assert!(shown.contains("calls/s of 10.0.0.2:7600, max 12.3k"), "{shown}");
    assert!(shown.contains("lag of 10.0.0.2:7600, max 60"), "{shown}");
    let lowest = shown.lines().rev().nth(1).unwrap();
    assert!(lowest.starts_with("█") && lowest.ends_with("██·"), "{shown}");
    let small = text(&drawn((80, 6), &view, &nodes));
    assert!(small.contains("10.0.0.2") && !small.contains("max"), "nodes come first: {small}");
}

#[test]
fn details_show_methods_and_namespaces_of_a_node() {
    let (mut view, nodes) = (View::new(true), troubled());
    view.apply(Action::Details, &nodes);
    let screen = drawn((80, 24), &view, &nodes);
    assert_eq!(text(&screen), NODE);
    (0..99).for_each(|_| assert!(view.apply(Action::Down, &nodes)));
    let small = text(&drawn((80, 12), &view, &nodes));
    assert!(small.contains("GetUser") && !small.contains("CreateUser"), "{small}");
    assert!(small.contains("group") && !small.contains("\nuser"), "{small}");
    view.apply(Action::Up, &nodes);
    let small = text(&drawn((80, 12), &view, &nodes));
    assert!(small.contains("CreateUser"), "it did not scroll further than the list: {small}");
}

#[test]
fn details_of_a_degraded_node_say_why() {
    let (mut view, nodes) = (View::new(true), troubled());
    view.apply(Action::Down, &nodes);
    view.apply(Action::Details, &nodes);
    let screen = drawn((120, 40), &view, &nodes);
    let shown = text(&screen);
    assert!(shown.contains("state degraded    memory not trusted, Redis away, breaker open"), "{shown}");
    assert!(shown.contains("calls/s of 10.0.0.2:7600"), "{shown}");
    let wrong = words(&screen, yellow);
    assert!(
        ["degraded", "no", "away", "open", "7"].iter().all(|word| wrong.iter().any(|one| one == word)),
        "{wrong:?}"
    );
}

#[test]
fn details_of_an_unreachable_node_say_why() {
    let (mut view, nodes) = (View::new(true), troubled());
    view.selected = 2;
    view.apply(Action::Details, &nodes);
    assert_eq!(text(&drawn((80, 6), &view, &nodes)), AWAY);
}

#[test]
fn help_explains_every_column_and_key() {
    let (mut view, nodes) = (View::new(true), troubled());
    view.apply(Action::Help, &nodes);
    let help = text(&drawn((80, 24), &view, &nodes));
    for word in [
        "d/Enter",
        "Esc",
        "p/Space",
        "q  ",
        "?/h",
        "healthy",
        "degraded",
        "unreachable",
        "lag",
        "calls/s",
        "err/s",
        "p99",
        "mem%",
        "redis%",
        "loads/s",
        "inval/s",
        "wait",
        "busy",
        "breaker",
        "trusted",
        "epoch",
        "NO_COLOR",
    ] {
        assert!(help.contains(word), "{word} is not in\n{help}");
    }
    assert!(help.contains("without an answer."), "all of it fits: {help}");
}

#[test]
fn screen_of_any_size_is_drawn() {
    let (mut view, nodes) = (View::new(true), troubled());
    for action in [Action::Up, Action::Details, Action::Help] {
        view.apply(action, &nodes);
        for (width, height) in [(1, 1), (10, 3), (80, 2), (300, 100)] {
            drawn((width, height), &view, &nodes);
        }
    }
}

const WELL: &str = "\
kith top   nodes 3
node             state        lag calls/s err/s    p99 mem% redis% loads/s wait
10.0.0.1:7600    healthy        0   12.3k   123 1.25ms 98.7   80.0      28    0
10.0.0.2:7600    healthy        0   12.3k   123 1.25ms 98.7   80.0      28    0
10.0.0.3:7600    connecting
calls/s of 10.0.0.1:7600, max 12.3k      lag of 10.0.0.1:7600, max 0
█
█
█
q quit   p pause   d details   ? help
";

const TROUBLED: &str = "\
kith top   nodes 3   1 unreachable
node             state        lag calls/s err/s    p99 mem% redis% loads/s wait
10.0.0.1:7600    healthy        0   12.3k   123 1.25ms 98.7   80.0      28    0
10.0.0.2:7600    degraded      15   12.3k   123 1.25ms 98.7      -      28    7
10.0.0.3:7600    unreachable
calls/s of 10.0.0.1:7600, max 12.3k      lag of 10.0.0.1:7600, max 0
█
█
█
q quit   p pause   d details   ? help
";

const WIDE: &str = "\
kith top   nodes 3   1 unreachable
node             state       trusted epoch  lag calls/s err/s    p99 mem% redis% loads/s inval/s wait busy breaker
10.0.0.1:7600    healthy     yes         3    0   12.3k   123 1.25ms 98.7   80.0      28     120    0   12 closed
10.0.0.2:7600    degraded    no          3   15   12.3k   123 1.25ms 98.7      -      28     120    7   12 open
10.0.0.3:7600    unreachable
calls/s of 10.0.0.1:7600, max 12.3k                          lag of 10.0.0.1:7600, max 0
█
█
█
q quit   p pause   d details   ? help
";

const NODE: &str = "\
kith top   nodes 3   1 unreachable
node http://10.0.0.1:7600   version 0.1.0   up 1d2h
state healthy
trusted yes   epoch 3   applied 81234   lag 0   proof 0.1s   repairs 0
redis follows   breaker closed   waiting 0   store answers yes
in flight: calls 12   writes 2   shed: calls 0   writes 0
method                          calls/s errors/s faults/s     p50     p99
UserService/CreateUser              9.5      0.1        0   210us  12.3ms
UserService/GetUser               12.3k      123        0   210us   900us
namespace          entries   bytes  mem% redis% store/s loads/s failed/s inval/s
user                 41.0k   23MiB  98.7   80.0      31      28        0     120
group                  900  527KiB  98.7   80.0      31      28        0     120
q quit   p pause   Esc back   ? help
";

const AWAY: &str = "\
kith top   nodes 3   1 unreachable
http://10.0.0.3:7600
unreachable: no node answers at http://10.0.0.3:7600 (Connection refused)
q quit   p pause   Esc back   ? help
";
