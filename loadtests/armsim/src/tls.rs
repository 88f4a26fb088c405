//! Armsim's own certificate authority and the certificate of its endpoint, made anew for each start.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// Why a certificate cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A certificate cannot be made.
    #[error("failed to make a certificate")]
    Certificate(#[from] rcgen::Error),
    /// TLS refuses it.
    #[error("failed to set up TLS")]
    Tls(#[from] rustls::Error),
    /// The authority's certificate cannot be written.
    #[error("failed to write {path}")]
    File {
        /// Where to.
        path: String,
        /// Why.
        source: std::io::Error,
    },
}

/// Makes the authority, writes its certificate in PEM, and sets up a server for an address.
pub(crate) fn server(ca_file: &Path, address: IpAddr) -> Result<Arc<rustls::ServerConfig>, Error> {
    let mut params = named("armsim");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    std::fs::write(ca_file, authority.pem())
        .map_err(|source| Error::File { path: ca_file.display().to_string(), source })?;

    let mut params = named("armsim endpoint");
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned(), address.to_string()];
    params.subject_alt_names = CertificateParams::new(names)?.subject_alt_names;
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &authority)?;

    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)?;
    // A fault that cuts the connection must hit one call; with HTTP/2 it would be a reset stream.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Valid from last year to the year after next; rcgen's own default is the years 1975 to 4096.
fn named(name: &str) -> CertificateParams {
    let year = i32::from(jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).year());
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = date_time_ymd(year - 1, 1, 1);
    params.not_after = date_time_ymd(year + 2, 1, 1);
    params
}
