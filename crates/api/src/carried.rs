//! JSON that users write into annotations, which this program parses.

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
