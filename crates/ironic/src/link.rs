//! Where Ironic is may be known only later, and may change.

use tokio::sync::watch;

use crate::client::Client;
use crate::error::{Error, Reason};
use crate::observe::Operation;

/// The way to Ironic as it is at the moment: a client, or why there is none. Clones share it.
#[derive(Clone, Debug)]
pub struct Link(watch::Sender<State>);

#[derive(Debug)]
enum State {
    /// Nobody has said anything yet.
    Unsaid,
    /// There is no Ironic to be called, for this reason.
    Absent(String),
    /// It is called with this client.
    There(Client),
}

impl Link {
    /// A way that others will tell of; the reason is told to those who ask earlier.
    pub fn unsaid() -> Self {
        Self(watch::Sender::new(State::Unsaid))
    }

    /// A way that is known.
    pub fn to(client: Client) -> Self {
        Self(watch::Sender::new(State::There(client)))
    }

    /// Ironic is reached with this client from now on. Calls that are under way end with the one that they began with.
    pub fn set(&self, client: Client) {
        self.0.send_replace(State::There(client));
    }

    /// There is no Ironic to be called, for this reason, which is shown to users.
    pub fn unset(&self, why: impl Into<String>) {
        self.0.send_replace(State::Absent(why.into()));
    }

    /// The client to call with now. To be asked for every call.
    ///
    /// # Errors
    ///
    /// One of class [`Absent`](crate::ErrorClass::Absent) where there is none.
    pub fn client(&self) -> Result<Client, Error> {
        let why = match &*self.0.borrow() {
            State::There(client) => return Ok(client.clone()),
            State::Absent(why) => why.clone(),
            State::Unsaid => "it is not known yet where Ironic is".to_owned(),
        };
        Err(Error::new(Operation::Discover, None, Reason::Absent(why)))
    }

    /// Returns when somebody has told where Ironic is, or that there is none.
    pub async fn told(&self) {
        let mut states = self.0.subscribe();
        // The sender lives in `self`.
        states.wait_for(|state| !matches!(state, State::Unsaid)).await.ok();
    }

    /// Returns when the way was changed after this call.
    pub fn exchanged(&self) -> impl Future<Output = ()> + use<> {
        let mut states = self.0.subscribe();
        async move {
            if states.changed().await.is_err() {
                // Nobody is left who could change it.
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
