//! Reads of objects whose names are texts that users wrote.

use std::fmt::Debug;

use kube::Api;
use kube::core::PartialObjectMeta;
use metal3_api::labels::is_subdomain;
use serde::de::DeserializeOwned;

/// The object of this name. A text that is no name has none: kube would fail to make a request of some, which is no fault of the
/// API server, and make another request of others.
pub async fn find<K: Clone + DeserializeOwned + Debug>(api: &Api<K>, name: &str) -> Result<Option<K>, kube::Error> {
    if is_subdomain(name) {
        api.get_opt(name).await
    } else {
        Ok(None)
    }
}

/// The same, of the metadata only.
pub async fn find_metadata<K: Clone + DeserializeOwned + Debug>(
    api: &Api<K>,
    name: &str,
) -> Result<Option<PartialObjectMeta<K>>, kube::Error> {
    if is_subdomain(name) {
        api.get_metadata_opt(name).await
    } else {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Secret;

    use super::*;

    // OWN 31sa: reading `a b` failed as a bug of ours, again and again.
    #[tokio::test]
    async fn a_text_that_is_no_name_has_no_object() {
        let (client, requests) = crate::mock::echo();
        let secrets: Api<Secret> = Api::namespaced(client, "ns");
        for text in ["", "a b", "?watch=true", "../s", "s?watch=true#", "ä", "S"] {
            assert!(find(&secrets, text).await.unwrap().is_none(), "{text}");
            assert!(find_metadata(&secrets, text).await.unwrap().is_none(), "{text}");
        }
        assert!(requests.lock().is_empty());
    }
}
