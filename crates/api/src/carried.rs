//! JSON in annotations and YAML in Secrets: users write them, and our programs parse them.

/// How many keys and values a text in a Secret may have: a hundred network interfaces take some two thousand. A map of seven bytes
/// takes a hundred times as much memory.
pub const MOST_VALUES: usize = 20_000;

/// The most memory that may be needed to parse the JSON in an annotation. Whoever limits the memory for objects with such annotations
/// must count on so much for each value, in each form in which it is held.
pub const MOST_CARRIED: usize = 4 << 20;

/// Whether JSON takes little memory once it is parsed. Its objects and lists take up to two hundred times their text, and a tenant
/// may write any into an annotation.
#[must_use]
pub fn is_light(json: &str) -> bool {
    let weight = |byte| match byte {
        b'{' => 1 << 10,
        b'[' => 256,
        b',' => 128,
        _ => 0,
    };
    json.bytes().map(weight).sum::<usize>() <= MOST_CARRIED
}
