//! The program `mezza`.

use std::process::ExitCode;

fn main() -> ExitCode {
    mezza::main()
}
