//! Results in the XML that build servers read. Nothing in it differs from one run to the next.

use super::Suite;
use std::fmt::Write;

/// All suites as one document.
pub(super) fn write(suites: &[Suite]) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let all = suites.iter().map(|suite| suite.cases.len()).sum();
    let failed = suites.iter().map(Suite::failures).sum();
    line(&mut out, 0, &format!("<testsuites{}>", counts(all, failed)));
    for suite in suites {
        let name = escaped(&suite.name);
        let counts = counts(suite.cases.len(), suite.failures());
        line(&mut out, 1, &format!("<testsuite name=\"{name}\"{counts}>"));
        for case in &suite.cases {
            let start = format!(
                "<testcase classname=\"{name}\" name=\"{}\"",
                escaped(&case.name)
            );
            if case.failure.is_none() && case.notes.is_empty() {
                line(&mut out, 2, &format!("{start}/>"));
                continue;
            }
            line(&mut out, 2, &format!("{start}>"));
            if let Some(failure) = &case.failure {
                let failure = format!("<failure message=\"{}\"/>", escaped(failure));
                line(&mut out, 3, &failure);
            }
            if !case.notes.is_empty() {
                let notes = escaped(&case.notes.join("\n"));
                line(&mut out, 3, &format!("<system-out>{notes}</system-out>"));
            }
            line(&mut out, 2, "</testcase>");
        }
        line(&mut out, 1, "</testsuite>");
    }
    line(&mut out, 0, "</testsuites>");
    out
}

fn counts(all: usize, failed: usize) -> String {
    format!(" tests=\"{all}\" failures=\"{failed}\" errors=\"0\"")
}

fn line(out: &mut String, depth: usize, text: &str) {
    writeln!(out, "{:1$}{text}", "", 2 * depth).expect("writing to a string cannot fail");
}

/// A text inside quotation marks. What XML cannot hold at all is replaced.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push_str("&#9;"),
            '\r' => out.push_str("&#13;"),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c if c < ' ' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::play::Case;

    #[test]
    fn every_suite_and_case_is_written_and_escaped() {
        let case = |name: &str, failure: Option<&str>| Case {
            name: name.to_owned(),
            failure: failure.map(str::to_owned),
            notes: failure.iter().map(|_| "a note".to_owned()).collect(),
        };
        let suites = [Suite {
            name: "a & b".to_owned(),
            cases: vec![
                case("good", None),
                case("<bad>", Some("expected \"x\"\n\u{1}")),
            ],
        }];
        assert_eq!(
            write(&suites),
            r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="2" failures="1" errors="0">
  <testsuite name="a &amp; b" tests="2" failures="1" errors="0">
    <testcase classname="a &amp; b" name="good"/>
    <testcase classname="a &amp; b" name="&lt;bad&gt;">
      <failure message="expected &quot;x&quot;&#10;�"/>
      <system-out>a note</system-out>
    </testcase>
  </testsuite>
</testsuites>
"#
        );
    }
}
