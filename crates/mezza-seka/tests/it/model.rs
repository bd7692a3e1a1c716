//! The paper's security model (section 2.2), executable: real machines, the oracles of its Table 2 as
//! functions, and Definition 3 clause by clause.
//!
//! The attacker carries every frame. What he knows follows from what he asked: a state or a key is known if
//! the exchange that made it was open to him (a tape that he read or wrote, or a share of his own) and the
//! state before it was known, or if he was given it. After every step:
//!
//! 1. the key of no fresh session is known;
//! 2. sessions with equal keys match but for the last message;
//! 3. who accepts under a state that is not known has exactly one partner;
//! 4. from the disks as they are, and from memory as it is, an exchange that is left alone succeeds, if no
//!    state and no tape was given away.

mod flaws;
mod fresh;
mod oracles;
mod search;
mod session;
mod start;
