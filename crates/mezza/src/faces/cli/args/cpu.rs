//! Arguments of `mezza cpu`, and `--kernel`.

use clap::{Args, ValueEnum};

/// `--kernel`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum KernelName {
    /// Eight at a time: AVX-512 with IFMA
    Ifma,
    /// aws-lc, one after another
    AwsLc,
    /// Rust alone, on every CPU
    Portable,
}

/// Which kernel computes.
#[derive(Args)]
pub struct KernelArgs {
    /// Compute for many at once with this kernel, not with the fastest one: for tests and reports
    #[arg(id = "kernel", long = "kernel", value_enum, value_name = "KERNEL")]
    pub name: Option<KernelName>,
}

/// `mezza cpu`.
#[derive(Args)]
pub struct CpuArgs {
    /// Measure every kernel that runs here
    #[arg(long)]
    pub bench: bool,
    /// For how long altogether, seconds
    #[arg(long, value_name = "N", default_value_t = 3, requires = "bench")]
    pub seconds: u16,
    /// Which kernel computes
    #[command(flatten)]
    pub kernel: KernelArgs,
}
