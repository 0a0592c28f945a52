//! Places parts and lines across the picture, by the crate `dagre`.

use super::graph::{Direction, Graph, LOOP, Look, Size};
use dagre::{
    EdgeLabel, LayoutOptions, NodeLabel, Ranker, graph::GraphOptions, layout,
    layout::types::LabelPos,
};

/// A graph as `dagre` has it.
pub(super) type Laid = dagre::graph::Graph<NodeLabel, EdgeLabel>;

const BETWEEN_PARTS: f64 = 28.0;
const BETWEEN_LINES: f64 = 16.0;

/// Where everything stands across the layers.
#[derive(Clone, Debug)]
pub(super) struct Places {
    /// The middle of each part.
    pub(super) parts: Vec<f64>,
    /// By strand: where it passes each layer between its two parts.
    pub(super) strands: Vec<Vec<f64>>,
}

/// The extent across the layers.
pub(super) fn across(size: Size, direction: Direction) -> f64 {
    match direction {
        Direction::Down => size.width,
        Direction::Right => size.height,
    }
}

/// The extent along the ranks.
pub(super) fn along(size: Size, direction: Direction) -> f64 {
    match direction {
        Direction::Down => size.height,
        Direction::Right => size.width,
    }
}

/// Places a graph, in whatever sizes it has in one direction.
pub(super) fn place(graph: &Graph, direction: Direction, variant: Variant) -> Places {
    read(&laid_out(graph, direction, variant), graph)
}

/// Has `dagre` lay out a graph. All ranks are fixed by the least lengths of the lines, so what
/// remains to be done is to order the layers and to choose a place in each.
pub(super) fn laid_out(graph: &Graph, direction: Direction, variant: Variant) -> Laid {
    let mut laid = Laid::with_options(GraphOptions {
        directed: true,
        multigraph: true,
        compound: false,
    });
    // The dot comes first, for the tree of lines of fixed length grows from the first node.
    let dot = graph.parts.len() - 1;
    add_part(&mut laid, graph, dot, direction);
    for number in variant.order(dot) {
        add_part(&mut laid, graph, number, direction);
    }
    for number in variant.order(graph.strands.len()) {
        add_strand(&mut laid, graph, number, direction);
    }
    let options = LayoutOptions {
        nodesep: BETWEEN_PARTS,
        edgesep: BETWEEN_LINES,
        // Unlike the default, it certainly comes to an end.
        ranker: Ranker::TightTree,
        ..LayoutOptions::default()
    };
    layout(&mut laid, Some(options));
    laid
}

/// The order in which things are told to `dagre`, which decides between equals by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Variant(pub(super) u32);

impl Variant {
    /// As they are, the other way round, and then in ever other disorder.
    fn order(self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        if self.0 == 1 {
            order.reverse();
        } else if self.0 > 1 {
            order.sort_by_key(|&place| mix(self.0, place));
        }
        order
    }
}

/// A number that looks random and is always the same.
fn mix(seed: u32, place: usize) -> u64 {
    let place = u64::try_from(place).unwrap_or(u64::MAX);
    let mut value = place.wrapping_add(u64::from(seed) << 32);
    for _ in 0..3 {
        value = value.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        value ^= value >> 29;
    }
    value
}

/// What a part is called there.
pub(super) fn part_name(number: usize) -> String {
    format!("p{number}")
}

fn add_part(laid: &mut Laid, graph: &Graph, number: usize, direction: Direction) {
    let part = &graph.parts[number];
    let name = part_name(number);
    let label = NodeLabel {
        width: across(part.size, direction),
        height: along(part.size, direction),
        ..NodeLabel::default()
    };
    laid.set_node(name.clone(), Some(label));
    if let Some(own) = &part.own {
        let label = EdgeLabel {
            width: across(own.size, direction) + LOOP,
            height: along(own.size, direction),
            labelpos: LabelPos::Center,
            ..EdgeLabel::default()
        };
        laid.set_edge(name.clone(), name, Some(label), Some("own"));
    }
}

fn add_strand(laid: &mut Laid, graph: &Graph, number: usize, direction: Direction) {
    let strand = &graph.strands[number];
    let layers = graph.parts[strand.lower].layer - graph.parts[strand.upper].layer;
    let size = strand.written.as_ref().map(|written| written.size);
    let label = EdgeLabel {
        // It doubles the lengths, to have a layer for labels between each two ranks.
        minlen: i32::try_from(layers / 2).unwrap_or(1),
        weight: match strand.look {
            Look::Drawn(_) => 1,
            Look::Hidden => 0,
        },
        width: size.map_or(0.0, |size| across(size, direction)),
        // Without a height it leaves the layer of the label alone.
        label_rank: Some(f64::from(u32::try_from(strand.label_layer).unwrap_or(0))),
        labelpos: LabelPos::Center,
        ..EdgeLabel::default()
    };
    laid.set_edge(
        part_name(strand.upper),
        part_name(strand.lower),
        Some(label),
        Some(&number.to_string()),
    );
}

fn read(laid: &Laid, graph: &Graph) -> Places {
    let parts = (0..graph.parts.len()).map(|number| {
        let node = laid.node(&part_name(number));
        node.and_then(|node| node.x).unwrap_or(0.0)
    });
    let parts: Vec<f64> = parts.collect();
    let strands = graph.strands.iter().enumerate().map(|(number, strand)| {
        let name = number.to_string();
        let (upper, lower) = (part_name(strand.upper), part_name(strand.lower));
        let edge = laid.edge(&upper, &lower, Some(&name));
        let points = edge.map(|edge| edge.points.as_slice()).unwrap_or_default();
        let layers = graph.parts[strand.upper].layer + 1..graph.parts[strand.lower].layer;
        // The first and the last point lie on the borders of the parts.
        let inner = points.get(1..).unwrap_or_default();
        let straight = parts[strand.upper];
        layers
            .enumerate()
            .map(|(place, _)| inner.get(place).map_or(straight, |point| point.x))
            .collect()
    });
    let strands = strands.collect();
    Places { parts, strands }
}
