//! AVX-512 with IFMA: the only file with `unsafe` code.
//!
//! An [`Ifma`] proves that the CPU and the operating system support all instructions that its
//! methods use; this is the reason of every `unsafe` block. The methods are inlined into functions
//! that [`Lanes::outline`] compiles for these features. A method that is not inlined would be slow,
//! but sound.
#![expect(unsafe_code, reason = "intrinsics; each block says which token allows it")]
#![expect(clippy::inline_always, reason = "an intrinsic behind a call loses all its speed")]

use core::arch::x86_64::{
    __m512i, _mm512_add_epi32, _mm512_add_epi64, _mm512_and_si512, _mm512_loadu_si512,
    _mm512_madd52hi_epu64, _mm512_madd52lo_epu64, _mm512_mask_blend_epi64, _mm512_mullo_epi64,
    _mm512_permutexvar_epi64, _mm512_rol_epi32, _mm512_set1_epi32, _mm512_set1_epi64,
    _mm512_shuffle_i32x4, _mm512_slli_epi64, _mm512_srli_epi64, _mm512_storeu_si512,
    _mm512_sub_epi64, _mm512_testn_epi64_mask, _mm512_unpackhi_epi32, _mm512_unpackhi_epi64,
    _mm512_unpacklo_epi32, _mm512_unpacklo_epi64, _mm512_xor_si512,
};

use crate::Kernel;
use crate::eight::VectorKernel;
use crate::lanes::{BLOCK, LANES, Lanes, Lanes32, WORDS};

cpufeatures::new!(cpu, "avx512f", "avx512ifma", "avx512vl", "avx512dq", "avx512bw");

/// A proof that the CPU has the five features and that the operating system saves the registers.
#[derive(Clone, Copy)]
pub struct Ifma(());

impl Ifma {
    /// Returns the token if CPU and operating system support the features; the result is cached.
    pub fn detect() -> Option<Self> {
        cpu::get().then_some(Self(()))
    }
}

/// Returns the IFMA kernel if CPU and operating system support it.
pub fn ifma() -> Option<&'static dyn Kernel> {
    // The kernel is returned only together with a token.
    static KERNEL: VectorKernel<Ifma> = VectorKernel::new(Ifma(()), "ifma");
    Ifma::detect().map(|_| &KERNEL as &dyn Kernel)
}

/// Runs `f` in a function compiled for the features, with all calls inlined.
#[target_feature(enable = "avx512f,avx512ifma,avx512vl,avx512dq,avx512bw")]
#[inline(never)]
fn compiled_for_ifma<R>(f: impl FnOnce() -> R) -> R {
    f()
}

impl Lanes for Ifma {
    type V = __m512i;

    #[inline(always)]
    fn splat(self, x: u64) -> __m512i {
        // SAFETY: self proves avx512f.
        unsafe { _mm512_set1_epi64(x.cast_signed()) }
    }

    #[inline(always)]
    fn load(self, x: &[u64; LANES]) -> __m512i {
        // SAFETY: self proves avx512f; `x` is 64 readable bytes, unaligned is allowed.
        unsafe { _mm512_loadu_si512(x.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store(self, v: __m512i) -> [u64; LANES] {
        let mut out = [0; LANES];
        // SAFETY: self proves avx512f; `out` is 64 writable bytes, unaligned is allowed.
        unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), v) };
        out
    }

    #[inline(always)]
    fn add(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: self proves avx512f.
        unsafe { _mm512_add_epi64(a, b) }
    }

    #[inline(always)]
    fn sub(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: self proves avx512f.
        unsafe { _mm512_sub_epi64(a, b) }
    }

    #[inline(always)]
    fn and(self, a: __m512i, mask: __m512i) -> __m512i {
        // SAFETY: self proves avx512f.
        unsafe { _mm512_and_si512(a, mask) }
    }

    #[inline(always)]
    fn shl<const N: u32>(self, a: __m512i) -> __m512i {
        // SAFETY: self proves avx512f.
        unsafe { _mm512_slli_epi64::<N>(a) }
    }

    #[inline(always)]
    fn shr<const N: u32>(self, a: __m512i) -> __m512i {
        // SAFETY: self proves avx512f.
        unsafe { _mm512_srli_epi64::<N>(a) }
    }

    #[inline(always)]
    fn mul(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: self proves avx512dq.
        unsafe { _mm512_mullo_epi64(a, b) }
    }

    #[inline(always)]
    fn lo(self, acc: __m512i, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: self proves avx512ifma.
        unsafe { _mm512_madd52lo_epu64(acc, a, b) }
    }

    #[inline(always)]
    fn hi(self, acc: __m512i, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: self proves avx512ifma.
        unsafe { _mm512_madd52hi_epu64(acc, a, b) }
    }

    #[inline(always)]
    fn blend(self, mask: u8, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: self proves avx512f.
        unsafe { _mm512_mask_blend_epi64(mask, a, b) }
    }

    #[inline(always)]
    fn permute(self, index: __m512i, a: __m512i) -> __m512i {
        // SAFETY: self proves avx512f; the instruction uses only the three lowest bits of an index.
        unsafe { _mm512_permutexvar_epi64(index, a) }
    }

    #[inline(always)]
    fn is_zero(self, a: __m512i) -> u8 {
        // SAFETY: self proves avx512f.
        unsafe { _mm512_testn_epi64_mask(a, a) }
    }

    #[inline(always)]
    fn load_columns(self, bytes: &[u8], at: &[usize; LANES]) -> [__m512i; LANES] {
        let mut rows = [self.splat(0); LANES];
        for (row, at) in rows.iter_mut().zip(at) {
            *row = self.load_words(&bytes[*at..][..BLOCK].as_chunks().0[0]);
        }
        // SAFETY: self proves avx512f.
        unsafe { transpose_lanes(&rows) }
    }

    #[inline(always)]
    fn outline<R>(self, f: impl FnOnce() -> R) -> R {
        // SAFETY: self proves all five features.
        unsafe { compiled_for_ifma(f) }
    }
}

impl Lanes32 for Ifma {
    type W = __m512i;

    #[inline(always)]
    fn splat_words(self, x: u32) -> __m512i {
        // SAFETY: self proves avx512f.
        unsafe { _mm512_set1_epi32(x.cast_signed()) }
    }

    #[inline(always)]
    fn load_words(self, bytes: &[u8; BLOCK]) -> __m512i {
        // SAFETY: self proves avx512f; `bytes` is 64 readable bytes, unaligned is allowed.
        unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store_words(self, w: __m512i) -> [u8; BLOCK] {
        let mut out = [0; BLOCK];
        // SAFETY: self proves avx512f; `out` is 64 writable bytes, unaligned is allowed.
        unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), w) };
        out
    }

    #[inline(always)]
    fn add_words(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: self proves avx512f.
        unsafe { _mm512_add_epi32(a, b) }
    }

    #[inline(always)]
    fn xor_words(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: self proves avx512f.
        unsafe { _mm512_xor_si512(a, b) }
    }

    #[inline(always)]
    fn rotl<const N: i32>(self, a: __m512i) -> __m512i {
        // SAFETY: self proves avx512f.
        unsafe { _mm512_rol_epi32::<N>(a) }
    }

    #[inline(always)]
    fn transpose(self, rows: [__m512i; WORDS]) -> [__m512i; WORDS] {
        // SAFETY: self proves avx512f.
        unsafe { transpose_words(&rows) }
    }
}

/// Transposes 16 rows of 16 words in two steps: 4 x 4 words within quarters of vectors, then the
/// quarters.
#[target_feature(enable = "avx512f")]
#[inline]
fn transpose_words(rows: &[__m512i; WORDS]) -> [__m512i; WORDS] {
    let mut out = *rows;
    for column in 0..4 {
        // Quarter L of quad q: column 4L + `column` of the rows 4q, 4q + 1, 4q + 2, 4q + 3.
        let mut quads = [rows[0]; 4];
        for (quad, [a, b, c, d]) in quads.iter_mut().zip(rows.as_chunks().0) {
            let (ab, cd) = if column < 2 {
                (_mm512_unpacklo_epi32(*a, *b), _mm512_unpacklo_epi32(*c, *d))
            } else {
                (_mm512_unpackhi_epi32(*a, *b), _mm512_unpackhi_epi32(*c, *d))
            };
            let odd = column & 1 == 1;
            *quad = if odd { _mm512_unpackhi_epi64(ab, cd) } else { _mm512_unpacklo_epi64(ab, cd) };
        }
        for (quarter, row) in transpose_quarters(quads).into_iter().enumerate() {
            out[4 * quarter + column] = row;
        }
    }
    out
}

/// Transposes words of 64 bits: word w of row j becomes lane j of row w. Pairs of rows come first,
/// then quarters of vectors.
#[target_feature(enable = "avx512f")]
#[inline]
fn transpose_lanes(rows: &[__m512i; LANES]) -> [__m512i; LANES] {
    let mut out = *rows;
    for column in 0..2 {
        let mut pairs = [rows[0]; 4];
        for (pair, [a, b]) in pairs.iter_mut().zip(rows.as_chunks().0) {
            let odd = column == 1;
            *pair = if odd { _mm512_unpackhi_epi64(*a, *b) } else { _mm512_unpacklo_epi64(*a, *b) };
        }
        for (quarter, row) in transpose_quarters(pairs).into_iter().enumerate() {
            out[2 * quarter + column] = row;
        }
    }
    out
}

/// Transposes quarters: quarter j of vector i becomes quarter i of vector j.
#[target_feature(enable = "avx512f")]
#[inline]
fn transpose_quarters([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    let low = [_mm512_shuffle_i32x4::<0x44>(a, b), _mm512_shuffle_i32x4::<0x44>(c, d)];
    let high = [_mm512_shuffle_i32x4::<0xee>(a, b), _mm512_shuffle_i32x4::<0xee>(c, d)];
    [
        _mm512_shuffle_i32x4::<0x88>(low[0], low[1]),
        _mm512_shuffle_i32x4::<0xdd>(low[0], low[1]),
        _mm512_shuffle_i32x4::<0x88>(high[0], high[1]),
        _mm512_shuffle_i32x4::<0xdd>(high[0], high[1]),
    ]
}
