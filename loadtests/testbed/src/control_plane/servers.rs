//! The command lines of etcd and kube-apiserver, the audit policy and the kubeconfig: what depends on nothing but
//! paths, ports and options.

use std::path::{Path, PathBuf};

use super::certificates::Certificates;
use super::options::Options;

/// Every request to a resource, once, when it is answered: who, what, on which object and with which result. Bodies
/// are left out; requests to paths such as /readyz and the server's own are no one's work.
const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
omitManagedFields: true
rules:
  - level: None
    nonResourceURLs: ['*']
  - level: None
    users: ['system:apiserver']
  - level: Metadata
";

/// Where everything of one control plane lies and listens.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    directory: PathBuf,
    etcd_client: u16,
    etcd_peer: u16,
    api_server: u16,
}

impl Layout {
    pub(super) fn new(directory: &Path, [etcd_client, etcd_peer, api_server]: [u16; 3]) -> Self {
        Self { directory: directory.to_owned(), etcd_client, etcd_peer, api_server }
    }

    pub(super) fn etcd_log(&self) -> PathBuf {
        self.directory.join("etcd.log")
    }

    pub(super) fn api_server_log(&self) -> PathBuf {
        self.directory.join("kube-apiserver.log")
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    pub(super) fn audit_log(&self) -> PathBuf {
        self.directory.join("audit.log")
    }

    pub(super) fn audit_policy(&self) -> PathBuf {
        self.directory.join("audit-policy.yaml")
    }

    fn etcd_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.etcd_client)
    }

    pub(super) fn api_server_url(&self) -> String {
        format!("https://127.0.0.1:{}", self.api_server)
    }

    /// Written beside the certificates before the server starts.
    pub(super) fn files(&self, certificates: &Certificates) -> [(PathBuf, String); 2] {
        [(self.audit_policy(), AUDIT_POLICY.to_owned()), (self.kubeconfig(), self.kubeconfig_text(certificates))]
    }

    pub(super) fn etcd_args(&self) -> Vec<String> {
        let peer = format!("http://127.0.0.1:{}", self.etcd_peer);
        vec![
            "--name=local".to_owned(),
            flag("data-dir", self.directory.join("etcd").display()),
            flag("listen-client-urls", self.etcd_url()),
            flag("advertise-client-urls", self.etcd_url()),
            flag("listen-peer-urls", &peer),
            flag("initial-advertise-peer-urls", &peer),
            flag("initial-cluster", format!("local={peer}")),
            // The store lives as long as the process, so a power cut cannot cost more than the process itself.
            "--unsafe-no-fsync".to_owned(),
            "--quota-backend-bytes=4294967296".to_owned(),
            "--log-level=warn".to_owned(),
        ]
    }

    pub(super) fn api_server_args(&self, certificates: &Certificates, options: &Options) -> Vec<String> {
        let mut args = vec![
            flag("etcd-servers", self.etcd_url()),
            "--bind-address=127.0.0.1".to_owned(),
            flag("secure-port", self.api_server),
            // A loopback address may not be advertised, so no endpoint of the kubernetes service is kept either.
            "--endpoint-reconciler-type=none".to_owned(),
            flag("tls-cert-file", certificates.serving.certificate.display()),
            flag("tls-private-key-file", certificates.serving.key.display()),
            flag("client-ca-file", certificates.ca.display()),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            flag("service-account-key-file", certificates.token_public_key.display()),
            flag("service-account-signing-key-file", certificates.token_key.display()),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            "--authorization-mode=Node,RBAC".to_owned(),
            // No controller makes the service accounts that this plug-in waits for.
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            flag("audit-policy-file", self.audit_policy().display()),
            flag("audit-log-path", self.audit_log().display()),
            // An event is in the file before the client has its answer, so a test may read it at once.
            "--audit-log-mode=blocking-strict".to_owned(),
            "--audit-log-maxsize=4096".to_owned(),
        ];
        if !options.feature_gates.is_empty() {
            let gates: Vec<String> =
                options.feature_gates.iter().map(|(gate, enabled)| format!("{gate}={enabled}")).collect();
            args.push(flag("feature-gates", gates.join(",")));
        }
        args.extend(options.api_server_args.iter().cloned());
        args
    }

    fn kubeconfig_text(&self, certificates: &Certificates) -> String {
        format!(
            "\
apiVersion: v1
kind: Config
current-context: flotilla
clusters:
  - name: flotilla
    cluster:
      server: {server}
      certificate-authority: {ca}
users:
  - name: admin
    user:
      client-certificate: {certificate}
      client-key: {key}
contexts:
  - name: flotilla
    context:
      cluster: flotilla
      user: admin
",
            server = self.api_server_url(),
            ca = certificates.ca.display(),
            certificate = certificates.admin.certificate.display(),
            key = certificates.admin.key.display(),
        )
    }
}

fn flag(name: &str, value: impl std::fmt::Display) -> String {
    format!("--{name}={value}")
}
