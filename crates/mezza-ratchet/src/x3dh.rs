//! X3DH: from a checked bundle to a pending session, and from a first message to a candidate.
//!
//! ```text
//! DH1 = DH(IKa, SPKb)   DH2 = DH(EKa, IKb)   DH3 = DH(EKa, SPKb)   [DH4 = DH(EKa, OPKb)]
//! in a container suite
//! T   = B_64("", "b2c20 trans", suite | list a | list b | IKa | IKb | EKa | spk_id | SPKb | opk_id
//!            | OPKb or 32 zeros [| kem_id | kem key | ciphertext])
//! rk0 | ex = B_64("", "b2c20 x3dh", FF x32 | DH1 | DH2 | DH3 [| DH4] [| kem secret] | T)
//! session id = B_16("", "b2c20 session", T)
//! in a suite of Signal: `suite::signal`
//! ```

use alloc::vec::Vec;

use mezza_core::{
    Backend, CryptoRng, EphemeralKey, PublicKey, Secret, StaticKey, Suite as _, Writer, blake2b,
};

use crate::bundle::CheckedBundle;
use crate::session::{Parties, Ratchet, Role};
use crate::suite::kem::KEM_SEED_BYTES;
use crate::suite::{Agreement, B2c20, Kdf, RatchetSuite};
use crate::wire::{Encapsulated, FirstMessageHeader, Wire};
use crate::{
    BundleError, Exporter, IdentityKey, IdentityKeyPair, OneTimePrekey, OpenError, SuiteList, keys,
};

/// The public values of a handshake, which both sides know.
pub struct Transcript<'a> {
    /// The header that the initiator sends in first messages.
    pub first: &'a FirstMessageHeader,
    /// The identity that published the bundle.
    pub responder: &'a IdentityKey,
    /// The suite list of the bundle; `Some` in a container suite.
    pub list: Option<&'a SuiteList>,
    /// The public signed prekey.
    pub spk: &'a PublicKey,
    /// The public one-time prekey, if one is used.
    pub opk: Option<&'a PublicKey>,
    /// The public KEM key of the bundle; `Some` in a post-quantum suite.
    pub kem_key: Option<&'a [u8]>,
}

impl Transcript<'_> {
    /// Returns the transcript hash T of the container suites, 64 bytes.
    pub fn hash(&self) -> [u8; 64] {
        let first = self.first;
        let mut writer = Writer::with_capacity(192);
        writer.put_u16(first.suite.0);
        for list in [first.list.as_ref(), self.list].into_iter().flatten() {
            list.write_to(&mut writer);
        }
        writer
            .put_bytes(&first.identity.0)
            .put_bytes(self.responder.as_bytes())
            .put_bytes(&first.base.0);
        writer.put_u32(first.spk_id).put_bytes(&self.spk.0);
        writer.put_u32(first.opk_id).put_bytes(&self.opk.map_or([0; 32], |opk| opk.0));
        if let (Some(kem), Some(key)) = (&first.kem, self.kem_key) {
            writer.put_u32(kem.id).put_bytes(key).put_bytes(&kem.ciphertext);
        }
        let mut hash = [0; 64];
        blake2b(&mut hash, &[], "b2c20 trans", &[writer.as_slice()]);
        hash
    }
}

/// Runs the initiator's side of the handshake. A post-quantum suite draws 32 bytes of `rng`.
/// Errors: `BadKey` if the one-time key or the KEM key is not allowed or a DH gives zero, `BadId`
/// if the id of the one-time key is out of range.
pub fn initiate_session<S: RatchetSuite, B: Backend>(
    bundle: &CheckedBundle,
    identity: &IdentityKeyPair,
    base: EphemeralKey,
    one_time: Option<OneTimePrekey>,
    rng: &mut dyn CryptoRng,
) -> Result<(Ratchet<S, B>, Exporter), BundleError> {
    if let Some(opk) = &one_time {
        opk.check_in(S::ID)?;
    }
    let base_public = *base.public_key();
    let mut shared = Vec::with_capacity(5);
    shared.push(identity.pair().diffie_hellman::<B>(bundle.spk())?);
    let theirs = [bundle.identity().public_key(), bundle.spk()];
    let theirs = theirs.into_iter().chain(one_time.as_ref().map(|opk| &opk.key));
    shared.extend(base.diffie_hellman_each::<B>(theirs)?);
    let mut encapsulated = None;
    if let (Some(kem), Some(their)) = (S::KEM, bundle.kem()) {
        let made = kem.encapsulate(&their.key, &Secret::random(rng)).ok_or(BundleError::BadKey)?;
        shared.push(made.1);
        encapsulated = Some(Encapsulated { id: their.id, ciphertext: made.0 });
    }
    let local = identity.public_key();
    let remote = *bundle.identity();
    let first = FirstMessageHeader {
        suite: S::ID,
        identity: *local.public_key(),
        base: base_public,
        spk_id: bundle.spk_id(),
        opk_id: one_time.map_or(0, |opk| opk.id),
        list: bundle.our_suites().copied(),
        registration: bundle.registration(),
        kem: encapsulated,
    };
    let transcript = Transcript {
        first: &first,
        responder: &remote,
        list: bundle.their_suites(),
        spk: bundle.spk(),
        opk: one_time.as_ref().map(|opk| &opk.key),
        kem_key: bundle.kem().map(|kem| kem.key.as_slice()),
    };
    let Agreement { id, root, exporter } = S::Kdf::derive_agreement(&shared, &transcript);
    let role = Role::Initiator { their: *bundle.spk() };
    let prefix = S::Wire::encode_prefix(&first);
    let ratchet = Ratchet::start(Parties { id, local, remote }, role, root, prefix);
    Ok((ratchet, Exporter(exporter)))
}

/// The private prekeys that a first message names, with the suite list of their bundle.
pub struct ResponderKeys<'a> {
    /// The pair of the signed prekey.
    pub spk: &'a StaticKey,
    /// The suite list of the bundle; `Some` in a container suite.
    pub list: Option<SuiteList>,
    /// The pair of the one-time prekey, if one was used.
    pub opk: Option<&'a StaticKey>,
    /// The seed of the KEM key; `Some` in a post-quantum suite.
    pub kem: Option<&'a Secret<KEM_SEED_BYTES>>,
}

/// Runs the responder's side of the handshake, without the inner message. The returned session is
/// not stored yet.
pub fn accept_session<S: RatchetSuite, B: Backend>(
    first: &FirstMessageHeader,
    identity: &IdentityKeyPair,
    offered: &ResponderKeys<'_>,
) -> Result<(Ratchet<S, B>, Exporter), OpenError> {
    let remote =
        IdentityKey::decode(first.identity.as_bytes()).map_err(|_| OpenError::Malformed)?;
    keys::check_usable(&first.base).map_err(|_| OpenError::Malformed)?;
    // X25519 ignores torsion. If torsion were allowed, eight forms of one base key would give the
    // same handshake, and the memory of base keys would know only one of them. T of 0x0101 includes
    // the form, so 0x0101 needs no check.
    if S::ID != B2c20::ID && !keys::torsion_free(&first.base) {
        return Err(OpenError::Malformed);
    }
    let lists = first.list.zip(offered.list);
    if lists.is_some_and(|(theirs, ours)| theirs.best_common(&ours) != Some(S::ID)) {
        return Err(OpenError::SuiteDowngrade);
    }
    let mut shared: Vec<Secret<32>> = Vec::with_capacity(5);
    shared.push(offered.spk.diffie_hellman::<B>(remote.public_key())?);
    shared.push(identity.pair().diffie_hellman::<B>(&first.base)?);
    shared.push(offered.spk.diffie_hellman::<B>(&first.base)?);
    if let Some(opk) = offered.opk {
        shared.push(opk.diffie_hellman::<B>(&first.base)?);
    }
    let mut kem_key = None;
    if let (Some(kem), Some(theirs), Some(seed)) = (S::KEM, &first.kem, offered.kem) {
        let opened = kem.decapsulate(seed, &theirs.ciphertext).ok_or(OpenError::Malformed)?;
        kem_key = Some(opened.0);
        shared.push(opened.1);
    }
    let local = identity.public_key();
    let transcript = Transcript {
        first,
        responder: &local,
        list: offered.list.as_ref(),
        spk: offered.spk.public_key(),
        opk: offered.opk.map(StaticKey::public_key),
        kem_key: kem_key.as_deref(),
    };
    let Agreement { id, root, exporter } = S::Kdf::derive_agreement(&shared, &transcript);
    let role = Role::Responder { own: offered.spk.duplicate() };
    let prefix = S::Wire::encode_prefix(&first.with_ciphertext_digest());
    let ratchet = Ratchet::start(Parties { id, local, remote }, role, root, prefix);
    Ok((ratchet, Exporter(exporter)))
}
