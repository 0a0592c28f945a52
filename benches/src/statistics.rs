//! Several rounds of one figure: the middle one, and how far they lie apart.

/// One figure over all rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// Of no figure at all there is none.
    pub(crate) fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut figures: Vec<f64> = figures.into_iter().collect();
        figures.sort_by(f64::total_cmp);
        let (least, most) = (*figures.first()?, *figures.last()?);
        Some(Self {
            median: median_of_sorted(&figures)?,
            least,
            most,
        })
    }
}

pub(crate) fn median(figures: impl IntoIterator<Item = f64>) -> Option<f64> {
    Spread::of(figures).map(|spread| spread.median)
}

fn median_of_sorted(figures: &[f64]) -> Option<f64> {
    let middle = figures.len() / 2;
    let upper = *figures.get(middle)?;
    if figures.len() % 2 == 1 {
        return Some(upper);
    }
    Some((figures[middle - 1] + upper) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_an_odd_and_an_even_number_of_rounds() {
        let spread = Spread::of([3.0, 1.0, 2.0]).unwrap();
        assert_eq!((spread.median, spread.least, spread.most), (2.0, 1.0, 3.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median([]), None);
    }
}
