//! Suite 1: the anonymous HIBKEM of Blazy, Kiltz and Pan (CRYPTO 2014) with MAC_HPS and k = 1.
//!
//! Vectors have two entries; X(id), Y(id), Z(id) stand for `x_0` + sum `m_i` `x_i` and so on. Draws follow
//! the document from left to right, which makes test vectors exact.

use alloc::boxed::Box;
use alloc::vec::Vec;

use mezza_core::{CryptoRng, DecodeError, Wiping};

use crate::curve::comb::Factor;
use crate::curve::gt::Gt;
use crate::curve::{Fr, G1, G1Affine, G2, G2_BYTES, G2Affine, silent};
use crate::shape::{DEPTH, Path};
use crate::system::System;

/// The number of points in a user key: t0, t1, u, v.
pub const USER_POINTS: usize = 4;
/// The number of points that a node key has for each level below it: d, D, e, E.
const LEVEL_POINTS: usize = 4;

/// Returns the number of points in the key of a node at `depth` in a tree of `levels` levels: the
/// user key, T0 T1 uh V, and four for each level below.
pub const fn node_points(depth: usize, levels: usize) -> usize {
    2 * USER_POINTS + LEVEL_POINTS * (levels - depth)
}

/// The public parameters pk: two points of G1 for the constant part of an identity and two for each
/// level, and z'.
#[derive(Clone, Debug)]
pub struct Parameters {
    /// The points `Z_0` to `Z_L`.
    pub z: Vec<[G1Affine; 2]>,
    /// The point z'.
    pub z_prime: G1Affine,
}

impl Parameters {
    /// Returns Z(id) for a path, which must not be longer than the number of levels.
    pub fn identity_points(&self, path: &Path) -> [G1; 2] {
        [0, 1].map(|j| {
            let levels = self.z[1..].iter().zip(path.components());
            levels.fold(self.z[0][j].to_point(), |sum, (z, m)| {
                sum.add(&z[j].to_point().small_mul(*m))
            })
        })
    }
}

/// The number of points in a header C, the same at every depth: `c0[0] c0[1] c1[0] c1[1]`, points
/// of G1.
pub const HEADER_POINTS: usize = 4;

/// Returns the header of r: c0 = (r P1, r `H_a`), c1 = r Z(id).
pub fn compute_header(system: &System, identity: &[G1; 2], r: &Fr) -> [G1; HEADER_POINTS] {
    let [z0, z1] = identity;
    [system.mul_p1(r), system.h_a(r), z0.mul(r), z1.mul(r)]
}

/// Decodes the points of a secret key, 96 bytes each.
fn decode_points(bytes: &[u8]) -> Result<Vec<G2>, DecodeError> {
    let (points, rest) = bytes.as_chunks::<G2_BYTES>();
    if !rest.is_empty() {
        return Err(DecodeError::Truncated);
    }
    points.iter().map(|bytes| Ok(G2Affine::uncompress(bytes)?.to_point())).collect()
}

/// The user key usk(id), which opens only the envelopes of the epoch of its path.
pub struct UserKey {
    t: [G2; 2],
    u: G2,
    v: G2,
}

silent!(UserKey NodeKey Sums);

impl UserKey {
    /// Decodes t0 t1 u v, 384 bytes. The points are not checked to be in the subgroup, because only
    /// this device could write the encrypted record that contains them.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let points: [G2; USER_POINTS] =
            decode_points(bytes)?.try_into().map_err(|_| DecodeError::Truncated)?;
        let [t0, t1, u, v] = points;
        Ok(Self { t: [t0, t1], u, v })
    }

    /// Encodes t0 t1 u v, 384 bytes.
    pub fn encode(&self) -> Wiping<Vec<u8>> {
        G2::compress_each(self.points())
    }

    fn points(&self) -> impl Iterator<Item = &G2> {
        self.t.iter().chain([&self.u, &self.v])
    }

    /// Returns the points that are paired with the four points of a header: v, u, -t0, -t1.
    pub fn pairing_points(&self) -> [G2Affine; HEADER_POINTS] {
        let [t0, t1] = self.t.each_ref().map(|t| t.neg().to_affine());
        [self.v.to_affine(), self.u.to_affine(), t0, t1]
    }
}

/// The keys usk and udk of a node. They derive the key of every epoch below the node, and are
/// erased when the node is expanded.
pub struct NodeKey {
    user: UserKey,
    /// The points T0 and T1.
    big_t: [Factor; 2],
    uh: G2,
    big_v: G2,
    /// The points of each level below.
    levels: Vec<Level>,
}

/// The points of a node for one level below: d, D, e, E.
struct Level {
    d: G2,
    big_d: Factor,
    e: G2,
    big_e: Factor,
}

impl Level {
    fn new([d, big_d, e, big_e]: [G2; LEVEL_POINTS]) -> Self {
        Self { d, big_d: Factor::new(big_d), e, big_e: Factor::new(big_e) }
    }

    fn points(&self) -> [&G2; LEVEL_POINTS] {
        [&self.d, self.big_d.point(), &self.e, self.big_e.point()]
    }
}

/// The sums of a derivation along a relative path, not yet randomised: u*, v*, U*, V*.
pub struct Sums {
    u: G2,
    v: G2,
    uh: G2,
    big_v: G2,
    /// The number of components of the relative path.
    depth: usize,
}

/// A derived key, as its level allows.
pub enum DerivedKeys {
    /// The key of a node with levels below.
    Node(Box<NodeKey>),
    /// The key of a leaf.
    User(Box<UserKey>),
}

impl NodeKey {
    /// Decodes the points of a node with `levels_below` levels below it.
    pub fn decode(bytes: &[u8], levels_below: usize) -> Result<Self, DecodeError> {
        let mut points = decode_points(bytes)?.into_iter();
        if points.len() != 2 * USER_POINTS + LEVEL_POINTS * levels_below {
            return Err(DecodeError::Truncated);
        }
        let mut next = || points.next().ok_or(DecodeError::Truncated);
        let user = UserKey { t: [next()?, next()?], u: next()?, v: next()? };
        let big_t = [Factor::new(next()?), Factor::new(next()?)];
        let uh = next()?;
        let big_v = next()?;
        let mut levels = Vec::with_capacity(levels_below);
        for _ in 0..levels_below {
            levels.push(Level::new([next()?, next()?, next()?, next()?]));
        }
        Ok(Self { user, big_t, uh, big_v, levels })
    }

    /// Encodes t0 t1 u v T0 T1 uh V, then d D e E of each level below.
    pub fn encode(&self) -> Wiping<Vec<u8>> {
        let delegation = self.big_t.iter().map(Factor::point).chain([&self.uh, &self.big_v]);
        let levels = self.levels.iter().flat_map(Level::points);
        G2::compress_each(self.user.points().chain(delegation).chain(levels))
    }

    /// Returns the user key of the node's own epoch.
    pub fn into_user(self) -> UserKey {
        self.user
    }

    /// Returns the number of levels below the node.
    pub fn levels_below(&self) -> usize {
        self.levels.len()
    }

    /// Returns the sums of the empty path.
    pub fn empty_sums(&self) -> Sums {
        let [u, v, uh, big_v] =
            [&self.user.u, &self.user.v, &self.uh, &self.big_v].map(|x| x.add(&G2::infinity()));
        Sums { u, v, uh, big_v, depth: 0 }
    }

    /// Returns the sums of a path that is longer by the component `m`.
    pub fn descend_to(&self, sums: &Sums, m: u8) -> Sums {
        let [d, big_d, e, big_e] = self.levels[sums.depth].points();
        Sums {
            u: sums.u.add(&d.small_mul(m)),
            v: sums.v.add(&e.small_mul(m)),
            uh: sums.uh.add(&big_d.small_mul(m)),
            big_v: sums.big_v.add(&big_e.small_mul(m)),
            depth: sums.depth + 1,
        }
    }

    /// Returns the sums of the sibling on the left, whose last component is smaller by 1.
    pub fn left_sibling(&self, sums: &Sums) -> Sums {
        let [d, big_d, e, big_e] = self.levels[sums.depth - 1].points();
        Sums {
            u: sums.u.add(&d.neg()),
            v: sums.v.add(&e.neg()),
            uh: sums.uh.add(&big_d.neg()),
            big_v: sums.big_v.add(&big_e.neg()),
            depth: sums.depth,
        }
    }

    /// Makes tables of the points that many derivations share, where a table saves time (264 kB and
    /// 3 ms each). `keys`\[i\] is the number of keys with i + 1 further components that will be
    /// derived.
    pub fn prepare_tables(&mut self, keys: &[u32]) {
        let levels = self.levels.len();
        // A leaf needs only s'. A node also needs S', for T and for each level below.
        let leaf = |i: usize| i + 1 == levels;
        let each = keys.iter().enumerate().map(|(i, n)| if leaf(i) { *n } else { 2 * n });
        let products: u32 = each.sum();
        self.big_t.iter_mut().for_each(|t| t.prepare_table(products));
        for (i, level) in self.levels.iter_mut().enumerate() {
            let products = 2 * keys.iter().take(i).sum::<u32>();
            level.big_d.prepare_table(products);
            level.big_e.prepare_table(products);
        }
    }

    /// Derives only the user key of the path of `sums` (USKDel): 4 multiplications.
    pub fn derive_user(&self, sums: &Sums, rng: &mut dyn CryptoRng) -> UserKey {
        self.user_key(sums, &Fr::random(rng))
    }

    /// Derives the keys of the path of `sums` (USKDel) with a fresh s', and a fresh S' if levels
    /// are left (HIBE-12).
    pub fn derive_keys(&self, sums: &Sums, rng: &mut dyn CryptoRng) -> DerivedKeys {
        let s = Fr::random(rng);
        let user = self.user_key(sums, &s);
        let below = &self.levels[sums.depth..];
        if below.is_empty() {
            return DerivedKeys::User(Box::new(user));
        }
        let big_s = Fr::random(rng);
        let levels = below.iter().map(|Level { d, big_d, e, big_e }| {
            let d = d.add(&big_d.mul(&s));
            let e = e.add(&big_e.mul(&s));
            Level::new([d, big_d.mul(&big_s), e, big_e.mul(&big_s)])
        });
        DerivedKeys::Node(Box::new(Self {
            user,
            big_t: self.big_t.each_ref().map(|t| Factor::new(t.mul(&big_s))),
            uh: sums.uh.mul(&big_s),
            big_v: sums.big_v.mul(&big_s),
            levels: levels.collect(),
        }))
    }

    /// Returns t + s' T, u* + s' U*, v* + s' V*.
    fn user_key(&self, sums: &Sums, s: &Fr) -> UserKey {
        let [t0, t1] = [0, 1].map(|j| self.user.t[j].add(&self.big_t[j].mul(s)));
        let u = sums.u.add(&sums.uh.mul(s));
        UserKey { t: [t0, t1], u, v: sums.v.add(&sums.big_v.mul(s)) }
    }

    /// Returns the delegation part of the path of `sums`, multiplied by a fresh S': T0, T1, uh, V,
    /// then `D_i`, `E_i`. These points recognise envelopes and open none (section 2.5 of the
    /// document).
    pub fn detect_points(&self, sums: &Sums, rng: &mut dyn CryptoRng) -> Vec<G2> {
        let s = Fr::random(rng);
        let own = self.big_t.iter().map(Factor::point).chain([&sums.uh, &sums.big_v]);
        let below = self.levels[sums.depth..].iter();
        let levels = below.flat_map(|level| [level.big_d.point(), level.big_e.point()]);
        own.chain(levels).map(|point| point.mul(&s)).collect()
    }
}

/// The master secret msk: B, `x_i`, `Y_i`, x'_0, y'_0. Only [`generate`] holds one, and wipes it
/// (HIBE-10).
pub struct MasterSecret {
    b: [Fr; 2],
    /// The scalars `x_i` and `Y_i`.
    levels: Vec<[[Fr; 2]; 2]>,
    x_prime: Fr,
    y_prime: Fr,
}

silent!(MasterSecret);

/// Runs Gen, and USKGen for the root: returns the public parameters and the root key of a tree of
/// `levels` levels.
pub fn generate(system: &System, levels: usize, rng: &mut dyn CryptoRng) -> (Parameters, NodeKey) {
    let master = MasterSecret::random(levels, rng);
    (master.derive_parameters(system), master.user_key(system, &Path::root(), rng))
}

impl MasterSecret {
    /// Draws b0, b1, then `x_i`\[0\], `x_i`\[1\], `Y_i`\[0\], `Y_i`\[1\] for i = 0 to L, then x'_0,
    /// y'_0.
    pub fn random(levels: usize, rng: &mut dyn CryptoRng) -> Self {
        debug_assert!(levels <= DEPTH);
        let mut draw = || Fr::random(rng);
        let b = [draw(), draw()];
        let levels = (0..=levels).map(|_| [[draw(), draw()], [draw(), draw()]]).collect();
        Self { b, levels, x_prime: draw(), y_prime: draw() }
    }

    /// Returns `Z_i`\[j\] = `Y_i`\[j\] P1 + `x_i`\[j\] `H_a` and z' = y'_0 P1 + x'_0 `H_a`.
    pub fn derive_parameters(&self, system: &System) -> Parameters {
        let commit = |y: &Fr, x: &Fr| system.mul_p1(y).add(&system.h_a(x)).to_affine();
        let z = self.levels.iter().map(|[x, y]| [0, 1].map(|j| commit(&y[j], &x[j])));
        Parameters { z: z.collect(), z_prime: commit(&self.y_prime, &self.x_prime) }
    }

    /// Runs USKGen: draws s and S, and computes t = s B, T = S B and the other points.
    pub fn user_key(&self, system: &System, path: &Path, rng: &mut dyn CryptoRng) -> NodeKey {
        let s = Fr::random(rng);
        let big_s = Fr::random(rng);
        let t = self.b.each_ref().map(|b| s.mul(b));
        let big_t = self.b.each_ref().map(|b| big_s.mul(b));
        let x = self.identity_scalars(path, 0);
        let y = self.identity_scalars(path, 1);
        let p2 = |scalar: &Fr| system.mul_p2(scalar);
        let user = UserKey {
            t: t.each_ref().map(p2),
            u: p2(&dot_product(&x, &t).add(&self.x_prime)),
            v: p2(&dot_product(&y, &t).add(&self.y_prime)),
        };
        let levels = self.levels[1 + path.depth()..].iter().map(|[x, y]| {
            Level::new(
                [(x, &t), (x, &big_t), (y, &t), (y, &big_t)].map(|(a, b)| p2(&dot_product(a, b))),
            )
        });
        NodeKey {
            user,
            uh: p2(&dot_product(&x, &big_t)),
            big_v: p2(&dot_product(&y, &big_t)),
            levels: levels.collect(),
            big_t: big_t.each_ref().map(|t| Factor::new(p2(t))),
        }
    }

    /// Returns X(id) if `which` is 0, Y(id) if `which` is 1.
    fn identity_scalars(&self, path: &Path, which: usize) -> [Fr; 2] {
        [0, 1].map(|j| {
            let levels = self.levels[1..].iter().zip(path.components());
            levels.fold(self.levels[0][which][j].add(&Fr::zero()), |sum, (level, m)| {
                sum.add(&level[which][j].mul(&Fr::from_small(*m)))
            })
        })
    }
}

fn dot_product(a: &[Fr; 2], b: &[Fr; 2]) -> Fr {
    a[0].mul(&b[0]).add(&a[1].mul(&b[1]))
}

/// Returns e(z', P2), the base of every encapsulated key.
pub fn compute_base(parameters: &Parameters) -> Gt {
    Gt::pairing(&parameters.z_prime, &G2Affine::generator())
}
