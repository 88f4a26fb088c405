//! Compares with the CRDs of a cluster.

use anyhow::{Context as _, Result};
use clap::builder::styling::{AnsiColor, Style};
use flotilla_crds::Catalog;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject};
use kube::{Api, Client};

use super::compare;
use super::select::Selected;
use crate::output::Out;

/// CRDs that are read at the same time.
const AT_ONCE: usize = 8;
/// How many differences are printed per CRD.
const TOLD: usize = 10;
const NEW: Style = AnsiColor::Green.on_default();
const CHANGED: Style = AnsiColor::Yellow.on_default();

/// How a kind stands in the cluster.
pub(super) struct Found {
    name: String,
    state: State,
}

enum State {
    Missing,
    Same,
    Different(Vec<String>),
}

impl Found {
    pub(super) fn differs(&self) -> bool {
        !matches!(self.state, State::Same)
    }
}

/// Reads and compares.
pub(super) async fn read(catalog: &'static Catalog, kinds: &[Selected<'_>]) -> Result<Vec<Found>> {
    let client = Client::try_default().await.context("failed to find a cluster: set KUBECONFIG")?;
    let api: Api<DynamicObject> = Api::all_with(client, &ApiResource::erase::<CustomResourceDefinition>(&()));
    let reads = kinds.iter().map(|kind| {
        let api = api.clone();
        async move {
            let name = kind.entry.crd_name();
            let read = api.get_opt(&name).await.with_context(|| format!("failed to read the CRD {name}"))?;
            let state = match read {
                None => State::Missing,
                Some(theirs) => {
                    let found = compare::differences(&super::crd(catalog, kind)?, &theirs.data);
                    if found.is_empty() { State::Same } else { State::Different(found) }
                }
            };
            Ok(Found { name, state })
        }
    });
    futures::stream::iter(reads).buffered(AT_ONCE).try_collect().await
}

/// Prints what differs.
pub(super) fn print(out: Out<'_>, found: &[Found]) -> Result<()> {
    let (mut missing, mut different) = (0, 0);
    for Found { name, state } in found {
        match state {
            State::Same => {}
            State::Missing => {
                missing += 1;
                writeln!(out, "{NEW}+{NEW:#} {name}")?;
            }
            State::Different(paths) => {
                different += 1;
                writeln!(out, "{CHANGED}~{CHANGED:#} {name}")?;
                for path in paths.iter().take(TOLD) {
                    writeln!(out, "    {path}")?;
                }
                if paths.len() > TOLD {
                    writeln!(out, "    and {} more", paths.len() - TOLD)?;
                }
            }
        }
    }
    let same = found.len() - missing - different;
    writeln!(out, "{missing} not installed, {different} different, {same} the same").context("failed to print")
}
