//! Our own implementation among the primitives of the tables: BLAKE2b of `mezza_core`.

use mezza_core::{Blake2b512, Hash512 as _};

use mezza_lab_measuring::primitive::Implementation;

/// Returns the implementation of an operation, if it is our own.
pub fn find_implementation(op: &str) -> Option<Implementation> {
    (op == "blake2b").then_some(Implementation::Hash(|text| Blake2b512::hash(&[text])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mezza_lab_measuring::rustcrypto;

    fn hash_of(code: Option<Implementation>) -> fn(&[u8]) -> [u8; 64] {
        let Some(Implementation::Hash(hash)) = code else { panic!("no hash") };
        hash
    }

    /// Both columns compute the same results by different code.
    #[test]
    fn ours_and_the_crates_are_two_that_agree() {
        let [ours, theirs] =
            [find_implementation("blake2b"), rustcrypto::code("blake2b")].map(hash_of);
        assert!(!std::ptr::fn_addr_eq(ours, theirs));
        for size in [0, 1, 32, 33, 128, 129, 4_096] {
            let text = vec![7; size];
            assert_eq!(ours(&text), theirs(&text), "{size}");
        }
        assert!(find_implementation("sha512").is_none(), "SHA-512 is RustCrypto's");
    }
}
