//! The reads of a thief who has every byte of a disk: he opens the records that the keyring names, and
//! combines siblings. The test holds the master key, which no disk ever does, and so needs no pairing:
//! a user key (t, u) opens the epoch of `id` exactly if u = X(id).t + x'_0 in G2.

use std::collections::BTreeMap;

use chacha20poly1305::aead::{AeadInOut, KeyInit, inout::InOutBuf};
use chacha20poly1305::{ChaCha20Poly1305, Key, Nonce, Tag};
use mezza_core::CryptoRng;
use mezza_hibe::curve::{Fr, G2, G2Affine};
use mezza_hibe::{
    CardBlock, CardBlockHash, Delta, EntryKind, Epoch, ImportError, KeyTree, RecordName, Shape,
};

/// A record that a key of the keyring opens.
pub struct OpenedRecord {
    pub start: Epoch,
    pub kind: EntryKind,
    /// The points, 96 bytes each.
    pub points: Vec<u8>,
}

/// The disk of a host.
#[derive(Clone, Default)]
pub struct Disk {
    pub keyring: Vec<u8>,
    pub records: BTreeMap<RecordName, Vec<u8>>,
}

impl Disk {
    /// Carries out the first `steps` file operations of a delta.
    pub fn carry_out(&mut self, delta: &Delta, steps: usize) {
        let puts = delta.put.len();
        for (name, bytes) in delta.put.iter().take(steps) {
            let old = self.records.insert(*name, bytes.clone());
            assert!(old.is_none_or(|old| old == *bytes), "a record was replaced by another one");
        }
        if steps > puts {
            self.keyring.clone_from(&delta.keyring);
        }
        for name in delta.drop.iter().take(steps.saturating_sub(puts + 1)) {
            self.records.remove(name);
        }
    }

    /// Stores whatever is not stored.
    pub fn store(&mut self, tree: &mut KeyTree) {
        while let Some(delta) = tree.pending_delta() {
            self.carry_out(&delta, usize::MAX);
            tree.confirm_stored(delta.generation);
        }
    }

    pub fn load(&self, card: &CardBlock) -> Result<KeyTree, ImportError> {
        KeyTree::import(card, &self.keyring, &self.records, 0)
    }

    /// The floors that the keyring names, one for each life.
    pub fn floors(&self) -> Vec<Epoch> {
        let floors = self.keyring[10..10 + 4 * self.lives()].as_chunks().0;
        floors.iter().map(|floor| Epoch(u32::from_be_bytes(*floor))).collect()
    }

    /// Number of the lives that the keyring has floors for.
    fn lives(&self) -> usize {
        Shape::from_nibble(self.keyring[4] & 0xf).expect("a shape").life_count()
    }

    /// Each record that a key of the keyring opens.
    pub fn opened(&self, card: &CardBlockHash) -> Vec<OpenedRecord> {
        let at = 18 + 4 * self.lives();
        let count = u16::from_be_bytes([self.keyring[at], self.keyring[at + 1]]);
        let entries = self.keyring[at + 2..].chunks_exact(37).take(count.into());
        let mut opened = Vec::new();
        for entry in entries {
            let key = Key::try_from(&entry[5..]).expect("32 bytes");
            for (name, sealed) in &self.records {
                let aad = [
                    b"fshibe/v1/rec",
                    card.0.as_slice(),
                    &name.generation.to_be_bytes(),
                    &name.start.0.to_be_bytes(),
                    &[name.kind.byte()],
                ]
                .concat();
                let (text, tag) = sealed.split_last_chunk::<16>().expect("a tag");
                let mut text = text.to_vec();
                let buffer = InOutBuf::from(text.as_mut_slice());
                let cipher = ChaCha20Poly1305::new(&key);
                let tag = Tag::from(*tag);
                if cipher.decrypt_inout_detached(&Nonce::default(), &aad, buffer, &tag).is_ok() {
                    let points = text.split_off(8);
                    opened.push(OpenedRecord { start: name.start, kind: name.kind, points });
                }
            }
        }
        opened
    }
}

/// The master key, drawn as `create` draws it.
pub struct Master {
    shape: Shape,
    /// `x_0` to `x_L`.
    x: Vec<[Fr; 2]>,
    /// x'_0 P2.
    x_prime: G2,
    /// Known keys by their points.
    seen: BTreeMap<Vec<u8>, Key4>,
}

/// A user or delegation key, with X(id).t for every epoch.
struct Key4 {
    t: [G2; 2],
    u: G2,
    each: Vec<G2>,
}

impl Master {
    /// The draws of [`mezza_hibe::bkp::MasterSecret::random`].
    pub fn draw(shape: Shape, rng: &mut dyn CryptoRng) -> Self {
        let mut draw = || Fr::random(rng);
        let _b = [draw(), draw()];
        let x = (0..=shape.depth()).map(|_| {
            let x = [draw(), draw()];
            let _y = [draw(), draw()];
            x
        });
        let x = x.collect();
        let x_prime = G2Affine::generator().to_point().mul(&draw());
        Self { shape, x, x_prime, seen: BTreeMap::new() }
    }

    /// X(id).t for every epoch, in their order.
    fn each(&self, t: &[G2; 2]) -> Vec<G2> {
        let levels: Vec<G2> =
            self.x.iter().map(|x| t[0].mul(&x[0]).add(&t[1].mul(&x[1]))).collect();
        let epochs = (0..self.shape.epoch_count()).map(|epoch| {
            let path = self.shape.path_to(Epoch(epoch));
            let levels_of = levels[1..].iter().zip(path.components());
            levels_of.fold(levels[0].small_mul(1), |sum, (level, m)| sum.add(&level.small_mul(*m)))
        });
        epochs.collect()
    }

    /// The points at `at` and behind it as a key: t0 t1 u, or T0 T1 uh.
    fn learn(&mut self, points: &[u8]) {
        if self.seen.contains_key(points) {
            return;
        }
        let point = |i: usize| {
            let bytes = points[96 * i..][..96].try_into().expect("96 bytes");
            G2Affine::uncompress(bytes).expect("a point").to_point()
        };
        let t = [point(0), point(1)];
        let key = Key4 { u: point(2), each: self.each(&t), t };
        self.seen.insert(points.to_vec(), key);
    }

    /// Every epoch that the records open: alone, by derivation, and by combining siblings.
    pub fn epochs(&mut self, opened: &[OpenedRecord]) -> Vec<u32> {
        let mut epochs = Vec::new();
        for OpenedRecord { start, kind, points } in opened {
            self.learn(&points[..384]);
            let key = &self.seen[&points[..384]];
            let alone = matches(&key.u, &key.each, Some(&self.x_prime));
            assert_eq!(alone, [start.0], "a key opens its own epoch alone");
            epochs.extend(alone);
            if *kind == EntryKind::Node {
                let depth = self.shape.path_to(*start).depth();
                epochs.extend(start.0 + 1..start.0 + self.shape.subtree_epochs(depth));
                self.learn(&points[384..768]);
            }
        }
        for (i, a) in opened.iter().enumerate() {
            for b in &opened[i + 1..] {
                epochs.extend(self.combined(a, b));
            }
        }
        epochs.sort_unstable();
        epochs.dedup();
        epochs
    }

    /// Combines two neighbours of one parent: `(m + 1) u_1 - m u_2` is the parent's u if both have its
    /// t, and the same of uh with a common T recognises its envelopes.
    fn combined(&self, a: &OpenedRecord, b: &OpenedRecord) -> Vec<u32> {
        let path_a = self.shape.path_to(a.start);
        let path_b = self.shape.path_to(b.start);
        let (Some((m, parent_a)), Some((n, parent_b))) =
            (path_a.components().split_last(), path_b.components().split_last())
        else {
            return Vec::new();
        };
        if parent_a != parent_b || *n != m + 1 {
            return Vec::new();
        }
        let mut epochs = self.pair(&a.points[..384], &b.points[..384], *m, true);
        if a.kind == EntryKind::Node && b.kind == EntryKind::Node {
            epochs.extend(self.pair(&a.points[384..768], &b.points[384..768], *m, false));
        }
        epochs
    }

    fn pair(&self, a: &[u8], b: &[u8], m: u8, user: bool) -> Vec<u32> {
        let a = &self.seen[a];
        let b = &self.seen[b];
        let combine = |a: &G2, b: &G2| a.small_mul(m + 1).add(&b.small_mul(m).neg());
        let u = combine(&a.u, &b.u);
        // With the t of the first one, as the attack would have it, and with t combined as well.
        let prime = user.then_some(&self.x_prime);
        let mut epochs = matches(&u, &a.each, prime);
        let each: Vec<G2> = a.each.iter().zip(&b.each).map(|(a, b)| combine(a, b)).collect();
        assert_eq!(a.t.len(), b.t.len());
        epochs.extend(matches(&u, &each, prime));
        epochs
    }
}

/// The epochs at which u = X(id).t + x'_0.
fn matches(u: &G2, each: &[G2], prime: Option<&G2>) -> Vec<u32> {
    let wanted = match prime {
        Some(prime) => u.add(&prime.neg()),
        None => u.small_mul(1),
    };
    let bytes = G2::compress_each(each.iter().chain([&wanted]));
    let (points, _) = bytes.as_chunks::<96>();
    let (wanted, points) = points.split_last().expect("a point");
    (0..).zip(points).filter(|(_, point)| *point == wanted).map(|(epoch, _)| epoch).collect()
}
