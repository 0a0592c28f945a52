//! The seal of `requestState`, which a client keeps for the server.
//!
//! On 2026-07-28 a request that needs more input ends, and its state travels to the client and
//! back. The seal is an HMAC over the state, its expiry, and the digest of the request: who asks,
//! and what for. So another client or another request cannot use it, and it expires. It is not
//! encrypted, and a client can send it more than once until it expires.
//! Spec: MCP multi round-trip requests, section "Server Requirements".

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use interlock_proto::Time;
use sha2::Sha256;
use std::{fmt, io};
use subtle::{Choice, ConstantTimeEq};

/// The largest payload that opens again.
pub(crate) const MOST_PAYLOAD: usize = 1024 * 1024;

/// The first byte of a sealed text. Its expiry, the payload and the tag follow.
const VERSION: u8 = 1;
const HEAD: usize = 1 + size_of::<u64>();
const TAG: usize = 32;
const LONGEST_SEALED: usize = (HEAD + MOST_PAYLOAD + TAG).div_ceil(3) * 4;

/// The digest of the request that a seal is for.
pub(crate) type RequestDigest = [u8; 32];

/// Seals payloads and opens them again.
pub(crate) struct Sealer {
    key: SealKey,
    older: Vec<SealKey>,
}

impl Sealer {
    /// A sealer whose texts open in this process only.
    pub(crate) fn random() -> io::Result<Self> {
        let mut secret = [0; SealKey::LEAST];
        getrandom::fill(&mut secret).map_err(io::Error::other)?;
        Ok(Self::with(SealKey::derived(&secret)))
    }

    /// A sealer whose texts open wherever the same secret is known.
    pub(crate) fn new(key: &[u8]) -> Result<Self, ShortKey> {
        SealKey::new(key).map(Self::with)
    }

    const fn with(key: SealKey) -> Self {
        Self {
            key,
            older: Vec::new(),
        }
    }

    /// Also opens what an older key has sealed.
    pub(crate) fn also_opens(mut self, key: &[u8]) -> Result<Self, ShortKey> {
        self.older.push(SealKey::new(key)?);
        Ok(self)
    }

    /// Seals a payload for a request, until `expires`. One of more than [`MOST_PAYLOAD`] bytes
    /// never opens.
    pub(crate) fn seal(&self, payload: &[u8], digest: &RequestDigest, expires: Time) -> String {
        let mut sealed = Vec::with_capacity(HEAD + payload.len() + TAG);
        sealed.push(VERSION);
        sealed.extend(expires.0.to_be_bytes());
        sealed.extend(payload);
        let tag = self.key.tag(&sealed, digest);
        sealed.extend(tag);
        URL_SAFE_NO_PAD.encode(sealed)
    }

    /// Opens a payload that this server sealed for this request and that has not expired.
    pub(crate) fn open(
        &self,
        sealed: &str,
        digest: &RequestDigest,
        now: Time,
    ) -> Result<Vec<u8>, SealError> {
        if sealed.len() > LONGEST_SEALED {
            return Err(SealError::Forged);
        }
        let mut sealed = URL_SAFE_NO_PAD
            .decode(sealed)
            .map_err(|_| SealError::Forged)?;
        let (content, tag) = sealed.split_last_chunk::<TAG>().ok_or(SealError::Forged)?;
        if !self.made(content, tag, digest) {
            return Err(SealError::Forged);
        }
        // The content is not read before the tag is verified.
        let expires = match content.first_chunk::<HEAD>() {
            Some([VERSION, millis @ ..]) => Time(u64::from_be_bytes(*millis)),
            Some(_) | None => return Err(SealError::Forged),
        };
        if now >= expires {
            return Err(SealError::Expired);
        }
        sealed.truncate(content.len());
        sealed.drain(..HEAD);
        Ok(sealed)
    }

    /// Whether one of the keys made the tag. All are tried, so that timing does not tell which.
    fn made(&self, content: &[u8], tag: &[u8; TAG], digest: &RequestDigest) -> bool {
        let mut made = Choice::from(0);
        for key in std::iter::once(&self.key).chain(&self.older) {
            made |= key.tag(content, digest).ct_eq(tag);
        }
        made.into()
    }
}

/// Shows the number of keys, and no key.
impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer")
            .field("older", &self.older.len())
            .finish_non_exhaustive()
    }
}

/// Why a sealed text does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SealError {
    /// It was sealed by another server, for another principal or request, or it was altered.
    #[error("the request state is not one that was given for this request")]
    Forged,
    #[error("the request state has expired")]
    Expired,
}

/// A secret that is too short to be safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key has {0} bytes and needs at least {least}", least = SealKey::LEAST)]
pub(crate) struct ShortKey(usize);

/// A key derived for this purpose alone, because the secret may have other uses.
struct SealKey([u8; 32]);

impl SealKey {
    const LEAST: usize = 32;

    fn new(secret: &[u8]) -> Result<Self, ShortKey> {
        match secret.len() {
            ..Self::LEAST => Err(ShortKey(secret.len())),
            _ => Ok(Self::derived(secret)),
        }
    }

    fn derived(secret: &[u8]) -> Self {
        Self(mac(secret, &[b"interlock request state"]))
    }

    /// The digest has a fixed length, so that it cannot run into the content.
    fn tag(&self, content: &[u8], digest: &RequestDigest) -> [u8; TAG] {
        mac(&self.0, &[digest, content])
    }
}

fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests;
