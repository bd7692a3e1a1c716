//! Coins: the numbers of the design, both encodings, clamped peers, torsion, broken promises.

use curve25519_dalek::constants::EIGHT_TORSION;
use curve25519_dalek::edwards::CompressedEdwardsY;
use data_encoding::HEXLOWER;
use mezza_core::{PortableBackend, PublicKey, Secret, StaticKey};
use mezza_guard::coin::{
    CoinEncoding, CoinEra, CoinError, CoinKey, CoinPurpose, CoinSecret, Rho, SlotIndex, SlotName,
};
use mezza_guard::keys::GuardClientId;
use mezza_sim::SimRng;

use crate::gkx::scalar;

fn slot(index: u64) -> SlotIndex {
    let client = GuardClientId([0xc1; 16]);
    SlotIndex { name: SlotName { client, purpose: CoinPurpose::LinkDialling, dest: 7 }, index }
}

fn key() -> CoinKey {
    CoinKey::from_secret(Secret::init_with(|key| key.fill(0x0c)))
}

fn of_label(label: &str) -> [u8; 32] {
    scalar(label).to_bytes()
}

#[test]
fn guard_20_rho_is_fixed_by_the_slot() {
    let rho = key().derive_rho(&slot(0));
    assert_eq!(
        HEXLOWER.encode(&*rho.encode()),
        "94ad23356ac82103eac9e50136015f87db0efc2979671d4f54fdec11fda6af00"
    );
    assert_eq!(
        HEXLOWER.encode(&rho.commitment(&slot(0))),
        "63da459496c6010aad50eb222ef631fc39ae397b065c817bbf7bde84131ae282"
    );
    assert_eq!(key().derive_rho(&slot(0)).encode(), rho.encode());
    assert_ne!(key().derive_rho(&slot(1)).encode(), rho.encode());
    // Another era has other coins: a ledger that was put back reveals none that are yet to come.
    assert_ne!(key().in_era(&CoinEra([1; 32])).derive_rho(&slot(0)).encode(), rho.encode());
}

#[test]
fn guard_25_a_coin_that_was_not_committed_to_is_refused() {
    let secret = CoinSecret::random(SimRng::new(25, 0).rng());
    let rho = key().derive_rho(&slot(0));
    let other = key().derive_rho(&slot(1));
    let h = rho.commitment(&slot(0));
    assert!(secret.with_coin(&slot(0), &h, &rho).is_ok());
    for (slot, rho) in [(slot(0), &other), (slot(1), &rho)] {
        assert_eq!(secret.with_coin(&slot, &h, rho).expect_err("broken"), CoinError::Commitment);
    }
}

#[test]
fn guard_26_the_key_of_the_wire_is_that_of_client_and_guard() {
    let mut dice = SimRng::new(26, 0);
    for encoding in [CoinEncoding::Ristretto, CoinEncoding::X25519] {
        for index in 0..200 {
            let secret = CoinSecret::random(dice.rng());
            let rho = key().derive_rho(&slot(index));
            let expected = rho.public_key(encoding, &secret.point(encoding)).expect("a point");
            let pair = secret.with_coin(&slot(index), &rho.commitment(&slot(index)), &rho);
            assert_eq!(pair.expect("a key").public_key(encoding), expected);
            let stored = CoinSecret::decode(secret.encode().expose()).expect("stored");
            assert_eq!(stored.point(encoding), secret.point(encoding));
        }
    }
    // The numbers of the design.
    let secret = CoinSecret::decode(&of_label("test coin xc")).expect("a scalar");
    let z = secret.point(CoinEncoding::X25519);
    assert_eq!(
        HEXLOWER.encode(&z),
        "92bdfbc4f8d78bc3fbdae2d72090990a2363fc599814838bff7bee83d4fb6516"
    );
    let rho = Rho::decode(&of_label("test coin rho")).expect("a scalar");
    let x = rho.public_key(CoinEncoding::X25519, &z).expect("a point");
    assert_eq!(
        HEXLOWER.encode(&x),
        "ee44ee040b926f4af3190ef9d45312cce86198e754a1e12a64a23b02ac416f3c"
    );
    for bad in [[0xff; 32], [1; 32]] {
        assert_eq!(rho.public_key(CoinEncoding::Ristretto, &bad), Err(CoinError::Form));
    }
    assert_eq!(Rho::decode(&[0xff; 32]).expect_err("no scalar"), CoinError::Form);
}

#[test]
fn guard_27_torsion_never_reaches_the_wire() {
    let secret = CoinSecret::random(SimRng::new(27, 0).rng());
    let rho = key().derive_rho(&slot(0));
    let z = secret.point(CoinEncoding::X25519);
    let clean = rho.public_key(CoinEncoding::X25519, &z).expect("a point");
    let point = CompressedEdwardsY(z).decompress().expect("a point");
    for torsion in EIGHT_TORSION {
        let tampered = (point + torsion).compress().to_bytes();
        assert_eq!(rho.public_key(CoinEncoding::X25519, &tampered), Ok(clean));
    }
}

/// The unclamped ladder agrees with clamped peers, with torsion in the peer's key too.
#[test]
fn a_coin_key_agrees_with_every_clamped_peer() {
    let mut dice = SimRng::new(28, 0);
    for index in 0..2_000 {
        let secret = CoinSecret::random(dice.rng());
        let rho = key().derive_rho(&slot(index));
        let h = rho.commitment(&slot(index));
        let pair = secret.with_coin(&slot(index), &h, &rho).expect("a key");
        let peer = StaticKey::random::<PortableBackend>(dice.rng());
        let own = PublicKey(pair.public_key(CoinEncoding::X25519));
        let theirs = peer.diffie_hellman::<PortableBackend>(&own).expect("a secret");
        assert_eq!(pair.agree_x25519(peer.public_key()).expect("a secret"), theirs);
    }
    let secret = CoinSecret::random(dice.rng());
    let rho = key().derive_rho(&slot(0));
    for torsion in EIGHT_TORSION {
        let pair = secret.with_coin(&slot(0), &rho.commitment(&slot(0)), &rho).expect("a key");
        let low = PublicKey(torsion.to_montgomery().to_bytes());
        assert!(pair.agree_x25519(&low).is_err(), "a key of low order gives no secret");
    }
}
