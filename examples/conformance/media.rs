//! A picture and a sound, as small as they can be.

use base64::{Engine, prelude::BASE64_STANDARD};
use interlock::model::ContentBlock;

/// One red pixel.
pub(crate) const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\
    \0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde\
    \0\0\0\x0cIDATx\xdac\xf8\xcf\xc0\0\0\x03\x01\x01\0\xf7\x03AC\
    \0\0\0\0IEND\xaeB`\x82";

/// A thousandth of a second of silence.
const WAV: &[u8] = b"RIFF\x2c\0\0\0WAVE\
    fmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x40\x1f\0\0\x01\0\x08\0\
    data\x08\0\0\0\x80\x80\x80\x80\x80\x80\x80\x80";

pub(crate) const PNG_TYPE: &str = "image/png";

pub(crate) fn image() -> ContentBlock {
    ContentBlock::image(BASE64_STANDARD.encode(PNG), PNG_TYPE)
}

pub(crate) fn audio() -> ContentBlock {
    ContentBlock::audio(BASE64_STANDARD.encode(WAV), "audio/wav")
}
