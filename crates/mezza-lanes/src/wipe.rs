//! Zeroing that the compiler must not optimise away.

/// Bytes that [`wipe_stack`] overwrites: more than the stack use of any operation of this crate.
const SCRUBBED_BYTES: usize = 65_536;

/// Overwrites `bytes` with zeros.
pub fn wipe_bytes(bytes: &mut [u8]) {
    bytes.fill(0);
    zeroize::optimization_barrier(bytes);
}

/// Overwrites 64 KiB of stack below the caller, where the last operation may have spilled
/// registers. A caller runs it after a job with a long-lived secret.
#[inline(never)]
#[expect(clippy::large_stack_arrays, reason = "the stack is what it is about")]
pub fn wipe_stack() {
    let mut stack = [0xff; SCRUBBED_BYTES];
    zeroize::optimization_barrier(&stack);
    wipe_bytes(&mut stack);
}
