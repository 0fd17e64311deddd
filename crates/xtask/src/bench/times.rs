//! Summary statistics of many durations. Pure.

#![expect(clippy::cast_precision_loss, reason = "counts are small")]

use std::time::Duration;

/// How much slower the last tenth came in than the first, arrival by arrival. None for too few to tell.
pub fn tenths(arrivals: &[f64]) -> Option<f64> {
    let tenth = arrivals.len() / 10;
    if tenth < 5 {
        return None;
    }
    let first = arrivals.get(tenth)? - arrivals.first()?;
    let last = arrivals.last()? - arrivals.get(arrivals.len() - 1 - tenth)?;
    Some(last / first.max(f64::EPSILON))
}

/// The median, the slowest but for a hundredth, and the slowest.
pub fn percentiles(times: &[Duration]) -> String {
    let mut times = times.to_vec();
    times.sort();
    let at = |share: usize| times.get((times.len() * share / 100).min(times.len().saturating_sub(1)));
    let text =
        |time: Option<&Duration>| time.map_or_else(|| "–".to_owned(), |time| format!("{:.2}", time.as_secs_f64()));
    format!("{} / {} / {} s", text(at(50)), text(at(99)), text(times.last()))
}

/// What the ratio of tenths looks like in a table.
pub fn growth(arrivals: &[f64]) -> String {
    tenths(arrivals).map_or_else(|| "too few to tell".to_owned(), |ratio| format!("{ratio:.2}"))
}

/// How many arrived in a second.
pub fn per_second(arrivals: &[f64]) -> f64 {
    arrivals.len() as f64 / arrivals.last().copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_stream_has_a_ratio_of_one() {
        let steady: Vec<f64> = (0..100).map(f64::from).collect();
        assert!((tenths(&steady).unwrap() - 1.0).abs() < 1e-9);
        assert_eq!(tenths(&steady[..40]), None);
    }

    #[test]
    fn percentiles_are_of_the_sorted_times() {
        let times: Vec<Duration> = (1..=100).rev().map(Duration::from_secs).collect();
        assert_eq!(percentiles(&times), "51.00 / 100.00 / 100.00 s");
        assert_eq!(percentiles(&[]), "– / – / – s");
    }
}
