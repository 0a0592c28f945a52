//! Chooses the arrangement that can be read best.

use super::{
    Picture, TooLarge,
    graph::{Direction, Graph, Look, graph},
    place::{Places, Variant, place},
    route::{MARGIN, Scene, route},
    tidy::tidy,
};

/// The width at which a picture is shown at most.
const SHOWN_WIDTH: f64 = 700.0;

/// Down to this part of its size, a picture's text is easily read.
const READABLE: f64 = 0.88;

/// Beyond this size only one direction is tried.
const MANY_CELLS: usize = 150;

/// How wide a row of text on a line may be, and how much breaking it more often weighs.
const LIMITS: [(f64, f64); 4] = [(200.0, 0.0), (160.0, 30.0), (125.0, 80.0), (100.0, 160.0)];

/// How many orders are tried for small pictures.
const MOST_VARIANTS: u32 = 24;
const VARIANT_CELLS: u32 = 1600;

/// Arranges a picture.
pub(super) fn scene(picture: &Picture) -> Result<Scene, TooLarge> {
    let [(limit, _), narrower @ ..] = LIMITS;
    let first = graph(picture, limit, Direction::Down)?;
    let places = best_places(&first);
    let mut others: Vec<_> = narrower.map(|limit| (limit, Direction::Down)).to_vec();
    if first.cells <= MANY_CELLS {
        others.extend(LIMITS.map(|limit| (limit, Direction::Right)));
    }
    let mut best = arrange(first, places.clone(), Direction::Down);
    let mut least = cost(&best);
    for ((limit, effort), direction) in others {
        let graph = graph(picture, limit, direction)?;
        let scene = arrange(graph, places.clone(), direction);
        let cost = cost(&scene) + effort;
        if cost < least {
            (least, best) = (cost, scene);
        }
    }
    Ok(best)
}

/// Arranges a graph in the order in which it has been placed.
pub(super) fn arrange(graph: Graph, mut places: Places, direction: Direction) -> Scene {
    let width = match direction {
        Direction::Down => SHOWN_WIDTH / READABLE - 2.0 * MARGIN,
        Direction::Right => f64::MAX,
    };
    tidy(&graph, &mut places, direction, width);
    route(graph, &places, direction)
}

/// The places with the fewest crossings; larger pictures have fewer to choose from.
fn best_places(graph: &Graph) -> Places {
    let cells = u32::try_from(graph.cells).unwrap_or(u32::MAX).max(1);
    let count = (VARIANT_CELLS / cells).clamp(1, MOST_VARIANTS);
    let mut best = place(graph, Direction::Down, Variant(0));
    let mut least = crossings(graph, &best);
    for variant in 1..count {
        if least == 0 {
            break;
        }
        let places = place(graph, Direction::Down, Variant(variant));
        let crossings = crossings(graph, &places);
        if crossings < least {
            (least, best) = (crossings, places);
        }
    }
    best
}

/// How often lines cross.
fn crossings(graph: &Graph, places: &Places) -> usize {
    // By layer: every piece of a line from there to the next.
    let mut pieces: Vec<Vec<(f64, f64)>> = vec![Vec::new(); graph.layers];
    for (strand, inner) in graph.strands.iter().zip(&places.strands) {
        if strand.look == Look::Hidden {
            continue;
        }
        let mut at = places.parts[strand.upper];
        let stops = inner.iter().chain([&places.parts[strand.lower]]);
        for (layer, &next) in (graph.parts[strand.upper].layer..).zip(stops) {
            pieces[layer].push((at, next));
            at = next;
        }
    }
    let crossed = |pieces: &Vec<(f64, f64)>| {
        let mut count = 0;
        for (place, one) in pieces.iter().enumerate() {
            let rest = pieces[place + 1..].iter();
            count += rest
                .filter(|two| (one.0 - two.0) * (one.1 - two.1) < 0.0)
                .count();
        }
        count
    };
    pieces.iter().map(crossed).sum()
}

/// How high the picture is when shown, and much more if its text is then too small.
fn cost(scene: &Scene) -> f64 {
    let scale = (SHOWN_WIDTH / scene.size.width).min(1.0);
    let shortfall = (READABLE - scale).max(0.0);
    scene.size.height * scale + shortfall * 8000.0
}
