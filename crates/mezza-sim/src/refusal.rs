//! Checks that a refused input changes nothing, and that tests have produced every refusal.

use core::fmt::Debug;
use std::collections::BTreeSet;

use mezza_core::{CryptoRng, Machine, Time};

/// Passes one input to `machine`, as [`Machine::handle`] does, and checks the contract: a refused
/// input leaves the snapshot unchanged.
///
/// # Errors
/// The error of the machine.
///
/// # Panics
/// If a refusal changed the snapshot.
pub fn handle_checked<M: Machine<Error: Debug>>(
    machine: &mut M,
    input: M::Input,
    now: Time,
    rng: &mut dyn CryptoRng,
) -> Result<(), M::Error> {
    let before = machine.snapshot();
    let outcome = machine.handle(input, now, rng);
    if let Err(error) = &outcome {
        assert!(before == machine.snapshot(), "{error:?} changed the state");
    }
    outcome
}

/// The variants of an error, as [`variants!`](crate::variants!) names them.
pub struct Variants<E: 'static> {
    name: fn(&E) -> Option<&'static str>,
    all: &'static [&'static str],
}

impl<E: Debug> Variants<E> {
    /// Wraps the table that [`variants!`](crate::variants!) made of a `match`.
    pub const fn new(name: fn(&E) -> Option<&'static str>, all: &'static [&'static str]) -> Self {
        Self { name, all }
    }

    /// Checks that a table of refusals contains each variant.
    ///
    /// # Panics
    /// If a variant is missing, or the table contains one declared impossible.
    pub fn are_all_in<'a>(&self, produced: impl IntoIterator<Item = &'a E>) {
        let name = |error: &E| {
            let name = (self.name)(error);
            assert!(name.is_some(), "{error:?} was said to be impossible");
            name
        };
        let seen: BTreeSet<&str> = produced.into_iter().filter_map(name).collect();
        let missing: Vec<&&str> = self.all.iter().filter(|name| !seen.contains(*name)).collect();
        assert!(missing.is_empty(), "no test produces {missing:?}");
    }
}

/// Lists the variants with which a machine can refuse, as patterns of one `match`, and after
/// `never` the variants of its error that it cannot return. A new variant in neither list is a
/// compile error in the crate of the error.
///
/// ```
/// enum Refusal { Late, Full(u8), Lost }
/// # impl core::fmt::Debug for Refusal {
/// #     fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result { f.write_str("a refusal") }
/// # }
///
/// let all = mezza_sim::variants!(Refusal: [Refusal::Late, Refusal::Full(_)] never [Refusal::Lost]);
/// all.are_all_in(&[Refusal::Full(7), Refusal::Late]);
/// ```
#[macro_export]
macro_rules! variants {
    ($error:ty: [$($variant:pat),+ $(,)?] $(never [$($never:pat),+])?) => {{
        let name = |error: &$error| match error {
            $( $variant => Some(stringify!($variant)), )+
            $( $( $never => None, )+ )?
        };
        $crate::refusal::Variants::<$error>::new(name, &[$( stringify!($variant) ),+])
    }};
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimRng;
    use mezza_core::{Wiping, snapshot::snapshot_of};

    /// Accepts even numbers; a sloppy one counts its refusals.
    struct Even {
        taken: Vec<u64>,
        refused: u64,
        sloppy: bool,
    }

    impl Machine for Even {
        type Input = u64;
        type Output = ();
        type Error = &'static str;

        fn handle(&mut self, n: u64, _: Time, _: &mut dyn CryptoRng) -> Result<(), &'static str> {
            if n.is_multiple_of(2) {
                self.taken.push(n);
                return Ok(());
            }
            self.refused += u64::from(self.sloppy);
            Err("odd")
        }

        fn wake(&mut self, _: Time, _: &mut dyn CryptoRng) {}

        fn poll(&mut self) -> Option<()> {
            None
        }

        fn deadline(&self) -> Option<Time> {
            None
        }

        fn snapshot(&self) -> Wiping<Vec<u8>> {
            snapshot_of(&(self.taken.clone(), self.refused))
        }
    }

    fn give(sloppy: bool, n: u64) -> Result<(), &'static str> {
        let mut even = Even { taken: Vec::new(), refused: 0, sloppy };
        handle_checked(&mut even, n, Time::default(), SimRng::new(1, 0).rng())
    }

    #[test]
    fn what_is_taken_may_change_the_state() {
        assert_eq!((give(false, 2), give(false, 3), give(true, 2)), (Ok(()), Err("odd"), Ok(())));
    }

    #[test]
    #[should_panic(expected = "\"odd\" changed the state")]
    fn a_refusal_that_changes_the_state_is_found() {
        let _ = give(true, 3);
    }

    #[test]
    #[should_panic(expected = "no test produces [\"None\"]")]
    fn a_variant_that_nothing_produces_is_found() {
        crate::variants!(Option<u8>: [None, Some(_)]).are_all_in(&[Some(1)]);
    }
}
