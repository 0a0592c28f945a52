//! JSON that is written by hand where it is written often.

use serde::Serialize;

/// A text in its quotes.
pub fn text(out: &mut Vec<u8>, text: &str) {
    if is_plain(text.as_bytes()) {
        word(out, text);
    } else {
        value(out, text);
    }
}

/// A text in its quotes that is known to need no escapes: one of ours.
pub fn word(out: &mut Vec<u8>, word: &str) {
    out.reserve(word.len() + 2);
    out.push(b'"');
    out.extend_from_slice(word.as_bytes());
    out.push(b'"');
}

/// Whether a text is written as it is: it has no quote, no backslash and no control character.
fn is_plain(text: &[u8]) -> bool {
    let (words, rest) = text.as_chunks();
    let odd = words.iter().fold(0, |odd, word| odd | oddities(*word));
    // What is left is looked at with some of what came before, or with filling.
    let last = match text.last_chunk() {
        Some(last) => oddities(*last),
        None => {
            let mut filled = [b' '; 8];
            for (place, byte) in filled.iter_mut().zip(rest) {
                *place = *byte;
            }
            oddities(filled)
        }
    };
    odd | last == 0
}

/// Eight bytes at a time: not zero if one of them has to be escaped, or perhaps if one is beyond
/// ASCII and another has to be.
const fn oddities(bytes: [u8; 8]) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHS: u64 = ONES << 7;
    let word = u64::from_ne_bytes(bytes);
    let (quote, backslash) = (word ^ (ONES * b'"' as u64), word ^ (ONES * b'\\' as u64));
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    let quote = quote.wrapping_sub(ONES) & !quote;
    let backslash = backslash.wrapping_sub(ONES) & !backslash;
    (control | quote | backslash) & HIGHS
}

/// A whole number.
pub fn number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    while number >= 10_000 {
        let four = (number % 10_000) as usize;
        at -= 4;
        digits[at..at + 2].copy_from_slice(&PAIRS[four / 100]);
        digits[at + 2..at + 4].copy_from_slice(&PAIRS[four % 100]);
        number /= 10_000;
    }
    if number >= 100 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[(number % 100) as usize]);
        number /= 100;
    }
    if number >= 10 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[number as usize]);
    } else {
        at -= 1;
        digits[at] = b'0' + number as u8;
    }
    out.extend_from_slice(&digits[at..]);
}

/// Two digits each.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut number = 0;
    while number < pairs.len() {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

/// `true` or `false`.
pub fn truth(out: &mut Vec<u8>, truth: bool) {
    out.extend_from_slice(if truth { b"true" } else { b"false" });
}

/// Whatever knows how to write itself.
///
/// # Panics
///
/// If it is not JSON: a map whose keys are no texts, for example.
pub fn value(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(out, value).expect("it holds only JSON");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    /// Every byte in every place of texts that are shorter and longer than what is looked at in one
    /// go.
    #[test]
    fn nothing_that_needs_an_escape_is_overlooked() {
        for length in 1..20 {
            for place in 0..length {
                for byte in 0..0x80 {
                    let mut bytes = vec![b'a'; length];
                    bytes[place] = byte;
                    let said = String::from_utf8(bytes).unwrap();
                    let by_hand = written(|out| text(out, &said));
                    assert_eq!(by_hand, serde_json::to_string(&said).unwrap());
                }
            }
        }
    }

    #[test]
    fn texts_are_written_as_serde_writes_them() {
        for said in [
            "",
            "plain",
            "a \"b\" \\ c",
            "\n\u{0}\u{1f}",
            "ü 👩‍🚀",
            "\u{7f}",
        ] {
            let by_hand = written(|out| text(out, said));
            assert_eq!(by_hand, serde_json::to_string(said).unwrap());
        }
    }

    #[test]
    fn numbers_are_written_in_all_their_digits() {
        let numbers = [
            0, 7, 10, 99, 100, 101, 999, 1_000, 9_999, 10_000, 10_001, 98_765, 100_000,
        ];
        for wanted in numbers.into_iter().chain([1_234_567_890, u64::MAX]) {
            assert_eq!(written(|out| number(out, wanted)), wanted.to_string());
        }
        assert_eq!(written(|out| truth(out, true)), "true");
        assert_eq!(written(|out| truth(out, false)), "false");
    }
}
