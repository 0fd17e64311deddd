//! What must hold for any input from outside: no panic, no lost data, bounded output.
//!
//! Each [`Target`] is a function that takes bytes and panics if something does not hold. Two programs run them:
//!
//! - `crates/fuzz/tests/corpus.rs`, in every test run: the inputs in `fuzz/corpus` and a fixed number of changes of them;
//! - libFuzzer (`fuzz/`, `cargo xtask fuzz`): it searches for new inputs by the code that they reach.
//!
//! Both change JSON as JSON ([`mutate`]), because a review with a changed byte is mostly no longer a review.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a library of assertions: to panic is how they fail a test"
)]

mod addresses;
mod answers;
mod bounded;
mod conversions;
mod json;
pub mod mutate;
mod network;
pub mod reviews;
mod templates;
mod urls;

/// A kind of input, and what must hold for it.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of its binary, and of its folder in `fuzz/corpus`.
    pub name: &'static str,
    /// Panics if something does not hold.
    pub check: fn(&[u8]),
    /// How many changed inputs every test run tries.
    pub cases: usize,
}

/// All targets.
pub const TARGETS: [Target; 7] = [
    Target {
        name: "addresses",
        check: addresses::check,
        cases: 20_000,
    },
    Target {
        name: "answers",
        check: answers::check,
        cases: 500,
    },
    Target {
        name: "conversions",
        check: conversions::check,
        cases: 4_000,
    },
    Target {
        name: "network",
        check: network::check,
        cases: 4_000,
    },
    Target {
        name: "reviews",
        check: reviews::check,
        cases: 4_000,
    },
    Target {
        name: "templates",
        check: templates::check,
        cases: 2_000,
    },
    Target {
        name: "urls",
        check: urls::check,
        cases: 10_000,
    },
];

/// Runs the target of this name.
pub fn check(name: &str, input: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.expect("a target of this name").check)(input);
}
