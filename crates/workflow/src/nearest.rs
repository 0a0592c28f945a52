//! "Did you mean …": finds the known name that resembles an unknown one.

/// How alike two names must be, from 0 to 1, before one is offered for the other.
const ALIKE: f64 = 0.8;

/// Longer names are not compared; nobody mistypes them, and comparing takes time in the square.
const LONGEST: usize = 64;

/// How many comparisons one judgement may make: a file with ten thousand mistakes is not helped
/// by as many guesses, and would take ten thousand times as long.
const BUDGET: usize = 50_000;

/// Looks for similar names until its budget is spent.
pub(crate) struct Nearest {
    left: usize,
}

impl Nearest {
    pub(crate) fn new() -> Self {
        Self { left: BUDGET }
    }

    /// The first of the names of which the written one may be a slip of the pen.
    pub(crate) fn misspelt<'a>(
        &mut self,
        written: &str,
        names: impl Iterator<Item = &'a str>,
    ) -> Option<String> {
        let mut names = names.take(self.left).inspect(|_| self.left -= 1);
        let meant = names.find(|name| is_misspelling(written, name));
        meant.map(str::to_owned)
    }

    /// The first of the names that are most like the wanted one, if any is like it at all.
    pub(crate) fn find<'a>(
        &mut self,
        wanted: &str,
        names: impl Iterator<Item = &'a str>,
    ) -> Option<String> {
        if wanted.len() > LONGEST {
            return None;
        }
        let mut best: Option<(f64, &str)> = None;
        for name in names.filter(|name| name.len() <= LONGEST).take(self.left) {
            self.left -= 1;
            let alike = strsim::jaro_winkler(wanted, name);
            if alike >= ALIKE && best.is_none_or(|(most, _)| alike > most) {
                best = Some((alike, name));
            }
        }
        best.map(|(_, name)| name.to_owned())
    }
}

/// Whether one name differs from the other as by a slip: in its case, in a letter, or in two of many.
/// Names that differ in their digits are counted, and meant to differ.
fn is_misspelling(written: &str, name: &str) -> bool {
    let shorter = written.len().min(name.len());
    let most = match shorter {
        0..4 => 0,
        4..8 => 1,
        8.. => 2,
    };
    let digits = |text: &str| -> String { text.chars().filter(char::is_ascii_digit).collect() };
    let is_near = written.len().abs_diff(name.len()) <= 2 * most
        && written.len().max(name.len()) <= LONGEST
        && digits(written) == digits(name)
        && strsim::osa_distance(written, name) <= most;
    written != name && (is_near || written.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nearest(wanted: &str, names: &[&str]) -> Option<String> {
        Nearest::new().find(wanted, names.iter().copied())
    }

    #[test]
    fn a_slip_finds_the_name_that_was_meant() {
        assert_eq!(
            nearest("fuond", &["new", "found", "paid"]).unwrap(),
            "found"
        );
        assert_eq!(
            nearest("Review", &["reviewed", "review"]).unwrap(),
            "review"
        );
    }

    #[test]
    fn a_name_like_nothing_finds_nothing() {
        assert_eq!(nearest("zzz", &["new", "found", "paid"]), None);
        assert_eq!(nearest("", &["new"]), None);
        assert_eq!(nearest("new", &[]), None);
    }

    #[test]
    fn a_slip_is_told_from_another_name() {
        for (written, name) in [
            ("crat", "cart"),
            ("fuond", "found"),
            ("Paid", "paid"),
            ("A", "a"),
            ("reviewed", "review_ed"),
            ("wiating_for_aproval", "waiting_for_approval"),
        ] {
            assert!(is_misspelling(written, name), "{written}");
        }
        for (written, name) in [
            ("paid", "paid"),
            ("state1", "state2"),
            ("step_10", "step_1"),
            ("open", "open_again"),
            ("new", "now"),
            ("b", "a"),
            ("", "a"),
        ] {
            assert!(!is_misspelling(written, name), "{written}");
        }
    }

    #[test]
    fn guessing_stops_when_the_budget_is_spent() {
        let many: Vec<String> = (0..BUDGET).map(|n| format!("other{n}")).collect();
        let mut nearest = Nearest::new();
        let first = nearest.find("zzz", many.iter().map(String::as_str));
        assert_eq!(first, None);
        assert_eq!(nearest.find("found", ["found"].into_iter()), None);
    }

    #[test]
    fn very_long_names_are_not_compared() {
        let long = "x".repeat(LONGEST + 1);
        assert_eq!(nearest(&long, &[&long]), None);
        assert_eq!(nearest("x", &[&long]), None);
    }
}
