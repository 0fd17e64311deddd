//! What the names in BMC addresses stand for, where that matters (`IRONIC_EXTERNAL_URL_V6`).

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A name server that is down must not hold up a reconciliation for long.
const PATIENCE: Duration = Duration::from_secs(5);

/// Names that were resolved. Each is resolved once in the life of the process, or until it could be.
#[derive(Debug, Default)]
pub struct BmcNames(Mutex<HashMap<String, bool>>);

impl BmcNames {
    /// Whether the first address of a name is one of IPv6.
    ///
    /// # Errors
    ///
    /// It cannot be resolved: why, for the user.
    pub async fn is_ipv6(&self, name: &str) -> Result<bool, String> {
        if let Some(known) = self.lock().get(name) {
            return Ok(*known);
        }
        let found = tokio::time::timeout(PATIENCE, tokio::net::lookup_host((name, 0))).await;
        let mut addresses = match found {
            Ok(Ok(addresses)) => addresses,
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => return Err(format!("no answer within {} s", PATIENCE.as_secs())),
        };
        let first = addresses.next().ok_or("it has no address")?;
        self.lock().insert(name.to_owned(), first.is_ipv6());
        Ok(first.is_ipv6())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, bool>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_is_resolved_once_and_asked_for_again_while_it_cannot_be() {
        let names = BmcNames::default();
        assert_eq!(names.is_ipv6("::1").await, Ok(true));
        assert_eq!(names.is_ipv6("127.0.0.1").await, Ok(false));
        // Not even asked for again: this name would not stand for that.
        names.lock().insert("127.0.0.1".to_owned(), true);
        assert_eq!(names.is_ipv6("127.0.0.1").await, Ok(true));

        let wrong = "no name at all";
        names.is_ipv6(wrong).await.unwrap_err();
        assert_eq!(names.lock().get(wrong), None);
    }
}
