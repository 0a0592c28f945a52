//! Text in a picture: how wide it is, where it breaks and what may stand in it.

use super::{Label, Style};
use std::fmt::{self, Write};

/// The width of the characters from the space to the tilde, in thousandths of the font's size.
/// Helvetica, Arial and Liberation Sans share these.
const ADVANCES: [u16; 95] = [
    278, 278, 355, 557, 557, 890, 667, 191, 334, 334, 390, 584, 278, 334, 278, 278, 557, 557, 557,
    557, 557, 557, 557, 557, 557, 557, 278, 278, 584, 584, 584, 557, 1016, 667, 667, 723, 723, 667,
    611, 778, 723, 278, 500, 667, 557, 834, 723, 778, 667, 778, 723, 667, 611, 723, 667, 944, 667,
    667, 611, 278, 278, 278, 470, 557, 334, 557, 557, 500, 557, 557, 278, 557, 557, 223, 223, 500,
    223, 834, 557, 557, 557, 557, 334, 500, 278, 557, 500, 723, 500, 500, 500, 334, 260, 334, 584,
];

/// Other fonts are a little wider than the ones measured.
const SLACK: f64 = 1.05;

const MOST_LABELS: usize = 12;
const LABEL_GAP: f64 = 3.0;
const INDENT: f64 = 8.0;

/// A size of text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Font {
    pub(super) size: f64,
    pub(super) row: f64,
    weight: f64,
}

impl Font {
    /// From the middle of a row down to the line it is written on.
    pub(super) fn baseline(self) -> f64 {
        self.size * 0.35
    }
}

/// For the names of states, which are bold.
pub(super) const NAME: Font = Font {
    size: 14.0,
    row: 18.0,
    weight: 1.07,
};

/// For the symbols on lines.
pub(super) const SYMBOL: Font = Font {
    size: 13.0,
    row: 16.0,
    weight: 1.0,
};

/// Rows of text that stand together.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Block {
    pub(super) rows: Vec<Row>,
    pub(super) width: f64,
    pub(super) height: f64,
    /// Whether some of the text is not shown.
    pub(super) cut: bool,
}

/// One row, placed in its block.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) text: String,
    pub(super) style: Style,
    pub(super) left: f64,
    pub(super) middle: f64,
    pub(super) width: f64,
    /// It goes on with what the row before began.
    continues: bool,
}

/// The name of a state, in at most three centred rows.
pub(super) fn name(text: &str) -> Block {
    let (rows, cut) = wrap(&clean(text), 170.0, 3, NAME);
    let widths: Vec<f64> = rows.iter().map(|row| width(row, NAME)).collect();
    let widest = widths.iter().copied().fold(0.0, f64::max);
    let mut block = Block {
        rows: Vec::new(),
        width: widest,
        height: 0.0,
        cut,
    };
    for (text, width) in rows.into_iter().zip(widths) {
        block.rows.push(Row {
            text,
            style: Style::Success,
            left: (widest - width) / 2.0,
            middle: block.height + NAME.row / 2.0,
            width,
            continues: false,
        });
        block.height += NAME.row;
    }
    block
}

/// The symbols on a line, one below the other, no row wider than `limit`.
pub(super) fn symbols(labels: &[Label], limit: f64) -> Block {
    let too_many = labels.len() > MOST_LABELS;
    let shown = if too_many {
        MOST_LABELS - 1
    } else {
        labels.len()
    };
    let mut block = Block {
        rows: Vec::new(),
        width: 0.0,
        height: 0.0,
        cut: too_many,
    };
    for label in &labels[..shown] {
        add_symbol(&mut block, &clean(&label.text), label.style, limit);
    }
    if too_many {
        let more = format!("and {} more", labels.len() - shown);
        add_symbol(&mut block, &more, Style::Success, limit);
    }
    block
}

impl Block {
    /// The same with its rows centred, unless it is a list whose entries could not be told apart.
    pub(super) fn centred(mut self) -> Self {
        let continued = self.rows.iter().any(|row| row.continues);
        let single = self.rows.iter().skip(1).all(|row| row.continues);
        if continued && !single {
            return self;
        }
        self.width = self.rows.iter().map(|row| row.width).fold(0.0, f64::max);
        for row in &mut self.rows {
            row.left = (self.width - row.width) / 2.0;
        }
        self
    }
}

fn add_symbol(block: &mut Block, text: &str, style: Style, limit: f64) {
    if !block.rows.is_empty() {
        block.height += LABEL_GAP;
    }
    let (rows, cut) = wrap(text, limit, 5, SYMBOL);
    block.cut |= cut;
    for (place, text) in rows.into_iter().enumerate() {
        let left = if place == 0 { 0.0 } else { INDENT };
        let width = width(&text, SYMBOL);
        block.width = block.width.max(left + width);
        block.rows.push(Row {
            text,
            style,
            left,
            middle: block.height + SYMBOL.row / 2.0,
            width,
            continues: place > 0,
        });
        block.height += SYMBOL.row;
    }
}

/// How wide a text is at most, in common fonts.
pub(super) fn width(text: &str, font: Font) -> f64 {
    text.chars().map(|c| advance(c, font)).sum()
}

fn advance(c: char, font: Font) -> f64 {
    let code = u32::from(c);
    let ascii = code.checked_sub(32).and_then(|place| {
        let place = usize::try_from(place).ok()?;
        ADVANCES.get(place)
    });
    let thousandths = match ascii {
        Some(&known) => f64::from(known),
        None if code < 0x0250 => 800.0,
        None if code < 0x1100 => 900.0,
        None if code == 0x2026 => 1000.0,
        None if code < 0x1F000 => 1050.0,
        None => 1400.0,
    };
    thousandths / 1000.0 * font.size * font.weight * SLACK
}

/// Breaks a text into rows, and says whether it had to be cut.
fn wrap(text: &str, limit: f64, most: usize, font: Font) -> (Vec<String>, bool) {
    let chars: Vec<char> = text.chars().collect();
    let mut rows = Vec::new();
    let mut start = 0;
    while start < chars.len() && rows.len() < most {
        let rest = &chars[start..];
        let fitting = fitting(rest, limit, font);
        if fitting == rest.len() {
            rows.push(rest.iter().collect());
            return (rows, false);
        }
        if rows.len() + 1 == most {
            let room = limit - advance('…', font);
            let kept = fitting.min(self::fitting(rest, room, font));
            let mut row: String = rest[..kept].iter().collect();
            row.truncate(row.trim_end().len());
            row.push('…');
            rows.push(row);
            return (rows, true);
        }
        let end = best_break(rest, fitting);
        let row: String = rest[..end].iter().collect();
        rows.push(row.trim_end().to_owned());
        start += end;
        while chars.get(start) == Some(&' ') {
            start += 1;
        }
    }
    (rows, false)
}

/// How many characters fit into a row, at least one.
fn fitting(chars: &[char], limit: f64, font: Font) -> usize {
    let mut wide = 0.0;
    let mut count = 0;
    for &c in chars {
        wide += advance(c, font);
        if wide > limit {
            break;
        }
        count += 1;
    }
    count.max(1)
}

/// Where a row that must end after at most `most` characters is best broken: between two tokens, even
/// if that leaves much of the row empty, unless the token that comes next is longer than a row.
fn best_break(chars: &[char], most: usize) -> usize {
    let least = (most * 2 / 5).max(1);
    let quality = |place: &usize| (break_quality(chars, *place), *place);
    let in_reach = |places: std::ops::RangeInclusive<usize>| {
        let places = places.filter(|place| *place < chars.len());
        places.max_by_key(quality)
    };
    let late = in_reach(least..=most).unwrap_or(most);
    if break_quality(chars, late) >= Break::BetweenTokens {
        return late;
    }
    let early = (1..least).rfind(|place| break_quality(chars, *place) >= Break::BetweenTokens);
    let fits = |start: &usize| {
        let next = (start + 1..chars.len())
            .find(|place| break_quality(chars, *place) >= Break::BetweenTokens);
        next.unwrap_or(chars.len()) - start <= most
    };
    early.filter(fits).unwrap_or(late)
}

/// What a break separates, the best last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Break {
    InsideOfWord,
    BetweenWords,
    BetweenTokens,
    AtSpace,
    BeforePart,
}

fn break_quality(chars: &[char], place: usize) -> Break {
    const OPERATORS: &str = "=<>&|!+*?%";
    let before = chars[place - 1];
    let after = chars[place];
    let opens = ['(', '[', '&', '|'].contains(&after);
    if before == ' ' && opens {
        Break::BeforePart
    } else if before == ' ' || after == ' ' {
        Break::AtSpace
    } else if before == ',' || (OPERATORS.contains(after) && !OPERATORS.contains(before)) {
        Break::BetweenTokens
    } else if "_-/.:".contains(before) && !"/:".contains(after) {
        Break::BetweenWords
    } else {
        Break::InsideOfWord
    }
}

/// A text without what could hide or turn it: no controls, no marks that change the direction.
pub(super) fn clean(text: &str) -> String {
    let shown: String = text.chars().map(harmless).collect();
    let trimmed = shown.trim();
    if trimmed.is_empty() {
        "(empty)".to_owned()
    } else {
        trimmed.to_owned()
    }
}

fn harmless(c: char) -> char {
    let code = u32::from(c);
    let hidden = matches!(code,
        0x00AD | 0x061C | 0x180E | 0x200B..=0x200F | 0x202A..=0x202E | 0x2060..=0x206F
        | 0xFE00..=0xFE0F | 0xFEFF | 0xFFF0..=0xFFFB | 0xE0000..=0xE0FFF);
    let not_in_xml = code & 0xFFFE == 0xFFFE;
    if c.is_whitespace() {
        ' '
    } else if c.is_control() || hidden || not_in_xml {
        char::REPLACEMENT_CHARACTER
    } else {
        c
    }
}

/// A text inside an element.
pub(super) struct Escaped<'a>(pub(super) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}
