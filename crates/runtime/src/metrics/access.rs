//! Access to the metrics: every caller that the cluster authorizes to `get` the URL `/metrics`.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use parking_lot::Mutex;

use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec},
    authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use crate::Clock;

/// The verdict on a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// May read.
    Allowed,
    /// Known, but may not read.
    Forbidden,
    /// The token is unknown.
    Unauthenticated,
}

/// Authorizes callers by their bearer tokens.
pub trait Access: Send + Sync + 'static {
    /// The verdict on the caller with this token. An error means that it cannot be determined at the moment.
    fn judge(&self, token: &str) -> impl Future<Output = Result<Decision, kube::Error>> + Send;
}

/// Asks the API server: TokenReview, then SubjectAccessReview. Needs the permission to create both.
#[derive(Clone)]
pub struct KubeAccess(Client);

impl KubeAccess {
    /// With a client that may create both.
    pub fn new(client: Client) -> Self {
        Self(client)
    }
}

impl Access for KubeAccess {
    async fn judge(&self, token: &str) -> Result<Decision, kube::Error> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: Some(token.to_owned()),
                audiences: None,
            },
            ..TokenReview::default()
        };
        let reviews: Api<TokenReview> = Api::all(self.0.clone());
        let status = reviews
            .create(&PostParams::default(), &review)
            .await?
            .status
            .unwrap_or_default();
        let (Some(true), Some(user)) = (status.authenticated, status.user) else {
            return Ok(Decision::Unauthenticated);
        };
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: user.username,
                uid: user.uid,
                groups: user.groups,
                extra: user.extra.map(BTreeMap::into_iter).map(Iterator::collect),
                non_resource_attributes: Some(NonResourceAttributes {
                    path: Some("/metrics".into()),
                    verb: Some("get".into()),
                }),
                resource_attributes: None,
            },
            ..SubjectAccessReview::default()
        };
        let reviews: Api<SubjectAccessReview> = Api::all(self.0.clone());
        let answer = reviews.create(&PostParams::default(), &review).await?;
        let allowed = answer
            .status
            .is_some_and(|status| status.allowed && status.denied != Some(true));
        Ok(if allowed {
            Decision::Allowed
        } else {
            Decision::Forbidden
        })
    }
}

/// Caches verdicts for a while, by the token's hash, so that most scrapes cost no request.
#[derive(Debug)]
pub struct Gate<A> {
    access: A,
    clock: Clock,
    decisions: Mutex<HashMap<[u8; 32], (Decision, Duration)>>,
    /// Unknown callers may send any number of tokens; this limits the load on the API server.
    asking: Semaphore,
}

/// A revoked permission still works for this long.
const REMEMBER_ALLOWED: Duration = Duration::from_secs(60);
/// A new permission takes this long to work.
const REMEMBER_OTHERS: Duration = Duration::from_secs(10);
const MAX_REMEMBERED: usize = 1024;

impl<A: Access> Gate<A> {
    pub fn new(access: A, clock: Clock) -> Self {
        Self {
            access,
            clock,
            decisions: Mutex::default(),
            asking: Semaphore::new(2),
        }
    }

    pub async fn judge(&self, token: &str) -> Result<Decision, kube::Error> {
        let hash: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        if let Some(decision) = self.remembered(&hash) {
            return Ok(decision);
        }
        let permit = self.asking.acquire().await; // never closed
        if let Some(decision) = self.remembered(&hash) {
            return Ok(decision); // somebody asked the same while we waited
        }
        let decision = self.access.judge(token).await?;
        drop(permit);
        let keep = if decision == Decision::Allowed {
            REMEMBER_ALLOWED
        } else {
            REMEMBER_OTHERS
        };
        let now = self.clock.elapsed();
        let mut decisions = self.decisions.lock();
        if decisions.len() >= MAX_REMEMBERED {
            decisions.retain(|_, (_, until)| now < *until);
        }
        if decisions.len() < MAX_REMEMBERED {
            decisions.insert(hash, (decision, now + keep));
        }
        Ok(decision)
    }

    fn remembered(&self, hash: &[u8; 32]) -> Option<Decision> {
        let decisions = self.decisions.lock();
        let (decision, until) = decisions.get(hash)?;
        (self.clock.elapsed() < *until).then_some(*decision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mock;
    use jiff::Timestamp;
    use serde_json::json;

    #[tokio::test]
    async fn the_cluster_decides_and_is_asked_once_a_minute() {
        let (client, requests) = mock::answering(|request| {
            let mut answer = request.body.clone();
            if request.path.ends_with("/tokenreviews") {
                let known = request.body["spec"]["token"] != "unknown";
                let user = json!({ "username": request.body["spec"]["token"], "groups": ["g"] });
                answer["status"] = json!({ "authenticated": known, "user": user });
            } else {
                assert_eq!(
                    request.body["spec"]["nonResourceAttributes"],
                    json!({ "path": "/metrics", "verb": "get" })
                );
                assert_eq!(request.body["spec"]["groups"], json!(["g"]));
                answer["status"] = json!({ "allowed": request.body["spec"]["user"] == "prometheus" });
            }
            (201, answer)
        });
        let clock = Clock::manual(Timestamp::UNIX_EPOCH);
        let gate = Gate::new(KubeAccess::new(client), clock.clone());
        assert_eq!(gate.judge("prometheus").await.unwrap(), Decision::Allowed);
        assert_eq!(gate.judge("stranger").await.unwrap(), Decision::Forbidden);
        assert_eq!(gate.judge("unknown").await.unwrap(), Decision::Unauthenticated);
        assert_eq!(requests.lock().len(), 5);
        clock.advance(Duration::from_secs(30));
        assert_eq!(gate.judge("prometheus").await.unwrap(), Decision::Allowed);
        assert_eq!(requests.lock().len(), 5);
        assert_eq!(gate.judge("unknown").await.unwrap(), Decision::Unauthenticated);
        assert_eq!(requests.lock().len(), 6);
        clock.advance(Duration::from_secs(30));
        assert_eq!(gate.judge("prometheus").await.unwrap(), Decision::Allowed);
        assert_eq!(requests.lock().len(), 8);
    }

    #[tokio::test]
    async fn an_unreachable_cluster_is_not_remembered() {
        let (client, _) = mock::answering(|_| mock::failure(500, "InternalError"));
        let gate = Gate::new(KubeAccess::new(client), Clock::system());
        gate.judge("prometheus").await.unwrap_err();
        gate.judge("prometheus").await.unwrap_err();
    }
}
