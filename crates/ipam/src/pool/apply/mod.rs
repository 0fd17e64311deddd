//! Applies decisions: one request per effect, with its response as data.

mod bodies;

use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, Resource};
use metal3_api::capi;
use metal3_api::ipam::{self, IPPool};
use metal3_runtime::error::{chain, is_conflict, is_not_found};
use metal3_runtime::find::find;
use metal3_runtime::patch;
use metal3_runtime::readable::Readable;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::effect::{Effect, NewAddress, Objects, Outcome, Snapshot};
use super::lists::Lists;
use super::objects::{Address, Claim, Family, Version, version};

/// A client for one namespace.
#[derive(Clone)]
pub struct Server {
    client: Client,
    namespace: String,
    pool: String,
    lists: Lists,
}

/// A kind that is written here, and how its response is read.
trait Seen:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Serialize + Debug
{
    fn outcome(&self) -> Outcome;
}

macro_rules! seen {
    ($($kind:ty => $outcome:ident($seen:ty)),* $(,)?) => {$(
        impl Seen for $kind {
            fn outcome(&self) -> Outcome {
                Outcome::$outcome(Arc::new(<$seen>::from(self)))
            }
        }
    )*};
}

seen! {
    ipam::IPClaim => Claim(Claim),
    capi::IPAddressClaim => Claim(Claim),
    ipam::IPAddress => Address(Address),
    capi::IPAddress => Address(Address),
}

impl Seen for IPPool {
    fn outcome(&self) -> Outcome {
        Outcome::Pool(Arc::new(self.clone()))
    }
}

/// Calls with the kind of a family, for claims or for addresses.
macro_rules! by_family {
    ($family:expr, $self:ident.$call:ident::<IPAddress>($($argument:expr),*)) => {
        match $family {
            Family::Metal3 => $self.$call::<ipam::IPAddress>($($argument),*).await,
            Family::ClusterApi => $self.$call::<capi::IPAddress>($($argument),*).await,
        }
    };
    ($family:expr, $self:ident.$call:ident::<IPClaim>($($argument:expr),*)) => {
        match $family {
            Family::Metal3 => $self.$call::<ipam::IPClaim>($($argument),*).await,
            Family::ClusterApi => $self.$call::<capi::IPAddressClaim>($($argument),*).await,
        }
    };
}

impl Server {
    /// For the pool `namespace/pool`, with the lists shared by all pools.
    pub fn new(client: Client, lists: Lists, namespace: &str, pool: &str) -> Self {
        Self {
            client,
            namespace: namespace.to_owned(),
            pool: pool.to_owned(),
            lists,
        }
    }

    /// Applies one effect. Never fails: a failure is an outcome, too.
    pub async fn apply(&self, effect: &Effect) -> Outcome {
        match effect {
            Effect::Refresh(_) => self.refresh().await,
            Effect::Pool(meta) => {
                let body = json!({ "metadata": meta });
                self.merge::<IPPool>(&self.pool, &body, None).await
            }
            Effect::Record(record) => {
                let body = bodies::pool_status(record);
                self.merge::<IPPool>(&self.pool, &body, Some("status")).await
            }
            Effect::AddFinalizer(claim) => {
                let finalizer = claim.key.family.claim_finalizer();
                let body = patch::finalizer_added(&bodies::seen(&claim.meta), finalizer);
                self.patch_claim(claim, &body.unwrap_or(Value::Null), None).await
            }
            Effect::Release(claim) => {
                let finalizer = claim.key.family.claim_finalizer();
                let body = patch::finalizer_removed(&bodies::seen(&claim.meta), finalizer);
                self.patch_claim(claim, &body.unwrap_or(Value::Null), None).await
            }
            Effect::Report(claim, report) => {
                let body = bodies::claim_status(claim, report, &self.namespace);
                self.patch_claim(claim, &body, Some("status")).await
            }
            Effect::Create(new) => match new.claim.key.family {
                Family::Metal3 => self.create(&bodies::metal3_address(new, &self.namespace)).await,
                Family::ClusterApi => self.create(&bodies::capi_address(new)).await,
            },
            Effect::Own(address, new) => by_family!(address.id.family, self.own::<IPAddress>(address, new)),
            Effect::Unlock(address) => {
                let finalizer = address.id.family.address_finalizer();
                let body = patch::finalizer_removed(&bodies::seen(&address.meta), finalizer).unwrap_or(Value::Null);
                by_family!(
                    address.id.family,
                    self.merge::<IPAddress>(&address.id.name, &body, None)
                )
            }
            Effect::Delete(address) => by_family!(address.id.family, self.delete::<IPAddress>(address)),
        }
    }

    fn api<K: Seen>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    async fn refresh(&self) -> Outcome {
        let pool = match find(&self.api::<IPPool>(), &self.pool).await {
            Ok(pool) => pool.map(Arc::new),
            Err(error) => return failed(&error),
        };
        match self.lists.all(&self.client, &self.namespace).await {
            Ok(objects) => Outcome::Snapshot(Snapshot { pool, objects }),
            Err(error) => failed(&error),
        }
    }

    async fn patch_claim(&self, claim: &Claim, body: &Value, part: Option<&'static str>) -> Outcome {
        by_family!(claim.key.family, self.merge::<IPClaim>(&claim.key.name, body, part))
    }

    /// A merge patch that contains its own guards.
    async fn merge<K: Seen>(&self, name: &str, body: &Value, part: Option<&'static str>) -> Outcome {
        // An older CRD lacks some of our fields. Without this, the server would return one warning for each address, in headers
        // that are too long when there are many.
        let params = PatchParams::default().validation_ignore();
        let (api, body) = (self.api::<K>(), Patch::Merge(body));
        let answer = match part {
            Some(_) => api.patch_status(name, &params, &body).await,
            None => api.patch(name, &params, &body).await,
        };
        match answer {
            Ok(object) => object.outcome(),
            Err(error) if is_not_found(&error) => Outcome::Absent,
            // The server rejects the UID of another object of this name as invalid.
            Err(error) if is_conflict(&error) || is_invalid(&error) => {
                self.instead::<K>(name, (!is_conflict(&error)).then_some(&error)).await
            }
            Err(error) => failed(&error),
        }
    }

    /// The current object, after a rejected write.
    async fn instead<K: Seen>(&self, name: &str, refused: Option<&kube::Error>) -> Outcome {
        match self.api::<K>().get_opt(name).await {
            Ok(Some(object)) => match (refused, object.outcome()) {
                // The write itself is invalid.
                (Some(error), _) if !is_about_uid(error) => failed(error),
                (_, there) => Outcome::Stale(Box::new(there)),
            },
            Ok(None) => Outcome::Stale(Box::new(Outcome::Absent)),
            Err(error) => failed(&error),
        }
    }

    async fn create<K: Seen>(&self, object: &K) -> Outcome {
        let name = object.meta().name.clone().unwrap_or_default();
        match self.api::<K>().create(&PostParams::default(), object).await {
            Ok(made) => made.outcome(),
            Err(error) if is_conflict(&error) => self.instead::<K>(&name, None).await,
            Err(error) => failed(&error),
        }
    }

    /// Reads the object's owners first: the cache keeps only ours.
    async fn own<K: Seen>(&self, address: &Address, new: &NewAddress) -> Outcome {
        let name = &address.id.name;
        match self.api::<K>().get_opt(name).await {
            Ok(Some(there)) if version(there.meta()) == address.meta.version => {
                self.merge::<K>(name, &bodies::owned(there.meta(), new), None).await
            }
            Ok(there) => Outcome::Stale(Box::new(there.map_or(Outcome::Absent, |there| there.outcome()))),
            Err(error) => failed(&error),
        }
    }

    async fn delete<K: Seen>(&self, address: &Address) -> Outcome {
        let name = &address.id.name;
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(address.meta.uid.clone()),
                resource_version: Some(address.meta.version.to_string()),
            }),
            ..DeleteParams::default()
        };
        match self.api::<K>().delete(name, &params).await {
            Ok(answer) => answer.left().map_or(Outcome::Absent, |object| object.outcome()),
            Err(error) if is_not_found(&error) => Outcome::Absent,
            Err(error) if is_conflict(&error) => self.instead::<K>(name, None).await,
            Err(error) => failed(&error),
        }
    }
}

fn failed(error: &kube::Error) -> Outcome {
    Outcome::Failed(chain(error).to_string())
}

/// All objects of a namespace: first the addresses, then the claims, so that a missing claim is known to be gone.
pub(super) async fn list_all(client: &Client, namespace: &str) -> Result<Objects, kube::Error> {
    let addresses = futures::try_join!(
        list::<ipam::IPAddress, Address>(client, namespace),
        list::<capi::IPAddress, Address>(client, namespace)
    )?;
    let claims = futures::try_join!(
        list::<ipam::IPClaim, Claim>(client, namespace),
        list::<capi::IPAddressClaim, Claim>(client, namespace)
    )?;
    Ok(Objects {
        addresses_as_of: [addresses.0.1, addresses.1.1],
        addresses: [addresses.0.0, addresses.1.0].concat(),
        claims_as_of: [claims.0.1, claims.1.1],
        claims: [claims.0.0, claims.1.0].concat(),
    })
}

/// The objects of one kind, with the list's version. One that cannot be read fails the list: its address would count as free.
async fn list<K: Seen, T>(client: &Client, namespace: &str) -> Result<(Vec<Arc<T>>, Version), kube::Error>
where
    T: for<'a> From<&'a K>,
{
    // Without a version, the server reads from etcd, so the list includes every earlier write.
    let api: Api<Readable<K>> = Api::namespaced_with(client.clone(), namespace, &());
    let list = api.list(&ListParams::default()).await?;
    let version = list.metadata.resource_version.and_then(|version| version.parse().ok());
    let mut objects = Vec::with_capacity(list.items.len());
    for object in list.items {
        objects.push(Arc::new(T::from(&object.read()?)));
    }
    Ok((objects, version.unwrap_or_default()))
}

/// Whether the server rejects the content as invalid.
fn is_invalid(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_invalid())
}

/// Whether the server names the UID as invalid. The message alone is ambiguous, because it also contains object names.
fn is_about_uid(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else {
        return false;
    };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.field == "metadata.uid")
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use kube::core::Status;
    use metal3_testkit::played::{self, Request};

    use super::*;

    // OWN 31ra: one claim with a time that cannot be read stopped all pools of its namespace.
    #[tokio::test]
    async fn a_claim_with_a_time_that_cannot_be_read_stops_no_pool() {
        let claim = json!({"metadata": {"name": "odd", "namespace": "ns", "resourceVersion": "7",
            "managedFields": [{"manager": "m", "time": "9999-12-31T23:59:59Z"}]}, "spec": {"pool": {"name": "p"}}});
        let mut wrong = claim.clone();
        wrong["spec"]["pool"] = json!(7);
        let listed = async |claim: Value| {
            let client = played::client("ns", move |request: Request| {
                let items: Vec<_> = request
                    .path
                    .ends_with("/ipclaims")
                    .then_some(&claim)
                    .into_iter()
                    .collect();
                ready((200, json!({"metadata": {"resourceVersion": "9"}, "items": items})))
            });
            list_all(&client, "ns").await
        };
        let claims = listed(claim).await.unwrap().claims;
        assert_eq!(claims.iter().map(|claim| &claim.key.name).collect::<Vec<_>>(), ["odd"]);
        let error = listed(wrong).await.expect_err("its address must not count as free");
        let error = error.to_string();
        assert!(error.contains("IPClaim ns/odd does not fit its type"), "{error}");
    }

    /// As the server refuses a patch of a claim of this name.
    fn refused(name: &str, field: &str, why: &str) -> kube::Error {
        let status = json!({
            "status": "Failure", "reason": "Invalid", "code": 422,
            "message": format!("IPClaim.ipam.metal3.io \"{name}\" is invalid: {field}: {why}"),
            "details": {
                "name": name, "group": "ipam.metal3.io", "kind": "IPClaim",
                "causes": [{"reason": "FieldValueInvalid", "message": why, "field": field}],
            },
        });
        let status: Status = serde_json::from_value(status).unwrap();
        kube::Error::Api(status.boxed())
    }

    #[test]
    fn what_is_refused_because_of_its_uid_is_told_by_the_field_that_the_server_names() {
        let immutable = "Invalid value: \"8d5c\": field is immutable";
        assert!(is_about_uid(&refused("c", "metadata.uid", immutable)));
        let too_long = "Too long: may not be more than 32768 bytes";
        assert!(!is_about_uid(&refused(
            "fluid-1",
            "status.conditions[0].message",
            too_long
        )));
    }
}
