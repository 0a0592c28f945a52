//! Reading JSON that is written as usual, without a detour.
//!
//! Nothing here says what is wrong with a text. What it does not read, a careful reader has to.

use serde::Deserialize;
use serde_json::value::RawValue;

/// What has not been read yet.
pub(crate) struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    pub(crate) const fn of(text: &'a str) -> Self {
        Self(text)
    }

    pub(crate) fn starts_with(&self, byte: u8) -> bool {
        self.0.as_bytes().first() == Some(&byte)
    }

    /// Whether only blanks are left.
    pub(crate) fn is_blank(&self) -> bool {
        self.0.trim_start_matches([' ', '\r', '\n']).is_empty()
    }

    /// Just this.
    pub(crate) fn take(&mut self, text: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(text)?;
        Some(())
    }

    pub(crate) fn spaces(&mut self) -> &mut Self {
        while self.take(" ").is_some() {}
        self
    }

    /// A string in which nothing is escaped, nor would have to be.
    pub(crate) fn string(&mut self) -> Option<&'a str> {
        self.take("\"")?;
        let end = memchr::memchr(b'"', self.0.as_bytes())?;
        let (inside, rest) = self.0.split_at_checked(end)?;
        let is_plain = |byte: u8| byte >= b' ' && byte != b'\\';
        self.0 = rest;
        self.take("\"")?;
        inside.bytes().all(is_plain).then_some(inside)
    }

    /// At most so many digits, without zeros in front, and how many they are.
    pub(crate) fn digits(&mut self, most: usize) -> Option<(i64, usize)> {
        let (mut number, mut digits) = (0_i64, 0);
        for byte in self.0.bytes().take_while(u8::is_ascii_digit) {
            if digits == most {
                return None;
            }
            number = number.checked_mul(10)?.checked_add((byte - b'0').into())?;
            digits += 1;
        }
        if digits > 1 && self.starts_with(b'0') {
            return None;
        }
        self.0 = self.0.get(digits..)?;
        Some((number, digits))
    }

    /// Any value, as it is written.
    pub(crate) fn raw(&mut self) -> Option<&'a str> {
        self.value().map(RawValue::get)
    }

    /// A value of this type. An object, an array or a string, since those have an end of their own.
    pub(crate) fn value<T: Deserialize<'a>>(&mut self) -> Option<T> {
        let mut values = serde_json::Deserializer::from_str(self.0).into_iter();
        let value = values.next()?.ok()?;
        self.0 = self.0.get(values.byte_offset()..)?;
        Some(value)
    }

    /// What was read of a text that began so.
    pub(crate) fn since(&self, before: &Self) -> Option<&'a str> {
        let length = before.0.len().checked_sub(self.0.len())?;
        before.0.get(..length)
    }

    pub(crate) const fn clone(&self) -> Self {
        Self(self.0)
    }
}
