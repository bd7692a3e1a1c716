//! The paper's profile of FoSAM, our own implementation from the paper and BKP14, so that our
//! figures are compared with the same mathematics in one run. It is only measured.
//!
//! | here | in ours |
//! |---|---|
//! | zkcrypto's curve | blst |
//! | binary tree of depth 32: key vectors for 33 levels, identities of 255 bits | five levels, small numbers |
//! | `[A]_1` of each user's own | `H_a` for all |
//! | both children derived at every inner step, each point normalised alone | early expansion, one inversion |
//! | K = e(z', r P2) for each message | a power of a value that is kept |
//! | four pairings for each message | one loop, one final exponentiation |
//! | AES-128-CTR without a tag | ChaCha20, a tag, encapsulation again |
//!
//! ```text
//! keygen  ratchet  encrypt  encrypt-0  decrypt
//! ```

use std::cell::RefCell;
use std::hint::black_box;
use std::rc::Rc;

use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt as _, KeyInit as _};
use anyhow::{Context as _, Result, bail};
use bls12_381::{G1Affine, G1Projective, G2Affine, G2Projective, Gt, Scalar, pairing};
use mezza_core::labelled_hash;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};

use mezza_lab_measuring::rate::Call;

/// Levels of the tree.
const DEPTH: u32 = 32;
/// The epoch at which real operations are measured, as in [`hibe`](super::hibe).
pub const REAL: u64 = 5_900_000;
/// Epochs per call of `ratchet`: half of all steps derive nothing, so several steps are measured
/// together.
pub const RATCHET_CALL: u32 = 8;

type Pair<T> = [T; 2];

/// The path of a node as bits, from the root.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Path(Vec<bool>);

impl Path {
    /// Computes the path of an epoch in pre-order, as in the paper's algorithm 3.
    fn from_epoch(mut epoch: u64) -> Self {
        let mut bits = Vec::new();
        while epoch > 0 {
            epoch -= 1;
            let below = (1 << (DEPTH as usize - bits.len())) - 1;
            bits.push(epoch >= below);
            if epoch >= below {
                epoch -= below;
            }
        }
        Self(bits)
    }

    /// Returns the number of epochs in the subtree of the node.
    fn count_covered(&self) -> u64 {
        (1 << (DEPTH as usize + 1 - self.0.len())) - 1
    }

    fn make_child(&self, bit: bool) -> Self {
        Self(self.0.iter().copied().chain([bit]).collect())
    }
}

/// Returns a component of an identity as a scalar of full length.
fn identity_component(bit: bool) -> Scalar {
    Scalar::from_bytes_wide(&labelled_hash("fosam/identity", &[&[u8::from(bit)]]))
}

fn draw_scalar(rng: &mut ChaCha20Rng) -> Scalar {
    let mut wide = [0; 64];
    rng.fill_bytes(&mut wide);
    Scalar::from_bytes_wide(&wide)
}

fn dot(a: &Pair<Scalar>, b: &Pair<Scalar>) -> Scalar {
    a[0] * b[0] + a[1] * b[1]
}

/// The public key: `[A]_1`, `Z_i` for 33 levels, z'.
struct Public {
    a: Pair<G1Affine>,
    z: Vec<Pair<G1Affine>>,
    z_prime: G1Affine,
}

/// A node's key with its delegation part: t, u, v, T, U, V, and d, D, e, E of the lower levels.
struct NodeKey {
    path: Path,
    user: User,
    big_t: Pair<G2Affine>,
    big_u: G2Affine,
    big_v: G2Affine,
    levels: Vec<[G2Affine; 4]>,
}

#[derive(Clone)]
struct User {
    t: Pair<G2Affine>,
    u: G2Affine,
    v: G2Affine,
}

/// Runs Gen, and `USKGen` for the root.
fn generate_keys(rng: &mut ChaCha20Rng) -> (Public, NodeKey) {
    let mut pair = || [draw_scalar(rng), draw_scalar(rng)];
    let a = pair();
    let b = pair();
    let levels: Vec<Pair<Pair<Scalar>>> = (0..=DEPTH).map(|_| [pair(), pair()]).collect();
    let ([x_prime, y_prime], [s, big_s]) = (pair(), pair());
    let p1 = G1Projective::generator();
    let p2 = G2Projective::generator();
    let a1 = a.map(|a| G1Affine::from(p1 * a));
    // Z_i = (Y_i | x_i) A, in the group of A.
    let commit = |y: &Scalar, x: &Scalar| G1Affine::from(a1[0] * y + a1[1] * x);
    let z = levels.iter().map(|[x, y]| [0, 1].map(|j| commit(&y[j], &x[j])));
    let public = Public { a: a1, z: z.collect(), z_prime: commit(&y_prime, &x_prime) };
    let t = b.map(|b| s * b);
    let big_t = b.map(|b| big_s * b);
    // Keys in G2 answer to commitments by a[0] and a[1].
    let point = |s: Scalar| G2Affine::from(p2 * s);
    let [x0, y0] = levels[0];
    let user = User {
        t: t.map(point),
        u: point(dot(&x0, &t) + x_prime),
        v: point(dot(&y0, &t) + y_prime),
    };
    let below = levels[1..]
        .iter()
        .map(|[x, y]| [dot(x, &t), dot(x, &big_t), dot(y, &t), dot(y, &big_t)].map(point));
    let root = NodeKey {
        path: Path(Vec::new()),
        user,
        big_t: big_t.map(point),
        big_u: point(dot(&x0, &big_t)),
        big_v: point(dot(&y0, &big_t)),
        levels: below.collect(),
    };
    (public, root)
}

impl NodeKey {
    /// Derives one child by `USKDel`; every point is normalised separately.
    fn derive_child(&self, bit: bool, rng: &mut ChaCha20Rng) -> Self {
        let m = identity_component(bit);
        let s = draw_scalar(rng);
        let big_s = draw_scalar(rng);
        let [d, big_d, e, big_e] = &self.levels[0];
        let plus = |a: &G2Affine, b: &G2Affine, k: &Scalar| G2Affine::from(a + b * k);
        let u = plus(&self.user.u, d, &m);
        let v = plus(&self.user.v, e, &m);
        let big_u = plus(&self.big_u, big_d, &m);
        let big_v = plus(&self.big_v, big_e, &m);
        let user = User {
            t: [0, 1].map(|j| plus(&self.user.t[j], &self.big_t[j], &s)),
            u: plus(&u, &big_u, &s),
            v: plus(&v, &big_v, &s),
        };
        let times = |a: &G2Affine| G2Affine::from(a * big_s);
        let levels = self.levels[1..].iter().map(|[d, big_d, e, big_e]| {
            [plus(d, big_d, &s), times(big_d), plus(e, big_e, &s), times(big_e)]
        });
        Self {
            path: self.path.make_child(bit),
            user,
            big_t: self.big_t.each_ref().map(times),
            big_u: times(&big_u),
            big_v: times(&big_v),
            levels: levels.collect(),
        }
    }
}

/// The secret key of algorithm 3: a stack with the current key on top.
pub struct KeyStack(Vec<NodeKey>);

impl KeyStack {
    /// Makes the stack of a fresh key.
    pub fn from_seed(seed: u64) -> Self {
        Self(vec![generate_keys(&mut ChaCha20Rng::seed_from_u64(seed)).1])
    }

    /// Makes one step: removes the top, and pushes its children if there are any.
    fn step_once(&mut self, rng: &mut ChaCha20Rng) {
        let Some(top) = self.0.pop() else { return };
        if !top.levels.is_empty() {
            let left = top.derive_child(false, rng);
            self.0.extend([top.derive_child(true, rng), left]);
        }
    }

    /// Moves to an epoch far ahead: drops the subtrees before it, and opens the others.
    pub fn move_forward(&mut self, epochs: u64, rng: &mut ChaCha20Rng) {
        let mut left = epochs;
        while left > 0 {
            match self.0.last().map(|top| top.path.count_covered()) {
                Some(covered) if covered <= left => {
                    self.0.pop();
                    left -= covered;
                }
                _ => {
                    self.step_once(rng);
                    left -= 1;
                }
            }
        }
    }
}

/// A ciphertext: c0, c1, and the text encrypted by AES-128-CTR.
struct Ciphertext {
    c: [G1Affine; 4],
    text: Vec<u8>,
}

fn encrypt(public: &Public, path: &Path, text: &[u8], rng: &mut ChaCha20Rng) -> Ciphertext {
    let r = draw_scalar(rng);
    let identity = [0, 1].map(|j| {
        let levels = public.z[1..].iter().zip(&path.0);
        levels.fold(G1Projective::from(public.z[0][j]), |sum, (z, bit)| {
            sum + z[j] * identity_component(*bit)
        })
    });
    let [c0, c1] = public.a.each_ref().map(|a| G1Affine::from(a * r));
    let [c2, c3] = identity.map(|z| G1Affine::from(z * r));
    let k = pairing(&public.z_prime, &G2Affine::from(G2Projective::generator() * r));
    Ciphertext { c: [c0, c1, c2, c3], text: apply_ctr(&k, text) }
}

fn decrypt(key: &User, ciphertext: &Ciphertext) -> Vec<u8> {
    let [c0, c1, c2, c3] = &ciphertext.c;
    let k =
        pairing(c0, &key.v) + pairing(c1, &key.u) - pairing(c2, &key.t[0]) - pairing(c3, &key.t[1]);
    apply_ctr(&k, &ciphertext.text)
}

/// Applies AES-128-CTR with a zero nonce. zkcrypto has no byte encoding of an element of Gt, so the
/// key is the hash of its printed form.
fn apply_ctr(k: &Gt, text: &[u8]) -> Vec<u8> {
    let key: [u8; 16] = labelled_hash("fosam/key", &[format!("{k:?}").as_bytes()]);
    let cipher = Aes128::new(&key.into());
    let mut out = text.to_vec();
    for (counter, block) in (0_u128..).zip(out.chunks_mut(16)) {
        let mut stream = counter.to_be_bytes().into();
        cipher.encrypt_block(&mut stream);
        block.iter_mut().zip(&stream).for_each(|(byte, stream)| *byte ^= stream);
    }
    out
}

/// Derives the key of an epoch through the nodes of its path.
fn key_at(root: NodeKey, path: &Path, rng: &mut ChaCha20Rng) -> User {
    path.0.iter().fold(root, |node, bit| node.derive_child(*bit, rng)).user
}

/// Changes byte `at` of a ciphertext by XOR with `mask`. Returns the text that the receiver then
/// decrypts.
///
/// # Errors
/// An index beyond the text.
pub fn alter_text(text: &[u8], at: usize, mask: u8) -> Result<Vec<u8>> {
    let mut rng = ChaCha20Rng::seed_from_u64(13);
    let (public, root) = generate_keys(&mut rng);
    let mut ciphertext = encrypt(&public, &Path::from_epoch(0), text, &mut rng);
    *ciphertext.text.get_mut(at).context("a byte of the text")? ^= mask;
    Ok(decrypt(&root.user, &ciphertext))
}

thread_local! {
    /// The stack at a real epoch, which takes seconds to reach: each batch continues from the last.
    static AGED: RefCell<Option<Rc<RefCell<KeyStack>>>> = const { RefCell::new(None) };
}

fn make_aged() -> Rc<RefCell<KeyStack>> {
    AGED.with_borrow_mut(|aged| {
        let made = || {
            let mut stack = KeyStack::from_seed(12);
            stack.move_forward(REAL, &mut ChaCha20Rng::seed_from_u64(12));
            Rc::new(RefCell::new(stack))
        };
        Rc::clone(aged.get_or_insert_with(made))
    })
}

/// Prepares one call of `op` on a text of `size` bytes.
///
/// # Errors
/// An unknown name.
pub fn prepare_call(op: &str, size: usize) -> Result<Call> {
    let mut rng = ChaCha20Rng::seed_from_u64(11);
    let text = vec![7; size];
    Ok(match op {
        "keygen" => Box::new(move |_| drop(black_box(generate_keys(&mut rng)))),
        "ratchet" => {
            let stack = make_aged();
            Box::new(move |_| {
                (0..RATCHET_CALL).for_each(|_| stack.borrow_mut().step_once(&mut rng));
            })
        }
        "encrypt" | "encrypt-0" => {
            let (public, _) = generate_keys(&mut rng);
            let path = Path::from_epoch(if op == "encrypt" { REAL } else { 0 });
            Box::new(move |_| drop(black_box(encrypt(&public, &path, &text, &mut rng))))
        }
        "decrypt" => {
            // At the root, as in the paper: the cost is the same at every depth.
            let (public, root) = generate_keys(&mut rng);
            let path = Path::from_epoch(0);
            let ciphertext = encrypt(&public, &path, &text, &mut rng);
            let key = key_at(root, &path, &mut rng);
            Box::new(move |_| drop(black_box(decrypt(&key, &ciphertext))))
        }
        _ => bail!("no operation {op}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_what_is_encrypted_for_an_epoch_is_decrypted_in_it() {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        for epoch in [0, 1, 5, 1 << 31] {
            let (public, root) = generate_keys(&mut rng);
            let path = Path::from_epoch(epoch);
            let ciphertext = encrypt(&public, &path, b"at the fountain", &mut rng);
            let key = key_at(root, &path, &mut rng);
            assert_eq!(decrypt(&key, &ciphertext), b"at the fountain");
            let (_, other) = generate_keys(&mut rng);
            assert_ne!(decrypt(&other.user, &ciphertext), b"at the fountain");
        }
    }

    #[test]
    fn slow_the_stack_is_where_the_path_of_its_epoch_leads() {
        let mut rng = ChaCha20Rng::seed_from_u64(2);
        let mut stack = KeyStack::from_seed(3);
        for epoch in 1..4 {
            stack.step_once(&mut rng);
            assert_eq!(stack.0.last().map(|top| top.path.clone()), Some(Path::from_epoch(epoch)));
        }
        assert_eq!(Path::from_epoch(REAL).0.len(), Path::from_epoch(REAL).0.len());
        assert_eq!(Path::from_epoch(0).count_covered(), (1 << 33) - 1);
    }
}
