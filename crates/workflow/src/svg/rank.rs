//! Chooses the rank of every state: how far along the picture it stands.

/// The ranks of a graph, whose edges all lead to a higher rank once the reversed ones are turned.
#[derive(Debug, PartialEq)]
pub(super) struct Ranks {
    pub(super) of_node: Vec<usize>,
    pub(super) reversed: Vec<bool>,
}

/// How often nodes are moved nearer to their neighbours.
const ROUNDS: usize = 12;

/// How many nodes without edges stand side by side.
const ROW: usize = 4;

/// Ranks a graph. Edges are walked in the given order, beginning at the `first` nodes; edges from
/// a node to itself must not occur.
pub(super) fn rank(count: usize, edges: &[(usize, usize)], first: &[usize]) -> Ranks {
    let mut leaving = vec![Vec::new(); count];
    for (edge, &(from, _)) in edges.iter().enumerate() {
        leaving[from].push(edge);
    }
    let walk = walk(edges, &leaving, first);
    let turned: Vec<(usize, usize)> = edges
        .iter()
        .zip(&walk.reversed)
        .map(|(&(from, to), &reversed)| if reversed { (to, from) } else { (from, to) })
        .collect();
    let mut of_node = longest_paths(&turned, &walk.order, count);
    shorten(&mut of_node, &turned, &walk.order);
    spread_lonely(&mut of_node, &turned);
    Ranks {
        of_node,
        reversed: walk.reversed,
    }
}

struct Walk {
    /// Every node, after all the nodes with an edge to it that is not reversed.
    order: Vec<usize>,
    reversed: Vec<bool>,
}

/// Walks the graph depth first; an edge back to a node on the way is reversed.
fn walk(edges: &[(usize, usize)], leaving: &[Vec<usize>], first: &[usize]) -> Walk {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        OnTheWay,
        Done,
    }

    let mut marks = vec![Mark::New; leaving.len()];
    let mut reversed = vec![false; edges.len()];
    let mut order = Vec::with_capacity(leaving.len());
    for start in first.iter().copied().chain(0..leaving.len()) {
        if marks[start] != Mark::New {
            continue;
        }
        marks[start] = Mark::OnTheWay;
        let mut way = vec![(start, 0)];
        while let Some((node, next)) = way.last_mut() {
            let Some(&edge) = leaving[*node].get(*next) else {
                marks[*node] = Mark::Done;
                order.push(*node);
                way.pop();
                continue;
            };
            *next += 1;
            let to = edges[edge].1;
            match marks[to] {
                Mark::New => {
                    marks[to] = Mark::OnTheWay;
                    way.push((to, 0));
                }
                Mark::OnTheWay => reversed[edge] = true,
                Mark::Done => {}
            }
        }
    }
    order.reverse();
    Walk { order, reversed }
}

fn longest_paths(edges: &[(usize, usize)], order: &[usize], count: usize) -> Vec<usize> {
    let mut leaving = vec![Vec::new(); count];
    for &(from, to) in edges {
        leaving[from].push(to);
    }
    let mut ranks = vec![0; count];
    for &node in order {
        for &to in &leaving[node] {
            ranks[to] = ranks[to].max(ranks[node] + 1);
        }
    }
    ranks
}

/// Moves nodes to where their edges are shortest together. No move makes the sum longer.
fn shorten(ranks: &mut [usize], edges: &[(usize, usize)], order: &[usize]) {
    let mut before = vec![Vec::new(); ranks.len()];
    let mut after = vec![Vec::new(); ranks.len()];
    for &(from, to) in edges {
        after[from].push(to);
        before[to].push(from);
    }
    for _ in 0..ROUNDS {
        let mut moved = false;
        for &node in order.iter().rev() {
            let lowest = before[node].iter().map(|&other| ranks[other] + 1).max();
            let highest = after[node].iter().map(|&other| ranks[other] - 1).min();
            let better = match (lowest, highest) {
                (Some(lowest), _) if before[node].len() > after[node].len() => lowest,
                (_, Some(highest)) if after[node].len() > before[node].len() => highest,
                _ => ranks[node],
            };
            moved |= better != ranks[node];
            ranks[node] = better;
        }
        if !moved {
            break;
        }
    }
    let least = ranks.iter().copied().min().unwrap_or(0);
    for rank in ranks {
        *rank -= least;
    }
}

/// Nodes without edges stand in rows, not all in one.
fn spread_lonely(ranks: &mut [usize], edges: &[(usize, usize)]) {
    let mut lonely = vec![true; ranks.len()];
    for &(from, to) in edges {
        lonely[from] = false;
        lonely[to] = false;
    }
    let nodes = (0..ranks.len()).filter(|&node| lonely[node]);
    for (place, node) in nodes.enumerate() {
        ranks[node] = place / ROW;
    }
}
