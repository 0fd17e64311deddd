//! The reference for users, as data beside the code: `cargo xtask generate` makes `docs/` from it. The lists are made by
//! the same macro as an exhaustive `match`, so that a reason without a section does not compile.

mod errors;
mod moves;
mod states;
mod waits;

pub use self::errors::{ERRORS, EVENTS, ErrorHelp, EventHelp, error_help, event_help};
pub use self::moves::{FROM_ANY, MOVES, Move};
pub use self::states::{STATES, StateHelp};
pub use self::waits::{WAITS, WaitHelp, wait_help};

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use metal3_api::metal3::{ErrorType, ProvisioningState};

    use super::*;

    #[test]
    fn every_state_has_a_section_and_every_state_of_a_move_exists() {
        let known: HashSet<_> = STATES.iter().map(|s| s.state.as_str()).collect();
        assert_eq!(known.len(), STATES.len(), "a state twice");
        assert_eq!(known, ProvisioningState::TEXTS.iter().copied().collect());
        for row in MOVES {
            assert!(known.contains(row.from), "{row:?}");
            assert!(known.contains(row.to), "{row:?}");
        }
    }

    #[test]
    fn every_state_but_the_last_has_an_exit_and_every_state_but_the_first_an_entry() {
        for row in STATES {
            let name = row.state.as_str();
            let is_last = row.state == ProvisioningState::Deleting;
            assert_eq!(MOVES.iter().any(|m| m.from == name), !is_last, "{name:?} has no exit");
            // These two are only found on hosts of older operators.
            let is_first = matches!(
                row.state,
                ProvisioningState::None | ProvisioningState::Ready | ProvisioningState::MatchProfile
            );
            assert_eq!(MOVES.iter().any(|m| m.to == name), !is_first, "{name:?} has no entry");
        }
    }

    #[test]
    fn every_error_type_has_the_section_of_its_name() {
        // That none is missing is seen by the compiler: `error_help` matches the type without `_`.
        for help in ERRORS {
            let kind = ErrorType::from(help.name);
            assert!(!matches!(kind, ErrorType::Other(_)), "{} is no error type", help.name);
            assert_eq!(kind.as_str(), help.name);
            assert_eq!(error_help(&kind).map(|h| h.name), Some(help.name));
        }
    }

    #[test]
    fn no_section_is_empty() {
        for help in WAITS.iter().map(|r| wait_help(*r)) {
            assert!(help.waits_for.len() > 5 && help.to_do.len() > 5, "{help:?}");
            assert!(!help.latest.is_empty(), "a reason without a next check: {help:?}");
        }
        for help in ERRORS {
            assert!(help.means.len() > 5 && help.to_do.len() > 5, "{help:?}");
        }
        for reason in EVENTS {
            assert!(event_help(*reason).when.len() > 5, "{reason:?}");
        }
    }
}
