//! Describes in words why a round was aborted. Mixes are named by position and operator, as in the
//! config.

use mezza_mixnet::config::Config;
use mezza_mixnet::coordinator::{AbortCause, MixPositions};

/// Returns the cause in words for the log, or `None` if the entry itself ended the round.
pub(super) fn describe_cause(cause: AbortCause, config: Option<&Config>) -> Option<String> {
    let mix = |at: u8| mix_name(at, config);
    let all = |mixes: MixPositions| mixes.iter().map(mix).collect::<Vec<_>>().join(", ");
    Some(match cause {
        AbortCause::Entry => return None,
        AbortCause::NoKey(mixes) => format!("no key came from {}", all(mixes)),
        AbortCause::NoSignature(mixes) => format!("no signature came from {}", all(mixes)),
        AbortCause::LinkLost(at) => format!("the link with {} was lost", mix(at)),
        AbortCause::Reported(at) => format!("{} ended it", mix(at)),
        AbortCause::Replies => {
            format!("replies over {} are missing or wrong: some mix of the chain is late", mix(0))
        }
    })
}

/// Returns position and operator of a mix. The operator's name is text of a third party: it is
/// quoted, with control characters escaped.
fn mix_name(at: u8, config: Option<&Config>) -> String {
    let mix = config.and_then(|config| config.mixes.get(usize::from(at)));
    match mix.map(|mix| mix.operator.as_str()).filter(|operator| !operator.is_empty()) {
        Some(operator) => format!("mix {at} of {operator:?}"),
        None => format!("mix {at}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mixnet::written;

    #[test]
    fn mix_29_the_log_names_the_mix_that_cost_a_round() {
        let mut config = written::parse_config(written::EXAMPLE).unwrap();
        config.mixes[2].operator = "Cleo\nmix 0".into();
        let said = |cause| describe_cause(cause, Some(&config));
        assert_eq!(said(AbortCause::Entry), None);
        assert_eq!(said(AbortCause::Reported(1)).unwrap(), "mix 1 of \"Ben\" ended it");
        let lost = said(AbortCause::LinkLost(2)).unwrap();
        assert_eq!(lost, "the link with mix 2 of \"Cleo\\nmix 0\" was lost");
        assert!(said(AbortCause::Replies).unwrap().contains("mix 0 of \"Ada\""));
        assert_eq!(
            describe_cause(AbortCause::LinkLost(7), None).unwrap(),
            "the link with mix 7 was lost"
        );
    }
}
