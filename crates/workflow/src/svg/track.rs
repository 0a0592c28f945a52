//! Shares out the gap between two layers among the lines that change sides in it.
//!
//! Lines that go sideways over the same ground do so at different heights, so that none lies on
//! another. Those that go the same way turn in an order in which they need not cross.

const LEAST_GAP: f64 = 7.0;
const MOST_GAP: f64 = 130.0;
const TRACK: f64 = 9.0;

/// Lines that come closer than this to each other's ground keep out of each other's way.
const NEAR: f64 = 6.0;

/// Where a line leaves one layer and reaches the next, across the layers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Move {
    pub(super) from: f64,
    pub(super) to: f64,
}

impl Move {
    fn low(self) -> f64 {
        self.from.min(self.to) - NEAR
    }

    fn high(self) -> f64 {
        self.from.max(self.to) + NEAR
    }

    fn is_straight(self) -> bool {
        (self.from - self.to).abs() < 0.05
    }
}

/// How a gap is shared out.
#[derive(Debug)]
pub(super) struct Gap {
    pub(super) extent: f64,
    /// By move: how far down the gap it goes sideways, from nought to one.
    pub(super) heights: Vec<f64>,
}

/// Shares out a gap.
pub(super) fn share(moves: &[Move]) -> Gap {
    let mut order: Vec<usize> = (0..moves.len()).collect();
    order.retain(|&place| !moves[place].is_straight());
    // To the right, the rightmost turns first; to the left, the leftmost.
    order.sort_by(|&a, &b| {
        let (one, two) = (moves[a], moves[b]);
        let (right, left) = (one.to > one.from, two.to > two.from);
        let within = if right {
            two.from
                .total_cmp(&one.from)
                .then(two.to.total_cmp(&one.to))
        } else {
            one.from
                .total_cmp(&two.from)
                .then(one.to.total_cmp(&two.to))
        };
        left.cmp(&right).then(within).then(a.cmp(&b))
    });
    let tracks = tracks(moves, &order);
    let mut heights = vec![0.5; moves.len()];
    let mut extent = LEAST_GAP;
    for cluster in clusters(moves, &order) {
        let used = cluster.iter().map(|&place| tracks[place] + 1).max();
        let used = number(used.unwrap_or(0)) + 1.0;
        extent = extent.max(used * TRACK);
        for place in cluster {
            heights[place] = (number(tracks[place]) + 1.0) / used;
            let shift = (moves[place].to - moves[place].from).abs();
            extent = extent.max((2.0 * LEAST_GAP + shift * 0.14).min(60.0));
        }
    }
    Gap {
        extent: extent.min(MOST_GAP),
        heights,
    }
}

/// By move: the first track after those of all moves before it on the same ground.
fn tracks(moves: &[Move], order: &[usize]) -> Vec<usize> {
    let mut tracks = vec![0; moves.len()];
    for (done, &place) in order.iter().enumerate() {
        let one = moves[place];
        let earlier = order[..done].iter().filter(|&&other| {
            let two = moves[other];
            one.low() < two.high() && two.low() < one.high()
        });
        tracks[place] = earlier.map(|&other| tracks[other] + 1).max().unwrap_or(0);
    }
    tracks
}

/// The moves in groups that have no ground in common.
fn clusters(moves: &[Move], order: &[usize]) -> Vec<Vec<usize>> {
    let mut sorted = order.to_vec();
    sorted.sort_by(|&a, &b| moves[a].low().total_cmp(&moves[b].low()).then(a.cmp(&b)));
    let mut clusters: Vec<Vec<usize>> = Vec::new();
    let mut end = f64::MIN;
    for place in sorted {
        match clusters.last_mut() {
            Some(cluster) if moves[place].low() < end => cluster.push(place),
            Some(_) | None => clusters.push(vec![place]),
        }
        end = end.max(moves[place].high());
    }
    clusters
}

fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
