//! Secrets left in memory after a call: the test reads the memory of its own process.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};

use mezza_lanes::{BASE, Kernel, Scalar, Strided, ifma, portable, wipe_stack};

/// A secret that is never stored as such: each look at a byte computes it.
#[derive(Clone, Copy)]
struct Secret {
    seed: u32,
}

impl Secret {
    fn byte(self, at: usize) -> u8 {
        let x = (self.seed ^ at as u32).wrapping_mul(0x9e37_79b1);
        (x ^ x >> 15).wrapping_mul(0x85eb_ca77).to_be_bytes()[0]
    }

    fn write(self, out: &mut [u8; 32]) {
        out.iter_mut().enumerate().for_each(|(at, byte)| *byte = self.byte(at));
    }

    /// Swap mask of bit `t` when this is a scalar for all lanes.
    fn mask(self, t: usize) -> u8 {
        let bit = |t: usize| self.byte(t / 8) >> (t % 8) & 1;
        (bit(t) ^ bit(t + 1)).wrapping_neg()
    }
}

/// How often `len` bytes in a row lie in the writable memory of this process.
fn found(len: usize, byte: impl Fn(usize) -> u8) -> usize {
    let maps = fs::read_to_string("/proc/self/maps").expect("the maps");
    let mut memory = File::open("/proc/self/mem").expect("the memory");
    let mut count = 0;
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let (from, to) = range.expect("from-to");
        let [from, to] = [from, to].map(|hex| u64::from_str_radix(hex, 16).expect("hex"));
        memory.seek(SeekFrom::Start(from)).expect("a place");
        let mut bytes = vec![0; usize::try_from(to - from).expect("a size")];
        if memory.read_exact(&mut bytes).is_ok() {
            count += bytes.windows(len).filter(|part| (0..len).all(|i| part[i] == byte(i))).count();
        }
        bytes.fill(0);
        std::hint::black_box(&bytes);
    }
    count
}

/// Runs every operation with the secret in each place where one goes.
#[inline(never)]
fn work(kernel: &dyn Kernel, secret: Secret) {
    let mut keys = vec![[0; 32]; 9];
    for key in &mut keys {
        secret.write(key);
    }
    let mut out = [[0; 32]; 9];
    kernel.x25519_shared(&Scalar::fill_with(|k| secret.write(k)), &[BASE; 9], &mut out);
    kernel.x25519_pairwise(&keys, &[BASE; 9], &mut out);
    let base = kernel.fixed_point(&BASE).expect("the base point");
    kernel.x25519_fixed(&base, &keys, &mut out);
    let mut bytes = [0; 9 * 116];
    kernel.seal_each(&keys, Strided::new(&mut bytes, 116, 0, 100));
    kernel.open_each(&keys, Strided::new(&mut bytes, 116, 0, 100), &mut [0; 9]);
    keys.fill([0; 32]);
    std::hint::black_box(&keys);
}

#[test]
fn lanes_7_no_scalar_key_or_mask_is_left() {
    let held = Secret { seed: 1 };
    let mut here = Box::new([0; 32]);
    held.write(&mut here);
    assert!(found(24, |i| held.byte(4 + i)) > 0, "what is held must be found");
    std::hint::black_box(&here);
    for (kernel, seed) in [(Some(portable()), 2), (ifma(), 3)] {
        let Some(kernel) = kernel else { continue };
        let secret = Secret { seed };
        work(kernel, secret);
        wipe_stack();
        // The middle of it, which clamping leaves alone.
        assert_eq!(found(24, |i| secret.byte(4 + i)), 0, "{}: the secret", kernel.name());
        assert_eq!(found(64, |i| secret.mask(64 + i)), 0, "{}: its masks", kernel.name());
    }
}
