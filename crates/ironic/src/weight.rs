//! An upper estimate of the memory that a text takes once it is parsed, from its punctuation: a map of seven bytes takes a hundred
//! times as much.

/// A map of any shape, and the least that its first entry takes.
const OBJECT: usize = 1 << 10;
/// The least room of a list.
const LIST: usize = 256;
/// An element of a list or of a map, in a list that doubles its room.
const ELEMENT: usize = 128;
/// A text has two quotation marks.
const QUOTE: usize = 48;
/// The text, in a buffer that doubles its room, and its copy.
const BYTE: usize = 3;

/// The memory for the text and for what it is parsed into. Punctuation inside of texts counts, too.
pub(crate) fn weight(text: &[u8]) -> usize {
    let parsed = |byte: &u8| match byte {
        b'{' => OBJECT,
        b'[' => LIST,
        b',' => ELEMENT,
        b'"' => QUOTE,
        _ => BYTE,
    };
    text.iter().map(parsed).sum()
}
