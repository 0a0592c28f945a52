//! The headers `Accept` and `Content-Type`.

use crate::transport::http::headers::{HeaderValues, KnownHeaders};
use http::header::ACCEPT;

/// Which types of answer a client accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accepts {
    /// `application/json`.
    pub(crate) json: bool,
    /// `text/event-stream`.
    pub(crate) events: bool,
}

/// What a client sends that does as the specification asks. Only other values have to be parsed.
const BOTH: &[u8] = b"application/json, text/event-stream";
const JSON: &[u8] = b"application/json";

impl Accepts {
    /// Reads every `Accept` line. A request without any accepts everything.
    pub(crate) fn read(headers: &KnownHeaders<'_>) -> Self {
        if headers.accept.is_exactly(BOTH) {
            return Self {
                json: true,
                events: true,
            };
        }
        let (mut json, mut events) = (Preference::default(), Preference::default());
        let mut anything = true;
        for line in headers.all.get_all(ACCEPT) {
            // A line that cannot be read names something, if nothing of ours.
            let Ok(line) = line.to_str() else {
                anything = false;
                continue;
            };
            for range in MediaRange::all(line) {
                anything = false;
                json.consider(&range, "application", "json");
                events.consider(&range, "text", "event-stream");
            }
        }
        Self {
            json: json.or(anything),
            events: events.or(anything),
        }
    }
}

/// Whether the most exact range so far accepts a type.
#[derive(Default)]
struct Preference {
    exactness: u8,
    wanted: bool,
}

impl Preference {
    fn consider(&mut self, range: &MediaRange<'_>, kind: &str, subtype: &str) {
        let exactness = range.exactness(kind, subtype);
        if exactness > self.exactness {
            (self.exactness, self.wanted) = (exactness, range.wanted);
        } else if exactness > 0 && exactness == self.exactness {
            self.wanted |= range.wanted;
        }
    }

    const fn or(&self, otherwise: bool) -> bool {
        if self.exactness == 0 {
            otherwise
        } else {
            self.wanted
        }
    }
}

/// One member of `Accept`.
struct MediaRange<'a> {
    media: &'a str,
    wanted: bool,
}

impl<'a> MediaRange<'a> {
    fn all(line: &'a str) -> impl Iterator<Item = Self> {
        split(line, ',')
            .filter(|member| !member.trim().is_empty())
            .map(Self::read)
    }

    fn read(member: &'a str) -> Self {
        let mut parts = split(member, ';');
        let media = parts.next().unwrap_or_default().trim();
        let unwanted = parts
            .filter_map(parameter)
            .any(|(name, value)| name.eq_ignore_ascii_case("q") && is_zero(value));
        Self {
            media,
            wanted: !unwanted,
        }
    }

    /// How closely it describes a type: not at all, as anything, by its kind, or by its name.
    fn exactness(&self, kind: &str, subtype: &str) -> u8 {
        // Some old clients write one star for anything.
        let parts = match self.media {
            "*" => Some(("*", "*")),
            media => media.split_once('/'),
        };
        let is = |own: &str, other: &str| own.trim().eq_ignore_ascii_case(other);
        match parts {
            Some((own, any)) if is(own, "*") && is(any, "*") => 1,
            Some((own, any)) if is(own, kind) && is(any, "*") => 2,
            Some((own, other)) if is(own, kind) && is(other, subtype) => 3,
            Some(_) | None => 0,
        }
    }
}

/// Only a clear zero means no: a weight that cannot be read is not one.
fn is_zero(weight: &str) -> bool {
    weight.contains('0') && weight.chars().all(|c| c == '0' || c == '.')
}

/// Whether the body is declared to be JSON. JSON is UTF-8, so another charset is refused.
pub(crate) fn is_json(headers: &KnownHeaders<'_>) -> bool {
    if headers.content_type.is_exactly(JSON) {
        return true;
    }
    let HeaderValues::One(value) = headers.content_type else {
        return false;
    };
    let Ok(value) = value.to_str() else {
        return false;
    };
    let mut parts = split(value, ';');
    let media = parts.next().unwrap_or_default().trim();
    let utf8 = |charset: &str| {
        charset.eq_ignore_ascii_case("utf-8") || charset.eq_ignore_ascii_case("utf8")
    };
    media.eq_ignore_ascii_case("application/json")
        && parts
            .filter_map(parameter)
            .all(|(name, value)| !name.eq_ignore_ascii_case("charset") || utf8(value))
}

/// The name of a parameter, and its value without quotes.
fn parameter(part: &str) -> Option<(&str, &str)> {
    let (name, value) = part.split_once('=')?;
    let value = value.trim();
    let quoted = value
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    Some((name.trim(), quoted.unwrap_or(value)))
}

/// Splits where the separator is not part of a quoted text.
fn split(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let (mut quoted, mut escaped) = (false, false);
    text.split(move |c| {
        let after_backslash = std::mem::take(&mut escaped);
        match c {
            '\\' if quoted && !after_backslash => escaped = true,
            '"' if !after_backslash => quoted = !quoted,
            _ => {}
        }
        c == separator && !quoted
    })
}

#[cfg(test)]
mod tests {
    use super::{super::tests::headers, *};

    fn accepts(lines: &[&str]) -> (bool, bool) {
        let pairs: Vec<_> = lines.iter().map(|line| ("accept", *line)).collect();
        let accepts = Accepts::read(&KnownHeaders::read(&headers(&pairs)));
        (accepts.json, accepts.events)
    }

    #[track_caller]
    fn json(content_type: &str, expected: bool) {
        let found = is_json(&KnownHeaders::read(&headers(&[(
            "content-type",
            content_type,
        )])));
        assert_eq!(found, expected, "{content_type}");
    }

    #[test]
    fn a_client_that_says_nothing_takes_everything() {
        assert_eq!(accepts(&[]), (true, true));
        assert_eq!(accepts(&[""]), (true, true));
        assert_eq!(accepts(&[" , ,"]), (true, true));
    }

    #[test]
    fn what_is_named_is_taken_and_nothing_else() {
        assert_eq!(accepts(&["application/json"]), (true, false));
        assert_eq!(accepts(&["text/event-stream"]), (false, true));
        assert_eq!(
            accepts(&["application/json, text/event-stream"]),
            (true, true)
        );
        assert_eq!(accepts(&["text/html, image/png"]), (false, false));
        assert_eq!(accepts(&["application/jsonx,text/event"]), (false, false));
        assert_eq!(accepts(&["application", "json"]), (false, false));
    }

    #[test]
    fn stars_stand_for_anything() {
        assert_eq!(accepts(&["*/*"]), (true, true));
        assert_eq!(accepts(&["*"]), (true, true));
        assert_eq!(accepts(&["application/*"]), (true, false));
        assert_eq!(accepts(&["text/*"]), (false, true));
        assert_eq!(accepts(&["*/json"]), (false, false));
    }

    #[test]
    fn a_usual_line_does_not_hide_an_unusual_one() {
        let usual = "application/json, text/event-stream";
        assert_eq!(accepts(&[usual, "text/html"]), (true, true));
        assert_eq!(accepts(&["text/html", usual]), (true, true));
        assert_eq!(accepts(&["Application/JSON;q=0", "*/*"]), (false, true));
        assert_eq!(accepts(&[usual, "é"]), (true, true));
    }

    #[test]
    fn several_lines_count_as_one() {
        assert_eq!(
            accepts(&["application/json", "text/event-stream"]),
            (true, true)
        );
        assert_eq!(accepts(&["*/*", "text/*;q=0"]), (true, false));
    }

    #[test]
    fn case_and_blanks_do_not_matter() {
        assert_eq!(
            accepts(&["  Application/JSON ;q=0.5 ,\tTEXT/Event-Stream"]),
            (true, true)
        );
        assert_eq!(accepts(&["application/json ; Q = 0"]), (false, false));
    }

    #[test]
    fn a_weight_of_zero_means_no_and_any_other_yes() {
        for zero in ["0", "0.", "0.0", "0.000", ".0"] {
            let line = format!("application/json;q={zero}, text/event-stream");
            assert_eq!(accepts(&[&line]), (false, true), "{line}");
        }
        for more in ["0.001", "1", "1.000", ".2", "x", "", "."] {
            let line = format!("application/json;q={more}");
            assert_eq!(accepts(&[&line]), (true, false), "{line}");
        }
    }

    #[test]
    fn the_most_exact_range_decides_wherever_it_stands() {
        assert_eq!(accepts(&["application/json;q=0, */*"]), (false, true));
        assert_eq!(accepts(&["*/*, application/json;q=0"]), (false, true));
        assert_eq!(accepts(&["*/*;q=0, application/json"]), (true, false));
        assert_eq!(accepts(&["text/*;q=0, text/event-stream"]), (false, true));
        assert_eq!(accepts(&["*/*;q=0, text/*"]), (false, true));
        assert_eq!(
            accepts(&["application/json;q=0, application/json"]),
            (true, false)
        );
    }

    #[test]
    fn parameters_other_than_the_weight_do_not_matter() {
        assert_eq!(
            accepts(&["application/json; charset=utf-8; q=0.9"]),
            (true, false)
        );
        assert_eq!(accepts(&["application/json;quality=0"]), (true, false));
    }

    #[test]
    fn what_is_quoted_separates_nothing() {
        let line = r#"text/html;a="b, application/json;q=1, \", */*", text/event-stream"#;
        assert_eq!(accepts(&[line]), (false, true));
        assert_eq!(accepts(&[r#"application/json;a=";q=0""#]), (true, false));
        assert_eq!(
            accepts(&[r#"text/html;a="\\", application/json"#]),
            (true, false)
        );
    }

    #[test]
    fn a_quote_that_never_ends_swallows_the_rest() {
        assert_eq!(
            accepts(&[r#"text/html;a=", application/json"#]),
            (false, false)
        );
    }

    #[test]
    fn a_line_that_cannot_be_read_is_not_everything() {
        assert_eq!(accepts(&["é"]), (false, false));
        assert_eq!(accepts(&["é", "application/json"]), (true, false));
    }

    #[test]
    fn json_is_json_with_or_without_parameters() {
        json("application/json", true);
        json(" Application/JSON ", true);
        json("application/json; charset=utf-8", true);
        json("application/json;charset=\"UTF-8\"", true);
        json("application/json; charset=utf8", true);
        json("application/json; profile=\"a;charset=latin1\"", true);
        json("application/json;", true);
    }

    #[test]
    fn what_is_not_json_or_not_utf_8_is_not_json() {
        json("", false);
        json("text/json", false);
        json("application/jsonp", false);
        json("application/vnd.api+json", false);
        json("text/plain; a=application/json", false);
        json("application/json, text/plain", false);
        json("application/json; charset=utf-16", false);
        json("application/json; charset=utf-8; charset=latin1", false);
        json("application/json; charset=", false);
        json("application/json; a=é", false);
    }

    #[test]
    fn a_body_without_a_type_or_with_two_is_not_json() {
        assert!(!is_json(&KnownHeaders::read(&http::HeaderMap::new())));
        let twice = [("content-type", "application/json"); 2];
        assert!(!is_json(&KnownHeaders::read(&headers(&twice))));
    }
}
