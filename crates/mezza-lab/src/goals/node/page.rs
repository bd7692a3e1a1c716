//! M6: the JavaScript of the page.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

use crate::bench::Bench;
use crate::limit::Limit;
use crate::place;
use crate::row::Row;

/// M6: kB after gzip, and the time of the first screen, which needs a browser.
pub const LIMITS: [Limit; 2] = [
    Limit::at_most("M6", "JavaScript of the page, gzip", 60.0, "kB"),
    Limit::at_most("M6", "first screen on loopback", 1.0, "s"),
];

/// Measures all scripts of the built page, each compressed separately, as a server would send them.
pub fn measure_rows(bench: &mut Bench) -> Result<Vec<Row>> {
    let [size, first] = LIMITS;
    let first = first.not_here("needs a browser; `cargo xtask test` runs the browser tests");
    let page = place::find_repository().map(|root| root.join("crates/mezza/page"));
    let Some(page) = page.filter(|page| page.join("index.html").exists()) else {
        let reason = "the page is not built; build it with `cargo xtask up`";
        return Ok(vec![size.not_here(reason), first]);
    };
    let mut sizes = Vec::new();
    weigh_scripts(&page, &mut sizes)?;
    let bytes: u32 = sizes.iter().sum();
    let kb = f64::from(bytes) / 1_000.0;
    bench.note_count("ours", "page_js_gzip", "kB", kb)?;
    let words = format!("{} scripts, those loaded later included", sizes.len());
    Ok(vec![size.make_row(kb).with_detail(words), first])
}

fn weigh_scripts(folder: &Path, sizes: &mut Vec<u32>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            weigh_scripts(&path, sizes)?;
        } else if path.extension().is_some_and(|ending| ending == "js") {
            sizes.push(gzip_bytes(&fs::read(path)?)?);
        }
    }
    Ok(())
}

/// Returns the number of bytes after gzip at its highest level.
fn gzip_bytes(bytes: &[u8]) -> Result<u32> {
    let mut command = Command::new("gzip");
    command.args(["-9", "-n", "-c"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().context("gzip does not start; install it")?;
    let mut input = child.stdin.take().context("no input")?;
    let bytes = bytes.to_vec();
    let writer = std::thread::spawn(move || input.write_all(&bytes));
    let output = child.wait_with_output()?;
    let written = writer.join().map_err(|_| anyhow::anyhow!("the writer broke"))?;
    written.context("gzip does not read")?;
    Ok(u32::try_from(output.stdout.len())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_in_all_folders_count_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("assets")).unwrap();
        for name in ["a.js", "assets/b.js", "c.css"] {
            fs::write(folder.path().join(name), "x".repeat(100_000)).unwrap();
        }
        let mut sizes = Vec::new();
        weigh_scripts(folder.path(), &mut sizes).unwrap();
        assert_eq!(sizes.len(), 2);
        assert!(sizes.iter().all(|size| (20..2_000).contains(size)), "{sizes:?}");
    }
}
