//! The resolved host names in BMC addresses, where that matters (`IRONIC_EXTERNAL_URL_V6`).

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::net::ToSocketAddrs;
use std::time::Duration;

use metal3_runtime::lookups::{Lookups, Places};
use metal3_runtime::timing::operator::{RESOLVE, UNRESOLVED};

/// The maximum number of remembered names, because users choose them. Beyond it the names of the namespace with the
/// most are forgotten, and resolved again when used.
const MOST: usize = 16_384;

/// The known names, by the namespace of their hosts. Each is resolved once per process; failures are retried.
#[derive(Debug)]
pub struct BmcNames {
    known: Mutex<HashMap<String, HashMap<String, Known>>>,
    lookups: Lookups,
}

impl Default for BmcNames {
    fn default() -> Self {
        Self::with(Lookups::new(RESOLVE / 2))
    }
}

#[derive(Clone, Debug)]
enum Known {
    Resolved { is_ipv6: bool },
    Unresolved { why: String, at: Duration },
}

impl BmcNames {
    fn with(lookups: Lookups) -> Self {
        Self {
            known: Mutex::default(),
            lookups,
        }
    }

    /// Whether the first address of a name is IPv6. `now` is on the scale of [`metal3_runtime::Clock::elapsed`].
    ///
    /// # Errors
    ///
    /// The reason, for the user, if the name cannot be resolved, now or a moment ago.
    pub async fn is_ipv6(&self, namespace: &str, name: &str, now: Duration) -> Result<bool, String> {
        match self.lock().get(namespace).and_then(|names| names.get(name)) {
            Some(Known::Resolved { is_ipv6 }) => return Ok(*is_ipv6),
            Some(Known::Unresolved { why, at }) if now.saturating_sub(*at) < UNRESOLVED => return Err(why.clone()),
            Some(Known::Unresolved { .. }) | None => {}
        }
        let found = resolve(&self.lookups.of(namespace), name.to_owned()).await;
        let known = match &found {
            Ok(is_ipv6) => Known::Resolved { is_ipv6: *is_ipv6 },
            Err(why) => Known::Unresolved {
                why: why.clone(),
                at: now,
            },
        };
        self.remember(namespace, name.to_owned(), known);
        found
    }

    fn remember(&self, namespace: &str, name: String, known: Known) {
        let mut all = self.lock();
        if all.values().map(HashMap::len).sum::<usize>() >= MOST
            && let Some(largest) = all.values_mut().max_by_key(|names| names.len())
        {
            largest.clear();
        }
        all.entry(namespace.to_owned()).or_default().insert(name, known);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, HashMap<String, Known>>> {
        self.known.lock()
    }
}

async fn resolve(places: &Places, name: String) -> Result<bool, String> {
    let lookup = places.run(move || (name.as_str(), 0).to_socket_addrs());
    let mut addresses = match tokio::time::timeout(RESOLVE, lookup).await {
        Ok(Ok(addresses)) => addresses,
        Ok(Err(error)) => return Err(error.to_string()),
        Err(_) => return Err(format!("no answer within {} s", RESOLVE.as_secs())),
    };
    let first = addresses.next().ok_or("it has no address")?;
    Ok(first.is_ipv6())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_is_resolved_once_and_asked_for_again_while_it_cannot_be() {
        let names = BmcNames::default();
        let at = Duration::from_secs;
        assert_eq!(names.is_ipv6("ns", "::1", at(0)).await, Ok(true));
        assert_eq!(names.is_ipv6("ns", "127.0.0.1", at(0)).await, Ok(false));
        let know = |known| names.remember("ns", "127.0.0.1".to_owned(), known);
        // It is not resolved again: this name would not resolve to that.
        know(Known::Resolved { is_ipv6: true });
        assert_eq!(names.is_ipv6("ns", "127.0.0.1", at(1000)).await, Ok(true));
        know(Known::Unresolved {
            why: "no answer".to_owned(),
            at: at(1000),
        });
        assert_eq!(
            names.is_ipv6("ns", "127.0.0.1", at(1029)).await,
            Err("no answer".to_owned())
        );
        assert_eq!(names.is_ipv6("ns", "127.0.0.1", at(1030)).await, Ok(false));

        let wrong = "no name at all";
        let why = names.is_ipv6("ns", wrong, at(7)).await.unwrap_err();
        let known = names.lock()["ns"].get(wrong).cloned();
        assert!(matches!(known, Some(Known::Unresolved { why: kept, at: since }) if kept == why && since == at(7)));
    }

    // OWN 30xl: lookups that did not end took the threads of all hosts, although nothing waited for them.
    #[tokio::test(start_paused = true)]
    async fn a_lookup_without_a_place_is_not_started() {
        let names = BmcNames::with(Lookups::of_at_most(0, 1, RESOLVE / 2));
        let why = names.is_ipv6("ns", "::1", Duration::ZERO).await.unwrap_err();
        assert!(why.contains("lookups for its namespace have not ended"), "{why}");
    }

    // OWN 27c: a user who gave a host one address after the other filled the memory with names.
    #[test]
    fn no_more_names_are_remembered_than_there_is_room_for() {
        let names = BmcNames::default();
        let count = |namespace: &str| names.lock().get(namespace).map_or(0, HashMap::len);
        names.remember("other", "bmc".to_owned(), Known::Resolved { is_ipv6: true });
        for number in 0..MOST + 5 {
            names.remember("ns", number.to_string(), Known::Resolved { is_ipv6: false });
            assert!(count("ns") + count("other") <= MOST);
        }
        assert_eq!(
            (count("ns"), count("other")),
            (6, 1),
            "the other one has its name still"
        );
    }
}
