//! Batch cryptography: our kernels, and the same work one input after another by other libraries.
//!
//! ```text
//! KERNEL-shared  KERNEL-each  KERNEL-fixed  KERNEL-seal     KERNEL = ifma portable aws-lc
//! dalek-shared  dalek-fixed  rustcrypto-seal  library-seal  (aws-lc as it comes)
//! ```
//! A call is SIZE products, or as many messages of 368 bytes, each under a key of its own.

use std::hint::black_box;

use anyhow::{Context as _, Result, bail};
use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use chacha20poly1305::Nonce as Nonce12;
use chacha20poly1305::aead::{AeadInOut as _, KeyInit as _, inout::InOutBuf};
use curve25519_dalek::montgomery::MontgomeryPoint;
use mezza::testing::backend::kernel;
use mezza_lanes::{BASE, Kernel, Scalar, Strided};

use mezza_lab_measuring::messages::{BODY, STRIDE, seal, words};
use mezza_lab_measuring::rate::Call;

/// Prepares one call of `op` on `count` inputs.
///
/// # Errors
/// An unknown name, or a kernel that this CPU does not support.
pub fn prepare_call(op: &str, count: usize) -> Result<Call> {
    let (who, op) = op.rsplit_once('-').context("which operation?")?;
    let words = words(count);
    match (who, op) {
        ("dalek", "shared") => Ok(Box::new(move |_| {
            for u in &words {
                black_box(MontgomeryPoint(*u).mul_clamped(words[0]));
            }
        })),
        ("dalek", "fixed") => Ok(Box::new(move |_| {
            for k in &words {
                black_box(MontgomeryPoint::mul_base_clamped(*k));
            }
        })),
        ("rustcrypto", "seal") => Ok(seal(count, |key, text| {
            let key = chacha20poly1305::ChaCha20Poly1305::new(key.into());
            let sealed = key.encrypt_inout_detached(&Nonce12::default(), &[], InOutBuf::from(text));
            sealed.map(Into::into).ok()
        })),
        ("library", "seal") => Ok(seal(count, |key, text| {
            let key = LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, key).ok()?);
            let nonce = Nonce::assume_unique_for_key([0; 12]);
            let tag = key.seal_in_place_separate_tag(nonce, Aad::empty(), text).ok()?;
            tag.as_ref().try_into().ok()
        })),
        _ => prepare_kernel(kernel_of(who)?, op, words),
    }
}

fn kernel_of(name: &str) -> Result<&'static dyn Kernel> {
    let all = kernel::runnable_kernels();
    let found = all.into_iter().find(|kernel| kernel.name() == name);
    found.with_context(|| format!("no kernel {name} here"))
}

fn prepare_kernel(kernel: &'static dyn Kernel, op: &str, words: Vec<[u8; 32]>) -> Result<Call> {
    let mut out = words.clone();
    Ok(match op {
        "shared" => {
            let scalar = Scalar::copy_from(&words[0]);
            Box::new(move |_| kernel.x25519_shared(&scalar, &words, black_box(&mut out)))
        }
        "each" => Box::new(move |_| kernel.x25519_pairwise(&words, &words, black_box(&mut out))),
        "fixed" => {
            let base = kernel.fixed_point(&BASE).context("the base point has a table")?;
            Box::new(move |_| kernel.x25519_fixed(&base, &words, black_box(&mut out)))
        }
        "seal" => {
            let mut bytes = vec![7; words.len() * STRIDE];
            Box::new(move |_| {
                kernel.seal_each(&words, Strided::new(black_box(&mut bytes), STRIDE, 0, BODY));
            })
        }
        _ => bail!("no operation {op}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_every_operation_runs_and_others_are_refused() {
        for who in kernel::runnable_kernels().iter().map(|kernel| kernel.name()) {
            for op in ["shared", "each", "fixed", "seal"] {
                prepare_call(&format!("{who}-{op}"), 3).unwrap()(0);
            }
        }
        for op in ["dalek-shared", "dalek-fixed", "rustcrypto-seal", "library-seal"] {
            prepare_call(op, 3).unwrap()(0);
        }
        for op in ["dalek", "dalek-seal", "portable-open", "nobody-seal"] {
            assert!(prepare_call(op, 3).is_err(), "{op}");
        }
    }

    #[test]
    fn both_libraries_seal_alike() {
        let key = &words(1)[0];
        let mut texts = [[1; BODY]; 2];
        let ours = chacha20poly1305::ChaCha20Poly1305::new(key.into());
        let [a, b] = &mut texts;
        let text = InOutBuf::from(a.as_mut_slice());
        let tag = ours.encrypt_inout_detached(&Nonce12::default(), &[], text).unwrap();
        let theirs = LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, key).unwrap());
        let nonce = Nonce::assume_unique_for_key([0; 12]);
        let other = theirs.seal_in_place_separate_tag(nonce, Aad::empty(), b).unwrap();
        assert_eq!((tag.as_slice(), a), (other.as_ref(), b));
    }
}
