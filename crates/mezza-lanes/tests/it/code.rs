//! The machine code of this very program: a lost inline, or a branch in a loop, shows here first.
//! It needs no CPU with these vectors.

use std::collections::BTreeMap;
use std::process::Command;

use mezza_lanes::fastest_kernel;

/// The function that `outline` compiles for AVX-512, once for each body.
const OUTLINED: &str = "compiled_for_ifma";
/// A step of the ladder has 5 products of 50, 4 squares of 30, 11 passes of carries, 11 for 121665.
const LADDER: usize = 392;
/// A window has 7 products of 50 and 7 passes of carries.
const COMB: usize = 357;

/// Instructions of a function by address: mnemonic, operands.
type Code = BTreeMap<u64, (String, String)>;

/// All outlined functions of this program; `None` without objdump.
fn functions() -> Option<Vec<Code>> {
    // The linker keeps what is reachable.
    assert!(!fastest_kernel().name().is_empty());
    let program = std::env::current_exe().expect("a path");
    let output = Command::new("objdump").args(["-d", "--no-show-raw-insn"]).arg(program).output();
    let text = String::from_utf8_lossy(&output.ok().filter(|out| out.status.success())?.stdout)
        .into_owned();
    let functions = text.split("\n\n").filter(|function| {
        function.lines().next().is_some_and(|line| line.contains(OUTLINED) && line.ends_with(">:"))
    });
    Some(functions.map(|function| function.lines().filter_map(instruction).collect()).collect())
}

fn instruction(line: &str) -> Option<(u64, (String, String))> {
    let (address, rest) = line.trim().split_once(":\t")?;
    let (name, operands) = rest.split_once(' ').unwrap_or((rest, ""));
    let address = u64::from_str_radix(address, 16).ok()?;
    Some((address, (name.to_owned(), operands.trim().to_owned())))
}

/// A loop of a function: from where a jump goes back to, up to that jump.
struct Loop<'a>(Vec<(u64, &'a str, Option<u64>)>);

fn loops(code: &Code) -> impl Iterator<Item = Loop<'_>> {
    code.iter().filter_map(|(end, (_, operands))| {
        let begin = target(operands)?;
        let part = (begin < *end && code.contains_key(&begin)).then(|| code.range(begin..=*end))?;
        Some(Loop(part.map(|(at, (name, to))| (*at, name.as_str(), target(to))).collect()))
    })
}

/// Where a jump goes: `a2d30 <name+0x290>`.
fn target(operands: &str) -> Option<u64> {
    let (address, name) = operands.split_once(' ')?;
    name.starts_with('<').then(|| u64::from_str_radix(address, 16).ok())?
}

impl Loop<'_> {
    fn count(&self, is: impl Fn(&str) -> bool) -> usize {
        self.0.iter().filter(|(_, name, _)| is(name)).count()
    }

    fn products(&self) -> usize {
        self.count(|name| name.starts_with("vpmadd52"))
    }

    /// Jumps from inside to inside. What leaves a loop is a check of the standard library, which
    /// builds for tests have on every load.
    fn branches(&self) -> usize {
        let inside = self.0.first().map_or(0, |i| i.0)..=self.0.last().map_or(0, |i| i.0);
        let jumps = self.0.iter().filter(|(_, name, _)| name.starts_with('j'));
        jumps.filter(|(_, _, to)| to.is_none_or(|to| inside.contains(&to))).count()
    }
}

#[test]
fn lanes_5_the_loops_of_the_ladder_and_the_comb_are_straight() {
    let Some(functions) = functions() else {
        println!("SKIPPED objdump: it does not run here; apt install binutils");
        return;
    };
    if functions.is_empty() {
        println!("SKIPPED symbols: this program has none; leave out --release");
        return;
    }
    let all = functions.iter().flat_map(loops).collect::<Vec<_>>();
    for (what, size) in [("ladder", LADDER), ("comb", COMB)] {
        let found = all.iter().filter(|part| part.products() == size).collect::<Vec<_>>();
        assert!(!found.is_empty(), "no loop of the {what}");
        for part in found {
            assert_eq!(part.count(|name| name.starts_with("call")), 0, "{what}: a call");
            assert_eq!(part.count(|name| name.contains("div")), 0, "{what}: a division");
            assert_eq!(part.branches(), 1, "{what}: a branch");
        }
    }
}
