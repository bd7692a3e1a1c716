//! The operations of the line protocol for a conversation, or for a ratchet alone.
//!
//! ```text
//! init   check a bundle, X3DH, seal a first message      resp   X3DH, open a first message
//! seal, open   within a chain          turn   one seal and one open, each with a DH step
//! jump-K       open a message K ahead  after-K   open the messages behind it
//! duplicate-K  refuse a message that was opened, while min(K, 2,000) skipped keys are kept
//! forge        refuse a message with a bit turned, under the ratchet key in use
//! ```

use std::hint::black_box;

use anyhow::{Context as _, Result, ensure};

use mezza_lab_measuring::rate::Call;

/// A device with one contact.
pub trait MeasuredDevice: Sized + 'static {
    /// The prekeys that the device publishes.
    type Bundle: 'static;

    /// Makes two devices that know each other's identity.
    ///
    /// # Errors
    /// If the library refuses the keys.
    fn make_pair() -> Result<(Self, Self)>;

    /// Publishes fresh prekeys.
    ///
    /// # Errors
    /// If the library refuses.
    fn publish_bundle(&mut self) -> Result<Self::Bundle>;

    /// Checks a bundle and begins a session with it.
    ///
    /// # Errors
    /// If the library refuses.
    fn begin_session(&mut self, bundle: &Self::Bundle) -> Result<()>;

    /// Seals the next message.
    ///
    /// # Errors
    /// If the library refuses.
    fn seal(&mut self, body: &[u8]) -> Result<Vec<u8>>;

    /// Opens a message. Returns the bytes of its body, or `None` if it is refused. An error
    /// description would cost more than the measured refusal.
    fn open(&mut self, message: &[u8]) -> Option<usize>;
}

/// Prepares a batch of `calls` calls of an operation on bodies of `size` bytes.
///
/// # Errors
/// An unknown operation, or a refusal of the library.
pub fn prepare_call<D: MeasuredDevice>(op: &str, size: usize, calls: usize) -> Result<Call> {
    let body = vec![7; size];
    if let Some((name, count)) = op.split_once('-') {
        let count = count.parse().context("no count")?;
        return prepare_ahead::<D>(name, count, &body, calls);
    }
    match op {
        "bundle" => {
            let (_, mut far) = D::make_pair()?;
            Ok(Box::new(move |_| assert!(black_box(far.publish_bundle()).is_ok())))
        }
        "init" => {
            let mut all = make_strangers::<D>(calls)?;
            Ok(Box::new(move |n| {
                let (near, _, bundle) = &mut all[n];
                assert!(near.begin_session(bundle).is_ok());
                assert!(black_box(near.seal(&body)).is_ok());
            }))
        }
        "resp" => {
            let mut all = make_strangers::<D>(calls)?;
            let firsts: Vec<_> = all
                .iter_mut()
                .map(|(near, _, bundle)| near.begin_session(bundle).and_then(|()| near.seal(&body)))
                .collect::<Result<_>>()?;
            Ok(Box::new(move |n| assert!(black_box(all[n].1.open(&firsts[n])).is_some())))
        }
        "seal" => {
            let (mut near, _) = exchange_messages::<D>()?;
            Ok(Box::new(move |_| assert!(black_box(near.seal(&body)).is_ok())))
        }
        "open" => {
            let (mut near, mut far) = exchange_messages::<D>()?;
            let sealed = seal_many(&mut near, &body, calls)?;
            Ok(Box::new(move |n| assert!(black_box(far.open(&sealed[n])).is_some())))
        }
        "turn" => {
            let (mut near, mut far) = exchange_messages::<D>()?;
            Ok(Box::new(move |n| {
                let carried = if n % 2 == 0 {
                    carry_message(&mut far, &mut near, &body)
                } else {
                    carry_message(&mut near, &mut far, &body)
                };
                assert!(black_box(carried).is_ok());
            }))
        }
        "forge" => {
            let (mut near, mut far) = exchange_messages::<D>()?;
            let mut forged = near.seal(&body)?;
            let at = forged.len() - 1;
            forged[at] ^= 1;
            Ok(Box::new(move |_| assert!(black_box(far.open(&forged)).is_none())))
        }
        _ => anyhow::bail!("no operation {op}"),
    }
}

/// Prepares operations on messages that skip numbers.
fn prepare_ahead<D: MeasuredDevice>(
    name: &str,
    count: usize,
    body: &[u8],
    calls: usize,
) -> Result<Call> {
    if name == "jump" {
        let mut all = Vec::new();
        for _ in 0..calls {
            let (mut near, far) = exchange_messages::<D>()?;
            let last = seal_many(&mut near, body, count + 1)?.pop().context("no message")?;
            all.push((far, last));
        }
        return Ok(Box::new(move |n| {
            let (far, last) = &mut all[n];
            assert!(black_box(far.open(last)).is_some());
        }));
    }
    let (mut near, mut far) = exchange_messages::<D>()?;
    let last = seal_many(&mut near, body, count + 1)?.pop().context("no message")?;
    far.open(&last).context("not opened")?;
    match name {
        "after" => {
            let sealed = seal_many(&mut near, body, calls)?;
            Ok(Box::new(move |n| assert!(black_box(far.open(&sealed[n])).is_some())))
        }
        "duplicate" => Ok(Box::new(move |_| assert!(black_box(far.open(&last)).is_none()))),
        _ => anyhow::bail!("no operation {name}"),
    }
}

fn make_strangers<D: MeasuredDevice>(calls: usize) -> Result<Vec<(D, D, D::Bundle)>> {
    let stranger = |_| {
        let (near, mut far) = D::make_pair()?;
        let bundle = far.publish_bundle()?;
        Ok((near, far, bundle))
    };
    (0..calls).map(stranger).collect()
}

/// Makes two sides that have exchanged a message each way and one more from the first side.
///
/// # Errors
/// If the library refuses.
pub fn exchange_messages<D: MeasuredDevice>() -> Result<(D, D)> {
    let (mut near, mut far) = D::make_pair()?;
    let bundle = far.publish_bundle()?;
    near.begin_session(&bundle)?;
    carry_message(&mut near, &mut far, b"hello")?;
    carry_message(&mut far, &mut near, b"reply")?;
    carry_message(&mut near, &mut far, b"again")?;
    Ok((near, far))
}

fn carry_message<D: MeasuredDevice>(from: &mut D, to: &mut D, body: &[u8]) -> Result<()> {
    let message = from.seal(body)?;
    ensure!(to.open(&message) == Some(body.len()), "another body");
    Ok(())
}

fn seal_many<D: MeasuredDevice>(near: &mut D, body: &[u8], count: usize) -> Result<Vec<Vec<u8>>> {
    (0..count).map(|_| near.seal(body)).collect()
}
