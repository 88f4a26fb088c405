//! The API server accepts the CRD of every type of Azure outside of ASO's set: structure, rules and their cost.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use flotilla_crds::{Catalog, KindEntry};
use flotilla_testbed::control_plane::ControlPlane;
use futures::{StreamExt, stream};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, PostParams};

/// CRDs on their way at a time.
const AT_ONCE: usize = 4;
/// What the issue of types outside of ASO's set asks for.
const AT_LEAST: usize = 1_700;

#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_accepts_every_further_type() {
    let catalog = Catalog::embedded();
    let client = ControlPlane::shared().await.client();
    let api: Api<DynamicObject> = Api::all_with(client, &ApiResource::erase::<CustomResourceDefinition>(&()));
    let try_it = PostParams { dry_run: true, ..PostParams::default() };
    let started = Instant::now();
    let bytes = AtomicUsize::new(0);

    let refused = stream::iter(catalog.kinds().filter(|entry| entry.further)).map(|entry: &KindEntry| {
        let (api, try_it, bytes) = (&api, &try_it, &bytes);
        async move {
            let kind = catalog.try_load(&entry.group, &entry.kind).unwrap().unwrap();
            let crd = kind.crd();
            bytes.fetch_add(crd.to_string().len(), Ordering::Relaxed);
            let created = api.create(try_it, &serde_json::from_value(crd).unwrap()).await;
            created.err().map(|error| format!("{}: {error}", entry.arm_type))
        }
    });
    let results: Vec<Option<String>> = refused.buffer_unordered(AT_ONCE).collect().await;

    let (all, refused): (usize, Vec<String>) = (results.len(), results.into_iter().flatten().collect());
    let (mib, took) = (bytes.into_inner() >> 20, started.elapsed().as_secs_f64());
    println!("{} of {all} further types accepted, {mib} MiB of CRDs, {took:.0} s", all - refused.len());
    assert!(refused.is_empty() && all >= AT_LEAST, "refused:\n{}", refused.join("\n"));
}
