//! The operator's own credential: for objects for which neither an annotation nor the namespace names another.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use flotilla_worker::arm::credentials::{Own, Proof, Settings, TOKEN_FILE};
use flotilla_worker::arm::identity::Cloud;

use super::value::{self, Hidden};

/// The operator's own credential, and what the credentials of others may say.
#[derive(Debug, Args)]
#[command(next_help_heading = "Credential")]
pub struct Credential {
    /// Subscription of the operator's own credential. Without it, each namespace or object must bring a credential;
    /// `flotilla plan` shows the nil UUID instead.
    #[arg(
        long = "azure-subscription-id", visible_alias = "subscription", env = "AZURE_SUBSCRIPTION_ID", value_name = "ID",
        value_parser = value::subscription
    )]
    pub subscription: Option<String>,

    /// Tenant of the credential.
    #[arg(long = "azure-tenant-id", env = "AZURE_TENANT_ID", value_name = "ID", value_parser = value::trimmed)]
    pub tenant: Option<String>,

    /// Client id of the application or the managed identity.
    #[arg(long = "azure-client-id", env = "AZURE_CLIENT_ID", value_name = "ID", value_parser = value::trimmed)]
    pub client_id: Option<String>,

    /// Client secret of the application. Other users of a machine can read flags: prefer the variable or the file. Without a
    /// secret, the machine's managed identity is used.
    #[arg(
        long = "azure-client-secret", env = "AZURE_CLIENT_SECRET", hide_env_values = true, value_name = "SECRET",
        value_parser = value::hidden
    )]
    pub secret: Option<Hidden>,

    /// File with the client secret, read once at the start.
    #[arg(
        long = "azure-client-secret-file",
        env = "AZURE_CLIENT_SECRET_FILE",
        value_name = "FILE",
        conflicts_with = "secret"
    )]
    pub secret_file: Option<PathBuf>,

    /// Use workload identity: a service account token instead of a client secret, which is then ignored.
    #[arg(
        long = "use-workload-identity-auth", env = "USE_WORKLOAD_IDENTITY_AUTH", default_value = "false", value_name = "BOOL",
        value_parser = value::boolean, num_args = 0..=1, default_missing_value = "true", require_equals = true
    )]
    pub workload_identity: bool,

    /// File with the service account token for workload identity.
    #[arg(
        long = "azure-federated-token-file", env = "AZURE_FEDERATED_TOKEN_FILE", default_value = TOKEN_FILE,
        value_name = "FILE"
    )]
    pub token_file: PathBuf,

    /// Let the Secret of a credential name its own cloud.
    #[arg(
        long = "allow-multi-env-management", env = "ALLOW_MULTI_ENV_MANAGEMENT", default_value = "false",
        value_name = "BOOL", value_parser = value::boolean, num_args = 0..=1, default_missing_value = "true",
        require_equals = true
    )]
    pub multi_cloud: bool,

    /// A client certificate: not supported yet, so it must be unset.
    #[arg(
        long = "azure-client-certificate", env = "AZURE_CLIENT_CERTIFICATE", hide = true, hide_env_values = true,
        value_parser = value::hidden
    )]
    pub certificate: Option<Hidden>,

    /// A first-party managed identity: not supported yet, so it must be unset.
    #[arg(
        long = "azure-user-assigned-identity-credentials", env = "AZURE_USER_ASSIGNED_IDENTITY_CREDENTIALS", hide = true,
        hide_env_values = true, value_parser = value::hidden
    )]
    pub first_party: Option<Hidden>,
}

impl Credential {
    /// The settings that the worker finds identities with.
    pub fn settings(&self, cloud: Cloud) -> Result<Settings> {
        Ok(Settings::new(cloud, self.own()?).with_multiple_clouds(self.multi_cloud))
    }

    /// The operator's own credential; none without a subscription.
    fn own(&self) -> Result<Option<Own>> {
        let Some(subscription) = self.subscription.clone() else { return Ok(None) };
        let proof = self.proof()?;
        if !matches!(proof, Proof::ManagedIdentity) {
            for (flag, variable, value) in [
                ("--azure-tenant-id", "AZURE_TENANT_ID", &self.tenant),
                ("--azure-client-id", "AZURE_CLIENT_ID", &self.client_id),
            ] {
                if value.is_none() {
                    bail!(
                        "{flag} ({variable}) is missing: it is required with --azure-subscription-id (AZURE_SUBSCRIPTION_ID)"
                    );
                }
            }
        }
        let (tenant, client_id) = (self.tenant.clone().unwrap_or_default(), self.client_id.clone().unwrap_or_default());
        Ok(Some(Own { subscription, tenant, client_id, proof }))
    }

    fn proof(&self) -> Result<Proof> {
        if self.workload_identity {
            return Ok(Proof::WorkloadIdentity { token_file: self.token_file.clone() });
        }
        for (variable, value) in [
            ("AZURE_CLIENT_CERTIFICATE", &self.certificate),
            ("AZURE_USER_ASSIGNED_IDENTITY_CREDENTIALS", &self.first_party),
        ] {
            if value.is_some() {
                bail!("{variable} is not supported yet: unset it and set AZURE_CLIENT_SECRET");
            }
        }
        Ok(match (&self.secret, &self.secret_file) {
            (Some(secret), _) => Proof::client_secret(secret.0.as_str()),
            (None, Some(file)) => Proof::client_secret(read(file)?),
            (None, None) => Proof::ManagedIdentity,
        })
    }
}

fn read(file: &Path) -> Result<String> {
    let text = std::fs::read_to_string(file).with_context(|| {
        format!("failed to read --azure-client-secret-file (AZURE_CLIENT_SECRET_FILE) {}", file.display())
    })?;
    let text = text.trim();
    if text.is_empty() {
        bail!("--azure-client-secret-file (AZURE_CLIENT_SECRET_FILE) {} is empty", file.display());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        credential: Credential,
    }

    fn parse(flags: &[&str]) -> Result<Option<Own>> {
        let required = ["flags", "--subscription=sub", "--azure-tenant-id=contoso", "--azure-client-id=client"];
        Flags::try_parse_from(required.iter().chain(flags)).unwrap().credential.own()
    }

    fn proof(flags: &[&str]) -> String {
        format!("{:?}", parse(flags).unwrap().unwrap().proof)
    }

    #[test]
    fn operators_own_settings_choose_the_proof_as_aso_does() {
        assert_eq!(proof(&["--azure-client-secret=s3cret"]), "ClientSecret");
        assert_eq!(proof(&["--use-workload-identity-auth", "--azure-client-secret=s3cret"]), "WorkloadIdentity");
        let managed = Flags::try_parse_from(["flags", "--subscription=sub"]).unwrap().credential;
        assert_eq!(format!("{:?}", managed.own().unwrap().unwrap().proof), "ManagedIdentity");
        let none = Flags::try_parse_from(["flags", "--azure-tenant-id=contoso"]).unwrap().credential;
        assert!(none.own().unwrap().is_none());
    }

    #[test]
    fn what_is_missing_or_unsupported_is_named_without_its_value() {
        let error = parse(&["--azure-client-certificate=-----BEGIN"]).unwrap_err().to_string();
        assert!(error.contains("AZURE_CLIENT_CERTIFICATE") && !error.contains("BEGIN"), "{error}");
        let flags = ["flags", "--subscription=sub", "--azure-client-id=client", "--azure-client-secret=s3cret"];
        let flags = Flags::try_parse_from(flags).unwrap();
        assert!(!format!("{flags:?}").contains("s3cret"));
        let error = flags.credential.own().unwrap_err().to_string();
        assert!(error.contains("--azure-tenant-id (AZURE_TENANT_ID)") && !error.contains("s3cret"), "{error}");
    }

    #[test]
    fn secret_may_be_in_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let flag = format!("--azure-client-secret-file={}", file.path().display());
        assert!(parse(&[&flag]).unwrap_err().to_string().contains("is empty"));
        std::fs::write(file.path(), "s3cret\n").unwrap();
        let Proof::ClientSecret(secret) = parse(&[&flag]).unwrap().unwrap().proof else { panic!("another proof") };
        assert_eq!(secret.secret(), "s3cret");
    }
}
