//! What change is planned.

use clap::ValueEnum;
use serde::Serialize;

/// Which of the two takes the other's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// This one takes the place of upstream's.
    Here,
    /// Upstream's takes the place of this one.
    Back,
}

/// What installs the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum With {
    /// The chart.
    Helm,
    /// The bases of kustomize.
    Kubectl,
    /// clusterctl for the providers, kubectl for the operator.
    Clusterctl,
}
