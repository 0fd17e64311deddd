//! Queries to the simulated servers.

use std::time::Duration;

use anyhow::{Context, Result};
use reqwest::Client;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::Machine;

/// Reads what became of the simulated servers of an instance. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Servers {
    client: Client,
    url: String,
}

impl Servers {
    /// Those that answer at this address, see [`super::IronicLab::control_url`].
    pub fn at(url: &str) -> Result<Self> {
        rustls::crypto::ring::default_provider().install_default().ok(); // fails if there is one, which is as well
        let client = Client::builder().no_proxy().timeout(Duration::from_secs(60));
        Ok(Self {
            client: client.build().context("cannot make an HTTP client")?,
            url: url.to_owned(),
        })
    }

    /// What one is doing and went through, with its deployments.
    pub async fn machine(&self, uuid: &str) -> Result<Machine> {
        self.get(&format!("machines/{uuid}")).await
    }

    /// The same of all, without deployments.
    pub async fn machines(&self) -> Result<Vec<Machine>> {
        #[derive(Deserialize)]
        struct Answer {
            machines: Vec<Machine>,
        }
        let answer: Answer = self.get("machines").await?;
        Ok(answer.machines)
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let answer = self.client.get(format!("{}/{path}", self.url)).send().await;
        let answer = answer.and_then(reqwest::Response::error_for_status);
        let answer = answer.context("cannot ask the simulated servers")?;
        answer
            .json()
            .await
            .context("cannot read an answer of the simulated servers")
    }
}
