//! Draws a workflow: as a picture of our own, and as text for Mermaid and for Graphviz.
//!
//! Every state and every binding is drawn, reachable or not; what is always callable stands aside in
//! a box. Names come from whoever wrote the file, so states are numbered and names appear only as
//! escaped labels.

use crate::{
    Artifact, Binding, Cause, Edge, Kind, Outcome, Pass, Position, StateId, Workflow,
    model::spelt,
    svg::{self, Label, Picture, Style, To, TooLarge},
};
use std::{
    collections::HashMap,
    fmt::{self, Write},
};

/// Draws a workflow as a Mermaid state diagram, with one state highlighted.
///
/// ```
/// use interlock_workflow::{Workflow, mermaid};
///
/// let refund = Workflow::builder("refund")
///     .state("new", |s| s.initial().tool("lookup_order", |t| t.success("found")))
///     .state("found", |s| s.tool("refund", |t| t.success("paid").timeout("new")))
///     .state("paid", |s| s.terminal())
///     .build()?;
/// assert_eq!(
///     mermaid(&refund, None),
///     "stateDiagram-v2
///     state \"new\" as s0
///     state \"found\" as s1
///     state \"paid\" as s2
///     [*] --> s0
///     s0 --> s1 : lookup_order
///     s1 --> s2 : refund
///     s1 --> s0 : refund (timeout)
///     s2 --> [*]
/// "
/// );
/// # Ok::<(), interlock_workflow::Invalid>(())
/// ```
pub fn mermaid(workflow: &Workflow, highlight: Option<StateId>) -> String {
    let mut out = String::new();
    draw_mermaid(&mut out, &Drawing::of(workflow), highlight)
        .expect("writing to a string cannot fail");
    out
}

/// Draws a workflow as a Graphviz digraph, with one state highlighted.
///
/// ```
/// use interlock_workflow::{Workflow, dot, end};
///
/// let hello = Workflow::builder("hello")
///     .state("new", |s| s.initial().tool("greet", |t| t.success(end("done"))))
///     .build()?;
/// let drawn = dot(&hello, hello.state_id("new"));
/// assert!(drawn.contains("s0 -> s1 [label=\"greet\"];"));
/// # Ok::<(), interlock_workflow::Invalid>(())
/// ```
pub fn dot(workflow: &Workflow, highlight: Option<StateId>) -> String {
    let mut out = String::new();
    draw_dot(&mut out, &Drawing::of(workflow), highlight).expect("writing to a string cannot fail");
    out
}

/// Draws a workflow as an SVG picture, with one state highlighted.
///
/// The initial state has a dot with an arrow, states in which the workflow ends a double border,
/// and an edge that ends where others go on leads to a ring. Failures are dashed and time is
/// dotted. The same workflow makes the same bytes everywhere.
///
/// # Errors
///
/// If there is more than a picture could show.
///
/// ```
/// use interlock_workflow::{Workflow, end, svg};
///
/// let hello = Workflow::builder("hello")
///     .state("new", |s| s.initial().tool("greet", |t| t.success(end("done"))))
///     .build()?;
/// let drawn = svg(&hello, hello.state_id("new"))?;
/// assert!(drawn.starts_with("<svg "));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn svg(workflow: &Workflow, highlight: Option<StateId>) -> Result<String, TooLarge> {
    let drawing = Drawing::of(workflow);
    let nodes = workflow.states().map(|id| svg::Node {
        name: workflow.state_name(id).to_owned(),
        note: workflow.state(id).description().map(str::to_owned),
        initial: id == workflow.initial().state,
        end: drawing.is_end[id.index()],
        here: highlight == Some(id),
        aside: false,
    });
    let always = drawing.always.clone().map(|name| svg::Node {
        name,
        note: None,
        initial: false,
        end: false,
        here: false,
        aside: true,
    });
    let nodes = nodes.chain(always).collect();
    let lines = drawing.lines.into_iter().map(|line| svg::Line {
        from: line.from.index(),
        to: match line.to {
            Tip::State(to) => To::Node(to.index()),
            Tip::End => To::End,
        },
        labels: line.labels,
    });
    svg::svg(&Picture {
        title: workflow.name().to_owned(),
        nodes,
        lines: lines.collect(),
    })
}

fn draw_mermaid(
    out: &mut String,
    drawing: &Drawing<'_>,
    highlight: Option<StateId>,
) -> fmt::Result {
    let workflow = drawing.workflow;
    writeln!(out, "stateDiagram-v2")?;
    for state in workflow.states() {
        let name = ForMermaid(workflow.state_name(state));
        writeln!(out, "    state \"{name}\" as s{}", state.0)?;
    }
    if let Some(always) = &drawing.always {
        writeln!(out, "    state \"{}\" as always", ForMermaid(always))?;
        writeln!(out, "    classDef aside stroke-dasharray:5 4")?;
        writeln!(out, "    class always aside")?;
    }
    writeln!(out, "    [*] --> s{}", workflow.initial().state.0)?;
    for line in &drawing.lines {
        write!(out, "    s{} --> ", line.from.0)?;
        match line.to {
            Tip::State(to) => write!(out, "s{}", to.0)?,
            Tip::End => write!(out, "[*]")?,
        }
        writeln!(out, " : {}", ForMermaid(&line.label()))?;
    }
    for state in drawing.ends() {
        writeln!(out, "    s{} --> [*]", state.0)?;
    }
    if let Some(state) = highlight {
        writeln!(out, "    classDef here stroke-width:4px,font-weight:bold")?;
        writeln!(out, "    class s{} here", state.0)?;
    }
    Ok(())
}

fn draw_dot(out: &mut String, drawing: &Drawing<'_>, highlight: Option<StateId>) -> fmt::Result {
    let workflow = drawing.workflow;
    writeln!(out, "digraph \"{}\" {{", ForDot(workflow.name()))?;
    writeln!(out, "    rankdir=LR;")?;
    writeln!(out, "    node [shape=box, style=rounded];")?;
    writeln!(out, "    start [shape=point];")?;
    for state in workflow.states() {
        let name = ForDot(workflow.state_name(state));
        write!(out, "    s{} [label=\"{name}\"", state.0)?;
        if drawing.is_end[state.index()] {
            write!(out, ", peripheries=2")?;
        }
        if highlight == Some(state) {
            write!(out, ", style=\"rounded,bold,filled\"")?;
        }
        writeln!(out, "];")?;
    }
    if let Some(always) = &drawing.always {
        let always = ForDot(always);
        writeln!(
            out,
            "    always [label=\"{always}\", style=\"rounded,dashed\"];"
        )?;
    }
    writeln!(out, "    start -> s{};", workflow.initial().state.0)?;
    if drawing.lines.iter().any(|line| line.to == Tip::End) {
        writeln!(out, "    end [shape=doublecircle, label=\"\", width=0.15];")?;
    }
    for line in &drawing.lines {
        write!(out, "    s{} -> ", line.from.0)?;
        match line.to {
            Tip::State(to) => write!(out, "s{}", to.0)?,
            Tip::End => write!(out, "end")?,
        }
        writeln!(out, " [label=\"{}\"];", ForDot(&line.label()))?;
    }
    writeln!(out, "}}")
}

/// What both notations show.
struct Drawing<'a> {
    workflow: &'a Workflow,
    /// By state: it can only be ended in, so it is drawn as an end and its edges as plain ones.
    is_end: Vec<bool>,
    lines: Vec<Line>,
    /// What is callable in every state, if anything is.
    always: Option<String>,
}

/// One line between two states, for all that leads from one to the other.
struct Line {
    from: StateId,
    to: Tip,
    labels: Vec<Label>,
}

impl Line {
    fn label(&self) -> String {
        let texts: Vec<_> = self.labels.iter().map(|label| &*label.text).collect();
        texts.join(", ")
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Tip {
    State(StateId),
    /// The end mark itself, where the state can also be entered without ending.
    End,
}

impl<'a> Drawing<'a> {
    fn of(workflow: &'a Workflow) -> Self {
        let mut drawing = Self {
            workflow,
            is_end: ends(workflow),
            lines: Vec::new(),
            always: always(workflow),
        };
        for state in workflow.states() {
            let mut places = HashMap::new();
            for (_, edge) in workflow.edges_from(state) {
                drawing.add(&mut places, edge);
            }
            for binding in workflow.bindings(state) {
                if binding.holds() {
                    let label = label(binding.artifact(), Outcome::Unknown) + ": hold";
                    drawing.put(&mut places, state, Tip::State(state), label, Style::Failure);
                } else if is_silent(workflow, binding) {
                    let label = label(binding.artifact(), Outcome::Success);
                    drawing.put(&mut places, state, Tip::State(state), label, Style::Success);
                }
            }
        }
        drawing
    }

    fn add(&mut self, places: &mut HashMap<Tip, usize>, edge: &Edge) {
        let to = if edge.terminal && !self.is_end[edge.to.index()] {
            Tip::End
        } else {
            Tip::State(edge.to)
        };
        let (mut text, style) = match &edge.cause {
            Cause::Call { artifact, outcome } => (label(artifact, *outcome), style(*outcome)),
            Cause::Time { after } => (format!("after {}", spelt(*after)), Style::Time),
            Cause::Sampling {
                outcome: Outcome::Success,
            } => ("sampling".to_owned(), Style::Success),
            Cause::Sampling { outcome } => (format!("sampling ({outcome})"), style(*outcome)),
        };
        text += &self.conditions(edge);
        if to == Tip::End && edge.to != edge.from {
            // Cut, for any number of labels can name the same state.
            text += &format!(" (in {})", cut(self.workflow.state_name(edge.to)));
        }
        self.put(places, edge.from, to, text, style);
    }

    /// What must be true, and who must agree, before the edge is taken.
    fn conditions(&self, edge: &Edge) -> String {
        let binding = match &edge.cause {
            Cause::Call {
                artifact,
                outcome: Outcome::Success,
            } => self.binding(edge.from, artifact),
            Cause::Call { .. } | Cause::Time { .. } | Cause::Sampling { .. } => None,
        };
        let guards = [binding.and_then(Binding::when), edge.when.as_ref()];
        let mut told = String::new();
        for guard in guards.into_iter().flatten() {
            told += &format!(" [{}]", cut(&guard.to_string()));
        }
        if binding.is_some_and(|binding| binding.approval().is_some()) {
            told += " (approval)";
        }
        told
    }

    fn binding(&self, state: StateId, Artifact { kind, name }: &Artifact) -> Option<&'a Binding> {
        let at = Position::from(state);
        match self.workflow.admit(at, *kind, name) {
            Ok(Pass::Bound(binding)) => Some(binding),
            Ok(Pass::Always) | Err(_) => None,
        }
    }

    fn put(
        &mut self,
        places: &mut HashMap<Tip, usize>,
        from: StateId,
        to: Tip,
        text: String,
        style: Style,
    ) {
        let place = *places.entry(to).or_insert(self.lines.len());
        let label = Label { text, style };
        match self.lines.get_mut(place) {
            Some(line) => line.labels.push(label),
            None => self.lines.push(Line {
                from,
                to,
                labels: vec![label],
            }),
        }
    }

    fn ends(&self) -> impl Iterator<Item = StateId> {
        let states = self.workflow.states();
        states.filter(|state| self.is_end[state.index()])
    }
}

/// Whether a binding leads nowhere and could be overlooked, though it can be called.
fn is_silent(workflow: &Workflow, binding: &Binding) -> bool {
    let mut outcomes = Outcome::ALL.into_iter();
    outcomes.all(|outcome| workflow.alternatives(binding, outcome).next().is_none())
}

/// What is callable in every state.
fn always(workflow: &Workflow) -> Option<String> {
    const MOST: usize = 12;
    let all = Kind::ALL.into_iter().flat_map(|kind| {
        let names = workflow.visible_always(kind);
        names.map(move |name| label(&Artifact::new(kind, name), Outcome::Success))
    });
    let mut names: Vec<_> = all.collect();
    if names.len() > MOST {
        let more = format!("and {} more", names.len() - MOST);
        names.truncate(MOST);
        names.push(more);
    }
    if workflow.always_everything() && workflow.states().len() > 1 {
        names.push("everything else".to_owned());
    }
    (!names.is_empty()).then(|| format!("always: {}", names.join(", ")))
}

/// What a call is called.
fn label(Artifact { kind, name }: &Artifact, outcome: Outcome) -> String {
    let name = cut(name);
    let mut text = match kind {
        Kind::Tool => name,
        Kind::Resource | Kind::Prompt => format!("{kind} {name}"),
    };
    if outcome != Outcome::Success {
        text += &format!(" ({outcome})");
    }
    text
}

fn style(outcome: Outcome) -> Style {
    match outcome {
        Outcome::Success => Style::Success,
        Outcome::Error | Outcome::Timeout | Outcome::Cancelled | Outcome::Unknown => Style::Failure,
    }
}

/// The beginning of a text that any number of labels can repeat.
fn cut(text: &str) -> String {
    const LONGEST: usize = 80;
    let mut short: String = text.chars().take(LONGEST).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// By state: whether it is marked as terminal or every edge that leads there is.
fn ends(workflow: &Workflow) -> Vec<bool> {
    let mut ended = vec![false; workflow.states().len()];
    let mut entered = ended.clone();
    entered[workflow.initial().state.index()] = true;
    for state in workflow.states() {
        ended[state.index()] |= workflow.state(state).is_terminal();
    }
    for (_, edge) in workflow.edges() {
        if edge.terminal {
            ended[edge.to.index()] = true;
        } else {
            entered[edge.to.index()] = true;
        }
    }
    let both = ended.iter().zip(entered);
    both.map(|(&ended, entered)| ended && !entered).collect()
}

/// A label in Mermaid. What could end it (a semicolon, a quotation mark, `%%`) is shown by its
/// full-width twin: state diagrams have character codes, but show some of them undecoded.
struct ForMermaid<'a>(&'a str);

impl fmt::Display for ForMermaid<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const TWINS: u32 = 0xFEE0;

        if self.0.is_empty() {
            // An empty label is a syntax error.
            return f.write_str("(empty)");
        }
        for c in self.0.chars() {
            let shown = if c.is_alphanumeric() || " _-./:,()=+*@!?'".contains(c) {
                c
            } else if c.is_ascii_graphic() {
                char::from_u32(u32::from(c) + TWINS).unwrap_or(char::REPLACEMENT_CHARACTER)
            } else {
                char::REPLACEMENT_CHARACTER
            };
            f.write_char(shown)?;
        }
        Ok(())
    }
}

/// A label in Graphviz, inside quotation marks. A backslash would begin an escape such as `\N`.
struct ForDot<'a>(&'a str);

impl fmt::Display for ForDot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                // An HTML entity would be decoded.
                '&' => f.write_str("&amp;")?,
                c if c.is_control() => f.write_char(' ')?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::end;

    /// A door that ends the workflow where it also leads on, as in the reference's crossroads.
    fn door() -> Workflow {
        Workflow::builder("door")
            .state("hall", |s| {
                s.initial()
                    .tool("left", |t| t.success("door"))
                    .tool("right", |t| t.success("door").error("door"))
                    .prompt("hint", |p| p)
            })
            .state("door", |s| {
                s.tool("open", |t| t.success(end("door")).error("hall"))
                    .resource("note://key", |r| r.success("door"))
                    .tool("jump", |t| t.success(end("garden")))
            })
            .state("attic", |s| {
                s.tool("fall", |t| {
                    t.success(end("door")).cancelled(end("garden")).hold()
                })
            })
            .always_tool("look")
            .always_resource("note://map")
            .build()
            .unwrap()
    }

    #[test]
    fn mermaid_groups_symbols_and_draws_everything() {
        let door = door();
        assert_eq!(
            mermaid(&door, door.state_id("door")),
            "stateDiagram-v2
    state \"hall\" as s0
    state \"door\" as s1
    state \"attic\" as s2
    state \"garden\" as s3
    state \"always: look, resource note://map\" as always
    classDef aside stroke-dasharray:5 4
    class always aside
    [*] --> s0
    s0 --> s1 : left, right, right (error)
    s0 --> s0 : prompt hint
    s1 --> [*] : open
    s1 --> s0 : open (error)
    s1 --> s1 : resource note://key
    s1 --> s3 : jump
    s2 --> [*] : fall (in door)
    s2 --> s3 : fall (cancelled)
    s2 --> s2 : fall (unknown): hold
    s3 --> [*]
    classDef here stroke-width:4px,font-weight:bold
    class s1 here
"
        );
    }

    #[test]
    fn dot_draws_the_same() {
        let door = door();
        assert_eq!(
            dot(&door, door.state_id("hall")),
            "digraph \"door\" {
    rankdir=LR;
    node [shape=box, style=rounded];
    start [shape=point];
    s0 [label=\"hall\", style=\"rounded,bold,filled\"];
    s1 [label=\"door\"];
    s2 [label=\"attic\"];
    s3 [label=\"garden\", peripheries=2];
    always [label=\"always: look, resource note://map\", style=\"rounded,dashed\"];
    start -> s0;
    end [shape=doublecircle, label=\"\", width=0.15];
    s0 -> s1 [label=\"left, right, right (error)\"];
    s0 -> s0 [label=\"prompt hint\"];
    s1 -> end [label=\"open\"];
    s1 -> s0 [label=\"open (error)\"];
    s1 -> s1 [label=\"resource note://key\"];
    s1 -> s3 [label=\"jump\"];
    s2 -> end [label=\"fall (in door)\"];
    s2 -> s3 [label=\"fall (cancelled)\"];
    s2 -> s2 [label=\"fall (unknown): hold\"];
}
"
        );
    }

    #[test]
    fn hostile_names_cannot_leave_their_label() {
        let hostile = [
            "",
            "a\nb --> c",
            "\"] ; s0 -> s1 [x=\"",
            "x : y; z",
            "%% gone",
            "\\",
            "\\N",
            "#quot;",
            "<script>&lt;",
            "\u{202e}\u{0}\u{2028}",
        ];
        for name in hostile {
            let flow = Workflow::builder(name)
                .state(name, |s| s.initial().tool(name, |t| t.success(end(name))))
                .build()
                .unwrap();
            let drawn = mermaid(&flow, None);
            let lines: Vec<_> = drawn.lines().collect();
            assert_eq!(lines.len(), 4, "{drawn}");
            let label = ForMermaid(name).to_string();
            assert_eq!(lines[1], format!("    state \"{label}\" as s0"));
            assert_eq!(lines[3], format!("    s0 --> [*] : {label}"));
            assert!(
                !label.contains(['"', ';', '%', '#', '<', '>', '&', '\\', '\u{202e}']),
                "{label}"
            );
            assert!(!label.contains(char::is_control), "{label}");
            assert!(!label.is_empty());

            let drawn = dot(&flow, None);
            assert_eq!(drawn.lines().count(), 9, "{drawn}");
            let label = ForDot(name).to_string();
            let unescaped = label.replace("\\\\", "").replace("\\\"", "");
            assert!(!unescaped.contains(['"', '\\', '\n']), "{label}");
        }
    }
}
