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
