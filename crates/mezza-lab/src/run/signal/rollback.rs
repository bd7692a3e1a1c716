//! Part `rollback`: a restored state (a backup, a snapshot, a crash) seals a second text.
//!
//! ```text
//! paper   c1 xor c2 = m1 xor m2; two tags give the key of Poly1305; a third text is forged
//! v3      equal first blocks of the texts are equal first blocks of the ciphertexts
//! b2c20   another key and nonce for another text; equal texts give equal messages
//! ```

use anyhow::{Context as _, Result};
use mezza::testing::backend::AwsLc;
use mezza_ratchet::suite::paper::Paper;
use mezza_ratchet::suite::{B2c20, RatchetSuite, V3};
use mezza_ratchet::wire::Wire as _;

use super::poly::PolyKey;
use crate::ours::bare::Bare;
use crate::ours::device::MeasuredDevice as _;
use crate::run::experiment::Report;
use crate::shape::Claim;

/// The texts before and after the state is restored, and the text of the forgery.
const TEXTS: [&[u8; 16]; 3] = [b"pay Bob 100 euro", b"the code is 4711", b"pay Eve 900 euro"];
/// Two texts with a common beginning.
const ALIKE: [&[u8]; 2] = [b"meet me at seven in the park", b"meet me at seven by the lake"];
/// Bytes of a block of AES.
const BLOCK_BYTES: usize = 16;

/// Two messages, their public parts, and the device that can read them.
struct Twice<S> {
    messages: [Vec<u8>; 2],
    sealed: [Vec<u8>; 2],
    aad: Vec<u8>,
    reader: Bare<S, AwsLc>,
}

/// Seals two texts from one state.
fn seal_twice<S: RatchetSuite + 'static>(texts: [&[u8]; 2]) -> Result<Twice<S>> {
    let (writer, mut reader) = Bare::<S, AwsLc>::make_pair()?;
    let bundle = reader.publish_bundle()?;
    let [mut before, mut after] = writer.make_twins(&bundle)?;
    let messages = [before.seal(texts[0])?, after.seal(texts[1])?];
    let [first, second] = [S::Wire::decode(&messages[0])?, S::Wire::decode(&messages[1])?];
    let mut aad = Vec::new();
    S::Wire::append_aad(
        &writer.identity().public_key(),
        &reader.identity().public_key(),
        &[],
        &mut aad,
    );
    aad.extend_from_slice(&first.inner.head);
    let sealed = [first.inner.sealed.to_vec(), second.inner.sealed.to_vec()];
    Ok(Twice { messages, sealed, aad, reader })
}

fn xor_bytes(a: &[u8], b: &[u8]) -> Vec<u8> {
    a.iter().zip(b).map(|(a, b)| a ^ b).collect()
}

impl<S: RatchetSuite + 'static> Twice<S> {
    /// Returns true if the ciphertexts, from byte `at` on, reveal the XOR of the texts.
    fn shows_the_difference(&self, at: usize) -> bool {
        let [a, b] = [&self.sealed[0][at..], &self.sealed[1][at..]];
        xor_bytes(a, b).starts_with(&xor_bytes(TEXTS[0], TEXTS[1]))
    }

    /// Makes the first message with another text, from both messages and the first text, without a
    /// key.
    fn make_forgery(&self, at: usize) -> Option<Vec<u8>> {
        let end = at + TEXTS[0].len();
        let text = |n: usize| self.sealed[n].get(at..end);
        let tag = |n: usize| <[u8; 16]>::try_from(self.sealed[n].get(end..)?).ok();
        let key = PolyKey::of_two(&self.aad, [text(0)?, text(1)?], [tag(0)?, tag(1)?])?;
        let forged = xor_bytes(&xor_bytes(text(0)?, TEXTS[0]), TEXTS[2]);
        let mut sealed = self.sealed[0][..at].to_vec();
        sealed.extend_from_slice(&forged);
        sealed.extend_from_slice(&key.compute_tag(&self.aad, &forged));
        self.replace_sealed(&sealed)
    }

    /// Makes the first message with the first `at` bytes of the second's sealed part.
    fn splice_message(&self, at: usize) -> Option<Vec<u8>> {
        self.replace_sealed(&[&self.sealed[1][..at], &self.sealed[0][at..]].concat())
    }

    /// Makes the first message with another sealed part of the same length.
    fn replace_sealed(&self, sealed: &[u8]) -> Option<Vec<u8>> {
        let mut message = self.messages[0].clone();
        let from = message.windows(sealed.len()).position(|w| w == self.sealed[0])?;
        message.get_mut(from..from + sealed.len())?.copy_from_slice(sealed);
        Some(message)
    }
}

/// Adds the results.
///
/// # Errors
/// If the library refuses.
pub fn add_results(report: &mut Report) -> Result<()> {
    report.add_line("rollback: a restored state seals a second text (E-G5)");
    add_paper(report)?;
    add_v3(report)?;
    add_b2c20(report)
}

fn add_paper(report: &mut Report) -> Result<()> {
    let mut twice = seal_twice::<Paper>([TEXTS[0], TEXTS[1]])?;
    let shown = twice.shows_the_difference(0);
    let found = if shown { "the XOR of both texts" } else { "nothing" };
    report.shapes.push(Claim::is("paper: two ciphertexts show", found, shown));
    let forged = twice.make_forgery(0).context("no key of Poly1305 was found")?;
    let read = twice.reader.open_body(&forged);
    let found = read.as_ref().map_or("refused".into(), |read| {
        format!("opened: \"{}\", which nobody wrote", String::from_utf8_lossy(read))
    });
    let holds = read.is_some_and(|read| read.as_slice() == TEXTS[2]);
    report.add_line(format!(
        "  paper: key of Poly1305 computed from two tags; a third message is {found}"
    ));
    report.shapes.push(Claim::is("paper: a third message is forged", found, holds));
    Ok(())
}

fn add_v3(report: &mut Report) -> Result<()> {
    let twice = seal_twice::<V3>(ALIKE)?;
    let [a, b] = &twice.sealed;
    // Only whole blocks count: single bytes are equal by chance once in 256.
    let blocks = a.chunks(BLOCK_BYTES).zip(b.chunks(BLOCK_BYTES));
    let same = blocks.take_while(|(a, b)| a == b).count();
    let found = format!("equal blocks of ciphertext: {same}; the texts begin with 17 equal bytes");
    report.shapes.push(Claim::is("v3: the common prefix shows", found, same == 1));
    Ok(())
}

fn add_b2c20(report: &mut Report) -> Result<()> {
    // The first 16 bytes are the nonce.
    let at = 16;
    let mut differ = seal_twice::<B2c20>([TEXTS[0], TEXTS[1]])?;
    let shown = differ.shows_the_difference(at);
    let prefix = seal_twice::<B2c20>(ALIKE)?;
    let [a, b] = &prefix.sealed;
    let same =
        xor_bytes(&a[at..], &b[at..]).iter().take(BLOCK_BYTES).filter(|byte| **byte == 0).count();
    let found = format!("XOR of the texts: {shown}; equal bytes of a common prefix: {same} of 16");
    let hidden = !shown && same < 4;
    report.shapes.push(Claim::is(
        "b2c20: two ciphertexts of other texts show neither their XOR nor a common prefix",
        found,
        hidden,
    ));
    let spliced = differ.splice_message(at).context("no sealed part")?;
    let opened = differ.reader.open_body(&spliced).is_some();
    let found = if opened { "opened" } else { "refused" };
    let claim = "b2c20: the nonce of one before the text of the other is";
    report.shapes.push(Claim::is(claim, found, !opened));
    let equal = seal_twice::<B2c20>([TEXTS[0]; 2])?;
    let found = if equal.messages[0] == equal.messages[1] { "equal messages" } else { "others" };
    let holds = equal.messages[0] == equal.messages[1];
    report.shapes.push(Claim::is("b2c20: equal texts give", found, holds));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_attack_succeeds_on_the_paper_and_fails_on_ours() {
        let mut report = Report::default();
        add_results(&mut report).unwrap();
        assert_eq!(report.shapes.len(), 6);
        let failed: Vec<_> = report.shapes.iter().filter(|shape| !shape.holds).collect();
        assert!(failed.is_empty(), "{failed:?}");
    }

    /// Without a forgery, the reader in the test above opens the first text.
    #[test]
    fn what_was_written_opens() {
        let mut twice = seal_twice::<Paper>([TEXTS[0], TEXTS[1]]).unwrap();
        let read = twice.reader.open_body(&twice.messages[0]).unwrap();
        assert_eq!(read.as_slice(), TEXTS[0]);
    }
}
