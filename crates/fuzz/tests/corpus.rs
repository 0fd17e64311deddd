//! The inputs in `fuzz/corpus`, and a fixed number of random changes of them.

#![expect(
    clippy::unwrap_used,
    reason = "clippy allows it in functions marked #[test] only, and this whole file is tests"
)]

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

use fastrand::Rng;
use metal3_fuzz::{TARGETS, Target, mutate, reviews};
use serde_json::Value;

/// The inputs of a target, in an order that is the same everywhere.
fn corpus(target: &Target) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target.name);
    let mut files: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(files.len() > 5, "{} has no corpus", folder.display());
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

/// Prints the input that fails, to become a file of the corpus.
fn check(target: &Target, input: &[u8]) {
    if let Err(failure) = catch_unwind(AssertUnwindSafe(|| (target.check)(input))) {
        println!("{} fails for: {}", target.name, input.escape_ascii());
        resume_unwind(failure);
    }
}

/// A path that no input is put to would never be searched.
#[test]
fn each_path_of_the_webhooks_judges_a_review_of_the_corpus() {
    let target = TARGETS.iter().find(|target| target.name == "reviews").unwrap();
    let corpus = corpus(target);
    let reviews = corpus
        .iter()
        .filter_map(|input| serde_json::from_slice::<Value>(input).ok());
    let reviews: Vec<_> = reviews.filter(|review| review["request"].is_object()).collect();
    let is_judged = |path: &&str| {
        let mut of_path = reviews.iter().filter(|review| match *path {
            "/convert" => review["kind"] == "ConversionReview",
            path => {
                review["kind"] == "AdmissionReview" && reviews::is_put_to(path, review) && is_of_version(path, review)
            }
        });
        of_path.next().is_some()
    };
    let missed: Vec<_> = reviews::paths().filter(|path| !is_judged(path)).collect();
    assert_eq!(missed, <[&str; 0]>::default());
}

fn is_of_version(path: &str, review: &Value) -> bool {
    let kind = &review["request"]["kind"];
    let of = |field: &str| kind[field].as_str().unwrap_or_default().to_ascii_lowercase();
    path.ends_with(&format!("-{}-{}", of("version"), of("kind")))
}

// OWN 30v: a number with many digits changed with every conversion.
#[test]
fn what_holds_for_the_corpus_holds_for_changes_of_it() {
    // The same cases in every run, unless exploring.
    let exploring: Option<usize> = std::env::var("EXPLORE_TIMES")
        .ok()
        .map(|times| times.parse().unwrap_or(1));
    for target in &TARGETS {
        let corpus = corpus(target);
        for input in &corpus {
            check(target, input);
        }
        let mut rng = exploring.map_or_else(|| Rng::with_seed(7), |_| Rng::new());
        for _ in 0..target.cases * exploring.unwrap_or(1) {
            let input = &corpus[rng.usize(..corpus.len())];
            check(target, &mutate::change(input, &mut rng));
        }
    }
}
