//! Envelopes: the files, the `hpke` crate in both directions, any bytes.

use hpke::aead::ChaCha20Poly1305;
use hpke::kdf::HkdfSha256;
use hpke::kem::X25519HkdfSha256;
use hpke::{Deserializable, Kem, OpModeR, OpModeS, Serializable};
use mezza_core::{EphemeralKey, PortableBackend, PublicKey, Secret, blake2b};
use mezza_messenger::envelope::{EnvelopeError, PARCEL_BYTES_MAX, SIZES, open, seal};
use mezza_messenger::relay_wire::MailboxAddress;
use proptest::prelude::*;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

use crate::case::walk;

const BOX: MailboxAddress = MailboxAddress([0xb0; 16]);

fn pair(scalar: [u8; 32]) -> EphemeralKey {
    EphemeralKey::from_scalar::<PortableBackend>(Secret::copy_from(&scalar))
}

fn parcel(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i % 251) as u8).collect()
}

fn sealed(bytes: usize) -> Vec<u8> {
    seal::<PortableBackend>(&BOX, pair([1; 32]).public_key(), &parcel(bytes), pair([2; 32]))
        .unwrap()
}

#[test]
fn right_envelopes_are_the_ones_of_the_files() {
    for case in walk("envelopes", 25).iter().filter(|case| case.text("expect") != "refused") {
        let address = MailboxAddress(case.array("address"));
        let own = pair(case.array("own")).into_static();
        let parcel = parcel(case.parse_value("parcel_bytes"));
        if case.text("expect") == "roomy" {
            let opened = open::<PortableBackend>(&address, &own, &case.bytes("envelope"));
            assert_eq!(opened, Some(parcel), "{}", case.name());
            continue;
        }
        let fresh = pair(case.array("fresh"));
        let envelope = seal::<PortableBackend>(&address, own.public_key(), &parcel, fresh).unwrap();
        assert_eq!(envelope.len(), case.parse_value::<usize>("envelope_bytes"), "{}", case.name());
        if case.has_key("envelope") {
            assert_eq!(envelope, case.bytes("envelope"), "{}", case.name());
        } else {
            let mut digest = [0; 32];
            blake2b(&mut digest, &[], "", &[&envelope]);
            assert_eq!(digest, case.array("envelope_blake2b_256"), "{}", case.name());
        }
        assert_eq!(
            open::<PortableBackend>(&address, &own, &envelope),
            Some(parcel),
            "{}",
            case.name()
        );
    }
}

#[test]
fn wrong_envelopes_do_not_open() {
    for case in walk("envelopes", 25).iter().filter(|case| case.text("expect") == "refused") {
        let own = pair(case.array("own")).into_static();
        let opened = open::<PortableBackend>(
            &MailboxAddress(case.array("address")),
            &own,
            &case.bytes("envelope"),
        );
        assert_eq!(opened, None, "{}", case.name());
    }
}

#[test]
fn no_bit_of_an_envelope_can_be_changed() {
    let own = pair([1; 32]).into_static();
    let envelope = sealed(100);
    assert_eq!(open::<PortableBackend>(&BOX, &own, &envelope), Some(parcel(100)));
    for bit in 0..envelope.len() * 8 {
        let mut other = envelope.clone();
        other[bit / 8] ^= 1 << (bit % 8);
        let opened = open::<PortableBackend>(&BOX, &own, &other);
        assert_eq!(opened, None, "bit {bit}");
    }
}

#[test]
fn each_size_is_used_to_its_last_byte() {
    for pair in SIZES.windows(2) {
        assert_eq!(sealed(pair[0] - 51).len(), pair[0]);
        assert_eq!(sealed(pair[0] - 50).len(), pair[1]);
    }
    assert_eq!((PARCEL_BYTES_MAX, sealed(PARCEL_BYTES_MAX).len()), (16_333, 16_384));
}

#[test]
fn msg_25_a_parcel_above_the_limit_is_refused_with_size_and_limit() {
    let big = parcel(PARCEL_BYTES_MAX + 1);
    let refused = seal::<PortableBackend>(&BOX, pair([1; 32]).public_key(), &big, pair([2; 32]));
    assert_eq!(refused, Err(EnvelopeError::TooBig { bytes: 16_334 }));
    let text = refused.unwrap_err().to_string();
    assert_eq!(text, "the parcel has 16334 bytes, an envelope holds 16333");
}

#[test]
fn a_key_of_low_order_is_refused() {
    let refused = seal::<PortableBackend>(&BOX, &PublicKey([0; 32]), b"", pair([2; 32]));
    assert_eq!(refused, Err(EnvelopeError::BadKey));
}

fn info(address: &[u8; 16]) -> Vec<u8> {
    [b"mezza relay 1".as_slice(), address].concat()
}

proptest! {
    #[test]
    fn the_hpke_crate_opens_ours(own: [u8; 32], fresh: [u8; 32], address: [u8; 16], n in 0usize..2000) {
        let own = pair(own).into_static();
        let envelope = seal::<PortableBackend>(&MailboxAddress(address), own.public_key(), &parcel(n), pair(fresh)).unwrap();
        let key = <X25519HkdfSha256 as Kem>::PrivateKey::from_bytes(own.scalar().expose()).unwrap();
        let enc = <X25519HkdfSha256 as Kem>::EncappedKey::from_bytes(&envelope[1..33]).unwrap();
        let text = hpke::single_shot_open::<ChaCha20Poly1305, HkdfSha256, X25519HkdfSha256>(
            &OpModeR::Base, &key, &enc, &info(&address), &envelope[33..], &[1],
        ).unwrap();
        prop_assert_eq!(&text[..2], &(n as u16).to_be_bytes());
        prop_assert_eq!(&text[2..2 + n], &parcel(n)[..]);
        prop_assert!(text[2 + n..].iter().all(|b| *b == 0));
    }

    #[test]
    fn ours_opens_that_of_the_hpke_crate(own: [u8; 32], seed: [u8; 32], address: [u8; 16], n in 0usize..461) {
        let own = pair(own).into_static();
        let to = <X25519HkdfSha256 as Kem>::PublicKey::from_bytes(own.public_key().as_bytes()).unwrap();
        let mut text = (n as u16).to_be_bytes().to_vec();
        text.extend_from_slice(&parcel(n));
        text.resize(512 - 49, 0);
        let (enc, ct) =
            hpke::single_shot_seal_with_rng::<ChaCha20Poly1305, HkdfSha256, X25519HkdfSha256>(
                &OpModeS::Base, &to, &info(&address), &text, &[1], &mut ChaCha20Rng::from_seed(seed),
            ).unwrap();
        let envelope = [&[1], enc.to_bytes().as_slice(), &ct].concat();
        prop_assert_eq!(open::<PortableBackend>(&MailboxAddress(address), &own, &envelope), Some(parcel(n)));
        prop_assert_eq!(open::<PortableBackend>(&MailboxAddress([0; 16]), &own, &envelope), None);
    }

    #[test]
    fn any_bytes_do_not_open(mut bytes in proptest::collection::vec(any::<u8>(), 512), cut in 0usize..513) {
        bytes[0] = 1;
        prop_assert_eq!(open::<PortableBackend>(&BOX, &pair([1; 32]).into_static(), &bytes[..cut]), None);
    }
}
