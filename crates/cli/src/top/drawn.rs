//! What the screen looks like, as text.

use ratatui::{
    Terminal,
    backend::TestBackend,
    buffer::Buffer,
    style::{Color, Modifier},
};

use super::{
    draw,
    feed::{Node, Now},
    sample::{Method, Namespace, Rates, Sample},
    view::{Key, View},
};

/// What is on a screen of this size.
fn drawn(size: (u16, u16), view: &View, nodes: &[Node]) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
    terminal.draw(|frame| draw::draw(frame, view, nodes)).unwrap();
    terminal.backend().buffer().clone()
}

/// Its lines, without what is empty at their ends and below them.
fn text(buffer: &Buffer) -> String {
    let (width, symbols) = (usize::from(buffer.area.width), buffer.content());
    let line =
        |cells: &[ratatui::buffer::Cell]| cells.iter().map(ratatui::buffer::Cell::symbol).collect::<String>();
    let lines: Vec<_> = symbols.chunks(width).map(|cells| line(cells).trim_end().to_owned()).collect();
    lines.join("\n") + "\n"
}

/// The words that are marked as wrong, in their order.
fn wrong(buffer: &Buffer, is: fn(&ratatui::buffer::Cell) -> bool) -> Vec<String> {
    let marked = buffer.content().iter().map(|cell| if is(cell) { cell.symbol() } else { " " });
    marked.collect::<String>().split_whitespace().map(str::to_owned).collect()
}

fn red(cell: &ratatui::buffer::Cell) -> bool {
    cell.fg == Color::Red
}

/// A node of three that fares well.
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

/// It serves and knows that it is cut off.
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

fn here(sample: Sample) -> Now {
    Now::Here(Box::new(sample))
}

fn nodes(all: impl IntoIterator<Item = Now>) -> Vec<Node> {
    let node = |(at, now)| Node { addr: format!("http://10.0.0.{at}:7600"), now, fresh: true };
    (1..).zip(all).map(node).collect()
}

fn troubled() -> Vec<Node> {
    let away = Now::Away("no node answers at http://10.0.0.3:7600 (Connection refused)".to_owned());
    nodes([here(well()), here(untrusted()), away])
}

#[test]
fn a_cluster_that_is_well_fits_into_80_columns_and_nothing_of_it_is_red() {
    let nodes = nodes([here(well()), here(well()), Now::Asked]);
    let screen = drawn((80, 24), &View::new(true), &nodes);
    assert_eq!(text(&screen), WELL);
    assert_eq!(wrong(&screen, red), [""; 0]);
}

#[test]
fn what_is_wrong_is_red_or_bold_where_no_colour_is_wanted() {
    let nodes = troubled();
    let screen = drawn((80, 24), &View::new(true), &nodes);
    assert_eq!(text(&screen), TROUBLED);
    assert_eq!(wrong(&screen, red), ["untrusted", "7", "away"]);
    let screen = drawn((80, 24), &View::new(false), &nodes);
    assert_eq!(wrong(&screen, red), [""; 0]);
    let bold = wrong(&screen, |cell| cell.modifier.contains(Modifier::BOLD));
    assert!(["untrusted", "7", "away"].iter().all(|word| bold.iter().any(|one| one == word)), "{bold:?}");
}

#[test]
fn a_wide_screen_has_trust_epoch_and_breaker_too() {
    let screen = drawn((120, 7), &View::new(true), &troubled());
    assert_eq!(text(&screen), WIDE);
    assert_eq!(wrong(&screen, red), ["untrusted", "no", "7", "open", "away"]);
}

#[test]
fn enter_shows_the_methods_and_namespaces_of_the_node_and_arrows_scroll_them() {
    let (mut view, nodes) = (View::new(true), troubled());
    view.take(Key::Enter, &nodes);
    let screen = drawn((80, 24), &view, &nodes);
    assert_eq!(text(&screen), NODE);
    (0..99).for_each(|_| assert!(view.take(Key::Down, &nodes)));
    let small = text(&drawn((80, 12), &view, &nodes));
    assert!(small.contains("GetUser") && !small.contains("CreateUser"), "{small}");
    view.take(Key::Back, &nodes);
    view.take(Key::Down, &nodes);
    view.take(Key::Enter, &nodes);
    let screen = drawn((80, 24), &view, &nodes);
    assert_eq!(wrong(&screen, red), ["untrusted", "no", "away", "open", "7"]);
}

#[test]
fn the_page_of_a_node_that_is_away_says_why() {
    let (mut view, nodes) = (View::new(true), troubled());
    view.selected = 2;
    view.take(Key::Enter, &nodes);
    assert_eq!(text(&drawn((80, 6), &view, &nodes)), AWAY);
}

#[test]
fn help_explains_every_column_and_key() {
    let (mut view, nodes) = (View::new(true), troubled());
    view.take(Key::Help, &nodes);
    let help = text(&drawn((80, 24), &view, &nodes));
    for word in
        ["Enter", "Esc", "p  ", "q  ", "lag", "calls/s", "mem%", "red%", "load/s", "inv/s", "wait", "busy"]
    {
        assert!(help.contains(word), "{word} is not in\n{help}");
    }
    assert!(help.contains("NO_COLOR"), "all of it fits");
}

#[test]
fn a_screen_of_any_size_is_drawn() {
    let (mut view, nodes) = (View::new(true), troubled());
    for key in [Key::Up, Key::Enter, Key::Help] {
        view.take(key, &nodes);
        for (width, height) in [(1, 1), (10, 3), (80, 2), (300, 100)] {
            drawn((width, height), &view, &nodes);
        }
    }
}

const WELL: &str = "\
kith top   nodes 3
node                  state  lag calls/s    p99 mem% red% load/s inv/s wait busy
10.0.0.1:7600       serving    0   12.3k 1.25ms 98.7 80.0     28   120    0   12
10.0.0.2:7600       serving    0   12.3k 1.25ms 98.7 80.0     28   120    0   12
10.0.0.3:7600         asked


















q end   Enter look closer   p halt   ? help
";

const TROUBLED: &str = "\
kith top   nodes 3   1 away
node                  state  lag calls/s    p99 mem% red% load/s inv/s wait busy
10.0.0.1:7600       serving    0   12.3k 1.25ms 98.7 80.0     28   120    0   12
10.0.0.2:7600     untrusted   15   12.3k 1.25ms 98.7    -     28   120    7   12
10.0.0.3:7600          away


















q end   Enter look closer   p halt   ? help
";

const WIDE: &str = "\
kith top   nodes 3   1 away
node                                    state trust epoch  lag calls/s    p99 mem% red% load/s inv/s wait busy   breaker
10.0.0.1:7600                         serving   yes     3    0   12.3k 1.25ms 98.7 80.0     28   120    0   12    closed
10.0.0.2:7600                       untrusted    no     3   15   12.3k 1.25ms 98.7    -     28   120    7   12      open
10.0.0.3:7600                            away

q end   Enter look closer   p halt   ? help
";

const NODE: &str = "\
kith top   nodes 3   1 away
node http://10.0.0.1:7600   state serving   version 0.1.0   up 1d2h
trusted yes   epoch 3   applied 81234   lag 0   proof 0.1s   repairs 0
redis follows   breaker closed   waiting 0   store answers yes
in flight: calls 12   writes 2   shed: calls 0   writes 0
method                                 calls/s errors/s faults/s     p50     p99
UserService/CreateUser                     9.5      0.1        0   210us  12.3ms
UserService/GetUser                      12.3k      123        0   210us   900us












namespace              entries   bytes  mem%  red% store/s load/s failed/s inv/s
user                     41.0k   23MiB  98.7  80.0      31     28        0   120
group                      900  527KiB  98.7  80.0      31     28        0   120
q end   Esc back   p halt   ? help
";

const AWAY: &str = "\
kith top   nodes 3   1 away
http://10.0.0.3:7600
away: no node answers at http://10.0.0.3:7600 (Connection refused)


q end   Esc back   p halt   ? help
";
