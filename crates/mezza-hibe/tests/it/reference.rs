//! A second implementation of the HIBKEM: BKP14 in arkworks, plain formulas, compared by bytes.

use ark_bls12_381::{Bls12_381, Fr, G1Affine, G1Projective, G2Affine, G2Projective};
use ark_ec::pairing::{Pairing, PairingOutput};
use ark_ec::{AffineRepr, CurveGroup};
use ark_ff::{BigInteger, Field, PrimeField};
use mezza_hibe::bkp::{MasterSecret, NodeKey};
use mezza_hibe::curve::gt::GT_BYTES;
use mezza_hibe::curve::{self, h_a};
use mezza_hibe::shape::Path;
use mezza_hibe::{Epoch, Shape, System};
use rand_core::Rng as _;

use crate::fixture::Blocks;

/// 48 bytes, big-endian.
fn fp_bytes(x: &ark_bls12_381::Fq) -> [u8; 48] {
    x.into_bigint().to_bytes_be().try_into().expect("48 bytes")
}

/// The usual encoding: x with three flags.
fn compress(point: &G1Projective) -> [u8; 48] {
    let point = point.into_affine();
    let (x, y) = point.xy().expect("a finite point");
    let mut bytes = fp_bytes(&x);
    bytes[0] |= 0x80 | if y > -y { 0x20 } else { 0 };
    bytes
}

fn decode(bytes: &[u8; 48]) -> G1Affine {
    let mut x = *bytes;
    x[0] &= 0x1f;
    let x = ark_bls12_381::Fq::from_be_bytes_mod_order(&x);
    let (small, large) = G1Affine::get_ys_from_x_unchecked(x).expect("on the curve");
    G1Affine::new_unchecked(x, if bytes[0] & 0x20 == 0 { small } else { large })
}

/// The coefficients of w^0 to w^5 over Fp2.
fn gt_bytes(gt: &PairingOutput<Bls12_381>) -> [u8; GT_BYTES] {
    let c0 = gt.0.c0;
    let c1 = gt.0.c1;
    let coefficients = [c0.c0, c1.c0, c0.c1, c1.c1, c0.c2, c1.c2];
    let bytes: Vec<u8> =
        coefficients.iter().flat_map(|c| [c.c0, c.c1]).flat_map(|x| fp_bytes(&x)).collect();
    bytes.try_into().expect("576 bytes")
}

/// A fresh scalar from the blocks of the vectors.
fn draw(rng: &mut Blocks) -> Fr {
    let mut wide = [0; 64];
    rng.fill_bytes(&mut wide);
    Fr::from_le_bytes_mod_order(&wide)
}

/// msk with the formulas of the document.
struct Reference {
    b: [Fr; 2],
    levels: Vec<[[Fr; 2]; 2]>,
    x_prime: Fr,
    y_prime: Fr,
}

fn dot(a: &[Fr; 2], b: &[Fr; 2]) -> Fr {
    a[0] * b[0] + a[1] * b[1]
}

impl Reference {
    fn random(rng: &mut Blocks) -> Self {
        let b = [draw(rng), draw(rng)];
        let levels = (0..6).map(|_| [[draw(rng), draw(rng)], [draw(rng), draw(rng)]]).collect();
        Self { b, levels, x_prime: draw(rng), y_prime: draw(rng) }
    }

    /// X(id) and Y(id).
    fn identity(&self, path: &[u8]) -> [[Fr; 2]; 2] {
        [0, 1].map(|which| {
            [0, 1].map(|j| {
                let m = path.iter().zip(&self.levels[1..]);
                self.levels[0][which][j]
                    + m.map(|(m, level)| Fr::from(*m) * level[which][j]).sum::<Fr>()
            })
        })
    }

    /// `Z_i[j]` and z'.
    fn public(&self, h_a: G1Projective) -> (Vec<[G1Projective; 2]>, G1Projective) {
        let p1 = G1Projective::from(G1Affine::generator());
        let z = self.levels.iter().map(|[x, y]| [0, 1].map(|j| p1 * y[j] + h_a * x[j]));
        (z.collect(), p1 * self.y_prime + h_a * self.x_prime)
    }

    /// t0 t1 u v.
    fn user_key(&self, path: &[u8], s: Fr) -> [G2Projective; 4] {
        let p2 = G2Projective::from(G2Affine::generator());
        let t = self.b.map(|b| s * b);
        let [x, y] = self.identity(path);
        [p2 * t[0], p2 * t[1], p2 * (dot(&x, &t) + self.x_prime), p2 * (dot(&y, &t) + self.y_prime)]
    }
}

/// K = e(c0[0], v) e(c0[1], u) e(c1[0], -t0) e(c1[1], -t1).
fn decapsulate(key: &[G2Projective; 4], c: &[G1Affine; 4]) -> PairingOutput<Bls12_381> {
    let [t0, t1, u, v] = *key;
    Bls12_381::multi_pairing(*c, [v, u, -t0, -t1].map(G2Affine::from))
}

#[test]
fn k_is_the_same_by_arkworks_at_all_depths() {
    let system = System::new();
    let ours = MasterSecret::random(5, &mut Blocks::new());
    let theirs = Reference::random(&mut Blocks::new());
    let hashed = G1Projective::from(decode(&h_a().to_affine().compress()));
    let (z, z_prime) = theirs.public(hashed);

    // pk.
    let parameters = ours.derive_parameters(&system);
    for (ours, theirs) in parameters.z.iter().zip(&z) {
        assert_eq!([0, 1].map(|j| ours[j].compress()), [0, 1].map(|j| compress(&theirs[j])));
    }
    assert_eq!(parameters.z_prime.compress(), compress(&z_prime));

    // Enc by ours, Dec by theirs with a key of their own, and K from the public key.
    for components in [&[][..], &[1], &[1, 16], &[1, 16, 1], &[1, 16, 1, 18], &[1, 16, 1, 18, 3]] {
        let path = Path::new(components).expect("a path");
        let mut wide = [0; 64];
        wide[..8].copy_from_slice(&(7 + components.len() as u64).to_le_bytes());
        wide[40] = 1;
        let r = curve::Fr::from_wide(&wide);
        let c = mezza_hibe::bkp::compute_header(&system, &parameters.identity_points(&path), &r);
        let c: Vec<G1Affine> =
            c.iter().map(|point| decode(&point.to_affine().compress())).collect();
        let c: [G1Affine; 4] = c.try_into().expect("four points");
        let r = Fr::from_le_bytes_mod_order(&wide);
        let k =
            mezza_hibe::bkp::compute_base(&parameters).pow(&curve::Fr::from_wide(&wide)).to_bytes();
        let from_public = Bls12_381::pairing(z_prime * r, G2Affine::generator());
        assert_eq!(*k, gt_bytes(&from_public), "{components:?}");
        let key = theirs.user_key(components, Fr::from(11_u64).pow([5]));
        assert_eq!(*k, gt_bytes(&decapsulate(&key, &c)), "{components:?}");

        // A key that ours derives in several steps decapsulates the same in arkworks.
        let derived = points(&derived(&ours, &system, components));
        assert_eq!(*k, gt_bytes(&decapsulate(&derived, &c)), "{components:?}");
    }
}

/// One-level derivations along a path.
fn derived(master: &MasterSecret, system: &System, components: &[u8]) -> Vec<u8> {
    let rng = &mut crate::fixture::chance(1);
    let mut node: NodeKey = master.user_key(system, &Shape::Wide.path_to(Epoch(0)), rng);
    for m in components {
        let sums = node.descend_to(&node.empty_sums(), *m);
        match node.derive_keys(&sums, rng) {
            mezza_hibe::bkp::DerivedKeys::Node(child) => node = *child,
            mezza_hibe::bkp::DerivedKeys::User(leaf) => return leaf.encode().to_vec(),
        }
    }
    node.into_user().encode().to_vec()
}

/// t0 t1 u v as points of arkworks.
fn points(bytes: &[u8]) -> [G2Projective; 4] {
    let (points, _) = bytes.as_chunks::<96>();
    let points: Vec<G2Projective> = points.iter().map(|bytes| decode_g2(bytes).into()).collect();
    points.try_into().expect("four points")
}

fn decode_g2(bytes: &[u8; 96]) -> G2Affine {
    let mut c1: [u8; 48] = bytes[..48].try_into().expect("48 bytes");
    c1[0] &= 0x1f;
    let fp = ark_bls12_381::Fq::from_be_bytes_mod_order;
    let x = ark_bls12_381::Fq2::new(fp(&bytes[48..]), fp(&c1));
    let (small, large) = G2Affine::get_ys_from_x_unchecked(x).expect("on the curve");
    let point = G2Affine::new_unchecked(x, if bytes[0] & 0x20 == 0 { small } else { large });
    assert!(!point.is_zero());
    point
}
