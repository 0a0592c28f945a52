//! Draws states and the lines between them as an SVG picture.
//!
//! The order of the states and their place across the picture come from the crate `dagre`. What
//! it is given is made harmless first: cycles are already broken, ranks already chosen and the
//! size limited, so that its cost is bounded. Lines bend only in the gaps between two layers, where
//! there is nothing they could run through.

mod graph;
mod lay;
mod place;
mod rank;
mod route;
mod text;
mod tidy;
mod track;
mod write;

#[cfg(test)]
mod tests;

/// What is drawn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Picture {
    /// What the picture shows, for readers who cannot see it.
    pub title: String,
    pub nodes: Vec<Node>,
    pub lines: Vec<Line>,
}

/// One state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    pub name: String,
    /// Shown when the pointer rests on the state.
    pub note: Option<String>,
    pub initial: bool,
    pub end: bool,
    /// Highlighted.
    pub here: bool,
    /// No state, but what is callable in all of them.
    pub aside: bool,
}

/// One arrow, for all the symbols that lead from one state to the same place.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// The place of the state it leaves in `Picture::nodes`.
    pub from: usize,
    pub to: To,
    pub labels: Vec<Label>,
}

/// Where a line leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    /// The place of the state in `Picture::nodes`.
    Node(usize),
    /// An end mark of its own.
    End,
}

/// One symbol on a line.
#[derive(Clone, Debug)]
pub(crate) struct Label {
    pub text: String,
    pub style: Style,
}

/// How a symbol and its line look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Success,
    Failure,
    Time,
}

/// There is more than a picture could show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{states} states and {lines} lines between them are more than a picture could show")]
pub struct TooLarge {
    /// How many states there are.
    pub states: usize,
    /// How many lines would be drawn.
    pub lines: usize,
}

/// Draws a picture. Lines from or to a state that does not exist are left out.
pub(crate) fn svg(picture: &Picture) -> Result<String, TooLarge> {
    let scene = lay::scene(picture)?;
    Ok(write::document(picture, &scene))
}
