use super::*;
use crate::Service;
use crate::service::reply_bytes;
use mezza_core::PublicKey;
use mezza_lanes::portable;
use proptest::prelude::*;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;

/// Returns the chain of a round of `n` mixes: their secrets, and the layers that all parties know.
fn chain(n: usize, service: Service) -> (Vec<Scalar>, Vec<Layer>) {
    let secrets = (0..n).map(|i| Scalar::copy_from(&[0x10 + i as u8; 32])).collect::<Vec<_>>();
    let id = RoundId { service, round: 7 };
    let layer = |(i, secret): (usize, &Scalar)| {
        let mut key = [[0; 32]];
        portable().x25519_pairwise(&[*secret.expose()], &[BASE], &mut key);
        Layer { id, position: i as u8, key: PublicKey(key[0]) }
    };
    let layers = secrets.iter().enumerate().map(layer).collect();
    (secrets, layers)
}

fn dice(n: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(n)
}

fn random(bytes: usize, rng: &mut ChaCha20Rng) -> Vec<u8> {
    let mut out = vec![0; bytes];
    rng.fill_bytes(&mut out);
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn what_is_wrapped_is_unwrapped_and_replies_come_back(n in 1_usize..=8, count in 1_usize..5, which in 0_usize..3, seed: u64, tables: bool) {
        let service = Service::ALL[which];
        let ((secrets, layers), mut rng) = (chain(n, service), dice(seed));
        let size = service.innermost_bytes();
        let inner = random(count * size, &mut rng);
        let combs = Tables::new(portable(), &layers).expect("good keys");
        let multiply = if tables { Multiply::Tables(&combs) } else { Multiply::Ladders };
        let wrapped = wrap_onions(portable(), multiply, &layers, &inner, size, &mut rng);
        let mut batch = wrapped.onions;
        let mut backs = Vec::new();
        for (i, secret) in secrets.iter().enumerate() {
            let bytes = service.onion_bytes(n - i);
            prop_assert_eq!(batch.len(), count * bytes);
            let got = unwrap_layer(portable(), secret, &layers[i], &batch, bytes);
            prop_assert!(got.opened.iter().all(|ok| *ok == 1));
            prop_assert_eq!(&got.reply_keys[..], &wrapped.reply_keys[i][..]);
            batch = got.inner_onions().collect::<Vec<_>>().concat();
            backs.push(got.reply_keys);
        }
        prop_assert_eq!(batch, inner);
        if service.has_replies() {
            let cells = random(count * 256, &mut rng);
            let mut replies = cells.clone();
            for (layers, back) in backs.iter().rev().enumerate() {
                replies = seal_replies(portable(), back, &replies, reply_bytes(layers));
            }
            for (i, reply) in replies.chunks(reply_bytes(n)).enumerate() {
                let mut keys = SecretVec::zeros(n);
                (0..n).for_each(|layer| keys[layer] = wrapped.reply_keys[layer][i]);
                prop_assert_eq!(open_reply(portable(), &keys, reply.to_vec()), Some(cells[256 * i..256 * (i + 1)].to_vec()));
                let mut torn = reply.to_vec();
                torn[seed as usize % reply.len()] ^= 1;
                prop_assert_eq!(open_reply(portable(), &keys, torn), None);
            }
        }
    }
}

#[test]
fn mix_7_bad_onions_give_zeros_and_disturb_no_neighbour() {
    let ((secrets, layers), mut rng) = (chain(3, Service::Conversation), dice(1));
    let inner = random(4 * 272, &mut rng);
    let mut batch =
        wrap_onions(portable(), Multiply::Ladders, &layers, &inner, 272, &mut rng).onions;
    let whole = unwrap_layer(portable(), &secrets[0], &layers[0], &batch, 416);
    batch[416..416 + 32].fill(0); // Z = 0
    batch[2 * 416 + 100] ^= 1; // does not open
    let got = unwrap_layer(portable(), &secrets[0], &layers[0], &batch, 416);
    assert_eq!(got.opened, [1, 0, 0, 1]);
    let [got, whole] = [got, whole].map(|of| of.inner_onions().collect::<Vec<_>>().concat());
    assert_eq!(got[..368], whole[..368]);
    assert_eq!(got[3 * 368..], whole[3 * 368..]);
    assert!(got[368..3 * 368].iter().all(|byte| *byte == 0));
}

#[test]
fn mix_7_an_onion_to_the_neutral_point_is_bad_even_if_it_opens() {
    let (secrets, layers) = chain(1, Service::Call);
    let (onion, _) = wrap_one(portable(), &layers[0], &PublicKey([0; 32]), &[0; 32], &[7; 20]);
    let got = unwrap_layer(portable(), &secrets[0], &layers[0], &onion, 68);
    assert_eq!((&got.opened[..], got.inner_onions().next()), (&[0][..], Some(&[0; 20][..])));
}

#[test]
fn mix_8_no_changed_or_moved_onion_opens() {
    let ((secrets, layers), mut rng) = (chain(2, Service::Call), dice(2));
    let onion = wrap_onions(portable(), Multiply::Ladders, &layers, &[7; 20], 20, &mut rng).onions;
    let opens = |layer: &Layer, onion: &[u8]| {
        unwrap_layer(portable(), &secrets[0], layer, onion, onion.len()).opened[0] == 1
    };
    assert!(opens(&layers[0], &onion));
    for bit in 0..onion.len() * 8 {
        let mut torn = onion.clone();
        torn[bit / 8] ^= 1 << (bit % 8);
        assert!(!opens(&layers[0], &torn), "bit {bit}");
    }
    assert!(!opens(&layers[0], &onion[..onion.len() - 1]));
    assert!(!opens(&layers[0], &[&onion[..], &[0]].concat()));
    let id = layers[0].id;
    for layer in [
        Layer { id: RoundId { round: 8, ..id }, ..layers[0] },
        Layer { id: RoundId { service: Service::Invitation, ..id }, ..layers[0] },
        Layer { position: 1, ..layers[0] },
        Layer { key: layers[1].key, ..layers[0] },
    ] {
        assert!(!opens(&layer, &onion), "{layer:?}");
    }
}

#[test]
fn one_layer_around_many_is_the_whole_onion() {
    let ((secrets, layers), mut rng) = (chain(3, Service::Conversation), dice(3));
    let rest = wrap_onions(portable(), Multiply::Ladders, &layers[1..], &[5; 272], 272, &mut rng);
    let mut x = [[0; 32]];
    let mut z = [[0; 32]];
    portable().x25519_pairwise(&[[0x20; 32]], &[BASE], &mut x);
    portable().x25519_pairwise(&[[0x20; 32]], &[layers[0].key.0], &mut z);
    let (onion, back) = wrap_one(portable(), &layers[0], &PublicKey(x[0]), &z[0], &rest.onions);
    let got = unwrap_layer(portable(), &secrets[0], &layers[0], &onion, 416);
    assert_eq!(
        (got.inner_onions().collect::<Vec<_>>().concat(), &got.reply_keys[..]),
        (rest.onions, &back[..])
    );
}

#[test]
fn tables_of_bad_keys_are_refused() {
    let (_, layers) = chain(2, Service::Call);
    let bad = |key| {
        Tables::new(portable(), &[layers[0], Layer { key: PublicKey(key), ..layers[1] }]).is_none()
    };
    let mut one = [0; 32];
    one[0] = 1;
    let mut twist = [0; 32];
    twist[0] = 2;
    assert!(bad([0; 32]) && bad(one) && bad(twist));
}
