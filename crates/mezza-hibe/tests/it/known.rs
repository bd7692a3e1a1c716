//! The known answers of the document, which two other implementations gave.

use mezza_hibe::bkp::{DerivedKeys, MasterSecret};
use mezza_hibe::curve::gt::Gt;
use mezza_hibe::curve::{G1Affine, G2Affine, h_a};
use mezza_hibe::wire::card::CardBlock;
use mezza_hibe::{Bucket, EnvelopeKey, Epoch, Shape, System, Tick, TreeProfile};

use mezza_testing::hex;

use crate::fixture::{Blocks, digest};

#[test]
fn hibe_3_gt_bytes_and_h_a_are_those_of_the_document() {
    let h_a = h_a().to_affine().compress();
    let expected = "83bb9873f3c54328b22a1a701373549c259a5fa1087808cb5af19af2df3a5944\
                    f4a7d555a584ddee4e200dbbd4e2e785";
    assert_eq!(hex(&h_a), expected);
    let pairing = Gt::pairing(&G1Affine::generator(), &G2Affine::generator());
    let expected = "1c9dcbbd30075e6728fad49fd348033df33e14ffdc2821359dec4ecf9cc737d1";
    assert_eq!(digest(&*pairing.to_bytes()), expected);
}

#[test]
fn every_step_from_the_master_key_to_the_envelope() {
    let system = System::new();
    let rng = &mut Blocks::new();
    let origin = Tick(59_000_000);
    let tick = Tick(60_000_007);
    let epoch = Epoch(1_000_007);

    // Gen(5), USKGen(()).
    let master = MasterSecret::random(5, rng);
    let card =
        CardBlock::new(Shape::Wide, TreeProfile::Minute, origin, master.derive_parameters(&system));
    let pk = &card.as_bytes()[6..];
    assert_eq!(pk.len(), 624);
    assert_eq!(digest(pk), "2b294925c0c0eda4318dfc81649fda036b6c60739b3428e147cadc061cbdb13d");
    assert_eq!(
        hex(&card.hash().0),
        "3e929ac925d9c4019c81bb5eafe908c9b34b2f3c70d985ed049ce41674e7fd8a"
    );
    let path = Shape::Wide.path_to(epoch);
    let root = master.user_key(&system, &Shape::Wide.path_to(Epoch(0)), rng);
    let stored = root.encode();
    assert_eq!(stored.len(), 2_688);
    assert_eq!(digest(&stored), "05f618759500c516aba1841f8ca3942e825cc0f4a7f55da0727a978a73f4ee68");

    // One-level USKDel along the path.
    let mut node = root;
    let leaf = path.components().iter().find_map(|m| {
        let sums = node.descend_to(&node.empty_sums(), *m);
        match node.derive_keys(&sums, rng) {
            DerivedKeys::Node(child) => {
                node = *child;
                None
            }
            DerivedKeys::User(leaf) => Some(leaf),
        }
    });
    let leaf = leaf.expect("the path ends at a leaf");
    assert_eq!(
        digest(&leaf.encode()),
        "b059d3401a775fc004d5f083a54cb9de5f999b545d5b847e68ade363eb1bcc8a"
    );

    // Enc with the next draw as r.
    let key =
        EnvelopeKey::new(&system, &card.seal_key(tick).expect("a key"), tick, rng).expect("a key");
    let binding = *key.binding();
    assert_eq!(hex(&binding.0), "49afe9d0baccffa1ada4e760954f184d3086e16fe25290ffd589c83ac923897b");
    let envelope = key.seal(b"hello", Bucket::SMALLEST, tick).expect("an envelope");
    let bytes = envelope.as_bytes();
    assert_eq!(
        digest(&bytes[2..194]),
        "b0ff56a20d10d75699eab85c7dff177da4de9a6ff88e6e9365f8d922a069e0c8"
    );
    assert_eq!(
        hex(&bytes[474..]),
        "25de6d883cab6493be2ad3ec427de42ad5c3a92f1a0a68bfcbca4cb249d6c4ba"
    );
    assert_eq!(digest(bytes), "27e7062a06cf6ba3e407c126ae6820b53db70282ba764a88335b26f68679d8bd");
}
