//! Whatever comes is answered, soon and in little memory.

use super::{HEAD, JSON, YAML, accepted, keys::EVERYTHING, places, refused};
use interlock_workflow::file::{self, MAX_BYTES};

#[track_caller]
fn check(text: &[u8], code: &str) {
    let invalid = file::read(text).unwrap_err();
    assert!(
        invalid
            .findings
            .iter()
            .any(|finding| finding.problem.code() == code),
        "{invalid}"
    );
    assert!(
        invalid
            .findings
            .iter()
            .all(|finding| finding.span.is_some())
    );
}

#[test]
fn a_long_file_is_refused_by_its_length() {
    check(&vec![b'['; 100_000_000], "too-large");
    check(&vec![b' '; MAX_BYTES + 1], "too-large");
    check(&vec![b' '; MAX_BYTES], "empty-file");
}

#[test]
fn bytes_that_are_no_text_are_pointed_at() {
    let invalid = file::read(b"interlock: 1\nname: \xc3\xa9\xff\n").unwrap_err();
    assert_eq!(places(&invalid), [("not-utf8", 2, 8)]);
    check(&[0xff, 0xfe, b'a', 0], "not-utf8");
    check(&[b'a', 0xc3], "not-utf8");
}

#[test]
fn nesting_is_bounded() {
    for (open, close) in [
        ("[", "]"),
        ("{a: ", "}"),
        ("{\"a\":", "}"),
        ("- ", ""),
        ("? ", ""),
    ] {
        for depth in [65, 10_000] {
            let text = open.repeat(depth) + "1" + &close.repeat(depth);
            check(text.as_bytes(), "too-deep");
        }
    }
    let mut staircase = String::new();
    for depth in 0..1_000 {
        staircase += &format!("{}a:\n", " ".repeat(depth));
    }
    check(staircase.as_bytes(), "too-deep");
    let schema = "{a: ".repeat(61) + "1" + &"}".repeat(61);
    let tool = format!("{HEAD}tools: {{ t: {{ description: d, command: [c], input: {schema} }} }}");
    accepted(&tool);
}

#[test]
fn aliases_cannot_nest_deeper_or_grow_larger_than_a_file() {
    let mut chain = String::from("a0: &a0 [x]\n");
    let mut bomb = String::from("b0: &b0 [x, x, x, x, x, x, x, x, x]\n");
    for n in 1..1_000 {
        let last = n - 1;
        chain += &format!("a{n}: &a{n} [*a{last}]\n");
        bomb += &format!(
            "b{n}: &b{n} [{}]\n",
            vec![format!("*b{last}"); 9].join(", ")
        );
    }
    check(chain.as_bytes(), "too-deep");
    check(bomb.as_bytes(), "alias-bomb");
    let long = "x".repeat(500_000);
    let copies = "*x, ".repeat(100_000);
    check(
        format!("a: &x {long}\nb: [{copies}]").as_bytes(),
        "alias-bomb",
    );
    let nested = "&a [".repeat(60) + &"x,".repeat(200_000) + &"]".repeat(60);
    check(nested.as_bytes(), "too-many-values");
}

#[test]
fn ten_thousand_mistakes_end_in_a_hundred_findings() {
    let mut text = HEAD.to_owned();
    for n in 0..10_000 {
        text += &format!("wrong{n}: 1\n");
    }
    let invalid = refused(&text);
    assert_eq!(invalid.findings.len(), 101);
    assert_eq!(invalid.findings[100].problem.code(), "more-findings");
}

#[test]
fn a_file_as_large_as_can_be_is_judged() {
    let mut text = format!(
        "{HEAD}prompts: {{ p: {{ text: x }} }}\nstates:\n  s0: {{ initial: true, prompts: {{ p: s1 }} }}\n"
    );
    for n in 1..9_000 {
        text += &format!("  s{n}: {{ prompts: {{ p: s{} }} }}\n", n + 1);
    }
    text += "  s9000: { terminal: true }\n";
    assert_eq!(accepted(&text).workflow.unwrap().states().len(), 9_001);
    check(
        text.replace("{ p: s", "{ p: x").as_bytes(),
        "unknown-target",
    );
    check(
        text.replace("{ p: s", "{ q: s").as_bytes(),
        "unknown-artifact",
    );
}

#[test]
fn a_million_states_are_too_many() {
    let mut text = format!("{HEAD}states:\n");
    for n in 0..1_000_000 {
        text += &format!("  s{n}:\n");
    }
    check(text.as_bytes(), "too-large");
    text.truncate(900_000);
    assert!(text.lines().count() > 90_000);
    check(text.as_bytes(), "too-many-values");
}

#[test]
fn a_guard_as_long_as_a_file_is_refused() {
    let file = |guard: &str| {
        format!(
            "{HEAD}prompts: {{ p: {{ text: x }} }}\nstates:\n  a: {{ initial: true, prompts: {{ p: {{ success: b, when: '{guard}' }} }} }}\n  \
             b: {{ terminal: true }}\n"
        )
    };
    for guard in [
        "1 == 1 && ".repeat(90_000) + "true",
        "(".repeat(900_000),
        "!".repeat(900_000) + "true",
        "x".repeat(900_000),
        "args.a".to_owned() + &".b".repeat(400_000),
    ] {
        check(file(&guard).as_bytes(), "bad-guard");
    }
}

#[test]
fn as_many_mistakes_as_fit_into_one_text_are_answered() {
    let state = |body: &str| {
        format!("{HEAD}states: {{ a: {{ initial: true, {body} }}, b: {{ terminal: true }} }}\n")
    };
    check(
        state(&format!("instructions: '{}'", "{{x}} ".repeat(150_000))).as_bytes(),
        "bad-text",
    );
    let timers: Vec<_> = (1..10_000).map(|n| format!("{n}ms: c")).collect();
    check(
        state(&format!("after: {{ {} }}", timers.join(", "))).as_bytes(),
        "unknown-target",
    );
    let variables = "\\x24{} ".repeat(110_000);
    check(
        format!("{HEAD}servers: {{ s: {{ command: [\"{variables}\"] }} }}\n").as_bytes(),
        "bad-variable",
    );
    let keep: Vec<_> = (0..90_000).map(|n| format!("k{}", n % 45_000)).collect();
    check(
        format!("{HEAD}settings: {{ keep: [{}] }}\n", keep.join(", ")).as_bytes(),
        "listed-twice",
    );
    let edges = "{ to: c, when: arg.x, set: { k: y } }, ".repeat(9_000);
    check(
        state(&format!("after: {{ 1s: [{edges}] }}")).as_bytes(),
        "bad-guard",
    );
}

#[test]
fn a_text_cut_anywhere_is_answered() {
    for text in [YAML, JSON, EVERYTHING] {
        for end in (0..text.len()).step_by(5) {
            // Some beginnings of a file are files; most are not. None may panic.
            let read = file::read(&text.as_bytes()[..end]);
            if let Err(invalid) = read {
                assert!(invalid.errors().count() > 0);
                assert!(
                    invalid
                        .findings
                        .is_sorted_by_key(|finding| finding.span.unwrap().start)
                );
            }
        }
    }
}

#[test]
fn a_text_with_one_character_changed_is_answered() {
    let strange = [
        "", "\0", "\t", "\n", ":", "- ", "? ", "{", "}", "[", "]", "&a ", "*a ", "!", "'", "\"",
        "|", ">", "%", "---", "é", "🔑", "\u{feff}", "\u{85}", "\u{2028}",
    ];
    for text in [YAML, JSON, EVERYTHING] {
        for (at, _) in text.char_indices().step_by(101) {
            for character in strange {
                let changed = format!("{}{character}{}", &text[..at], &text[at + 1..]);
                if let Err(invalid) = file::read(changed.as_bytes()) {
                    for finding in &invalid.findings {
                        let span = finding.span.unwrap();
                        assert!(
                            changed.get(span.start..span.end).is_some(),
                            "{changed}\n{finding}"
                        );
                    }
                }
            }
        }
    }
}
