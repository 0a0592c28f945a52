//! Tests of the pictures: what they show, that it can be read, and that any input is drawn.

use super::{
    graph::{Direction, Kind, Size, graph, style},
    lay::{arrange, scene},
    place::{Variant, laid_out, part_name, place},
    rank::rank,
    route::{Point, Rect, Scene, Step},
    text::{NAME, SYMBOL, clean, name, symbols, width},
    *,
};
use proptest::prelude::*;

const INITIAL: u8 = 1;
const END: u8 = 2;
const HERE: u8 = 4;

/// A picture of states with marks, and of lines from one name to another or to the end mark `*`.
fn picture(nodes: &[(&str, u8)], lines: &[(&str, &str, &[&str])]) -> Picture {
    let place = |wanted: &str| nodes.iter().position(|(name, _)| *name == wanted).unwrap();
    Picture {
        title: "A workflow".to_owned(),
        nodes: nodes
            .iter()
            .map(|(name, marks)| Node {
                name: (*name).to_owned(),
                note: None,
                initial: marks & INITIAL != 0,
                end: marks & END != 0,
                here: marks & HERE != 0,
                aside: false,
            })
            .collect(),
        lines: lines
            .iter()
            .map(|(from, to, labels)| Line {
                from: place(from),
                to: if *to == "*" {
                    To::End
                } else {
                    To::Node(place(to))
                },
                labels: labels.iter().map(|text| label(text)).collect(),
            })
            .collect(),
    }
}

fn label(text: &str) -> Label {
    let failures = ["(error)", "(timeout)", "(cancelled)", "(unknown)"];
    let style = if text.starts_with("after ") {
        Style::Time
    } else if failures.iter().any(|failure| text.ends_with(failure)) {
        Style::Failure
    } else {
        Style::Success
    };
    Label {
        text: text.to_owned(),
        style,
    }
}

/// Numbered states and lines between them, the first state initial.
fn numbered(states: usize, lines: impl IntoIterator<Item = (usize, usize)>) -> Picture {
    let node = |number| Node {
        name: format!("state {number}"),
        initial: number == 0,
        ..Node::default()
    };
    let line = |(from, to)| Line {
        from,
        to: To::Node(to),
        labels: vec![label("go")],
    };
    Picture {
        title: String::new(),
        nodes: (0..states).map(node).collect(),
        lines: lines.into_iter().map(line).collect(),
    }
}

fn refund() -> Picture {
    picture(
        &[
            ("new", INITIAL),
            ("found", HERE),
            ("review", 0),
            ("paid", END),
        ],
        &[
            ("new", "found", &["lookup_order"]),
            ("found", "paid", &["refund"]),
            ("found", "review", &["refund (error)", "refund (timeout)"]),
            (
                "found",
                "found",
                &["resource note://rules", "prompt apologise"],
            ),
            ("review", "found", &["lookup_order"]),
            ("review", "paid", &["refund"]),
            (
                "review",
                "review",
                &["refund (error)", "resource note://rules"],
            ),
        ],
    )
}

fn crossroads() -> Picture {
    let key = "t_open_door_with_key";
    let failed = "t_open_door_with_key (error)";
    let left = "t_open_door_with_key (in C_doorL)";
    let right = "t_open_door_with_key (in C_doorR)";
    picture(
        &[
            ("C_entry", INITIAL),
            ("C_crossroad", 0),
            ("C_doorL", 0),
            ("C_doorR", 0),
            ("C_rollback_left", 0),
            ("C_rollback_right", 0),
        ],
        &[
            ("C_entry", "C_crossroad", &["t_open_door"]),
            ("C_crossroad", "C_crossroad", &["t_press_button"]),
            ("C_crossroad", "C_doorL", &["t_choose_left_path"]),
            ("C_crossroad", "C_doorR", &["t_choose_right_path"]),
            ("C_doorL", "*", &[key]),
            ("C_doorL", "C_rollback_left", &[failed]),
            ("C_doorL", "C_doorL", &["t_pick_up_key"]),
            ("C_doorR", "*", &[key]),
            ("C_doorR", "C_rollback_right", &[failed]),
            ("C_doorR", "C_doorR", &["t_pick_up_key"]),
            ("C_rollback_left", "C_crossroad", &["t_go_back"]),
            ("C_rollback_left", "*", &[left]),
            ("C_rollback_left", "C_rollback_left", &[failed]),
            ("C_rollback_right", "C_crossroad", &["t_go_back"]),
            ("C_rollback_right", "*", &[right]),
            ("C_rollback_right", "C_rollback_right", &[failed]),
        ],
    )
}

/// Guards, timers and an approval.
fn claims() -> Picture {
    let small = "refund [args.order == ctx.order && args.amount <= 100]";
    let large = "refund [args.order == ctx.order && args.amount > 100]";
    picture(
        &[
            ("new", INITIAL),
            ("identified", 0),
            ("waiting_for_approval", HERE),
            ("rejected", END),
            ("paid", END),
            ("escalated", 0),
        ],
        &[
            ("new", "identified", &["identify [args.customer != \"\"]"]),
            ("new", "rejected", &["after 30m"]),
            ("identified", "new", &["identify (error)", "after 1h"]),
            ("identified", "waiting_for_approval", &[large]),
            ("identified", "paid", &[small]),
            ("identified", "escalated", &["refund (timeout)"]),
            ("waiting_for_approval", "paid", &["refund (approval)"]),
            ("waiting_for_approval", "rejected", &["refund (cancelled)"]),
            ("waiting_for_approval", "escalated", &["after 2d"]),
            ("escalated", "identified", &["retry [ctx.tries < 3]"]),
            ("escalated", "*", &["give_up"]),
            ("escalated", "escalated", &["comment"]),
        ],
    )
}

/// Asserts that nothing stands on anything else and that no line runs through what is not its own.
#[track_caller]
fn check(scene: &Scene) {
    let kinds = scene.graph.parts.iter().zip(&scene.parts);
    let drawn = kinds.filter(|(part, _)| part.kind != Kind::Hidden);
    let mut boxes: Vec<Rect> = drawn.map(|(_, rect)| *rect).collect();
    let parts = boxes.len();
    let labels = scene.lines.iter().filter_map(|line| line.label.as_ref());
    boxes.extend(labels.map(|(rect, _)| *rect));
    for (place, one) in boxes.iter().enumerate() {
        assert!(one.left() >= 0.0 && one.top() >= 0.0, "{one:?}");
        assert!(one.right() <= scene.size.width, "{one:?}");
        assert!(one.bottom() <= scene.size.height, "{one:?}");
        for two in &boxes[place + 1..] {
            let apart = one.right() + 3.0 <= two.left()
                || two.right() + 3.0 <= one.left()
                || one.bottom() + 3.0 <= two.top()
                || two.bottom() + 3.0 <= one.top();
            assert!(apart, "{one:?} and {two:?}");
        }
    }
    let mut own = parts;
    for line in &scene.lines {
        for point in points(line.begin, &line.steps) {
            for (place, rect) in boxes.iter().enumerate() {
                let label = line.label.is_some() && place == own;
                let inside = point.x > rect.left() + 0.1
                    && point.x < rect.right() - 0.1
                    && point.y > rect.top() + 0.1
                    && point.y < rect.bottom() - 0.1;
                assert!(label || !inside, "{point:?} in {rect:?}");
            }
        }
        own += usize::from(line.label.is_some());
    }
}

/// Points along a line, close to each other.
fn points(begin: Point, steps: &[Step]) -> Vec<Point> {
    const PIECES: u32 = 24;

    let mut at = begin;
    let mut points = vec![begin];
    for step in steps {
        let (one, two, end) = match *step {
            Step::To(end) => (at, end, end),
            Step::Curve(one, two, end) => (one, two, end),
        };
        for piece in 1..=PIECES {
            let t = f64::from(piece) / f64::from(PIECES);
            let s = 1.0 - t;
            let mix = |a: f64, b: f64, c: f64, d: f64| {
                s * s * s * a + 3.0 * s * s * t * b + 3.0 * s * t * t * c + t * t * t * d
            };
            points.push(Point {
                x: mix(at.x, one.x, two.x, end.x),
                y: mix(at.y, one.y, two.y, end.y),
            });
        }
        at = end;
    }
    points
}

#[test]
fn nothing_overlaps_in_the_examples() {
    for example in [refund(), crossroads(), claims()] {
        check(&scene(&example).unwrap());
    }
}

#[test]
fn the_examples_can_be_read_at_seven_hundred_pixels() {
    for example in [refund(), crossroads(), claims()] {
        let scene = scene(&example).unwrap();
        let scale = f64::min(1.0, 700.0 / scene.size.width);
        assert!(SYMBOL.size * scale >= 11.0, "{:?}", scene.size);
        let labels = scene.lines.iter().filter_map(|line| line.label.as_ref());
        for (_, written) in labels {
            assert!(!written.block.cut, "{written:?}");
        }
    }
}

#[test]
fn a_short_chain_lies_on_its_side() {
    let Size { width, height } = scene(&numbered(3, [(0, 1), (1, 2)])).unwrap().size;
    assert!(width > 3.0 * height, "{width} by {height}");
}

#[test]
fn every_mark_is_drawn() {
    let drawn = svg(&crossroads()).unwrap();
    let count = |wanted: &str| drawn.matches(wanted).count();
    assert_eq!(count("<g class=\"state\">"), 6);
    assert_eq!(count("class=\"ring\""), 4);
    assert_eq!(count("class=\"dot\""), 4 + 1);
    assert_eq!(count("class=\"line\""), 16 + 1);
    assert_eq!(count("class=\"head\""), 16 + 1);
    assert_eq!(count("<g class=\"failure\">"), 4);
    assert_eq!(count("class=\"inner\""), 0);

    let drawn = svg(&refund()).unwrap();
    assert_eq!(drawn.matches("<g class=\"state here\">").count(), 1);
    assert_eq!(drawn.matches("class=\"inner\"").count(), 1);
    assert!(drawn.contains("<title>A workflow</title>"), "{drawn}");
    assert!(
        drawn.contains(
            "<desc>States: 4. Lines: 7. Begins in new. Ends in paid. Now in found.</desc>"
        ),
        "{drawn}"
    );

    let drawn = svg(&claims()).unwrap();
    assert_eq!(drawn.matches("<g class=\"time\">").count(), 2);
}

#[test]
fn a_line_looks_like_the_best_that_can_happen_on_it() {
    let look = |labels: &[&str]| {
        let labels: Vec<_> = labels.iter().map(|text| label(text)).collect();
        style(&labels)
    };
    assert_eq!(look(&[]), Style::Success);
    assert_eq!(look(&["pay (error)", "pay"]), Style::Success);
    assert_eq!(look(&["after 1h", "pay (error)"]), Style::Failure);
    assert_eq!(look(&["after 1h"]), Style::Time);
}

#[test]
fn descriptions_and_cut_texts_are_in_tooltips() {
    let long = "say ".repeat(100);
    let mut picture = picture(&[("new", INITIAL), ("old", 0)], &[("new", "old", &[&long])]);
    picture.nodes[1].note = Some("Was new\nonce.".to_owned());
    let drawn = svg(&picture).unwrap();
    assert!(drawn.contains("<title>old: Was new once.</title>"));
    assert!(drawn.contains(&format!("<title>{}</title>", long.trim())));
    assert!(drawn.contains("…</text>"), "{drawn}");
}

#[test]
fn the_same_picture_is_drawn_in_the_same_way_every_time() {
    let first = svg(&claims()).unwrap();
    for _ in 0..3 {
        svg(&refund()).unwrap();
        assert_eq!(svg(&claims()).unwrap(), first);
    }
}

#[test]
fn a_huge_picture_is_refused() {
    let too_large = |states, lines| Err(TooLarge { states, lines });
    assert_eq!(svg(&numbered(301, [])), too_large(301, 0));
    let same = std::iter::repeat_n((0, 1), 501);
    assert_eq!(svg(&numbered(2, same)), too_large(2, 501));
    let all = (0..20).flat_map(|from| (0..20).map(move |to| (from, to)));
    assert_eq!(svg(&numbered(20, all)), too_large(20, 400));
}

/// Draws on a thread with little room for calls within calls.
fn draw_on_a_small_stack(picture: Picture) -> Result<String, TooLarge> {
    let thread = std::thread::Builder::new().stack_size(1 << 20);
    thread.spawn(move || svg(&picture)).unwrap().join().unwrap()
}

#[test]
fn every_shape_of_graph_is_drawn() {
    let pairs = |count: usize| (0..count).flat_map(move |a| (0..count).map(move |b| (a, b)));
    let shapes = [
        numbered(0, []),
        numbered(1, []),
        numbered(1, [(0, 0)]),
        numbered(2, [(0, 1), (1, 0), (0, 1), (1, 0), (1, 1)]),
        numbered(300, []),
        numbered(300, (1..300).map(|to| (to - 1, to))),
        numbered(300, (0..300).map(|from| (from, (from + 1) % 300))),
        numbered(100, (1..100).map(|to| (0, to))),
        numbered(100, (1..100).map(|from| (from, 0))),
        numbered(10, pairs(10)),
        numbered(14, pairs(14).filter(|(a, b)| a < b)),
        numbered(20, pairs(20).filter(|(a, b)| *a < 10 && *b >= 10)),
        // Two parts, of which the second leads into the first.
        numbered(6, [(0, 1), (1, 0), (3, 4), (4, 5), (5, 3), (5, 1)]),
    ];
    for shape in shapes {
        let states = shape.nodes.len();
        let drawn = draw_on_a_small_stack(shape).unwrap();
        assert_eq!(drawn.matches("<g class=\"state\">").count(), states);
    }
}

#[test]
fn lines_to_nowhere_are_left_out() {
    let mut picture = numbered(2, [(0, 1), (0, 7), (7, 0)]);
    picture.lines.push(Line {
        from: 7,
        to: To::End,
        labels: vec![label("end")],
    });
    let drawn = svg(&picture).unwrap();
    assert_eq!(drawn.matches("class=\"line\"").count(), 1 + 1);
}

/// Asserts that a document is well formed: every element that begins also ends, and nothing else
/// looks like one.
#[track_caller]
fn check_well_formed(document: &str) {
    let mut open = Vec::new();
    for part in document.split('<').skip(1) {
        let (tag, text) = part.split_once('>').expect("a tag ends");
        let name = tag.split([' ', '/']).next().unwrap();
        if let Some(closed) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(closed), "{document}");
        } else {
            let known = [
                "svg", "title", "desc", "style", "rect", "g", "path", "circle", "text",
            ];
            assert!(known.contains(&name), "{tag}");
            if !tag.ends_with('/') {
                open.push(name);
            }
        }
        assert!(!text.contains('>'), "{text}");
        for reference in text.split('&').skip(1) {
            let known = ["amp;", "lt;", "gt;", "quot;", "#39;"];
            assert!(known.iter().any(|known| reference.starts_with(known)));
        }
    }
    assert_eq!(open, Vec::<&str>::new());
    let turning = |c| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let bad = |c: char| (c.is_control() && c != '\n') || turning(c) || c == '\u{ffff}';
    assert!(!document.contains(bad), "{document}");
}

#[test]
fn hostile_texts_cannot_leave_their_place() {
    let hostile = [
        "",
        " \t\n ",
        "</text><script>alert(1)</script>",
        "]]>&lt;&#0;<!--",
        "\"onload='x'",
        "\u{0}\u{1b}[31m\u{7f}\u{85}",
        "\u{202e}\u{2066}\u{200f}\u{feff}\u{ffff}\u{fffe}",
        "注文を受け付けました",
    ];
    for text in hostile {
        let mut picture = numbered(2, []);
        picture.title = text.to_owned();
        picture.nodes[0].name = text.to_owned();
        picture.nodes[0].note = Some(text.to_owned());
        picture.lines.push(Line {
            from: 0,
            to: To::Node(1),
            labels: vec![label(text), label(text)],
        });
        check_well_formed(&svg(&picture).unwrap());
        check(&scene(&picture).unwrap());
    }
}

#[test]
fn texts_break_where_it_reads_well() {
    let rows = |text: &str, limit: f64| -> Vec<String> {
        let rows = symbols(&[label(text)], limit).rows;
        rows.into_iter().map(|row| row.text).collect()
    };
    assert_eq!(rows("refund", 200.0), ["refund"]);
    assert_eq!(
        rows("refund [args.order == ctx.order && args.amount > 0]", 200.0),
        ["refund [args.order == ctx.order", "&& args.amount > 0]"]
    );
    assert_eq!(
        rows("t_open_door_with_key (error)", 160.0),
        ["t_open_door_with_key", "(error)"]
    );
    assert_eq!(
        rows("t_open_door_with_key", 100.0),
        ["t_open_door_", "with_key"]
    );
    assert_eq!(
        rows("refund [args.order==ctx.order&&args.amount>0]", 200.0),
        ["refund [args.order==ctx.order", "&&args.amount>0]"]
    );
    assert_eq!(
        rows("go [args.a_long_name.of_a_thing]", 190.0),
        ["go", "[args.a_long_name.of_a_thing]"]
    );
    assert_eq!(
        rows("[f(args.one,args.two)]", 100.0),
        ["[f(args.one,", "args.two)]"]
    );
    assert_eq!(rows("aaaaaaaaaaaaaaaaaaaa", 100.0).concat().len(), 20);
}

#[test]
fn long_texts_are_cut() {
    let block = name(&"very_long_".repeat(50));
    assert_eq!(block.rows.len(), 3);
    assert!(block.cut && block.rows[2].text.ends_with('…'));
    let many: Vec<_> = (0..40).map(|number| label(&number.to_string())).collect();
    let block = symbols(&many, 100.0);
    assert_eq!(block.rows.len(), 12);
    assert_eq!(block.rows[11].text, "and 29 more");
    assert!(block.cut);
}

#[test]
fn wide_characters_count_double() {
    assert!(width("注", SYMBOL) >= 2.0 * width("0", SYMBOL) * 0.9);
    assert!(width("注", SYMBOL) >= SYMBOL.size);
    assert!(width("注文", NAME) > width("注", NAME));
    assert_eq!(clean(" a\u{202e}b\tc "), "a\u{fffd}b c");
}

#[test]
fn only_edges_that_close_a_cycle_are_reversed() {
    let ranks = rank(4, &[(0, 1), (1, 2), (2, 0), (0, 3), (3, 2)], &[0]);
    assert_eq!(ranks.reversed, [false, false, true, false, false]);
    assert_eq!(ranks.of_node, [0, 1, 2, 1]);
}

#[test]
fn a_picture_begins_with_its_initial_state() {
    let ranks = rank(3, &[(0, 1), (1, 2), (2, 0)], &[2]);
    assert_eq!(ranks.of_node, [1, 2, 0]);
    assert_eq!(ranks.reversed, [false, true, false]);
}

/// Up to twenty states, with any lines and any texts on them.
fn any_picture() -> impl Strategy<Value = Picture> {
    let texts = [
        "go",
        "lookup_order",
        "refund (error)",
        "after 30m",
        "refund [args.order == ctx.order && args.amount > 0]",
        "resource note://rules",
        "確認する",
    ];
    let labels = prop::collection::vec(prop::sample::select(texts.to_vec()), 0..4);
    let line = (0..20_usize, 0..22_usize, labels);
    let name = prop_oneof!["[a-z_]{1,12}", "[A-Za-z ]{1,60}", any::<String>()];
    let node = (name, 0..16_u8);
    let nodes = prop::collection::vec(node, 1..=20);
    let lines = prop::collection::vec(line, 0..36);
    (nodes, lines).prop_map(|(nodes, lines)| {
        let count = nodes.len();
        let node = |(place, (name, marks)): (usize, (String, u8))| Node {
            name,
            note: None,
            initial: place == 0 && marks != 0,
            end: marks & END != 0,
            here: marks & HERE != 0,
            aside: false,
        };
        let line = |(from, to, labels): (usize, usize, Vec<&str>)| Line {
            from: from % count,
            to: if to < 20 {
                To::Node(to % count)
            } else {
                To::End
            },
            labels: labels.into_iter().map(label).collect(),
        };
        Picture {
            title: String::new(),
            nodes: nodes.into_iter().enumerate().map(node).collect(),
            lines: lines.into_iter().map(line).collect(),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn nothing_overlaps_in_any_picture(picture in any_picture(), seed in 0..8_u32) {
        let first = graph(&picture, 160.0, Direction::Down);
        prop_assume!(first.is_ok());
        let places = place(&first.unwrap(), Direction::Down, Variant(seed));
        for direction in [Direction::Down, Direction::Right] {
            let graph = graph(&picture, 125.0, direction).unwrap();
            check(&arrange(graph, places.clone(), direction));
        }
    }

    #[test]
    fn the_layout_keeps_to_the_chosen_ranks(picture in any_picture(), seed in 0..8_u32) {
        let graph = graph(&picture, 160.0, Direction::Down);
        prop_assume!(graph.is_ok());
        let graph = graph.unwrap();
        let laid = laid_out(&graph, Direction::Down, Variant(seed));
        for (number, part) in graph.parts.iter().enumerate() {
            let rank = laid.node(&part_name(number)).unwrap().rank;
            prop_assert_eq!(rank, Some(i32::try_from(part.layer).unwrap()));
        }
        for (number, strand) in graph.strands.iter().enumerate() {
            let (upper, lower) = (part_name(strand.upper), part_name(strand.lower));
            let edge = laid.edge(&upper, &lower, Some(&number.to_string())).unwrap();
            let between = graph.parts[strand.lower].layer - graph.parts[strand.upper].layer - 1;
            prop_assert_eq!(edge.points.len(), between + 2);
        }
    }
}

#[test]
fn any_small_picture_is_drawn_well() {
    let config = ProptestConfig {
        cases: 4,
        ..ProptestConfig::default()
    };
    proptest!(config, |(picture in any_picture())| {
        if let Ok(document) = svg(&picture) {
            check_well_formed(&document);
            check(&scene(&picture).unwrap());
        }
    });
}
