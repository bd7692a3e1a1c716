//! `mezza cpu`: which kernel computes batches here, if its results are right, and its speed.

use std::hint::black_box;
use std::time::{Duration, Instant};

use mezza_lanes::{BASE, Kernel, Scalar, SelftestError as Wrong, Strided, ifma};
use serde_json::{Value, json};

use super::CliContext;
use super::args::{CpuArgs, KernelName};
use mezza_host::api::{Exit, Fault};
use mezza_host::backend::kernel::{choose_kernel, examine_kernel, force_kernel, runnable_kernels};

/// Inputs of one call.
const BATCH: u16 = 256;
/// Bytes of a conversation round's message as sealed for the last mix.
const BODY: usize = 368;
/// Bytes of that message with its tag.
const STRIDE: usize = BODY + 16;

/// A kernel, and the result of its self-test.
type Examined = (&'static dyn Kernel, Result<(), Wrong>);

/// Runs `mezza cpu`; the exit code is 1 if a self-test failed.
pub(crate) fn show_cpu(context: &CliContext, asked: &CpuArgs) -> Exit {
    let examined: Vec<Examined> =
        runnable_kernels().into_iter().map(|k| (k, examine_kernel(k))).collect();
    let rates = asked.bench.then(|| {
        let each = Duration::from_secs(asked.seconds.into()) / (3 * examined.len()) as u32;
        examined.iter().map(|(kernel, _)| Rates::measure_kernel(*kernel, each)).collect::<Vec<_>>()
    });
    let chosen = choose_kernel().name();
    let value = json!({
        "cpu": cpu_model(), "kernel": chosen, "ifma_lacks": missing_features(),
        "kernels": examined.iter().enumerate().map(|(at, (kernel, found))| {
            let rates = rates.as_ref().map(|rates| rates[at].to_json());
            json!({
                "name": kernel.name(), "selftest": found.is_ok(),
                "failed_in": found.err().map(|wrong| wrong.to_string()), "rates": rates,
            })
        }).collect::<Vec<Value>>(),
    });
    context.out.print_value(&value);
    context.out.print_line(format!("cpu       {}", cpu_model()));
    context.out.print_line(format!("kernel    {chosen}"));
    for (at, (kernel, found)) in examined.iter().enumerate() {
        let found = found.map_or_else(|wrong| format!("FAILED in {wrong}"), |()| "passed".into());
        let rates = rates.as_ref().map_or_else(String::new, |rates| format!("; {}", rates[at]));
        context.out.print_line(format!("{:<9} self-test {found}{rates}", kernel.name()));
    }
    for line in list_warnings(&examined, chosen, &missing_features()) {
        context.out.print_line(line);
    }
    if examined.iter().all(|(_, found)| found.is_ok()) { Exit::Done } else { Exit::No }
}

/// Returns the warnings for the user: kernels with wrong results, and missing CPU features.
fn list_warnings(examined: &[Examined], chosen: &str, lacking: &[&str]) -> Vec<String> {
    let broken = examined.iter().filter_map(|(kernel, found)| {
        let wrong = found.err()?;
        Some(format!(
            "cpu: self-test of {} failed in {wrong}; using {chosen}. Please report it with the \
             output of 'mezza cpu --json'.",
            kernel.name()
        ))
    });
    let slow = (!lacking.is_empty()).then(|| {
        format!(
            "cpu: no AVX-512 IFMA here; using {chosen} (mixing about 4x slower). Mix servers want \
             Ice Lake, Zen 4 or newer."
        )
    });
    broken.chain(slow).collect()
}

/// Selects the kernel of this name for the process (`--kernel`).
///
/// # Errors
/// If this CPU cannot run it.
pub fn apply_kernel_choice(name: KernelName) -> Result<(), Fault> {
    let name = match name {
        KernelName::Ifma => "ifma",
        KernelName::AwsLc => "aws-lc",
        KernelName::Portable => "portable",
    };
    let Some(kernel) = runnable_kernels().into_iter().find(|kernel| kernel.name() == name) else {
        let missing = missing_features().join(", ");
        let text = format!("--kernel {name} is not possible here without {missing}");
        return Err(Fault::new(Exit::Usage, text, "leave the option out"));
    };
    if force_kernel(kernel) {
        Ok(())
    } else {
        Err(Fault::bug("a kernel was in use before the choice"))
    }
}

/// Returns the features of CPU or system that the vector kernel lacks; empty if the kernel runs.
fn missing_features() -> Vec<&'static str> {
    if ifma().is_some() {
        return Vec::new();
    }
    #[cfg(target_arch = "x86_64")]
    let found = [
        ("avx512f", std::is_x86_feature_detected!("avx512f")),
        ("avx512ifma", std::is_x86_feature_detected!("avx512ifma")),
        ("avx512vl", std::is_x86_feature_detected!("avx512vl")),
        ("avx512dq", std::is_x86_feature_detected!("avx512dq")),
        ("avx512bw", std::is_x86_feature_detected!("avx512bw")),
    ];
    #[cfg(not(target_arch = "x86_64"))]
    let found = [("x86-64", false)];
    found.into_iter().filter(|(_, here)| !here).map(|(name, _)| name).collect()
}

/// Returns the model name of the processor.
fn cpu_model() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find_map(|line| line.strip_prefix("model name"));
    let name = line.map(|rest| rest.trim_start_matches([' ', '\t', ':']).to_owned());
    name.unwrap_or_else(|| format!("{} of unknown make", std::env::consts::ARCH))
}

/// Operations a second.
struct Rates {
    shared: f64,
    fixed: f64,
    seal: f64,
}

impl Rates {
    /// Measures a kernel, each operation for this time.
    fn measure_kernel(kernel: &dyn Kernel, each: Duration) -> Self {
        let word = |i| std::array::from_fn(|j| (i * 31 + j * 7 + i * j) as u8);
        let words: Vec<[u8; 32]> = (0..BATCH.into()).map(word).collect();
        let scalar = Scalar::copy_from(&words[1]);
        let mut out = vec![[0; 32]; words.len()];
        let shared =
            measure_rate(each, || kernel.x25519_shared(&scalar, &words, black_box(&mut out)));
        let fixed = kernel.fixed_point(&BASE).map_or(f64::NAN, |base| {
            measure_rate(each, || kernel.x25519_fixed(&base, &words, black_box(&mut out)))
        });
        let mut bytes = vec![0; words.len() * STRIDE];
        let seal = measure_rate(each, || {
            kernel.seal_each(&words, Strided::new(&mut bytes, STRIDE, 0, BODY));
        });
        Self { shared, fixed, seal }
    }

    fn to_json(&self) -> Value {
        let Self { shared, fixed, seal } = self;
        json!({ "x25519_per_s": shared, "x25519_fixed_per_s": fixed, "seal_368_per_s": seal })
    }
}

impl std::fmt::Display for Rates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { shared, fixed, seal } = self;
        write!(
            f,
            "a second {shared:.0} products, {fixed:.0} of a fixed point, {seal:.0} messages of \
             {BODY} bytes"
        )
    }
}

/// Returns operations per second in the best pass; at least one pass is made.
fn measure_rate(time: Duration, mut batch: impl FnMut()) -> f64 {
    let begun = Instant::now();
    let mut best = f64::INFINITY;
    loop {
        let pass = Instant::now();
        batch();
        best = best.min(pass.elapsed().as_secs_f64());
        if begun.elapsed() >= time {
            return f64::from(BATCH) / best;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mezza_host::backend::kernel::aws_lc;
    use mezza_lanes::portable;

    #[test]
    fn what_is_wrong_or_missing_is_told() {
        let right = [(aws_lc(), Ok(())), (portable(), Ok(()))];
        assert!(list_warnings(&right, "aws-lc", &[]).is_empty());
        let wrong = [(aws_lc(), Err(Wrong::Fixed)), (portable(), Ok(()))];
        let told = list_warnings(&wrong, "portable", &["avx512ifma"]);
        assert_eq!(
            told[0],
            "cpu: self-test of aws-lc failed in x25519_fixed; using portable. Please report it \
             with the output of 'mezza cpu --json'."
        );
        assert!(told[1].starts_with("cpu: no AVX-512 IFMA here; using portable"), "{told:?}");
    }

    #[test]
    fn something_is_missing_where_there_is_no_kernel_on_vectors() {
        assert_eq!(missing_features().is_empty(), ifma().is_some());
    }

    #[test]
    fn a_rate_is_measured_at_least_once() {
        let mut passes = 0;
        let per_second = measure_rate(Duration::ZERO, || passes += 1);
        assert_eq!(passes, 1);
        assert!(per_second > 0.0);
        assert!(measure_rate(Duration::from_millis(2), || passes += 1) > 0.0 && passes > 2);
    }
}
