//! Durations as people write them: `250ms`, `10s`, `5m`, `2h`, `1d`.

use std::time::Duration;

/// The longest duration a file may ask for.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Why a text is not a duration.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A number alone could be anything.
    #[error("has no unit")]
    NoUnit,
    /// It is no whole number followed by a unit.
    #[error("is not a duration")]
    Malformed,
    /// A deadline that has always passed already.
    #[error("is no time at all")]
    Zero,
    /// Nothing here waits that long.
    #[error("is longer than 365d")]
    TooLong,
}

/// Reads a duration as the file has them: a whole number followed by its unit.
///
/// ```
/// use interlock_workflow::file::{DurationFault, parse_duration};
/// use std::time::Duration;
///
/// assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
/// assert_eq!(parse_duration("30"), Err(DurationFault::NoUnit));
/// ```
pub fn parse(written: &str) -> Result<Duration, Fault> {
    let digits = written.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = written.split_at(digits);
    if number.is_empty() {
        return Err(Fault::Malformed);
    }
    let milliseconds: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "" => return Err(Fault::NoUnit),
        _ => return Err(Fault::Malformed),
    };
    // Only digits are left, so a number that does not parse is one that does not fit.
    let count: u64 = number.parse().map_err(|_| Fault::TooLong)?;
    let whole = count.checked_mul(milliseconds).ok_or(Fault::TooLong)?;
    match Duration::from_millis(whole) {
        Duration::ZERO => Err(Fault::Zero),
        long if long > LONGEST => Err(Fault::TooLong),
        fitting => Ok(fitting),
    }
}

/// The duration that somebody probably meant, as it is to be written.
pub(super) fn meant(written: &str) -> Option<String> {
    const WORDS: [(&str, &[&str]); 5] = [
        ("ms", &["millisecond", "milli", "msec"]),
        ("s", &["", "second", "sec"]),
        ("m", &["minute", "min"]),
        ("h", &["hour", "hr"]),
        ("d", &["day"]),
    ];
    let digits = written.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = written.split_at(digits);
    let unit = unit.trim().to_ascii_lowercase();
    let one = unit.strip_suffix('s').unwrap_or(&unit);
    let (unit, _) = WORDS
        .iter()
        .find(|(short, words)| *short == unit || words.contains(&one))?;
    let meant = format!("{number}{unit}");
    parse(&meant).is_ok().then_some(meant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_read() {
        let read: Vec<_> = ["250ms", "10s", "5m", "2h", "1d", "365d", "007s"]
            .iter()
            .map(|written| parse(written).map(|duration| duration.as_millis()))
            .collect();
        assert_eq!(
            read,
            [
                Ok(250),
                Ok(10_000),
                Ok(300_000),
                Ok(7_200_000),
                Ok(86_400_000),
                Ok(31_536_000_000),
                Ok(7_000)
            ]
        );
    }

    #[test]
    fn whatever_is_not_a_duration_says_why() {
        for (written, fault) in [
            ("", Fault::Malformed),
            ("s", Fault::Malformed),
            ("10 s", Fault::Malformed),
            ("1.5s", Fault::Malformed),
            ("-5s", Fault::Malformed),
            ("+5s", Fault::Malformed),
            ("5S", Fault::Malformed),
            ("5m30s", Fault::Malformed),
            ("٣s", Fault::Malformed),
            ("30", Fault::NoUnit),
            ("0s", Fault::Zero),
            ("0ms", Fault::Zero),
            ("366d", Fault::TooLong),
            ("18446744073709551615d", Fault::TooLong),
            ("99999999999999999999999s", Fault::TooLong),
        ] {
            assert_eq!(parse(written), Err(fault), "{written:?}");
        }
    }

    #[test]
    fn words_are_understood_well_enough_to_say_what_was_meant() {
        for (written, expected) in [
            ("30", Some("30s")),
            ("30 minutes", Some("30m")),
            ("1 hour", Some("1h")),
            ("2hrs", Some("2h")),
            ("10 S", Some("10s")),
            ("250 msec", Some("250ms")),
            ("3days", Some("3d")),
            ("30 m", Some("30m")),
            ("soon", None),
            ("1.5s", None),
            ("5m30s", None),
            ("0 minutes", None),
            ("400 days", None),
            ("", None),
        ] {
            assert_eq!(meant(written).as_deref(), expected, "{written:?}");
        }
    }
}
