//! The guard of this home, as its owner sees it on the page.

use axum::Json;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{ApiResult, Web};
use crate::faces::lab::find_lab;
use mezza_host::api::{Fault, json};
use mezza_servers::guard::audit::{AuditRowJson, compute_audit, list_unguarded};
use mezza_servers::guard::control::read_status;
use mezza_servers::guard::folder::GuardFolder;
use mezza_servers::guard::settings::PolicyName;

/// The next step if the guard does not run.
const NEXT: &str = "start it with `mezza guard run`";

/// The handlers of this file.
pub(crate) fn routes() -> OpenApiRouter<Web> {
    OpenApiRouter::new().routes(routes!(guard))
}

/// The guard of this home: what it has done, what it leaves open, and what no guard sees.
#[utoipa::path(get, path = "/v1/guard", responses((status = 200, body = json::GuardJson)))]
async fn guard(State(web): State<Web>) -> ApiResult<json::GuardJson> {
    let folder = GuardFolder::at(&web.home.root().join("guard"));
    let read = tokio::task::spawn_blocking(move || describe_guard(&folder)).await;
    Ok(Json(read.map_err(|_| Fault::bug("reading the guard failed"))?))
}

fn describe_guard(folder: &GuardFolder) -> json::GuardJson {
    let parts = list_unguarded()
        .into_iter()
        .map(|of| json::GuardPartJson { part: of.part.into(), freedom: of.freedom.into() });
    let mut guard = json::GuardJson {
        on: folder.settings_path().exists(),
        running: false,
        trouble: None,
        facts: None,
        unguarded: parts.collect(),
        lab_missing: find_lab().err().map(|fault| fault.to_string()),
    };
    if guard.on {
        match read_facts(folder) {
            Ok((running, facts)) => (guard.running, guard.facts) = (running, Some(facts)),
            Err(fault) => guard.trouble = Some(fault.to_string()),
        }
    }
    guard
}

/// Reads the facts of a guard, and whether it runs.
fn read_facts(folder: &GuardFolder) -> Result<(bool, json::GuardFactsJson), Fault> {
    let status = read_status(folder, NEXT)?;
    let audit =
        compute_audit(&folder.read_settings()?, &folder.read_peers()?, &folder.load_ledger()?)?;
    let facts = json::GuardFactsJson {
        strict: status.policy == PolicyName::Strict,
        level: audit.level,
        sessions: status.sessions,
        handshakes: status.handshakes,
        refused: status.refused,
        resets: status.resets,
        ledger_fails: status.ledger_fails,
        clients: status.clients.len(),
        destinations: status.destinations.into_iter().map(|dest| dest.name).collect(),
        events: status.events,
        channels: audit.rows.iter().map(describe_channel).collect(),
    };
    Ok((status.running, facts))
}

fn describe_channel(row: &AuditRowJson) -> json::GuardChannelJson {
    json::GuardChannelJson {
        frame: row.frame.into(),
        what: row.what.into(),
        accepted_bits: row.accepted,
        refused_bits: row.refused,
        closed_by: row.closed_by.into(),
    }
}
