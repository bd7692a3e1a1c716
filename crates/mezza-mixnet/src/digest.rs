//! The one hash of this crate: a label, then the parts, into as many bytes as the caller needs.

use mezza_core::blake2b;

/// Parts that one call may hash.
const PARTS_MAX: usize = 8;

/// Unkeyed BLAKE2b (RFC 7693) of `N` bytes, 1 to 64, over `u8 len(label) | label | parts`.
///
/// The parts follow one another without lengths: at most the last one may vary in length. Labels
/// are constants of at most 255 bytes, and there are at most 8 parts. Nothing is allocated: this
/// runs several times for each onion.
pub fn h<const N: usize>(label: &str, parts: &[&[u8]]) -> [u8; N] {
    debug_assert!(label.len() <= 0xff && parts.len() <= PARTS_MAX);
    let label_bytes = [label.len() as u8];
    let mut input: [&[u8]; PARTS_MAX + 2] = [&[]; PARTS_MAX + 2];
    input[0] = &label_bytes;
    input[1] = label.as_bytes();
    input[2..2 + parts.len()].copy_from_slice(parts);
    let mut out = [0; N];
    blake2b(&mut out, &[], "", &input[..2 + parts.len()]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_the_label_keeps_label_and_parts_apart() {
        assert_ne!(h::<32>("mezza/a", &[b"bc"]), h::<32>("mezza/ab", &[b"c"]));
        assert_eq!(h::<32>("mezza/a", &[b"bc"]), h::<32>("mezza/a", &[b"b", b"c"]));
    }
}
