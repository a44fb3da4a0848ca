//! `m87 explain`: why a run ended as it did, or would be refused, clause by clause. It prints the trace of the judgement and
//! nothing else.

use crate::args::ExplainArguments;
use crate::exit::Exit;
use crate::local::{actor::actor, preview, read};
use crate::receipt;
use crate::say::{put, say};
use m87_core::decide::decide;
use m87_core::explain::{clauses, explain};

/// Explains one run of an out folder, or the runs of files as they stand.
pub(crate) async fn run(arguments: &ExplainArguments) -> anyhow::Result<Exit> {
    if let Some(run) = &arguments.run {
        let (_, bundle) = receipt::find(run, &arguments.out)?;
        put!(explain(&decide(&bundle.dossier, &bundle.evidence)));
        return Ok(Exit::AsAsked);
    }
    let Some(objects) = read(&arguments.files) else { return Ok(Exit::Invalid) };
    for dossier in preview::dossiers(objects, &actor(arguments.user.as_deref())).await? {
        say!("{}/{}", dossier.namespace.name, dossier.run.name);
        for gate in preview::gates(&dossier) {
            put!(clauses(gate.as_slice()));
        }
    }
    Ok(Exit::AsAsked)
}
