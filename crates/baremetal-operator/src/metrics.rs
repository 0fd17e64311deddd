//! Metrics about hosts and Ironic's responses. Labels are bounded: states, reasons, operations, codes. Host names are
//! labels only if requested.

mod claims;
pub mod companions;
mod events;
mod hosts;
mod ironic;
mod upstream;

pub use self::claims::ClaimMetrics;
pub use self::companions::CompanionMetrics;
pub use self::events::EventMetrics;
pub use self::hosts::HostMetrics;
pub use self::ironic::{IronicDown, IronicMetrics};
pub use self::upstream::Upstream;
use crate::exposure::Exposures;
use crate::fleet::Fleet;

use metal3_runtime::Clock;
use metal3_runtime::metrics::{Build, Registry};
pub use metal3_runtime::metrics::{Catalogue, Kind, Row};

/// Every metric of this crate, for the reference.
pub fn rows() -> Vec<Row> {
    let registry = Registry::new(Build {
        component: "baremetal-operator",
        version: env!("CARGO_PKG_VERSION"),
    });
    let mut catalogue = Catalogue::new(&registry);
    HostMetrics::new(&mut catalogue, Clock::system(), false);
    IronicMetrics::new(&mut catalogue);
    EventMetrics::new(&mut catalogue);
    Exposures::new(&mut catalogue);
    IronicDown::register(&mut catalogue, Fleet::new(1).0);
    catalogue.into_rows()
}

#[cfg(test)]
#[path = "metrics/tests.rs"]
mod tests;
