//! Durations as Go writes and reads them, such as `1h30m`, `600s` and `1.5h`.

/// Nanoseconds of each unit, longer names before those that they begin with.
const UNITS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Whole seconds of a duration, without what is left over. Nothing if the text is no duration.
pub fn seconds(text: &str) -> Option<i64> {
    let (sign, mut rest) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut nanoseconds: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| c != '.' && !c.is_ascii_digit())?;
        let (number, after) = rest.split_at(end);
        let unit = after
            .find(|c: char| c == '.' || c.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        let (_, size) = UNITS.iter().find(|(name, _)| *name == unit)?;
        nanoseconds = nanoseconds.checked_add(scaled(number, *size)?)?;
        rest = after;
    }
    i64::try_from(sign * nanoseconds / 1_000_000_000).ok()
}

/// A decimal number of a unit, in nanoseconds.
fn scaled(number: &str, unit: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut nanoseconds = whole.checked_mul(unit)?;
    let mut digit_of = unit;
    for digit in fraction.bytes() {
        digit_of /= 10;
        nanoseconds = nanoseconds.checked_add(i128::from(digit - b'0') * digit_of)?;
    }
    Some(nanoseconds)
}

/// The text of so many seconds, as Go writes it: `10m0s`, `1h0m0s`.
pub fn text(seconds: i32) -> String {
    let sign = if seconds < 0 { "-" } else { "" };
    let seconds = seconds.unsigned_abs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{sign}{seconds}s"),
        (0, _) => format!("{sign}{minutes}m{seconds}s"),
        _ => format!("{sign}{hours}h{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("600s", Some(600))]
    #[case("10m0s", Some(600))]
    #[case("1h30m", Some(5400))]
    #[case("1.5h", Some(5400))]
    #[case(".5m", Some(30))]
    #[case("5.s", Some(5))]
    #[case("1999ms", Some(1))]
    #[case("-1.5s", Some(-1))]
    #[case("+3s", Some(3))]
    #[case("999999µs", Some(0))]
    #[case("0", Some(0))]
    #[case("-0", Some(0))]
    #[case("", None)]
    #[case("-", None)]
    #[case("10", None)]
    #[case("m", None)]
    #[case(".s", None)]
    #[case("1..5s", None)]
    #[case("1 s", None)]
    #[case("10 minutes", None)]
    #[case("99999999999999999999999999999999999999999h", None)]
    fn reads_what_go_reads(#[case] text: &str, #[case] expected: Option<i64>) {
        assert_eq!(seconds(text), expected, "{text:?}");
    }

    #[rstest]
    #[case(45, "45s")]
    #[case(600, "10m0s")]
    #[case(3600, "1h0m0s")]
    #[case(-61, "-1m1s")]
    fn writes_what_go_writes(#[case] seconds: i32, #[case] expected: &str) {
        assert_eq!(text(seconds), expected);
        assert_eq!(super::seconds(expected), Some(seconds.into()));
    }
}
