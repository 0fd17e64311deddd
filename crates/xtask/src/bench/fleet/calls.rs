//! Requests to the simulated Ironic.

use std::collections::BTreeMap;

/// Counts by method and kind of path.
#[derive(Debug, Default)]
pub struct Counts(pub BTreeMap<String, u64>);

/// Sums of them.
pub struct Calls {
    /// Calls that serve all hosts at once.
    pub shared: u64,
    /// The others.
    pub single: u64,
}

impl Counts {
    /// What has come since then.
    pub fn since(self, before: &Self) -> Self {
        let known = |kind: &String| before.0.get(kind).copied().unwrap_or_default();
        let counts = self.0.into_iter().map(|(kind, count)| {
            let new = count - known(&kind);
            (kind, new)
        });
        Self(counts.filter(|(_, count)| *count > 0).collect())
    }

    /// Their sums.
    pub fn split(&self) -> Calls {
        let is_shared = |kind: &str| matches!(kind, "GET /v1/nodes" | "GET /v1/drivers" | "GET /v1");
        let shared = self.0.iter().filter(|(kind, _)| is_shared(kind));
        let shared = shared.map(|(_, count)| count).sum();
        Calls {
            shared,
            single: self.0.values().sum::<u64>() - shared,
        }
    }
}
