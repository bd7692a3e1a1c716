//! The book over `docs/`: every page is in its table of contents, and every link between pages leads somewhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The table of contents.
const SUMMARY: &str = "SUMMARY.md";

/// Returns the faults of the book, sorted: pages that the table of contents lacks, and links to nothing.
///
/// # Errors
/// If a page cannot be read.
pub(super) fn find_faults(docs: &Path) -> Result<Vec<String>, String> {
    let mut pages = BTreeSet::new();
    collect_pages(docs, docs, &mut pages)?;
    let summary = read_page(docs, SUMMARY)?;
    let listed: BTreeSet<String> = links_of(&summary).map(str::to_owned).collect();
    let mut faults = Vec::new();
    for page in pages.iter().filter(|page| *page != SUMMARY && !listed.contains(*page)) {
        faults.push(format!("docs/{SUMMARY}: {page} is missing"));
    }
    for page in &pages {
        let text = read_page(docs, page)?;
        let folder = docs.join(page).parent().map_or_else(PathBuf::new, Path::to_path_buf);
        for link in links_of(&text).filter(|link| !folder.join(link).exists()) {
            faults.push(format!("docs/{page}: {link} does not exist"));
        }
    }
    faults.sort();
    Ok(faults)
}

fn read_page(docs: &Path, page: &str) -> Result<String, String> {
    fs::read_to_string(docs.join(page)).map_err(|e| format!("docs/{page}: {e}"))
}

/// Collects the paths of all pages below a folder, relative to `docs`.
fn collect_pages(docs: &Path, folder: &Path, pages: &mut BTreeSet<String>) -> Result<(), String> {
    let entries = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect_pages(docs, &path, pages)?;
        } else if path.extension().is_some_and(|ending| ending == "md")
            && let Ok(page) = path.strip_prefix(docs)
        {
            pages.insert(page.to_string_lossy().into_owned());
        }
    }
    Ok(())
}

/// Returns the targets of links to files, without the part after `#`. Blocks of code have none.
fn links_of(text: &str) -> impl Iterator<Item = &str> {
    let prose = text.split("```").step_by(2);
    let targets = prose.flat_map(|prose| prose.split("](").skip(1));
    let targets = targets.filter_map(|rest| rest.split([')', '#']).next());
    targets.filter(|target| !target.is_empty() && !target.contains("://") && !target.contains(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_outside_of_the_contents_is_a_fault() {
        let docs = std::env::temp_dir().join(format!("mezza-book-{}", std::process::id()));
        fs::create_dir_all(docs.join("guide")).expect("a folder");
        fs::write(docs.join(SUMMARY), "- [One](guide/one.md)\n- [Gone](gone.md)\n")
            .expect("a page");
        let one =
            "[a](two.md#top) [b](https://x.example/c.md)\n```\n[d](nowhere.md)\n```\n[e](no.md)\n";
        fs::write(docs.join("guide/one.md"), one).expect("a page");
        fs::write(docs.join("guide/two.md"), "# Two\n").expect("a page");
        let faults = find_faults(&docs).expect("pages");
        fs::remove_dir_all(&docs).expect("a folder of ours");
        let expected = [
            "docs/SUMMARY.md: gone.md does not exist",
            "docs/SUMMARY.md: guide/two.md is missing",
            "docs/guide/one.md: no.md does not exist",
        ];
        assert_eq!(faults, expected);
    }

    #[test]
    fn the_book_has_every_page() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
        assert_eq!(find_faults(&docs), Ok(Vec::new()));
    }
}
