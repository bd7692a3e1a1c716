//! The bill of materials in `CycloneDX` 1.5: each crate that is linked into the program, and each package
//! that is built into the page, with version, licence, address and hash.

use super::{DistPlan, run_tool};
use crate::machine;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// The package at the root.
const PROGRAM: &str = "mezza";

/// Makes the bill as JSON.
///
/// # Errors
/// If cargo does not describe the workspace.
pub(super) fn make_bill(plan: &DistPlan) -> Result<String, String> {
    let mut cargo = machine::cargo_command(plan.root);
    cargo.args(["metadata", "--format-version", "1", "--locked"]);
    cargo.args(["--filter-platform", "x86_64-unknown-linux-gnu"]);
    let metadata: Value =
        serde_json::from_slice(&run_tool(&mut cargo)?).map_err(|e| e.to_string())?;
    let lock = fs::read_to_string(plan.root.join("Cargo.lock")).map_err(|e| e.to_string())?;
    let lock: toml::Table = lock.parse().map_err(|e| format!("Cargo.lock: {e}"))?;
    let graph = CrateGraph::of_metadata(&metadata)?;
    let mut components: Vec<Value> =
        graph.linked.iter().map(|id| graph.describe_crate(id, &read_hashes(&lock))).collect();
    components.extend(page_packages(plan)?);
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": plan.format_epoch()?,
            "component": {
                "type": "application", "bom-ref": graph.reference(graph.root), "name": PROGRAM,
                "version": plan.version,
            },
        },
        "components": components,
        "dependencies": graph.list_dependencies(),
    });
    serde_json::to_string_pretty(&bill).map(|text| text + "\n").map_err(|e| e.to_string())
}

/// Returns the items of a list, or none for another value.
fn list_of(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The crates of the program, and what each is linked with.
struct CrateGraph<'a> {
    packages: BTreeMap<&'a str, &'a Value>,
    links: BTreeMap<&'a str, BTreeSet<&'a str>>,
    root: &'a str,
    /// All crates that the root is linked with, without the root.
    linked: BTreeSet<&'a str>,
}

impl<'a> CrateGraph<'a> {
    fn of_metadata(metadata: &'a Value) -> Result<Self, String> {
        let packages: BTreeMap<_, _> = list_of(&metadata["packages"])
            .iter()
            .filter_map(|one| Some((one["id"].as_str()?, one)))
            .collect();
        let is_linked =
            |dep: &&Value| list_of(&dep["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
        let mut links = BTreeMap::new();
        for node in list_of(&metadata["resolve"]["nodes"]) {
            let deps = list_of(&node["deps"]).iter().filter(is_linked);
            let deps: BTreeSet<_> = deps.filter_map(|dep| dep["pkg"].as_str()).collect();
            links.insert(node["id"].as_str().unwrap_or_default(), deps);
        }
        let root = packages.iter().find(|(_, package)| package["name"] == PROGRAM);
        let root = root.map(|(id, _)| *id).ok_or("cargo metadata has no package `mezza`")?;
        let mut linked = BTreeSet::new();
        let mut waiting = vec![root];
        while let Some(id) = waiting.pop() {
            let new = links.get(id).into_iter().flatten().filter(|dep| linked.insert(**dep));
            waiting.extend(new);
        }
        Ok(Self { packages, links, root, linked })
    }

    /// Returns the package URL of a crate, which is its name in the bill.
    fn reference(&self, id: &str) -> String {
        let word =
            |key: &str| self.packages.get(id).and_then(|one| one[key].as_str()).unwrap_or("?");
        format!("pkg:cargo/{}@{}", word("name"), word("version"))
    }

    fn describe_crate(&self, id: &str, hashes: &BTreeMap<String, String>) -> Value {
        let reference = self.reference(id);
        let package = self.packages.get(id).copied().unwrap_or(&Value::Null);
        let mut component = json!({
            "type": "library", "bom-ref": reference, "name": package["name"],
            "version": package["version"], "purl": reference,
        });
        if let Some(licence) = package["license"].as_str() {
            // Older crates write a slash for OR, which SPDX does not know.
            component["licenses"] = json!([{ "expression": licence.replace('/', " OR ") }]);
        }
        if let Some(hash) = hashes.get(&reference) {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": hash }]);
        }
        component
    }

    fn list_dependencies(&self) -> Vec<Value> {
        let all = std::iter::once(&self.root).chain(&self.linked);
        let describe = |id: &&str| {
            let deps = self.links.get(*id).into_iter().flatten();
            let deps: Vec<String> = deps.map(|dep| self.reference(dep)).collect();
            json!({ "ref": self.reference(id), "dependsOn": deps })
        };
        all.map(describe).collect()
    }
}

/// Returns the hashes of `Cargo.lock` by package URL. They are those of the files at the registry.
fn read_hashes(lock: &toml::Table) -> BTreeMap<String, String> {
    let packages = lock.get("package").and_then(toml::Value::as_array);
    let hash = |package: &toml::Value| {
        let word = |key: &str| package.get(key).and_then(toml::Value::as_str);
        let reference = format!("pkg:cargo/{}@{}", word("name")?, word("version")?);
        Some((reference, word("checksum")?.to_owned()))
    };
    packages.into_iter().flatten().filter_map(hash).collect()
}

/// Returns the npm packages that are in the page. Those of its tools are not.
fn page_packages(plan: &DistPlan) -> Result<Vec<Value>, String> {
    let lock =
        fs::read_to_string(plan.root.join("ui/package-lock.json")).map_err(|e| e.to_string())?;
    let lock: Value = serde_json::from_str(&lock).map_err(|e| format!("package-lock.json: {e}"))?;
    let packages = lock["packages"].as_object().into_iter().flatten();
    let shipped = packages.filter(|(path, one)| !path.is_empty() && one["dev"] != true);
    Ok(shipped
        .map(|(path, one)| {
            let name = path.rsplit("node_modules/").next().unwrap_or(path);
            let version = one["version"].as_str().unwrap_or("?");
            let reference = format!("pkg:npm/{}@{version}", name.replace('@', "%40"));
            json!({
                "type": "library", "bom-ref": reference, "name": name, "version": version,
                "purl": reference, "licenses": [{ "expression": one["license"].as_str().unwrap_or("?") }],
            })
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_linked_crates_are_in_the_bill() {
        let package = |name: &str| json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT/X11" });
        let dep = |name: &str, kind: Value| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let packages = ["mezza", "a", "b", "tool", "other"].map(package);
        let metadata = json!({
            "packages": packages,
            "resolve": { "nodes": [
                { "id": "mezza", "deps": [dep("a", Value::Null), dep("tool", json!("dev"))] },
                { "id": "a", "deps": [dep("b", Value::Null), dep("tool", json!("build"))] },
                { "id": "b", "deps": [dep("a", Value::Null)] },
                { "id": "other", "deps": [] },
            ] },
        });
        let graph = CrateGraph::of_metadata(&metadata).expect("a graph");
        assert_eq!(graph.linked, BTreeSet::from(["a", "b"]));
        let hashes = BTreeMap::from([("pkg:cargo/a@1.0.0".to_owned(), "00ff".to_owned())]);
        let a = graph.describe_crate("a", &hashes);
        assert_eq!(a["hashes"][0]["content"], "00ff");
        assert_eq!(a["licenses"][0]["expression"], "MIT OR X11");
        assert_eq!(graph.list_dependencies()[0]["dependsOn"], json!(["pkg:cargo/a@1.0.0"]));
    }
}
