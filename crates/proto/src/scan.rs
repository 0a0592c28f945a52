//! Reading JSON that is written as usual, without a detour.
//!
//! Nothing here says what is wrong with a text. What it does not read, a careful reader has to:
//! whatever is escaped, blanks that are not spaces, numbers that are long.

use serde::Deserialize;
use serde_json::value::RawValue;

/// What has not been read yet.
///
/// ```
/// use interlock_proto::scan::{Rest, Scalar};
///
/// let mut amount = None;
/// let read = Rest::of(r#"{"amount": 12, "to": "Ada"}"#).members(|name, value| {
///     if name == "amount" {
///         amount = Some(value);
///     }
///     Some(())
/// });
/// assert_eq!(read, Some(()));
/// assert_eq!(amount, Some(Scalar::Integer { is_negative: false }));
/// assert_eq!(Rest::of(r#"{"to": "A\\u0064a"}"#).members(|_, _| Some(())), None);
/// ```
#[derive(Debug)]
pub struct Rest<'a>(&'a str);

/// A value that holds no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar<'a> {
    /// A string, without its quotes.
    Text(&'a str),
    /// A number without a fraction.
    Integer {
        /// It has a sign.
        is_negative: bool,
    },
    /// A number with a fraction.
    Fraction {
        /// It has a sign.
        is_negative: bool,
    },
    /// `true` or `false`.
    Truth,
    /// `null`.
    Null,
}

/// Numbers with no more digits than this are exact, or as near as can be, for whoever reads them.
const MOST_DIGITS: usize = 15;

impl<'a> Rest<'a> {
    /// All of it.
    #[must_use]
    pub const fn of(text: &'a str) -> Self {
        Self(text)
    }

    pub(crate) fn starts_with(&self, byte: u8) -> bool {
        self.0.as_bytes().first() == Some(&byte)
    }

    /// Whether only blanks are left.
    #[must_use]
    pub fn is_blank(&self) -> bool {
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
        let end = plain(self.0.as_bytes());
        let (inside, rest) = self.0.split_at_checked(end)?;
        self.0 = rest;
        self.take("\"")?;
        Some(inside)
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

    /// A number, a string without escapes, or one of the three words.
    fn scalar(&mut self) -> Option<Scalar<'a>> {
        match self.0.as_bytes().first()? {
            b'"' => self.string().map(Scalar::Text),
            b't' => self.take("true").map(|()| Scalar::Truth),
            b'f' => self.take("false").map(|()| Scalar::Truth),
            b'n' => self.take("null").map(|()| Scalar::Null),
            _ => self.number(),
        }
    }

    /// A number of few digits, without an exponent.
    fn number(&mut self) -> Option<Scalar<'a>> {
        let is_negative = self.take("-").is_some();
        let (_, whole) = self.digits(MOST_DIGITS)?;
        if whole == 0 {
            return None;
        }
        if self.take(".").is_none() {
            return Some(Scalar::Integer { is_negative });
        }
        let digits = self.0.bytes().take_while(u8::is_ascii_digit).count();
        self.0 = self.0.get(digits..)?;
        (digits > 0 && whole + digits <= MOST_DIGITS).then_some(Scalar::Fraction { is_negative })
    }

    /// An object of scalars, one after the other, until `each` declines one.
    pub fn members(
        &mut self,
        mut each: impl FnMut(&'a str, Scalar<'a>) -> Option<()>,
    ) -> Option<()> {
        self.take("{")?;
        if self.take("}").is_some() {
            return Some(());
        }
        loop {
            let name = self.string()?;
            self.take(":")?;
            let value = self.spaces().scalar()?;
            each(name, value)?;
            if self.take(",").is_none() {
                return self.take("}");
            }
            self.spaces();
        }
    }

    /// Any object, as it is written.
    pub(crate) fn object(&mut self) -> Option<&'a str> {
        if !self.starts_with(b'{') {
            return None;
        }
        let before = self.clone();
        if self.members(|_, _| Some(())).is_some() {
            return self.since(&before);
        }
        *self = before;
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

/// How many bytes there are until one that ends a string, begins an escape or would have to be one.
fn plain(text: &[u8]) -> usize {
    let (words, rest) = text.as_chunks();
    for (number, word) in words.iter().enumerate() {
        if let Some(at) = odd(*word) {
            return number * 8 + at;
        }
    }
    // What is left is looked at with some of what came before, which was not odd.
    if let Some(last) = text.last_chunk() {
        return text.len() - 8 + odd(*last).unwrap_or(8);
    }
    let mut last = [b'"'; 8];
    for (place, byte) in last.iter_mut().zip(rest) {
        *place = *byte;
    }
    odd(last).unwrap_or(rest.len())
}

/// Which of eight bytes is the first that is a quote, a backslash or a control character.
const fn odd(bytes: [u8; 8]) -> Option<usize> {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHS: u64 = ONES << 7;
    let word = u64::from_le_bytes(bytes);
    let (quote, backslash) = (word ^ (ONES * b'"' as u64), word ^ (ONES * b'\\' as u64));
    // What is borrowed makes a byte look odd only after one that is.
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    let quote = quote.wrapping_sub(ONES) & !quote;
    let backslash = backslash.wrapping_sub(ONES) & !backslash;
    match (control | quote | backslash) & HIGHS {
        0 => None,
        found => Some((found.trailing_zeros() / 8) as usize),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte in every place of texts that are shorter and longer than what is looked at in one
    /// go, among bytes that are next to the odd ones.
    #[test]
    fn a_string_ends_where_it_ends() {
        let is_odd = |byte: u8| byte < b' ' || byte == b'"' || byte == b'\\';
        for filling in [b' ', b'!', b'#', b'[', b']', 0x7f, 0x80, 0xff] {
            for length in 0..20 {
                assert_eq!(plain(&vec![filling; length]), length);
                for at in 0..length {
                    for byte in 0..=u8::MAX {
                        let mut text = vec![filling; length];
                        text[at] = byte;
                        let end = if is_odd(byte) { at } else { length };
                        assert_eq!(plain(&text), end, "{text:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn numbers_are_read_as_json_has_them() {
        for (text, number) in [
            ("0", Some(Scalar::Integer { is_negative: false })),
            ("-12", Some(Scalar::Integer { is_negative: true })),
            (
                "123456789012345",
                Some(Scalar::Integer { is_negative: false }),
            ),
            ("1234567890123456", None),
            ("0.50", Some(Scalar::Fraction { is_negative: false })),
            ("-1.25", Some(Scalar::Fraction { is_negative: true })),
            ("1.123456789012345", None),
            ("01", None),
            ("1.", None),
            (".5", None),
            ("-", None),
            ("+1", None),
        ] {
            let read = Rest::of(text).scalar();
            assert_eq!(read, number, "{text}");
            let is_json = serde_json::from_str::<serde_json::Number>(text).is_ok();
            assert!(is_json || read.is_none(), "{text}");
        }
    }
}
