//! Alice and Bob of the vectors: fixed keys, so that every byte is known.

use mezza_core::{EphemeralKey, PortableBackend, Secret, StaticKey, Suite, SuiteId, Time};
use mezza_ratchet::suite::{B2c20, V3};
use mezza_ratchet::wire::FirstMessageHeader;
use mezza_ratchet::{
    Bundle, Conversation, Exporter, IdentityKeyPair, OneTimePrekey, Prekeys, Session, StoredRow,
    SuiteList, Table,
};
use mezza_testing::Case;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

use crate::vectors::FOLDER;

/// The end of the bundle in minutes since 1970.
pub const NOT_AFTER_MIN: u32 = 30_000_000;
/// When its signed prekey was made, 14 days before.
pub const MADE_MIN: u32 = NOT_AFTER_MIN - 14 * 24 * 60;
pub const SPK_ID: u32 = 9;
pub const OPK_ID: u32 = 7;

pub type Talk = Conversation<PortableBackend>;

/// The pair of a name, from its scalar in `vectors/ratchet/key-NAME.txt`.
pub fn pair(name: &str) -> StaticKey {
    ephemeral(name).into_static()
}

/// The same, for one exchange.
pub fn ephemeral(name: &str) -> EphemeralKey {
    let case = Case::named(FOLDER, &format!("key-{name}"));
    EphemeralKey::from_scalar::<PortableBackend>(Secret::copy_from(&case.array("scalar")))
}

pub fn alice() -> IdentityKeyPair {
    IdentityKeyPair::new(pair("ikA"))
}

pub fn bob() -> IdentityKeyPair {
    IdentityKeyPair::new(pair("ikB"))
}

/// The 64 bytes Z of the signatures.
pub fn z() -> [u8; 64] {
    Case::named(FOLDER, "signature-bundle").array("z")
}

pub fn now() -> Time {
    Time::from_ms(u64::from(MADE_MIN + 60) * Time::MINUTE_MS)
}

pub fn bundle_bytes() -> Vec<u8> {
    Case::named(FOLDER, "bundle").bytes("bundle")
}

pub fn one_time() -> OneTimePrekey {
    OneTimePrekey { id: OPK_ID, key: *pair("opkB").public_key() }
}

/// Bob's prekeys: SPK 9, OPK 7.
pub fn bobs_prekeys() -> Prekeys {
    let bundle = bundle_bytes();
    let signature = &bundle[bundle.len() - 64..];
    prekeys_of(B2c20::ID, &[1, 1, 1], signature)
}

/// The same in `signal-v3`.
pub fn bobs_signal_prekeys() -> Prekeys {
    let signature = Case::named(FOLDER, "signal-v3").bytes("signature");
    prekeys_of(V3::ID, &[0], &signature)
}

fn prekeys_of(suite: SuiteId, list: &[u8], signature: &[u8]) -> Prekeys {
    let spk = pair("spkB");
    let opk = pair("opkB");
    let spk_id = SPK_ID.to_be_bytes();
    let opk_id = OPK_ID.to_be_bytes();
    let made = MADE_MIN.to_be_bytes();
    let pair =
        |pair: &StaticKey| [&[0], &pair.scalar().expose()[..], &pair.public_key().0].concat();
    let front = [&[1], &suite.0.to_be_bytes()[..], &spk_id, &made, list].concat();
    let spk = [&front[..], &pair(&spk), signature].concat();
    let opk = [&[2], &opk_id[..], &made, &pair(&opk)].concat();
    let records = [
        StoredRow { table: Table::Spk, key: &spk_id, value: &spk },
        StoredRow { table: Table::Opk, key: &opk_id, value: &opk },
    ];
    Prekeys::load(bob(), records).expect("stored prekeys").offer_suites(&[suite])
}

/// Alice's header of the handshake.
pub fn first(one_time: Option<OneTimePrekey>) -> FirstMessageHeader {
    FirstMessageHeader {
        suite: B2c20::ID,
        identity: *alice().public_key().public_key(),
        base: *pair("ekA").public_key(),
        spk_id: SPK_ID,
        opk_id: one_time.map_or(0, |opk| opk.id),
        list: Some(SuiteList::without_kem()),
        registration: 0,
        kem: None,
    }
}

/// Alice's side of the handshake of the vectors.
pub fn initiate(one_time: Option<OneTimePrekey>) -> (Session<PortableBackend>, Exporter) {
    let bundle = Bundle::decode(&bundle_bytes()).expect("a bundle");
    let checked = bundle
        .check_with(
            &SuiteList::without_kem(),
            &bob().public_key(),
            &SuiteList::without_kem(),
            now(),
        )
        .expect("a good bundle");
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    checked.initiate_session(&alice(), ephemeral("ekA"), one_time, &mut rng).expect("a handshake")
}

/// Alice with a session that was just begun, and Bob without one.
pub fn alice_and_bob() -> (Talk, Talk, Prekeys) {
    let mut alices = Talk::new(alice().public_key(), bob().public_key());
    let _ = alices.add_session(initiate(Some(one_time())).0, now());
    let bobs = Talk::new(bob().public_key(), alice().public_key());
    (alices, bobs, bobs_prekeys())
}

/// A field of a stored session, by offset.
pub fn session_field(talk: &Talk, offset: usize, len: usize) -> Vec<u8> {
    for change in &talk.all_rows() {
        if let mezza_ratchet::Change::Put { table: Table::Session, value, .. } = change {
            return value[offset..offset + len].to_vec();
        }
    }
    panic!("no session is stored")
}

/// A DH of two pairs.
pub fn dh(own: &StaticKey, their: &StaticKey) -> Secret<32> {
    own.diffie_hellman::<PortableBackend>(their.public_key()).expect("not zero")
}

/// A fresh pair.
pub fn draw(rng: &mut dyn mezza_core::CryptoRng) -> EphemeralKey {
    EphemeralKey::random::<PortableBackend>(rng)
}
