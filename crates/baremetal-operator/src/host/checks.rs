//! The checks of one host's credentials at its BMC. The host and its companions may need the answer at the same time.

use std::sync::Arc;
use std::time::Duration;

use metal3_runtime::timing::operator::{ACCEPTED, PROOF_AGAIN};
use tokio::sync::Mutex;

use super::observed::Lookup;

/// What the BMC says to the credentials; `NotFound` if it cannot be asked.
pub type Answer = Lookup<Result<(), String>>;

/// What a check is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The location of the BMC, and of the system behind it.
    pub location: String,
    /// Whether any certificate of the BMC is accepted.
    pub is_unverified: bool,
    /// The digest of user name and password.
    pub digest: u64,
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// The host, which remembers itself what was refused.
    Host,
    /// The controller of a companion. A refusal counts for [`PROOF_AGAIN`].
    Companion,
}

impl Asker {
    /// How long this answer counts for it.
    fn trusts(self, answer: &Answer) -> Duration {
        match (answer, self) {
            (Lookup::Found(Ok(())), _) => ACCEPTED,
            (_, Self::Companion) => PROOF_AGAIN,
            (_, Self::Host) => Duration::ZERO,
        }
    }
}

/// Makes one check at a time: each is made through a node of one name, and two would delete each other's. Who has waited for
/// another's check takes its answer, and an answer counts for some time: a BMC locks accounts that are tried too often.
#[derive(Clone, Debug, Default)]
pub struct Checks(Arc<Mutex<Option<Checked>>>);

#[derive(Debug)]
struct Checked {
    access: Access,
    answer: Answer,
    /// On the scale of [`metal3_runtime::Clock::elapsed`].
    at: Duration,
}

impl Checks {
    /// The answer to this access, checked if it is not known at this time, on the scale of
    /// [`metal3_runtime::Clock::elapsed`].
    ///
    /// # Errors
    ///
    /// Those of the check, after which nothing is known.
    pub async fn answer<E>(
        &self,
        access: Access,
        asker: Asker,
        now: Duration,
        check: impl Future<Output = Result<Answer, E>>,
    ) -> Result<Answer, E> {
        let (mut last, has_waited) = match self.0.try_lock() {
            Ok(free) => (free, false),
            Err(_) => (self.0.lock().await, true),
        };
        if let Some(last) = &*last
            && last.access == access
            && (has_waited || now < last.at + asker.trusts(&last.answer))
        {
            return Ok(last.answer.clone());
        }
        *last = None;
        let answer = check.await?;
        *last = Some(Checked {
            access,
            answer: answer.clone(),
            at: now,
        });
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use rstest::rstest;

    use super::*;

    fn access(digest: u64) -> Access {
        Access {
            location: "https://192.0.2.1 /redfish/v1/Systems/1".to_owned(),
            is_unverified: false,
            digest,
        }
    }

    // OWN 31wo: the host and its companions checked its credentials at once, and deleted each other's node for it: the BMC
    // passed for one that cannot be asked, and the adoption of the host failed.
    #[rstest]
    #[case::accepted(Lookup::Found(Ok(())), [1, 1, 2])]
    #[case::refused(Lookup::Found(Err("401".to_owned())), [1, 2, 3])]
    #[case::not_to_be_asked(Lookup::NotFound, [1, 2, 3])]
    #[tokio::test]
    async fn one_check_answers_all_who_ask_at_once(#[case] answer: Answer, #[case] expected: [usize; 3]) {
        let (checks, made) = (Checks::default(), AtomicUsize::new(0));
        let ask = async |digest| {
            let check = async {
                tokio::task::yield_now().await;
                made.fetch_add(1, Ordering::SeqCst);
                Ok::<_, Infallible>(answer.clone())
            };
            let Ok(found) = checks.answer(access(digest), Asker::Host, Duration::ZERO, check).await;
            assert_eq!(found, answer);
            made.load(Ordering::SeqCst)
        };
        tokio::join!(ask(1), ask(1), ask(1));
        assert_eq!([made.load(Ordering::SeqCst), ask(1).await, ask(2).await], expected);
    }

    #[tokio::test]
    async fn after_a_check_that_failed_the_next_one_is_made() {
        let checks = Checks::default();
        let accepted = Lookup::Found(Ok(()));
        for (check, known) in [(Err("outage"), Err("outage")), (Ok(accepted.clone()), Ok(accepted))] {
            let found = checks
                .answer(access(1), Asker::Host, Duration::ZERO, async { check })
                .await;
            assert_eq!(found, known);
        }
    }

    // OWN 31wq: a password that had been accepted once was a proof for as long as the process lived, even if the BMC had another
    // one since.
    #[tokio::test]
    async fn an_accepted_access_does_not_count_for_ever() {
        let (accepted, refused) = (Lookup::Found(Ok(())), Lookup::Found(Err("401".to_owned())));
        let checks = Checks::default();
        for (now, known) in [
            (Duration::ZERO, &accepted),
            (ACCEPTED / 2, &accepted),
            (ACCEPTED, &refused),
        ] {
            let check = async {
                let is_first = now.is_zero();
                Ok::<_, Infallible>(if is_first { accepted.clone() } else { refused.clone() })
            };
            let Ok(found) = checks.answer(access(1), Asker::Host, now, check).await;
            assert_eq!(found, *known, "{now:?}");
        }
    }

    // OWN 31ud: each pass over a companion tried the refused password again, and the BMC locked the account.
    #[rstest]
    #[case::refused(Lookup::Found(Err("401".to_owned())))]
    #[case::not_to_be_asked(Lookup::NotFound)]
    #[tokio::test]
    async fn a_companion_does_not_try_at_once_what_was_refused(#[case] answer: Answer) {
        let (checks, made) = (Checks::default(), AtomicUsize::new(0));
        let ask = async |digest, asker, now| {
            let check = async {
                made.fetch_add(1, Ordering::SeqCst);
                Ok::<_, Infallible>(answer.clone())
            };
            let Ok(found) = checks.answer(access(digest), asker, now, check).await;
            assert_eq!(found, answer);
            made.load(Ordering::SeqCst)
        };
        let before = PROOF_AGAIN.saturating_sub(Duration::from_secs(1));
        for (digest, asker, now, expected) in [
            (1, Asker::Companion, Duration::ZERO, 1),
            (1, Asker::Companion, before, 1),
            (2, Asker::Companion, before, 2),
            (2, Asker::Host, PROOF_AGAIN, 3),
            (2, Asker::Companion, PROOF_AGAIN + before, 3),
            (2, Asker::Companion, 2 * PROOF_AGAIN, 4),
        ] {
            assert_eq!(ask(digest, asker, now).await, expected, "{digest} {asker:?} {now:?}");
        }
    }
}
