//! `mezza lab ..`: runs the lab, a separate program in the same folder.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use mezza_host::api::{Exit, Fault};

const PROGRAM: &str = "mezza-lab";

/// Replaces this process by the lab.
///
/// # Errors
/// If the lab's program is missing.
pub(crate) fn exec_lab(words: &[OsString]) -> Result<Exit, Fault> {
    let own = std::env::current_exe().unwrap_or_default();
    let program = find_program(&own)?;
    let error = Command::new(&program).args(words).exec();
    Err(absent_fault(&format!("{} does not start: {error}", program.display())))
}

/// Returns the fault for options of this program before `lab`.
pub(crate) fn own_options() -> Fault {
    let text = "the lab does not know the options of this program";
    Fault::new(Exit::Usage, text, "write its own behind `mezza lab`; `mezza lab --help` lists them")
}

fn find_program(own: &Path) -> Result<PathBuf, Fault> {
    let program = own.with_file_name(PROGRAM);
    let missing = || absent_fault("the lab does not lie beside this program");
    program.is_file().then_some(program).ok_or_else(missing)
}

fn absent_fault(text: &str) -> Fault {
    let next = "build it with `cargo build --release -p mezza-lab`";
    Fault::new(Exit::Unreachable, text, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_found_beside_us_or_one_is_told_how_to_build_it() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("mezza");
        let fault = find_program(&own).unwrap_err();
        assert_eq!(fault.code, Exit::Unreachable);
        assert!(fault.next.contains("-p mezza-lab"), "{fault}");
        std::fs::write(folder.path().join(PROGRAM), "").unwrap();
        assert_eq!(find_program(&own).unwrap(), folder.path().join(PROGRAM));
    }
}
