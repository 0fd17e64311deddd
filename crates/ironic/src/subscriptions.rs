//! Subscriptions to the events of a BMC, through the vendor passthru of Ironic's Redfish drivers.

use std::fmt;

use reqwest::Method;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use crate::client::{Call, Client, Pace};
use crate::error::{Error, Reason};
use crate::nodes::accepted;
use crate::observe::Operation;
use crate::view::View;

/// A subscription to create.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct NewSubscription {
    /// The URL that the BMC sends its events to.
    pub destination: String,
    /// A text that the BMC puts into every event; empty means none.
    pub context: String,
    /// Names and values of HTTP headers that the BMC sends along. The values are secrets.
    pub headers: Vec<(String, String)>,
}

impl fmt::Debug for NewSubscription {
    /// Without the values of headers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("NewSubscription")
            .field("destination", &crate::without_url_secrets(&self.destination))
            .field("context", &self.context)
            .field("headers", &headers)
            .finish()
    }
}

/// A subscription that a BMC has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// Its identifier on the BMC.
    pub id: String,
    /// The URL that events are sent to.
    pub destination: String,
    /// The text in every event.
    pub context: String,
}

impl<'de> Deserialize<'de> for Subscription {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let record = Value::deserialize(deserializer)?;
        let text = |key| View::of(&record).text(key).unwrap_or_default();
        let id = text("Id");
        if id.is_empty() {
            return Err(serde::de::Error::missing_field("Id"));
        }
        Ok(Self {
            id,
            destination: text("Destination"),
            context: text("Context"),
        })
    }
}

/// The answer to a request for all subscriptions: a Redfish collection, whose members are links.
struct Members(Vec<String>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let record = Value::deserialize(deserializer)?;
        let links = View::of(&record)
            .list("Members")
            .filter_map(|member| member.text("@odata.id"));
        let last = |link: String| link.trim_end_matches('/').rsplit('/').next().map(str::to_owned);
        Ok(Self(links.filter_map(last).collect()))
    }
}

impl Client {
    /// Has a node's BMC send its events to a URL; returns the identifier of the subscription. The BMC is asked before
    /// this returns.
    pub async fn subscribe(&self, id: &str, wanted: &NewSubscription) -> Result<String, Error> {
        let mut body = json!({"Destination": wanted.destination});
        if !wanted.context.is_empty() {
            body["Context"] = wanted.context.as_str().into();
        }
        if !wanted.headers.is_empty() {
            let single = |(name, value): &(String, String)| Map::from_iter([(name.clone(), json!(value))]);
            body["HttpHeaders"] = wanted.headers.iter().map(single).collect();
        }
        let (operation, method) = (Operation::Subscribe, Method::POST);
        let made: Subscription = self
            .vendor(operation, id, method, &[("method", "create_subscription")], Some(body))
            .await?;
        Ok(made.id)
    }

    /// Ends a subscription. [`NotFound`](crate::ErrorClass::NotFound) may mean that the node, or the subscription, is gone, or
    /// that the BMC refused: see [`Self::subscriptions`].
    pub async fn unsubscribe(&self, id: &str, subscription: &str) -> Result<(), Error> {
        let operation = Operation::Unsubscribe;
        let path = ["nodes", id, "vendor_passthru"];
        let url = self.address(operation, Some(id), &path, &[("method", "delete_subscription")])?;
        let call = Call {
            pace: Pace::Bmc,
            ..Call::get(operation, &[])
                .method(Method::DELETE)
                .node(id)
                .body(json!({"id": subscription}))
        };
        accepted(self.call_at(url, call).await)
    }

    /// The identifiers of all subscriptions of a node's BMC, whoever made them.
    pub async fn subscriptions(&self, id: &str) -> Result<Vec<String>, Error> {
        let query = [("method", "get_all_subscriptions")];
        let operation = Operation::ListSubscriptions;
        let members: Members = self.vendor(operation, id, Method::GET, &query, None).await?;
        Ok(members.0)
    }

    /// One subscription of a node's BMC.
    pub async fn subscription(&self, id: &str, subscription: &str) -> Result<Subscription, Error> {
        let operation = Operation::ListSubscriptions;
        if subscription.is_empty() {
            let why = "the identifier of the subscription is empty";
            return Err(Error::new(operation, Some(id), Reason::Senseless(why)));
        }
        // Ironic reads arguments of a driver's method from the body of a GET, too, and rejects them in the query.
        let body = json!({ "id": subscription });
        self.vendor(
            operation,
            id,
            Method::GET,
            &[("method", "get_subscription")],
            Some(body),
        )
        .await
    }

    async fn vendor<T: serde::de::DeserializeOwned>(
        &self,
        operation: Operation,
        id: &str,
        method: Method,
        query: &[(&str, &str)],
        body: Option<Value>,
    ) -> Result<T, Error> {
        let url = self.address(operation, Some(id), &["nodes", id, "vendor_passthru"], query)?;
        let call = Call {
            pace: Pace::Bmc,
            body,
            ..Call::get(operation, &[]).method(method).node(id)
        };
        let answer = self.call_at(url, call).await?;
        crate::client::parse(operation, Some(id), &answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_named_by_the_end_of_their_links() {
        let answer = json!({"Members@odata.count": 2, "Members": [
            {"@odata.id": "/redfish/v1/EventService/Subscriptions/a"},
            {"@odata.id": "/redfish/v1/EventService/Subscriptions/b/"}, {}, 3]});
        let found: Members = serde_json::from_value(answer).unwrap();
        assert_eq!(found.0, ["a", "b"]);
    }

    #[test]
    fn header_values_are_not_shown() {
        let wanted = NewSubscription {
            destination: "https://user:hunter2@e/".into(),
            context: String::new(),
            headers: vec![("X-Auth".into(), "hunter2".into())],
        };
        let shown = format!("{wanted:?}");
        assert!(shown.contains("X-Auth") && !shown.contains("hunter2"), "{shown}");
        // OWN 30dd: Ironic quotes the whole request where a BMC refuses it.
        let body = json!({"HttpHeaders": [{"X-Auth": "hunter2"}]});
        assert_eq!(crate::fields::secrets_in(&body), ["hunter2"]);
    }

    #[test]
    fn a_subscription_without_an_identifier_is_none() {
        let parse = |answer: Value| serde_json::from_value::<Subscription>(answer).ok();
        assert_eq!(parse(json!({"Destination": "https://e/"})), None);
        let found = parse(json!({"Id": 7, "Destination": "https://e/", "Context": null})).unwrap();
        assert_eq!((found.id.as_str(), found.context.as_str()), ("7", ""));
    }
}
