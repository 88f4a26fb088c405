//! The control plane's own certificates: one CA, a serving certificate, an administrator, and the key that signs
//! service account tokens. Made anew for each start, so nothing outlives the temporary directory they lie in.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

use super::Error;

/// Files in PEM, for the servers' command lines and the kubeconfig.
#[derive(Clone, Debug)]
pub(super) struct Certificates {
    pub(super) ca: PathBuf,
    pub(super) serving: Pair,
    pub(super) admin: Pair,
    /// Signs service account tokens; no certificate, only a key.
    pub(super) token_key: PathBuf,
    /// Its public half, which checks them.
    pub(super) token_public_key: PathBuf,
}

/// A certificate and its key.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

impl Certificates {
    /// Makes all of them in `dir`.
    pub(super) fn create(dir: &Path) -> Result<Self, Error> {
        let ca = authority()?;
        let mut serving = leaf("kube-apiserver", ExtendedKeyUsagePurpose::ServerAuth);
        serving.subject_alt_names = CertificateParams::new([
            "localhost".to_owned(),
            "127.0.0.1".to_owned(),
            // The first address of the service range, by which pods would reach the server.
            "10.0.0.1".to_owned(),
            "kubernetes.default.svc".to_owned(),
        ])?
        .subject_alt_names;
        let mut admin = leaf("flotilla-admin", ExtendedKeyUsagePurpose::ClientAuth);
        admin.distinguished_name.push(DnType::OrganizationName, "system:masters");

        let ca_file = dir.join("ca.pem");
        write(&ca_file, &ca.pem())?;
        let tokens = KeyPair::generate()?;
        let (token_key, token_public_key) = (dir.join("token-key.pem"), dir.join("token-public-key.pem"));
        write(&token_key, &tokens.serialize_pem())?;
        write(&token_public_key, &tokens.public_key_pem())?;
        Ok(Self {
            ca: ca_file,
            serving: sign(dir, "serving", &serving, &ca)?,
            admin: sign(dir, "admin", &admin, &ca)?,
            token_key,
            token_public_key,
        })
    }
}

fn authority() -> Result<CertifiedIssuer<'static, KeyPair>, Error> {
    let mut params = named("flotilla-control-plane");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    Ok(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?)
}

fn leaf(name: &str, usage: ExtendedKeyUsagePurpose) -> CertificateParams {
    let mut params = named(name);
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    params.use_authority_key_identifier_extension = true;
    params
}

/// Valid from last year to the year after next: rcgen's own default is the years 1975 to 4096.
fn named(name: &str) -> CertificateParams {
    let year = i32::from(Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).year());
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = date_time_ymd(year - 1, 1, 1);
    params.not_after = date_time_ymd(year + 2, 1, 1);
    params
}

fn sign(
    dir: &Path,
    name: &str,
    params: &CertificateParams,
    ca: &CertifiedIssuer<'static, KeyPair>,
) -> Result<Pair, Error> {
    let key = KeyPair::generate()?;
    let pair = Pair { certificate: dir.join(format!("{name}.pem")), key: dir.join(format!("{name}-key.pem")) };
    write(&pair.certificate, &params.signed_by(&key, ca)?.pem())?;
    write(&pair.key, &key.serialize_pem())?;
    Ok(pair)
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    let private = || -> io::Result<()> {
        fs::write(path, text)?;
        fs::set_permissions(path, Permissions::from_mode(0o600))
    };
    private().map_err(|source| Error::File { path: path.to_owned(), source })
}
