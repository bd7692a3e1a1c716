//! State that all users share: tables of the generators, and the pairing engine.

use crate::curve::comb::Comb;
use crate::curve::{Fr, G1, G1Affine, G2, G2Affine, h_a};
use crate::pairing::PairingKernel;

/// Tables and pairing engine: immutable, created once in a process (2.2 ms, 264 kB) and shared.
pub struct System {
    p1: Comb<G1>,
    h_a: Comb<G1>,
    /// The table of P2; only programs that make many trees have one.
    p2: Option<Comb<G2>>,
    pairing: PairingKernel,
}

impl core::fmt::Debug for System {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("System")
    }
}

impl Default for System {
    fn default() -> Self {
        Self::new()
    }
}

impl System {
    /// Makes the tables of P1 and `H_a`, with the fastest pairing engine.
    pub fn new() -> Self {
        Self::with_kernel(PairingKernel::Lines)
    }

    /// Makes the tables with the pairing engine `pairing`. All engines give equal bytes (HIBE-50).
    pub fn with_kernel(pairing: PairingKernel) -> Self {
        let p1 = Comb::new(G1Affine::generator().to_point());
        Self { p1, h_a: Comb::new(h_a()), p2: None, pairing }
    }

    /// Makes the tables with a further table of P2 (3.1 ms, 264 kB), which saves time from the
    /// second tree on.
    pub fn with_keygen_comb() -> Self {
        Self { p2: Some(Comb::new(G2Affine::generator().to_point())), ..Self::new() }
    }

    /// Returns s P1 by the table, for programs that measure the time.
    #[doc(hidden)]
    pub fn multiply_p1(&self, s: &Fr) -> G1 {
        self.mul_p1(s)
    }

    /// Returns s P2, by the table if there is one, for programs that measure the time.
    #[doc(hidden)]
    pub fn multiply_p2(&self, s: &Fr) -> G2 {
        self.mul_p2(s)
    }

    pub(crate) fn pairing(&self) -> PairingKernel {
        self.pairing
    }

    /// Returns s P1.
    pub(crate) fn mul_p1(&self, s: &Fr) -> G1 {
        self.p1.mul(s)
    }

    /// Returns s `H_a`.
    pub(crate) fn h_a(&self, s: &Fr) -> G1 {
        self.h_a.mul(s)
    }

    /// Returns s P2.
    pub(crate) fn mul_p2(&self, s: &Fr) -> G2 {
        match &self.p2 {
            Some(comb) => comb.mul(s),
            None => G2Affine::generator().to_point().mul(s),
        }
    }
}
