//! Writes a picture whose parts are all in their place.

use super::{
    Node, Picture, Style,
    graph::{Kind, RING},
    route::{Drawn, Point, Rect, Scene, Step},
    text::{self, Block, Escaped, NAME, SYMBOL},
};
use std::fmt::{self, Write};

const STYLE: &str = "\
.back{fill:#fff;stroke:#d0d7de}\
text{fill:#1f2328;font-family:Helvetica,Arial,'Liberation Sans',sans-serif}\
.name{font-weight:bold;text-anchor:middle}\
.state rect{fill:#f3f5f8;stroke:#57606a;stroke-width:1.3}\
.here rect{fill:#ddf4ff;stroke:#0969da;stroke-width:3}\
.state .inner{fill:none;stroke-width:1.3}\
.aside rect{fill:none;stroke-dasharray:5 4}\
.line{fill:none;stroke:#57606a;stroke-width:1.4}\
.head,.dot{fill:#57606a}\
.ring{fill:none;stroke:#57606a;stroke-width:1.4}\
.under{fill:#fff}\
.failure .line{stroke:#cf222e;stroke-dasharray:6 4}\
.failure .head,text.failure{fill:#cf222e}\
.time .line{stroke:#8250df;stroke-width:1.8;stroke-dasharray:0.1 4;stroke-linecap:round}\
.time .head,text.time{fill:#8250df}\
@media (prefers-color-scheme:dark){\
.back{fill:#0d1117;stroke:#30363d}\
.under{fill:#0d1117}\
text{fill:#e6edf3}\
.state rect{fill:#1c232c;stroke:#9198a1}\
.here rect{fill:#12304f;stroke:#58a6ff}\
.state .inner,.aside rect{fill:none}\
.line,.ring{stroke:#9198a1}\
.head,.dot{fill:#9198a1}\
.failure .line{stroke:#ff7b72}\
.failure .head,text.failure{fill:#ff7b72}\
.time .line{stroke:#d2a8ff}\
.time .head,text.time{fill:#d2a8ff}\
}";

const HEAD_WIDTH: f64 = 3.6;

/// The whole document.
pub(super) fn document(picture: &Picture, scene: &Scene) -> String {
    let mut out = String::new();
    write_document(&mut out, picture, scene).expect("writing to a string cannot fail");
    out
}

fn write_document(out: &mut String, picture: &Picture, scene: &Scene) -> fmt::Result {
    let (width, height) = (scene.size.width.ceil(), scene.size.height.ceil());
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\">"
    )?;
    writeln!(
        out,
        "<title>{}</title>",
        Escaped(&text::clean(&picture.title))
    )?;
    writeln!(out, "<desc>{}</desc>", Escaped(&description(picture)))?;
    let (symbol, name) = (SYMBOL.size, NAME.size);
    let sizes = format!("text{{font-size:{symbol}px}}.name{{font-size:{name}px}}");
    writeln!(out, "<style>{sizes}{STYLE}</style>")?;
    writeln!(
        out,
        "<rect class=\"back\" x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"8\"/>",
        width - 1.0,
        height - 1.0
    )?;
    for line in &scene.lines {
        write_line(out, line)?;
    }
    let mut nodes = picture.nodes.iter();
    for (part, rect) in scene.graph.parts.iter().zip(&scene.parts) {
        match &part.kind {
            Kind::State(block) => {
                if let Some(node) = nodes.next() {
                    write_state(out, node, block, rect)?;
                }
            }
            Kind::Start => {
                let Point { x, y } = rect.middle;
                let radius = Number(rect.size.width / 2.0);
                let (x, y) = (Number(x), Number(y));
                writeln!(
                    out,
                    "<circle class=\"dot\" cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"/>"
                )?;
            }
            Kind::Ring => write_ring(out, rect)?,
            Kind::Hidden => {}
        }
    }
    // Last, for a line that crosses another must not run over what is written on it.
    for line in &scene.lines {
        write_label(out, line)?;
    }
    writeln!(out, "</svg>")
}

fn description(picture: &Picture) -> String {
    let (nodes, lines) = (picture.nodes.iter(), picture.lines.len());
    let states = nodes.filter(|node| !node.aside).count();
    let mut text = format!("States: {states}. Lines: {lines}.");
    let names = |chosen: &dyn Fn(&Node) -> bool| {
        let nodes = picture.nodes.iter().filter(|node| chosen(node));
        let names: Vec<_> = nodes.map(|node| text::clean(&node.name)).collect();
        names.join(", ")
    };
    let parts = [
        ("Begins in", names(&|node| node.initial)),
        ("Ends in", names(&|node| node.end)),
        ("Now in", names(&|node| node.here)),
    ];
    for (intro, names) in parts {
        if !names.is_empty() {
            text += &format!(" {intro} {names}.");
        }
    }
    text
}

fn write_state(out: &mut String, node: &Node, block: &Block, rect: &Rect) -> fmt::Result {
    let here = if node.here { " here" } else { "" };
    let aside = if node.aside { " aside" } else { "" };
    write!(out, "<g class=\"state{here}{aside}\">")?;
    let mut tip = String::new();
    if block.cut || node.note.is_some() {
        tip += &text::clean(&node.name);
    }
    if let Some(note) = &node.note {
        tip += ": ";
        tip += &text::clean(note);
    }
    if !tip.is_empty() {
        write!(out, "<title>{}</title>", Escaped(&tip))?;
    }
    write_rect(out, "", rect, 0.0, 7.0)?;
    if node.end {
        write_rect(out, " class=\"inner\"", rect, 3.5, 4.5)?;
    }
    let top = rect.middle.y - block.height / 2.0;
    for row in &block.rows {
        let x = Number(rect.middle.x);
        let y = Number(top + row.middle + NAME.baseline());
        let text = Escaped(&row.text);
        write!(
            out,
            "<text class=\"name\" x=\"{x}\" y=\"{y}\">{text}</text>"
        )?;
    }
    writeln!(out, "</g>")
}

fn write_rect(out: &mut String, class: &str, rect: &Rect, inset: f64, round: f64) -> fmt::Result {
    write!(
        out,
        "<rect{class} x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"{round}\"/>",
        Number(rect.left() + inset),
        Number(rect.top() + inset),
        Number(rect.size.width - 2.0 * inset),
        Number(rect.size.height - 2.0 * inset),
    )
}

fn write_ring(out: &mut String, rect: &Rect) -> fmt::Result {
    let (x, y) = (Number(rect.middle.x), Number(rect.middle.y));
    let outer = Number(RING / 2.0 - 0.7);
    writeln!(
        out,
        "<circle class=\"ring\" cx=\"{x}\" cy=\"{y}\" r=\"{outer}\"/>\
         <circle class=\"dot\" cx=\"{x}\" cy=\"{y}\" r=\"4.5\"/>"
    )
}

fn group(style: Style) -> &'static str {
    match style {
        Style::Success => "<g>",
        Style::Failure => "<g class=\"failure\">",
        Style::Time => "<g class=\"time\">",
    }
}

fn write_line(out: &mut String, line: &Drawn) -> fmt::Result {
    write!(out, "{}", group(line.style))?;
    let (x, y) = (Number(line.begin.x), Number(line.begin.y));
    write!(out, "<path class=\"line\" d=\"M{x} {y}")?;
    let mut end = line.begin;
    for step in &line.steps {
        match *step {
            Step::To(point) => {
                write!(out, "L{} {}", Number(point.x), Number(point.y))?;
                end = point;
            }
            Step::Curve(one, two, point) => {
                write!(
                    out,
                    "C{} {} {} {} {} {}",
                    Number(one.x),
                    Number(one.y),
                    Number(two.x),
                    Number(two.y),
                    Number(point.x),
                    Number(point.y),
                )?;
                end = point;
            }
        }
    }
    write!(out, "\"/>")?;
    write_head(out, line.toward, end)?;
    writeln!(out, "</g>")
}

/// The head points from `base` to `tip`; along an axis or nearly so.
fn write_head(out: &mut String, base: Point, tip: Point) -> fmt::Result {
    let (along_x, along_y) = (tip.x - base.x, tip.y - base.y);
    let length = along_x.abs().max(along_y.abs()).max(1.0);
    let side = Point {
        x: -along_y / length * HEAD_WIDTH,
        y: along_x / length * HEAD_WIDTH,
    };
    writeln!(
        out,
        "<path class=\"head\" d=\"M{} {}L{} {}L{} {}Z\"/>",
        Number(tip.x),
        Number(tip.y),
        Number(base.x + side.x),
        Number(base.y + side.y),
        Number(base.x - side.x),
        Number(base.y - side.y),
    )
}

fn write_label(out: &mut String, line: &Drawn) -> fmt::Result {
    let Some((rect, written)) = &line.label else {
        return Ok(());
    };
    let block = &written.block;
    write!(out, "<g>")?;
    if block.cut {
        let texts: Vec<_> = written
            .labels
            .iter()
            .map(|label| text::clean(&label.text))
            .collect();
        write!(out, "<title>{}</title>", Escaped(&texts.join(", ")))?;
    }
    write_rect(out, " class=\"under\"", rect, 0.0, 3.0)?;
    let left = rect.middle.x - block.width / 2.0;
    let top = rect.middle.y - block.height / 2.0;
    for row in &block.rows {
        let class = match row.style {
            Style::Success => "",
            Style::Failure => " class=\"failure\"",
            Style::Time => " class=\"time\"",
        };
        let x = Number(left + row.left);
        let y = Number(top + row.middle + SYMBOL.baseline());
        let text = Escaped(&row.text);
        write!(out, "<text{class} x=\"{x}\" y=\"{y}\">{text}</text>")?;
    }
    writeln!(out, "</g>")
}

/// A number with at most one decimal.
struct Number(f64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = (self.0 * 10.0).round() / 10.0;
        // No minus sign before a zero.
        write!(f, "{}", tenths + 0.0)
    }
}
