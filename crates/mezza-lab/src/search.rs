//! `safe-prime` and `check-prime`: a search with progress that can be interrupted, and the check of a file.
#![expect(clippy::cast_precision_loss, reason = "counts of tests stay far below 2^53")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use crypto_bigint::BoxedUint;
use mezza::testing::api::{Exit, Fault};

use crate::prime::{BITS, SIEVE_MAX, SafePrimeSearch, WINDOW, is_safe, primes_below};
use crate::terminal::{print_error, print_line};
use crate::{machine, parallel};

/// Candidates per job between two lines of progress.
const BATCH: usize = 8;

/// The arguments of `safe-prime`.
#[derive(Debug, Args)]
pub struct SearchOrder {
    /// Bits of p, a multiple of 8
    #[arg(long, default_value_t = 3_072, value_parser = clap::value_parser!(u32).range(64..=8_192))]
    bits: u32,
    /// The seed that decides the prime, in hex; without it a fresh one
    #[arg(long, value_name = "HEX")]
    seed: Option<String>,
    /// Threads; all cores if it is not given
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// The file for the prime; without it the prime is printed
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Keep progress in this file, and go on from there
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
}

/// Searches for a safe prime, and prints or writes it.
///
/// # Errors
/// A seed that is not hex, or a file that cannot be read or written.
pub fn search_prime(order: SearchOrder) -> Result<Exit> {
    let SearchOrder { bits, seed, jobs, out, resume } = order;
    let stored = resume.as_deref().filter(|path| path.exists()).map(read_progress).transpose()?;
    let (bits, seed, first) = match stored {
        Some(stored) => stored,
        None => (bits, given_or_fresh(seed)?, 0),
    };
    if !bits.is_multiple_of(8) {
        let next = format!("take a multiple of 8 from {} to {}", BITS.start(), BITS.end());
        return Err(Fault::new(Exit::Usage, format!("{bits} bits"), next).into());
    }
    let search = SafePrimeSearch::new(bits, &seed)?;
    let keep = |i: u64| resume.as_deref().map_or(Ok(()), |path| write_progress(path, &search, i));
    let i = find_prime(&search, first, jobs.unwrap_or_else(machine::count_cores), &keep)?;
    let text = file_of(&search, i);
    match out {
        None => print_line(text.trim_end())?,
        Some(path) => {
            std::fs::write(&path, text).map_err(|_| cannot_write(&path))?;
            print_line(&format!("found, candidate {i}; written to {}", path.display()))?;
        }
    }
    Ok(Exit::Done)
}

fn given_or_fresh(seed: Option<String>) -> Result<Vec<u8>> {
    if let Some(hex) = seed {
        let seed = data_encoding::HEXLOWER_PERMISSIVE.decode(hex.as_bytes());
        return seed.map_err(|_| {
            let next = "give an even number of digits 0-9 a-f";
            Fault::new(Exit::Usage, "the seed is not hex", next).into()
        });
    }
    let mut seed = vec![0; 32];
    aws_lc_rs::rand::fill(&mut seed).context("the system gives no random bytes")?;
    Ok(seed)
}

/// Returns the lowest candidate from `first` on that is a safe prime.
fn find_prime(
    search: &SafePrimeSearch,
    first: u64,
    jobs: usize,
    keep: &dyn Fn(u64) -> Result<()>,
) -> Result<u64> {
    let primes = primes_below(SIEVE_MAX);
    let began = Instant::now();
    let mut tests = 0_u64;
    for window in first / WINDOW.. {
        let sieve = search.sieve(&primes, window);
        let survivors: Vec<u64> = sieve.survivors().filter(|i| *i >= first).collect();
        let mean = survivors.len() as f64 / WINDOW as f64 / search.density();
        for batch in survivors.chunks(jobs.max(1) * BATCH) {
            let is_prime = |i: u64| search.is_safe_prime(i).then_some(i);
            let found = parallel::map_with(jobs.max(1), batch.to_vec(), is_prime);
            tests += batch.len() as u64;
            if let Some(i) = found.into_iter().flatten().min() {
                return Ok(i);
            }
            let rate = tests as f64 / began.elapsed().as_secs_f64();
            let left = mean / rate;
            // The number of tests has no memory: the expected remaining number stays constant.
            let mut out = std::io::stderr().lock();
            let line = format!(
                "{tests} tests, {rate:.1}/s, {mean:.0} expected on average: mean {left:.0} s"
            );
            let _ = write!(out, "\r{line}, windows done {window} ");
            keep(batch.last().map_or(first, |last| last + 1))?;
        }
        print_error("");
    }
    bail!("no candidate is left")
}

/// Formats the result of a search as lines `bits`, `seed`, `i`, `p`.
fn file_of(search: &SafePrimeSearch, i: u64) -> String {
    let hex = |bytes: &[u8]| data_encoding::HEXLOWER.encode(bytes);
    let p = search.modulus(i).to_be_bytes_trimmed_vartime();
    format!("bits: {}\nseed: {}\ni: {i}\np: {}\n", search.bits, hex(&search.seed), hex(&p))
}

fn write_progress(path: &Path, search: &SafePrimeSearch, next: u64) -> Result<()> {
    let seed = data_encoding::HEXLOWER.encode(&search.seed);
    let text = format!("bits: {}\nseed: {seed}\nnext: {next}\n", search.bits);
    let fresh = path.with_extension("new");
    std::fs::write(&fresh, text).map_err(|_| cannot_write(path))?;
    std::fs::rename(&fresh, path).map_err(|_| cannot_write(path))?;
    Ok(())
}

fn read_progress(path: &Path) -> Result<(u32, Vec<u8>, u64)> {
    let fields = read_fields(path)?;
    let number =
        |key| find_field(path, &fields, key)?.parse::<u64>().map_err(|_| malformed_file(path));
    let seed = data_encoding::HEXLOWER.decode(find_field(path, &fields, "seed")?.as_bytes());
    let bits = u32::try_from(number("bits")?).context("bits")?;
    Ok((bits, seed.map_err(|_| malformed_file(path))?, number("next")?))
}

/// The arguments of `check-prime`.
#[derive(Debug, Args)]
pub struct CheckOrder {
    /// A file with a line `p: HEX`
    file: PathBuf,
}

/// Checks that the number in a file is a safe prime. If the file has `bits`, `seed` and `i`, it
/// also checks that they give this number.
///
/// # Errors
/// A file that cannot be read or has another format.
pub fn check_prime(order: &CheckOrder) -> Result<Exit> {
    let path = &order.file;
    let fields = read_fields(path)?;
    let hex = find_field(path, &fields, "p")?;
    let bytes = data_encoding::HEXLOWER_PERMISSIVE.decode(hex.as_bytes());
    let bytes = bytes.map_err(|_| malformed_file(path))?;
    let bits = u32::try_from(bytes.len() * 8).unwrap_or(u32::MAX);
    if !BITS.contains(&bits) || bytes.first().is_none_or(|byte| byte & 0x80 == 0) {
        let text = format!("p has {bits} bits or leading zeros");
        let next = format!("give one of {} to {} bits", BITS.start(), BITS.end());
        return Err(Fault::new(Exit::Malformed, text, next).into());
    }
    let p = BoxedUint::from_be_slice(&bytes, bits).map_err(|_| malformed_file(path))?;
    let q = p.shr_vartime(1).context("a shift by one")?;
    let is_right_class = crate::prime::small_remainder(&p, 8) == 7;
    let mut is_right = is_right_class && is_safe(&q, &p);
    print_line(&format!(
        "p has {bits} bits and is {}a safe prime that is 7 modulo 8",
        if is_right { "" } else { "not " }
    ))?;
    if let (Ok(seed), Ok(i)) = (find_field(path, &fields, "seed"), find_field(path, &fields, "i")) {
        let seed = data_encoding::HEXLOWER_PERMISSIVE
            .decode(seed.as_bytes())
            .map_err(|_| malformed_file(path))?;
        let i = i.parse().map_err(|_| malformed_file(path))?;
        let same = SafePrimeSearch::new(bits, &seed).is_ok_and(|search| search.modulus(i) == p);
        print_line(&format!("it is {}candidate {i} of its seed", if same { "" } else { "not " }))?;
        is_right &= same;
    }
    Ok(if is_right { Exit::Done } else { Exit::No })
}

fn read_fields(path: &Path) -> Result<Vec<(String, String)>> {
    let text = std::fs::read_to_string(path).map_err(|_| {
        Fault::new(
            Exit::NotFound,
            format!("{} cannot be read", path.display()),
            "name a file of `safe-prime`",
        )
    })?;
    let pair =
        |line: &str| line.split_once(": ").map(|(key, value)| (key.to_owned(), value.to_owned()));
    Ok(text.lines().filter_map(pair).collect())
}

fn find_field<'a>(path: &Path, fields: &'a [(String, String)], key: &str) -> Result<&'a str> {
    let found = fields.iter().find(|(known, _)| known == key);
    found.map(|(_, value)| value.trim()).ok_or_else(|| malformed_file(path))
}

fn malformed_file(path: &Path) -> anyhow::Error {
    let text = format!("{} is no file of a safe prime", path.display());
    Fault::new(Exit::Malformed, text, "it has lines `bits:`, `seed:`, `i:` and `p:`").into()
}

fn cannot_write(path: &Path) -> anyhow::Error {
    let text = format!("{} cannot be written", path.display());
    Fault::new(Exit::CannotWrite, text, "choose another file").into()
}
