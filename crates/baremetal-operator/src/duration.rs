//! Durations as Go writes them.

use std::time::Duration;

/// Durations as Go writes them (`1m30s`, `250ms`), or plain seconds. Zero is refused: a call without an end is a fault.
pub fn go_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration such as 30s or 1m30s");
    let mut total = 0.0_f64;
    let mut rest = text.trim();
    if let Ok(seconds) = rest.parse::<f64>() {
        rest = "";
        total = seconds;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let number: f64 = rest.get(..digits).and_then(|n| n.parse().ok()).ok_or_else(wrong)?;
        let tail = rest.get(digits..).ok_or_else(wrong)?;
        let end = tail
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(tail.len());
        let (unit, next) = tail.split_at(end);
        total += number
            * match unit {
                "h" => 3600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 1e-3,
                "us" | "µs" => 1e-6,
                "ns" => 1e-9,
                _ => return Err(wrong()),
            };
        rest = next;
    }
    let duration = Duration::try_from_secs_f64(total).map_err(|_| wrong())?;
    if duration.is_zero() {
        Err(format!("{text:?} must be more than nothing"))
    } else {
        Ok(duration)
    }
}
