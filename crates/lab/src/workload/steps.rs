//! When a server becomes a node, and when its kubelet stops reporting. Pure.

use super::boot::Boot;

/// How long a kubelet is silent although its server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Silence {
    /// Until its server starts again.
    UntilRestart,
    /// However often its server starts.
    ForGood,
}

/// A server that runs its image.
#[derive(Debug)]
pub struct Up {
    /// Which of its starts this is.
    pub start: u64,
    /// What reports; nothing where the server is no node, or its kubelet is silent.
    pub node: Option<Boot>,
}

/// What there is to do for a server.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing has changed.
    Nothing,
    /// It has started, and becomes a node.
    Join,
    /// It has started, and its kubelet says nothing.
    StaySilent,
    /// It runs on, and its kubelet says nothing any more.
    FallSilent,
    /// It went off.
    Leave,
}

/// What there is to do now. `running`: which of its starts the server runs its image since.
pub fn next(known: Option<&Up>, running: Option<u64>, silence: Option<Silence>) -> Step {
    match (known, running) {
        (None, None) => Step::Nothing,
        (Some(_), None) => Step::Leave,
        (Some(up), Some(start)) if up.start == start => {
            if up.node.is_some() && silence.is_some() {
                Step::FallSilent
            } else {
                Step::Nothing
            }
        }
        (_, Some(_)) if silence == Some(Silence::ForGood) => Step::StaySilent,
        (_, Some(_)) => Step::Join,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Role;

    fn up(speaks: bool) -> Up {
        let boot = Boot {
            node: "node-0".to_owned(),
            labels: std::collections::BTreeMap::new(),
            taints: None,
            provider_id: None,
            addresses: Vec::new(),
            role: Role::Worker,
        };
        Up {
            start: 3,
            node: speaks.then_some(boot),
        }
    }

    #[test]
    fn a_kubelet_reports_while_its_server_runs_its_image() {
        assert_eq!(next(None, None, None), Step::Nothing);
        assert_eq!(next(None, Some(3), None), Step::Join);
        assert_eq!(next(Some(&up(true)), Some(3), None), Step::Nothing);
        assert_eq!(next(Some(&up(true)), None, None), Step::Leave);
        // Off and on again between two looks.
        assert_eq!(next(Some(&up(true)), Some(4), None), Step::Join);
    }

    #[test]
    fn a_restart_ends_one_silence_and_not_the_other() {
        for silence in [Silence::UntilRestart, Silence::ForGood].map(Some) {
            assert_eq!(next(Some(&up(true)), Some(3), silence), Step::FallSilent);
            assert_eq!(next(Some(&up(false)), Some(3), silence), Step::Nothing, "only once");
            assert_eq!(next(Some(&up(false)), None, silence), Step::Leave);
        }
        assert_eq!(next(None, Some(4), Some(Silence::UntilRestart)), Step::Join);
        assert_eq!(next(None, Some(4), Some(Silence::ForGood)), Step::StaySilent);
    }
}
