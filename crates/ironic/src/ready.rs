//! Version negotiation and readiness.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use crate::client::{Call, Client, parse};
use crate::error::{Error, Reason};
use crate::observe::Operation;
use crate::version::Versions;

#[derive(Deserialize)]
struct Drivers {
    #[serde(default)]
    drivers: Option<Vec<Value>>,
}

impl Client {
    /// Confirms that Ironic is available, supports a version that we support, accepts our credentials, and has a
    /// conductor that offers drivers. Any error means: not ready, retry later.
    ///
    /// A success is cached for [`crate::ClientConfig::ready_ttl`]; concurrent callers share one check.
    pub async fn ready(&self) -> Result<Versions, Error> {
        let ttl = self.shared.config.ready_ttl;
        self.shared.readiness.ask(ttl, async || self.check_ready().await).await
    }

    async fn check_ready(&self) -> Result<Versions, Error> {
        let versions = self.negotiate().await?;
        *self.shared.versions.write().await = Some(versions);
        let call = Call::get(Operation::ListDrivers, &["drivers"]);
        let answer = self.exchange_as(versions, call).await?;
        let listed: Drivers = parse(Operation::ListDrivers, None, &answer)?;
        if listed.drivers.unwrap_or_default().is_empty() {
            return Err(Error::new(Operation::ListDrivers, None, Reason::NoDrivers));
        }
        Ok(versions)
    }

    /// The negotiated version; negotiates if that has not happened yet.
    pub(crate) async fn versions(&self) -> Result<Versions, Error> {
        if let Some(versions) = *self.shared.versions.read().await {
            return Ok(versions);
        }
        let negotiate = async || {
            let versions = self.negotiate().await?;
            *self.shared.versions.write().await = Some(versions);
            Ok(versions)
        };
        self.shared.negotiation.ask(Duration::ZERO, negotiate).await
    }

    /// Makes the next call negotiate again, because the server does not support the negotiated version: it was
    /// replaced.
    pub(crate) async fn forget_versions(&self) {
        *self.shared.versions.write().await = None;
        self.shared.negotiation.forget().await;
        self.shared.readiness.forget().await;
    }

    async fn negotiate(&self) -> Result<Versions, Error> {
        let document = self.discover().await?;
        Versions::negotiate(&document).map_err(|why| Error::new(Operation::Discover, None, Reason::Version(why)))
    }
}
