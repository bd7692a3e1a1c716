//! Our own HIBE, key tree and envelope.
//!
//! ```text
//! system                        the tables that every user shares
//! keygen  keygen-comb           pk and root; with a table of P2 at hand
//! card                          a card block is checked and its base computed
//! ratchet                       erase and prepare, epoch by epoch, 65 of them
//! boundary                      the step alone, when it was prepared
//! seal  seal-0  seal-warm       at a real epoch, at epoch 0 (the root), with Z(id) at hand
//! trial  open                   an envelope of somebody else; of our own, with every check
//! import                        a stored tree with a full stack
//! fp                            a thousand multiplications in Fp
//! ```

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::rc::Rc;

use anyhow::{Result, bail};
use mezza_hibe::bkp::MasterSecret;
use mezza_hibe::curve::fp_multiplications;
use mezza_hibe::{
    BlockPolicy, Bucket, CardBlock, EnvelopeKey, Epoch, HeldKeys, KeyTree, Shape, System, Tick,
    TreeProfile, trial_open,
};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;

use mezza_lab_measuring::rate::Call;

/// The epoch at which real operations are measured; it is a leaf.
pub const REAL: Epoch = Epoch(5_900_000);
/// The origin of every tree in this module.
pub const ORIGIN: Tick = Tick(59_500_800);
/// Epochs per call of `ratchet`: one of them derives 64 keys and the others none, so only all
/// together give the mean.
pub const RATCHET_CALL: u32 = 65;
/// Multiplications per call of `fp`.
pub const FP_CALL: u32 = 1_000;

/// A receiver, and the data that a sender needs.
struct Receiver {
    system: System,
    tree: KeyTree,
    rng: ChaCha20Rng,
}

impl Receiver {
    fn new(seed: u64) -> Result<Self> {
        let system = System::new();
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let tree = KeyTree::create(&system, Shape::Wide, TreeProfile::Minute, ORIGIN, &mut rng)?;
        Ok(Self { system, tree, rng })
    }

    fn move_to(mut self, epoch: Epoch) -> Result<Self> {
        self.tree.erase_below(epoch, &mut self.rng)?;
        Ok(self)
    }

    fn first_tick(&self, epoch: Epoch) -> Tick {
        self.tree.card().first_tick(epoch)
    }

    fn seal(&mut self, epoch: Epoch, body: &[u8]) -> Result<Vec<u8>> {
        let tick = self.first_tick(epoch);
        let key = self.tree.card().seal_key(tick)?;
        let key = EnvelopeKey::new(&self.system, &key, tick, &mut self.rng)?;
        Ok(key.seal(body, Bucket::SMALLEST, tick)?.into_bytes())
    }

    fn hold_key(&mut self, epoch: Epoch) -> Result<HeldKeys> {
        let mut held = HeldKeys::new();
        held.insert(self.tree.open_key(&self.system, epoch, &mut self.rng)?);
        Ok(held)
    }
}

/// Prepares one call of `op` on a payload of `size` bytes.
///
/// # Errors
/// An unknown name.
pub fn prepare_call(op: &str, size: usize) -> Result<Call> {
    let body = vec![7; size];
    Ok(match op {
        "system" => Box::new(|_| drop(black_box(System::new()))),
        "keygen" => prepare_keygen(System::new()),
        "keygen-comb" => prepare_keygen(System::with_keygen_comb()),
        "fp" => Box::new(|_| fp_multiplications(FP_CALL)),
        "card" => {
            let block = Receiver::new(1)?.tree.card().as_bytes().to_vec();
            Box::new(move |_| {
                black_box(CardBlock::decode(&block, BlockPolicy::Product).is_ok());
            })
        }
        "ratchet" => prepare_ratchet()?,
        "boundary" => prepare_boundary()?,
        "seal" => seal(REAL, body)?,
        "seal-0" => seal(Epoch(0), body)?,
        "seal-warm" => {
            let Receiver { system, tree, mut rng } = Receiver::new(2)?;
            let tick = tree.card().first_tick(REAL);
            let key = tree.card().seal_key(tick)?;
            Box::new(move |_| {
                let key = EnvelopeKey::new(&system, &key, tick, &mut rng);
                black_box(key.map(|key| key.seal(&body, Bucket::SMALLEST, tick)).is_ok());
            })
        }
        "trial" => prepare_trial(3, 4, &body)?,
        "open" => prepare_trial(3, 3, &body)?,
        "import" => prepare_import()?,
        _ => bail!("no operation {op}"),
    })
}

fn prepare_keygen(system: System) -> Call {
    let mut rng = ChaCha20Rng::seed_from_u64(5);
    Box::new(move |_| {
        let master = MasterSecret::random(5, &mut rng);
        let root = master.user_key(&system, &Shape::Wide.path_to(Epoch(0)), &mut rng);
        black_box((master.derive_parameters(&system), root.encode()));
    })
}

/// Prepares sealing without a cache: Z(id) is computed for each envelope.
fn seal(epoch: Epoch, body: Vec<u8>) -> Result<Call> {
    let mut receiver = Receiver::new(6)?;
    Ok(Box::new(move |_| drop(black_box(receiver.seal(epoch, &body)))))
}

/// Prepares a trial opening: an envelope for `from` is tried with the keys of `by`.
fn prepare_trial(by: u64, from: u64, body: &[u8]) -> Result<Call> {
    let mut receiver = Receiver::new(by)?;
    let envelope = Receiver::new(from)?.seal(REAL, body)?;
    let held = receiver.hold_key(REAL)?;
    Ok(Box::new(move |_| drop(black_box(trial_open(&receiver.system, &held, &envelope)))))
}

/// Prepares single steps through the epochs; the mean includes all derivations.
fn prepare_ratchet() -> Result<Call> {
    let receiver = make_aged("ratchet")?;
    Ok(Box::new(move |_| {
        let Receiver { tree, rng, .. } = &mut *receiver.borrow_mut();
        for _ in 0..RATCHET_CALL {
            let floor = tree.floor().plus(1);
            let prepared = tree.prepare_until(floor.plus(1), u32::MAX, rng);
            black_box((prepared.is_ok(), tree.erase_below(floor, rng).is_ok()));
        }
    }))
}

/// Prepares one step to a prepared epoch, which drops a key. The preparation is not measured.
fn prepare_boundary() -> Result<Call> {
    let receiver = make_aged("boundary")?;
    {
        let Receiver { tree, rng, .. } = &mut *receiver.borrow_mut();
        tree.prepare_until(tree.floor().plus(64), u32::MAX, rng)?;
    }
    Ok(Box::new(move |_| {
        let Receiver { tree, rng, .. } = &mut *receiver.borrow_mut();
        let floor = tree.floor().plus(1);
        black_box(tree.erase_below(floor, rng).is_ok());
    }))
}

/// Prepares the import of a stack that is as full as a tree gets.
fn prepare_import() -> Result<Call> {
    let receiver = keep_receiver("import", || {
        let mut receiver = Receiver::new(9)?;
        receiver.tree.prepare_until(Epoch(64), u32::MAX, &mut receiver.rng)?;
        Ok(receiver)
    })?;
    let delta = receiver.borrow_mut().tree.export_delta();
    let records = delta.put.into_iter().collect();
    let card = CardBlock::decode(receiver.borrow().tree.card().as_bytes(), BlockPolicy::Product)?;
    Ok(Box::new(move |_| {
        black_box(KeyTree::import(&card, &delta.keyring, &records, 0).is_ok());
    }))
}

thread_local! {
    /// Receivers that are slow to make, by operation: each batch continues from the last.
    static KEPT: RefCell<BTreeMap<&'static str, Rc<RefCell<Receiver>>>> = RefCell::default();
}

/// Returns the receiver with which an operation is measured. It is made for the first batch and
/// reused by the next ones.
fn keep_receiver(
    op: &'static str,
    make: impl FnOnce() -> Result<Receiver>,
) -> Result<Rc<RefCell<Receiver>>> {
    if let Some(found) = KEPT.with_borrow(|kept| kept.get(op).cloned()) {
        return Ok(found);
    }
    let made = Rc::new(RefCell::new(make()?));
    KEPT.with_borrow_mut(|kept| kept.insert(op, Rc::clone(&made)));
    Ok(made)
}

/// Returns the kept receiver at a real epoch.
fn make_aged(op: &'static str) -> Result<Rc<RefCell<Receiver>>> {
    keep_receiver(op, || Receiver::new(7)?.move_to(REAL))
}

/// Prepares moving a fresh tree `epochs` epochs forward in one step.
///
/// # Errors
/// No error for a fresh tree.
pub fn prepare_forward(seed: u64, epochs: u32) -> Result<impl FnMut() -> Result<()>> {
    let Receiver { mut tree, mut rng, .. } = Receiver::new(seed)?;
    Ok(move || Ok(tree.erase_below(Epoch(epochs), &mut rng)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_every_operation_runs_and_others_are_refused() {
        for op in [
            "system",
            "keygen",
            "keygen-comb",
            "fp",
            "card",
            "ratchet",
            "boundary",
            "seal",
            "seal-0",
            "seal-warm",
            "trial",
            "open",
            "import",
        ] {
            prepare_call(op, 1_024).unwrap()(0);
        }
        assert!(prepare_call("mine", 1).is_err());
        prepare_forward(1, 2_880).unwrap()().unwrap();
    }
}
