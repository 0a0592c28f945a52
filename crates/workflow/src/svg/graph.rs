//! The graph behind a picture: what stands where in rank, and how large everything is.

use super::{
    Label, Picture, Style, To, TooLarge,
    rank::rank,
    text::{self, Block},
};

/// More states or lines than this help nobody in one picture.
const MOST_STATES: usize = 300;
const MOST_LINES: usize = 500;

/// The cost of a layout grows with the square of the number of places that lines pass through.
const MOST_CELLS: usize = 2500;

const START: f64 = 12.0;
pub(super) const RING: f64 = 18.0;
const NAME_PADDING: f64 = 12.0;
const SYMBOL_PADDING: f64 = 4.0;

/// Weights in the choice of a place for what is written on a long line.
const BETWEEN: f64 = 15.0;
const BESIDE: f64 = 80.0;
const FARTHER: f64 = 40.0;

/// How far apart the lines of a state leave it.
pub(super) const PORT: f64 = 13.0;

/// How far from a state's corner its lines leave.
pub(super) const CORNER: f64 = 6.0;

/// How far a line from a state to itself reaches out.
pub(super) const LOOP: f64 = 26.0;

/// A width and a height.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Size {
    pub(super) width: f64,
    pub(super) height: f64,
}

/// Which way the ranks grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Down,
    Right,
}

/// What a picture is made of, measured but not yet placed.
#[derive(Debug)]
pub(super) struct Graph {
    pub(super) parts: Vec<Part>,
    /// One layer for each rank and one between each two, for what is written on the lines.
    pub(super) layers: usize,
    pub(super) strands: Vec<Strand>,
    /// How many layers all lines pass through together.
    pub(super) cells: usize,
}

impl Graph {
    fn count_layers(&self) -> usize {
        let layers = self.parts.iter().map(|part| part.layer + 1);
        layers.max().unwrap_or(0)
    }
}

/// A thing that lines lead from and to.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) kind: Kind,
    pub(super) size: Size,
    pub(super) layer: usize,
    /// What leads from a state to itself.
    pub(super) own: Option<Written>,
}

/// What a part is drawn as.
#[derive(Debug, PartialEq)]
pub(super) enum Kind {
    State(Block),
    /// The dot from which the initial state is entered.
    Start,
    /// An end mark.
    Ring,
    /// Holds the others together and is not drawn.
    Hidden,
}

/// A line between two parts.
#[derive(Debug)]
pub(super) struct Strand {
    pub(super) upper: usize,
    pub(super) lower: usize,
    /// It leads from the lower part to the upper.
    pub(super) reversed: bool,
    pub(super) look: Look,
    pub(super) written: Option<Written>,
    /// The layer in which that is written.
    pub(super) label_layer: usize,
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Drawn(Style),
    Hidden,
}

/// What is written on a line.
#[derive(Clone, Debug)]
pub(super) struct Written {
    pub(super) block: Block,
    pub(super) size: Size,
    pub(super) labels: Vec<Label>,
}

/// Measures and ranks a picture, with no symbol's row wider than `limit`.
pub(super) fn graph(
    picture: &Picture,
    limit: f64,
    direction: Direction,
) -> Result<Graph, TooLarge> {
    let states = picture.nodes.len();
    let too_large = TooLarge {
        states,
        lines: picture.lines.len(),
    };
    if states > MOST_STATES || too_large.lines > MOST_LINES {
        return Err(too_large);
    }
    let mut graph = Graph {
        parts: Vec::new(),
        layers: 0,
        strands: Vec::new(),
        cells: 0,
    };
    add_states(&mut graph, picture, limit, direction);
    add_lines(&mut graph, picture, limit);
    add_start(&mut graph, picture);
    graph.layers = graph.count_layers();
    graph.cells = graph.parts.len();
    for strand in &graph.strands {
        graph.cells += graph.parts[strand.lower].layer - graph.parts[strand.upper].layer;
    }
    if graph.cells > MOST_CELLS {
        return Err(too_large);
    }
    widen_for_lines(&mut graph, direction);
    choose_label_layers(&mut graph, direction);
    Ok(graph)
}

fn add_states(graph: &mut Graph, picture: &Picture, limit: f64, direction: Direction) {
    let mut own: Vec<Vec<Label>> = vec![Vec::new(); picture.nodes.len()];
    for line in &picture.lines {
        if line.to == To::Node(line.from)
            && let Some(labels) = own.get_mut(line.from)
        {
            labels.extend_from_slice(&line.labels);
        }
    }
    for (node, own) in picture.nodes.iter().zip(own) {
        let block = text::name(&node.name);
        let size = Size {
            width: block.width + 2.0 * NAME_PADDING,
            height: block.height + NAME_PADDING,
        };
        graph.parts.push(Part {
            kind: Kind::State(block),
            size,
            layer: 0,
            own: written(own, limit, direction == Direction::Down),
        });
    }
}

fn written(labels: Vec<Label>, limit: f64, listed: bool) -> Option<Written> {
    if labels.is_empty() {
        return None;
    }
    let block = text::symbols(&labels, limit);
    let block = if listed { block } else { block.centred() };
    Some(Written {
        size: Size {
            width: block.width + 2.0 * SYMBOL_PADDING,
            height: block.height + SYMBOL_PADDING,
        },
        block,
        labels,
    })
}

/// Adds the lines between two states and those to an end mark, and ranks what they connect.
fn add_lines(graph: &mut Graph, picture: &Picture, limit: f64) {
    let states = graph.parts.len();
    let mut between = Vec::new();
    let mut ending = Vec::new();
    for (place, line) in picture.lines.iter().enumerate() {
        let from = line.from;
        match line.to {
            To::Node(to) if from < states && to < states && to != from => {
                between.push((place, from, to));
            }
            To::End if from < states => ending.push((place, from)),
            To::Node(_) | To::End => {}
        }
    }
    // Cycles are broken where a failure or a timer leads back, rather than on the way to success.
    between.sort_by_key(|&(place, ..)| style(&picture.lines[place].labels) != Style::Success);
    let edges: Vec<_> = between.iter().map(|&(_, from, to)| (from, to)).collect();
    let first: Vec<_> = (0..states)
        .filter(|&state| picture.nodes[state].initial)
        .collect();
    let ranks = rank(states, &edges, &first);
    for (part, rank) in graph.parts.iter_mut().zip(&ranks.of_node) {
        part.layer = 2 * rank + 2;
    }
    let mut strands: Vec<(usize, Strand)> = Vec::new();
    for (&(place, from, to), &reversed) in between.iter().zip(&ranks.reversed) {
        let (upper, lower) = if reversed { (to, from) } else { (from, to) };
        strands.push((place, strand(picture, place, limit, upper, lower, reversed)));
    }
    for (place, from) in ending {
        let ring = graph.parts.len();
        graph.parts.push(Part {
            kind: Kind::Ring,
            size: Size {
                width: RING,
                height: RING,
            },
            layer: graph.parts[from].layer + 2,
            own: None,
        });
        strands.push((place, strand(picture, place, limit, from, ring, false)));
    }
    strands.sort_by_key(|&(place, _)| place);
    graph
        .strands
        .extend(strands.into_iter().map(|(_, strand)| strand));
}

fn strand(
    picture: &Picture,
    place: usize,
    limit: f64,
    upper: usize,
    lower: usize,
    reversed: bool,
) -> Strand {
    let labels = picture.lines[place].labels.clone();
    Strand {
        upper,
        lower,
        reversed,
        look: Look::Drawn(style(&labels)),
        written: written(labels, limit, false),
        label_layer: 0,
    }
}

/// A line looks like the best that can happen on it.
pub(super) fn style(labels: &[Label]) -> Style {
    let has = |style| labels.iter().any(|label| label.style == style);
    if labels.is_empty() || has(Style::Success) {
        Style::Success
    } else if has(Style::Failure) {
        Style::Failure
    } else {
        Style::Time
    }
}

/// Adds the dot. It stands above all else and leads to every part that nothing leads to, so that
/// a ranking of the whole has only one solution.
fn add_start(graph: &mut Graph, picture: &Picture) {
    let mut entered = vec![false; graph.parts.len()];
    for strand in &graph.strands {
        entered[strand.lower] = true;
    }
    let has_initial = picture.nodes.iter().any(|node| node.initial);
    let start = graph.parts.len();
    let (kind, extent) = if has_initial {
        (Kind::Start, START)
    } else {
        (Kind::Hidden, 0.0)
    };
    graph.parts.push(Part {
        kind,
        size: Size {
            width: extent,
            height: extent,
        },
        layer: 0,
        own: None,
    });
    let mut held = vec![start; graph.count_layers()];
    for (state, node) in picture.nodes.iter().enumerate() {
        let layer = graph.parts[state].layer;
        let (upper, look) = if node.initial {
            (start, Look::Drawn(Style::Success))
        } else if entered[state] {
            continue;
        } else {
            // What stands in rows holds row by row, not each row from the top.
            (held[layer - 2], Look::Hidden)
        };
        held[layer] = state;
        graph.strands.push(Strand {
            upper,
            lower: state,
            reversed: false,
            look,
            written: None,
            label_layer: 0,
        });
    }
}

/// A state is large enough for its lines to leave side by side.
fn widen_for_lines(graph: &mut Graph, direction: Direction) {
    let mut above = vec![0.0; graph.parts.len()];
    let mut below = above.clone();
    for strand in &graph.strands {
        if strand.look != Look::Hidden {
            below[strand.upper] += 1.0;
            above[strand.lower] += 1.0;
        }
    }
    for (part, (above, below)) in graph.parts.iter_mut().zip(above.into_iter().zip(below)) {
        if let Kind::State(_) = part.kind {
            let least = f64::max(above, below) * PORT + NAME_PADDING;
            let extent = match direction {
                Direction::Down => &mut part.size.width,
                Direction::Right => &mut part.size.height,
            };
            *extent = extent.max(least);
        }
    }
}

/// What is written on a long line stands where there is most room, near its beginning.
fn choose_label_layers(graph: &mut Graph, direction: Direction) {
    let across = |size: Size| match direction {
        Direction::Down => size.width,
        Direction::Right => size.height,
    };
    let mut taken = vec![0.0; graph.layers];
    for part in &graph.parts {
        taken[part.layer] += across(part.size) + BETWEEN;
        if let Some(own) = &part.own {
            taken[part.layer] += across(own.size) + LOOP;
        }
    }
    let layers = |strand: &Strand| {
        let (upper, lower) = (strand.upper, strand.lower);
        graph.parts[upper].layer + 1..graph.parts[lower].layer
    };
    let mut order: Vec<usize> = (0..graph.strands.len()).collect();
    order.sort_by_key(|&number| layers(&graph.strands[number]).len());
    let mut chosen = vec![0; graph.strands.len()];
    for number in order {
        let strand = &graph.strands[number];
        let mut best = (f64::MAX, 0);
        for layer in layers(strand) {
            taken[layer] += BETWEEN;
            let distance = if strand.reversed {
                graph.parts[strand.lower].layer - layer
            } else {
                layer - graph.parts[strand.upper].layer
            };
            // Beside states there are fewer labels, but it is better to leave them alone.
            let beside = if layer % 2 == 0 { BESIDE } else { 0.0 };
            let steps = f64::from(u32::try_from(distance / 2).unwrap_or(u32::MAX));
            let cost = taken[layer] + beside + steps * FARTHER;
            if cost < best.0 {
                best = (cost, layer);
            }
        }
        chosen[number] = best.1;
        if let Some(written) = &strand.written {
            taken[best.1] += across(written.size);
        }
    }
    for (strand, layer) in graph.strands.iter_mut().zip(chosen) {
        strand.label_layer = layer;
    }
}
