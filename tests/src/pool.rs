//! One Ironic for many scenarios.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use metal3_lab::ironic::{IronicConfig, IronicLab};
use tokio::sync::OnceCell;

/// An Ironic shared by the scenarios of a binary, each with its own servers. It ends with the binary.
#[derive(Debug)]
pub struct Pool {
    config: fn() -> IronicConfig,
    ironic: OnceCell<Arc<IronicLab>>,
    taken: AtomicUsize,
}

impl Pool {
    /// An Ironic that starts on first use.
    pub const fn new(config: fn() -> IronicConfig) -> Self {
        Self {
            config,
            ironic: OnceCell::const_new(),
            taken: AtomicUsize::new(0),
        }
    }

    /// The Ironic itself, for a scenario that needs a specific server.
    pub async fn ironic(&self) -> Arc<IronicLab> {
        let start = async || Arc::new(IronicLab::start((self.config)()).await.expect("Ironic starts"));
        self.ironic.get_or_init(start).await.clone()
    }

    /// The Ironic, and the first of this many Redfish servers that no other scenario uses.
    ///
    /// Servers with IPMI are never handed out: scenarios name them.
    pub(crate) async fn take(&self, servers: usize) -> (Arc<IronicLab>, usize) {
        let ironic = self.ironic().await;
        let first = self.taken.fetch_add(servers, Ordering::Relaxed);
        let (needed, all) = (first + servers, usize::from((self.config)().hosts));
        assert!(
            needed <= all,
            "the scenarios need {needed} Redfish servers or more, the pool has {all}: raise `hosts` of its configuration"
        );
        (ironic, first)
    }
}
