//! Places everything along the ranks and leads the lines from part to part.
//!
//! Distances across the layers come from elsewhere. Within a layer every line runs straight, and
//! it changes sides only in the gap between two layers, where there is nothing else.

use super::{
    Style,
    graph::{CORNER, Direction, Graph, Kind, LOOP, Look, PORT, Part, Size, Strand, Written, style},
    place::{Places, across, along},
    track::{Move, share},
};

/// Room for an arrow's head before a part.
const HEAD: f64 = 9.0;
pub(super) const MARGIN: f64 = 16.0;

/// A place in the picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// A rectangle, by its middle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rect {
    pub(super) middle: Point,
    pub(super) size: Size,
}

impl Rect {
    pub(super) fn left(&self) -> f64 {
        self.middle.x - self.size.width / 2.0
    }

    pub(super) fn right(&self) -> f64 {
        self.middle.x + self.size.width / 2.0
    }

    pub(super) fn top(&self) -> f64 {
        self.middle.y - self.size.height / 2.0
    }

    pub(super) fn bottom(&self) -> f64 {
        self.middle.y + self.size.height / 2.0
    }
}

/// One piece of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step {
    To(Point),
    Curve(Point, Point, Point),
}

/// Everything in its place.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) size: Size,
    /// As in the graph.
    pub(super) parts: Vec<Rect>,
    pub(super) lines: Vec<Drawn>,
    pub(super) graph: Graph,
}

/// A line in its place.
#[derive(Debug)]
pub(super) struct Drawn {
    pub(super) begin: Point,
    pub(super) steps: Vec<Step>,
    /// From here to the end of the line the arrow's head points.
    pub(super) toward: Point,
    pub(super) style: Style,
    pub(super) label: Option<(Rect, Written)>,
}

/// Leads all lines and moves the whole to the picture's corner.
pub(super) fn route(graph: Graph, places: &Places, direction: Direction) -> Scene {
    let ports = ports(&graph, places, direction);
    let (gaps, turns) = gaps(&graph, places, &ports);
    let bands = bands(&graph, &gaps, direction);
    let space = Space { direction };
    let mut parts = Vec::new();
    let mut lines = Vec::new();
    for (part, &place) in graph.parts.iter().zip(&places.parts) {
        let rect = Rect {
            middle: space.point(place, bands[part.layer].middle()),
            size: part.size,
        };
        parts.push(rect);
        if let Some(own) = &part.own {
            lines.push(own_line(rect, own, direction));
        }
    }
    for (number, strand) in graph.strands.iter().enumerate() {
        if let Look::Drawn(style) = strand.look {
            let way = Way {
                parts: &graph.parts,
                strand,
                across: &places.strands[number],
                ports: ports[number],
                turns: &turns[number],
            };
            lines.push(lead(&way, style, &bands, space));
        }
    }
    let mut scene = Scene {
        size: Size {
            width: 0.0,
            height: 0.0,
        },
        parts,
        lines,
        graph,
    };
    fit(&mut scene);
    scene
}

/// Turns distances across and along into points.
#[derive(Clone, Copy)]
struct Space {
    direction: Direction,
}

impl Space {
    fn point(self, across: f64, along: f64) -> Point {
        match self.direction {
            Direction::Down => Point {
                x: across,
                y: along,
            },
            Direction::Right => Point {
                x: along,
                y: across,
            },
        }
    }
}

/// Where a strand leaves its upper and reaches its lower part, across the layers.
#[derive(Clone, Copy)]
struct Ports {
    upper: f64,
    lower: f64,
}

/// Spreads the ends of the lines over the sides of the parts, each as straight as can be.
fn ports(graph: &Graph, places: &Places, direction: Direction) -> Vec<Ports> {
    let mut ports: Vec<Ports> = graph
        .strands
        .iter()
        .map(|strand| Ports {
            upper: places.parts[strand.upper],
            lower: places.parts[strand.lower],
        })
        .collect();
    let mut below = vec![Vec::new(); graph.parts.len()];
    let mut above = below.clone();
    for (number, strand) in graph.strands.iter().enumerate() {
        if strand.look == Look::Hidden {
            continue;
        }
        let way = &places.strands[number];
        let ends = (way.first(), way.last());
        if let (Some(&first), Some(&last)) = ends {
            below[strand.upper].push((first, number));
            above[strand.lower].push((last, number));
        }
    }
    for (place, part) in graph.parts.iter().enumerate() {
        let reach = match part.kind {
            Kind::State(_) => (across(part.size, direction) / 2.0 - CORNER).max(0.0),
            Kind::Start | Kind::Ring | Kind::Hidden => 0.0,
        };
        let middle = places.parts[place];
        for (at, number) in spread(&mut below[place], middle, reach) {
            ports[number].upper = at;
        }
        for (at, number) in spread(&mut above[place], middle, reach) {
            ports[number].lower = at;
        }
    }
    ports
}

/// The places nearest to the wished ones that are far enough from each other, within reach.
fn spread(wishes: &mut [(f64, usize)], middle: f64, reach: f64) -> Vec<(f64, usize)> {
    wishes.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let count = u32::try_from(wishes.len()).unwrap_or(u32::MAX);
    let room = 2.0 * reach / f64::from(count.max(2) - 1);
    let apart = PORT.min(room);
    // Neighbours that would come too close share a group, whose mean stays.
    let mut groups: Vec<(f64, f64)> = Vec::new();
    let mut offset = 0.0;
    let mut offsets = Vec::new();
    for &(wish, _) in wishes.iter() {
        offsets.push(offset);
        let mut group = (wish.clamp(middle - reach, middle + reach) - offset, 1.0);
        while let Some(&(mean, size)) = groups.last()
            && mean >= group.0
        {
            groups.pop();
            let both = group.1 + size;
            group = ((group.0 * group.1 + mean * size) / both, both);
        }
        groups.push(group);
        offset += apart;
    }
    let last = offsets.last().copied().unwrap_or(0.0);
    let mut result = Vec::new();
    for (mean, size) in groups {
        let mut left = size;
        while left > 0.5 {
            let place = result.len();
            let (_, number) = wishes[place];
            let base = mean.max(middle - reach).min(middle + reach - last);
            result.push((base + offsets[place], number));
            left -= 1.0;
        }
    }
    result
}

/// A layer's extent along the ranks.
#[derive(Clone, Copy, Debug)]
struct Band {
    begin: f64,
    end: f64,
}

impl Band {
    fn middle(self) -> f64 {
        f64::midpoint(self.begin, self.end)
    }
}

fn bands(graph: &Graph, gaps: &[f64], direction: Direction) -> Vec<Band> {
    let mut extents: Vec<f64> = vec![0.0; graph.layers];
    for part in &graph.parts {
        let mut extent = along(part.size, direction) + 2.0 * HEAD;
        if let Some(own) = &part.own {
            extent = extent.max(along(own.size, direction));
        }
        extents[part.layer] = extents[part.layer].max(extent);
    }
    for strand in &graph.strands {
        if let Some(written) = &strand.written {
            let extent = &mut extents[strand.label_layer];
            *extent = extent.max(along(written.size, direction));
        }
    }
    let mut begin = 0.0;
    let mut bands = Vec::new();
    for (extent, gap) in extents.into_iter().zip(gaps) {
        let end = begin + extent;
        bands.push(Band { begin, end });
        begin = end + gap;
    }
    bands
}

/// The extent of the gap after each layer, and by strand how far down each gap it turns.
fn gaps(graph: &Graph, places: &Places, ports: &[Ports]) -> (Vec<f64>, Vec<Vec<f64>>) {
    let mut moves = vec![Vec::new(); graph.layers];
    let mut owners = vec![Vec::new(); graph.layers];
    for (number, strand) in graph.strands.iter().enumerate() {
        if strand.look == Look::Hidden {
            continue;
        }
        let mut from = ports[number].upper;
        let stops = places.strands[number].iter().chain([&ports[number].lower]);
        for (layer, &to) in (graph.parts[strand.upper].layer..).zip(stops) {
            moves[layer].push(Move { from, to });
            owners[layer].push(number);
            from = to;
        }
    }
    let mut extents = Vec::new();
    let mut turns = vec![Vec::new(); graph.strands.len()];
    for (moves, owners) in moves.iter().zip(owners) {
        let gap = share(moves);
        extents.push(gap.extent);
        for (number, height) in owners.into_iter().zip(gap.heights) {
            turns[number].push(height);
        }
    }
    (extents, turns)
}

/// What is known of a line before it is led.
struct Way<'a> {
    parts: &'a [Part],
    strand: &'a Strand,
    across: &'a [f64],
    ports: Ports,
    turns: &'a [f64],
}

fn lead(way: &Way<'_>, style: Style, bands: &[Band], space: Space) -> Drawn {
    let Way { parts, strand, .. } = way;
    let (upper, lower) = (&parts[strand.upper], &parts[strand.lower]);
    let half = |part: &Part| along(part.size, space.direction) / 2.0;
    let first = bands[upper.layer].middle() + half(upper);
    let last = bands[lower.layer].middle() - half(lower);

    let mut pen = Pen::at(way.ports.upper, first, space);
    pen.straight(bands[upper.layer].end);
    let stops = way.across.iter().chain([&way.ports.lower]);
    let below = &bands[upper.layer + 1..];
    for ((&across, band), &turn) in stops.zip(below).zip(way.turns) {
        pen.bend(across, band.begin, turn);
        pen.straight(band.end);
    }
    pen.straight(last);

    let label = strand.written.as_ref().map(|written| {
        let layer = strand.label_layer;
        let across = way.across[layer - upper.layer - 1];
        let rect = Rect {
            middle: space.point(across, bands[layer].middle()),
            size: written.size,
        };
        (rect, written.clone())
    });
    let (begin, steps) = pen.finish(strand.reversed);
    let toward = if strand.reversed {
        space.point(way.ports.upper, first + HEAD)
    } else {
        space.point(way.ports.lower, last - HEAD)
    };
    Drawn {
        begin,
        steps,
        toward,
        style,
        label,
    }
}

/// Draws a line along the ranks.
struct Pen {
    space: Space,
    begin: Point,
    across: f64,
    along: f64,
    steps: Vec<Step>,
}

impl Pen {
    fn at(across: f64, along: f64, space: Space) -> Self {
        Self {
            space,
            begin: space.point(across, along),
            across,
            along,
            steps: Vec::new(),
        }
    }

    fn straight(&mut self, along: f64) {
        let step = Step::To(self.space.point(self.across, along));
        match self.steps.last_mut() {
            Some(last @ Step::To(_)) => *last = step,
            Some(Step::Curve(..)) | None => self.steps.push(step),
        }
        self.along = along;
    }

    fn bend(&mut self, across: f64, along: f64, turn: f64) {
        if (across - self.across).abs() < 0.05 {
            self.straight(along);
            return;
        }
        let level = self.along + (along - self.along) * turn;
        self.steps.push(Step::Curve(
            self.space.point(self.across, level),
            self.space.point(across, level),
            self.space.point(across, along),
        ));
        self.across = across;
        self.along = along;
    }

    fn finish(self, reversed: bool) -> (Point, Vec<Step>) {
        if !reversed {
            return (self.begin, self.steps);
        }
        let mut starts = vec![self.begin];
        starts.extend(self.steps.iter().map(|step| match *step {
            Step::To(end) | Step::Curve(.., end) => end,
        }));
        let begin = starts.pop().unwrap_or(self.begin);
        let back = self.steps.iter().zip(starts).rev();
        let steps = back.map(|(step, start)| match *step {
            Step::To(_) => Step::To(start),
            Step::Curve(one, two, _) => Step::Curve(two, one, start),
        });
        (begin, steps.collect())
    }
}

/// A line from a state to itself, beside it.
fn own_line(rect: Rect, own: &Written, direction: Direction) -> Drawn {
    let Point { x, y } = rect.middle;
    let reach = LOOP * 1.1;
    let (begin, out, back, end, toward, middle) = match direction {
        Direction::Down => {
            let side = rect.right();
            let apart = (rect.size.height / 2.0 - 5.0).clamp(2.0, 8.0);
            let point = |x, y| Point { x, y };
            (
                point(side, y - apart),
                point(side + reach, y - apart - 5.0),
                point(side + reach, y + apart + 5.0),
                point(side, y + apart),
                point(side + HEAD, y + apart + 1.5),
                point(side + LOOP + own.size.width / 2.0, y),
            )
        }
        Direction::Right => {
            let side = rect.bottom();
            let apart = (rect.size.width / 2.0 - 8.0).clamp(2.0, 9.0);
            let point = |x, y| Point { x, y };
            (
                point(x - apart, side),
                point(x - apart - 5.0, side + reach),
                point(x + apart + 5.0, side + reach),
                point(x + apart, side),
                point(x + apart + 1.5, side + HEAD),
                point(x, side + LOOP + own.size.height / 2.0),
            )
        }
    };
    let label = Rect {
        middle,
        size: own.size,
    };
    Drawn {
        begin,
        steps: vec![Step::Curve(out, back, end)],
        toward,
        style: style(&own.labels),
        label: Some((label, own.clone())),
    }
}

/// Moves everything so that the picture begins at zero, with a margin around it.
fn fit(scene: &mut Scene) {
    let mut low = Point {
        x: f64::MAX,
        y: f64::MAX,
    };
    let mut high = Point {
        x: f64::MIN,
        y: f64::MIN,
    };
    let mut include = |point: Point| {
        low = Point {
            x: low.x.min(point.x),
            y: low.y.min(point.y),
        };
        high = Point {
            x: high.x.max(point.x),
            y: high.y.max(point.y),
        };
    };
    let drawn = scene.graph.parts.iter().zip(&scene.parts);
    let drawn = drawn.filter(|(part, _)| part.kind != Kind::Hidden);
    let labels = scene.lines.iter().filter_map(|line| line.label.as_ref());
    for rect in drawn
        .map(|(_, rect)| rect)
        .chain(labels.map(|(rect, _)| rect))
    {
        include(Point {
            x: rect.left(),
            y: rect.top(),
        });
        include(Point {
            x: rect.right(),
            y: rect.bottom(),
        });
    }
    for line in &scene.lines {
        include(line.begin);
        for step in &line.steps {
            match *step {
                Step::To(end) | Step::Curve(.., end) => include(end),
            }
        }
    }
    if low.x > high.x {
        low = Point { x: 0.0, y: 0.0 };
        high = low;
    }
    let by = Point {
        x: MARGIN - low.x,
        y: MARGIN - low.y,
    };
    let shift = |point: &mut Point| {
        point.x += by.x;
        point.y += by.y;
    };
    for rect in &mut scene.parts {
        shift(&mut rect.middle);
    }
    for line in &mut scene.lines {
        shift(&mut line.begin);
        shift(&mut line.toward);
        for step in &mut line.steps {
            match step {
                Step::To(end) => shift(end),
                Step::Curve(one, two, end) => {
                    shift(one);
                    shift(two);
                    shift(end);
                }
            }
        }
        if let Some((rect, _)) = &mut line.label {
            shift(&mut rect.middle);
        }
    }
    scene.size = Size {
        width: high.x - low.x + 2.0 * MARGIN,
        height: high.y - low.y + 2.0 * MARGIN,
    };
}
