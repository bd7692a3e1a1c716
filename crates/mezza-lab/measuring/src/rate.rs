//! The line protocol of a program that measures its own operations. Each line has one answer.
//!
//! ```text
//! version             ok TEXT
//! ops                 ok OP OP ..                 what it measures
//! once OP SIZE        ok                          one call, not measured
//! rate OP SIZE N      ok MIN MEDIAN               ns of thread CPU per call: 25 batches of N calls
//! cold OP SIZE        ok FIRST MEAN10 MEAN2_10    the first ten calls of this process
//! anything else       err TEXT
//! ```

use std::io::{self, BufRead as _, Write as _};

use nix::time::{ClockId, clock_gettime};

/// One call of a prepared batch, by its number.
pub type Call = Box<dyn FnMut(usize)>;
/// Prepares one batch of an operation: its name, bytes of a text, calls.
pub type Prepare = dyn Fn(&str, usize, usize) -> Result<Call, String>;

/// Number of batches that warm up and are not measured.
const WARM_UP: usize = 5;
/// Number of measured batches.
const BATCHES: usize = 25;
/// Number of calls that are measured in a fresh process, for rows about cold calls.
const COLD_CALLS: usize = 10;
/// Most calls in a batch.
const CALLS_MAX: usize = 1_000_000;

/// Answers lines until the input ends.
///
/// # Errors
/// If standard input or output breaks.
pub fn serve(version: &str, ops: &[&str], prepare: &Prepare) -> io::Result<()> {
    let about = About { version, ops };
    for line in io::stdin().lock().lines() {
        let answer = match answer_line(&line?, &about, prepare) {
            Ok(answer) => format!("ok {answer}"),
            Err(error) => format!("err {}", error.replace('\n', " ")),
        };
        let mut out = io::stdout().lock();
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

/// Facts of a program that it reports on request.
struct About<'a> {
    version: &'a str,
    ops: &'a [&'a str],
}

fn answer_line(line: &str, about: &About<'_>, prepare: &Prepare) -> Result<String, String> {
    match *line.split(' ').collect::<Vec<_>>() {
        ["version"] => Ok(about.version.to_owned()),
        ["ops"] => Ok(about.ops.join(" ")),
        ["once", op, size] => {
            prepare(op, parse_number(size)?, 1)?(0);
            Ok(String::new())
        }
        ["rate", op, size, calls] => {
            let (min, median) = rate(op, parse_number(size)?, parse_number(calls)?, prepare)?;
            Ok(format!("{min:.1} {median:.1}"))
        }
        ["cold", op, size] => {
            let mut call = prepare(op, parse_number(size)?, COLD_CALLS)?;
            let each: Vec<f64> = (0..COLD_CALLS).map(|n| cost_ns(|| call(n))).collect();
            let rest = mean(&each[1..]);
            Ok(format!("{:.0} {:.0} {rest:.0}", each[0], mean(&each)))
        }
        _ => Err(format!("not understood: {line}")),
    }
}

/// Minimum and median of the cost of a call, in nanoseconds of thread CPU time.
///
/// # Errors
/// The error of `prepare`.
pub fn rate(op: &str, size: usize, calls: usize, prepare: &Prepare) -> Result<(f64, f64), String> {
    if !(1..=CALLS_MAX).contains(&calls) {
        return Err(format!("{calls} calls; 1 to {CALLS_MAX} make a batch"));
    }
    let mut each = Vec::with_capacity(BATCHES);
    for batch in 0..WARM_UP + BATCHES {
        let mut call = prepare(op, size, calls)?;
        let ns = cost_ns(|| (0..calls).for_each(&mut call)) / to_float(calls);
        if batch >= WARM_UP {
            each.push(ns);
        }
    }
    each.sort_by(f64::total_cmp);
    Ok((each[0], each[BATCHES / 2]))
}

fn parse_number(word: &str) -> Result<usize, String> {
    word.parse().map_err(|_| format!("{word} is no number"))
}

fn mean(each: &[f64]) -> f64 {
    each.iter().sum::<f64>() / to_float(each.len())
}

fn to_float(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Returns the CPU time of `work` on this thread, in ns.
fn cost_ns(work: impl FnOnce()) -> f64 {
    let began = thread_cpu_ns();
    work();
    thread_cpu_ns() - began
}

/// On a system without a CPU clock for threads the value is NaN, which is within no limit.
fn thread_cpu_ns() -> f64 {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .map_or(f64::NAN, |time| std::time::Duration::from(time).as_secs_f64() * 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepare(op: &str, size: usize, _: usize) -> Result<Call, String> {
        if op != "add" {
            return Err(format!("no operation {op}"));
        }
        let bytes = vec![1_u8; size];
        Ok(Box::new(move |n| {
            std::hint::black_box(bytes.iter().fold(n, |sum, byte| sum + usize::from(*byte)));
        }))
    }

    fn ask(line: &str) -> Result<Vec<f64>, String> {
        let answer = answer_line(line, &About { version: "x", ops: &["add"] }, &prepare)?;
        Ok(answer.split(' ').map(|word| word.parse().expect("a number")).collect())
    }

    #[test]
    fn a_line_each_way() {
        let say =
            |line: &str| answer_line(line, &About { version: "adder 1", ops: &["add"] }, &prepare);
        assert_eq!(say("version").as_deref(), Ok("adder 1"));
        assert_eq!(say("ops").as_deref(), Ok("add"));
        assert_eq!(say("once add 4").as_deref(), Ok(""));
        assert!(say("once sub 4").is_err());
        let rate = ask("rate add 10000 20").unwrap();
        assert!(rate.len() == 2 && 0.0 < rate[0] && rate[0] <= rate[1], "{rate:?}");
        assert_eq!(ask("cold add 10000").unwrap().len(), 3);
        assert!(ask("rate add 1000000 2").unwrap()[0] > 10.0 * rate[0]);
    }

    #[test]
    fn what_is_wrong_is_an_answer() {
        for line in ["", "rate", "rate sub 1 1", "rate add x 1", "rate add 1 0", "rate add 1 -1"] {
            assert!(ask(line).is_err(), "{line}");
        }
        assert!(ask("rate add 1 1000001").is_err());
    }
}
