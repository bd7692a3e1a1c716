//! ChaCha20 (RFC 8439, section 2.3) for sixteen keys in step, nonce zero: word w of all blocks in one
//! vector.

use crate::lanes::{WORDS, Words};

/// "expand 32-byte k".
const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

/// Sixteen keys: word w of all of them in one vector.
pub type Keys<L> = [<L as Words>::W; 8];
/// Block j of 64 bytes in row j.
pub type Blocks = [[u32; WORDS]; WORDS];

/// Sixteen keys side by side.
#[inline(always)]
pub fn keys<L: Words>(l: L, keys: &[[u8; 32]; WORDS]) -> Keys<L> {
    let mut words = [[0; WORDS]; 8];
    for (place, key) in keys.iter().enumerate() {
        for (word, bytes) in words.iter_mut().zip(key.as_chunks().0) {
            word[place] = u32::from_le_bytes(*bytes);
        }
    }
    let mut keys = [l.words(0); 8];
    for (key, word) in keys.iter_mut().zip(&words) {
        *key = l.load_words(word);
    }
    words = [[0; WORDS]; 8];
    zeroize::optimization_barrier(&words);
    keys
}

/// Block number `counter` of every key.
#[inline(always)]
pub fn blocks<L: Words>(l: L, keys: &Keys<L>, counter: u32, out: &mut Blocks) {
    let zero = l.words(0);
    let mut begin = [zero; WORDS];
    for (word, constant) in begin.iter_mut().zip(CONSTANTS) {
        *word = l.words(constant);
    }
    begin[4..12].copy_from_slice(keys);
    begin[12] = l.words(counter);
    let mut state = begin;
    for _ in 0..10 {
        for i in 0..4 {
            quarter(l, &mut state, [i, i + 4, i + 8, i + 12]);
        }
        for i in 0..4 {
            quarter(l, &mut state, [i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4]);
        }
    }
    for (word, begin) in state.iter_mut().zip(begin) {
        *word = l.add_words(*word, begin);
    }
    for (out, row) in out.iter_mut().zip(l.transpose(state)) {
        *out = l.store_words(row);
    }
}

/// The quarter round (section 2.1) on four words of the state.
#[inline(always)]
fn quarter<L: Words>(l: L, state: &mut [L::W; WORDS], [a, b, c, d]: [usize; 4]) {
    state[a] = l.add_words(state[a], state[b]);
    state[d] = l.rotl::<16>(l.xor_words(state[d], state[a]));
    state[c] = l.add_words(state[c], state[d]);
    state[b] = l.rotl::<12>(l.xor_words(state[b], state[c]));
    state[a] = l.add_words(state[a], state[b]);
    state[d] = l.rotl::<8>(l.xor_words(state[d], state[a]));
    state[c] = l.add_words(state[c], state[d]);
    state[b] = l.rotl::<7>(l.xor_words(state[b], state[c]));
}

/// Xors up to 64 bytes of a block into a text.
#[inline(always)]
pub fn xor(text: &mut [u8], block: &[u32; WORDS]) {
    let (whole, rest) = text.as_chunks_mut();
    let count = whole.len();
    for (bytes, word) in whole.iter_mut().zip(block) {
        *bytes = (u32::from_le_bytes(*bytes) ^ word).to_le_bytes();
    }
    for (byte, key) in rest.iter_mut().zip(block.get(count).map_or([0; 4], |w| w.to_le_bytes())) {
        *byte ^= key;
    }
}
