//! The cases of suite 0x0102.

use mezza_core::{PortableBackend, Secret};
use mezza_ratchet::suite::kem::Kem;
use mezza_ratchet::{Bundle, Padding, Prekeys, StoredRow, SuiteList, Table};

use super::Case;
use mezza_testing::{Given, hex};

use crate::fixture::{self, Talk};

/// A bundle of a device that offers both suites.
fn bundle() -> Bundle {
    Bundle::decode(&Case::named(super::FOLDER, "bundle-pq").bytes("bundle")).expect("a bundle")
}

pub fn bundle_offers_both(case: &Case) {
    let identity = super::identity(case, "identity");
    let ours = SuiteList::our_suites();
    assert_eq!(SuiteList::decode(&case.bytes("floor")), Ok(ours));
    for (list, suite) in [(ours, 0x0102), (SuiteList::without_kem(), 0x0101)] {
        let checked = bundle().check_with(&list, &identity, &ours, fixture::now());
        assert_eq!(checked.expect("a good bundle").suite().0, suite);
    }
}

pub fn handshake(case: &Case) {
    let alice = fixture::alice();
    let bob = fixture::bob();
    let now = fixture::now();
    let checked =
        bundle().check(&bob.public_key(), &SuiteList::our_suites(), now).expect("a good bundle");
    let coins = case.bytes("kem_coins");
    let ek = fixture::ephemeral("ekA");
    let one_time = Some(fixture::one_time());
    let begun =
        checked.initiate_session::<PortableBackend>(&alice, ek, one_time, &mut Given(coins));
    let (session, exporter) = begun.expect("a session");
    let mut alices = Talk::new(alice.public_key(), bob.public_key());
    let _ = alices.add_session(session, now);
    assert_eq!(hex(&alices.active_id().expect("a session")), case.text("session"));
    assert_eq!(hex(&fixture::session_field(&alices, 84, 32)), case.text("root"));
    let fresh = Some(fixture::ephemeral("rkA1"));
    let (m0, _) = alices.seal(b"hello", &[], Padding::Blocks, fresh, now).expect("m0");
    assert_eq!(hex(&m0), case.text("m0"));
    assert_eq!(hex(&fixture::session_field(&alices, 84, 32)), case.text("root1"));

    let mut bobs = Talk::new(bob.public_key(), alice.public_key());
    let mut prekeys = bobs_prekeys(case);
    let opened = bobs.open(&m0, &[], &bob, &mut prekeys, now).expect("m0");
    assert_eq!(opened.body.as_slice(), b"hello");
    let theirs = opened.exporter.expect("of a first message");
    assert!(exporter.export_secrets(["x"]) == theirs.export_secrets(["x"]));
    // Bob keeps a digest of the ciphertext, no more: 32 of 1,568 bytes.
    let noted = fixture::session_field(&bobs, 306 + 85, 32);
    assert_eq!(hex(&noted), case.text("kem_noted"));
}

/// Bob's SPK of suite 0x0102 with its KEM seed, and his OPK.
fn bobs_prekeys(case: &Case) -> Prekeys {
    let spk = fixture::pair("spkB");
    let opk = fixture::pair("opkB");
    let seed = case.array("kem_seed");
    let made = fixture::MADE_MIN.to_be_bytes();
    assert_eq!(Kem::MlKem1024.public_key(&Secret::copy_from(&seed)).len(), 1_568);
    let id = fixture::SPK_ID.to_be_bytes();
    let spk = [
        &[1, 1, 2][..],
        &id,
        &made,
        &SuiteList::our_suites().encode(),
        &[0],
        spk.scalar().expose(),
        &spk.public_key().0,
        &case.bytes("signature"),
        &[0, 0, 0, 5],
        &seed,
    ]
    .concat();
    let opk_id = fixture::OPK_ID.to_be_bytes();
    let opk =
        [&[2][..], &opk_id, &made, &[0], opk.scalar().expose(), opk.public_key().0.as_slice()]
            .concat();
    let records = [
        StoredRow { table: Table::Spk, key: &id, value: &spk },
        StoredRow { table: Table::Opk, key: &opk_id, value: &opk },
    ];
    Prekeys::load(fixture::bob(), records).expect("stored prekeys")
}
