//! Small line charts as SVG, in colours that can be seen on white and on black.

use std::fmt::Write;

use crate::table;

/// One chart.
pub(crate) struct Plot {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) lines: Vec<Line>,
}

/// What an axis shows, and how.
pub(crate) struct Axis {
    pub(crate) label: String,
    pub(crate) scale: Scale,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scale {
    /// From zero, or what lies below it.
    Linear,
    /// Each decade is as wide as the next.
    Decades,
}

/// One server's figures.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 52.0;
const BOTTOM: f64 = 48.0;
/// Of middling brightness: each stands out from white and from black.
const INK: &str = "#808890";
const COLOURS: [&str; 4] = ["#2f86d8", "#d9772b", "#2f9e5b", "#a063c9"];

impl Plot {
    /// The chart as a file of SVG. Points that a scale cannot show are left out.
    pub(crate) fn svg(&self) -> String {
        let x = Range::of(self.x.scale, self.values(|point| point.0));
        let y = Range::of(self.y.scale, self.values(|point| point.1));
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"12\" fill=\"{INK}\">\n"
        );
        text(&mut svg, LEFT, 18.0, "start", 14, &self.title);
        self.draw_frame(&mut svg, &x, &y);
        for (number, line) in self.lines.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            line.draw(&mut svg, &x, &y, colour);
            let at = LEFT + 150.0 * number as f64;
            element(
                &mut svg,
                &format!(
                    "<rect x=\"{at:.1}\" y=\"30\" width=\"12\" height=\"4\" fill=\"{colour}\"/>"
                ),
            );
            text(&mut svg, at + 18.0, 36.0, "start", 12, &line.name);
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn values(&self, of: fn(&(f64, f64)) -> f64) -> impl Iterator<Item = f64> {
        let points = self.lines.iter().flat_map(|line| &line.points);
        points.map(of)
    }

    fn draw_frame(&self, svg: &mut String, x: &Range, y: &Range) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for (value, place) in x.ticks() {
            let at = LEFT + place * (right - LEFT);
            rule(svg, (at, TOP), (at, bottom));
            text(svg, at, bottom + 16.0, "middle", 12, &short(value));
        }
        for (value, place) in y.ticks() {
            let at = bottom - place * (bottom - TOP);
            rule(svg, (LEFT, at), (right, at));
            text(svg, LEFT - 6.0, at + 4.0, "end", 12, &short(value));
        }
        let middle = (LEFT + right) / 2.0;
        text(svg, middle, HEIGHT - 10.0, "middle", 12, &self.x.label);
        let label = escaped(&self.y.label);
        let middle = (TOP + bottom) / 2.0;
        element(
            svg,
            &format!(
                "<text transform=\"translate(16 {middle:.1}) rotate(-90)\" \
                 text-anchor=\"middle\">{label}</text>"
            ),
        );
    }
}

impl Line {
    fn draw(&self, svg: &mut String, x: &Range, y: &Range, colour: &str) {
        let places: Vec<(f64, f64)> = self
            .points
            .iter()
            .filter_map(|point| Some((x.place(point.0)?, y.place(point.1)?)))
            .map(|(x, y)| {
                let bottom = HEIGHT - BOTTOM;
                (
                    LEFT + x * (WIDTH - RIGHT - LEFT),
                    bottom - y * (bottom - TOP),
                )
            })
            .collect();
        let path: Vec<String> = places
            .iter()
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let path = path.join(" ");
        element(
            svg,
            &format!(
                "<polyline points=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>"
            ),
        );
        // So many points would hide the line.
        if places.len() <= 12 {
            for (x, y) in places {
                element(
                    svg,
                    &format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{colour}\"/>"),
                );
            }
        }
    }
}

/// From where to where an axis goes.
struct Range {
    scale: Scale,
    from: f64,
    to: f64,
}

impl Range {
    fn of(scale: Scale, values: impl Iterator<Item = f64>) -> Self {
        let shown = |value: &f64| value.is_finite() && (scale == Scale::Linear || *value > 0.0);
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(shown) {
            (least, most) = (least.min(value), most.max(value));
        }
        if least > most {
            (least, most) = (1.0, 10.0);
        }
        match scale {
            Scale::Linear => {
                let most = if most > 0.0 { most } else { 1.0 };
                Self {
                    scale,
                    from: least.min(0.0),
                    to: most * 1.1,
                }
            }
            Scale::Decades => {
                let (from, to) = (least.log10().floor(), most.log10().ceil());
                Self {
                    scale,
                    from,
                    to: if to > from { to } else { from + 1.0 },
                }
            }
        }
    }

    /// Where a value lies, from 0 to 1.
    fn place(&self, value: f64) -> Option<f64> {
        let value = match self.scale {
            Scale::Linear => value,
            Scale::Decades => value.log10(),
        };
        value
            .is_finite()
            .then(|| (value - self.from) / (self.to - self.from))
    }

    fn ticks(&self) -> Vec<(f64, f64)> {
        let values: Vec<f64> = match self.scale {
            Scale::Linear => {
                let step = round_step((self.to - self.from) / 5.0);
                let first = (self.from / step).ceil() as i64;
                let last = (self.to / step).floor() as i64;
                (first..=last).map(|number| number as f64 * step).collect()
            }
            Scale::Decades => (self.from as i32..=self.to as i32)
                .map(|decade| 10_f64.powi(decade))
                .collect(),
        };
        let placed = |value| Some((value, self.place(value)?));
        values.into_iter().filter_map(placed).collect()
    }
}

/// The next larger of 1, 2, 5, 10, 20, …
fn round_step(step: f64) -> f64 {
    let decade = 10_f64.powf(step.log10().floor());
    let times = [1.0, 2.0, 5.0, 10.0].into_iter();
    let fitting = times
        .map(|times| times * decade)
        .find(|round| *round >= step);
    fitting.unwrap_or(step)
}

fn short(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        value if value >= 1e6 => format!("{}M", value / 1e6),
        value if value >= 1.0 && value.fract() == 0.0 => table::whole(value),
        value => format!("{value:.3}").trim_end_matches('0').to_owned(),
    }
}

fn rule(svg: &mut String, from: (f64, f64), to: (f64, f64)) {
    element(
        svg,
        &format!(
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{INK}\" stroke-opacity=\"0.35\"/>",
            from.0, from.1, to.0, to.1
        ),
    );
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, size: u32, words: &str) {
    let words = escaped(words);
    element(
        svg,
        &format!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\">{words}</text>"
        ),
    );
}

fn element(svg: &mut String, element: &str) {
    writeln!(svg, "{element}").expect("writing into memory does not fail");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(label: &str, scale: Scale) -> Axis {
        Axis {
            label: label.to_owned(),
            scale,
        }
    }

    fn plot(points: Vec<(f64, f64)>) -> Plot {
        Plot {
            title: "cost & <size>".to_owned(),
            x: axis("calls", Scale::Decades),
            y: axis("µs", Scale::Linear),
            lines: vec![Line {
                name: "interlock".to_owned(),
                points,
            }],
        }
    }

    #[test]
    fn a_chart_has_its_labels_its_line_and_a_dot_for_each_point() {
        let svg = plot(vec![(1.0, 5.0), (10.0, 7.0), (100.0, 6.0)]).svg();
        for part in ["cost &amp; &lt;size&gt;", ">calls<", ">µs<", ">interlock<"] {
            assert!(svg.contains(part), "{part} is missing in {svg}");
        }
        assert_eq!(svg.matches("<circle").count(), 3);
        assert_eq!(svg.matches("<polyline").count(), 1);
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn what_a_scale_cannot_show_is_left_out() {
        let svg = plot(vec![(0.0, 5.0), (10.0, f64::NAN), (100.0, 6.0)]).svg();
        assert_eq!(svg.matches("<circle").count(), 1);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(!plot(Vec::new()).svg().contains("NaN"));
    }

    #[test]
    fn places_go_from_nothing_to_one() {
        let decades = Range::of(Scale::Decades, [1.0, 1_000.0].into_iter());
        assert_eq!(decades.place(1.0), Some(0.0));
        assert_eq!(decades.place(1_000.0), Some(1.0));
        assert_eq!(decades.place(0.0), None);
        let names: Vec<String> = decades.ticks().iter().map(|tick| short(tick.0)).collect();
        assert_eq!(names, ["1", "10", "100", "1,000"]);
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(round_step(0.7), 1.0);
        assert_eq!(round_step(13.0), 20.0);
        let linear = Range::of(Scale::Linear, [3.0, 47.0].into_iter());
        let ticks: Vec<f64> = linear.ticks().iter().map(|tick| tick.0).collect();
        assert_eq!(ticks, [0.0, 20.0, 40.0]);
        assert_eq!(short(0.25), "0.25");
        assert_eq!(short(1e6), "1M");
    }
}
