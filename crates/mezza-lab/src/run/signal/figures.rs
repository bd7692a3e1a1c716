//! Figures 5 and 6: a new client writes to an old one; two people compare the security code.

use anyhow::{Context as _, Result, anyhow};
use data_encoding::HEXLOWER;
use mezza::testing::backend::AwsLc;
use mezza_core::{Hash512, PublicKey, StaticKey, Suite, Writer};
use mezza_ratchet::safety::{self, NamedIdentity};
use mezza_ratchet::suite::V3;
use mezza_ratchet::suite::paper::Paper;
use mezza_ratchet::{
    Bundle, BundleError, IdentityKey, IdentityKeyPair, OneTimePrekey, SignalBundle, SuiteList,
};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;

use crate::bench::Bench;
use crate::ours::bare::Bare;
use crate::ours::device::MeasuredDevice as _;
use crate::ours::talk::{NOW, PublishedBundle, REGISTRATION};
use crate::peer::{self, PeerProcess};
use crate::run::experiment::Report;
use crate::shape::Claim;

/// The peer that represents the old client.
pub const PEERS: &[&str] = &["java"];

/// The error of the old client for the paper's bundle. It reports the same error for a forged key.
const FORGED: &str = "Invalid signature on device key!";
/// The old client's error for an envelope of an unknown version.
const UNKNOWN: &str = "Unknown version: 15";
/// The number of an unknown suite.
const FOREIGN: u16 = 0x01f0;

/// Runs figure 5.
pub fn figure_5(_: &mut Bench) -> Result<Report> {
    let mut report = Report::default();
    report.add_line("the paper: a message from the new client to the old one is not delivered. Old client: signal-protocol-java 2.8.1");
    let (_, mut far) = Bare::<Paper, AwsLc>::make_pair()?;
    let identity = far.identity().public_key();
    let PublishedBundle::Signal(bundle) = far.publish_bundle()? else {
        anyhow::bail!("another format")
    };
    match peer::find_peer("java", &[])? {
        Ok(mut java) => old_client(&mut report, &mut java, &bundle, &identity)?,
        Err(reason) => report.absent.push(reason),
    }
    let floor = SuiteList::decode(&[1, 0x01, 0xf0])?;
    let refused = Bundle::decode(&foreign_bundle()?)?.check(&identity, &floor, NOW).err();
    let said = refused.as_ref().map_or("it was accepted".to_owned(), ToString::to_string);
    report.add_line(format!("{:<44} our client: \"{said}\"", "a bundle without a common suite ->"));
    let holds = matches!(refused, Some(BundleError::NoCommonSuite { .. }));
    report.shapes.push(Claim::is("a suite that we lack is no forgery to ours", said, holds));
    report.add_line(
        "E-G4: \"expected\", says the paper; its user cannot tell an update from an attack",
    );
    Ok(report)
}

/// Reports the responses of signal-protocol-java to the paper's bundle and to our envelope, and
/// that of the paper's suite to Java's bundle.
fn old_client(
    report: &mut Report,
    java: &mut PeerProcess,
    bundle: &SignalBundle,
    identity: &IdentityKey,
) -> Result<()> {
    let ours = format!(
        "process {} {} {} {} {} {} {}",
        bundle.registration,
        bundle.one_time.map_or(0, |one_time| one_time.id),
        bundle.one_time.map_or("-".into(), |one_time| format_point(&one_time.key.0)),
        bundle.spk_id,
        format_point(&bundle.spk.0),
        HEXLOWER.encode(&bundle.signature),
        format_point(identity.as_bytes())
    );
    let envelope = format!("dec 2 f101{:04x}{}", 0x0101, "00".repeat(64));
    for (what, line, words) in
        [("the paper's bundle", ours, FORGED), ("a message of b2c20", envelope, UNKNOWN)]
    {
        let said = java.exchange_line(&line)?.map_or_else(|reason| reason, |_| "accepted".into());
        report.add_line(format!("{:<44} old client: \"{said}\"", format!("{what} ->")));
        let claim = format!("{what}: the old client says \"{words}\"");
        let holds = said.contains(words);
        report.shapes.push(Claim::is(claim, said, holds));
    }
    let bundle = java.exchange_line("bundle")?.map_err(|reason| anyhow!("no bundle: {reason}"))?;
    let refused = their_bundle(&bundle)?;
    report.add_line(format!(
        "{:<44} the paper's client: \"{refused}\"",
        "the old client's bundle ->"
    ));
    let holds = matches!(refused, BundleError::BadSignature);
    let claim = "the old client's bundle reads as a forgery to the paper's";
    report.shapes.push(Claim::is(claim, refused.to_string(), holds));
    Ok(())
}

/// Returns the error of the paper's suite for a bundle of Java: `REG OPKID OPK SPKID SPK SIG IK`.
fn their_bundle(line: &str) -> Result<BundleError> {
    let words: Vec<&str> = line.split(' ').collect();
    let [registration, opk_id, opk, spk_id, spk, signature, identity] = *words else {
        anyhow::bail!("no bundle: {line}");
    };
    let bundle = SignalBundle {
        registration: registration.parse()?,
        spk_id: spk_id.parse()?,
        spk: PublicKey(parse_key(spk)?),
        signature: to_array(&HEXLOWER.decode(signature.as_bytes())?)?,
        one_time: Some(OneTimePrekey { id: opk_id.parse()?, key: PublicKey(parse_key(opk)?) }),
        kem: None,
    };
    let identity = IdentityKey::decode(&parse_key(identity)?).context("a bad identity")?;
    bundle.check(V3::ID, &identity, REGISTRATION).context("not even Signal's suite accepts it")?;
    bundle.check_as::<Paper>(&identity, REGISTRATION).err().context("the paper's suite accepts it")
}

/// Makes a bundle that offers only a suite unknown to us.
fn foreign_bundle() -> Result<Vec<u8>> {
    let entry = [0; 4 + 32 + 4 + 64];
    let mut writer = Writer::new();
    writer.put_u8(1).put_u8(1).put_u16(FOREIGN).put_u8(1).put_u16(FOREIGN);
    writer.put_u16(u16::try_from(entry.len())?).put_bytes(&entry);
    Ok(writer.as_slice().to_vec())
}

/// A function that computes the security number of two identities.
type Number = fn(&IdentityKey, &IdentityKey) -> String;

/// Runs figure 6.
#[expect(clippy::unnecessary_wraps, reason = "experiments have one type")]
pub fn figure_6(bench: &mut Bench) -> Result<Report> {
    let mut report = Report::default();
    let mut rng = ChaCha20Rng::seed_from_u64(bench.seed);
    report.add_line("the paper: two new clients show the same security code");
    let [alice, bob, mallory] =
        [(); 3].map(|()| IdentityKeyPair::new(StaticKey::random::<AwsLc>(&mut rng)).public_key());
    let suites: [(&str, Number); 2] =
        [("paper", make_number::<<Paper as Suite>::SignatureHash>), ("b2c20", safety::number)];
    for (suite, number) in suites {
        let hers = number(&alice, &bob);
        let his = number(&bob, &alice);
        let tampered = number(&alice, &mallory);
        report.add_line(format!("{suite}: she sees {hers}"));
        report.add_line(format!("{suite}: he sees  {his}"));
        report.add_line(format!("{suite}: she sees, with another key in between, {tampered}"));
        let holds = hers == his && tampered != hers && hers.len() == 60;
        let found = if holds { "equal, and another for another key" } else { "not so" };
        report.shapes.push(Claim::is(format!("{suite}: one number for both"), found, holds));
    }
    report.add_line(format!(
        "({}: suite {}, in the lab alone; b2c20: the product's)",
        Paper::NAME,
        Paper::ID
    ));
    Ok(report)
}

/// Computes the security number of Signal's format with another hash.
fn make_number<H: Hash512>(local: &IdentityKey, remote: &IdentityKey) -> String {
    let named = |key, id| NamedIdentity { key, id };
    // Both sides must use equal ids. They are empty, as in the product.
    safety::signal_number::<H>(named(local, &[]), named(remote, &[]))
}

fn format_point(key: &[u8; 32]) -> String {
    format!("05{}", HEXLOWER.encode(key))
}

fn parse_key(hex: &str) -> Result<[u8; 32]> {
    to_array(HEXLOWER.decode(hex.as_bytes())?.get(1..).context("no key")?)
}

fn to_array<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    bytes.try_into().context("another length")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_of_a_suite_that_we_lack_is_not_called_forged() {
        let (_, far) = Bare::<Paper, AwsLc>::make_pair().unwrap();
        let floor = SuiteList::decode(&[1, 0x01, 0xf0]).unwrap();
        let bundle = Bundle::decode(&foreign_bundle().unwrap()).unwrap();
        let refused = bundle.check(&far.identity().public_key(), &floor, NOW).err();
        assert!(matches!(refused, Some(BundleError::NoCommonSuite { .. })), "{refused:?}");
    }
}
