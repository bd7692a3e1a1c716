//! The memory of a mix holds nothing of a finished round (MIX-14). It is read as root reads it.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

use mezza::testing::servers::mixnet::client;
use mezza_lanes::{BASE, portable};
use mezza_mixnet::Service;
use mezza_mixnet::wire::Settings;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::guest::Guest;
use super::town::{Town, rounds};
use crate::program::until;

/// Writable memory of a process, region by region, without pages of zeros.
type Memory = Vec<Vec<u8>>;

const PAGE_BYTES: usize = 4_096;
static ZEROS: [u8; PAGE_BYTES] = [0; PAGE_BYTES];

/// Reads all writable memory while the process stands still; `None` if this user may not.
fn memory(pid: u32) -> Option<Memory> {
    let process = Pid::from_raw(pid.try_into().unwrap());
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let mem = File::open(format!("/proc/{pid}/mem")).ok()?;
    kill(process, Signal::SIGSTOP).unwrap();
    let region = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let [from, to] = [from, to].map(|end| u64::from_str_radix(end, 16).unwrap());
        let mut bytes = vec![0; (to - from) as usize];
        let wanted = rest.starts_with("rw") && !rest.contains("[v");
        (wanted && mem.read_exact_at(&mut bytes, from).is_ok()).then_some(bytes)
    };
    let memory: Memory = maps.lines().filter_map(region).collect();
    kill(process, Signal::SIGCONT).unwrap();
    Some(memory.iter().flat_map(|region| used(region)).collect())
}

/// The parts of a region between pages of zeros.
fn used(region: &[u8]) -> Vec<Vec<u8>> {
    let pages: Vec<&[u8]> = region.chunks(PAGE_BYTES).collect();
    let parts = pages.split(|page| *page == &ZEROS[..]).filter(|part| !part.is_empty());
    parts.map(<[&[u8]]>::concat).collect()
}

/// Returns true if bytes look like chance: all keys do, and little else in a memory of zeros and pointers.
fn is_random(window: &[u8]) -> bool {
    let zeros = window.iter().map(|byte| u32::from(*byte == 0)).sum::<u32>();
    let high = window.iter().filter(|byte| **byte >= 0x80).count();
    zeros <= 3 && (5..=27).contains(&high)
}

/// The scalar of a public key, if it lies in the memory at a multiple of 8.
fn secret_of(memory: &Memory, public: &[u8; 32]) -> Option<[u8; 32]> {
    let windows = memory.iter().flat_map(|region| region.windows(32).step_by(8));
    let scalars: Vec<[u8; 32]> =
        windows.filter(|w| is_random(w)).map(|w| w.try_into().unwrap()).collect();
    let base = portable().fixed_point(&BASE).unwrap();
    scalars.chunks(4_096).find_map(|part| {
        let mut publics = vec![[0; 32]; part.len()];
        portable().x25519_fixed(&base, part, &mut publics);
        let at = publics.iter().position(|its| its == public)?;
        Some(part[at])
    })
}

/// Returns true if 32 bytes lie in the memory, anywhere.
fn holds(memory: &Memory, secret: &[u8; 32]) -> bool {
    let front = &secret[..8];
    memory.iter().any(|region| {
        let starts = region.windows(8).enumerate().filter(|(_, window)| *window == front);
        starts.into_iter().any(|(at, _)| region.get(at..at + 32) == Some(&secret[..]))
    })
}

/// Asks until the answer is yes, for a round's whole life at most.
fn is_gone(pid: u32, secret: &[u8; 32]) -> bool {
    let end = Instant::now() + Duration::from_secs(6);
    while holds(&memory(pid).unwrap(), secret) {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    true
}

/// The settings of a conversation round, at the moment when a client gets them.
async fn settings(town: &Town) -> Settings {
    let chain = client::join_network(&town.files.make_uri().unwrap()).await.unwrap();
    Guest::welcomed(&chain).await.settings(Service::Conversation).await.settings
}

#[test]
fn mix_14_slow_no_memory_of_a_mix_holds_the_secret_of_a_round_that_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let mut town = Town::start(folder.path());
    let mixes = [1, 2, 3].map(|at: usize| town.servers[at].id());
    if memory(mixes[0]).is_none() {
        println!("SKIPPED: this user may not read the memory of a process without core files");
        return;
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let load = town.load(folder.path(), 4, 100_000);
    until("a round", || rounds(&load).iter().any(|round| round["returned"] == 4));

    // A round that ends well: its secrets are there while it is open, and then gone.
    let told = runtime.block_on(settings(&town));
    let snapshots = mixes.map(|pid| memory(pid).unwrap());
    for (at, (pid, snapshot)) in mixes.iter().zip(&snapshots).enumerate() {
        let secret = secret_of(snapshot, &told.keys[at]).expect("it is there while it is needed");
        assert!(holds(snapshot, &secret));
        assert!(is_gone(*pid, &secret), "mix {at} kept the secret of a round");
    }
    let returned =
        |round: u64| rounds(&load).iter().any(|its| its["round"] == round && its["returned"] == 4);
    until("the same round", || returned(told.id.round));

    // A round that loses its entry, and one that loses the mix behind.
    for victim in ["entry", "mix2"] {
        let told = runtime.block_on(settings(&town));
        let snapshots = [0, 1].map(|at: usize| memory(mixes[at]).unwrap());
        let listens_ms = town.kill(victim);
        for (at, snapshot) in snapshots.iter().enumerate() {
            let secret = secret_of(snapshot, &told.keys[at]).expect("it is there");
            assert!(is_gone(mixes[at], &secret), "mix {at} kept a secret when {victim} was lost");
        }
        let after = |its: &serde_json::Value| its["open_ms"].as_u64() > Some(listens_ms);
        until("the next round", || {
            rounds(&load).iter().any(|its| after(its) && its["returned"] == 4)
        });
    }
}
