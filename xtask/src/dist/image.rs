//! The container image: one layer with the static program, as an OCI layout in a tar file
//! (OCI Image Layout Specification 1.1).

use super::{DistPlan, run_tool};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The user of the servers in the image.
const USER: &str = "65532";
/// The folder of keys and stores.
const HOME: &str = "/var/lib/mezza";

/// Makes the image of a static program. Returns its path.
///
/// # Errors
/// The tool or the file that failed.
pub(super) fn make_image(plan: &DistPlan, program: &Path) -> Result<PathBuf, String> {
    let work = plan.out.join("image");
    if work.exists() {
        fs::remove_dir_all(&work).map_err(|e| format!("{}: {e}", work.display()))?;
    }
    let layout = Layout { blobs: work.join("layout/blobs/sha256") };
    fs::create_dir_all(&layout.blobs).map_err(|e| format!("{}: {e}", work.display()))?;
    let layer = make_layer(plan, program, &work)?;
    let content = hash_file(&layer)?;
    run_tool(Command::new("gzip").args(["-9", "-n", "-f"]).arg(&layer))?;
    let packed = layout.add_file(&layer.with_extension("tar.gz"))?;
    let config = layout.add_json(&describe_config(plan, &content)?)?;
    let media = |kind: &str| format!("application/vnd.oci.image.{kind}");
    let manifest = layout.add_json(&json!({
        "schemaVersion": 2,
        "mediaType": media("manifest.v1+json"),
        "config": config.describe(&media("config.v1+json")),
        "layers": [packed.describe(&media("layer.v1.tar+gzip"))],
    }))?;
    let mut entry = manifest.describe(&media("manifest.v1+json"));
    entry["annotations"] = json!({ "org.opencontainers.image.ref.name": plan.version });
    let index =
        json!({ "schemaVersion": 2, "mediaType": media("index.v1+json"), "manifests": [entry] });
    write_json(&work.join("layout/index.json"), &index)?;
    write_json(&work.join("layout/oci-layout"), &json!({ "imageLayoutVersion": "1.0.0" }))?;
    let image = plan.out.join(format!("mezza-servers_{}_oci.tar", plan.version));
    let mut tar = plain_tar(plan, &work.join("layout"), "0");
    run_tool(tar.arg("-cf").arg(&image).args(["blobs", "index.json", "oci-layout"]))?;
    fs::remove_dir_all(&work).map_err(|e| format!("{}: {e}", work.display()))?;
    Ok(image)
}

/// A blob of the layout.
struct Blob {
    digest: String,
    bytes: u64,
}

impl Blob {
    fn describe(&self, media: &str) -> Value {
        json!({ "mediaType": media, "digest": format!("sha256:{}", self.digest), "size": self.bytes })
    }
}

/// The folder of all blobs, each under its hash.
struct Layout {
    blobs: PathBuf,
}

impl Layout {
    fn add_file(&self, file: &Path) -> Result<Blob, String> {
        let digest = hash_file(file)?;
        let place = self.blobs.join(&digest);
        fs::rename(file, &place).map_err(|e| format!("{}: {e}", place.display()))?;
        let bytes = place.metadata().map_err(|e| e.to_string())?.len();
        Ok(Blob { digest, bytes })
    }

    fn add_json(&self, value: &Value) -> Result<Blob, String> {
        let file = self.blobs.join("new");
        write_json(&file, value)?;
        self.add_file(&file)
    }
}

fn write_json(file: &Path, value: &Value) -> Result<(), String> {
    fs::write(file, value.to_string()).map_err(|e| format!("{}: {e}", file.display()))
}

/// Returns a `tar` that stores no fact of this machine.
fn plain_tar(plan: &DistPlan, folder: &Path, owner: &str) -> Command {
    let mut tar = Command::new("tar");
    tar.current_dir(folder).args([
        "--format=ustar",
        "--sort=name",
        "--numeric-owner",
        "--mode=go-w",
    ]);
    tar.arg(format!("--mtime=@{}", plan.epoch_s));
    tar.args([format!("--owner={owner}"), format!("--group={owner}")]);
    tar
}

/// Makes the layer: the program, its user, and an empty home of that user.
fn make_layer(plan: &DistPlan, program: &Path, work: &Path) -> Result<PathBuf, String> {
    let tree = work.join("tree");
    let home = HOME.trim_start_matches('/');
    let fill = || {
        for folder in ["etc", "usr/bin", home] {
            fs::create_dir_all(tree.join(folder))?;
        }
        let line = format!("mezza:x:{USER}:{USER}::{HOME}:/nonexistent\n");
        fs::write(tree.join("etc/passwd"), line)?;
        fs::copy(program, tree.join("usr/bin/mezza"))
    };
    fill().map_err(|e| format!("{}: {e}", tree.display()))?;
    let layer = work.join("layer.tar");
    run_tool(plain_tar(plan, &tree, "0").arg("-cf").arg(&layer).args(["etc", "usr"]))?;
    run_tool(plain_tar(plan, &tree, USER).arg("-rf").arg(&layer).arg(home))?;
    Ok(layer)
}

fn describe_config(plan: &DistPlan, content: &str) -> Result<Value, String> {
    Ok(json!({
        "created": plan.format_epoch()?,
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "User": USER,
            "Env": [format!("MEZZA_HOME={HOME}"), "MEZZA_RELAY_LISTEN=0.0.0.0:7101"],
            "Entrypoint": ["/usr/bin/mezza"],
            "Cmd": ["relay", "run"],
            "ExposedPorts": { "7101/tcp": {} },
            "Volumes": { HOME: {} },
            "WorkingDir": HOME,
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{content}")] },
        "history": [{ "created": plan.format_epoch()?, "created_by": "cargo xtask dist" }],
    }))
}

fn hash_file(file: &Path) -> Result<String, String> {
    let text = run_tool(Command::new("sha256sum").arg("-b").arg(file))?;
    let text = String::from_utf8_lossy(&text).into_owned();
    text.split_whitespace()
        .next()
        .map(str::to_owned)
        .ok_or_else(|| "sha256sum printed nothing".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes an image in a folder, and returns its bytes.
    fn image_in(folder: &Path) -> Vec<u8> {
        let plan = DistPlan {
            root: folder,
            binary: PathBuf::new(),
            out: folder.to_path_buf(),
            compression: "none",
            version: "0.1.0".to_owned(),
            repository: String::new(),
            epoch_s: 1_700_000_000,
        };
        let program = folder.join("program");
        fs::write(&program, "a program").expect("a file");
        fs::read(make_image(&plan, &program).expect("an image")).expect("its bytes")
    }

    #[test]
    fn two_images_are_equal_and_every_blob_has_its_hash() {
        let base = std::env::temp_dir().join(format!("mezza-image-{}", std::process::id()));
        let folders = ["one", "two"].map(|name| base.join(name));
        let images = folders.each_ref().map(|folder| {
            fs::create_dir_all(folder).expect("a folder");
            image_in(folder)
        });
        assert!(images[0] == images[1]);
        let tar = folders[0].join("mezza-servers_0.1.0_oci.tar");
        run_tool(Command::new("tar").arg("-xf").arg(&tar).arg("-C").arg(&folders[1]))
            .expect("a tar");
        let blobs = folders[1].join("blobs/sha256");
        let names = super::super::list_files(&blobs).expect("blobs");
        assert_eq!(names.len(), 3);
        for name in &names {
            assert_eq!(hash_file(&blobs.join(name)).as_ref(), Ok(name));
        }
        let index = fs::read_to_string(folders[1].join("index.json")).expect("the index");
        assert!(names.iter().any(|name| index.contains(name)));
        fs::remove_dir_all(base).expect("a folder of ours");
    }
}
