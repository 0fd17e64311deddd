//! An upper estimate of the memory that a review takes once it is parsed, from the punctuation of its text.
//!
//! The size of the text does not suffice: a parsed object or list takes up to two hundred times as much.

use metal3_api::carried::MOST_CARRIED;

/// A parsed object: a node of a map, or a structure of one of our kinds, and the room that its list keeps for the next ones.
const OBJECT: usize = 1 << 10;
/// The least room of a list.
const LIST: usize = 256;
/// An element of a list or of an object.
const ELEMENT: usize = 128;
/// The parts of a text beside its bytes: the allocation and what refers to it.
const TEXT: usize = 96;
/// A byte of a text, which is copied into a type and into the answer.
const BYTE: usize = 3;
/// An object that is parsed apart: its place in the review and in the answer, and the defaults that its answer gets.
const APART: usize = 512;
/// An object that is parsed apart is converted: for a while it is there in two versions, or as a value of any shape and a type. So is
/// JSON in a text, in each review: it is compared with what its type keeps of it.
const VERSIONS: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Structure,
    Text,
    /// After a backslash in a text.
    Escape,
}

/// Estimates while the text arrives. What comes after an error in it is estimated wrongly, but never parsed.
#[derive(Debug)]
pub(super) struct Weight {
    /// Values that are nested deeper than this are parsed one at a time, so that only the heaviest counts. Admissions (0) parse
    /// everything at once.
    apart_below: usize,
    depth: usize,
    place: Place,
    /// What is in memory all the time.
    common: usize,
    part: usize,
    /// What JSON in the texts of the part would take.
    carried: usize,
    heaviest_part: usize,
}

impl Weight {
    pub const fn new(apart_below: usize) -> Self {
        Self {
            apart_below,
            depth: 0,
            place: Place::Structure,
            common: 0,
            part: 0,
            carried: 0,
            heaviest_part: 0,
        }
    }

    pub fn count(&mut self, text: &[u8]) {
        for &byte in text {
            self.byte(byte);
        }
    }

    pub fn bytes(&self) -> usize {
        let versions = if self.apart_below > 0 { VERSIONS } else { 1 };
        self.common + versions * self.heaviest_part
    }

    fn byte(&mut self, byte: u8) {
        match (self.place, byte) {
            (Place::Structure, b'"') => self.enter(Place::Text, TEXT),
            (Place::Structure, b'{') => self.open(OBJECT),
            (Place::Structure, b'[') => self.open(LIST),
            (Place::Structure, b'}' | b']') => self.close(),
            (Place::Structure, b',') => self.add(if self.is_part() { ELEMENT } else { APART }),
            (Place::Structure, _) => {}
            (Place::Text, b'"') => self.place = Place::Structure,
            (Place::Text, b'\\') => self.enter(Place::Escape, BYTE),
            // The escape of a character may stand for any.
            (Place::Text, b'{') | (Place::Escape, b'u') => self.carry(OBJECT),
            (Place::Text, b'[') => self.carry(LIST),
            (Place::Text, b',') => self.carry(ELEMENT),
            (Place::Text | Place::Escape, _) => self.enter(Place::Text, BYTE),
        }
    }

    /// JSON in annotations is parsed, one value at a time, unless it is too heavy.
    fn carry(&mut self, weight: usize) {
        let carried = MOST_CARRIED.min(self.carried + weight);
        // What is parsed apart counts twice as a whole.
        let versions = if self.apart_below > 0 { 1 } else { VERSIONS };
        self.enter(Place::Text, BYTE + versions * (carried - self.carried));
        self.carried = carried;
    }

    fn enter(&mut self, place: Place, weight: usize) {
        self.place = place;
        self.add(weight);
    }

    fn open(&mut self, weight: usize) {
        self.depth += 1;
        self.add(weight);
    }

    fn close(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        if !self.is_part() {
            (self.part, self.carried) = (0, 0);
        }
    }

    fn is_part(&self) -> bool {
        self.depth > self.apart_below
    }

    fn add(&mut self, weight: usize) {
        if self.is_part() {
            self.part += weight;
            self.heaviest_part = self.heaviest_part.max(self.part);
        } else {
            self.common += weight;
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn weight(apart_below: usize, text: &str) -> usize {
        let mut weight = Weight::new(apart_below);
        weight.count(text.as_bytes());
        weight.bytes()
    }

    #[rstest]
    #[case::nothing("", 0)]
    #[case::number("17", 0)]
    #[case::text(r#"["ab"]"#, LIST + TEXT + 2 * BYTE)]
    #[case::punctuation_in_a_text(r#"["{[,]}"]"#, LIST + TEXT + 5 * BYTE + VERSIONS * (OBJECT + LIST + ELEMENT))]
    #[case::quotation_mark_in_a_text(r#"["\"{", {}]"#, LIST + TEXT + 3 * BYTE + ELEMENT + (1 + VERSIONS) * OBJECT)]
    #[case::backslash_at_the_end_of_a_text(r#"["\\", {}]"#, LIST + TEXT + 2 * BYTE + ELEMENT + OBJECT)]
    #[case::nested("[{}, {}, [[]]]", 3 * LIST + 2 * OBJECT + 2 * ELEMENT)]
    fn everything_counts_that_is_parsed(#[case] text: &str, #[case] expected: usize) {
        assert_eq!(weight(0, text), expected);
    }

    #[test]
    fn of_values_that_are_parsed_apart_only_the_heaviest_counts() {
        let outside = LIST + 2 * APART;
        assert_eq!(
            weight(1, "[{}, [{}, 1], {}]"),
            outside + VERSIONS * (LIST + OBJECT + ELEMENT)
        );
        assert_eq!(weight(1, r#"["a", 1, 2]"#), outside + TEXT + BYTE);
    }

    #[test]
    fn json_in_texts_counts_as_far_as_it_is_parsed() {
        let outside = LIST + VERSIONS * (LIST + TEXT);
        for (text, carried) in [
            ("{", OBJECT),
            ("[", LIST),
            (",", ELEMENT),
            (r"\u007b", OBJECT + 5 * BYTE),
        ] {
            assert_eq!(
                weight(1, &format!(r#"[["{text}"]]"#)),
                outside + VERSIONS * (carried + BYTE)
            );
        }
        let most = outside + VERSIONS * (MOST_CARRIED + 100_000 * BYTE);
        let many = format!(r#"["{}"]"#, "{".repeat(100_000));
        assert_eq!(weight(1, &format!("[{many}]")), most);
        assert_eq!(weight(1, &format!("[{many}, {many}]")), most + APART);
        let admission = LIST + TEXT + VERSIONS * MOST_CARRIED + 100_000 * BYTE;
        assert_eq!(weight(0, &many), admission);
        assert_eq!(
            weight(0, &format!("[{many}, {many}]")),
            2 * admission - VERSIONS * MOST_CARRIED + LIST + ELEMENT,
            "one value is parsed at a time"
        );
    }

    #[test]
    fn the_weight_does_not_depend_on_how_the_text_is_cut() {
        let text = br#"{"a": ["\"{", {"b": [1, 2]}], "c\\": {}}"#;
        let mut cut = Weight::new(1);
        text.chunks(1).for_each(|piece| cut.count(piece));
        let mut whole = Weight::new(1);
        whole.count(text);
        assert_eq!(cut.bytes(), whole.bytes());
    }
}
