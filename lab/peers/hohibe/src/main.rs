//! hohibe behind the line protocol of the lab: the HIBE of Boneh, Boyen and Goh with five levels, AES-CTR
//! without a tag behind it.

use std::hint::black_box;
use std::io;

use bls12_381_plus::{G2Projective, Scalar, pairing};
use hohibe::hibe::{BonehBoyenGoh, Hibe as _, HibeKem as _};
use hohibe::kem::{HashMapper, HybridKem, MasterKey, PrivateKey, PublicKey};
use mezza_lab_measuring::rate::{self, Call};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

/// The levels of our tree.
const LEVELS: usize = 5;
/// The path of an epoch at the bottom.
const PATH: [&str; LEVELS] = ["6", "9", "20", "4", "31"];

/// Operations that it measures.
const OPS: &[&str] = &["keygen", "seal", "open", "who-is-it"];

fn main() -> io::Result<()> {
    rate::serve("hohibe 0.1.0", OPS, &prepare_call)
}

struct World {
    kem: HybridKem<HashMapper>,
    public: PublicKey,
    key: PrivateKey,
    rng: StdRng,
}

/// Makes the keys of our side: a public key and the key of the root.
fn make_keys(kem: &HybridKem<HashMapper>, rng: &mut StdRng) -> (PublicKey, MasterKey, PrivateKey) {
    let (public, master) = kem.setup(&mut *rng).expect("a set-up");
    let root: [&str; 0] = [];
    let key = kem.generate_key(rng, &public, &master, &root).expect("a key");
    (public, master, key)
}

impl World {
    fn new() -> Self {
        let kem = HybridKem::new(LEVELS);
        let mut rng = StdRng::seed_from_u64(7);
        let (public, master, _) = make_keys(&kem, &mut rng);
        let key = kem.generate_key(&mut rng, &public, &master, &PATH).expect("a key");
        Self { kem, public, key, rng }
    }
}

fn prepare_call(op: &str, size: usize, _: usize) -> Result<Call, String> {
    let mut world = World::new();
    let body = vec![7; size];
    match op {
        "keygen" => Ok(Box::new(move |_| drop(black_box(make_keys(&world.kem, &mut world.rng))))),
        "seal" => Ok(Box::new(move |_| {
            let World { kem, public, rng, .. } = &mut world;
            black_box(kem.encrypt(rng, public, &PATH, &body).expect("a ciphertext"));
        })),
        "open" => {
            let World { kem, public, key, rng } = &mut world;
            let sealed = kem.encrypt(rng, public, &PATH, &body).expect("a ciphertext");
            assert_eq!(kem.decrypt(public, key, &sealed).expect("a text"), body);
            Ok(Box::new(move |_| {
                black_box(world.kem.decrypt(&world.public, &world.key, &sealed).expect("a text"));
            }))
        }
        // The public test of the exhibit `who-is-it`: of 20 ciphertexts, how many name their receiver.
        "who-is-it" => {
            let hits = who_is_it(20);
            if hits == 20 { Ok(Box::new(|_| {})) } else { Err(format!("{hits} of 20 named")) }
        }
        _ => Err(format!("no operation {op}")),
    }
}

/// Ciphertexts (C1, C2) = (s g, s H(id)) for one of two public keys: e(g, C2) = e(C1, H(id)) holds with
/// the receiver's H alone, which everybody computes from the public key.
fn who_is_it(count: u32) -> u32 {
    let bbg = BonehBoyenGoh::new(LEVELS);
    let mut rng = StdRng::seed_from_u64(9);
    let keys = [(); 2].map(|()| bbg.setup(&mut rng).expect("a set-up").0);
    let id: Vec<Scalar> = (1..=5_u32).map(Scalar::from).collect();
    let hits = (0..count).filter(|_| {
        let receiver = rng.gen_range(0..2_usize);
        let (_, (c1, c2)) = bbg.encapsulate(&mut rng, &keys[receiver], &id).expect("a ciphertext");
        let named = keys.iter().position(|(g, _, _, g3, hs)| {
            let h = hs.iter().zip(&id).map(|(h, i)| h * i).sum::<G2Projective>() + g3;
            pairing(g, &c2) == pairing(&c1, &h.into())
        });
        named == Some(receiver)
    });
    u32::try_from(hits.count()).expect("a few")
}
