//! What was measured, as Markdown.

use crate::rows::{Measured, Ratio};
use crate::statistics::Spread;

/// A table of Markdown: a head, and rows as long as it.
pub(crate) fn markdown(head: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: &[&str]| format!("| {} |\n", cells.join(" | "));
    let mut text = line(head);
    let rule: Vec<&str> = (0..head.len())
        .map(|column| if column == 0 { "---" } else { "---:" })
        .collect();
    text.push_str(&line(&rule));
    for row in rows {
        let cells: Vec<&str> = row.iter().map(String::as_str).collect();
        text.push_str(&line(&cells));
    }
    text
}

/// The figures of one row, and its ratios with what is demanded of them.
pub(crate) fn of_row(measured: &Measured) -> String {
    let mut head = vec![
        "server",
        "calls/s",
        "p50 µs",
        "p99 µs",
        "CPU µs per call",
        "RSS MB",
    ];
    let mut samples = measured.samples.iter().flatten();
    let says_more = samples.any(|sample| sample.notifications > 0.0);
    if says_more {
        head.push("notifications per call");
    }
    let way = measured.row.setup.way;
    let rows: Vec<Vec<String>> = measured
        .row
        .contestants
        .iter()
        .zip(&measured.samples)
        .map(|(contestant, samples)| {
            let figure = |of: fn(&crate::measure::Sample) -> f64| {
                Spread::of(samples.iter().map(of)).map_or_else(String::new, spread)
            };
            let mut row = vec![
                contestant.name(way),
                figure(|sample| sample.per_second),
                figure(|sample| sample.p50),
                figure(|sample| sample.p99),
                figure(|sample| sample.processor),
                figure(|sample| sample.memory.resident as f64 / 1e6),
            ];
            if says_more {
                row.push(figure(|sample| sample.notifications));
            }
            row
        })
        .collect();
    let verdicts: Vec<Verdict> = measured
        .row
        .ratios
        .iter()
        .filter_map(|ratio| Verdict::on(measured, ratio))
        .collect();
    format!(
        "### `{}`: {}\n\n{}\n{}",
        measured.row.name,
        measured.row.title,
        markdown(&head, &rows),
        of_verdicts(&verdicts)
    )
}

/// One thing that is demanded, and whether it holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) row: String,
    pub(crate) what: String,
    pub(crate) found: Spread,
    pub(crate) at_most: Option<f64>,
}

impl Verdict {
    fn on(measured: &Measured, ratio: &Ratio) -> Option<Self> {
        let way = measured.row.setup.way;
        Some(Self {
            row: measured.row.name.to_owned(),
            what: format!(
                "{} of {} / {}",
                ratio.figure.name(),
                ratio.of.name(way),
                ratio.against.name(way)
            ),
            found: measured.ratio(ratio)?,
            at_most: ratio.at_most,
        })
    }

    pub(crate) fn holds(&self) -> Option<bool> {
        self.at_most.map(|at_most| self.found.median <= at_most)
    }
}

/// Everything that is demanded of a row.
pub(crate) fn verdicts_of(measured: &Measured) -> Vec<Verdict> {
    let ratios = measured.row.ratios.iter();
    ratios
        .filter_map(|ratio| Verdict::on(measured, ratio))
        .collect()
}

/// Verdicts as a table.
pub(crate) fn of_verdicts(verdicts: &[Verdict]) -> String {
    let rows: Vec<Vec<String>> = verdicts
        .iter()
        .map(|verdict| {
            vec![
                format!("`{}`: {}", verdict.row, verdict.what),
                spread(verdict.found),
                verdict.at_most.map_or_else(String::new, number),
                match verdict.holds() {
                    Some(true) => "holds".to_owned(),
                    Some(false) => "**MISSED**".to_owned(),
                    None => String::new(),
                },
            ]
        })
        .collect();
    markdown(&["what", "found", "at most", ""], &rows)
}

/// The middle figure and, where rounds differ, how far they lie apart.
pub(crate) fn spread(spread: Spread) -> String {
    let (least, most) = (number(spread.least), number(spread.most));
    if least == most {
        return number(spread.median);
    }
    format!("{} ({least}–{most})", number(spread.median))
}

/// Three digits that count, and thousands apart.
pub(crate) fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    grouped(&format!("{value:.digits$}"))
}

/// A whole number, its thousands apart.
pub(crate) fn whole(value: f64) -> String {
    grouped(&format!("{value:.0}"))
}

fn grouped(text: &str) -> String {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let (sign, whole) = match whole.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", whole),
    };
    let mut grouped = String::new();
    for (at, digit) in whole.char_indices() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{grouped}{point}{fraction}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(median: f64) -> Spread {
        Spread {
            median,
            least: median - 0.5,
            most: median + 0.5,
        }
    }

    #[test]
    fn numbers_show_three_digits_that_count() {
        for (value, shown) in [
            (0.1234, "0.123"),
            (1.2345, "1.23"),
            (12.345, "12.3"),
            (123.4, "123"),
            (1_234.5, "1,234"),
            (123_456.7, "123,457"),
            (-1_234.0, "-1,234"),
            (0.0, "0.000"),
        ] {
            assert_eq!(number(value), shown);
        }
        assert_eq!(
            (whole(1.0), whole(10_000.0)),
            ("1".to_owned(), "10,000".to_owned())
        );
    }

    #[test]
    fn a_table_has_a_head_a_rule_and_rows() {
        let table = markdown(&["a", "b"], &[vec!["1".to_owned(), "2".to_owned()]]);
        assert_eq!(table, "| a | b |\n| --- | ---: |\n| 1 | 2 |\n");
    }

    #[test]
    fn what_is_demanded_holds_or_is_missed() {
        let verdict = |median, at_most| Verdict {
            row: "stdio".to_owned(),
            what: "CPU".to_owned(),
            found: found(median),
            at_most,
        };
        let text = of_verdicts(&[
            verdict(1.5, Some(1.5)),
            verdict(1.6, Some(1.5)),
            verdict(9.0, None),
        ]);
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            lines[0],
            "| `stdio`: CPU | 1.50 (1.00–2.00) | 1.50 | holds |"
        );
        assert!(lines[1].ends_with("| **MISSED** |"), "{}", lines[1]);
        assert!(lines[2].ends_with("|  |  |"), "{}", lines[2]);
    }

    #[test]
    fn rounds_that_agree_are_shown_as_one() {
        let same = Spread {
            median: 2.0,
            least: 2.0,
            most: 2.0,
        };
        assert_eq!(spread(same), "2.00");
    }
}
