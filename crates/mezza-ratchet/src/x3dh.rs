//! X3DH: from a checked bundle to a pending session, and from a first message to a candidate.
//!
//! ```text
//! DH1 = DH(IKa, SPKb)   DH2 = DH(EKa, IKb)   DH3 = DH(EKa, SPKb)   [DH4 = DH(EKa, OPKb)]
//! T   = B_64("", "b2c20 trans", suite | list a | list b | IKa | IKb | EKa | spk_id | SPKb | opk_id | OPKb or 32 zeros)
//! rk0 | ex = B_64("", "b2c20 x3dh", FF x32 | DH1 | DH2 | DH3 [| DH4] | T)
//! session id = B_16("", "b2c20 session", T)
//! ```

use alloc::vec::Vec;

use mezza_core::{Backend, Ephemeral, Secret, Suite, SuiteId, Time, Writer, blake2b};

use crate::bundle::CheckedBundle;
use crate::session::{Parties, Ratchet, Role};
use crate::suite::{B2c20, Kdf, RatchetSuite};
use crate::wire::{First, container};
use crate::{
    BundleError, Exporter, Identity, IdentityKey, List, OneTime, OpenError, Prekeys, Session, keys,
};

/// Everything both sides know of a handshake before it is computed.
struct Transcript<'a> {
    suite: SuiteId,
    initiator_list: &'a List,
    responder_list: &'a List,
    initiator: &'a IdentityKey,
    responder: &'a IdentityKey,
    base: &'a [u8; 32],
    spk: (u32, &'a [u8; 32]),
    opk: Option<(u32, &'a [u8; 32])>,
}

impl Transcript<'_> {
    /// T, 64 bytes.
    fn hash(&self) -> [u8; 64] {
        let (opk_id, opk) = self.opk.unwrap_or((0, &[0; 32]));
        let mut writer = Writer::with_capacity(192);
        writer.u16(self.suite.0);
        self.initiator_list.write(&mut writer);
        self.responder_list.write(&mut writer);
        writer.bytes(self.initiator.as_bytes()).bytes(self.responder.as_bytes()).bytes(self.base);
        writer.u32(self.spk.0).bytes(self.spk.1).u32(opk_id).bytes(opk);
        let mut hash = [0; 64];
        blake2b(&mut hash, &[], "b2c20 trans", &[writer.as_slice()]);
        hash
    }
}

fn session_id(transcript: &[u8; 64]) -> [u8; 16] {
    let mut id = [0; 16];
    blake2b(&mut id, &[], "b2c20 session", &[transcript]);
    id
}

/// The initiator's half. `BadKey` if the one-time key is not allowed or a DH gives zero.
pub(crate) fn initiate<B: Backend>(
    bundle: &CheckedBundle,
    identity: &Identity,
    base: &Ephemeral,
    one_time: Option<OneTime>,
) -> Result<(Session<B>, Exporter), BundleError> {
    if let Some(opk) = &one_time {
        opk.check().map_err(|_| BundleError::BadKey)?;
    }
    let dh = |own: &Ephemeral, their| B::dh(own, their).ok_or(BundleError::BadKey);
    let mut shared = Vec::with_capacity(4);
    shared.push(dh(identity.pair(), bundle.spk())?);
    shared.push(dh(base, bundle.identity().as_bytes())?);
    shared.push(dh(base, bundle.spk())?);
    if let Some(opk) = &one_time {
        shared.push(dh(base, &opk.key)?);
    }
    let (local, list) = (identity.public(), List::ours());
    let transcript = Transcript {
        suite: B2c20::ID,
        initiator_list: &list,
        responder_list: bundle.list(),
        initiator: &local,
        responder: bundle.identity(),
        base: base.public(),
        spk: (bundle.spk_id(), bundle.spk()),
        opk: one_time.as_ref().map(|opk| (opk.id, &opk.key)),
    }
    .hash();
    let (root, exporter) = <B2c20 as RatchetSuite>::Kdf::x3dh(&shared, &transcript);
    let ids = (bundle.spk_id(), one_time.map_or(0, |opk| opk.id));
    let parties = Parties { id: session_id(&transcript), local, remote: *bundle.identity() };
    let prefix = container::prefix(B2c20::ID, &local, base.public(), ids, &list);
    let role = Role::Initiator { their: *bundle.spk() };
    let session = Session::B2c20(Ratchet::start(parties, role, root, prefix));
    Ok((session, Exporter(exporter)))
}

/// A session that a first message would begin; nothing is committed yet.
pub(crate) struct Candidate<B: Backend> {
    pub(crate) session: Session<B>,
    pub(crate) exporter: Exporter,
}

/// The responder's half, up to the inner message.
pub(crate) fn accept<B: Backend>(
    first: &First<'_>,
    identity: &Identity,
    prekeys: &Prekeys,
    now: Time,
) -> Result<Candidate<B>, OpenError> {
    let remote = IdentityKey::decode(&first.identity).map_err(|_| OpenError::Malformed)?;
    keys::usable(&first.base).map_err(|_| OpenError::Malformed)?;
    let offer = prekeys.offered(B2c20::ID, first, now)?;
    if first.list.best_common(&offer.list) != Some(B2c20::ID) {
        return Err(OpenError::SuiteDowngrade);
    }
    let dh = |own: &Ephemeral, their| B::dh(own, their).ok_or(OpenError::Forged);
    let mut shared: Vec<Secret<32>> = Vec::with_capacity(4);
    shared.push(dh(offer.spk, remote.as_bytes())?);
    shared.push(dh(identity.pair(), &first.base)?);
    shared.push(dh(offer.spk, &first.base)?);
    if let Some(opk) = offer.opk {
        shared.push(dh(opk, &first.base)?);
    }
    let local = identity.public();
    let transcript = Transcript {
        suite: B2c20::ID,
        initiator_list: &first.list,
        responder_list: &offer.list,
        initiator: &remote,
        responder: &local,
        base: &first.base,
        spk: (first.spk_id, offer.spk.public()),
        opk: offer.opk.map(|opk| (first.opk_id, opk.public())),
    }
    .hash();
    let (root, exporter) = <B2c20 as RatchetSuite>::Kdf::x3dh(&shared, &transcript);
    let parties = Parties { id: session_id(&transcript), local, remote };
    let role = Role::Responder { own: offer.spk.duplicate() };
    let session = Session::B2c20(Ratchet::start(parties, role, root, first.prefix.to_vec()));
    Ok(Candidate { session, exporter: Exporter(exporter) })
}
