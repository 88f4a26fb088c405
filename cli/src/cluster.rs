//! The cluster that a member works in.

use anyhow::{Context as _, Result};
use kube::Config;

use crate::args::Member;

/// From `KUBECONFIG` or the pod's service account. The audit log names us by role and pod.
pub(crate) async fn infer(role: &str, member: &Member) -> Result<Config> {
    let mut config = Config::infer().await.context("failed to find a cluster: set KUBECONFIG or run in a pod")?;
    let agent = format!("flotilla/{} {role}/{}", env!("CARGO_PKG_VERSION"), member.pod_name);
    let agent = agent.parse().with_context(|| format!("--pod-name {} can't be a pod's name", member.pod_name))?;
    config.headers.push((axum::http::header::USER_AGENT, agent));
    Ok(config)
}
