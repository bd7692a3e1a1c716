//! ChaCha20 (RFC 8439, section 2.3) for sixteen keys at a time, nonce zero: word w of all blocks is
//! in one vector.

use crate::lanes::{BLOCK, Lanes32, WORDS};
use crate::wipe::wipe_bytes;

/// The constant "expand 32-byte k".
const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

/// Sixteen keys: word w of all keys is in one vector.
pub type ChaCha20Keys<L> = [<L as Lanes32>::W; 8];
/// Blocks of key stream: the block of key j is in row j.
pub type Blocks = [[u8; BLOCK]; WORDS];

/// Loads up to sixteen keys, transposed.
#[inline(always)]
pub fn load_keys<L: Lanes32>(l: L, keys: &[[u8; 32]]) -> ChaCha20Keys<L> {
    // A row of 64 bytes is a key and the bytes behind it, which are not used.
    let mut bytes = [[0; 32]; WORDS + 1];
    bytes[..keys.len()].copy_from_slice(keys);
    let mut rows = [l.splat_words(0); WORDS];
    for (row, pair) in rows.iter_mut().zip(bytes.windows(2)) {
        *row = pair.as_flattened().first_chunk().map_or(*row, |bytes| l.load_words(bytes));
    }
    wipe_bytes(bytes.as_flattened_mut());
    let [a, b, c, d, e, f, g, h, ..] = l.transpose(rows);
    [a, b, c, d, e, f, g, h]
}

/// The state of sixteen blocks: the initial words, and the words after the rounds so far.
pub struct ChaCha20State<L: Lanes32> {
    begin: [L::W; WORDS],
    now: [L::W; WORDS],
}

impl<L: Lanes32> ChaCha20State<L> {
    /// Double rounds per block.
    pub const ROUNDS: usize = 10;

    /// Makes the initial state of block `counter` for every key.
    #[inline(always)]
    pub fn new(l: L, keys: &ChaCha20Keys<L>, counter: u32) -> Self {
        let mut begin = [l.splat_words(0); WORDS];
        for (word, constant) in begin.iter_mut().zip(CONSTANTS) {
            *word = l.splat_words(constant);
        }
        begin[4..12].copy_from_slice(keys);
        begin[12] = l.splat_words(counter);
        Self { begin, now: begin }
    }

    /// Computes a double round: columns, then diagonals.
    #[inline(always)]
    pub fn double_round(&mut self, l: L) {
        for i in 0..4 {
            quarter_round(l, &mut self.now, [i, i + 4, i + 8, i + 12]);
        }
        for i in 0..4 {
            let at = [i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4];
            quarter_round(l, &mut self.now, at);
        }
    }

    /// Adds the initial state, and writes the blocks.
    #[inline(always)]
    pub fn write_blocks(self, l: L, out: &mut Blocks) {
        let mut state = self.now;
        for (word, begin) in state.iter_mut().zip(self.begin) {
            *word = l.add_words(*word, begin);
        }
        for (out, row) in out.iter_mut().zip(l.transpose(state)) {
            *out = l.store_words(row);
        }
    }
}

/// Computes the quarter round (section 2.1) on four words of the state.
#[inline(always)]
fn quarter_round<L: Lanes32>(l: L, state: &mut [L::W; WORDS], [a, b, c, d]: [usize; 4]) {
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
pub fn xor_block<L: Lanes32>(l: L, text: &mut [u8], block: &[u8; BLOCK]) {
    if let Ok(whole) = <&mut [u8; BLOCK]>::try_from(&mut *text) {
        *whole = l.store_words(l.xor_words(l.load_words(whole), l.load_words(block)));
    } else {
        let (whole, rest) = text.as_chunks_mut();
        let (keys, _) = block.as_chunks();
        for (bytes, key) in whole.iter_mut().zip(keys) {
            *bytes = (u128::from_le_bytes(*bytes) ^ u128::from_le_bytes(*key)).to_le_bytes();
        }
        rest.iter_mut().zip(&block[16 * whole.len()..]).for_each(|(byte, key)| *byte ^= key);
    }
}
