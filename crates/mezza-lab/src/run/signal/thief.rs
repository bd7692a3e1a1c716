//! Part `thief`: messages are delayed, the conversation continues, and later the whole state is
//! stolen.
//!
//! ```text
//! Alice  m0 m1 m2 m3 m4   then a new ratchet key that says: five in the old chain
//! Bob    m0 .. (m1 - m4 are late) ..  the new key ............ the thief, who kept m1 - m4
//! ```
//! signal-protocol-java keeps the chain keys of up to five old chains, without a time limit. Our
//! ratchet closes the chain: it keeps the four message keys for 30 days and wipes the chain key
//! immediately.

use anyhow::{Context as _, Result};
use mezza::testing::backend::AwsLc;
use mezza_core::{Aead as _, Secret, Suite, Time};
use mezza_ratchet::session::SKIPPED_D;
use mezza_ratchet::suite::{B2c20, Kdf as _, RatchetSuite};
use mezza_ratchet::wire::Wire as _;
use mezza_ratchet::{IdentityKey, Table};

use crate::ours::device::MeasuredDevice as _;
use crate::ours::talk::{MeasuredConversation, NOW};
use crate::run::experiment::Report;
use crate::shape::Claim;

type Device = MeasuredConversation<B2c20, AwsLc>;
type Rules = <B2c20 as RatchetSuite>::Kdf;
type Format = <B2c20 as RatchetSuite>::Wire;

/// The offset of the receiving chain's key in a stored session. The chain's index follows it.
const CHAIN_AT: usize = 252;
/// Number of delayed messages.
const LATE: usize = 4;

/// A receiving chain in a stolen state.
struct Chain {
    key: Secret<32>,
    n: u32,
}

/// Adds the results.
///
/// # Errors
/// If the library refuses.
pub fn add_results(report: &mut Report) -> Result<()> {
    let (mut alice, mut bob) = Device::make_pair()?;
    let bundle = bob.publish_bundle()?;
    alice.begin_session(&bundle)?;
    let first = alice.seal(b"m0")?;
    bob.open(&first).context("m0")?;
    let answer = bob.seal(b"go on")?;
    alice.open(&answer).context("an answer")?;
    let opened = alice.seal(b"m0 of the next chain")?;
    bob.open(&opened).context("m0 of the next chain")?;
    let late: Vec<_> = (0..LATE).map(|_| alice.seal(b"a late note")).collect::<Result<_>>()?;
    let kept = find_chain(&bob)?;
    let answer = bob.seal(b"well?")?;
    alice.open(&answer).context("an answer")?;
    let new = alice.seal(b"a new key")?;
    bob.open(&new).context("a new key")?;

    let from = *bob.talk().remote();
    let to = *bob.talk().local();
    let months = |days: u64| NOW.plus_ms(days * Time::DAY_MS);
    report.add_line(
        "thief: four notes are late, their chain ended; the whole state is stolen after ..",
    );
    for (days, ours_reads) in [(1, LATE), (SKIPPED_D + 1, 0)] {
        drop(bob.talk_mut().sweep_expired(months(days)));
        let java = late.iter().filter(|note| opens_message(&kept, note, &from, &to)).count();
        let is_skipped = |change: &&_| mezza_ratchet::Change::table(change) == Table::Skipped;
        let ours = bob.talk().all_rows().iter().filter(is_skipped).count();
        let stolen = find_chain(&bob)?;
        let walked = late.iter().filter(|note| opens_message(&stolen, note, &from, &to)).count();
        report.add_line(format!(
            "  {days:>2} d: reads {java} with an old chain key, as Java keeps it; {ours} with ours"
        ));
        let claim = format!("thief after {days} d, Java's rule: notes read");
        report.shapes.push(Claim::is(claim, java.to_string(), java == LATE));
        let claim = format!("thief after {days} d, our rule: notes read");
        let holds = ours == ours_reads && walked == 0;
        report.shapes.push(Claim::is(claim, ours.to_string(), holds));
    }
    Ok(())
}

/// Returns the receiving chain in the stored session of a device.
fn find_chain(device: &Device) -> Result<Chain> {
    let records = device.talk().all_rows();
    let session = records.iter().find_map(|change| match change {
        mezza_ratchet::Change::Put { table: Table::Session, value, .. } => Some(value),
        _ => None,
    });
    let stored = session.and_then(|value| value.get(CHAIN_AT..CHAIN_AT + 36));
    let (key, n) = stored.and_then(|stored| stored.split_first_chunk()).context("no chain")?;
    let n = u32::from_be_bytes(n.try_into()?);
    Ok(Chain { key: Secret::copy_from(key), n })
}

/// Returns true if a chain key opens a captured message.
fn opens_message(chain: &Chain, message: &[u8], from: &IdentityKey, to: &IdentityKey) -> bool {
    let Ok(envelope) = Format::decode(message) else { return false };
    let mut aad = Vec::new();
    Format::append_aad(from, to, &[], &mut aad);
    aad.extend_from_slice(&envelope.inner.head);
    let mut key = chain.key.duplicate();
    for _ in chain.n..envelope.inner.n {
        drop(Rules::step_chain(&mut key));
    }
    let message_key = Rules::step_chain(&mut key);
    <B2c20 as Suite>::Aead::open::<AwsLc>(
        &message_key,
        [&aad, envelope.inner.tail],
        &envelope.inner.sealed,
    )
    .is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_chain_is_worth_nothing_after_its_keys_are_gone() {
        let mut report = Report::default();
        add_results(&mut report).unwrap();
        assert_eq!(report.shapes.len(), 4, "{}", B2c20::NAME);
        let failed: Vec<_> = report.shapes.iter().filter(|shape| !shape.holds).collect();
        assert!(failed.is_empty(), "{failed:?}");
    }
}
