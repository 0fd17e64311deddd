//! Texts as label values, which hold 63 characters.

/// The longest value of a label.
const LONGEST: usize = 63;

/// A text as a label value. If it is too long it is truncated, and a hash of `name` replaces the rest, so that different names
/// stay different.
pub fn value(text: &str, name: &str) -> String {
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    let number = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    let cut: String = text.chars().take(LONGEST - 9).collect();
    format!("{}-{number:08x}", cut.trim_end_matches(['-', '.', '_']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_stay_labels_and_stay_apart() {
        let of = |name: &str| value(&format!("md-{name}"), name);
        assert_eq!(of("plane"), "md-plane");
        assert_eq!(of(&"a".repeat(60)), format!("md-{}", "a".repeat(60)), "there is room");
        let long = format!("{}.{}", "a".repeat(50), "b".repeat(40));
        let other = format!("{}.{}c", "a".repeat(50), "b".repeat(39));
        let (first, second) = (of(&long), of(&other));
        assert!(first.len() <= 63 && first != second, "{first} {second}");
        assert!(first.ends_with(|c: char| c.is_ascii_alphanumeric()));
        assert!(first.starts_with(&format!("md-{}", "a".repeat(50))), "{first}");
    }
}
