//! How long operations took.

use metal3_api::metal3::{OperationHistory, OperationMetric};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use super::{Host, PER_HOST};
use crate::metrics::{Catalogue, Kind};

type Durations = Family<Host, Histogram, fn() -> Histogram>;

#[derive(Clone, Debug)]
pub(super) struct Operations {
    register: Durations,
    inspect: Durations,
    provision: Durations,
    deprovision: Durations,
}

impl Operations {
    pub fn new(catalogue: &mut Catalogue<'_>) -> Self {
        let short: fn() -> Histogram =
            || Histogram::new([0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0]);
        let long: fn() -> Histogram = || Histogram::new([30.0, 90.0, 180.0, 360.0, 720.0, 1440.0]);
        let mut durations = |operation: &str, help, buckets| {
            let name = format!("metal3_operation_{operation}_duration_seconds");
            let family = Family::new_with_constructor(buckets);
            catalogue.add(Kind::Histogram, &name, PER_HOST, help, family)
        };
        Self {
            register: durations("register", "Duration of registrations", short),
            inspect: durations("inspect", "Duration of inspections", long),
            provision: durations("provision", "Duration of provisionings", long),
            deprovision: durations("deprovision", "Duration of deprovisionings", long),
        }
    }

    /// A status was stored.
    pub fn status(&self, host: &Host, before: &OperationHistory, after: &OperationHistory) {
        for (before, after, family) in [
            (&before.register, &after.register, &self.register),
            (&before.inspect, &after.inspect, &self.inspect),
            (&before.provision, &after.provision, &self.provision),
            (&before.deprovision, &after.deprovision, &self.deprovision),
        ] {
            if let Some(took) = ended(before, after) {
                family.get_or_create(host).observe(took);
            }
        }
    }

    /// The host is gone, and with it its series.
    pub fn forget(&self, host: &Host) {
        for family in [&self.register, &self.inspect, &self.provision, &self.deprovision] {
            family.remove(host);
        }
    }
}

/// The seconds of an interval that is closed now and was not before.
fn ended(before: &OperationMetric, after: &OperationMetric) -> Option<f64> {
    let (start, end) = (after.start.as_ref()?.0, after.end.as_ref()?.0);
    (before.start.as_ref() != after.start.as_ref() || before.end.is_none())
        .then(|| end.duration_since(start).as_secs_f64().max(0.0))
}
