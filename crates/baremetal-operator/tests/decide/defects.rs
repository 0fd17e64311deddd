//! The lists of what upstream's operator does wrong, and of what we did wrong, name tests that are there and that name them.

use std::collections::BTreeSet;
use std::path::Path;

/// One row: its number, the name of the test, the file of the test.
fn rows(list: &str) -> Vec<(&str, &str, &str)> {
    let row = |line| -> Option<_> {
        let cells: Vec<&str> = str::split(line, " | ").collect();
        let [number, _, _, shown] = cells[..] else { return None };
        let (test, file) = shown.strip_prefix("[`")?.split_once("`](../")?;
        Some((number.strip_prefix("| ")?, test, file.strip_suffix(") |")?))
    };
    list.lines().filter_map(row).collect()
}

#[test]
fn every_defect_is_named_by_a_test_that_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |file: &str| std::fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let list = read("docs/upstream-defects.md");
    let mut seen = BTreeSet::new();
    for (number, test, file) in rows(&list) {
        let text = read(file);
        let is_there = text.contains(&format!("fn {test}(")) || text.contains(&format!(" {test} =>"));
        assert!(is_there, "{number}: there is no {test} in {file}");
        let is_named = [":", " of"]
            .iter()
            .any(|end| text.contains(&format!("// {number}{end}")));
        assert!(is_named, "{file} does not say that it shows {number}");
        assert!(seen.insert(number.to_owned()), "{number} is there twice");
    }
    let decisions = (1..=30).map(|n| format!("DEFECT {n}"));
    let (ours, upstreams): (BTreeSet<String>, _) = seen.into_iter().partition(|name| name.starts_with("OWN "));
    // `OWN 9a` and `OWN 9b` are two sides of one fault.
    let numbers = |name: &String| {
        name.trim_start_matches("OWN ")
            .trim_end_matches(char::is_lowercase)
            .parse()
            .ok()
    };
    let ours: BTreeSet<u32> = ours.iter().filter_map(numbers).collect();
    assert_eq!(ours, (1..=31).collect());
    let expected: BTreeSet<String> = decisions.chain((1..=25).map(|n| format!("D{n}"))).collect();
    assert_eq!(upstreams, expected);
}
