//! What is made of the numbers of several rounds. Pure.

/// The middle value; of an even number of values, the mean of the two in the middle. No number where there is none.
pub(crate) fn median(values: &[f64]) -> f64 {
    let sorted = sorted(values);
    match sorted.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => sorted[len / 2],
        len => f64::midpoint(sorted[len / 2 - 1], sorted[len / 2]),
    }
}

/// The lowest and the highest value.
pub(crate) fn range(values: &[f64]) -> (f64, f64) {
    let sorted = sorted(values);
    (sorted.first().copied().unwrap_or(f64::NAN), sorted.last().copied().unwrap_or(f64::NAN))
}

/// From the lowest to the highest value, as a share of the median.
pub(crate) fn spread(values: &[f64]) -> f64 {
    let (lowest, highest) = range(values);
    (highest - lowest) / median(values)
}

/// The ratio of each round: what both sides measured one after the other, while the machine was in the same mood.
pub(crate) fn ratios(ours: &[f64], theirs: &[f64]) -> Vec<f64> {
    ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect()
}

/// The value that this share of all values does not exceed (nearest rank).
pub(crate) fn percentile(values: &[f64], share: f64) -> f64 {
    let sorted = sorted(values);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(f64::NAN)
}

/// By how much a cost grows with each tenfold of what it is measured over, as a share of the first cost: the straight line
/// over the logarithm that fits best.
pub(crate) fn slope_per_tenfold(points: &[(u64, f64)]) -> f64 {
    let Some((_, first)) = points.first() else { return f64::NAN };
    let points: Vec<_> = points.iter().map(|(over, cost)| ((*over as f64).log10(), cost / first)).collect();
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / points.len() as f64;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let together: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    together / points.iter().map(|point| (point.0 - x).powi(2)).sum::<f64>()
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_in_the_middle_whatever_the_order() {
        for (values, expected) in [
            (&[3.0, 1.0, 2.0][..], 2.0),
            (&[4.0, 1.0, 3.0, 2.0], 2.5),
            (&[7.0], 7.0),
            (&[1.0, 1.0, 1.0, 1.0, 1000.0], 1.0),
        ] {
            assert_eq!(median(values), expected, "{values:?}");
        }
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn a_spread_is_a_share_of_the_median() {
        assert_eq!(spread(&[90.0, 100.0, 120.0]), 0.3);
        assert_eq!(spread(&[5.0]), 0.0);
        assert_eq!(range(&[2.0, 9.0, 4.0]), (2.0, 9.0));
        assert!(spread(&[]).is_nan());
    }

    #[test]
    fn ratios_are_those_of_each_round() {
        // Both sides are half as fast in the second round: the ratio stays.
        assert_eq!(ratios(&[100.0, 50.0], &[200.0, 100.0]), [0.5, 0.5]);
        assert_eq!(ratios(&[], &[]), [0.0; 0]);
    }

    #[test]
    fn a_percentile_is_a_value_that_was_measured() {
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        for (share, expected) in [(0.5, 100.0), (0.99, 198.0), (1.0, 200.0), (0.0, 1.0)] {
            assert_eq!(percentile(&values, share), expected, "{share}");
        }
        assert!(percentile(&[], 0.5).is_nan());
    }

    #[test]
    fn a_slope_is_the_growth_per_tenfold() {
        let close = |points: &[(u64, f64)], expected: f64| {
            let slope = slope_per_tenfold(points);
            assert!((slope - expected).abs() < 1e-9, "{points:?}: {slope}");
        };
        close(&[(1, 20.0), (10, 22.0), (100, 24.0)], 0.1);
        close(&[(1_000, 5.0), (1_000_000, 5.0)], 0.0);
        close(&[(1, 4.0), (100, 2.0)], -0.25);
        // The one in the middle is off the line.
        close(&[(1, 10.0), (10, 13.0), (100, 12.0)], 0.1);
    }
}
