//! The decision about a host, from outside: tables of what is planned when, properties that hold for any host and any
//! node, and a small model of Ironic on which hosts must settle, also when the operator dies at the worst moment.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test, helpers included")]

mod arbitrary;
mod attacks;
mod attempts;
mod bmc_names;
mod defects;
mod matrix;
mod model;
mod oracle;
mod overtaken;
mod places;
mod ports;
mod properties;
mod settings;
mod settle;
mod show;
mod survive;
mod table;
mod urls;
mod world;

use proptest::prelude::ProptestConfig;

/// So many cases, or as many times more as `cargo xtask test --explore=TIMES` asks for.
fn cases(usual: u32) -> ProptestConfig {
    let times = std::env::var("EXPLORE_TIMES").map_or(1, |times| times.parse().unwrap());
    ProptestConfig {
        cases: usual * times,
        ..ProptestConfig::default()
    }
}
