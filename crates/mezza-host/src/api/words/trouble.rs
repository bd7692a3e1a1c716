//! Texts for delivery problems, each with the next step (messenger 5.5, RATCHET-44). A version
//! mismatch is never described as an attack, nor an attack as a version mismatch.

use mezza_messenger::io::DeliveryProblem;
use mezza_ratchet::OpenError;

use super::{format_count, mixnet, relay};

/// Returns the text for a delivery problem with `name`, ending with the next step.
pub fn trouble_words(trouble: DeliveryProblem, name: &str) -> String {
    match trouble {
        DeliveryProblem::Bundle(error) => relay::bundle_words(error, name),
        DeliveryProblem::Suite(error) => suite_words(error, name),
        DeliveryProblem::CardClash => format!(
            "two cards of {name} with the same number but different content came in; ask them \
             which one is theirs"
        ),
        DeliveryProblem::BoxGone => relay::box_gone(name),
        DeliveryProblem::Share(notes) => format!(
            "{name} sent more than one contact may leave here: {} not kept, and {name} was not told \
             that they arrived. Read what is here and ask {name} to send them \
             again tomorrow, or block {name}",
            format_count(notes.into(), "note was", "notes were")
        ),
        DeliveryProblem::Twice => format!(
            "two copies of one vault wrote to each other's place, yours or that of {name}: numbers of \
             notes were used twice, so that a new session begins and what has no receipt goes again. \
             Let one copy run and never start the other one again"
        ),
        DeliveryProblem::Unopened => format!(
            "notes came in the name of {name} that do not open here; a new session begins, and what is \
             missing goes again. If this comes back, {name} may run two copies of one vault: ask"
        ),
        DeliveryProblem::Talk => mixnet::talks_too_much(name),
        DeliveryProblem::Absent => mixnet::is_not_met(name),
    }
}

fn suite_words(error: OpenError, name: &str) -> String {
    match error {
        OpenError::SuiteUnsupported(suite) => format!(
            "{name} wrote in suite {suite}, which this program does not know; update Mezzavoce \
             here, then ask {name} to write again"
        ),
        OpenError::SuiteMismatch { session, message } => format!(
            "{name} wrote in suite {message}, but this conversation speaks {session}; ask {name} \
             over another way whether that was them"
        ),
        OpenError::Malformed
        | OpenError::SuiteDowngrade
        | OpenError::UnknownPrekey(_)
        | OpenError::ReusedBaseKey
        | OpenError::NoSession
        | OpenError::Duplicate
        | OpenError::TooFar(_)
        | OpenError::Forged => format!(
            "a first message of {name} used a weaker suite than both programs know: somebody may \
             be trying to weaken this conversation. It was not opened; ask {name} to write again"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mezza_core::SuiteId;
    use mezza_ratchet::{BundleError, SuiteList};

    fn list(ids: &[u16]) -> SuiteList {
        SuiteList::new(&ids.iter().map(|id| SuiteId(*id)).collect::<Vec<_>>()).unwrap()
    }

    fn words(error: BundleError) -> String {
        trouble_words(DeliveryProblem::Bundle(error), "Bob")
    }

    #[test]
    fn a_version_never_sounds_like_an_attack_nor_an_attack_like_a_version() {
        let newer =
            BundleError::NoCommonSuite { offered: list(&[0x0104]), ours: SuiteList::our_suites() };
        let older =
            BundleError::NoCommonSuite { offered: list(&[0x0100]), ours: SuiteList::our_suites() };
        assert!(words(newer).contains("update Mezzavoce here"), "{}", words(newer));
        assert!(words(older).contains("ask Bob to update"), "{}", words(older));
        let weaker = BundleError::SuiteDowngrade {
            offered: list(&[0x0101]),
            pinned: list(&[0x0102, 0x0101]),
        };
        for attack in [weaker, BundleError::BadSignature, BundleError::BadKey] {
            assert!(!words(attack).contains("pdate"), "{}", words(attack));
            assert!(words(attack).contains("Nothing was sent"), "{}", words(attack));
        }
        assert!(words(weaker).contains("lists 0x0102 0x0101"), "{}", words(weaker));
        for version in [newer, older] {
            assert!(!words(version).contains("sign"), "{}", words(version));
        }
    }

    #[test]
    fn what_was_not_kept_is_counted() {
        let words = trouble_words(DeliveryProblem::Share(17), "Bob");
        assert!(words.contains("17 notes were not kept") && words.ends_with("or block Bob"));
    }

    #[test]
    fn what_was_written_names_both_suites() {
        let session = SuiteId(0x0101);
        let message = SuiteId(0x0104);
        let unknown = DeliveryProblem::Suite(OpenError::SuiteUnsupported(message));
        assert!(trouble_words(unknown, "Bob").contains("0x0104"));
        let other = trouble_words(
            DeliveryProblem::Suite(OpenError::SuiteMismatch { session, message }),
            "Bob",
        );
        assert!(other.contains("0x0104") && other.contains("0x0101"), "{other}");
    }
}
