//! Tells, in the log and by a metric, how Ironic stands open: at the start, and whenever its address or credentials change.

use metal3_ironic::{Exposure, Link};
use metal3_runtime::timing::operator::EXPOSURE;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use tokio_util::sync::CancellationToken;

use crate::metrics::{Catalogue, Kind};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Way {
    way: &'static str,
}

/// Which ways are open.
#[derive(Clone, Debug)]
pub struct Exposures(Family<Way, Gauge>);

impl Exposures {
    /// Registers the metric.
    pub fn new(catalogue: &mut Catalogue<'_>) -> Self {
        catalogue.ours();
        Self(catalogue.add(
            Kind::Gauge,
            "metal3_ironic_exposed",
            &["way"],
            "1 where Ironic stands open in this way: plain_text, any_certificate, no_credentials or answers_anybody",
            Family::default(),
        ))
    }

    fn set(&self, exposure: Exposure, is_so: bool) {
        let way = exposure.label();
        self.0.get_or_create(&Way { way }).set(is_so.into());
        if is_so {
            tracing::warn!(way, "{exposure}");
        }
    }

    /// Looks until told to stop.
    pub async fn watch(self, link: Link, stop: CancellationToken) {
        loop {
            let exchanged = link.exchanged();
            let look = async {
                self.look(&link).await;
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = exchanged => {}
                () = look => {}
            }
        }
    }

    async fn look(&self, link: &Link) {
        link.told().await;
        let Ok(client) = link.client() else { return };
        let set = client.exposures();
        for exposure in Exposure::ALL {
            if exposure != Exposure::AnswersAnybody {
                self.set(exposure, set.contains(&exposure));
            }
        }
        while client.ready().await.is_err() {
            tokio::time::sleep(EXPOSURE).await;
        }
        match client.answers_anybody().await {
            Ok(is_so) => self.set(Exposure::AnswersAnybody, is_so),
            Err(error) => tracing::warn!(%error, "it cannot be tried whether Ironic answers calls without credentials"),
        }
    }
}
