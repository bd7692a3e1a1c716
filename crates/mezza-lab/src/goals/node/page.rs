//! M6: the JavaScript of the page.

use std::collections::{BTreeMap, BTreeSet};
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
    Limit::at_most("M6", "JavaScript of the first screen, gzip", 60.0, "kB"),
    Limit::at_most("M6", "first screen on loopback", 1.0, "s"),
];

/// Measures the scripts that the page needs at once: those named in `index.html`, and those that
/// they import. Each is compressed separately, as a server would send it. Scripts that are loaded
/// when their screen is opened are shown next to the figure.
pub fn measure_rows(bench: &mut Bench) -> Result<Vec<Row>> {
    let [size, first] = LIMITS;
    let first = first.not_here("needs a browser; `cargo xtask test` runs the browser tests");
    let page = place::find_repository().map(|root| root.join("crates/mezza/page"));
    let Some(page) = page.filter(|page| page.join("index.html").exists()) else {
        let reason = "the page is not built; build it with `cargo xtask up`";
        return Ok(vec![size.not_here(reason), first]);
    };
    let scripts = PageScripts::find(&page)?;
    let [now, later] = [&scripts.now, &scripts.later].map(|names| weigh_scripts(&page, names));
    let kb = f64::from(now?) / 1_000.0;
    let later_kb = f64::from(later?) / 1_000.0;
    bench.note_count("ours", "page_js_gzip", "kB", kb)?;
    bench.note_count("ours", "page_js_later_gzip", "kB", later_kb)?;
    let count = scripts.later.len();
    let words = format!("{later_kb:.1} kB in {count} scripts come when their screen is opened");
    Ok(vec![size.make_row(kb).with_detail(words), first])
}

/// The scripts of a built page, by their paths in it.
struct PageScripts {
    /// Scripts that the first screen needs.
    now: BTreeSet<String>,
    /// Scripts that are loaded when their screen is opened.
    later: BTreeSet<String>,
}

impl PageScripts {
    fn find(page: &Path) -> Result<Self> {
        let mut all = BTreeMap::new();
        read_scripts(page, "", &mut all)?;
        let html = fs::read_to_string(page.join("index.html"))?;
        let names = |text: &str| -> Vec<String> {
            all.keys().filter(|name| text.contains(file_name(name))).cloned().collect()
        };
        let mut now = BTreeSet::new();
        let mut open = names(&html);
        while let Some(name) = open.pop() {
            // The import statements, which come first in a script, name the scripts that it needs
            // at once.
            let text = all.get(&name).map(String::as_str).unwrap_or_default();
            if now.insert(name) {
                open.extend(names(import_statements(text)));
            }
        }
        let later = all.into_keys().filter(|name| !now.contains(name)).collect();
        Ok(Self { now, later })
    }
}

/// The statements `import .. from "..";` at the beginning of a script.
fn import_statements(text: &str) -> &str {
    let is_import =
        |part: &&str| part.trim_start().starts_with("import") && !part.contains("import(");
    let bytes: usize = text.split_inclusive(';').take_while(is_import).map(str::len).sum();
    &text[..bytes]
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn read_scripts(page: &Path, below: &str, all: &mut BTreeMap<String, String>) -> Result<()> {
    for entry in fs::read_dir(page.join(below))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() { name } else { format!("{below}/{name}") };
        if entry.path().is_dir() {
            read_scripts(page, &path, all)?;
        } else if entry.path().extension().is_some_and(|ending| ending == "js") {
            all.insert(path, fs::read_to_string(entry.path())?);
        }
    }
    Ok(())
}

fn weigh_scripts(page: &Path, names: &BTreeSet<String>) -> Result<u32> {
    let mut sum = 0;
    for name in names {
        sum += gzip_bytes(&fs::read(page.join(name))?)?;
    }
    Ok(sum)
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
    fn scripts_of_the_first_screen_count_and_those_of_later_ones_are_named() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("assets")).unwrap();
        let files = [
            ("index.html", "<script src=\"/assets/a.js\"></script>"),
            ("assets/a.js", "import{x}from\"./b.js\";const s=()=>import(\"./later.js\");"),
            ("assets/b.js", "export const x=1;"),
            ("assets/later.js", "import{x}from\"./b.js\";"),
            ("assets/c.css", "later.js"),
        ];
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let scripts = PageScripts::find(folder.path()).unwrap();
        assert!(scripts.now.iter().eq(["assets/a.js", "assets/b.js"]), "{:?}", scripts.now);
        assert!(scripts.later.iter().eq(["assets/later.js"]), "{:?}", scripts.later);
        let sum = weigh_scripts(folder.path(), &scripts.now).unwrap();
        assert!((40..300).contains(&sum), "{sum}");
    }
}
