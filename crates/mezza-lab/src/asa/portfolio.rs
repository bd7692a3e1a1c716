//! The attacks beside rejection sampling: A1, A2, A4 and A6 to A11, each with and without a
//! firewall, and the watchdogs W1 and W2. A5 is in the errata, A3 in the matrix.
#![expect(clippy::unnecessary_wraps, reason = "all attempts have one shape")]

use aes::Aes128;
use aes::cipher::{Block, BlockCipherDecrypt as _, BlockCipherEncrypt as _, KeyInit as _};
use anyhow::{Result, bail};
use mezza_core::{CryptoRng, Hash512 as _, PortableBackend, Secret, Sha512, StaticKey};
use mezza_guard::coin::{
    CoinEncoding, CoinEra, CoinKey, CoinPurpose, CoinSecret, SlotIndex, SlotName,
};
use mezza_guard::coins::{CoinRole, Coins as _, GivenCoins, Uniform};
use mezza_guard::dh::DhParty;
use mezza_guard::dh_comm::{Answerer, Committer};
use mezza_guard::firewall::DhFirewall;
use mezza_guard::gkx::{GkxCandidate, GkxGuard, GkxInitiator, GkxResponder};
use mezza_guard::keys::GuardClientId;
use mezza_guard::rule::{Check, Field, FrameRule, Judge};
use mezza_guard::{Firewall as _, Group, Message, Ristretto};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};
use sha2::{Digest as _, Sha256};

use super::cell::{AttackCell, Expected};
use super::symbol::AttackKey;

/// The scalars of the product's group.
type Scalar = <Ristretto as Group>::Scalar;

/// One run of an attack. Returns true if the attacker read the planted symbol.
type Attempt = fn(&Stage, &mut ChaCha20Rng) -> Result<bool>;

/// State that all runs share.
struct Stage {
    group: Ristretto,
    key: AttackKey,
}

/// An attack at a place: its name, the expected result, the chance of a hit, the attempt.
struct Line(&'static str, Expected, f64, Attempt);

use Expected::{Closed, Open};

const LINES: [Line; 21] = [
    Line("A1 IV of a toy CTR record / none", Open, 0.0, iv_replacement),
    Line("A2 coin of 16 bytes / none", Open, 0.0, coin_replacement),
    Line("A2 session id / rule of the guard", Closed, 0.0, coin_replacement_guarded),
    Line("A4 SETUP chain dh / none", Open, 0.0, |s, r| try_setup(s, r, false)),
    Line("A4 SETUP chain dh / fw", Closed, 0.0, |s, r| try_setup(s, r, true)),
    Line("A6 ratio dh / none", Open, 0.0, |s, r| try_ratio(s, r, Coin::None)),
    Line("A6 ratio dh / static coin", Open, 0.0, |s, r| try_ratio(s, r, Coin::Static)),
    Line("A6 ratio dh / fw", Closed, 0.0, |s, r| try_ratio(s, r, Coin::Fresh)),
    Line("A7 r + q as a flag / decoders", Closed, 0.0, try_flags),
    Line("A8 second mover dh, 1 bit of the key", Open, 0.5, second_mover_dh),
    Line("A8 second mover dh-comm, 1 bit", Closed, 0.5, second_mover_comm),
    Line("A9 abandon and redraw, 4 bit / none", Open, 1.0 / 16.0, redraw_freely),
    Line("A9 abandon and redraw / broken ledger", Open, 1.0 / 16.0, |s, r| try_redraw(s, r, true)),
    Line("A9 abandon and redraw / coins", Closed, 1.0 / 16.0, |s, r| try_redraw(s, r, false)),
    Line("A11 tag of G3, one refused handshake", Open, 0.0, garbage_tag),
    Line("A11 the peer accepts such a tag", Closed, 0.0, garbage_is_accepted),
    Line("W1 second run finds A1", Open, 0.0, |s, r| run_watchdog(s, r, Tampering::A1)),
    Line("W1 second run finds A2", Open, 0.0, |s, r| run_watchdog(s, r, Tampering::A2)),
    Line("W1 finds nothing in an honest device", Closed, 0.0, |s, r| {
        run_watchdog(s, r, Tampering::None)
    }),
    Line("W2 repeated IVs find A1", Open, 0.0, |s, r| find_repeats(s, r, true)),
    Line("W2 finds nothing in an honest device", Closed, 0.0, |s, r| find_repeats(s, r, false)),
];

/// Runs each attack `runs` times.
///
/// # Errors
/// A protocol run that fails unexpectedly.
pub fn run_attacks(runs: u64, seed: u64) -> Result<Vec<AttackCell>> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let stage = Stage { group: Ristretto::new(), key: AttackKey::random(&mut rng) };
    LINES
        .iter()
        .map(|Line(name, expected, chance, attempt)| {
            let mut hits = 0;
            for _ in 0..runs {
                hits += u64::from(attempt(&stage, &mut rng)?);
            }
            let name = (*name).to_owned();
            let bytes = [1; 256];
            Ok(AttackCell { name, expected: *expected, runs, hits, chance: *chance, bytes })
        })
        .collect()
}

fn random_bytes<const N: usize>(rng: &mut dyn CryptoRng) -> [u8; N] {
    let mut bytes = [0; N];
    rng.fill_bytes(&mut bytes);
    bytes
}

impl Stage {
    fn cipher(&self) -> Aes128 {
        Aes128::new(&(*self.key.bytes()).into())
    }

    /// Encrypts a secret of one block with AES under the attacker's key (`AES_ak`).
    fn embed_secret(&self, secret: [u8; 16]) -> [u8; 16] {
        let mut block: Block<Aes128> = secret.into();
        self.cipher().encrypt_block(&mut block);
        block.into()
    }

    fn extract_secret(&self, seen: [u8; 16]) -> [u8; 16] {
        let mut block: Block<Aes128> = seen.into();
        self.cipher().decrypt_block(&mut block);
        block.into()
    }

    /// Returns 8 random bytes, and a secret of 8 bytes encrypted under a key derived from them
    /// (ASAP's form).
    fn embed_in_coin(&self, secret: [u8; 8], rng: &mut dyn CryptoRng) -> [u8; 16] {
        let random: [u8; 8] = random_bytes(rng);
        let mask = self.key.digest(&random);
        std::array::from_fn(|at| if at < 8 { random[at] } else { mask[at - 8] ^ secret[at - 8] })
    }

    fn extract_from_coin(&self, coin: [u8; 16]) -> [u8; 8] {
        let mask = self.key.digest(&coin[..8]);
        std::array::from_fn(|at| mask[at] ^ coin[8 + at])
    }
}

/// Runs A1 (thesis 3.1): the IV of a record is the secret under the attacker's key.
fn iv_replacement(stage: &Stage, rng: &mut ChaCha20Rng) -> Result<bool> {
    let secret: [u8; 16] = random_bytes(rng);
    let mut record = stage.embed_secret(secret).to_vec();
    record.extend(random_bytes::<32>(rng));
    let iv: [u8; 16] = record[..16].try_into()?;
    Ok(stage.extract_secret(iv) == secret)
}

fn coin_replacement(stage: &Stage, rng: &mut ChaCha20Rng) -> Result<bool> {
    let secret: [u8; 8] = random_bytes(rng);
    Ok(stage.extract_from_coin(stage.embed_in_coin(secret, rng)) == secret)
}

/// Runs A2 against a guard, which computes the session id again: an id with a secret in it is not
/// sent.
fn coin_replacement_guarded(stage: &Stage, rng: &mut ChaCha20Rng) -> Result<bool> {
    const FIELDS: &[Field] = &[
        Field::new(0, 2, Check::Constant(&[1, 0x15])),
        Field::new(2, 16, Check::Derived(b"seka1 s", &[(18, 50)])),
        Field::new(18, 32, Check::Body),
    ];
    let rule = FrameRule { kind: 0x15, bytes: 50, fields: FIELDS };
    let body: [u8; 32] = random_bytes(rng);
    let honest: [u8; 32] =
        Sha256::new().chain_update(b"seka1 s").chain_update(body).finalize().into();
    let judge = |s: &[u8]| {
        let frame = [&[1, 0x15], s, &body].concat();
        let judge = Judge { pins: None, public: None, first: &frame, counter: None };
        rule.judge_frame(&frame, &judge).is_ok()
    };
    if !judge(&honest[..16]) {
        bail!("the guard refuses an honest device");
    }
    let secret: [u8; 8] = random_bytes(rng);
    let coin = stage.embed_in_coin(secret, rng);
    Ok(judge(&coin) && stage.extract_from_coin(coin) == secret)
}

/// Returns the key in a message that an observer sees: through a fresh firewall if guarded, else
/// unchanged.
fn key_seen(
    group: &Ristretto,
    key: Message<Ristretto>,
    guarded: bool,
    rng: &mut ChaCha20Rng,
) -> Result<<Ristretto as Group>::Element> {
    let key = if guarded { DhFirewall::new(group.clone()).change_outgoing(key, rng)? } else { key };
    let Message::Key(key) = key else { bail!("no key") };
    Ok(*key.seen())
}

/// Runs A4 (Young and Yung): each exponent is derived from the previous one and the attacker's
/// public key, so an attacker who sees a key can compute the next exponent.
fn try_setup(stage: &Stage, rng: &mut ChaCha20Rng, guarded: bool) -> Result<bool> {
    let group = &stage.group;
    let attacker = group.draw_nonzero(rng);
    let public = group.power_g(&attacker);
    let next = |shared| {
        let bytes = Sha512::hash(&[b"asa setup", &group.encode(&shared)]);
        Scalar::from_bytes_mod_order_wide(&bytes)
    };
    let first = group.draw_nonzero(rng);
    let (_, key) = DhParty::begin(group, &mut GivenCoins::new([first]), rng);
    let observed = key_seen(group, key, guarded, rng)?;
    let second = next(group.power(&public, &first));
    let guessed = next(group.power(&observed, &attacker));
    Ok(second == guessed)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Coin {
    None,
    Static,
    Fresh,
}

/// Runs A6: the second key is the first key raised to the power of the block.
fn try_ratio(stage: &Stage, rng: &mut ChaCha20Rng, coin: Coin) -> Result<bool> {
    let group = &stage.group;
    let block = u64::from(random_bytes::<1>(rng)[0]) + 2;
    let x = group.draw_nonzero(rng);
    let keys = [x, group.multiply_scalars(&x, &Scalar::from(block))];
    let static_coin = Uniform.draw_coin(group, CoinRole::Power, &|_| Vec::new(), rng);
    let mut observe = |x| {
        let (_, key) = DhParty::begin(group, &mut GivenCoins::new([x]), rng);
        match coin {
            Coin::None => key_seen(group, key, false, rng),
            Coin::Fresh => key_seen(group, key, true, rng),
            Coin::Static => {
                let mut wall =
                    DhFirewall::with_coins(group.clone(), GivenCoins::new([static_coin]));
                key_seen(group, wall.change_outgoing(key, rng)?, false, rng)
            }
        }
    };
    let [before, after] = [observe(keys[0])?, observe(keys[1])?];
    let found = (2..258_u64).find(|n| group.power(&before, &Scalar::from(*n)) == after);
    Ok(found == Some(block))
}

/// Runs A7: r + q equals r after reduction, so the choice between them is a visible bit.
fn try_flags(stage: &Stage, rng: &mut ChaCha20Rng) -> Result<bool> {
    const Q: [u8; 32] = [
        0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde,
        0x14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
    ];
    let scalar = stage.group.draw_scalar(rng).to_bytes();
    let mut carry = 0_u16;
    let flagged: [u8; 32] = std::array::from_fn(|at| {
        carry += u16::from(scalar[at]) + u16::from(Q[at]);
        let [low, high] = carry.to_le_bytes();
        carry = high.into();
        low
    });
    let message = [&[3][..], &flagged, &scalar].concat();
    let identity = [&[1][..], &[0; 32]].concat();
    let passes = |bytes: &[u8]| Message::decode(&stage.group, bytes).is_ok();
    Ok(passes(&message) || passes(&identity))
}

/// Draws until a bit of SHA-256 of the key is 1, at most 64 times.
fn second_mover_dh(stage: &Stage, rng: &mut ChaCha20Rng) -> Result<bool> {
    let group = &stage.group;
    let (alice, a) = DhParty::begin(group, &mut Uniform, rng);
    let a = key_seen(group, a, false, rng)?;
    for _ in 0..64 {
        let b = group.draw_nonzero(rng);
        let (bob, _) = DhParty::begin(group, &mut GivenCoins::new([b]), rng);
        let key = bob.finish(group, &a)?;
        if Sha256::digest(key.expose())[0] & 1 == 1 {
            let key = alice.finish(group, &group.power_g(&b))?;
            return Ok(Sha256::digest(key.expose())[0] & 1 == 1);
        }
    }
    Ok(false)
}

/// Draws as in `second_mover_dh`, but against a commitment: the responder does not know X yet, and
/// can only guess.
fn second_mover_comm(stage: &Stage, rng: &mut ChaCha20Rng) -> Result<bool> {
    let group = &stage.group;
    let (committer, commitment) = Committer::begin(group, &mut Uniform, rng);
    let Message::Commitment(both) = commitment else { bail!("no commitment") };
    let commitment = both.map(|c| *c.seen());
    // The best visible value is C2: the device draws until C2 would give the bit.
    let mut a = group.draw_nonzero(rng);
    for _ in 0..64 {
        let guess = group.encode(&group.power(&commitment[1], &a));
        if Sha256::digest(guess)[0] & 1 == 1 {
            break;
        }
        a = group.draw_nonzero(rng);
    }
    let (_, key) = Answerer::answer(group, commitment, &mut GivenCoins::new([a]), rng);
    let key = key_seen(group, key, false, rng)?;
    let (_, key) = committer.finish(group, &key)?;
    Ok(Sha256::digest(key.expose())[0] & 1 == 1)
}

/// Runs A9 without a guard: the device draws keys without limit until one carries the block of 4
/// bits.
fn redraw_freely(stage: &Stage, rng: &mut ChaCha20Rng) -> Result<bool> {
    let block = u32::from(random_bytes::<1>(rng)[0] & 15);
    let key = |rng: &mut ChaCha20Rng| CoinSecret::random(rng).point(CoinEncoding::X25519);
    Ok((0..512).any(|_| stage.key.find_symbol(&key(rng), 4).block == block))
}

/// Runs A9 with coins: an abandoned connection gives the same slot and the same key again. A broken
/// ledger would give a new key each time.
fn try_redraw(stage: &Stage, rng: &mut ChaCha20Rng, is_broken: bool) -> Result<bool> {
    let block = u32::from(random_bytes::<1>(rng)[0] & 15);
    let key = CoinKey::from_secret(Secret::random(rng));
    let name =
        SlotName { client: GuardClientId([1; 16]), purpose: CoinPurpose::LinkDialling, dest: 1 };
    let slot = SlotIndex { name, index: 0 };
    let z = CoinSecret::random(rng).point(CoinEncoding::X25519);
    let mut era = CoinEra(random_bytes(rng));
    for _ in 0..512 {
        if is_broken {
            era = CoinEra(random_bytes(rng));
        }
        let public = key.in_era(&era).derive_rho(&slot).public_key(CoinEncoding::X25519, &z)?;
        if stage.key.find_symbol(&public, 4).block == block {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Runs a handshake whose tag is the secret under the attacker's key. Returns the part that passes.
fn refused_handshake(stage: &Stage, rng: &mut ChaCha20Rng) -> Result<([u8; 16], [u8; 16], bool)> {
    let group = &stage.group;
    let secret = random_bytes::<16>(rng);
    let key = |byte| StaticKey::from_scalar::<PortableBackend>(Secret::init_with(|s| s.fill(byte)));
    let alice = key(1);
    let bob = key(2);
    let coins = &mut Uniform;
    let mut guard = GkxGuard::for_dialling();
    let (initiator, g1) =
        GkxInitiator::begin::<PortableBackend>(group, &alice, bob.public_key(), coins, rng)?;
    let g1 = guard.change_outgoing(group, &g1, coins, rng)?;
    let (responder, g2) = GkxResponder::answer(group, &g1, coins, rng)?;
    let (_, mut g3) = initiator.open(group, &guard.change_incoming(group, &g2, coins, rng)?)?;
    g3[66..].copy_from_slice(&stage.embed_secret(secret));
    let g3 = guard.change_outgoing(group, &g3, coins, rng)?;
    let seen = g3[66..].try_into()?;
    let candidates = [GkxCandidate::new::<PortableBackend>(&bob, *alice.public_key())?];
    let accepted = responder.finish(group, &g3, bob.public_key(), &candidates).is_ok();
    Ok((secret, seen, accepted))
}

/// Runs A11: the guard cannot check a tag, so 128 bits leave in one handshake, which is refused and
/// counted.
fn garbage_tag(stage: &Stage, rng: &mut ChaCha20Rng) -> Result<bool> {
    let (secret, seen, accepted) = refused_handshake(stage, rng)?;
    Ok(stage.extract_secret(seen) == secret && !accepted)
}

fn garbage_is_accepted(stage: &Stage, rng: &mut ChaCha20Rng) -> Result<bool> {
    Ok(refused_handshake(stage, rng)?.2)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Tampering {
    None,
    A1,
    A2,
}

/// Runs W1: a second implementation with the same seed must produce the same bytes.
fn run_watchdog(stage: &Stage, rng: &mut ChaCha20Rng, tampering: Tampering) -> Result<bool> {
    let seed = rng.next_u64();
    let mut own = ChaCha20Rng::seed_from_u64(seed);
    let made: [u8; 16] = match tampering {
        Tampering::None => random_bytes(&mut own),
        Tampering::A1 => stage.embed_secret(random_bytes(rng)),
        Tampering::A2 => stage.embed_in_coin(random_bytes(rng), &mut own),
    };
    let expected: [u8; 16] = random_bytes(&mut ChaCha20Rng::seed_from_u64(seed));
    Ok(made != expected)
}

/// Runs W2: looks for two equal IVs.
fn find_repeats(stage: &Stage, rng: &mut ChaCha20Rng, is_tampered: bool) -> Result<bool> {
    let secret: [u8; 16] = random_bytes(rng);
    let mut iv = || if is_tampered { stage.embed_secret(secret) } else { random_bytes(rng) };
    Ok(iv() == iv())
}
