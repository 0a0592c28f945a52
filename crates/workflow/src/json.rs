//! JSON that is written by hand where it is written often.

use serde::Serialize;

/// A text in its quotes.
pub fn text(out: &mut Vec<u8>, text: &str) {
    // Without a way out in the middle, the loop looks at many bytes at a time.
    let is_special = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    let has_special = text
        .bytes()
        .fold(false, |found, byte| found | is_special(byte));
    if !has_special {
        out.reserve(text.len() + 2);
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        value(out, text);
    }
}

/// A whole number.
pub fn number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    while number >= 100 {
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
        for wanted in [0, 7, 10, 99, 100, 101, 999, 1_000, 1_234_567_890, u64::MAX] {
            assert_eq!(written(|out| number(out, wanted)), wanted.to_string());
        }
        assert_eq!(written(|out| truth(out, true)), "true");
        assert_eq!(written(|out| truth(out, false)), "false");
    }
}
