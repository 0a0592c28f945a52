//! Draws things together across the picture, without changing their order in any layer.
//!
//! What `dagre` returns keeps long lines straight but is wider than it need be. Straight pieces
//! of lines are kept as one block each; blocks then move towards what they are connected with,
//! and from the sides inwards until the picture is narrow enough.

use super::{
    graph::{CORNER, Direction, Graph, Kind, LOOP, Look, Part},
    place::{Places, across},
};

/// How often every block is moved.
const ROUNDS: usize = 40;
const STRAIGHTENING: usize = 8;

/// A bend is as bad as a line that is this much longer.
const BEND: f64 = 40.0;

/// How many places are tried for a block at most.
const CANDIDATES: usize = 12;
const STRAIGHT: f64 = 0.5;

/// Lines may leave a part this much further to the side than is aimed at.
const SPARE: f64 = 4.0;

const PART_TO_PART: f64 = 24.0;
const PART_TO_LINE: f64 = 15.0;
const LINE_TO_LINE: f64 = 14.0;

/// Something in a layer.
#[derive(Clone, Copy)]
struct Item {
    block: usize,
    at: f64,
    before: f64,
    after: f64,
    is_part: bool,
}

/// How far a block extends from its place.
#[derive(Clone, Copy, Default)]
struct Reach {
    before: f64,
    after: f64,
}

/// Two blocks that must stay apart.
struct Apart {
    first: usize,
    second: usize,
    by: f64,
}

/// Blocks of items that move together, and what binds and separates them.
struct Blocks {
    at: Vec<f64>,
    reach: Vec<Reach>,
    apart: Vec<Apart>,
    /// By block: the separations in which it comes second, and those in which it comes first.
    before: Vec<Vec<usize>>,
    after: Vec<Vec<usize>>,
    /// By block: what it is connected with.
    bound: Vec<Vec<Bound>>,
}

/// A connection.
#[derive(Clone, Copy)]
struct Bound {
    to: usize,
    /// How far to the side the other may be for a straight line between the two.
    play: f64,
}

/// Draws everything together, to no more than `width` where that is possible.
pub(super) fn tidy(graph: &Graph, places: &mut Places, direction: Direction, width: f64) {
    let whole = |blocks: &mut Blocks| {
        blocks.push_apart();
        for round in 0..ROUNDS {
            blocks.settle(round % 2 == 0);
        }
        blocks.squeeze(width);
    };
    let narrow = change(graph, places, direction, STRAIGHT, whole);
    if narrow > width + STRAIGHT {
        // Then lines need not stay straight.
        change(graph, places, direction, -1.0, |blocks| {
            blocks.squeeze(width)
        });
    }
    change(graph, places, direction, STRAIGHT, |blocks| {
        for round in 0..ROUNDS {
            blocks.settle(round % 2 == 0);
        }
        for round in 0..STRAIGHTENING {
            blocks.straighten(round % 2 == 0);
        }
    });
}

/// Changes the places and returns the resulting width. Pieces of a line that differ less than
/// `straight` stay together.
fn change(
    graph: &Graph,
    places: &mut Places,
    direction: Direction,
    straight: f64,
    by: impl FnOnce(&mut Blocks),
) -> f64 {
    let (mut layers, own) = items(graph, places, direction, straight);
    let mut blocks = blocks(&mut layers, &own, graph, direction);
    by(&mut blocks);
    for (place, at) in places.parts.iter_mut().enumerate() {
        *at = blocks.at[own.parts[place]];
    }
    for (strand, places) in own.strands.iter().zip(&mut places.strands) {
        for (&block, at) in strand.iter().zip(places) {
            *at = blocks.at[block];
        }
    }
    let (begin, end) = blocks.extent();
    end - begin
}

/// Which block each thing belongs to.
struct Owners {
    parts: Vec<usize>,
    strands: Vec<Vec<usize>>,
    count: usize,
}

fn items(
    graph: &Graph,
    places: &Places,
    direction: Direction,
    straight: f64,
) -> (Vec<Vec<Item>>, Owners) {
    let mut layers = vec![Vec::new(); graph.layers];
    let mut own = Owners {
        parts: Vec::new(),
        strands: Vec::new(),
        count: 0,
    };
    for (part, &at) in graph.parts.iter().zip(&places.parts) {
        let half = across(part.size, direction) / 2.0;
        layers[part.layer].push(Item {
            block: own.count,
            at,
            before: half,
            after: half + beside(part, direction),
            is_part: true,
        });
        own.parts.push(own.count);
        own.count += 1;
    }
    for (strand, places) in graph.strands.iter().zip(&places.strands) {
        let mut owners = Vec::new();
        if strand.look != Look::Hidden {
            let mut last: Option<f64> = None;
            let mut layer = graph.parts[strand.upper].layer;
            for &at in places {
                layer += 1;
                if last.is_none_or(|last| (last - at).abs() > straight) {
                    own.count += 1;
                }
                last = Some(at);
                let written = strand.written.as_ref();
                let label = written.filter(|_| strand.label_layer == layer);
                let half = label.map_or(0.0, |label| across(label.size, direction) / 2.0);
                layers[layer].push(Item {
                    block: own.count - 1,
                    at,
                    before: half,
                    after: half,
                    is_part: false,
                });
                owners.push(own.count - 1);
            }
        }
        own.strands.push(owners);
    }
    (layers, own)
}

/// What a line from a part to itself takes up beside it.
fn beside(part: &Part, direction: Direction) -> f64 {
    let own = part.own.as_ref();
    own.map_or(0.0, |own| LOOP + across(own.size, direction))
}

/// How far from a part's middle lines can leave it.
fn play(part: &Part, direction: Direction) -> f64 {
    match part.kind {
        Kind::State(_) => (across(part.size, direction) / 2.0 - CORNER - SPARE).max(0.0),
        Kind::Start | Kind::Ring | Kind::Hidden => 0.0,
    }
}

fn blocks(layers: &mut [Vec<Item>], own: &Owners, graph: &Graph, direction: Direction) -> Blocks {
    let mut blocks = Blocks {
        at: vec![0.0; own.count],
        reach: vec![Reach::default(); own.count],
        apart: Vec::new(),
        before: vec![Vec::new(); own.count],
        after: vec![Vec::new(); own.count],
        bound: vec![Vec::new(); own.count],
    };
    for layer in layers {
        layer.sort_by(|a, b| a.at.total_cmp(&b.at).then(a.block.cmp(&b.block)));
        for item in layer.iter() {
            blocks.at[item.block] = item.at;
            let reach = &mut blocks.reach[item.block];
            reach.before = reach.before.max(item.before);
            reach.after = reach.after.max(item.after);
        }
        for pair in layer.windows(2) {
            let [one, two] = pair else { continue };
            let gap = match (one.is_part, two.is_part) {
                (true, true) => PART_TO_PART,
                (true, false) | (false, true) => PART_TO_LINE,
                (false, false) => LINE_TO_LINE,
            };
            blocks.after[one.block].push(blocks.apart.len());
            blocks.before[two.block].push(blocks.apart.len());
            blocks.apart.push(Apart {
                first: one.block,
                second: two.block,
                by: one.after + gap + two.before,
            });
        }
    }
    for (strand, owners) in graph.strands.iter().zip(&own.strands) {
        if strand.look == Look::Hidden {
            continue;
        }
        let upper = (
            own.parts[strand.upper],
            play(&graph.parts[strand.upper], direction),
        );
        let lower = (
            own.parts[strand.lower],
            play(&graph.parts[strand.lower], direction),
        );
        let inner = owners.iter().map(|&block| (block, 0.0));
        let mut last = upper;
        for next in inner.chain([lower]) {
            if next.0 != last.0 {
                let play = last.1 + next.1;
                blocks.bound[last.0].push(Bound { to: next.0, play });
                blocks.bound[next.0].push(Bound { to: last.0, play });
            }
            last = next;
        }
    }
    blocks
}

impl Blocks {
    /// Moves every block towards the mean of what it is connected with, as far as there is room.
    fn settle(&mut self, forward: bool) {
        let sides = self.extent();
        for block in self.order(forward) {
            let bound = &self.bound[block];
            if bound.is_empty() {
                continue;
            }
            let sum: f64 = bound.iter().map(|bound| self.at[bound.to]).sum();
            let count = u32::try_from(bound.len()).unwrap_or(u32::MAX);
            let wish = sum / f64::from(count);
            let (low, high) = self.room(block, sides);
            if low <= high {
                self.at[block] = wish.clamp(low, high);
            }
        }
    }

    /// Moves every block to where its lines bend least.
    fn straighten(&mut self, forward: bool) {
        let sides = self.extent();
        for block in self.order(forward) {
            let (low, high) = self.room(block, sides);
            if low > high {
                continue;
            }
            let mut best = (self.bending(block, self.at[block]), self.at[block]);
            for bound in self.bound[block].iter().take(CANDIDATES) {
                let other = self.at[bound.to];
                let near = self.at[block].clamp(other - bound.play, other + bound.play);
                let near = near.clamp(low, high);
                let bending = self.bending(block, near);
                if bending < best.0 - 0.01 {
                    best = (bending, near);
                }
            }
            self.at[block] = best.1;
        }
    }

    fn bending(&self, block: usize, at: f64) -> f64 {
        let bends = self.bound[block].iter().map(|bound| {
            let beyond = (self.at[bound.to] - at).abs() - bound.play;
            if beyond < 0.05 { 0.0 } else { BEND + beyond }
        });
        bends.sum()
    }

    fn order(&self, forward: bool) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.at.len()).collect();
        order.sort_by(|&a, &b| self.at[a].total_cmp(&self.at[b]).then(a.cmp(&b)));
        if !forward {
            order.reverse();
        }
        order
    }

    /// Makes room where two blocks are too close.
    fn push_apart(&mut self) {
        for block in self.order(true) {
            for &apart in &self.after[block] {
                let Apart { second, by, .. } = self.apart[apart];
                self.at[second] = self.at[second].max(self.at[block] + by);
            }
        }
    }

    fn room(&self, block: usize, sides: (f64, f64)) -> (f64, f64) {
        let Reach { before, after } = self.reach[block];
        let low = self.before[block].iter().map(|&apart| {
            let apart = &self.apart[apart];
            self.at[apart.first] + apart.by
        });
        let high = self.after[block].iter().map(|&apart| {
            let apart = &self.apart[apart];
            self.at[apart.second] - apart.by
        });
        (
            low.fold(sides.0 + before, f64::max),
            high.fold(sides.1 - after, f64::min),
        )
    }

    /// Moves blocks inwards so that all fit into a width, or into the least there is.
    fn squeeze(&mut self, width: f64) {
        let order = self.order(true);
        // What comes first also stands first, so each block is met after those it depends on.
        let mut low: Vec<f64> = self.reach.iter().map(|reach| reach.before).collect();
        for &block in &order {
            for &apart in &self.after[block] {
                let Apart { second, by, .. } = self.apart[apart];
                low[second] = low[second].max(low[block] + by);
            }
        }
        let mut high: Vec<f64> = self.reach.iter().map(|reach| reach.after).collect();
        for &block in order.iter().rev() {
            for &apart in &self.before[block] {
                let Apart { first, by, .. } = self.apart[apart];
                high[first] = high[first].max(high[block] + by);
            }
        }
        let least = low.iter().zip(&high).map(|(low, high)| low + high);
        let width = least.fold(width, f64::max);
        let (begin, end) = self.extent();
        if end - begin <= width {
            return;
        }
        let begin = begin + (end - begin - width) / 2.0;
        for (block, at) in self.at.iter_mut().enumerate() {
            *at = at.max(begin + low[block]).min(begin + width - high[block]);
        }
    }

    fn extent(&self) -> (f64, f64) {
        let places = self.at.iter().zip(&self.reach);
        let begin = places.clone().map(|(at, reach)| at - reach.before);
        let end = places.map(|(at, reach)| at + reach.after);
        (begin.fold(f64::MAX, f64::min), end.fold(f64::MIN, f64::max))
    }
}
