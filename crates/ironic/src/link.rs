//! A connection to an Ironic whose location may become known later, and may change.

use tokio::sync::watch;

use crate::client::Client;
use crate::error::{Error, Reason};
use crate::observe::Operation;

/// The current connection to Ironic: a client, or why there is none. Clones share it.
#[derive(Clone, Debug)]
pub struct Link(watch::Sender<State>);

#[derive(Debug)]
enum State {
    /// Not known yet.
    Unsaid,
    /// There is no Ironic to call, for this reason.
    Absent(String),
    /// It is called with this client.
    There(Client),
}

impl Link {
    /// A link that will be set later; earlier calls fail with the reason.
    pub fn unsaid() -> Self {
        Self(watch::Sender::new(State::Unsaid))
    }

    /// A link with a known client.
    pub fn to(client: Client) -> Self {
        Self(watch::Sender::new(State::There(client)))
    }

    /// Uses this client from now on. Calls in progress end with the client that they started with.
    pub fn set(&self, client: Client) {
        self.0.send_replace(State::There(client));
    }

    /// There is no Ironic to call, for this reason, which is shown to users.
    pub fn unset(&self, why: impl Into<String>) {
        self.0.send_replace(State::Absent(why.into()));
    }

    /// The current client. Call this for every request.
    ///
    /// # Errors
    ///
    /// One of class [`Absent`](crate::ErrorClass::Absent) if there is none.
    pub fn client(&self) -> Result<Client, Error> {
        let why = match &*self.0.borrow() {
            State::There(client) => return Ok(client.clone()),
            State::Absent(why) => why.clone(),
            State::Unsaid => "it is not known yet where Ironic is".to_owned(),
        };
        Err(Error::new(Operation::Discover, None, Reason::Absent(why)))
    }

    /// Returns once the location of Ironic, or its absence, is known.
    pub async fn told(&self) {
        let mut states = self.0.subscribe();
        // The sender lives in `self`.
        states.wait_for(|state| !matches!(state, State::Unsaid)).await.ok();
    }

    /// Returns when the link changes after this call.
    pub fn exchanged(&self) -> impl Future<Output = ()> + use<> {
        let mut states = self.0.subscribe();
        async move {
            if states.changed().await.is_err() {
                // The sender is gone, so nothing can change it.
                std::future::pending::<()>().await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClientConfig, ErrorClass, Url};

    fn client() -> Client {
        Client::new(ClientConfig::new(Url::parse("http://127.0.0.1:1").unwrap())).unwrap()
    }

    #[tokio::test]
    async fn callers_get_the_client_of_the_moment_or_the_reason_why_there_is_none() {
        let link = Link::unsaid();
        assert_eq!(link.client().unwrap_err().class(), ErrorClass::Absent);
        tokio::join!(link.told(), async { link.unset("Ironic metal3/ironic does not exist") });
        let error = link.client().unwrap_err();
        assert_eq!(
            (error.class(), error.message()),
            (ErrorClass::Absent, "Ironic metal3/ironic does not exist".into())
        );

        let exchanged = link.exchanged();
        let first = client();
        link.set(first.clone());
        exchanged.await;
        assert!(link.client().unwrap().is(&first));
        let second = client();
        link.set(second.clone());
        let now = link.client().unwrap();
        assert!(now.is(&second) && !now.is(&first));
    }
}
