//! One message after another: 368 bytes each, each under a key of its own.

use std::hint::black_box;

use crate::rate::Call;

/// Bytes of a message of a conversation round, sealed for the last mix.
pub const BODY: usize = 368;
/// Bytes of a sealed message: the body and its 16-byte tag.
pub const STRIDE: usize = BODY + 16;

/// Returns numbers without a pattern, the same in every run.
pub fn words(count: usize) -> Vec<[u8; 32]> {
    (0..count).map(|i| std::array::from_fn(|j| (i * 31 + j * 7 + i * j) as u8)).collect()
}

/// Returns a call that seals `count` messages with the function `one`, which returns the tag.
pub fn seal(count: usize, one: fn(&[u8; 32], &mut [u8]) -> Option<[u8; 16]>) -> Call {
    let keys = words(count);
    let mut bytes = vec![7; count * STRIDE];
    Box::new(move |_| {
        for (key, message) in keys.iter().zip(black_box(&mut bytes).chunks_exact_mut(STRIDE)) {
            let (text, tag) = message.split_at_mut(BODY);
            assert!(one(key, text).is_some_and(|its| {
                tag.copy_from_slice(&its);
                true
            }));
        }
    })
}
